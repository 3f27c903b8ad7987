// One file of the log, read as it may lie on the disk: batches longer than the window, zeros longer than a scan's step, and
// headers exactly where one step ends and the next begins.

import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { BatchBuilder, type LogEnd } from "../src/batch.ts";
import {
  BATCH_HEADER_BYTES,
  type BatchHeader,
  batchBytes,
  COMMIT_MARKER_BYTES,
  encodeSeal,
  NO_HASH,
  readBatchHeader,
  SpineReader,
  writeBatchHeader,
  writeCommitMarker,
} from "../src/codec.ts";
import type { File } from "../src/disk.ts";
import {
  type AgentIds,
  createSegment,
  FileWindow,
  type Found,
  type FoundBatch,
  findAt,
  holdsArea,
  lastWritten,
  nextHeader,
  readSegmentHeader,
  readSpines,
  SEGMENT_START,
  somethingFollows,
  textsCheck,
} from "../src/segment.ts";
import { MemoryDisk } from "./memorydisk.ts";

const AGENT_ID = Buffer.alloc(16, 9);
const SEGMENT = 1;
/** What a scan looks at in one step, and the most that a window grows to by itself. */
const STEP = 256 * 1024;
const WINDOW_MIN = 64 * 1024;
const WINDOW_MAX = 1024 * 1024;
const START: LogEnd = { record: 0, entries: 0, head: NO_HASH };

let file: File;
let end: LogEnd;

beforeEach(() => {
  file = MemoryDisk.of(new Map<string, Buffer | null>([["/", null]])).create("/segment");
  file.truncate(SEGMENT_START);
  end = START;
});

/** Writes a batch of texts at a place, and says where it ends. */
function writeBatch(at: number, ...texts: string[]): number {
  const builder = new BatchBuilder(AGENT_ID, (bytes) => bytes.fill(0xee));
  builder.begin(end);
  for (const text of texts) builder.addLot(1, "x", { text, uri: null }, null);
  const bytes = builder.finish({ segment: SEGMENT, offset: at });
  file.write(bytes, at);
  const { record, entries, head } = builder;
  end = { record, entries, head };
  return at + bytes.length;
}

function overwrite(at: number, ...bytes: number[]) {
  file.write(Uint8Array.from(bytes), at);
}

const find = (at: number, window = new FileWindow(file)) => findAt(window, AGENT_ID, SEGMENT, at);

function found(at: number, window?: FileWindow): FoundBatch {
  const batch: Found = find(at, window);
  if (batch.what !== "batch") throw new Error(`${batch.what} stands at ${at}`);
  return batch;
}

describe("a segment's header", () => {
  const ids = { storeId: Buffer.alloc(16, 1), agentId: AGENT_ID };
  const info = { number: 7, before: { record: 5, entries: 4, head: "h".repeat(32) } };
  const newDisk = () => MemoryDisk.of(new Map<string, Buffer | null>([["/", null]]));

  test("says where the log stood, and is damage by another store, agent, generation or number, with the place", () => {
    const created = createSegment(newDisk(), "/7", ids, 3, info, 1000);
    expect(created.stat().size).toBe(SEGMENT_START + 1000);
    expect(lastWritten(new FileWindow(created), SEGMENT_START)).toBe(SEGMENT_START);
    expect(readSegmentHeader(created, ids, 3, 7)).toEqual(info);
    const other = Buffer.alloc(16, 2);
    const refused: [AgentIds, number, number, number][] = [
      [{ ...ids, storeId: other }, 3, 7, 16],
      [{ ...ids, agentId: other }, 3, 7, 16],
      [ids, 4, 7, 12],
      [ids, 3, 8, 12],
    ];
    for (const [whose, generation, number, offset] of refused) {
      let error: unknown = null;
      try {
        readSegmentHeader(created, whose, generation, number);
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toMatchObject({ code: "CORRUPT", file: "/7", offset });
    }
  });

  test.each(["write", "flush"] as const)(
    "that fails in its %s leaves no file open, and is told",
    (call) => {
      const disk = newDisk();
      let isClosed = false;
      const create = (path: string): File => ({
        ...disk.create(path),
        [call]: () => {
          throw new Error("it fails");
        },
        close: () => {
          isClosed = true;
        },
      });
      const faulty = Object.assign(Object.create(disk), { create }) as MemoryDisk;
      expect(() => createSegment(faulty, "/7", ids, 3, info, 0)).toThrow("it fails");
      expect(isClosed).toBe(true);
    },
  );
});

describe("a window", () => {
  beforeEach(() => {
    const bytes = Buffer.alloc(3 * WINDOW_MAX + 100);
    for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(at, at);
    file.write(bytes, 0);
  });

  test.each([
    ["from the beginning", [0, 4, 8]],
    ["backwards", [WINDOW_MIN, WINDOW_MIN - 4, 0]],
    ["on both sides of its end", [0, WINDOW_MIN - 8, WINDOW_MIN - 4, WINDOW_MIN, WINDOW_MIN + 4]],
    ["far on and back", [0, 2 * WINDOW_MAX, 4, 2 * WINDOW_MAX - 4]],
  ])("shows what stands at a place: %s", (_how, places) => {
    const window = new FileWindow(file);
    for (const at of places) {
      const view = window.view(at, 8);
      expect([view.length, view.readUInt32LE(0), view.readUInt32LE(4)]).toEqual([8, at, at + 4]);
    }
  });

  test("shows as much as is asked for, also more than it holds, and less only where the file ends", () => {
    const window = new FileWindow(file);
    const size = file.stat().size;
    expect(window.view(4, 2 * WINDOW_MAX).length).toBe(2 * WINDOW_MAX);
    expect(window.view(4, 2 * WINDOW_MAX).readUInt32LE(2 * WINDOW_MAX - 4)).toBe(2 * WINDOW_MAX);
    expect(window.view(size - 8, 100).length).toBe(8);
    expect(window.view(size - 8, 100).readUInt32LE(4)).toBe(size - 4);
    expect(window.view(size, 8).length).toBe(0);
    expect(window.view(size + 8, 8).length).toBe(0);
  });

  test("reads ahead when it is read in a row, in steps that grow up to a bound; else what is asked for", () => {
    let reads = 0;
    const counted: File = {
      ...file,
      read: (into, at) => {
        reads++;
        return file.read(into, at);
      },
    };
    const window = new FileWindow(counted);
    expect(window.reaches(0)).toBe(false);
    for (let at = 0; at < file.stat().size - 8; at += 4096) window.view(at, 4096);
    // 64, then 128, 256, 512 KiB, then 1 MiB each.
    expect(reads).toBe(7);
    expect(window.bytes).toBe(WINDOW_MAX);
    expect(window.reaches(0)).toBe(false);
    expect(window.reaches(file.stat().size)).toBe(true);
    expect(window.reaches(file.stat().size + 1)).toBe(false);
  });
});

describe("a batch", () => {
  test.each([
    ["in the window", 10],
    ["longer than the window", 3 * WINDOW_MIN],
    ["longer than a window ever gets by itself", WINDOW_MAX],
  ])(
    "%s is found with its records and texts, and is broken by any byte of its marker",
    (_what, length) => {
      const at = writeBatch(SEGMENT_START, "a".repeat(length), "b");
      const batch = found(SEGMENT_START);
      expect([batch.at, batch.end, batch.headAfter]).toEqual([SEGMENT_START, at, end.head]);
      const reader = new SpineReader(AGENT_ID);
      const places: number[] = [];
      const after = readSpines(batch, START, reader, (_spineAt, areaAt) => places.push(areaAt));
      expect(after).toEqual(end);
      expect(places[0]).toBe(batch.areasAt);
      const textsAreWell = () => {
        const window = new FileWindow(file);
        return textsCheck(window, found(SEGMENT_START, window), reader);
      };
      expect(textsAreWell()).toBe(true);
      const [first = 0, second = 0] = places;
      for (const flipped of [first + 40, second - 1, second + 32]) {
        const byte = Buffer.alloc(1);
        file.read(byte, flipped);
        overwrite(flipped, byte.readUInt8() ^ 1);
        expect(textsAreWell()).toBe(false);
        overwrite(flipped, byte.readUInt8());
      }
      for (const flipped of [at - 40, at - 36, at - 1]) {
        const byte = Buffer.alloc(1);
        file.read(byte, flipped);
        overwrite(flipped, byte.readUInt8() ^ 1);
        expect(find(SEGMENT_START)).toEqual({ what: "broken", at: SEGMENT_START, end: at });
        overwrite(flipped, byte.readUInt8());
      }
      expect(find(SEGMENT_START).what).toBe("batch");
    },
  );

  test("ends with the file at the latest: one byte less, and it is broken", () => {
    const at = writeBatch(SEGMENT_START, "x");
    expect(find(SEGMENT_START).what).toBe("batch");
    file.truncate(at - 1);
    expect(find(SEGMENT_START)).toEqual({ what: "broken", at: SEGMENT_START, end: at - 1 });
  });

  test("of one byte that is not zero is broken, and no end of the log", () => {
    file.truncate(SEGMENT_START + 100);
    expect(find(SEGMENT_START)).toEqual({ what: "nothing", at: SEGMENT_START });
    for (const place of [SEGMENT_START, SEGMENT_START + 59]) {
      overwrite(place, 1);
      expect(find(SEGMENT_START).what).toBe("broken");
      overwrite(place, 0);
    }
  });

  test.each([true, false])(
    "that does not follow is damage, chained (%s) or not: by its record, its entries or its head",
    (chained) => {
      writeBatch(SEGMENT_START, "x");
      const reader = new SpineReader(AGENT_ID);
      const read = (before: LogEnd) => () =>
        readSpines(found(SEGMENT_START), before, reader, () => {}, { chained });
      expect(read(START)()).toEqual(end);
      expect(read({ ...START, record: 1 })).toThrow("does not follow record 1");
      expect(read({ ...START, entries: 1 })).toThrow("does not follow record 0");
      expect(read({ ...START, head: "h".repeat(32) })).toThrow("does not follow record 0");
    },
  );

  /** Writes a batch that checks, of records that were made to follow `begun`, with what its header and marker say changed. */
  function forge(
    add: (builder: BatchBuilder) => void,
    { begun = START, says = {}, head, map = [], leftOut = 0 }: Forgery,
  ) {
    const builder = new BatchBuilder(AGENT_ID, (bytes) => bytes.fill(0xee));
    builder.begin(begun);
    add(builder);
    const place = { agentId: AGENT_ID, segment: SEGMENT, offset: SEGMENT_START };
    const whole = builder.finish(place);
    const header = readBatchHeader(whole, 0, place);
    if (!header) throw new Error("the batch does not check");
    const { spineBytes } = header;
    const spines = whole.subarray(BATCH_HEADER_BYTES, BATCH_HEADER_BYTES + spineBytes);
    const areas = whole.subarray(
      BATCH_HEADER_BYTES + spineBytes + leftOut,
      whole.length - COMMIT_MARKER_BYTES,
    );
    const compacted = map.length > 0;
    const now = { ...header, headBefore: NO_HASH, areaBytes: areas.length, compacted, ...says };
    const bytes = Buffer.alloc(batchBytes(now));
    writeBatchHeader(bytes, 0, now, place);
    const covered = Buffer.concat([
      bytes.subarray(0, BATCH_HEADER_BYTES),
      Buffer.from(map),
      spines,
    ]);
    covered.copy(bytes);
    areas.copy(bytes, covered.length);
    const markerAt = bytes.length - COMMIT_MARKER_BYTES;
    writeCommitMarker(bytes, markerAt, crc32(covered), head ?? builder.head);
    file.write(bytes, SEGMENT_START);
  }

  interface Forgery {
    begun?: LogEnd;
    says?: Partial<BatchHeader>;
    head?: string;
    map?: number[];
    leftOut?: number;
  }

  const lot = (text: string | null) => (builder: BatchBuilder) =>
    builder.addLot(1, "x", { text, uri: null }, null);
  const corroboration = (builder: BatchBuilder) => builder.addCorroboration(1, 1, [2]);
  const both =
    (...adds: ((builder: BatchBuilder) => void)[]) =>
    (builder: BatchBuilder) => {
      for (const add of adds) add(builder);
    };

  test.each<[string, (builder: BatchBuilder) => void, Forgery, RegExp | null]>([
    ["nothing", both(lot("a"), corroboration), {}, null],
    [
      "its record",
      lot("a"),
      { begun: { ...START, record: 1 }, says: { firstRecord: 1 } },
      /record 2 stands where 1 is due/,
    ],
    [
      "its entry",
      lot("a"),
      { begun: { ...START, entries: 1 }, says: { entriesBefore: 0 } },
      /entry 2 stands where 1 is due/,
    ],
    [
      "fewer records than spines",
      both(lot("a"), corroboration),
      { says: { count: 1 } },
      /longer or shorter/,
    ],
    ["more areas than texts", lot("a"), { says: { areaBytes: 96 } }, /longer or shorter/],
    ["the head after it", lot("a"), { head: "h".repeat(32) }, /the chain breaks/],
  ])(
    "whose marker holds is damage where its header is wrong by %s",
    (_what, add, forgery, message) => {
      forge(add, forgery);
      const read = () =>
        readSpines(found(SEGMENT_START), START, new SpineReader(AGENT_ID), () => {});
      if (message) expect(read).toThrow(message);
      else expect(read().record).toBe(2);
    },
  );

  test("holds its texts where some entries never had one, and where a compaction left some out", () => {
    const reader = new SpineReader(AGENT_ID);
    const texts = () => {
      const window = new FileWindow(file);
      return textsCheck(window, found(SEGMENT_START, window), reader);
    };
    const add = both(lot("first"), lot(null), corroboration, lot("second"));
    const areaOfFirst = 64;
    forge(add, {});
    expect(texts()).toBe(true);
    // Bits 0 and 3 are of the two texts.
    forge(add, { map: [0b1001] });
    expect([0, 1, 2, 3].map((i) => holdsArea(found(SEGMENT_START), i))).toEqual([
      true,
      false,
      false,
      true,
    ]);
    expect(texts()).toBe(true);
    forge(add, { map: [0b1000], leftOut: areaOfFirst });
    expect(texts()).toBe(true);
    const places: number[] = [];
    readSpines(found(SEGMENT_START), START, reader, (_spineAt, areaAt) => places.push(areaAt));
    expect(places).toEqual([0, 0, 0, found(SEGMENT_START).areasAt]);
    forge(add, { map: [0b0001], leftOut: areaOfFirst });
    expect(texts()).toBe(false);
    expect(textsCheck(new FileWindow(file), { what: "nothing", at: SEGMENT_START }, reader)).toBe(
      false,
    );
  });
});

// A header that checks stands wherever a step may begin or end, its magic cut in two among others.
const AROUND = [-65, -61, -60, -59, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5];

describe("looking on behind a broken place", () => {
  test.each([0, 1, ...AROUND.flatMap((off) => [STEP + off, 2 * STEP + off])])(
    "finds a batch %i bytes further on, and where it begins",
    (distance) => {
      const at = SEGMENT_START + 1 + distance;
      const after = writeBatch(at, "x");
      const window = new FileWindow(file);
      expect(nextHeader(window, AGENT_ID, SEGMENT, SEGMENT_START)).toBe(at);
      expect(nextHeader(window, AGENT_ID, SEGMENT, at)).toBe(-1);
      for (const end of [null, SEGMENT_START + 1, at]) {
        const broken = { at: SEGMENT_START, end };
        expect(somethingFollows(window, AGENT_ID, SEGMENT, broken)).toBe(true);
      }
      expect(somethingFollows(window, AGENT_ID, SEGMENT, { at: SEGMENT_START, end: at + 1 })).toBe(
        false,
      );
      expect(somethingFollows(window, AGENT_ID, SEGMENT, { at, end: null })).toBe(false);
      expect(lastWritten(window, SEGMENT_START)).toBe(after);
      file.truncate(after + STEP + distance);
      expect(lastWritten(new FileWindow(file), SEGMENT_START)).toBe(after);
    },
  );

  test.each([0, 1, STEP - 2, STEP - 1, STEP])(
    "finds a seal too, %i bytes further on",
    (distance) => {
      const at = SEGMENT_START + 1 + distance;
      const place = { agentId: AGENT_ID, segment: SEGMENT, offset: at };
      file.write(encodeSeal(0, 0, NO_HASH, place), at);
      for (const end of [null, SEGMENT_START + 1, at]) {
        const broken = { at: SEGMENT_START, end };
        expect(somethingFollows(new FileWindow(file), AGENT_ID, SEGMENT, broken)).toBe(true);
      }
      overwrite(at + 5, 1);
      const broken = { at: SEGMENT_START, end: null };
      expect(somethingFollows(new FileWindow(file), AGENT_ID, SEGMENT, broken)).toBe(false);
    },
  );

  test("passes by what only looks like a header, and finds the one behind it", () => {
    const magic = [...Buffer.from("BTCH")];
    for (const at of [200, 204, 300]) overwrite(at, ...magic);
    writeBatch(400, "x");
    const window = new FileWindow(file);
    expect(nextHeader(window, AGENT_ID, SEGMENT, SEGMENT_START)).toBe(400);
    expect(somethingFollows(window, AGENT_ID, SEGMENT, { at: SEGMENT_START, end: null })).toBe(
      true,
    );
    overwrite(404, 9);
    const now = new FileWindow(file);
    expect(nextHeader(now, AGENT_ID, SEGMENT, SEGMENT_START)).toBe(-1);
    expect(somethingFollows(now, AGENT_ID, SEGMENT, { at: SEGMENT_START, end: null })).toBe(false);
  });

  test.each([0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP])(
    "knows the last byte that is not zero, %i bytes on",
    (distance) => {
      file.truncate(SEGMENT_START + 4 * STEP);
      expect(lastWritten(new FileWindow(file), SEGMENT_START)).toBe(SEGMENT_START);
      overwrite(SEGMENT_START - 1, 1);
      expect(lastWritten(new FileWindow(file), SEGMENT_START)).toBe(SEGMENT_START);
      overwrite(SEGMENT_START + distance, 1);
      expect(lastWritten(new FileWindow(file), SEGMENT_START)).toBe(SEGMENT_START + distance + 1);
    },
  );
});
