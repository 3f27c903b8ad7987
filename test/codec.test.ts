// Every byte layout against a second encoder written from docs/format.md, and against damage: flipped bits, wild lengths.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  areaBytesFor,
  areaContentEnd,
  type BatchHeader,
  batchBytes,
  checkedBody,
  decodeAgentBody,
  decodeFileHeader,
  encodeAgentBody,
  encodeFileHeader,
  encodeSeal,
  type FileKind,
  mapBytes,
  NO_ID,
  readAreaText,
  readBatchHeader,
  readCommitMarker,
  readSeal,
  SpineReader,
  SpineWriter,
  writeArea,
  writeBatchHeader,
  writeCommitMarker,
} from "../src/codec.ts";
import { CheeseError } from "../src/errors.ts";
import { areaChecks } from "../src/segment.ts";
import { SEED } from "./helpers.ts";

fc.configureGlobal({ seed: SEED, numRuns: 200 });

// ----- a second encoder -----

/** CRC-32 bit by bit, by its polynomial. */
function crc(...parts: (Uint8Array | string)[]): Buffer {
  let register = 0xffff_ffff;
  for (const byte of cat(...parts)) {
    register ^= byte;
    for (let bit = 0; bit < 8; bit++)
      register = register & 1 ? (register >>> 1) ^ 0xedb8_8320 : register >>> 1;
  }
  return u32(~register >>> 0);
}

/** Strings are latin1. */
function cat(...parts: (Uint8Array | string)[]): Buffer {
  return Buffer.concat(
    parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part)),
  );
}

function number(value: number | bigint, bytes: number): Buffer {
  const out = Buffer.alloc(bytes);
  let rest = BigInt(value);
  for (let i = 0; i < bytes; i++) {
    out[i] = Number(rest & 255n);
    rest >>= 8n;
  }
  return out;
}
const u8 = (value: number) => number(value, 1);
const u16 = (value: number) => number(value, 2);
const u32 = (value: number) => number(value, 4);
const u48 = (value: number) => number(value, 6);

function varint(value: number | bigint): Buffer {
  const out: number[] = [];
  let rest = BigInt(value);
  do {
    out.push(Number(rest & 127n) | (rest > 127n ? 128 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(out);
}

function differences(numbers: number[]): Buffer {
  return cat(...numbers.map((value, i) => varint(value - (i === 0 ? 0 : (numbers[i - 1] ?? 0)))));
}

const idList = (ids: number[]) => cat(varint(ids.length), differences(ids));

function spine(
  agentId: Buffer,
  lead: { kind: number; flags?: number; time: number; record: number },
  ...fields: Uint8Array[]
): Buffer {
  const rest = cat(u8(lead.kind), u8(lead.flags ?? 0), u48(lead.time), u32(lead.record), ...fields);
  const unchecked = cat(varint(rest.length + 4), rest);
  return cat(unchecked, crc(agentId, unchecked));
}

// ----- what is tried -----

const bytes = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((array) => Buffer.from(array));
const digest = bytes(32).map((b) => b.toString("latin1"));
const anyU32 = fc.integer({ min: 0, max: 0xffff_ffff });
const anyU48 = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const anyId = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 0xffff_fffe }));
const ascending = (minLength = 0) =>
  fc
    .uniqueArray(anyId, { minLength, maxLength: 40 })
    .map((ids) => Uint32Array.from(ids).sort() as Uint32Array<ArrayBuffer>);
const label = fc
  .string({ unit: "binary", minLength: 1, maxLength: 64 })
  .filter((text) => Buffer.byteLength(text) <= 64);
const seen = fc.option(
  fc.record({
    base: fc.oneof(fc.constant(0), anyId),
    // Ascending numbers are ranges if taken in pairs; an odd one stands for itself.
    ranges: ascending(1).map((ids) =>
      ids.length % 2 === 0 ? ids : Uint32Array.from([...ids, ids[ids.length - 1] as number]),
    ),
  }),
);
const lead = { time: anyU48, record: anyId };
const entry = {
  ...lead,
  entry: anyId,
  commitment: digest,
  areaBytes: fc.nat(600_000).map((units) => units * 32),
  seen,
  bornDead: fc.boolean(),
};
const lots = fc.record({ ...entry, label });
const memories = fc.record({
  ...entry,
  legs: fc.array(ascending(1), { minLength: 1, maxLength: 5 }),
});
const corroborations = fc.record({ ...lead, memory: anyId, leg: ascending(1) });
const recalls = fc.record({
  ...lead,
  targets: ascending(1),
  mode: fc.constantFrom("fair" as const, "strict" as const, "contact" as const),
  disposal: fc.constantFrom("untrusted" as const, "erase" as const),
  removed: ascending(),
  alsoErased: ascending(),
  contactBelow: ascending(),
  explained: ascending(),
});
const drops = fc.record({ ...lead, dropped: ascending() });

type Seen = { base: number; ranges: Uint32Array } | null;

const flagsOf = (set: Seen, bornDead: boolean) =>
  (set ? 1 : 0) | (set?.base ? 2 : 0) | (bornDead ? 4 : 0);
const seenFields = (set: Seen) =>
  set
    ? cat(
        set.base ? varint(set.base) : "",
        varint(set.ranges.length / 2),
        differences([...set.ranges]),
      )
    : cat();

const bytesOf = (array: Uint32Array) =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength);

/** The newest spine of a writer, as bytes of their own. */
const written = (writer: SpineWriter) =>
  Buffer.from(writer.buffer.subarray(writer.start, writer.end));

function read(agentId: Buffer, spineBytes: Buffer, { checked = false } = {}): SpineReader {
  const reader = new SpineReader(agentId);
  expect(reader.read(spineBytes, 0, spineBytes.length, checked)).toBe(spineBytes.length);
  return reader;
}

function codeOf(call: () => unknown): string {
  try {
    call();
    return "nothing";
  } catch (error) {
    if (error instanceof CheeseError) return error.code;
    return String(error);
  }
}

function* flips(original: Buffer): Generator<Buffer> {
  for (let bit = 0; bit < original.length * 8; bit++) {
    const flipped = Buffer.from(original);
    flipped[bit >>> 3] = (flipped[bit >>> 3] as number) ^ (1 << (bit & 7));
    yield flipped;
  }
}

const AGENT = Buffer.from("00112233445566778899aabbccddeeff", "hex");
const STORE = Buffer.from("ffeeddccbbaa99887766554433221100", "hex");

// ----- -----

describe("spine", () => {
  test("a lot is laid out as the format says, and reads back", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(lots, (f) => {
        writer.lot(f);
        const text = Buffer.from(f.label, "utf8");
        expect(written(writer)).toEqual(
          spine(
            AGENT,
            { kind: 1, flags: flagsOf(f.seen, f.bornDead), time: f.time, record: f.record },
            varint(f.entry),
            cat(f.commitment),
            varint(f.areaBytes / 32),
            u8(text.length),
            text,
            seenFields(f.seen),
          ),
        );
        const reader = read(AGENT, written(writer));
        const { kind, time, record, entry, areaBytes, isEntry, bornDead, legCount } = reader;
        expect({ kind, time, record, entry, areaBytes, isEntry, bornDead, legCount }).toEqual({
          kind: 1,
          time: f.time,
          record: f.record,
          entry: f.entry,
          areaBytes: f.areaBytes,
          isEntry: true,
          bornDead: f.bornDead,
          legCount: 0,
        });
        expect(reader.commitment()).toBe(f.commitment);
        expect(reader.label()).toBe(f.label);
        expect(reader.seen()).toEqual(f.seen);
      }),
    );
  });

  test("a memory is laid out as the format says, and reads back", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(memories, (f) => {
        writer.memory(f);
        expect(written(writer)).toEqual(
          spine(
            AGENT,
            { kind: 2, flags: flagsOf(f.seen, f.bornDead), time: f.time, record: f.record },
            varint(f.entry),
            cat(f.commitment),
            varint(f.areaBytes / 32),
            varint(f.legs.length),
            ...f.legs.map((leg) => idList([...leg])),
            seenFields(f.seen),
          ),
        );
        const reader = read(AGENT, written(writer));
        const { kind, time, record, entry, areaBytes, isEntry, bornDead } = reader;
        expect({ kind, time, record, entry, areaBytes, isEntry, bornDead }).toEqual({
          kind: 2,
          time: f.time,
          record: f.record,
          entry: f.entry,
          areaBytes: f.areaBytes,
          isEntry: true,
          bornDead: f.bornDead,
        });
        expect(reader.commitment()).toBe(f.commitment);
        expect(reader.legs()).toEqual(f.legs);
        expect(reader.seen()).toEqual(f.seen);
      }),
    );
  });

  test("a corroboration is laid out as the format says, and reads back", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(corroborations, (f) => {
        writer.corroborate(f);
        expect(written(writer)).toEqual(
          spine(
            AGENT,
            { kind: 3, time: f.time, record: f.record },
            varint(f.memory),
            idList([...f.leg]),
          ),
        );
        const { kind, time, record, entry, isEntry, ...reader } = read(AGENT, written(writer));
        expect({ kind, time, record, entry, legCount: reader.legCount }).toEqual({
          kind: 3,
          time: f.time,
          record: f.record,
          entry: f.memory,
          legCount: 1,
        });
        expect(read(AGENT, written(writer)).leg(0)).toEqual(f.leg);
      }),
    );
  });

  test("a recall is laid out as the format says, and reads back", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(recalls, (f) => {
        writer.recall(f.time, f.record, f);
        const how =
          { fair: 0, strict: 1, contact: 2 }[f.mode] + { untrusted: 0, erase: 16 }[f.disposal];
        const { time, record, ...outcome } = f;
        const { targets, removed, alsoErased, contactBelow, explained } = outcome;
        expect(written(writer)).toEqual(
          spine(
            AGENT,
            { kind: 4, time, record },
            u8(how),
            ...[targets, removed, alsoErased, contactBelow, explained].map((ids) =>
              idList([...ids]),
            ),
          ),
        );
        const reader = read(AGENT, written(writer));
        expect(reader.recall).toEqual(outcome);
        expect([reader.kind, reader.time, reader.record, reader.isEntry]).toEqual([
          4,
          time,
          record,
          false,
        ]);
      }),
    );
  });

  test("a drop is laid out as the format says, and reads back", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(drops, (f) => {
        writer.drop(f);
        expect(written(writer)).toEqual(
          spine(AGENT, { kind: 5, time: f.time, record: f.record }, idList([...f.dropped])),
        );
        const reader = read(AGENT, written(writer));
        expect([reader.kind, reader.time, reader.record]).toEqual([5, f.time, f.record]);
        expect(reader.dropped).toEqual(f.dropped);
      }),
    );
  });

  test("the format's examples of an id list and a seen set are what is written", () => {
    const writer = new SpineWriter(AGENT);
    writer.drop({ time: 0, record: 1, dropped: Uint32Array.of(3, 5, 130) });
    expect(written(writer).subarray(13, -4).toString("hex")).toBe("0303027d");
    writer.lot({
      time: 0,
      record: 1,
      entry: 1,
      commitment: "\0".repeat(32),
      areaBytes: 0,
      label: "x",
      seen: { base: 0, ranges: Uint32Array.of(1, 3, 7, 7) },
    });
    expect(written(writer).subarray(-9, -4).toString("hex")).toBe("0201020400");
    expect(varint(300).toString("hex")).toBe("ac02");
  });

  test("the largest legs and seen sets fit", () => {
    const writer = new SpineWriter(AGENT);
    const long = Uint32Array.from({ length: 4096 }, (_, i) => (i + 1) * 1_000_000);
    const legs = Array.from({ length: 4096 }, (_, i) => Uint32Array.of(i + 1, 0xffff_fffe));
    const ranges = Uint32Array.from({ length: 8192 }, (_, i) => (i + 1) * 500_000);
    writer.memory({
      time: 2 ** 48 - 1,
      record: 0xffff_fffe,
      entry: 0xffff_fffe,
      commitment: "\xff".repeat(32),
      areaBytes: 32,
      legs: [long, ...legs.slice(1)],
      seen: { base: 0xffff_fffd, ranges },
    });
    const reader = read(AGENT, written(writer));
    expect(reader.legCount).toBe(4096);
    expect(reader.leg(0)).toEqual(long);
    expect(reader.leg(4095)).toEqual(legs[4095]);
    expect(reader.seen()).toEqual({ base: 0xffff_fffd, ranges });
  });

  test("a leg or a seen set that fills the room of a fresh writer to the byte fits too", () => {
    for (let short = 990; short <= 1020; short++) {
      // Differences of five bytes and of four, so that the numbers stay below 2^32.
      const ids = new Uint32Array(8 + short);
      for (let i = 0; i < ids.length; i++)
        ids[i] = (i === 0 ? 0 : (ids[i - 1] as number)) + (i < 8 ? 2 ** 28 : 2 ** 21);
      const f = { time: 0, record: 1, entry: 1, commitment: "\0".repeat(32), areaBytes: 0 };
      const base = 0xffff_fffe;
      const ofLeg = new SpineWriter(AGENT);
      ofLeg.memory({ ...f, legs: [ids], seen: null });
      const entry = cat(varint(1), Buffer.alloc(32), varint(0));
      expect(written(ofLeg)).toEqual(
        spine(AGENT, { kind: 2, time: 0, record: 1 }, entry, varint(1), idList([...ids])),
      );
      // Ranges have a first and a last.
      if (ids.length % 2 === 1) continue;
      const ofSeen = new SpineWriter(AGENT);
      const seen = { base, ranges: ids };
      ofSeen.memory({ ...f, legs: [Uint32Array.of(1)], seen });
      expect(written(ofSeen)).toEqual(
        spine(
          AGENT,
          { kind: 2, flags: 3, time: 0, record: 1 },
          entry,
          varint(1),
          idList([1]),
          seenFields(seen),
        ),
      );
    }
  });

  test("a spine reads back where its length takes one byte more, up to four", () => {
    for (const length of [2 ** 7, 2 ** 14, 2 ** 21]) {
      const writer = new SpineWriter(AGENT);
      const around = length > 2 ** 20 ? 3 : 30;
      for (let count = length - 22 - around; count <= length - 22 + around; count++) {
        const dropped = Uint32Array.from({ length: count }, (_, i) => i + 1);
        writer.drop({ time: 0, record: 1, dropped });
        const reader = read(AGENT, written(writer));
        expect(Buffer.compare(bytesOf(reader.dropped), bytesOf(dropped))).toBe(0);
      }
    }
  });

  test("an entry that does not say so was not born dead", () => {
    const writer = new SpineWriter(AGENT);
    const f = { time: 0, record: 1, entry: 1, commitment: "\0".repeat(32), areaBytes: 64 };
    writer.lot({ ...f, label: "x", seen: null });
    expect(read(AGENT, written(writer)).bornDead).toBe(false);
    writer.memory({ ...f, legs: [Uint32Array.of(1)], seen: null });
    expect(read(AGENT, written(writer)).bornDead).toBe(false);
  });

  test("the largest number of 32 bits is read, wherever a number may stand", () => {
    const most = 0xffff_ffff;
    const f = { time: 0, record: most };
    const corroboration = read(
      AGENT,
      spine(AGENT, { kind: 3, ...f }, varint(most), idList([most])),
    );
    expect([corroboration.record, corroboration.entry]).toEqual([most, most]);
    expect(corroboration.leg(0)).toEqual(Uint32Array.of(most));
    const drop = read(AGENT, spine(AGENT, { kind: 5, ...f }, idList([5, most])));
    expect(drop.dropped).toEqual(Uint32Array.of(5, most));
    const lot = read(
      AGENT,
      spine(
        AGENT,
        { kind: 1, flags: 3, ...f },
        varint(most),
        Buffer.alloc(32),
        varint(2),
        u8(1),
        cat("x"),
        varint(most),
        varint(2),
        differences([1, 3, 5, most]),
      ),
    );
    expect([lot.entry, lot.seen()]).toEqual([
      most,
      { base: most, ranges: Uint32Array.of(1, 3, 5, most) },
    ]);
  });

  test("of a spine whose entry alone is asked for, that much must stand in it", () => {
    for (let record = 1; record <= 20; record++) {
      const f = { kind: 1, time: 0, record };
      const reader = new SpineReader(AGENT);
      const entry = cat(varint(1), Buffer.alloc(32, 1));
      const whole = spine(AGENT, f, entry, varint(2));
      expect(reader.read(whole, 0, whole.length, false, false)).toBe(whole.length);
      expect([reader.entry, reader.areaBytes]).toEqual([1, 64]);
      // What follows are the bytes of its check, any of which might be taken for a number.
      for (const cut of [spine(AGENT, f, entry), spine(AGENT, f, entry, u8(0x81))])
        expect(codeOf(() => reader.read(cut, 0, cut.length, false, false))).toBe("CORRUPT");
      const silent = spine(AGENT, { kind: 4, time: 0, record });
      expect(codeOf(() => reader.read(silent, 0, silent.length, false))).toBe("CORRUPT");
    }
  });

  test("a count is measured by what is left of its spine, wherever that stands", () => {
    const front = Buffer.alloc(8 * 1024 * 1024);
    const file = cat(front, spine(AGENT, { kind: 5, time: 0, record: 1 }, varint(12_000_000)));
    const reader = new SpineReader(AGENT);
    const before = process.memoryUsage().arrayBuffers;
    expect(codeOf(() => reader.read(file, front.length, file.length, true))).toBe("CORRUPT");
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
  });

  test("one reader reads spine after spine, and keeps nothing of the one before", () => {
    const writer = new SpineWriter(AGENT);
    fc.assert(
      fc.property(memories, lots, (memory, lot) => {
        writer.memory(memory);
        const first = written(writer);
        writer.lot({ ...lot, seen: null });
        const both = cat(first, written(writer));
        const reader = new SpineReader(AGENT);
        const next = reader.read(both, 0, both.length, false);
        expect(next).toBe(first.length);
        expect(reader.read(both, next, both.length, false)).toBe(both.length);
        expect(reader.seen()).toBe(null);
        expect(reader.legs()).toEqual([]);
        expect(reader.label()).toBe(lot.label);
      }),
    );
  });

  test("G4: one flipped bit anywhere in a spine of any kind is noticed", () => {
    const writer = new SpineWriter(AGENT);
    const write: fc.Arbitrary<() => void> = fc.oneof(
      lots.map((f) => () => writer.lot(f)),
      memories.map((f) => () => writer.memory(f)),
      corroborations.map((f) => () => writer.corroborate(f)),
      recalls.map((f) => () => writer.recall(f.time, f.record, f)),
      drops.map((f) => () => writer.drop(f)),
    );
    fc.assert(
      fc.property(write, (write) => {
        write();
        const original = written(writer);
        const reader = new SpineReader(AGENT);
        for (const flipped of flips(original)) {
          // Room behind it, as in a file: a longer length then leads into other bytes.
          const file = cat(flipped, Buffer.alloc(original.length, 0x5a));
          expect(codeOf(() => reader.read(file, 0, file.length, false))).toBe("CORRUPT");
        }
      }),
      { numRuns: 30 },
    );
  });

  test("a spine of another agent does not check", () => {
    const writer = new SpineWriter(AGENT);
    writer.drop({ time: 1, record: 1, dropped: Uint32Array.of(1) });
    const other = new SpineReader(STORE);
    expect(codeOf(() => other.read(written(writer), 0, written(writer).length, false))).toBe(
      "CORRUPT",
    );
  });

  const at = { time: 0, record: 1 };
  const huge = varint(0xffff_ffff);
  const entryFields = cat(varint(1), Buffer.alloc(32, 1), varint(2));
  const wild: [name: string, bytes: Buffer][] = [
    ["a length of 2^32 - 1", cat(huge, Buffer.alloc(40))],
    ["a length that leads one byte out", cat(varint(17), Buffer.alloc(16))],
    ["a length of 15", cat(varint(15), Buffer.alloc(15))],
    ["a length of 0", Buffer.alloc(40)],
    ["a length of six bytes", cat(Buffer.alloc(5, 0x90), u8(1), Buffer.alloc(40))],
    ["2^32 - 1 legs", spine(AGENT, { kind: 2, ...at }, entryFields, huge)],
    ["2^32 - 1 parents", spine(AGENT, { kind: 2, ...at }, entryFields, varint(1), huge)],
    ["2^32 - 1 ranges", spine(AGENT, { kind: 1, flags: 1, ...at }, entryFields, u8(0), huge)],
    ["more parents than bytes", spine(AGENT, { kind: 3, ...at }, varint(1), varint(3), u16(0x101))],
    ["2^32 - 1 targets", spine(AGENT, { kind: 4, ...at }, u8(0), huge)],
    ["2^32 - 1 explained", spine(AGENT, { kind: 4, ...at }, u8(0), Buffer.alloc(4), huge)],
    ["2^32 - 1 dropped", spine(AGENT, { kind: 5, ...at }, huge)],
    ["a label that leads out", spine(AGENT, { kind: 1, ...at }, entryFields, u8(255), u8(65))],
    ["no label at all", spine(AGENT, { kind: 1, ...at }, entryFields)],
    ["a commitment cut short", spine(AGENT, { kind: 1, ...at }, varint(1), Buffer.alloc(20))],
    ["no fields at all", spine(AGENT, { kind: 2, ...at })],
    ["a byte too many", spine(AGENT, { kind: 5, ...at }, idList([1]), u8(0))],
    ["a byte too few", spine(AGENT, { kind: 5, ...at }, varint(2), varint(1))],
    ["a number of 2^32", spine(AGENT, { kind: 3, ...at }, varint(2n ** 32n), idList([1]))],
    ["a number of 2^35 - 1", spine(AGENT, { kind: 3, ...at }, varint(2n ** 35n - 1n), idList([1]))],
    [
      "a number of six bytes",
      spine(AGENT, { kind: 3, ...at }, Buffer.alloc(5, 0x80), u8(0), idList([1])),
    ],
    ["a number without an end", spine(AGENT, { kind: 5, ...at }, Buffer.alloc(3, 0xff))],
    ["a list beyond 2^32", spine(AGENT, { kind: 5, ...at }, varint(2), varint(1), huge)],
    ["a list that stands still", spine(AGENT, { kind: 5, ...at }, varint(2), varint(1), u8(0))],
    [
      "a range beyond 2^32",
      spine(AGENT, { kind: 1, flags: 1, ...at }, entryFields, u8(0), varint(1), varint(1), huge),
    ],
    ...[1, 2, 4].flatMap((flags): [string, Buffer][] => [
      [
        `flag ${flags} on a corroboration`,
        spine(AGENT, { kind: 3, flags, ...at }, varint(1), idList([1])),
      ],
      [
        `flag ${flags} on a recall`,
        spine(AGENT, { kind: 4, flags, ...at }, u8(0), idList([1]), Buffer.alloc(4)),
      ],
      [`flag ${flags} on a drop`, spine(AGENT, { kind: 5, flags, ...at }, idList([1]))],
    ]),
    ...[2, 6].flatMap((flags): [string, Buffer][] => [
      [
        `the base of no seen set on a lot, flags ${flags}`,
        spine(AGENT, { kind: 1, flags, ...at }, entryFields, u8(1), cat("x")),
      ],
      [
        `the base of no seen set on a memory, flags ${flags}`,
        spine(AGENT, { kind: 2, flags, ...at }, entryFields, varint(1), idList([1])),
      ],
    ]),
  ];

  test.each(wild)("%s is damage, and nothing of its size is allocated", (_name, bytes) => {
    for (const checked of [false, true]) {
      const reader = new SpineReader(AGENT);
      const before = process.memoryUsage().arrayBuffers;
      expect(codeOf(() => reader.read(bytes, 0, bytes.length, checked))).toBe("CORRUPT");
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
    }
  });

  test("an unknown kind, flag, mode or disposal is a newer format, but only where the spine checks", () => {
    const newer = [
      spine(AGENT, { kind: 0, ...at }, idList([1])),
      spine(AGENT, { kind: 6, ...at }, idList([1])),
      spine(AGENT, { kind: 255, ...at }, idList([1])),
      ...[8, 16, 32, 64, 128].map((flags) => spine(AGENT, { kind: 5, flags, ...at }, idList([1]))),
      ...[0x03, 0x0f, 0x20, 0xf0].map((how) =>
        spine(AGENT, { kind: 4, ...at }, u8(how), idList([1]), Buffer.alloc(4)),
      ),
    ];
    for (const bytes of newer) {
      const reader = new SpineReader(AGENT);
      expect(codeOf(() => reader.read(bytes, 0, bytes.length, false))).toBe("NEWER_FORMAT");
      for (const flipped of flips(bytes))
        expect(codeOf(() => reader.read(flipped, 0, flipped.length, false))).toBe("CORRUPT");
    }
  });

  test("any bytes at all are read, or refused with a code", () => {
    const reader = new SpineReader(AGENT);
    const anything = fc.record({
      length: fc.nat(80),
      kind: fc.nat(6),
      flags: fc.nat(8),
      rest: fc.uint8Array({ maxLength: 90 }),
      checked: fc.boolean(),
    });
    fc.assert(
      fc.property(anything, ({ length, kind, flags, rest, checked }) => {
        const bytes = cat(varint(length), u8(kind), u8(flags), rest);
        const code = codeOf(() => reader.read(bytes, 0, bytes.length, checked));
        expect(code).toMatch(/^(nothing|CORRUPT|NEWER_FORMAT)$/);
      }),
      { numRuns: 3000 },
    );
  });
});

describe("file header", () => {
  const kinds: FileKind[] = ["store", "agent", "segment", "headMark", "snapshot"];
  const headers = fc.record({
    kind: fc.constantFrom(...kinds),
    number: anyU32,
    storeId: bytes(16),
    agentId: bytes(16),
    generation: anyU32,
    record: anyU32,
    entries: anyU32,
    extra: anyU32,
    hash: digest,
    place: anyU48,
    bodyBytes: anyU32,
    bodyCheck: anyU32,
  });
  const layOut = (f: typeof headers extends fc.Arbitrary<infer T> ? T : never, version = 1) => {
    const unchecked = cat(
      "CHEESEDB",
      u16(version),
      u16(kinds.indexOf(f.kind) + 1),
      u32(f.number),
      f.storeId,
      f.agentId,
      u32(f.generation),
      u32(f.record),
      u32(f.entries),
      u32(f.extra),
      f.hash,
      u48(f.place),
      u16(0),
      u32(f.bodyBytes),
      u32(f.bodyCheck),
      Buffer.alloc(12),
    );
    return cat(unchecked, crc(unchecked));
  };

  test("it is laid out as the format says, and reads back", () => {
    fc.assert(
      fc.property(headers, (f) => {
        const out = encodeFileHeader(f);
        expect(out).toEqual(layOut(f));
        expect(out.length).toBe(128);
        expect(decodeFileHeader(out, f.kind, "a file")).toEqual(f);
      }),
    );
  });

  test("fields that are not given are zeros", () => {
    const out = encodeFileHeader({ kind: "store", storeId: STORE });
    expect(decodeFileHeader(out, "store", "store")).toEqual({
      kind: "store",
      number: 0,
      storeId: STORE,
      agentId: Buffer.alloc(16),
      generation: 0,
      record: 0,
      entries: 0,
      extra: 0,
      hash: "\0".repeat(32),
      place: 0,
      bodyBytes: 0,
      bodyCheck: 0,
    });
  });

  test("G4: one flipped bit anywhere in it is damage, also one in the version", () => {
    fc.assert(
      fc.property(headers, (f) => {
        for (const flipped of flips(encodeFileHeader(f)))
          expect(codeOf(() => decodeFileHeader(flipped, f.kind, "a file"))).toBe("CORRUPT");
      }),
      { numRuns: 5 },
    );
  });

  test("one cut short, of another kind or of version 0 is damage; one of a later version is a newer format", () => {
    fc.assert(
      fc.property(headers, fc.nat(127), fc.integer({ min: 2, max: 65_535 }), (f, length, newer) => {
        const out = encodeFileHeader(f);
        expect(codeOf(() => decodeFileHeader(out.subarray(0, length), f.kind, "a file"))).toBe(
          "CORRUPT",
        );
        for (const kind of kinds.filter((kind) => kind !== f.kind))
          expect(codeOf(() => decodeFileHeader(out, kind, "a file"))).toBe("CORRUPT");
        expect(codeOf(() => decodeFileHeader(layOut(f, 0), f.kind, "a file"))).toBe("CORRUPT");
        expect(codeOf(() => decodeFileHeader(layOut(f, newer), f.kind, "a file"))).toBe(
          "NEWER_FORMAT",
        );
      }),
    );
  });

  test("the refusal says which byte is wrong", () => {
    const out = encodeFileHeader({ kind: "agent", storeId: STORE });
    const offsetOf = (bytes: Buffer, kind: FileKind) => {
      try {
        decodeFileHeader(bytes, kind, "a file");
      } catch (error) {
        return (error as CheeseError).offset;
      }
      throw new Error("it was read");
    };
    expect(offsetOf(out.subarray(0, 127), "agent")).toBe(0);
    expect(offsetOf(cat(u8(0), out.subarray(1)), "agent")).toBe(0);
    expect(offsetOf(out, "store")).toBe(8);
    const header = decodeFileHeader(out, "agent", "a file");
    expect(() => checkedBody(cat(out, u8(0)), header, "a file")).toThrow(
      expect.objectContaining({ offset: 128 }),
    );
  });

  test("where a file belongs to no agent, its id is 16 zeros", () => {
    expect(NO_ID).toEqual(Buffer.alloc(16));
  });

  test("an agent's body without a name is damage", () => {
    for (let length = 0; length <= 32; length++)
      expect(codeOf(() => decodeAgentBody(Buffer.alloc(length), "agent"))).toBe("CORRUPT");
    expect(decodeAgentBody(cat(Buffer.alloc(32), "x"), "agent").name).toBe("x");
  });

  test("an agent's body reads back; one flipped bit, a byte more or a byte less is damage", () => {
    const identity = { name: "Zoë 🧀", tokenHash: Buffer.alloc(32, 0xa5) };
    const body = encodeAgentBody(identity);
    expect(body).toEqual(cat(Buffer.alloc(32, 0xa5), Buffer.from("Zoë 🧀", "utf8")));
    expect(decodeAgentBody(body, "agent")).toEqual(identity);
    const bytes = encodeFileHeader({
      kind: "agent",
      storeId: STORE,
      agentId: AGENT,
      bodyBytes: body.length,
      bodyCheck: crc(body).readUInt32LE(0),
    });
    const header = decodeFileHeader(bytes, "agent", "agent");
    expect(checkedBody(cat(bytes, body), header, "agent")).toEqual(body);
    for (const wrong of [...flips(body), body.subarray(1), body.subarray(0, -1), cat(body, u8(0))])
      expect(codeOf(() => checkedBody(cat(bytes, wrong), header, "agent"))).toBe("CORRUPT");
  });
});

describe("batch", () => {
  const place = { agentId: AGENT, segment: 3, offset: 70_000 };
  const position = cat(AGENT, u32(3), u32(70_000));
  const batchHeaders = fc.record({
    compacted: fc.boolean(),
    count: fc.integer({ min: 1, max: 4096 }),
    firstRecord: anyU32,
    entriesBefore: anyU32,
    spineBytes: anyU32,
    areaBytes: anyU32,
    headBefore: digest,
  });
  const layOut = (f: BatchHeader, flags = f.compacted ? 1 : 0) => {
    const unchecked = cat(
      "BTCH",
      u16(flags),
      u16(f.count),
      u32(f.firstRecord),
      u32(f.entriesBefore),
      u32(f.spineBytes),
      u32(f.areaBytes),
      f.headBefore,
    );
    return cat(unchecked, crc(position, unchecked));
  };

  test("a header is laid out as the format says, and reads back, wherever it stands in a buffer", () => {
    fc.assert(
      fc.property(batchHeaders, fc.nat(40), (f, front) => {
        const out = Buffer.alloc(front + 60, 0xee);
        writeBatchHeader(out, front, f, place);
        expect(out.subarray(front)).toEqual(layOut(f));
        expect(readBatchHeader(out, front, place)).toEqual(f);
      }),
    );
  });

  test("a batch is as long as its parts: a map of a bit a record only if it is compacted", () => {
    fc.assert(
      fc.property(batchHeaders, (f) => {
        const map = f.compacted ? Math.floor((f.count + 7) / 8) : 0;
        expect(mapBytes(f)).toBe(map);
        expect(batchBytes(f)).toBe(60 + map + f.spineBytes + f.areaBytes + 40);
      }),
    );
  });

  test("G4: one flipped bit anywhere in a header is noticed, and so is another place, agent or a cut", () => {
    fc.assert(
      fc.property(batchHeaders, (f) => {
        const out = layOut(f);
        for (const flipped of flips(out)) expect(readBatchHeader(flipped, 0, place)).toBe(null);
        expect(readBatchHeader(out, 0, { ...place, agentId: STORE })).toBe(null);
        expect(readBatchHeader(out, 0, { ...place, segment: 4 })).toBe(null);
        expect(readBatchHeader(out, 0, { ...place, offset: 70_001 })).toBe(null);
        for (let length = 0; length < 60; length++) {
          expect(readBatchHeader(out.subarray(0, length), 0, place)).toBe(null);
          const behind = cat(Buffer.alloc(100), out.subarray(0, length));
          expect(readBatchHeader(behind, 100, place)).toBe(null);
        }
      }),
      { numRuns: 10 },
    );
  });

  test("any count is read but 0, which no batch has", () => {
    const [f] = fc.sample(batchHeaders, { seed: SEED, numRuns: 1 }) as [BatchHeader];
    expect(readBatchHeader(layOut({ ...f, count: 0 }), 0, place)).toBe(null);
    for (const count of [1, 255, 256, 512, 4096])
      expect(readBatchHeader(layOut({ ...f, count }), 0, place)?.count).toBe(count);
  });

  test("an unknown flag in a header that checks is a newer format", () => {
    fc.assert(
      fc.property(batchHeaders, fc.integer({ min: 2, max: 65_535 }), (f, flags) => {
        expect(codeOf(() => readBatchHeader(layOut(f, flags), 0, place))).toBe("NEWER_FORMAT");
      }),
    );
  });

  test("a commit marker is laid out as the format says, and one flipped bit in it or before it is noticed", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), digest, (covered, headAfter) => {
        const running = crc(covered).readUInt32LE(0);
        const out = Buffer.alloc(40);
        writeCommitMarker(out, 0, running, headAfter);
        const unchecked = cat("CMIT", headAfter);
        expect(out).toEqual(cat(unchecked, crc(covered, unchecked)));
        expect(readCommitMarker(out, 0, running)).toBe(headAfter);
        for (const flipped of flips(out)) expect(readCommitMarker(flipped, 0, running)).toBe(null);
        for (const flipped of flips(Buffer.from(covered)))
          expect(readCommitMarker(out, 0, crc(flipped).readUInt32LE(0))).toBe(null);
      }),
      { numRuns: 20 },
    );
  });

  test("a seal is laid out as the format says, and one flipped bit, another place or a cut is noticed", () => {
    fc.assert(
      fc.property(anyU32, anyU32, digest, (record, entries, head) => {
        const out = encodeSeal(record, entries, head, place);
        const unchecked = cat("SEAL", u32(record), u32(entries), head);
        expect(out).toEqual(cat(unchecked, crc(position, unchecked)));
        expect(readSeal(out, 0, place)).toEqual({ record, entries, head });
        for (const flipped of flips(out)) expect(readSeal(flipped, 0, place)).toBe(null);
        expect(readSeal(out, 0, { ...place, segment: 2 })).toBe(null);
        expect(readSeal(out, 0, { ...place, offset: 0 })).toBe(null);
        expect(readSeal(out, 0, { ...place, agentId: STORE })).toBe(null);
        for (let length = 0; length < 48; length++) {
          expect(readSeal(out.subarray(0, length), 0, place)).toBe(null);
          const behind = cat(Buffer.alloc(100), out.subarray(0, length));
          expect(readSeal(behind, 100, place)).toBe(null);
        }
      }),
      { numRuns: 20 },
    );
  });
});

describe("erasable area", () => {
  /** The paper's Algorithm 1 in whole numbers, and below 1 KiB the next multiple of 32. */
  function paddedSize(content: number): number {
    if (content <= 1024) return 32 * Math.ceil(content / 32);
    const length = BigInt(content);
    const floorLog2 = (value: bigint) => BigInt(value.toString(2).length - 1);
    const exponent = floorLog2(length);
    const exponentBits = floorLog2(exponent) + 1n;
    const mask = (1n << (exponent - exponentBits)) - 1n;
    return Number((length + mask) & ~mask);
  }

  test("its size is Padmé's from 1 KiB on, and a multiple of 32 below, for every size up to 64 KiB and many beyond", () => {
    const sizes = [...Array(65_536).keys()];
    for (let size = 65_536; size <= 16 * 1024 * 1024; size += 9_973) sizes.push(size);
    for (let power = 2 ** 16; power <= 2 ** 24; power *= 2) sizes.push(power - 1, power, power + 1);
    for (const textBytes of sizes) {
      const content = 38 + textBytes;
      const size = areaBytesFor(textBytes, -1);
      if (size !== paddedSize(content)) expect(size, `${textBytes}`).toBe(paddedSize(content));
      if (size % 32 !== 0 || size < content) expect.fail(`${textBytes} gives ${size}`);
      // The paper's bound: never more than 12 % (beyond the unit of 32).
      if (content > 1024 && size > content * 1.12) expect.fail(`${textBytes} gives ${size}`);
    }
  });

  test("its size is that of the text and the uri together; no uri is not an empty one, and costs the same", () => {
    expect([0, 26, 27, 986, 987, 1050, 1051].map((n) => areaBytesFor(n, -1))).toEqual([
      64, 64, 96, 1024, 1088, 1088, 1152,
    ]);
    expect(areaBytesFor(100, -1)).toBe(areaBytesFor(100, 0));
    expect(areaBytesFor(20, 7)).toBe(areaBytesFor(27, -1));
  });

  const text = fc.string({ unit: "binary", maxLength: 400 });
  const contents = fc.record({
    front: fc.nat(40),
    salt: bytes(32),
    text: fc.oneof(
      text,
      text.map((text) => text.repeat(8)),
    ),
    uri: fc.option(fc.string({ unit: "binary", maxLength: 60 })),
  });

  function areaOf({ front, salt, text, uri }: { front: number; salt: Buffer } & Texts) {
    const textBytes = Buffer.byteLength(text);
    const uriBytes = uri === null ? -1 : Buffer.byteLength(uri);
    const areaBytes = areaBytesFor(textBytes, uriBytes);
    const file = Buffer.alloc(front + areaBytes + 10, 0xee);
    const pool = Buffer.concat([Buffer.alloc(5, 0xa5), salt]);
    const end = writeArea(
      file,
      front,
      areaBytes,
      { pool, at: 5 },
      { text, textBytes, uri, uriBytes },
    );
    return { file, areaBytes, end, textBytes, uriBytes };
  }
  type Texts = { text: string; uri: string | null };

  test("it is laid out as the format says, and reads back", () => {
    fc.assert(
      fc.property(contents, (f) => {
        const { file, areaBytes, end, textBytes, uriBytes } = areaOf(f);
        const content = cat(
          f.salt,
          u32(textBytes),
          u16(uriBytes + 1),
          Buffer.from(f.text, "utf8"),
          Buffer.from(f.uri ?? "", "utf8"),
        );
        expect(end).toBe(f.front + content.length);
        expect(file).toEqual(
          cat(
            Buffer.alloc(f.front, 0xee),
            content,
            Buffer.alloc(areaBytes - content.length),
            Buffer.alloc(10, 0xee),
          ),
        );
        expect(areaContentEnd(file, f.front, areaBytes)).toBe(end);
        expect(readAreaText(file, f.front)).toEqual({ text: f.text, uri: f.uri });
      }),
    );
  });

  test("G4: one flipped bit anywhere in it, padding included, is noticed", async () => {
    const { sha256 } = await import("@noble/hashes/sha2.js");
    fc.assert(
      fc.property(contents, (f) => {
        const { file, areaBytes, end } = areaOf({ ...f, front: 0 });
        const area = file.subarray(0, areaBytes);
        const domain = Buffer.from("cheesedb/text/v1", "latin1");
        const committed = Buffer.from(
          sha256(cat(area.subarray(0, 32), domain, area.subarray(32, end))),
        ).toString("latin1");
        expect(areaChecks(area, 0, areaBytes, committed)).toBe(true);
        for (const flipped of flips(area))
          expect(areaChecks(flipped, 0, areaBytes, committed)).toBe(false);
        expect(areaChecks(Buffer.alloc(areaBytes), 0, areaBytes, committed)).toBe(false);
      }),
      { numRuns: 10 },
    );
  });

  test("lengths that lead out of it, and a size that is not that of its content, are refused", () => {
    const sized = (areaBytes: number, textBytes: number, uriField: number) => {
      const area = Buffer.alloc(Math.max(areaBytes, 38));
      area.writeUInt32LE(textBytes, 32);
      area.writeUInt16LE(uriField, 36);
      return areaContentEnd(area, 0, areaBytes);
    };
    expect(sized(64, 26, 0)).toBe(64);
    expect(sized(64, 0, 27)).toBe(64);
    for (const [areaBytes, textBytes, uriField] of [
      [64, 27, 0],
      [64, 26, 2],
      [64, 0xffff_ffff, 0],
      [64, 0, 0xffff],
      [64, 0xffff_ffff, 0xffff],
      [96, 26, 0],
      [1056, 987, 0],
      [32, 0, 0],
      [0, 0, 0],
    ] as const) {
      expect(sized(areaBytes, textBytes, uriField), `${areaBytes} ${textBytes}`).toBe(-1);
    }
  });
});
