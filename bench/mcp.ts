// A tool call over MCP on a warm server, spoken to line by line so that no client's cost is counted; after another process wrote;
// and what has to read everything beside one pass over what it must read. P11.

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { lotCount, makeGraph, textOf } from "./graph.ts";
import { readRecords, readTexts } from "./log.ts";
import { Findings, median, sizeName } from "./measure.ts";
import {
  AGENT,
  copyFolder,
  emptyFolder,
  logFiles,
  openAgent,
  options,
  preparedStore,
  settle,
} from "./place.ts";

const BIN = fileURLToPath(new URL("../bin/run.js", import.meta.url));
const PROTOCOL = "2025-06-18";
const CALLS = 60;
const WARM_UPS = 30;
const OTHERS_WRITE = 100;
const STATED = 1_000_000;
const FAIR_MAX = 100;
const SEEN_AT_ONCE = 40_960;
const SLOW_MS_MAX = 10_000;

type Json = ReturnType<typeof JSON.parse>;

/** `cheesedb mcp` in a process of its own. */
class Server {
  readonly #child: ChildProcess;
  #rest = "";
  #id = 0;
  readonly #waiting = new Map<number, (message: Json) => void>();

  constructor(store: string) {
    const env = { ...process.env, CHEESEDB_DIR: store };
    this.#child = spawn(process.execPath, [BIN, "mcp", AGENT], {
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
      const lines = (this.#rest + piece).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) {
        const message: Json = JSON.parse(line);
        this.#waiting.get(message.id)?.(message);
        this.#waiting.delete(message.id);
      }
    });
  }

  #send(message: object) {
    this.#child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  request(method: string, params: object): Promise<Json> {
    const id = ++this.#id;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#send({ id, method, params });
    });
  }

  async start() {
    const clientInfo = { name: "bench", version: "1" };
    await this.request("initialize", {
      protocolVersion: PROTOCOL,
      capabilities: {},
      clientInfo,
    });
    this.#send({ method: "notifications/initialized" });
  }

  /** Calls a tool. Returns its result and the milliseconds. */
  async call(name: string, args: object): Promise<{ ms: number; result: Json }> {
    const begun = performance.now();
    const { result, error } = await this.request("tools/call", { name, arguments: args });
    const ms = performance.now() - begun;
    if (error || result.isError)
      throw new Error(`${name}: ${JSON.stringify(error ?? result.content)}`);
    return { ms, result: result.structuredContent };
  }

  async end() {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin?.end();
    await ended;
  }
}

const { size, runs, out } = options();
const findings = new Findings("mcp", size);
const folder = copyFolder(await preparedStore(size), `mcp-${size}`);
const graph = makeGraph(size);
const { groups } = graph;
const lots = lotCount(size);
let turn = 0;
/** A living memory, another each time: none of the poison lots' own is recalled but those asked for. */
const someMemory = () => lots + 1 + ((turn++ * 7919) % Math.floor(size / 100));

settle();
const server = new Server(folder);
const begun = performance.now();
await server.start();
const startMs = performance.now() - begun;

async function repeated(count: number, once: () => Promise<number>): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < WARM_UPS + count; i++) {
    const ms = await once();
    if (i >= WARM_UPS) samples.push(ms);
  }
  return samples;
}

findings.table(`a tool call on a warm server, ${sizeName(size)} memories`);
const small: { name: string; args: () => object; as?: string }[] = [
  { name: "add_source", args: () => ({ label: "web_page", text: "a page" }) },
  {
    name: "remember",
    args: () => ({ text: "something learned", from: [[someMemory()]] }),
  },
  { name: "explain_memory", args: () => ({ id: someMemory() }) },
  { name: "list_memories", args: () => ({}) },
];
for (const { name, args } of small) {
  const samples = await repeated(CALLS, async () => (await server.call(name, args())).ms);
  findings.row(name, "ms", samples);
  findings.point(`mcp ${name}`, "cheesedb", "ms", median(samples));
  const limit = { atMost: 5, unit: "ms", statedFor: STATED };
  findings.figure("P11", name, median(samples), limit);
}
{
  // The largest group that a recall of up to 100 fits.
  const group = groups.find(({ removed }) => removed <= FAIR_MAX);
  const plans: number[] = [];
  const recalls: number[] = [];
  const groupLots = group?.lots ?? [];
  const preview = (lot: number) => ({ ids: [lot], mode: "fair" });
  // A preview changes nothing: those of the two lots that are not counted warm up what the others go through.
  for (let i = 0; i < WARM_UPS; i++)
    await server.call("recall_bad_source", preview(groupLots[i % 2]?.lot ?? 0));
  for (const [i, { lot }] of groupLots.entries()) {
    const args = preview(lot);
    const plan = await server.call("recall_bad_source", args);
    const done = await server.call("recall_bad_source", { ...args, plan: plan.result.plan });
    if (i < 2) continue;
    plans.push(plan.ms);
    recalls.push(done.ms);
  }
  const removed = group?.removed ?? 0;
  for (const [what, samples] of [
    ["preview", plans],
    ["carried out", recalls],
  ] as const) {
    const name = `recall_bad_source of ${removed}, ${what}`;
    findings.row(name, "ms", samples);
    if (samples === recalls) findings.point("mcp recall", "cheesedb", "ms", median(samples));
    const limit = { atMost: 5, unit: "ms", statedFor: STATED };
    findings.figure("P11", name, median(samples), limit);
  }
}
{
  // Another process writes; the next call has to catch up.
  const { agent } = await openAgent(folder);
  const after: number[] = [];
  const plain: number[] = [];
  for (let i = 0; i < runs * 2 + 2; i++) {
    await agent.addLots(
      Array.from({ length: OTHERS_WRITE }, (_, i) => ({ label: "web_page", text: `other ${i}` })),
    );
    const { ms } = await server.call("explain_memory", { id: someMemory() });
    const again = await server.call("explain_memory", { id: someMemory() });
    if (i < 2) continue;
    after.push(ms);
    plain.push(again.ms);
  }
  await agent.close();
  findings.row(`explain_memory, after another process wrote ${OTHERS_WRITE}`, "ms", after);
  const more = median(after) - median(plain);
  findings.point("mcp catch up", "cheesedb", "ms", Math.max(more, 0.01));
  const limit = { atMost: 10, unit: "ms more", statedFor: STATED };
  findings.figure("P11", `after another process wrote ${OTHERS_WRITE}`, more, limit);
}
/** Repeats a call and a pass in turn; what is far too slow is repeated less. */
async function besidePass(call: () => Promise<number>, pass: () => number) {
  const calls: number[] = [];
  const passes: number[] = [];
  const until = performance.now() + SLOW_MS_MAX;
  for (let i = 0; i <= runs && (i < 2 || performance.now() < until); i++) {
    const ms = await call();
    const begun = performance.now();
    if (pass() === 0) throw new Error("the log holds nothing");
    const passMs = performance.now() - begun;
    if (i === 0) continue;
    calls.push(ms);
    passes.push(passMs);
  }
  return { calls, passes };
}
const unit = "times a pass";
const limit = { atMost: 1.5, unit, statedFor: STATED };
{
  const { calls, passes } = await besidePass(
    async () => (await server.call("list_memories", { query: "rain in Pune" })).ms,
    () => readTexts(logFiles(folder)),
  );
  findings.row("list_memories with a query", "ms", calls);
  findings.row("one pass over log and texts", "ms", passes, "read, each text hashed and decoded");
  findings.point("mcp query", "cheesedb", "ms", median(calls));
  findings.figure("P11", "list_memories with a query", median(calls) / median(passes), limit);
}
await server.end();
{
  // Contact asks who has seen what: here everyone has.
  const seen = emptyFolder("mcp-seen");
  const { agent } = await openAgent(seen);
  await agent.addLots(
    Array.from({ length: lots }, (_, i) => ({ label: "web_page", text: `lot ${i}` })),
  );
  for (let from = 0; from < size; from += SEEN_AT_ONCE) {
    const count = Math.min(SEEN_AT_ONCE, size - from);
    await agent.rememberAll(
      Array.from({ length: count }, (_, i) => ({
        text: textOf(from + i),
        legs: [[1 + ((from + i) % lots)]],
        seen: [1 + ((from + i) % lots), 1 + (((from + i) * 31) % lots)],
      })),
    );
  }
  await agent.close();
  const contact = new Server(seen);
  await contact.start();
  const { calls, passes } = await besidePass(
    async () => (await contact.call("recall_bad_source", { ids: [7], mode: "contact" })).ms,
    () => readRecords(logFiles(seen)),
  );
  await contact.end();
  findings.row(
    "recall_bad_source with contact, preview",
    "ms",
    calls,
    "every memory has seen two lots",
  );
  findings.row("one pass over log and records", "ms", passes, "read, each checked and decoded");
  findings.point("mcp contact", "cheesedb", "ms", median(calls));
  findings.figure("P11", "contact", median(calls) / median(passes), limit);
}
findings.table("beside it");
findings.row("from the start of the process to the first answer", "ms", [startMs]);
findings.finish(out);
