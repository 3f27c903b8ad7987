// A handle on one agent: lists of additions, sessions, reading, handles that share or follow each other, what other
// processes write, what opening finds, reading only, deleting under a handle, and two agents that know nothing of each other.

import {
  appendFileSync,
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Disk, realDisk } from "../src/disk.ts";
import { type Agent, type CheeseError, type HistoryRecord, Store } from "../src/index.ts";
import {
  allBytes,
  batchEnd,
  codeOf,
  collect,
  filesIn,
  tempAgent,
  tempFolder,
  tempStore,
} from "./helpers.ts";
import { runChild, runChildNow, startChild } from "./spawn.ts";

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

/** Longer than a handle keeps the lock after a write. */
const LOCK_IS_LET_GO_MS = 200;

/** What docs/format.md promises behind the end of a log. */
const RESERVE_BYTES = 64 * 1024;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The refusal of a list, with the facts that it carries. */
async function refusal(call: () => Promise<unknown>): Promise<CheeseError> {
  const error = await call().then(
    () => null,
    (error: unknown) => error,
  );
  expect(error).toMatchObject({ name: "CheeseError" });
  return error as CheeseError;
}

async function textsOf(agent: Agent): Promise<(string | null)[]> {
  return (await collect(agent.entries())).map(({ text }) => text);
}

function segmentOf(store: Store, agent: Agent): string {
  return join(store.path, "agents", agent.id, "log", "1", "00000001.seg");
}

/** Bytes of a log that are written, the zeros ahead left out. */
function writtenBytes(path: string): number {
  const bytes = readFileSync(path);
  let end = 128;
  while (bytes.toString("latin1", end, end + 4) === "BTCH") end = batchEnd(bytes, end);
  return end;
}

/** Every name below a folder with its size and times, and every byte but those of the lock files. */
function imprint(folder: string): { names: string[]; bytes: Buffer } {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const { size, mtimeMs, ino } = lstatSync(join(folder, name));
      return `${name} ${size} ${mtimeMs} ${ino}`;
    });
  return { names: [String(lstatSync(folder).mtimeMs), ...names], bytes: allBytes(folder) };
}

/** Lots 1, 2, 3; memory 4 from 1 or from 2, memory 5 from 3, memory 6 from 4 and 5 together. */
async function tempPune() {
  let time = 0;
  const made = await tempAgent({ now: () => time++ });
  const { agent } = made;
  // From here on each record is a millisecond.
  time = Date.UTC(2026, 0, 2, 3, 4, 5, 0);
  await agent.addLot("user_message", "I live in Pune");
  await agent.addLot("web_page", "profile: lives in Pune", { uri: "https://example.com/u/1" });
  await agent.addLot("weather_tool", "Pune: rain", { seen: [1, 2] });
  await agent.remember("user lives in Pune", [[1], [2]]);
  await agent.remember("Pune is rainy", [[3]]);
  await agent.remember("carry an umbrella", [[4, 5]]);
  return made;
}

describe("lists of additions", () => {
  test("a parent may be an earlier item of the same call, beside entries and other items", async () => {
    const { agent } = await tempAgent();
    await agent.addLots([
      { label: "web_page", text: "one" },
      { label: "web_page", text: "two", uri: "https://example.com/2", seen: [] },
    ]);
    const ids = await agent.rememberAll([
      { text: "of 1", legs: [[1]] },
      { text: "of the first item, or of 2", legs: [[{ item: 0 }], [2]] },
      { text: "of both items and 1", legs: [[{ item: 1 }, { item: 0 }, 1]], seen: [1] },
    ]);
    expect(ids).toEqual([3, 4, 5]);
    const entries = await collect(agent.entries());
    expect(entries.map(({ legs }) => legs.map(({ parents }) => parents))).toEqual([
      [],
      [],
      [[1]],
      [[3], [2]],
      [[1, 3, 4]],
    ]);
    expect(entries[1]?.uri).toBe("https://example.com/2");
    expect((await agent.get(5)).seen).toEqual([1]);
    expect(await agent.rememberAll([])).toEqual([]);
    expect(await agent.addLots([])).toEqual([]);
  });

  test("an item counts on from what was there, and legs of items are sets like all others", async () => {
    const { agent } = await tempAgent();
    await agent.addLots(upTo(5).map((i) => ({ label: "x", text: `${i}` })));
    const ids = await agent.rememberAll([
      { text: "a", legs: [[5]] },
      { text: "b", legs: [[{ item: 0 }], [{ item: 0 }, { item: 0 }], [5, { item: 0 }]] },
    ]);
    expect(ids).toEqual([6, 7]);
    expect((await agent.get(7)).legs.map(({ parents }) => parents)).toEqual([[6], [5, 6]]);
    // The number that an item will get is no name for it.
    const guess = () =>
      agent.rememberAll([
        { text: "c", legs: [[5]] },
        { text: "d", legs: [[8]] },
      ]);
    expect(await refusal(guess)).toMatchObject({ code: "UNKNOWN_PARENT", item: 1 });
  });

  test("all items are checked first and refused together, with the index of the first that is wrong", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.addLot("web_page", "two");
    await agent.recall([2], { mode: "contact" });
    const lots =
      (bad: Partial<{ label: string; text: string; uri: string; seen: number[] }>) => () =>
        agent.addLots([
          { label: "a", text: "fine" },
          { label: "b", text: "bad", ...bad },
          { label: "", text: "worse" },
        ]);
    expect(await refusal(lots({ label: "l".repeat(65) }))).toMatchObject({
      code: "TOO_LARGE",
      item: 1,
    });
    expect(await refusal(lots({ text: "\ud800" }))).toMatchObject({ code: "NOT_UTF8", item: 1 });
    expect(await refusal(lots({ uri: "\ud800" }))).toMatchObject({ code: "NOT_UTF8", item: 1 });
    expect(await refusal(lots({}))).toMatchObject({ code: "USAGE", item: 2 });
    const saw = (seen: number[]) => () =>
      agent.addLots([
        { label: "a", text: "fine" },
        { label: "a", text: "x", seen },
      ]);
    expect(await refusal(saw([9]))).toMatchObject({ code: "UNKNOWN_PARENT", item: 1 });
    expect(await refusal(saw([1, 2]))).toMatchObject({ code: "RECALLED_CONTEXT", item: 1 });

    type Legs = Parameters<Agent["rememberAll"]>[0] extends Iterable<{ legs: infer L }> ? L : never;
    const memories = (legs: Legs, seen?: number[]) => () =>
      agent.rememberAll([
        { text: "fine", legs: [[1]] },
        { text: "fine", legs: [[{ item: 0 }]] },
        { text: "bad", legs, seen },
      ]);
    for (const [legs, code] of [
      [[], "NO_LEG"],
      [[[1], []], "NO_LEG"],
      [[[4]], "UNKNOWN_PARENT"],
      [[[1], [{ item: 2 }]], "UNKNOWN_PARENT"],
      [[[{ item: 3 }]], "UNKNOWN_PARENT"],
      [[[{ item: -1 }]], "UNKNOWN_PARENT"],
      [[[{ item: 0.5 }]], "UNKNOWN_PARENT"],
      [[[1, 2]], "DEAD_PARENT"],
    ] as [Legs, string][]) {
      expect(await refusal(memories(legs)), JSON.stringify(legs)).toMatchObject({ code, item: 2 });
    }
    expect(await refusal(memories([[1]], [2]))).toMatchObject({
      code: "RECALLED_CONTEXT",
      item: 2,
    });
    expect(await refusal(memories([[1]], [4]))).toMatchObject({ code: "UNKNOWN_PARENT", item: 2 });
    // Two lots and a recall: nothing else was ever written.
    expect((await agent.head()).record).toBe(3);
  });

  test("a refusal in the middle, by a recall of the same turn, names exactly what was written: a prefix", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.addLot("web_page", "two");
    const [recalled, added] = await Promise.allSettled([
      agent.recall([2]),
      agent.rememberAll([
        { text: "item 0", legs: [[1]] },
        { text: "item 1", legs: [[2]] },
        { text: "item 2", legs: [[1]] },
      ]),
    ]);
    expect(recalled.status).toBe("fulfilled");
    expect(added).toMatchObject({ status: "rejected", reason: { code: "DEAD_PARENT", item: 1 } });
    const { written = [] } = (added as PromiseRejectedResult).reason as CheeseError;
    const texts = (await textsOf(agent)).slice(2);
    expect(texts).toEqual(["item 0"].slice(0, written.length));
    expect(written).toEqual(upTo(2 + texts.length, 3));
  });

  test("a signal is heeded before anything is written, and between batches; what was written is a prefix", async () => {
    const { agent } = await tempAgent();
    const lots = upTo(9000).map((i) => ({ label: "x", text: `${i}` }));
    const reason = new Error("enough");
    const refused = agent.addLots(lots, { signal: AbortSignal.abort(reason) });
    await expect(refused).rejects.toBe(reason);
    expect((await agent.head()).record).toBe(0);

    const controller = new AbortController();
    const progress: [number, number][] = [];
    const stopped = agent.addLots(lots, {
      signal: controller.signal,
      onProgress(done, all) {
        progress.push([done, all]);
        if (done >= 8192) controller.abort(reason);
      },
    });
    await expect(stopped).rejects.toBe(reason);
    expect(progress).toEqual([
      [4096, 9000],
      [8192, 9000],
    ]);
    expect((await agent.head()).record).toBe(8192);
    expect(await agent.text(8192)).toBe("8192");
    // The handle goes on as if nothing had been.
    expect(await agent.addLot("x", "next")).toBe(8193);
  });

  test("what was seen may come as anything that can be gone through, once too", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.addLot("web_page", "two");
    const once = () => new Set([1, 2]).values();
    const single = await agent.addLot("x", "x", { seen: once() });
    const [lot = 0] = await agent.addLots([{ label: "x", text: "x", seen: once() }]);
    const [memory = 0] = await agent.rememberAll([{ text: "x", legs: [[1]], seen: once() }]);
    const legs = [[1].values()].values();
    const [ofOnce = 0] = await agent.rememberAll([{ text: "x", legs }]);
    expect((await agent.get(single)).seen).toEqual([1, 2]);
    expect((await agent.get(lot)).seen).toEqual([1, 2]);
    expect((await agent.get(memory)).seen).toEqual([1, 2]);
    expect((await agent.get(ofOnce)).legs).toEqual([{ parents: [1], holds: true }]);
  });

  test("no call is left waiting, whatever number of turns lies between it and the one before", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.remember("of 1", [[1]]);
    const befores: Record<string, () => Promise<unknown>> = {
      addLot: () => agent.addLot("x", "x"),
      addLots: () => agent.addLots([{ label: "x", text: "x" }]),
      "corroborate, to no effect": () => agent.corroborate(2, [1]),
      "a recall that is refused": () => agent.recall([1e6]).catch(() => {}),
      compact: () => agent.compact(),
    };
    for (const [name, before] of Object.entries(befores)) {
      for (let turns = 0; turns < 16; turns++) {
        await before();
        for (let i = 0; i < turns; i++) await null;
        const answer = agent.addLot("x", "x").then(() => "written");
        const never = new Promise((resolve) => setTimeout(resolve, 5000, "left waiting"));
        expect(await Promise.race([answer, never]), `${name}, ${turns} turns`).toBe("written");
      }
    }
  });
});

describe("sessions", () => {
  test("whatever it declares, what a session was shown stands with what it writes, and its own entries with the next", async () => {
    const { agent } = await tempAgent();
    for (const i of upTo(4)) await agent.addLot("web_page", `lot ${i}`);
    const session = agent.session();
    expect(await session.addLot("user_message", "nothing seen yet")).toBe(5);
    session.see([3, 1]);
    expect(await session.remember("of 2", [[2]])).toBe(6);
    session.see([1, 4]);
    expect(await session.addLot("web_page", "with a uri", { uri: "https://example.com" })).toBe(7);
    expect(session.seen).toEqual([1, 3, 4, 5, 6, 7]);
    const seen = await Promise.all([5, 6, 7].map(async (id) => (await agent.get(id)).seen));
    expect(seen).toEqual([undefined, [1, 3, 5], [1, 3, 4, 5, 6]]);
    expect((await agent.show(7)).uri).toBe("https://example.com");
  });

  test("two sessions of one agent know nothing of each other", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    const [one, two] = [agent.session(), agent.session()];
    one.see([1]);
    await one.addLot("x", "saw 1");
    expect(await two.addLot("x", "saw nothing")).toBe(3);
    expect((await agent.get(3)).seen).toBe(undefined);
  });

  test("what it sees while a write of its own is under way stands with the next one", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.addLot("web_page", "two");
    const session = agent.session();
    session.see([1]);
    const first = session.addLot("x", "sent before 2 was shown");
    session.see([2]);
    expect(await first).toBe(3);
    expect(await session.addLot("x", "sent after")).toBe(4);
    expect((await agent.get(3)).seen).toEqual([1]);
    expect((await agent.get(4)).seen).toEqual([1, 2, 3]);
    expect((await agent.planRecall([2], { mode: "contact" })).removed).toEqual([4]);
  });

  test("writes of one turn each carry all that was seen before them", async () => {
    const { agent } = await tempAgent();
    for (const i of upTo(3)) await agent.addLot("web_page", `lot ${i}`);
    const session = agent.session();
    const writes = upTo(3).map((i) => {
      session.see([i]);
      return session.addLot("x", `saw up to ${i}`);
    });
    expect(await Promise.all(writes)).toEqual([4, 5, 6]);
    await session.addLot("x", "saw all");
    const seen = await Promise.all([4, 5, 6, 7].map(async (id) => (await agent.get(id)).seen));
    expect(seen).toEqual([[1], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6]]);
  });

  test("a write that is refused loses nothing of what was seen", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "one");
    const session = agent.session();
    session.see([1]);
    expect(await codeOf(() => session.remember("of nothing", []))).toBe("NO_LEG");
    expect(await codeOf(() => session.remember("of 9", [[9]]))).toBe("UNKNOWN_PARENT");
    expect(await session.addLot("x", "saw 1")).toBe(2);
    expect((await agent.get(2)).seen).toEqual([1]);
  });

  test("a session that has read a source may not write once a contact recall took it; another may", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "bad");
    await agent.addLot("user_message", "good");
    const [reader, other] = [agent.session(), agent.session()];
    reader.see([1]);
    other.see([2]);
    await reader.addLot("x", "before the recall");
    expect((await agent.recall([1], { mode: "contact" })).removed).toEqual([3]);
    expect(await codeOf(() => reader.addLot("x", "after"))).toBe("RECALLED_CONTEXT");
    expect(await codeOf(() => reader.remember("after", [[2]]))).toBe("RECALLED_CONTEXT");
    expect(await other.remember("after", [[2]])).toBe(4);
    const late = agent.session();
    late.see([3]);
    expect(await codeOf(() => late.addLot("x", "read what 3 says"))).toBe("RECALLED_CONTEXT");
  });

  test("what was seen is stored as additions: a long context is not written again with every entry", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLots(upTo(4000).map((i) => ({ label: "x", text: `${i}` })));
    const path = segmentOf(store, agent);
    const session = agent.session();
    // 2,000 apart: as many ranges, two bytes each at least.
    session.see(upTo(2000).map((i) => 2 * i));
    const sizes = [writtenBytes(path)];
    for (const i of upTo(5)) {
      await session.addLot("x", `entry ${i}`);
      sizes.push(writtenBytes(path));
    }
    const [first = 0, ...later] = sizes.slice(1).map((size, i) => size - (sizes[i] as number));
    expect(first).toBeGreaterThan(4000);
    // Header, marker, spine and a text of 64 bytes.
    for (const grown of later) expect(grown).toBeLessThan(300);
    expect((await agent.get(4005)).seen).toEqual([
      ...upTo(2000).map((i) => 2 * i),
      4001,
      4002,
      4003,
      4004,
    ]);
  });

  test("a contact recall reaches along a session's additions, after a reopening too", async () => {
    const { store, agent, token } = await tempAgent({ snapshotRecords: 1 });
    await agent.addLot("web_page", "bad");
    await agent.addLot("user_message", "good");
    const session = agent.session();
    session.see([1]);
    for (const i of upTo(5)) await session.remember(`entry ${i}`, [[2]]);
    await agent.close();
    const again = await store.openAgent(token);
    expect(again.opened.fromSnapshot).toBe(true);
    expect((await again.planRecall([1], { mode: "strict" })).removed).toEqual([]);
    expect((await again.recall([1], { mode: "contact" })).removed).toEqual(upTo(7, 3));
    expect(await codeOf(() => again.addLot("x", "x", { seen: [7] }))).toBe("RECALLED_CONTEXT");
    await again.close();
  });
});

describe("reading", () => {
  test("readable texts are those that are there and check; an unknown entry is refused", async () => {
    const { store, agent } = await tempAgent();
    const ids = await agent.addLots(
      ["kept", "erased", "damaged"].map((text) => ({ label: "web_page", text })),
    );
    await agent.recall([2], { disposal: "erase" });
    const path = segmentOf(store, agent);
    const at = readFileSync(path).indexOf("damaged");
    const file = openSync(path, "r+");
    writeSync(file, "D", at);
    closeSync(file);
    expect(await agent.readableTexts(ids)).toEqual(new Map([[1, "kept"]]));
    expect(await codeOf(() => agent.text(3))).toBe("CORRUPT");
    expect(await codeOf(() => agent.readableTexts([1, 4]))).toBe("NO_ENTRY");
  });

  test("get, text and show give one entry: without its text, its text alone, and whole", async () => {
    const { agent } = await tempPune();
    const lot = {
      id: 3,
      kind: "lot",
      state: "alive",
      label: "weather_tool",
      legs: [],
      seen: [1, 2],
      time: "2026-01-02T03:04:05.002Z",
      erased: false,
    };
    expect(await agent.get(3)).toEqual(lot);
    expect(await agent.text(3)).toBe("Pune: rain");
    expect(await agent.show(3)).toEqual({
      ...lot,
      text: "Pune: rain",
      uri: null,
      builtOnThis: [5],
    });
    expect(await agent.show(2)).toMatchObject({ uri: "https://example.com/u/1", builtOnThis: [4] });
    expect(await agent.get(6)).toEqual({
      id: 6,
      kind: "memory",
      state: "alive",
      label: null,
      legs: [{ parents: [4, 5], holds: true }],
      time: "2026-01-02T03:04:05.005Z",
      erased: false,
    });
    await agent.recall([3], { disposal: "erase" });
    expect(await agent.show(5)).toMatchObject({
      state: "removed",
      erased: true,
      text: null,
      legs: [{ parents: [3], holds: false }],
      builtOnThis: [6],
    });
    expect(await agent.show(3)).toMatchObject({ state: "recalled", label: "weather_tool" });
  });

  test("alive says which of some ids live, in their order; unknown ones do not", async () => {
    const { agent } = await tempPune();
    await agent.recall([3]);
    expect(await agent.alive([6, 5, 4, 3, 2, 1, 7, 0, -1, 1.5])).toEqual([4, 2, 1]);
    expect(await agent.alive([])).toEqual([]);
    expect(await agent.alive(["1" as unknown as number])).toEqual([]);
  });

  test("entries are ascending, with their texts, by state and kind if asked", async () => {
    const { agent } = await tempPune();
    await agent.recall([3]);
    const idsOf = async (filter: Parameters<Agent["entries"]>[0]) =>
      (await collect(agent.entries(filter))).map(({ id }) => id);
    expect(await idsOf({})).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await idsOf({ state: "alive" })).toEqual([1, 2, 4]);
    expect(await idsOf({ state: "recalled" })).toEqual([3]);
    expect(await idsOf({ state: "removed" })).toEqual([5, 6]);
    expect(await idsOf({ kind: "lot" })).toEqual([1, 2, 3]);
    expect(await idsOf({ kind: "memory", state: "alive" })).toEqual([4]);
    expect(await idsOf({ kind: "lot", state: "removed" })).toEqual([]);
    expect(await textsOf(agent)).toEqual([
      "I live in Pune",
      "profile: lives in Pune",
      "Pune: rain",
      "user lives in Pune",
      "Pune is rainy",
      "carry an umbrella",
    ]);
  });

  test("why of the living is its support: flat, breadth first, each entry once, itself left out", async () => {
    const { agent } = await tempPune();
    const why = await agent.why(6);
    expect(why).toMatchObject({ entry: { id: 6, text: "carry an umbrella" }, more: 0 });
    expect("support" in why && why.support).toEqual([
      {
        id: 4,
        kind: "memory",
        label: null,
        text: "user lives in Pune",
        state: "alive",
        legs: [
          { parents: [1], holds: true },
          { parents: [2], holds: true },
        ],
      },
      {
        id: 5,
        kind: "memory",
        label: null,
        text: "Pune is rainy",
        state: "alive",
        legs: [{ parents: [3], holds: true }],
      },
      {
        id: 1,
        kind: "lot",
        label: "user_message",
        text: "I live in Pune",
        state: "alive",
        legs: [],
      },
      {
        id: 2,
        kind: "lot",
        label: "web_page",
        text: "profile: lives in Pune",
        state: "alive",
        legs: [],
      },
      { id: 3, kind: "lot", label: "weather_tool", text: "Pune: rain", state: "alive", legs: [] },
    ]);
    expect(await agent.why(1)).toMatchObject({ support: [], more: 0 });
  });

  test("why tells how many lie beyond the depth or the number asked for", async () => {
    const { agent } = await tempPune();
    const ids = async (options: Parameters<Agent["why"]>[1]) => {
      const why = await agent.why(6, options);
      return "support" in why && [why.support.map(({ id }) => id), why.more];
    };
    expect(await ids({ depth: 1 })).toEqual([[4, 5], 3]);
    expect(await ids({ depth: 0 })).toEqual([[], 5]);
    expect(await ids({ depth: 2 })).toEqual([[4, 5, 1, 2, 3], 0]);
    expect(await ids({ entriesMax: 3 })).toEqual([[4, 5, 1], 2]);
  });

  test("why of a survivor shows the dead leg beside the one that holds", async () => {
    const { agent } = await tempPune();
    await agent.recall([1], { disposal: "erase" });
    const why = await agent.why(4);
    expect(why).toMatchObject({
      entry: {
        legs: [
          { parents: [1], holds: false },
          { parents: [2], holds: true },
        ],
      },
    });
    expect("support" in why && why.support.map(({ id, state, text }) => [id, state, text])).toEqual(
      [
        [1, "recalled", null],
        [2, "alive", "profile: lives in Pune"],
      ],
    );
  });

  test("why of the dead names the recall that killed it, and the way from its target", async () => {
    const { agent } = await tempPune();
    await agent.recall([1], { mode: "strict", disposal: "erase" });
    expect(await agent.why(6)).toMatchObject({
      entry: { id: 6, state: "removed", text: null },
      killedBy: {
        record: 7,
        targets: [1],
        mode: "strict",
        disposal: "erase",
        time: "2026-01-02T03:04:05.006Z",
        path: [1, 4, 6],
      },
    });
    expect(await agent.why(1)).toMatchObject({ killedBy: { record: 7, path: [1] } });
  });

  test("why of what contact took goes over what was seen", async () => {
    const { agent } = await tempPune();
    await agent.recall([1], { mode: "contact" });
    // 3 saw 1; 5 stands on 3.
    expect(await agent.why(5)).toMatchObject({ killedBy: { targets: [1], path: [1, 3, 5] } });
  });

  test("history is every record in order", async () => {
    const { agent } = await tempPune();
    await agent.corroborate(4, [3]);
    await agent.recall([3], { disposal: "untrusted" });
    await agent.recall([1], { mode: "strict", disposal: "erase" });
    await agent.compact();
    const at = (ms: number) => `2026-01-02T03:04:05.00${ms}Z`;
    const expected: HistoryRecord[] = [
      {
        record: 1,
        time: at(0),
        kind: "lot",
        id: 1,
        label: "user_message",
        text: null,
        uri: null,
        state: "recalled",
      },
      {
        record: 2,
        time: at(1),
        kind: "lot",
        id: 2,
        label: "web_page",
        text: "profile: lives in Pune",
        uri: "https://example.com/u/1",
        state: "alive",
      },
      {
        record: 3,
        time: at(2),
        kind: "lot",
        id: 3,
        label: "weather_tool",
        text: null,
        uri: null,
        state: "recalled",
      },
      {
        record: 4,
        time: at(3),
        kind: "memory",
        id: 4,
        legs: [[1], [2]],
        text: null,
        state: "removed",
      },
      { record: 5, time: at(4), kind: "memory", id: 5, legs: [[3]], text: null, state: "removed" },
      {
        record: 6,
        time: at(5),
        kind: "memory",
        id: 6,
        legs: [[4, 5]],
        text: null,
        state: "removed",
      },
      { record: 7, time: at(6), kind: "corroborate", memory: 4, leg: [3] },
      {
        record: 8,
        time: at(7),
        kind: "recall",
        targets: [3],
        mode: "fair",
        disposal: "untrusted",
        removed: [5, 6],
        erased: [],
      },
      {
        record: 9,
        time: at(8),
        kind: "recall",
        targets: [1],
        mode: "strict",
        disposal: "erase",
        removed: [4],
        // 6 died of the recall of 3, and lies below 1 too.
        erased: [1, 4, 6],
      },
      { record: 10, time: at(9), kind: "drop", erased: [3, 5] },
    ];
    expect(await collect(agent.history())).toEqual(expected);
  });

  test("stats count what there is, and the share of dead text", async () => {
    const { agent, store } = await tempPune();
    await agent.recall([3]);
    // Areas of 38 bytes, the text and the uri, rounded up to 32: five of 64, and 38 + 22 + 23 makes 96.
    expect(await agent.stats()).toEqual({
      agent: "alice",
      id: agent.id,
      created: agent.created,
      records: 7,
      lots: 3,
      memories: 3,
      alive: 3,
      dead: 3,
      recalls: 1,
      legs: 4,
      depth: 2,
      bytes: expect.any(Number),
      segments: 1,
      textBytes: 416,
      deadTextBytes: 192,
      deadShare: 192 / 416,
    });
    const files = filesIn(join(store.path, "agents", agent.id));
    const bytes = files.reduce((sum, { path }) => sum + readFileSync(path).length, 0);
    expect((await agent.stats()).bytes).toBe(bytes);
    await agent.compact();
    expect(await agent.stats()).toMatchObject({ records: 8, textBytes: 224, deadTextBytes: 0 });
    expect(await (await tempAgent()).agent.stats()).toMatchObject({ records: 0, deadShare: 0 });
  });

  test("a walk over entries sees what is written meanwhile, once, and never half of it", async () => {
    const { agent } = await tempAgent();
    await agent.addLots(upTo(1000).map((i) => ({ label: "x", text: `${i}` })));
    const ids: number[] = [];
    for await (const { id, text } of agent.entries()) {
      ids.push(id);
      expect(text).toBe(`${id}`);
      if (id === 500) await agent.addLot("x", "1001");
      if (id === 700) await agent.compact();
    }
    expect(ids).toEqual(upTo(1001));
  });

  test("the clock may stand still or go back: order comes from the numbers alone", async () => {
    let now = 9000;
    const { agent } = await tempAgent({ now: () => now });
    for (const time of [5000, 3000, 0, 8000]) {
      now = time;
      await agent.addLot("x", "x");
    }
    const entries = await collect(agent.entries());
    expect(entries.map(({ id, time }) => [id, Date.parse(time)])).toEqual([
      [1, 5000],
      [2, 3000],
      [3, 0],
      [4, 8000],
    ]);
    expect((await agent.verify()).ok).toBe(true);
  });

  test("living lots are found by label, uri and time: since inclusive, until exclusive", async () => {
    const { agent } = await tempPune();
    const at = (ms: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, 5, ms));
    expect(await agent.findLots({})).toEqual([1, 2, 3]);
    expect(await agent.findLots({ label: "web_page" })).toEqual([2]);
    expect(await agent.findLots({ label: "web" })).toEqual([]);
    expect(await agent.findLots({ uriPrefix: "https://example.com/" })).toEqual([2]);
    expect(await agent.findLots({ uriPrefix: "example" })).toEqual([]);
    expect(await agent.findLots({ since: at(1) })).toEqual([2, 3]);
    expect(await agent.findLots({ until: at(1) })).toEqual([1]);
    expect(await agent.findLots({ since: at(1), until: at(2), label: "web_page" })).toEqual([2]);
    await agent.recall([2]);
    expect(await agent.findLots({})).toEqual([1, 3]);
  });
});

describe("handles", () => {
  test("await using closes one", async () => {
    const { store, token } = await tempAgent();
    let kept: Agent;
    {
      await using agent = await store.openAgent(token);
      kept = agent;
      expect(await agent.addLot("x", "x")).toBe(1);
    }
    expect(await codeOf(() => kept.text(1))).toBe("CLOSED");
  });

  test("those of one store share what they know, and closing one leaves the others", async () => {
    const { store, agent: one, token } = await tempAgent();
    const two = await store.openAgent(token);
    const ids = await Promise.all([
      one.addLot("x", "a"),
      two.addLot("x", "b"),
      one.addLot("x", "c"),
    ]);
    expect(ids).toEqual([1, 2, 3]);
    expect(await two.remember("of all", [[1, 2, 3]])).toBe(4);
    expect(await textsOf(one)).toEqual(["a", "b", "c", "of all"]);
    await one.recall([2], { disposal: "erase" });
    expect(await two.text(2)).toBe(null);
    await one.close();
    expect(await codeOf(() => one.text(1))).toBe("CLOSED");
    expect(await two.addLot("x", "d")).toBe(5);
    await two.close();
    const three = await store.openAgent(token);
    expect(await textsOf(three)).toEqual(["a", null, "c", null, "d"]);
    await three.close();
  });

  test("those of two stores on one folder share too", async () => {
    const { store, agent: one, token } = await tempAgent();
    const two = await (await Store.open(store.path)).openAgent(token);
    const writes = upTo(40).map((i) => (i % 2 === 0 ? one : two).addLot("x", `${i}`));
    expect(await Promise.all(writes)).toEqual(upTo(40));
    expect(await textsOf(two)).toEqual(upTo(40).map(String));
    await two.close();
    expect(await one.addLot("x", "41")).toBe(41);
  });

  test("closed in the middle of a write, a handle waits for it", async () => {
    const { store, agent, token } = await tempAgent();
    const writes = upTo(100).map((i) => agent.addLot("x", `${i}`));
    const closed = agent.close();
    expect(await Promise.all(writes)).toEqual(upTo(100));
    await closed;
    const again = await store.openAgent(token);
    expect((await again.head()).record).toBe(100);
    await again.close();
  });

  test("a handle that only reads sees what one that writes acknowledged, at once", async () => {
    const { store, agent, token } = await tempAgent();
    const reader = await (await Store.open(store.path, { readOnly: true })).openAgent(token);
    expect(await collect(reader.entries())).toEqual([]);
    await agent.addLot("x", "one");
    expect(await reader.text(1)).toBe("one");
    await agent.addLot("x", "two");
    await agent.recall([1], { disposal: "erase" });
    expect(await reader.text(1)).toBe(null);
    await agent.compact();
    expect(await textsOf(reader)).toEqual([null, "two"]);
    await agent.addLot("x", "three");
    expect(await reader.text(3)).toBe("three");
    await reader.close();
  });

  test("an agent made after another was deleted is reached, though its folder has the old one's inode", async () => {
    // A file system gives an inode away again; here every agent's folder has the same one.
    const isAgentFolder = (path: string) => /agents[/\\][0-9a-f]{32}$/.test(path);
    const disk: Disk = {
      ...realDisk,
      stat(path) {
        const stat = realDisk.stat(path);
        return stat && isAgentFolder(path) ? { ...stat, inode: 7 } : stat;
      },
    };
    const store = await tempStore({ disk });
    const alice = await store.openAgent((await store.createAgent("alice")).token);
    await alice.addLot("x", "of alice");
    await store.deleteAgent("alice");
    const bob = await store.openAgent((await store.createAgent("bob")).token);
    expect(bob.name).toBe("bob");
    expect(await bob.addLot("x", "of bob")).toBe(1);
    expect(await bob.text(1)).toBe("of bob");
    expect(await codeOf(() => alice.text(1))).toBe("NO_AGENT");
    await alice.close();
    await bob.close();
  });
});

describe("other processes", () => {
  test("a warm handle catches up with what another process wrote, recalled, erased and compacted", async () => {
    const { store, agent, token } = await tempAgent();
    const child = { store: store.path, token };
    await agent.addLot("x", "one, from here");
    await agent.remember("of 1", [[1]]);
    expect((await runChild("lots", { ...child, texts: ["three", "four"] })).said).toEqual([
      3,
      4,
      "closed",
    ]);
    expect(await textsOf(agent)).toEqual(["one, from here", "of 1", "three", "four"]);
    expect(await agent.remember("of 4", [[4]])).toBe(5);
    expect((await runChild("recall", { ...child, ids: [1] })).said).toEqual([[1, 2], "closed"]);
    expect(await agent.text(2)).toBe(null);
    expect(await codeOf(() => agent.remember("x", [[1]]))).toBe("DEAD_PARENT");
    await agent.recall([3]);
    expect((await runChild("compact", child)).said).toEqual([1, "closed"]);
    expect(await textsOf(agent)).toEqual([null, null, null, "four", "of 4"]);
    expect(await agent.addLot("x", "six")).toBe(6);
    expect((await agent.verify()).records).toBe(9);
  });

  test("a child's handle that only reads catches up with this process", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "one");
    const child = startChild("read", {
      store: store.path,
      token,
      ids: [1, 2],
      options: { readOnly: true },
    });
    expect(await child.next()).toEqual({
      tornBytes: 0,
      erasesFinished: 0,
      replayed: 1,
      fromSnapshot: false,
    });
    const ask = async () => {
      child.tell("?");
      return child.next();
    };
    expect(await ask()).toEqual(["one", "NO_ENTRY"]);
    await agent.addLot("x", "two");
    expect(await ask()).toEqual(["one", "two"]);
    await agent.recall([1], { disposal: "erase" });
    expect(await ask()).toEqual([null, "two"]);
    await agent.compact();
    expect(await ask()).toEqual([null, "two"]);
    await agent.close();
    await store.deleteAgent("alice");
    expect(await ask()).toEqual(["NO_AGENT", "NO_AGENT"]);
  });

  test("where another process gave back the space ahead, a writer keeps its reserve all the same", async () => {
    const { store, agent, token } = await tempAgent();
    const path = segmentOf(store, agent);
    const room = () => lstatSync(path).size - writtenBytes(path);
    const child = startChild("rest", { store: store.path, token, texts: ["the other's"] });
    expect(await child.next()).toBe("rests");
    for (let i = 0; i < 20; i++) await agent.addLot("x", "y".repeat(10_000));
    const roomBefore = room();
    await pause(LOCK_IS_LET_GO_MS);
    // It closes in order, and cuts off what it does not need.
    child.tell("close");
    expect(await child.next()).toBe("closed");
    expect(room()).toBeLessThan(roomBefore);
    for (let i = 0; i < 20; i++) {
      await agent.addLot("x", "y".repeat(10_000));
      expect(room()).toBeGreaterThanOrEqual(RESERVE_BYTES);
    }
  });

  test("a text that another process erases while it is being read is not served", async () => {
    const { store, agent, token } = await tempAgent();
    // So long that it does not come along when what stands before it is read.
    await agent.addLot("x", `${"x".repeat(5000)}the doomed text`);
    await agent.close();
    // A disk under which the other process comes the moment that the text has been read.
    const comes = { times: 0 };
    const disk: Disk = {
      ...realDisk,
      open(path, access) {
        const file = realDisk.open(path, access);
        const read = (into: Uint8Array, at: number) => {
          const bytes = file.read(into, at);
          if (comes.times === 0 && Buffer.from(into).includes("the doomed text")) {
            comes.times++;
            expect(runChildNow("recall", { store: store.path, token, ids: [1] })).toEqual([
              [1],
              "closed",
            ]);
          }
          return bytes;
        };
        return {
          path: file.path,
          read,
          stat: () => file.stat(),
          write: (bytes, at) => file.write(bytes, at),
          truncate: (size) => file.truncate(size),
          flush: () => file.flush(),
          flushOffThread: () => file.flushOffThread(),
          close: () => file.close(),
        };
      },
    };
    // From a snapshot, so that opening does not read the text; what is read comes with what was there before.
    const maker = await (await Store.open(store.path, { snapshotRecords: 1 })).openAgent(token);
    await maker.addLot("x", "another");
    await maker.close();
    const reader = await (await Store.open(store.path, { readOnly: true, disk })).openAgent(token);
    expect(reader.opened.fromSnapshot).toBe(true);
    expect(await reader.text(1)).toBe(null);
    expect(comes.times).toBe(1);
    expect(await textsOf(reader)).toEqual([null, "another"]);
    await reader.close();
  });

  test.each([true, false])(
    "a reader never sees a text after another process's erase was acknowledged (readOnly %s)",
    async (readOnly) => {
      const { store, agent, token } = await tempAgent();
      await agent.close();
      const reader = await (await Store.open(store.path, { readOnly })).openAgent(token);
      onTestFinished(() => reader.close());
      const child = startChild("erase", { store: store.path, token, forMs: 1500 });
      let heard = 0;
      let newest = 0;
      const erased = new Set<number>();
      const counts = { served: 0, gone: 0 };
      while (child.said.at(-1) !== "closed") {
        await turn();
        for (; heard < child.said.length; heard++) {
          const said = child.said[heard] as { added?: number; erased?: number };
          if (said.added) newest = said.added;
          if (said.erased) erased.add(said.erased);
        }
        if (newest === 0) continue;
        const mustBeGone = erased.has(newest);
        const text = await reader.text(newest);
        if (text === null) counts.gone++;
        else counts.served++;
        if (mustBeGone) expect(text).toBe(null);
        else expect([null, `doomed ${newest}`]).toContain(text);
      }
      expect(counts.served).toBeGreaterThan(0);
      expect(counts.gone).toBeGreaterThan(0);
      expect((await reader.verify()).ok).toBe(true);
    },
  );
});

describe("what opening found", () => {
  test("nothing, of a new agent; the records read, where no snapshot covers them", async () => {
    const { store, agent, token } = await tempAgent();
    const nothing = { tornBytes: 0, erasesFinished: 0, replayed: 0, fromSnapshot: false };
    expect(agent.opened).toEqual(nothing);
    await agent.addLot("x", "one");
    await agent.remember("of 1", [[1]]);
    await agent.recall([1], { disposal: "erase" });
    await agent.close();
    const again = await store.openAgent(token);
    expect(again.opened).toEqual({ ...nothing, replayed: 3 });
    await again.close();
  });

  test("a snapshot, and of the records behind it how many were read", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "one");
    await agent.close();
    const [eager, lazy] = [
      await Store.open(store.path, { snapshotRecords: 1 }),
      await Store.open(store.path, { snapshotRecords: 1000 }),
    ];
    const first = await eager.openAgent(token);
    expect(first.opened).toMatchObject({ replayed: 1, fromSnapshot: false });
    await first.addLot("x", "two");
    await first.close();
    const second = await lazy.openAgent(token);
    expect(second.opened).toMatchObject({ replayed: 0, fromSnapshot: true });
    await second.addLot("x", "three");
    await second.close();
    const third = await lazy.openAgent(token);
    expect(third.opened).toMatchObject({ replayed: 1, fromSnapshot: true });
    expect(await textsOf(third)).toEqual(["one", "two", "three"]);
    expect((await third.verify()).snapshot).toBe("ok");
    await third.close();
  });

  test("how many bytes of a half-written batch there were, which a writer cuts off and a reader leaves", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "one");
    await agent.close();
    // Behind the zeros that are kept ahead: the end is where all is zero to the file's end.
    const path = segmentOf(store, agent);
    const end = writtenBytes(path);
    appendFileSync(path, "half a batch");
    const torn = readFileSync(path).length - end;
    const reader = await (await Store.open(store.path, { readOnly: true })).openAgent(token);
    expect(reader.opened.tornBytes).toBe(torn);
    expect(await textsOf(reader)).toEqual(["one"]);
    await reader.close();
    expect(readFileSync(path).includes("half a batch")).toBe(true);
    const writer = await store.openAgent(token);
    expect(writer.opened.tornBytes).toBe(torn);
    expect(readFileSync(path).includes("half a batch")).toBe(false);
    expect(await writer.addLot("x", "two")).toBe(2);
    await writer.close();
    expect((await store.verifyAgent("alice")).tornBytes).toBe(0);
  });
});

describe("reading only", () => {
  test("no call writes, makes, renames or touches a file", async () => {
    const { store, agent, token } = await tempAgent({ snapshotRecords: 1, segmentBytes: 500 });
    const bob = await store.openAgent((await store.createAgent("bob")).token);
    await bob.addLot("x", "of bob");
    await bob.close();
    for (const i of upTo(6)) await agent.addLot("web_page", `lot ${i}`);
    await agent.remember("of 1", [[1]]);
    await agent.recall([2]);
    await agent.recall([3], { disposal: "erase" });
    await agent.close();
    const last = filesIn(store.path)
      .filter(({ name }) => name.endsWith(".seg"))
      .at(-1);
    appendFileSync(last?.path ?? "", "half a batch");
    const before = imprint(store.path);
    expect(before.names.some((name) => name.includes("graph"))).toBe(true);

    const reading = await Store.open(store.path, { readOnly: true });
    const reader = await reading.openAgent(token);
    await collect(reader.entries());
    await collect(reader.history());
    await collect(reader.export({ deadTexts: true }));
    await reader.show(1);
    await reader.why(7);
    await reader.why(3);
    await reader.stats();
    await reader.head();
    await reader.verify();
    await reader.planRecall([1], { mode: "contact", disposal: "erase" });
    await reading.verify();
    await reading.stats();
    await reading.agents();
    await reading.find("lot", { absent: true });
    await codeOf(() => reader.addLot("x", "x"));
    await codeOf(() => reader.recall([1], { disposal: "erase" }));
    await codeOf(() => reader.compact());
    await codeOf(() => reading.createAgent("carol"));
    await codeOf(() => reading.deleteAgent("bob"));
    await reader.close();

    const after = imprint(store.path);
    expect(after.names).toEqual(before.names);
    expect(after.bytes.equals(before.bytes)).toBe(true);
  });

  test("a store that is not there is not made", async () => {
    const folder = tempFolder();
    expect(await codeOf(() => Store.open(join(folder, "none"), { readOnly: true }))).toBe(
      "NO_STORE",
    );
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe("deleting an agent under a handle", () => {
  test("every call on the handle says NO_AGENT, the first as well as the later ones, and nothing comes back", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("x", "the text of alice");
    await agent.remember("of 1", [[1]]);
    const exported = (await collect(agent.export())).join("");
    expect(allBytes(store.path).includes("the text of alice")).toBe(true);
    const { bytes, deleted } = await store.deleteAgent("alice");
    expect(deleted).toBe("alice");
    expect(bytes).toBeGreaterThan(64 * 1024);
    const calls: Record<string, () => Promise<unknown>> = {
      text: () => agent.text(1),
      addLot: () => agent.addLot("x", "x"),
      remember: () => agent.remember("x", [[1]]),
      corroborate: () => agent.corroborate(2, [1]),
      recall: () => agent.recall([1]),
      planRecall: () => agent.planRecall([1]),
      previewRecall: () => agent.previewRecall([1]),
      alive: () => agent.alive([1]),
      entries: () => collect(agent.entries()),
      history: () => collect(agent.history()),
      why: () => agent.why(1),
      stats: () => agent.stats(),
      head: () => agent.head(),
      verify: () => agent.verify(),
      compact: () => agent.compact(),
      export: () => collect(agent.export()),
      import: () => agent.import(exported),
    };
    for (const [name, call] of Object.entries(calls))
      expect(await codeOf(call), name).toBe("NO_AGENT");
    await agent.close();
    expect(readdirSync(join(store.path, "agents"))).toEqual([]);
    expect(readdirSync(join(store.path, "tokens"))).toEqual([]);
    expect(allBytes(store.path).includes("the text of alice")).toBe(false);
    expect(await store.agents()).toEqual([]);
  });

  test.each(["text", "addLot", "compact", "import", "verify", "entries"] as const)(
    "also when %s is the first to notice",
    async (first) => {
      const { store, agent } = await tempAgent();
      await agent.addLot("x", "x");
      const header = '{"kind":"cheesedb","version":1}\n';
      await store.deleteAgent("alice");
      const call = {
        text: () => agent.text(1),
        addLot: () => agent.addLot("x", "x"),
        compact: () => agent.compact(),
        import: () => agent.import(header),
        verify: () => agent.verify(),
        entries: () => collect(agent.entries()),
      }[first];
      expect(await codeOf(call)).toBe("NO_AGENT");
      expect(readdirSync(join(store.path, "agents"))).toEqual([]);
    },
  );

  test("an agent of the same name is another one", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "of the first");
    await store.deleteAgent("alice");
    const second = await store.openAgent((await store.createAgent("alice")).token);
    expect(second.id).not.toBe(agent.id);
    expect(await collect(second.entries())).toEqual([]);
    expect(await codeOf(() => agent.text(1))).toBe("NO_AGENT");
    expect(await codeOf(() => store.openAgent(token))).toBe("BAD_TOKEN");
    await second.close();
  });
});

describe("G11: two agents", () => {
  async function tempTwo() {
    const { store, agent: alice, token: aliceToken } = await tempAgent();
    const { token: bobToken } = await store.createAgent("bob", { keepToken: true });
    const bob = await store.openAgent(bobToken);
    onTestFinished(() => bob.close());
    return { store, alice, bob, aliceToken, bobToken };
  }

  test("the token of one never opens the other, nor does one put together of both", async () => {
    const { store, alice, bob, aliceToken, bobToken } = await tempTwo();
    const bytesOf = (token: string) => Buffer.from(token.slice("cheese_".length), "base64url");
    const mixed = (a: string, b: string) =>
      `cheese_${Buffer.concat([bytesOf(a).subarray(0, 16), bytesOf(b).subarray(16)]).toString("base64url")}`;
    expect(await codeOf(() => store.openAgent(mixed(aliceToken, bobToken)))).toBe("BAD_TOKEN");
    expect(await codeOf(() => store.openAgent(mixed(bobToken, aliceToken)))).toBe("BAD_TOKEN");
    // Put together of one, it is that one's token: the control.
    const again = await store.openAgent(mixed(aliceToken, aliceToken));
    expect(again.id).toBe(alice.id);
    await again.close();
    expect(bob.id).not.toBe(alice.id);
  });

  test("each counts its own entries, and reads, recalls and exports nothing else", async () => {
    const { alice, bob } = await tempTwo();
    await alice.addLot("x", "alice 1");
    await alice.addLot("x", "alice 2");
    expect(await bob.addLot("x", "bob 1")).toBe(1);
    expect([await alice.text(1), await bob.text(1)]).toEqual(["alice 1", "bob 1"]);
    expect(await codeOf(() => bob.text(2))).toBe("NO_ENTRY");
    expect(await codeOf(() => bob.remember("x", [[2]]))).toBe("UNKNOWN_PARENT");
    await bob.recall([1], { mode: "contact", disposal: "erase" });
    expect(await alice.alive([1, 2])).toEqual([1, 2]);
    expect((await collect(bob.export())).join("")).not.toContain("alice");
    expect((await collect(alice.export({ deadTexts: true }))).join("")).not.toContain("bob");
  });

  test("nothing that is done to one changes a byte of the other", async () => {
    const { store, alice, bob } = await tempTwo();
    await bob.addLot("x", "of bob");
    await bob.close();
    const folder = join(store.path, "agents", bob.id);
    const before = imprint(folder);
    await alice.addLots(upTo(100).map((i) => ({ label: "x", text: `${i}` })));
    await alice.remember("of 1", [[1]]);
    await alice.recall([1], { mode: "contact", disposal: "erase" });
    await alice.recall([2]);
    await alice.compact();
    const lines = (await collect(alice.export())).join("");
    await alice.import(lines);
    await alice.close();
    await store.deleteAgent("alice");
    expect(imprint(folder)).toEqual(before);
  });

  test("an import into one leaves the other as it was, and shares nothing with it", async () => {
    const { alice, bob } = await tempTwo();
    await alice.addLot("x", "from alice");
    await bob.import((await collect(alice.export())).join(""));
    await alice.recall([1], { disposal: "erase" });
    expect([await alice.text(1), await bob.text(1)]).toEqual([null, "from alice"]);
  });

  test("the head of one is no part of the other's history, equal though their records are", async () => {
    const { store, alice, bob } = await tempTwo();
    await alice.addLot("x", "the same");
    await bob.addLot("x", "the same");
    const { fingerprint } = await alice.head();
    expect(await codeOf(() => bob.verify({ expect: fingerprint }))).toBe("HEAD_MISMATCH");
    expect((await alice.verify({ expect: fingerprint })).expected?.recordsSince).toBe(0);
    expect(await codeOf(() => store.verifyAgent("bob", { expect: fingerprint }))).toBe(
      "HEAD_MISMATCH",
    );
  });

  test("searching one shows no place in the other", async () => {
    const { store, alice, bob } = await tempTwo();
    await alice.addLot("x", "a shared word");
    await bob.addLot("x", "a shared word");
    const places = async (agent?: string) =>
      (await store.find("shared", { agent })).matches.map(({ file }) => file.split("/")[1]);
    expect(await places("alice")).toEqual([alice.id]);
    expect(await places("bob")).toEqual([bob.id]);
    expect((await places()).toSorted()).toEqual([alice.id, bob.id].toSorted());
  });
});
