// Where the time of one kind of work goes, by V8's sampling profiler: for the figures that fall short of their targets.
//
//   npx node bench/profile.ts recall --size 1000000      recall, single, batch, callers, load, replay, verify, query

import { rmSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Agent } from "../src/index.ts";
import { Query } from "../src/words.ts";
import { makeGraph, textOf } from "./graph.ts";
import {
  agentFolder,
  copyFolder,
  emptyFolder,
  loadAgent,
  openAgent,
  preparedStore,
  settle,
} from "./place.ts";

const INTERVAL_US = 50;
const CACHE_BYTES = 64 * 2 ** 20;
const LINES = 24;

const { values, positionals } = parseArgs({
  options: { size: { type: "string", default: "100000" } },
  allowPositionals: true,
});
const size = Number(values.size);
const session = new Session();
session.connect();

/** Self time by what it was spent on, in microseconds. */
const spent = new Map<string, number>();
let rounds = 0;

/** What is native stands under its caller, and under the name of what it does. */
const KINDS: [RegExp, string][] = [
  [/^\(garbage collector\)/, "garbage collection"],
  [/^\(idle\)/, "waiting: for flushes and threads"],
  [/^(fdatasync|fsync)/, "flushes in place"],
  [/^(oneShotDigest|hash|sha256|getCachedHashId)\b/, "SHA-256"],
  [
    /^(lstat|fstat|read|writeBuffer|open|close|readdir|exec)\b.*native/,
    "other calls of the system",
  ],
  [
    /native < (_?copy|utf8Write|latin1Write|byteLength|crc32|copyImpl)/i,
    "bytes copied, measured and checked",
  ],
];

async function profiled<T>(work: () => Promise<T>): Promise<T> {
  await session.post("Profiler.start");
  const result = await work();
  const { profile } = await session.post("Profiler.stop");
  rounds++;
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const callers = new Map(
    profile.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node] as const)),
  );
  const { samples = [], timeDeltas = [] } = profile;
  for (const [i, id] of samples.entries()) {
    const us = timeDeltas[i] ?? 0;
    const frame = byId.get(id)?.callFrame;
    // What the profiler itself takes at both ends is not the work's.
    if (!frame || frame.url === "node:inspector" || frame.url === "node:inspector/promises")
      continue;
    const file = frame.url.split("/").at(-1) ?? "";
    const name =
      frame.url === ""
        ? `${frame.functionName} native < ${callers.get(id)?.callFrame.functionName ?? ""}`
        : `${frame.functionName || "(closure)"} in ${file}`;
    spent.set(name, (spent.get(name) ?? 0) + us);
  }
  return result;
}

/** What another program would do between two calls. */
const other = new Int32Array(CACHE_BYTES / 4);
function coolCaches() {
  for (let i = 0; i < other.length; i += 16) other[i] = (other[i] as number) + 1;
}

async function withAgent(work: (agent: Agent, folder: string) => Promise<void>) {
  const folder = copyFolder(await preparedStore(size), `profile-${size}`);
  settle();
  const { agent } = await openAgent(folder);
  await work(agent, folder);
  await agent.close();
}

let nextText = 1;
const some = (count: number) =>
  Array.from({ length: count }, () => ({
    text: textOf(nextText++),
    legs: [[1 + (nextText % 1000)]],
  }));

const WORKS: Record<string, () => Promise<void>> = {
  recall: () =>
    withAgent(async (agent) => {
      const [group] = makeGraph(size).groups;
      for (const [i, { lot }] of (group?.lots ?? []).entries()) {
        coolCaches();
        if (i < 2) await agent.recall([lot]);
        else await profiled(() => agent.recall([lot]));
      }
    }),
  single: () =>
    withAgent(async (agent) => {
      const write = async () => {
        for (const { text, legs } of some(1000)) await agent.remember(text, legs);
      };
      for (let i = 0; i < 3; i++) await write();
      await profiled(write);
    }),
  batch: () =>
    withAgent(async (agent) => {
      for (let i = 0; i < 20; i++) {
        const items = some(1000);
        if (i < 10) await agent.rememberAll(items);
        else await profiled(() => agent.rememberAll(items));
      }
    }),
  callers: () =>
    withAgent(async (agent) => {
      for (let i = 0; i < 20; i++) {
        const items = some(1000);
        const write = () => Promise.all(items.map(({ text, legs }) => agent.remember(text, legs)));
        if (i < 10) await write();
        else await profiled(write);
      }
    }),
  load: async () => {
    const { agent } = await openAgent(emptyFolder("profile-load"));
    const graph = makeGraph(size);
    await profiled(() => loadAgent(agent, graph));
    await agent.close();
  },
  replay: async () => {
    const folder = copyFolder(await preparedStore(size), `profile-${size}`);
    for (let i = 0; i < 4; i++) {
      rmSync(join(agentFolder(folder), "graph"), { force: true });
      const open = () => openAgent(folder);
      const { agent } = i < 2 ? await open() : await profiled(open);
      await agent.close();
    }
  },
  verify: () =>
    withAgent(async (agent) => {
      await agent.verify();
      await profiled(() => agent.verify());
    }),
  query: () =>
    withAgent(async (agent) => {
      const wanted = new Query("rain in Pune");
      const scan = async () => {
        for await (const part of agent.texts({ kind: "memory", state: "alive" }))
          for (const { text } of part) wanted.score(text);
      };
      await scan();
      await profiled(scan);
    }),
};

const name = positionals[0] ?? "";
const work = WORKS[name];
if (!work) throw new Error(`what is to be profiled: ${Object.keys(WORKS).join(", ")}`);
await session.post("Profiler.enable");
await session.post("Profiler.setSamplingInterval", { interval: INTERVAL_US });
await work();

const kinds = new Map<string, number>();
let all = 0;
for (const [what, us] of spent) {
  all += us;
  const kind = KINDS.find(([pattern]) => pattern.test(what))?.[1] ?? "our own code";
  kinds.set(kind, (kinds.get(kind) ?? 0) + us);
}
const tell = (us: number, what: string) =>
  console.log(
    `${(us / rounds / 1000).toFixed(2).padStart(10)} ms ${((us / all) * 100).toFixed(1).padStart(5)} %  ${what}`,
  );
console.log(`${name} at ${size.toLocaleString("en")} memories, a round\n`);
for (const [kind, us] of [...kinds].sort((a, b) => b[1] - a[1])) tell(us, kind);
console.log("");
for (const [what, us] of [...spent].sort((a, b) => b[1] - a[1]).slice(0, LINES)) tell(us, what);
