// G1, G2, G9: any call to the disk may fail, at any time. A seeded sample of the campaign, and what it has found so far.

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { realDisk } from "../src/disk.ts";
import { Store } from "../src/index.ts";
import { makeKernelLock } from "../src/lock.ts";
import { calls } from "./campaign/calls.ts";
import { cases } from "./campaign/campaign.ts";
import { FaultDisk, type Injection } from "./faultdisk.ts";
import { allBytes, codeOf, SEED, tempAgent, tempFolder } from "./helpers.ts";

const CASES = Number(process.env.CALLS ?? 700);

test(`G9: ${CASES} calls that fail, once or for ever: nothing acknowledged is lost, nothing half is left, nobody is told wrong`, async () => {
  const { counts, failures } = await calls(cases(CASES, SEED, tempFolder()));
  console.log(`SEED=${SEED} ${JSON.stringify(counts)}`);
  expect(failures).toEqual([]);
  // The full disks come first: one case each, and two erases.
  const { "injected failures": injected = 0, "erases on a full disk": erases = 0 } = counts;
  expect(injected).toBeGreaterThanOrEqual((CASES - erases / 2) / 2);
  expect(injected).toBeGreaterThan(0);
});

const once = (call: Injection["call"], nth = 1): Injection => ({
  call,
  nth,
  fault: "EIO",
  forever: false,
});

async function tempFaults(options = {}) {
  const faults = new FaultDisk();
  const { disk, makeLock } = faults;
  return { faults, ...(await tempAgent({ disk, makeLock, waitMs: 100, ...options })) };
}

describe("G9: a compaction", () => {
  test.each(["rename", "flushFolder", "removeFile", "removeFolder"] as const)(
    "whose %s fails when it changes over to the new files shuts the handle: no write goes to the old ones",
    async (call) => {
      const { faults, store, agent, token } = await tempFaults();
      await agent.addLot("x", "doomed");
      await agent.addLot("x", "stays");
      await agent.recall([1], { disposal: "erase" });
      // The first flush of a folder is that of the new one.
      faults.arm(once(call, call === "flushFolder" ? 2 : 1));
      expect(await codeOf(() => agent.compact())).toBe("DISK");
      expect(faults.hits.length).toBe(1);
      expect(await codeOf(() => agent.addLot("x", "to nowhere"))).toBe("CLOSED");
      const again = await store.openAgent(token);
      expect(await again.addLot("x", "is kept")).toBe(3);
      await again.close();
      const healthy = await (await Store.open(store.path)).openAgent(token);
      expect([await healthy.text(2), await healthy.text(3)]).toEqual(["stays", "is kept"]);
      await healthy.close();
    },
  );

  test("that cannot take its copy away again shuts the handle: a later erase would not know of it", async () => {
    const { faults, store, agent, token } = await tempFaults();
    await agent.addLot("x", "doomed");
    await agent.addLot("x", "Quendoline Birchwhistle");
    await agent.recall([1], { disposal: "erase" });
    // The copy is written and cannot be flushed; and then not removed.
    faults.arm(once("flush", 2), once("removeFile"));
    expect(await codeOf(() => agent.compact())).toBe("DISK");
    expect(faults.hits.map(({ call }) => call)).toEqual(["flush", "removeFile"]);
    const copies = allBytes(store.path).toString("latin1").split("Quendoline").length - 1;
    expect(copies).toBe(2);
    expect(await codeOf(() => agent.recall([2], { disposal: "erase" }))).toBe("CLOSED");
    const again = await store.openAgent(token);
    await again.recall([2], { disposal: "erase" });
    expect(allBytes(store.path).includes("Quendoline")).toBe(false);
    await again.close();
  });
});

describe("G9: a flush that fails", () => {
  test("when the reserve is restored behind an erase shuts the handle: the erase is done all the same", async () => {
    const { faults, store, agent, token } = await tempFaults();
    await agent.addLot("x", "doomed");
    // There is no space to grow at first, so that the reserve is used; then the recall, its head mark, the zeros, the reserve.
    faults.arm(once("write", 1), once("write", 2), once("flush", 4));
    expect(await codeOf(() => agent.recall([1], { disposal: "erase" }))).toBe("DISK");
    expect(faults.hits.map(({ call, path }) => [call, path.includes("/log/")])).toEqual([
      ["write", true],
      ["write", true],
      ["flush", true],
    ]);
    expect(await codeOf(() => agent.addLot("x", "after"))).toBe("CLOSED");
    expect(allBytes(store.path).includes("doomed")).toBe(false);
    const again = await store.openAgent(token);
    expect(await again.text(1)).toBe(null);
    await again.close();
  });
});

describe("G8: a lock", () => {
  test.each([2, 3])("that was taken and cannot be looked at (look %i) is let go", (nth) => {
    const path = join(tempFolder(), "some.lock");
    const faults = new FaultDisk();
    const lock = faults.makeLock(faults.disk, path);
    faults.arm(once("stat", nth));
    expect(() => lock.tryTake()).toThrow("I/O error");
    expect(lock.isHeld).toBe(false);
    const other = makeKernelLock(realDisk, path);
    expect(other.tryTake()).toBe(true);
    expect(lock.tryTake()).toBe(false);
    other.close();
    expect(lock.tryTake()).toBe(true);
    lock.close();
    expect(faults.openLocks).toBe(0);
  });

  test("is let go at a close, though the files will not close cleanly", async () => {
    const { faults, store, agent, token } = await tempFaults({ segmentBytes: 300 });
    for (const text of ["one", "two", "three"]) await agent.addLot("x", text);
    faults.arm({ ...once("close"), forever: true });
    await agent.close();
    expect(faults.hits.length).toBeGreaterThan(2);
    expect([faults.openFiles, faults.openLocks]).toEqual([0, 0]);
    const other = await (await Store.open(store.path, { waitMs: 0 })).openAgent(token);
    expect(await other.addLot("x", "four")).toBe(4);
    await other.close();
  });

  test("that is held by another process leaves nothing open where a deletion does not get it", async () => {
    const { faults, store, agent } = await tempFaults();
    const holder = makeKernelLock(realDisk, join(store.path, "locks", `${agent.id}.lock`));
    expect(holder.tryTake()).toBe(true);
    await agent.close();
    expect(await codeOf(() => store.deleteAgent("alice"))).toBe("LOCKED");
    expect(faults.openLocks).toBe(0);
    holder.close();
    expect(await codeOf(() => store.deleteAgent("alice"))).toBe(null);
  });
});

describe("a segment that is begun and cannot be finished", () => {
  test.each([
    ["write", 1],
    ["write", 2],
    ["flush", 1],
    ["flush", 2],
    ["flushFolder", 1],
  ] as const)("(%s %i) leaves no file open", async (call, nth) => {
    const { faults, agent } = await tempFaults({ segmentBytes: 200 });
    await agent.addLot("x", "the one that fills it");
    const before = faults.openFiles;
    faults.arm(once(call, nth));
    await codeOf(() => agent.addLot("x", "the one after"));
    expect(faults.hits.length).toBeGreaterThan(0);
    expect(faults.openFiles).toBeLessThanOrEqual(before);
    await agent.close();
    expect(faults.openFiles).toBe(0);
  });

  test("leaves no file open when a later opening looks at it", async () => {
    const { faults, store, agent, token } = await tempFaults({ segmentBytes: 200 });
    await agent.addLot("x", "the one that fills it");
    faults.arm({ ...once("write", 2), forever: true });
    expect(await codeOf(() => agent.addLot("x", "the one after"))).toBe("DISK");
    faults.disarm();
    await agent.close();
    const { disk } = faults;
    const reader = await Store.open(store.path, { readOnly: true, disk });
    let refused = 0;
    for (let nth = 1; nth < 100; nth++) {
      faults.arm(once("look", nth));
      if ((await codeOf(async () => (await reader.openAgent(token)).close())) === "DISK") refused++;
      expect(faults.openFiles, `look ${nth}`).toBe(0);
      if (faults.hits.length === 0) break;
    }
    expect(refused).toBeGreaterThan(3);
  });
});

describe("an agent whose file the disk does not give just now", () => {
  test("is not said to be missing, and no second one gets its name", async () => {
    const { faults, store } = await tempFaults();
    const calls: [string, () => Promise<unknown>][] = [
      ["createAgent", () => store.createAgent("alice")],
      ["verifyAgent", () => store.verifyAgent("alice")],
      ["deleteAgent", () => store.deleteAgent("alice")],
      ["find", () => store.find("x", { agent: "alice" })],
    ];
    for (const [name, call] of calls) {
      faults.arm({ ...once("open"), fault: "EMFILE", forever: true });
      expect(await codeOf(call), name).toBe("DISK");
    }
    faults.disarm();
    expect(await codeOf(() => store.createAgent("alice"))).toBe("NAME_TAKEN");
    expect(store.agentNames()).toEqual(["alice"]);
  });
});
