// G1, G2, G5, G6, G8: real processes killed at random moments, and at system calls of real commands. A seeded sample of the campaign.

import { expect, test } from "vitest";
import { type Disk, realDisk } from "../src/disk.ts";
import { Store } from "../src/index.ts";
import { cases } from "./campaign/campaign.ts";
import { HAS_STRACE, kills } from "./campaign/kills.ts";
import { collect, SEED, tempAgent, tempFolder } from "./helpers.ts";
import { runChildNow } from "./spawn.ts";

const KILLS = Number(process.env.KILLS ?? 28);

test(`${KILLS} kills of processes that share a store lose nothing acknowledged, leave nothing half, and bring nothing erased back`, async () => {
  if (!HAS_STRACE) console.log("no `strace` here: kills at system calls are left out");
  const { counts, failures } = await kills(cases(KILLS, SEED, tempFolder()));
  console.log(`SEED=${SEED} ${JSON.stringify(counts)}`);
  expect(failures).toEqual([]);
  expect(counts["kills at a random moment"]).toBeGreaterThan(0);
  if (HAS_STRACE) expect(counts["kills at a system call"]).toBeGreaterThan(0);
});

test("an opening under which another process compacts begins anew, and finds neither damage nor a missing file", async () => {
  const options = { segmentBytes: 200 };
  const { store, agent, token } = await tempAgent(options);
  for (const text of ["one", "two", "three"]) await agent.addLot("x", text);
  await agent.recall([1], { disposal: "erase" });
  await agent.close();
  /** Compacts, in another process, before the second segment is opened for the first time. */
  const compacting = () => {
    let times = 0;
    const disk: Disk = {
      ...realDisk,
      open(path, access) {
        if (path.endsWith("00000002.seg") && times++ === 0)
          expect(runChildNow("compact", { store: store.path, token, options }).at(-1)).toBe(
            "closed",
          );
        return realDisk.open(path, access);
      },
    };
    return { disk, times: () => times };
  };
  const first = compacting();
  const reader = await (await Store.open(store.path, { disk: first.disk })).openAgent(token);
  expect((await collect(reader.entries())).map(({ text }) => text)).toEqual([null, "two", "three"]);
  expect(first.times()).toBeGreaterThan(1);
  // What a compaction has to do: space to give back.
  await reader.recall([2], { disposal: "erase" });
  await reader.close();
  const second = compacting();
  const listed = await (await Store.open(store.path, { disk: second.disk })).agents();
  expect(listed).toMatchObject([{ name: "alice", lots: 3, alive: 1 }]);
  expect(listed[0]).not.toHaveProperty("damaged");
  expect(second.times()).toBeGreaterThan(1);
});
