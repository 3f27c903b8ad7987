// The rules that no caller gets round: what a memory may stand on, what a writer may have seen, which entries exist.
// Every check comes before anything is changed; ids are range-checked before any is looked up.

import { type IdList, LIMITS, type SeenSet } from "./codec.ts";
import { CheeseError } from "./errors.ts";
import { DEAD, FLAGS, type Graph } from "./graph.ts";
import { typeName } from "./options.ts";
import type { Records } from "./records.ts";
import { toRanges } from "./seen.ts";
import type { EntryId } from "./terms.ts";

/** What a session's writes are counted on from: its last durable entry, and what it has seen since. */
export interface SeenSince {
  base: EntryId;
  /** Since the base. */
  added: Iterable<EntryId>;
  /** All that the session has seen. */
  all: Iterable<EntryId>;
}

export type Seen = Iterable<EntryId> | SeenSince;

function requireNumber(id: unknown, what: string): asserts id is number {
  if (typeof id !== "number") throw new TypeError(`${what} is a number, got ${typeName(id)}`);
}

/** @throws CheeseError NO_ENTRY */
export function requireEntry(graph: Graph, id: EntryId): EntryId {
  requireNumber(id, "an entry's id");
  if (!graph.has(id))
    throw new CheeseError("NO_ENTRY", `there is no entry ${id}; ${newest(graph)}`, { entry: id });
  return id;
}

function newest(graph: Graph): string {
  return graph.entryCount === 0 ? "the agent has none yet" : `the newest is ${graph.entryCount}`;
}

/** Why an entry is dead, in words: for a refusal. */
export function howItDied(records: Records, entry: EntryId): string {
  const { graph, places } = records;
  const slot = places.actOf(graph.diedAt[entry] as number);
  const recall = slot === -1 ? null : records.act(slot).recall;
  if (!recall) return "was imported dead";
  if (recall.targets.includes(entry)) return "was recalled";
  return `was removed by the recall of ${recall.targets.join(", ")}`;
}

/** Above this many, sets and maps are faster than looking through a list. */
const FEW = 8;

/**
 * Legs as sets, each ascending, a repeated one dropped; of the form that the rules ask for, whatever the graph says.
 *
 * @throws CheeseError NO_LEG, TOO_LARGE, UNKNOWN_PARENT; TypeError when it is no list of lists of numbers
 */
export function toLegs(legs: Iterable<Iterable<EntryId>>): EntryId[][] {
  requireList(legs, "legs");
  return distinctLegs(Array.from(legs, toLeg));
}

/** @throws CheeseError NO_LEG, TOO_LARGE */
export function distinctLegs(legs: EntryId[][]): EntryId[][] {
  let distinct = legs;
  if (legs.length > FEW) {
    distinct = [...new Map(legs.map((leg) => [leg.join(), leg])).values()];
  } else if (legs.length > 1) {
    const isFirst = (leg: EntryId[], at: number) =>
      !legs.some((other, i) => i < at && sameLeg(other, leg));
    distinct = legs.filter(isFirst);
  }
  if (distinct.length === 0) throw new CheeseError("NO_LEG", "a memory needs at least one leg");
  if (distinct.length > LIMITS.legs) {
    const message = `the memory has ${distinct.length} legs; at most ${LIMITS.legs} are allowed`;
    throw new CheeseError("TOO_LARGE", message);
  }
  return distinct;
}

function sameLeg(a: EntryId[], b: EntryId[]): boolean {
  return a.length === b.length && a.every((parent, i) => parent === b[i]);
}

/** The parents of one leg as a set, ascending. @throws CheeseError as toLegs */
export function toLeg(leg: Iterable<EntryId>): EntryId[] {
  requireList(leg, "a leg");
  const parents: EntryId[] = [];
  for (const parent of leg) {
    requireNumber(parent, "a parent");
    if (!Number.isInteger(parent) || parent < 1 || parent > LIMITS.count) {
      throw new CheeseError("UNKNOWN_PARENT", `there is no entry ${parent}`, { entry: parent });
    }
    parents.push(parent);
  }
  return ascendingSet(parents);
}

/** @throws CheeseError NO_LEG when there is none, TOO_LARGE when there are too many */
export function ascendingSet(parents: EntryId[]): EntryId[] {
  if (parents.length === 0) throw new CheeseError("NO_LEG", "a leg needs at least one parent");
  const distinct = ascends(parents) ? parents : sorted(parents);
  if (distinct.length > LIMITS.parentsOfALeg) {
    const message = `a leg has ${distinct.length} parents; at most ${LIMITS.parentsOfALeg} are allowed`;
    throw new CheeseError("TOO_LARGE", message);
  }
  return distinct;
}

function ascends(numbers: number[]): boolean {
  for (let i = 1; i < numbers.length; i++)
    if ((numbers[i] as number) <= (numbers[i - 1] as number)) return false;
  return true;
}

function sorted(numbers: number[]): number[] {
  numbers.sort((a, b) => a - b);
  return numbers.filter((number, i) => i === 0 || number !== numbers[i - 1]);
}

export function isList(value: unknown): boolean {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

const LISTS_OF: Record<string, string> = {
  ids: "numbers",
  "a leg": "ids",
  legs: "lists of ids",
  seen: "ids",
};

/** A list of its own. @throws TypeError when it is none */
export function listOf<T>(items: Iterable<T>, what: string): T[] {
  requireList(items, what);
  return [...items];
}

/** @throws TypeError when it is no list */
export function requireList(items: unknown, what: string) {
  if (isList(items)) return;
  const of = Object.hasOwn(LISTS_OF, what) ? ` of ${LISTS_OF[what]}` : "";
  throw new TypeError(`${what} is a list${of}, got ${typeName(items)}`);
}

/**
 * Nothing is built on an unknown or a dead parent.
 *
 * @param what who stands on them, for the words of a refusal
 * @throws CheeseError UNKNOWN_PARENT, DEAD_PARENT
 */
export function requireLivingParents(records: Records, legs: EntryId[][], what: () => string) {
  const { graph } = records;
  const { flags, entryCount } = graph;
  for (const leg of legs) {
    for (const parent of leg) {
      if (parent <= entryCount && ((flags[parent] as number) & DEAD) === 0) continue;
      if (!graph.has(parent)) {
        const message = `${what()} cannot stand on ${parent}, which does not exist; ${newest(graph)}`;
        throw new CheeseError("UNKNOWN_PARENT", message, { entry: parent });
      }
      const message = `${what()} cannot stand on ${parent}, which ${howItDied(records, parent)}`;
      throw new CheeseError("DEAD_PARENT", message, { entry: parent });
    }
  }
}

/**
 * What was seen, as it is to be stored. It may name dead entries, never unknown ones, and none that a contact recall took.
 *
 * @throws CheeseError UNKNOWN_PARENT, RECALLED_CONTEXT
 */
export function toSeenSet(graph: Graph, seen: Seen | undefined): SeenSet | null {
  if (seen === undefined) return null;
  if (typeof seen !== "object" || seen === null)
    throw new TypeError(`seen is a list of ids, got ${typeName(seen)}`);
  if (!("base" in seen)) {
    const ids = requireSeen(graph, seen);
    return ids.length === 0 ? null : { base: 0, ranges: toRanges(ids) };
  }
  requireSeen(graph, seen.all);
  const added = requireSeen(graph, seen.added);
  if (seen.base === 0 && added.length === 0) return null;
  return { base: seen.base, ranges: toRanges(added) };
}

function requireSeen(graph: Graph, seen: Iterable<EntryId>): IdList {
  requireList(seen, "seen");
  const ids = new Set<number>();
  for (const id of seen) {
    requireNumber(id, "a seen entry");
    if (!graph.has(id)) {
      throw new CheeseError(
        "UNKNOWN_PARENT",
        `entry ${id} cannot have been seen: it does not exist; ${newest(graph)}`,
        { entry: id },
      );
    }
    if (graph.is(id, FLAGS.contact)) {
      throw new CheeseError(
        "RECALLED_CONTEXT",
        `the writer has seen entry ${id}, which a contact recall took`,
        { entry: id },
      );
    }
    ids.add(id);
  }
  return Uint32Array.from(ids).sort();
}

/** Targets of a recall, ascending, each once. Throws NO_ENTRY for an unknown one, and USAGE for none. */
export function toTargets(graph: Graph, ids: Iterable<EntryId>): IdList {
  const targets = new Set<number>();
  for (const id of ids) targets.add(requireEntry(graph, id));
  if (targets.size === 0) throw new CheeseError("USAGE", "a recall names at least one entry");
  return Uint32Array.from(targets).sort();
}
