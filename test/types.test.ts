// A TypeScript program that uses the library compiles as docs/library.md says, with the libraries' own types checked too.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { tempFolder } from "./helpers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const PROGRAM = `import { type Plan, Store } from "cheesedb";
const store = await Store.open("memory");
const token = store.keptToken("alice") ?? (await store.createAgent("alice", { keepToken: true })).token;
await using alice = await store.openAgent(token);
const plan: Plan = await alice.planRecall([1], { mode: "strict" });
console.log(plan.isNoop, plan.survivors);
`;

/** What the compiler says of a program in a folder of its own, as a user has it. */
function compiled(program: string, options: object): string {
  const folder = tempFolder();
  const types = join(folder, "node_modules", "@types");
  mkdirSync(types, { recursive: true });
  symlinkSync(ROOT, join(folder, "node_modules", "cheesedb"));
  symlinkSync(join(ROOT, "node_modules", "@types", "node"), join(types, "node"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "program.ts"), program);
  const compilerOptions = { module: "nodenext", strict: true, noEmit: true, ...options };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  return spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" }).stdout;
}

test("with the types of Node it compiles; without them, and with a misspelt option, it does not", () => {
  expect(readFileSync(join(ROOT, "docs", "library.md"), "utf8")).toContain('`"types": ["node"]`');
  expect(compiled(PROGRAM, { types: ["node"] })).toBe("");
  const wrong = compiled(PROGRAM.replace("mode:", "mood:"), { types: [] });
  expect(wrong).toContain("Buffer");
  expect(wrong).toMatch(/'mood' does not exist/);
});
