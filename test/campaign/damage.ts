// Every kind of damage to the files of a small store of two agents gets its exact verdict, and no wrong text is ever served.
//
// What is expected follows from where the changed bytes stand and from nothing else: from docs/format.md, not from the code.
// First all damage of a kind to one golden store, in an order by the seed; then more than one change at once, at random.

import {
  closeSync,
  mkdirSync,
  openSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { type Agent, CheeseError, Store, type StoreOptions } from "../../src/index.ts";
import { chance } from "../chance.ts";
import type { Campaign, Failure } from "./campaign.ts";
import { countedRandom, type Image, readImage, workFolder, writeImage } from "./stores.ts";

const SECTOR_BYTES = 512;
const HEADER_BYTES = 128;
const NAMES = ["alice", "bob"] as const;
type Name = (typeof NAMES)[number];

// ----- the golden store -----

/** What is known of one agent's files at one moment, read from their bytes as the format says. */
export interface Facts {
  /** Records in the log. */
  records: number;
  generation: number;
  mark: { record: number; done: number } | null;
  snapshot: { record: number; generation: number } | null;
}

/** One agent at one moment: its own files by their name in the agent's folder, and what it then says. */
export interface Moment {
  files: Image;
  facts: Facts;
  texts: (string | null)[];
  fingerprint: string;
}

export interface Golden {
  image: Image;
  tokens: Record<Name, string>;
  ids: Record<Name, string>;
  /** From the oldest to what stands in the image. */
  moments: Record<Name, Moment[]>;
}

/** The store's settings: several segments and a snapshot. */
const OPTIONS: StoreOptions = { segmentBytes: 900, snapshotRecords: 4 };

async function textsOf(agent: Agent): Promise<(string | null)[]> {
  const texts: (string | null)[] = [];
  for await (const { text } of agent.entries()) texts.push(text);
  return texts;
}

/** Two agents, all kinds of records, an erase, a compaction before it, several segments and a snapshot. */
export async function makeGolden(folder: string): Promise<Golden> {
  const random = { now: () => Date.UTC(2026, 0, 1), fillRandom: countedRandom() };
  const store = await Store.open(folder, { ...OPTIONS, ...random });
  const tokens = {} as Golden["tokens"];
  const ids = {} as Golden["ids"];
  const moments: Golden["moments"] = { alice: [], bob: [] };
  for (const name of NAMES) {
    const { token, agent: info } = await store.createAgent(name, { keepToken: true });
    tokens[name] = token;
    ids[name] = info.id;
    let agent = await store.openAgent(token);
    const look = async () => {
      const files = readImage(join(folder, "agents", info.id));
      const { record, fingerprint } = await agent.head();
      const facts = factsOf(files, record);
      moments[name].push({ files, facts, texts: await textsOf(agent), fingerprint });
    };
    /** A moment with the handle at work, as a kill leaves it; and one after a close, with its snapshot. */
    const step = async (work: () => Promise<unknown>) => {
      await work();
      await look();
      await agent.close();
      agent = await store.openAgent(token);
      await look();
    };
    await look();
    await step(async () => {
      await agent.addLot("user_message", "I live in Pune");
      await agent.addLot("web_page", "profile: lives in Pune", { uri: "https://example.com/u/1" });
    });
    await step(async () => {
      await agent.addLot("weather_tool", "Pune: rain");
      await agent.addLot("web_page", "nothing to see", { seen: [1, 2] });
      await agent.remember("user lives in Pune", [[1], [2]]);
      await agent.remember("Pune is rainy", [[3]], { seen: [3] });
    });
    await step(async () => {
      await agent.remember("carry an umbrella", [[5, 6]]);
      await agent.corroborate(5, [4]);
      await agent.recall([4], { mode: "strict" });
    });
    await step(() => agent.compact());
    await step(() => agent.recall([3], { disposal: "erase" }));
    await step(async () => {
      for (const text of ["and", "so", "on"]) await agent.addLot("user_message", text);
    });
    await agent.addLot("user_message", "goodbye");
    await agent.close();
    agent = await store.openAgent(token);
    await look();
    await agent.close();
  }
  return { image: readImage(folder), tokens, ids, moments };
}

/** A header that checks, as docs/format.md has it; null for any other bytes. */
function headerAt(bytes: Buffer, at: number): Buffer | null {
  const header = bytes.subarray(at, at + HEADER_BYTES);
  const isWhole = header.length === HEADER_BYTES && header.toString("latin1", 0, 8) === "CHEESEDB";
  return isWhole && crc32(header.subarray(0, 124)) === header.readUInt32LE(124) ? header : null;
}

function factsOf(files: Image, records: number): Facts {
  const generations = [...files.keys()].flatMap((name) => /^log\/(\d+)$/.exec(name)?.[1] ?? []);
  const slots = [0, SECTOR_BYTES]
    .map((at) => headerAt(files.get("head") ?? Buffer.alloc(0), at))
    .filter((slot) => slot !== null)
    .sort((a, b) => b.readUInt32LE(12) - a.readUInt32LE(12));
  const graph = headerAt(files.get("graph") ?? Buffer.alloc(0), 0);
  const mark = slots[0];
  return {
    records,
    generation: Math.max(...generations.map(Number)),
    mark: mark ? { record: mark.readUInt32LE(52), done: mark.readUInt32LE(60) } : null,
    snapshot: graph ? { record: graph.readUInt32LE(52), generation: graph.readUInt32LE(48) } : null,
  };
}

// ----- damage -----

/** Files with other bytes than the golden ones; null for one that is gone. */
export type Damage = Map<string, Buffer | null>;

export interface Planned {
  /** What kind it is, as it is counted. */
  kind:
    | "bit flips"
    | "truncations"
    | "sectors zeroed"
    | "sectors swapped"
    | "replacements"
    | "many changes";
  what: string;
  /** Made when it is wanted: there are many, and each is as long as a file. */
  make: () => Damage;
}

/** Where the bytes of a file end and its zeros begin. */
export function writtenEnd(bytes: Buffer): number {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return end;
}

const isSegment = (name: string) => name.endsWith(".seg");

function ownerOf(golden: Golden, name: string): Name | null {
  return NAMES.find((owner) => name.includes(golden.ids[owner])) ?? null;
}

function originalOf(golden: Golden, name: string): Buffer {
  return golden.image.get(name) ?? Buffer.alloc(0);
}

/** What verify says of an agent: a code, or how it stands. */
export type Verdict = string;

const standing = (headMark: string, snapshot: string, tornBytes = 0): Verdict =>
  `head mark ${headMark}, snapshot ${snapshot}, ${tornBytes} bytes torn`;
export const WELL = standing("ok", "ok");

/** What a segment with these bytes is: damaged, or with so many torn bytes behind the log's end. */
function judgeSegment(golden: Golden, name: string, now: Buffer | null): "CORRUPT" | number {
  const original = originalOf(golden, name);
  const end = logEnd(golden, name);
  if (!now || now.length < end || !now.subarray(0, end).equals(original.subarray(0, end)))
    return "CORRUPT";
  const behind = Math.max(writtenEnd(now) - end, 0);
  // Zeros may follow a seal; anything else there is no torn batch.
  return behind > 0 && !isLast(golden, name) ? "CORRUPT" : behind;
}

/** Where the log ends in a segment: at its seal, or where a clean close left 64 KiB of zeros behind it. */
function logEnd(golden: Golden, name: string): number {
  const { length } = originalOf(golden, name);
  return isLast(golden, name) ? length - 64 * 1024 : length;
}

function isLast(golden: Golden, name: string): boolean {
  const number = Number(name.slice(-12, -4));
  const next = `${name.slice(0, -12)}${String(number + 1).padStart(8, "0")}.seg`;
  return !golden.image.has(next);
}

/** The slots of a head mark that are this agent's own, wherever they stand. */
function judgeHead(golden: Golden, name: string, now: Buffer | null): string {
  const owner = golden.ids[ownerOf(golden, name) ?? "alice"];
  const own = [0, SECTOR_BYTES].filter((at) => {
    const header = headerAt(now ?? Buffer.alloc(0), at);
    return header?.readUInt16LE(10) === 4 && header.toString("hex", 32, 48) === owner;
  });
  return ["missing", "one slot damaged", "ok"][own.length] as string;
}

/** What verify must say of an agent whose files have some damage; what befalls one is nothing to the other. */
export function expectedVerdict(golden: Golden, owner: Name, damage: Damage): Verdict {
  let headMark = "ok";
  let snapshot = "ok";
  let torn = 0;
  let code: string | null = null;
  for (const [name, now] of damage) {
    if (ownerOf(golden, name) !== owner) continue;
    const original = golden.image.get(name);
    if (original && now?.equals(original)) continue;
    if (name.endsWith("/agent")) {
      // Its name does not check: it is no agent of that name.
      return "NO_AGENT";
    }
    if (isSegment(name)) {
      // One that is not due.
      const found = original ? judgeSegment(golden, name, now) : "CORRUPT";
      if (found === "CORRUPT") code = "CORRUPT";
      else torn += found;
    } else if (name.endsWith("/head")) {
      headMark = judgeHead(golden, name, now);
    } else if (name.endsWith("/graph")) {
      snapshot = now ? "damaged" : "none";
    }
  }
  return code ?? standing(headMark, snapshot, torn);
}

// ----- the bench -----

/** The golden store in a folder, where files are damaged in place and put right again. */
export class Bench {
  readonly golden: Golden;
  readonly folder: string;
  #store: Store | null = null;
  #touched: Damage = new Map();

  constructor(golden: Golden, folder: string) {
    this.golden = golden;
    this.folder = folder;
    writeImage(folder, golden.image);
  }

  /** @throws CheeseError when the store itself cannot be opened */
  async store(): Promise<Store> {
    const isTouched = this.#touched.has("store");
    if (isTouched || !this.#store) {
      const opened = await Store.open(this.folder, { readOnly: true });
      if (isTouched) return opened;
      this.#store = opened;
    }
    return this.#store;
  }

  lay(damage: Damage) {
    for (const [name, bytes] of damage) {
      this.#touched.set(name, bytes);
      this.#put(name, bytes, this.golden.image.get(name) ?? null);
    }
  }

  restore() {
    for (const [name, bytes] of this.#touched)
      this.#put(name, this.golden.image.get(name) ?? null, bytes);
    this.#touched = new Map();
  }

  /** Only what differs is written, since most of a segment is zeros. */
  #put(name: string, bytes: Buffer | null, before: Buffer | null) {
    const path = join(this.folder, name);
    if (!bytes) return rmSync(path, { force: true });
    if (!before) {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      return writeFileSync(path, bytes, { mode: 0o600 });
    }
    const to = Math.max(writtenEnd(bytes), Math.min(writtenEnd(before), bytes.length));
    const file = openSync(path, "r+");
    writeSync(file, bytes, 0, to, 0);
    closeSync(file);
    if (bytes.length !== before.length) truncateSync(path, bytes.length);
  }

  async verdict(owner: Name): Promise<Verdict> {
    try {
      const { headMark, snapshot, tornBytes, erasesPending } = await (
        await this.store()
      ).verifyAgent(owner);
      if (erasesPending > 0) return `${erasesPending} erases pending`;
      return standing(headMark, snapshot, tornBytes);
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      return error.code;
    }
  }

  /** Reads everything that an agent serves; every text is the one of that moment, or it is refused as damage. */
  async requireServesRight(owner: Name, texts: (string | null)[]) {
    let agent: Agent;
    try {
      agent = await (await this.store()).openAgent(this.golden.tokens[owner]);
    } catch (error) {
      if (error instanceof CheeseError && error.code === "CORRUPT") return;
      throw error;
    }
    try {
      for (const [i, text] of texts.entries()) {
        let served: string | null;
        try {
          served = await agent.text(i + 1);
        } catch (error) {
          // A log cut where a snapshot begins may be shorter than it was.
          if (error instanceof CheeseError && ["CORRUPT", "NO_ENTRY"].includes(error.code))
            continue;
          throw error;
        }
        if (served !== text) throw new Error(`${owner} serves "${served}" as entry ${i + 1}`);
      }
    } finally {
      await agent.close();
    }
  }

  /** Lays the damage, judges it, and puts the files right again. */
  async check({ make }: Planned, { readsToo }: { readsToo: boolean }) {
    const { golden } = this;
    const damage = make();
    this.lay(damage);
    try {
      if (damage.has("store")) return await this.#checkStore(damage);
      for (const owner of NAMES) {
        // The other one is looked at now and then.
        const isTouched = [...damage.keys()].some((name) => ownerOf(golden, name) === owner);
        if (!isTouched && !readsToo) continue;
        const wanted = expectedVerdict(golden, owner, damage);
        const found = await this.verdict(owner);
        if (found !== wanted)
          throw new Error(`verify says of ${owner} "${found}", expected "${wanted}"`);
        if (wanted === "NO_AGENT") await this.#checkAgentFile(owner, damage);
        const moment = golden.moments[owner].at(-1) as Moment;
        if (readsToo) await this.requireServesRight(owner, moment.texts);
      }
      for (const owner of NAMES) await this.#checkToken(owner, damage);
    } finally {
      this.restore();
    }
  }

  async #checkStore(damage: Damage) {
    const now = damage.get("store");
    const isSame = now?.equals(originalOf(this.golden, "store")) ?? false;
    const wanted = isSame ? null : now ? "CORRUPT" : "NO_STORE";
    for (const options of [{ readOnly: true }, {}]) {
      let found: string | null = null;
      try {
        await Store.open(this.folder, options);
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        found = error.code;
      }
      if (found !== wanted) throw new Error(`opening the store gives ${found}, expected ${wanted}`);
    }
  }

  /** An agent whose file is damaged is listed as such by its id, and opens for nobody. */
  async #checkAgentFile(owner: Name, damage: Damage) {
    const { ids } = this.golden;
    const store = await this.store();
    const listed = (await store.agents()).filter(({ name }) => name !== "alice" && name !== "bob");
    const nameless = NAMES.filter(
      (name) => expectedVerdict(this.golden, name, damage) === "NO_AGENT",
    ).map((name) => ids[name]);
    if (listed.map(({ id }) => id).join() !== nameless.toSorted().join())
      throw new Error(`the damaged agents are said to be ${JSON.stringify(listed)}`);
    try {
      await store.openAgent(this.golden.tokens[owner]);
    } catch (error) {
      if (error instanceof CheeseError && error.code === "CORRUPT") return;
      throw error;
    }
    throw new Error(`${owner} opens without an agent file that checks`);
  }

  /** A kept token opens its own agent or none. */
  async #checkToken(owner: Name, damage: Damage) {
    const name = `tokens/${this.golden.ids[owner]}`;
    // An agent that does not open for other reasons says nothing of the token.
    const isWell = NAMES.every((one) => /^head/.test(expectedVerdict(this.golden, one, damage)));
    if (!damage.has(name) || !isWell) return;
    const store = await this.store();
    const now = damage.get(name) ?? null;
    let kept: string | null = null;
    try {
      kept = store.keptToken(owner);
    } catch (error) {
      // Another agent's is not given out.
      if (!(error instanceof CheeseError) || error.code !== "BAD_TOKEN") throw error;
    }
    if (!now) {
      if (kept !== null) throw new Error(`a token that is gone is given as ${kept}`);
      return;
    }
    const whose = NAMES.find((one) => now.toString("latin1").trim() === this.golden.tokens[one]);
    let opened: string;
    try {
      const agent = await store.openAgent(kept ?? "");
      opened = agent.name;
      await agent.close();
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      opened = error.code;
    }
    const wanted = whose === owner ? owner : "BAD_TOKEN";
    if (opened !== wanted) throw new Error(`the token opens ${opened}, expected ${wanted}`);
  }
}

// ----- kinds of damage -----

function flipped(bytes: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] as number) ^ (1 << bit);
  return copy;
}

const one = (name: string, bytes: Buffer | null): Damage => new Map([[name, bytes]]);

/** Files whose every byte is of interest: the zeros of a segment are looked at in a few places only. */
function* placesOf(name: string, bytes: Buffer): Generator<number> {
  const end = isSegment(name) ? writtenEnd(bytes) : bytes.length;
  for (let at = 0; at < end; at++) yield at;
  if (!isSegment(name)) return;
  for (let at = end; at < Math.min(end + 130, bytes.length); at++) yield at;
  for (let at = end + 130; at < bytes.length; at += 4001) yield at;
  if (end < bytes.length) yield bytes.length - 1;
}

/** Every file that has an expected verdict. */
export function filesOf(golden: Golden): [string, Buffer][] {
  return [...golden.image].filter(
    (file): file is [string, Buffer] => file[1] !== null && !file[0].startsWith("locks"),
  );
}

export function* bitFlips(golden: Golden, files = filesOf(golden)): Generator<Planned> {
  for (const [name, bytes] of files) {
    for (const at of placesOf(name, bytes)) {
      for (let bit = 0; bit < 8; bit++) {
        const make = () => one(name, flipped(bytes, at, bit));
        yield { kind: "bit flips", what: `${name}, byte ${at}, bit ${bit}`, make };
      }
    }
  }
}

export function* truncations(golden: Golden): Generator<Planned> {
  for (const [name, bytes] of filesOf(golden)) {
    for (const length of placesOf(name, bytes)) {
      const make = () => one(name, Buffer.from(bytes.subarray(0, length)));
      yield { kind: "truncations", what: `${name} cut to ${length}`, make };
    }
  }
}

/** Sectors of a file, but of many that hold only zeros just the first and the last. */
function sectorsOf(bytes: Buffer): number[] {
  const sectors: number[] = [];
  const end = writtenEnd(bytes);
  for (let at = 0; at < bytes.length; at += SECTOR_BYTES)
    if (at < end + SECTOR_BYTES || at + SECTOR_BYTES >= bytes.length) sectors.push(at);
  return sectors;
}

export function* sectorsZeroed(golden: Golden): Generator<Planned> {
  for (const [name, bytes] of filesOf(golden)) {
    for (const at of sectorsOf(bytes)) {
      const end = Math.min(at + SECTOR_BYTES, bytes.length);
      const make = () => one(name, Buffer.from(bytes).fill(0, at, end));
      yield { kind: "sectors zeroed", what: `${name}, sector at ${at}`, make };
    }
  }
}

/** Every two sectors of all files of both agents, changed for each other. */
export function* sectorsSwapped(golden: Golden): Generator<Planned> {
  const sectors = filesOf(golden)
    .filter(([name]) => ownerOf(golden, name))
    .flatMap(([name, bytes]) => sectorsOf(bytes).map((at) => ({ name, at })));
  for (const [i, a] of sectors.entries()) {
    for (const b of sectors.slice(i + 1)) {
      const what = `sector ${a.at} of ${a.name} for ${b.at} of ${b.name}`;
      yield { kind: "sectors swapped", what, make: () => swapSectors(golden, a, b) };
    }
  }
}

interface Sector {
  name: string;
  at: number;
}

function swapSectors(golden: Golden, a: Sector, b: Sector): Damage {
  const damage: Damage = new Map();
  const bytesOf = ({ name, at }: Sector) =>
    originalOf(golden, name).subarray(at, at + SECTOR_BYTES);
  for (const [to, from] of [
    [a, b],
    [b, a],
  ] as const) {
    const copy = damage.get(to.name) ?? Buffer.from(originalOf(golden, to.name));
    bytesOf(from).copy(copy, to.at);
    damage.set(to.name, copy);
  }
  return damage;
}

/** Each file removed, doubled, or replaced by any other of its kind: another segment, the other agent's, or an older one of its own. */
export function* replacements(golden: Golden): Generator<Planned> {
  const files = filesOf(golden);
  const kindOf = (name: string) => (isSegment(name) ? "segment" : name.replace(/[0-9a-f]{32}/, ""));
  for (const [name, bytes] of files) {
    yield { kind: "replacements", what: `${name} removed`, make: () => one(name, null) };
    yield { kind: "replacements", what: `${name} emptied`, make: () => one(name, Buffer.alloc(0)) };
    for (const [other, others] of files) {
      if (other === name || kindOf(other) !== kindOf(name)) continue;
      yield { kind: "replacements", what: `${name} by ${other}`, make: () => one(name, others) };
      const swapped: Damage = new Map([
        [name, others],
        [other, bytes],
      ]);
      yield { kind: "replacements", what: `${name} and ${other} swapped`, make: () => swapped };
    }
    if (!isSegment(name)) continue;
    // Under the next number, behind the last.
    const last = Number(
      files
        .findLast(
          ([other]) => isSegment(other) && ownerOf(golden, other) === ownerOf(golden, name),
        )?.[0]
        .slice(-12, -4),
    );
    const next = `${name.slice(0, -12)}${String(last + 1).padStart(8, "0")}.seg`;
    yield { kind: "replacements", what: `${name} again as ${next}`, make: () => one(next, bytes) };
    for (const older of olderOf(golden, name))
      yield { kind: "replacements", what: `${name} as it was`, make: () => one(name, older) };
  }
}

/** What a segment was at earlier moments, where it was anything else. */
function olderOf(golden: Golden, name: string): Buffer[] {
  const owner = ownerOf(golden, name) ?? "alice";
  const inAgent = name.slice(name.indexOf(golden.ids[owner]) + golden.ids[owner].length + 1);
  const found: Buffer[] = [];
  for (const { files } of golden.moments[owner]) {
    const older = files.get(inAgent);
    const isKnown = [originalOf(golden, name), ...found].some((known) => older?.equals(known));
    if (older && !isKnown) found.push(older);
  }
  return found;
}

/**
 * Several changes of any kind at once. Not to an agent's log and its head mark both: what is behind the mark that is left is
 * then told from torn only where a whole batch follows, and the tests without a head mark look at that.
 */
export function manyChanges(golden: Golden, random: () => number): Planned {
  const below = (count: number) => Math.floor(random() * count);
  const sparesHead = random() < 0.7;
  const files = filesOf(golden).filter(
    ([name]) => ownerOf(golden, name) && !(sparesHead ? name.endsWith("/head") : isSegment(name)),
  );
  const damage: Damage = new Map();
  const told: string[] = [];
  for (let left = 2 + below(4); left > 0; left--) {
    const [name] = files[below(files.length)] as [string, Buffer];
    const bytes = damage.get(name) ?? Buffer.from(originalOf(golden, name));
    const near = Math.min(bytes.length, writtenEnd(bytes) + (random() < 0.2 ? 2000 : 20));
    const at = below(near);
    const length = 1 + below(random() < 0.5 ? 4 : 200);
    const how = below(4);
    told.push(`${name} at ${at}, ${length} bytes, way ${how}`);
    if (how === 0) bytes.fill(0, at, Math.min(at + length, bytes.length));
    else if (how === 1)
      for (let i = at; i < Math.min(at + length, bytes.length); i++) bytes[i] = below(256);
    else if (how === 2) bytes.copy(bytes, at, below(near), below(near));
    else if (bytes.length > 0) bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8));
    damage.set(name, bytes);
  }
  return { kind: "many changes", what: told.join("; "), make: () => damage };
}

// ----- rolling back -----

/** Parts of an agent's folder that may be of one moment while the rest is of another. */
export interface Mixture {
  owner: Name;
  log: number;
  head: number;
  graph: number;
}

export function* mixtures(golden: Golden): Generator<Mixture> {
  for (const owner of NAMES) {
    const count = golden.moments[owner].length;
    for (let log = 0; log < count; log++)
      for (let head = 0; head < count; head++)
        for (let graph = 0; graph < count; graph++) yield { owner, log, head, graph };
  }
}

/** What verify says of a log of one moment with the head mark and the snapshot of others. */
export function expectedOfMixture(golden: Golden, { owner, log, head, graph }: Mixture): Verdict {
  const at = (moment: number) => (golden.moments[owner][moment] as Moment).facts;
  const { records, generation } = at(log);
  const { mark } = at(head);
  const { snapshot } = at(graph);
  // A log that ends before either has lost its end.
  if (mark && mark.record > records) return "CORRUPT";
  if (snapshot && snapshot.record > records) return "CORRUPT";
  const health = !snapshot ? "none" : snapshot.generation === generation ? "ok" : "stale";
  return standing("ok", health);
}

/** Puts an agent's folder together from several moments, and looks at it with every fingerprint that was ever given. */
export async function checkMixture(bench: Bench, mixture: Mixture) {
  const { golden, folder } = bench;
  const { owner, log, head, graph } = mixture;
  const all = golden.moments[owner];
  const at = (moment: number) => all[moment] as Moment;
  const files: Image = new Map();
  for (const [name, bytes] of at(log).files)
    if (name !== "head" && name !== "graph") files.set(name, bytes);
  for (const [name, moment] of [
    ["head", head],
    ["graph", graph],
  ] as const) {
    const bytes = at(moment).files.get(name);
    if (bytes) files.set(name, bytes);
  }
  const place = join(folder, "agents", golden.ids[owner]);
  writeImage(place, files);
  try {
    await judgeMixture(bench, mixture);
  } finally {
    writeImage(place, (all.at(-1) as Moment).files);
  }
}

async function judgeMixture(bench: Bench, mixture: Mixture) {
  const { golden } = bench;
  const { owner, log } = mixture;
  const all = golden.moments[owner];
  const { facts, texts } = all[log] as Moment;
  const wanted = expectedOfMixture(golden, mixture);
  const found = await bench.verdict(owner);
  if (found !== wanted) throw new Error(`verify says "${found}", expected "${wanted}"`);
  const other = NAMES.find((name) => name !== owner) as Name;
  if ((await bench.verdict(other)) !== WELL) throw new Error(`${other} is concerned by ${owner}`);
  await bench.requireServesRight(owner, texts);
  if (wanted === "CORRUPT") return;
  // Without a head mark or a snapshot that is newer only a fingerprint kept elsewhere tells.
  const store = await bench.store();
  for (const { facts: kept, fingerprint } of all) {
    let said = "ok";
    try {
      await store.verifyAgent(owner, { expect: fingerprint });
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      said = error.code;
    }
    const due = kept.records > facts.records ? "HEAD_MISMATCH" : "ok";
    if (said !== due)
      throw new Error(`expecting record ${kept.records} gives ${said}, and should ${due}`);
  }
}

// ----- the campaign -----

function shuffled<T>(items: Iterable<T>, random: () => number): T[] {
  const list = [...items];
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j] as T, list[i] as T];
  }
  return list;
}

/** In so many cases one, all texts are read too, and the other agent is looked at. */
const READS = 5;

export const damage: Campaign = async ({ seed, more, keep }) => {
  const random = chance(seed);
  const work = workFolder();
  const counts: Record<string, number> = {};
  const failures: Failure[] = [];
  let done = 0;
  try {
    const golden = await makeGolden(join(work, "golden"));
    const bench = new Bench(golden, join(work, "bench"));
    const attempt = async (kind: string, what: string, check: () => Promise<void>) => {
      done++;
      counts[kind] = (counts[kind] ?? 0) + 1;
      try {
        await check();
      } catch (error) {
        failures.push({
          what: `${what}: ${(error as Error).message}`,
          repeat: `SEED=${seed}, case ${done}`,
        });
      }
    };
    const tryOne = (planned: Planned) =>
      attempt(planned.kind, planned.what, async () => {
        const readsToo = done % READS === 0;
        try {
          await bench.check(planned, { readsToo });
        } catch (error) {
          bench.lay(planned.make());
          writeImage(join(keep, `damage-${seed}-${done}`), readImage(bench.folder));
          bench.restore();
          throw error;
        }
      });
    // The small kinds first, so that a short run has some of each; then every bit, from a place by the seed.
    const kinds = [replacements, sectorsZeroed, sectorsSwapped, truncations].map((kind) =>
      shuffled(kind(golden), random),
    );
    for (const planned of kinds.flat()) {
      if (!more(done)) break;
      await tryOne(planned);
    }
    for (const mixture of shuffled(mixtures(golden), random)) {
      if (!more(done)) break;
      const what = `${mixture.owner} with the log of moment ${mixture.log}, the head mark of ${mixture.head}, the snapshot of ${mixture.graph}`;
      await attempt("rollbacks", what, () => checkMixture(bench, mixture));
    }
    for (const [name, bytes] of shuffled(filesOf(golden), random)) {
      for (const planned of bitFlips(golden, [[name, bytes]])) {
        if (!more(done)) break;
        await tryOne(planned);
      }
    }
    while (more(done)) await tryOne(manyChanges(golden, random));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return { counts, failures };
};

export const campaign = damage;
