// Decides which entries die when some are recalled: fair, strict or contact. Pure: graph in, decision out.
//
// fair     a worklist: an entry dies → each leg it stands in breaks once → a memory whose last holding leg broke dies
// strict   dies whatever is below the target: reached through any leg ever declared, broken legs and dead memories included
// contact  as strict, and also through what was seen
//
// A target carries the widest mode and disposal of all its recalls, and all targets of one call die at once. The work is
// proportional to the edges of what dies (for strict, contact and erase: of what lies below).

import { NumberList } from "./arrays.ts";
import type { IdList, RecallSpine } from "./codec.ts";
import { DEAD, disposalOf, FLAGS, type Graph } from "./graph.ts";
import type { SeenIndex } from "./seen.ts";
import type { Disposal, Mode } from "./terms.ts";

/** What a recall would do. Entry lists ascend. */
export interface Decision extends RecallSpine {
  /** Memories that lose a leg and live, and for each one leg that it loses. */
  survivors: IdList;
  survivorLeg: Uint32Array;
  /** Every leg that breaks. */
  brokenLegs: Uint32Array;
  /** Every entry whose text goes. */
  erased: IdList;
  /** For removed[i]: the leg that broke last, and by which parent; a leg of -1 says that the parent was seen. */
  reasonLeg: Int32Array;
  reasonParent: Uint32Array;
  /** It kills nothing, erases nothing, and raises no target's mode or disposal. */
  isNoop: boolean;
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

/** @param seen who has seen what, up to the head; null where needsSeen says no */
export function decideRecall(
  graph: Graph,
  request: RecallRequest,
  seen: SeenIndex | null,
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

  const dying = new Dying(graph);
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
  const isDead = (entry: number) => !graph.isAlive(entry) || dying.has(entry);
  const toErase = new NumberList();
  const marked = new Set<number>();
  const eraseIfDead = (entry: number) => {
    if (marked.has(entry) || graph.is(entry, FLAGS.gone) || !isDead(entry)) return;
    marked.add(entry);
    toErase.push(entry);
  };
  for (const list of [[...fair, ...strict].filter(isErased), contact.filter(isErased)]) {
    for (const target of list) eraseIfDead(target);
  }
  const belowErased = walkBelow(graph, [...fair, ...strict].filter(isErased), null, stopAtMark);
  for (let i = 0; i < belowErased.entries.length; i++) eraseIfDead(belowErased.entries.at(i));
  if (contact.some(isErased)) {
    const below = contact.every(isErased)
      ? belowContact
      : walkBelow(graph, contact.filter(isErased), seen, false);
    for (let i = 0; i < below.entries.length; i++) eraseIfDead(below.entries.at(i));
  }
  for (let i = 0; i < dying.order.length; i++) {
    const entry = dying.order.at(i);
    if (graph.is(entry, FLAGS.belowErased)) eraseIfDead(entry);
  }

  const removed = new NumberList();
  for (let i = targetsDying; i < dying.order.length; i++) removed.push(dying.order.at(i));
  const removedSorted = removed.sorted();
  const erased = toErase.sorted();
  const isRemoved = disposal === "erase" ? new Set(removedSorted) : NOTHING;
  const contactBelow = new NumberList();
  if (mode === "contact") {
    const isTarget = new Set(targets);
    for (let i = 0; i < belowContact.entries.length; i++) {
      const entry = belowContact.entries.at(i);
      if (!isTarget.has(entry) && !dying.has(entry)) contactBelow.push(entry);
    }
  }
  const raises = targets.some(
    (target) =>
      graph.targetMode(target) !== modeOf(target) ||
      (disposal === "erase" && disposalOf(graph, target) !== "erase"),
  );
  const decision: Decision = {
    targets,
    mode,
    disposal,
    removed: removedSorted,
    alsoErased: erased.filter((entry) => !isRemoved.has(entry)),
    contactBelow: contactBelow.sorted(),
    explained: new Uint32Array(0),
    ...dying.survivors(),
    brokenLegs: dying.brokenLegs(),
    erased,
    ...dying.reasons(removedSorted),
    isNoop: !raises && removed.length === 0 && erased.length === 0 && targetsDying === 0,
  };
  dying.release();
  return decision;
}

const NOTHING: ReadonlySet<number> = new Set();
const NO_LEG = -1;

/** The entries that die in one decision, in the order in which they do. */
class Dying {
  readonly order = new NumberList();
  readonly #graph: Graph;
  readonly #scratch: Scratch;
  readonly #legOf: number[] = [];
  readonly #parentOf: number[] = [];
  readonly #broken = new NumberList();
  /** Living memories that lose a leg, and the first leg that each loses. */
  readonly #losers = new NumberList();
  readonly #lostLegs = new NumberList();

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#scratch = scratchFor(graph);
  }

  has(entry: number): boolean {
    return this.#scratch.dying[entry] === 1;
  }

  add(entry: number, leg: number, parent: number) {
    const { dying } = this.#scratch;
    if (dying[entry] === 1) return;
    dying[entry] = 1;
    this.order.push(entry);
    this.#legOf.push(leg);
    this.#parentOf.push(parent);
  }

  /** Breaks every leg that a dying entry stands in, until no more memory loses its last. */
  spread() {
    const {
      flags,
      holding,
      legOwner,
      legBroken,
      settledEntries,
      childStart,
      childLegs,
      tailNext,
      tailLeg,
    } = this.#graph;
    const { legs, lost } = this.#scratch;
    const breakLeg = (leg: number, parent: number) => {
      const bit = 1 << (leg & 31);
      const word = leg >>> 5;
      if (((legBroken[word] as number) | (legs[word] as number)) & bit) return;
      legs[word] = (legs[word] as number) | bit;
      this.#broken.push(leg);
      const owner = legOwner[leg] as number;
      if ((flags[owner] as number) & DEAD) return;
      const lostNow = (lost[owner] as number) + 1;
      lost[owner] = lostNow;
      if (lostNow === 1) {
        this.#losers.push(owner);
        this.#lostLegs.push(leg);
      }
      if (lostNow === holding[owner]) this.add(owner, leg, parent);
    };
    for (let i = 0; i < this.order.length; i++) {
      const entry = this.order.at(i);
      if (entry <= settledEntries) {
        const end = childStart[entry + 1] as number;
        for (let at = childStart[entry] as number; at < end; at++)
          breakLeg(childLegs[at] as number, entry);
      }
      for (let edge = this.#graph.tailFirst(entry); edge !== 0; edge = tailNext[edge] as number) {
        breakLeg(tailLeg[edge] as number, entry);
      }
    }
  }

  brokenLegs(): Uint32Array {
    return this.#broken.view().slice();
  }

  survivors(): { survivors: IdList; survivorLeg: Uint32Array } {
    const { place } = this.#scratch;
    const found = new NumberList();
    for (let i = 0; i < this.#losers.length; i++) {
      const entry = this.#losers.at(i);
      if (this.has(entry)) continue;
      found.push(entry);
      place[entry] = this.#lostLegs.at(i);
    }
    const survivors = found.sorted();
    return { survivors, survivorLeg: survivors.map((entry) => place[entry] as number) };
  }

  reasons(removed: Uint32Array): { reasonLeg: Int32Array; reasonParent: Uint32Array } {
    const reasonLeg = new Int32Array(removed.length);
    const reasonParent = new Uint32Array(removed.length);
    const { place } = this.#scratch;
    for (let i = 0; i < removed.length; i++) place[removed[i] as number] = i;
    for (let i = this.order.length - removed.length; i < this.order.length; i++) {
      const at = place[this.order.at(i)] as number;
      reasonLeg[at] = this.#legOf[i] as number;
      reasonParent[at] = this.#parentOf[i] as number;
    }
    return { reasonLeg, reasonParent };
  }

  /** Leaves the scratch arrays as they were found: all zero. */
  release() {
    const { dying, legs, lost } = this.#scratch;
    for (let i = 0; i < this.order.length; i++) dying[this.order.at(i)] = 0;
    for (let i = 0; i < this.#broken.length; i++) legs[this.#broken.at(i) >>> 5] = 0;
    for (let i = 0; i < this.#losers.length; i++) lost[this.#losers.at(i)] = 0;
  }
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
  const { visited } = scratchFor(graph);
  const reach = (entry: number, leg: number, parent: number) => {
    if (visited[entry] === 1 || (stopAtMark && graph.is(entry, FLAGS.belowErased))) return;
    visited[entry] = 1;
    below.entries.push(entry);
    below.legs.push(leg + 1);
    below.parents.push(parent);
  };
  const walk = (entry: number) => {
    graph.forEachChildLeg(entry, (leg) => reach(graph.legOwner[leg] as number, leg, entry));
  };
  const starts = stopAtMark
    ? origins.filter((origin) => !graph.is(origin, FLAGS.belowErased))
    : origins;
  for (const origin of starts) visited[origin] = 1;
  for (const origin of starts) walk(origin);
  let walked = 0;
  const walkAll = () => {
    for (; walked < below.entries.length; walked++) walk(below.entries.at(walked));
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
  /** Legs that break, one bit each. */
  legs: Uint32Array;
  /** Legs that an owner loses. */
  lost: Uint16Array;
  /** Not zeroed: written before it is read. */
  place: Uint32Array;
}

const scratches = new WeakMap<Graph, Scratch>();

function scratchFor(graph: Graph): Scratch {
  let scratch = scratches.get(graph);
  if (
    !scratch ||
    scratch.dying.length < graph.flags.length ||
    scratch.legs.length < graph.legBroken.length
  ) {
    const entries = graph.flags.length;
    scratch = {
      dying: new Uint8Array(entries),
      visited: new Uint8Array(entries),
      legs: new Uint32Array(graph.legBroken.length),
      lost: new Uint16Array(entries),
      place: new Uint32Array(entries),
    };
    scratches.set(graph, scratch);
  }
  return scratch;
}
