// Recall by the examples of the product's page: fair and strict, seen and contact, survivors and reasons, several targets,
// widening, what comes to nothing, what an erased target reaches later, and plans.

import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Agent, CheeseError, type State } from "../src/index.ts";
import { allBytes, codeOf, collect, tempAgent } from "./helpers.ts";

/** Lots 1, 2, 3; memory 4 from 1 or from 2, memory 5 from 3, memory 6 from 4 and 5 together. */
async function tempPune(): Promise<{ agent: Agent }> {
  const { agent } = await tempAgent();
  await agent.addLot("user_message", "I live in Pune");
  await agent.addLot("web_page", "profile: lives in Pune");
  await agent.addLot("weather_tool", "Pune: rain");
  await agent.remember("user lives in Pune", [[1], [2]]);
  await agent.remember("Pune is rainy", [[3]]);
  await agent.remember("carry an umbrella", [[4, 5]]);
  return { agent };
}

/** Lots 1 page, 2 user; memory 3 from 2 that saw 1 and 2; lot 4 that saw 1 and 3; memory 5 from 4. */
async function tempSeen(): Promise<{ agent: Agent }> {
  const { agent } = await tempAgent();
  await agent.addLot("web_page", "page");
  await agent.addLot("user_message", "user");
  await agent.remember("memory of the user", [[2]], { seen: [1, 2] });
  await agent.addLot("web_page", "looked up afterwards", { seen: [1, 3] });
  await agent.remember("memory of what was looked up", [[4]]);
  return { agent };
}

/** As many lots as asked for, and nothing on them. */
async function tempLots(count: number): Promise<{ agent: Agent; folder: string }> {
  const { store, agent } = await tempAgent();
  for (let id = 1; id <= count; id++) await agent.addLot("web_page", `lot ${id}`);
  return { agent, folder: store.path };
}

async function states(agent: Agent): Promise<State[]> {
  return (await collect(agent.entries())).map(({ state }) => state);
}

async function recordsOf(agent: Agent): Promise<number> {
  return (await agent.head()).record;
}

/** The plan that a stale one came with. */
async function staleness(call: () => Promise<unknown>): Promise<{ id: string; removed: number[] }> {
  try {
    await call();
  } catch (error) {
    if (error instanceof CheeseError && error.code === "PLAN_STALE")
      return error.plan as { id: string; removed: number[] };
    throw error;
  }
  throw new Error("the plan was carried out");
}

describe("fair and strict, by example", () => {
  test("recall 3, fair: removed 5 and 6, and 4 lives", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([3], { mode: "fair" });
    expect(outcome).toEqual({
      targets: [3],
      mode: "fair",
      disposal: "untrusted",
      dryRun: false,
      plan: expect.stringMatching(/^fair-untrusted-[0-9a-f]{16}$/),
      removed: [5, 6],
      survivors: [],
      erased: [],
      reasons: [
        { id: 5, leg: [3], brokenBy: 3, through: "leg" },
        { id: 6, leg: [4, 5], brokenBy: 5, through: "leg" },
      ],
      record: 7,
    });
    expect(await states(agent)).toEqual([
      "alive",
      "alive",
      "recalled",
      "alive",
      "removed",
      "removed",
    ]);
  });

  test("recall 1, fair: removed nothing, for 4 stands on leg {2}", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([1], { mode: "fair" });
    expect(outcome.removed).toEqual([]);
    expect(outcome.survivors).toEqual([{ id: 4, heldBy: [[2]] }]);
    expect(outcome.reasons).toEqual([]);
    expect((await agent.get(4)).legs).toEqual([
      { parents: [1], holds: false },
      { parents: [2], holds: true },
    ]);
    expect(await agent.alive([1, 2, 3, 4, 5, 6])).toEqual([2, 3, 4, 5, 6]);
  });

  test("recall 1, strict: removed 4 and 6, and 5 lives", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([1], { mode: "strict" });
    expect(outcome.removed).toEqual([4, 6]);
    expect(outcome.survivors).toEqual([]);
    expect(outcome.reasons).toEqual([
      { id: 4, leg: [1], brokenBy: 1, through: "leg" },
      { id: 6, leg: [4, 5], brokenBy: 4, through: "leg" },
    ]);
    expect(await agent.alive([1, 2, 3, 4, 5, 6])).toEqual([2, 3, 5]);
  });

  test("recall 1 fair, then 2 fair: removed 4 and 6 at the second", async () => {
    const { agent } = await tempPune();
    expect((await agent.recall([1], { mode: "fair" })).removed).toEqual([]);
    const second = await agent.recall([2], { mode: "fair" });
    expect(second.removed).toEqual([4, 6]);
    expect(second.reasons).toEqual([
      { id: 4, leg: [2], brokenBy: 2, through: "leg" },
      { id: 6, leg: [4, 5], brokenBy: 4, through: "leg" },
    ]);
  });

  test("fair and untrusted are what a recall does when nothing is said", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([1]);
    expect(outcome).toMatchObject({ mode: "fair", disposal: "untrusted", removed: [] });
    expect(await agent.text(1)).toBe("I live in Pune");
  });

  test("strict goes through legs long broken and memories long dead", async () => {
    // Given: 5 stands on 3, which is dead already, and on lot 2.
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.remember("between", [[3]]);
    await agent.remember("of the one between, or of 2", [[4], [2]]);
    await agent.recall([4]);
    expect(await agent.alive([1, 2, 3, 4, 5])).toEqual([1, 2, 3, 5]);
    // Done and seen: fair does not reach 5, strict does, over the dead 4.
    expect((await agent.planRecall([1], { mode: "fair" })).removed).toEqual([3]);
    const outcome = await agent.recall([1], { mode: "strict" });
    expect(outcome.removed).toEqual([3, 5]);
    expect(outcome.reasons).toEqual([
      { id: 3, leg: [1], brokenBy: 1, through: "leg" },
      { id: 5, leg: [4], brokenBy: 4, through: "leg" },
    ]);
  });

  test("strict goes through a leg that came by corroboration", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.corroborate(3, [2]);
    expect((await agent.planRecall([2], { mode: "fair" })).removed).toEqual([]);
    const outcome = await agent.recall([2], { mode: "strict" });
    expect(outcome.removed).toEqual([3]);
    expect(outcome.reasons).toEqual([{ id: 3, leg: [2], brokenBy: 2, through: "leg" }]);
  });

  test("what strict kills takes with it, fairly, what stood on that alone", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.remember("of 4 and 3", [[3, 4]]);
    expect((await agent.recall([2], { mode: "strict" })).removed).toEqual([4, 5]);
  });

  test("a memory may be recalled, and takes what stands on it", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([4]);
    expect(outcome.removed).toEqual([6]);
    expect(await states(agent)).toEqual([
      "alive",
      "alive",
      "alive",
      "recalled",
      "alive",
      "removed",
    ]);
  });

  test("the contract's own program comes out as it says", async () => {
    const { agent: alice } = await tempAgent();
    const a = await alice.addLot("user_message", "I live in Pune");
    const b = await alice.addLot("web_page", "profile: lives in Pune", {
      uri: "https://example.com/u/1",
    });
    const c = await alice.addLot("weather_tool", "Pune: rain");
    const m1 = await alice.remember("user lives in Pune", [[a], [b]]);
    const m2 = await alice.remember("Pune is rainy", [[c]], { seen: [a, b, c] });
    const m3 = await alice.remember("carry an umbrella", [[m1, m2]]);
    expect([a, b, c, m1, m2, m3]).toEqual([1, 2, 3, 4, 5, 6]);
    const plan = await alice.planRecall([c], { mode: "fair", disposal: "untrusted" });
    const outcome = await alice.recall([c], {
      mode: "fair",
      disposal: "untrusted",
      plan: plan.id,
    });
    expect(outcome.removed).toEqual([5, 6]);
    expect(await alice.alive([m1])).toEqual([m1]);
  });
});

describe("survivors and reasons", () => {
  test("a survivor lost a leg in this recall and lives, with the legs that hold it", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.remember("of 3", [[3]]);
    expect((await agent.recall([1])).survivors).toEqual([{ id: 3, heldBy: [[2]] }]);
  });

  test("survivors come in order, and once each, however many legs they lose", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("loses two", [[1], [1, 2], [3]]);
    await agent.remember("loses one", [[3], [1]]);
    await agent.remember("loses one of three", [[2], [3], [1]]);
    expect((await agent.recall([1])).survivors).toEqual([
      { id: 4, heldBy: [[3]] },
      { id: 5, heldBy: [[3]] },
      { id: 6, heldBy: [[2], [3]] },
    ]);
  });

  test("a leg lost before makes no survivor of a later recall", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.recall([1]);
    expect((await agent.recall([3])).survivors).toEqual([]);
  });

  test("a survivor names all the legs that hold it, those by corroboration too, and none that broke before", async () => {
    const { agent } = await tempLots(5);
    await agent.remember("of many", [[1], [2], [3, 4]]);
    await agent.corroborate(6, [5]);
    await agent.recall([2]);
    expect((await agent.recall([1])).survivors).toEqual([{ id: 6, heldBy: [[3, 4], [5]] }]);
  });

  test("a survivor tells the moment of its recall, however much came after", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 or 2", [[1], [2]]);
    const outcome = await agent.recall([1]);
    await agent.corroborate(4, [3]);
    await agent.recall([2], { disposal: "erase" });
    await agent.compact();
    expect(outcome.survivors).toEqual([{ id: 4, heldBy: [[2]] }]);
  });

  test("an outcome can be looked at after its handle is closed", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([3]);
    await agent.close();
    expect(outcome.reasons.map(({ id, brokenBy }) => [id, brokenBy])).toEqual([
      [5, 3],
      [6, 5],
    ]);
  });

  test("the reason is the leg that broke last", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.recall([1]);
    expect((await agent.recall([2])).reasons).toEqual([
      { id: 3, leg: [2], brokenBy: 2, through: "leg" },
    ]);
  });
});

describe("seen, by example", () => {
  test("recall 1: fair and strict remove nothing, contact removes 3, 4 and 5", async () => {
    const { agent } = await tempSeen();
    const plan = await agent.planRecall([1], { mode: "contact" });
    expect(plan.alternatives.fair.removed).toEqual([]);
    expect(plan.alternatives.strict.removed).toEqual([]);
    expect(plan.alternatives.contact.removed).toEqual([3, 4, 5]);
    const outcome = await agent.recall([1], { mode: "contact" });
    expect(outcome.removed).toEqual([3, 4, 5]);
    expect(outcome.reasons[0]).toEqual({ id: 3, leg: [], brokenBy: 1, through: "seen" });
    expect(outcome.reasons[1]).toMatchObject({ id: 4, leg: [], through: "seen" });
    expect([1, 3]).toContain(outcome.reasons[1]?.brokenBy);
    expect(outcome.reasons[2]).toEqual({ id: 5, leg: [4], brokenBy: 4, through: "leg" });
    expect(await states(agent)).toEqual(["recalled", "alive", "removed", "removed", "removed"]);
  });

  test.each(["fair", "strict"] as const)("recall 1, %s, writes 1 off and no more", async (mode) => {
    const { agent } = await tempSeen();
    expect((await agent.recall([1], { mode })).removed).toEqual([]);
    expect(await agent.alive([1, 2, 3, 4, 5])).toEqual([2, 3, 4, 5]);
  });

  test("contact reaches what saw something that dies of it, not the target alone", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.addLot("web_page", "saw 3", { seen: [3] });
    expect((await agent.recall([1], { mode: "contact" })).removed).toEqual([3, 4]);
  });

  test("seen may name the dead, and never what does not exist", async () => {
    const { agent } = await tempLots(2);
    await agent.recall([1], { mode: "strict" });
    expect(await agent.addLot("web_page", "saw the dead", { seen: [1] })).toBe(3);
    expect((await agent.get(3)).seen).toEqual([1]);
    const saw = (id: number) => () => agent.addLot("web_page", "x", { seen: [id] });
    expect(await codeOf(saw(4))).toBe("UNKNOWN_PARENT");
    expect(await codeOf(saw(0))).toBe("UNKNOWN_PARENT");
    expect(await codeOf(saw(1.5))).toBe("UNKNOWN_PARENT");
    expect(await recordsOf(agent)).toBe(4);
  });

  test("after a contact recall nobody writes who saw the target, or anything below it, whenever that died", async () => {
    // Given: 4 is below 1 and died before, of another recall; 5 saw 4; 6 has nothing to do with any of it.
    const { agent } = await tempLots(3);
    await agent.remember("of 1 and 2", [[1, 2]]);
    await agent.addLot("web_page", "saw 4", { seen: [4] });
    await agent.addLot("user_message", "untouched");
    await agent.recall([2]);
    expect(await agent.alive([4, 5])).toEqual([5]);
    // Done
    expect((await agent.recall([1], { mode: "contact" })).removed).toEqual([5]);
    // Seen
    for (const id of [1, 4, 5]) {
      expect(await codeOf(() => agent.addLot("x", "x", { seen: [6, id] }))).toBe(
        "RECALLED_CONTEXT",
      );
      expect(await codeOf(() => agent.remember("x", [[6]], { seen: [id] }))).toBe(
        "RECALLED_CONTEXT",
      );
    }
    // 2 died too, and of no contact recall.
    expect(await agent.addLot("x", "saw what may be seen", { seen: [2, 3, 6] })).toBe(7);
  });

  test("no other recall shuts a writer out who saw its target", async () => {
    const { agent } = await tempSeen();
    await agent.recall([1], { mode: "strict", disposal: "erase" });
    expect(await agent.addLot("x", "still writing", { seen: [1, 3] })).toBe(6);
  });

  test("raising an old recall to contact shuts out whoever saw it, though it kills nothing", async () => {
    const { agent } = await tempLots(2);
    await agent.recall([1]);
    const outcome = await agent.recall([1], { mode: "contact" });
    expect(outcome).toMatchObject({ removed: [], record: 4 });
    expect(await codeOf(() => agent.addLot("x", "x", { seen: [1] }))).toBe("RECALLED_CONTEXT");
  });

  test("what was seen holds nothing up, and breaks nothing under fair or strict", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1, saw 2", [[1]], { seen: [2] });
    expect((await agent.recall([1])).removed).toEqual([3]);
  });
});

describe("several targets", () => {
  test("they are one record, and all die at once", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([2, 1, 2]);
    expect(outcome).toMatchObject({ targets: [1, 2], removed: [4, 6], survivors: [], record: 7 });
    expect(await recordsOf(agent)).toBe(7);
    expect(await states(agent)).toEqual([
      "recalled",
      "recalled",
      "alive",
      "removed",
      "alive",
      "removed",
    ]);
  });

  test("a target is not among the removed, even where another target would kill it", async () => {
    const { agent } = await tempPune();
    const outcome = await agent.recall([3, 5]);
    expect(outcome).toMatchObject({ targets: [3, 5], removed: [6] });
    expect((await agent.get(5)).state).toBe("recalled");
  });

  test("one unknown target refuses all, and nothing is written", async () => {
    const { agent } = await tempPune();
    for (const unknown of [7, 0, -1, 1.5, 2 ** 32, Number.NaN]) {
      expect(await codeOf(() => agent.recall([1, unknown, 2]))).toBe("NO_ENTRY");
      expect(await codeOf(() => agent.planRecall([1, unknown]))).toBe("NO_ENTRY");
    }
    expect(await agent.alive([1, 2, 3, 4, 5, 6])).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await recordsOf(agent)).toBe(6);
  });
});

describe("a dead target", () => {
  test("strict on it reaches what survived it; its state becomes recalled, and why names what killed it first", async () => {
    // Given: 3 died of the recall of 1, and 4 survived that on lot 2.
    const { agent } = await tempLots(2);
    await agent.remember("of 1", [[1]]);
    await agent.remember("of 3 or 2", [[3], [2]]);
    expect(await agent.recall([1])).toMatchObject({
      removed: [3],
      survivors: [{ id: 4, heldBy: [[2]] }],
      record: 5,
    });
    // Done and seen
    expect(await agent.recall([3], { mode: "strict" })).toMatchObject({ removed: [4], record: 6 });
    expect((await agent.get(3)).state).toBe("recalled");
    expect(await agent.why(3)).toMatchObject({
      killedBy: { record: 5, targets: [1], mode: "fair", disposal: "untrusted", path: [1, 3] },
    });
    expect(await agent.why(4)).toMatchObject({
      killedBy: { record: 6, targets: [3], path: [3, 4] },
    });
  });

  test("erase on it takes its text", async () => {
    const { agent } = await tempPune();
    await agent.recall([3]);
    const outcome = await agent.recall([6], { disposal: "erase" });
    expect(outcome).toMatchObject({ removed: [], erased: [6], record: 8 });
    expect(await agent.text(6)).toBe(null);
    expect(await agent.text(5)).toBe("Pune is rainy");
  });
});

describe("recalling again may only widen", () => {
  test("fair then strict kills what fair had spared; fair again comes to nothing", async () => {
    const { agent } = await tempPune();
    expect((await agent.recall([1], { mode: "fair" })).removed).toEqual([]);
    expect(await agent.recall([1], { mode: "strict" })).toMatchObject({
      removed: [4, 6],
      record: 8,
    });
    expect(await agent.recall([1], { mode: "fair" })).toMatchObject({ removed: [], record: null });
    expect((await agent.get(1)).state).toBe("recalled");
    expect(await recordsOf(agent)).toBe(8);
  });

  test("a mode or a disposal that is raised is a record, though nothing more dies or goes", async () => {
    const { agent } = await tempLots(2);
    expect((await agent.recall([1])).record).toBe(3);
    expect((await agent.recall([1], { mode: "strict" })).record).toBe(4);
    expect((await agent.recall([1], { mode: "contact" })).record).toBe(5);
    expect(await agent.recall([1], { disposal: "erase" })).toMatchObject({
      erased: [1],
      record: 6,
    });
  });

  test("a call that kills nothing, erases nothing and raises nothing says so, and writes nothing", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.addLot("web_page", "two");
    await agent.remember("of 1", [[1]]);
    await agent.recall([1], { mode: "strict", disposal: "erase" });
    await agent.close();
    const before = allBytes(store.path);
    const again = await store.openAgent(token);
    for (const mode of ["fair", "strict"] as const) {
      for (const disposal of ["untrusted", "erase"] as const) {
        expect(await again.recall([1], { mode, disposal })).toMatchObject({
          mode,
          disposal,
          dryRun: false,
          removed: [],
          erased: [],
          survivors: [],
          reasons: [],
          record: null,
        });
      }
    }
    expect(allBytes(store.path).equals(before)).toBe(true);
    await again.close();
    expect(allBytes(store.path).equals(before)).toBe(true);
    // It is the widening that decides: the same call with a target more is a record.
    const third = await store.openAgent(token);
    expect((await third.recall([1, 2])).record).toBe(5);
    await third.close();
  });

  test("the widest mode a target carries says what an erase takes; the outcome names the one asked for", async () => {
    // Given: contact killed what had seen 1.
    const { agent } = await tempSeen();
    await agent.recall([1], { mode: "contact" });
    // Done and seen: fair erase on the same target reaches through what was seen.
    const outcome = await agent.recall([1], { mode: "fair", disposal: "erase" });
    expect(outcome).toMatchObject({
      mode: "fair",
      disposal: "erase",
      plan: expect.stringMatching(/^fair-erase-/),
      removed: [],
      erased: [1, 3, 4, 5],
    });
    expect(await Promise.all([1, 2, 3, 4, 5].map((id) => agent.text(id)))).toEqual([
      null,
      "user",
      null,
      null,
      null,
    ]);
  });

  test("a target that never was more than fair takes its own text and that of the dead below it", async () => {
    const { agent } = await tempSeen();
    const outcome = await agent.recall([1], { mode: "fair", disposal: "erase" });
    expect(outcome).toMatchObject({ removed: [], erased: [1] });
  });

  test("erase after an untrusted recall takes the text of everything dead below, whichever recall killed it", async () => {
    // Given: 4 is below 1 and died of the recall of 2.
    const { agent } = await tempLots(3);
    await agent.remember("of 1 and 2", [[1, 2]]);
    await agent.remember("of 1 or 3", [[1], [3]]);
    await agent.recall([2]);
    // Done and seen: 5 lives on lot 3, and keeps its text.
    const outcome = await agent.recall([1], { disposal: "erase" });
    expect(outcome).toMatchObject({
      removed: [],
      erased: [1, 4],
      survivors: [{ id: 5, heldBy: [[3]] }],
    });
    expect(await agent.text(2)).toBe("lot 2");
    expect(await agent.text(5)).toBe("of 1 or 3");
  });
});

describe("below an erased target", () => {
  test("what dies later is erased by the call that kills it, also when that is untrusted", async () => {
    const { agent, folder } = await tempLots(2);
    await agent.remember("outlives the first recall", [[1], [2]]);
    const first = await agent.recall([1], { disposal: "erase" });
    expect(first).toMatchObject({
      removed: [],
      erased: [1],
      survivors: [{ id: 3, heldBy: [[2]] }],
    });
    expect(allBytes(folder).includes("outlives the first recall")).toBe(true);
    const second = await agent.recall([2], { disposal: "untrusted" });
    expect(second).toMatchObject({ disposal: "untrusted", removed: [3], erased: [3] });
    expect(allBytes(folder).includes("outlives the first recall")).toBe(false);
    expect(await agent.text(2)).toBe("lot 2");
    expect(await agent.text(3)).toBe(null);
  });

  test("what is killed by being a target itself is erased likewise", async () => {
    const { agent } = await tempLots(2);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.recall([1], { disposal: "erase" });
    expect(await agent.recall([3])).toMatchObject({ removed: [], erased: [3] });
  });

  test("what came to stand below it by corroboration counts too, and a lot that died elsewhere does not", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.remember("of 3", [[3]]);
    await agent.recall([1], { disposal: "erase" });
    await agent.corroborate(5, [4]);
    expect(await agent.recall([3])).toMatchObject({
      removed: [],
      erased: [],
      survivors: [{ id: 5, heldBy: [[4]] }],
    });
    expect(await agent.recall([2])).toMatchObject({ removed: [4, 5], erased: [4, 5] });
  });
});

describe("below an erased target, and below another one", () => {
  test("strict goes through what lives below a target erased by fair, whose mark does not stop it", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("holds by 3", [[1], [2], [3]]);
    await agent.remember("stands on it", [[4]]);
    await agent.recall([1], { disposal: "erase" });
    expect(await agent.alive([4, 5])).toEqual([4, 5]);
    const outcome = await agent.recall([2], { mode: "strict" });
    expect(outcome.removed).toEqual([4, 5]);
    expect(outcome.erased).toEqual([4, 5]);
  });

  test("strict begins at a target that itself lies below an erased one", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.remember("of that or 3", [[4], [3]]);
    await agent.recall([1], { disposal: "erase" });
    expect((await agent.recall([4], { mode: "strict" })).removed).toEqual([5]);
  });

  test("what was dead already and came there by corroboration goes with the next erase", async () => {
    const { agent } = await tempLots(4);
    await agent.remember("lives on below 1", [[1], [2]]);
    await agent.remember("not below 1 yet", [[3]]);
    await agent.remember("dies with 4, and keeps its text", [[6, 4]]);
    await agent.recall([1], { disposal: "erase" });
    await agent.recall([4]);
    await agent.corroborate(6, [5]);
    expect(await agent.text(7)).toBe("dies with 4, and keeps its text");
    expect((await agent.recall([1], { disposal: "erase" })).erased).toEqual([7]);
    expect(await agent.text(7)).toBe(null);
  });

  test("contact on two targets of which one is erased takes the texts below that one, and no other's", async () => {
    const { agent } = await tempLots(3);
    await agent.remember("lives on below 1", [[1], [3]]);
    await agent.recall([1], { disposal: "erase" });
    await agent.remember("saw what is below 1", [[3]], { seen: [4] });
    await agent.remember("below 2 alone", [[2]]);
    const outcome = await agent.recall([1, 2], { mode: "contact" });
    expect(outcome.removed).toEqual([4, 5, 6]);
    expect(outcome.erased).toEqual([4, 5]);
    expect(await agent.text(6)).toBe("below 2 alone");
  });
});

describe("with a snapshot", () => {
  test("the last entry that it holds has children too, by corroboration", async () => {
    const { store, agent, token } = await tempAgent({ snapshotRecords: 1 });
    await agent.addLot("web_page", "lot 1");
    await agent.remember("of 1, and later of 3", [[1]]);
    await agent.addLot("web_page", "lot 3");
    await agent.corroborate(2, [3]);
    await agent.close();
    const again = await store.openAgent(token);
    expect(again.opened.replayed).toBe(0);
    expect((await again.recall([1])).survivors).toEqual([{ id: 2, heldBy: [[3]] }]);
    expect((await again.recall([3])).removed).toEqual([2]);
    await again.close();
  });

  test.each(["fair", "strict", "contact"] as const)(
    "what %s marked when it was decided is what a replay of its record marks: verify compares the two",
    async (mode) => {
      const { store, agent } = await tempAgent({ snapshotRecords: 1 });
      for (const text of ["lot 1", "lot 2"]) await agent.addLot("web_page", text);
      await agent.remember("of 1 or 2", [[1], [2]]);
      await agent.remember("stands on it", [[3]]);
      await agent.remember("saw it", [[2]], { seen: [3] });
      await agent.recall([1], { mode, disposal: "erase" });
      await agent.close();
      expect(await store.verifyAgent("alice")).toMatchObject({ ok: true, snapshot: "ok" });
    },
  );
});

describe("plans", () => {
  test("a plan writes nothing, and says what the recall then does", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("web_page", "one");
    await agent.remember("of 1", [[1]]);
    await agent.close();
    const before = allBytes(store.path);
    const again = await store.openAgent(token);
    const plan = await again.planRecall([1], { mode: "strict", disposal: "erase" });
    expect(allBytes(store.path).equals(before)).toBe(true);
    expect(plan).toMatchObject({
      dryRun: true,
      record: null,
      targets: [1],
      mode: "strict",
      disposal: "erase",
      removed: [2],
      erased: [1, 2],
      survivors: [],
      reasons: [{ id: 2, leg: [1], brokenBy: 1, through: "leg" }],
    });
    expect(plan.id).toBe(plan.plan);
    const { id: _id, alternatives: _alternatives, isNoop, ...planned } = plan;
    expect(isNoop).toBe(false);
    const outcome = await again.recall([1], { mode: "strict", disposal: "erase", plan: plan.id });
    expect(outcome).toEqual({ ...planned, dryRun: false, record: 3 });
    await again.close();
  });

  test("a plan leaves every leg as it was, of as many as it breaks", async () => {
    const { agent } = await tempLots(2);
    const memories = await agent.rememberAll(
      Array.from({ length: 70 }, (_, i) => ({ text: `memory ${i}`, legs: [[1], [2]] })),
    );
    const first = await agent.planRecall([1]);
    expect(first.survivors.length).toBe(70);
    for (const id of memories)
      expect((await agent.get(id)).legs?.map(({ holds }) => holds)).toEqual([true, true]);
    expect(await agent.planRecall([1])).toEqual(first);
    expect((await agent.recall([2])).survivors).toEqual(
      memories.map((id) => ({ id, heldBy: [[1]] })),
    );
    expect((await agent.recall([1])).removed).toEqual(memories);
  });

  test("its id is SHA-256 over agent, mode, disposal and four lists of numbers: these literals", async () => {
    // Every random byte is 7, so the agent's id is sixteen of them; the digests were worked out apart from this code.
    const { agent } = await tempAgent({ fillRandom: (bytes) => bytes.fill(7) });
    await agent.addLot("user_message", "I live in Pune");
    await agent.addLot("web_page", "profile: lives in Pune");
    await agent.addLot("weather_tool", "Pune: rain");
    await agent.remember("user lives in Pune", [[1], [2]]);
    await agent.remember("Pune is rainy", [[3]]);
    await agent.remember("carry an umbrella", [[4, 5]]);
    expect(agent.id).toBe("07".repeat(16));
    const id = async (target: number, options: Parameters<Agent["planRecall"]>[1]) =>
      (await agent.planRecall([target], options)).id;
    expect(await id(3, {})).toBe("fair-untrusted-80e8eaee511e2607");
    expect(await id(1, { mode: "fair" })).toBe("fair-untrusted-482756d283c398d6");
    expect(await id(1, { mode: "strict", disposal: "erase" })).toBe(
      "strict-erase-cc5bfb4b565e6284",
    );
    expect(await id(1, { mode: "contact" })).toBe("contact-untrusted-d58b652df6a523d6");
  });

  test("its id is worked out alike for any agent, with survivors and erased in it", async () => {
    const { agent } = await tempPune();
    await agent.remember("of 1 alone", [[1]]);
    const list = (...ids: number[]) => Buffer.from(Uint32Array.of(ids.length, ...ids).buffer);
    const digest = createHash("sha256")
      .update(Buffer.from(agent.id, "hex"))
      .update("fair-erase-")
      // Targets, removed, survivors, erased.
      .update(Buffer.concat([list(1), list(7), list(4), list(1, 7)]))
      .digest("hex");
    const plan = await agent.planRecall([1], { disposal: "erase" });
    expect(plan.id).toBe(`fair-erase-${digest.slice(0, 16)}`);
  });

  test("the alternatives are the three modes, each with the id that its own plan has", async () => {
    const { agent } = await tempPune();
    const options = { disposal: "erase" } as const;
    const plan = await agent.planRecall([1], options);
    expect(plan.alternatives).toEqual({
      fair: { plan: plan.id, removed: [], survivors: [4], erased: [1] },
      strict: {
        plan: (await agent.planRecall([1], { ...options, mode: "strict" })).id,
        removed: [4, 6],
        survivors: [],
        erased: [1, 4, 6],
      },
      contact: {
        plan: (await agent.planRecall([1], { ...options, mode: "contact" })).id,
        removed: [4, 6],
        survivors: [],
        erased: [1, 4, 6],
      },
    });
  });

  test("an agent that has grown many times over since a plan is recalled whole", async () => {
    const { agent } = await tempLots(1);
    await agent.planRecall([1]);
    const memories = await agent.rememberAll(
      Array.from({ length: 1000 }, (_, i) => ({ text: `memory ${i}`, legs: [[1]] })),
    );
    const outcome = await agent.recall([1], { disposal: "erase" });
    expect(outcome.removed).toEqual(memories);
    expect(outcome.erased).toEqual([1, ...memories]);
  });

  test("an unrelated write does not make a plan stale", async () => {
    const { agent } = await tempPune();
    const plan = await agent.planRecall([3]);
    await agent.addLot("user_message", "something else");
    await agent.remember("of something else", [[7]]);
    await agent.corroborate(8, [2]);
    await agent.recall([8], { disposal: "erase" });
    await agent.compact();
    expect((await agent.recall([3], { plan: plan.id })).removed).toEqual([5, 6]);
  });

  test("other reasons, or other legs that hold a survivor, do not make a plan stale: only numbers are hashed", async () => {
    const { agent } = await tempPune();
    const plan = await agent.planRecall([1]);
    expect(plan.survivors).toEqual([{ id: 4, heldBy: [[2]] }]);
    await agent.corroborate(4, [3]);
    const outcome = await agent.recall([1], { plan: plan.id });
    expect(outcome.survivors).toEqual([{ id: 4, heldBy: [[2], [3]] }]);
  });

  test("a stale plan is refused with the plan as it is now, and nothing is carried out", async () => {
    const { agent } = await tempPune();
    const plan = await agent.planRecall([3]);
    await agent.remember("of the rain too", [[3]]);
    const now = await staleness(() => agent.recall([3], { plan: plan.id }));
    expect(now).toMatchObject({ removed: [5, 6, 7], dryRun: true });
    expect(now.id).not.toBe(plan.id);
    expect(await agent.alive([3, 5, 6, 7])).toEqual([3, 5, 6, 7]);
    expect(await recordsOf(agent)).toBe(7);
    // The one that came with the refusal is good.
    expect((await agent.recall([3], { plan: now.id })).removed).toEqual([5, 6, 7]);
  });

  test("a plan is stale once a survivor is one no more, a text is gone, or it was carried out", async () => {
    const { agent } = await tempPune();
    const fair = await agent.planRecall([1]);
    const erase = await agent.planRecall([6], { disposal: "erase" });
    await agent.recall([2]);
    expect((await staleness(() => agent.recall([1], { plan: fair.id }))).removed).toEqual([4, 6]);
    await agent.recall([1], { disposal: "erase" });
    await staleness(() => agent.recall([6], { disposal: "erase", plan: erase.id }));
    const third = await agent.planRecall([3]);
    await agent.recall([3], { plan: third.id });
    await staleness(() => agent.recall([3], { plan: third.id }));
    expect(await recordsOf(agent)).toBe(9);
  });

  test("a plan holds for its own targets, mode and disposal alone", async () => {
    const { agent } = await tempPune();
    const { id } = await agent.planRecall([3]);
    await staleness(() => agent.recall([5], { plan: id }));
    await staleness(() => agent.recall([3, 5], { plan: id }));
    await staleness(() => agent.recall([3], { plan: id, mode: "strict" }));
    await staleness(() => agent.recall([3], { plan: id, disposal: "erase" }));
    await staleness(() => agent.recall([3], { plan: "" }));
    await staleness(() => agent.recall([3], { plan: `${id}0` }));
    expect(await recordsOf(agent)).toBe(6);
  });

  test("the same recall of two agents has two ids", async () => {
    const [one, two] = [await tempPune(), await tempPune()];
    const [a, b] = [await one.agent.planRecall([3]), await two.agent.planRecall([3])];
    expect(a.removed).toEqual(b.removed);
    expect(a.id).not.toBe(b.id);
    await staleness(() => two.agent.recall([3], { plan: a.id }));
  });

  test("plans are compared with the graph at the moment of the recall, calls of the same turn included", async () => {
    const { agent } = await tempPune();
    const { id } = await agent.planRecall([3]);
    const [added, recalled] = await Promise.allSettled([
      agent.remember("in the same turn", [[3]]),
      agent.recall([3], { plan: id }),
    ]);
    expect(added).toEqual({ status: "fulfilled", value: 7 });
    expect(recalled).toMatchObject({ status: "rejected", reason: { code: "PLAN_STALE" } });
  });
});
