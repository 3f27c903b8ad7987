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
const QUOTED_MAX = 300;

export class Model {
  readonly info: ModelInfo;
  readonly #client: OpenAI;
  readonly #silenceMs: number;
  /** Set to false once the server has refused a response format. */
  #takesSchema = true;
  /** Every exchange so far. */
  readonly exchanges: Exchange[] = [];

  private constructor(info: ModelInfo, client: OpenAI, silenceMs: number) {
    this.info = info;
    this.#client = client;
    this.#silenceMs = silenceMs;
  }

  static async connect(
    info: ModelInfo,
    { apiKey, silenceMs = SILENCE_MS }: { apiKey: string | null; silenceMs?: number },
  ): Promise<Model> {
    return new Model(info, await openClient(info.server, apiKey, silenceMs), silenceMs);
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
    throw this.#useless(`${repaired.problem}: ${quoted(second)}`);
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
    for await (const chunk of stream) {
      heard();
      chunks++;
      const choice = chunk.choices?.[0];
      text += choice?.delta?.content ?? "";
      reasoning += (choice?.delta as { reasoning?: string } | undefined)?.reasoning ?? "";
      if (choice?.finish_reason) isFinished = true;
    }
    if (chunks === 0) {
      // Some servers take `stream` and answer in one piece all the same.
      const whole = await this.#client.chat.completions.create(
        { ...request, stream: false },
        { signal },
      );
      const message = whole?.choices?.[0]?.message;
      if (typeof message?.content !== "string")
        throw new Error(`it sent no chat completion: ${quoted(JSON.stringify(whole ?? null))}`);
      return message.content;
    }
    if (!isFinished) throw new Error(`the answer broke off: ${quoted(text)}`);
    if (text === "" && reasoning !== "")
      throw new Error(
        "it sent its reasoning and no answer: turn reasoning off, or allow it more tokens",
      );
    return text;
  }

  #translate(error: unknown): CheeseError {
    const status = statusOf(error);
    const { message, name } = error as Error;
    if (status === 401 || status === 403)
      return this.#unreachable("it does not accept the api_key", error);
    if (status === 404)
      return this.#unreachable(
        `it knows no model "${this.info.name}", or nothing at this address`,
        error,
      );
    if (status === 429)
      return this.#unreachable("it is asked too often, or the account is used up (429)", error);
    if (status !== undefined)
      return this.#unreachable(`it answered ${status}: ${quoted(message)}`, error);
    if (name.includes("Connection") || (error as { code?: string }).code === "ECONNREFUSED") {
      return this.#unreachable("it cannot be reached", error);
    }
    return this.#unreachable(quoted(message), error);
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

/** Models that a server offers; null when there is none there, or it does not answer in time. */
export async function listModels(
  server: string,
  apiKey: string | null,
  withinMs: number,
): Promise<string[] | null> {
  try {
    const client = await openClient(server, apiKey, withinMs);
    const { data } = await client.models.list({ timeout: withinMs });
    if (!Array.isArray(data)) return null;
    return data.map(({ id }) => id).filter((id) => typeof id === "string");
  } catch {
    return null;
  }
}

function statusOf(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | undefined)?.status;
  return typeof status === "number" ? status : undefined;
}

function quoted(text: string): string {
  return text.length > QUOTED_MAX ? `${text.slice(0, QUOTED_MAX)}…` : text;
}

export function stripThinking(text: string): string {
  // An opening tag may be missing, where the template has written it.
  return text
    .replace(/<think(ing)?>[\s\S]*?<\/think(ing)?>/gi, "")
    .replace(/^[\s\S]*<\/think(ing)?>/i, "");
}

function parse<T>(
  raw: string,
  shape: z.ZodType<T>,
): { ok: true; value: T } | { ok: false; problem: string } {
  const text = stripThinking(raw).trim();
  if (text === "") return { ok: false, problem: "it is empty" };
  const found = jsonIn(text);
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
function jsonIn(text: string): unknown {
  const fenced = /```(?:json)?\s*([\s\S]*?)```/i.exec(text)?.[1];
  for (const candidate of [
    text,
    fenced,
    text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1),
  ]) {
    if (!candidate) continue;
    try {
      const value: unknown = JSON.parse(candidate);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    } catch {
      // Then it is one of the other candidates.
    }
  }
  return undefined;
}

/** The schema as servers take it: no references, all keys required, nothing more allowed. */
function toSchema(shape: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(shape) as Record<string, unknown>;
  return schema;
}
