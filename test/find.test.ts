// The search through raw bytes against a naive one that looks at every place: all places are found, none twice, and none else.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { realDisk } from "../src/disk.ts";
import { type FindOptions, findBytes } from "../src/find.ts";
import { tempFolder } from "./helpers.ts";

const PLAIN: FindOptions = {
  ignoreCase: false,
  matchesMax: 10_000,
  isSecret: () => false,
  isLeftOut: () => false,
};

/** Every place where the letters stand one behind the other, each as it is or, if case is ignored, in its other case. */
function naive(bytes: Buffer, needle: string, ignoreCase: boolean): number[] {
  const found: number[] = [];
  for (let start = 0; start < bytes.length; start++) {
    let ends = new Set([start]);
    for (const letter of needle) {
      const forms = ignoreCase
        ? [letter, letter.toLowerCase(), letter.toUpperCase(), letter.toUpperCase().toLowerCase()]
        : [letter];
      const next = new Set<number>();
      for (const at of ends) {
        for (const form of forms.filter((form) => [...form].length === 1)) {
          const wanted = Buffer.from(form, "utf8");
          if (bytes.subarray(at, at + wanted.length).equals(wanted)) next.add(at + wanted.length);
        }
      }
      ends = next;
    }
    if (ends.size > 0) found.push(start);
  }
  return found;
}

const letters = fc.constantFrom(..."aAbBkKsSzZ ß1.éÉüÜдДΣςσIıİiſK漢😀\u0000".split(/(?:)/u));
const needles = fc.array(letters, { minLength: 1, maxLength: 5 }).map((list) => list.join(""));

test("finds what a naive search finds, with regard to case and without", async () => {
  const folder = tempFolder();
  const path = join(folder, "bytes");
  let matches = 0;
  await fc.assert(
    fc.asyncProperty(
      needles,
      fc.array(fc.oneof(letters, needles, fc.constant("\u00c3\u0161")), { maxLength: 60 }),
      fc.boolean(),
      async (needle, parts, ignoreCase) => {
        const bytes = Buffer.from(
          [...parts, needle, needle.toUpperCase(), ...parts].join(""),
          "utf8",
        );
        writeFileSync(path, bytes);
        const found = await findBytes(realDisk, folder, "", needle, { ...PLAIN, ignoreCase });
        const places = naive(bytes, needle, ignoreCase);
        matches += places.length;
        expect(found.matches.map(({ offset }) => offset)).toEqual(places);
        expect(found.count).toBe(places.length);
      },
    ),
    { numRuns: 400 },
  );
  expect(matches).toBeGreaterThan(400);
});

test("finds what stands across the pieces in which a large file is read", async () => {
  const folder = tempFolder();
  const needle = "Canary 41, здесь";
  const places = [0, 65_530, 131_072, 196_600, 1_048_570, 1_114_112, 2_097_140];
  const bytes = Buffer.alloc(2_200_000, "x");
  for (const at of places) bytes.write(needle, at);
  writeFileSync(join(folder, "bytes"), bytes);
  for (const ignoreCase of [false, true]) {
    const found = await findBytes(realDisk, folder, "", ignoreCase ? "cANARY 41, ЗДЕСЬ" : needle, {
      ...PLAIN,
      ignoreCase,
    });
    expect(found.matches.map(({ offset }) => offset)).toEqual(places);
  }
});

test("finds the same where two letters are everywhere, or a match hides in what is like it", async () => {
  const folder = tempFolder();
  const path = join(folder, "bytes");
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: fc.constantFrom("a", "A", "b"), minLength: 1, maxLength: 40 }),
      fc.string({ unit: fc.constantFrom("a", "A", "b"), minLength: 100, maxLength: 400 }),
      fc.nat({ max: 40 }),
      fc.boolean(),
      async (needle, text, before, ignoreCase) => {
        const bytes = Buffer.from(`${"a".repeat(before)}${text}${needle}${text}`);
        writeFileSync(path, bytes);
        const found = await findBytes(realDisk, folder, "", needle, { ...PLAIN, ignoreCase });
        expect(found.matches.map(({ offset }) => offset)).toEqual(naive(bytes, needle, ignoreCase));
      },
    ),
    { numRuns: 200 },
  );
});

test("finds needles of up to 40 bytes at every place of sixteen, and where one piece ends and the next begins", async () => {
  const folder = tempFolder();
  const path = join(folder, "bytes");
  const unit = fc.constantFrom("a", "A", "b", "é", "É", "д", "Д", "漢");
  const pieceBytes = 256 * 1024;
  const background = Buffer.alloc(pieceBytes + 200, "-");
  await fc.assert(
    fc.asyncProperty(
      fc
        .string({ unit, minLength: 1, maxLength: 40 })
        .filter((text) => Buffer.byteLength(text) <= 40),
      fc.string({ unit, maxLength: 40 }),
      fc.nat({ max: 31 }),
      fc.constantFrom(0, pieceBytes - 60),
      fc.boolean(),
      async (needle, other, shift, from, ignoreCase) => {
        const bytes = Buffer.from(background);
        bytes.write(`${other}${needle}${needle.toUpperCase()}${other}`, from + shift);
        writeFileSync(path, bytes);
        const found = await findBytes(realDisk, folder, "", needle, { ...PLAIN, ignoreCase });
        // Nothing of a needle stands in the background.
        const written = bytes.subarray(from, from + 400);
        const places = naive(written, needle, ignoreCase).map((place) => from + place);
        expect(found.matches.map(({ offset }) => offset)).toEqual(places);
      },
    ),
    { numRuns: 300 },
  );
});

test("tells a long needle from what differs only at its end", async () => {
  const folder = tempFolder();
  const needle = `${"ab".repeat(2000)}bb`;
  const bytes = Buffer.concat([
    Buffer.alloc(20_000, "ab"),
    Buffer.from("bb"),
    Buffer.alloc(9, "a"),
  ]);
  writeFileSync(join(folder, "bytes"), bytes);
  const found = await findBytes(realDisk, folder, "", needle, PLAIN);
  expect(found.matches.map(({ offset }) => offset)).toEqual([16_000]);
});

test("gives way in the midst of one piece where a place to try is everywhere", async () => {
  const folder = tempFolder();
  writeFileSync(join(folder, "bytes"), Buffer.alloc(20_000, "a"));
  let now = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => ++now);
  onTestFinished(() => clock.mockRestore());
  let pauses = 0;
  const found = await findBytes(realDisk, folder, "", "a", {
    ...PLAIN,
    matchesMax: 1,
    onProgress: () => {
      pauses++;
    },
  });
  expect(found.count).toBe(20_000);
  expect(pauses).toBeGreaterThan(5);
});

test("counts more matches than one hunt lists", async () => {
  const folder = tempFolder();
  writeFileSync(join(folder, "bytes"), Buffer.alloc(700_000, "ab"));
  for (const [needle, count] of [
    ["a", 350_000],
    ["ba", 349_999],
    ["bab", 349_999],
  ] as const) {
    const found = await findBytes(realDisk, folder, "", needle, { ...PLAIN, matchesMax: 3 });
    expect(found).toMatchObject({ count, bytesScanned: 700_000 });
    expect(found.matches).toHaveLength(3);
  }
});

test("finds the same where a process may not use WebAssembly", async () => {
  const folder = tempFolder();
  const bytes = Buffer.from("The cat, THE CAT and the category; thé cät");
  writeFileSync(join(folder, "bytes"), bytes);
  vi.stubGlobal("WebAssembly", undefined);
  onTestFinished(() => {
    vi.unstubAllGlobals();
  });
  for (const ignoreCase of [false, true]) {
    const found = await findBytes(realDisk, folder, "", "the cat", { ...PLAIN, ignoreCase });
    expect(found.matches.map(({ offset }) => offset)).toEqual(naive(bytes, "the cat", ignoreCase));
  }
});
