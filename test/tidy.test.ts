// The style's own test: which file may import what, where the disk, the lock and the packages are touched, what the library
// never does, and the words that are not ours. It holds the arrows, not the list: a new file takes its place in the order.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { COMMANDS } from "../commands/index.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The rooms of the engine in the order in which data flows: a file imports only from those above it. */
const ROOMS = [
  // words
  "terms",
  "errors",
  "node",
  // bytes
  "arrays",
  "shelf",
  "crc",
  "scan",
  "steps",
  "tick",
  "disk",
  "flush",
  "text",
  "words",
  "options",
  "codec",
  "chain",
  "batch",
  "token",
  "segment",
  "headmark",
  "lock",
  "log",
  // meaning
  "seen",
  "graph",
  "places",
  "recall",
  "apply",
  "records",
  "why",
  "rules",
  "snapshot",
  "inspect",
  "inspectors",
  "inspectworker",
  "state",
  "view",
  "jsonl",
  // chores on the log, and the handles
  "find",
  "verify",
  "compact",
  "core",
  "outcome",
  "transfer",
  "session",
  "drafts",
  "agent",
  "newstore",
  "store",
  "index",
];

/** Handles that a room below is given, and knows as a type alone. */
const KNOWN_AS_TYPES: Record<string, string[]> = {
  compact: ["core"],
  session: ["agent"],
  transfer: ["agent"],
};

/** Bytes in, answers out: no disk, no clock, no chance. */
const PURE = [
  "terms",
  "errors",
  "arrays",
  "shelf",
  "crc",
  "scan",
  "steps",
  "words",
  "options",
  "codec",
  "chain",
  "seen",
  "graph",
  "places",
  "recall",
  "apply",
  "why",
];

/** What a room never imports, though it stands above. */
const NEVER: Record<string, string[]> = {
  // Knows no rule.
  graph: ["rules", "recall"],
  // Take nothing from a live handle.
  verify: ["state", "core", "agent", "lock", "rules"],
  // Knows no format, so that it cannot share a bug with one.
  find: ["codec", "chain", "segment", "log", "records", "state", "graph"],
};

/** Built-ins of the engine, and the rooms that may use them. */
const BUILT_INS: Record<string, string[]> = {
  "node:fs": ["disk"],
  "node:sqlite": ["lock"],
  "node:crypto": ["chain", "token", "store", "newstore"],
  "node:zlib": ["crc", "codec", "batch", "segment", "snapshot", "compact", "store"],
  "node:path": ROOMS,
  "node:os": ["inspectors"],
  "node:worker_threads": ["inspectors", "inspectworker"],
};

/** Packages, and the files that may import them; a name that ends in / is a folder. */
const PACKAGES: Record<string, string[]> = {
  chalk: ["src/cli/style.ts"],
  ora: ["src/cli/progress.ts"],
  "@oclif/core": ["src/cli/command.ts", "src/cli/start.ts", "src/cli/complete.ts", "commands/"],
  openai: ["src/llm/client.ts"],
  zod: ["src/llm/", "src/mcp/"],
  "@modelcontextprotocol/sdk": ["src/mcp/server.ts"],
  "@modelcontextprotocol/server": ["src/mcp/server.ts"],
  "@noble/hashes": ["src/chain.ts", "src/cli/doctor.ts"],
};

/** Rooms that the doors may enter: the front one, and two that know nothing of the engine. */
const OPEN = ["src/index.ts", "src/words.ts", "src/node.ts"];

/** Which doors each door may go through, beside those and its own room. */
const DOORS: Record<string, string[]> = {
  "src/cli/": ["src/llm/"],
  "src/llm/": [],
  "src/mcp/": ["src/llm/"],
  "commands/": ["src/cli/", "src/llm/", "src/mcp/"],
};

interface Source {
  /** From the root: src/agent.ts. */
  path: string;
  text: string;
  /** Without comments. */
  code: string;
  imports: Import[];
}

interface Import {
  /** A package, a built-in, or a path from the root. */
  from: string;
  isType: boolean;
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|\s\/\/ .*$/gm, "");
}

function importsIn(path: string, code: string): Import[] {
  const found: Import[] = [];
  const resolve = (name: string) =>
    name.startsWith(".") ? posix.join(posix.dirname(path), name) : name;
  for (const [, type, name = ""] of code.matchAll(
    /^(?:import|export)\b(\s+type\b)?[^;'"()=]*?\bfrom\s*["']([^"']+)["']/gm,
  ))
    found.push({ from: resolve(name), isType: type !== undefined });
  for (const [, name = ""] of code.matchAll(/^import\s*["']([^"']+)["']/gm))
    found.push({ from: resolve(name), isType: false });
  for (const [, name = ""] of code.matchAll(
    /(?:import|getBuiltinModule|require)\(\s*["']([^"']+)["']/g,
  ))
    found.push({ from: resolve(name), isType: false });
  return found;
}

function sourcesIn(folder: string): Source[] {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .sort()
    .map((name) => {
      const path = posix.join(folder, name.replaceAll("\\", "/"));
      const text = readFileSync(join(ROOT, path), "utf8");
      const code = withoutComments(text);
      return { path, text, code, imports: importsIn(path, code) };
    });
}

const sources = sourcesIn("src");
const commands = sourcesIn("commands");
const engine = sources.filter(({ path }) => !path.slice("src/".length).includes("/"));
const doors = [...sources.filter((source) => !engine.includes(source)), ...commands];

const roomOf = (path: string) => path.slice("src/".length, -".ts".length);
const isIn = (path: string, places: string[]) =>
  places.some((place) => (place.endsWith("/") ? path.startsWith(place) : path === place));
/** The name of a package without what is deeper in it. */
const packageOf = (from: string) =>
  from
    .split("/")
    .slice(0, from.startsWith("@") ? 2 : 1)
    .join("/");

/** Every place where some code stands, as file:line. */
function placesOf(wanted: RegExp, among: Source[], of: "text" | "code" = "code"): string[] {
  return among.flatMap((source) =>
    source[of]
      .split("\n")
      .flatMap((line, i) => (wanted.test(line) ? [`${source.path}:${i + 1} ${line.trim()}`] : [])),
  );
}

describe("this test", () => {
  test("sees every way in which a file imports, and no comment", () => {
    const code = withoutComments(`
      // import { a } from "./comment.ts";
      /* import { b } from "./block.ts"; */
import fs, { type Stats } from "node:fs";
import { c,
  d } from "./c.ts";
import type { E } from "../e.ts";
import "./side-effect.ts";
export { f } from "./f.ts";
export type * from "./g.ts";
      const h = await import("openai");
      type I = import("node:sqlite").DatabaseSync;
      const j = process.getBuiltinModule("node:net");
      const url = "http://x"; // import("./tail.ts")`);
    expect(importsIn("src/x/y.ts", code)).toEqual([
      { from: "node:fs", isType: false },
      { from: "src/x/c.ts", isType: false },
      { from: "src/e.ts", isType: true },
      { from: "src/x/f.ts", isType: false },
      { from: "src/x/g.ts", isType: true },
      { from: "src/x/side-effect.ts", isType: false },
      { from: "openai", isType: false },
      { from: "node:sqlite", isType: false },
      { from: "node:net", isType: false },
    ]);
    expect(code).toContain("http://x");
  });

  test("looks at what there is", () => {
    expect(engine.length).toBeGreaterThan(30);
    expect(doors.length).toBeGreaterThan(15);
    expect(engine.flatMap(({ imports }) => imports).length).toBeGreaterThan(150);
    expect(packageOf("@noble/hashes/sha2.js")).toBe("@noble/hashes");
    expect(packageOf("openai/helpers/zod")).toBe("openai");
  });
});

describe("the rooms", () => {
  test("every file of the engine has its place in the order, and every place its file", () => {
    expect(engine.map(({ path }) => roomOf(path)).toSorted()).toEqual(ROOMS.toSorted());
  });

  test("a file of the engine imports only from the rooms above it: arrows one way, no ring", () => {
    const wrong = engine.flatMap(({ path, imports }) => {
      const room = roomOf(path);
      return imports
        .filter(({ from }) => from.startsWith("src/"))
        .filter(({ from, isType }) => {
          const other = roomOf(from);
          if (isType && KNOWN_AS_TYPES[room]?.includes(other)) return false;
          const at = ROOMS.indexOf(other);
          return at === -1 || at >= ROOMS.indexOf(room);
        })
        .map(({ from }) => `${path} imports ${from}`);
    });
    expect(wrong).toEqual([]);
  });

  test("what a room must not know, it does not import", () => {
    const wrong = engine.flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => NEVER[roomOf(path)]?.includes(roomOf(from)))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  test("the pure rooms import the pure ones alone, and touch neither clock nor chance", () => {
    const pure = engine.filter(({ path }) => PURE.includes(roomOf(path)));
    expect(pure.length).toBe(PURE.length);
    const wrong = pure.flatMap(({ path, imports }) =>
      imports
        .filter(
          ({ from, isType }) => from.startsWith("src/") && !isType && !PURE.includes(roomOf(from)),
        )
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
    const impure =
      /\b(Date\.now|new Date\(\)|performance|Math\.random|random\w*|set(Timeout|Immediate|Interval))\b/;
    expect(placesOf(impure, pure)).toEqual([]);
  });

  test("the engine never imports a door: neither cli, llm, mcp nor a command", () => {
    const wrong = engine.flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => isIn(from, ["commands/", "src/cli/", "src/llm/", "src/mcp/"]))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  test("doors and commands reach the engine through src/index.ts alone; words.ts and node.ts are open to all", () => {
    const wrong = doors.flatMap(({ path, imports }) => {
      const [own, others] = Object.entries(DOORS).find(([door]) => path.startsWith(door)) ?? [];
      if (!own || !others) return [`${path} is in no room`];
      return imports
        .filter(({ from }) => from.startsWith("src/") || from.startsWith("commands/"))
        .filter(({ from }) => !isIn(from, [...OPEN, own, ...others]))
        .map(({ from }) => `${path} imports ${from}`);
    });
    expect(wrong).toEqual([]);
  });

  test("the doors are no ring either", () => {
    const arrows = new Map(
      doors.map(({ path, imports }) => [
        path,
        imports.filter(({ isType }) => !isType).map(({ from }) => from),
      ]),
    );
    // Whatever imports nothing that is left goes; what stays in the end stands in a ring.
    for (let before = -1; before !== arrows.size; ) {
      before = arrows.size;
      for (const [path, from] of arrows)
        if (!from.some((other) => arrows.has(other))) arrows.delete(path);
    }
    expect([...arrows.keys()]).toEqual([]);
  });
});

describe("what is imported from outside", () => {
  test("the engine takes each built-in in its own rooms alone: the disk in disk.ts, the lock in lock.ts", () => {
    const wrong = engine.flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => from.startsWith("node:"))
        .filter(({ from }) => !BUILT_INS[from]?.includes(roomOf(path)))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
    const uses = (name: string) =>
      engine
        .filter(({ imports }) => imports.some(({ from }) => from === name))
        .map(({ path }) => path);
    expect(uses("node:fs")).toEqual(["src/disk.ts"]);
    expect(uses("node:sqlite")).toEqual(["src/lock.ts"]);
  });

  test("node:fs is for disk.ts and the doors; node:sqlite for nobody but lock.ts", () => {
    const wrong = [...sources, ...commands].flatMap(({ path, imports }) =>
      imports
        .filter(
          ({ from }) =>
            (/^node:fs(\/|$)/.test(from) && !isIn(path, ["src/disk.ts", ...Object.keys(DOORS)])) ||
            (from === "node:sqlite" && path !== "src/lock.ts"),
        )
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  test("records are hashed in chain.ts alone", () => {
    expect(
      placesOf(/\b(createHash|createHmac|hash\(|sha256\()/, engine).map((at) => at.split(":")[0]),
    ).toSatisfy(
      (files: string[]) => files.length > 0 && files.every((file) => file === "src/chain.ts"),
    );
  });

  test("each package is imported where it is meant to be, and nowhere else", () => {
    const wrong = [...sources, ...commands].flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => !/^(node:|src\/|commands\/)/.test(from))
        .filter(({ from }) => !isIn(path, PACKAGES[packageOf(from)] ?? []))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  test("openai and the MCP SDK load only when a command asks: no import that a start follows leads there", () => {
    const heavy = /^(openai|@modelcontextprotocol)(\/|$)/;
    const all = [...sources, ...commands];
    const followed = new Map(
      all.map(({ path, code }) => [
        path,
        importsIn(path, code.replace(/import\(\s*["'][^"']+["']/g, ""))
          .filter(({ isType }) => !isType)
          .map(({ from }) => from),
      ]),
    );
    const reached = new Set([
      "src/index.ts",
      "src/cli/start.ts",
      ...commands.map(({ path }) => path),
    ]);
    for (const path of reached) for (const from of followed.get(path) ?? []) reached.add(from);
    expect(reached.size).toBeGreaterThan(engine.length);
    expect([...reached].filter((name) => heavy.test(name))).toEqual([]);
  });

  test("a relative import names the file, with its ending", () => {
    const wrong = [...sources, ...commands].flatMap(({ path, imports }) =>
      imports
        .filter(({ from }) => /^(src|commands)\//.test(from) && !existsSync(join(ROOT, from)))
        .map(({ from }) => `${path} imports ${from}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe("the library", () => {
  test("never prints", () => {
    expect(placesOf(/\bconsole\b|process\.(stdout|stderr)|\bemitWarning\(/, engine)).toEqual([]);
  });

  test("never reads the environment or the command line", () => {
    expect(placesOf(/process\.(env|argv|cwd|title)\b/, engine)).toEqual([]);
  });

  test("never exits, and never meddles with its process", () => {
    expect(placesOf(/process\.(exit|exitCode|kill|abort|on|once|chdir|umask)\b/, engine)).toEqual(
      [],
    );
  });

  test("the language model's room neither prints nor exits", () => {
    const llm = doors.filter(({ path }) => path.startsWith("src/llm/"));
    expect(placesOf(/\bconsole\b|process\.(stdout|stderr|exit|exitCode)\b/, llm)).toEqual([]);
  });
});

describe("the form", () => {
  test("line 1 of every file in src is a comment that says in a sentence what the file is", () => {
    const wrong = sources.filter(({ text }) => {
      const lines = text.split("\n");
      if (!/^\/\/ \S/.test(lines[0] ?? "")) return true;
      const end = lines.findIndex((line) => !/^\/\/ \S/.test(line));
      const words = lines.slice(0, end).map((line) => line.slice(3));
      return !/\S+( \S+){3,}.*[.:?)]$/.test(words.join(" "));
    });
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });

  test("no file of src or commands has more than 900 lines", () => {
    const long = [...sources, ...commands].filter(({ text }) => text.split("\n").length > 901);
    expect(long.map(({ path }) => path)).toEqual([]);
  });

  test("a thing has one word: a memory dies, and is nothing else that other systems say", () => {
    const foreign = /taint|invalidat|soft[- _]?delet|tombstone/i;
    expect(foreign.test("isSoftDeleted")).toBe(true);
    expect(placesOf(foreign, [...sources, ...commands], "text")).toEqual([]);
  });

  test("exports have names; only the class of a command is a default, since oclif wants it", () => {
    expect(placesOf(/^export default/, sources)).toEqual([]);
    const without = commands.filter(({ code }) => !/^export default class /m.test(code));
    expect(without.map(({ path }) => path)).toEqual(["commands/index.ts"]);
  });

  test("every file of commands is in the table of commands", () => {
    const ids = commands
      .map(({ path }) => path.replace(/^commands\/|\.ts$/g, "").replace("/", ":"))
      .filter((id) => id !== "index");
    expect(ids.sort()).toEqual(Object.keys(COMMANDS).sort());
  });

  test("the code speaks of what is, not of how it came about: no to-dos, no tickets", () => {
    expect(
      placesOf(/\b(TODO|FIXME|XXX|HACK)\b|(^|\s)#\d+\b/, [...sources, ...commands], "text"),
    ).toEqual([]);
  });
});
