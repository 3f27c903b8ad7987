// The test of the crash tests: every bug that is planted in a copy of the engine is found, and in the copy without one nothing is.

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { shuffled } from "./campaign/crash.ts";
import { chance, SEED, tempFolder } from "./helpers.ts";
import { plant, plantedBugs, requirePlantable, search } from "./planted.ts";

/** PLANTED=all looks for all of them; else for a few by chance. */
const HOW_MANY = process.env.PLANTED === "all" ? plantedBugs.length : 6;
const TIMEOUT_MS = 600_000;

test(
  `${HOW_MANY} of ${plantedBugs.length} planted bugs are found, and nothing where there is none`,
  async () => {
    console.log(`SEED=${SEED}`);
    const folder = tempFolder();
    const none = { name: "none", edits: [], among: ["lot"] };
    const bugs = shuffled(plantedBugs, chance(SEED)).slice(0, HOW_MANY);
    const waiting = [...[none, ...bugs].entries()];
    const found: string[] = [];
    const work = async () => {
      for (let next = waiting.pop(); next; next = waiting.pop()) {
        const [i, bug] = next;
        const copy = join(folder, String(i));
        plant(bug, copy);
        const { workloads, states, failure } = await search(copy, bug.among, SEED);
        const what = failure === null ? "nothing" : "found";
        console.log(`${what} after ${states} states of ${workloads} workloads: ${bug.name}`);
        if (failure !== null) found.push(bug.name);
        else expect(states).toBeGreaterThan(100);
      }
    };
    await Promise.all(Array.from({ length: availableParallelism() }, work));
    expect(found.sort()).toEqual(bugs.map(({ name }) => name).sort());
  },
  TIMEOUT_MS,
);

test("every bug can still be planted: the code has not moved on", () => {
  for (const bug of plantedBugs) requirePlantable(bug);
  expect(new Set(plantedBugs.map(({ name }) => name)).size).toBe(plantedBugs.length);
});
