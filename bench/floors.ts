// What one record costs at least, layer by layer, without a disk and on one thread: the floors of a load, a replay and a
// verify, which no arrangement of the same work can go below. For the figures that fall short of their targets.

import { crc32 } from "node:zlib";
import { applyRecord } from "../src/apply.ts";
import { BatchBuilder } from "../src/batch.ts";
import { commitment, genesis, link } from "../src/chain.ts";
import { areaBytesFor, SALT_BYTES, SpineReader, SpineWriter, writeArea } from "../src/codec.ts";
import { Graph } from "../src/graph.ts";
import { Places } from "../src/places.ts";
import { legsOf, lotCount, makeGraph, textOf } from "./graph.ts";
import { Findings, median } from "./measure.ts";
import { options } from "./place.ts";

const BATCH = 1000;
/** Each layer in turn, the first turns not counted: the code is compiled in them. */
const TURNS_BEFORE = 2;
const CORES = 2;

const { size, runs, out } = options();
const findings = new Findings("floors", size);
const graph = makeGraph(size);
const lots = lotCount(size);
const agentId = Buffer.alloc(16, 1);
const start = { record: 0, entries: 0, head: genesis(Buffer.alloc(16, 2), agentId) };
const time = 1_790_000_000_000;

/** What the caller of a load hands over. */
const texts = Array.from({ length: size }, (_, i) => textOf(lots + 1 + i));
const legs = Array.from({ length: size }, (_, i) =>
  legsOf(graph, i).map((leg) => leg.toSorted((a, b) => a - b)),
);

/** The same records as a load writes, in memory: spines one behind the other, and the areas. */
const spines = Buffer.alloc(size * 160);
const spineEnds = new Uint32Array(size);
const areas = Buffer.alloc(size * 192);
const contentEnds = new Uint32Array(size);
const areaStarts = new Uint32Array(size);
lay();

function newBuilder(): BatchBuilder {
  const builder = new BatchBuilder(agentId, (bytes) => bytes.fill(7));
  builder.begin(start);
  for (let lot = 0; lot < lots; lot++)
    builder.addLot(time, "web_page", { text: `lot ${lot + 1}`, uri: null }, null);
  return builder;
}

function lay() {
  const builder = newBuilder();
  const salt = { pool: Buffer.alloc(SALT_BYTES, 7), at: 0 };
  let areaEnd = 0;
  for (let i = 0, at = 0; i < size; i++) {
    if (i % BATCH === 0) builder.begin(builder);
    const text = texts[i] as string;
    builder.addMemory(time, legs[i] ?? [], { text, uri: null }, null);
    const { bytes, from, to } = builder.spineBytes;
    at += bytes.copy(spines, at, from, to);
    spineEnds[i] = at;
    const textBytes = Buffer.byteLength(text);
    areaStarts[i] = areaEnd;
    const areaBytes = areaBytesFor(textBytes, -1);
    contentEnds[i] = writeArea(areas, areaEnd, areaBytes, salt, {
      text,
      textBytes,
      uri: null,
      uriBytes: -1,
    });
    areaEnd += areaBytes;
  }
}

const spineStart = (i: number) => (i === 0 ? 0 : (spineEnds[i - 1] as number));

const LAYERS: Record<string, () => void> = {
  "text measured and written with its salt": () => {
    const salt = { pool: Buffer.alloc(SALT_BYTES, 7), at: 0 };
    const area = Buffer.alloc(4096);
    for (const text of texts) {
      const textBytes = Buffer.byteLength(text);
      const content = { text, textBytes, uri: null, uriBytes: -1 };
      writeArea(area, 0, areaBytesFor(textBytes, -1), salt, content);
    }
  },
  "spine written, with its check": () => {
    const writer = new SpineWriter(agentId);
    const none = "\0".repeat(32);
    for (let i = 0; i < size; i++)
      writer.memory({
        time,
        record: lots + 1 + i,
        entry: lots + 1 + i,
        commitment: none,
        areaBytes: 128,
        legs: legs[i] ?? [],
        seen: null,
        bornDead: false,
      });
  },
  "commitment: SHA-256 over salt and text": () => {
    for (let i = 0; i < size; i++)
      commitment(areas, areaStarts[i] as number, contentEnds[i] as number);
  },
  "chain: SHA-256 over the head and the spine": () => {
    let { head } = start;
    for (let i = 0; i < size; i++) head = link(head, spines, spineStart(i), spineEnds[i] as number);
  },
  "a batch of 1,000 of them put together: all of the above": () => {
    const builder = newBuilder();
    for (let i = 0; i < size; i++) {
      if (i % BATCH === 0) {
        builder.finish({ segment: 1, offset: 4096 });
        builder.begin(builder);
      }
      builder.addMemory(time, legs[i] ?? [], { text: texts[i] as string, uri: null }, null);
    }
  },
  "spine read": () => {
    const reader = new SpineReader(agentId);
    for (let i = 0, at = 0; i < size; i++) at = reader.read(spines, at, spines.length, true);
  },
  "spine read, and carried out on the graph": () => {
    const graph = new Graph();
    const places = new Places();
    const reader = new SpineReader(agentId);
    for (let lot = 0; lot < lots; lot++) graph.addEntry(0);
    for (let i = 0, at = 0; i < size; i++) {
      const next = reader.read(spines, at, spines.length, true);
      applyRecord(graph, places, reader, 1, at, areaStarts[i] as number);
      at = next;
    }
  },
  "checksum of a batch's spines": () => {
    for (let i = 0; i < size; i += BATCH)
      crc32(spines.subarray(spineStart(i), spineEnds[Math.min(i + BATCH, size) - 1]));
  },
};

const samples = new Map<string, number[]>(Object.keys(LAYERS).map((name) => [name, []]));
for (let turn = 0; turn < runs + TURNS_BEFORE; turn++) {
  for (const [name, layer] of Object.entries(LAYERS)) {
    const begun = performance.now();
    layer();
    const us = ((performance.now() - begun) * 1000) / size;
    if (turn >= TURNS_BEFORE) samples.get(name)?.push(us);
  }
}

findings.table(`a memory of the bench graph, on one thread, ${BATCH} in a batch`);
for (const [name, us] of samples) findings.row(name, "µs", us);
const of = (name: string) =>
  median(
    samples.get(Object.keys(LAYERS).find((one) => one.startsWith(name)) as string) as number[],
  );
const seconds = (us: number) => [us];
findings.table("what follows for 1,000,000 of them");
findings.row(
  "load: batches put together, read back and carried out",
  "s",
  seconds(of("a batch") + of("spine read, and")),
  "one thread: each head waits for the one before",
);
findings.row(
  "replay: the chain on one thread, the records on another",
  "s",
  seconds(Math.max(of("chain"), of("spine read, and"))),
);
findings.row(
  `verify: chain and commitments, shared by ${CORES} threads`,
  "s",
  seconds((of("chain") + of("commitment")) / CORES),
  "nothing read, nothing compared",
);
findings.finish(out);
