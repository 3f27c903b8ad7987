// One segment inspected by itself: what stands where each text does, heads on the way, and how it goes on where a chain breaks.

import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { BatchBuilder, type LogEnd } from "../src/batch.ts";
import { link } from "../src/chain.ts";
import { COMMIT_MARKER_BYTES, NO_HASH, SpineReader, writeCommitMarker } from "../src/codec.ts";
import type { File } from "../src/disk.ts";
import { AREA, type Findings, inspect, lookAt } from "../src/inspect.ts";
import { FileWindow, type FoundBatch, findAt, readSpines, SEGMENT_START } from "../src/segment.ts";
import { MemoryDisk } from "./memorydisk.ts";

const AGENT_ID = Buffer.alloc(16, 9);
const SEGMENT = 2;
/** Other segments stand before this one. */
const BEFORE: LogEnd = { record: 70, entries: 50, head: "h".repeat(32) };

let file: File;
let end: LogEnd;
let at: number;

beforeEach(() => {
  file = MemoryDisk.of(new Map<string, Buffer | null>([["/", null]])).create("/segment");
  file.truncate(SEGMENT_START);
  end = BEFORE;
  at = SEGMENT_START;
});

/** Writes the next batch, of lots with these texts; null is one that has none. Returns where it begins. */
function batchOf(...texts: (string | null)[]): number {
  const builder = new BatchBuilder(AGENT_ID, (bytes) => bytes.fill(0xee));
  builder.begin(end);
  for (const text of texts) builder.addLot(1, "x", { text, uri: null }, null);
  return add(builder);
}

function corroboration(): number {
  const builder = new BatchBuilder(AGENT_ID, (bytes) => bytes.fill(0xee));
  builder.begin(end);
  builder.addCorroboration(1, 1, [2]);
  return add(builder);
}

function add(builder: BatchBuilder): number {
  const bytes = builder.finish({ segment: SEGMENT, offset: at });
  file.write(bytes, at);
  const from = at;
  at += bytes.length;
  const { record, entries, head } = builder;
  end = { record, entries, head };
  return from;
}

/** One lot, whose spine's own check is wrong; head and marker are those of the spine as it is. */
function batchWithBadSpine(text: string): number {
  const before = end.head;
  const from = batchOf(text);
  const { header, spinesAt, end: batchEnd } = batchAt(from);
  const bytes = Buffer.alloc(batchEnd - from);
  file.read(bytes, from);
  const spinesEnd = spinesAt + header.spineBytes;
  bytes.writeUInt8(bytes.readUInt8(spinesEnd - 1) ^ 1, spinesEnd - 1);
  end = { ...end, head: link(before, bytes, spinesAt, spinesEnd) };
  const covered = crc32(bytes.subarray(0, spinesEnd));
  writeCommitMarker(bytes, bytes.length - COMMIT_MARKER_BYTES, covered, end.head);
  file.write(bytes, from);
  return from;
}

function batchAt(from: number): FoundBatch {
  const batch = findAt(new FileWindow(file), AGENT_ID, SEGMENT, from);
  if (batch.what !== "batch") throw new Error("no batch stands there");
  return batch;
}

/** Where the texts of the batch at a place stand. */
function areas(from: number): number[] {
  const batch = batchAt(from);
  const { firstRecord, entriesBefore, headBefore } = batch.header;
  const before = { record: firstRecord - 1, entries: entriesBefore, head: headBefore };
  const places: number[] = [];
  readSpines(batch, before, new SpineReader(AGENT_ID), (_spineAt, areaAt) => places.push(areaAt));
  return places;
}

function run(
  headsAt: number[] = [],
  { chainOnly = false } = {},
): { findings: Findings; steps: number[] } {
  const job = {
    path: "/segment",
    agentId: AGENT_ID,
    segment: SEGMENT,
    before: BEFORE,
    end: at,
    headsAt,
    chainOnly,
  };
  const steps: number[] = [];
  const work = inspect(job, file);
  for (;;) {
    const { done, value } = work.next();
    if (done) return { findings: value, steps };
    steps.push(value);
  }
}

function flip(place: number) {
  const byte = Buffer.alloc(1);
  file.read(byte, place);
  file.write(Uint8Array.of(byte.readUInt8() ^ 1), place);
}

test("what may stand where a text does has four names, of which nothing is the first", () => {
  expect(AREA.absent).toBe(0);
  expect(new Set(Object.values(AREA)).size).toBe(4);
});

test("texts are not looked at where the chain is all that is asked for", () => {
  batchOf("one", "two");
  const { findings } = run([], { chainOnly: true });
  expect([findings.problems, findings.areas.every((area) => area === AREA.absent)]).toEqual([
    [],
    true,
  ]);
  expect(run().findings.areas.every((area) => area === AREA.absent)).toBe(false);
});

test("each text checks, was never there, is zero, or is broken", () => {
  const from = batchOf("checks", null, "is zeroed", "is changed", "z".repeat(300));
  const [, , zeroed = 0, changed = 0, long = 0] = areas(from);
  const second = batchOf("is half zeroed", "checks too");
  const [half = 0] = areas(second);
  file.write(Buffer.alloc(64), zeroed);
  flip(changed + 40);
  // Its content, and not the last unit.
  file.write(Buffer.alloc(64), long);
  file.write(Buffer.alloc(40), half);
  const { findings, steps } = run();
  expect([...findings.areas.subarray(0, 8)]).toEqual([
    AREA.checks,
    AREA.absent,
    AREA.zero,
    AREA.broken,
    AREA.broken,
    AREA.broken,
    AREA.checks,
    AREA.absent,
  ]);
  expect(findings).toMatchObject({ segment: SEGMENT, problems: [], heads: [] });
  expect(steps).toEqual([second, at]);
});

test("an area that the file does not hold to its end is broken, and one that is all zero is not", () => {
  const from = batchOf("the only one");
  const [place = 0] = areas(from);
  const window = () => new FileWindow(file);
  const committed = "c".repeat(32);
  file.write(Buffer.alloc(64), place);
  expect(lookAt(window(), place, 64, committed)).toBe(AREA.zero);
  for (const byte of [place, place + 63]) {
    file.write(Uint8Array.of(1), byte);
    expect(lookAt(window(), place, 64, committed)).toBe(AREA.broken);
    file.write(Uint8Array.of(0), byte);
  }
  file.truncate(place + 64);
  expect(lookAt(window(), place, 64, committed)).toBe(AREA.zero);
  for (const held of [63, 10, 0]) {
    file.truncate(place + held);
    expect(lookAt(window(), place, 64, committed)).toBe(AREA.broken);
  }
});

test("of more entries than there is room for at first, each is known", () => {
  for (let i = 0; i < 4; i++)
    batchOf(...Array.from({ length: 2500 }, (_, k) => (k % 5 === 0 ? null : "x")));
  const { findings } = run();
  const expected = Array.from({ length: 10_000 }, (_, i) =>
    (i % 2500) % 5 === 0 ? AREA.absent : AREA.checks,
  );
  expect([...findings.areas.subarray(0, 10_000)]).toEqual(expected);
});

test("the heads that are asked for are those after their records, whatever kind these are", () => {
  batchOf("71", "72");
  const after72 = end.head;
  corroboration();
  const after73 = end.head;
  batchOf("74");
  const { findings } = run([72, 73, 74, 75, 70]);
  expect(findings.heads).toEqual([
    [72, after72],
    [73, after73],
    [74, end.head],
  ]);
});

describe("where something is wrong", () => {
  test("a batch that does not follow is told once, with its place, and what is behind it is checked by what it says", () => {
    batchOf("one");
    const right = end;
    end = { ...right, head: NO_HASH };
    const wrong = batchOf("two");
    batchOf("three");
    const { findings, steps } = run([73]);
    expect(findings.problems).toEqual([
      { code: "CORRUPT", message: expect.stringContaining("does not follow"), offset: wrong },
    ]);
    expect(steps.length).toBe(3);
    expect([...findings.areas.subarray(0, 3)]).toEqual([AREA.checks, AREA.absent, AREA.checks]);
    expect(findings.heads).toEqual([[73, end.head]]);
  });

  test("a spine that does not check by itself is told, though chain and marker hold; of many such, a hundred", () => {
    const places: number[] = [];
    for (let i = 0; i < 150; i++) places.push(batchWithBadSpine("x"));
    const { findings, steps } = run();
    expect(findings.problems).toEqual(
      places.slice(0, 100).map((offset) => ({
        code: "CORRUPT",
        message: expect.stringContaining("spine does not check"),
        offset,
      })),
    );
    expect(steps.length).toBe(150);
  });

  test("a batch that is none ends it, with one problem", () => {
    batchOf("one");
    const second = batchOf("two");
    batchOf("three");
    flip(second + 8);
    const { findings, steps } = run();
    expect(findings.problems).toEqual([
      { code: "CORRUPT", message: expect.stringContaining("changed"), offset: second },
    ]);
    expect(steps).toEqual([second]);
  });

  test("what is no fault of the data is thrown on", () => {
    batchOf("one");
    // The spines can be read, and the texts not.
    let reads = 0;
    const failing: File = {
      ...file,
      read: (into, from) => {
        if (++reads === 1) return file.read(into, from);
        throw new TypeError("a fault of the program");
      },
    };
    const job = {
      path: "/segment",
      agentId: AGENT_ID,
      segment: SEGMENT,
      before: BEFORE,
      end: at,
      headsAt: [],
      chainOnly: false,
    };
    expect(() => inspect(job, failing).next()).toThrow("a fault of the program");
  });
});
