// Who has seen what, against plain sets.

import fc from "fast-check";
import { expect, test } from "vitest";
import { idsIn, idsInDescending, SeenIndex, toRanges } from "../src/seen.ts";

const IDS_MAX = 60;

/** Of some entries from 1 on: null for one without a seen set; else whose set it counts on from, and what it saw besides. */
const writers = fc.array(
  fc.option(
    fc.record({
      base: fc.option(fc.nat({ max: IDS_MAX })),
      own: fc.uniqueArray(fc.integer({ min: 1, max: IDS_MAX }), { maxLength: 30 }),
    }),
  ),
  { maxLength: IDS_MAX },
);

test("every entry that saw something marked is named once, in order, with the first that it saw", () => {
  let named = 0;
  fc.assert(
    fc.property(
      writers,
      fc.uniqueArray(fc.integer({ min: 1, max: IDS_MAX }), { maxLength: 6 }),
      (list, wanted) => {
        const index = new SeenIndex();
        const marked = new Uint8Array(IDS_MAX + 1);
        for (const id of wanted) marked[id] = 1;
        const sets = new Map<number, Set<number>>();
        const expected: number[] = [];
        for (const [i, writer] of list.entries()) {
          if (!writer) continue;
          const entry = i + 1;
          const base = writer.base && sets.has(writer.base) ? writer.base : 0;
          const own = writer.own.toSorted((a, b) => a - b);
          index.add(entry, base, toRanges(own));
          const all = new Set([...(sets.get(base) ?? []), ...own]);
          sets.set(entry, all);
          if (wanted.some((id) => all.has(id))) expected.push(entry);
        }
        const found: number[] = [];
        index.forEachWhoSaw(marked, (entry, what) => {
          found.push(entry);
          expect(wanted).toContain(what);
          expect(sets.get(entry)).toContain(what);
        });
        expect(found).toEqual(expected);
        named += found.length;
      },
    ),
    { numRuns: 500 },
  );
  expect(named).toBeGreaterThan(100);
});

test("what is marked while it is looked for is found by those that come later", () => {
  const index = new SeenIndex();
  index.add(10, 0, Uint32Array.of(1, 3));
  index.add(11, 0, Uint32Array.of(10, 10));
  index.add(12, 11, new Uint32Array(0));
  const marked = new Uint8Array(20);
  marked[2] = 1;
  const found: [number, number][] = [];
  index.forEachWhoSaw(marked, (entry, what) => {
    found.push([entry, what]);
    marked[entry] = 1;
  });
  expect(found).toEqual([
    [10, 2],
    [11, 10],
    [12, 10],
  ]);
});

test("of an array that is longer than the set no more is taken", () => {
  const index = new SeenIndex();
  index.add(5, 0, Uint32Array.of(1, 1, 3, 3, 99, 99), 4);
  const marked = new Uint8Array(100).fill(1, 4);
  const found: number[] = [];
  index.forEachWhoSaw(marked, (entry) => found.push(entry));
  expect(found).toEqual([]);
});

test("ranges hold the ids that they were made of, and no others", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 200 }), { maxLength: 80 }), (ids) => {
      const ascending = ids.toSorted((a, b) => a - b);
      expect([...idsIn(toRanges(ascending))]).toEqual(ascending);
    }),
  );
});

test("descending they are the same, the other way round", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 200 }), { maxLength: 80 }), (ids) => {
      const ascending = ids.toSorted((a, b) => a - b);
      expect([...idsInDescending(toRanges(ascending))]).toEqual(ascending.toReversed());
    }),
  );
});

test("beyond the limit the narrowest gaps are closed, the first of equal ones, and no id is lost", () => {
  let merged = 0;
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 120 }), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 8 }),
      (ids, rangesMax) => {
        const ascending = ids.toSorted((a, b) => a - b);
        const ranges = toRanges(ascending, rangesMax);
        // Gaps one by one: the narrowest that is left is filled, until few enough are.
        const all = new Set(ascending);
        const gaps = ascending
          .slice(1)
          .map((to, i) => ({ from: ascending[i] as number, to }))
          .filter(({ from, to }) => to > from + 1)
          .sort((a, b) => a.to - a.from - (b.to - b.from) || a.from - b.from);
        for (const { from, to } of gaps.slice(0, Math.max(gaps.length + 1 - rangesMax, 0))) {
          merged++;
          for (let id = from; id < to; id++) all.add(id);
        }
        expect([...idsIn(ranges)]).toEqual([...all].sort((a, b) => a - b));
        expect(ranges.length / 2).toBe(Math.min(gaps.length + 1, rangesMax));
      },
    ),
    { numRuns: 300 },
  );
  expect(merged).toBeGreaterThan(500);
});

test("in a long range the first that is marked is found, at its ends too", () => {
  for (const length of [1, 2, 15, 16, 17, 18, 40]) {
    for (const first of [1, 5]) {
      const last = first + length - 1;
      for (const at of [first - 1, first, Math.floor((first + last) / 2), last, last + 1]) {
        const index = new SeenIndex();
        index.add(90, 0, Uint32Array.of(first, last));
        const marked = new Uint8Array(100);
        if (at > 0) marked[at] = 1;
        marked[last + 1] = 1;
        const found: [number, number][] = [];
        index.forEachWhoSaw(marked, (entry, what) => found.push([entry, what]));
        expect(found).toEqual(at >= first && at <= last ? [[90, at]] : []);
      }
    }
  }
});

test("neighbours are one range, and a gap parts two", () => {
  expect([...toRanges([1, 2, 3, 5, 8, 9, 10])]).toEqual([1, 3, 5, 5, 8, 10]);
});

test("beyond the limit, ranges come out as pairs, no more than were asked for", () => {
  // Gaps of 2, 4, 2, 6 and 2 numbers: of equal ones the first goes first.
  const ids = [1, 4, 9, 12, 19, 22];
  expect([...toRanges(ids, 6)]).toEqual([1, 1, 4, 4, 9, 9, 12, 12, 19, 19, 22, 22]);
  expect([...toRanges(ids, 5)]).toEqual([1, 4, 9, 9, 12, 12, 19, 19, 22, 22]);
  expect([...toRanges(ids, 4)]).toEqual([1, 4, 9, 12, 19, 19, 22, 22]);
  expect([...toRanges(ids, 3)]).toEqual([1, 4, 9, 12, 19, 22]);
  expect([...toRanges(ids, 2)]).toEqual([1, 12, 19, 22]);
  expect([...toRanges(ids, 1)]).toEqual([1, 22]);
  // The same gaps, after ranges of other widths.
  expect([...toRanges([1, 2, 3, 4, 5, 9, 12, 13], 2)]).toEqual([1, 5, 9, 13]);
});

test("who counts on from one without a set, or from one that saw nothing marked, saw what it says itself", () => {
  const index = new SeenIndex();
  index.add(10, 0, Uint32Array.of(5, 6));
  index.add(20, 0, Uint32Array.of(3, 3));
  index.add(30, 4, Uint32Array.of(5, 5));
  index.add(31, 25, Uint32Array.of(6, 6));
  index.add(32, 30, new Uint32Array(0));
  index.add(33, 20, new Uint32Array(0));
  index.add(34, 15, new Uint32Array(0));
  index.add(35, 31, new Uint32Array(0));
  index.add(36, 9, new Uint32Array(0));
  const marked = new Uint8Array(100);
  marked[5] = 1;
  marked[6] = 1;
  const found: [number, number][] = [];
  index.forEachWhoSaw(marked, (entry, what) => found.push([entry, what]));
  expect(found).toEqual([
    [10, 5],
    [30, 5],
    [31, 6],
    [32, 5],
    [35, 6],
  ]);
});
