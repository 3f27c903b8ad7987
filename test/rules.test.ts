// The rules that nobody gets round, each with what breaks it and what only nearly does; every code that the library
// refuses a call with; the limits, at the limit and one beyond; and graphs that no recursion would survive.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Agent, CheeseError, codes, decodeUtf8, Store } from "../src/index.ts";
import { codeOf, collect, tempAgent, tempFolder, tempStore } from "./helpers.ts";

const MIB = 1024 * 1024;

/** Refused with this code, and no record was written. */
async function expectRefusal(agent: Agent, code: string, call: () => Promise<unknown>) {
  const before = (await agent.head()).record;
  expect(await codeOf(call)).toBe(code);
  expect((await agent.head()).record).toBe(before);
}

/** An agent with so many lots, each "lot <id>". */
async function tempLots(count: number): Promise<{ agent: Agent; store: Store }> {
  const { store, agent } = await tempAgent();
  const ids = await agent.addLots(
    Array.from({ length: count }, (_, i) => ({ label: "web_page", text: `lot ${i + 1}` })),
  );
  expect(ids.length).toBe(count);
  return { agent, store };
}

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

describe("rule 1: a memory has at least one leg, and no leg is empty", () => {
  test("NO_LEG for no leg and for an empty one among others", async () => {
    const { agent } = await tempLots(2);
    await expectRefusal(agent, "NO_LEG", () => agent.remember("of nothing", []));
    await expectRefusal(agent, "NO_LEG", () => agent.remember("of nothing", [[]]));
    await expectRefusal(agent, "NO_LEG", () => agent.remember("of 1 or nothing", [[1], []]));
    await expectRefusal(agent, "NO_LEG", () =>
      agent.rememberAll([
        { text: "of 1", legs: [[1]] },
        { text: "of nothing", legs: [] },
      ]),
    );
    expect(await agent.remember("of 1", [[1]])).toBe(3);
    await expectRefusal(agent, "NO_LEG", () => agent.corroborate(3, []));
  });
});

describe("rule 2: nothing is built on an unknown or a dead parent", () => {
  test("UNKNOWN_PARENT for whatever is no entry yet", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    const noEntries = [0, -1, 1.5, 4, 5, 2 ** 31, 2 ** 32, 2 ** 53, Number.POSITIVE_INFINITY];
    for (const id of noEntries) {
      await expectRefusal(agent, "UNKNOWN_PARENT", () => agent.remember("x", [[id]]));
      await expectRefusal(agent, "UNKNOWN_PARENT", () => agent.remember("x", [[1], [2, id]]));
      await expectRefusal(agent, "UNKNOWN_PARENT", () => agent.corroborate(3, [1, id]));
      await expectRefusal(agent, "UNKNOWN_PARENT", () => agent.addLot("x", "x", { seen: [id] }));
      await expectRefusal(agent, "UNKNOWN_PARENT", () =>
        agent.remember("x", [[1]], { seen: [1, id] }),
      );
    }
  });

  test("DEAD_PARENT for the target of a recall and for what died of one, in any leg", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 3", [[3]]);
    await agent.recall([1]);
    for (const dead of [1, 4]) {
      await expectRefusal(agent, "DEAD_PARENT", () => agent.remember("x", [[dead]]));
      await expectRefusal(agent, "DEAD_PARENT", () => agent.remember("x", [[2], [dead, 3]]));
      await expectRefusal(agent, "DEAD_PARENT", () => agent.corroborate(5, [2, dead]));
    }
    expect(await agent.corroborate(5, [2])).toEqual([[3], [2]]);
  });

  test("a parent may be any living entry, a lot or a memory, one of an earlier call of the same turn too", async () => {
    const { agent } = await tempLots(1);
    const ids = await Promise.all([
      agent.remember("of 1", [[1]]),
      agent.remember("of 1 and 2", [[1, 2]]),
      agent.remember("of 3", [[3], [2]]),
    ]);
    expect(ids).toEqual([2, 3, 4]);
    expect((await agent.get(4)).legs.map(({ parents }) => parents)).toEqual([[3], [2]]);
  });
});

describe("rule 3: a leg added later", () => {
  test("CYCLE when the memory would come to stand on itself, at once or over any number of others", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 3", [[3]]);
    await agent.remember("of 4 and 2", [[2, 4]]);
    for (const leg of [[3], [4], [5], [1, 3], [2, 5]])
      await expectRefusal(agent, "CYCLE", () => agent.corroborate(3, leg));
    await expectRefusal(agent, "CYCLE", () => agent.corroborate(4, [5]));
    // The other way round there is no ring: 5 stands on 3 already.
    expect(await agent.corroborate(5, [3])).toEqual([[2, 4], [3]]);
  });

  test("CYCLE is counted over every leg ever declared: broken ones, and memories that are dead, included", async () => {
    // Given: 4 is dead and stands on 3; 5 lives on lot 2 and once stood on 4 too.
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 3", [[3]]);
    await agent.remember("of 4 or 2", [[4], [2]]);
    await agent.recall([4]);
    expect(await agent.alive([3, 4, 5])).toEqual([3, 5]);
    // Done and seen
    await expectRefusal(agent, "CYCLE", () => agent.corroborate(3, [5]));
    await expectRefusal(agent, "CYCLE", () => agent.corroborate(3, [2, 5]));
  });

  test("CYCLE is counted over legs that came by corroboration", async () => {
    const { agent } = await tempLots(1);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 1", [[1]]);
    await agent.corroborate(3, [2]);
    await expectRefusal(agent, "CYCLE", () => agent.corroborate(2, [3]));
  });

  test("a leg is a set: order and repetition say nothing, and the legs of one memory are distinct", async () => {
    const { agent } = await tempLots(3);
    const id = await agent.remember("of 1 and 2, or of 3", [
      [2, 1],
      [1, 2],
      [3, 3],
      [1, 2, 2, 1],
    ]);
    expect((await agent.get(id)).legs).toEqual([
      { parents: [1, 2], holds: true },
      { parents: [3], holds: true },
    ]);
    expect((await agent.stats()).legs).toBe(2);
  });

  test("corroborating with a leg that is there already is a no-op, and gives the legs", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 and 2", [[1, 2]]);
    expect(await agent.corroborate(4, [3])).toEqual([[1, 2], [3]]);
    const { record } = await agent.head();
    expect(await agent.corroborate(4, [2, 1, 1])).toEqual([[1, 2], [3]]);
    expect(await agent.corroborate(4, [3])).toEqual([[1, 2], [3]]);
    expect((await agent.head()).record).toBe(record);
    // A part of a leg is another leg.
    expect(await agent.corroborate(4, [1])).toEqual([[1, 2], [3], [1]]);
  });

  test("DEAD_ENTRY for a memory that is dead: nothing holds it up again", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 2", [[2]]);
    await agent.recall([1]);
    await agent.recall([4]);
    await expectRefusal(agent, "DEAD_ENTRY", () => agent.corroborate(3, [2]));
    await expectRefusal(agent, "DEAD_ENTRY", () => agent.corroborate(4, [2]));
  });

  test("NO_ENTRY for a lot, and for what does not exist", async () => {
    const { agent } = await tempLots(2);
    for (const id of [1, 3, 0, -1, 1.5, 2 ** 32])
      await expectRefusal(agent, "NO_ENTRY", () => agent.corroborate(id, [2]));
  });

  test("a leg that holds keeps a memory alive when the first one breaks", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.corroborate(3, [2]);
    expect((await agent.recall([1])).removed).toEqual([]);
    expect((await agent.recall([2])).removed).toEqual([3]);
  });

  test("two calls of one turn are decided in turn: the second sees the leg of the first", async () => {
    const { agent } = await tempLots(1);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 1", [[1]]);
    const both = await Promise.allSettled([agent.corroborate(2, [3]), agent.corroborate(3, [2])]);
    expect(both).toMatchObject([
      { status: "fulfilled", value: [[1], [3]] },
      { status: "rejected", reason: { code: "CYCLE" } },
    ]);
  });
});

describe("rule 4: recall is permanent", () => {
  test("no call brings an entry back", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.recall([1]);
    await agent.remember("of 1, once more, from 2", [[2]]);
    await agent.recall([1]);
    await agent.compact();
    expect(await agent.alive([1, 2, 3, 4])).toEqual([2, 4]);
  });

  test("NO_ENTRY for an id that is none", async () => {
    const { agent } = await tempLots(2);
    for (const id of [0, -1, 1.5, 3, 2 ** 32, 2 ** 53, Number.NaN]) {
      await expectRefusal(agent, "NO_ENTRY", () => agent.recall([id]));
      await expectRefusal(agent, "NO_ENTRY", () => agent.get(id));
      await expectRefusal(agent, "NO_ENTRY", () => agent.text(id));
      await expectRefusal(agent, "NO_ENTRY", () => agent.show(id));
      await expectRefusal(agent, "NO_ENTRY", () => agent.why(id));
    }
    expect(await agent.alive([0, 3, 1, -1, Number.NaN])).toEqual([1]);
  });

  test("USAGE for a recall of nothing", async () => {
    const { agent } = await tempLots(1);
    await expectRefusal(agent, "USAGE", () => agent.recall([]));
    await expectRefusal(agent, "USAGE", () => agent.planRecall([]));
  });
});

describe("texts", () => {
  test.each([
    ["empty", ""],
    ["NUL", "a\0b\0"],
    ["line ends", "a\r\nb\rc\n\n"],
    ["a byte order mark", "\ufeffa"],
    ["escapes", "\u001b[31mred\u001b[0m\u0007"],
    ["beyond the first plane", "𝔘🧀 𠮷"],
    ["not normalised", "e\u0301 é \u212b"],
    ["noncharacters", "\ufffe\uffff\u{10ffff}"],
    ["what looks like a batch", "BTCH\u0001\0CMITSEALCHEESEDB"],
  ])("are kept to the byte: %s", async (_name, text) => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("web_page", text, { uri: text });
    await agent.remember(text, [[1]]);
    await agent.close();
    const again = await store.openAgent(token);
    expect(await again.text(1)).toBe(text);
    expect((await again.show(1)).uri).toBe(text);
    expect(await again.text(2)).toBe(text);
    await again.close();
  });

  test("no uri, an empty uri and a null one: two of them are none", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "none");
    await agent.addLot("web_page", "null", { uri: null });
    await agent.addLot("web_page", "empty", { uri: "" });
    const uris = (await collect(agent.entries())).map(({ uri }) => uri);
    expect(uris).toEqual([null, null, ""]);
  });

  test("an empty text is not the same as an erased one", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "");
    await agent.addLot("web_page", "");
    await agent.recall([2], { disposal: "erase" });
    expect([await agent.text(1), await agent.text(2)]).toEqual(["", null]);
    expect([(await agent.get(1)).erased, (await agent.get(2)).erased]).toEqual([false, true]);
  });

  test("NOT_UTF8 for half a surrogate pair in any string, never a replacement character", async () => {
    const { store, agent } = await tempLots(1);
    for (const half of ["\ud800", "a\udc00b", "\udfff\ud800"]) {
      await expectRefusal(agent, "NOT_UTF8", () => agent.addLot("web_page", half));
      await expectRefusal(agent, "NOT_UTF8", () => agent.addLot(half, "x"));
      await expectRefusal(agent, "NOT_UTF8", () => agent.addLot("web_page", "x", { uri: half }));
      await expectRefusal(agent, "NOT_UTF8", () => agent.remember(half, [[1]]));
      expect(await codeOf(() => store.createAgent(half))).toBe("BAD_NAME");
    }
    expect(await agent.addLot("web_page", "\ud83e\uddc0")).toBe(2);
  });

  test("NOT_UTF8 names the first byte that is none", () => {
    const offsetOf = (...bytes: number[]) => {
      try {
        return decodeUtf8(Uint8Array.from(bytes));
      } catch (error) {
        expect(error).toMatchObject({ code: "NOT_UTF8" });
        return (error as CheeseError).offset;
      }
    };
    expect(offsetOf(0xef, 0xbb, 0xbf, 0x61, 0x00)).toBe("\ufeffa\0");
    expect(offsetOf(0xff)).toBe(0);
    expect(offsetOf(0x61, 0x62, 0xc3, 0x28)).toBe(2);
    expect(offsetOf(0x61, 0xe2, 0x82)).toBe(1);
    expect(offsetOf(0xed, 0xa0, 0x80)).toBe(0);
    expect(offsetOf(0x61, 0xc0, 0x80)).toBe(1);
  });

  test("what is no string or no list is the programmer's mistake: a TypeError, and nothing is written", async () => {
    const { store, agent } = await tempLots(1);
    const wrong = (value: unknown) => value as string & number & number[] & number[][];
    for (const value of [undefined, null, 7, {}, Buffer.from("x")]) {
      await expectRefusal(agent, "TypeError", () => agent.addLot("web_page", wrong(value)));
      await expectRefusal(agent, "TypeError", () => agent.addLot(wrong(value), "x"));
      await expectRefusal(agent, "TypeError", () => agent.remember(wrong(value), [[1]]));
      expect(await codeOf(() => store.createAgent(wrong(value)))).toBe("TypeError");
    }
    for (const value of [undefined, null, "1", 1]) {
      await expectRefusal(agent, "TypeError", () => agent.remember("x", wrong(value)));
      await expectRefusal(agent, "TypeError", () => agent.remember("x", [wrong(value)]));
    }
    await expectRefusal(agent, "TypeError", () => agent.remember("x", [[wrong("1")]]));
    await expectRefusal(agent, "TypeError", () => agent.recall([wrong("1")]));
    await expectRefusal(agent, "TypeError", () => agent.addLot("x", "x", { seen: wrong("1") }));
    await expectRefusal(agent, "TypeError", () => agent.addLot("x", "x", { seen: [wrong("1")] }));
    await expectRefusal(agent, "TypeError", () => agent.recall([1], { mode: wrong("all") }));
    await expectRefusal(agent, "TypeError", () => agent.recall([1], { disposal: wrong("burn") }));
  });
});

describe("limits", () => {
  test("TOO_LARGE beyond 16 MiB of text, counted in bytes; at the limit it is stored, read and erased", async () => {
    const { store, agent, token } = await tempAgent();
    const text = `first ${"é".repeat(8 * MIB - 6)} last`;
    expect(Buffer.byteLength(text)).toBe(16 * MIB - 1);
    await expectRefusal(agent, "TOO_LARGE", () => agent.addLot("web_page", `${text}é`));
    expect(await agent.addLot("web_page", `${text}.`)).toBe(1);
    await expectRefusal(agent, "TOO_LARGE", () => agent.remember(`${text}..`, [[1]]));
    expect(await agent.remember(text, [[1]])).toBe(2);
    await agent.close();
    const again = await store.openAgent(token);
    expect((await again.text(1)) === `${text}.`).toBe(true);
    expect((await again.text(2)) === text).toBe(true);
    expect((await store.find("é last")).count).toBe(2);
    expect(await again.recall([1], { disposal: "erase" })).toMatchObject({ erased: [1, 2] });
    for (const left of ["first é", "é last", "éé"]) expect((await store.find(left)).count).toBe(0);
    expect((await again.verify()).records).toBe(3);
    await again.close();
  });

  test("a label has 1 to 64 bytes: USAGE below, TOO_LARGE above", async () => {
    const { agent } = await tempAgent();
    await expectRefusal(agent, "USAGE", () => agent.addLot("", "x"));
    for (const label of ["l".repeat(65), "é".repeat(33), `${"l".repeat(63)}é`, "🧀".repeat(17)])
      await expectRefusal(agent, "TOO_LARGE", () => agent.addLot(label, "x"));
    for (const label of ["l", "l".repeat(64), "é".repeat(32), "🧀".repeat(16)])
      await agent.addLot(label, "x");
    const labels = (await collect(agent.entries())).map(({ label }) => label);
    expect(labels).toEqual(["l", "l".repeat(64), "é".repeat(32), "🧀".repeat(16)]);
  });

  test("a uri has up to 8 KiB", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "x", { uri: "u".repeat(8192) });
    expect((await agent.show(1)).uri).toBe("u".repeat(8192));
    await expectRefusal(agent, "TOO_LARGE", () =>
      agent.addLot("web_page", "x", { uri: "u".repeat(8193) }),
    );
  });

  test("a memory has up to 4,096 legs, and lives while the last of them holds", async () => {
    const { agent } = await tempLots(4097);
    const legs = upTo(4097).map((id) => [id]);
    await expectRefusal(agent, "TOO_LARGE", () => agent.remember("of all", legs));
    // A repeated one is none.
    const id = await agent.remember("of all but one", [...legs.slice(0, 4096), [1], [4096]]);
    expect((await agent.get(id)).legs.length).toBe(4096);
    await expectRefusal(agent, "TOO_LARGE", () => agent.corroborate(id, [4097]));
    expect((await agent.corroborate(id, [17])).length).toBe(4096);
    const outcome = await agent.recall(upTo(4096, 2));
    expect(outcome).toMatchObject({ removed: [], survivors: [{ id, heldBy: [[1]] }] });
    expect((await agent.recall([1])).removed).toEqual([id]);
  });

  test("a leg has up to 4,096 parents, and breaks with any of them", async () => {
    const { agent } = await tempLots(4097);
    await expectRefusal(agent, "TOO_LARGE", () => agent.remember("of all", [upTo(4097)]));
    const id = await agent.remember("of all but one", [[...upTo(4096), 1, 4096]]);
    expect((await agent.get(id)).legs).toEqual([{ parents: upTo(4096), holds: true }]);
    await expectRefusal(agent, "TOO_LARGE", () => agent.corroborate(id, upTo(4097)));
    expect((await agent.recall([2345])).removed).toEqual([id]);
  });

  test("what was seen is kept as up to 4,096 ranges; beyond that too much is kept, never too little", async () => {
    const { agent } = await tempLots(8300);
    const seen = upTo(4150).map((i) => 2 * i - 1);
    const id = await agent.addLot("web_page", "saw every other one", { seen });
    const kept = new Set((await agent.get(id)).seen);
    expect(seen.filter((each) => !kept.has(each))).toEqual([]);
    const ranges = [...kept].filter((each) => !kept.has(each - 1)).length;
    expect(ranges).toBe(4096);
    // 4,150 ranges with gaps of one: 54 gaps are closed.
    expect(kept.size).toBe(4150 + 54);
  });

  test("a list of more than a batch is written batch by batch, and every id is the next", async () => {
    const { agent } = await tempLots(4096 * 2 + 3);
    expect(await agent.text(4096 * 2 + 3)).toBe("lot 8195");
    expect((await agent.head()).record).toBe(8195);
  });
});

describe("graphs that no recursion would survive", () => {
  test("a chain of 50,000 is written, explained, recalled in every mode and checked", async () => {
    const { store, agent, token } = await tempAgent();
    const length = 50_000;
    await agent.addLot("web_page", "the one source");
    const ids = await agent.rememberAll(
      upTo(length).map((_, i) => ({ text: `${i}`, legs: i === 0 ? [[1]] : [[{ item: i - 1 }]] })),
    );
    expect(ids).toEqual(upTo(length + 1, 2));
    const last = length + 1;
    expect((await agent.stats()).depth).toBe(length);
    const why = await agent.why(last);
    expect("support" in why && why.support.map(({ id }) => id)).toEqual(upTo(length).reverse());
    await expectRefusal(agent, "CYCLE", () => agent.corroborate(2, [last]));
    for (const mode of ["fair", "strict", "contact"] as const)
      expect((await agent.planRecall([1], { mode })).removed).toEqual(ids);
    const outcome = await agent.recall([1], { mode: "contact", disposal: "erase" });
    expect(outcome.removed).toEqual(ids);
    expect(outcome.erased).toEqual(upTo(last));
    expect(outcome.reasons.at(-1)).toEqual({
      id: last,
      leg: [length],
      brokenBy: length,
      through: "leg",
    });
    expect(await agent.why(last)).toMatchObject({ killedBy: { path: upTo(last) } });
    expect((await agent.verify()).records).toBe(last + 1);
    await agent.close();
    const again = await store.openAgent(token);
    expect(await again.alive(upTo(last))).toEqual([]);
    await again.close();
  });

  test("a chain that goes by legs and by sight in turn is followed to its end", async () => {
    // Entries from 3 on: an odd one stands on 2 and saw the one before it, an even one stands on the one before it.
    const { agent } = await tempLots(2);
    const last = 3002;
    await agent.rememberAll(
      upTo(last, 3).map((id) => ({
        text: `${id}`,
        legs: id % 2 === 1 ? [[2]] : [[{ item: id - 4 }]],
      })),
    );
    expect((await agent.planRecall([1], { mode: "contact" })).removed).toEqual([]);
    const { agent: second } = await tempLots(2);
    for (let id = 3; id <= last; id++) {
      if (id % 2 === 0) await second.remember(`${id}`, [[id - 1]]);
      else await second.remember(`${id}`, [[2]], { seen: [id === 3 ? 1 : id - 1] });
    }
    const outcome = await second.recall([1], { mode: "contact" });
    expect(outcome.removed).toEqual(upTo(last, 3));
    expect(await second.why(last)).toMatchObject({
      killedBy: { path: [1, ...upTo(last, 3)] },
    });
  });

  test("100,000 children of one parent are shown, recalled and checked", async () => {
    const { agent } = await tempLots(2);
    const count = 100_000;
    const ids = await agent.rememberAll(
      upTo(count).map((i) => ({ text: `${i}`, legs: i % 2 === 0 ? [[1]] : [[1], [2]] })),
    );
    expect((await agent.show(1)).builtOnThis).toEqual(ids);
    const half = ids.filter((_, i) => i % 2 === 1);
    const outcome = await agent.recall([1]);
    expect(outcome.removed).toEqual(half);
    expect(outcome.reasons.length).toBe(count / 2);
    expect(outcome.survivors.length).toBe(count / 2);
    expect(outcome.survivors[0]).toEqual({ id: 3, heldBy: [[2]] });
    expect((await agent.stats()).alive).toBe(1 + count / 2);
    expect((await agent.verify()).records).toBe(2 + count + 1);
  });

  test("many ways from one source to one memory are walked once", async () => {
    // 40 storeys of two memories, each on both of the storey below: 2^40 ways.
    const { agent } = await tempLots(2);
    for (let storey = 0; storey < 40; storey++) {
      const below = 1 + 2 * storey;
      await agent.remember("left", [[below], [below + 1]]);
      await agent.remember("right", [[below, below + 1]]);
    }
    const why = await agent.why(82);
    expect("support" in why && why.support.length).toBe(81 - 1);
    // Left ones stand on the left one below; right ones need both, and the first of them lost 2.
    const { removed } = await agent.planRecall([2]);
    expect(removed).toEqual(upTo(40).map((storey) => 2 * storey + 2));
    expect((await agent.planRecall([2], { mode: "strict" })).removed).toEqual(upTo(82, 3));
  });
});

describe("agents and stores", () => {
  test("BAD_NAME for what is no name", async () => {
    const store = await tempStore();
    const bad = ["", ".", "..", "a/b", "/", "a\\b", "\\", "a\0b", "a\nb", "\u007f", "\u0085"];
    bad.push("a\u2028b", "n".repeat(65), "🧀".repeat(65), "\ud800");
    for (const name of bad)
      expect(await codeOf(() => store.createAgent(name)), name).toBe("BAD_NAME");
    expect(await store.agents()).toEqual([]);
  });

  test("names that only look dangerous are ordinary", async () => {
    const store = await tempStore();
    const good = ["__proto__", "constructor", "toString", "hasOwnProperty", "...", "~", "-rf"];
    good.push(" ", "CON", "NUL:", "a.b.", "n".repeat(64), "🧀".repeat(64), "\u202eabc", "Alice");
    good.push("alice", "é".repeat(64));
    for (const name of good) {
      const { token } = await store.createAgent(name);
      const agent = await store.openAgent(token);
      expect(agent.name).toBe(name);
      await agent.addLot("x", name);
      await agent.close();
    }
    const listed = (await store.agents()).map(({ name }) => name);
    expect(listed.toSorted()).toEqual(good.toSorted());
    expect((await store.verify()).ok).toBe(true);
  });

  test("NAME_TAKEN for the same name, and for its twin that is written otherwise", async () => {
    const store = await tempStore();
    await store.createAgent("Zoe\u0308");
    expect((await store.agents()).map(({ name }) => name)).toEqual(["Zo\u00eb"]);
    expect(await codeOf(() => store.createAgent("Zoe\u0308"))).toBe("NAME_TAKEN");
    expect(await codeOf(() => store.createAgent("Zo\u00eb"))).toBe("NAME_TAKEN");
    await store.createAgent("Zoe");
    await store.createAgent("zo\u00eb");
    // Composed, 64 code points are as many as there may be.
    await store.createAgent("e\u0301".repeat(64));
    // A name is free again once its agent is gone.
    await store.deleteAgent("Zoe\u0308");
    await store.createAgent("Zo\u00eb");
  });

  test("NO_AGENT for a name that is nobody's", async () => {
    const store = await tempStore();
    await store.createAgent("alice");
    for (const name of ["bob", "", "ALICE", "../alice", "__proto__"]) {
      expect(await codeOf(() => store.deleteAgent(name))).toBe("NO_AGENT");
      expect(await codeOf(() => store.verifyAgent(name))).toBe("NO_AGENT");
      expect(await codeOf(() => store.find("x", { agent: name }))).toBe("NO_AGENT");
      expect(store.keptToken(name)).toBeNull();
    }
  });

  test("a kept token is found again, and an agent that may be a damaged one is not taken for missing", async () => {
    const store = await tempStore();
    const { agent, token } = await store.createAgent("alice", { keepToken: true });
    await store.createAgent("bob");
    expect(store.keptToken("alice")).toBe(token);
    expect(store.keptToken("bob")).toBeNull();
    expect(store.keptToken("carol")).toBeNull();
    writeFileSync(join(store.path, "agents", agent.id, "agent"), "damaged");
    for (const name of ["alice", "carol"])
      expect(await codeOf(async () => store.keptToken(name))).toBe("NO_AGENT");
    expect(store.keptToken("bob")).toBeNull();
  });

  test("BAD_TOKEN for every wrong token, in the same words", async () => {
    const [store, elsewhere] = [await tempStore(), await tempStore()];
    const { token } = await store.createAgent("alice");
    const { token: other } = await elsewhere.createAgent("alice");
    const { token: gone } = await store.createAgent("bob");
    await store.deleteAgent("bob");
    const changed = `${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}`;
    const wrong = ["", "x", token.slice(0, -1), `${token}A`, ` ${token}`, token.toUpperCase()];
    wrong.push(changed, other, gone, token.replace("cheese_", ""), "cheese_".padEnd(71, "A"));
    const messages = new Set<string>();
    for (const bad of [...wrong, undefined, null, 7]) {
      const error = await store.openAgent(bad as string).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(CheeseError);
      expect(error).toMatchObject({ code: "BAD_TOKEN" });
      messages.add((error as Error).message);
    }
    expect(messages.size).toBe(1);
    expect([...messages].join()).not.toContain(token.slice(10, 30));
    await (await store.openAgent(token)).close();
  });

  test("NO_STORE where there is none, and nothing is made of the place", async () => {
    const folder = tempFolder();
    writeFileSync(join(folder, "file"), "");
    mkdirSync(join(folder, "photos"));
    writeFileSync(join(folder, "photos", "a.jpg"), "");
    mkdirSync(join(folder, "empty"));
    await Store.open(join(folder, "store"));
    symlinkSync(join(folder, "store"), join(folder, "link"));
    const at = (name: string, options = {}) =>
      codeOf(() => Store.open(join(folder, name), options));
    expect(await at("file")).toBe("NO_STORE");
    expect(await at("photos")).toBe("NO_STORE");
    expect(await at("link")).toBe("NO_STORE");
    for (const options of [{ readOnly: true }, { create: false }]) {
      expect(await at("none", options)).toBe("NO_STORE");
      expect(await at("empty", options)).toBe("NO_STORE");
      expect(await at("store", options)).toBe(null);
    }
    expect(await codeOf(() => Store.open(join(folder, "none"), { readOnly: true }))).toBe(
      "NO_STORE",
    );
    // An empty folder may become one.
    expect(await at("empty")).toBe(null);
  });

  test("READ_ONLY for everything that would write", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("web_page", "x");
    await agent.remember("of 1", [[1]]);
    const exported = (await collect(agent.export())).join("");
    await agent.close();
    const reading = await Store.open(store.path, { readOnly: true });
    const reader = await reading.openAgent(token);
    const writes: Record<string, () => Promise<unknown>> = {
      addLot: () => reader.addLot("x", "x"),
      addLots: () => reader.addLots([{ label: "x", text: "x" }]),
      remember: () => reader.remember("x", [[1]]),
      rememberAll: () => reader.rememberAll([{ text: "x", legs: [[1]] }]),
      corroborate: () => reader.corroborate(2, [1]),
      recall: () => reader.recall([1]),
      compact: () => reader.compact(),
      import: () => reader.import(exported),
      session: () => reader.session().addLot("x", "x"),
      createAgent: () => reading.createAgent("bob"),
      deleteAgent: () => reading.deleteAgent("alice"),
    };
    for (const [name, write] of Object.entries(writes))
      expect(await codeOf(write), name).toBe("READ_ONLY");
    expect((await reader.planRecall([1])).removed).toEqual([2]);
    await reader.close();
  });

  test("CLOSED for every call on a handle that is closed, and closing twice is nothing", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("web_page", "x");
    const session = agent.session();
    await agent.close();
    await agent.close();
    const calls: Record<string, () => Promise<unknown>> = {
      addLot: () => agent.addLot("x", "x"),
      addLots: () => agent.addLots([{ label: "x", text: "x" }]),
      remember: () => agent.remember("x", [[1]]),
      rememberAll: () => agent.rememberAll([{ text: "x", legs: [[1]] }]),
      corroborate: () => agent.corroborate(1, [1]),
      recall: () => agent.recall([1]),
      planRecall: () => agent.planRecall([1]),
      alive: () => agent.alive([1]),
      get: () => agent.get(1),
      text: () => agent.text(1),
      show: () => agent.show(1),
      why: () => agent.why(1),
      entries: () => collect(agent.entries()),
      history: () => collect(agent.history()),
      stats: () => agent.stats(),
      head: () => agent.head(),
      verify: () => agent.verify(),
      compact: () => agent.compact(),
      export: async () => collect(agent.export()),
      import: () => agent.import(""),
      findLots: () => agent.findLots({}),
      session: () => session.addLot("x", "x"),
    };
    for (const [name, call] of Object.entries(calls))
      expect(await codeOf(call), name).toBe("CLOSED");
  });

  test("USAGE for what is not of its form", async () => {
    const { store, agent } = await tempLots(1);
    expect(await codeOf(() => store.find(""))).toBe("USAGE");
    const { fingerprint, hash } = await agent.head();
    const wrong = [
      "",
      "1",
      hash,
      `1-${hash.slice(1)}`,
      `01-${hash}`,
      `-1-${hash}`,
      ` ${fingerprint}`,
    ];
    wrong.push(`1-${hash}0`, `1-${hash.replace(/.$/, "g")}`, `${"9".repeat(11)}-${hash}`);
    for (const expected of wrong) {
      expect(await codeOf(() => agent.verify({ expect: expected })), expected).toBe("USAGE");
      expect(await codeOf(() => store.verifyAgent("alice", { expect: expected }))).toBe("USAGE");
    }
    expect(await codeOf(() => agent.verify({ expect: fingerprint }))).toBe(null);
  });
});

describe("errors", () => {
  test("every code has words for when it is thrown and for what to do, and its exit number", () => {
    const exits = Object.fromEntries(Object.entries(codes).map(([code, { exit }]) => [code, exit]));
    expect(exits).toEqual({
      UNEXPECTED: 1,
      USAGE: 2,
      NOT_UTF8: 2,
      TOO_LARGE: 2,
      BAD_INPUT: 2,
      NO_AGENT: 3,
      NO_ENTRY: 3,
      NO_STORE: 3,
      BAD_TOKEN: 3,
      NO_LEG: 4,
      UNKNOWN_PARENT: 4,
      DEAD_PARENT: 4,
      CYCLE: 4,
      DEAD_ENTRY: 4,
      RECALLED_CONTEXT: 4,
      PLAN_STALE: 4,
      READ_ONLY: 4,
      NAME_TAKEN: 4,
      BAD_NAME: 4,
      LOCKED: 5,
      CORRUPT: 6,
      HEAD_MISMATCH: 6,
      NEWER_FORMAT: 6,
      DISK: 7,
      CLOSED: 7,
      LLM: 8,
      CANCELLED: 130,
    });
    for (const { when, hint } of Object.values(codes)) {
      expect(when.length).toBeGreaterThan(10);
      expect(hint).toMatch(/\.$/);
    }
  });

  test("an error carries its code, what is wrong, what to do, and the entry that is meant", async () => {
    const { agent } = await tempLots(1);
    await agent.recall([1]);
    const error = await agent.remember("x", [[1]]).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(CheeseError);
    expect(error).toMatchObject({ name: "CheeseError", code: "DEAD_PARENT", entry: 1 });
    const { message, hint } = error as CheeseError;
    expect(message.length).toBeGreaterThan(10);
    expect(hint.length).toBeGreaterThan(10);
  });

  test("a refusal leaves the other calls of its batch alone", async () => {
    const { agent } = await tempLots(1);
    const results = await Promise.allSettled([
      agent.addLot("web_page", "before"),
      agent.remember("x", [[99]]),
      agent.remember("on the one before", [[2]]),
      agent.recall([98]),
      agent.addLot("web_page", "after"),
    ]);
    expect(results.map((result) => result.status === "fulfilled" && result.value)).toEqual([
      2,
      false,
      3,
      false,
      4,
    ]);
    expect((await agent.head()).record).toBe(4);
    expect((await agent.verify()).ok).toBe(true);
  });
});
