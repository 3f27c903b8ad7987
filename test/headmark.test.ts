// The head mark by itself: which slot is written, which is believed, and what is said of the other.

import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import type { Disk } from "../src/disk.ts";
import { firstHeadMark, nextSequence, readHeadMark, writeHeadMark } from "../src/headmark.ts";
import { MemoryDisk, watched } from "./memorydisk.ts";

const PATH = "/agent/head";
const SLOT_STEP = 512;
const IDS = { storeId: Buffer.alloc(16, 1), agentId: Buffer.alloc(16, 2) };
const head = (letter: string) => letter.repeat(32);

let disk: MemoryDisk;

beforeEach(() => {
  disk = MemoryDisk.of(
    new Map<string, Buffer | null>([
      ["/", null],
      ["/agent", null],
      [PATH, firstHeadMark(IDS, head("0"))],
    ]),
  );
});

const bytesOf = () => disk.image().get(PATH) as Buffer;
const lay = (bytes: Buffer) => disk.open(PATH).write(bytes, 0);
const write = (sequence: number, record: number, letter: string, done = 0) =>
  writeHeadMark(disk, PATH, IDS, { record, head: head(letter), done, sequence });

describe("reading", () => {
  test("a new agent's says that nothing is written yet, in both slots", () => {
    expect(bytesOf().length).toBe(2 * SLOT_STEP);
    expect(readHeadMark(disk, PATH, IDS)).toEqual({
      record: 0,
      head: head("0"),
      done: 0,
      sequence: 2,
      health: "ok",
    });
  });

  test("the slot with the greater number is believed, wherever it stands", () => {
    for (const [sequence, letter] of [
      [3, "a"],
      [4, "b"],
      [5, "c"],
    ] as const) {
      write(sequence, sequence * 10, letter, sequence);
      expect(readHeadMark(disk, PATH, IDS)).toEqual({
        record: sequence * 10,
        head: head(letter),
        done: sequence,
        sequence,
        health: "ok",
      });
    }
  });

  test.each([
    ["the newer one's", SLOT_STEP, 3],
    ["the older one's", 0, 4],
  ])(
    "with a byte of %s slot changed the other is believed, and it is said",
    (_which, at, sequence) => {
      write(3, 30, "a");
      write(4, 40, "b");
      const bytes = bytesOf();
      bytes.writeUInt8(bytes.readUInt8(at + 40) ^ 1, at + 40);
      lay(bytes);
      expect(readHeadMark(disk, PATH, IDS)).toMatchObject({
        record: sequence * 10,
        sequence,
        health: "one slot damaged",
      });
    },
  );

  test.each([
    [2 * SLOT_STEP, "ok", 2],
    [SLOT_STEP + 128, "ok", 2],
    [SLOT_STEP + 127, "one slot damaged", 1],
    [SLOT_STEP, "one slot damaged", 1],
    [128, "one slot damaged", 1],
    [127, "missing", 0],
    [0, "missing", 0],
  ])("a file of %i bytes is %s", (size, health, sequence) => {
    disk.open(PATH).truncate(size);
    expect(readHeadMark(disk, PATH, IDS)).toMatchObject({ health, sequence });
  });

  test("no file, and one of another agent or store, are as good as none", () => {
    const nothing = { record: 0, head: null, done: 0, sequence: 0, health: "missing" };
    for (const which of ["storeId", "agentId"]) {
      const other = { ...IDS, [which]: Buffer.alloc(16, 9) };
      expect(readHeadMark(disk, PATH, other)).toEqual(nothing);
    }
    disk.removeFile(PATH);
    expect(readHeadMark(disk, PATH, IDS)).toEqual(nothing);
  });

  test("one of a newer format is refused as such, and one that cannot be read is no missing one", () => {
    const bytes = bytesOf();
    for (const at of [0, SLOT_STEP]) {
      bytes.writeUInt16LE(2, at + 8);
      bytes.writeUInt32LE(crc32(bytes.subarray(at, at + 124)), at + 124);
    }
    lay(bytes);
    expect(() => readHeadMark(disk, PATH, IDS)).toThrow("format");
    const failing: Disk = Object.assign(Object.create(disk), {
      open: () => {
        throw new Error("it fails");
      },
    });
    expect(() => readHeadMark(failing, PATH, IDS)).toThrow("it fails");
  });
});

describe("writing", () => {
  /** The disk, and in turn what is done to its files. */
  function noted(): { noting: Disk; calls: string[] } {
    const calls: string[] = [];
    const noting = watched(disk, ({ call, at, bytes }) => {
      if (call === "write") calls.push(`write ${bytes} at ${at}`);
      if (call === "flush" || call === "close") calls.push(call);
    });
    return { noting, calls };
  }

  test("is of one slot, the one that is not the newest, flushed and closed", () => {
    const { noting, calls } = noted();
    for (const sequence of [3, 4, 5])
      writeHeadMark(noting, PATH, IDS, { record: 1, head: head("a"), done: 0, sequence });
    const each = (at: number) => [`write 128 at ${at}`, "flush", "close"];
    expect(calls).toEqual([...each(0), ...each(SLOT_STEP), ...each(0)]);
  });

  test("begins anew in a new file, so that none that has a second name is written to", () => {
    const inode = () => disk.stat(PATH)?.inode;
    const first = inode();
    write(3, 1, "a");
    expect(inode()).toBe(first);
    write(1, 2, "b");
    expect(inode()).not.toBe(first);
    expect(readHeadMark(disk, PATH, IDS)).toMatchObject({ record: 2, sequence: 1 });
    disk.removeFile(PATH);
    write(1, 3, "c");
    expect(readHeadMark(disk, PATH, IDS)).toMatchObject({ record: 3, sequence: 1 });
    disk.removeFile(PATH);
    write(7, 4, "d");
    expect(readHeadMark(disk, PATH, IDS)).toMatchObject({ record: 4, sequence: 7 });
  });

  test("does not go through a link in the folder's place", () => {
    const linked: Disk = {
      ...watched(disk, () => {}),
      stat: (path) => {
        const stat = disk.stat(path);
        return stat && path === "/agent" ? { ...stat, type: "link" } : stat;
      },
    };
    const before = bytesOf();
    expect(() =>
      writeHeadMark(linked, PATH, IDS, { record: 1, head: head("a"), done: 0, sequence: 3 }),
    ).toThrow("is a link");
    expect(bytesOf().equals(before)).toBe(true);
  });

  test("numbers go up by one, and after the last that fits begin with 1", () => {
    const mark = readHeadMark(disk, PATH, IDS);
    const after = (sequence: number) => nextSequence({ ...mark, sequence });
    expect([0, 1, 2, 0xffff_fffe, 0xffff_ffff].map(after)).toEqual([1, 2, 3, 0xffff_ffff, 1]);
  });
});
