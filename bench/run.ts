// Runs the bench: each program in a process of its own, then the table of targets; with --write into docs/.
//
//   npm run bench                          all programs, at 100,000 memories
//   npm run bench -- --full                at 10,000, 100,000 and 1,000,000, and 10,000,000 where memory and time allow
//   npm run bench -- --only recall,find    some of them
//   npm run bench -- --size 20000,50000    other sizes
//   npm run bench -- --write               also into docs/benchmarks.md and docs/recall-time.svg

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, freemem, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  asMarkdown,
  type Figure,
  machine,
  number,
  type Point,
  type Report,
  sizeName,
  verdict,
} from "./measure.ts";
import { newWorkFolder } from "./place.ts";
import { plot } from "./plot.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const DOCS = fileURLToPath(new URL("../docs/", import.meta.url));
const BUILT = fileURLToPath(new URL("../dist/cli/index.js", import.meta.url));
const [BEGIN, END] = ["<!-- bench: begin -->", "<!-- bench: end -->"];
const SIZE = 100_000;
const FULL_SIZES = [10_000, 100_000, 1_000_000];
const HUGE = 10_000_000;
const HUGE_RAM_GIB = 10;
/** Each is begun only if so few minutes have passed. */
const HUGE_PROGRAMS = { recall: 13, open: 15 };
/** Growth within this is none: a graph that no longer fits the CPU's caches is slower to walk. */
const GROWTH_MAX = 1.5;

/** In the order of the targets; `sizes` where a program does not depend on the size, or takes long. */
const PROGRAMS: { name: string; onlyLargest?: boolean }[] = [
  { name: "recall" },
  { name: "open" },
  { name: "write" },
  { name: "find" },
  { name: "cli", onlyLargest: true },
  { name: "mcp" },
  { name: "disk", onlyLargest: true },
  { name: "stall", onlyLargest: true },
];

const { values } = parseArgs({
  options: {
    full: { type: "boolean", default: false },
    only: { type: "string" },
    size: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const only = values.only?.split(",");
for (const name of only ?? [])
  if (!PROGRAMS.some((program) => program.name === name)) throw new Error(`no program ${name}`);
if (!existsSync(BUILT)) throw new Error("the command line is not built: npm run build");

const begun = performance.now();
const [loadBefore = 0] = loadavg();
/** What ran beside the bench makes times worth little; ratios within a table suffer less. */
const busy =
  loadBefore > cpus().length / 4
    ? `The machine was busy before the run began: load average ${loadBefore.toFixed(1)} on ${cpus().length} cores. Times say little then.`
    : null;
const minutes = () => (performance.now() - begun) / 60_000;
const sizes = values.size ? values.size.split(",").map(Number) : values.full ? FULL_SIZES : [SIZE];
const largest = Math.max(...sizes);
const results = `${HERE}results`;
mkdirSync(results, { recursive: true });
const work = newWorkFolder();
const reports: Report[] = [];
const skipped: string[] = [];
let failed = false;

process.on("SIGINT", () => {
  rmSync(work, { recursive: true, force: true });
  process.exit(130);
});
try {
  for (const size of sizes) {
    for (const { name, onlyLargest } of PROGRAMS)
      if ((!only || only.includes(name)) && (!onlyLargest || size === largest)) run(name, size, []);
    clearWork();
  }
  if (values.full && !values.size) runHuge();
} finally {
  rmSync(work, { recursive: true, force: true });
}
const growth = growthOf(reports.flatMap(({ points }) => points));
printTargets();
if (values.write) writeDocs();
process.stdout.write(`\n${minutes().toFixed(1)} minutes\n`);
if (failed) process.exitCode = 1;

function run(name: string, size: number, more: string[]) {
  const out = `${results}/${name}-${size}.json`;
  rmSync(out, { force: true });
  const args = ["--no-warnings", "--expose-gc", "--max-old-space-size=8192", `${HERE}${name}.ts`];
  args.push("--size", String(size), "--out", out, ...more);
  const before = minutes();
  const { status } = spawnSync(process.execPath, args, {
    stdio: "inherit",
    env: { ...process.env, BENCH_WORK: work },
  });
  if (status !== 0) {
    failed = true;
    console.error(`${name} failed`);
  }
  process.stdout.write(`\n  took ${((minutes() - before) * 60).toFixed(0)} s\n`);
  if (existsSync(out)) reports.push(JSON.parse(readFileSync(out, "utf8")));
}

/** What one size left behind, but for PostgreSQL's cluster. */
function clearWork() {
  for (const name of readdirSync(work))
    if (name !== "postgres") rmSync(join(work, name), { recursive: true, force: true });
}

/** Recalls and opening, ours and the floor alone. */
function runHuge() {
  for (const [name, minutesMax] of Object.entries(HUGE_PROGRAMS)) {
    if (only && !only.includes(name)) continue;
    const freeGiB = freemem() / 2 ** 30;
    const what = `${name} at ${sizeName(HUGE)} memories`;
    if (freeGiB < HUGE_RAM_GIB)
      skipped.push(`${what}, since only ${freeGiB.toFixed(1)} GiB of RAM were free`);
    else if (minutes() > minutesMax)
      skipped.push(`${what}, since ${minutes().toFixed(0)} minutes had passed`);
    else run(name, HUGE, ["--alone"]);
  }
}

// ----- growth -----

interface Growth {
  what: string;
  values: Map<number, number>;
  unit: string;
  /** How many times more it costs at the largest size than at the smallest; by memory, where it is linear. */
  times: number;
  isLinear: boolean;
}

/** P13: what must not grow with history, and what is linear in it. */
function growthOf(points: Point[]): Growth[] {
  const ours = points.filter(({ engine }) => engine === "cheesedb");
  const kinds: { id: string; what: string; isLinear?: boolean }[] = [
    { id: "recall", what: "P1 recall" },
    { id: "erase", what: "P2 recall with erase" },
    { id: "single", what: "P6 one insert after the other" },
    { id: "batch", what: "P7 inserts in batches of 1,000" },
    ...["add_source", "remember", "explain_memory", "list_memories", "recall", "catch up"].map(
      (name) => ({ id: `mcp ${name}`, what: `P11 ${name} over MCP` }),
    ),
    { id: "open", what: "P4 open", isLinear: true },
    { id: "replay", what: "P5 full replay", isLinear: true },
    { id: "load", what: "P7 load", isLinear: true },
    { id: "verify", what: "P8 verify", isLinear: true },
    { id: "mcp query", what: "P11 list_memories with a query", isLinear: true },
    { id: "mcp contact", what: "P11 contact over MCP", isLinear: true },
    { id: "find 1", what: "P9 find, a rare byte", isLinear: true },
    { id: "find 2", what: "P9 find, common letters", isLinear: true },
    { id: "find 3", what: "P9 find, any case", isLinear: true },
  ];
  const growth: Growth[] = [];
  for (const { id, what, isLinear = false } of kinds) {
    const all = ours.filter((point) => point.id === id);
    // Of recalls, those of the size that was measured at most histories.
    const groups = Map.groupBy(all, ({ removed }) => removed);
    const widest = [...groups].sort((a, b) => b[1].length - a[1].length || b[0] - a[0])[0];
    if (!widest || widest[1].length < 2) continue;
    const [removed, list] = widest;
    list.sort((a, b) => a.memories - b.memories);
    const [least, most] = [list[0] as Point, list.at(-1) as Point];
    const isRate = most.unit === "a second";
    const by = isLinear ? most.memories / least.memories : 1;
    const times = (isRate ? least.value / most.value : most.value / least.value) / by;
    growth.push({
      what: removed > 0 ? `${what} of ${sizeName(removed)}` : what,
      values: new Map(list.map(({ memories, value }) => [memories, value])),
      unit: most.unit,
      times,
      isLinear,
    });
  }
  return growth;
}

// ----- telling -----

/** Every target, at the largest size at which it was measured, and at the size it is stated for if that was. */
function targets(): { memories: number; figure: Figure }[] {
  const chosen = new Map<string, { memories: number; figure: Figure }>();
  for (const { memories, figures } of reports)
    for (const figure of figures) {
      const key = `${figure.id} ${figure.what.replace(/[0-9,]+/g, "n")}`;
      const before = chosen.get(key);
      if (before && before.figure.reached !== null && figure.reached === null) continue;
      chosen.set(key, { memories, figure });
    }
  const order = (id: string) => (id.startsWith("P") ? Number(id.slice(1)) : 100);
  const judged = growth.map(({ what, times, isLinear }): { memories: number; figure: Figure } => ({
    memories: largest,
    figure: {
      id: "P13",
      what: `${what} ${isLinear ? "is linear" : "does not grow"}`,
      value: `${number(times)} times${isLinear ? " a memory" : ""}`,
      target: `at most ${GROWTH_MAX} times from the smallest to the largest history`,
      ratio: times / GROWTH_MAX,
      reached: times <= GROWTH_MAX,
    },
  }));
  return [...chosen.values(), ...judged].sort((a, b) => order(a.figure.id) - order(b.figure.id));
}

function printTargets() {
  process.stdout.write("\nTargets\n\n");
  for (const { memories, figure } of targets()) {
    const { id, what, value, target, ratio, reached } = figure;
    const times = `${number(ratio)} of the limit`;
    const words = [verdict(reached).padEnd(24), id.padEnd(5), what, "–", value];
    process.stdout.write(`  ${words.join(" ")} (${target}: ${times}; at ${sizeName(memories)})\n`);
  }
  for (const what of skipped) process.stdout.write(`  skipped: ${what}\n`);
  if (busy) process.stdout.write(`\n${busy}\n`);
}

function machineLine(): string {
  const { cpu, cores, ramGiB, system, node, date } = machine();
  return `${cores} × ${cpu}, ${ramGiB} GiB, ${system}, Node ${node}, ${date}`;
}

function writeDocs() {
  const path = `${DOCS}benchmarks.md`;
  const page = readFileSync(path, "utf8");
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from === -1 || to === -1) throw new Error(`${path} lacks the marks ${BEGIN} and ${END}`);
  const command = `npm run bench -- ${process.argv.slice(2).join(" ")}`;
  let text = `${BEGIN}\n\nMade by \`${command}\`: ${sizes.map(sizeName).join(", ")} memories. ${machineLine()}.\n\n`;
  if (busy) text += `**${busy}**\n\n`;
  for (const what of skipped) text += `Skipped: ${what}.\n\n`;
  text +=
    "### Targets\n\n| | | measured | target | of the limit | at | |\n|---|---|---|---|--:|--:|---|\n";
  for (const { memories, figure } of targets()) {
    const { id, what, value, target, ratio, reached } = figure;
    const cells = [id, what, value, target, number(ratio), sizeName(memories), verdict(reached)];
    text += `| ${cells.join(" | ")} |\n`;
  }
  if (growth.length > 0) {
    const all = [...new Set(growth.flatMap(({ values }) => [...values.keys()]))].sort(
      (a, b) => a - b,
    );
    text += `\n### Growth\n\n| | unit | ${all.map(sizeName).join(" | ")} | growth |\n|---|---|${all.map(() => "--:|").join("")}--:|\n`;
    for (const { what, unit, values, times, isLinear } of growth) {
      const cells = all.map((size) => (values.has(size) ? number(values.get(size) ?? 0) : ""));
      const factor = `${number(times)}${isLinear ? " a memory" : ""}`;
      text += `| ${[what, unit, ...cells, factor].join(" | ")} |\n`;
    }
  }
  text += `\n### Tables\n\n${reports.map(asMarkdown).join("\n")}\n`;
  writeFileSync(path, page.slice(0, from) + text + page.slice(to));
  const points = reports.flatMap(({ points }) => points);
  if (points.some(({ id }) => id === "recall"))
    writeFileSync(`${DOCS}recall-time.svg`, plot(points, machineLine()));
}
