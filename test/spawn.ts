// Starts `test/child.ts` as a process of its own, hears what it says, and ends it with the test.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, onTestFinished } from "vitest";
import type { ChildOptions } from "./child.ts";

const PROGRAM = fileURLToPath(new URL("./child.ts", import.meta.url));

/** What the first child that ends by itself leaves compiled for the others: they start three times as fast. */
const compiled = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
afterAll(() => rmSync(compiled, { recursive: true, force: true }));

export interface Child {
  /** Everything that it has said so far, a value a line; half a line is nothing. */
  readonly said: unknown[];
  /** What it says next that nobody has asked for yet; rejects when it ends without saying more. */
  next(): Promise<unknown>;
  kill(signal: NodeJS.Signals): void;
  tell(line: string): void;
  /** Resolves once it has ended and all that it said was heard. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; errors: string }>;
}

export function startChild(job: string, options: ChildOptions): Child {
  const child = spawn(process.execPath, [PROGRAM, job, JSON.stringify(options)], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, NODE_COMPILE_CACHE: compiled },
  });
  const said: unknown[] = [];
  let taken = 0;
  let half = "";
  let errors = "";
  let wake = () => {};
  let isOver = false;
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    const lines = (half + piece).split("\n");
    half = lines.pop() ?? "";
    for (const line of lines) said.push(JSON.parse(line));
    wake();
  });
  child.stderr.setEncoding("utf8").on("data", (piece: string) => {
    errors += piece;
  });
  // A child that was killed hears no more.
  child.stdin.on("error", () => {});
  const ended: Child["ended"] = new Promise((resolve) => {
    child.on("close", (code, signal) => {
      isOver = true;
      wake();
      resolve({ code, signal, errors });
    });
  });
  onTestFinished(async () => {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    await ended;
  });
  return {
    said,
    ended,
    kill: (signal) => void child.kill(signal),
    tell: (line) => void child.stdin.write(`${line}\n`),
    async next() {
      while (taken === said.length) {
        if (isOver) throw new Error(`the child ended and said no more: ${errors}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return said[taken++];
    },
  };
}

/** Runs a child to its end; the signal is null unless it was killed. */
export async function runChild(
  job: string,
  options: ChildOptions,
): Promise<{ said: unknown[]; signal: NodeJS.Signals | null }> {
  const child = startChild(job, options);
  const { code, signal, errors } = await child.ended;
  if (code !== 0 && signal !== "SIGKILL")
    throw new Error(`the child ended with ${code}: ${errors}`);
  return { said: child.said, signal };
}

/** Runs a child to its end while everything in this process stands still. */
export function runChildNow(job: string, options: ChildOptions): unknown[] {
  const { stdout } = spawnSync(process.execPath, [PROGRAM, job, JSON.stringify(options)], {
    encoding: "utf8",
  });
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}
