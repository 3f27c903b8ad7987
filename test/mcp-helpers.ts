// Starts `cheesedb mcp` as an AI app would, and speaks with it by the official client or line by line. Whatever a test does:
// every line on the server's standard output is protocol, nothing on standard error is a stack, and no server outlives it.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { Client, type Transport } from "@modelcontextprotocol/client";
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/client/validators/ajv";
import { expect, onTestFinished } from "vitest";
import { CLI } from "./cli-helpers.ts";

/** Of any shape: tests look at what they know of it. */
export type Json = ReturnType<typeof JSON.parse>;

/** What the official client sends in each way of opening a connection. */
export const ERAS = {
  "with initialize (2025)": "legacy",
  "by negotiation": "auto",
  "of 2026-07-28": { pin: "2026-07-28" },
} as const;
export type Era = (typeof ERAS)[keyof typeof ERAS];

/** No result of a tool is longer, in bytes. */
export const RESULT_BYTES_MAX = 20_000;

export interface ServerOptions {
  agent?: string;
  /** Of the command, before the agent's name. */
  flags?: string[];
  env?: Record<string, string>;
  /** Another command line than the built one, with nothing but `env` around it. */
  command?: string[];
  /** Nobody reads what it says: for a client that hangs. */
  isUnread?: boolean;
}

export interface End {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A server as a process of its own. It is also the wire on which the official client speaks with it. */
export class Server implements Transport {
  readonly child: ChildProcess;
  /** Everything that it said, a message a line. */
  readonly messages: Json[] = [];
  /** What it said that is no message. */
  readonly noise: string[] = [];
  /** What came after the last whole line. */
  half = "";
  stderr = "";
  readonly ended: Promise<End>;
  onmessage?: Transport["onmessage"];
  onclose?: () => void;
  onerror?: (error: Error) => void;
  #isOver = false;
  #id = 0;
  #waiting = new Map<unknown, (message: Json) => void>();

  constructor(store: string, options: ServerOptions = {}) {
    const { agent = "alice", flags = [], env = {}, isUnread = false } = options;
    const [program = "", ...args] = options.command ?? [...CLI, "mcp", ...flags, "--", agent];
    const around = {
      PATH: process.env.PATH ?? "",
      HOME: "/nobody/at/home",
      CHEESEDB_DIR: store,
    };
    this.child = spawn(program, args, {
      cwd: tmpdir(),
      env: { ...(!options.command && around), ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    // It may be gone before it was told everything; and many may wait for it to take more.
    this.child.stdin?.on("error", () => {}).setMaxListeners(0);
    this.child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
      this.stderr += piece;
    });
    if (!isUnread)
      this.child.stdout?.setEncoding("utf8").on("data", (piece: string) => this.#hear(piece));
    this.ended = new Promise((resolve) => {
      this.child.on(isUnread ? "exit" : "close", (code, signal) => {
        this.#isOver = true;
        for (const answer of this.#waiting.values()) answer(null);
        this.onclose?.();
        resolve({ code, signal });
      });
    });
  }

  #hear(piece: string) {
    const lines = (this.half + piece).split("\n");
    this.half = lines.pop() ?? "";
    for (const line of lines) {
      const message = asMessage(line);
      if (message === null) {
        this.noise.push(line);
        continue;
      }
      this.messages.push(message);
      this.#waiting.get(message.id)?.(message);
      this.#waiting.delete(message.id);
      this.onmessage?.(message);
    }
  }

  // ----- the client's wire -----

  async start() {}

  async send(message: unknown) {
    await this.write(`${JSON.stringify(message)}\n`);
  }

  /** Ends its standard input, and waits until it is gone. */
  async close() {
    this.child.stdin?.end();
    await this.ended;
  }

  // ----- by hand -----

  /** Sends bytes as they are; resolves when the pipe takes more. */
  async write(bytes: string | Uint8Array) {
    if (this.child.stdin?.write(bytes) || this.#isOver) return;
    await Promise.race([
      new Promise<void>((resolve) => this.child.stdin?.once("drain", resolve)),
      this.ended,
    ]);
  }

  /** Sends a request, and resolves with its answer; null when the server ends without one. */
  ask(method: string, params?: object, id: unknown = `by hand ${++this.#id}`): Promise<Json> {
    const answer = this.answerTo(id);
    void this.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return answer;
  }

  answerTo(id: unknown): Promise<Json> {
    if (this.#isOver) return Promise.resolve(null);
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** Opens the connection in the way of 2025. */
  async initialize(): Promise<Json> {
    const answer = await this.ask("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "by hand", version: "1" },
    });
    await this.write(
      `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`,
    );
    return answer;
  }

  /** Calls a tool without the official client. */
  async callByHand(name: string, args: object, id?: unknown): Promise<Json> {
    return (await this.ask("tools/call", { name, arguments: args }, id))?.result;
  }

  /** The most memory that it ever had, in MiB: Linux alone tells. */
  peakMiB(): number {
    const status = readFileSync(`/proc/${this.child.pid}/status`, "utf8");
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
  }
}

function asMessage(line: string): Json | null {
  try {
    const message = JSON.parse(line);
    // What cannot be read has no id to be answered with.
    const isAnswer =
      "result" in message ? "id" in message && !("error" in message) : "error" in message;
    return message.jsonrpc === "2.0" && (isAnswer || "method" in message) ? message : null;
  } catch {
    return null;
  }
}

/** A server for the length of a test; then what must hold for every server is checked. */
export function startServer(store: string, options: ServerOptions = {}): Server {
  const server = new Server(store, options);
  onTestFinished(async () => {
    server.child.kill("SIGKILL");
    server.child.stdout?.resume();
    await server.ended;
    expect(server.noise).toEqual([]);
    if (!options.env?.DEBUG) expect(server.stderr).not.toMatch(/\n? {4}at .*:\d+:\d+/);
  });
  return server;
}

// ----- the official client -----

const schemas = new AjvJsonSchemaValidator();

/** A session of the official client with a server of its own. */
export class Session {
  readonly server: Server;
  readonly client: Client;
  readonly tools: Json[];

  constructor(server: Server, client: Client, tools: Json[]) {
    this.server = server;
    this.client = client;
    this.tools = tools;
  }

  /** A call that must succeed: its structured result, which is of its schema, the same as the text, and not too long. */
  async call(name: string, args: Record<string, unknown> = {}): Promise<Json> {
    const { content, structuredContent, isError } = await this.client.callTool({
      name,
      arguments: args,
    });
    const [block] = content as { type: string; text: string }[];
    const form = { isError: isError ?? false, blocks: content.length, type: block?.type };
    expect(form, block?.text).toEqual({ isError: false, blocks: 1, type: "text" });
    const text = block?.text ?? "";
    expect(structuredContent).toEqual(JSON.parse(text));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(RESULT_BYTES_MAX);
    const { outputSchema } = this.tools.find((tool) => tool.name === name);
    expect(schemas.getValidator(outputSchema)(structuredContent)).toMatchObject({ valid: true });
    return structuredContent;
  }

  /** A call that must be refused: what the model reads, which begins with this code and ends with a hint. */
  async refused(code: string, name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { content, structuredContent, isError } = await this.client.callTool({
      name,
      arguments: args,
    });
    const [block] = content as { type: string; text: string }[];
    const text = block?.text ?? "";
    const form = { isError, structuredContent, blocks: content.length, type: block?.type };
    expect(form, text).toEqual({ isError: true, blocks: 1, type: "text" });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(RESULT_BYTES_MAX);
    expect(text).toMatch(new RegExp(`^${code}: \\S[^\\n]*\\. [^\\n]+[.?]$`));
    return text;
  }

  /** Every page of a list, to the end. */
  async pages(args: Record<string, unknown> = {}): Promise<Json[][]> {
    const pages: Json[][] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.call("list_memories", { ...args, ...(cursor && { cursor }) });
      pages.push(page.memories);
      cursor = page.cursor;
      if (cursor === undefined) return pages;
      // A cursor that goes on from an empty page would go on for ever.
      expect(page.memories.length).toBeGreaterThan(0);
    }
  }

  /** Ends it as an app does: standard input is closed. */
  async close() {
    await this.client.close();
    expect(await this.server.ended).toEqual({ code: 0, signal: null });
    expect(this.server.half).toBe("");
  }
}

/** A session in one of the eras; of 2025 if not said. */
export async function openSession(
  store: string,
  { era = "legacy", ...options }: ServerOptions & { era?: Era } = {},
): Promise<Session> {
  const server = startServer(store, options);
  const client = new Client(
    { name: "test", version: "1" },
    { versionNegotiation: { mode: era as "legacy" } },
  );
  await client.connect(server);
  const { tools } = await client.listTools();
  return new Session(server, client, tools);
}

export const range = (last: number, first = 1) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
