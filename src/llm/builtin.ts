// The built-in model: the reader of reader.ts behind a real HTTP server on loopback that speaks OpenAI's protocol, so that
// the way to it is the way to any model, to the last line. It answers only from the text that it is sent.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Message } from "./client.ts";
import { answer, asserts, learn } from "./reader.ts";

export const BUILT_IN_NAME = "built-in reader (rules, not a language model)";
const BODY_BYTES_MAX = 8 * 1024 * 1024;
const PIECE_CHARACTERS = 40;

export interface BuiltInServer {
  /** Base address, as an OpenAI-compatible server's: ends in /v1. */
  url: string;
  close(): Promise<void>;
}

/** Starts it on a free port of 127.0.0.1; it does not keep the process alive. */
export async function startBuiltIn(): Promise<BuiltInServer> {
  const server = createServer((request, response) => {
    handle(request, response).catch((error: Error) => {
      if (!response.headersSent) send(response, 500, { error: { message: error.message } });
      else response.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  server.unref();
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => closeServer(server) };
}

function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

async function handle(request: IncomingMessage, response: ServerResponse) {
  const path = new URL(request.url ?? "/", "http://127.0.0.1").pathname;
  if (request.method === "GET" && path === "/v1/models") {
    return send(response, 200, {
      object: "list",
      data: [{ id: BUILT_IN_NAME, object: "model", owned_by: "cheesedb" }],
    });
  }
  if (request.method !== "POST" || path !== "/v1/chat/completions") {
    return send(response, 404, {
      error: { message: `there is no ${request.method} ${path} here` },
    });
  }
  const body = await readBody(request);
  const messages = messagesIn(body);
  if (!messages)
    return send(response, 400, { error: { message: "messages is a list of { role, content }" } });
  const content = read(messages);
  if (body.stream === true) return stream(response, content);
  send(response, 200, {
    id: "chatcmpl-builtin",
    object: "chat.completion",
    model: BUILT_IN_NAME,
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  });
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += (part as Buffer).length;
    if (bytes > BODY_BYTES_MAX) throw new Error("the request is too large");
    parts.push(part as Buffer);
  }
  const body: unknown = JSON.parse(Buffer.concat(parts).toString("utf8"));
  return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
}

function messagesIn({ messages }: Record<string, unknown>): Message[] | null {
  if (!Array.isArray(messages)) return null;
  const isMessage = (message: unknown) => typeof (message as Message | null)?.content === "string";
  return messages.every(isMessage) ? messages : null;
}

function send(response: ServerResponse, status: number, body: object) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function stream(response: ServerResponse, content: string) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const event = (delta: object, finish_reason: string | null) =>
    response.write(
      `data: ${JSON.stringify({ id: "chatcmpl-builtin", object: "chat.completion.chunk", model: BUILT_IN_NAME, choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
    );
  for (let at = 0; at < content.length; at += PIECE_CHARACTERS) {
    event({ content: content.slice(at, at + PIECE_CHARACTERS) }, null);
  }
  event({}, "stop");
  response.end("data: [DONE]\n\n");
}

/** Answers from what stands in the newest message of the user, by the headings that it finds there. */
function read(messages: Message[]): string {
  const text = messages.filter(({ role }) => role === "user").at(-1)?.content ?? "";
  const claim = quotedAfter(text, "Claim");
  if (claim !== null)
    return JSON.stringify({ asserts: asserts(quotedAfter(text, "Answer") ?? "", claim) });
  const memories = linesUnder(text, "Memories").flatMap((line) => {
    const [, id, quoted] = /^\[(\d+)\] (".*")$/.exec(line) ?? [];
    return id && quoted ? [{ id, text: unquoted(quoted) }] : [];
  });
  const instructions = linesUnder(text, "Instructions of the agent").map((line) =>
    line.replace(/^- /, ""),
  );
  const question = quotedAfter(text, "Question");
  if (question !== null) {
    const { answer: said, cites } = answer(question, memories, instructions);
    return JSON.stringify({ answer: said, cites: cites.map(Number) });
  }
  const sources = linesUnder(text, "Sources").flatMap((line) => {
    const [, id, label, quoted] = /^\[(\d+)\] ("(?:[^"\\]|\\.)*"): (".*")$/.exec(line) ?? [];
    return id && label && quoted ? [{ id, label: unquoted(label), text: unquoted(quoted) }] : [];
  });
  return JSON.stringify({ memories: learn(sources, memories, instructions) });
}

/** The lines between a heading and the next empty line. */
function linesUnder(text: string, heading: string): string[] {
  const lines = text.split("\n");
  const at = lines.indexOf(`${heading}:`);
  if (at === -1) return [];
  const end = lines.indexOf("", at);
  return lines.slice(at + 1, end === -1 ? undefined : end);
}

function quotedAfter(text: string, heading: string): string | null {
  const line = text.split("\n").find((line) => line.startsWith(`${heading}: "`));
  return line ? unquoted(line.slice(heading.length + 2)) : null;
}

function unquoted(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return json;
  }
}
