// Fuzzing: whatever comes from outside is taken or refused with a code; it never hangs, never allocates beyond its size, and
// never gets a wrong text served where the chain is checked.
//
// An input follows from the seed, the name of its target and its number alone. What runs without end is ended by a watchdog,
// which leaves word of where it was.

import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { chance } from "../chance.ts";
import type { Budget, Campaign, Failure, Tally } from "./campaign.ts";
import { decoders } from "./fuzz-bytes.ts";
import { commands } from "./fuzz-commands.ts";
import { folders } from "./fuzz-folders.ts";
import { texts } from "./fuzz-texts.ts";
import { Meter } from "./mutate.ts";
import type { Target } from "./target.ts";

export const targets: Target[] = [...decoders, ...texts, folders];

/** A case that takes longer has no end: on a machine that is busy, too. */
const HANG_MS = 120_000;
const FAILURES_MAX = 20;
/** A process costs as much as so many others. */
const PROCESS_EVERY = 2000;

/** Ends the process when a case does not. It looks from another thread, since the case may keep this one. */
class Watchdog {
  readonly #case = new Int32Array(new SharedArrayBuffer(4));
  readonly #worker: Worker;

  constructor(keep: string, seed: number, name: string, hangMs: number) {
    const file = join(keep, `fuzz-hangs-${name}-${seed}.txt`);
    this.#worker = new Worker(
      `const { workerData: { cases, file, seed, ms } } = require("node:worker_threads");
       let last = -1;
       setInterval(() => {
         const now = Atomics.load(cases, 0);
         if (now === last) {
           require("node:fs").writeFileSync(file, \`seed \${seed}, case \${now} does not end\\n\`);
           require("node:fs").writeSync(2, \`fuzz: seed \${seed}, case \${now} does not end: \${file}\\n\`);
           process.kill(process.pid, "SIGKILL");
         }
         last = now;
       }, ms);`,
      { eval: true, execArgv: [], workerData: { cases: this.#case, file, seed, ms: hangMs } },
    );
  }

  /** It needs this thread to begin. */
  async begin() {
    await once(this.#worker, "online");
    this.#worker.unref();
  }

  pass() {
    Atomics.add(this.#case, 0, 1);
  }

  async end() {
    await this.#worker.terminate();
  }
}

/** One input: it follows from nothing but its seed, target and number. */
export function inputOf(target: Target, seed: number, number: number): Buffer {
  return target.make(chanceOf(seed, target.name, number));
}

function chanceOf(seed: number, name: string, number: number): () => number {
  let mixed = seed | 0;
  for (const c of name) mixed = Math.imul(mixed ^ c.charCodeAt(0), 0x0100_0193);
  const random = chance(Math.imul(mixed ^ number, 0x9e37_79b1) ^ (number << 7));
  random();
  return random;
}

/** Checks one input, within what may be allocated for it. */
export async function checkInput(target: Target, input: Buffer): Promise<void> {
  const { bytesMax } = target;
  if (!bytesMax) return target.check(input);
  const meter = new Meter();
  meter.install();
  try {
    await target.check(input);
  } finally {
    meter.remove();
  }
  const most = bytesMax(input.length);
  if (meter.bytes > most)
    throw new Error(
      `${meter.bytes} bytes are allocated for ${input.length}, at most ${most} may be`,
    );
}

/** The targets in turn, each as often as its share says; now and then one of those that are dear. */
export const fuzzing =
  (
    chosen: readonly Target[],
    dear: readonly Target[] = [],
    { hangMs = HANG_MS }: { hangMs?: number } = {},
  ): Campaign =>
  async (budget: Budget): Promise<Tally> => {
    const counts: Record<string, number> = {};
    const failures: Failure[] = [];
    const turns = chosen.flatMap((target) => Array<Target>(target.share).fill(target));
    const watchdog = new Watchdog(
      budget.keep,
      budget.seed,
      fileName(chosen[0]?.name ?? ""),
      hangMs,
    );
    await watchdog.begin();
    try {
      for (let done = 0; budget.more(done) && failures.length < FAILURES_MAX; done++) {
        // A number that has no part in common with their count: all are reached, in no order of their shares.
        const isDear = dear.length > 0 && done % PROCESS_EVERY === PROCESS_EVERY - 1;
        const target = isDear
          ? (dear[Math.floor(done / PROCESS_EVERY) % dear.length] as Target)
          : (turns[(done * 7919) % turns.length] as Target);
        const name = `fuzz inputs: ${target.name}`;
        const number = (counts[name] ?? 0) + 1;
        counts[name] = number;
        watchdog.pass();
        const input = inputOf(target, budget.seed, number);
        try {
          await checkInput(target, input);
        } catch (error) {
          const what = `${target.name}: ${(error as Error).stack ?? error}`;
          failures.push({ what, repeat: keepInput(budget, target, number, input) });
        }
      }
    } finally {
      await watchdog.end();
    }
    return { counts, failures };
  };

const fileName = (name: string) => name.replace(/\W+/g, "-");

function keepInput(
  { keep, seed }: Budget,
  { name }: Target,
  number: number,
  input: Buffer,
): string {
  mkdirSync(keep, { recursive: true });
  const file = join(keep, `${fileName(name)}--${seed}-${number}.b64`);
  writeFileSync(file, `${input.toString("base64")}\n`);
  return `target "${name}", seed ${seed}, input ${number}: ${file}`;
}

export const campaign: Campaign = fuzzing(targets, commands);
