// A language model for tests: an OpenAI-compatible server on loopback that does, request by request, what the test says, and
// remembers what it was asked.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type Server as TcpServer } from "node:net";
import { onTestFinished } from "vitest";
import type { Message } from "../src/llm/client.ts";

/** The body of a POST to /v1/chat/completions. */
export interface Chat {
  model: string;
  messages: Message[];
  stream?: boolean;
  max_tokens?: number;
  temperature?: number;
  response_format?: {
    type: string;
    json_schema?: { name: string; strict: boolean; schema: Record<string, unknown> };
    [beside: string]: unknown;
  };
  [more: string]: unknown;
}

/** What is done with one chat. */
export type Reply = (response: ServerResponse, chat: Chat) => void | Promise<void>;

/** One reply for all chats; or one after the other, the last again and again; or chosen by the chat and its number, from 0. */
export type Script = Reply | Reply[] | { choose: (chat: Chat, number: number) => Reply };

export interface LlmServer {
  /** As base_url has it: ends in /v1. */
  url: string;
  /** Every chat so far, in order. */
  chats: Chat[];
  /** Every request so far: method, path and the key that came with it. */
  requests: { method: string; path: string; key: string | undefined }[];
  /** Resolves when so many chats have arrived, one if not said. */
  asked(count?: number): Promise<void>;
  /** Resolves when it has been asked for its models. */
  listed: Promise<void>;
}

export const MODEL = "fake-1";

/** Starts it on a free port; it ends with the test. */
export async function llmServer(
  script: Script,
  options: { models?: Reply; host?: string } = {},
): Promise<LlmServer> {
  const { models = json({ object: "list", data: [{ id: MODEL, object: "model" }] }) } = options;
  const { host = "127.0.0.1" } = options;
  let toldOfList = () => {};
  const listed = new Promise<void>((resolve) => {
    toldOfList = resolve;
  });
  const server: LlmServer = { url: "", chats: [], requests: [], asked, listed };
  const waiting: { count: number; resolve: () => void }[] = [];
  function asked(count = 1): Promise<void> {
    if (server.chats.length >= count) return Promise.resolve();
    return new Promise((resolve) => waiting.push({ count, resolve }));
  }

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = "", url: path = "" } = request;
    server.requests.push({ method, path, key: request.headers.authorization });
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (path === "/v1/models") {
      toldOfList();
      return models(response, {} as Chat);
    }
    if (path !== "/v1/chat/completions") return refuses(404, "nothing here")(response, {} as Chat);
    const chat = JSON.parse(Buffer.concat(parts).toString("utf8")) as Chat;
    const number = server.chats.push(chat) - 1;
    for (const each of waiting) if (server.chats.length >= each.count) each.resolve();
    await replyOf(script, chat, number)(response, chat);
  };
  const http = createServer((request, response) => {
    // The other side may have gone.
    response.on("error", () => {});
    handle(request, response).catch((error: Error) => response.destroy(error));
  });
  await new Promise<void>((resolve, reject) => {
    http.once("error", reject);
    http.listen(0, host, resolve);
  });
  onTestFinished(() => {
    http.closeAllConnections();
    return new Promise<void>((resolve) => http.close(() => resolve()));
  });
  const address = http.address() as { port: number };
  server.url = `http://${host}:${address.port}/v1`;
  return server;
}

function replyOf(script: Script, chat: Chat, number: number): Reply {
  if (Array.isArray(script)) return (script[number] ?? script.at(-1)) as Reply;
  return typeof script === "function" ? script : script.choose(chat, number);
}

/** What is asked for in a chat, in the first round or in one that mends it. */
export type Kind = "memories" | "answer" | "judgement";

export function kindOf({ messages }: Chat): Kind {
  const asked = messages.find(({ role }) => role === "user")?.content ?? "";
  if (/^Claim: "/m.test(asked)) return "judgement";
  return /^Question: "/m.test(asked) ? "answer" : "memories";
}

/** Replies by what is asked for, each list in its own order, the last again and again. */
export function byKind(replies: Partial<Record<Kind, Reply | Reply[]>>): Script {
  const counts: Record<Kind, number> = { memories: 0, answer: 0, judgement: 0 };
  const choose = (chat: Chat) => {
    const kind = kindOf(chat);
    const list = [replies[kind] ?? refuses(500, `no reply for ${kind}`)].flat();
    return list[Math.min(counts[kind]++, list.length - 1)] as Reply;
  };
  return { choose };
}

/** The last message of the user: what is asked now. */
export function lastOf({ messages }: Chat): string {
  return messages.findLast(({ role }) => role === "user")?.content ?? "";
}

// ----- replies -----

/** A document, whatever was asked. */
export function json(body: unknown, status = 200): Reply {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
}

/** An error as OpenAI's servers word it. */
export function refuses(status: number, message: string): Reply {
  return json({ error: { message, type: "error", code: null } }, status);
}

const completion = (message: object) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: MODEL,
  choices: [
    { index: 0, message: { role: "assistant", ...message }, finish_reason: "stop", logprobs: null },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** One event of a stream. */
export function event(delta: object, finish_reason: string | null = null): string {
  const chunk = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: MODEL,
    choices: [{ index: 0, delta, finish_reason }],
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

const EVENTS = { "content-type": "text/event-stream" };
const DONE = "data: [DONE]\n\n";

/** The words of a model: an object as JSON, streamed where a stream is asked for. */
export function says(answer: string | object, pieceCharacters = 1000): Reply {
  const content = typeof answer === "string" ? answer : JSON.stringify(answer);
  return (response, { stream }) => {
    if (!stream) return json(completion({ content }))(response, {} as Chat);
    response.writeHead(200, EVENTS);
    response.write(event({ role: "assistant", content: "" }));
    for (let at = 0; at < content.length; at += pieceCharacters)
      response.write(event({ content: content.slice(at, at + pieceCharacters) }));
    response.end(event({}, "stop") + DONE);
  };
}

/** In one piece, also where a stream is asked for. */
export function saysWhole(answer: string | object): Reply {
  const content = typeof answer === "string" ? answer : JSON.stringify(answer);
  return json(completion({ content }));
}

/** These events and then the end, whatever was asked. */
export function streams(...events: string[]): Reply {
  return (response) => {
    response.writeHead(200, EVENTS);
    response.end(events.join(""));
  };
}

/** A stream byte by byte, each in a packet of its own as far as that can be had. */
export function dribbles(answer: object): Reply {
  return async (response) => {
    response.writeHead(200, EVENTS);
    response.socket?.setNoDelay(true);
    const bytes = Buffer.from(
      event({ content: JSON.stringify(answer) }) + event({}, "stop") + DONE,
    );
    for (const byte of bytes) {
      response.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };
}

/** Thinks in a field of its own, and says nothing. */
export function onlyReasons(reasoning: string, field = "reasoning"): Reply {
  return (response, chat) => {
    if (!chat.stream) return json(completion({ content: "", [field]: reasoning }))(response, chat);
    return streams(
      event({ role: "assistant", content: "", [field]: reasoning }),
      event({}, "stop"),
      DONE,
    )(response, chat);
  };
}

/** Refuses every response format, as old servers do; else as said. */
export function refusesFormat(reply: Reply): Reply {
  return (response, chat) =>
    chat.response_format
      ? refuses(400, "response_format is not supported")(response, chat)
      : reply(response, chat);
}

/** Begins to answer, or does not even that, and never ends. */
export function hangs(...events: string[]): Reply {
  return (response) => {
    if (events.length === 0) return;
    response.writeHead(200, EVENTS);
    response.write(events.join(""));
  };
}

/** Begins to answer, and dies. */
export function breaksOff(...events: string[]): Reply {
  return (response) => {
    response.writeHead(200, EVENTS);
    response.write(events.join(""));
    setImmediate(() => response.destroy());
  };
}

/** A page, as a web server sends it that is no language model. */
export function page(html: string): Reply {
  return (response) => {
    response.writeHead(200, { "content-type": "text/html" });
    response.end(html);
  };
}

/** What speaks no HTTP at all. @returns its address, as base_url has it */
export async function garbageServer(bytes: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(bytes));
  });
  return `http://127.0.0.1:${await listening(server)}/v1`;
}

/** An address at which nobody listens. */
export async function nobodyThere(): Promise<string> {
  const server = createTcpServer();
  const port = await new Promise<number>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
  );
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/v1`;
}

async function listening(server: TcpServer): Promise<number> {
  onTestFinished(() => {
    server.close();
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}
