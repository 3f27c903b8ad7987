// Every call to the disk fails once, or for ever, in every way, under every kind of work: what was acknowledged stays, what was
// not is whole or absent, and nobody is told something else than what happened.
//
// First every workload × every call that it makes × every way in which that call can fail, in an order by the seed; then
// workloads put together at random, with one failure or two, the second perhaps in the recovery from the first.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Agent, CheeseError, Store, type StoreOptions } from "../../src/index.ts";
import { chance } from "../chance.ts";
import {
  CALLS,
  type Call,
  describeInjection,
  FAULTS,
  FaultDisk,
  type Injection,
} from "../faultdisk.ts";
import type { Campaign, Failure } from "./campaign.ts";
import {
  type AgentView,
  countedRandom,
  type Image,
  openHealthy,
  readImage,
  requireTidy,
  stands,
  type View,
  viewOf,
  viewOfAgent,
  workFolder,
  writeImage,
} from "./stores.ts";

/** Longer than anything here takes: what has not ended by then never will. */
const HANG_MS = 60_000;
const NOW = Date.UTC(2026, 0, 1);

// ----- the work -----

interface Step {
  name: string;
  run(world: World): Promise<unknown>;
  /** Texts that stand nowhere once it is acknowledged. */
  erases?: readonly string[];
  /** It only reads: what it gives is what it gives without a failure, or a refusal. */
  reads?: boolean;
  /** It tells by `maybeWritten` when something of it may be there after a refusal. */
  tells?: boolean;
}

interface Workload {
  name: string;
  options?: StoreOptions;
  image: Image;
  steps: Step[];
}

/** A store on a disk that may fail, and the handles on it. */
class World {
  readonly path: string;
  readonly faults = new FaultDisk();
  readonly options: StoreOptions;
  readonly agents = new Map<string, Agent>();
  #store: Store | null = null;

  constructor(path: string, options: StoreOptions) {
    this.path = path;
    this.options = {
      waitMs: 2000,
      now: () => NOW,
      fillRandom: countedRandom(),
      disk: this.faults.disk,
      makeLock: this.faults.makeLock,
      ...options,
    };
  }

  get store(): Store {
    if (!this.#store) throw new Error("no step has opened the store");
    return this.#store;
  }

  get isOpen(): boolean {
    return this.#store !== null;
  }

  agent(name: string): Agent {
    const agent = this.agents.get(name);
    if (!agent) throw new Error(`no step has opened ${name}`);
    return agent;
  }

  async openStore() {
    this.#store = await Store.open(this.path, this.options);
  }

  async openAgent(name: string) {
    this.agents.set(name, await this.store.openAgent(this.store.keptToken(name) ?? ""));
  }

  async close() {
    for (const agent of this.agents.values()) await agent.close();
    this.agents.clear();
  }
}

const DOOMED = "Quendoline Birchwhistle";
const DEAD = "Marzipan Lane 40312";
const OF_BOB = "Fotheringay of Zanzibar";

const openStore: Step = { name: "open the store", run: (world) => world.openStore() };
const openAlice: Step = { name: "open alice", run: (world) => world.openAgent("alice") };
const openBob: Step = { name: "open bob", run: (world) => world.openAgent("bob") };
const closeAlice: Step = {
  name: "close alice",
  async run(world) {
    await world.agent("alice").close();
    world.agents.delete("alice");
  },
};

/** The steps with which work on an image begins. */
const isOpening = (step: Step) => [openStore, openAlice, openBob].includes(step);

function lot(text: string, uri: string | null = null): Step {
  return {
    name: `lot of ${text.length}`,
    tells: true,
    run: (world) => world.agent("alice").addLot("web_page", text, { uri }),
  };
}

function remember(text: string, legs: number[][]): Step {
  return {
    name: "remember",
    tells: true,
    run: (world) => world.agent("alice").remember(text, legs),
  };
}

function recall(ids: number[], disposal: "untrusted" | "erase", erases: string[] = []): Step {
  return {
    name: `recall ${disposal}`,
    tells: true,
    erases,
    run: (world) => world.agent("alice").recall(ids, { mode: "strict", disposal }),
  };
}

function compact(erases: string[] = [DEAD]): Step {
  return { name: "compact", erases, run: (world) => world.agent("alice").compact() };
}

function together(count: number, bytes: number): Step {
  return {
    name: `${count} lots at once`,
    tells: true,
    async run(world) {
      const alice = world.agent("alice");
      const lots = Array.from({ length: count }, (_, i) =>
        alice.addLot("web_page", `${i} of ${count}`.padEnd(bytes, "z")),
      );
      const settled = await Promise.allSettled(lots);
      const refused = settled.filter((one) => one.status === "rejected");
      // One batch, one fate.
      if (refused.length > 0 && refused.length < count)
        throw new Error(`${refused.length} of ${count} lots of one batch were refused`);
      if (refused[0]) throw refused[0].reason;
    },
  };
}

/** Long enough for the lock to be let go, and the head mark brought up to the log. */
const rest: Step = {
  name: "rest",
  run: () => new Promise<void>((resolve) => setTimeout(resolve, 40)),
};

const bulk: Step = {
  name: "80 KiB of lots and memories",
  tells: true,
  async run(world) {
    const alice = world.agent("alice");
    await alice.addLots(
      Array.from({ length: 40 }, (_, i) => ({ label: "page", text: `${i} `.padEnd(2000, "b") })),
    );
  },
};

const exported = [
  { kind: "cheesedb", version: 1 },
  { kind: "lot", id: 1, label: "a", text: "imported one", uri: null, state: "alive" },
  { kind: "lot", id: 2, label: "b", text: "imported two", uri: "u", state: "recalled" },
  { kind: "memory", id: 3, legs: [[1], [2]], text: "imported three", state: "alive" },
  { kind: "recall", targets: [2], mode: "fair", disposal: "untrusted", removed: [], erased: [] },
];
const importLines = exported
  .map((line, i) =>
    JSON.stringify(i === 0 ? line : { record: i, time: "2026-01-01T00:00:00.000Z", ...line }),
  )
  .join("\n");

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Bytes and file counts differ with what a failure left undone; a damaged agent must be so by the disk alone. */
function withoutSizes(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, part) => (/bytes|filesScanned/i.test(key) ? undefined : part)),
  );
}

const reading = (name: string, run: Step["run"]): Step => ({ name, reads: true, run });
const reads: Step[] = [
  reading("verify all", (world) => world.store.verify()),
  reading("verify one", (world) => world.store.verifyAgent("alice")),
  reading("verify by the handle", (world) => world.agent("alice").verify()),
  reading("find", (world) => world.store.find(DEAD, { absent: true })),
  reading("find in bob", (world) => world.store.find(OF_BOB, { agent: "bob" })),
  reading("list agents", (world) => world.store.agents()),
  reading("stats of all", (world) => world.store.stats()),
  reading("stats", (world) => world.agent("alice").stats()),
  reading("list", (world) => collected(world.agent("alice").entries())),
  reading("newest first", (world) =>
    collected(world.agent("alice").entries({ newestFirst: true })),
  ),
  reading("history", (world) => collected(world.agent("alice").history())),
  reading("export", (world) => collected(world.agent("alice").export({ deadTexts: true }))),
  reading("why", (world) => world.agent("alice").why(6)),
  reading("why of the dead", (world) => world.agent("alice").why(4)),
  reading("show", (world) => world.agent("alice").show(5)),
  reading("text", (world) => world.agent("alice").text(2)),
  reading("plan", async (world) => (await world.agent("alice").planRecall([2])).id),
  reading("lots by uri", (world) => world.agent("alice").findLots({ uriPrefix: "https" })),
];

/** Two agents with living, dead and doomed texts, in several segments. */
const prelude: Step[] = [
  openStore,
  {
    name: "create alice",
    run: (world) => world.store.createAgent("alice", { keepToken: true }),
  },
  { name: "create bob", run: (world) => world.store.createAgent("bob", { keepToken: true }) },
  openAlice,
  openBob,
  lot("what the user said"),
  lot(`${DOOMED}, of a page`),
  lot("what a tool said"),
  lot(`${DEAD}, of another page`, `https://x.example/${DEAD}`),
  remember(`learned that ${DOOMED}`, [[2]]),
  remember("learned from 1 or 2", [[1], [2]]),
  recall([4], "untrusted"),
  {
    name: "bob's lot",
    run: (world) => world.agent("bob").addLot("x", `${OF_BOB} is of bob alone`),
  },
];

const small: StoreOptions = { segmentBytes: 700, snapshotRecords: 1 };
const smallRead: StoreOptions = { ...small, readOnly: true };
const oneSegment: StoreOptions = { snapshotRecords: 1 };

/** Runs steps without a failure, and keeps what they leave. */
async function imageAfter(
  steps: Step[],
  options: StoreOptions,
  from: Image = new Map(),
  { isClosed = true, injection = null as Injection | null } = {},
): Promise<Image> {
  const path = join(workFolder(), "store");
  if (from.size > 0) writeImage(path, from);
  const world = new World(path, options);
  if (injection) world.faults.arm(injection);
  try {
    for (const step of steps) await step.run(world);
  } catch (error) {
    if (!injection) throw error;
  }
  if (isClosed) await world.close();
  const image = readImage(path);
  await world.close();
  rmSync(join(path, ".."), { recursive: true });
  return image;
}

/** The image with some files changed. */
function changed(image: Image, change: (name: string, bytes: Buffer) => Buffer | null): Image {
  const result: Image = new Map();
  for (const [name, bytes] of image) {
    const now = bytes && change(name, bytes);
    if (bytes === null || now) result.set(name, now);
  }
  return result;
}

const writtenEnd = (bytes: Buffer) => {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return end;
};

async function workloads(): Promise<Workload[]> {
  const kitchen = await imageAfter(prelude, small);
  const broad = await imageAfter(prelude, oneSegment);
  const opened = [openStore, openAlice, openBob];
  const erase = recall([2], "erase", [DOOMED]);
  const eraseBoth = recall([2, 4], "erase", [DOOMED, DEAD]);
  const isLast = lastSegments(kitchen);
  // What half of a write leaves, and a batch that no head mark names.
  const torn = changed(kitchen, (name, bytes) => {
    if (!isLast.has(name)) return bytes;
    const copy = Buffer.from(bytes);
    copy.write("half a batch", writtenEnd(bytes) + 5);
    return copy;
  });
  const unnamed = changed(kitchen, (name, bytes) => (name.endsWith("/head") ? null : bytes));
  const unsealed = await rollPending(kitchen, small);
  const dying = (call: Call, nth: number, steps: Step[]) =>
    imageAfter([...opened, ...steps], small, kitchen, {
      injection: { call, nth, fault: "EIO", forever: true },
    });
  // The recall and its head mark are flushed, and nothing is zeroed.
  const unerased = await erasePending(kitchen, small, erase);
  return [
    {
      name: "a new store",
      options: small,
      image: new Map(),
      steps: [
        openStore,
        {
          name: "create alice",
          run: (world) => world.store.createAgent("alice", { keepToken: true }),
        },
        openAlice,
        lot("the first"),
        closeAlice,
      ],
    },
    {
      name: "writes",
      options: oneSegment,
      image: broad,
      steps: [
        ...opened,
        lot("a lot more"),
        remember("of 1 and 3", [[1, 3]]),
        {
          name: "corroborate",
          tells: true,
          run: (world) => world.agent("alice").corroborate(6, [3]),
        },
        recall([3], "untrusted"),
        lot("the last"),
      ],
    },
    {
      name: "writes in short segments",
      options: small,
      image: kitchen,
      steps: [...opened, lot("s".repeat(600)), lot("t".repeat(600)), remember("of 1", [[1]])],
    },
    {
      name: "many at once",
      options: small,
      image: kitchen,
      steps: [...opened, together(6, 300), lot("after")],
    },
    {
      name: "writes with a rest between",
      options: small,
      image: kitchen,
      steps: [...opened, lot("before"), rest, lot("after")],
    },
    { name: "bulk", options: oneSegment, image: broad, steps: [...opened, bulk, lot("after")] },
    {
      name: "recall",
      options: small,
      image: kitchen,
      steps: [...opened, recall([1], "untrusted"), lot("after")],
    },
    { name: "erase", options: oneSegment, image: broad, steps: [...opened, erase, lot("after")] },
    {
      name: "erase in many segments",
      options: small,
      image: kitchen,
      steps: [...opened, eraseBoth, lot("after")],
    },
    {
      name: "erase after a write",
      options: small,
      image: kitchen,
      steps: [...opened, lot("w".repeat(700)), erase],
    },
    {
      name: "compact",
      options: small,
      image: kitchen,
      steps: [...opened, compact(), lot("after")],
    },
    {
      name: "compact one segment",
      options: oneSegment,
      image: broad,
      steps: [...opened, compact(), lot("after")],
    },
    {
      name: "erase, compact, write, close",
      options: small,
      image: kitchen,
      steps: [...opened, erase, compact(), lot("after"), closeAlice],
    },
    {
      name: "close with a snapshot, and open by it",
      options: small,
      image: kitchen,
      steps: [...opened, lot("before"), closeAlice, openAlice, lot("after"), closeAlice],
    },
    {
      name: "import",
      options: small,
      image: kitchen,
      steps: [
        ...opened,
        { name: "import", run: (world) => world.agent("alice").import(importLines) },
        lot("after"),
      ],
    },
    {
      name: "create and delete an agent",
      options: small,
      image: kitchen,
      steps: [
        openStore,
        openAlice,
        {
          name: "create carol",
          run: (world) => world.store.createAgent("carol", { keepToken: true }),
        },
        {
          name: "delete bob",
          erases: [OF_BOB],
          run: (world) => world.store.deleteAgent("bob"),
        },
        lot("after"),
      ],
    },
    {
      name: "open with a torn tail",
      options: small,
      image: torn,
      steps: [...opened, lot("after")],
    },
    {
      name: "open without a head mark",
      options: small,
      image: unnamed,
      steps: [...opened, lot("after")],
    },
    {
      name: "open and finish an erase",
      options: small,
      image: unerased,
      // An opening that may not write yet only keeps it from being read; the first write finishes it.
      steps: [...opened, { ...lot("after"), erases: [DOOMED] }],
    },
    {
      name: "open after a segment was begun",
      options: small,
      image: unsealed,
      steps: [...opened, lot("after")],
    },
    {
      name: "open after half a compaction",
      options: small,
      image: await dying("rename", 1, [compact()]),
      steps: [...opened, lot("after")],
    },
    {
      name: "open after half a deletion",
      options: small,
      image: await dying("removeFile", 1, [
        { name: "delete bob", run: (world) => world.store.deleteAgent("bob") },
      ]),
      steps: [openStore, openAlice, lot("after")],
    },
    {
      name: "open after half a creation",
      options: small,
      image: await dying("rename", 2, [
        {
          name: "create carol",
          run: (world) => world.store.createAgent("carol", { keepToken: true }),
        },
      ]),
      steps: [...opened, lot("after")],
    },
    ...reads.flatMap((read) => [
      { name: read.name, options: small, image: kitchen, steps: [...opened, read] },
      {
        name: `${read.name} of a store opened for reading`,
        options: smallRead,
        image: kitchen,
        steps: [...opened, read],
      },
      {
        name: `${read.name} of what is unfinished`,
        options: smallRead,
        image: unerased,
        steps: [...opened, read],
      },
    ]),
  ];
}

/** The last segment of each agent's log, by name. */
function lastSegments(image: Image): Set<string> {
  const last = new Map<string, string>();
  for (const name of image.keys())
    if (name.endsWith(".seg")) last.set(name.slice(0, name.lastIndexOf("/")), name);
  return new Set(last.values());
}

/** The first image, of those that a write leaves after which none comes through, that is of some form. */
async function firstLeft(
  steps: Step[],
  options: StoreOptions,
  from: Image,
  isWanted: (image: Image) => Promise<boolean>,
): Promise<Image> {
  for (let nth = 1; nth < 100; nth++) {
    const injection: Injection = { call: "write", nth, fault: "EIO", forever: true };
    const image = await imageAfter(steps, options, from, { injection });
    if (await isWanted(image)) return image;
  }
  throw new Error("no write that fails leaves what is wanted");
}

/** Alice with an erase that is on the disk and whose texts still stand. */
function erasePending(kitchen: Image, options: StoreOptions, erase: Step): Promise<Image> {
  return firstLeft([openStore, openAlice, erase], options, kitchen, async (image) => {
    const path = join(workFolder(), "store");
    writeImage(path, image);
    const store = await openHealthy(path, { readOnly: true });
    const { erasesPending } = await store.verifyAgent("alice");
    rmSync(join(path, ".."), { recursive: true });
    return erasesPending > 0 && stands(image, DOOMED);
  });
}

/** Alice with a segment begun, and the one before it not sealed. */
function rollPending(kitchen: Image, options: StoreOptions): Promise<Image> {
  const segments = (image: Image) => [...image.keys()].filter((name) => name.endsWith(".seg"));
  const steps = [openStore, openAlice, lot("l".repeat(700)), lot("not written")];
  return firstLeft(steps, options, kitchen, async (image) => {
    const isLonger = segments(image).length > segments(kitchen).length;
    return isLonger && !stands(image, "not written");
  });
}

// ----- one case -----

/** What a run without a failure shows: the view before the first step and after each, and what the reading steps gave. */
interface Expected {
  views: View[];
  values: unknown[];
  /** How many calls of each kind all steps made, and those of them that only opened. */
  counts: ReadonlyMap<Call, number>;
  opening: ReadonlyMap<Call, number>;
}

/** A step before it was refused, so that the handle is not there. */
function isMissingHandle(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("no step has opened");
}

async function expectedOf(workload: Workload, path: string): Promise<Expected> {
  const { image, options = {}, steps } = workload;
  writeImage(path, image);
  const world = new World(path, options);
  const look = async () => {
    if (image.size === 0 && !world.isOpen) return {};
    // Through a disk of its own, so that nothing is shared with the handles at work.
    return viewOf(await openHealthy(path, { readOnly: true, disk: new FaultDisk().disk }));
  };
  const views = [await look()];
  const values: unknown[] = [];
  const stood = new Set<string>();
  const texts = steps.flatMap(({ erases = [] }) => erases);
  let opening: ReadonlyMap<Call, number> = new Map();
  world.faults.arm();
  for (const step of steps) {
    const before = readImage(path);
    for (const text of texts) if (stands(before, text)) stood.add(text);
    for (const text of step.erases ?? [])
      if (!stood.has(text)) throw new Error(`"${text}" never stood before "${step.name}"`);
    values.push(withoutSizes((await step.run(world)) ?? null));
    requireGone(path, step.erases);
    const counts = new Map(world.faults.counts);
    views.push(await look());
    world.faults.counts.clear();
    for (const [call, count] of counts) world.faults.counts.set(call, count);
    if (isOpening(step)) opening = counts;
  }
  await world.close();
  return { views, values, counts: new Map(world.faults.counts), opening };
}

function requireGone(path: string, texts: readonly string[] = []) {
  if (texts.length === 0) return;
  const image = readImage(path);
  for (const text of texts)
    if (stands(image, text)) throw new Error(`"${text}" still stands after it was erased`);
}

/** A refusal is of the disk's, or of the handle that it shut: in words, with what to do, and never one of damage. */
function requireRefusal(error: unknown, doing: string): CheeseError {
  if (!(error instanceof CheeseError)) {
    const { name, message, stack } = error as Error;
    throw new Error(`${doing}: a raw ${name}: ${message}\n${stack}`);
  }
  const { code, message, hint } = error;
  const where = `${doing}: ${code}: ${message}`;
  if (code !== "DISK" && code !== "CLOSED") throw new Error(`${where}\n${error.stack}`);
  if (!message || !hint) throw new Error(`${where} (it says not what to do)`);
  if (code === "CLOSED" && !/open/i.test(hint))
    throw new Error(`${where} (it says not to open again: ${hint})`);
  return error;
}

/** A store with one lot more in an agent. */
function withLot(view: View, name: string, text: string): View {
  const { records, entries } = view[name] as AgentView;
  const id = entries.length + 1;
  const entry = {
    id,
    kind: "lot",
    state: "alive",
    label: "probe",
    text,
    uri: null,
    legs: [],
  };
  return { ...view, [name]: { records: records + 1, entries: [...entries, entry] } };
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Whether what a reading gave is right: it may say of an agent, beside what is right, that the disk refused it. */
function isRight(value: unknown, expected: unknown): boolean {
  if (same(value, expected)) return true;
  return /"(?:damaged|error)":\{"code":"DISK"|"entry":null/.test(JSON.stringify(value));
}

class Case {
  readonly #path: string;
  readonly #workload: Workload;
  readonly #expected: Expected;
  readonly #injections: Injection[];
  /** A failure in the first opening after. */
  readonly #again: Injection | null;
  /** What may be there now. */
  #possible: View[];
  /** Whether entry 1 was erased at last, and with it what hung on it. */
  #isErased = false;
  readonly #world: World;

  constructor(
    path: string,
    workload: Workload,
    expected: Expected,
    injections: Injection[],
    again: Injection | null = null,
  ) {
    this.#path = path;
    this.#workload = workload;
    this.#expected = expected;
    this.#injections = injections;
    this.#again = again;
    this.#possible = [expected.views[0] as View];
    this.#world = new World(path, workload.options ?? {});
  }

  async run() {
    const { faults } = this.#world;
    writeImage(this.#path, this.#workload.image);
    faults.arm(...this.#injections);
    const isRefused = await this.#work();
    if (isRefused) {
      const isOver =
        this.#injections.every(({ forever }) => !forever) &&
        faults.hits.length === this.#injections.length;
      await this.#lookThrough("while the disk fails");
      await this.#probe("alice", "while the disk fails");
      // What befell alice is nothing to bob.
      await this.#probe("bob", "while the disk fails", { mustWork: isOver });
      const closesNow = this.#injections.some(({ nth }) => nth % 2 === 0);
      if (!closesNow) {
        faults.disarm();
        await this.#lookThrough("on a disk that is well again");
        await this.#probe("alice", "on a disk that is well again");
        await this.#probe("bob", "on a disk that is well again", { mustWork: isOver });
        await this.#probeErase();
      }
    }
    await close(this.#world);
    if (this.#workload.options?.readOnly) {
      // What is opened for reading is not written to, whatever fails.
      if (!sameImage(readImage(this.#path), this.#workload.image))
        throw new Error("a store that was opened for reading has other files than before");
      return;
    }
    // A reader comes before anybody has recovered.
    if (this.#injections.some(({ nth }) => nth % 3 === 0)) await this.#read();
    if (this.#again) {
      const world = new World(this.#path, this.#workload.options ?? {});
      world.faults.arm(this.#again);
      for (const step of [openStore, openAlice, openBob]) {
        try {
          await step.run(world);
        } catch (error) {
          if (!isMissingHandle(error)) requireRefusal(error, `${step.name} again`);
        }
      }
      await close(world);
    }
    await this.#reopen();
  }

  /** Takes the steps up to the first that is refused; whether one was. */
  async #work(): Promise<boolean> {
    const { steps } = this.#workload;
    const { views, values } = this.#expected;
    for (const [i, step] of steps.entries()) {
      let value: unknown;
      try {
        value = await step.run(this.#world);
      } catch (error) {
        const refusal = requireRefusal(error, step.name);
        if (step.reads) continue;
        if (!step.tells || refusal.maybeWritten) this.#possible.push(views[i + 1] as View);
        return true;
      }
      this.#possible = [views[i + 1] as View];
      requireGone(this.#path, step.erases);
      if (step.reads && !isRight(withoutSizes(value ?? null), values[i])) {
        const [got, wanted] = [value, values[i]].map((one) => JSON.stringify(one));
        throw new Error(`${step.name} gave ${got}, expected ${wanted}`);
      }
    }
    return false;
  }

  /** What the handles show now is what was acknowledged, perhaps with what is in flight; or they refuse. */
  async #lookThrough(when: string) {
    for (const [name, agent] of this.#world.agents) {
      let view: AgentView;
      try {
        view = await viewOfAgent(agent);
      } catch (error) {
        requireRefusal(error, `reading ${name} ${when}`);
        continue;
      }
      if (!this.#possible.some((possible) => same(possible[name], view)))
        throw new Error(`${name} ${when} shows ${JSON.stringify(view)}`);
    }
  }

  /** One write more on the handle that was there: either it is refused, or it holds like any other. */
  async #probe(name: string, when: string, { mustWork = false } = {}) {
    const agent = this.#world.agents.get(name);
    if (!agent || this.#world.store.readOnly) return;
    const text = `probe of ${name} ${when}`;
    const added = this.#possible.map((view) => (view[name] ? withLot(view, name, text) : view));
    const isPoisoned = this.#world.faults.hits.some(
      ({ call, path, access }) =>
        call === "flush" && access === "write" && path.includes(`/${agent.id}/log/`),
    );
    let refusal: CheeseError | null = null;
    try {
      await agent.addLot("probe", text);
    } catch (error) {
      refusal = requireRefusal(error, `a write to ${name} ${when}`);
    }
    if (isPoisoned && refusal?.code !== "CLOSED") {
      const what = refusal ? `refused with ${refusal.code}` : "acknowledged";
      throw new Error(`after a failed flush a write to ${name} is ${what} ${when}`);
    }
    if (!refusal) {
      this.#possible = added;
    } else {
      if (mustWork) throw new Error(`a write to ${name} ${when}: ${refusal.message}`);
      if (refusal.maybeWritten) this.#possible.push(...added);
    }
  }

  /** An erase on the handle that was there: if it is acknowledged the text is gone, whatever the failure left behind. */
  async #probeErase() {
    const agent = this.#world.agents.get("alice");
    if (!agent || this.#world.store.readOnly) return;
    // What is below the first entry goes with it.
    const doomed = this.#possible.flatMap(({ alice }) =>
      (alice?.entries ?? []).filter(({ id }) => id === 1).map(({ text }) => text),
    );
    if (doomed.length === 0) return;
    try {
      await agent.recall([1], { disposal: "erase" });
    } catch (error) {
      const { maybeWritten } = requireRefusal(error, "an erase on a disk that is well again");
      if (!maybeWritten) return;
    }
    for (const text of doomed) if (text) requireGone(this.#path, [text]);
    this.#isErased = true;
  }

  /** Whoever opens it for reading sees what was acknowledged too, whatever is unfinished. */
  async #read() {
    if (this.#isErased || !this.#world.isOpen) return;
    this.#requirePossible(
      await viewOf(await openHealthy(this.#path, { readOnly: true })),
      "to a reader",
    );
  }

  #requirePossible(view: View, when: string) {
    if (this.#possible.some((possible) => same(possible, view))) return;
    const possible = this.#possible.map((one) => JSON.stringify(one)).join("\n or    ");
    throw new Error(`${when} it holds ${JSON.stringify(view)}\n expected ${possible}`);
  }

  /** On a healthy disk everything acknowledged is there, whole, and checks. */
  async #reopen() {
    const store = await openHealthy(this.#path, { ...this.#workload.options, readOnly: false });
    const view = await viewOf(store);
    if (this.#isErased && view.alice?.entries[0]?.text !== null)
      throw new Error("an erased text is back");
    if (!this.#isErased) this.#requirePossible(view, "reopened");
    await requireTidy(store);
    // Of an erase that was not acknowledged: gone for every reader is gone from the disk.
    const image = readImage(this.#path);
    const shown = JSON.stringify(view);
    for (const text of this.#workload.steps.flatMap(({ erases = [] }) => erases)) {
      if (!shown.includes(text) && stands(image, text))
        throw new Error(`"${text}" stands in the files, and nobody is shown it`);
    }
  }
}

function sameImage(a: Image, b: Image): boolean {
  if (a.size !== b.size) return false;
  for (const [name, bytes] of a) {
    const other = b.get(name);
    if (bytes === null ? other !== null : !other?.equals(bytes)) return false;
  }
  return true;
}

/** Closes all handles, and nothing may be left open. */
async function close(world: World) {
  await world.close();
  const { openFiles, openLocks } = world.faults;
  world.faults.disarm();
  if (openFiles > 0 || openLocks > 0)
    throw new Error(`${openFiles} files and ${openLocks} locks are left open`);
}

/** A full disk takes no write that needs space, and every erase; and reads go on. */
async function runFull(path: string, { image, options = {} }: Workload) {
  writeImage(path, image);
  const world = new World(path, options);
  const { faults } = world;
  faults.fill();
  await world.openStore();
  await world.openAgent("alice");
  const alice = world.agent("alice");
  let lots = 0;
  // Until no more goes in.
  for (let bytes = 40_000; bytes > 0; bytes >>>= 1) {
    try {
      await alice.addLot("x", "f".repeat(bytes));
      lots++;
    } catch (error) {
      const { maybeWritten } = requireRefusal(error, "a write to a full disk");
      if (maybeWritten)
        throw new Error("a write that a full disk has no room for began all the same");
    }
  }
  const before = await viewOfAgent(alice);
  for (const [id, text] of [
    [4, DEAD],
    [2, DOOMED],
  ] as const) {
    await alice.recall([id], { mode: "strict", disposal: "erase" });
    requireGone(path, [text]);
  }
  try {
    await alice.compact();
  } catch (error) {
    requireRefusal(error, "a compaction on a full disk");
  }
  const after = await viewOfAgent(alice);
  if (after.entries.length !== before.entries.length) throw new Error("entries came or went");
  if (!after.entries.every(({ text, state }) => (text === null) === (state !== "alive")))
    throw new Error(`the wrong texts are gone: ${JSON.stringify(after)}`);
  await world.store.deleteAgent("bob");
  requireGone(path, [OF_BOB]);
  await close(world);
  const store = await openHealthy(path, options);
  const view = await viewOf(store);
  if (!same(view, { alice: after })) throw new Error(`reopened it holds ${JSON.stringify(view)}`);
  await requireTidy(store);
  return lots;
}

// ----- all cases -----

interface Planned {
  workload: Workload;
  injections: Injection[];
  again?: Injection;
}

/** @param from how many calls of each kind are passed over */
function* everyInjection(
  counts: ReadonlyMap<Call, number>,
  from: ReadonlyMap<Call, number>,
): Generator<Injection> {
  for (const call of CALLS) {
    for (let nth = 1 + (from.get(call) ?? 0); nth <= (counts.get(call) ?? 0); nth++) {
      for (const fault of FAULTS[call])
        for (const forever of [false, true]) yield { call, nth, fault, forever };
    }
  }
}

function shuffle<T>(items: T[], random: () => number) {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [items[i], items[j]] = [items[j] as T, items[i] as T];
  }
}

function randomInjection(counts: ReadonlyMap<Call, number>, random: () => number): Injection {
  const calls = CALLS.filter((call) => (counts.get(call) ?? 0) > 0);
  const call = calls[Math.floor(random() * calls.length)] as Call;
  const faults = FAULTS[call];
  return {
    call,
    nth: 1 + Math.floor(random() * (counts.get(call) ?? 1)),
    fault: faults[Math.floor(random() * faults.length)] ?? "EIO",
    forever: random() < 0.5,
  };
}

/** Work put together at random; what a rule refuses is refused alike with and without a failure. */
function randomWorkload(images: Image[], random: () => number, number: number): Workload {
  const upTo = (last: number) => 1 + Math.floor(random() * last);
  const makes: (() => Step)[] = [
    () => lot("r".repeat(upTo(random() < 0.2 ? 70_000 : 900))),
    () => remember("r", [[upTo(6)], [upTo(3), 3 + upTo(3)]]),
    () => recall([upTo(6)], random() < 0.5 ? "erase" : "untrusted"),
    () => compact([]),
    () => together(upTo(8), upTo(400)),
    () => closeAlice,
    () => ({ name: "import", run: (world) => world.agent("alice").import(importLines) }),
  ];
  const steps: Step[] = [openStore, openAlice, openBob];
  for (let left = 2 + upTo(6); left > 0; left--) {
    const step = (makes[Math.floor(random() * makes.length)] as () => Step)();
    steps.push(ruled(step));
    if (step === closeAlice) steps.push(openAlice);
  }
  const options = {
    segmentBytes: [500, 2000, undefined][Math.floor(random() * 3)],
    snapshotRecords: [1, 4, undefined][Math.floor(random() * 3)],
  };
  const image = images[Math.floor(random() * images.length)] as Image;
  return { name: `random ${number}`, options, image, steps };
}

function ruled(step: Step): Step {
  const run = async (world: World) => {
    try {
      return await step.run(world);
    } catch (error) {
      if (error instanceof CheeseError && error.code === "DEAD_PARENT") return error.code;
      throw error;
    }
  };
  return { ...step, run };
}

/** So many failures are tried on a random workload before the next. */
const TRIES = 25;

export const calls: Campaign = async ({ seed, more, keep }) => {
  const random = chance(seed);
  const folder = workFolder();
  const path = join(folder, "store");
  const failures: Failure[] = [];
  let done = 0;
  let met = 0;
  const counts: Record<string, number> = { "injected failures": 0, "erases on a full disk": 0 };
  let stray: unknown = null;
  const onStray = (reason: unknown) => {
    stray ??= reason;
  };
  process.on("unhandledRejection", onStray);

  const tryOne = async (what: string, run: () => Promise<unknown>) => {
    done++;
    let timer: NodeJS.Timeout | undefined;
    const hang = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("it hangs")), HANG_MS);
    });
    try {
      await Promise.race([run(), hang]);
      if (stray) throw new Error(`nobody heard of ${(stray as Error).stack}`);
    } catch (error) {
      const image = join(keep, `calls-${seed}-${done}`);
      writeImage(image, readImage(path));
      failures.push({
        what: `${what}: ${(error as Error).message}`,
        repeat: `SEED=${seed}, case ${done}; left in ${image}`,
      });
      stray = null;
    } finally {
      clearTimeout(timer);
    }
  };
  const tryCase = async ({ workload, injections, again }: Planned, expected: Expected) => {
    const all = [...injections, ...(again ? [again] : [])].map(describeInjection).join(", then ");
    await tryOne(`${workload.name}: ${all}`, () =>
      new Case(path, workload, expected, injections, again).run(),
    );
    met += injections.length + (again ? 1 : 0);
  };

  try {
    const all = await workloads();
    const expected = new Map<Workload, Expected>();
    const planned: Planned[] = [];
    const opened: Workload[] = [];
    for (const workload of all) {
      const one = await expectedOf(workload, path);
      expected.set(workload, one);
      // The opening of an image is gone through once for all work on it.
      const { image, options } = workload;
      const isKnown = opened.some((known) => known.image === image && known.options === options);
      if (!isKnown) opened.push(workload);
      for (const injection of everyInjection(one.counts, isKnown ? one.opening : new Map()))
        planned.push({ workload, injections: [injection] });
    }
    const full = all.filter(({ image, options }) => image.size > 0 && !options?.readOnly);
    const isWhole = ({ image }: Workload) =>
      stands(image, DOOMED) &&
      stands(image, OF_BOB) &&
      [...image.keys()].filter((name) => name.endsWith("/head")).length === 2;
    for (const workload of full.filter(isWhole)) {
      if (!more(done)) break;
      await tryOne(`${workload.name}, on a full disk`, () => runFull(path, workload));
      counts["erases on a full disk"] = (counts["erases on a full disk"] ?? 0) + 2;
    }
    shuffle(planned, random);
    for (const plan of planned) {
      if (!more(done)) break;
      await tryCase(plan, expected.get(plan.workload) as Expected);
    }
    const images = [...new Set(full.filter(isWhole).map(({ image }) => image))];
    for (let number = 1; more(done); number++) {
      const workload = randomWorkload(images, random, number);
      const one = await expectedOf(workload, path);
      for (let i = 0; i < TRIES && more(done); i++) {
        const injections = [randomInjection(one.counts, random)];
        if (random() < 0.3) injections.push(randomInjection(one.counts, random));
        const plan: Planned = { workload, injections };
        if (random() < 0.5)
          plan.again = {
            ...randomInjection(one.counts, random),
            nth: 1 + Math.floor(random() * 12),
          };
        await tryCase(plan, one);
      }
    }
  } finally {
    process.off("unhandledRejection", onStray);
    rmSync(folder, { recursive: true, force: true });
  }
  counts["injected failures"] = met;
  return { counts, failures };
};

export const campaign = calls;
