// Words in common: a query says of every text what the words themselves say.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contentWords, Query, sharedWords } from "../src/words.ts";

const words = fc.constantFrom(
  ..."rain raining Rains RAINY umbrella 今日は雨 雨 straße STRASSE İstanbul café cafe x1 don't the".split(
    " ",
  ),
);
const texts = fc.oneof(
  fc.array(words, { maxLength: 8 }).map((list) => list.join(" ")),
  fc.string({ unit: "grapheme", maxLength: 40 }),
);

describe("a query", () => {
  test("counts the words that a text shares with it, however few or many it has", () => {
    let hits = 0;
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 90 }), texts, (queries, text) => {
        const query = queries.join("\n");
        const shared = sharedWords(contentWords(query), contentWords(text));
        if (shared > 0) hits++;
        expect(new Query(query).score(text)).toBe(shared);
      }),
      { numRuns: 500 },
    );
    expect(hits).toBeGreaterThan(100);
  });
});
