// Literals of what others rely on. A red pin does not mean "forbidden"; it means "say so in the changelog".
//
// The fields of each --json are pinned in cli.test.ts, where there is something to show.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Config } from "@oclif/core";
import { expect, test } from "vitest";
import * as library from "../src/index.ts";
import { nodeProblem } from "../src/node.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Of every command: --json, and the flags that find the store, open the agent and wait for it. */
const EVERYWHERE = ["--json", "--store=", "--token=", "--wait="];

/** Arguments in their order, in brackets where they may be left out, … where there may be many; then the command's own flags. */
const COMMANDS: Record<string, string> = {
  "agent create": "NAME",
  "agent delete": "NAME -y,--yes",
  "agent list": "",
  ask: "AGENT QUESTION --builtin --why -y,--yes",
  compact: "AGENT",
  completion: "SHELL",
  corroborate: "AGENT MEMORY --from=",
  demo: "--builtin --keep --runs= --scenario= -y,--yes",
  doctor: "",
  export: "AGENT --dead-texts -o,--out=",
  find: "TEXT --absent --agent= -i,--ignore-case",
  history: "AGENT",
  import: "AGENT FILE",
  learn: "AGENT [LOT…] --builtin -n,--dry-run --new -y,--yes",
  list: "AGENT -a,--all --lots --memories",
  lot: "AGENT LABEL TEXT --uri=",
  mcp: "AGENT --install= --no-erase --print-config= --read-only -y,--yes",
  recall:
    "AGENT [ID…] --contact -n,--dry-run --erase --label= --plan= --since= --strict --until= --uri-prefix= -y,--yes",
  remember: "AGENT TEXT --from=…",
  show: "AGENT ID",
  stats: "[AGENT]",
  verify: "[AGENT] --expect=",
  why: "AGENT ID -d,--depth=",
};

/** From the sources, so that no build is needed. */
async function loadCommands() {
  const pjson = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
  const table = { strategy: "explicit", target: "./commands/index.ts", identifier: "COMMANDS" };
  pjson.oclif.commands = table;
  return (await Config.load({ root: ROOT, pjson })).commands;
}

test("the commands, their arguments and their flags", async () => {
  const found: Record<string, string> = {};
  for (const { id, args, flags } of await loadCommands()) {
    const words = Object.values(args).map(({ name, required, multiple }) => {
      const word = `${name.toUpperCase()}${multiple ? "…" : ""}`;
      return required ? word : `[${word}]`;
    });
    const switches = Object.entries(flags)
      .map(([name, flag]) => {
        const long = `--${name}${flag.type === "option" ? "=" : ""}`;
        const many = flag.type === "option" && flag.multiple ? "…" : "";
        return { name, word: `${flag.char ? `-${flag.char},` : ""}${long}${many}` };
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ word }) => word);
    // mcp speaks a protocol, and has no --json.
    const everywhere = id === "mcp" ? EVERYWHERE.slice(1) : EVERYWHERE;
    expect([id, switches.filter((word) => EVERYWHERE.includes(word))]).toEqual([id, everywhere]);
    const own = switches.filter((word) => !EVERYWHERE.includes(word));
    found[id.replaceAll(":", " ")] = [...words, ...own].join(" ");
  }
  expect(found).toEqual(COMMANDS);
});

test("every command says in a line what it does, and has at least two examples", async () => {
  for (const { id, summary, description, examples } of await loadCommands()) {
    expect([id, summary]).toEqual([id, expect.stringMatching(/^[A-Z].*\.$/)]);
    expect([id, description]).toEqual([id, expect.stringMatching(/^[A-Z]/)]);
    expect([id, (examples ?? []).length > 1]).toEqual([id, true]);
  }
});

test("the exit number of each code", () => {
  const exits = Object.entries(library.codes).map(([code, { exit }]) => [code, exit]);
  expect(Object.fromEntries(exits)).toEqual({
    UNEXPECTED: 1,
    USAGE: 2,
    NOT_UTF8: 2,
    TOO_LARGE: 2,
    BAD_INPUT: 2,
    NO_AGENT: 3,
    NO_ENTRY: 3,
    NO_STORE: 3,
    BAD_TOKEN: 3,
    NO_LEG: 4,
    UNKNOWN_PARENT: 4,
    DEAD_PARENT: 4,
    CYCLE: 4,
    DEAD_ENTRY: 4,
    RECALLED_CONTEXT: 4,
    PLAN_STALE: 4,
    READ_ONLY: 4,
    NAME_TAKEN: 4,
    BAD_NAME: 4,
    LOCKED: 5,
    CORRUPT: 6,
    HEAD_MISMATCH: 6,
    NEWER_FORMAT: 6,
    DISK: 7,
    CLOSED: 7,
    LLM: 8,
    CANCELLED: 130,
  });
});

test("every code has a hint that says what to do, in a sentence", () => {
  for (const [code, { hint, when }] of Object.entries(library.codes)) {
    expect([code, hint]).toEqual([code, expect.stringMatching(/^["A-Z].*\.$/)]);
    expect([code, when]).toEqual([code, expect.stringMatching(/^\S.*[^.]$/)]);
  }
});

test("what a program can import by name", () => {
  expect(Object.keys(library).sort()).toEqual([
    "CheeseError",
    "Store",
    "codes",
    "decodeUtf8",
    "hasCode",
  ]);
});

test("the calls of the library that are a contract", () => {
  const methods = (type: { prototype: object }) =>
    Object.getOwnPropertyNames(type.prototype).filter((name) => name !== "constructor");
  expect(methods(library.Store)).toEqual(
    expect.arrayContaining([
      "createAgent",
      "openAgent",
      "agents",
      "deleteAgent",
      "find",
      "verify",
      "stats",
    ]),
  );
  expect(typeof library.Store.open).toBe("function");
});

test("the oldest Node that will do: the same in the code, the package and the README", () => {
  expect(nodeProblem("22.16.0")).toBeNull();
  expect(nodeProblem("24.0.0")).toBeNull();
  for (const version of ["22.15.9", "20.20.2", "8.0.0"])
    expect(nodeProblem(version)).toBe(`cheesedb needs Node 22.16 or newer, and this is ${version}`);
  const { engines } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
  expect(engines).toEqual({ node: ">=22.16" });
  expect(readFileSync(`${ROOT}README.md`, "utf8")).toContain("Node 22.16 or newer");
});

test("the package's name, its command and its one door", () => {
  const { name, bin, exports } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"));
  expect(name).toBe("cheesedb");
  expect(bin).toEqual({ cheesedb: "bin/run.js" });
  expect(Object.keys(exports)).toEqual([".", "./package.json"]);
});
