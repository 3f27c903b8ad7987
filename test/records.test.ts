// Single records read back from a log, on a disk in memory: what is long, what changed under an open handle, what stands where
// something else is due.

import { crc32 } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { SpineWriter } from "../src/codec.ts";
import { CheeseError } from "../src/errors.ts";
import { AgentState } from "../src/state.ts";
import {
  AGENT,
  AREA,
  areas,
  beginLog,
  corroborate,
  disk,
  drop,
  IDS,
  ids,
  lay,
  lot,
  memory,
  pathOf,
  recall,
  roll,
  write,
  zero,
} from "./laid.ts";
import { type DiskCall, watched } from "./memorydisk.ts";

let calls: DiskCall[];

beforeEach(() => {
  beginLog();
  calls = [];
});

/** What was laid so far, as an open handle has it. */
function opened(): AgentState {
  const state = new AgentState({
    disk: watched(disk, (call) => {
      calls.push(call);
    }),
    folder: AGENT,
    ids: IDS,
    access: "read",
  });
  state.step(Number.POSITIVE_INFINITY);
  return state;
}

function refusal(work: () => unknown): CheeseError {
  try {
    work();
  } catch (error) {
    if (error instanceof CheeseError) return error;
    throw error;
  }
  throw new Error("it was read");
}

/** The bytes of one record's spine. */
function spineOf(add: (writer: SpineWriter) => void): Buffer {
  const writer = new SpineWriter(IDS.agentId);
  add(writer);
  return Buffer.from(writer.buffer.subarray(writer.start, writer.end));
}

const spineAt = ({ places }: AgentState, entry: number) => places.spineAt[entry] as number;

describe("a spine", () => {
  test("of any length is read, by itself and in a row", () => {
    lay(...Array.from({ length: 4000 }, () => lot("x")));
    // From one byte of length to three, and around what one read takes.
    const counts = [1, 40, 90, 450, 454, 455, 456, 457, 458, 459, 460, 461, 470, 3000, 4000];
    const legs = counts.map((count) => Array.from({ length: count }, (_, i) => i + 1));
    lay(...legs.map((leg) => memory([leg])));
    // 280,000 bytes, more than a window.
    const many = Array.from({ length: 70 }, () => legs.at(-1) as number[]);
    lay(memory(many));
    const { records } = opened();
    for (const [i, leg] of legs.entries()) expect(records.legs(4001 + i)).toEqual([ids(...leg)]);
    const last = 4001 + legs.length;
    expect(records.legs(last)).toEqual(many.map((leg) => ids(...leg)));
    const read = records.inARow();
    for (let entry = 1; entry < last; entry += 7)
      expect(records.spine(entry, read).entry).toBe(entry);
    for (let entry = last; entry > 4000; entry--)
      expect(records.legs(entry, read)).toEqual(records.legs(entry));
  });

  test("that changed under the handle is damage, and says where", () => {
    lay(lot("one"), lot("two"), memory([[1, 2]]));
    const state = opened();
    const at = spineAt(state, 2);
    const file = pathOf(1);
    for (let byte = 0; byte < spineAt(state, 3) - at; byte++) {
      const was = Buffer.alloc(1);
      disk.open(file).read(was, at + byte);
      write(1, at + byte, Buffer.of((was[0] as number) ^ 1));
      const error = refusal(() => state.records.spine(2));
      expect(error).toMatchObject({ code: "CORRUPT", file, offset: at });
      expect(error.message).toContain(`${file}, offset ${at}`);
      expect(error.cause).toBeInstanceOf(CheeseError);
      write(1, at + byte, was);
    }
    expect(state.records.spine(2).entry).toBe(2);
  });

  test("of a kind that is not known yet is no damage", () => {
    lay(lot("one"), lot("two"));
    const state = opened();
    const spine = spineOf((writer) =>
      writer.corroborate({ time: 1, record: 2, memory: 2, leg: [1] }),
    );
    spine[1] = 9;
    spine.writeUInt32LE(crc32(spine.subarray(0, -4), crc32(IDS.agentId)), spine.length - 4);
    write(1, spineAt(state, 2), spine);
    expect(refusal(() => state.records.spine(2)).code).toBe("NEWER_FORMAT");
  });

  test("that claims any length becomes no allocation larger than the file", () => {
    lay(lot("one"));
    const state = opened();
    const at = spineAt(state, 1);
    const { size } = disk.open(pathOf(1)).stat();
    for (const length of ["ffffffff0f", "ffffffff7f", "ffffff7f", "8080808080", "ffff3f"]) {
      write(1, at, Buffer.from(length, "hex"));
      calls = [];
      expect(refusal(() => state.records.spine(1)).code).toBe("CORRUPT");
      // What is asked of the disk: a likely length first, then no more than there is, or a window.
      const asked = calls.filter(({ call }) => call === "read").map(({ bytes }) => bytes);
      if (length.startsWith("ffffffff")) expect(asked).toEqual([512, size - at]);
      else for (const bytes of asked) expect(bytes).toBeLessThanOrEqual(262_144);
    }
    disk.open(pathOf(1)).truncate(at + 5);
    expect(refusal(() => state.records.spine(1)).code).toBe("CORRUPT");
    disk.open(pathOf(1)).truncate(at);
    expect(refusal(() => state.records.spine(1)).code).toBe("CORRUPT");
  });

  test("of another entry, or of no entry though it names this one, is not taken for it", () => {
    lay(lot("one"), lot("two"), memory([[1]]), lot("four"));
    const state = opened();
    const at = spineAt(state, 3);
    const other = Buffer.alloc(spineAt(state, 2) - spineAt(state, 1));
    disk.open(pathOf(1)).read(other, spineAt(state, 1));
    write(1, at, other);
    const error = refusal(() => state.records.spine(3));
    expect(error).toMatchObject({ code: "CORRUPT", entry: 3, offset: at });
    expect(error.message).toBe("entry 1 stands where entry 3 is due");
    write(
      1,
      at,
      spineOf((writer) => writer.corroborate({ time: 1, record: 3, memory: 3, leg: [1] })),
    );
    expect(refusal(() => state.records.spine(3)).message).toBe(
      "entry 3 stands where entry 3 is due",
    );
  });
});

describe("a text", () => {
  test("is noted as served, so that who read it can ask whether it is still there", () => {
    lay(lot("one"), lot("two"));
    const { records, graph } = opened();
    const text = (entry: number) => {
      records.spine(entry);
      return records.text(entry);
    };
    const served = records.noteServed();
    expect([text(1)?.text, text(2)?.text]).toEqual(["one", "two"]);
    expect(served).toEqual([1, 2]);
    expect(records.anyGone(served)).toBe(false);
    graph.setFlag(ids(2), 8);
    expect(records.anyGone(served)).toBe(true);
    const later = records.noteServed();
    expect(text(2)).toBe(null);
    expect(later).toEqual([]);
    expect(served).toEqual([1, 2]);
  });

  test("that is not in the files is none", () => {
    lay(lot("one"));
    const { records, places } = opened();
    places.areaAt[1] = 0;
    records.spine(1);
    expect(records.text(1)).toBe(null);
  });

  test("that changed, or that the file's end cuts, is damage, and says where", () => {
    lay(lot("one"), lot("two"));
    const state = opened();
    const { at } = areas[2] as { at: number };
    write(1, at + 40, Buffer.from("x"));
    const text = () => {
      state.records.spine(2);
      return state.records.text(2);
    };
    const damage = { code: "CORRUPT", entry: 2, file: pathOf(1), offset: at };
    expect(refusal(text)).toMatchObject(damage);
    for (const left of [AREA - 1, 1, 0]) {
      disk.open(pathOf(1)).truncate(at + left);
      expect(refusal(text)).toMatchObject(damage);
    }
  });
});

describe("legs", () => {
  test("are told apart where corroborations lie between them", () => {
    lay(lot("1"), lot("2"), lot("3"), lot("4"));
    lay(
      memory([[1], [2], [3]]),
      corroborate(5, [4]),
      memory([[1, 2], [5]]),
      corroborate(5, [1, 4]),
    );
    lay(corroborate(6, [3]), memory([[6]]), memory([[7], [1]]));
    const { records, graph } = opened();
    const all = [[1], [2], [3], [4], [1, 2], [5], [1, 4], [3], [6], [7], [1]];
    expect(graph.legCount).toBe(all.length);
    expect(all.map((_, leg) => [...records.parents(leg)])).toEqual(all);
    const legsOf = (entry: number, before?: number) =>
      records.legs(entry, undefined, before).map((leg) => [...leg]);
    expect(legsOf(5)).toEqual([[1], [2], [3], [4], [1, 4]]);
    expect(legsOf(5, 6)).toEqual([[1], [2], [3], [4]]);
    expect(legsOf(6)).toEqual([[1, 2], [5], [3]]);
    expect(legsOf(8)).toEqual([[7], [1]]);
  });

  test("of a corroboration in whose place another record stands are damage", () => {
    lay(lot("1"), lot("2"), memory([[1]]), corroborate(3, [2]));
    const state = opened();
    const { places, records } = state;
    places.legSpineAt.view()[0] = spineAt(state, 3);
    expect(refusal(() => records.corroboration(0))).toMatchObject({ code: "CORRUPT" });
    expect(refusal(() => records.legs(3))).toMatchObject({ code: "CORRUPT" });
  });
});

describe("recalls and drops", () => {
  test("say what they took", () => {
    lay(lot("1"), memory([[1]]), lot("3"), memory([[3]]), memory([[1]]));
    lay(recall({ targets: ids(1), removed: ids(2, 5) }));
    lay(
      drop(2),
      recall({ targets: ids(3), disposal: "erase", removed: ids(4), alsoErased: ids(1) }),
    );
    const { records, places } = opened();
    expect(places.actRecord.length).toBe(3);
    expect(records.act(0)).toMatchObject({ record: 6, dropped: ids() });
    expect(records.act(0).recall).toMatchObject({ targets: ids(1), removed: ids(2, 5) });
    expect(records.act(1)).toMatchObject({ record: 7, recall: null, dropped: ids(2) });
    expect([0, 1, 2].map((slot) => [...records.textsTakenBy(slot)])).toEqual([[], [2], [1, 4]]);
  });

  test("in whose place another record stands are damage", () => {
    lay(lot("1"), lot("2"), recall({ targets: ids(1) }), recall({ targets: ids(2) }));
    const { records, places } = opened();
    places.actSpineAt.view()[0] = places.actSpineAt.at(1);
    expect(refusal(() => records.act(0)).message).toBe("record 4 stands where 3 is due");
  });
});

test("who has seen something is found though some of it was written after the first look", () => {
  const saw = (...ranges: number[]) => ({ base: 0, ranges: ids(...ranges) });
  lay(lot("1"), lot("2", { seen: saw(1, 1) }), memory([[2]]), memory([[2]], saw(1, 2)));
  const state = opened();
  const whoSaw = (entry: number) => {
    const marked = new Uint8Array(state.graph.entryCount + 1);
    marked[entry] = 1;
    const found: number[] = [];
    state.records.seenIndex().forEachWhoSaw(marked, (who) => found.push(who));
    return found;
  };
  expect([whoSaw(1), whoSaw(2), whoSaw(3)]).toEqual([[2, 4], [4], []]);
  lay(lot("5", { seen: saw(3, 3) }), lot("6"), lot("7", { seen: saw(1, 5) }));
  state.step(Number.POSITIVE_INFINITY);
  expect([whoSaw(1), whoSaw(3), whoSaw(5)]).toEqual([[2, 4, 7], [5, 7], [7]]);
  expect([1, 2, 3, 4, 5].map((entry) => state.records.seen(entry))).toEqual([
    null,
    [1],
    null,
    [1, 2],
    [3],
  ]);
});

describe("the place of an erased text", () => {
  const LONG = 600_000;

  test("is all zero, or is not: at every end, within it, and where the file ends before it does", () => {
    lay(lot("one"), lot("l".repeat(LONG)), lot("three"));
    const { records, places } = opened();
    const isZero = (entry: number) => records.areaIsZero(entry);
    expect([isZero(1), isZero(2), isZero(3)]).toEqual([false, false, false]);
    zero(1);
    expect([isZero(1), isZero(2)]).toEqual([true, false]);
    for (const entry of [1, 2, 3]) {
      const { at } = areas[entry] as { at: number };
      const bytes = places.areaBytes(entry) as number;
      write(1, at, Buffer.alloc(bytes));
      expect(isZero(entry)).toBe(true);
      for (const place of [0, 1, bytes - 1, 262_143, 262_144, 262_145, 524_288]) {
        if (place >= bytes) continue;
        write(1, at + place, Buffer.of(1));
        expect(isZero(entry)).toBe(false);
        write(1, at + place, Buffer.of(0));
      }
      expect(isZero(entry)).toBe(true);
    }
    const { at } = areas[2] as { at: number };
    for (const left of [0, 1, 262_144, 500_000]) {
      disk.open(pathOf(1)).truncate(at + left);
      expect(isZero(2)).toBe(false);
    }
    places.areaAt[2] = 0;
    expect(isZero(2)).toBe(true);
  });

  test("is overwritten whole, and nothing beside it, in whichever segment it lies", () => {
    lay(lot("one"), lot("l".repeat(LONG)));
    roll();
    lay(lot("three"), lot("four"));
    const before = disk.image();
    const state = new AgentState({ disk, folder: AGENT, ids: IDS, access: "write" });
    state.step(Number.POSITIVE_INFINITY);
    state.places.areaAt[4] = 0;
    state.records.zeroAreas(ids(2, 3, 4));
    for (const [segment, entry] of [
      [1, 2],
      [2, 3],
    ] as const) {
      const was = Buffer.from(before.get(pathOf(segment)) as Buffer);
      const { at } = areas[entry] as { at: number };
      was.fill(0, at, at + (state.places.areaBytes(entry) as number));
      expect(disk.image().get(pathOf(segment))?.equals(was)).toBe(true);
    }
    state.close();
  });

  test("of more than 65,534 units is as long as its spine says", () => {
    lay(lot("x".repeat(65_535 * 32)));
    const state = new AgentState({ disk, folder: AGENT, ids: IDS, access: "write" });
    state.step(Number.POSITIVE_INFINITY);
    expect(state.places.areaBytes(1)).toBe(null);
    state.records.zeroAreas(ids(1));
    expect(state.records.areaIsZero(1)).toBe(true);
    const file = disk.image().get(pathOf(1)) as Buffer;
    const { at } = areas[1] as { at: number };
    expect(file.subarray(at, -40).every((byte) => byte === 0)).toBe(true);
    state.close();
  });
});
