// What stood in a writer's context when an entry was written: seen sets as ranges, and who has seen what.
//
// A set may be counted on from an earlier entry's ("all that one saw, and this"), so that a long session repeats nothing.

import { LIMITS, type SeenSet } from "./codec.ts";

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

/** All seen sets of one agent, in ascending order of the entries that they belong to. */
export class SeenIndex {
  readonly #entries: number[] = [];
  readonly #sets: SeenSet[] = [];
  readonly #slotOf = new Map<number, number>();

  add(entry: number, set: SeenSet) {
    this.#slotOf.set(entry, this.#entries.length);
    this.#entries.push(entry);
    this.#sets.push(set);
  }

  /**
   * Names every entry that saw a marked one, with the marked one.
   *
   * @param marked 1 at [id] for what is looked for; it may change under `visit`
   */
  forEachWhoSaw(marked: Uint8Array, visit: (entry: number, what: number) => void) {
    /** What each set's owner saw of the marked; 0 for nothing. A base comes before those that count on from it. */
    const saw = new Uint32Array(this.#entries.length);
    for (let slot = 0; slot < this.#entries.length; slot++) {
      const { base, ranges } = this.#sets[slot] as SeenSet;
      const baseSlot = base ? this.#slotOf.get(base) : undefined;
      let what = baseSlot === undefined ? 0 : (saw[baseSlot] as number);
      for (let i = 0; what === 0 && i < ranges.length; i += 2) {
        const from = ranges[i] as number;
        const at = marked.subarray(from, (ranges[i + 1] as number) + 1).indexOf(1);
        if (at !== -1) what = from + at;
      }
      saw[slot] = what;
      if (what !== 0) visit(this.#entries[slot] as number, what);
    }
  }
}
