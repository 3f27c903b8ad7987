// Erasure: a canary goes through everything that a store does with a text; then it is erased, and the erase is cut short at
// every step that changes the disk, and so is the recovery. Whatever was cut: once an erase was acknowledged, or its record is
// found, no byte of any file holds the canary in any form, nor what could confirm a guess at it.
//
// A step that is cut short is a process that is killed: what was written stands, half of it if the write was torn. What a loss
// of power leaves is another campaign's. Exports are the user's own files, and lie outside the store.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Disk, File } from "../../src/disk.ts";
import { type Agent, CheeseError, Store } from "../../src/index.ts";
import { formsIn, isByChance } from "../canary.ts";
import { chance } from "../chance.ts";
import { type Image, MemoryDisk } from "../memorydisk.ts";
import type { Campaign, Failure } from "./campaign.ts";
import { collected, FOLDER, fixed } from "./kitchen.ts";
import { below, pick, type Random } from "./mutate.ts";

/** What is erased: a text, where it came from, and what was learned from it. */
export const CANARIES = {
  lot: "Quendoline Birchwhistle keeps 40312 \u00e9clairs in Marzipan Lane",
  uri: "https://zanzibar.example/Fotheringay?q=40312",
  memory: "Fotheringay is said to owe Birchwhistle some Marzipan",
} as const;

/** Of the kind that the engine knows, so that no timer of the dead handle ends the whole campaign. */
const KILLED = new CheeseError("DISK", "the process was killed here");

/** A disk on which the process dies at a step that changes it: from then on nothing is done. */
export class DyingDisk {
  readonly memory: MemoryDisk;
  steps = 0;
  isDead = false;
  #diesAt = Number.POSITIVE_INFINITY;
  #tears = false;

  constructor(memory: MemoryDisk) {
    this.memory = memory;
  }

  /** Dies at the so manyth step from now, from 1; half of it is done if it is a write and `tears`. */
  dieAt(step: number, tears: boolean) {
    this.steps = 0;
    this.#diesAt = step;
    this.#tears = tears;
  }

  #pass(half?: () => void) {
    if (this.isDead) throw KILLED;
    if (++this.steps < this.#diesAt) return;
    if (this.#tears) half?.();
    this.isDead = true;
    throw KILLED;
  }

  get disk(): Disk {
    const memory = this.memory;
    const pass = (half?: () => void) => this.#pass(half);
    const counted =
      <A extends unknown[], R>(call: (...args: A) => R) =>
      (...args: A): R => {
        pass();
        return call(...args);
      };
    const wrap = (file: File): File => ({
      ...file,
      write(bytes, at) {
        pass(() => file.write(bytes.subarray(0, bytes.length >>> 1), at));
        file.write(bytes, at);
      },
      truncate: counted(file.truncate),
      flush: counted(file.flush),
      flushOffThread: counted(file.flushOffThread),
    });
    return {
      open: (path) => wrap(memory.open(path)),
      create: (path) => {
        pass();
        return wrap(memory.create(path));
      },
      stat: (path) => memory.stat(path),
      list: (path) => memory.list(path),
      makeFolder: counted((path: string) => memory.makeFolder(path)),
      rename: counted((from: string, to: string) => memory.rename(from, to)),
      removeFile: counted((path: string) => memory.removeFile(path)),
      removeFolder: counted((path: string) => memory.removeFolder(path)),
      flushFolder: counted((path: string) => memory.flushFolder(path)),
    };
  }
}

/** All bytes of all files, without the zeros that end them: none of the forms has any. */
export function bytesIn(image: Image): Buffer {
  const files: Buffer[] = [];
  for (const bytes of image.values()) {
    if (bytes === null) continue;
    let end = bytes.length;
    while (end > 0 && bytes[end - 1] === 0) end--;
    files.push(bytes.subarray(0, end), Buffer.alloc(1));
  }
  return Buffer.concat(files);
}

/** What of the canaries stands in a store, by its form. */
export function found(image: Image): string[] {
  const bytes = bytesIn(image);
  return Object.entries(CANARIES).flatMap(([name, text]) =>
    formsIn(bytes, text).map((form) => `${form} of the ${name}`),
  );
}

// ----- before the erase -----

interface Before {
  image: Image;
  token: string;
  /** The lots that hold the canary, and the memory that does. */
  lots: number[];
  memory: number;
}

const options = (disk: Disk, seed: number) => ({ ...fixed(disk as MemoryDisk, seed), disk });

/** What is done with a canary beside storing it: each way in which it might get somewhere else. */
const FEATURES: Record<string, (agent: Agent, lot: number) => Promise<unknown>> = {
  list: (agent) => collected(agent.entries()),
  show: (agent, lot) => agent.show(lot),
  why: (agent, lot) => agent.why(lot + 1),
  history: (agent) => collected(agent.history()),
  plan: (agent, lot) => agent.planRecall([lot], { mode: "strict", disposal: "erase" }),
  stale: (agent, lot) => agent.recall([lot], { plan: "fair-erase-0123456789abcdef" }),
  export: (agent) => collected(agent.export({ deadTexts: true })),
  lots: (agent) => agent.findLots({ uriPrefix: CANARIES.uri }),
  refused: (agent) => agent.remember(CANARIES.memory, [[99_999]]),
  session: (agent, lot) => agent.session([lot]).addLot("user_message", "seen it"),
  corroborate: (agent, lot) => agent.corroborate(lot + 1, [1]),
  untrusted: (agent, lot) => agent.recall([lot], { mode: "fair" }),
  compact: (agent) => agent.compact(),
  verify: (agent) => agent.verify(),
  roll: (agent) =>
    agent.addLots(
      Array.from({ length: 12 }, (_, i) => ({ label: "x", text: `roll ${i} `.repeat(12) })),
    ),
};

const quietly = (call: Promise<unknown>) => call.catch(() => {});

/** What a process left that was killed in the middle of something, or nothing. */
const LEFT = ["nothing", "a torn write", "a compaction", "a snapshot", "an erase"] as const;
export type Left = (typeof LEFT)[number];

/** A store that holds the canaries, after some features, as a process left it that was killed. */
export async function storeBefore(
  seed: number,
  features: readonly string[],
  left: Left,
  killedAt: number,
): Promise<Before> {
  const disk = new MemoryDisk();
  const store = await Store.open(FOLDER, options(disk, seed));
  const { token } = await store.createAgent("alice", { keepToken: true });
  const agent = await store.openAgent(token);
  for (const text of ["I live in Pune", "Pune: rain"]) await agent.addLot("user_message", text);
  const lot = await agent.addLot("web_page", CANARIES.lot, { uri: CANARIES.uri });
  const memory = await agent.remember(CANARIES.memory, [[lot]]);
  for (const name of features) await quietly(FEATURES[name]?.(agent, lot) ?? Promise.resolve());
  await store.find(CANARIES.lot);
  await agent.close();
  if (left === "nothing") return { image: disk.image(), token, lots: [lot], memory };

  const dying = new DyingDisk(disk);
  const other = await Store.open(FOLDER, options(dying.disk, seed + 1));
  const killed = await other.openAgent(token);
  await killed.addLot("user_message", "one more");
  dying.dieAt(killedAt, true);
  if (left === "a torn write") {
    const copy = { text: CANARIES.lot, uri: CANARIES.uri, label: "web_page" };
    await quietly(killed.addLots([copy, copy, copy, copy]));
  }
  if (left === "a compaction") {
    // It has something to give back, and copies the living.
    dying.dieAt(Number.POSITIVE_INFINITY, false);
    await killed.recall([2], { disposal: "erase" });
    dying.dieAt(killedAt + 3, true);
    await quietly(killed.compact());
  }
  if (left === "an erase")
    await quietly(killed.recall([lot], { mode: "strict", disposal: "erase" }));
  await quietly(killed.close());
  // A write that was cut short behind its last byte is found whole, and its lots are lots like any other.
  const copy = MemoryDisk.of(disk.image());
  const reader = await Store.open(FOLDER, { ...options(copy, seed), readOnly: true });
  const found = await reader.openAgent(token);
  const all = await collected(found.entries());
  await found.close();
  const lots = all.filter(({ id, uri }) => id === lot || uri === CANARIES.uri).map(({ id }) => id);
  return { image: disk.image(), token, lots, memory };
}

// ----- the erase -----

/** How an erase went: how many steps it took, and the image that it left. */
interface Went {
  steps: number;
  isDead: boolean;
  image: Image;
}

/** Erases the canary in a store, or dies at a step on the way: of the opening, of the erase or of the closing. */
async function erase(
  { image, token, lots }: Before,
  seed: number,
  diesAt: number,
  tears: boolean,
): Promise<Went> {
  const dying = new DyingDisk(MemoryDisk.of(image));
  dying.dieAt(diesAt, tears);
  try {
    const store = await Store.open(FOLDER, options(dying.disk, seed));
    const agent = await store.openAgent(token);
    try {
      const outcome = await agent.recall(lots, { mode: "strict", disposal: "erase" });
      // It was acknowledged: from here on it is gone, whatever comes.
      const left = found(dying.memory.image()).filter((form) => !isByChance(form));
      if (left.length > 0)
        throw new Error(`acknowledged (${outcome.erased.join()}), and there is ${left.join(", ")}`);
      await agent.compact();
    } finally {
      await agent.close();
    }
  } catch (error) {
    if (!dying.isDead) throw error;
  }
  return { steps: dying.steps, isDead: dying.isDead, image: dying.memory.image() };
}

/** Whether the record of the erase is found, and the text with it still served, as a reader sees it who repairs nothing. */
async function asRead({
  image,
  token,
  lots,
  memory,
}: Before): Promise<{ isErased: boolean; serves: boolean }> {
  const store = await Store.open(FOLDER, { ...options(MemoryDisk.of(image), 1), readOnly: true });
  const agent = await store.openAgent(token);
  const told = JSON.stringify([await collected(agent.entries()), await collected(agent.history())]);
  let isErased = true;
  // Of the lots alone a compaction may have dropped the texts, and a memory that another leg holds lives on.
  for (const id of [...lots, memory]) isErased &&= (await agent.get(id)).erased;
  await agent.close();
  return { isErased, serves: told.includes("Quendoline") };
}

/** What is wrong with what a cut left; null when all is well. */
async function faultOf(cut: Before, seed: number): Promise<string | null> {
  const { isErased, serves } = await asRead(cut);
  if (isErased && serves) return "a reader is served what is erased";
  // A writer that opens it finishes the erase, before it does anything else.
  const disk = MemoryDisk.of(cut.image);
  const store = await Store.open(FOLDER, options(disk, seed));
  const agent = await store.openAgent(cut.token);
  if (isErased && found(disk.image()).some((form) => !isByChance(form)))
    return `opened again, and there is ${found(disk.image()).join(", ")}`;
  if (!isErased) await agent.recall(cut.lots, { mode: "strict", disposal: "erase" });
  const again = await agent.verify();
  await agent.close();
  const left = found(disk.image()).filter((form) => !isByChance(form));
  if (left.length > 0) return `erased, and there is ${left.join(", ")}`;
  if (!again.ok || again.erasesPending > 0) return "an erase is pending, or verify finds fault";
  return null;
}

/** Whether a form of four bytes is there whatever the randomness: then it is there by no chance. */
async function standsAgain(make: (seed: number) => Promise<Image>): Promise<string[]> {
  let always = found(await make(1)).filter(isByChance);
  for (let seed = 2; seed < 5 && always.length > 0; seed++) {
    const again = new Set(found(await make(seed)));
    always = always.filter((form) => again.has(form));
  }
  return always;
}

/** One way to come to an erase, and the erase cut short at every step; `tell` hears of each. */
export async function cutEverywhere(
  random: Random,
  features: readonly string[],
  left: Left,
  killedAt: number,
  tell: (name: string, fault: string | null, repeat: string) => boolean,
): Promise<void> {
  const seed = below(random, 2 ** 30);
  const prepared = await storeBefore(seed, features, left, killedAt);
  const where = `after ${features.join(", ") || "no more"}; ${left} at step ${killedAt}`;
  // The control: it is there to be found.
  const isThere = found(prepared.image).includes("utf8 of the lot");
  const isDone = left === "an erase" || features.includes("untrusted");
  if (!isThere && !isDone && !tell("erasures", "the canary is not in the store", where)) return;
  const whole = await erase(prepared, seed + 2, Number.POSITIVE_INFINITY, false);
  for (let step = 1; step <= whole.steps; step++) {
    const tears = random() < 0.5;
    const cut = await erase(prepared, seed + 2, step, tears);
    let image = cut.image;
    let name = "erasures cut short";
    let repeat = `${where}; seed ${seed}, cut at step ${step}${tears ? ", torn" : ""}`;
    // The recovery is cut short in its turn, some times over.
    for (let deep = 0; deep < 3 && random() < 0.3; deep++) {
      const diesAt = 1 + below(random, 8);
      const next = await erase({ ...prepared, image }, seed + 3, diesAt, random() < 0.5);
      image = next.image;
      repeat += `, then at ${diesAt}`;
      name = "erasures cut short in a recovery";
      if (!next.isDead) break;
    }
    const fault = await faultOf({ ...prepared, image }, seed + 4);
    if (!tell(name, fault, repeat)) return;
  }
  const again = await standsAgain(async (other) => {
    const anew = await storeBefore(seed + 100 * other, features, left, killedAt);
    return (await erase(anew, seed + 101 * other, Number.POSITIVE_INFINITY, false)).image;
  });
  tell("erasures", again.length > 0 ? `there is always ${again.join(", ")}` : null, where);
}

export const campaign: Campaign = async (budget) => {
  const counts: Record<string, number> = {};
  const failures: Failure[] = [];
  let done = 0;
  for (let round = 0; budget.more(done) && failures.length < 10; round++) {
    const random = chance(Math.imul(budget.seed + 1, 0x9e37_79b1) ^ round);
    const names = Object.keys(FEATURES);
    const features = Array.from({ length: below(random, 5) }, () => pick(random, names));
    // The first rounds take each of what may be left in turn.
    const left = LEFT[round % LEFT.length] as Left;
    const tell = (name: string, what: string | null, repeat: string) => {
      counts[name] = (counts[name] ?? 0) + 1;
      done++;
      if (what !== null)
        failures.push({ what, repeat: `${repeat}; round ${round} of seed ${budget.seed}` });
      return budget.more(done);
    };
    try {
      await cutEverywhere(random, features, left, 1 + below(random, 12), tell);
    } catch (error) {
      const repeat = `round ${round} of seed ${budget.seed}: ${features.join()}; ${left}`;
      failures.push({ what: String((error as Error).stack), repeat });
    }
  }
  if (failures.length > 0) {
    mkdirSync(budget.keep, { recursive: true });
    writeFileSync(
      join(budget.keep, `erasure-${budget.seed}.json`),
      JSON.stringify(failures, null, 2),
    );
  }
  return { counts, failures };
};
