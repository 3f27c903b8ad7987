// Runs the built command line as a user would: a process of its own, in an environment that holds nothing but what the test says.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { type Agent, Store } from "../src/index.ts";
import { tempFolder } from "./helpers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BIN = join(ROOT, "bin", "run.js");
/** The words that begin every command line. */
export const CLI = [process.execPath, BIN];
const BUILT = join(ROOT, "dist", "cli", "index.js");
/** Nobody's home: a command that forgets its store finds nothing there. */
const NO_HOME = join(tmpdir(), "cheesedb-test-no-home");
/** A command that hangs is killed, and has then no exit number. */
const KILL_AFTER_MS = 60_000;

if (!existsSync(BUILT)) throw new Error("the command line is not built: npm run build");
if (newest(join(ROOT, "src")) > statSync(BUILT).mtimeMs)
  console.warn("dist/ is older than the sources: npm run build");

function newest(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Math.max(...files.map(({ parentPath, name }) => statSync(join(parentPath, name)).mtimeMs));
}

export interface CliOptions {
  /** The folder of the store, by CHEESEDB_DIR. */
  store?: string;
  /** What comes on standard input; nothing if not said, and it stays open for `null`. */
  stdin?: string | Uint8Array | null;
  env?: Record<string, string>;
  cwd?: string;
  /** A descriptor to write to, in place of what is collected. */
  stdout?: number;
}

export interface Ran {
  /** Null when it was ended by a signal. */
  code: number | null;
  stdout: string;
  stderr: string;
  /** Standard output, which must be one JSON document. Of any shape: tests look at what they know of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

export interface Started {
  child: ChildProcess;
  done: Promise<Ran>;
}

/** Starts a command, and gives hold of it while it runs. */
export function startCli(args: string[], options: CliOptions = {}): Started {
  const { store, stdin, env = {}, cwd = tmpdir(), stdout = "pipe" } = options;
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd,
    env: environment(store, env),
    stdio: [stdin === undefined ? "ignore" : "pipe", stdout, "pipe"],
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
  // It may end before it has read everything.
  child.stdin?.on("error", () => {});
  if (stdin !== undefined && stdin !== null) child.stdin?.end(stdin);
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on("data", (part: Buffer) => out.push(part));
  child.stderr?.on("data", (part: Buffer) => err.push(part));
  const done = new Promise<Ran>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      const ran = {
        code,
        stdout: Buffer.concat(out).toString("utf8"),
        stderr: Buffer.concat(err).toString("utf8"),
      };
      // Not enumerable: a comparison that fails shows what was printed, and does not parse it.
      resolve(Object.defineProperty(ran, "json", { get: () => JSON.parse(ran.stdout) }) as Ran);
    });
  });
  return { child, done };
}

/**
 * Runs a command to its end. What holds for every command without a terminal is checked each time: no escape sequence on
 * either stream, and no stack trace unless DEBUG asks for one.
 */
export async function cli(args: string[], options: CliOptions = {}): Promise<Ran> {
  const ran = await startCli(args, options).done;
  if (!options.env?.FORCE_COLOR) expect(ran.stdout + ran.stderr).not.toContain("\u001b");
  if (!options.env?.DEBUG) expect(ran.stdout + ran.stderr).not.toMatch(/\n {4}at .*:\d+:\d+/);
  return ran;
}

function environment(store: string | undefined, env: Record<string, string>) {
  return {
    PATH: process.env.PATH ?? "",
    HOME: NO_HOME,
    ...(store === undefined ? {} : { CHEESEDB_DIR: store }),
    ...env,
  };
}

/** `--json` where it belongs: before a `--`. */
export function asJson(args: string[]): string[] {
  const at = args.indexOf("--");
  return at === -1 ? [...args, "--json"] : args.toSpliced(at, 0, "--json");
}

/** A command that must succeed, as JSON. */
export async function result(args: string[], options: CliOptions = {}): Promise<Ran["json"]> {
  const ran = await cli(asJson(args), options);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  return ran.json;
}

export interface Failure {
  code: string;
  message: string;
  hint: string;
  [fact: string]: unknown;
}

/**
 * A command that must be refused, as JSON: one document on standard output, and nothing else.
 *
 * @returns what stands in it
 */
export async function refusal(
  args: string[],
  expected: { code: string; exit: number },
  options: CliOptions = {},
): Promise<Failure> {
  const ran = await cli(asJson(args), options);
  const error: Failure = ran.json.error ?? {};
  // Softly, so that a table of commands tells of every row that is wrong.
  expect.soft({ args, code: error.code, exit: ran.code, stderr: ran.stderr }).toEqual({
    args,
    ...expected,
    stderr: "",
  });
  expect.soft(error.message).toMatch(/^\S.*$/);
  expect.soft(error.hint).toMatch(/^\S.*$/);
  return error;
}

/** A command that must be refused, in both forms. Without --json: two sentences on standard error, and nothing else. */
export async function refused(
  args: string[],
  expected: { code: string; exit: number },
  options: CliOptions = {},
): Promise<Failure> {
  const [error, text] = await Promise.all([refusal(args, expected, options), cli(args, options)]);
  expect.soft({ args, code: text.code, stdout: text.stdout }).toEqual({
    args,
    code: expected.exit,
    stdout: "",
  });
  expect.soft(text.stderr).toMatch(TWO_SENTENCES);
  return error;
}

/** What is wrong, and what to do. */
export const TWO_SENTENCES = /^Error: [^\n]+\.\n[^\n]+[.?]\n$/;

/** Runs many at a time, but no more than a few: each is a process. */
export async function each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await run(item);
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
}

// ----- stores -----

export const T0 = Date.parse("2026-01-01T00:00:00.000Z");

export interface Kitchen {
  store: string;
  token: string;
  id: string;
}

/**
 * The store of the README: lots 1 `user_message`, 2 `web_page`, 3 `weather_tool`; memories 4 from [1] or from [2], 5 from [3],
 * 6 from [4] and [5]. Entry n was written n seconds after T0.
 */
export async function puneStore(folder = join(tempFolder(), "store")): Promise<Kitchen> {
  let now = T0;
  const store = await Store.open(folder, { now: () => now });
  const { agent, token } = await store.createAgent("alice", { keepToken: true });
  const alice = await store.openAgent(token);
  const page = { uri: "https://example.com/u/1" };
  const steps = [
    () => alice.addLot("user_message", "I live in Pune"),
    () => alice.addLot("web_page", "profile: lives in Pune", page),
    () => alice.addLot("weather_tool", "Pune: rain"),
    () => alice.remember("user lives in Pune", [[1], [2]]),
    () => alice.remember("Pune is rainy", [[3]]),
    () => alice.remember("carry an umbrella", [[4, 5]]),
  ];
  for (const [i, step] of steps.entries()) {
    now = T0 + (i + 1) * 1000;
    await step();
  }
  await alice.close();
  return { store: folder, token, id: agent.id };
}

/** A store with one agent, alice, who knows nothing yet. */
export async function emptyStore(folder = join(tempFolder(), "store")): Promise<Kitchen> {
  const store = await Store.open(folder);
  const { agent, token } = await store.createAgent("alice", { keepToken: true });
  return { store: folder, token, id: agent.id };
}

/** What led up to a test, without a process of its own: through the library, with the token that the store keeps. */
export async function asAgent<T>(
  folder: string,
  name: string,
  work: (agent: Agent) => Promise<T>,
): Promise<T> {
  const store = await Store.open(folder);
  const agent = await store.openAgent(store.keptToken(name) as string);
  try {
    return await work(agent);
  } finally {
    await agent.close();
  }
}

/** One more agent in a store; its token. */
export async function addAgent(folder: string, name: string): Promise<string> {
  const store = await Store.open(folder);
  return (await store.createAgent(name, { keepToken: true })).token;
}

/** Every file of a folder with a hash of its bytes, and the size alone of lock files, which nothing may open. */
export function bytesOf(folder: string): Record<string, string> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { size, mode } = lstatSync(path);
    const content =
      entry.isFile() && !entry.parentPath.endsWith("locks")
        ? createHash("sha256").update(readFileSync(path)).digest("hex")
        : "";
    files[path] = `${mode.toString(8)} ${entry.isDirectory() ? "" : size} ${content}`;
  }
  return files;
}

// ----- terminals -----

/** Whether there is a pseudo terminal to be had: `script` of util-linux. */
export const HAS_TERMINAL = (() => {
  const found = spawnSync("script", ["--version"], { encoding: "utf8" });
  return found.status === 0 && found.stdout.includes("util-linux");
})();

if (!HAS_TERMINAL) console.log("no `script` of util-linux here: tests on a terminal are left out");

/**
 * Runs a command on a pseudo terminal of 100 columns.
 *
 * @param options.answer typed once the output ends with a question
 */
export async function onTerminal(
  args: string[],
  options: CliOptions & { answer?: string } = {},
): Promise<{ code: number | null; output: string }> {
  const { store, env = {}, cwd = tmpdir(), answer } = options;
  const command = [...CLI, ...args].map(shellQuoted).join(" ");
  const child = spawn("script", ["-qec", `stty cols 100 rows 40; ${command}`, "/dev/null"], {
    cwd,
    env: { ...environment(store, env), TERM: env.TERM ?? "xterm", SHELL: "/bin/sh" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
  child.stdin.on("error", () => {});
  let output = "";
  let isAnswered = false;
  child.stdout.on("data", (part: Buffer) => {
    output += part.toString("utf8");
    if (answer !== undefined && !isAnswered && output.includes("[y/N]")) {
      isAnswered = true;
      child.stdin.write(answer);
    }
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output: output.replaceAll("\r\n", "\n") });
    });
  });
}

export function shellQuoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
