// A tool call over MCP on a warm server, spoken to line by line so that no client's cost is counted; after another process wrote;
// and what has to read everything beside one pass over what it must read. P11.

import { type ChildProcess, spawn } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { lotCount, makeGraph } from "./graph.ts";
import { areasOf } from "./log.ts";
import { Findings, median, sizeName } from "./measure.ts";
import { AGENT, copyFolder, logFiles, openAgent, options, preparedStore } from "./place.ts";

const BIN = fileURLToPath(new URL("../bin/run.js", import.meta.url));
const PROTOCOL = "2025-06-18";
const CALLS = 60;
const WARM_UPS = 30;
const OTHERS_WRITE = 100;
const STATED = 1_000_000;
const FAIR_MAX = 100;
const SALT_BYTES = 32;
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
  for (const [i, { lot }] of (group?.lots ?? []).entries()) {
    const args = { ids: [lot], mode: "fair" };
    const plan = await server.call("recall_bad_source", args);
    const done = await server.call("recall_bad_source", { ...args, plan: plan.result.plan });
    if (i < 2) continue;
    plans.push(plan.ms);
    recalls.push(done.ms);
  }
  const removed = group?.removed ?? 0;
  for (const [what, samples] of [
    ["preview, the three modes", plans],
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
{
  const query: number[] = [];
  const contact: number[] = [];
  const texts: number[] = [];
  const records: number[] = [];
  const lot = 1 + Math.floor(lots / 2);
  const until = performance.now() + SLOW_MS_MAX;
  // What is far too slow is repeated less.
  for (let i = 0; i <= runs && (i < 2 || performance.now() < until); i++) {
    const queried = (await server.call("list_memories", { query: "rain in Pune" })).ms;
    const contacted = (await server.call("recall_bad_source", { ids: [lot], mode: "contact" })).ms;
    const pass = onePass(folder);
    if (i === 0) continue;
    query.push(queried);
    contact.push(contacted);
    texts.push(pass.texts);
    records.push(pass.records);
  }
  findings.row("list_memories with a query", "ms", query);
  findings.row("one pass over log and texts", "ms", texts, "read, each text hashed and decoded");
  findings.row("recall_bad_source, preview with contact", "ms", contact);
  findings.row("one pass over log and records", "ms", records, "read, each record looked at");
  const unit = "times a pass";
  const limit = { atMost: 1.5, unit, statedFor: STATED };
  findings.figure("P11", "list_memories with a query", median(query) / median(texts), limit);
  findings.figure("P11", "contact", median(contact) / median(records), limit);
}
findings.table("beside it");
findings.row("from the start of the process to the first answer", "ms", [startMs]);
await server.end();
findings.finish(out);

/** Reads what a search of the texts, or a look at every record, must read: once, in the plainest way. */
function onePass(folder: string): { texts: number; records: number } {
  const files = logFiles(folder);
  let begun = performance.now();
  let entries = 0;
  for (const _area of areasOf(files)) entries++;
  const records = performance.now() - begun;
  begun = performance.now();
  let chars = 0;
  let open = -1;
  let log = Buffer.alloc(0);
  for (const { file, at, bytes } of areasOf(files)) {
    if (file !== open) {
      log = readFileSync(files[file] as string);
      open = file;
    }
    const area = log.subarray(at, at + bytes);
    hash("sha256", area, "hex");
    const length = area.readUInt32LE(SALT_BYTES);
    chars += area.toString("utf8", SALT_BYTES + 6, SALT_BYTES + 6 + length).length;
  }
  if (entries === 0 || chars === 0) throw new Error("the log holds nothing");
  return { texts: performance.now() - begun, records };
}
