// The row of segments by itself, on a disk in memory: which files are the log, where it ends and what kind of end that is, and
// what a writer does to the files, call by call.

import { createHash } from "node:crypto";
import { basename } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { BatchBuilder, type LogEnd } from "../src/batch.ts";
import { encodeSeal, SpineReader, writeBatchHeader } from "../src/codec.ts";
import { diskError } from "../src/disk.ts";
import { CheeseError } from "../src/errors.ts";
import { type AgentPlace, currentGeneration, Log, mayHaveMoved } from "../src/log.ts";
import { createSegment, readSpines } from "../src/segment.ts";
import { type DiskCall, MemoryDisk, watched } from "./memorydisk.ts";

const AGENT = "/agent";
const FOLDER = "/agent/log/1";
const IDS = { storeId: Buffer.alloc(16, 1), agentId: Buffer.alloc(16, 2) };
/** Sizes as docs/format.md has them. */
const HEADER = 128;
const BATCH_HEADER = 60;
const MARKER = 40;
const SEAL = 48;
const KIB = 1024;
const RESERVE = 64 * KIB;
const START: LogEnd = {
  record: 0,
  entries: 0,
  head: createHash("sha256")
    .update("cheesedb/chain/v1")
    .update(IDS.storeId)
    .update(IDS.agentId)
    .digest("binary"),
};
const OTHER_HEAD = "h".repeat(32);
const CLEAN = { tornBytes: 0, rollUnfinished: false };

let disk: MemoryDisk;
/** Where the log stands behind what was laid so far. */
let end: LogEnd;
/** What was done to files and folders since the test last looked; reads and looks left out. */
let calls: string[];
/** Done before each call of the disk; the call fails with what it throws. */
let before: (call: DiskCall) => void;

/** A log of one segment that holds nothing. */
beforeEach(() => {
  disk = MemoryDisk.of(
    new Map(["/", AGENT, "/agent/log", FOLDER].map((path): [string, null] => [path, null])),
  );
  disk.callsLeft = 20_000;
  end = START;
  calls = [];
  before = () => {};
  laySegment(1);
});

const SILENT = ["stat", "look", "list", "read"];

function note(one: DiskCall) {
  before(one);
  const { call, path, at, bytes } = one;
  if (SILENT.includes(call)) return;
  const how = call === "write" ? ` ${bytes} at ${at}` : call === "truncate" ? ` to ${at}` : "";
  calls.push(`${call}${how} ${basename(path)}`);
}

/** The calls since it was last asked. */
function done(): string[] {
  const now = calls;
  calls = [];
  return now;
}

const nameOf = (segment: number) => `${String(segment).padStart(8, "0")}.seg`;
const pathOf = (segment: number) => `${FOLDER}/${nameOf(segment)}`;
const bytesOf = (segment: number) => disk.image().get(pathOf(segment)) as Buffer;
const sizeOf = (segment: number) => disk.stat(pathOf(segment))?.size;

function laySegment(number: number, { says = end, zeros = 0 } = {}) {
  createSegment(disk, pathOf(number), IDS, 1, { number, before: says }, zeros);
}

function builderOf(...texts: string[]): BatchBuilder {
  const builder = new BatchBuilder(IDS.agentId, (bytes) => bytes.fill(0xee));
  builder.begin(end);
  for (const text of texts) builder.addLot(1, "x", { text, uri: null }, null);
  return builder;
}

/** Lays a batch of as many records as texts, and says where it ends. */
function layBatch(segment: number, at: number, ...texts: string[]): number {
  const builder = builderOf(...texts);
  const bytes = builder.finish({ segment, offset: at });
  disk.open(pathOf(segment)).write(bytes, at);
  const { record, entries, head } = builder;
  end = { record, entries, head };
  return at + bytes.length;
}

function laySeal(segment: number, at: number, { record, entries, head } = end): number {
  const place = { agentId: IDS.agentId, segment, offset: at };
  disk.open(pathOf(segment)).write(encodeSeal(record, entries, head, place), at);
  return at + SEAL;
}

function lay(segment: number, at: number, ...bytes: number[]) {
  disk.open(pathOf(segment)).write(Uint8Array.from(bytes), at);
}

/** Makes the last text of a batch one that does not check: a byte of its padding. */
const spoilText = (segment: number, batchEnd: number) => lay(segment, batchEnd - MARKER - 1, 1);
/** Makes a batch one that was half written. */
const spoilMarker = (segment: number, batchEnd: number) => lay(segment, batchEnd - MARKER, 0xff);

function newLog(options: Partial<AgentPlace> = {}): Log {
  const place = { folder: AGENT, ids: IDS, access: "write", ...options } as const;
  return new Log({ disk: watched(disk, note), ...place });
}

const reader = new SpineReader(IDS.agentId);

/** Reads to the tail; the batches that there were, as their first records. */
function readOn(log: Log, trusted = 0): number[] {
  const first: number[] = [];
  log.lookAgain();
  for (;;) {
    const batch = log.nextBatch(trusted, reader);
    if (!batch) return first;
    first.push(batch.header.firstRecord);
    log.pass(
      batch,
      readSpines(batch, log.end, reader, () => {}),
    );
  }
}

function readLog(options?: Partial<AgentPlace>): Log {
  const log = newLog(options);
  readOn(log);
  done();
  return log;
}

function errorOf(call: () => unknown): unknown {
  try {
    call();
    return null;
  } catch (error) {
    return error;
  }
}

/** What is flushed of what was zeroed: files, and how many bytes of each. */
async function flushedOf(log: Log): Promise<[path: string, bytes: number][]> {
  const flushed: [string, number][] = [];
  await log.flushZeroed((file, bytes) => {
    flushed.push([file.path, bytes]);
    return undefined;
  });
  return flushed;
}

const full = (path: string) =>
  diskError("write", path, Object.assign(new Error("full"), { code: "ENOSPC" }));

/** From now on a file can grow to this size, and no further. */
function fillDisk(sizeMax: number) {
  before = ({ call, path, at = 0, bytes = 0 }) => {
    if (call === "write" && at + bytes > sizeMax) throw full(path);
  };
}

/** The n-th call of a kind fails so. */
function failAt(call: DiskCall["call"], nth: number, failure: (path: string) => Error = full) {
  let count = 0;
  before = (one) => {
    if (one.call === call && ++count === nth) throw failure(one.path);
  };
}

/** What another process does before the n-th look at a segment. */
function meanwhile(segment: number, nth: number, work: () => void) {
  let count = 0;
  before = ({ call, path }) => {
    if (call === "look" && path === pathOf(segment) && ++count === nth) work();
  };
}

/** From now on a link stands at a path. */
function turnIntoLink(path: string) {
  const { stat } = disk;
  disk.stat = (asked) => {
    const found = stat.call(disk, asked);
    return found && asked === path ? { ...found, type: "link" } : found;
  };
}

describe("the generation", () => {
  test("is the highest number there is; what is no such number is passed over", () => {
    for (const name of ["3", "20", "100.new", "007", "0", "12345678901", "x"])
      disk.makeFolder(`/agent/log/${name}`);
    expect(currentGeneration(disk, AGENT)).toBe(20);
  });

  test("is missing where there is none, and that is damage", () => {
    disk.rename(FOLDER, `${FOLDER}.new`);
    expect(currentGeneration(disk, AGENT)).toBe(0);
    expect(errorOf(newLog)).toMatchObject({
      code: "CORRUPT",
      message: "/agent/log holds no generation of the log",
    });
  });

  test.each([AGENT, "/agent/log", FOLDER])("is not reached through a link at %s", (path) => {
    turnIntoLink(path);
    expect(errorOf(newLog)).toMatchObject({
      code: "CORRUPT",
      file: path,
      message: `${path} is a link, expected a folder`,
    });
  });

  test("of an agent without a log's folder is damage, and says so", () => {
    disk.rename("/agent/log", "/agent/elsewhere");
    expect(errorOf(newLog)).toMatchObject({
      code: "CORRUPT",
      message: "/agent/log is missing, expected a folder",
    });
  });
});

describe("the segments", () => {
  test("of a new log are one, in which nothing stands", () => {
    const log = newLog();
    expect([log.generation, log.folder, log.segmentCount]).toEqual([1, FOLDER, 1]);
    expect(log.end).toEqual({ segment: 1, offset: HEADER, ...START });
    expect(log.tail).toEqual(CLEAN);
    expect(log.lastBatch).toBe(null);
    log.requireBeginning();
    expect(readOn(log)).toEqual([]);
    expect(log.tail).toEqual(CLEAN);
  });

  test("are damage where one is missing, with the one that stands in its place", () => {
    laySegment(3);
    expect(errorOf(newLog)).toMatchObject({
      code: "CORRUPT",
      file: pathOf(3),
      message: `${pathOf(2)} is missing: ${nameOf(3)} stands where it is due`,
    });
    disk.removeFile(pathOf(3));
    disk.removeFile(pathOf(1));
    expect(errorOf(newLog)).toMatchObject({
      code: "CORRUPT",
      file: FOLDER,
      message: `${FOLDER} holds no segment`,
    });
  });

  test("begin with record 0, no entries and hash(0), and with nothing else", () => {
    for (const wrong of [{ record: 1 }, { entries: 1 }, { head: OTHER_HEAD }]) {
      disk.removeFile(pathOf(1));
      laySegment(1, { says: { ...START, ...wrong } });
      expect(errorOf(() => newLog().requireBeginning())).toMatchObject({
        code: "CORRUPT",
        file: FOLDER,
        message: `the log in ${FOLDER} does not begin at record 1`,
      });
    }
  });

  test("one of another agent is not left open", () => {
    const ids = { ...IDS, agentId: Buffer.alloc(16, 3) };
    expect(errorOf(() => newLog({ ids }))).toMatchObject({ code: "CORRUPT", offset: 16 });
    expect(done()).toEqual([`open ${nameOf(1)}`, `close ${nameOf(1)}`]);
  });

  test("count as many bytes as their files have, and one that is gone counts none", () => {
    disk.open(pathOf(1)).truncate(1000);
    laySegment(2, { zeros: 72 });
    laySegment(3, { zeros: 372 });
    const log = newLog();
    expect(log.bytes).toBe(1000 + 200 + 500);
    disk.removeFile(pathOf(2));
    expect(log.bytes).toBe(1000 + 500);
  });

  test("are read where something stands, and a read beyond the end is damage", () => {
    lay(1, 300, 7, 8, 9);
    const log = newLog();
    expect([...log.read(1, 301, 2)]).toEqual([8, 9]);
    expect(errorOf(() => log.read(1, 301, 3))).toMatchObject({
      code: "CORRUPT",
      file: pathOf(1),
      offset: 301,
      message: `${pathOf(1)} ends before offset 304`,
    });
  });

  test("hold the entries behind those that their header counts, one without entries none", () => {
    // Entries 1 and 2, none, 3 to 5, 6, and 7 onward: in segments 1 to 5.
    for (const [i, entries] of [2, 2, 5, 6].entries())
      laySegment(i + 2, { says: { record: entries, entries, head: OTHER_HEAD } });
    const log = newLog();
    const segmentsOf = (...entries: number[]) => entries.map((entry) => log.segmentOf(entry));
    expect(segmentsOf(1, 7)).toEqual([1, 1]);
    const at = (segment: number) => {
      log.end = { ...log.end, segment };
    };
    // Not beyond the end.
    at(3);
    expect(segmentsOf(1, 2, 3, 5, 9)).toEqual([1, 1, 3, 3, 3]);
    at(4);
    expect(segmentsOf(1, 2, 3, 5, 6, 9)).toEqual([1, 1, 3, 3, 4, 4]);
    at(5);
    expect(segmentsOf(1, 2, 3, 4, 5, 6, 7, 100)).toEqual([1, 1, 3, 3, 3, 4, 5, 5]);
  });

  test("where each holds entries are told apart at every bound", () => {
    for (const entries of [1, 2, 3, 4, 5, 6])
      laySegment(entries + 1, { says: { record: entries, entries, head: OTHER_HEAD } });
    const log = newLog();
    for (let last = 1; last <= 7; last++) {
      log.end = { ...log.end, segment: last };
      for (let entry = 1; entry <= last; entry++) expect(log.segmentOf(entry)).toBe(entry);
    }
  });
});

describe("taking up at a place that a snapshot names", () => {
  let first: LogEnd;
  let firstEnd: number;
  let second: LogEnd;
  let secondEnd: number;

  beforeEach(() => {
    firstEnd = layBatch(1, HEADER, "a");
    first = end;
    laySeal(1, firstEnd);
    laySegment(2);
    secondEnd = layBatch(2, HEADER, "b");
    second = end;
  });

  const takes = (position: { segment: number; offset: number } & LogEnd) => {
    const log = newLog();
    const stood = log.end;
    const isTaken = log.startAt(position);
    expect(log.end).toEqual(isTaken ? position : stood);
    return isTaken;
  };

  test("is done behind a batch's marker, and at a segment's beginning", () => {
    expect(takes({ segment: 1, offset: HEADER, ...START })).toBe(true);
    expect(takes({ segment: 1, offset: firstEnd, ...first })).toBe(true);
    expect(takes({ segment: 2, offset: HEADER, ...first })).toBe(true);
    expect(takes({ segment: 2, offset: secondEnd, ...second })).toBe(true);
    const log = newLog();
    log.startAt({ segment: 2, offset: HEADER, ...first });
    expect(readOn(log)).toEqual([2]);
    expect(log.end).toEqual({ segment: 2, offset: secondEnd, ...second });
  });

  test("is refused in a segment that is not there", () => {
    for (const segment of [0, 3]) {
      expect(takes({ segment, offset: HEADER, ...first })).toBe(false);
      expect(takes({ segment, offset: firstEnd, ...first })).toBe(false);
    }
  });

  test("is refused where the log stands otherwise: by its head, or at a beginning by its record", () => {
    const at = { segment: 2, offset: HEADER };
    expect(takes({ ...at, ...first, head: OTHER_HEAD })).toBe(false);
    expect(takes({ ...at, ...first, record: 2 })).toBe(false);
    expect(takes({ segment: 2, offset: secondEnd, ...first })).toBe(false);
  });

  test("is refused anywhere else, before the first marker could end and in a marker that is cut", () => {
    for (const offset of [secondEnd - 1, secondEnd + 1, HEADER - 1, HEADER + 1, 0])
      expect(takes({ segment: 2, offset, ...second })).toBe(false);
    // A marker there would say just that, and begin within the header.
    const offset = HEADER + MARKER - 1;
    const said = bytesOf(2).toString("latin1", offset - 36, offset - 4);
    expect(takes({ segment: 2, offset, ...second, head: said })).toBe(false);
    for (const cut of [1, 4]) {
      disk.open(pathOf(2)).truncate(secondEnd - cut);
      expect(takes({ segment: 2, offset: secondEnd, ...second })).toBe(false);
    }
  });
});

describe("the last batch", () => {
  let begins: number;
  let ends: number;

  /** Record 1 by itself, then records 2 and 3 together. */
  beforeEach(() => {
    begins = layBatch(1, HEADER, "a");
    ends = layBatch(1, begins, "b", "c");
  });

  test("is read and noted, whole as it is", () => {
    const log = newLog();
    expect(readOn(log)).toEqual([1, 2]);
    expect(log.end).toEqual({ segment: 1, offset: ends, ...end });
    expect(log.lastBatch).toEqual({ segment: 1, at: begins, end: ends });
    expect(log.tail).toEqual(CLEAN);
  });

  test("belongs to the log with a text that does not check, if its last record is known to be flushed", () => {
    spoilText(1, ends);
    expect(readOn(newLog(), 3)).toEqual([1, 2]);
  });

  test.each([0, 1, 2])(
    "with such a text is torn, if no more than record %i is known to be",
    (trusted) => {
      spoilText(1, ends);
      const log = newLog();
      expect(readOn(log, trusted)).toEqual([1]);
      expect(log.end.offset).toBe(begins);
      expect(log.tail).toEqual({ tornBytes: ends - begins, rollUnfinished: false });
    },
  );

  test("with such a text is not the last where another batch follows, and belongs to the log", () => {
    spoilText(1, ends);
    layBatch(1, ends, "d");
    expect(readOn(newLog())).toEqual([1, 2, 4]);
  });

  test("with such a text belongs to the log where a seal follows that was written since it was opened", () => {
    spoilText(1, ends);
    const log = newLog();
    laySeal(1, ends);
    laySegment(2);
    expect(readOn(log)).toEqual([1, 2]);
    expect([log.end.segment, log.segmentCount]).toEqual([2, 2]);
  });

  test("with such a text belongs to the log where the next segment was begun", () => {
    spoilText(1, ends);
    laySegment(2);
    const log = newLog();
    expect(readOn(log)).toEqual([1, 2]);
    expect(log.tail).toEqual({ tornBytes: 0, rollUnfinished: true });
  });

  test("is read from a file longer than a window, and is still in view once what follows was looked at", () => {
    const long = layBatch(1, ends, "x".repeat(100 * KIB), "y".repeat(70 * KIB));
    disk.open(pathOf(1)).truncate(long + RESERVE);
    const log = newLog();
    expect(readOn(log)).toEqual([1, 2, 4]);
    expect(log.end).toEqual({ segment: 1, offset: long, ...end });
    spoilText(1, long);
    expect(readOn(newLog())).toEqual([1, 2]);
  });

  test("is the only one whose texts are read", () => {
    const long = layBatch(1, ends, "x".repeat(1024 * KIB));
    layBatch(1, long, "d");
    let read = 0;
    before = ({ call, bytes = 0 }) => {
      if (call === "read") read += bytes;
    };
    expect(readOn(newLog())).toEqual([1, 2, 4, 5]);
    expect(read).toBeLessThan(512 * KIB);
  });

  test("half written is torn, with all its bytes, zeros behind it left out", () => {
    spoilMarker(1, ends);
    lay(1, ends - 1, 0xff);
    disk.open(pathOf(1)).truncate(ends + 1000);
    const log = newLog();
    expect(readOn(log)).toEqual([1]);
    expect(log.tail).toEqual({ tornBytes: ends - begins, rollUnfinished: false });
  });

  test("half written is torn though its texts look like a header, since its end is known", () => {
    spoilMarker(1, ends);
    const offset = ends - MARKER - BATCH_HEADER;
    const bytes = Buffer.alloc(BATCH_HEADER);
    writeBatchHeader(
      bytes,
      0,
      {
        compacted: false,
        count: 1,
        firstRecord: 1,
        entriesBefore: 0,
        spineBytes: 30,
        areaBytes: 0,
        headBefore: START.head,
      },
      { agentId: IDS.agentId, segment: 1, offset },
    );
    lay(1, offset, ...bytes);
    expect(readOn(newLog())).toEqual([1]);
    // Where the end is not known, it is looked for byte by byte.
    lay(1, begins, 0xff);
    expect(errorOf(() => readOn(newLog()))).toMatchObject({ code: "CORRUPT", offset: begins });
  });

  test("that does not check is damage where a whole one follows, and so are zeros in its place", () => {
    layBatch(1, ends, "d");
    const damage = {
      code: "CORRUPT",
      file: pathOf(1),
      offset: begins,
      message: `a batch of ${pathOf(1)} does not check, and whole ones follow it`,
    };
    spoilMarker(1, ends);
    expect(errorOf(() => readOn(newLog()))).toMatchObject(damage);
    lay(1, begins, ...Buffer.alloc(ends - begins));
    expect(errorOf(() => readOn(newLog()))).toMatchObject(damage);
  });

  test("with a text that does not check, and half of another behind it, is damage, and not looked at for ever", () => {
    spoilText(1, ends);
    spoilMarker(1, layBatch(1, ends, "d"));
    expect(errorOf(() => readOn(newLog()))).toMatchObject({ code: "CORRUPT" });
  });

  test("is followed by what another process writes: a new look finds it", () => {
    const log = newLog();
    readOn(log);
    layBatch(1, ends, "d");
    expect(log.isCurrent()).toBe(false);
    expect(readOn(log)).toEqual([4]);
    expect(log.isCurrent()).toBe(true);
  });
});

describe("a writer that goes on between two looks", () => {
  test("of a reader is followed: what stood nowhere is a batch by now, with another behind it", () => {
    // Zeros ahead, more than a window holds, so that the second look reads anew.
    disk.open(pathOf(1)).truncate(HEADER + 128 * KIB);
    const log = newLog();
    meanwhile(1, 2, () => layBatch(1, layBatch(1, HEADER, "a", "b"), "c"));
    expect(readOn(log)).toEqual([1, 3]);
    expect(log.tail).toEqual(CLEAN);
  });

  test("of a reader is followed: what was not sealed is by now, and the next segment written to", () => {
    const at = layBatch(1, HEADER, "a");
    laySegment(2, { zeros: 1000 });
    const log = newLog();
    meanwhile(1, 2, () => {
      laySeal(1, at);
      layBatch(2, HEADER, "b", "c");
    });
    expect(readOn(log)).toEqual([1, 2]);
    expect(log.end.segment).toBe(2);
  });

  test("has done nothing where it fails again, and the damage is told", () => {
    const at = layBatch(1, HEADER, "a");
    spoilMarker(1, at);
    layBatch(1, at, "b");
    const log = newLog();
    expect(errorOf(() => readOn(log))).toMatchObject({ code: "CORRUPT", offset: HEADER });
  });
});

describe("a seal", () => {
  let at: number;

  beforeEach(() => {
    at = layBatch(1, HEADER, "a", "b");
  });

  test("leads to the next segment, also to one that was begun since the log was opened", () => {
    const early = newLog();
    laySeal(1, at);
    laySegment(2);
    const late = newLog();
    const behind = layBatch(2, HEADER, "c");
    for (const log of [early, late]) {
      expect(readOn(log)).toEqual([1, 3]);
      expect(log.end).toEqual({ segment: 2, offset: behind, ...end });
      expect(log.segmentCount).toBe(2);
      expect(log.lastBatch).toEqual({ segment: 2, at: HEADER, end: behind });
    }
  });

  test.each([{ record: 1 }, { entries: 1 }, { head: OTHER_HEAD }])(
    "that says otherwise than what stands before it is damage",
    (wrong) => {
      laySeal(1, at, { ...end, ...wrong });
      laySegment(2);
      expect(errorOf(() => readOn(newLog()))).toMatchObject({
        code: "CORRUPT",
        file: pathOf(1),
        offset: at,
        message: `the seal of ${pathOf(1)} does not fit what stands before it`,
      });
    },
  );

  test("ends its file, but for zeros", () => {
    const behind = laySeal(1, at);
    laySegment(2);
    disk.open(pathOf(1)).truncate(behind + 1000);
    expect(readOn(newLog())).toEqual([1]);
    for (const stray of [behind, behind + 999]) {
      lay(1, stray, 1);
      expect(errorOf(() => readOn(newLog()))).toMatchObject({ code: "CORRUPT", offset: at });
      lay(1, stray, 0);
    }
  });

  test("without a next segment is damage", () => {
    laySeal(1, at);
    expect(errorOf(() => readOn(newLog()))).toMatchObject({
      code: "CORRUPT",
      file: pathOf(2),
      message: `${pathOf(2)} is missing: the segment before it is sealed`,
    });
  });

  test.each([{ record: 1 }, { entries: 1 }, { head: OTHER_HEAD }])(
    "is followed by a segment that begins where it ends, or that is damage",
    (wrong) => {
      laySeal(1, at);
      laySegment(2, { says: { ...end, ...wrong } });
      // The record's field in the header.
      expect(errorOf(() => readOn(newLog()))).toMatchObject({
        code: "CORRUPT",
        file: pathOf(2),
        offset: 52,
        message: `${pathOf(2)} does not follow record 2`,
      });
    },
  );
});

describe("a segment that is not sealed though it has a successor", () => {
  let at: number;

  beforeEach(() => {
    at = layBatch(1, HEADER, "a");
    laySegment(2, { zeros: 1000 });
  });

  test("is a roll that a crash cut short, if nothing was written there; and leaves no file open", () => {
    const log = newLog();
    expect(readOn(log)).toEqual([1]);
    expect(log.tail).toEqual({ tornBytes: 0, rollUnfinished: true });
    expect(log.end).toEqual({ segment: 1, offset: at, ...end });
    expect(log.isCurrent()).toBe(false);
    expect(done()).toEqual([`open ${nameOf(1)}`, `open ${nameOf(2)}`, `close ${nameOf(2)}`]);
  });

  test.each<[string, () => void]>([
    ["a batch", () => layBatch(2, HEADER, "b")],
    ["a byte at its beginning", () => lay(2, HEADER, 1)],
    ["a byte further on", () => lay(2, HEADER + 999, 1)],
    ["a third segment", () => laySegment(3)],
  ])("is damage if there is %s", (_what, write) => {
    write();
    expect(errorOf(() => readOn(newLog()))).toMatchObject({
      code: "CORRUPT",
      file: pathOf(1),
      offset: at,
      message: `${pathOf(1)} is not sealed, and the next segment has been written to`,
    });
    expect(done().at(-1)).toBe(`close ${nameOf(2)}`);
  });
});

describe("the end that was read", () => {
  test("is current until a byte is written behind it, whichever", () => {
    const at = layBatch(1, HEADER, "a");
    disk.open(pathOf(1)).truncate(at + 1000);
    const log = readLog();
    expect(log.isCurrent()).toBe(true);
    for (const stray of [at, at + BATCH_HEADER - 1]) {
      lay(1, stray, 1);
      expect([log.isCurrent(), log.isSameLog()]).toEqual([false, true]);
      lay(1, stray, 0);
    }
    disk.open(pathOf(1)).truncate(at);
    expect(log.isCurrent()).toBe(true);
  });

  test("is not current, nor its log the same, once the file is gone or another", () => {
    const log = readLog();
    expect([log.isCurrent(), log.isSameLog()]).toEqual([true, true]);
    disk.removeFile(pathOf(1));
    expect([log.isCurrent(), log.isSameLog()]).toEqual([false, false]);
    laySegment(1);
    expect([log.isCurrent(), log.isSameLog()]).toEqual([false, false]);
    const now = readLog();
    expect([now.isCurrent(), now.isSameLog()]).toEqual([true, true]);
    now.close();
    expect([now.isCurrent(), now.isSameLog()]).toEqual([false, false]);
  });
});

describe("cutting the tail", () => {
  test("does nothing to a clean end", () => {
    layBatch(1, HEADER, "a");
    readLog().cutTail();
    expect(done()).toEqual([]);
  });

  test.each([1, 2, 500])("cuts %i torn bytes off, and flushes", (torn) => {
    const at = layBatch(1, HEADER, "a");
    lay(1, at + torn - 1, 7);
    const log = readLog();
    expect(log.tail.tornBytes).toBe(torn);
    log.cutTail();
    expect(done()).toEqual([`truncate to ${at} ${nameOf(1)}`, `flush ${nameOf(1)}`]);
    expect(log.tail).toEqual(CLEAN);
    expect(sizeOf(1)).toBe(at);
  });

  test("takes away a segment that was begun, and its name is off the disk before anything is written", () => {
    const at = layBatch(1, HEADER, "a");
    laySegment(2);
    lay(1, at + 10, 7);
    const log = readLog();
    expect(log.tail).toEqual({ tornBytes: 11, rollUnfinished: true });
    // It may have been opened.
    log.segment(2);
    done();
    log.cutTail();
    expect(done()).toEqual([
      `removeFile ${nameOf(2)}`,
      "flushFolder 1",
      `close ${nameOf(2)}`,
      `truncate to ${at} ${nameOf(1)}`,
      `flush ${nameOf(1)}`,
    ]);
    expect(log.tail).toEqual(CLEAN);
    expect(log.segmentCount).toBe(1);
    expect(log.isCurrent()).toBe(true);
    expect(errorOf(() => log.segment(2))).toMatchObject({ code: "DISK" });
    expect(log.lastSegment.file.path).toBe(pathOf(1));
    expect(done()).toEqual([`open ${nameOf(2)}`]);
  });
});

describe("writing again what may not be on the disk", () => {
  test("the last batch is written over itself, all of it and nothing else, and flushed", () => {
    const at = layBatch(1, HEADER, "a");
    const ends = layBatch(1, at, "x".repeat(1500 * KIB), "y".repeat(1000 * KIB));
    disk.open(pathOf(1)).truncate(ends + RESERVE);
    const log = readLog();
    const stood = bytesOf(1);
    log.rewriteLastBatch();
    const written = done();
    expect(written.pop()).toBe(`flush ${nameOf(1)}`);
    // In a few pieces, one behind the other.
    expect(written.length).toBeLessThan(10);
    let to = at;
    for (const call of written) {
      const [, bytes, from] = /^write (\d+) at (\d+) 00000001.seg$/.exec(call) ?? [];
      expect(Number(from)).toBe(to);
      to += Number(bytes);
    }
    expect(to).toBe(ends);
    expect(bytesOf(1).equals(stood)).toBe(true);
  });

  test("where there is no batch yet, nothing is done", () => {
    readLog().rewriteLastBatch();
    expect(done()).toEqual([]);
  });

  test("a seal that somebody else wrote is doubtful until it is written again, or something stands behind it", () => {
    const at = layBatch(1, HEADER, "a");
    expect(newLog().sealIsDoubtful).toBe(false);
    expect(readLog().sealIsDoubtful).toBe(false);
    laySeal(1, at);
    laySegment(2);
    const log = readLog();
    expect(log.sealIsDoubtful).toBe(true);
    const stood = bytesOf(1);
    log.rewriteSeal();
    expect(done()).toEqual([`write ${SEAL} at ${at} ${nameOf(1)}`, `flush ${nameOf(1)}`]);
    expect(bytesOf(1).equals(stood)).toBe(true);
    expect(log.sealIsDoubtful).toBe(false);
    log.rewriteSeal();
    expect(done()).toEqual([]);
    const behind = layBatch(2, HEADER, "b");
    expect(readLog().sealIsDoubtful).toBe(false);
    laySeal(2, behind);
    laySegment(3);
    const further = readLog();
    expect(further.sealIsDoubtful).toBe(true);
    further.rewriteSeal();
    expect(done()).toEqual([`write ${SEAL} at ${behind} ${nameOf(2)}`, `flush ${nameOf(2)}`]);
  });
});

describe("rolling over", () => {
  const SEGMENT_BYTES = 500;
  let log: Log;

  beforeEach(() => {
    layBatch(1, HEADER, "a");
    disk.open(pathOf(1)).truncate(SEGMENT_BYTES + RESERVE);
    log = readLog({ segmentBytes: SEGMENT_BYTES });
    log.end = { ...log.end, offset: SEGMENT_BYTES };
    log.makeRoom(0, false);
  });

  const BEGUN = [
    `create ${nameOf(2)}`,
    `write ${HEADER + RESERVE} at 0 ${nameOf(2)}`,
    `flush ${nameOf(2)}`,
    "flushFolder 1",
  ];

  test("is not done one byte earlier", () => {
    log.end = { ...log.end, offset: SEGMENT_BYTES - 1 };
    log.rollIfFull();
    expect(done()).toEqual([]);
    expect(log.end.segment).toBe(1);
  });

  test("begins the next segment, on the disk with its name, and only then seals this one", async () => {
    log.rollIfFull();
    expect(done()).toEqual([
      ...BEGUN,
      `write ${SEAL} at ${SEGMENT_BYTES} ${nameOf(1)}`,
      `truncate to ${SEGMENT_BYTES + SEAL} ${nameOf(1)}`,
      `flush ${nameOf(1)}`,
    ]);
    expect(log.end).toEqual({ segment: 2, offset: HEADER, ...end });
    expect(log.segmentCount).toBe(2);
    expect(log.lastSegment).toMatchObject({ number: 2, before: end, zeroedBytes: 0 });
    expect([1, 2].map((number) => log.segment(number).file.path)).toEqual([pathOf(1), pathOf(2)]);
    expect(log.sealIsDoubtful).toBe(false);
    expect(log.isCurrent()).toBe(true);
    // The room that is known is that of the new file.
    log.makeRoom(1000, false);
    expect(sizeOf(2)).toBe(HEADER + 1000 + RESERVE);
    expect(done()).toEqual([`write 1000 at ${HEADER + RESERVE} ${nameOf(2)}`]);
    expect(readOn(log)).toEqual([]);
    expect(await flushedOf(log)).toEqual([]);
    expect(done()).toEqual([]);
    const place = { agentId: IDS.agentId, segment: 1, offset: SEGMENT_BYTES };
    const sealed = encodeSeal(end.record, end.entries, end.head, place);
    expect(bytesOf(1).subarray(SEGMENT_BYTES).equals(sealed)).toBe(true);
    // Another reads the same from the disk.
    const next = newLog();
    next.startAt({ segment: 2, offset: HEADER, ...end });
    expect(readOn(next)).toEqual([]);
    expect(next.tail).toEqual(CLEAN);
  });

  test.each([
    ["create", 1, []],
    ["write", 1, [`create ${nameOf(2)}`, `close ${nameOf(2)}`, `removeFile ${nameOf(2)}`]],
    ["flushFolder", 1, [...BEGUN.slice(0, 3), `close ${nameOf(2)}`, `removeFile ${nameOf(2)}`]],
  ] as const)("is left for later on a disk that is full (%s)", (call, nth, seen) => {
    failAt(call, nth);
    log.rollIfFull();
    expect(done()).toEqual([...seen]);
    expect(log.end).toEqual({ segment: 1, offset: SEGMENT_BYTES, ...end });
    expect([log.segmentCount, sizeOf(2)]).toEqual([1, undefined]);
    before = () => {};
    log.rollIfFull();
    expect(log.end.segment).toBe(2);
  });

  test("is no way past an error that is not the disk's", () => {
    failAt("flushFolder", 1, () => new Error("it fails"));
    expect(() => log.rollIfFull()).toThrow("it fails");
    expect(done().at(-1)).toBe(`close ${nameOf(2)}`);
  });

  test("that cannot seal is told, and leaves the next segment's file closed", () => {
    failAt("write", 2);
    expect(errorOf(() => log.rollIfFull())).toMatchObject({ code: "DISK" });
    expect(done()).toEqual([...BEGUN, `close ${nameOf(2)}`]);
    expect([log.end.segment, log.segmentCount]).toEqual([1, 1]);
  });
});

describe("making room", () => {
  let log: Log;
  let size: number;

  beforeEach(() => {
    layBatch(1, HEADER, "a");
    log = readLog();
    size = sizeOf(1) as number;
  });

  /** The file is used up to its last byte: what it then grows to for a batch of 1,000 bytes, beyond that and the reserve. */
  function grow(): number {
    const offset = sizeOf(1) as number;
    log.end = { ...log.end, offset };
    log.makeRoom(1000, false);
    return (sizeOf(1) as number) - offset - 1000 - RESERVE;
  }

  test("is nothing to do where there is room, to the byte", () => {
    const offset = log.end.offset;
    disk.open(pathOf(1)).truncate(offset + 1000 + RESERVE);
    log.makeRoom(1000, false);
    expect(done()).toEqual([]);
    log.makeRoom(1001, false);
    expect(done()).toEqual([`write 1 at ${offset + 1000 + RESERVE} ${nameOf(1)}`]);
    expect(sizeOf(1)).toBe(offset + 1001 + RESERVE);
  });

  test("takes what is needed at first, then 64 KiB ahead, twice as much each time, and 4 MiB at most", () => {
    const ahead = Array.from({ length: 9 }, grow);
    expect(ahead.map((bytes) => bytes / KIB)).toEqual([
      0, 64, 128, 256, 512, 1024, 2048, 4096, 4096,
    ]);
  });

  test("fills it with zeros", () => {
    grow();
    grow();
    const room = bytesOf(1).subarray(size);
    expect(room.equals(Buffer.alloc(room.length))).toBe(true);
  });

  test("looks at the file once, and again when the log is looked at again or the file was changed", () => {
    const room = (to = 0) => disk.open(pathOf(1)).truncate(log.end.offset + 1000 + RESERVE + to);
    let looks = 0;
    before = ({ call }) => {
      if (call === "look") looks++;
    };
    const enough = (bytes: number) => {
      looks = 0;
      log.makeRoom(bytes, false);
      const seen = looks;
      expect(sizeOf(1)).toBeGreaterThanOrEqual(log.end.offset + bytes + RESERVE);
      return seen;
    };
    room();
    expect([enough(1000), enough(1000), enough(10)]).toEqual([1, 0, 0]);
    room(-1);
    log.lookAgain();
    expect([enough(1000), enough(1000), enough(1000)]).toEqual([1, 1, 0]);
    log.trim();
    expect([enough(1000), enough(1000)]).toEqual([1, 1]);
    // Another writer left half a batch.
    lay(1, log.end.offset + 100, 7);
    readOn(log);
    enough(10);
    log.cutTail();
    expect(enough(10)).toBe(1);
  });

  test("on a full disk fails, with the file as it was", () => {
    fillDisk(size);
    expect(errorOf(() => log.makeRoom(1000, false))).toMatchObject({ code: "DISK" });
    expect(done()).toEqual([`truncate to ${size} ${nameOf(1)}`]);
    // A part of it was written.
    before = () => {};
    grow();
    fillDisk((sizeOf(1) as number) + 100 * KIB);
    const stood = sizeOf(1) as number;
    expect(errorOf(() => log.makeRoom(300 * KIB, false))).toMatchObject({ code: "DISK" });
    expect(sizeOf(1)).toBe(stood);
  });

  test("takes no more than is needed where there is no space for more, and begins small again", () => {
    expect([grow(), grow(), grow()].map((bytes) => bytes / KIB)).toEqual([0, 64, 128]);
    fillDisk((sizeOf(1) as number) + 1000 + RESERVE + 100);
    expect(grow()).toBe(0);
    before = () => {};
    expect([grow(), grow()].map((bytes) => bytes / KIB)).toEqual([0, 64]);
  });

  test("uses the reserve for a recall alone, and only where there is nothing else", () => {
    disk.open(pathOf(1)).truncate(log.end.offset + RESERVE);
    size = sizeOf(1) as number;
    fillDisk(size);
    expect(errorOf(() => log.makeRoom(RESERVE, false))).toMatchObject({ code: "DISK" });
    log.makeRoom(RESERVE, true);
    expect(sizeOf(1)).toBe(size);
    expect(errorOf(() => log.makeRoom(RESERVE + 1, true))).toMatchObject({ code: "DISK" });
    fillDisk(size + 1);
    log.makeRoom(RESERVE + 1, true);
    expect(sizeOf(1)).toBe(size + 1);
    before = () => {};
    log.makeRoom(RESERVE + 1, true);
    expect(sizeOf(1)).toBe(size + 1 + RESERVE);
  });
});

describe("the reserve", () => {
  let log: Log;

  beforeEach(() => {
    layBatch(1, HEADER, "a");
    log = readLog();
  });

  test("is restored and flushed where it was used, and else left alone", () => {
    const { offset } = log.end;
    disk.open(pathOf(1)).truncate(offset + 10);
    log.restoreReserve();
    expect(done()).toEqual([
      `write ${RESERVE - 10} at ${offset + 10} ${nameOf(1)}`,
      `flush ${nameOf(1)}`,
    ]);
    expect(sizeOf(1)).toBe(offset + RESERVE);
    log.restoreReserve();
    expect(done()).toEqual([]);
    disk.open(pathOf(1)).truncate(offset + RESERVE - 1);
    log.restoreReserve();
    expect(sizeOf(1)).toBeGreaterThanOrEqual(offset + RESERVE);
    expect(done().at(-1)).toBe(`flush ${nameOf(1)}`);
  });

  test("is not restored on a full disk, which is no failure; a flush that fails is one", () => {
    const size = sizeOf(1) as number;
    fillDisk(size);
    log.restoreReserve();
    expect(done()).toEqual([`truncate to ${size} ${nameOf(1)}`]);
    failAt("flush", 1);
    expect(errorOf(() => log.restoreReserve())).toMatchObject({ code: "DISK" });
    disk.open(pathOf(1)).truncate(size);
    before = ({ call }) => {
      if (call === "write") throw new Error("it fails");
    };
    expect(() => log.restoreReserve()).toThrow("it fails");
  });

  test("is what a trim leaves", () => {
    const { offset } = log.end;
    for (const left of [offset, offset + RESERVE]) {
      disk.open(pathOf(1)).truncate(left);
      log.trim();
      expect(done()).toEqual([]);
    }
    disk.open(pathOf(1)).truncate(offset + RESERVE + 1);
    log.trim();
    expect(done()).toEqual([`truncate to ${offset + RESERVE} ${nameOf(1)}`, `flush ${nameOf(1)}`]);
    expect(sizeOf(1)).toBe(offset + RESERVE);
  });
});

describe("a batch", () => {
  test("is written at the end, which moves once it is accepted", () => {
    const at = layBatch(1, HEADER, "a");
    disk.open(pathOf(1)).truncate(at + RESERVE);
    const log = readLog();
    const stood = log.end;
    const builder = builderOf("b", "c");
    expect(log.write(builder)).toBe(at);
    expect(done()).toEqual([`write ${builder.bytes} at ${at} ${nameOf(1)}`]);
    expect(log.end).toEqual(stood);
    log.accept(builder);
    const { record, entries, head } = builder;
    expect([record, entries]).toEqual([3, 3]);
    const behind = at + builder.bytes;
    expect(log.end).toEqual({ segment: 1, offset: behind, record, entries, head });
    expect(log.lastBatch).toEqual({ segment: 1, at, end: behind });
    expect(readOn(newLog())).toEqual([1, 2]);
  });

  test("is not written over what stands there, be it a single byte", () => {
    const at = layBatch(1, HEADER, "a");
    disk.open(pathOf(1)).truncate(at + RESERVE);
    const log = readLog();
    for (const stray of [at, at + BATCH_HEADER - 1]) {
      lay(1, stray, 1);
      expect(errorOf(() => log.write(builderOf("b")))).toMatchObject({
        code: "CORRUPT",
        file: pathOf(1),
        offset: at,
        message: `something else was written to ${pathOf(1)} behind record 1`,
      });
      lay(1, stray, 0);
    }
    expect(done()).toEqual([]);
  });
});

describe("a place that is erased", () => {
  test.each([1, 32, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 200 * KIB])(
    "of %i bytes is zero, and nothing beside it",
    (bytes) => {
      const size = 300 * KIB;
      disk.open(pathOf(1)).write(Buffer.alloc(size - HEADER, 7), HEADER);
      newLog().zero(1, 1000, bytes);
      const expected = Buffer.alloc(size, 7).fill(0, 1000, 1000 + bytes);
      expect(bytesOf(1).subarray(HEADER).equals(expected.subarray(HEADER))).toBe(true);
    },
  );

  test("is flushed with the others of its segment, once, and no segment that nothing was zeroed in", async () => {
    const at = layBatch(1, HEADER, "a");
    laySeal(1, at);
    laySegment(2);
    laySeal(2, HEADER);
    laySegment(3);
    const log = readLog();
    expect(await flushedOf(log)).toEqual([]);
    log.zero(1, 300, 5);
    log.zero(3, 300, 5000);
    log.zero(1, 400, 6);
    expect(done()).toEqual([
      `write 5 at 300 ${nameOf(1)}`,
      `write 5000 at 300 ${nameOf(3)}`,
      `write 6 at 400 ${nameOf(1)}`,
    ]);
    // Of little a whole page, each time.
    expect(await flushedOf(log)).toEqual([
      [pathOf(1), 2 * 4096],
      [pathOf(3), 5000],
    ]);
    expect(await flushedOf(log)).toEqual([]);
    await log.flushOffThread();
    expect(done()).toEqual([1, 2, 3].map((number) => `flushOffThread ${nameOf(number)}`));
  });

  test("is not on the disk before its flush is done, which may be off the thread and may fail", async () => {
    const log = readLog();
    log.zero(1, 300, 5);
    let isDone = false;
    await log.flushZeroed(async () => {
      await null;
      isDone = true;
    });
    expect(isDone).toBe(true);
    log.zero(1, 300, 5);
    await expect(
      log.flushZeroed(async () => {
        throw new Error("it fails");
      }),
    ).rejects.toThrow("it fails");
  });
});

describe("closing", () => {
  test("closes every file, whatever one of them says", () => {
    const at = layBatch(1, HEADER, "a");
    laySeal(1, at);
    laySegment(2);
    const log = readLog();
    let closes = 0;
    before = ({ call, path }) => {
      if (call === "close" && ++closes === 1) throw full(path);
    };
    log.close();
    expect(closes).toBe(2);
    log.close();
    expect(closes).toBe(2);
  });
});

test("files may have been moved under a reader where one is missing or damaged; else not", () => {
  const disk = (code: string) => diskError("open", "/x", Object.assign(new Error(code), { code }));
  expect(mayHaveMoved(disk("ENOENT"))).toBe(true);
  expect(mayHaveMoved(new CheeseError("CORRUPT", "damaged"))).toBe(true);
  expect(mayHaveMoved(disk("EIO"))).toBe(false);
  expect(mayHaveMoved(new CheeseError("NEWER_FORMAT", "newer"))).toBe(false);
  expect(mayHaveMoved(new Error("CORRUPT"))).toBe(false);
});
