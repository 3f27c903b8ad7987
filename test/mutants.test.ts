// What a mutant is: one small thing of a program changed, under a name that says what, wherever the line stands.

import { expect, test } from "vitest";
import { mutantsOf, mutated } from "./mutation/mutate.ts";

const SOURCE = `// 1 < 2 && go(1);
import { go, isDone } from "./go.ts";
type Small = 0 | 1;
const text: string = "1 < 2" + \`\${text}\`;
function f(a: number): Small | null {
  if (a < 2 && !isDone) return null;
  go(a);
  return (a + 1) as Small;
}
function g(a: number) {
  go(a);
}
`;

test("programs are mutated, and comments, imports, types and texts are not", () => {
  const condition = "if (a < 2 && !isDone) return null;";
  expect(mutantsOf("f", SOURCE).map(({ id, line }) => [line, id])).toEqual([
    [6, `f: ${condition} → if (!(a < 2 && !isDone)) return null;`],
    [6, `f: ${condition} → if (a <= 2 && !isDone) return null;`],
    [6, `f: ${condition} → if (a >= 2 && !isDone) return null;`],
    [6, `f: ${condition} → if (a < 3 && !isDone) return null;`],
    [6, `f: ${condition} → if (a < 1 && !isDone) return null;`],
    [6, `f: ${condition} → if (a < 2 || !isDone) return null;`],
    [6, `f: ${condition} → if (a < 2 && isDone) return null;`],
    [6, `f: ${condition} → if (a < 2 && !isDone) ;`],
    [7, "f: go(a); → ;"],
    [8, "f: return (a + 1) as Small; → return (a - 1) as Small;"],
    [8, "f: return (a + 1) as Small; → return (a + 2) as Small;"],
    [8, "f: return (a + 1) as Small; → return (a + 0) as Small;"],
    [11, "f: go(a); → ; #2"],
  ]);
});

test("a counter goes the other way", () => {
  const counters = "function f(a: number) { a++; a--; }";
  expect(mutantsOf("f", counters).map((mutant) => mutated(counters, mutant))).toEqual([
    "function f(a: number) { a--; a--; }",
    "function f(a: number) { a++; a++; }",
  ]);
});

test("a mutant stands in its source in the place of what it names", () => {
  const found = mutantsOf("f", SOURCE).find(({ text }) => text === "||");
  expect(found && mutated(SOURCE, found)).toBe(SOURCE.replace("2 && !", "2 || !"));
});

test("an operator is come to where its left side is, which may settle the outcome alone", () => {
  const found = mutantsOf("f", SOURCE).find(({ text }) => text === "||");
  expect(found?.from).toBe(SOURCE.indexOf("a < 2 &&"));
});
