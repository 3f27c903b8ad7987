// G5 and G6: a canary goes through every feature and is erased, cut short at every step; no byte of the store holds it then
// in any form. What an export wrote is the user's own file, outside the store, and keeps what it was given.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import { cases } from "./campaign/campaign.ts";
import {
  bytesIn,
  CANARIES,
  campaign,
  cutEverywhere,
  DyingDisk,
  found,
  storeBefore,
} from "./campaign/erasure.ts";
import { FOLDER, fixed } from "./campaign/kitchen.ts";
import { formsIn, formsInItself, formsOf } from "./canary.ts";
import { chance } from "./chance.ts";
import { cli, result } from "./cli-helpers.ts";
import { allBytes, SEED, tempFolder } from "./helpers.ts";
import { openSession } from "./mcp-helpers.ts";
import { MemoryDisk } from "./memorydisk.ts";

beforeAll(() => console.log(`SEED=${SEED}`));

describe("the search", () => {
  test("finds every form of every canary where one is planted, wherever it stands, and none where none is", () => {
    for (const text of Object.values(CANARIES)) {
      for (const [name, form] of Object.entries(formsOf(text))) {
        for (const around of [1, 2, 3, 1000]) {
          const image = new Map([
            ["/a", null],
            ["/a/b", Buffer.concat([Buffer.alloc(around, 1), form, Buffer.alloc(around)])],
          ]);
          const said = found(image).map((one) => one.replace(/ of the \w+$/, ""));
          expect(said).toContain(name);
        }
      }
      expect(formsIn(Buffer.alloc(5000, 1), text)).toEqual([]);
    }
  });

  test("finds what is encoded with something around it, in each of the places that base64 knows", () => {
    for (const text of Object.values(CANARIES)) {
      for (const shift of [0, 1, 2]) {
        const around = Buffer.from(`${"#".repeat(3 + shift)}${text}####`);
        expect(formsIn(Buffer.from(around.toString("base64")), text)).toContain(`base64 +${shift}`);
        expect(formsIn(Buffer.from(around.toString("base64url")), text)).toContain(
          `base64url +${shift}`,
        );
      }
    }
  });
});

describe("an erase that is cut short", () => {
  const FEATURES = ["list", "plan", "corroborate", "export", "roll", "session"];

  for (const [what, left, killedAt] of [
    ["at every step", "nothing", 0],
    ["at every step, after a write that was torn", "a torn write", 3],
    ["at every step, after a compaction that was killed", "a compaction", 4],
    ["at every step, after another erase that was killed", "an erase", 3],
  ] as const) {
    test(what, async () => {
      const told: Record<string, number> = {};
      const faults: string[] = [];
      await cutEverywhere(chance(SEED), FEATURES, left, killedAt, (name, fault, repeat) => {
        told[name] = (told[name] ?? 0) + 1;
        if (fault !== null) faults.push(`${fault}: ${repeat}`);
        return true;
      });
      expect(faults).toEqual([]);
      expect(told.erasures).toBe(1);
      const cut =
        (told["erasures cut short"] ?? 0) + (told["erasures cut short in a recovery"] ?? 0);
      expect(cut).toBeGreaterThan(10);
    });
  }

  test("what a process leaves that is killed holds the canary, or the cutting would prove nothing", async () => {
    for (const [left, killedAt, copies] of [
      ["nothing", 0, 1],
      ["a torn write", 3, 2],
      ["a compaction", 4, 2],
    ] as const) {
      const { image } = await storeBefore(SEED, [], left, killedAt);
      const bytes = bytesIn(image);
      let count = 0;
      for (
        let at = bytes.indexOf("Quendoline");
        at !== -1;
        at = bytes.indexOf("Quendoline", at + 1)
      )
        count++;
      expect({ left, count }).toEqual({ left, count: copies });
    }
  });

  test("after a random history", async () => {
    const { counts, failures } = await campaign(cases(150, SEED, tempFolder()));
    console.log(counts);
    expect(failures).toEqual([]);
  });

  test("would be noticed if its zeroing were left out", async () => {
    const { image, token, lots } = await storeBefore(SEED, [], "nothing", 0);
    const dying = new DyingDisk(MemoryDisk.of(image));
    const { disk } = dying;
    // Zeros are swallowed where something stands: the file keeps what it had.
    const forgetful = {
      ...disk,
      open(path: string, access: "read" | "write") {
        const file = disk.open(path, access);
        return {
          ...file,
          write(bytes: Uint8Array, at: number) {
            const isZeroing = path.endsWith(".seg") && bytes.every((byte) => byte === 0);
            if (!isZeroing || at + bytes.length > file.stat().size) file.write(bytes, at);
          },
        };
      },
    };
    const store = await Store.open(FOLDER, {
      ...fixed(dying.memory, 2),
      disk: forgetful,
      segmentBytes: 2 ** 20,
    });
    const agent = await store.openAgent(token);
    await agent.recall(lots, { mode: "strict", disposal: "erase" });
    await agent.close();
    expect(found(dying.memory.image())).toContain("utf8 of the lot");
  });
});

test("through the command line, MCP, a model and another agent, then erased: no byte of the store or the home holds it", async () => {
  const home = tempFolder();
  const store = join(home, "store");
  const outside = tempFolder();
  const options = { store, env: { HOME: home, TMPDIR: home } };
  const run = (args: string[], stdin?: string) =>
    cli(args, { ...options, ...(stdin !== undefined && { stdin }) });
  for (const name of ["alice", "bob"]) await run(["agent", "create", name]);

  // On its way in: as a pipe, as an argument, by a model, over MCP.
  await run(["lot", "alice", "web_page", "-", "--uri", CANARIES.uri], CANARIES.lot);
  await run(["remember", "alice", CANARIES.memory, "--from", "1"]);
  await run(["learn", "alice", "1", "--yes"]);
  const session = await openSession(store, { agent: "alice", env: options.env });
  const added = await session.call("add_source", {
    label: "web_page",
    text: CANARIES.lot,
    uri: CANARIES.uri,
  });
  await session.call("remember", { text: CANARIES.memory, from: [[added.id]] });
  await session.call("list_memories", { query: CANARIES.memory });
  await session.call("explain_memory", { id: added.id + 1 });
  const preview = { ids: [added.id], mode: "strict", erase: true };
  const { plan } = await session.call("recall_bad_source", preview);

  // And out again: every command that tells it, the questions and refusals that repeat it.
  const file = join(outside, "export.jsonl");
  const told = await Promise.all([
    run(["list", "alice", "--all"]),
    run(["why", "alice", "2"]),
    run(["ask", "alice", CANARIES.memory, "--yes"]),
    run(["find", CANARIES.lot]),
    run(["lot", "alice", "web_page", CANARIES.lot, "--no-such-flag"]),
    run(["export", "alice", "--out", file, "--dead-texts"]),
  ]);
  const said = told.map(({ stdout, stderr }) => stdout + stderr).join("");
  for (const text of Object.values(CANARIES)) expect(said).toContain(text.slice(0, 30));
  await run(["import", "bob", file]);
  // Something to give back, so that a compaction copies the living canary.
  const { id } = await result(["lot", "alice", "user_message", "to be dropped"], { store });
  await run(["recall", "alice", String(id)]);
  await run(["compact", "alice"]);

  // The control.
  const held = allBytes(home);
  for (const text of Object.values(CANARIES))
    expect(formsIn(held, text)).toEqual(expect.arrayContaining(formsInItself(text)));

  // Erased: over MCP what came over MCP, and the rest of both agents by command.
  await session.call("recall_bad_source", { ...preview, plan });
  await session.close();
  await run(["recall", "alice", "1", "--strict", "--erase"]);
  const { lots } = await result(["list", "bob"], { store });
  const ids = lots.map((lot: { id: number }) => String(lot.id));
  await run(["recall", "bob", ...ids, "--strict", "--erase"]);

  const left = allBytes(home);
  for (const text of Object.values(CANARIES)) {
    const forms = formsIn(left, text).filter((form) => !form.startsWith("crc32,"));
    expect({ text, forms }).toEqual({ text, forms: [] });
  }
  expect((await result(["find", "Birchwhistle", "--absent"], { store })).count).toBe(0);
  // What was exported is the user's own.
  expect(readFileSync(file, "utf8")).toContain("Quendoline");
});
