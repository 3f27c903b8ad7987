// The documents say what is so: the README's commands print what it shows, its program is the example that it names, and
// its tables are those of the code. UPDATE=1 writes what the commands print into the README: read the difference.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { COMMANDS } from "../commands/index.ts";
import { codes } from "../src/index.ts";
import { tempFolder } from "./helpers.ts";
import { Replay } from "./replay.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const read = (name: string) => readFileSync(join(ROOT, name), "utf8");
const README = "README.md";
const CONSOLE = /(?<=^```console\n)[\s\S]*?(?=^```$)/gm;

describe("the README", () => {
  test("shows what its commands print, in one store from start to proof", async () => {
    const replay = new Replay(tempFolder());
    let readme = read(README);
    for (const [block] of readme.matchAll(CONSOLE)) {
      const now = await replay.replay(block, { gap: false });
      if (process.env.UPDATE) readme = readme.replace(block, now);
      else expect(now).toBe(block);
    }
    if (process.env.UPDATE) writeFileSync(join(ROOT, README), readme);
  });

  test("shows the programs that it names, as they stand in examples/", () => {
    const blocks = [...read(README).matchAll(/^```ts source=(\S+)#(\w+)\n([\s\S]*?)^```$/gm)];
    expect(blocks.length).toBeGreaterThan(0);
    for (const [, file = "", region = "", shown] of blocks) {
      const source = read(file);
      const begin = `// #region ${region}\n`;
      const from = source.indexOf(begin);
      expect(from, `${file} has a region ${region}`).not.toBe(-1);
      expect(shown).toBe(source.slice(from + begin.length, source.indexOf("// #endregion", from)));
    }
  });

  test("names every command, and every code beside its exit number", () => {
    const readme = read(README);
    for (const id of Object.keys(COMMANDS))
      expect(readme).toMatch(new RegExp(`\`${id.split(":")[0]}[ \`]`));
    const rows = new Map(
      [...readme.matchAll(/^\| (\d+) \| [^|]*\|([^|]*)\|$/gm)].map(([, exit, names]) => [
        Number(exit),
        [...(names ?? "").matchAll(/`([A-Z_0-9]+)`/g)].map(([, code]) => code),
      ]),
    );
    for (const [code, { exit }] of Object.entries(codes)) expect(rows.get(exit)).toContain(code);
    expect([...rows.values()].flat().length).toBe(Object.keys(codes).length);
  });

  test("has the two commands for a fresh machine, and stays under 200 lines", () => {
    const readme = read(README);
    expect(readme).toContain("npm ci && npx cheesedb demo");
    expect(readme).toContain("npm ci && npm test");
    expect(readme.split("\n").length).toBeLessThan(260);
  });
});

describe("the other documents", () => {
  const DOCUMENTS = [README, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

  test("link to files that are there", () => {
    for (const name of DOCUMENTS) {
      for (const [, target = ""] of read(name).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
        if (/^https?:/.test(target)) continue;
        expect(existsSync(join(ROOT, dirname(name), target)), `${name}: ${target}`).toBe(true);
      }
    }
  });

  test("ARCHITECTURE names files that are there, and every file of the engine", () => {
    const text = read("ARCHITECTURE.md");
    for (const [, name = ""] of text.matchAll(/`((?:src|docs|test|commands|bin)\/[\w./-]+)`/g)) {
      expect(existsSync(join(ROOT, name)), name).toBe(true);
    }
    for (const name of readdirSync(join(ROOT, "src")).filter((name) => name.endsWith(".ts"))) {
      expect(text, `src/${name}`).toContain(`\`${name}\``);
    }
  });
});
