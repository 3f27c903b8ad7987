// The crash campaign: real operations on a simulated disk, the power cut behind every entry of its journal, every state that
// this may leave recovered by the real code, and what then stands there held against what was acknowledged.
//
// Workloads of one, two and three operations are gone through exhaustively, then longer ones by chance. A workload is checked
// from its last operation on: what comes before was checked as a shorter workload. Of each state it is checked that
//
//   (a) all of what was acknowledged is there, and the operation in flight wholly or not at all
//   (b) no text of an acknowledged erase, and none that a reader would call erased, stands in any byte of any file
//   (c) verify finds nothing
//   (d) opening it again changes no byte
//   (e) agents that had no part in it keep every byte
//   (f) it can be written to, and that stands after a further opening (a sample)
//   (g) opened for reading only, it serves the same, and nothing is written
//
// and the same again where the power goes during the recovery, five deep (a sample), and where the process died first and
// the power went while another one was recovering and writing.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Agent, CheeseError, hasCode, Store } from "../../src/index.ts";
import { chance } from "../chance.ts";
import { PowerLoss } from "../powerloss.ts";
import {
  type Content,
  type Image,
  imageKey,
  type Operation,
  SimDisk,
  writeImage,
} from "../simdisk.ts";
import type { Budget, Campaign, Tally } from "./campaign.ts";
import {
  LONGER,
  type Model,
  options,
  PRELUDE,
  Run,
  STORE,
  type Step,
  StoppedTimers,
  shortWorkloads,
  signature,
  toModel,
  type Views,
  viewOf,
} from "./workloads.ts";

/** The agent that is created after a recovery, where there is none. */
const WRITTEN_TO = "dave";
/** More states than this are sampled. */
const STATES_MAX = 64;
const STATES_MAX_WITHIN = 12;
const STATES_MAX_LONGER = 24;
const DEPTH_MAX = 5;
/** One in so many states: crashes within its recovery; a write after it. */
const DEEPER_ONE_IN = 48;
const WRITE_ONE_IN = 8;
/** One in so many of those within a recovery is opened for reading only, too. */
const READ_ONE_IN = 4;
const STATES = "crash states";
const STATES_WITHIN = "crash states within a recovery";
/** In longer workloads the process dies at one in so many points only: what is recovered is larger, and a single one takes long. */
const KILL_ONE_IN = 4;
const FAILURES_MAX = 20;

const CANARY = /canary\d+;|cheese_[\w-]{64}/g;
/** Of the contents that a workload has met. */
const canariesOf = new Map<string, ReadonlySet<string>>();

function canariesIn(content: Content): ReadonlySet<string> {
  let found = canariesOf.get(content.id);
  if (!found) {
    found = new Set(content.bytes.toString("latin1").match(CANARY));
    canariesOf.set(content.id, found);
  }
  return found;
}

/** A canary of a set that stands in an image, and in which file. */
function findCanary(image: Image, gone: ReadonlySet<string>): string | null {
  if (gone.size === 0) return null;
  for (const [path, content] of image) {
    if (!content) continue;
    for (const canary of canariesIn(content)) if (gone.has(canary)) return `${canary} in ${path}`;
  }
  return null;
}

/** What the files of an agent are, as one string. */
function folderKey(image: Image, id: string): string {
  const part: Image = new Map();
  for (const [path, content] of image) if (path.includes(id)) part.set(path, content);
  return imageKey(part);
}

/** What recovering a state came to. */
interface Recovered {
  /** What is wrong with it by itself; null if nothing is. */
  problem: string | null;
  signature: string;
  image: Image;
}

/** What a recovery and the writes after it have told a caller, in turn, and how long the journal was then. */
interface Told {
  views: Views;
  at: number;
}

/** Checks the states that one workload may be left in. */
class Checker {
  readonly #run: Run;
  readonly #workload: string[];
  readonly #tally: Tally;
  readonly #keep: string;
  readonly #failuresMax: number;
  readonly #random: () => number;
  readonly #recovered = new Map<string, Recovered>();
  readonly #settled = new Map<string, Recovered>();
  readonly #counted = new Set<string>();
  readonly #tokens: Map<string, string>;
  /** Agents that the workload did nothing to: their view, and what their files are. */
  readonly #untouched = new Map<string, { view: string; id: string; key: string }>();

  constructor(
    run: Run,
    workload: string[],
    tally: Tally,
    keep: string,
    before: Views,
    failuresMax: number,
  ) {
    this.#run = run;
    this.#workload = workload;
    this.#tally = tally;
    this.#keep = keep;
    this.#failuresMax = failuresMax;
    this.#random = run.random;
    this.#tokens = new Map(run.tokens);
    for (const { name, id, touched } of run.agents.values()) {
      const view = before.get(name);
      if (!touched && view) this.#untouched.set(name, { view, id, key: folderKey(run.start, id) });
    }
  }

  /** Goes through the journal of the run from one of its operations on, up to another. */
  async check(firstStep: number, endStep: number, statesMax: number) {
    const { steps, disk, start } = this.#run;
    const power = new PowerLoss(start);
    // Begins with a state that was checked as the end of a shorter workload.
    let wasAll = true;
    for (const [i, step] of steps.entries()) {
      const before = i === 0 ? this.#run.before : (steps[i - 1] as Step).after;
      for (let at = step.begin + 1; at <= step.end; at++) {
        const operation = disk.journal[at - 1] as Operation;
        power.pass(operation);
        if (i < firstStep || i >= endStep || this.isOver) continue;
        if (isFlush(operation) && wasAll && at < step.end) continue;
        const allowed = at === step.end ? [step.after] : [before, step.after];
        const where = `${step.name}, journal ${at}`;
        const { states, isAll } = power.states(statesMax, this.#random);
        wasAll = isAll;
        for (const [key, image] of states) {
          const matched = await this.#check(key, image, allowed, STATES, where);
          if (matched && this.#random() * DEEPER_ONE_IN < 1)
            await this.#powerAgain(image, allowed, where, 1);
        }
        const isShort = this.#workload.length <= 3;
        if (!power.isSettled && (isShort || this.#random() * KILL_ONE_IN < 1))
          await this.#afterKill(at, power, allowed, where);
      }
    }
  }

  get isOver(): boolean {
    return this.#tally.failures.length >= this.#failuresMax;
  }

  /** @returns which of the states it recovers to that it may; null if it is wrong, which is noted */
  async #check(
    key: string,
    image: Image,
    allowed: Model[],
    counted: string,
    where: string,
  ): Promise<Model | null> {
    if (!this.#counted.has(key)) {
      this.#counted.add(key);
      this.#tally.counts[counted] = (this.#tally.counts[counted] ?? 0) + 1;
    }
    let recovered = this.#recovered.get(key);
    if (!recovered) {
      const isRead = counted === STATES || this.#random() * READ_ONE_IN < 1;
      recovered = await this.#recover(image, isRead);
      this.#recovered.set(key, recovered);
    }
    const matched = allowed.find((model) => model.signature === recovered.signature);
    const standing =
      findCanary(image, (allowed[0] as Model).gone) ??
      (matched ? findCanary(recovered.image, matched.gone) : null);
    const problem =
      recovered.problem ??
      (matched
        ? standing && `what was erased stands there: ${standing}`
        : `it is neither what was acknowledged nor that with what was in flight:\n${recovered.signature}\nexpected one of\n${allowed.map((model) => model.signature).join("\n")}`);
    if (problem === null) return matched as Model;
    this.#fail(problem, image, where);
    return null;
  }

  #fail(what: string, image: Image, where: string) {
    const { failures } = this.#tally;
    const name = this.#workload.join(",") || "(prelude)";
    const folder = join(this.#keep, `crash-${name}-${failures.length + 1}`);
    writeImage(image, folder);
    writeFileSync(join(folder, "what.txt"), `${name}\n${where}\n${what}\n`);
    failures.push({
      what: `${name}: ${where}: ${what}`,
      repeat: `SEED=${this.#run.seed} CRASH_WORKLOAD=${this.#workload.join()} (the state is in ${folder})`,
    });
  }

  /** Opens a store as it is on a disk, and serves all that it holds; a write may follow. */
  async #serve(
    disk: SimDisk,
    { readOnly = false, thenWrite = false } = {},
  ): Promise<[Told, ...Told[]]> {
    const views: Views = new Map();
    const handles = new Map<string, Agent>();
    let store: Store;
    try {
      store = await Store.open(STORE, { ...options(disk, 3), readOnly });
    } catch (error) {
      if (!readOnly || !hasCode(error, "NO_STORE")) throw error;
      return [{ views, at: 0 }];
    }
    for (const name of store.agentNames()) {
      const known = this.#untouched.get(name);
      if (known) {
        views.set(name, known.view);
        continue;
      }
      const token = this.#tokens.get(name);
      if (!token) throw new Error(`there is an agent ${name} that nobody created`);
      const agent = await store.openAgent(token);
      handles.set(name, agent);
      views.set(name, await viewOf(agent));
    }
    const told: [Told, ...Told[]] = [{ views, at: disk.journal.length }];
    if (thenWrite) told.push(...(await this.#write(store, disk, views, handles)));
    for (const agent of handles.values()) await agent.close();
    return told;
  }

  /** A write to the newest agent that is open; where there is none, to one that is created. */
  async #write(
    store: Store,
    disk: SimDisk,
    before: Views,
    handles: Map<string, Agent>,
  ): Promise<Told[]> {
    const told: Told[] = [];
    let [name, agent] = [...handles].at(-1) ?? [];
    const tell = async (name: string, agent: Agent) => {
      const at = disk.journal.length;
      told.push({ views: new Map(before).set(name, await viewOf(agent)), at });
    };
    if (!name || !agent) {
      name = WRITTEN_TO;
      const { token } = await store.createAgent(name);
      this.#tokens.set(name, token);
      agent = await store.openAgent(token);
      handles.set(name, agent);
      await tell(name, agent);
    }
    await agent.addLot("page", "written after the recovery");
    await tell(name, agent);
    return told;
  }

  /** Recovers a state, and looks at everything that can be looked at without knowing what it should be. */
  async #recover(image: Image, isRead: boolean): Promise<Recovered> {
    try {
      const disk = SimDisk.fromImage(image);
      const served = signature((await this.#serve(disk))[0].views);
      const after = disk.image();
      const settled = await this.#settle(after);
      const wrong = (problem: string) => ({ problem, signature: served, image: after });
      if (settled.problem) return wrong(settled.problem);
      if (settled.signature !== served)
        return wrong(`it served one thing, and another after it was opened again`);
      for (const [name, { id, key }] of this.#untouched)
        if (folderKey(after, id) !== key) return wrong(`a byte of ${name} was changed`);
      const problem = isRead ? await this.#problemOfReading(image, served) : null;
      return { problem, signature: served, image: after };
    } catch (error) {
      return { problem: inWords(error), signature: "", image };
    } finally {
      this.#run.timers.forget();
    }
  }

  /** What was recovered once: opening it again changes nothing, verify finds nothing, and it can be written to. */
  async #settle(image: Image): Promise<Recovered> {
    const key = imageKey(image);
    const known = this.#settled.get(key);
    if (known) return known;
    const disk = SimDisk.fromImage(image);
    const [{ views }] = await this.#serve(disk);
    const problem =
      (imageKey(disk.image()) === key ? null : "opening it again changed a byte") ??
      (await this.#damageOf(disk)) ??
      strangeName(image, { isSwept: false }) ??
      (this.#random() * WRITE_ONE_IN < 1 ? await this.#problemOfWriting(image) : null);
    const settled = { problem, signature: signature(views), image };
    this.#settled.set(key, settled);
    return settled;
  }

  async #problemOfReading(image: Image, served: string): Promise<string | null> {
    const disk = SimDisk.fromImage(image);
    const read = signature((await this.#serve(disk, { readOnly: true }))[0].views);
    if (disk.journal.length > 0) return "opening it for reading only wrote something";
    if (read === served) return null;
    return `opened for reading only it serves otherwise:\n${read}\nthan\n${served}`;
  }

  /** Every agent is written to, and something in it erased. */
  async #problemOfWriting(image: Image): Promise<string | null> {
    const disk = SimDisk.fromImage(image);
    const store = await Store.open(STORE, options(disk, 3));
    const views = new Map([...this.#untouched].map(([name, { view }]) => [name, view]));
    const gone = new Set<string>();
    for (const name of store.agentNames()) {
      if (this.#untouched.has(name)) continue;
      const agent = await store.openAgent(this.#tokens.get(name) as string);
      await agent.addLot("page", "written after the recovery");
      const texts = new Map<number, string | null>();
      for await (const { id, text } of agent.entries()) texts.set(id, text);
      const [lot] = await agent.findLots({});
      const { erased } = await agent.recall([lot as number], { mode: "strict", disposal: "erase" });
      for (const id of erased)
        for (const canary of texts.get(id)?.match(CANARY) ?? []) gone.add(canary);
      views.set(name, await viewOf(agent));
      await agent.close();
    }
    const after = disk.image();
    const [again] = await this.#serve(SimDisk.fromImage(after));
    if (signature(again.views) !== signature(views))
      return "what was written after the recovery is not there after a further opening";
    const standing = findCanary(after, gone);
    if (standing) return `what was erased after the recovery stands there: ${standing}`;
    return (await this.#damageOf(disk)) ?? strangeName(after, { isSwept: true });
  }

  /** What verify finds in a store; and every token that was kept must be there. */
  async #damageOf(disk: SimDisk): Promise<string | null> {
    const store = await Store.open(STORE, { ...options(disk, 0), readOnly: true });
    const { agents } = await store.verify();
    for (const agent of agents) {
      if ("error" in agent) return `verify: ${agent.error.code}: ${agent.error.message}`;
      const { tornBytes, erasesPending, headMark, snapshot } = agent;
      if (tornBytes > 0 || erasesPending > 0 || headMark !== "ok" || snapshot === "damaged")
        return `verify: ${JSON.stringify({ tornBytes, erasesPending, headMark, snapshot })}`;
    }
    for (const name of store.agentNames()) {
      if (name !== WRITTEN_TO && store.keptToken(name) !== this.#tokens.get(name))
        return `the token that was kept for ${name} is not there`;
    }
    return null;
  }

  /** The power goes again while a state is being recovered and then written to; and again in the recovery of that. */
  async #powerAgain(image: Image, allowed: Model[], where: string, depth: number) {
    const disk = SimDisk.fromImage(image);
    const states = await this.#within(
      disk,
      new PowerLoss(image),
      allowed,
      `${where}, power lost again (${depth})`,
    );
    if (depth >= DEPTH_MAX || states.length === 0) return;
    const next = states[Math.floor(this.#random() * states.length)] as (typeof states)[number];
    await this.#powerAgain(next.image, next.allowed, where, depth + 1);
  }

  /** The process dies, another one recovers with the power on and writes, and then the power goes. */
  async #afterKill(at: number, power: PowerLoss, allowed: Model[], where: string) {
    const disk = SimDisk.afterKill(this.#run.start, this.#run.disk.journal.slice(0, at));
    await this.#within(disk, power.clone(), allowed, `${where}, killed, and recovered by another`);
  }

  /** Recovers what is on a disk and writes to it, and checks every state that the power may leave meanwhile. */
  async #within(
    disk: SimDisk,
    power: PowerLoss,
    allowed: Model[],
    where: string,
  ): Promise<{ image: Image; allowed: Model[] }[]> {
    const begin = disk.journal.length;
    let told: Told[];
    try {
      told = await this.#serve(disk, { thenWrite: true });
    } catch (error) {
      this.#fail(inWords(error), disk.image(), where);
      return [];
    } finally {
      this.#run.timers.forget();
    }
    const is = signature((told[0] as Told).views);
    const matched = allowed.find((model) => model.signature === is);
    if (!matched) {
      this.#fail(`it serves what was never there: ${is}`, disk.image(), where);
      return [];
    }
    const models = told.map(({ views }) => ({ ...toModel(views), gone: matched.gone }));
    const isCreation = allowed.some(({ agents }) => agents < matched.agents);
    const states: { image: Image; allowed: Model[] }[] = [];
    let wasAll = true;
    for (let at = begin + 1; at <= disk.journal.length && !this.isOver; at++) {
      const operation = disk.journal[at - 1] as Operation;
      power.pass(operation);
      if (isFlush(operation) && wasAll && !told.some((one) => one.at === at)) continue;
      // What was served once, and more so what was acknowledged, stays.
      const last = told.findLastIndex((one) => one.at <= at);
      const now = last === -1 ? allowed : models.slice(last, last + 2);
      // An agent that was seen may still be lost until something was acknowledged to stand in it: then its name is flushed.
      if (last === 0 && isCreation) now.push(...allowed);
      const which = `${where}, journal ${at - begin} of it`;
      const left = power.states(STATES_MAX_WITHIN, this.#random);
      wasAll = left.isAll;
      for (const [key, image] of left.states) {
        await this.#check(key, image, now, STATES_WITHIN, which);
        states.push({ image, allowed: now });
      }
    }
    return states;
  }
}

/** After a flush there is no state that there was not before it: only what may be there can have changed. */
function isFlush(operation: Operation): boolean {
  return operation.do === "flush" || operation.do === "flushFolder";
}

function inWords(error: unknown): string {
  if (error instanceof CheeseError) return `${error.code}: ${error.message}`;
  return (error as Error).stack ?? String(error);
}

/** A file or folder that has no place in a store where nothing is under way; what only the next writer sweeps up is let pass, unless it has. */
function strangeName(image: Image, { isSwept }: { isSwept: boolean }): string | null {
  const generations = new Map<string, string[]>();
  for (const [path] of image) {
    const generation = /^(.*\/log)\/(\d+)$/.exec(path);
    if (generation) {
      const [, folder = "", number = ""] = generation;
      generations.set(folder, [...(generations.get(folder) ?? []), number]);
    }
    const token = /^\/s\/tokens\/([0-9a-f]{32})$/.exec(path);
    const isOurs =
      /^\/s(\/(store|agents|locks|tokens|agents\/[0-9a-f]{32}(\/(agent|head|graph|log(\/\d+(\/\d{8}\.seg)?)?))?))?$/.test(
        path,
      ) ||
      (token !== null && image.has(`/s/agents/${token[1]}`)) ||
      (!isSwept && /\/(graph\.tmp|log\/\d+\.new(\/\d{8}\.seg)?)$/.test(path));
    if (!isOurs) return `${path} is left over`;
  }
  for (const [folder, numbers] of generations)
    if (isSwept && numbers.length > 1) return `${folder} holds generations ${numbers.join(", ")}`;
  return null;
}

// ----- the campaign -----

/** Every short workload once, in an order of its own; then longer ones without end. Of two seeds 2n and 2n + 1, each goes through one half of the short ones. */
function* everyWorkload(seed: number): Generator<string[]> {
  // The creation of a store and of its first agent.
  yield [];
  const all = shuffled(shortWorkloads(), chance(Math.floor(seed / 2)));
  const half = Math.ceil(all.length / 2);
  yield* seed % 2 === 0 ? all.slice(0, half) : all.slice(half);
  const random = chance(seed);
  for (;;) {
    const length = 5 + Math.floor(random() * 8);
    yield Array.from({ length }, () => LONGER[Math.floor(random() * LONGER.length)] as string);
  }
}

export function shuffled<T>(items: T[], random: () => number): T[] {
  const order = [...items];
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j] as T, order[i] as T];
  }
  return order;
}

/** Checks workloads in turn, as far as the budget goes. */
export async function crash(
  budget: Budget,
  workloads: Iterable<string[]>,
  { failuresMax = FAILURES_MAX } = {},
): Promise<Tally> {
  const tally: Tally = {
    counts: { workloads: 0, [STATES]: 0, [STATES_WITHIN]: 0 },
    failures: [],
  };
  const timers = new StoppedTimers();
  timers.stop();
  // Files that are not there are asked for at every opening, and where is of interest to nobody.
  const { stackTraceLimit } = Error;
  if (process.env.CRASH_WORKLOAD === undefined) Error.stackTraceLimit = 0;
  try {
    const prelude = new Run(new Map(), timers, budget.seed);
    if (!(await ran(prelude, PRELUDE, tally))) return tally;
    let done = 0;
    for (const workload of workloads) {
      if (!budget.more(done) || tally.failures.length >= failuresMax) break;
      await checkWorkload(workload, prelude, tally, budget, failuresMax);
      tally.counts.workloads = ++done;
    }
  } finally {
    timers.goOn();
    Error.stackTraceLimit = stackTraceLimit;
  }
  return tally;
}

/** Runs operations to their end; notes it where they do not do what they should, with no crash at all. */
async function ran(run: Run, operations: string[], tally: Tally): Promise<boolean> {
  try {
    if (run.agents.size > 0) await run.begin();
    for (const name of operations) await run.step(name);
    return true;
  } catch (error) {
    const repeat = `SEED=${run.seed} CRASH_WORKLOAD=${operations.join()}`;
    tally.failures.push({ what: `${operations}: with no crash: ${inWords(error)}`, repeat });
    return false;
  } finally {
    await run.abandon();
    run.timers.forget();
  }
}

async function checkWorkload(
  workload: string[],
  prelude: Run,
  tally: Tally,
  budget: Budget,
  failuresMax: number,
) {
  const { timers } = prelude;
  if (workload.length === 0) {
    const checker = new Checker(prelude, workload, tally, budget.keep, new Map(), failuresMax);
    await checker.check(0, PRELUDE.indexOf("lot"), STATES_MAX);
    return;
  }
  const run = new Run(prelude.disk.image(), timers, budget.seed, prelude, workload);
  if (!(await ran(run, workload, tally))) return;
  canariesOf.clear();
  const checker = new Checker(run, workload, tally, budget.keep, prelude.views, failuresMax);
  const isLonger = workload.length > 3;
  await checker.check(
    isLonger ? 3 : workload.length - 1,
    workload.length,
    isLonger ? STATES_MAX_LONGER : STATES_MAX,
  );
}

/** The one workload that CRASH_WORKLOAD names, to be looked at again; null if none is named. */
export function onlyWorkload(): string[][] | null {
  const only = process.env.CRASH_WORKLOAD;
  return only === undefined ? null : [only.split(",").filter(Boolean)];
}

export const campaign: Campaign = (budget) =>
  crash(budget, onlyWorkload() ?? everyWorkload(budget.seed));
