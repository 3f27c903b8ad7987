// Runs the campaigns for so many minutes and says what was tried: npm run campaign -- --minutes 30
//
//   --minutes N    in all; each campaign has its share
//   --only a,b     these alone
//   --seed N       what everything follows from; each process counts on from it
//   --keep DIR     where failing images and inputs are left
//   --processes N  at once; as many as there are cores, if not said

import { type ChildProcess, fork } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Campaign, Tally } from "./campaign.ts";

/** The campaigns, with their shares of the time. One that starts processes of its own runs in one process. */
const CAMPAIGNS: Record<string, { share: number; alone?: boolean }> = {
  crash: { share: 13 },
  calls: { share: 1 },
  damage: { share: 4 },
  kills: { share: 4, alone: true },
  fuzz: { share: 5 },
  erasure: { share: 1 },
};

const HERE = fileURLToPath(import.meta.url);
const GRACE_MS = 120_000;

if (process.send) {
  process.once("message", (order) => void work(order as Order));
} else {
  await main();
}

interface Order {
  name: string;
  seed: number;
  until: number;
  keep: string;
}

/** One process of one campaign. */
async function work({ name, seed, until, keep }: Order) {
  const { campaign } = (await import(`./${name}.ts`)) as { campaign: Campaign };
  const tally = await campaign({ seed, keep, more: () => Date.now() < until });
  process.send?.(tally, () => process.exit(0));
}

async function main() {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string", default: "10" },
      only: { type: "string" },
      seed: { type: "string", default: String(Date.now() % 2 ** 31) },
      keep: { type: "string" },
      processes: { type: "string", default: String(availableParallelism()) },
    },
  });
  const minutes = Number(values.minutes);
  const seed = Number(values.seed);
  const processes = Number(values.processes);
  const keep = values.keep ?? mkdtempSync(join(tmpdir(), "cheesedb-campaign-"));
  mkdirSync(keep, { recursive: true });
  const names = values.only?.split(",") ?? Object.keys(CAMPAIGNS);
  for (const name of names) {
    if (!CAMPAIGNS[name] || !existsSync(new URL(`./${name}.ts`, import.meta.url)))
      throw new Error(`there is no campaign "${name}": ${Object.keys(CAMPAIGNS).join(", ")}`);
  }
  const shares = names.reduce((sum, name) => sum + (CAMPAIGNS[name]?.share ?? 0), 0);
  console.log(
    `${minutes} minutes, seed ${seed}, ${processes} processes, Node ${process.version}, ${cpus()[0]?.model}; failures are left in ${keep}\n`,
  );
  let failed = 0;
  for (const [i, name] of names.entries()) {
    const { share, alone } = CAMPAIGNS[name] ?? { share: 1 };
    const begun = Date.now();
    const until = begun + (minutes * 60_000 * share) / shares;
    const tallies = await Promise.all(
      Array.from({ length: alone ? 1 : processes }, (_, p) =>
        runOne({ name, seed: seed + i * 1000 + p, until, keep: join(keep, `${name}-${p}`) }),
      ),
    );
    failed += told(name, tallies, (Date.now() - begun) / 1000);
  }
  console.log(failed === 0 ? "nothing failed" : `${failed} failures`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function runOne(order: Order): Promise<Tally> {
  mkdirSync(order.keep, { recursive: true });
  const child: ChildProcess = fork(HERE, [], { execArgv: process.execArgv });
  const timer = setTimeout(() => child.kill("SIGKILL"), order.until - Date.now() + GRACE_MS);
  return new Promise((resolve) => {
    let tally: Tally | null = null;
    child.on("message", (message) => {
      tally = message as Tally;
    });
    child.on("exit", (code, signal) => {
      clearTimeout(timer);
      const what = `the campaign's process ended without a word (${signal ?? code})`;
      resolve(tally ?? { counts: {}, failures: [{ what, repeat: JSON.stringify(order) }] });
    });
    child.send(order);
  });
}

/** Prints what was tried, and what failed; returns how much failed. */
function told(name: string, tallies: Tally[], seconds: number): number {
  const counts = new Map<string, number>();
  for (const tally of tallies)
    for (const [what, count] of Object.entries(tally.counts))
      counts.set(what, (counts.get(what) ?? 0) + count);
  console.log(`${name}, ${seconds.toFixed(0)} s`);
  for (const [what, count] of counts)
    console.log(`  ${count.toLocaleString("en").padStart(13)}  ${what}`);
  const failures = tallies.flatMap((tally) => tally.failures);
  for (const { what, repeat } of failures.slice(0, 20))
    console.log(`  FAILED: ${what}\n          ${repeat}`);
  console.log("");
  return failures.length;
}
