// Decides which entries die when some are recalled: fair, strict or contact. Graph in, decision out; the graph is left as it
// was found, or with the legs broken for who carries the decision out next.
//
// fair     a worklist: an entry dies → each leg it stands in breaks once → a memory whose last holding leg broke dies
// strict   dies whatever is below the target: reached through any leg ever declared, broken legs and dead memories included
// contact  as strict, and also through what was seen
//
// A target carries the widest mode and disposal of all its recalls, and all targets of one call die at once. The work is
// proportional to the edges of what dies (for strict, contact and erase: of what lies below).

import { NO_IDS, NumberList } from "./arrays.ts";
import type { IdList, RecallSpine } from "./codec.ts";
import { DEAD, type Decided, disposalOf, FLAGS, type Graph, Layer } from "./graph.ts";
import type { SeenIndex } from "./seen.ts";
import type { Disposal, Mode } from "./terms.ts";

/** What a recall would do. Entry lists ascend. */
export interface Decision extends RecallSpine, Decided {
  /** Every entry whose text goes. */
  erased: IdList;
  /** For removed[i]: the leg that broke last, and by which parent. */
  readonly reasons: Reasons;
  /** It kills nothing, erases nothing, and raises no target's mode or disposal. */
  isNoop: boolean;
}

export interface Reasons {
  /** -1 says that the parent was seen. */
  leg: Int32Array;
  parent: Uint32Array;
}

export interface RecallRequest {
  /** Known entries, ascending, each once. */
  targets: IdList;
  mode: Mode;
  disposal: Disposal;
}

const RANK: Record<Mode, number> = { fair: 0, strict: 1, contact: 2 };

/** Whether a decision needs to know who has seen what: if any target is, or was, recalled by contact. */
export function needsSeen(graph: Graph, { targets, mode }: RecallRequest): boolean {
  return mode === "contact" || targets.some((target) => graph.targetMode(target) === "contact");
}

/**
 * @param seen who has seen what, up to the head; null where needsSeen says no
 * @param keepsBroken leaves the legs broken that break: to be carried out, or mended, before anything else is asked of the graph
 */
export function decideRecall(
  graph: Graph,
  request: RecallRequest,
  seen: SeenIndex | null,
  { keepsBroken = false } = {},
): Decision {
  const { targets, mode, disposal } = request;
  const modeOf = (target: number): Mode => {
    const before = graph.targetMode(target);
    return before && RANK[before] > RANK[mode] ? before : mode;
  };
  const inMode = (wanted: Mode) =>
    Array.from(targets.filter((target) => modeOf(target) === wanted));
  const isErased = (target: number) =>
    disposal === "erase" || disposalOf(graph, target) === "erase";

  const dying = new Dying(graph, targets);
  for (const target of targets) if (graph.isAlive(target)) dying.add(target, NO_LEG, 0);
  const targetsDying = dying.order.length;

  const [fair, strict, contact] = [inMode("fair"), inMode("strict"), inMode("contact")];
  const belowContact = walkBelow(graph, contact, seen, false);
  for (const below of [walkBelow(graph, strict, null, false), belowContact]) {
    for (let i = 0; i < below.entries.length; i++) {
      const entry = below.entries.at(i);
      if (graph.isAlive(entry)) dying.add(entry, below.legs.at(i) - 1, below.parents.at(i));
    }
  }
  dying.spread();

  // Where the mark "below an erased target" stands already, whatever was dead has lost its text before: no need to walk.
  const stopAtMark = graph.stragglers.size === 0;
  const toErase = new NumberList();
  const { marked } = scratchFor(graph);
  const eraseIfDead = (entry: number) => {
    if (marked[entry] === 1 || graph.is(entry, FLAGS.gone)) return;
    if (graph.isAlive(entry) && !dying.has(entry)) return;
    marked[entry] = 1;
    toErase.push(entry);
  };
  const below = [...fair, ...strict].filter(isErased);
  const belowErased = walkBelow(graph, below, null, stopAtMark);
  for (const target of below) eraseIfDead(target);
  for (let i = 0; i < belowErased.entries.length; i++) eraseIfDead(belowErased.entries.at(i));
  if (contact.some(isErased)) {
    for (const target of contact) if (isErased(target)) eraseIfDead(target);
    const belowIt = contact.every(isErased)
      ? belowContact
      : walkBelow(graph, contact.filter(isErased), seen, false);
    for (let i = 0; i < belowIt.entries.length; i++) eraseIfDead(belowIt.entries.at(i));
  }
  if (dying.hasMarked)
    for (const entry of dying.order.view())
      if (graph.is(entry, FLAGS.belowErased)) eraseIfDead(entry);

  const contactBelow = new NumberList();
  if (mode === "contact") {
    const isTarget = new Set(targets);
    for (const entry of belowContact.entries.view())
      if (!isTarget.has(entry) && !dying.has(entry)) contactBelow.push(entry);
  }
  const raises = targets.some(
    (target) =>
      graph.targetMode(target) !== modeOf(target) ||
      (disposal === "erase" && disposalOf(graph, target) !== "erase"),
  );
  const removed = dying.order.slice(targetsDying).sort();
  const erased = toErase.sorted();
  const alsoErased =
    disposal === "erase" ? erased.filter((entry) => !dying.isRemoved(entry)) : erased;
  const { brokenLegs, losers } = dying.broken();
  const reasons = dying.reasons(removed);
  for (const entry of erased) marked[entry] = 0;
  dying.release();
  if (!keepsBroken) graph.mendLegs({ brokenLegs, losers });
  return {
    targets,
    mode,
    disposal,
    removed,
    alsoErased,
    contactBelow: contactBelow.sorted(),
    explained: NO_IDS,
    brokenLegs,
    losers,
    legsAreBroken: keepsBroken,
    // Under contact more is below than legs lead to.
    belowErased: contact.length === 0 ? belowErased.entries.slice(0) : null,
    erased,
    // In the order of removed, for who looks: to be told what went, nobody need wait for it.
    get reasons() {
      return reasons();
    },
    isNoop: !raises && removed.length === 0 && erased.length === 0 && targetsDying === 0,
  };
}

/**
 * Memories that lose a leg by a decision and live, ascending.
 *
 * @param record the newest when it was decided, or carried out: what died later is told as it was then
 */
export function survivorsOf(
  graph: Graph,
  { targets, removed, losers }: Decision,
  record: number,
): IdList {
  const dying = new Set([...targets, ...removed]);
  const lived = losers.filter((entry) => !dying.has(entry) && graph.livedAt(entry, record)).sort();
  return lived.filter((entry, i) => i === 0 || entry !== lived[i - 1]);
}

const NO_LEG = -1;

/** The entries that die in one decision, in the order in which they do. */
class Dying {
  readonly order: NumberList;
  readonly #graph: Graph;
  readonly #scratch: Scratch;
  readonly #targets: ReadonlySet<number>;
  /** By the order: the leg (+1; 0 for none) that broke last, and by which parent. */
  readonly #legs: NumberList;
  readonly #parents: NumberList;
  /** Legs that break, and the memory that loses each. */
  readonly #broken: NumberList;
  readonly #losers: NumberList;
  /** Those of all that die. */
  #flagsSeen = 0;

  constructor(graph: Graph, targets: IdList) {
    this.#graph = graph;
    this.#scratch = scratchFor(graph);
    this.#targets = new Set(targets);
    [this.order, this.#legs, this.#parents, this.#broken, this.#losers] = this.#scratch.lists;
    for (const list of this.#scratch.lists) list.length = 0;
  }

  /** Whether one of them is marked as below an erased target. */
  get hasMarked(): boolean {
    return (this.#flagsSeen & FLAGS.belowErased) !== 0;
  }

  has(entry: number): boolean {
    return this.#scratch.dying[entry] === 1;
  }

  isRemoved(entry: number): boolean {
    return this.#scratch.dying[entry] === 1 && !this.#targets.has(entry);
  }

  add(entry: number, leg: number, parent: number) {
    const { dying } = this.#scratch;
    if (dying[entry] === 1) return;
    dying[entry] = 1;
    this.#flagsSeen |= this.#graph.flags[entry] as number;
    this.order.push(entry);
    this.#legs.push(leg + 1);
    this.#parents.push(parent);
  }

  /**
   * Breaks every leg that a dying entry stands in, until no more memory loses its last.
   *
   * The legs are broken in the graph itself: a recall's time goes into memory that no cache holds, and counts kept apart
   * would be as much again.
   */
  spread() {
    for (let from = 0; from < this.order.length; ) {
      const to = this.order.length;
      this.#graph.lookBelow(this.order.view(), from, to, this.#scratch.layer);
      this.#breakLegs(this.#scratch.layer);
      from = to;
    }
  }

  /** Each leg of a layer, once; a step for all of them before the next, as in `lookBelow`. */
  #breakLegs(layer: Layer) {
    const { flags, holding, legBroken } = this.#graph;
    const { dying } = this.#scratch;
    const { legs, parents, owners } = layer;
    let broken = 0;
    for (let i = 0; i < layer.count; i++) {
      const leg = legs[i] as number;
      const bit = 1 << (leg & 31);
      const word = legBroken[leg >>> 5] as number;
      if (word & bit) continue;
      legBroken[leg >>> 5] = word | bit;
      legs[broken] = leg;
      parents[broken] = parents[i] as number;
      owners[broken++] = owners[i] as number;
    }
    this.#broken.append(legs, broken);
    this.#losers.append(owners, broken);
    let unheld = 0;
    for (let i = 0; i < broken; i++) {
      const owner = owners[i] as number;
      const left = (holding[owner] as number) - 1;
      holding[owner] = left;
      legs[unheld] = legs[i] as number;
      parents[unheld] = parents[i] as number;
      owners[unheld] = owner;
      // One more if none is left: a branch would be guessed wrong as often as not, and each time wait for the memory.
      unheld += (left - 1) >>> 31;
    }
    let deaths = 0;
    let flagsSeen = 0;
    for (let i = 0; i < unheld; i++) {
      const owner = owners[i] as number;
      const is = flags[owner] as number;
      if (dying[owner] === 1 || is & DEAD) continue;
      dying[owner] = 1;
      flagsSeen |= is;
      owners[deaths] = owner;
      legs[deaths] = (legs[i] as number) + 1;
      parents[deaths++] = parents[i] as number;
    }
    this.#flagsSeen |= flagsSeen;
    this.order.append(owners, deaths);
    this.#legs.append(legs, deaths);
    this.#parents.append(parents, deaths);
  }

  broken() {
    return { brokenLegs: this.#broken.slice(0), losers: this.#losers.slice(0) };
  }

  reasons(removed: IdList): () => Reasons {
    // Copies: the lists are used again.
    const [order, legs, parents] = [
      this.order.slice(0),
      this.#legs.slice(0),
      this.#parents.slice(0),
    ];
    return once(() => {
      const place = new Map<number, number>();
      for (const [i, entry] of order.entries()) place.set(entry, i);
      const at = (entry: number) => place.get(entry) as number;
      return {
        leg: Int32Array.from(removed, (entry) => (legs[at(entry)] as number) - 1),
        parent: Uint32Array.from(removed, (entry) => parents[at(entry)] as number),
      };
    });
  }

  /** Leaves the scratch as it was found. */
  release() {
    const { dying } = this.#scratch;
    const order = this.order.view();
    for (let i = 0; i < order.length; i++) dying[order[i] as number] = 0;
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** What lies below some entries, they themselves left out, with the leg (+1; 0 for seen) and parent that led there. */
interface Below {
  entries: NumberList;
  legs: NumberList;
  parents: NumberList;
}

/**
 * Everything reached through any leg ever declared, and through what was seen if `seen` is given.
 *
 * @param stopAtMark leaves out what is marked as below an erased target already
 */
function walkBelow(
  graph: Graph,
  origins: number[],
  seen: SeenIndex | null,
  stopAtMark: boolean,
): Below {
  const below: Below = {
    entries: new NumberList(),
    legs: new NumberList(),
    parents: new NumberList(),
  };
  if (origins.length === 0) return below;
  const { visited, layer } = scratchFor(graph);
  const reach = (entry: number, leg: number, parent: number) => {
    if (visited[entry] === 1 || (stopAtMark && graph.is(entry, FLAGS.belowErased))) return;
    visited[entry] = 1;
    below.entries.push(entry);
    below.legs.push(leg + 1);
    below.parents.push(parent);
  };
  const walk = (entries: Uint32Array, from: number, to: number) => {
    graph.lookBelow(entries, from, to, layer);
    const { legs, parents, owners, count } = layer;
    for (let i = 0; i < count; i++)
      reach(owners[i] as number, legs[i] as number, parents[i] as number);
  };
  const starts = stopAtMark
    ? origins.filter((origin) => !graph.is(origin, FLAGS.belowErased))
    : origins;
  for (const origin of starts) visited[origin] = 1;
  walk(Uint32Array.from(starts), 0, starts.length);
  let walked = 0;
  const walkAll = () => {
    while (walked < below.entries.length) {
      const from = walked;
      walked = below.entries.length;
      walk(below.entries.view(), from, walked);
    }
  };
  walkAll();
  while (seen) {
    const before = below.entries.length;
    seen.forEachWhoSaw(visited, (entry, what) => {
      reach(entry, NO_LEG, what);
      // At once, so that those who saw what was built on it are found in the same round.
      walkAll();
    });
    if (below.entries.length === before) break;
  }
  for (const origin of starts) visited[origin] = 0;
  for (let i = 0; i < below.entries.length; i++) visited[below.entries.at(i)] = 0;
  return below;
}

/** Arrays that each decision finds and leaves all zero, kept so that a decision's cost is what it removes. */
interface Scratch {
  dying: Uint8Array;
  visited: Uint8Array;
  /** Texts that go. */
  marked: Uint8Array;
  layer: Layer;
  /** Not emptied: memory that is new costs more than what is written to it. */
  lists: [NumberList, NumberList, NumberList, NumberList, NumberList];
}

const newLists = (): Scratch["lists"] => [
  new NumberList(),
  new NumberList(),
  new NumberList(),
  new NumberList(),
  new NumberList(),
];

const scratches = new WeakMap<Graph, Scratch>();

function scratchFor(graph: Graph): Scratch {
  let scratch = scratches.get(graph);
  if (!scratch || scratch.dying.length < graph.flags.length) {
    const entries = graph.flags.length;
    scratch = {
      dying: new Uint8Array(entries),
      visited: new Uint8Array(entries),
      marked: new Uint8Array(entries),
      layer: scratch?.layer ?? new Layer(),
      lists: scratch?.lists ?? newLists(),
    };
    scratches.set(graph, scratch);
  }
  return scratch;
}
