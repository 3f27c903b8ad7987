// The graph that everything is measured on, made from a seed: memories that stand on lots, and poison lots among these.
//
// Numbers are those that cheesedb gives: lots 1 .. lots, then the memories, each after all that it stands on. A memory is
//   clean     it stands on clean lots and clean memories
//   doomed    every leg goes through one poison lot: a fair recall of that lot removes it
//   survivor  one leg goes through a poison lot, another does not: it loses a leg and lives
//   shadow    it stands on survivors: only a strict recall would remove it
// Nothing stands on two poison lots, so that they can be recalled one after the other and each takes exactly its own.

import { createHash } from "node:crypto";

/** Lots that are recalled one after the other, each of which removes as many memories. */
export interface PoisonGroup {
  removed: number;
  lots: PoisonLot[];
}

export interface PoisonLot {
  lot: number;
  /** The memories that its fair recall removes, ascending. */
  doomed: Int32Array;
}

export interface Graph {
  memories: number;
  lots: number;
  legs: number;
  edges: number;
  /** Legs of memory i (from 0): legStart[i] .. legStart[i + 1]. */
  legStart: Int32Array;
  /** Parents of leg l: parents[parentStart[l] .. parentStart[l + 1]]. */
  parentStart: Int32Array;
  parents: Int32Array;
  /** By how many are removed, the most first. */
  groups: PoisonGroup[];
  /** The longest chain below a poison lot. */
  depth: number;
}

const LOTS_SHARE = 1 / 20;
/** The first memories stand on lots alone. */
const CLEAN_START_SHARE = 1 / 100;
const TWO_LEGS = 0.3;
const TWO_PARENTS = 0.4;
const DEPTH_MAX = 12;
const MAIN_LOTS = 10;
const OTHER_LOTS = 7;
const EVERYWHERE = 100;
/** Of a group of `removed`: as many survivors, and twice as many shadows. */
const SHARES = [1, 1, 2] as const;
const CLEAN = -1;
const [DOOMED, SURVIVOR, SHADOW] = [0, 1, 2] as const;

/** Group sizes: ten lots that remove 1 % each, and smaller ones for the curve; one of them the same at every size. */
export function groupSizes(memories: number): { removed: number; lots: number }[] {
  const removed = [100, 1000, 10_000].map((share) => Math.floor(memories / share));
  if (!removed.includes(EVERYWHERE) && memories > EVERYWHERE * 100) removed.push(EVERYWHERE);
  return removed
    .filter((removed) => removed >= 10)
    .sort((a, b) => b - a)
    .map((removed, i) => ({ removed, lots: i === 0 ? MAIN_LOTS : OTHER_LOTS }));
}

/** mulberry32: a small generator, so that a seed means the same everywhere. */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function lotCount(memories: number): number {
  return Math.max(100, Math.floor(memories * LOTS_SHARE));
}

export function makeGraph(memories: number, seed = 1): Graph {
  const random = chance(seed);
  const below = (n: number) => (random() * n) | 0;
  const lots = lotCount(memories);

  // Which lots are poison, and what each will have above it.
  const poisons = groupSizes(memories).flatMap(({ removed, lots }) =>
    Array.from({ length: lots }, () => ({ removed })),
  );
  const isPoison = new Uint8Array(lots + 1);
  const above = poisons.map(({ removed }) => {
    let lot: number;
    do lot = 1 + below(lots);
    while (isPoison[lot]);
    isPoison[lot] = 1;
    return {
      lot,
      left: SHARES.map((share) => share * removed),
      doomed: new Int32Array(removed),
      level: new Uint8Array(removed),
      doomedCount: 0,
      /** Survivors and shadows. */
      spared: new Int32Array(removed * (SHARES[SURVIVOR] + SHARES[SHADOW])),
      sparedCount: 0,
      /** So many stand on the lot itself before others stand on them. */
      direct: Math.max(1, removed / 200),
    };
  });

  // Which memory belongs to which poison lot.
  const belongs = new Int8Array(memories).fill(CLEAN);
  const first = Math.floor(memories * CLEAN_START_SHARE);
  const places = Int32Array.from({ length: memories - first }, (_, i) => first + i);
  let chosen = 0;
  for (const [i, { left }] of above.entries()) {
    const wanted = left.reduce((sum, n) => sum + n);
    for (let k = 0; k < wanted; k++, chosen++) {
      const other = chosen + below(places.length - chosen);
      const place = places[other] as number;
      places[other] = places[chosen] as number;
      places[chosen] = place;
      belongs[place] = i;
    }
  }

  const legStart = new Int32Array(memories + 1);
  const parentStart = new Numbers(memories * 1.4);
  const parents = new Numbers(memories * 2);
  const clean = new Int32Array(memories);
  let cleanCount = 0;
  let depth = 0;

  const cleanLot = () => {
    let lot: number;
    do lot = 1 + below(lots);
    while (isPoison[lot]);
    return lot;
  };
  const cleanParent = () => {
    if (cleanCount === 0 || random() < 0.5) return cleanLot();
    const recent = random() < 0.5 ? below(Math.min(cleanCount, 1000)) : below(cleanCount);
    return clean[cleanCount - 1 - recent] as number;
  };
  const addLeg = (parent: number) => {
    parentStart.push(parents.length);
    parents.push(parent);
    if (random() >= TWO_PARENTS) return;
    let second: number;
    do second = cleanParent();
    while (second === parent);
    parents.push(second);
  };

  for (let i = 0; i < memories; i++) {
    const id = lots + 1 + i;
    legStart[i] = parentStart.length;
    const hasTwoLegs = random() < TWO_LEGS;
    const poison = above[belongs[i] as number];
    if (!poison) {
      addLeg(cleanParent());
      if (hasTwoLegs) addLeg(cleanParent());
      clean[cleanCount++] = id;
      continue;
    }
    const { left, doomed, level, spared } = poison;
    let own = 1;
    const doomedParent = () => {
      if (poison.doomedCount < poison.direct || random() < 0.02) return poison.lot;
      let at: number;
      do at = below(poison.doomedCount);
      while ((level[at] as number) >= DEPTH_MAX);
      own = Math.max(own, (level[at] as number) + 1);
      return doomed[at] as number;
    };
    const kind = kindOf(left, poison.doomedCount, poison.sparedCount, below);
    left[kind] = (left[kind] as number) - 1;
    if (kind === DOOMED) {
      addLeg(doomedParent());
      if (hasTwoLegs) addLeg(doomedParent());
      level[poison.doomedCount] = own;
      doomed[poison.doomedCount++] = id;
      depth = Math.max(depth, own);
    } else {
      if (kind === SURVIVOR) {
        const poisonFirst = random() < 0.5;
        addLeg(poisonFirst ? doomedParent() : cleanParent());
        addLeg(poisonFirst ? cleanParent() : doomedParent());
      } else {
        addLeg(spared[below(poison.sparedCount)] as number);
        if (hasTwoLegs) addLeg(spared[below(poison.sparedCount)] as number);
      }
      spared[poison.sparedCount++] = id;
    }
  }
  const legs = parentStart.length;
  legStart[memories] = legs;
  parentStart.push(parents.length);

  const groups: PoisonGroup[] = [];
  for (const { lot, doomed } of above) {
    const last = groups.at(-1);
    if (last?.removed === doomed.length) last.lots.push({ lot, doomed });
    else groups.push({ removed: doomed.length, lots: [{ lot, doomed }] });
  }
  return {
    memories,
    lots,
    legs,
    edges: parents.length,
    legStart,
    parentStart: parentStart.view(),
    parents: parents.view(),
    groups,
    depth,
  };
}

/** What the next memory above a poison lot is: by chance, but nothing stands on what is not there yet. */
function kindOf(left: number[], doomed: number, spared: number, below: (n: number) => number) {
  const [a, b, c] = left as [number, number, number];
  if (doomed === 0 && a > 0) return DOOMED;
  const x = below(a + b + c);
  if (x < a) return DOOMED;
  if (x < a + b) return SURVIVOR;
  if (spared > 0) return SHADOW;
  return b > 0 ? SURVIVOR : DOOMED;
}

/** A list of numbers that grows, without an object for each. */
class Numbers {
  length = 0;
  #list: Int32Array<ArrayBuffer>;

  constructor(hint: number) {
    this.#list = new Int32Array(Math.ceil(hint) + 16);
  }

  push(number: number) {
    if (this.length === this.#list.length) {
      const longer = new Int32Array(this.length * 2);
      longer.set(this.#list);
      this.#list = longer;
    }
    this.#list[this.length++] = number;
  }

  view(): Int32Array<ArrayBuffer> {
    return this.#list.slice(0, this.length);
  }
}

export function legCount({ legStart }: Graph, i: number): number {
  return (legStart[i + 1] as number) - (legStart[i] as number);
}

/** The legs of memory i (from 0), each as its parents. */
export function legsOf({ legStart, parentStart, parents }: Graph, i: number): number[][] {
  const legs: number[][] = [];
  for (let leg = legStart[i] as number; leg < (legStart[i + 1] as number); leg++)
    legs.push([...parents.subarray(parentStart[leg] as number, parentStart[leg + 1] as number)]);
  return legs;
}

/** Every edge: child, number of the leg within the child, parent, and how many legs the child has. */
export function* edgesOf(graph: Graph): Generator<[number, number, number, number]> {
  const { memories, lots, legStart, parentStart, parents } = graph;
  for (let i = 0; i < memories; i++) {
    const from = legStart[i] as number;
    const count = legCount(graph, i);
    for (let leg = from; leg < from + count; leg++)
      for (let e = parentStart[leg] as number; e < (parentStart[leg + 1] as number); e++)
        yield [lots + 1 + i, leg - from, parents[e] as number, count];
  }
}

const WORDS = (() => {
  const random = chance(99);
  const letter = () => String.fromCharCode(97 + ((random() * 26) | 0));
  return Array.from({ length: 512 }, () => Array.from({ length: 7 }, letter).join(""));
})();

/** The text of a memory: ten words, 79 bytes. */
export function textOf(id: number): string {
  let hash = Math.imul(id, 0x9e3779b1) >>> 0;
  let text = WORDS[hash & 511] as string;
  for (let i = 1; i < 10; i++) {
    hash = (Math.imul(hash ^ (hash >>> 15), 0x85ebca6b) + i) >>> 0;
    text += ` ${WORDS[hash >>> 23]}`;
  }
  return text;
}

/** One name for a set of ids: what the engines must agree on. */
export function hashOfIds(ids: Iterable<number>): string {
  const sorted = Int32Array.from(ids).sort();
  return createHash("sha256").update(new Uint8Array(sorted.buffer)).digest("hex").slice(0, 16);
}
