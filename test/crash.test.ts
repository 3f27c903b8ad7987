// G1, G2, G5 and G6 by a sample of the crash campaign; and the simulated disk itself, held against its model by hand.

import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import { cases } from "./campaign/campaign.ts";
import { crash, onlyWorkload, shuffled } from "./campaign/crash.ts";
import { shortWorkloads } from "./campaign/workloads.ts";
import { chance, SEED, tempFolder } from "./helpers.ts";
import { PowerLoss } from "./powerloss.ts";
import {
  type Image,
  imageKey,
  makeSimLock,
  type Operation,
  SECTOR_BYTES,
  SimDisk,
  writeImage,
} from "./simdisk.ts";

const WORKLOADS = Number(process.env.CRASH_WORKLOADS ?? 8);

/** Each of these found something once. */
const FOUND_ONCE = [
  // The creation of a store and its first agent, by a process that died.
  [],
  // A batch whose header was lost, and the rest of it not: it stood behind zeros, and was not cut.
  ["lot"],
  // The process died after the seal, before its flush; the next one went on behind it.
  ["lot", "idle", "lot"],
  // It died after the rename of a new generation; the next one removed the old one first.
  ["erase", "compact"],
  // It died in the creation of a store or an agent, and the names were not on the disk; or the power went, and the token stayed.
  ["create"],
  // It died in the deletion of an agent; the next one zeroed it before its name was off the disk.
  ["delete"],
];

describe("the crash campaign", () => {
  test(`G1, G2, G5, G6: ${WORKLOADS} short workloads, the power lost at every point, leave what was acknowledged`, async () => {
    console.log(`SEED=${SEED}`);
    const short = shuffled(shortWorkloads(), chance(SEED)).slice(0, WORKLOADS);
    const workloads = onlyWorkload() ?? [...FOUND_ONCE, ...short];
    const tally = await crash(cases(workloads.length, SEED, tempFolder()), workloads);
    console.log(tally.counts);
    expect(tally.failures).toEqual([]);
    expect(tally.counts.workloads).toBe(workloads.length);
    expect(tally.counts["crash states"]).toBeGreaterThan(5 * workloads.length);
  });
});

/** Every state in which the power may leave a disk after some work, each by what it says of a path. */
function statesAfter(work: (disk: SimDisk) => void, { settled = 0 } = {}): Image[] {
  const disk = new SimDisk();
  work(disk);
  const power = new PowerLoss(new Map());
  for (const operation of disk.journal.slice(settled)) power.pass(operation as Operation);
  const { states, isAll } = power.states(1000, chance(1));
  expect(isAll).toBe(true);
  return [...states.values()];
}

/** What a path is in each state, without repeats. */
function seen(states: Image[], path: string): string[] {
  const found = states.map((image) => {
    const content = image.get(path);
    if (content === undefined) return "nothing";
    return content === null ? "folder" : runs(content.whole());
  });
  return [...new Set(found)].sort();
}

/** Bytes in short: "a512 0x88" is 512 times "a", then 88 zeros. */
function runs(bytes: Buffer): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    let end = at;
    while (end < bytes.length && bytes[end] === bytes[at]) end++;
    parts.push(`${bytes[at] === 0 ? "0x" : String.fromCharCode(bytes[at] as number)}${end - at}`);
    at = end;
  }
  return parts.join(" ");
}

const a = (bytes: number) => Buffer.alloc(bytes, "a");
const b = (bytes: number) => Buffer.alloc(bytes, "b");

describe("the simulated disk", () => {
  const made = (disk: SimDisk, bytes: Buffer) => {
    const file = disk.create("/f");
    file.write(bytes, 0);
    file.flush();
    disk.flushFolder("/");
    return file;
  };

  test("what is flushed stays, in one state alone", () => {
    expect(
      seen(
        statesAfter((disk) => void made(disk, a(600))),
        "/f",
      ),
    ).toEqual(["a600"]);
  });

  test("the sectors of a write are lost and kept independently, and a sector whole", () => {
    const states = statesAfter((disk) => made(disk, a(1024)).write(b(700), 100));
    expect(seen(states, "/f")).toEqual(
      ["a1024", "a100 b412 a512", "a512 b288 a224", "a100 b700 a224"].sort(),
    );
  });

  test("a sector holds any one of several writes", () => {
    const states = statesAfter((disk) => {
      const file = made(disk, a(10));
      file.write(b(4), 0);
      file.write(b(4), 6);
    });
    expect(seen(states, "/f")).toEqual(["a10", "b4 a6", "b4 a2 b4"].sort());
  });

  test("a file that has grown is of any size on the way, and zero where the data is lost", () => {
    const states = statesAfter((disk) => made(disk, a(512)).write(b(600), 512));
    expect(seen(states, "/f")).toEqual(
      [
        "a512",
        // To the first sector of the write, and whole.
        "a512 b512",
        "a512 0x512",
        "a512 b600",
        "a512 0x512 b88",
        "a512 b512 0x88",
        "a512 0x600",
      ].sort(),
    );
  });

  test("a cut is lost or kept, and independent of the zeros that it makes", () => {
    const states = statesAfter((disk) => made(disk, a(600)).truncate(100));
    // Size cut or not; the first sector's rest zero or not; the second sector's too.
    expect(seen(states, "/f")).toEqual(
      ["a600", "a100 0x500", "a100 0x412 a88", "a512 0x88", "a100"].sort(),
    );
  });

  test("a flush of a file makes no name durable, and one of its folder no data", () => {
    const unnamed = statesAfter((disk) => {
      const file = disk.create("/f");
      file.write(a(10), 0);
      file.flush();
    });
    expect(seen(unnamed, "/f")).toEqual(["a10", "nothing"]);
    const unflushed = statesAfter((disk) => {
      disk.create("/f").write(a(10), 0);
      disk.flushFolder("/");
    });
    expect(seen(unflushed, "/f")).toEqual(["", "0x10", "a10"]);
  });

  test("a rename over a file leaves the old one or the new one, and what is done to other names is independent", () => {
    const states = statesAfter((disk) => {
      made(disk, a(1));
      const file = disk.create("/g");
      file.write(b(1), 0);
      file.flush();
      disk.flushFolder("/");
      disk.rename("/g", "/f");
      disk.makeFolder("/h");
    });
    const all = states.map((image) => ["/f", "/g", "/h"].map((path) => seen([image], path)[0]));
    expect(all.map((row) => row.join()).sort()).toEqual(
      ["a1,b1,nothing", "a1,b1,folder", "b1,nothing,nothing", "b1,nothing,folder"].sort(),
    );
  });

  test("a rename across folders leaves one name or both, and never none", () => {
    const states = statesAfter((disk) => {
      made(disk, a(1));
      disk.makeFolder("/d");
      disk.flushFolder("/");
      disk.rename("/f", "/d/f");
    });
    const all = states.map((image) => ["/f", "/d/f"].map((path) => seen([image], path)[0]));
    expect(all.map((row) => row.join()).sort()).toEqual(["a1,a1", "a1,nothing", "nothing,a1"]);
  });

  test("when a process dies and the power stays, what was not flushed is there, and still not flushed", () => {
    const disk = new SimDisk();
    made(disk, a(4)).write(b(4), 0);
    const next = SimDisk.afterKill(new Map(), disk.journal);
    expect(imageKey(next.image())).toBe(imageKey(disk.image()));
    const power = new PowerLoss(new Map());
    for (const operation of next.journal) power.pass(operation);
    const left = () => seen([...power.states(10, chance(1)).states.values()], "/f");
    expect(left()).toEqual(["a4", "b4"]);
    next.open("/f", "write").flush();
    power.pass(next.journal.at(-1) as Operation);
    expect(left()).toEqual(["b4"]);
  });

  test("a store on it is one on a real disk, byte for byte", async () => {
    const disk = SimDisk.fromImage(new Map());
    const store = await Store.open("/s", { disk, makeLock: makeSimLock });
    const { token } = await store.createAgent("alice");
    const alice = await store.openAgent(token);
    await alice.addLot("page", "x".repeat(SECTOR_BYTES));
    await alice.close();
    const folder = join(tempFolder(), "disk");
    mkdirSync(folder);
    writeImage(disk.image(), folder);
    expect(readdirSync(join(folder, "s")).sort()).toEqual(["agents", "locks", "store", "tokens"]);
    expect(readFileSync(join(folder, "s", "store")).length).toBe(128);
    const real = await Store.open(join(folder, "s"), { readOnly: true });
    const reader = await real.openAgent(token);
    expect(await reader.text(1)).toBe("x".repeat(SECTOR_BYTES));
    await reader.close();
    expect((await real.verify()).ok).toBe(true);
  });
});
