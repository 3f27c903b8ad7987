// The checks of `doctor`, each with its remedy.

import { hash } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "@noble/hashes/sha2.js";
import { CheeseError, Store } from "../index.ts";
import { readLlmSettings } from "../llm/config.ts";
import { NODE_HINT, nodeProblem } from "../node.ts";

export interface Check {
  name: string;
  ok: boolean;
  detail: string;
  hint?: string;
}

type Examined = Omit<Check, "name">;

/** A disk that flushes in less has most likely not flushed. */
const FLUSH_MS_MIN = 0.02;
const FLUSHES = 32;
const MODEL_MS_MAX = 30_000;

/** @param env where the settings of a language model may stand too */
export async function examine(
  path: string,
  env: NodeJS.ProcessEnv,
): Promise<{ ok: boolean; store: string; checks: Check[] }> {
  const checks: Check[] = [];
  const check = async (name: string, look: () => Examined | Promise<Examined>) => {
    try {
      checks.push({ name, ...(await look()) });
    } catch (error) {
      checks.push({ name, ok: false, detail: (error as Error).message, hint: remedy(error) });
    }
  };
  await check("node", lookAtNode);
  await check("sha-256", lookAtHash);
  let store: Store | null = null;
  await check("store", async () => {
    // On a machine where nothing was made yet, nothing is wrong.
    if (!existsSync(path))
      return { ok: true, detail: `none yet at ${path}: cheesedb agent create NAME makes it` };
    store = await Store.open(path, { readOnly: true });
    return { ok: true, detail: path };
  });
  if (store) {
    const opened: Store = store;
    await check("permissions", () => lookAtPermissions(path, opened));
    await check("locks", () => lookAtLocks(opened));
    await check("flush", () => lookAtFlush(path));
    await check("agents", () => lookAtAgents(opened));
  }
  await check("model", () => lookAtModel(path, env));
  for (const each of checks) if (each.ok) delete each.hint;
  return { ok: checks.every(({ ok }) => ok), store: path, checks };
}

function remedy(error: unknown): string | undefined {
  if (error instanceof CheeseError)
    return error.code === "LLM"
      ? "See to the settings in llm.conf, and that the server runs."
      : error.hint;
  const { code = "" } = error as NodeJS.ErrnoException;
  return ["EROFS", "EPERM", "EACCES", "ENOSPC", "EDQUOT", "EIO"].includes(code)
    ? "Make the folder writable: what is there can still be read."
    : "Report this.";
}

function lookAtNode(): Examined {
  const problem = nodeProblem();
  const detail = problem ?? `version ${process.versions.node}`;
  return { ok: problem === null, detail, hint: NODE_HINT };
}

/** The hash of this Node against an audited one that is the same everywhere. */
function lookAtHash(): Examined {
  const ok = [0, 1, 55, 56, 64, 1000].every((length) => {
    const bytes = Buffer.alloc(length, length);
    return hash("sha256", bytes, "hex") === Buffer.from(sha256(bytes)).toString("hex");
  });
  return {
    ok,
    detail: ok ? "agrees with @noble/hashes" : "differs from @noble/hashes",
    hint: "Do not use this Node.",
  };
}

function lookAtPermissions(path: string, { warnings }: Store): Examined {
  const [warning] = warnings;
  if (warning) return { ok: false, detail: warning.message, hint: warning.hint };
  for (const part of ["tokens", "agents"]) {
    const { mode } = statSync(join(path, part));
    if (mode & 0o077)
      return {
        ok: false,
        detail: `others can reach ${part}/`,
        hint: `chmod 700 ${join(path, part)}`,
      };
  }
  const others = statSync(path).mode & 0o077;
  return {
    ok: true,
    detail: others
      ? "others can see the store's folder, and nothing in it"
      : "the store is its owner's alone",
  };
}

async function lookAtLocks(store: Store): Promise<Examined> {
  const { held, failed } = await store.lookAtLocks();
  if (failed.length > 0) {
    return {
      ok: false,
      detail: failed.join("; "),
      hint: "Lock files are empty, and writable by you; remove what stands in their place.",
    };
  }
  return {
    ok: true,
    detail: held.length === 0 ? "none is held" : `in use by another process: ${held.join(", ")}`,
  };
}

/** Whether the language model that is configured, or found on this machine, answers. */
async function lookAtModel(path: string, env: NodeJS.ProcessEnv): Promise<Examined> {
  const { chooseModel } = await import("../llm/choose.ts");
  const settings = readLlmSettings(path, env);
  const [warning] = settings.warnings;
  if (warning) return { ok: false, detail: warning, hint: "A key is a secret: shut others out." };
  const chosen = await chooseModel(settings, { silenceMs: MODEL_MS_MAX });
  try {
    const { info } = chosen.model;
    if (info.builtIn) return { ok: true, detail: `none is configured or found: ${info.name}` };
    await chosen.model.answer([{ role: "user", content: "Answer with the one word: yes." }]);
    return { ok: true, detail: `${info.name} at ${info.server} answers` };
  } finally {
    await chosen.close();
  }
}

/** Writes a little and flushes it, a few times over. */
function lookAtFlush(path: string): Examined {
  const probe = join(path, ".doctor");
  const fd = openSync(probe, "wx", 0o600);
  try {
    const times: number[] = [];
    for (let i = 0; i < FLUSHES; i++) {
      const begun = performance.now();
      writeSync(fd, Buffer.alloc(512, i));
      fsyncSync(fd);
      times.push(performance.now() - begun);
    }
    const median = times.sort((a, b) => a - b)[FLUSHES / 2] as number;
    const detail = `takes ${median.toFixed(2)} ms`;
    if (median >= FLUSH_MS_MIN) return { ok: true, detail };
    return {
      ok: false,
      detail: `${detail}: the disk most likely does not wait for the data to be safe`,
      hint: "Keep the store on a disk of this machine, not in memory or on a network.",
    };
  } finally {
    closeSync(fd);
    rmSync(probe);
  }
}

async function lookAtAgents(store: Store): Promise<Examined> {
  const agents = await store.agents();
  const damaged = agents.filter(({ damaged }) => damaged);
  if (damaged.length > 0) {
    const names = damaged.map(({ name, id }) => `${name} (${id})`).join(", ");
    return {
      ok: false,
      detail: `damaged: ${names}`,
      hint: '"cheesedb verify" tells what is wrong.',
    };
  }
  return { ok: true, detail: `${agents.length}` };
}
