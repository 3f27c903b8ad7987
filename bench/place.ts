// Where a program works: its options, a folder on a real disk, and stores that are filled once and copied.

import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type Agent, Store } from "../src/index.ts";
import { type Graph, legsOf, makeGraph, textOf } from "./graph.ts";

const TMPFS = 0x01021994;
/** Below, a close writes no snapshot. */
const SIZE_MIN = 3000;

export interface Options {
  /** Memories. */
  size: number;
  /** Repeats of whatever is repeated by itself. */
  runs: number;
  /** Without what others are compared with. */
  alone: boolean;
  /** Where the findings go, as JSON. */
  out: string | undefined;
}

export function options(): Options {
  const { values } = parseArgs({
    options: {
      size: { type: "string", default: "100000" },
      runs: { type: "string", default: "5" },
      alone: { type: "boolean", default: false },
      out: { type: "string" },
    },
  });
  const [size, runs] = [Number(values.size), Number(values.runs)];
  if (!(Number.isInteger(size) && size >= SIZE_MIN))
    throw new Error(`--size is ${SIZE_MIN} or more`);
  if (!(Number.isInteger(runs) && runs >= 5)) throw new Error("--runs is 5 or more");
  return { size, runs, alone: values.alone, out: values.out };
}

/** The folder of this run: BENCH_WORK if it is set, and then it stays; else a new one that goes at the end. */
export function workFolder(): string {
  if (process.env.BENCH_WORK) {
    mkdirSync(process.env.BENCH_WORK, { recursive: true });
    return process.env.BENCH_WORK;
  }
  const folder = newWorkFolder();
  process.env.BENCH_WORK = folder;
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A flush to a file system in memory costs nothing, and would say nothing. */
export function newWorkFolder(): string {
  const isInMemory = statfsSync(tmpdir()).type === TMPFS;
  const above = isInMemory ? fileURLToPath(new URL("place/", import.meta.url)) : tmpdir();
  mkdirSync(above, { recursive: true });
  return mkdtempSync(join(above, "cheesedb-bench-"));
}

/** Waits until what was copied and loaded is on the disk, so that its writing does not slow the flushes that are measured. */
export function settle() {
  spawnSync("sync");
}

export function emptyFolder(name: string): string {
  const folder = join(workFolder(), name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

export function copyFolder(from: string, name: string): string {
  const folder = join(workFolder(), name);
  rmSync(folder, { recursive: true, force: true });
  cpSync(from, folder, { recursive: true });
  return folder;
}

// ----- stores -----

export const AGENT = "alice";
const LOADED_AT_ONCE = 40_960;

/** A folder with a store in it, and in the store one agent, whose token is kept. */
export async function openAgent(folder: string): Promise<{ store: Store; agent: Agent }> {
  const store = await Store.open(folder);
  const token = keptToken(folder) ?? (await store.createAgent(AGENT, { keepToken: true })).token;
  return { store, agent: await store.openAgent(token) };
}

export function keptToken(folder: string): string | null {
  const [id] = tokenNames(folder);
  return id ? readFileSync(join(folder, "tokens", id), "utf8").trim() : null;
}

function tokenNames(folder: string): string[] {
  const tokens = join(folder, "tokens");
  return existsSync(tokens) ? readdirSync(tokens) : [];
}

/** Writes a graph into an agent. Returns the milliseconds that the calls took; making the texts is not counted. */
export async function loadAgent(agent: Agent, graph: Graph): Promise<number> {
  const { lots, memories } = graph;
  const newLots = Array.from({ length: lots }, (_, i) => ({
    label: "web_page",
    text: `lot ${i + 1}`,
  }));
  let begun = performance.now();
  await agent.addLots(newLots);
  let ms = performance.now() - begun;
  for (let from = 0; from < memories; from += LOADED_AT_ONCE) {
    const first = lots + 1 + from;
    const parentOf = (id: number) => (id < first ? id : { item: id - first });
    const items = [];
    for (let i = from; i < Math.min(from + LOADED_AT_ONCE, memories); i++)
      items.push({
        text: textOf(lots + 1 + i),
        legs: legsOf(graph, i).map((leg) => leg.map(parentOf)),
      });
    begun = performance.now();
    await agent.rememberAll(items);
    ms += performance.now() - begun;
  }
  return ms;
}

/** A store that holds the graph of a size, closed cleanly; made once a run. Not to be changed: copy it. */
export async function preparedStore(size: number): Promise<string> {
  const folder = join(workFolder(), `prepared-${size}`);
  const mark = `${folder}.done`;
  if (existsSync(mark)) return folder;
  rmSync(folder, { recursive: true, force: true });
  const { agent } = await openAgent(folder);
  await loadAgent(agent, makeGraph(size));
  await agent.close();
  writeFileSync(mark, "");
  return folder;
}

/** The one agent's own folder. */
export function agentFolder(folder: string): string {
  return join(folder, "agents", tokenNames(folder)[0] ?? "");
}

/** The files of its log, in order. */
export function logFiles(folder: string): string[] {
  const log = join(agentFolder(folder), "log");
  const generation = Math.max(...readdirSync(log).map(Number));
  const files = join(log, String(generation));
  return readdirSync(files)
    .sort()
    .map((name) => join(files, name));
}
