// Short pieces of the campaigns and of the random histories, as tests that take a fraction of a second each: what a mutant
// of the engine is tried with first.

import { test } from "vitest";
import { calls } from "../campaign/calls.ts";
import { cases, type Tally } from "../campaign/campaign.ts";
import { crash } from "../campaign/crash.ts";
import { damage } from "../campaign/damage.ts";
import { checkInput, inputOf } from "../campaign/fuzz.ts";
import { decoders } from "../campaign/fuzz-bytes.ts";
import { tempFolder } from "../helpers.ts";

function requireClean({ failures }: Tally) {
  const [first] = failures;
  if (first) throw new Error(first.what);
}

/** The power lost at every point of each; all operations are in them. */
const WORKLOADS = [
  "lot",
  "remember",
  "erase",
  "erase,compact",
  "lot,idle,lot",
  "create",
  "delete",
  "corroborate,fair",
  "bigLot,erase",
  "many,import",
  "compact,lot",
  "reopen,erase",
  "seen,contact,eraseMemory,together",
  "contact,erase,reopen,compact,lot",
];
for (const workload of WORKLOADS) {
  test(`crash: ${workload}`, async () => {
    requireClean(await crash(cases(1, 1, tempFolder()), [workload.split(",")], { failuresMax: 1 }));
  });
}

for (const seed of [1, 2]) {
  // The full disks come first, and are about forty.
  test(`calls that fail, ${seed}`, async () => {
    requireClean(await calls(cases(60, seed, tempFolder())));
  });
  test(`damage, ${seed}`, async () => {
    requireClean(await damage(cases(50, seed, tempFolder())));
  });
}

for (const target of decoders) {
  test(`fuzz: ${target.name}`, async () => {
    for (let i = 0; i < 300; i++) await checkInput(target, inputOf(target, 1, i));
  });
}
