// The language model, asked over an OpenAI-compatible server. The only import of the openai package, and only when asked.
//
// Servers honour a schema, ignore it or refuse it; models think aloud, wrap JSON in fences, or answer nothing. So an answer is
// always validated; a useless one is sent back once with what is wrong; then it is an error that says what came.

import type OpenAI from "openai";
import { z } from "zod";
import { CheeseError } from "../index.ts";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ModelInfo {
  name: string;
  server: string;
  builtIn: boolean;
}

/** One call: what was sent and what came back, word for word. */
export interface Exchange {
  messages: Message[];
  raw: string;
  ms: number;
}

export interface AskOptions {
  signal?: AbortSignal | undefined;
}

/** A server that says nothing for so long is given up. */
const SILENCE_MS = 120_000;
const TOKENS_MAX = 2048;
/** Not every server heeds max_tokens, and not every model comes to an end. */
const ANSWER_CHARACTERS_MAX = 8 * 1024 * 1024;
const QUOTED_MAX = 300;
/** A shorter key is no secret, and stands in too many words. */
const KEY_CHARACTERS_MIN = 4;

export class Model {
  readonly info: ModelInfo;
  readonly #client: OpenAI;
  readonly #apiKey: string | null;
  readonly #silenceMs: number;
  /** Set to false once the server has refused a response format. */
  #takesSchema = true;
  /** Every exchange so far. */
  readonly exchanges: Exchange[] = [];

  private constructor(
    info: ModelInfo,
    client: OpenAI,
    { apiKey, silenceMs }: { apiKey: string | null; silenceMs: number },
  ) {
    this.info = info;
    this.#client = client;
    this.#apiKey = apiKey;
    this.#silenceMs = silenceMs;
  }

  static async connect(
    info: ModelInfo,
    { apiKey, silenceMs = SILENCE_MS }: { apiKey: string | null; silenceMs?: number },
  ): Promise<Model> {
    const client = await openClient(info.server, apiKey, silenceMs);
    return new Model(info, client, { apiKey, silenceMs });
  }

  /** A free answer, without what the model thought aloud. @throws CheeseError LLM */
  async answer(messages: Message[], options: AskOptions = {}): Promise<string> {
    const text = stripThinking(await this.#call(messages, undefined, options)).trim();
    if (text === "") throw this.#useless("an empty answer");
    return text;
  }

  /**
   * An answer of a given shape.
   *
   * @param name what the shape is called: `memories`, `answer`, …
   * @throws CheeseError LLM when it is none after one repair
   */
  async json<T>(
    name: string,
    shape: z.ZodType<T>,
    messages: Message[],
    options: AskOptions = {},
  ): Promise<T> {
    const schema = toSchema(shape);
    const first = await this.#callWithSchema(name, schema, messages, options);
    const parsed = parse(first, shape);
    if (parsed.ok) return parsed.value;
    const repair: Message[] = [
      ...messages,
      { role: "assistant", content: first.slice(0, 4000) || "(nothing)" },
      {
        role: "user",
        content: `That cannot be used: ${parsed.problem}. Answer again with one JSON object of this schema, and nothing else:\n${JSON.stringify(schema)}`,
      },
    ];
    const second = await this.#callWithSchema(name, schema, repair, options);
    const repaired = parse(second, shape);
    if (repaired.ok) return repaired.value;
    throw this.#useless(`${repaired.problem}${this.#came(second)}`);
  }

  async #callWithSchema(
    name: string,
    schema: object,
    messages: Message[],
    options: AskOptions,
  ): Promise<string> {
    if (this.#takesSchema) {
      try {
        return await this.#call(messages, { name, schema }, options);
      } catch (error) {
        if (!(error instanceof CheeseError && statusOf(error.cause) === 400)) throw error;
        this.#takesSchema = false;
      }
    }
    const [first, ...rest] = messages as [Message, ...Message[]];
    const told = `${first.content}\n\nAnswer with one JSON object of this schema, and nothing else:\n${JSON.stringify(schema)}`;
    return this.#call([{ ...first, content: told }, ...rest], undefined, options);
  }

  async #call(
    messages: Message[],
    format: { name: string; schema: object } | undefined,
    { signal }: AskOptions,
  ): Promise<string> {
    const begun = performance.now();
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), this.#silenceMs);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), this.#silenceMs);
    };
    try {
      const stop = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
      const raw = await this.#stream(messages, format, stop, heard);
      this.exchanges.push({ messages, raw, ms: Math.round(performance.now() - begun) });
      return raw;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (silence.signal.aborted)
        throw this.#unreachable(`it said nothing for ${this.#silenceMs / 1000} s`, error);
      throw this.#translate(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Streamed, so that a slow model is not cut off by a limit on the wait for the first byte. */
  async #stream(
    messages: Message[],
    format: { name: string; schema: object } | undefined,
    signal: AbortSignal,
    heard: () => void,
  ): Promise<string> {
    const request = {
      model: this.info.name,
      messages,
      temperature: 0,
      max_tokens: TOKENS_MAX,
      ...(format && {
        response_format: {
          type: "json_schema" as const,
          json_schema: {
            name: format.name,
            strict: true,
            schema: format.schema as Record<string, unknown>,
          },
        },
      }),
    };
    const stream = await this.#client.chat.completions.create(
      { ...request, stream: true },
      { signal },
    );
    let text = "";
    let reasoning = "";
    let chunks = 0;
    let isFinished = false;
    try {
      for await (const chunk of stream) {
        heard();
        chunks++;
        const choice = chunk.choices?.[0];
        text += choice?.delta?.content ?? "";
        reasoning += reasoningIn(choice?.delta);
        if (text.length + reasoning.length > ANSWER_CHARACTERS_MAX)
          throw new Error(`its answer does not end${this.#came(text)}`);
        // Whatever comes after that is no part of the answer, and some servers keep the line open.
        if (choice?.finish_reason) {
          isFinished = true;
          break;
        }
      }
    } catch (error) {
      if (codeWithin(error) !== CLOSED) throw error;
      throw new Error(`the answer broke off${this.#came(text)}`, { cause: error });
    }
    if (chunks === 0) {
      // Some servers take `stream` and answer in one piece all the same.
      const whole = await this.#client.chat.completions.create(
        { ...request, stream: false },
        { signal },
      );
      const message = whole?.choices?.[0]?.message;
      text = message?.content ?? "";
      reasoning = reasoningIn(message);
      if (typeof message?.content !== "string" && reasoning === "")
        throw new Error(`it sent no chat completion${this.#came(JSON.stringify(whole ?? null))}`);
    } else if (!isFinished) throw new Error(`the answer broke off${this.#came(text)}`);
    if (text === "" && reasoning !== "")
      throw new Error(
        "it sent its reasoning and no answer: turn reasoning off, or allow it more tokens",
      );
    return text;
  }

  #translate(error: unknown): CheeseError {
    const status = statusOf(error);
    const { message } = error as Error;
    if (status === 401 || status === 403)
      return this.#unreachable("it does not accept the api_key", error);
    if (status === 404)
      return this.#unreachable(
        `it knows no model "${this.info.name}", or nothing at this address`,
        error,
      );
    if (status === 429)
      return this.#unreachable("it is asked too often, or the account is used up (429)", error);
    if (status !== undefined) {
      // The client puts the status before the words, and has words of its own where there are none.
      const words = message.replace(/^\d+ (status code \(no body\)$)?/, "");
      return this.#unreachable(`it answered ${status}${this.#came(words)}`, error);
    }
    // Errors of the client have a status, if only undefined; ours say by themselves what happened.
    const code = "status" in (error as Error) ? codeWithin(error) : undefined;
    if (code === NO_HTTP) return this.#unreachable("what listens there speaks no HTTP", error);
    if (code === CLOSED)
      return this.#unreachable("it closed the connection without an answer", error);
    if (code !== undefined) return this.#unreachable(`it cannot be reached (${code})`, error);
    return this.#unreachable(this.#quoted(message), error);
  }

  /** What came, after a colon; nothing where nothing did. */
  #came(text: string): string {
    return text.trim() === "" ? "" : `: ${this.#quoted(text)}`;
  }

  /** The beginning of what a server sent. It may send back the key that it was sent. */
  #quoted(text: string): string {
    const key = this.#apiKey ?? "";
    const shown = key.length < KEY_CHARACTERS_MIN ? text : text.replaceAll(key, "…");
    return shown.length > QUOTED_MAX ? `${shown.slice(0, QUOTED_MAX)}…` : shown;
  }

  #unreachable(why: string, cause: unknown): CheeseError {
    return new CheeseError("LLM", `the language model at ${this.info.server} failed: ${why}`, {
      cause,
    });
  }

  #useless(what: string): CheeseError {
    return new CheeseError("LLM", `the model "${this.info.name}" answered uselessly: ${what}`, {
      hint: "Try another model: small ones often cannot keep to a form.",
    });
  }
}

async function openClient(
  baseURL: string,
  apiKey: string | null,
  timeout: number,
): Promise<OpenAI> {
  const { default: OpenAI } = await import("openai");
  // Without a key the package refuses to start; local servers want none.
  return new OpenAI({
    baseURL,
    apiKey: apiKey ?? "none",
    timeout,
    maxRetries: 0,
    organization: null,
    project: null,
    logLevel: "off",
  });
}

/** What a server says when it is asked for its models. */
export interface Offer {
  /** Null when there is no server there, it does not answer in time, or has no list. */
  models: string[] | null;
  /** The status of its refusal, if it refused. */
  status?: number | undefined;
}

export async function listModels(
  server: string,
  apiKey: string | null,
  withinMs: number,
): Promise<Offer> {
  try {
    const client = await openClient(server, apiKey, withinMs);
    const { data } = await client.models.list({ timeout: withinMs });
    if (!Array.isArray(data)) return { models: null };
    return { models: data.map(({ id }) => id).filter((id) => typeof id === "string") };
  } catch (error) {
    return { models: null, status: statusOf(error) };
  }
}

function statusOf(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | undefined)?.status;
  return typeof status === "number" ? status : undefined;
}

/** The other side closed the connection. */
const CLOSED = "UND_ERR_SOCKET";
const NO_HTTP = "HTTPParserError";
const CAUSES_MAX = 5;

/** What lies under a failure of the connection: ECONNREFUSED, UND_ERR_SOCKET, …, or NO_HTTP, which has no code. */
function codeWithin(error: unknown): string | undefined {
  let inner = error as { code?: unknown; name?: unknown; cause?: unknown } | undefined;
  for (let depth = 0; inner && depth < CAUSES_MAX; depth++) {
    if (inner.name === NO_HTTP) return NO_HTTP;
    if (typeof inner.code === "string") return inner.code;
    inner = inner.cause as typeof inner;
  }
  return undefined;
}

/** Servers that keep a model's reasoning apart do not agree on where. */
function reasoningIn(part: unknown): string {
  const { reasoning, reasoning_content } = (part ?? {}) as Record<string, unknown>;
  return [reasoning, reasoning_content].filter((text) => typeof text === "string").join("");
}

/** Without what stands in <think>…</think>, also where one of the tags is missing. */
export function stripThinking(text: string): string {
  let kept = "";
  let from = 0;
  let isThought = false;
  for (const tag of text.matchAll(/<(\/?)think(?:ing)?>/gi)) {
    if (tag[1] === "/") {
      // The opening tag may have been written by the template.
      if (!isThought) kept = "";
      isThought = false;
      from = tag.index + tag[0].length;
    } else if (!isThought) {
      kept += text.slice(from, tag.index);
      isThought = true;
    }
  }
  return isThought ? kept : kept + text.slice(from);
}

function parse<T>(
  raw: string,
  shape: z.ZodType<T>,
): { ok: true; value: T } | { ok: false; problem: string } {
  const text = stripThinking(raw).trim();
  if (text === "") return { ok: false, problem: "it is empty" };
  // JSON alone is the answer as it stands, whatever tags its texts speak of.
  const found = objectIn(raw) ?? jsonIn(text);
  if (found === undefined) return { ok: false, problem: "it is no JSON object" };
  const result = shape.safeParse(found);
  if (result.success) return { ok: true, value: result.data };
  const [issue] = result.error.issues;
  return {
    ok: false,
    problem: `${issue?.path.join(".") || "it"}: ${issue?.message ?? "is of another shape"}`,
  };
}

/** The JSON object in a text that may stand in a fence, or have words around it. */
function jsonIn(text: string): object | undefined {
  const fence = text.indexOf("```") + 3;
  const end = text.indexOf("```", fence);
  return (
    objectIn(text) ??
    (fence > 2 && end !== -1
      ? objectIn(text.slice(fence, end).replace(/^json/i, ""))
      : undefined) ??
    objectIn(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1))
  );
}

function objectIn(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The schema as servers take it: no references, all keys required, nothing more allowed. */
function toSchema(shape: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(shape) as Record<string, unknown>;
  return schema;
}
