// The floor under a recall: children side by side in typed arrays, one event of 200 bytes into space written beforehand, one
// flush; nothing checked, nothing chained, nothing told. With erase: the same places of a copy of the same log are zeroed one
// by one, ascending, with as many flushes as the engine's: the event, the mark, the zeros.

import { fdatasyncSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Graph, legCount } from "../graph.ts";
import { areasOf } from "../log.ts";
import { logFiles } from "../place.ts";

const EVENT = Buffer.alloc(200, 1);
const ROOM = Buffer.alloc(1 << 20);
const ZEROS = Buffer.alloc(1 << 16);

export class Floor {
  readonly #start: Int32Array;
  readonly #childLegs: Int32Array;
  readonly #owner: Int32Array;
  readonly #broken: Uint8Array;
  readonly #holding: Uint8Array;
  readonly #removed: Int32Array;
  readonly #log: number;
  readonly #mark: number;
  #logEnd = 0;
  #removedCount = 0;
  /** What zeroing alone took, flushes included, in milliseconds. */
  zeroingMs = 0;
  #areas: { file: number[]; at: number[]; bytes: number[] } | null = null;
  #files: number[] = [];

  constructor(graph: Graph, folder: string) {
    const { memories, lots, legs, edges, legStart, parentStart, parents } = graph;
    const entries = lots + memories + 1;
    this.#start = new Int32Array(entries + 1);
    this.#childLegs = new Int32Array(edges);
    this.#owner = new Int32Array(legs);
    this.#broken = new Uint8Array(legs);
    this.#holding = new Uint8Array(entries);
    this.#removed = new Int32Array(memories);
    for (let i = 0; i < memories; i++) {
      const id = lots + 1 + i;
      this.#holding[id] = legCount(graph, i);
      this.#owner.fill(id, legStart[i], legStart[i + 1]);
    }
    for (let e = 0; e < edges; e++) {
      const at = (parents[e] as number) + 1;
      this.#start[at] = (this.#start[at] as number) + 1;
    }
    for (let i = 1; i <= entries; i++)
      this.#start[i] = (this.#start[i] as number) + (this.#start[i - 1] as number);
    const next = this.#start.slice();
    for (let leg = 0; leg < legs; leg++)
      for (let e = parentStart[leg] as number; e < (parentStart[leg + 1] as number); e++) {
        const parent = parents[e] as number;
        const at = next[parent] as number;
        next[parent] = at + 1;
        this.#childLegs[at] = leg;
      }
    this.#log = openSync(join(folder, "floor.log"), "w");
    this.#mark = openSync(join(folder, "floor.mark"), "w");
    writeSync(this.#log, ROOM);
    writeSync(this.#mark, ROOM);
    fsyncSync(this.#log);
    fsyncSync(this.#mark);
  }

  /** Looks up where the texts stand that erases will zero. */
  useLogOf(store: string, entries: number) {
    const areas = {
      file: new Array<number>(entries + 1),
      at: new Array<number>(entries + 1),
      bytes: new Array<number>(entries + 1),
    };
    const files = logFiles(store);
    areasOf(files, ({ entry, file, at, bytes }) => {
      areas.file[entry] = file;
      areas.at[entry] = at;
      areas.bytes[entry] = bytes;
    });
    this.#areas = areas;
    this.#files = files.map((path) => openSync(path, "r+"));
  }

  recall(lot: number, erase: boolean) {
    const start = this.#start;
    const childLegs = this.#childLegs;
    const owner = this.#owner;
    const broken = this.#broken;
    const holding = this.#holding;
    const removed = this.#removed;
    let count = 0;
    let next = 0;
    for (let current = lot; ; current = removed[next++] as number) {
      const end = start[current + 1] as number;
      for (let i = start[current] as number; i < end; i++) {
        const leg = childLegs[i] as number;
        if (broken[leg]) continue;
        broken[leg] = 1;
        const child = owner[leg] as number;
        const left = (holding[child] as number) - 1;
        holding[child] = left;
        if (left === 0) removed[count++] = child;
      }
      if (next === count) break;
    }
    this.#removedCount = count;
    writeSync(this.#log, EVENT, 0, EVENT.length, this.#logEnd);
    this.#logEnd += EVENT.length;
    fdatasyncSync(this.#log);
    if (erase) this.#zero(lot);
  }

  #zero(lot: number) {
    if (!this.#areas) throw new Error("where the texts stand was not looked up");
    const begun = performance.now();
    writeSync(this.#mark, EVENT, 0, EVENT.length, 0);
    fdatasyncSync(this.#mark);
    const { file, at, bytes } = this.#areas;
    const entries = new Int32Array(this.#removedCount + 1);
    entries.set(this.#removed.subarray(0, this.#removedCount));
    entries[this.#removedCount] = lot;
    const touched = new Set<number>();
    for (const entry of entries.sort()) {
      const descriptor = this.#files[file[entry] as number] as number;
      writeSync(descriptor, ZEROS, 0, bytes[entry] as number, at[entry] as number);
      touched.add(descriptor);
    }
    for (const descriptor of touched) fdatasyncSync(descriptor);
    this.zeroingMs = performance.now() - begun;
  }

  removed(): Int32Array {
    return this.#removed.slice(0, this.#removedCount);
  }
}
