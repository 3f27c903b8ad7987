import { expect, test } from "vitest";
import { Shelf } from "../src/shelf.ts";
import { chance, SEED } from "./chance.ts";

test("what is put on a shelf comes back as it was, whatever its length", () => {
  const random = chance(SEED);
  const letters = ["a", "é", "雨", "☂️", "\u0000", "🌧"];
  const someText = (length: number) =>
    Array.from({ length }, () => letters[Math.floor(random() * letters.length)]).join("");
  const texts = ["", "x".repeat(3_000_000), ""];
  for (let i = 0; i < 3000; i++) texts.push(someText(Math.floor(random() ** 4 * 2000)));
  // About as long as what is left of a box, one letter after the other.
  for (let i = 0; i < 40; i++) texts.push("雨".repeat(90_000 + i), "r".repeat(170_000 + i));
  const shelf = new Shelf();
  for (const text of texts) shelf.push(text);
  expect(shelf.count).toBe(texts.length);
  const wrong = texts.findIndex((text, i) => shelf.at(i) !== text);
  expect(wrong, `seed ${SEED}`).toBe(-1);
});
