// Many new memories on their way in: each checked by itself, its legs in flat arrays until it is written, since a million
// small lists would cost more to keep than to write.

import { NumberList } from "./arrays.ts";
import { LIMITS } from "./codec.ts";
import { CheeseError } from "./errors.ts";
import { DEAD } from "./graph.ts";
import { requireOptions } from "./options.ts";
import type { Records } from "./records.ts";
import {
  ascendingSet,
  distinctLegs,
  isList,
  requireList,
  requireLivingParents,
  type Seen,
  toLeg,
  toSeenSet,
} from "./rules.ts";
import type { EntryId } from "./terms.ts";
import { checkText } from "./text.ts";

/** A parent in a list of new memories: an entry, or an earlier item of the same call. */
export type ParentOrItem = EntryId | { item: number };

export interface NewMemory {
  text: string;
  legs: Iterable<Iterable<ParentOrItem>>;
  seen?: Seen | undefined;
}

/** Above all entries: an earlier item i of the same call is ITEMS + i, and so stands behind the entries in a leg. */
const ITEMS = 2 ** 32;

export class Drafts {
  readonly texts: string[] = [];
  /** Why an item is refused. */
  readonly refusals = new Map<number, CheeseError>();
  /** Item i has the legs legEnds[i - 1] .. legEnds[i], and leg l the parents parentEnds[l - 1] .. parentEnds[l]. */
  readonly #legEnds = new NumberList();
  readonly #parentEnds = new NumberList();
  readonly #parents = new NumberList();
  /** One bit a parent: whether it is an item. */
  readonly #areItems = new NumberList();
  readonly #seen = new Map<number, Seen>();

  get count(): number {
    return this.texts.length;
  }

  /** Takes an item in. One that is refused by itself counts, and stays empty. @throws TypeError when it is no memory */
  add(memory: NewMemory) {
    requireOptions("an item of rememberAll", memory);
    const { text, legs, seen } = memory;
    const item = this.count;
    try {
      checkText(text, LIMITS.textBytes, "the text");
      for (const leg of legsOf(legs, item)) this.#addLeg(leg);
      if (seen !== undefined) this.#seen.set(item, copied(seen));
      this.texts.push(text);
    } catch (error) {
      this.#refuse(item, error);
      this.texts.push("");
    }
    this.#legEnds.push(this.#parentEnds.length);
  }

  #addLeg(leg: number[]) {
    for (const parent of leg) {
      const isItem = parent >= ITEMS;
      if (this.#parents.length % 32 === 0) this.#areItems.push(0);
      if (isItem) this.#areItems.setBit(this.#parents.length);
      this.#parents.push(isItem ? parent - ITEMS : parent);
    }
    this.#parentEnds.push(this.#parents.length);
  }

  #refuse(item: number, error: unknown) {
    if (!(error instanceof CheeseError)) throw error;
    this.refusals.set(item, refusalOf(item, error));
  }

  /** Checks an item against what is there: parents that live, and what was seen. */
  check(item: number, records: Records) {
    if (this.refusals.has(item)) return;
    const seen = this.#seen.get(item);
    if (seen === undefined && this.#standsOnLiving(item, records)) return;
    try {
      requireLivingParents(records, this.legs(item, null), () => "it");
      toSeenSet(records.graph, seen);
    } catch (error) {
      this.#refuse(item, error);
    }
  }

  #standsOnLiving(item: number, { graph }: Records): boolean {
    const { flags, entryCount } = graph;
    const last = this.#parentEndOf(item);
    for (let at = item === 0 ? 0 : this.#parentEndOf(item - 1); at < last; at++) {
      if (this.#areItems.bit(at)) continue;
      const parent = this.#parents.at(at);
      if (parent > entryCount || (flags[parent] as number) & DEAD) return false;
    }
    return true;
  }

  #parentEndOf(item: number): number {
    const legs = this.#legEnds.at(item);
    return legs === 0 ? 0 : this.#parentEnds.at(legs - 1);
  }

  /**
   * The legs of an item, each an ascending set.
   *
   * @param ids what earlier items have become; null leaves them out
   */
  legs(item: number, ids: readonly EntryId[] | null): EntryId[][] {
    const legs: EntryId[][] = [];
    const end = this.#legEnds.at(item);
    for (let leg = item === 0 ? 0 : this.#legEnds.at(item - 1); leg < end; leg++) {
      const parents: EntryId[] = [];
      const last = this.#parentEnds.at(leg);
      for (let at = leg === 0 ? 0 : this.#parentEnds.at(leg - 1); at < last; at++) {
        const parent = this.#parents.at(at);
        if (!this.#areItems.bit(at)) parents.push(parent);
        else if (ids) parents.push(ids[parent] as EntryId);
      }
      legs.push(parents);
    }
    return legs;
  }

  seen(item: number): Seen | undefined {
    return this.#seen.get(item);
  }
}

/** @throws CheeseError NO_LEG, TOO_LARGE, UNKNOWN_PARENT; TypeError */
function legsOf(legs: unknown, item: number): number[][] {
  requireList(legs, "legs");
  const numbered: number[][] = [];
  for (const leg of legs as Iterable<unknown>) {
    requireList(leg, "a leg");
    const parents: number[] = [];
    for (const parent of leg as Iterable<ParentOrItem>) parents.push(toNumber(parent, item));
    numbered.push(ascendingSet(parents));
  }
  return distinctLegs(numbered);
}

function toNumber(parent: ParentOrItem, item: number): number {
  if (typeof parent !== "object" || parent === null) {
    // For its checks.
    if (!(Number.isInteger(parent) && parent >= 1 && parent <= LIMITS.count)) toLeg([parent]);
    return parent;
  }
  if (!Number.isInteger(parent.item) || parent.item < 0 || parent.item >= item) {
    const message = `it cannot stand on item ${parent.item}, which is not an earlier one`;
    throw new CheeseError("UNKNOWN_PARENT", message);
  }
  return ITEMS + parent.item;
}

/** What was seen is gone through twice: to be checked, and to be written. */
export function copied(seen: Seen): Seen {
  return isList(seen) ? [...(seen as Iterable<EntryId>)] : seen;
}

/** Why an item of a list is refused, naming the item. */
export function refusalOf(item: number, { code, message, hint }: CheeseError): CheeseError {
  return new CheeseError(code, `item ${item}: ${message}`, { hint, item });
}
