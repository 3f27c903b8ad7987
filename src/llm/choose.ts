// Which model is asked: the one that is configured; else a server found on this machine; else the built-in reader.

import { CheeseError } from "../index.ts";
import { BUILT_IN_NAME, startBuiltIn } from "./builtin.ts";
import { listModels, Model } from "./client.ts";
import type { LlmSettings } from "./config.ts";

/** Where local servers listen: Ollama, LM Studio, llama.cpp, vLLM. */
const LOCAL_SERVERS = [
  { name: "Ollama", url: "http://127.0.0.1:11434/v1" },
  { name: "LM Studio", url: "http://127.0.0.1:1234/v1" },
  { name: "llama.cpp", url: "http://127.0.0.1:8080/v1" },
  { name: "vLLM", url: "http://127.0.0.1:8000/v1" },
];
const OPENAI_URL = "https://api.openai.com/v1";
const LOOK_MS = 400;
const LIST_MS = 5000;

export interface ChosenModel {
  model: Model;
  /** How it came to be this one, in a few words. */
  how: string;
  close(): Promise<void>;
}

export interface ChooseOptions {
  /** The built-in reader, whatever is configured or found. */
  builtIn?: boolean | undefined;
  silenceMs?: number | undefined;
  /** Where to look, when nothing is configured. */
  localServers?: readonly { name: string; url: string }[] | undefined;
}

/** @throws CheeseError LLM when what is configured names no model, and its server offers none */
export async function chooseModel(
  settings: LlmSettings,
  { builtIn = false, silenceMs, localServers = LOCAL_SERVERS }: ChooseOptions = {},
): Promise<ChosenModel> {
  const { apiKey } = settings;
  const connect = (name: string, server: string) =>
    Model.connect({ name, server, builtIn: false }, { apiKey, ...(silenceMs && { silenceMs }) });
  const close = async () => {};
  const isConfigured = settings.baseUrl !== null || settings.apiKey !== null;
  if (!builtIn && isConfigured) {
    const server = settings.baseUrl ?? OPENAI_URL;
    const name = settings.model ?? (await firstModel(server, apiKey));
    return { model: await connect(name, server), how: "as configured", close };
  }
  if (!builtIn) {
    const offers = await Promise.all(
      localServers.map(async (server) => ({
        server,
        models: (await listModels(server.url, apiKey, LOOK_MS)).models,
      })),
    );
    for (const { server, models } of offers) {
      const name = settings.model ?? models?.find(talks);
      if (models && name)
        return {
          model: await connect(name, server.url),
          how: `found on this machine (${server.name}'s port)`,
          close,
        };
    }
  }
  const server = await startBuiltIn();
  const model = await Model.connect(
    { name: BUILT_IN_NAME, server: server.url, builtIn: true },
    { apiKey: null },
  );
  return {
    model,
    how: builtIn ? "as asked for" : "no language model is configured or found",
    close: server.close,
  };
}

async function firstModel(server: string, apiKey: string | null): Promise<string> {
  const { models, status } = await listModels(server, apiKey, LIST_MS);
  const name = models?.find(talks);
  if (name) return name;
  const failed = `the language model at ${server} failed`;
  if (status === 401 || status === 403)
    throw new CheeseError("LLM", `${failed}: it does not accept the api_key`);
  const why = models ? "it offers no model" : "it cannot be reached, or does not list its models";
  throw new CheeseError("LLM", `${failed}: ${why}`, {
    hint: 'Name the model in llm.conf ("model = …"), or do without one: --builtin.',
  });
}

/** Models that only embed cannot answer. */
function talks(name: string): boolean {
  return !/embed|minilm|bge-|rerank/i.test(name);
}
