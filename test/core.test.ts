// One agent's core on a disk in memory: what an opening does to the files that a crash left, call by call; the lock and how
// long it is kept; batches, and what a failure leaves.

import { basename } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { AgentCore, type Transaction } from "../src/core.ts";
import { diskError } from "../src/disk.ts";
import { CheeseError } from "../src/errors.ts";
import { readHeadMark, writeHeadMark } from "../src/headmark.ts";
import type { MakeLock, WriterLock } from "../src/lock.ts";
import type { AgentPlace } from "../src/log.ts";
import { createSegment } from "../src/segment.ts";
import { writeSnapshot } from "../src/snapshot.ts";
import { AgentState } from "../src/state.ts";
import { readEntry } from "../src/view.ts";
import { codeOf } from "./helpers.ts";
import {
  AGENT,
  AREA,
  areas,
  beginLog,
  disk,
  drop,
  end,
  HEAD_MARK,
  HEADER,
  IDS,
  ids,
  keepLog,
  lay,
  lot,
  memory,
  pathOf,
  recall,
  roll,
  START,
  write,
  zero,
} from "./laid.ts";
import { type DiskCall, memoryLocks, watched } from "./memorydisk.ts";

const LOCK = "/locks/agent";
const SNAPSHOT = "/agent/graph";
const KIB = 1024;
/** Longer than the lock is kept after a write. */
const IDLE_MS = 60;
const LONG_MS = 5000;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

let locks: MakeLock;
/** What was done to files and folders since the test last looked; reads and looks left out. */
let calls: string[];
/** Done before each call of the disk; the call fails with what it throws. */
let before: (call: DiskCall) => void;
let sequence: number;

beforeEach(() => {
  beginLog();
  disk.makeFolder("/locks");
  locks = memoryLocks();
  calls = [];
  before = () => {};
  sequence = 2;
});

function note(one: DiskCall) {
  before(one);
  const { call, path, at, bytes } = one;
  if (["stat", "look", "list", "read", "open", "close"].includes(call)) return;
  const how = call === "write" ? ` ${bytes} at ${at}` : call === "truncate" ? ` to ${at}` : "";
  calls.push(`${call === "flushOffThread" ? "flush" : call}${how} ${basename(path)}`);
}

/** The calls since it was last asked. */
function done(): string[] {
  const now = calls;
  calls = [];
  return now;
}

function closeAtEnd(core: AgentCore) {
  onTestFinished(async () => {
    before = () => {};
    await core.close();
  });
}

/** The core of a process of its own: what is shared is the disk and the lock. */
function coreOf(place: Partial<AgentPlace> = {}): { core: AgentCore; lock: WriterLock } {
  const watching = watched(disk, note);
  const lock = locks(watching, LOCK);
  const core = new AgentCore({
    place: { disk: watching, folder: AGENT, ids: IDS, access: "write", ...place },
    lock,
    now: () => 1,
    fillRandom: (bytes) => bytes.fill(0xee),
  });
  closeAtEnd(core);
  return { core, lock };
}

async function opened(place: Partial<AgentPlace> = {}) {
  const made = coreOf(place);
  await made.core.open();
  return made;
}

function mark({ record = end.record, head = end.head, done = end.record } = {}) {
  sequence++;
  writeHeadMark(disk, HEAD_MARK, IDS, { record, head, done, sequence });
}

const markNow = () => readHeadMark(disk, HEAD_MARK, IDS);

/** Adds a lot, as the library does. */
const addLot =
  (text: string) =>
  ({ batch, time, apply, state }: Transaction): number => {
    batch.addLot(time, "x", { text, uri: null }, null);
    apply();
    return state.graph.entryCount;
  };
const put = (core: AgentCore, text: string, waitMs = LONG_MS) => core.write(waitMs, addLot(text));

const textAt = (state: AgentState, id: number) => readEntry(state, id, { withText: true }).text;
const textOf = (core: AgentCore, id: number) => core.read((state) => textAt(state, id));
const entryCount = (core: AgentCore) => core.read(({ graph }) => graph.entryCount);

function snapshot() {
  const state = new AgentState({ disk, folder: AGENT, ids: IDS, access: "read" });
  state.step(Number.POSITIVE_INFINITY);
  const { graph, places } = state;
  writeSnapshot(disk, AGENT, IDS, { graph, places, generation: 1, position: end });
  state.close();
}

const bytesOf = (path: string) => {
  const file = disk.open(path);
  const bytes = Buffer.alloc(file.stat().size);
  file.read(bytes, 0);
  return bytes;
};

/** The place of an entry's text, as its bytes are now. */
function areaOf(entry: number): Buffer {
  const { segment, at } = areas[entry] as { segment: number; at: number };
  return bytesOf(pathOf(segment)).subarray(at, at + AREA);
}
const isZeroed = (entry: number) => areaOf(entry).every((byte) => byte === 0);

/** So many bytes of a batch, as it would stand behind the log's end. To be called before anyone has the disk open. */
function half(bytes: number): Buffer {
  const back = keepLog();
  const { at, end } = lay(lot("torn"));
  const torn = bytesOf(pathOf(1)).subarray(at, end).subarray(0, bytes);
  back();
  // Zeros at its end would not be told from the space ahead.
  torn[bytes - 1] = 0x55;
  return torn;
}

function tear(bytes: number) {
  const torn = half(bytes);
  write(end.segment, end.offset, torn);
}

describe("an opening", () => {
  test("of what a writer left in order changes nothing, and tells how much was read", async () => {
    lay(lot("one"), lot("two"));
    lay(memory([[1]]));
    mark();
    const { core, lock } = await opened();
    expect(core.opened).toEqual({
      tornBytes: 0,
      erasesFinished: 0,
      replayed: 3,
      fromSnapshot: false,
    });
    expect(lock.isHeld).toBe(false);
    await core.close();
    expect(done()).toEqual([]);
  });

  test("of an agent that has nothing yet changes nothing", async () => {
    const { core } = await opened();
    expect(core.opened.replayed).toBe(0);
    await core.close();
    expect(done()).toEqual([]);
  });

  test("of a snapshot tells so", async () => {
    lay(lot("one"), lot("two"));
    snapshot();
    lay(lot("three"));
    mark();
    const { core } = await opened();
    expect(core.opened).toMatchObject({ replayed: 1, fromSnapshot: true });
  });

  test.each([1, 2])(
    "of %i batches whose end nobody named writes the last again, flushes it, and names it when the lock goes",
    async (batches) => {
      for (let i = 1; i < batches; i++) lay(lot("before"));
      const last = lay(lot("last"), lot("of all"));
      const { core, lock } = await opened();
      expect(lock.isHeld).toBe(true);
      expect(done()).toEqual([
        `write ${last.end - last.at} at ${last.at} 00000001.seg`,
        "flush 00000001.seg",
        expect.stringMatching(/^write \d+ at \d+ head$/),
        "flush head",
        // The reserve.
        expect.stringMatching(/^write \d+ at \d+ 00000001.seg$/),
        "flush 00000001.seg",
      ]);
      expect(markNow()).toMatchObject({ record: end.record, head: end.head });
      await pause(IDLE_MS);
      expect(lock.isHeld).toBe(false);
      await core.close();
    },
  );

  test("where another process writes leaves what looks unfinished to it", async () => {
    lay(lot("one"));
    tear(20);
    const other = locks(disk, LOCK);
    expect(other.tryTake()).toBe(true);
    const { core, lock } = await opened();
    expect(core.opened.tornBytes).toBe(0);
    expect(lock.isHeld).toBe(false);
    expect(done()).toEqual([]);
    expect(await entryCount(core)).toBe(1);
  });

  test("that fails is tried once more: the files may have been changed over under it", async () => {
    lay(lot("one"));
    mark();
    let looks = 0;
    const failingTimes = (times: number) => {
      looks = 0;
      before = ({ call, path }) => {
        if (call === "open" && path === pathOf(1) && ++looks <= times)
          throw new CheeseError("CORRUPT", "it does not check");
      };
    };
    failingTimes(1);
    const { core } = await opened();
    expect(await textOf(core, 1)).toBe("one");
    failingTimes(2);
    const { core: other } = coreOf();
    expect(await codeOf(() => other.open())).toBe("CORRUPT");
    expect(looks).toBe(2);
  });

  test("of a folder in whose place a link stands is refused", async () => {
    lay(lot("one"));
    const { core } = coreOf({
      disk: {
        ...watched(disk, note),
        stat: (path) => {
          const stat = disk.stat(path);
          return stat && path === AGENT ? { ...stat, type: "link" } : stat;
        },
      },
    });
    expect(await codeOf(() => core.open())).toBe("CORRUPT");
  });

  test("that only reads tells what is torn, and leaves it", async () => {
    lay(lot("one"));
    tear(20);
    const { core } = await opened({ access: "read" });
    expect(core.opened.tornBytes).toBe(20);
    expect(core.canWrite).toBe(false);
    expect(await codeOf(() => put(core, "two"))).toBe("READ_ONLY");
    await core.close();
    expect(done()).toEqual([]);
  });

  test.each([1, 20, 150])(
    "by a writer cuts %i torn bytes, tells of them, and goes on behind what was whole",
    async (bytes) => {
      lay(lot("one"));
      const { offset } = end;
      mark();
      tear(bytes);
      const { core } = await opened();
      expect(core.opened.tornBytes).toBe(bytes);
      expect(done().slice(0, 2)).toEqual([
        `truncate to ${offset} 00000001.seg`,
        "flush 00000001.seg",
      ]);
      expect(await put(core, "two")).toBe(2);
      expect(await textOf(core, 2)).toBe("two");
    },
  );

  test("undoes a segment that was begun and not reached", async () => {
    lay(lot("one"));
    mark();
    const { offset, segment } = end;
    const size = bytesOf(pathOf(segment)).length;
    roll();
    // The seal was not written.
    write(1, offset, Buffer.alloc(bytesOf(pathOf(1)).length - offset));
    disk.open(pathOf(1)).truncate(size);
    const { core } = await opened();
    expect(done().slice(0, 2)).toEqual(["removeFile 00000002.seg", "flushFolder 1"]);
    expect(core.opened.tornBytes).toBe(0);
    expect(await put(core, "two")).toBe(2);
  });

  describe("finishes erases", () => {
    beforeEach(() => {
      lay(lot("one"), lot("two"), lot("three"), lot("four"));
      lay(recall({ targets: ids(1), disposal: "erase", alsoErased: ids(1) }));
      lay(recall({ targets: ids(2) }));
      lay(drop(2));
      lay(recall({ targets: ids(3), disposal: "erase", alsoErased: ids(3) }));
    });

    test.each([
      [4, 3, [1, 2, 3]],
      [5, 2, [2, 3]],
      [7, 1, [3]],
    ])("behind record %i: %i of them", async (done5, count, zeroed) => {
      mark({ done: done5 });
      const { core } = await opened();
      expect(core.opened.erasesFinished).toBe(count);
      for (const entry of [1, 2, 3, 4]) expect(isZeroed(entry)).toBe(zeroed.includes(entry));
      const made = done();
      const zeroes = zeroed.map((entry) => `write ${AREA} at ${areas[entry]?.at} 00000001.seg`);
      expect(made.filter((call) => zeroes.includes(call)).sort()).toEqual(zeroes.sort());
      // They are flushed before the head mark says that they are done.
      const lastZero = Math.max(...zeroes.map((call) => made.indexOf(call)));
      const marked = made.findIndex((call) => call.endsWith(" head"));
      expect(made.slice(lastZero, marked)).toContain("flush 00000001.seg");
      expect(markNow()).toMatchObject({ record: 8, done: 8 });
    });

    test("whose places are zero already, too: nobody knows that they were flushed", async () => {
      zero(1, 2, 3);
      mark({ done: 7 });
      const { core } = await opened();
      expect(core.opened.erasesFinished).toBe(1);
      expect(markNow().done).toBe(8);
    });

    test("none that the head mark says are done", async () => {
      mark();
      const { core } = await opened();
      expect(core.opened.erasesFinished).toBe(0);
      expect(done()).toEqual([]);
      expect(isZeroed(1)).toBe(false);
    });
  });
});

describe("the lock", () => {
  test("is taken by the first write, and let go when none follows; the head mark is written before", async () => {
    lay(lot("one"));
    mark();
    const { core, lock } = await opened();
    await put(core, "two");
    expect(lock.isHeld).toBe(true);
    expect(markNow().record).toBe(1);
    done();
    await pause(IDLE_MS);
    expect(lock.isHeld).toBe(false);
    expect(markNow().record).toBe(2);
    expect(done()).toEqual([expect.stringMatching(/^write \d+ at \d+ head$/), "flush head"]);
    // What is named needs no second look.
    await put(core, "three");
    const made = done();
    expect(made.filter((call) => call.startsWith("write")).length).toBe(1);
  });

  test("what a write finds when it takes it is recovered first: another's half batch, and what a compaction left", async () => {
    lay(lot("one"));
    mark();
    const torn = half(30);
    const { core } = await opened();
    write(1, end.offset, torn);
    disk.makeFolder("/agent/log/2.new");
    disk.create("/agent/log/2.new/00000001.seg");
    disk.create(`${SNAPSHOT}.tmp`);
    expect(await put(core, "two")).toBe(2);
    expect(core.opened.tornBytes).toBe(30);
    expect(disk.list("/agent/log")).toEqual(["1"]);
    expect(disk.stat(`${SNAPSHOT}.tmp`)).toBe(null);
  });

  test("another's records are read before anything is decided; its end, if unnamed, is written again", async () => {
    const { core } = await opened();
    await put(core, "one");
    const other = await opened();
    // The first lets the lock go, and the second writes.
    await pause(IDLE_MS);
    expect(await put(other.core, "two")).toBe(2);
    await pause(IDLE_MS);
    expect(await put(core, "three")).toBe(3);
    expect(await entryCount(core)).toBe(3);
    expect(await entryCount(other.core)).toBe(3);
    expect(await textOf(other.core, 3)).toBe("three");
  });

  test("that another has is waited for as long as was said, and no longer: each call by itself", async () => {
    const { core } = await opened();
    const other = locks(disk, LOCK);
    other.tryTake();
    const short = put(core, "short", 30);
    const long = put(core, "long", LONG_MS);
    const refused = await short.catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "LOCKED",
      message: "another process is writing, and still was after 0.03 s",
    });
    // Nobody is kept from reading.
    expect(await entryCount(core)).toBe(0);
    other.release();
    expect(await long).toBe(1);
    expect(await textOf(core, 1)).toBe("long");
  });

  test("is not waited for by one alone longer than it said; then nothing is written", async () => {
    lay(lot("one"));
    mark();
    const { core } = await opened();
    const other = locks(disk, LOCK);
    other.tryTake();
    done();
    expect(await codeOf(() => put(core, "two", 30))).toBe("LOCKED");
    expect(await codeOf(() => put(core, "two", 0))).toBe("LOCKED");
    await pause(IDLE_MS);
    expect(done()).toEqual([]);
    other.release();
    expect(await put(core, "two")).toBe(2);
  });

  test("is let go where what it was taken for finds damage; the handle lives, and says so again", async () => {
    lay(lot("one"));
    mark();
    const { core, lock } = await opened();
    const two = lay(lot("two"));
    lay(lot("three"));
    write(1, two.at + 61, Buffer.of(0xff, 0xff));
    for (let times = 0; times < 2; times++) {
      expect(await codeOf(() => put(core, "four"))).toBe("CORRUPT");
      expect(lock.isHeld).toBe(false);
      expect(core.isShut).toBe(false);
    }
  });

  test("what another process rewrote under it is what is written to, and the old files go", async () => {
    lay(lot("one"));
    mark();
    const { core } = await opened();
    await put(core, "two");
    await pause(IDLE_MS);
    // The same records as the next generation, as a compaction leaves them that died before it removed the old one.
    const old = bytesOf(pathOf(1));
    disk.makeFolder("/agent/log/2");
    createSegment(disk, "/agent/log/2/00000001.seg", IDS, 2, { number: 1, before: START }, 0);
    disk.open("/agent/log/2/00000001.seg").write(old.subarray(HEADER), HEADER);
    expect(await put(core, "three")).toBe(3);
    expect(disk.list("/agent/log")).toEqual(["2"]);
    expect(await textOf(core, 1)).toBe("one");
    expect(await textOf(core, 3)).toBe("three");
    const { core: other } = await opened();
    expect(await textOf(other, 3)).toBe("three");
  });

  test("is let go for a while by one that writes without end", async () => {
    const { core } = await opened();
    const other = locks(disk, LOCK);
    let taken = false;
    const trying = setInterval(() => {
      taken ||= other.tryTake();
    }, 5);
    const until = performance.now() + LONG_MS;
    let last: Promise<number> = Promise.resolve(0);
    for (let i = 0; !taken && performance.now() < until; i++) {
      last = put(core, `lot ${i}`);
      await Promise.race([last, pause(100)]);
      if (i % 16 === 0) await turn();
    }
    clearInterval(trying);
    expect(taken).toBe(true);
    other.release();
    await last;
  });

  test("that was replaced under its holder stops the write", async () => {
    const { core, lock } = await opened();
    await put(core, "one");
    Object.assign(lock, {
      requireStill() {
        throw new CheeseError("DISK", "the lock was replaced");
      },
    });
    expect(await codeOf(() => put(core, "two"))).toBe("DISK");
    expect(await entryCount(core)).toBe(1);
  });
});

describe("a batch", () => {
  test("is all writes of one turn, with one write and one flush", async () => {
    const { core } = await opened();
    // The space ahead is made by the first ones.
    for (const text of ["one", "two", "three"]) await put(core, text);
    done();
    const ids = await Promise.all(["four", "five", "six"].map((text) => put(core, text)));
    expect(ids).toEqual([4, 5, 6]);
    expect(done()).toEqual([
      expect.stringMatching(/^write \d+ at \d+ 00000001.seg$/),
      "flush 00000001.seg",
    ]);
  });

  test("holds no more than its share; what is left goes into the next", async () => {
    const { core } = await opened();
    await put(core, "first");
    done();
    let full = 0;
    const many = (transaction: Transaction) => {
      let added = 0;
      for (; !transaction.isFull(); added++) addLot("x")(transaction);
      full++;
      return added;
    };
    const [added, id] = await Promise.all([core.write(LONG_MS, many), put(core, "last")]);
    expect([added, id, full]).toEqual([4096, 4098, 1]);
    expect(done().filter((call) => call.startsWith("flush")).length).toBe(2);
  });

  test("one that is refused is refused alone", async () => {
    const { core } = await opened();
    const refusal = new CheeseError("NO_ENTRY", "no");
    const [one, two, three] = await Promise.allSettled([
      put(core, "one"),
      core.write(LONG_MS, () => {
        throw refusal;
      }),
      put(core, "three"),
    ]);
    expect(one).toEqual({ status: "fulfilled", value: 1 });
    expect(two).toEqual({ status: "rejected", reason: refusal });
    expect(three).toEqual({ status: "fulfilled", value: 2 });
    expect(await entryCount(core)).toBe(2);
  });

  test("of which every write is refused writes nothing", async () => {
    const { core } = await opened();
    await put(core, "one");
    done();
    expect(
      await codeOf(() =>
        core.write(LONG_MS, () => {
          throw new CheeseError("NO_ENTRY", "no");
        }),
      ),
    ).toBe("NO_ENTRY");
    expect(done()).toEqual([]);
  });

  test("one that needs all before it on the disk is run again, as the first of the next", async () => {
    const { core } = await opened();
    await put(core, "first");
    done();
    const counts: number[] = [];
    const fresh = core.write(LONG_MS, (transaction) => {
      counts.push(transaction.batch.count);
      transaction.requireFreshBatch();
      return addLot("alone")(transaction);
    });
    expect(await Promise.all([fresh, put(core, "three"), put(core, "four")])).toEqual([2, 3, 4]);
    expect(counts).toEqual([0]);
    const second = await Promise.all([
      put(core, "five"),
      core.write(LONG_MS, (transaction) => {
        counts.push(transaction.batch.count);
        transaction.requireFreshBatch();
        return addLot("six")(transaction);
      }),
    ]);
    expect(second).toEqual([5, 6]);
    expect(counts.slice(1)).toEqual([1, 0]);
  });

  test("ends with what erases; what waits behind it comes after the places are zero", async () => {
    lay(lot("one"), lot("two"));
    mark();
    const { core } = await opened();
    let wasZero = false;
    const erase = core.write(LONG_MS, ({ batch, time, apply, endBatch }) => {
      const list = { removed: ids(), contactBelow: ids(), explained: ids() };
      batch.addRecall(time, {
        mode: "fair",
        disposal: "erase",
        targets: ids(1),
        alsoErased: ids(1),
        ...list,
      });
      apply();
      endBatch(ids(1));
    });
    const next = core.write(LONG_MS, (transaction) => {
      wasZero = isZeroed(1);
      return addLot("three")(transaction);
    });
    await erase;
    expect(isZeroed(1)).toBe(true);
    expect(await next).toBe(3);
    expect(wasZero).toBe(true);
    const made = done();
    const zeroed = made.indexOf(`write ${AREA} at ${areas[1]?.at} 00000001.seg`);
    // No reader is served the text any more before it goes.
    const marked = made.findIndex((call) => call.endsWith(" head"));
    expect(marked).toBeGreaterThan(-1);
    expect(marked).toBeLessThan(zeroed);
    expect(made.indexOf("flush 00000001.seg")).toBeLessThan(marked);
    expect(made.indexOf("flush 00000001.seg", zeroed)).toBeGreaterThan(zeroed);
    expect(await textOf(core, 1)).toBe(null);
    expect(await textOf(core, 2)).toBe("two");
    await pause(IDLE_MS);
    expect(markNow()).toMatchObject({ record: 4, done: 3 });
  });

  test("waits for a task that needs the lock for itself, and the task for it", async () => {
    const { core } = await opened();
    const order: string[] = [];
    const first = put(core, "one").then(() => order.push("one"));
    const task = core.exclusively(LONG_MS, async (state) => {
      order.push("task");
      await pause(5);
      return state.graph.entryCount;
    });
    const second = put(core, "two").then(() => order.push("two"));
    const [, count] = await Promise.all([first, task, second]);
    expect(order).toEqual(["one", "task", "two"]);
    expect(count).toBe(1);
  });
});

describe("what fails", () => {
  const failing = (what: string, path: string, code = "EIO") => {
    before = (call) => {
      if (call.call.startsWith(what) && call.path === path)
        throw diskError(what, path, Object.assign(new Error(code), { code }));
    };
  };

  test.each(["write", "flush"])(
    "a %s: every call of the batch is told that it may be written, and every later one that the handle is shut",
    async (what) => {
      const { core, lock } = await opened();
      // The space ahead is made by the first ones.
      for (const text of ["one", "two", "three"]) await put(core, text);
      failing(what, pathOf(1));
      const all = await Promise.allSettled([put(core, "four"), put(core, "five")]);
      for (const each of all)
        expect(each).toMatchObject({
          status: "rejected",
          reason: { code: "DISK", maybeWritten: true },
        });
      before = () => {};
      expect(core.isShut).toBe(true);
      expect(lock.isHeld).toBe(false);
      expect(await codeOf(() => put(core, "six"))).toBe("CLOSED");
      expect(await codeOf(() => entryCount(core))).toBe("CLOSED");
      expect(() => core.readSpines(() => 0)).toThrow("a write failed before");
    },
  );

  test("for want of space before anything is written: the calls are refused, and the handle lives", async () => {
    const { core } = await opened();
    await put(core, "one");
    const big = "x".repeat(300 * KIB);
    failing("write", pathOf(1), "ENOSPC");
    const all = await Promise.allSettled([put(core, big), put(core, "three")]);
    for (const each of all)
      expect(each).toMatchObject({ status: "rejected", reason: { code: "DISK" } });
    before = () => {};
    expect(await entryCount(core)).toBe(1);
    expect(await put(core, "two")).toBe(2);
    expect(await textOf(core, 2)).toBe("two");
  });

  test("the head mark, when the lock goes: what was written is written", async () => {
    const { core, lock } = await opened();
    await put(core, "one");
    failing("write", HEAD_MARK);
    await pause(IDLE_MS);
    expect(lock.isHeld).toBe(false);
    before = () => {};
    expect(markNow().record).toBe(0);
    expect(await put(core, "two")).toBe(2);
    await pause(IDLE_MS);
    expect(markNow().record).toBe(2);
  });

  test("what an opening has to finish: the handle is shut", async () => {
    lay(lot("one"));
    tear(20);
    failing("truncate", pathOf(1));
    const { core, lock } = coreOf();
    expect(await codeOf(() => core.open())).toBe("DISK");
    expect(core.isShut).toBe(true);
    expect(lock.isHeld).toBe(false);
  });

  test("a disk that may only be read is read; a write says why it is none", async () => {
    lay(lot("one"));
    const place = watched(disk, ({ call, path }) => {
      if (call === "create") throw new Error(`nothing may be made: ${path}`);
    });
    const readOnly = {
      ...place,
      open: (path: string, access: "read" | "write") => {
        if (access === "write")
          throw diskError("open", path, Object.assign(new Error("no"), { code: "EROFS" }));
        return place.open(path, access);
      },
    };
    const core = new AgentCore({
      place: { disk: readOnly, folder: AGENT, ids: IDS, access: "write" },
      lock: locks(disk, LOCK),
      now: () => 1,
      fillRandom: () => {},
    });
    closeAtEnd(core);
    await core.open();
    expect(core.canWrite).toBe(false);
    expect(await textOf(core, 1)).toBe("one");
    expect(await codeOf(() => put(core, "two"))).toBe("DISK");
    const other = new AgentCore({
      place: { disk: readOnly, folder: AGENT, ids: IDS, access: "read" },
      lock: locks(disk, LOCK),
      now: () => 1,
      fillRandom: () => {},
    });
    closeAtEnd(other);
    await other.open();
    expect(await codeOf(() => put(other, "two"))).toBe("READ_ONLY");
  });
});

describe("reading", () => {
  test("sees what another wrote, at once", async () => {
    const { core } = await opened();
    const reader = await opened({ access: "read" });
    expect(await entryCount(reader.core)).toBe(0);
    await put(core, "one");
    expect(await entryCount(reader.core)).toBe(1);
    expect(await textOf(reader.core, 1)).toBe("one");
  });

  test("begins anew where the log was rewritten under it, and where it is another file by now", async () => {
    lay(lot("one"));
    mark();
    const { core } = await opened({ access: "read" });
    expect(await textOf(core, 1)).toBe("one");
    const image = disk.image();
    // The same log under another inode, as a copy put in its place.
    disk.removeFile(pathOf(1));
    disk.create(pathOf(1)).write(image.get(pathOf(1)) as Buffer, 0);
    lay(lot("two"));
    expect(await textOf(core, 2)).toBe("two");
  });

  test("a text that another erases while it is read is not served", async () => {
    lay(lot("one"), lot("two"));
    mark();
    const { core } = await opened({ access: "read" });
    let runs = 0;
    const text = await core.read((state) => {
      runs++;
      const read = textAt(state, 1);
      if (runs === 1) {
        lay(recall({ targets: ids(1), disposal: "erase", alsoErased: ids(1) }));
        mark();
        zero(1);
      }
      return read;
    });
    expect([text, runs]).toEqual([null, 2]);
  });

  test("what another writes while it is read, and takes nothing of it, does not make it read again", async () => {
    lay(lot("one"), lot("two"));
    mark();
    const { core } = await opened({ access: "read" });
    let runs = 0;
    const text = await core.read((state) => {
      runs++;
      const read = textAt(state, 1);
      if (runs === 1) lay(lot("three"));
      return read;
    });
    expect([text, runs]).toEqual(["one", 1]);
  });

  test("damage that is there at a second look is told", async () => {
    lay(lot("one"));
    mark();
    const { core } = await opened({ access: "read" });
    let runs = 0;
    const read = core.read(() => {
      runs++;
      throw new CheeseError("CORRUPT", "it does not check");
    });
    expect(await read.catch((error: unknown) => error)).toMatchObject({ code: "CORRUPT" });
    expect(runs).toBe(2);
  });

  test("what it throws by itself is thrown at once", async () => {
    const { core } = await opened({ access: "read" });
    let runs = 0;
    const read = core.read(() => {
      runs++;
      throw new CheeseError("NO_ENTRY", "no");
    });
    expect(await read.catch((error: unknown) => error)).toMatchObject({ code: "NO_ENTRY" });
    expect(runs).toBe(1);
  });

  test("a log that is damaged behind what was read is told as damaged, and not as what was there", async () => {
    lay(lot("one"));
    mark();
    const { core } = await opened({ access: "read" });
    const two = lay(lot("two"));
    lay(lot("three"));
    write(1, two.at + 61, Buffer.of(0xff, 0xff));
    expect(await codeOf(() => entryCount(core))).toBe("CORRUPT");
  });

  test("spines are read though nothing is open any more", async () => {
    lay(lot("one"), lot("two"));
    lay(memory([[1, 2]]));
    mark();
    const { core } = coreOf();
    expect(core.readSpines((records) => [...records.parents(0)])).toEqual([1, 2]);
    await core.open();
    expect(core.readSpines((records) => [...records.parents(0)])).toEqual([1, 2]);
  });
});

describe("an agent's folder that is gone", () => {
  test("says so to every call", async () => {
    lay(lot("one"));
    const { core, lock } = await opened();
    await put(core, "two");
    disk.rename(AGENT, "/gone");
    await pause(IDLE_MS);
    expect(await codeOf(() => entryCount(core))).toBe("NO_AGENT");
    expect(await codeOf(() => put(core, "three"))).toBe("NO_AGENT");
    expect(lock.isHeld).toBe(false);
    const { core: other } = coreOf();
    expect(await codeOf(() => other.open())).toBe("NO_AGENT");
  });
});

describe("closing", () => {
  test("names the end, gives back the space ahead, and lets the lock go", async () => {
    const { core, lock } = await opened();
    for (const text of ["one", "two", "three"]) await put(core, text);
    const ahead = bytesOf(pathOf(1)).length;
    await core.close();
    expect(lock.isHeld).toBe(false);
    expect(markNow().record).toBe(3);
    expect(bytesOf(pathOf(1)).length).toBeLessThan(ahead);
    expect(disk.stat(SNAPSHOT)).toBe(null);
    expect(await codeOf(() => put(core, "two"))).toBe("CLOSED");
    // A second time it does nothing.
    done();
    await core.close();
    expect(done()).toEqual([]);
  });

  test.each([
    [2, 2, true],
    [2, 3, true],
    [3, 2, false],
    [1, 0, false],
  ])("writes a snapshot, wanted every %i records, behind %i: %s", async (wanted, records, is) => {
    const { core } = await opened({ snapshotRecords: wanted });
    for (let i = 0; i < records; i++) await put(core, "x");
    await core.close();
    expect(disk.stat(SNAPSHOT) !== null).toBe(is);
    const again = await opened({ snapshotRecords: wanted });
    expect(again.core.opened).toMatchObject({ fromSnapshot: is, replayed: is ? 0 : records });
    // One is not written again where nothing came behind it.
    done();
    await again.core.close();
    expect(done()).toEqual([]);
  });

  test("a snapshot is written also by one that only read, where one is due", async () => {
    lay(lot("one"), lot("two"));
    mark();
    const { core } = await opened({ snapshotRecords: 2 });
    await core.close();
    expect(disk.stat(SNAPSHOT)).not.toBe(null);
  });

  test("is due at a tenth of the records by itself, but not below two thousand", async () => {
    const lots = (count: number) => Array.from({ length: count }, () => lot("x"));
    lay(...lots(1999));
    mark();
    await (await opened()).core.close();
    expect(disk.stat(SNAPSHOT)).toBe(null);
    lay(lot("one more"));
    mark();
    await (await opened()).core.close();
    expect(disk.stat(SNAPSHOT)).not.toBe(null);
  });

  test("leaves all as it is where another is writing", async () => {
    const { core } = await opened({ snapshotRecords: 1 });
    await put(core, "one");
    await pause(IDLE_MS);
    const other = locks(disk, LOCK);
    other.tryTake();
    done();
    await core.close();
    expect(done()).toEqual([]);
    expect(disk.stat(SNAPSHOT)).toBe(null);
    expect(other.isHeld).toBe(true);
  });

  test("waits for what is under way", async () => {
    const { core } = await opened();
    const writing = put(core, "one");
    await core.close();
    expect(await writing).toBe(1);
    expect(markNow().record).toBe(1);
  });

  test("what is read from spines later is read before", async () => {
    const { core } = await opened();
    let looked = 0;
    const lazies = Array.from({ length: 200 }, () => ({
      materialise() {
        looked++;
      },
    }));
    for (const lazy of lazies) core.beforeClose(new WeakRef(lazy));
    await core.close();
    expect(looked).toBe(lazies.length);
  });
});

test("the folder of an agent is flushed by its first write: its maker may have died before its name was on the disk", async () => {
  const { core } = await opened();
  await put(core, "one");
  expect(done()[0]).toBe("flushFolder ");
  await pause(IDLE_MS);
  await put(core, "two");
  expect(done().some((call) => call.startsWith("flushFolder"))).toBe(false);
});
