// Real inputs: cases of poisoned agent memory with their expected outcome, and texts that break stores and terminals.
//
// They are third-party test material and no part of this project: the environment's CHEESEDB_CASES names the folder that
// holds them (poison-sample.jsonl, nasty-sample.jsonl). The tests that everyone runs use cases of their own.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Agent, decodeUtf8, type Mode, Store } from "../src/index.ts";
import { allBytes, codeOf, collect, tempFolder } from "./helpers.ts";

const folder = process.env.CHEESEDB_CASES;
if (!folder) console.log("CHEESEDB_CASES names no folder of cases: they are skipped");

interface Outcome {
  removedMemories: number[];
  survivors: number[];
}

interface Case {
  id: string;
  sources: { label: string; text: string; poisoned: boolean }[];
  /** A number is an index into sources, "m3" is memory 3. */
  memories: { text: string; legs: (number | string)[][] }[];
  afterFairRecall: Outcome;
  afterStrictRecall: Outcome;
  afterFairRecallOfFirst: Outcome & { source: number };
  probes: { gone: string[]; stay: string[] };
}

interface Nasty {
  id: string;
  b64?: string;
  /** Pieces of base64, each repeated so many times. */
  parts?: [string, number][];
  utf8: boolean;
}

function linesOf<T>(name: string): T[] {
  return readFileSync(join(folder as string, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

class Loaded {
  readonly store: Store;
  readonly agent: Agent;
  readonly #memories: number[];
  readonly #case: Case;

  private constructor(store: Store, agent: Agent, memories: number[], each: Case) {
    this.store = store;
    this.agent = agent;
    this.#memories = memories;
    this.#case = each;
  }

  /** Sources are entries 1, 2, …, and the memories follow them. */
  static async of(each: Case): Promise<Loaded> {
    const store = await Store.open(join(tempFolder(), "store"));
    const { token } = await store.createAgent("alice");
    const agent = await store.openAgent(token);
    await agent.addLots(each.sources.map(({ label, text }) => ({ label, text })));
    const memories: number[] = [];
    for (const { text, legs } of each.memories) {
      const parents = legs.map((leg) =>
        leg.map((parent) =>
          typeof parent === "number" ? parent + 1 : (memories[Number(parent.slice(1))] as number),
        ),
      );
      memories.push(await agent.remember(text, parents));
    }
    return new Loaded(store, agent, memories, each);
  }

  async recallPoisoned(mode: Mode, disposal: "untrusted" | "erase") {
    for (const [i, { poisoned }] of this.#case.sources.entries()) {
      if (poisoned) await this.agent.recall([i + 1], { mode, disposal });
    }
  }

  /** Which memories are dead and which live, by their place in the case. */
  async outcome(): Promise<Outcome> {
    const alive = new Set(await this.agent.alive(this.#memories));
    const places = [...this.#memories.keys()];
    const lives = (place: number) => alive.has(this.#memories[place] as number);
    return {
      removedMemories: places.filter((place) => !lives(place)),
      survivors: places.filter(lives),
    };
  }

  async close() {
    await this.agent.close();
    expect(await this.store.verifyAgent("alice")).toMatchObject({ ok: true });
  }
}

describe.skipIf(!folder)("cases of poisoned memory", () => {
  const cases = folder ? linesOf<Case>("poison-sample.jsonl") : [];

  test("fair, with erase: removed, survivors and the raw bytes come out as expected", async () => {
    for (const each of cases) {
      const loaded = await Loaded.of(each);
      const before = allBytes(loaded.store.path);
      for (const text of [...each.probes.gone, ...each.probes.stay]) {
        expect(before.includes(text), `${each.id}: "${text}" before`).toBe(true);
      }
      await loaded.recallPoisoned("fair", "erase");
      expect(await loaded.outcome(), each.id).toEqual(each.afterFairRecall);
      const after = allBytes(loaded.store.path);
      for (const text of each.probes.gone)
        expect(after.includes(text), `${each.id}: "${text}"`).toBe(false);
      for (const text of each.probes.stay)
        expect(after.includes(text), `${each.id}: "${text}"`).toBe(true);
      await loaded.close();
    }
    console.log(`${cases.length} cases`);
  });

  test("strict: removed and survivors come out as expected", async () => {
    for (const each of cases) {
      const loaded = await Loaded.of(each);
      await loaded.recallPoisoned("strict", "untrusted");
      expect(await loaded.outcome(), each.id).toEqual(each.afterStrictRecall);
      await loaded.close();
    }
  });

  test("fair, of one source alone: removed and survivors come out as expected", async () => {
    for (const each of cases) {
      const { source, removedMemories, survivors } = each.afterFairRecallOfFirst;
      const loaded = await Loaded.of(each);
      const { removed } = await loaded.agent.recall([source + 1]);
      expect(removed, each.id).toEqual(
        removedMemories.map((memory) => memory + each.sources.length + 1),
      );
      expect(await loaded.outcome(), each.id).toEqual({ removedMemories, survivors });
      await loaded.close();
    }
  });
});

describe.skipIf(!folder)("texts that break stores and terminals", () => {
  const texts = (folder ? linesOf<Nasty>("nasty-sample.jsonl") : []).map(
    ({ id, b64, parts, utf8 }) => ({
      id,
      utf8,
      bytes: parts
        ? Buffer.concat(
            parts.flatMap(([piece, times]) => Array(times).fill(Buffer.from(piece, "base64"))),
          )
        : Buffer.from(b64 as string, "base64"),
    }),
  );

  test("come back byte for byte through the library, or are refused as no UTF-8", async () => {
    const store = await Store.open(join(tempFolder(), "store"));
    const { token } = await store.createAgent("alice");
    const agent = await store.openAgent(token);
    const stored: { id: string; bytes: Buffer }[] = [];
    for (const { id, bytes, utf8 } of texts) {
      const add = async () => agent.addLot("nasty", decodeUtf8(bytes));
      if (!utf8) expect(await codeOf(add), id).toBe("NOT_UTF8");
      else {
        await add();
        stored.push({ id, bytes });
      }
    }
    await agent.close();
    const again = await store.openAgent(token);
    const entries = await collect(again.entries());
    for (const [i, { id, bytes }] of stored.entries()) {
      expect(Buffer.from(entries[i]?.text as string).equals(bytes), id).toBe(true);
    }
    await again.close();
    expect(await store.verifyAgent("alice")).toMatchObject({ ok: true, records: stored.length });
    console.log(`${stored.length} texts stored, ${texts.length - stored.length} refused`);
  });

  test("come back byte for byte through the command line, and none reaches the terminal raw", () => {
    const bin = join(import.meta.dirname, "..", "bin", "run.js");
    const env = { ...process.env, CHEESEDB_DIR: join(tempFolder(), "store") };
    const cli = (args: string[], input?: Buffer) =>
      spawnSync(process.execPath, [bin, ...args], { env, input, maxBuffer: 2 ** 28 });
    expect(cli(["agent", "create", "alice"]).status).toBe(0);
    const stored: { id: string; bytes: Buffer }[] = [];
    for (const { id, bytes, utf8 } of texts) {
      const { status } = cli(["lot", "alice", "nasty", "-"], bytes);
      expect(status, id).toBe(utf8 ? 0 : 2);
      if (utf8) stored.push({ id, bytes });
    }
    const { lots } = JSON.parse(cli(["list", "alice", "--json"]).stdout.toString());
    for (const [i, { id, bytes }] of stored.entries()) {
      expect(Buffer.from(lots[i].text).equals(bytes), id).toBe(true);
    }
    for (const args of [
      ["list", "alice"],
      ["history", "alice"],
      ["show", "alice", "20"],
      ["find", "e"],
    ]) {
      const shown = cli(args).stdout.toString();
      expect(
        shown.match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/)?.index,
      ).toBe(undefined);
    }
  });
});
