// What a small command costs from the shell, start to end, on a young agent: beside an empty `node`. P10.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Findings, median } from "./measure.ts";
import { AGENT, emptyFolder, openAgent, options } from "./place.ts";

const BIN = fileURLToPath(new URL("../bin/run.js", import.meta.url));
const ENTRIES = 20;
const EMPTY = "node -e 0";

const { runs, out } = options();
const findings = new Findings("cli", ENTRIES);
const folder = emptyFolder("cli");
{
  const { agent } = await openAgent(folder);
  await agent.addLots(
    Array.from({ length: ENTRIES }, (_, i) => ({ label: "web_page", text: `page ${i}` })),
  );
  await agent.remember("it rains in Pune", [[1], [2, 3]]);
  await agent.close();
}

const commands: { name: string; args: string[]; isSmall: boolean }[] = [
  { name: EMPTY, args: ["-e", "0"], isSmall: false },
  { name: "lot", args: [BIN, "lot", AGENT, "web_page", "a page"], isSmall: true },
  { name: "remember", args: [BIN, "remember", AGENT, "a memory", "--from", "1,2"], isSmall: true },
  { name: "list", args: [BIN, "list", AGENT], isSmall: true },
  { name: "why", args: [BIN, "why", AGENT, String(ENTRIES + 1)], isSmall: true },
  { name: "recall --dry-run", args: [BIN, "recall", AGENT, "1", "--dry-run"], isSmall: false },
  { name: "--version", args: [BIN, "--version"], isSmall: false },
  { name: "complete", args: [BIN, "complete", "re"], isSmall: false },
];
const env = { ...process.env, CHEESEDB_DIR: folder };
const samples = new Map<string, number[]>(commands.map(({ name }) => [name, []]));
// The first round fills the compile cache, and is not counted. Processes vary more than calls: three times as many.
for (let run = 0; run <= runs * 3; run++)
  for (const { name, args } of commands) {
    const begun = performance.now();
    const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
    const ms = performance.now() - begun;
    if (status !== 0) throw new Error(`${name} failed: ${stderr}`);
    if (run > 0) samples.get(name)?.push(ms);
  }

findings.table("a command from the shell, on a young agent");
const empty = median(samples.get(EMPTY) ?? []);
for (const { name, isSmall } of commands) {
  const all = samples.get(name) ?? [];
  const times = median(all) / empty;
  findings.row(name, "ms", all, name === EMPTY ? "" : `${times.toFixed(2)} times ${EMPTY}`);
  const unit = `times ${EMPTY}`;
  if (isSmall) findings.figure("P10", `cheesedb ${name}`, times, { atMost: 3.2, unit });
}
findings.finish(out);
