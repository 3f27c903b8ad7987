// Tries mutants of the engine's heart, and says which of them no test notices: npm run mutants -- --files recall,segment
//
//   --files a,b    sources of the engine; all of SOURCES, if not said
//   --sample K     so many of each file, by chance
//   --seed N       what the sample follows from
//   --minutes N    no new mutant is begun after that
//   --only TEXT    those whose id has it
//   --longest MS   tests that take longer, as they were learnt, are left out
//   --results F    where each result is added as a line; mutants that stand there already are not tried again
//   --workers N    at once
//
// First all tests are run as they are, and it is noted which lines each comes to. Then each mutant is laid into a copy of the
// tree, and the tests that come to it are run in a process of their own, those first that noticed others of its file and then
// the shorter ones, until one fails. A mutant that makes a test many times slower hangs, and is noticed too.

import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  accessSync,
  appendFileSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chance } from "../chance.ts";
import type { Learnt } from "./drive.ts";
import { type Mutant, mutantsOf, mutated } from "./mutate.ts";

const SOURCES = [
  "codec",
  "segment",
  "log",
  "state",
  "core",
  "recall",
  "graph",
  "apply",
  "inspect",
  "verify",
  "batch",
  "chain",
  "headmark",
  "snapshot",
  "records",
  "crc",
  "seen",
  "arrays",
];
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MEMORY = "/dev/shm";
const START_MS = 20_000;
/** A test hangs when it takes so many times what it took, and this. */
const SLOWER = 10;
const GRACE_MS = 5000;

/** Looked at, and harmless: the id, and why. */
const explained: Record<string, string> = JSON.parse(
  readFileSync(new URL("explained.json", import.meta.url), "utf8"),
);

interface Result {
  id: string;
  file: string;
  how: "killed" | "timeout" | "survived" | "unreached";
  /** The test that noticed it. */
  by: string | null;
  ms: number;
}

const { values } = parseArgs({
  options: {
    files: { type: "string", default: SOURCES.join() },
    sample: { type: "string" },
    seed: { type: "string", default: "1" },
    minutes: { type: "string", default: "60" },
    only: { type: "string" },
    longest: { type: "string", default: "450" },
    results: { type: "string" },
    workers: { type: "string", default: String(Math.min(2, availableParallelism())) },
  },
});
const until = Date.now() + Number(values.minutes) * 60_000;
const longest = Number(values.longest);
setPriority(5);

const work = mkdtempSync(join(isWritable(MEMORY) ? MEMORY : tmpdir(), "cheesedb-mutants-"));
const running = new Set<ChildProcess>();
const leave = () => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(work, { recursive: true, force: true });
};
process.on("exit", leave);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const sources = new Map(
  SOURCES.map((file) => [file, readFileSync(join(ROOT, "src", `${file}.ts`), "utf8")]),
);
const all = SOURCES.flatMap((file) => mutantsOf(file, sources.get(file) as string));
const learnt = await learn();
const testsOf = new Map<Mutant, Learnt["tests"]>(all.map((mutant) => [mutant, []]));
for (const test of learnt.tests)
  for (const number of test.reaches) testsOf.get(all[number] as Mutant)?.push(test);

const results: Result[] = [];
if (values.results && existsSync(values.results)) {
  for (const line of readFileSync(values.results, "utf8").split("\n").filter(Boolean))
    results.push(JSON.parse(line));
}
const chosen = choose();
const known = new Set(results.map(({ id }) => id));
const due = chosen.filter(({ id }) => !known.has(id));
console.log(`${chosen.length} mutants, ${due.length} to be tried; seed ${values.seed}`);

/** By file: how often each test has noticed a mutant. */
const noticed = new Map<string, Map<string, number>>();
for (const { file, by } of results) if (by) note(file, by);
await Promise.all(Array.from({ length: Number(values.workers) }, (_, i) => worker(i)));
tell();

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function choose(): Mutant[] {
  const random = chance(Number(values.seed));
  return values.files.split(",").flatMap((file) => {
    if (!sources.has(file)) throw new Error(`${file} is none of ${SOURCES.join()}`);
    const mine = all.filter(
      (mutant) => mutant.file === file && mutant.id.includes(values.only ?? ""),
    );
    if (values.sample === undefined) return mine;
    for (let i = mine.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [mine[i], mine[j]] = [mine[j] as Mutant, mine[i] as Mutant];
    }
    return mine.slice(0, Number(values.sample));
  });
}

function note(file: string, test: string) {
  const counts = noticed.get(file) ?? new Map<string, number>();
  counts.set(test, (counts.get(test) ?? 0) + 1);
  noticed.set(file, counts);
}

/** A copy of what the tests need. */
function copyTree(name: string): string {
  const tree = join(work, name);
  mkdirSync(join(tree, "tmp"), { recursive: true });
  const copied = ["src", "test", "package.json", "commands"];
  for (const part of copied) cpSync(join(ROOT, part), join(tree, part), { recursive: true });
  // The documents lead to all the rest.
  for (const part of readdirSync(ROOT))
    if (!copied.includes(part) && part !== ".git") symlinkSync(join(ROOT, part), join(tree, part));
  return tree;
}

function environment(tree: string) {
  return {
    ...process.env,
    TMPDIR: join(tree, "tmp"),
    NODE_COMPILE_CACHE: join(work, "compiled"),
    SEED: "1",
    HISTORIES: "12",
    GRAPHS: "10",
    CALLS: "60",
    CRASH_WORKLOADS: "4",
    DAMAGE_STEP: "400",
  };
}

/** Which tests come to which mutants: kept until a source or a test changes. */
async function learn(): Promise<Learnt> {
  const sum = createHash("sha256");
  for (const folder of ["src", "test", "test/campaign", "test/mutation"]) {
    for (const name of readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith(".ts"))
      .sort())
      if (name !== "run.ts") sum.update(readFileSync(join(ROOT, folder, name)));
  }
  const kept = join(tmpdir(), `cheesedb-mutants-${sum.digest("hex").slice(0, 16)}.json`);
  if (!existsSync(kept)) {
    const tree = copyTree("learn");
    const child = spawn(process.execPath, ["--no-warnings", "test/mutation/drive.ts", "--learn"], {
      cwd: tree,
      env: { ...environment(tree), SOURCES: JSON.stringify(SOURCES), LEARNT: kept },
      stdio: ["ignore", "ignore", "pipe"],
    });
    running.add(child);
    let said = "";
    child.stderr.on("data", (chunk) => {
      said += chunk;
    });
    const code = await new Promise((resolve) => child.on("close", resolve));
    running.delete(child);
    for (const line of said.split("\n").filter((line) => line.startsWith("LEFT OUT")))
      console.log(line);
    if (code !== 0) throw new Error(`the tests fail as they are:\n${said.slice(-2000)}`);
  }
  return JSON.parse(readFileSync(kept, "utf8"));
}

async function worker(number: number) {
  const tree = copyTree(String(number));
  for (;;) {
    const mutant = Date.now() < until ? due.shift() : undefined;
    if (!mutant) return;
    const begun = Date.now();
    const { how, by } = await attempt(tree, mutant);
    if (by) note(mutant.file, by);
    const result = { id: mutant.id, file: mutant.file, how, by, ms: Date.now() - begun };
    results.push(result);
    if (values.results) appendFileSync(values.results, `${JSON.stringify(result)}\n`);
    if (by === null && explained[mutant.id] === undefined)
      console.log(`${how} (${mutant.line}) ${mutant.id}`);
  }
}

async function attempt(tree: string, mutant: Mutant): Promise<Pick<Result, "how" | "by">> {
  const counts = noticed.get(mutant.file);
  const tests = (testsOf.get(mutant) ?? []).filter(({ ms }) => ms <= longest);
  if (tests.length === 0) return { how: "unreached", by: null };
  const rank = ({ name, ms }: Learnt["tests"][0]) => ms / (1 + 10 * (counts?.get(name) ?? 0));
  tests.sort((a, b) => rank(a) - rank(b));
  const path = join(tree, "src", `${mutant.file}.ts`);
  const source = sources.get(mutant.file) as string;
  const order = join(tree, "order.json");
  writeFileSync(order, JSON.stringify(tests.map(({ name }) => name)));
  writeFileSync(path, mutated(source, mutant));
  try {
    return await run(tree, order, new Map(tests.map(({ name, ms }) => [name, ms])));
  } finally {
    writeFileSync(path, source);
    rmSync(join(tree, "tmp"), { recursive: true, force: true });
    mkdirSync(join(tree, "tmp"));
  }
}

function run(
  tree: string,
  order: string,
  msOf: Map<string, number>,
): Promise<Pick<Result, "how" | "by">> {
  const child = spawn(process.execPath, ["--no-warnings", "test/mutation/drive.ts", order], {
    cwd: tree,
    env: environment(tree),
    stdio: ["ignore", "ignore", "pipe"],
  });
  running.add(child);
  let at = "loading";
  let hangs = false;
  const give = (ms: number) =>
    setTimeout(() => {
      hangs = true;
      child.kill("SIGKILL");
    }, ms);
  let timer = give(START_MS);
  let failed: string | null = null;
  let line = "";
  child.stderr.on("data", (chunk) => {
    const lines = (line + chunk).split("\n");
    line = lines.pop() ?? "";
    for (const each of lines) {
      if (each.startsWith("FAILED ")) failed = each.slice(7);
      if (!each.startsWith("> ")) continue;
      at = each.slice(2);
      clearTimeout(timer);
      timer = give((msOf.get(at) ?? 0) * SLOWER + GRACE_MS);
    }
  });
  return new Promise((resolve) => {
    child.on("close", (code) => {
      clearTimeout(timer);
      running.delete(child);
      if (hangs) resolve({ how: "timeout", by: at });
      else if (code !== 0) resolve({ how: "killed", by: failed ?? at });
      else resolve({ how: "survived", by: null });
    });
  });
}

function tell() {
  const ids = new Set(all.map(({ id }) => id));
  const head = ["file", "mutants", "tried", "killed", "timeouts", "explained", "surviving"];
  console.log(head.map((name) => name.padStart(10)).join(""));
  const sums = head.slice(1).map(() => 0);
  for (const file of SOURCES) {
    const mine = results.filter(({ id }) => ids.has(id) && id.startsWith(`${file}:`));
    if (mine.length === 0) continue;
    const count = (...how: Result["how"][]) => mine.filter((one) => how.includes(one.how)).length;
    const left = mine.filter(({ by }) => by === null);
    const open = left.filter(({ id }) => explained[id] === undefined);
    const row = [
      all.filter((mutant) => mutant.file === file).length,
      mine.length,
      count("killed"),
      count("timeout"),
      left.length - open.length,
      open.length,
    ];
    for (const [i, number] of row.entries()) sums[i] = (sums[i] as number) + number;
    console.log([file, ...row].map((cell) => String(cell).padStart(10)).join(""));
  }
  console.log(["", ...sums].map((cell) => String(cell).padStart(10)).join(""));
  const killed = results.filter(({ how }) => how === "killed");
  const ms = killed.reduce((sum, one) => sum + one.ms, 0) / Math.max(1, killed.length);
  console.log(`a killed one took ${(ms / 1000).toFixed(1)} s`);
  for (const id of Object.keys(explained)) if (!ids.has(id)) console.log(`no longer there: ${id}`);
}
