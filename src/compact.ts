// Rewrites the log without the texts of the dead, spines intact: old or new, never half.
//
// The texts are dropped first, by a record of their own, and zeroed in place as an erase is; so nothing that a crash leaves
// of the old files holds them. Then the next generation is written whole under a name that nobody reads, renamed into
// place, and the old one removed before the lock is let go.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { LogEnd } from "./batch.ts";
import { genesis } from "./chain.ts";
import {
  BATCH_HEADER_BYTES,
  batchBytes,
  COMMIT_MARKER_BYTES,
  encodeSeal,
  mapBytes,
  SpineReader,
  writeBatchHeader,
  writeCommitMarker,
} from "./codec.ts";
import type { AgentCore } from "./core.ts";
import { type Disk, type File, removeFolderWhole } from "./disk.ts";
import { CheeseError, corrupt } from "./errors.ts";
import { DEAD, FLAGS } from "./graph.ts";
import { logFolder, RESERVE_BYTES, SEGMENT_BYTES } from "./log.ts";
import {
  createSegment,
  FileWindow,
  type FoundBatch,
  findAt,
  holdsArea,
  readSpines,
  SEGMENT_START,
  segmentName,
} from "./segment.ts";
import { SNAPSHOT_NAME } from "./snapshot.ts";
import type { AgentState } from "./state.ts";
import type { Compaction } from "./terms.ts";
import { tick } from "./tick.ts";

export interface CompactOptions {
  waitMs: number;
  signal?: AbortSignal | undefined;
  /** Told of the bytes read so far, and of all. */
  onProgress?: ((done: number, all: number) => void) | undefined;
}

const GENERATION_MAX = 0xffff_ffff;
const UNFINISHED = ".new";
const LEFTOVER = /^[1-9][0-9]{0,9}(\.new)?$/;

/** Drops the texts of the dead, and gives their space back. */
export function compact(core: AgentCore, options: CompactOptions): Promise<Compaction> {
  return core.exclusively(options.waitMs, async (state) => {
    const before = state.log.bytes;
    const dropped = deadTexts(state);
    if (dropped.length > 0) {
      await core.commitNow(state, dropped, (batch, time, apply) => {
        batch.addDrop(time, dropped);
        apply();
      });
    }
    // Both look at every entry.
    await tick();
    if (hasSpaceToGive(state)) {
      options.signal?.throwIfAborted();
      const generation = await rewrite(core, state, options);
      state = await core.orShut(async () => {
        await switchTo(generation, state);
        return core.reopen();
      });
    }
    const after = state.log.bytes;
    return { before, after, reclaimed: before - after, textsDropped: dropped.length };
  });
}

function deadTexts({ graph }: AgentState): Uint32Array<ArrayBuffer> {
  const dead: number[] = [];
  for (let entry = 1; entry <= graph.entryCount; entry++) {
    if (graph.is(entry, DEAD) && !graph.is(entry, FLAGS.gone)) dead.push(entry);
  }
  return Uint32Array.from(dead);
}

/** Whether the files still hold the zeroed place of a text that is gone. */
function hasSpaceToGive({ graph, places }: AgentState): boolean {
  for (let entry = 1; entry <= graph.entryCount; entry++) {
    if (graph.is(entry, FLAGS.gone) && places.areaAt[entry] !== 0) return true;
  }
  return false;
}

/** Removes what a compaction or a snapshot left behind that a crash cut short. Under the agent's lock. */
export function removeLeftovers(disk: Disk, agentFolder: string, generation: number) {
  const folder = logFolder(agentFolder);
  // What is none of ours is left alone.
  const left = disk
    .list(folder)
    .filter((name) => LEFTOVER.test(name) && name !== String(generation));
  // Whoever renamed the current generation into place may have died before its name was on the disk.
  if (left.length > 0) disk.flushFolder(folder);
  for (const name of left) removeFolderWhole(disk, join(folder, name));
  const temporary = join(agentFolder, `${SNAPSHOT_NAME}.tmp`);
  if (disk.stat(temporary)) disk.removeFile(temporary);
}

/** Writes the next generation under a name that nobody reads, and returns its number. */
async function rewrite(
  core: AgentCore,
  state: AgentState,
  { signal, onProgress }: CompactOptions,
): Promise<number> {
  const { disk, folder, ids } = state.place;
  const generation = state.log.generation + 1;
  if (generation > GENERATION_MAX)
    throw new CheeseError("TOO_LARGE", `a log can be rewritten ${GENERATION_MAX - 1} times`);
  removeLeftovers(disk, folder, state.log.generation);
  const writer = new GenerationWriter(state, generation);
  try {
    const all = state.log.bytes;
    let done = 0;
    let before: LogEnd = { record: 0, entries: 0, head: genesis(ids.storeId, ids.agentId) };
    const reader = new SpineReader(ids.agentId);
    for (let number = 1; number <= state.log.segmentCount; number++) {
      const { file } = state.log.segment(number);
      const window = new FileWindow(file);
      for (let at = SEGMENT_START; ; ) {
        const batch = findAt(window, ids.agentId, number, at);
        if (batch.what !== "batch") {
          const isEnd =
            number === state.log.segmentCount ? batch.what === "nothing" : batch.what === "seal";
          if (!isEnd)
            throw corrupt(`${file.path} does not check at offset ${at}`, {
              file: file.path,
              offset: at,
            });
          break;
        }
        if (writer.isFull) await writer.seal(before);
        before = writer.copy(batch, before, reader, file);
        at = batch.end;
        if (writer.sliceIsOver()) {
          onProgress?.(done + at, all);
          await tick();
          signal?.throwIfAborted();
        }
      }
      done += window.size;
    }
    await writer.finish(before);
  } catch (error) {
    // A copy that stays holds texts that a later erase by this handle would not know of.
    await core.orShut(() => writer.abandon());
    throw error;
  }
  return generation;
}

/** From the renaming on, what is written to the old segments is lost. */
async function switchTo(generation: number, { log, place: { disk, folder } }: AgentState) {
  const old = log.folder;
  const logs = logFolder(folder);
  disk.rename(join(logs, `${generation}${UNFINISHED}`), join(logs, String(generation)));
  disk.flushFolder(logs);
  // One at a time: it takes the system some 10 ms to let go of a full segment.
  for (const name of disk.list(old)) {
    removeFolderWhole(disk, join(old, name));
    await tick();
  }
  disk.removeFolder(old);
  disk.flushFolder(logs);
}

const BUFFER_BYTES = 1024 * 1024;
const SLICE_MS = 10;

/** Writes the segments of one generation, batch by batch. */
class GenerationWriter {
  readonly #state: AgentState;
  readonly #generation: number;
  readonly #folder: string;
  #file: File | null = null;
  #number = 0;
  /** What is written to the file, and what waits to be. */
  #written = 0;
  #parts: Buffer[] = [];
  #waiting = 0;
  #sliceBegun = performance.now();

  constructor(state: AgentState, generation: number) {
    this.#state = state;
    this.#generation = generation;
    this.#folder = join(logFolder(state.place.folder), `${generation}${UNFINISHED}`);
    state.place.disk.makeFolder(this.#folder);
  }

  get #offset(): number {
    return this.#written + this.#waiting;
  }

  get isFull(): boolean {
    return this.#offset >= (this.#state.place.segmentBytes ?? SEGMENT_BYTES);
  }

  sliceIsOver(): boolean {
    const now = performance.now();
    if (now - this.#sliceBegun < SLICE_MS) return false;
    this.#sliceBegun = now;
    return true;
  }

  /** Writes a batch again, without the areas of texts that are gone; returns where the log stands after it. */
  copy(batch: FoundBatch, before: LogEnd, reader: SpineReader, from: File): LogEnd {
    const { graph, place } = this.#state;
    const { agentId } = place.ids;
    if (!this.#file) this.#begin(before);

    const spines = Buffer.from(batch.bytes.subarray(batch.spinesAt));
    const kept: { at: number; bytes: number }[] = [];
    const map = Buffer.alloc(Math.ceil(batch.header.count / 8));
    let i = 0;
    let missing = false;
    const end = readSpines(batch, before, reader, (_spineAt, areaAt) => {
      const isArea = reader.isEntry && reader.areaBytes > 0;
      const isKept = isArea && holdsArea(batch, i) && !graph.is(reader.entry, FLAGS.gone);
      if (isKept) {
        map[i >>> 3] = (map[i >>> 3] as number) | (1 << (i & 7));
        kept.push({ at: areaAt, bytes: reader.areaBytes });
      } else if (isArea) {
        missing = true;
      }
      i++;
    });

    const header = {
      ...batch.header,
      compacted: missing,
      areaBytes: kept.reduce((sum, area) => sum + area.bytes, 0),
    };
    const out = Buffer.allocUnsafe(batchBytes(header));
    writeBatchHeader(out, 0, header, { agentId, segment: this.#number, offset: this.#offset });
    let at = BATCH_HEADER_BYTES;
    at += map.copy(out, at, 0, mapBytes(header));
    at += spines.copy(out, at);
    const covered = crc32(out.subarray(0, at));
    for (const area of kept) {
      from.read(out.subarray(at, at + area.bytes), area.at);
      at += area.bytes;
    }
    writeCommitMarker(out, out.length - COMMIT_MARKER_BYTES, covered, batch.headAfter);
    this.#add(out);
    return end;
  }

  /** Ends the segment, once it is full; the next copy begins another. */
  async seal({ record, entries, head }: LogEnd) {
    const { agentId } = this.#state.place.ids;
    this.#add(
      encodeSeal(record, entries, head, { agentId, segment: this.#number, offset: this.#offset }),
    );
    await this.#close();
  }

  async finish(end: LogEnd) {
    if (!this.#file) this.#begin(end);
    this.#add(Buffer.alloc(RESERVE_BYTES));
    await this.#close();
    this.#state.place.disk.flushFolder(this.#folder);
  }

  abandon() {
    this.#file?.close();
    removeFolderWhole(this.#state.place.disk, this.#folder);
  }

  #begin(before: LogEnd) {
    this.#number++;
    const { disk, ids } = this.#state.place;
    const path = join(this.#folder, segmentName(this.#number));
    this.#file = createSegment(
      disk,
      path,
      ids,
      this.#generation,
      { number: this.#number, before },
      0,
    );
    this.#written = SEGMENT_START;
  }

  #add(bytes: Buffer) {
    this.#parts.push(bytes);
    this.#waiting += bytes.length;
    if (this.#waiting >= BUFFER_BYTES) this.#writeOut();
  }

  #writeOut() {
    this.#file?.write(Buffer.concat(this.#parts), this.#written);
    this.#written += this.#waiting;
    this.#parts = [];
    this.#waiting = 0;
  }

  async #close() {
    this.#writeOut();
    await this.#file?.flushOffThread();
    this.#file?.close();
    this.#file = null;
    this.#written = 0;
  }
}
