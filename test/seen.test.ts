// Who has seen what, against plain sets.

import fc from "fast-check";
import { expect, test } from "vitest";
import { idsIn, SeenIndex, toRanges } from "../src/seen.ts";

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
