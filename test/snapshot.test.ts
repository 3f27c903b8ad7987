// The snapshot against files laid from docs/format.md: what is read out of one, and that every doubt about it makes it missing,
// though its checksums hold.

import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { encodeFileHeader, type FileHeader, LIMITS } from "../src/codec.ts";
import { type Disk, diskError } from "../src/disk.ts";
import type { Graph } from "../src/graph.ts";
import type { Places } from "../src/places.ts";
import { readSnapshot, type Snapshot, snapshotDiffers, writeSnapshot } from "../src/snapshot.ts";
import { allAtOnce } from "../src/steps.ts";
import { type DiskCall, MemoryDisk, watched } from "./memorydisk.ts";

const FOLDER = "/agent";
const PATH = "/agent/graph";
const IDS = { storeId: Buffer.alloc(16, 1), agentId: Buffer.alloc(16, 2) };
const HEAD = "\xab".repeat(32);
const AT = { generation: 3, record: 9, entries: 5, hash: HEAD, extra: 2, place: 70_000 };
const NAMES = [
  ...["diedAt", "legOwner", "legBroken", "childStart", "childLegs", "spineAt", "areaAt"],
  ...["legs", "legMemory", "legSegment", "legSpineAt"],
  ...["actRecord", "actSegment", "actSpineAt", "actFlags"],
  ...["flags", "holding", "areaUnits"],
] as const;
type Name = (typeof NAMES)[number];
const NARROW: readonly string[] = ["flags", "holding", "areaUnits"];
const [MEMORY, REMOVED, RECALLED, GONE, BELOW_ERASED] = [1, 2, 4, 8, 16];

interface Layout {
  entries: number;
  memories: number;
  alive: number;
  legs: number;
  edges: number;
  arrays: Record<Name, ArrayLike<number>>;
}

/**
 * Lots 1 and 4; memory 2 on 1; memory 3 on 1, or on 2; memory 5 on 4, and by corroboration on 1. Lot 4 was recalled with erase
 * and is gone; then the text of 3 was dropped, then 4 recalled again.
 */
const small = (): Layout => ({
  entries: 5,
  memories: 3,
  alive: 4,
  legs: 5,
  edges: 5,
  arrays: {
    diedAt: [0, 0, 0, 0, 7, 0],
    legOwner: [2, 3, 3, 5, 5],
    legBroken: [0b1000],
    childStart: [0, 0, 3, 4, 4, 5, 5],
    childLegs: [0, 1, 4, 2, 3],
    spineAt: [0, 188, 300, 420, 560, 700],
    areaAt: [0, 1188, 1300, 1420, 1560, 1700],
    legs: [4],
    legMemory: [5],
    legSegment: [1],
    legSpineAt: [2000],
    actRecord: [7, 8, 9],
    actSegment: [1, 1, 2],
    actSpineAt: [2100, 2200, 188],
    actFlags: [1, 3, 0],
    flags: [0, 0, MEMORY, MEMORY | GONE, RECALLED | GONE | BELOW_ERASED, MEMORY | 64],
    holding: [0, 0, 1, 2, 0, 1],
    areaUnits: [0, 2, 2, 2, 2, 3],
  },
});

/** The bytes of a snapshot's file. `counts` is what its table says, if that is not what stands in it. */
function laid(
  { entries, memories, alive, legs, edges, arrays }: Layout,
  header: Partial<FileHeader> & { counts?: number[]; bytesMore?: number } = {},
): Buffer {
  const sizes = NAMES.map((name) => arrays[name].length);
  const counts = header.counts ?? [entries, memories, alive, legs, edges, ...sizes];
  const bytesOf = (array: Uint32Array | Uint16Array) =>
    Buffer.from(array.buffer, array.byteOffset, array.byteLength);
  const body = Buffer.concat([
    bytesOf(Uint32Array.from(counts)),
    ...NAMES.map((name) =>
      bytesOf(
        NARROW.includes(name) ? Uint16Array.from(arrays[name]) : Uint32Array.from(arrays[name]),
      ),
    ),
    Buffer.alloc(header.bytesMore ?? 0),
  ]);
  const fields = { kind: "snapshot" as const, ...IDS, ...AT, bodyBytes: body.length };
  return Buffer.concat([encodeFileHeader({ ...fields, bodyCheck: crc32(body), ...header }), body]);
}

/** Of nothing at all. */
const NONE = Object.fromEntries(NAMES.map((name) => [name, []])) as unknown as Layout["arrays"];

/** The small one with some of its arrays changed. */
function withArrays(arrays: Partial<Layout["arrays"]>, counted: Partial<Layout> = {}): Buffer {
  const layout = small();
  return laid({ ...layout, ...counted, arrays: { ...layout.arrays, ...arrays } });
}

const changedAt = (array: ArrayLike<number>, at: number, value: number) =>
  Array.from(array, (old, i) => (i === at ? value : old));

let calls: DiskCall[];
beforeEach(() => {
  calls = [];
});

function diskWith(file: Buffer | null, before: (call: DiskCall) => void = () => {}): Disk {
  const disk = MemoryDisk.of(new Map(["/", FOLDER].map((path): [string, null] => [path, null])));
  if (file) disk.create(PATH).write(file, 0);
  return watched(disk, (call) => {
    calls.push(call);
    before(call);
  });
}

const read = (file: Buffer | null, generation: number | null = AT.generation) =>
  readSnapshot(diskWith(file), FOLDER, IDS, generation);
const REFUSED = { health: "damaged", snapshot: null, record: AT.record };
const UNKNOWN = { health: "damaged", snapshot: null, record: 0 };

function taken(file: Buffer): Snapshot {
  const found = read(file);
  expect(found).toMatchObject({ health: "ok", record: AT.record });
  if (!found.snapshot) throw new Error("there is no snapshot");
  return found.snapshot;
}

/** Every array as far as it is filled. */
function arraysOf({ graph, places }: Pick<Snapshot, "graph" | "places">) {
  const all = { ...graph, ...places } as Graph & Places;
  const { entryCount, legCount } = graph;
  const filled = (name: Name): ArrayLike<number> => {
    const array = all[name];
    if (!ArrayBuffer.isView(array)) return array.view();
    if (name === "legOwner") return array.subarray(0, legCount);
    if (name === "legBroken") return array.subarray(0, Math.ceil(legCount / 32));
    if (name === "childStart" || name === "childLegs") return array;
    return array.subarray(0, entryCount + 1);
  };
  return Object.fromEntries(NAMES.map((name) => [name, [...Array.from(filled(name))]]));
}

describe("what is read", () => {
  test("is what the format says stands there", () => {
    const layout = small();
    const snapshot = taken(laid(layout));
    expect(arraysOf(snapshot)).toEqual(layout.arrays);
    expect(snapshot.graph).toMatchObject({
      entryCount: 5,
      memoryCount: 3,
      aliveCount: 4,
      legCount: 5,
      edgeCount: 5,
      settledEntries: 5,
    });
    expect(snapshot.generation).toBe(3);
    expect(snapshot.position).toEqual({
      segment: 2,
      offset: 70_000,
      record: 9,
      entries: 5,
      head: HEAD,
    });
    expect(calls.at(-1)).toMatchObject({ call: "close" });
  });

  test("and written again, is the same file", () => {
    const file = laid(small());
    const disk = MemoryDisk.of(new Map(["/", FOLDER].map((path): [string, null] => [path, null])));
    writeSnapshot(disk, FOLDER, IDS, taken(file));
    expect(disk.image().get(PATH)).toEqual(file);
    expect([...disk.image().keys()]).toEqual(["/", FOLDER, PATH]);
  });

  test("the newest record that takes texts", () => {
    const lastErase = (actFlags: number[]) => taken(withArrays({ actFlags })).places.lastErase;
    expect(lastErase([1, 3, 0])).toBe(8);
    expect(lastErase([1, 0, 0])).toBe(7);
    expect(lastErase([0, 0, 3])).toBe(9);
    expect(lastErase([0, 2, 0])).toBe(0);
  });

  test("what is dead below an erased target and has its text", () => {
    const stragglers = (...ofEntries: number[]) => [
      ...taken(withArrays({ flags: [0, ...ofEntries] })).graph.stragglers,
    ];
    const left = REMOVED | BELOW_ERASED;
    expect(stragglers(left, 0, RECALLED | BELOW_ERASED, 0, left)).toEqual([1, 3, 5]);
    expect(stragglers(left | GONE, REMOVED, BELOW_ERASED, REMOVED | GONE, GONE)).toEqual([]);
  });

  test("of another generation, or of any, no more than is asked for", () => {
    expect(read(laid(small()), 4)).toEqual({ health: "ok", snapshot: null, record: 9 });
    expect(calls.filter(({ call }) => call === "read")).toHaveLength(1);
    expect(read(laid(small()), null).snapshot?.generation).toBe(3);
  });

  test("legs that fill a word of bits, and one more", () => {
    for (const legs of [31, 32, 33, 64, 65]) {
      const childLegs = Array.from({ length: legs }, (_, i) => i);
      const legBroken = Array.from({ length: Math.ceil(legs / 32) }, (_, i) => i + 1);
      const file = withArrays(
        {
          legOwner: childLegs.map(() => 2),
          legBroken,
          childLegs,
          childStart: [0, 0, legs, legs, legs, legs, legs],
          legs: [legs - 1],
        },
        { legs, edges: legs },
      );
      expect([...taken(file).graph.legBroken.subarray(0, legBroken.length)]).toEqual(legBroken);
      for (const wrong of [[...legBroken, 0], legBroken.slice(1)])
        expect(
          read(
            withArrays(
              {
                legOwner: childLegs.map(() => 2),
                legBroken: wrong,
                childLegs,
                childStart: [0, 0, legs, legs, legs, legs, legs],
              },
              { legs, edges: legs },
            ),
          ),
        ).toEqual(REFUSED);
    }
  });

  test("a large one in reads of 4 MiB at the most, and what stands at their ends", () => {
    const entries = 1_200_000;
    const each = (of: (entry: number) => number) =>
      Uint32Array.from({ length: entries + 1 }, (_, entry) => of(entry));
    const isLast = (entry: number) => entry === entries || entry % 65_536 < 2;
    const layout: Layout = {
      ...small(),
      entries,
      memories: 0,
      alive: entries,
      legs: 0,
      edges: 0,
      arrays: {
        ...NONE,
        diedAt: each(() => 0),
        childStart: new Uint32Array(entries + 2),
        spineAt: each((entry) => entry * 3),
        areaAt: each((entry) => entry * 5),
        flags: each((entry) => (isLast(entry) ? REMOVED | BELOW_ERASED : 0)),
        holding: each(() => 0),
        areaUnits: each((entry) => entry % 60_000),
      },
    };
    const { graph, places } = taken(laid(layout, { entries }));
    const reads = calls.filter(({ call }) => call === "read").slice(1);
    expect(reads.every(({ bytes = 0 }) => bytes <= 4 * 1024 * 1024)).toBe(true);
    expect(reads.length).toBeGreaterThan(6);
    for (const entry of [1, 1_048_575, 1_048_576, 1_048_577, entries])
      expect([places.spineAt[entry], places.areaAt[entry], places.areaUnits[entry]]).toEqual([
        entry * 3,
        entry * 5,
        entry % 60_000,
      ]);
    const last = Array.from({ length: entries }, (_, i) => i + 1).filter(isLast);
    expect([...graph.stragglers]).toEqual(last);
  });
});

describe("what is none", () => {
  test("no file, no regular file, a file that cannot be read", () => {
    expect(read(null)).toEqual({ health: "none", snapshot: null, record: 0 });
    const disk = MemoryDisk.of(
      new Map(["/", FOLDER, PATH].map((path): [string, null] => [path, null])),
    );
    expect(readSnapshot(disk, FOLDER, IDS)).toEqual(UNKNOWN);
    for (const call of ["open", "look", "read"]) {
      const failing = diskWith(laid(small()), (made) => {
        const cause = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
        if (made.call === call) throw diskError(call, PATH, cause);
      });
      expect(() => readSnapshot(failing, FOLDER, IDS)).toThrow(
        expect.objectContaining({ code: "DISK" }),
      );
      expect(calls.some((made) => made.call === "close")).toBe(call !== "open");
      calls = [];
    }
  });

  test("another store's, another agent's, another kind of file, another version", () => {
    const other = Buffer.alloc(16, 9);
    expect(read(laid(small(), { storeId: other }))).toEqual(UNKNOWN);
    expect(read(laid(small(), { agentId: other }))).toEqual(UNKNOWN);
    expect(read(laid(small(), { kind: "headMark" }))).toEqual(UNKNOWN);
    const file = laid(small());
    file.writeUInt16LE(2, 8);
    file.writeUInt32LE(crc32(file.subarray(0, 124)), 124);
    expect(read(file)).toEqual(UNKNOWN);
    expect(calls.at(-1)).toMatchObject({ call: "close" });
  });

  test("one with any bit flipped, cut anywhere, or longer", () => {
    const file = laid(small());
    for (let bit = 0; bit < file.length * 8; bit += 3) {
      const flipped = Buffer.from(file);
      flipped[bit >>> 3] = (flipped[bit >>> 3] as number) ^ (1 << (bit & 7));
      expect(read(flipped)).toEqual(bit < 128 * 8 ? UNKNOWN : REFUSED);
    }
    for (let length = 0; length < file.length; length++)
      expect(read(file.subarray(0, length))).toEqual(length < 128 ? UNKNOWN : REFUSED);
    expect(read(Buffer.concat([file, Buffer.alloc(1)]))).toEqual(REFUSED);
  });

  test("one that is cut while it is read, wherever that is", () => {
    const file = laid(small());
    for (let length = 128; length < file.length; length++) {
      let looked = false;
      const disk = MemoryDisk.of(
        new Map([
          ["/", null],
          [FOLDER, null],
          [PATH, file],
        ]),
      );
      const cutting = watched(disk, ({ call, bytes }) => {
        if (looked && call === "read" && bytes !== 128) disk.open(PATH).truncate(length);
        if (call === "look") looked = true;
      });
      expect(readSnapshot(cutting, FOLDER, IDS)).toEqual(REFUSED);
    }
  });

  test("a table that asks for more or less than stands there, before anything of its size is made", () => {
    const layout = small();
    const sizes = NAMES.map((name) => layout.arrays[name].length);
    const right = [5, 3, 4, 5, 5, ...sizes];
    for (let i = 0; i < right.length; i++) {
      for (const by of [-1, 1, 0xffff_ffff - (right[i] as number)]) {
        const counts = changedAt(right, i, (right[i] as number) + by);
        // Any number of memories or living entries up to that of the entries is believed: verify compares it.
        const isPossible = (i === 1 || i === 2) && (counts[i] as number) <= 5;
        expect(read(laid(layout, { counts })).health).toBe(isPossible ? "ok" : "damaged");
      }
    }
    expect(read(laid(layout, { bytesMore: 4 }))).toEqual(REFUSED);
    expect(read(laid(layout, { bytesMore: -0 })).health).toBe("ok");
  });

  test("an array that is one longer or shorter than it is due, though all is counted right", () => {
    const { arrays } = small();
    for (const name of NAMES) {
      const array = Array.from(arrays[name]);
      expect(read(withArrays({ [name]: [...array, 0] }))).toEqual(REFUSED);
      expect(read(withArrays({ [name]: array.slice(0, -1) }))).toEqual(REFUSED);
    }
  });

  test("more memories or living entries than entries; another number of entries, or more records than there can be", () => {
    const layout = small();
    expect(read(laid({ ...layout, memories: 5, alive: 5 })).health).toBe("ok");
    expect(read(laid({ ...layout, memories: 6 }))).toEqual(REFUSED);
    expect(read(laid({ ...layout, alive: 6 }))).toEqual(REFUSED);
    expect(read(laid(layout, { entries: 4 }))).toEqual(REFUSED);
    expect(read(laid(layout, { entries: 6 }))).toEqual(REFUSED);
    expect(read(laid(layout, { record: LIMITS.count })).health).toBe("ok");
    const record = LIMITS.count + 1;
    expect(read(laid(layout, { record }))).toEqual({ ...REFUSED, record });
  });

  test("a number that leads out of what it counts, at every place of its array", () => {
    const { arrays } = small();
    const wrong = (
      name: Name,
      values: (at: number) => number[],
      right: (at: number) => number[],
    ) => {
      for (let at = 0; at < arrays[name].length; at++) {
        const changed = (value: number) =>
          withArrays({ [name]: changedAt(arrays[name], at, value) });
        for (const value of values(at)) expect(read(changed(value))).toEqual(REFUSED);
        for (const value of right(at)) expect(read(changed(value)).health).toBe("ok");
      }
    };
    wrong(
      "legOwner",
      () => [0, 6, 0xffff_ffff],
      () => [1, 5],
    );
    wrong(
      "childLegs",
      () => [5, 0xffff_ffff],
      () => [0, 4],
    );
    wrong(
      "legs",
      () => [5, 0xffff_ffff],
      () => [0, 4],
    );
    // Each start lies between those beside it, the last at the number of edges.
    const starts = Array.from(arrays.childStart);
    wrong(
      "childStart",
      (at) => [
        (starts[at + 1] ?? 5) + 1,
        ...(at > 0 && starts[at - 1] ? [(starts[at - 1] ?? 0) - 1] : []),
      ],
      (at) => (at === starts.length - 1 ? [5] : [starts[at + 1] as number]),
    );
    expect(read(withArrays({ childStart: [0, 0, 3, 4, 4, 4, 4] }))).toEqual(REFUSED);
  });

  test("such a number beyond the first part of a long array", () => {
    const entries = 65_540;
    const legs = 65_540;
    const long = (length: number, value: (i: number) => number) =>
      Uint32Array.from({ length }, (_, i) => value(i));
    const layout: Layout = {
      ...small(),
      entries,
      memories: entries,
      alive: entries,
      legs,
      edges: legs,
      arrays: {
        ...NONE,
        ...Object.fromEntries(
          ["diedAt", "spineAt", "areaAt", "flags", "holding", "areaUnits"].map((name) => [
            name,
            new Uint32Array(entries + 1),
          ]),
        ),
        legOwner: long(legs, (leg) => leg + 1),
        legBroken: new Uint32Array(Math.ceil(legs / 32)),
        childStart: long(entries + 2, (entry) => Math.min(entry, legs)),
        childLegs: long(legs, (leg) => leg),
      },
    };
    expect(read(laid(layout, { entries })).health).toBe("ok");
    for (const at of [65_534, 65_535, 65_536, 65_537, 65_539]) {
      for (const [name, value] of [
        ["legOwner", 0],
        ["childLegs", legs],
        ["childStart", 0],
      ] as const) {
        const arrays = { ...layout.arrays, [name]: changedAt(layout.arrays[name], at, value) };
        expect(read(laid({ ...layout, arrays }, { entries })).health).toBe("damaged");
      }
    }
  });
});

test("a snapshot differs where one number of it does, and nowhere else", () => {
  const file = laid(small());
  const differs = (other: Buffer) => {
    const { graph, places } = taken(file);
    return allAtOnce(snapshotDiffers(taken(other), graph, places));
  };
  expect(differs(file)).toBe(false);
  const { arrays } = small();
  const changes: Partial<Record<Name, [at: number, value: number]>> = {
    diedAt: [5, 3],
    legOwner: [4, 2],
    legBroken: [0, 0],
    childStart: [2, 2],
    childLegs: [4, 2],
    legs: [0, 3],
    actFlags: [2, 1],
  };
  for (const name of NAMES) {
    const last = arrays[name].length - 1;
    const [at, value] = changes[name] ?? [last, (arrays[name][last] as number) + 1];
    const changed = changedAt(arrays[name], at, value);
    expect(differs(withArrays({ [name]: changed }))).toBe(true);
  }
  expect(differs(laid({ ...small(), memories: 2 }))).toBe(true);
  expect(differs(laid({ ...small(), alive: 3 }))).toBe(true);
});
