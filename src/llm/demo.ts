// The story of the demo, as steps of data: sources, memories, a question; the bad source removed three ways; the question again.
//
// Nothing is scripted to come out right: each answer is what the model answered to the prompt that it was sent. Everything
// happens in a folder of its own, each way on its own copy of the memory.

import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Agent,
  CheeseError,
  type Disposal,
  type EntryId,
  hasCode,
  type Mode,
  type NewMemory,
  Store,
} from "../index.ts";
import { answerFrom } from "./ask.ts";
import type { ChosenModel } from "./choose.ts";
import type { Exchange, Model } from "./client.ts";
import { propose } from "./learn.ts";
import { Judgement, judgePrompt, type MemoryInPrompt } from "./prompts.ts";
import { asserts, toRule } from "./reader.ts";
import type { Scenario } from "./scenario.ts";

export interface DemoSource {
  id: EntryId;
  label: string;
  text: string;
  bad: boolean;
}

export interface DemoMemory {
  id: EntryId;
  text: string;
  from: EntryId[][];
}

/** Whether an answer uses the bad data, and what says so. */
export interface Verdict {
  usesBadData: boolean;
  decidedBy: {
    /** It cites a memory that stands on the bad source alone. */
    cites: boolean;
    /** The model's own yes or no; null where it gave none that can be used: then the text decides. */
    judge: boolean | null;
    /** The words of the claim stand in the answer. */
    text: boolean;
  };
}

export interface DemoAnswer extends Verdict {
  answer: string;
  cites: EntryId[];
}

export type StrategyName = "naive" | "untrusted" | "erase" | "strict" | "contact";

export interface Strategy extends DemoAnswer {
  name: StrategyName;
  mode: Mode | null;
  disposal: Disposal | null;
  memoriesSeen: number;
  /** Places in the files where the words of the bad text stand. */
  badTextPlaces: number;
  removed: EntryId[];
  survivors: { id: EntryId; heldBy: EntryId[][] }[];
  bytesSearched: number;
  /** With several runs: in how many of them the answer used the bad data. */
  usedIn: number;
}

export interface DemoResult {
  scenario: string;
  model: { name: string; server: string; builtIn: boolean; how: string };
  question: string;
  instructions: string[];
  claim: string;
  search: string[];
  sources: DemoSource[];
  memories: DemoMemory[];
  /** Whether the memories are the scenario's own, since the model learned nothing usable. */
  memoriesFromScenario: boolean;
  refused: { text: string; message: string }[];
  /** Of the built-in reader: instructions from which nothing followed when it read the sources. */
  notApplied: string[];
  before: DemoAnswer & { memoriesSeen: number; badTextPlaces: number; usedIn: number };
  strategies: Strategy[];
  runs: number;
  folder: string;
  kept: boolean;
  ms: number;
  exchanges: Exchange[];
}

export type DemoEvent =
  | { step: "begin"; title: string; model: DemoResult["model"] }
  | { step: "source"; source: DemoSource }
  | { step: "thinking"; about: string }
  | {
      step: "memories";
      memories: DemoMemory[];
      fromScenario: string | null;
      refused: DemoResult["refused"];
    }
  | { step: "before"; question: string; before: DemoResult["before"] }
  | {
      step: "strategy";
      strategy: Strategy;
      bad: DemoSource[];
      /** Memories in which the words of the bad text stand again. */
      repeatedIn: EntryId[];
      /** Why strict and contact are shown: a leg that holds, or a leg that was declared wrongly. */
      fooledBy?: "second leg" | "declaration" | undefined;
    }
  | { step: "end"; result: DemoResult };

export interface DemoOptions {
  scenario: Scenario;
  chosen: ChosenModel;
  /** An empty folder, for everything that the demo writes. */
  folder: string;
  runs: number;
  keep: boolean;
  signal: AbortSignal;
}

const AGENT = "demo";
const NAIVE_FILE = "naive.json";

/** @throws CheeseError LLM when the model cannot be asked; CANCELLED */
export async function* runDemo(options: DemoOptions): AsyncGenerator<DemoEvent> {
  const demo = new Demo(options);
  try {
    yield* demo.run();
  } finally {
    await demo.close();
  }
}

class Demo {
  readonly #options: DemoOptions;
  readonly #model: Model;
  #agents: Agent[] = [];
  #sources: DemoSource[] = [];
  #memories: DemoMemory[] = [];
  /** Memories that stand on the bad sources alone. */
  #onBadAlone = new Set<EntryId>();

  constructor(options: DemoOptions) {
    this.#options = options;
    this.#model = options.chosen.model;
  }

  async close() {
    for (const agent of this.#agents.splice(0)) await agent.close();
  }

  async *run(): AsyncGenerator<DemoEvent> {
    const begun = performance.now();
    const { scenario, chosen, folder, runs, keep } = this.#options;
    const model = { ...chosen.model.info, how: chosen.how };
    yield { step: "begin", title: scenario.title, model };

    const base = join(folder, "base");
    const store = await Store.open(base);
    const { token } = await store.createAgent(AGENT, { keepToken: true });
    const agent = await this.#open(store, token);
    for (const [i, { label, text, uri }] of scenario.sources.entries()) {
      const id = await agent.addLot(label, text, { uri });
      const source = { id, label, text, bad: scenario.bad.includes(i) };
      this.#sources.push(source);
      yield { step: "source", source };
    }

    yield { step: "thinking", about: "what to remember" };
    const learned = await this.#learn(agent);
    yield {
      step: "memories",
      memories: this.#memories,
      fromScenario: learned.why,
      refused: learned.refused,
    };

    const bad = this.#sources.filter((source) => source.bad);
    const badIds = bad.map(({ id }) => id);
    this.#onBadAlone = new Set((await agent.planRecall(badIds)).removed);
    yield { step: "thinking", about: "the question" };
    const asked = await this.#askTimes(this.#memories);
    const before = {
      ...asked,
      memoriesSeen: this.#memories.length,
      badTextPlaces: (await this.#places(store)).count,
    };
    yield { step: "before", question: scenario.question, before };
    await agent.close();

    const strategies: Strategy[] = [];
    let fooledBy: "second leg" | "declaration" | undefined;
    const tryOut = async function* (this: Demo, name: StrategyName): AsyncGenerator<DemoEvent> {
      yield { step: "thinking", about: "the question again" };
      const strategy =
        name === "naive" ? await this.#naive(badIds) : await this.#recall(name, badIds, token);
      strategies.push(strategy);
      const repeatedIn = name === "naive" ? this.#repeated() : [];
      yield { step: "strategy", strategy, bad, repeatedIn, fooledBy };
    }.bind(this);
    for (const name of ["naive", "untrusted", "erase"] as const) yield* tryOut(name);
    // Fair was fooled, if something that lives holds what is bad: then it is told, and shown what takes it.
    const fooled = strategies.find(({ mode, usedIn }) => mode === "fair" && usedIn > 0);
    if (fooled && fooled.survivors.length > 0) fooledBy = "second leg";
    else if (fooled && fooled.cites.length > 0) fooledBy = "declaration";
    if (fooledBy) for (const name of ["strict", "contact"] as const) yield* tryOut(name);

    const result: DemoResult = {
      scenario: scenario.title,
      model,
      question: scenario.question,
      instructions: scenario.instructions,
      claim: scenario.claim,
      search: scenario.search,
      sources: this.#sources,
      memories: this.#memories,
      memoriesFromScenario: learned.why !== null,
      refused: learned.refused,
      notApplied: this.#notApplied(),
      before,
      strategies,
      runs,
      folder,
      kept: keep,
      ms: Math.round(performance.now() - begun),
      exchanges: this.#model.exchanges,
    };
    yield { step: "end", result };
  }

  #repeated(): EntryId[] {
    const words = this.#options.scenario.search.map((word) => word.toLowerCase());
    return this.#memories
      .filter(({ text }) => words.some((word) => text.toLowerCase().includes(word)))
      .map(({ id }) => id);
  }

  #notApplied(): string[] {
    if (!this.#model.info.builtIn) return [];
    const known = this.#memories.map(({ text }) => text.toLowerCase());
    return this.#options.scenario.instructions.filter((instruction) => {
      const rule = toRule(instruction);
      return rule === null || !known.includes(rule.consequence.toLowerCase());
    });
  }

  async #open(store: Store, token: string): Promise<Agent> {
    const agent = await store.openAgent(token);
    this.#agents.push(agent);
    return agent;
  }

  /** The model reads and remembers; where it learns nothing usable, the scenario's own memories stand in for it. */
  async #learn(agent: Agent): Promise<{ why: string | null; refused: DemoResult["refused"] }> {
    const { scenario, signal } = this.#options;
    const sources = this.#sources.map(({ id, label, text }) => ({ id, label, text }));
    const seen = sources.map(({ id }) => id);
    let why: string | null = null;
    let refused: DemoResult["refused"] = [];
    let memories: NewMemory[] = [];
    try {
      ({ memories, refused } = await propose(
        agent,
        this.#model,
        { sources, memories: [], instructions: scenario.instructions },
        { signal },
      ));
      if (memories.length === 0) why = "the model learned nothing that could be used";
    } catch (error) {
      if (!hasCode(error, "LLM")) throw error;
      why = error.message;
    }
    if (why !== null) {
      if (!scenario.memories?.length)
        throw new CheeseError("LLM", `${why}, and the scenario has no memories of its own`, {
          hint: "Try another model.",
        });
      memories = scenario.memories.map(({ text, from }) => ({
        text,
        legs: from.map((leg) =>
          leg.map((parent) =>
            typeof parent === "number"
              ? (seen[parent] as EntryId)
              : { item: Number(parent.slice(1)) - 1 },
          ),
        ),
      }));
    }
    const ids = await agent.rememberAll(memories.map((memory) => ({ ...memory, seen })));
    for (const [i, id] of ids.entries()) {
      const { legs } = await agent.get(id);
      this.#memories.push({
        id,
        text: (memories[i] as NewMemory).text,
        from: legs.map(({ parents }) => parents),
      });
    }
    return { why, refused };
  }

  /** Asks as often as there are runs; what is told is the first answer, and how many used the bad data. */
  async #askTimes(memories: readonly MemoryInPrompt[]): Promise<DemoAnswer & { usedIn: number }> {
    const answers: DemoAnswer[] = [];
    for (let run = 0; run < this.#options.runs; run++) answers.push(await this.#ask(memories));
    const usedIn = answers.filter(({ usesBadData }) => usesBadData).length;
    return { ...(answers[0] as DemoAnswer), usedIn };
  }

  async #ask(memories: readonly MemoryInPrompt[]): Promise<DemoAnswer> {
    const { scenario, signal } = this.#options;
    const { question, instructions, claim } = scenario;
    const { answer, cites } = await answerFrom(
      this.#model,
      { question, memories, instructions },
      { signal },
    );
    const judge = await this.#judge(answer);
    const text = asserts(answer, claim);
    const decidedBy = { cites: cites.some((id) => this.#onBadAlone.has(id)), judge, text };
    return { answer, cites, usesBadData: judge ?? text, decidedBy };
  }

  async #judge(answer: string): Promise<boolean | null> {
    const { scenario, signal } = this.#options;
    try {
      const { asserts } = await this.#model.json(
        "judgement",
        Judgement,
        judgePrompt({ answer, claim: scenario.claim }),
        { signal },
      );
      return asserts;
    } catch (error) {
      if (!hasCode(error, "LLM")) throw error;
      return null;
    }
  }

  async #places(store: Store): Promise<{ count: number; bytesScanned: number }> {
    let count = 0;
    let bytesScanned = 0;
    for (const word of this.#options.scenario.search) {
      const found = await store.find(word, { ignoreCase: true });
      count += found.count;
      bytesScanned = found.bytesScanned;
    }
    return { count, bytesScanned };
  }

  /** A: a list in a file. The source's text is deleted, and nothing else: what a memory came from, a list does not know. */
  async #naive(badIds: EntryId[]): Promise<Strategy> {
    const path = join(this.#options.folder, NAIVE_FILE);
    const memories = this.#memories.map(({ id, text }) => ({ id, text }));
    const sources = this.#sources.map(({ id, label, text }) => ({ id, label, text }));
    writeFileSync(path, JSON.stringify({ sources, memories }, null, 2), { mode: 0o600 });
    const left = sources.filter(({ id }) => !badIds.includes(id));
    writeFileSync(path, JSON.stringify({ sources: left, memories }, null, 2));
    const asked = await this.#askTimes(memories);
    const contents = readFileSync(path, "utf8");
    const badTextPlaces = this.#options.scenario.search.reduce(
      (sum, word) => sum + placesInJson(contents, word),
      0,
    );
    return {
      name: "naive",
      mode: null,
      disposal: null,
      memoriesSeen: memories.length,
      ...asked,
      badTextPlaces,
      removed: [],
      survivors: [],
      bytesSearched: Buffer.byteLength(contents),
    };
  }

  /** B, C and beyond: a copy of the memory, and a recall on it. */
  async #recall(
    name: Exclude<StrategyName, "naive">,
    badIds: EntryId[],
    token: string,
  ): Promise<Strategy> {
    const { folder } = this.#options;
    const path = join(folder, name);
    copyFolder(join(folder, "base"), path);
    const mode: Mode = name === "strict" || name === "contact" ? name : "fair";
    const disposal: Disposal = name === "untrusted" ? "untrusted" : "erase";
    const store = await Store.open(path);
    const agent = await this.#open(store, token);
    const { removed, survivors } = await agent.recall(badIds, { mode, disposal });
    const memories: MemoryInPrompt[] = [];
    for await (const { id, text } of agent.entries({ state: "alive", kind: "memory" }))
      if (text !== null) memories.push({ id, text });
    const asked = await this.#askTimes(memories);
    await agent.close();
    const { count, bytesScanned } = await this.#places(store);
    return {
      name,
      mode,
      disposal,
      memoriesSeen: memories.length,
      ...asked,
      badTextPlaces: count,
      removed,
      survivors,
      bytesSearched: bytesScanned,
    };
  }
}

/** As private as a store is: node's own copy makes folders that others can look into. */
function copyFolder(from: string, to: string) {
  mkdirSync(to, { mode: 0o700 });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyFolder(source, copy);
    else copyFileSync(source, copy);
  }
}

/** Places in a JSON document where a word stands, in any case, as it is or as JSON writes it; overlapping ones too. */
function placesInJson(document: string, word: string): number {
  const contents = document.toLowerCase();
  let count = 0;
  for (const form of new Set([word, JSON.stringify(word).slice(1, -1)])) {
    const wanted = form.toLowerCase();
    for (let at = contents.indexOf(wanted); at !== -1; at = contents.indexOf(wanted, at + 1))
      count++;
  }
  return count;
}
