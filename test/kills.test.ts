// G1, G2, G5, G6, G8: real processes killed at random moments, and at system calls of real commands. A seeded sample of the campaign.

import { expect, test } from "vitest";
import { cases } from "./campaign/campaign.ts";
import { HAS_STRACE, kills } from "./campaign/kills.ts";
import { SEED, tempFolder } from "./helpers.ts";

const KILLS = Number(process.env.KILLS ?? 28);

test(`${KILLS} kills of processes that share a store lose nothing acknowledged, leave nothing half, and bring nothing erased back`, async () => {
  if (!HAS_STRACE) console.log("no `strace` here: kills at system calls are left out");
  const { counts, failures } = await kills(cases(KILLS, SEED, tempFolder()));
  console.log(`SEED=${SEED} ${JSON.stringify(counts)}`);
  expect(failures).toEqual([]);
  expect(counts["kills at a random moment"]).toBeGreaterThan(0);
  if (HAS_STRACE) expect(counts["kills at a system call"]).toBeGreaterThan(0);
});
