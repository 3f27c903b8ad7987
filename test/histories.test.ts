// G10, and what holds all the rest together: random histories against a naive evaluator that knows only the definitions.

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { type Agent, hasCode, Store } from "../src/index.ts";
import { workFolder } from "./campaign/stores.ts";
import { codeOf, collect, SEED } from "./helpers.ts";
import { Oracle } from "./oracle.ts";

const HISTORIES = Number(process.env.HISTORIES ?? 2000);

/** One step, in numbers that are read modulo what there is, so that a shorter history means the same. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("lot" as const),
      seen: fc.array(fc.nat(40), { maxLength: 3 }),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("remember" as const),
      legs: fc.array(fc.array(fc.nat(40), { minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      }),
      seen: fc.array(fc.nat(40), { maxLength: 3 }),
      /** Living parents only, so that most are accepted. */
      polite: fc.integer({ min: 0, max: 9 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("corroborate" as const),
      memory: fc.nat(40),
      leg: fc.array(fc.nat(40), { maxLength: 3 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("recall" as const),
      ids: fc.array(fc.nat(40), { minLength: 1, maxLength: 3 }),
      mode: fc.constantFrom("fair" as const, "strict" as const, "contact" as const),
      disposal: fc.constantFrom("untrusted" as const, "erase" as const),
      plan: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("many" as const),
      count: fc.integer({ min: 1, max: 12 }),
      parent: fc.nat(40),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("compact" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("reopen" as const),
      snapshot: fc.constantFrom("keep" as const, "delete" as const, "damage" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("other" as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Run {
  readonly #store: Store;
  readonly #names = ["alice", "bob"];
  readonly #oracles = [new Oracle(), new Oracle()];
  readonly #tokens: string[] = [];
  readonly #agents: Agent[] = [];
  #at = 0;
  #texts = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  get #agent(): Agent {
    return this.#agents[this.#at] as Agent;
  }

  get #oracle(): Oracle {
    return this.#oracles[this.#at] as Oracle;
  }

  async begin() {
    for (const name of this.#names) {
      const { token } = await this.#store.createAgent(name);
      this.#tokens.push(token);
      this.#agents.push(await this.#store.openAgent(token));
    }
  }

  /** Which of the entries that there are a number means; one too far now and then. */
  #pick(number: number): number {
    return 1 + (number % (this.#oracle.entries.length + 1));
  }

  #living(number: number): number {
    const dead = this.#oracle.dead();
    const alive = this.#oracle.ids.filter((id) => !dead.has(id));
    return alive.length === 0 ? 1 : (alive[number % alive.length] as number);
  }

  #text(): string {
    return `text ${++this.#texts} of ${this.#names[this.#at]}: ${"x".repeat((this.#texts * 37) % 90)}`;
  }

  async take(step: Step) {
    const oracle = this.#oracle;
    const agent = this.#agent;
    switch (step.do) {
      case "lot": {
        const seen = step.seen.map((number) => this.#pick(number));
        const refusal = oracle.seenRefusal(seen);
        const text = this.#text();
        const call = () => agent.addLot("web_page", text, { seen });
        if (refusal) expect(await codeOf(call)).toBe(refusal);
        else expect(await call()).toBe(oracle.add("lot", text, "web_page", [], seen));
        break;
      }
      case "remember": {
        const pick = (number: number) =>
          step.polite > 0 ? this.#living(number) : this.#pick(number);
        const legs = step.legs.map((leg) => leg.map(pick));
        const seen = step.seen.map((number) => this.#pick(number));
        const refusal = oracle.refusal(legs, seen);
        const text = this.#text();
        const call = () => agent.remember(text, legs, { seen });
        if (refusal) expect(await codeOf(call)).toBe(refusal);
        else expect(await call()).toBe(oracle.add("memory", text, null, legs, seen));
        break;
      }
      case "corroborate": {
        const memory = this.#pick(step.memory);
        const leg = step.leg.map((number) => this.#living(number));
        const refusal = oracle.corroborate(memory, leg);
        const call = () => agent.corroborate(memory, leg);
        if (refusal) expect(await codeOf(call)).toBe(refusal);
        else expect(await call()).toEqual(oracle.at(memory).legs);
        break;
      }
      case "recall": {
        const ids = step.ids.map((number) => this.#pick(number));
        const { mode, disposal } = step;
        if (ids.some((id) => !oracle.at(id))) {
          expect(await codeOf(() => agent.recall(ids, { mode, disposal }))).toBe("NO_ENTRY");
          break;
        }
        const planned = oracle.recall(ids, mode, disposal, { dryRun: true });
        const plan = await agent.planRecall(ids, { mode, disposal });
        expect(plan).toMatchObject({
          removed: planned.removed,
          survivors: planned.survivors,
          erased: planned.erased,
        });
        for (const other of ["fair", "strict", "contact"] as const) {
          expect(plan.alternatives[other].removed).toEqual(
            oracle.recall(ids, other, disposal, { dryRun: true }).removed,
          );
        }
        const preview = await agent.previewRecall(ids, { mode, disposal });
        const { id: _id, isNoop: _isNoop, alternatives: _alternatives, ...chosen } = plan;
        expect(preview).toEqual(chosen);
        const expected = oracle.recall(ids, mode, disposal);
        const outcome = await agent.recall(
          ids,
          step.plan ? { mode, disposal, plan: plan.id } : { mode, disposal },
        );
        const { targets, removed, survivors, erased, isNoop } = expected;
        expect(outcome).toMatchObject({
          targets,
          removed,
          survivors,
          erased,
          mode,
          disposal,
          plan: plan.id,
          dryRun: false,
        });
        expect(outcome.record === null).toBe(isNoop);
        expect(outcome.reasons.map(({ id }) => id)).toEqual(removed);
        this.#checkReasons(outcome.reasons);
        break;
      }
      case "many": {
        const parent = this.#living(step.parent);
        if (oracle.entries.length === 0 || oracle.dead().has(parent)) break;
        const texts = Array.from({ length: step.count }, () => this.#text());
        const ids = await agent.rememberAll(
          texts.map((text, i) => ({
            text,
            legs: i === 0 ? [[parent]] : [[{ item: i - 1 }], [parent]],
          })),
        );
        expect(ids).toEqual(
          texts.map((text, i) =>
            oracle.add(
              "memory",
              text,
              null,
              i === 0 ? [[parent]] : [[oracle.entries.length], [parent]],
              [],
            ),
          ),
        );
        break;
      }
      case "compact":
        expect((await agent.compact()).textsDropped).toBe(oracle.compact());
        break;
      case "reopen":
        await this.#reopen(step.snapshot);
        break;
      case "other":
        this.#at = 1 - this.#at;
        break;
    }
    if (step.do !== "other") await this.#compareStates();
  }

  /** A reason names a leg of the entry, and in it a parent that is dead; or something that the entry saw. */
  #checkReasons(reasons: { id: number; leg: number[]; brokenBy: number; through: string }[]) {
    const dead = this.#oracle.dead();
    for (const { id, leg, brokenBy, through } of reasons) {
      const entry = this.#oracle.at(id);
      expect(dead.has(brokenBy)).toBe(true);
      if (through === "leg") {
        expect(entry.legs).toContainEqual(leg);
        expect(leg).toContain(brokenBy);
      } else {
        expect(entry.seen).toContain(brokenBy);
      }
    }
  }

  async #reopen(snapshot: "keep" | "delete" | "damage") {
    const agent = this.#agent;
    await agent.close();
    const path = join(this.#store.path, "agents", agent.id, "graph");
    if (existsSync(path) && snapshot === "delete") rmSync(path);
    if (existsSync(path) && snapshot === "damage") {
      const bytes = readFileSync(path);
      bytes[Math.floor(bytes.length * 0.7)] = (bytes[Math.floor(bytes.length * 0.7)] as number) ^ 4;
      writeFileSync(path, bytes);
    }
    this.#agents[this.#at] = await this.#store.openAgent(this.#tokens[this.#at] as string);
  }

  async #compareStates() {
    const oracle = this.#oracle;
    const dead = oracle.dead();
    const alive = await this.#agent.alive(oracle.ids);
    expect(alive).toEqual(oracle.ids.filter((id) => !dead.has(id)));
  }

  async end() {
    for (this.#at of [0, 1]) {
      const oracle = this.#oracle;
      const dead = oracle.dead();
      const entries = await collect(this.#agent.entries());
      for (const { id, seen } of oracle.entries) {
        expect((await this.#agent.get(id)).seen).toEqual(seen.length > 0 ? seen : undefined);
      }
      expect(
        entries.map(({ id, kind, text, label, state, legs, erased }) => ({
          id,
          kind,
          text,
          label,
          state,
          legs,
          erased,
        })),
      ).toEqual(
        oracle.entries.map(({ id, kind, text, label, legs, hasText }) => ({
          id,
          kind,
          text: hasText ? text : null,
          label,
          state: oracle.state(id, dead),
          legs: legs.map((parents) => ({
            parents,
            holds: parents.every((parent) => !dead.has(parent)),
          })),
          erased: !hasText,
        })),
      );
      await this.#checkWhy(dead);
      await this.#agent.close();
      const report = await this.#store.verifyAgent(this.#names[this.#at] as string);
      expect(report).toMatchObject({ ok: true, tornBytes: 0, erasesPending: 0 });
    }
    // G5: what is gone stands nowhere; what is not stands exactly once.
    for (const oracle of this.#oracles) {
      for (const { text, hasText } of oracle.entries)
        expect((await this.#store.find(`${text.split(":")[0]}:`)).count).toBe(hasText ? 1 : 0);
    }
    expect((await this.#store.find("nothing", { absent: true })).unerased).toEqual([]);
    await this.#checkTransfer();
  }

  async #checkWhy(dead: Set<number>) {
    const oracle = this.#oracle;
    for (const { id } of oracle.entries) {
      const why = await this.#agent.why(id);
      if ("support" in why) {
        expect(dead.has(id)).toBe(false);
        expect(new Set(why.support.map((entry) => entry.id))).toEqual(ancestors(oracle, id));
        continue;
      }
      expect(dead.has(id)).toBe(true);
      const { targets, path } = why.killedBy ?? { targets: [], path: [] };
      expect(targets).toContain(path[0]);
      expect(path.at(-1)).toBe(id);
      for (let i = 1; i < path.length; i++) {
        const { legs, seen } = oracle.at(path[i] as number);
        expect([...legs.flat(), ...seen]).toContain(path[i - 1]);
      }
    }
  }

  /** An export comes in elsewhere as it was, but for the dead texts. */
  async #checkTransfer() {
    const { token } = await this.#store.createAgent("carol");
    const [from, to] = [
      await this.#store.openAgent(this.#tokens[0] as string),
      await this.#store.openAgent(token),
    ];
    const lines = (await collect(from.export())).join("");
    await to.import(lines);
    const oracle = this.#oracles[0] as Oracle;
    const dead = oracle.dead();
    const entries = await collect(to.entries());
    expect(entries.map(({ id, text, state, legs }) => ({ id, text, state, legs }))).toEqual(
      oracle.entries.map(({ id, text, legs }) => ({
        id,
        text: dead.has(id) ? null : text,
        state: oracle.state(id, dead),
        legs: legs.map((parents) => ({
          parents,
          holds: parents.every((parent) => !dead.has(parent)),
        })),
      })),
    );
    const recordsOf = async (agent: Agent) =>
      (await collect(agent.history()))
        .filter(({ kind }) => kind === "recall")
        .map(
          (record) =>
            record.kind === "recall" && [
              record.targets,
              record.mode,
              record.disposal,
              record.removed,
            ],
        );
    expect(await recordsOf(to)).toEqual(await recordsOf(from));
    await Promise.all([from.close(), to.close()]);
    expect((await this.#store.verifyAgent("carol")).ok).toBe(true);
  }

  async abandon() {
    for (const agent of this.#agents) await agent.close();
  }
}

function ancestors(oracle: Oracle, id: number): Set<number> {
  const found = new Set<number>();
  const open = [id];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const parent of oracle.at(at).legs.flat()) {
      if (found.has(parent)) continue;
      found.add(parent);
      open.push(parent);
    }
  }
  return found;
}

test(`G10: ${HISTORIES} random histories of two agents come out as the definitions say`, async () => {
  console.log(`SEED=${SEED}`);
  const folder = workFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  let run = 0;
  const steps = fc.array(step, { minLength: 1, maxLength: 30, size: "max" });
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (steps, small) => {
      const path = join(folder, `store-${run++}`);
      // Small segments and eager snapshots, so that a short history meets both.
      const store = await Store.open(path, small ? { segmentBytes: 700, snapshotRecords: 3 } : {});
      const history = new Run(store);
      try {
        await history.begin();
        for (const step of steps) await history.take(step);
        await history.end();
      } catch (error) {
        await history.abandon();
        if (hasCode(error, "CORRUPT"))
          console.log(error.message, error.problems, readdirSync(path, { recursive: true }));
        throw error;
      } finally {
        rmSync(path, { recursive: true, force: true });
      }
    }),
    { numRuns: HISTORIES, seed: SEED, endOnFailure: process.env.SHRINK === undefined },
  );
}, 600_000);
