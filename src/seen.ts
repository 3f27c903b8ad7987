// What stood in a writer's context when an entry was written: seen sets as ranges, and who has seen what.
//
// A set may be counted on from an earlier entry's ("all that one saw, and this"), so that a long session repeats nothing.

import { NumberList } from "./arrays.ts";
import { LIMITS } from "./codec.ts";

/** Ascending, distinct ids as ranges: from, to, from, to, …; beyond the limit the nearest are merged: too much, never too little. */
export function toRanges(
  ids: ArrayLike<number>,
  rangesMax: number = LIMITS.seenRanges,
): Uint32Array {
  const ranges: number[] = [];
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] as number;
    if (ranges.length > 0 && id === (ranges[ranges.length - 1] as number) + 1)
      ranges[ranges.length - 1] = id;
    else ranges.push(id, id);
  }
  const tooMany = ranges.length / 2 - rangesMax;
  if (tooMany <= 0) return Uint32Array.from(ranges);
  const gaps: number[] = [];
  for (let i = 2; i < ranges.length; i += 2) gaps.push(i);
  const width = (i: number) => (ranges[i] as number) - (ranges[i - 1] as number);
  const closed = new Set(gaps.sort((a, b) => width(a) - width(b) || a - b).slice(0, tooMany));
  const merged: number[] = [];
  for (let i = 0; i < ranges.length; i += 2) {
    if (closed.has(i)) merged[merged.length - 1] = ranges[i + 1] as number;
    else merged.push(ranges[i] as number, ranges[i + 1] as number);
  }
  return Uint32Array.from(merged);
}

/** Every id in some ranges. */
export function* idsIn(ranges: ArrayLike<number>): Generator<number> {
  for (let i = 0; i < ranges.length; i += 2) {
    for (let id = ranges[i] as number; id <= (ranges[i + 1] as number); id++) yield id;
  }
}

export function* idsInDescending(ranges: ArrayLike<number>): Generator<number> {
  for (let i = ranges.length - 2; i >= 0; i -= 2) {
    for (let id = ranges[i + 1] as number; id >= (ranges[i] as number); id--) yield id;
  }
}

/** Up to so many numbers are looked at one by one. */
const SHORT_RANGE = 16;

/** All seen sets of one agent, in ascending order of the entries that they belong to: flat, a million of them are many. */
export class SeenIndex {
  readonly #entries = new NumberList();
  readonly #bases = new NumberList();
  /** Where each set's ranges end in #ranges. */
  readonly #ends = new NumberList();
  readonly #ranges = new NumberList();

  /** @param length how many of the numbers in `ranges` are the set's */
  add(entry: number, base: number, ranges: Uint32Array, length = ranges.length) {
    this.#entries.push(entry);
    this.#bases.push(base);
    this.#ranges.append(ranges, length);
    this.#ends.push(this.#ranges.length);
  }

  /**
   * Names every entry that saw a marked one, with the marked one.
   *
   * @param marked 1 at [id] for what is looked for; it may change under `visit`
   */
  forEachWhoSaw(marked: Uint8Array, visit: (entry: number, what: number) => void) {
    const [entries, bases, ends] = [this.#entries.view(), this.#bases.view(), this.#ends.view()];
    const ranges = this.#ranges.view();
    /** What each set's owner saw of the marked; 0 for nothing. A base comes before those that count on from it. */
    const saw = new Uint32Array(entries.length);
    let at = 0;
    for (let slot = 0; slot < entries.length; slot++) {
      const base = bases[slot] as number;
      let what = base === 0 ? 0 : (saw[this.#slotOf(base)] ?? 0);
      const end = ends[slot] as number;
      for (; what === 0 && at < end; at += 2)
        what = firstMarked(marked, ranges[at] as number, ranges[at + 1] as number);
      at = end;
      saw[slot] = what;
      if (what !== 0) visit(entries[slot] as number, what);
    }
  }

  /** -1 for an entry without a set. */
  #slotOf(entry: number): number {
    const slot = this.#entries.lastAtMost(entry);
    return slot !== -1 && this.#entries.at(slot) === entry ? slot : -1;
  }
}

/** The first that is marked in from .. to, both among them; 0 if none is. */
function firstMarked(marked: Uint8Array, from: number, to: number): number {
  if (to - from >= SHORT_RANGE) {
    const at = marked.subarray(from, to + 1).indexOf(1);
    return at === -1 ? 0 : from + at;
  }
  for (let id = from; id <= to; id++) if (marked[id] === 1) return id;
  return 0;
}
