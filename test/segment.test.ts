// One file of the log, read as it may lie on the disk: batches longer than the window, zeros longer than a scan's step, and
// headers exactly where one step ends and the next begins.

import { beforeEach, describe, expect, test } from "vitest";
import { BatchBuilder, type LogEnd } from "../src/batch.ts";
import { NO_HASH, SpineReader } from "../src/codec.ts";
import type { File } from "../src/disk.ts";
import {
  type AgentIds,
  createSegment,
  FileWindow,
  type Found,
  type FoundBatch,
  findAt,
  lastWritten,
  nextHeader,
  readSegmentHeader,
  readSpines,
  SEGMENT_START,
  somethingFollows,
  textsCheck,
} from "../src/segment.ts";
import { codeOf } from "./helpers.ts";
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
      const window = new FileWindow(file);
      expect(textsCheck(window, found(SEGMENT_START, window), reader)).toBe(true);
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

  test("that does not follow is damage: by its record, its entries or its head", async () => {
    writeBatch(SEGMENT_START, "x");
    const reader = new SpineReader(AGENT_ID);
    const read = async (before: LogEnd) =>
      readSpines(found(SEGMENT_START), before, reader, () => {});
    expect(await codeOf(() => read(START))).toBe(null);
    expect(await codeOf(() => read({ ...START, record: 1 }))).toBe("CORRUPT");
    expect(await codeOf(() => read({ ...START, entries: 1 }))).toBe("CORRUPT");
    expect(await codeOf(() => read({ ...START, head: "h".repeat(32) }))).toBe("CORRUPT");
  });
});

// A header that checks stands wherever a step may begin or end, its magic cut in two among others.
const AROUND = [-65, -61, -60, -59, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5];

describe("looking on behind a broken place", () => {
  test.each(AROUND.flatMap((off) => [STEP + off, 2 * STEP + off]))(
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
