// What the crash campaign does to a store before the power goes: operations, workloads of them, and what a caller is told after each.

import { crc32 } from "node:zlib";
import { type Agent, Store, type StoreOptions } from "../../src/index.ts";
import { chance } from "../chance.ts";
import { Oracle } from "../oracle.ts";
import { type Image, makeSimLock, SimDisk } from "../simdisk.ts";

export const STORE = "/s";
const NOW = Date.UTC(2026, 0, 1);
/** Small, so that a few operations meet a new segment and a snapshot. */
const SEGMENT_BYTES = 1100;
const SNAPSHOT_RECORDS = 3;

// ----- the clock -----

/** Timers that go off only when a workload says so: else the journal would depend on how fast this machine is. */
export class StoppedTimers {
  readonly #waiting = new Map<object, () => void>();
  readonly #real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };

  stop() {
    const waiting = this.#waiting;
    globalThis.setTimeout = ((callback: () => void) => {
      const timer = { ref: () => timer, unref: () => timer, hasRef: () => false };
      waiting.set(timer, callback);
      return timer;
    }) as unknown as typeof setTimeout;
    globalThis.clearTimeout = ((timer: object) => {
      waiting.delete(timer);
    }) as unknown as typeof clearTimeout;
  }

  /** Lets all that wait go off. */
  fire() {
    const due = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const callback of due) callback();
  }

  /** What still waits belongs to handles that are gone. */
  forget() {
    this.#waiting.clear();
  }

  goOn() {
    Object.assign(globalThis, this.#real);
    this.#waiting.clear();
  }
}

// ----- what is told apart -----

/** What a caller sees of an agent: the head, which says all that the records say, and every entry with its text. */
export async function viewOf(agent: Agent): Promise<string> {
  const entries: unknown[] = [];
  for await (const { id, kind, state, label, text, uri, legs, erased } of agent.entries())
    entries.push([id, kind, state, label, text, uri, legs, erased]);
  return JSON.stringify([(await agent.head()).fingerprint, entries]);
}

/** What stands in a store: the view of each agent, by name. */
export type Views = Map<string, string>;

export function signature(views: Views): string {
  return [...views]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, view]) => `${name} ${view}`)
    .join("\n");
}

/** A state of the store that a caller may be told of. */
export interface Model {
  signature: string;
  agents: number;
  /** Canaries that must stand nowhere where this is the state. */
  gone: ReadonlySet<string>;
}

export function toModel(views: Views): Omit<Model, "gone"> {
  return { signature: signature(views), agents: views.size };
}

// ----- workloads -----

export interface Known {
  name: string;
  id: string;
  token: string;
  handle: Agent | null;
  oracle: Oracle;
  /** The uri of each lot that has one. */
  uris: Map<number, string>;
  /** Whether a workload has done anything to it. */
  touched: boolean;
}

/** One operation as it was run: where in the journal it stands, and what a caller may be told after it. */
export interface Step {
  name: string;
  begin: number;
  end: number;
  after: Model;
}

function randomBytes(seed: number): (bytes: Uint8Array) => void {
  const random = chance(seed);
  return (bytes) => {
    const words = new Uint32Array(Math.ceil(bytes.length / 4));
    for (let i = 0; i < words.length; i++) words[i] = random() * 2 ** 32;
    bytes.set(new Uint8Array(words.buffer, 0, bytes.length));
  };
}

export function options(disk: SimDisk, seed: number): StoreOptions {
  return {
    disk,
    makeLock: makeSimLock,
    now: () => NOW,
    fillRandom: randomBytes(seed),
    segmentBytes: SEGMENT_BYTES,
    snapshotRecords: SNAPSHOT_RECORDS,
    waitMs: 0,
  };
}

/** A workload under way. */
export class Run {
  readonly start: Image;
  readonly disk: SimDisk;
  readonly agents = new Map<string, Known>();
  /** Of every agent that there ever was. */
  readonly tokens = new Map<string, string>();
  readonly steps: Step[] = [];
  readonly gone = new Set<string>();
  /** What a caller may be told before the first operation, and after the last. */
  readonly before: Model;
  views: Views = new Map();
  readonly timers: StoppedTimers;
  readonly seed: number;
  readonly random: () => number;
  readonly #options: StoreOptions;
  #store: Store | null = null;
  #canaries = 0;
  #created = 0;

  constructor(
    start: Image,
    timers: StoppedTimers,
    seed: number,
    from?: Run,
    operations: string[] = [],
  ) {
    this.start = start;
    this.disk = SimDisk.fromImage(start);
    this.timers = timers;
    this.seed = seed;
    // Whatever workloads stand before it: so that it can be repeated alone.
    this.random = chance(crc32(operations.join(), seed));
    this.#options = options(this.disk, from ? 2 : 1);
    this.before = from?.steps.at(-1)?.after ?? { ...toModel(new Map()), gone: new Set() };
    if (!from) return;
    for (const [name, token] of from.tokens) this.tokens.set(name, token);
    this.#canaries = from.#canaries;
    this.#created = from.#created;
    for (const known of from.agents.values()) {
      const oracle = new Oracle();
      oracle.entries = structuredClone(known.oracle.entries);
      this.agents.set(known.name, {
        ...known,
        oracle,
        uris: new Map(known.uris),
        handle: null,
        touched: false,
      });
    }
  }

  get store(): Store {
    return this.#store as Store;
  }

  async openStore() {
    this.#store = await Store.open(STORE, this.#options);
  }

  /** Opens what the prelude made. */
  async begin() {
    await this.openStore();
    this.agent("alice").handle = await this.store.openAgent(this.agent("alice").token);
  }

  /** Runs an operation, and notes what a caller may be told after it. */
  async step(name: string) {
    const begin = this.disk.journal.length;
    await (OPERATIONS[name] as (run: Run) => Promise<void>)(this);
    this.steps.push({ name, begin, end: this.disk.journal.length, after: await this.model() });
  }

  /** What the store holds now, as its own handles see it; it must be what the oracle says. */
  async model(): Promise<Model> {
    const views: Views = new Map();
    for (const known of this.agents.values()) {
      const view = known.handle
        ? await viewOf(known.handle)
        : await viewReadOnly(this.disk, known.token);
      same(this.store.keptToken(known.name), known.token, "the token that was kept");
      requireAsOracle(known, view);
      views.set(known.name, view);
    }
    this.views = views;
    return { ...toModel(views), gone: new Set(this.gone) };
  }

  agent(name: string): Known {
    const known = this.agents.get(name) as Known;
    known.touched = true;
    return known;
  }

  async handle(name: string): Promise<Agent> {
    const known = this.agent(name);
    known.handle ??= await this.store.openAgent(known.token);
    return known.handle;
  }

  async close(name: string) {
    const known = this.agents.get(name);
    await known?.handle?.close();
    if (known) known.handle = null;
  }

  async create(name: string) {
    const { token, agent } = await this.store.createAgent(name, { keepToken: true });
    const oracle = new Oracle();
    const known = { name, id: agent.id, token, handle: null, oracle, uris: new Map() };
    this.agents.set(name, { ...known, touched: true });
    this.tokens.set(name, token);
  }

  /** The next agent beside alice gets a name of its own. */
  nextName(): string {
    return `other${++this.#created}`;
  }

  /** The newest agent beside alice. */
  get other(): string | null {
    return [...this.agents.keys()].filter((name) => name !== "alice").at(-1) ?? null;
  }

  /** A text that repeats a word of its own, so often that what is left of a piece of it is found. */
  text(bytes = 0): string {
    const canary = `canary${String(++this.#canaries).padStart(4, "0")};`;
    return canary.repeat(Math.max(1, Math.ceil(bytes / canary.length)));
  }

  async addLot(name: string, text: string, uri: string | null = null, seen: number[] = []) {
    const agent = await this.handle(name);
    const { oracle, uris } = this.agent(name);
    const id = oracle.add("lot", text, "page", [], seen);
    if (uri) uris.set(id, uri);
    same(await agent.addLot("page", text, { uri, seen }), id, "the id of a lot");
  }

  async remember(name: string, legs: number[][], text = this.text()) {
    const agent = await this.handle(name);
    const id = this.agent(name).oracle.add("memory", text, null, legs, []);
    same(await agent.remember(text, legs), id, "the id of a memory");
  }

  async recall(
    name: string,
    ids: number[],
    mode: "fair" | "strict" | "contact",
    disposal: "untrusted" | "erase",
  ) {
    const agent = await this.handle(name);
    const { oracle } = this.agent(name);
    const expected = oracle.recall(ids, mode, disposal);
    const outcome = await agent.recall(ids, { mode, disposal });
    same(outcome.removed.join(), expected.removed.join(), "what a recall removes");
    same(outcome.erased.join(), expected.erased.join(), "what a recall erases");
    this.noteGone(name);
  }

  /** Texts that are gone must stand nowhere. */
  noteGone(name: string) {
    for (const { text, hasText } of (this.agents.get(name) as Known).oracle.entries)
      if (!hasText) this.gone.add(`${text.split(";")[0]};`);
  }

  async deleteAgent(name: string) {
    await this.close(name);
    const { oracle, token } = this.agent(name);
    await this.store.deleteAgent(name);
    for (const { text } of oracle.entries) this.gone.add(`${text.split(";")[0]};`);
    this.gone.add(token);
    this.agents.delete(name);
  }

  /** Ends it as a process that goes away does, without a word to the disk. */
  async abandon() {
    for (const { name } of this.agents.values()) await this.close(name).catch(() => {});
  }
}

async function viewReadOnly(disk: SimDisk, token: string): Promise<string> {
  const store = await Store.open(STORE, { ...options(disk, 0), readOnly: true });
  const agent = await store.openAgent(token);
  try {
    return await viewOf(agent);
  } finally {
    await agent.close();
  }
}

function same(found: unknown, expected: unknown, what: string) {
  if (found !== expected) throw new Error(`${what} is ${found}, expected ${expected}`);
}

/** The live run itself must do what the definitions say, or nothing would be proved by comparing with it. */
function requireAsOracle({ name, oracle, uris }: Known, view: string) {
  const dead = oracle.dead();
  const expected = oracle.entries.map(({ id, kind, text, label, legs, hasText }) => [
    id,
    kind,
    oracle.state(id, dead),
    label,
    hasText ? text : null,
    hasText ? (uris.get(id) ?? null) : null,
    legs.map((parents) => ({ parents, holds: parents.every((parent) => !dead.has(parent)) })),
    !hasText,
  ]);
  const [, entries] = JSON.parse(view) as [string, unknown];
  same(JSON.stringify(entries), JSON.stringify(expected), `what ${name} serves on the live run`);
}

function living(run: Run, kind?: "lot" | "memory"): number[] {
  const { oracle } = run.agent("alice");
  const dead = oracle.dead();
  return oracle.entries
    .filter((e) => !dead.has(e.id) && (!kind || e.kind === kind))
    .map((e) => e.id);
}

/** Every operation by its name. One that has nothing to work on does nothing. */
const OPERATIONS: Record<string, (run: Run) => Promise<void>> = {
  lot: async (run) => {
    const text = run.text();
    await run.addLot("alice", text, `https://example.com/${text}`);
  },
  bigLot: (run) => run.addLot("alice", run.text(700)),
  remember: async (run) => {
    const ids = living(run);
    const [first, last] = [ids[0], ids.at(-1)];
    if (first !== undefined && last !== undefined) await run.remember("alice", [[first], [last]]);
  },
  corroborate: async (run) => {
    const { oracle } = run.agent("alice");
    const memory = living(run, "memory").at(-1);
    const lot = living(run, "lot")
      .reverse()
      .find((id) => memory && !oracle.at(memory).legs.some((leg) => leg.join() === `${id}`));
    if (!memory || !lot) return;
    same(oracle.corroborate(memory, [lot]), null, "the refusal of a corroboration");
    await (await run.handle("alice")).corroborate(memory, [lot]);
  },
  fair: async (run) => {
    const lot = living(run, "lot").at(-1);
    if (lot) await run.recall("alice", [lot], "fair", "untrusted");
  },
  erase: async (run) => {
    const lot = living(run, "lot")[0];
    if (lot) await run.recall("alice", [lot], "strict", "erase");
  },
  compact: async (run) => {
    const { oracle } = run.agent("alice");
    const agent = await run.handle("alice");
    same((await agent.compact()).textsDropped, oracle.compact(), "the texts that compact dropped");
    run.noteGone("alice");
  },
  reopen: async (run) => {
    await run.close("alice");
    await run.handle("alice");
  },
  many: async (run) => {
    const parent = living(run).at(-1);
    if (!parent) return;
    const { oracle } = run.agent("alice");
    const texts = [run.text(), run.text(300), run.text()];
    const first = oracle.entries.length + 1;
    const items = texts.map((text, i) => ({
      text,
      legs: i === 0 ? [[parent]] : [[{ item: i - 1 }], [parent]],
    }));
    for (const [i, text] of texts.entries())
      oracle.add("memory", text, null, i === 0 ? [[parent]] : [[first + i - 1], [parent]], []);
    const ids = await (await run.handle("alice")).rememberAll(items);
    same(ids.join(), texts.map((_text, i) => first + i).join(), "the ids of many");
  },
  import: async (run) => {
    const { oracle } = run.agent("alice");
    const time = new Date(NOW).toISOString();
    const [good, both] = [run.text(), run.text()];
    const lines = [
      { kind: "cheesedb", version: 1 },
      { kind: "lot", time, id: 1, label: "page", text: good },
      { kind: "lot", time, id: 2, label: "page", text: null },
      { kind: "memory", time, id: 3, legs: [[1], [2]], text: both },
      { kind: "memory", time, id: 4, legs: [[2]], text: null },
      { kind: "recall", time, targets: [2], mode: "fair", disposal: "untrusted", removed: [4] },
    ];
    const lot = oracle.add("lot", good, "page", [], []);
    const bad = oracle.add("lot", "", "page", [], []);
    oracle.add("memory", both, null, [[lot], [bad]], []);
    const dead = oracle.add("memory", "", null, [[bad]], []);
    oracle.recall([bad], "fair", "untrusted");
    for (const id of [bad, dead]) oracle.at(id).hasText = false;
    const agent = await run.handle("alice");
    await agent.import(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  },
  /** The lock is let go, and the head mark written. */
  idle: async (run) => run.timers.fire(),
  create: (run) => run.create(run.nextName()),
  other: async (run) => {
    const { other } = run;
    if (!other) return;
    await run.addLot(other, run.text());
    await run.close(other);
  },
  delete: async (run) => {
    if (run.other) await run.deleteAgent(run.other);
  },
  // What follows is done only before the workloads, and in longer ones.
  openStore: (run) => run.openStore(),
  alice: async (run) => {
    await run.create("alice");
    await run.handle("alice");
  },
  close: (run) => run.close("alice"),
  huge: (run) => run.addLot("alice", run.text(3000)),
  empty: (run) => run.addLot("alice", ""),
  seen: (run) => run.addLot("alice", run.text(), null, uncontacted(run).slice(-2)),
  contact: async (run) => {
    const lot = living(run, "lot")[1];
    if (lot)
      await run.recall("alice", [lot], "contact", run.random() < 0.5 ? "erase" : "untrusted");
  },
  eraseMemory: async (run) => {
    const memories = living(run, "memory");
    const memory = memories[Math.floor(run.random() * memories.length)];
    if (memory) await run.recall("alice", [memory], "fair", "erase");
  },
  /** Calls that do not wait for each other: they share a batch, and are there together or not at all. */
  together: async (run) => {
    const parent = living(run).at(-1);
    await Promise.all([
      run.addLot("alice", run.text()),
      ...(parent ? [run.remember("alice", [[parent]])] : []),
      run.addLot("alice", run.text(600)),
    ]);
  },
};

function uncontacted(run: Run): number[] {
  const { oracle } = run.agent("alice");
  const contact = oracle.contact();
  return oracle.ids.filter((id) => !contact.has(id));
}

export const PRELUDE = ["openStore", "alice", "lot", "lot", "remember", "create", "other", "close"];
const ALPHABET = [
  "lot",
  "bigLot",
  "remember",
  "corroborate",
  "fair",
  "erase",
  "compact",
  "reopen",
  "many",
  "import",
  "idle",
  "create",
  "other",
  "delete",
];
export const LONGER = [
  ...ALPHABET,
  "huge",
  "empty",
  "seen",
  "contact",
  "eraseMemory",
  "together",
  "erase",
];

/** Every workload of one, two and three operations. */
export function shortWorkloads(): string[][] {
  const all: string[][] = [];
  for (const a of ALPHABET) {
    all.push([a]);
    for (const b of ALPHABET) {
      all.push([a, b]);
      for (const c of ALPHABET) all.push([a, b, c]);
    }
  }
  return all;
}
