// Who stands on whom, in typed arrays; no rule and no file is known here, and no object is kept for an entry.
//
//   entry n      flags[n]  holding[n]  diedAt[n]            slot 0 stays empty, so entry n is at [n]
//   leg l        legOwner[l]  legBroken bit l               l from 0, in the order of the log
//   children     of entry n: the legs in which n is a parent
//     settled    childLegs[childStart[n] .. childStart[n+1])     side by side, for entries up to `settledEntries`
//     newer      tailHead[n] → tailLeg[e], tailNext[e] → …       linked, newest first; e from 1, 0 ends a list; tailParent[e] is n
//
// Parents are not kept: they stand in the spines, and are read from there when someone asks why.

import { grown } from "./arrays.ts";
import type { IdList, RecallSpine } from "./codec.ts";
import { CheeseError } from "./errors.ts";
import { allAtOnce, inParts } from "./steps.ts";
import type { Disposal, Kind, Mode, State } from "./terms.ts";

/** Bits of `flags`. Alive is neither removed nor recalled. */
export const FLAGS = {
  memory: 1,
  removed: 2,
  recalled: 4,
  /** The text is gone: erased, dropped, or never imported. */
  gone: 8,
  /** Is, or lies below, the target of an erase: once dead, its text goes. */
  belowErased: 16,
  /** Is, or lies below, the target of a contact recall: who has seen it may not write. */
  contact: 32,
  /** Has a leg that came by corroboration. */
  corroborated: 64,
  /** Its spine holds a seen set. */
  seen: 128,
  /** Came dead by import. */
  bornDead: 256,
  /** As a target: the widest mode and disposal of all its recalls. */
  strict: 512,
  contactTarget: 1024,
  eraseTarget: 2048,
} as const;

export const DEAD = FLAGS.removed | FLAGS.recalled;

/** What the deciding of a recall found on its way, and carrying it out would have to look for again. */
export interface Decided {
  /** Every leg that breaks, and of each the memory that loses it. */
  brokenLegs: Uint32Array;
  losers: Uint32Array<ArrayBuffer>;
  /** Whether they are broken in the graph already: whoever decided so carries it out next, or mends them. */
  legsAreBroken: boolean;
  /** All that lies below its erased targets; null if that is not known. */
  belowErased: Uint32Array | null;
}

/** The legs below some entries, in one row; kept and used again. */
export class Layer {
  count = 0;
  legs: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  /** Of each leg: the entry that was asked for and is a parent in it, and the memory that it holds. */
  parents: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  owners: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  /** Of each entry: where its legs stand in `childLegs`, and the first edge of its list. */
  starts: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  ends: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  edges: Uint32Array<ArrayBuffer> = new Uint32Array(64);

  roomForEntries(count: number) {
    if (count <= this.starts.length) return;
    this.starts = grown(this.starts, count);
    this.ends = grown(this.ends, count);
    this.edges = grown(this.edges, count);
  }

  roomForLegs(count: number) {
    if (count <= this.legs.length) return;
    this.legs = grown(this.legs, count);
    this.parents = grown(this.parents, count);
    this.owners = grown(this.owners, count);
  }
}

export class Graph {
  entryCount = 0;
  memoryCount = 0;
  aliveCount = 0;
  legCount = 0;
  edgeCount = 0;

  flags: Uint16Array<ArrayBuffer> = new Uint16Array(1);
  /** Legs of a memory that hold. */
  holding: Uint16Array<ArrayBuffer> = new Uint16Array(1);
  /** The record of the recall that killed it; 0 while it lives. */
  diedAt: Uint32Array<ArrayBuffer> = new Uint32Array(1);
  legOwner: Uint32Array<ArrayBuffer> = new Uint32Array(0);
  legBroken: Uint32Array<ArrayBuffer> = new Uint32Array(0);

  settledEntries = 0;
  childStart: Uint32Array<ArrayBuffer> = new Uint32Array(2);
  childLegs: Uint32Array<ArrayBuffer> = new Uint32Array(0);

  tailHead: Uint32Array<ArrayBuffer> = new Uint32Array(0);
  tailNext: Uint32Array<ArrayBuffer> = new Uint32Array(0);
  tailLeg: Uint32Array<ArrayBuffer> = new Uint32Array(0);
  tailParent: Uint32Array<ArrayBuffer> = new Uint32Array(0);
  /** Edges in the tail; the first has number 1. */
  tailCount = 0;

  /**
   * Dead, below an erased target, and with their text: a corroboration put something dead there afterwards. Rare. Without
   * one, all that is dead below a mark has lost its text, and an erase need not walk there again.
   */
  readonly stragglers = new Set<number>();

  has(entry: number): boolean {
    return Number.isInteger(entry) && entry >= 1 && entry <= this.entryCount;
  }

  isAlive(entry: number): boolean {
    return ((this.flags[entry] as number) & DEAD) === 0;
  }

  /** Whether an entry lived when a record had been carried out. */
  livedAt(entry: number, record: number): boolean {
    if (this.isAlive(entry)) return true;
    return !this.is(entry, FLAGS.bornDead) && (this.diedAt[entry] as number) > record;
  }

  is(entry: number, flag: number): boolean {
    return ((this.flags[entry] as number) & flag) !== 0;
  }

  kind(entry: number): Kind {
    return this.is(entry, FLAGS.memory) ? "memory" : "lot";
  }

  state(entry: number): State {
    if (this.is(entry, FLAGS.recalled)) return "recalled";
    return this.is(entry, FLAGS.removed) ? "removed" : "alive";
  }

  /** What a target carries: the widest mode of all its recalls; null if it never was a target. */
  targetMode(entry: number): Mode | null {
    if (!this.is(entry, FLAGS.recalled)) return null;
    if (this.is(entry, FLAGS.contactTarget)) return "contact";
    return this.is(entry, FLAGS.strict) ? "strict" : "fair";
  }

  /** Adds the next entry. A memory's legs follow, by addLeg. */
  addEntry(flags: number): number {
    const entry = this.entryCount + 1;
    if (entry >= this.flags.length) this.#growEntries(entry);
    this.entryCount = entry;
    this.flags[entry] = flags;
    if (flags & FLAGS.memory) this.memoryCount++;
    if ((flags & DEAD) === 0) this.aliveCount++;
    return entry;
  }

  /**
   * Adds a leg: parents[from .. to), known entries other than the owner. It holds if all of them live.
   *
   * @returns the leg's number
   */
  addLeg(owner: number, parents: ArrayLike<number>, from = 0, to = parents.length): number {
    const leg = this.legCount++;
    if (leg >= this.legOwner.length) this.legOwner = grown(this.legOwner, leg + 16);
    if (leg >>> 5 >= this.legBroken.length) this.legBroken = grown(this.legBroken, (leg >>> 5) + 4);
    this.legOwner[leg] = owner;
    if (this.tailHead.length < this.flags.length) this.#growTailHead();
    const firstEdge = this.tailCount + 1;
    if (firstEdge + to - from > this.tailNext.length) {
      this.tailNext = grown(this.tailNext, firstEdge + to - from + 16);
      this.tailLeg = grown(this.tailLeg, firstEdge + to - from + 16);
      this.tailParent = grown(this.tailParent, firstEdge + to - from + 16);
    }
    const { flags, tailHead, tailNext, tailLeg, tailParent } = this;
    let seen = 0;
    for (let i = from, edge = firstEdge; i < to; i++, edge++) {
      const parent = parents[i] as number;
      seen |= flags[parent] as number;
      tailLeg[edge] = leg;
      tailParent[edge] = parent;
      tailNext[edge] = tailHead[parent] as number;
      tailHead[parent] = edge;
    }
    this.tailCount += to - from;
    this.edgeCount += to - from;
    if (seen & DEAD) {
      this.legBroken[leg >>> 5] = (this.legBroken[leg >>> 5] as number) | (1 << (leg & 31));
    } else {
      this.holding[owner] = (this.holding[owner] as number) + 1;
    }
    if (seen & FLAGS.belowErased) this.markBelowErased([owner]);
    return leg;
  }

  /**
   * Carries a recall out as its record says: nothing is decided here, so old records mean for ever what they meant.
   *
   * @param decided what else is known of it; else it is looked for
   */
  applyRecall(record: number, recall: RecallSpine, decided?: Decided) {
    const { targets, removed, mode, disposal } = recall;
    if (decided && !decided.legsAreBroken) this.#breakLegs(decided);
    for (const target of targets) {
      if (this.isAlive(target)) {
        this.#die(target, record, FLAGS.recalled);
        if (!decided) this.#breakLegsOf(target);
      }
      this.flags[target] =
        (this.flags[target] as number) |
        FLAGS.recalled |
        modeFlags(mode) |
        (disposal === "erase" ? FLAGS.eraseTarget : 0);
      if (this.diedAt[target] === 0) this.diedAt[target] = record;
    }
    this.#dieAll(removed, record);
    if (!decided) for (let i = 0; i < removed.length; i++) this.#breakLegsOf(removed[i] as number);
    for (const entry of recall.explained) if (this.diedAt[entry] === 0) this.diedAt[entry] = record;
    if (disposal === "erase") this.setFlag(removed, FLAGS.gone);
    this.setFlag(recall.alsoErased, FLAGS.gone);
    if (mode === "contact") {
      for (const list of [targets, removed, recall.contactBelow]) this.setFlag(list, FLAGS.contact);
    }
    const erased = targets.filter((target) => this.is(target, FLAGS.eraseTarget));
    if (erased.length === 0) return;
    if (decided?.belowErased) {
      for (const entry of erased) this.#markBelow(entry);
      for (let i = 0; i < decided.belowErased.length; i++)
        this.#markBelow(decided.belowErased[i] as number);
    } else {
      this.markBelowErased(erased);
    }
  }

  setFlag(entries: IdList, flag: number) {
    const { flags } = this;
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as number;
      flags[entry] = (flags[entry] as number) | flag;
      if (flag === FLAGS.gone && this.stragglers.size > 0) this.stragglers.delete(entry);
    }
  }

  #die(entry: number, record: number, state: number) {
    this.flags[entry] = (this.flags[entry] as number) | state;
    this.diedAt[entry] = record;
    this.aliveCount--;
  }

  #dieAll(entries: IdList, record: number) {
    const { flags, diedAt } = this;
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i] as number;
      flags[entry] = (flags[entry] as number) | FLAGS.removed;
      diedAt[entry] = record;
    }
    this.aliveCount -= entries.length;
  }

  #breakLegs({ brokenLegs, losers }: Decided) {
    const { legBroken, holding } = this;
    for (let i = 0; i < brokenLegs.length; i++) {
      const leg = brokenLegs[i] as number;
      const owner = losers[i] as number;
      legBroken[leg >>> 5] = (legBroken[leg >>> 5] as number) | (1 << (leg & 31));
      holding[owner] = (holding[owner] as number) - 1;
    }
  }

  /** Takes back what a decision broke. */
  mendLegs({ brokenLegs, losers }: Pick<Decided, "brokenLegs" | "losers">) {
    const { legBroken, holding } = this;
    for (let i = 0; i < brokenLegs.length; i++) {
      const leg = brokenLegs[i] as number;
      const owner = losers[i] as number;
      legBroken[leg >>> 5] = (legBroken[leg >>> 5] as number) & ~(1 << (leg & 31));
      holding[owner] = (holding[owner] as number) + 1;
    }
  }

  #breakLegsOf(entry: number) {
    const { legOwner, legBroken, holding } = this;
    this.forEachChildLeg(entry, (leg) => {
      const word = legBroken[leg >>> 5] as number;
      const bit = 1 << (leg & 31);
      if (word & bit) return;
      legBroken[leg >>> 5] = word | bit;
      const owner = legOwner[leg] as number;
      holding[owner] = (holding[owner] as number) - 1;
    });
  }

  /** Marks entries and all below them; where the mark stands already, so it does below. */
  markBelowErased(entries: Iterable<number>) {
    const open: number[] = [];
    const mark = (entry: number) => {
      if (this.#markBelow(entry)) open.push(entry);
    };
    for (const entry of entries) mark(entry);
    for (let entry = open.pop(); entry !== undefined; entry = open.pop()) {
      this.forEachChildLeg(entry, (leg) => mark(this.legOwner[leg] as number));
    }
  }

  /** Marks one entry; false if it was marked. */
  #markBelow(entry: number): boolean {
    const flags = this.flags[entry] as number;
    if (flags & FLAGS.belowErased) return false;
    this.flags[entry] = flags | FLAGS.belowErased;
    if (flags & DEAD && !(flags & FLAGS.gone)) this.stragglers.add(entry);
    return true;
  }

  /** The first edge of an entry's tail list; 0 if it has none. */
  tailFirst(entry: number): number {
    return entry < this.tailHead.length ? (this.tailHead[entry] as number) : 0;
  }

  /** Every leg in which an entry is a parent, broken or not. */
  forEachChildLeg(entry: number, visit: (leg: number) => void) {
    if (entry <= this.settledEntries) {
      const end = this.childStart[entry + 1] as number;
      for (let i = this.childStart[entry] as number; i < end; i++)
        visit(this.childLegs[i] as number);
    }
    for (let edge = this.tailFirst(entry); edge !== 0; edge = this.tailNext[edge] as number) {
      visit(this.tailLeg[edge] as number);
    }
  }

  /**
   * Every leg in which one of entries[from .. to) is a parent, broken or not: those of the first, then of the second, …
   *
   * One look-up is made for all of them before the next is: each waits for memory that no cache holds, and so they wait
   * together. On a large graph that takes a third of the time that one entry after the other does.
   */
  lookBelow(entries: Uint32Array, from: number, to: number, into: Layer) {
    into.roomForEntries(to - from);
    into.count = this.#findRows(entries, from, to, into);
    into.roomForLegs(into.count);
    this.#copyRows(entries, from, to, into);
    const { count, legs, owners } = into;
    const { legOwner } = this;
    for (let i = 0; i < count; i++) owners[i] = legOwner[legs[i] as number] as number;
  }

  /** Where the legs of each stand; returns how many there are. */
  #findRows(entries: Uint32Array, from: number, to: number, { starts, ends, edges }: Layer) {
    const { settledEntries, childStart, tailHead, tailNext } = this;
    let count = 0;
    for (let i = from; i < to; i++) {
      const entry = entries[i] as number;
      const isSettled = entry <= settledEntries;
      const start = isSettled ? (childStart[entry] as number) : 0;
      const end = isSettled ? (childStart[entry + 1] as number) : 0;
      starts[i - from] = start;
      ends[i - from] = end;
      count += end - start;
    }
    for (let i = from; i < to; i++) {
      const entry = entries[i] as number;
      edges[i - from] = entry < tailHead.length ? (tailHead[entry] as number) : 0;
    }
    if (this.tailCount === 0) return count;
    for (let i = 0; i < to - from; i++)
      for (let edge = edges[i] as number; edge !== 0; edge = tailNext[edge] as number) count++;
    return count;
  }

  #copyRows(
    entries: Uint32Array,
    from: number,
    to: number,
    { starts, ends, edges, legs, parents }: Layer,
  ) {
    const { childLegs, tailNext, tailLeg } = this;
    let count = 0;
    for (let i = 0; i < to - from; i++) {
      const entry = entries[from + i] as number;
      const end = ends[i] as number;
      for (let at = starts[i] as number; at < end; at++) {
        legs[count] = childLegs[at] as number;
        parents[count++] = entry;
      }
      for (let edge = edges[i] as number; edge !== 0; edge = tailNext[edge] as number) {
        legs[count] = tailLeg[edge] as number;
        parents[count++] = entry;
      }
    }
  }

  /** Entries that have an entry as a parent in some leg, ascending, each once. */
  builtOn(entry: number): number[] {
    const owners = new Set<number>();
    this.forEachChildLeg(entry, (leg) => owners.add(this.legOwner[leg] as number));
    return [...owners].sort((a, b) => a - b);
  }

  /** Whether `entry` is one of `origins` or reached from one through any leg ever declared. */
  reaches(origin: number, wanted: ReadonlySet<number>): boolean {
    if (wanted.has(origin)) return true;
    const visited = new Set([origin]);
    const open = [origin];
    let found = false;
    for (let entry = open.pop(); entry !== undefined && !found; entry = open.pop()) {
      this.forEachChildLeg(entry, (leg) => {
        const owner = this.legOwner[leg] as number;
        if (wanted.has(owner)) found = true;
        if (visited.has(owner)) return;
        visited.add(owner);
        open.push(owner);
      });
    }
    return found;
  }

  /**
   * The longest chain of memories above a lot, over every leg ever declared: 0 if there is no memory.
   * Kahn's order; the graph has no ring.
   */
  depth(): number {
    const waiting = new Uint32Array(this.entryCount + 1);
    const level = new Uint32Array(this.entryCount + 1);
    for (let entry = 1; entry <= this.entryCount; entry++) {
      this.forEachChildLeg(entry, (leg) => {
        const owner = this.legOwner[leg] as number;
        waiting[owner] = (waiting[owner] as number) + 1;
      });
    }
    const open: number[] = [];
    for (let entry = 1; entry <= this.entryCount; entry++)
      if (waiting[entry] === 0) open.push(entry);
    let deepest = 0;
    for (let entry = open.pop(); entry !== undefined; entry = open.pop()) {
      const next = (level[entry] as number) + 1;
      this.forEachChildLeg(entry, (leg) => {
        const owner = this.legOwner[leg] as number;
        if ((level[owner] as number) < next) level[owner] = next;
        if (next > deepest) deepest = next;
        waiting[owner] = (waiting[owner] as number) - 1;
        if (waiting[owner] === 0) open.push(owner);
      });
    }
    return deepest;
  }

  /** Lays the tail's edges beside the settled ones: half the cost of the lists to walk, and the form a snapshot keeps. */
  settle() {
    allAtOnce(this.settling());
  }

  /** The same in steps of a millisecond or so. No leg may be added in between. */
  *settling(): Generator<undefined> {
    if (this.tailCount === 0 && this.settledEntries === this.entryCount) return;
    const { entryCount, settledEntries, childStart, childLegs, tailLeg, tailParent, tailCount } =
      this;
    // A counting sort by the parent: no list is walked, since each step of a walk waits for the one before.
    const start = new Uint32Array(entryCount + 2);
    yield* inParts(settledEntries, (from, to) => {
      for (let entry = from; entry < to; entry++)
        start[entry + 1] = (childStart[entry + 1] as number) - (childStart[entry] as number);
    });
    yield* inParts(tailCount, (from, to) => {
      for (let edge = from; edge < to; edge++) {
        const next = (tailParent[edge] as number) + 1;
        start[next] = (start[next] as number) + 1;
      }
    });
    yield* inParts(entryCount + 1, (from, to) => {
      for (let entry = from; entry < to; entry++)
        start[entry] = (start[entry] as number) + (start[entry - 1] as number);
    });
    const end = start.slice();
    const legs = new Uint32Array(start[entryCount + 1] as number);
    yield* inParts(settledEntries, (from, to) => {
      for (let entry = from; entry < to; entry++) {
        let at = end[entry] as number;
        for (let i = childStart[entry] as number; i < (childStart[entry + 1] as number); i++)
          legs[at++] = childLegs[i] as number;
        end[entry] = at;
      }
    });
    yield* inParts(tailCount, (from, to) => {
      for (let edge = from; edge < to; edge++) {
        const parent = tailParent[edge] as number;
        const at = end[parent] as number;
        legs[at] = tailLeg[edge] as number;
        end[parent] = at + 1;
      }
    });
    this.childStart = start;
    this.childLegs = legs;
    this.settledEntries = entryCount;
    this.tailHead = new Uint32Array(0);
    this.tailNext = new Uint32Array(0);
    this.tailLeg = new Uint32Array(0);
    this.tailParent = new Uint32Array(0);
    this.tailCount = 0;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    const {
      flags,
      holding,
      diedAt,
      legOwner,
      legBroken,
      childStart,
      childLegs,
      tailHead,
      tailNext,
      tailLeg,
      tailParent,
    } = this;
    const arrays = [
      flags,
      holding,
      diedAt,
      legOwner,
      legBroken,
      childStart,
      childLegs,
      tailHead,
      tailNext,
      tailLeg,
      tailParent,
    ];
    return arrays.reduce((sum, array) => sum + array.byteLength, 0);
  }

  #growEntries(lengthMin: number) {
    const length = Math.max(Math.ceil(this.flags.length * 1.5), lengthMin + 64);
    if (lengthMin > 0xffff_fffe)
      throw new CheeseError("TOO_LARGE", "an agent can hold 2^32 - 2 entries");
    const flags = new Uint16Array(length);
    flags.set(this.flags);
    this.flags = flags;
    const holding = new Uint16Array(length);
    holding.set(this.holding);
    this.holding = holding;
    this.diedAt = grown(this.diedAt, length);
  }

  #growTailHead() {
    const heads = new Uint32Array(this.flags.length);
    heads.set(this.tailHead);
    this.tailHead = heads;
  }
}

function modeFlags(mode: Mode): number {
  if (mode === "fair") return 0;
  return mode === "strict" ? FLAGS.strict : FLAGS.strict | FLAGS.contactTarget;
}

export function disposalOf(graph: Graph, target: number): Disposal {
  return graph.is(target, FLAGS.eraseTarget) ? "erase" : "untrusted";
}
