// Runs tests of the engine one by one in a plain process, until one fails: the tests that a mutant is tried with.
//
//   node test/mutation/drive.ts ORDER     a JSON file of the tests' names, in order; exits with 1 at the first that fails
//   node test/mutation/drive.ts --learn   all tests, and which mutants each of them comes to, as JSON in the file LEARNT

import { readFileSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import type { Mutant } from "./mutate.ts";

const PLAIN = new URL("./plain.ts", import.meta.url).href;
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "vitest" ? { url: PLAIN, shortCircuit: true } : next(specifier, context),
});

const { atEnd, beginFile, registered } = await import("./plain.ts");

export const FILES = [
  "mutation/samples",
  "codec.test",
  "apply.test",
  "segment.test",
  "headmark.test",
  "log.test",
  "state.test",
  "core.test",
  "inspect.test",
  "snapshot.test",
  "records.test",
  "verify.test",
  "graph.test",
  "chain.test",
  "batch.test",
  "crc.test",
  "seen.test",
  "arrays.test",
  "recall.test",
  "rules.test",
  "erase.test",
  "agent.test",
  "format.test",
  "transfer.test",
  "find.test",
  "options.test",
  "histories.test",
  "damage.test",
  "long.test",
  "calls.test",
];
/** What each test comes to, as the mutants of the sources are numbered. */
export interface Learnt {
  tests: { name: string; ms: number; reaches: number[] }[];
}

const loaded = new Set<string>();

async function load(file: string) {
  if (loaded.has(file)) return;
  loaded.add(file);
  beginFile(file);
  await import(`../${file}.ts`);
}

// Between the tests stands one line each on the standard error; what they print themselves is of no interest.
console.log = () => {};
process.on("unhandledRejection", (error) => fail("unhandled", error));

function fail(name: string, error: unknown): never {
  process.stderr.write(`FAILED ${name}\n${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

const [order = ""] = process.argv.slice(2);
if (order === "--learn") await learn(process.env.LEARNT as string);
else await runAll(JSON.parse(readFileSync(order, "utf8")) as string[]);
for (const end of atEnd) await end();
process.exit(0);

async function runAll(names: string[]) {
  for (const name of names) {
    try {
      await load(name.slice(0, name.indexOf(" ›")));
    } catch (error) {
      fail("loading", error);
    }
    const test = registered.find((one) => one.name === name);
    if (!test) continue;
    process.stderr.write(`> ${name}\n`);
    try {
      await test.run();
    } catch (error) {
      fail(name, error);
    }
  }
}

interface Range {
  startOffset: number;
  endOffset: number;
  count: number;
}

interface Script {
  url: string;
  functions: { ranges: Range[] }[];
}

async function learn(into: string) {
  const { mutantsOf } = await import("./mutate.ts");
  const session = new Session();
  session.connect();
  const post = (method: string, params: object = {}) => {
    let answer: unknown;
    session.post(method, params, (error: Error | null, result?: object) => {
      if (error) throw error;
      answer = result;
    });
    return answer;
  };
  post("Profiler.enable");
  post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  const taken = () =>
    (post("Profiler.takePreciseCoverage") as { result: Script[] }).result.filter(({ url }) =>
      /\/src\/[a-z]+\.ts$/.test(url),
    );
  const sources = JSON.parse(process.env.SOURCES as string) as string[];
  const mutants = sources.flatMap((file) =>
    mutantsOf(file, readFileSync(new URL(`../../src/${file}.ts`, import.meta.url), "utf8")),
  );
  for (const file of FILES) await load(file);
  const atLoad = reached(taken(), mutants);
  const learnt: Learnt = { tests: [] };
  for (const { name, run } of registered) {
    const begun = performance.now();
    process.stderr.write(`> ${name}\n`);
    try {
      await run();
    } catch (error) {
      process.stderr.write(
        `LEFT OUT, since it fails as it is: ${name}\n${(error as Error).message}\n`,
      );
      taken();
      continue;
    }
    const ms = Math.ceil(performance.now() - begun);
    const reaches = reached(taken(), mutants);
    learnt.tests.push({ name, ms, reaches: [...new Set([...atLoad, ...reaches])] });
  }
  writeFileSync(into, JSON.stringify(learnt));
}

/** The numbers of the mutants in what was executed. */
function reached(scripts: Script[], mutants: Mutant[]): number[] {
  const found: number[] = [];
  for (const { url, functions } of scripts) {
    const path = fileURLToPath(url);
    const file = path.slice(path.lastIndexOf("/") + 1, -3);
    const mine = [...mutants.entries()].filter(([, mutant]) => mutant.file === file);
    const ranges = functions.flatMap((one) => one.ranges);
    // What is innermost says it: the later of those that begin no later.
    ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
    for (const [number, { from }] of mine) {
      let count = 0;
      for (const range of ranges) {
        if (range.startOffset > from) break;
        if (range.endOffset > from) count = range.count;
      }
      if (count > 0) found.push(number);
    }
  }
  return found;
}
