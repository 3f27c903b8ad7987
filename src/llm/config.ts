// llm.conf: which language model to ask, and where. The environment stands behind it, line by line.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CheeseError, decodeUtf8 } from "../index.ts";

export interface LlmSettings {
  /** Null when none is configured: then a server is looked for. */
  baseUrl: string | null;
  model: string | null;
  apiKey: string | null;
  embedModel: string | null;
  /** What its owner should know. */
  warnings: string[];
}

export const LLM_CONF = "llm.conf";

const KEYS = {
  base_url: "baseUrl",
  model: "model",
  api_key: "apiKey",
  embed_model: "embedModel",
} as const;
type Key = keyof typeof KEYS;
const OTHERS_CAN_READ = 0o077;

/**
 * Reads llm.conf in a store's folder, where there is one.
 *
 * @param env OPENAI_BASE_URL, OPENAI_API_KEY and CHEESEDB_MODEL are used for what the file leaves out
 * @throws CheeseError BAD_INPUT with the line
 */
export function readLlmSettings(storePath: string, env: NodeJS.ProcessEnv): LlmSettings {
  const path = join(storePath, LLM_CONF);
  const settings = parseLlmConf(readIfThere(path), path);
  settings.baseUrl ??= baseUrlOf(env);
  settings.apiKey ??= env.OPENAI_API_KEY || null;
  settings.model ??= env.CHEESEDB_MODEL || null;
  return settings;
}

function baseUrlOf({ OPENAI_BASE_URL: url }: NodeJS.ProcessEnv): string | null {
  if (!url) return null;
  const problem = problemOf(url);
  if (problem)
    throw new CheeseError("BAD_INPUT", `the environment's OPENAI_BASE_URL ${problem}`, {
      hint: "For example http://127.0.0.1:11434/v1.",
    });
  return url;
}

function readIfThere(path: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw new CheeseError("BAD_INPUT", `cannot read ${path}`, { cause, file: path });
  }
  try {
    return decodeUtf8(bytes, path);
  } catch (cause) {
    const { offset = 0 } = cause as CheeseError;
    const line = bytes.subarray(0, offset).toString("latin1").split("\n").length;
    throw new CheeseError("BAD_INPUT", `${LLM_CONF}, line ${line}: it is not valid UTF-8`, {
      cause,
      line,
      file: path,
    });
  }
}

/** @param path where it was read from, for the words of a mistake; its permissions are looked at if it holds a key */
export function parseLlmConf(text: string, path: string): LlmSettings {
  const settings: LlmSettings = {
    baseUrl: null,
    model: null,
    apiKey: null,
    embedModel: null,
    warnings: [],
  };
  for (const [i, raw] of text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const wrong = (what: string) =>
      new CheeseError("BAD_INPUT", `${LLM_CONF}, line ${i + 1}: ${what}`, {
        line: i + 1,
        file: path,
        hint: `Its lines are "key = value"; the keys are ${Object.keys(KEYS).join(", ")}.`,
      });
    const at = line.indexOf("=");
    if (at === -1) throw wrong('there is no "="');
    const key = line.slice(0, at).trim();
    const value = line.slice(at + 1).trim();
    if (!Object.hasOwn(KEYS, key)) throw wrong(`"${key}" is no key`);
    if (value === "") throw wrong(`"${key}" has no value`);
    const field = KEYS[key as Key];
    if (settings[field] !== null) throw wrong(`"${key}" stands there twice`);
    const problem = field === "baseUrl" ? problemOf(value) : null;
    if (problem) throw wrong(`base_url ${problem}`);
    settings[field] = value;
  }
  if (settings.apiKey && othersCanRead(path)) {
    settings.warnings.push(`others can read the api_key in ${path}: chmod 600 ${path}`);
  }
  return settings;
}

/** What is wrong with a server's address; never the address itself, which may hold a password. */
function problemOf(address: string): string | null {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url || !/^https?:$/.test(url.protocol)) return "is no http or https address";
  return url.username || url.password ? "holds a name or a password: the key is api_key" : null;
}

function othersCanRead(path: string): boolean {
  if (process.platform === "win32") return false;
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && (stat.mode & OTHERS_CAN_READ) !== 0;
}
