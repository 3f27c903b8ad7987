// Fuzzing what people, programs and models write: imports, settings, scenarios, arguments, tool calls, model answers.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { parseFingerprint } from "../../src/chain.ts";
import { parseDepth, parseId, parseLeg, parseTime } from "../../src/cli/input.ts";
import { Store } from "../../src/index.ts";
import { Model, stripThinking } from "../../src/llm/client.ts";
import { parseLlmConf } from "../../src/llm/config.ts";
import { propose } from "../../src/llm/learn.ts";
import { parseScenario } from "../../src/llm/scenario.ts";
import { toolsFor } from "../../src/mcp/tools.ts";
import { checkText, decodeUtf8, normaliseName } from "../../src/text.ts";
import { parseToken } from "../../src/token.ts";
import { type Image, MemoryDisk } from "../memorydisk.ts";
import { collected, FOLDER, fixed, kitchen } from "./kitchen.ts";
import { below, mutate, mutateText, mutateValue, pick, type Random } from "./mutate.ts";
import { must, refusable, refusableLater, type Target } from "./target.ts";

const prepared = await kitchen();

/** A text as bytes: now and then with bytes that are no UTF-8. */
function asBytes(random: Random, text: string): Buffer {
  const bytes = Buffer.from(text, "utf8");
  return random() < 0.1 ? mutate(random, bytes) : bytes;
}

// ----- imports -----

async function makeEmpty(): Promise<{ image: Image; token: string }> {
  const disk = new MemoryDisk();
  const store = await Store.open(FOLDER, fixed(disk, 3));
  const { token } = await store.createAgent("bob");
  return { image: disk.image(), token };
}

const empty = await makeEmpty();
const exported = prepared.lines.trimEnd().split("\n");

const imports: Target = {
  name: "import",
  share: 4,
  make(random) {
    const lines = [...exported];
    for (let i = below(random, 3); i >= 0; i--) {
      const at = below(random, lines.length);
      const line = lines[at] ?? "";
      const kind = below(random, 6);
      if (kind === 0) lines.splice(at, 1);
      else if (kind === 1) lines.splice(at, 0, pick(random, exported));
      else if (kind === 2) lines[at] = mutateText(random, line, exported);
      else if (line.startsWith("{") && kind > 3) {
        const value = refusableJson(line);
        lines[at] = JSON.stringify(mutateValue(random, value)) ?? "";
      }
    }
    return asBytes(random, lines.join(random() < 0.05 ? "\r\n" : "\n"));
  },
  async check(input) {
    const disk = MemoryDisk.of(empty.image);
    const store = await Store.open(FOLDER, fixed(disk, 5));
    const agent = await store.openAgent(empty.token);
    // In two pieces, so that a line is cut somewhere.
    const pieces = [input.subarray(0, input.length >>> 1), input.subarray(input.length >>> 1)];
    const report = await refusableLater(() => agent.import(pieces));
    const { records } = await agent.verify();
    if (!report) must(records === 0, "an import was refused, and has written");
    else {
      const lines = (await collected(agent.export({ deadTexts: true }))).join("");
      const again = await store.createAgent("again");
      const other = await store.openAgent(again.token);
      await other.import(lines);
      await other.verify();
      const copy = (await collected(other.export({ deadTexts: true }))).slice(1).join("");
      must(copy === lines.slice(lines.indexOf("\n") + 1), "an export of an import is another");
      await other.close();
    }
    await agent.close();
  },
};

function refusableJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// ----- settings and scenarios -----

const CONF = `# a server at home
base_url = http://127.0.0.1:11434/v1
model = llama3.2:3b
api_key = sk-secret-0123456789
embed_model = nomic
`;

const conf: Target = {
  name: "llm.conf",
  share: 8,
  make: (random) => asBytes(random, mutateText(random, CONF, [CONF])),
  check(input) {
    const text = refusable(() => decodeUtf8(input));
    const settings =
      text === null ? null : refusable(() => parseLlmConf(text, "/nowhere/llm.conf"));
    if (!settings) return;
    for (const value of [settings.baseUrl, settings.model, settings.apiKey, settings.embedModel])
      must(value === null || value.trim() !== "", "a setting is empty");
    if (settings.baseUrl) must(URL.canParse(settings.baseUrl), "a base_url is no address");
  },
};

const SCENARIO = JSON.stringify({
  title: "Rain",
  sources: [
    { label: "user_message", text: "I live in Pune" },
    { label: "web_page", text: "Pune: floods", uri: "https://example.com/1" },
  ],
  instructions: ["Say what to wear."],
  question: "What do I wear?",
  bad: [1],
  claim: "There are floods.",
  search: ["floods"],
  memories: [
    { text: "floods in Pune", from: [[1]] },
    { text: "wear boots", from: [[0, "m1"], [1]] },
  ],
});

const scenarios: Target = {
  name: "scenario",
  share: 6,
  make(random) {
    let value: unknown = JSON.parse(SCENARIO);
    for (let i = below(random, 3); i >= 0; i--) value = mutateValue(random, value);
    const text = JSON.stringify(value) ?? "";
    return asBytes(random, random() < 0.3 ? mutateText(random, text, [SCENARIO]) : text);
  },
  check(input) {
    const text = refusable(() => decodeUtf8(input));
    const scenario = text === null ? null : refusable(() => parseScenario(text, "it"));
    if (!scenario) return;
    for (const bad of scenario.bad) must(bad < scenario.sources.length, "a bad source is none");
  },
};

// ----- arguments -----

const ARGUMENTS = [
  "1",
  "2,3",
  "0",
  "4294967294",
  "4294967295",
  "99999999999999999999",
  "2026-11-30T12:00:00Z",
  "2026-11-30T12:00:00.123456789+05:30",
  prepared.token,
  prepared.fingerprint,
  "zo\u00eb",
  "alice",
];

const args: Target = {
  name: "argument",
  share: 14,
  make: (random) => asBytes(random, mutateText(random, pick(random, ARGUMENTS), ARGUMENTS)),
  check(input) {
    const text = refusable(() => decodeUtf8(input));
    // As it comes from an environment that is no UTF-8, or from a program.
    for (const given of [text, input.toString("latin1"), input.toString("utf16le")]) {
      if (given === null) continue;
      const id = refusable(() => parseId(given));
      must(id === null || String(id) === given, "an id is another number");
      const leg = refusable(() => parseLeg(given));
      must(leg?.every((parent) => Number.isInteger(parent) && parent >= 0) ?? true, "no leg");
      refusable(() => parseDepth(given));
      const time = refusable(() => parseTime(given, "--since"));
      must(time === null || !Number.isNaN(time.getTime()), "a time is none");
      const name = refusable(() => normaliseName(given));
      if (name !== null) must(normaliseName(name) === name && !/[/\\\0]/.test(name), "no name");
      const passes = refusable(() => checkText(given, 64, "it") ?? true);
      must(
        passes === null || decodeUtf8(Buffer.from(given)) === given,
        "a text does not come back",
      );
      refusable(() => parseToken(given));
      parseFingerprint(given);
      stripThinking(given);
    }
  },
};

// ----- tools over MCP -----

const CALLS: [name: string, args: Record<string, unknown>][] = [
  ["add_source", { label: "web_page", text: "Pune: sun", uri: "https://e.com/2" }],
  ["remember", { text: "it is sunny", from: [[1], [2, 4]] }],
  ["list_memories", {}],
  ["list_memories", { query: "Pune umbrella", limit: 2, cursor: "f2.5" }],
  ["list_memories", { limit: 50, cursor: "n9" }],
  ["explain_memory", { id: 6 }],
  ["recall_bad_source", { ids: [2, 3], mode: "contact", erase: true }],
  ["recall_bad_source", { ids: [1], mode: "strict", plan: "strict-untrusted-0123456789abcdef" }],
];
const tools = toolsFor({ readOnly: false, mayErase: true });
const RESULT_BYTES_MAX = 20_000;

const toolCalls: Target = {
  name: "tool call",
  share: 4,
  make(random) {
    const calls = Array.from({ length: 1 + below(random, 3) }, () => {
      const [name, given] = pick(random, CALLS);
      return [name, mutateValue(random, given)];
    });
    return Buffer.from(JSON.stringify(calls) ?? "[]");
  },
  async check(input) {
    const store = await Store.open(FOLDER, fixed(MemoryDisk.of(prepared.image), 5));
    const agent = await store.openAgent(prepared.token);
    const context = { agent, session: agent.session() };
    for (const [name, given] of JSON.parse(input.toString()) as [string, unknown][]) {
      const tool = tools.find((one) => one.name === name);
      const checked = tool?.input.safeParse(given);
      if (!tool || !checked?.success) continue;
      const result = await refusableLater(() => tool.run(context, checked.data as never));
      if (!result) continue;
      must(tool.output.safeParse(result).success, `a result of ${name} is not of its schema`);
      const bytes = Buffer.byteLength(JSON.stringify(result));
      must(bytes <= RESULT_BYTES_MAX, `a result of ${name} has ${bytes} bytes`);
    }
    await agent.verify();
    await agent.close();
  },
};

// ----- what a model answers -----

const LEARNED = JSON.stringify({
  memories: [
    { text: "lives in Pune", from: [["1"], ["2"]] },
    { text: "carry an umbrella", from: [["m1", "3"]] },
  ],
});

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

function streamOf(random: Random, answer: string): string {
  const cut = below(random, answer.length + 1);
  const parts = [answer.slice(0, cut), answer.slice(cut)];
  const body = parts.map((content) => chunk({ content })).join("");
  return `${body}${chunk({}, "stop")}data: [DONE]\n\n`;
}

/** A server that answers with what it was given last. It keeps no process alive. */
class Echo {
  body: Buffer = Buffer.alloc(0);
  type = "text/event-stream";
  status = 200;
  #server: Server | undefined;
  #model: Promise<Model> | undefined;

  model(): Promise<Model> {
    this.#model ??= this.#start();
    return this.#model;
  }

  async #start(): Promise<Model> {
    this.#server = createServer((request, response) => {
      request.resume();
      request.on("end", () => {
        response.writeHead(this.status, { "content-type": this.type });
        response.end(this.body);
      });
    });
    this.#server.unref();
    await new Promise<void>((resolve) => this.#server?.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo;
    const info = { name: "echo", server: `http://127.0.0.1:${port}/v1`, builtIn: false };
    return Model.connect(info, { apiKey: null, silenceMs: 20_000 });
  }
}

const echo = new Echo();
const TYPES = ["text/event-stream", "application/json", "text/html", ""];

const answers: Target = {
  name: "model answer",
  share: 2,
  make(random) {
    let answer = LEARNED;
    if (random() < 0.6) answer = JSON.stringify(mutateValue(random, JSON.parse(LEARNED))) ?? "";
    if (random() < 0.4) answer = mutateText(random, answer, [LEARNED]);
    const fence = pick(random, ["", "```json\n", "<think>so</think>", "Here it is: ", "<think>"]);
    const whole = `${fence}${answer}${fence.startsWith("```") ? "\n```" : ""}`.toWellFormed();
    let body = streamOf(random, whole);
    if (random() < 0.3) body = mutateText(random, body, [body]);
    const how = Buffer.of(
      random() < 0.9 ? 0 : below(random, TYPES.length),
      random() < 0.95 ? 200 : 99 + below(random, 156),
    );
    return Buffer.concat([how, asBytes(random, body)]);
  },
  async check(input) {
    echo.type = TYPES[input[0] ?? 0] ?? "";
    // 200 to 254 stand for themselves; below, for statuses of failure.
    const status = input[1] ?? 200;
    echo.status = status >= 200 ? status : 300 + status;
    echo.body = input.subarray(2);
    const model = await echo.model();
    const store = await Store.open(FOLDER, fixed(MemoryDisk.of(prepared.image), 5));
    const agent = await store.openAgent(prepared.token);
    const sources = [1, 2, 4].map((id) => ({ id, label: "x", text: "Pune" }));
    const learned = await refusableLater(() =>
      propose(agent, model, { sources, memories: [], instructions: [] }),
    );
    if (learned && learned.memories.length > 0) {
      // What is proposed is what the engine takes.
      const ids = await agent.rememberAll(learned.memories);
      must(ids.length === learned.memories.length, "not all that was proposed is remembered");
    }
    model.exchanges.length = 0;
    await agent.close();
  },
};

export const texts: Target[] = [imports, conf, scenarios, args, toolCalls, answers];
