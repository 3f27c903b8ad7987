// verify by itself, on a disk in memory: histories laid batch by batch in which every checksum holds and what is said is
// wrong, texts that are missing or stand where they must not, and witnesses that say otherwise than the log.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { writeBatchHeader, writeCommitMarker } from "../src/codec.ts";
import { diskError } from "../src/disk.ts";
import { CheeseError } from "../src/errors.ts";
import { writeHeadMark } from "../src/headmark.ts";
import type { LogPosition } from "../src/log.ts";
import { createSegment } from "../src/segment.ts";
import { writeSnapshot } from "../src/snapshot.ts";
import { AgentState } from "../src/state.ts";
import type { VerifyReport } from "../src/terms.ts";
import { type Problem, type VerifyOptions, verifyAgent } from "../src/verify.ts";
import {
  AGENT,
  AREA,
  areas,
  BATCH_HEADER,
  beginLog,
  corroborate,
  disk,
  drop,
  end,
  endsAt,
  FOLDER,
  followsHead,
  HEAD_MARK,
  HEADER,
  heads,
  IDS,
  ids,
  keepLog,
  type Laid,
  lay,
  lot,
  MARKER,
  memory,
  nameOf,
  pathOf,
  recall,
  roll,
  SEAL,
  write,
  zero,
} from "./laid.ts";
import { type DiskCall, watched } from "./memorydisk.ts";

const SNAPSHOT = "/agent/graph";

let sequence: number;
/** Done before each call of the disk; the call fails with what it throws. */
let before: (call: DiskCall) => void;

beforeEach(() => {
  beginLog();
  sequence = 2;
  before = () => {};
});

const hexOf = (digest: string) => Buffer.from(digest, "latin1").toString("hex");
const fingerprintOf = (record: number) => `${record}-${hexOf(heads[record] as string)}`;

/** Writes over an entry's padding, which its commitment says is zero. */
function spoil(entry: number) {
  const { segment, at } = areas[entry] as { segment: number; at: number };
  write(segment, at + AREA - 1, Buffer.of(1));
}

/** Makes a batch one whose marker does not check. */
const spoilMarker = (segment: number, { end }: Laid) =>
  write(segment, end - MARKER, Buffer.of(0xff));

/** Writes the head mark of what was laid so far, all of its erasing done. */
function mark({ record = end.record, head = end.head, done = end.record } = {}) {
  sequence++;
  writeHeadMark(disk, HEAD_MARK, IDS, { record, head, done, sequence });
}

/** A snapshot of what was laid so far. */
function snapshot({ generation = 1, ...position }: Partial<LogPosition & { generation: number }>) {
  if (disk.stat(SNAPSHOT)) disk.removeFile(SNAPSHOT);
  const state = new AgentState({ disk, folder: AGENT, ids: IDS, access: "read" });
  state.step(Number.POSITIVE_INFINITY);
  const { graph, places } = state;
  const at = { ...end, ...position };
  writeSnapshot(disk, AGENT, IDS, { graph, places, generation, position: at });
  state.close();
}

/** Lays what a compaction leaves of a batch of lots: those texts that are kept. */
function layCompacted(texts: string[], kept: boolean[]): number {
  const { segment, offset } = end;
  const laid = lay(...texts.map((text) => lot(text)));
  const was = Buffer.alloc(laid.end - laid.at);
  disk.open(pathOf(segment)).read(was, offset);
  const [spineBytes, areaBytes] = [was.readUInt32LE(16), was.readUInt32LE(20)];
  const map = Buffer.alloc(Math.ceil(texts.length / 8));
  const left: Buffer[] = [];
  const first = areas.length - texts.length;
  for (const [i, isKept] of kept.entries()) {
    if (!isKept) continue;
    map.writeUInt8(map.readUInt8(i >>> 3) | (1 << (i & 7)), i >>> 3);
    const at = BATCH_HEADER + spineBytes + i * AREA;
    left.push(was.subarray(at, at + AREA));
  }
  const header = Buffer.alloc(BATCH_HEADER);
  const place = { agentId: IDS.agentId, segment, offset };
  writeBatchHeader(
    header,
    0,
    {
      compacted: true,
      count: texts.length,
      firstRecord: was.readUInt32LE(8),
      entriesBefore: was.readUInt32LE(12),
      spineBytes,
      areaBytes: left.length * AREA,
      headBefore: was.toString("latin1", 24, 56),
    },
    place,
  );
  expect(areaBytes).toBe(texts.length * AREA);
  const covered = Buffer.concat([
    header,
    map,
    was.subarray(BATCH_HEADER, BATCH_HEADER + spineBytes),
  ]);
  const marker = Buffer.alloc(MARKER);
  writeCommitMarker(marker, 0, crc32(covered), end.head);
  const bytes = Buffer.concat([covered, ...left, marker]);
  disk.open(pathOf(segment)).truncate(offset);
  write(segment, offset, bytes);
  endsAt(offset + bytes.length);
  return first;
}

/**
 * Lays a batch of one lot whose spine has a wrong check, or whose marker names a head that is not the chain's, and all else as
 * it must be.
 */
function layForged(what: "check" | "head"): Laid {
  const before = heads.at(-1) as string;
  const laid = lay(lot("forged"));
  const bytes = Buffer.alloc(laid.end - laid.at);
  disk.open(pathOf(end.segment)).read(bytes, laid.at);
  const spineEnd = BATCH_HEADER + bytes.readUInt32LE(16);
  if (what === "check") bytes.writeUInt8(bytes.readUInt8(spineEnd - 1) ^ 1, spineEnd - 1);
  const head = createHash("sha256")
    .update(Buffer.from(what === "check" ? before : "another history", "latin1"))
    .update(bytes.subarray(BATCH_HEADER, spineEnd))
    .digest("binary");
  writeCommitMarker(bytes, bytes.length - MARKER, crc32(bytes.subarray(0, spineEnd)), head);
  write(end.segment, laid.at, bytes);
  heads[end.record] = head;
  followsHead(head);
  return laid;
}

// ----- what verify says -----

function verify(options?: VerifyOptions): Promise<VerifyReport> {
  const place = {
    disk: watched(disk, (call) => before(call)),
    folder: AGENT,
    ids: IDS,
    access: "read",
  } as const;
  return verifyAgent(place, { name: "alice", id: "some-id" }, options);
}

async function refusal(options?: VerifyOptions): Promise<CheeseError> {
  try {
    await verify(options);
  } catch (error) {
    if (error instanceof CheeseError) return error;
    throw error;
  }
  throw new Error("nothing was found wrong");
}

const problems = async () => (await refusal()).problems as Problem[];
const says = async () => (await problems()).map(({ message }) => message);
const inSegment = (segment: number, offset?: number) => ({ file: nameOf(segment), offset });
const textAt = (entry: number) => ({
  entry,
  file: nameOf((areas[entry] as { segment: number }).segment),
  offset: (areas[entry] as { at: number }).at,
});

/** 1, 2 and 3 are lots; 4 rests on 1, 5 on 4 and also on 2, 6 on 4. Records 1 to 6. */
function story() {
  lay(lot("one"), lot("two"), lot("three"));
  lay(memory([[1]]), memory([[4], [2]]), memory([[4]]));
}

describe("a history in which all is right", () => {
  test("is reported as it is", async () => {
    story();
    roll();
    lay(recall({ targets: ids(1), removed: ids(4, 6) }), corroborate(5, [3]));
    mark();
    const bytes = [...disk.image().values()].reduce((sum, file) => sum + (file?.length ?? 0), 0);
    expect(await verify()).toEqual({
      ok: true,
      agent: "alice",
      id: "some-id",
      records: 8,
      segments: 2,
      bytes,
      head: { record: 8, hash: hexOf(end.head), fingerprint: fingerprintOf(8) },
      tornBytes: 0,
      erasesPending: 0,
      headMark: "ok",
      snapshot: "none",
    });
  });

  test("holds each head that it ever had, within a batch too, and no other", async () => {
    story();
    roll();
    lay(lot(), lot());
    mark();
    for (const [record] of heads.entries()) {
      const fingerprint = fingerprintOf(record);
      const { expected } = await verify({ expect: fingerprint });
      expect(expected).toEqual({ fingerprint, recordsSince: 8 - record });
      const other = `${record}-${hexOf(heads[(record + 1) % 9] as string)}`;
      const error = await refusal({ expect: other });
      expect([error.code, error.message]).toEqual([
        "HEAD_MISMATCH",
        expect.stringMatching(`does not hold the head ${other}: record ${record} has another hash`),
      ]);
    }
    const error = await refusal({ expect: `9-${hexOf(end.head)}` });
    expect([error.code, error.message]).toEqual([
      "HEAD_MISMATCH",
      expect.stringMatching(/its history ends at record 8: .*fingerprint$/),
    ]);
  });

  test("says so where what was expected was only half written", async () => {
    story();
    mark();
    const torn = lay(lot());
    spoilMarker(1, torn);
    expect((await verify()).tornBytes).toBe(torn.end - torn.at);
    const error = await refusal({ expect: fingerprintOf(7) });
    expect(error.message).toContain(`half written (${torn.end - torn.at} bytes)`);
    expect((await refusal({ expect: `2-${"0".repeat(64)}` })).message).not.toContain("half");
  });

  test("says so of a single byte too", async () => {
    story();
    mark();
    write(1, end.offset, Buffer.from("B"));
    expect((await verify()).tornBytes).toBe(1);
    const error = await refusal({ expect: `7-${"0".repeat(64)}` });
    expect(error.message).toContain("half written (1 bytes)");
  });

  test("what is no fingerprint is refused before anything is read", async () => {
    before = () => {
      throw new Error("it was read");
    };
    for (const text of ["", "7", "hello"])
      expect((await refusal({ expect: text })).code).toBe("USAGE");
  });

  test("an agent that is no longer there is told as such", async () => {
    disk.rename(AGENT, "/elsewhere");
    expect((await refusal()).code).toBe("NO_AGENT");
  });

  test("tells of its progress, and leaves no file open", async () => {
    story();
    roll();
    lay(lot());
    mark();
    let open = 0;
    before = ({ call, path }) => {
      if (call === "open" && disk.stat(path)) open++;
      if (call === "close") open--;
    };
    const told: [number, number][] = [];
    await verify({ onProgress: (done, all) => told.push([done, all]) });
    expect(open).toBe(0);
    const all = [1, 2].reduce((sum, segment) => sum + (disk.stat(pathOf(segment))?.size ?? 0), 0);
    expect(told).toEqual(told.toSorted(([a], [b]) => a - b));
    expect(new Set(told.map(([, of]) => of))).toEqual(new Set([all]));
    // Seals are not read again.
    expect(told.at(-1)).toEqual([all - SEAL, all]);
    spoil(7);
    await refusal();
    expect(open).toBe(0);
  });

  test("is not read to the end when it is called off", async () => {
    story();
    mark();
    const reason = new Error("no longer wanted");
    await expect(verify({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const stop = new AbortController();
    before = ({ call, path }) => {
      if (call === "read" && path === pathOf(1)) stop.abort(reason);
    };
    await expect(verify({ signal: stop.signal })).rejects.toBe(reason);
  });
});

describe("what a recall says", () => {
  test("is decided anew from the definitions", async () => {
    const right = { targets: ids(1), removed: ids(4, 6) };
    const stories: [outcome: Parameters<typeof recall>[0], differs: string | null][] = [
      [right, null],
      [{ targets: ids(1) }, "removed"],
      [{ ...right, removed: ids(4) }, "removed"],
      [{ ...right, removed: ids(4, 5) }, "removed"],
      [{ ...right, removed: ids(5, 6) }, "removed"],
      [{ ...right, removed: ids(4, 5, 6) }, "removed"],
      [{ ...right, alsoErased: ids(1) }, "alsoErased"],
      [{ ...right, contactBelow: ids(5) }, "contactBelow"],
      [{ ...right, explained: ids(3) }, "explained"],
      [{ ...right, mode: "strict" }, "removed"],
      [{ ...right, mode: "strict", removed: ids(4, 5, 6) }, null],
    ];
    for (const [outcome, differs] of stories) {
      const goBack = keepLog();
      story();
      lay(recall(outcome));
      zero(...((outcome.alsoErased ?? []) as number[]));
      mark();
      const file = nameOf(1);
      if (differs === null) expect((await verify()).records).toBe(7);
      else
        expect(await problems()).toEqual([
          expect.objectContaining({
            code: "CORRUPT",
            message: `the recall of record 7 says ${differs} otherwise than the definitions`,
            file,
          }),
        ]);
      goBack();
    }
  });

  test("by contact it is decided from what was seen", async () => {
    story();
    const saw = (from: number, to: number) => ({ base: 0, ranges: ids(from, to) });
    // 7 saw lot 1; 8 saw what 7 saw; 9 saw lot 2 alone.
    lay(memory([[3]], saw(1, 1)), memory([[3]], { base: 7, ranges: ids(2, 2) }));
    lay(memory([[3]], saw(2, 2)));
    // 4 and 6 rest on 1 alone; 5 rests on 4 too.
    const touched = { targets: ids(1), mode: "contact", removed: ids(4, 5, 6, 7, 8) };
    lay(recall(touched));
    mark();
    expect((await verify()).records).toBe(10);
  });

  test("may explain an entry that came dead, once", async () => {
    lay(lot("one"), lot(null, { bornDead: true }), lot("three"));
    lay(recall({ targets: ids(1), explained: ids(2) }));
    mark();
    expect((await verify()).records).toBe(4);
    lay(recall({ targets: ids(3), explained: ids(2) }));
    mark();
    expect(await says()).toEqual([
      "the recall of record 5 says explained otherwise than the definitions",
    ]);
  });

  test.each(["targets", "removed", "alsoErased", "contactBelow", "explained"] as const)(
    "may not name in %s an entry that is not there",
    async (list) => {
      story();
      const bad = lay(recall({ targets: ids(1), removed: ids(4, 6), [list]: ids(7) }));
      mark();
      expect(await problems()).toEqual([
        {
          code: "CORRUPT",
          message: "record 7 names entry 7, which does not exist",
          entry: undefined,
          ...inSegment(1, bad.at),
        },
      ]);
    },
  );
});

describe("what else a record says", () => {
  test("a drop is of what is dead", async () => {
    story();
    lay(recall({ targets: ids(1), removed: ids(4, 6) }));
    lay(drop(4, 6));
    zero(4, 6);
    mark();
    expect((await verify()).records).toBe(8);
    lay(drop(2, 5));
    zero(2, 5);
    mark();
    expect(await problems()).toEqual(
      [2, 5].map((entry) =>
        expect.objectContaining({
          code: "CORRUPT",
          message: `record 9 drops the text of entry ${entry}, which is not dead`,
          entry,
        }),
      ),
    );
  });

  test("a drop is of what is there", async () => {
    story();
    lay(drop(7));
    mark();
    expect((await says())[0]).toBe("record 7 drops the text of entry 7, which is not dead");
  });

  test("only what came dead has no text", async () => {
    lay(lot("one"), lot(null, { bornDead: true }));
    mark();
    expect((await verify()).records).toBe(2);
    lay(lot(null));
    mark();
    expect(await problems()).toEqual([
      expect.objectContaining({ message: "entry 3 was written without a text", entry: 3 }),
    ]);
  });
});

describe("texts", () => {
  /** Twelve lots in three segments, and one in between that holds no entry. */
  function segments() {
    lay(lot("a"), lot("b"), lot("c"), lot("d"));
    roll();
    lay(memory([[1]]), lot("f"), lot("g"));
    lay(lot("h"));
    roll();
    lay(corroborate(5, [2]));
    roll();
    lay(lot("i"), lot("j"), lot("k"), lot("l"));
    mark();
  }

  test("each that is missing, or is not what was committed to, is named with its place", async () => {
    segments();
    expect((await verify()).segments).toBe(4);
    for (const entry of [1, 4, 6, 9, 12]) zero(entry);
    for (const entry of [3, 5, 8, 10]) spoil(entry);
    expect(await problems()).toEqual(
      [1, 3, 4, 5, 6, 8, 9, 10, 12].map((entry) => ({
        code: "CORRUPT",
        message: [3, 5, 8, 10].includes(entry)
          ? `the text of entry ${entry} does not check`
          : `the text of entry ${entry} is all zero, and no record took it`,
        ...textAt(entry),
      })),
    );
  });

  test("the refusal names the first with its place, and how many more there are", async () => {
    segments();
    zero(2);
    const error = await refusal();
    const { file, offset } = textAt(2);
    const first = "the text of entry 2 is all zero, and no record took it";
    expect(error).toMatchObject({
      code: "CORRUPT",
      message: `agent "alice": ${first} (${file}, byte ${offset})`,
      ...textAt(2),
    });
    zero(7);
    expect((await refusal()).message).toMatch(/byte \d+\), and 1 more$/);
    zero(8);
    expect((await refusal()).message).toMatch(/byte \d+\), and 2 more$/);
  });

  test("more than a thousand are told as a thousand", async () => {
    lay(...Array.from({ length: 1001 }, () => lot()));
    mark();
    for (let entry = 1; entry <= 1001; entry++) spoil(entry);
    const error = await refusal();
    expect(error.problems).toHaveLength(1000);
    expect(error.message).toMatch(/, and 999 more$/);
  });

  /** Record 7 erases 1, 4 and 6, record 8 drops 3 that record 9 took before. */
  function erased() {
    story();
    lay(recall({ targets: ids(1), removed: ids(4, 6), alsoErased: ids(1), disposal: "erase" }));
    lay(recall({ targets: ids(3) }));
    lay(drop(3));
  }

  test("those that a record took must be zero, once its erasing is said to be done", async () => {
    erased();
    zero(1, 3, 4, 6);
    mark();
    expect((await verify()).erasesPending).toBe(0);
  });

  test("those that still stand are damage where it is done, and work to do where it is not", async () => {
    erased();
    for (const [done, pending] of [
      [9, 0],
      [8, 1],
      [7, 1],
      [6, 4],
      [0, 4],
    ] as const) {
      mark({ done });
      if (pending === 4) expect((await verify()).erasesPending).toBe(4);
      else {
        const found = await problems();
        const taken = pending === 1 ? [1, 4, 6] : [1, 3, 4, 6];
        expect(found).toEqual(
          taken.map((entry) => ({
            code: "CORRUPT",
            message: `the text of entry ${entry} was erased, and its place is not all zero`,
            ...textAt(entry),
          })),
        );
      }
    }
    zero(1, 4);
    mark({ done: 0 });
    expect((await verify()).erasesPending).toBe(2);
    spoil(4);
    expect((await verify()).erasesPending).toBe(3);
    mark({ done: 7 });
    expect((await problems()).map(({ entry }) => entry)).toEqual([4, 6]);
  });

  test("one that a compaction left out must have been taken", async () => {
    const first = layCompacted(["a", "b", "c"], [true, false, true]);
    expect(first).toBe(1);
    mark();
    expect(await problems()).toEqual([
      {
        code: "CORRUPT",
        message: "the text of entry 2 is missing, and no record took it",
        ...textAt(2),
        offset: 0,
      },
    ]);
    lay(recall({ targets: ids(2), alsoErased: ids(2), disposal: "erase" }));
    mark();
    expect((await verify()).erasesPending).toBe(0);
  });
});

describe("the head mark", () => {
  test("must name a head of the log", async () => {
    story();
    mark({ record: 4, head: heads[4] as string });
    expect((await verify()).headMark).toBe("ok");
    mark({ record: 5, head: heads[4] as string });
    expect(await says()).toEqual(["the log does not hold record 5 as the head mark names it"]);
  });

  test("must not name what is not there", async () => {
    story();
    mark({ record: 7, head: "h".repeat(32) });
    expect(await says()).toContain(
      "the log ends at record 6, and its head mark names 7: it has lost its end",
    );
  });

  test("may be damaged, or not be there", async () => {
    story();
    mark();
    const file = disk.open(HEAD_MARK);
    file.write(Buffer.of(0xff), ((sequence + 1) % 2) * (file.stat().size / 2));
    expect((await verify()).headMark).toBe("one slot damaged");
    disk.removeFile(HEAD_MARK);
    expect((await verify()).headMark).toBe("missing");
  });
});

describe("the snapshot", () => {
  test.each([0, 1, 2, 3])("made behind batch %i is compared with the log there", async (batch) => {
    const steps = [
      () => lay(lot("one"), lot("two")),
      () => lay(memory([[1]])),
      () => lay(recall({ targets: ids(1), removed: ids(3) })),
    ];
    for (const step of steps.slice(0, batch)) step();
    snapshot({});
    for (const step of steps.slice(batch)) step();
    mark();
    expect((await verify()).snapshot).toBe("ok");
  });

  test("may be of an earlier generation, and is then of no use", async () => {
    story();
    snapshot({ generation: 2 });
    mark();
    expect((await verify()).snapshot).toBe("stale");
  });

  test("may be damaged", async () => {
    story();
    snapshot({});
    const file = disk.open(SNAPSHOT);
    file.write(Buffer.of(1), file.stat().size - 1);
    expect((await verify()).snapshot).toBe("damaged");
  });

  test("may name the beginning of the next segment for the end of one", async () => {
    story();
    roll();
    snapshot({ segment: 3 });
    expect(await says()).toEqual(["the snapshot of record 6 says otherwise than the log"]);
    snapshot({});
    expect((await verify()).snapshot).toBe("ok");
    lay(lot());
    mark();
    expect((await verify()).snapshot).toBe("ok");
  });

  test.each([
    ["the head", () => ({ head: heads[5] as string })],
    ["the offset", () => ({ offset: end.offset + 1 })],
    ["the segment", () => ({ segment: 2 })],
    ["the offset, in the next segment", () => ({ segment: 2, offset: HEADER + 1 })],
  ])("must agree on %s", async (_what, wrong) => {
    story();
    snapshot(wrong());
    mark();
    expect(await problems()).toEqual([
      expect.objectContaining({
        code: "CORRUPT",
        message: "the snapshot of record 6 says otherwise than the log",
        file: "graph",
      }),
    ]);
  });

  test("must agree on the graph", async () => {
    lay(lot("one"), lot("two"), memory([[1]]));
    snapshot({});
    const file = disk.open(SNAPSHOT);
    const theirs = Buffer.alloc(file.stat().size);
    file.read(theirs, 0);
    // The same size, and another parent.
    beginLog();
    lay(lot("one"), lot("two"), memory([[2]]));
    snapshot({});
    const ours = Buffer.alloc(theirs.length);
    disk.open(SNAPSHOT).read(ours, 0);
    // Its body with this log's head: all that is not its own.
    theirs.subarray(128).copy(ours, 128);
    ours.writeUInt32LE(crc32(ours.subarray(128)), 108);
    ours.writeUInt32LE(crc32(ours.subarray(0, 124)), 124);
    disk.open(SNAPSHOT).write(ours, 0);
    mark();
    expect(await says()).toEqual(["the snapshot of record 3 says otherwise than the log"]);
  });

  test("must not be of what is not there", async () => {
    story();
    const lost = "it has lost its end";
    for (const generation of [1, 2]) {
      snapshot({ record: 7, entries: 6, generation });
      expect(await says()).toEqual([
        `the log ends at record 6, and a snapshot was made at 7: ${lost}`,
      ]);
    }
    // No batch ends there, so it was never made of this log.
    snapshot({ record: 5, entries: 6 });
    expect(await says()).toHaveLength(1);
    snapshot({ record: 5, entries: 6, generation: 2 });
    expect((await verify()).snapshot).toBe("stale");
  });
});

describe("the chain", () => {
  test("begins at record 1", async () => {
    disk.removeFile(pathOf(1));
    const before = { record: 5, entries: 2, head: "\x05".repeat(32) };
    createSegment(disk, pathOf(1), IDS, 1, { number: 1, before }, 0);
    expect(await says()).toContain(`the log in ${FOLDER} does not begin at record 1`);
  });

  test.each(["check", "head"] as const)(
    "a batch that is right but for a spine's %s is told, and what follows it is looked at by itself",
    async (what) => {
      story();
      const forged = layForged(what);
      lay(lot("eight"), lot("nine"));
      mark();
      spoil(9);
      const found = await problems();
      expect(found).toEqual([
        {
          code: "CORRUPT",
          message: expect.any(String),
          entry: undefined,
          ...inSegment(1, forged.at),
        },
        expect.objectContaining({ message: "the text of entry 9 does not check", ...textAt(9) }),
      ]);
    },
  );
});

describe("behind damage to the structure", () => {
  test("every batch is looked at by itself, in this segment and in those that follow", async () => {
    story();
    const torn = lay(lot("seven"));
    lay(lot("eight"), memory([[1]]), lot("ten"));
    const alsoTorn = lay(lot("eleven"));
    lay(lot("twelve"));
    roll();
    const inNext = lay(lot("thirteen"));
    lay(lot("fourteen"));
    roll();
    lay(lot("fifteen"));
    mark();
    spoilMarker(1, torn);
    spoilMarker(1, alsoTorn);
    spoil(9);
    spoil(12);
    spoilMarker(2, inNext);
    spoil(14);
    spoil(15);
    // What is zero may have been taken by a record that is not read any more.
    zero(10);
    const [first, ...behind] = await problems();
    expect(first).toMatchObject({ code: "CORRUPT", file: nameOf(1), offset: torn.at });
    const notText = (entry: number) => ({
      code: "CORRUPT",
      message: `the text of entry ${entry} does not check`,
      ...textAt(entry),
    });
    const noBatch = (segment: number, { at }: Laid) => ({
      code: "CORRUPT",
      message: expect.stringMatching(/^a batch of .* does not check$/),
      entry: undefined,
      ...inSegment(segment, at),
    });
    expect(behind).toEqual([
      notText(9),
      noBatch(1, alsoTorn),
      notText(12),
      noBatch(2, inNext),
      notText(14),
      notText(15),
    ]);
  });

  test("a spine that does not check is told, though its chain holds", async () => {
    story();
    const torn = lay(lot("seven"));
    const forged = layForged("check");
    lay(lot("nine"));
    mark();
    spoilMarker(1, torn);
    const [, ...behind] = await problems();
    expect(behind).toEqual([
      {
        code: "CORRUPT",
        message: "a spine does not check",
        entry: undefined,
        ...inSegment(1, forged.at),
      },
    ]);
  });

  test("records without a text, and texts that a compaction left out, are no damage", async () => {
    story();
    const torn = lay(lot("seven"));
    lay(
      recall({ targets: ids(1) }),
      lot("eight"),
      corroborate(5, [3]),
      lot(null, { bornDead: true }),
    );
    layCompacted(["a", "b", "c"], [true, false, true]);
    layCompacted(["d"], [false]);
    mark();
    spoilMarker(1, torn);
    expect(await problems()).toHaveLength(1);
  });

  test("a segment that cannot be read is told, and those before and behind it are looked at", async () => {
    story();
    const torn = lay(lot("seven"));
    lay(lot("eight"));
    roll();
    lay(lot("nine"));
    roll();
    lay(lot("ten"));
    mark();
    spoilMarker(1, torn);
    spoil(8);
    spoil(9);
    spoil(10);
    before = ({ call, path }) => {
      if (call === "read" && path === pathOf(2))
        throw diskError("read", pathOf(2), Object.assign(new Error("EIO"), { code: "EIO" }));
    };
    const [, ...behind] = await problems();
    expect(behind.map(({ code, entry }) => [code, entry])).toEqual([
      ["CORRUPT", 8],
      ["DISK", undefined],
      ["CORRUPT", 10],
    ]);
  });

  test("a spine that does not check is told with its batch", async () => {
    story();
    const torn = lay(lot("seven"));
    const bad = lay(lot("eight"), lot("nine"));
    lay(lot("ten"));
    mark();
    spoilMarker(1, torn);
    const bytes = Buffer.alloc(bad.end - bad.at);
    disk.open(pathOf(1)).read(bytes, bad.at);
    const spinesEnd = BATCH_HEADER + bytes.readUInt32LE(16);
    bytes.writeUInt8(bytes.readUInt8(spinesEnd - 1) ^ 1, spinesEnd - 1);
    const head = bytes.toString("latin1", bytes.length - MARKER + 4, bytes.length - MARKER + 36);
    writeCommitMarker(bytes, bytes.length - MARKER, crc32(bytes.subarray(0, spinesEnd)), head);
    write(1, bad.at, bytes);
    spoil(10);
    expect((await problems()).slice(1)).toEqual([
      {
        code: "CORRUPT",
        message: expect.any(String),
        entry: undefined,
        ...inSegment(1, bad.at),
      },
      expect.objectContaining(textAt(10)),
    ]);
  });
});

describe("while others write", () => {
  /** Counts how often it began anew: each time it reads the head mark. */
  function beginnings(): { count: number } {
    const seen = { count: 0 };
    before = ({ call, path }) => {
      if (call === "open" && path === HEAD_MARK) seen.count++;
    };
    return seen;
  }

  test("what is wrong and stays so is told at once", async () => {
    story();
    mark();
    spoil(2);
    const attempts = beginnings();
    expect((await refusal()).code).toBe("CORRUPT");
    expect(attempts.count).toBe(1);
  });

  test("what looked wrong and was written to meanwhile is looked at again", async () => {
    story();
    mark();
    spoil(2);
    const attempts = beginnings();
    const counting = before;
    before = (call) => {
      counting(call);
      if (attempts.count !== 2 || call.path !== HEAD_MARK) return;
      const { at } = areas[2] as { at: number };
      write(1, at + AREA - 1, Buffer.of(0));
    };
    // The file grows under the first reading, as when a writer reserves room.
    let isGrown = false;
    const repairing = before;
    before = (call) => {
      repairing(call);
      if (isGrown || call.call !== "read" || call.path !== pathOf(1)) return;
      isGrown = true;
      const file = disk.open(pathOf(1));
      file.truncate(file.stat().size + 4096);
    };
    expect((await verify()).records).toBe(6);
    expect(attempts.count).toBe(2);
  });

  test("it does not go on for ever", async () => {
    story();
    mark();
    spoil(2);
    const attempts = beginnings();
    const counting = before;
    before = (call) => {
      counting(call);
      if (call.call !== "close" || call.path !== HEAD_MARK) return;
      const file = disk.open(pathOf(1));
      file.truncate(file.stat().size + 1);
    };
    expect((await refusal()).code).toBe("CORRUPT");
    expect(attempts.count).toBe(8);
  });
});

describe("what the disk refuses", () => {
  const refused = (code: string) =>
    diskError("flush", pathOf(1), Object.assign(new Error(code), { code }));

  test.each(["EROFS", "EINVAL", "EBADF"])(
    "a flush that is not possible (%s) has been done",
    async (code) => {
      story();
      mark();
      before = ({ call }) => {
        if (call === "flushOffThread") throw refused(code);
      };
      expect((await verify()).ok).toBe(true);
    },
  );

  test("a flush that fails is told: no head is named that may be lost", async () => {
    story();
    mark();
    before = ({ call }) => {
      if (call === "flushOffThread") throw refused("EIO");
    };
    expect((await refusal()).code).toBe("DISK");
    before = ({ call }) => {
      if (call === "flushOffThread") throw new TypeError("a mistake");
    };
    await expect(verify()).rejects.toThrow(TypeError);
  });

  test("a read that fails is one of the problems; a mistake of our own is none", async () => {
    story();
    mark();
    before = ({ call, path }) => {
      if (call === "read" && path === pathOf(1)) throw refused("EIO");
    };
    const error = await refusal();
    expect([error.code, (error.problems as Problem[])[0]?.code]).toEqual(["DISK", "DISK"]);
    before = ({ call, path }) => {
      if (call === "read" && path === pathOf(1)) throw new TypeError("a mistake");
    };
    await expect(verify()).rejects.toThrow(TypeError);
  });
});
