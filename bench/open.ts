// Opening: with a snapshot and without, and verify; and the single look-up at open, at which others are faster. P4, P5, P8.

import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeEngine, Peers, TITLES } from "./engines/all.ts";
import { lotCount, makeGraph } from "./graph.ts";
import { Findings, median, sizeName, timed } from "./measure.ts";
import {
  AGENT,
  agentFolder,
  copyFolder,
  openAgent,
  options,
  preparedStore,
  settle,
} from "./place.ts";
import { Contestant } from "./worker.ts";

const STATED = 1_000_000;
const WARM_UPS = 2;
const BIN = fileURLToPath(new URL("../bin/run.js", import.meta.url));

const { size, runs, alone, out } = options();
const findings = new Findings("open", size);
const folder = copyFolder(await preparedStore(size), `open-${size}`);
const snapshot = join(agentFolder(folder), "graph");
const middle = lotCount(size) + Math.floor(size / 2);

/** From nothing to the first answer, in a process that did it before. Closing is not timed. */
async function firstWhy(): Promise<{ ms: number; fromSnapshot: boolean }> {
  const begun = performance.now();
  const { agent } = await openAgent(folder);
  await agent.why(middle);
  const ms = performance.now() - begun;
  const { fromSnapshot } = agent.opened;
  await agent.close();
  return { ms, fromSnapshot };
}

async function repeated(
  isDue: boolean,
  before: () => void,
): Promise<{ first: number; samples: number[] }> {
  const samples: number[] = [];
  for (let run = 0; run < WARM_UPS + runs; run++) {
    before();
    const { ms, fromSnapshot } = await firstWhy();
    if (fromSnapshot !== isDue)
      throw new Error(`opened ${fromSnapshot ? "with" : "without"} a snapshot`);
    samples.push(ms);
  }
  return { first: samples[0] as number, samples: samples.slice(WARM_UPS) };
}

settle();
findings.table(`open ${sizeName(size)} memories, and answer the first why`);
{
  const { first, samples } = await repeated(true, () => {});
  findings.row("after a clean close", "ms", samples);
  findings.row("the same, first in its process", "ms", [first], "the code is not compiled yet");
  findings.point("open", "cheesedb", "ms", median(samples));
  const limit = { atMost: 80, unit: "ms", statedFor: STATED };
  findings.figure("P4", "open, in a warm process", median(samples), limit);
}
{
  const args = [BIN, "why", AGENT, String(middle), "--store", folder];
  const shell: number[] = [];
  for (let run = 0; run <= runs; run++) {
    const ms = await timed(() => {
      const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
      if (status !== 0) throw new Error(`why failed: ${stderr}`);
    });
    // The first fills the compile cache.
    if (run > 0) shell.push(ms);
  }
  findings.row("cheesedb why, from the shell, whole", "ms", shell);
  findings.point("open-shell", "cheesedb", "ms", median(shell));
  const limit = { atMost: 160, unit: "ms", statedFor: STATED };
  findings.figure("P4", "open, cheesedb why from the shell", median(shell), limit);
}
{
  const { first, samples } = await repeated(false, () => rmSync(snapshot, { force: true }));
  const seconds = samples.map((ms) => ms / 1000);
  findings.row("without a snapshot, the whole chain checked", "s", seconds);
  findings.row(
    "the same, first in its process",
    "s",
    [first / 1000],
    "after opens with a snapshot",
  );
  findings.point("replay", "cheesedb", "s", median(seconds));
  const limit = { atMost: 0.9, unit: "s", statedFor: STATED };
  findings.figure("P5", "full replay", median(seconds), limit);
}

// A look-up at open is what a tree on the disk is for.
findings.table("open in a fresh process, and look up one memory with its legs");
const peers = new Peers(findings, alone ? [] : ["sqlite", "postgres", "ladybug"]);
await peers.around(async () => {
  const places = peers.names.map((name) => ({ name, folder: peers.folderOf(name) }));
  for (const { name, folder } of places) {
    const engine = makeEngine(name, folder, size);
    await engine.load(makeGraph(size));
    await engine.close();
  }
  const all = [{ name: "cheesedb" as const, folder }, ...places];
  const samples = new Map<string, number[]>(all.map(({ name }) => [name, []]));
  for (let run = 0; run < runs; run++)
    for (const { name, folder } of all) {
      const contestant = new Contestant(name, folder, size);
      const opened = await contestant.ask({ do: "open" });
      const looked = await contestant.ask({ do: "lookUp", id: middle });
      await contestant.end();
      samples.get(name)?.push(opened.ms + looked.ms);
    }
  for (const { name } of all)
    findings.row(
      TITLES[name],
      "ms",
      samples.get(name) ?? [],
      name === "postgres" ? "server up" : "",
    );
});

findings.table(`verify ${sizeName(size)} memories: the chain, every text, the snapshot`);
{
  const { agent } = await openAgent(folder);
  const samples: number[] = [];
  const before = process.memoryUsage().rss;
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 5);
  for (let run = 0; run <= runs; run++) {
    const ms = await timed(() => agent.verify());
    if (run > 0) samples.push(ms / 1000);
  }
  clearInterval(watch);
  await agent.close();
  findings.row("verify", "s", samples);
  findings.row("the process grew by, at most", "MiB", [(peak - before) / 2 ** 20]);
  findings.point("verify", "cheesedb", "s", median(samples));
  const limit = { atMost: 0.8, unit: "s", statedFor: STATED };
  findings.figure("P8", "verify, both cores", median(samples), limit);
}
findings.finish(out);
