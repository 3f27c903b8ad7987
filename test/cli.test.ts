// The command line against its contract: the shape of every --json, every exit number, what is written and what is not.
//
// Not reachable from here: UNEXPECTED (what nobody foresaw), READ_ONLY and CLOSED (a program's handles), and
// RECALLED_CONTEXT (no command that is tried here records what was seen).

import {
  closeSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { Renderer } from "../src/cli/render.ts";
import { Style } from "../src/cli/style.ts";
import { realDisk } from "../src/disk.ts";
import { type EntryWithText, Store } from "../src/index.ts";
import { Lock } from "../src/lock.ts";
import {
  addAgent,
  asAgent,
  bytesOf,
  cli,
  each,
  emptyStore,
  HAS_TERMINAL,
  onTerminal,
  puneStore,
  refusal,
  refused,
  result,
  startCli,
  TWO_SENTENCES,
} from "./cli-helpers.ts";
import { tempFolder } from "./helpers.ts";

const ISO = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const AGENT_ID = expect.stringMatching(/^[0-9a-f]{32}$/);
const TOKEN = expect.stringMatching(/^cheese_[A-Za-z0-9_-]{64}$/);
const HASH = expect.stringMatching(/^[0-9a-f]{64}$/);
const COUNT = expect.any(Number);

/** Overwrites one byte of a file. */
function poke(path: string, offset: number, byte: number) {
  const fd = openSync(path, "r+");
  writeSync(fd, Uint8Array.of(byte), 0, 1, offset);
  closeSync(fd);
}

/** Makes a file say that it was written by a newer version, with a checksum that holds. */
function makeNewer(path: string) {
  const bytes = readFileSync(path);
  bytes.writeUInt16LE(999, 8);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 124)), 124);
  writeFileSync(path, bytes);
}

const segmentOf = (store: string, id: string) =>
  join(store, "agents", id, "log", "1", "00000001.seg");

/** Holds an agent's lock until the test ends or the result is called; the commands are other processes than this one. */
function holdLock(store: string, name: string): () => void {
  const lock = new Lock(realDisk, join(store, "locks", `${name}.lock`));
  expect(lock.tryTake()).toBe(true);
  onTestFinished(() => lock.close());
  return () => lock.close();
}

describe("JSON", () => {
  test("agent create gives the agent and its token, agent list what each holds, agent delete what went", async () => {
    const store = join(tempFolder(), "store");
    expect(await result(["agent", "create", "alice"], { store })).toEqual({
      agent: { name: "alice", id: AGENT_ID, created: ISO },
      token: TOKEN,
    });
    await asAgent(store, "alice", (alice) => alice.addLot("user_message", "hello"));
    expect(await result(["agent", "list"], { store })).toEqual({
      agents: [
        { name: "alice", id: AGENT_ID, created: ISO, lots: 1, memories: 0, alive: 1, bytes: COUNT },
      ],
    });
    expect(await result(["agent", "delete", "alice", "--yes"], { store })).toEqual({
      deleted: "alice",
      bytes: COUNT,
    });
    expect(await result(["agent", "list"], { store })).toEqual({ agents: [] });
  });

  test("lot, remember and corroborate give numbers from 1 on, and the legs", async () => {
    const { store } = await emptyStore();
    const run = (...args: string[]) => result(args, { store });
    expect(await run("lot", "alice", "user_message", "a")).toEqual({
      id: 1,
      label: "user_message",
    });
    expect(await run("lot", "alice", "web_page", "b", "--uri", "https://example.com")).toEqual({
      id: 2,
      label: "web_page",
    });
    await run("lot", "alice", "web_page", "c");
    const remembered = await run("remember", "alice", "m", "--from", "1", "--from", "3,2");
    expect(remembered).toEqual({ id: 4, legs: [[1], [2, 3]] });
    expect(await run("corroborate", "alice", "4", "--from", "3")).toEqual({
      id: 4,
      legs: [[1], [2, 3], [3]],
    });
  });

  test("list gives lots and memories, of the dead only with --all", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const [alive, all, lots, memories] = await Promise.all([
      result(["list", "alice"], { store }),
      result(["list", "alice", "--all"], { store }),
      result(["list", "alice", "--lots"], { store }),
      result(["list", "alice", "--memories", "--all"], { store }),
    ]);
    expect(alive).toMatchObject({
      lots: [
        {
          id: 1,
          label: "user_message",
          text: "I live in Pune",
          uri: null,
          time: "2026-01-01T00:00:01.000Z",
          state: "alive",
        },
        { id: 2, label: "web_page", uri: "https://example.com/u/1" },
      ],
      memories: [
        {
          id: 4,
          text: "user lives in Pune",
          legs: [[1], [2]],
          time: "2026-01-01T00:00:04.000Z",
          state: "alive",
        },
      ],
    });
    expect(all.lots).toMatchObject([{ id: 1 }, { id: 2 }, { id: 3, state: "recalled" }]);
    expect(all.memories).toMatchObject([
      { id: 4, state: "alive" },
      { id: 5, state: "removed" },
      { id: 6, state: "removed" },
    ]);
    expect(lots).toMatchObject({ lots: [{ id: 1 }, { id: 2 }], memories: [] });
    expect(memories).toMatchObject({ lots: [], memories: [{ id: 4 }, { id: 5 }, { id: 6 }] });
  });

  test("show gives an entry whole; its text is null once erased", async () => {
    const { store } = await puneStore();
    const [lot, memory] = await Promise.all([
      result(["show", "alice", "2"], { store }),
      result(["show", "alice", "4"], { store }),
    ]);
    expect(lot).toMatchObject({
      entry: {
        id: 2,
        kind: "lot",
        text: "profile: lives in Pune",
        label: "web_page",
        uri: "https://example.com/u/1",
        state: "alive",
        erased: false,
        legs: [],
        builtOnThis: [4],
      },
    });
    expect(memory).toMatchObject({
      entry: {
        id: 4,
        kind: "memory",
        text: "user lives in Pune",
        label: null,
        state: "alive",
        erased: false,
        legs: [
          { parents: [1], holds: true },
          { parents: [2], holds: true },
        ],
        builtOnThis: [6],
      },
    });
    await asAgent(store, "alice", (alice) => alice.recall([2], { disposal: "erase" }));
    const [erased, survivor] = await Promise.all([
      result(["show", "alice", "2"], { store }),
      result(["show", "alice", "4"], { store }),
    ]);
    expect(erased).toMatchObject({
      entry: { label: "web_page", text: null, uri: null, state: "recalled", erased: true },
    });
    expect(survivor.entry.legs).toEqual([
      { parents: [1], holds: true },
      { parents: [2], holds: false },
    ]);
  });

  test("why gives the support breadth first, each entry once; for the dead, what killed it and by which path", async () => {
    const { store } = await puneStore();
    const [whole, shallow] = await Promise.all([
      result(["why", "alice", "6"], { store }),
      result(["why", "alice", "6", "--depth", "1"], { store }),
    ]);
    expect(whole).toMatchObject({ entry: { id: 6, legs: [{ parents: [4, 5], holds: true }] } });
    expect(whole.support).toEqual([
      {
        id: 4,
        kind: "memory",
        label: null,
        text: "user lives in Pune",
        state: "alive",
        legs: [
          { parents: [1], holds: true },
          { parents: [2], holds: true },
        ],
      },
      {
        id: 5,
        kind: "memory",
        label: null,
        text: "Pune is rainy",
        state: "alive",
        legs: [{ parents: [3], holds: true }],
      },
      {
        id: 1,
        kind: "lot",
        label: "user_message",
        text: "I live in Pune",
        state: "alive",
        legs: [],
      },
      {
        id: 2,
        kind: "lot",
        label: "web_page",
        text: "profile: lives in Pune",
        state: "alive",
        legs: [],
      },
      { id: 3, kind: "lot", label: "weather_tool", text: "Pune: rain", state: "alive", legs: [] },
    ]);
    expect(whole.more).toBe(0);
    expect(shallow.support.map(({ id }: { id: number }) => id)).toEqual([4, 5]);
    expect(shallow.more).toBe(3);
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    expect(await result(["why", "alice", "6"], { store })).toMatchObject({
      entry: { id: 6, state: "removed" },
      killedBy: { record: 7, targets: [3], path: [3, 5, 6] },
    });
  });

  test("history gives every record in order", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.corroborate(5, [1]));
    await asAgent(store, "alice", (alice) =>
      alice.recall([3], { mode: "strict", disposal: "erase" }),
    );
    const { records } = await result(["history", "alice"], { store });
    expect(records).toMatchObject([
      { record: 1, kind: "lot", id: 1, label: "user_message", time: "2026-01-01T00:00:01.000Z" },
      { record: 2, kind: "lot", id: 2 },
      { record: 3, kind: "lot", id: 3, text: null },
      { record: 4, kind: "memory", id: 4, legs: [[1], [2]], text: "user lives in Pune" },
      { record: 5, kind: "memory", id: 5, text: null },
      { record: 6, kind: "memory", id: 6, legs: [[4, 5]], text: null },
      { record: 7, kind: "corroborate", memory: 5, leg: [1] },
      {
        record: 8,
        kind: "recall",
        targets: [3],
        mode: "strict",
        disposal: "erase",
        removed: [5, 6],
        erased: [3, 5, 6],
      },
    ]);
  });

  test("verify gives the head, stats the counts; without an agent, those of all", async () => {
    const { store, id } = await puneStore();
    const [verified, all, stats, allStats] = await Promise.all([
      result(["verify", "alice"], { store }),
      result(["verify"], { store }),
      result(["stats", "alice"], { store }),
      result(["stats"], { store }),
    ]);
    expect(verified).toMatchObject({
      ok: true,
      agent: "alice",
      records: 6,
      segments: 1,
      bytes: COUNT,
      head: { record: 6, hash: HASH, fingerprint: expect.stringMatching(/^6-[0-9a-f]{64}$/) },
      tornBytes: 0,
    });
    expect(verified.head.fingerprint).toBe(`6-${verified.head.hash}`);
    expect(all).toEqual({ ok: true, agents: [verified] });
    expect(stats).toMatchObject({
      agent: "alice",
      id,
      records: 6,
      lots: 3,
      memories: 3,
      alive: 6,
      dead: 0,
      recalls: 0,
      legs: 4,
      depth: 2,
      bytes: COUNT,
      deadShare: 0,
    });
    expect(allStats).toEqual({ ok: true, agents: [stats] });
  });

  test("compact gives the bytes before and after, and the texts dropped", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.addLot("web_page", "x".repeat(100_000)));
    await asAgent(store, "alice", (alice) => alice.recall([3, 7]));
    const compacted = await result(["compact", "alice"], { store });
    expect(compacted).toEqual({
      before: COUNT,
      after: COUNT,
      reclaimed: COUNT,
      textsDropped: 4,
    });
    expect(compacted.reclaimed).toBe(compacted.before - compacted.after);
    expect(compacted.reclaimed).toBeGreaterThan(90_000);
  });

  test("export gives a summary, import the counts and all old and new ids", async () => {
    const { store } = await puneStore();
    await addAgent(store, "bob");
    await asAgent(store, "bob", (bob) => bob.addLot("note", "bob's own"));
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const file = join(tempFolder(), "alice.jsonl");
    const exported = await result(["export", "alice", "--out", file], { store });
    expect(exported).toEqual({ records: 7, bytes: statSync(file).size, file });
    expect(await result(["import", "bob", file], { store })).toEqual({
      lots: 3,
      memories: 3,
      recalls: 1,
      ids: [
        [1, 2],
        [2, 3],
        [3, 4],
        [4, 5],
        [5, 6],
        [6, 7],
      ],
    });
    const { memories } = await result(["list", "bob"], { store });
    expect(memories).toMatchObject([{ id: 5, text: "user lives in Pune", legs: [[2], [3]] }]);
  });

  test("doctor and completion are documents too", async () => {
    const { store } = await puneStore();
    const [doctor, completion] = await Promise.all([
      cli(["doctor", "--json"], { store }),
      result(["completion", "bash"], { store }),
    ]);
    const checks = doctor.json.checks as { name: string; ok: boolean; detail: string }[];
    // A temporary folder may lie on a disk that does not honour a flush; a model may run on this machine.
    expect(checks.filter(({ name }) => name !== "flush" && name !== "model")).toMatchObject([
      { name: "node", ok: true },
      { name: "sha-256", ok: true },
      { name: "store", ok: true },
      { name: "permissions", ok: true },
      { name: "locks", ok: true },
      { name: "agents", ok: true },
    ]);
    expect(doctor.json.ok).toBe(checks.every(({ ok }) => ok));
    expect(doctor.code).toBe(doctor.json.ok ? 0 : 1);
    expect(completion).toMatchObject({
      shell: "bash",
      script: expect.stringContaining("cheesedb complete"),
    });
  });
});

describe("recall", () => {
  const untrusted = expect.stringMatching(/^fair-untrusted-[0-9a-f]{16}$/);

  test("fair takes what no other leg holds, with the leg that broke and by whom", async () => {
    const { store } = await puneStore();
    expect(await result(["recall", "alice", "3"], { store })).toMatchObject({
      targets: [3],
      mode: "fair",
      disposal: "untrusted",
      dryRun: false,
      plan: untrusted,
      removed: [5, 6],
      survivors: [],
      erased: [],
      reasons: [
        { id: 5, leg: [3], brokenBy: 3 },
        { id: 6, leg: [4, 5], brokenBy: 5 },
      ],
    });
  });

  test("fair names what survives and by which legs; the second recall takes it", async () => {
    const { store } = await puneStore();
    expect(await result(["recall", "alice", "1"], { store })).toMatchObject({
      removed: [],
      survivors: [{ id: 4, heldBy: [[2]] }],
      reasons: [],
    });
    expect(await result(["recall", "alice", "2"], { store })).toMatchObject({
      removed: [4, 6],
      survivors: [],
    });
  });

  test("strict takes all that the target ever touched, and --erase the texts", async () => {
    const { store } = await puneStore();
    expect(await result(["recall", "alice", "1", "--strict", "--erase"], { store })).toMatchObject({
      targets: [1],
      mode: "strict",
      disposal: "erase",
      removed: [4, 6],
      erased: [1, 4, 6],
      plan: expect.stringMatching(/^strict-erase-[0-9a-f]{16}$/),
    });
    const { count } = await result(["find", "I live in Pune", "--absent"], { store });
    expect(count).toBe(0);
  });

  test("several targets are one recall, ascending and each once", async () => {
    const { store } = await puneStore();
    const outcome = await result(["recall", "alice", "3", "1", "3"], { store });
    expect(outcome).toMatchObject({
      targets: [1, 3],
      removed: [5, 6],
      survivors: [{ id: 4, heldBy: [[2]] }],
    });
  });

  test("a recall that was so before writes nothing, and says so", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const before = bytesOf(store);
    const again = await cli(["recall", "alice", "3"], { store });
    expect(again).toMatchObject({ code: 0, stderr: "" });
    expect(again.stdout).toContain("nothing to do");
    expect(bytesOf(store)).toEqual(before);
  });

  test("what to do next is said only where there is something left to do", async () => {
    const { store } = await puneStore();
    const hidden = await cli(["recall", "alice", "4"], { store });
    expect(hidden.stdout).toContain("Next: the texts are hidden, and still in the files");
    const erased = await cli(["recall", "alice", "1", "--erase"], { store });
    expect(erased.stdout).toContain("3 texts erased from the files: [1], [4], [6]");
    expect(erased.stdout).not.toContain("compact");
    // Its text went with the erase before, though it is recalled only now.
    const gone = await cli(["recall", "alice", "6"], { store });
    expect(gone.stdout).toBe(
      "Recalled [6] (fair, untrusted: texts hidden).\n  Nothing else went.\n  Its text was gone from the files before.\n",
    );
    // Space that is worth it.
    await cli(["lot", "alice", "web_page", "-"], { store, stdin: "It rains. ".repeat(2000) });
    const large = await cli(["recall", "alice", "7", "--erase"], { store });
    expect(large.stdout).toContain("cheesedb compact alice  gives their space back");
  });

  test("a plan shows what is recalled, on a line of its own, with where it came from, and escaped", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) =>
      alice.addLot("web_page", "two\nlines \u001b[31m", { uri: "https://example.com/\u0007" }),
    );
    const { stdout } = await cli(["recall", "alice", "[2]", "4", "7", "--dry-run"], { store });
    expect(stdout).toMatch(
      /^ {2}bad {3}\[2\] {2}web_page: profile: lives in Pune +https:\/\/example.com\/u\/1$/m,
    );
    expect(stdout).toMatch(/^ {8}\[4\] {2}user lives in Pune$/m);
    expect(stdout).toMatch(
      /^ {8}\[7\] {2}web_page: two⏎lines \\x1b\[31m +https:\/\/example.com\/\\x07$/m,
    );
  });

  test("find says that it minded case, where that may be why it found nothing", async () => {
    const { store } = await puneStore();
    const said = async (...args: string[]) => (await cli(["find", ...args], { store })).stdout;
    expect(await said("PUNE: RAIN", "--absent")).toContain("; -i ignores case)");
    for (const args of [["Pune: rain"], ["PUNE: RAIN", "-i"], ["99"]])
      expect([args, await said(...args)]).toEqual([args, expect.not.stringContaining("-i")]);
    await cli(["recall", "alice", "3", "--erase"], { store });
    expect(await said("Pune: rain", "--absent")).toContain(
      "stands nowhere in the store, and the place of every erased text is all zero.",
    );
  });

  test("an id may be written as it is shown, and in no other way", async () => {
    const { store } = await puneStore();
    expect(await result(["show", "alice", "[4]"], { store })).toMatchObject({ entry: { id: 4 } });
    const leg = ["remember", "alice", "x", "--from", "[1],[2]"];
    expect(await result(leg, { store })).toMatchObject({ legs: [[1, 2]] });
    await each(["[007]", "[ 7]", "[4", "4]", "[[4]]", "[]"], async (id) => {
      await refusal(["show", "alice", id], { code: "USAGE", exit: 2 }, { store });
    });
  });

  test("a source whose text is damaged can still be recalled, in both forms", async () => {
    const { store, id } = await puneStore();
    const { matches } = await result(["find", "Pune: rain"], { store });
    poke(segmentOf(store, id), matches[0].offset, 0x58);
    await refusal(["show", "alice", "3"], { code: "CORRUPT", exit: 6 }, { store });
    const plan = await cli(["recall", "alice", "3", "--dry-run"], { store });
    expect.soft(plan).toMatchObject({ code: 0, stderr: "" });
    const recalled = await cli(["recall", "alice", "3", "--erase"], { store });
    expect.soft(recalled).toMatchObject({ code: 0, stderr: "" });
    expect(await result(["verify", "alice"], { store })).toMatchObject({ ok: true, records: 7 });
  });

  test("--dry-run shows all three modes side by side, and writes nothing in any form", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const plan = await result(["recall", "alice", "1", "--dry-run"], { store });
    expect(plan).toMatchObject({
      targets: [1],
      mode: "fair",
      disposal: "untrusted",
      dryRun: true,
      plan: untrusted,
      removed: [],
      survivors: [{ id: 4, heldBy: [[2]] }],
      erased: [],
      reasons: [],
      alternatives: {
        fair: { removed: [], survivors: [4] },
        strict: { removed: [4, 6], survivors: [] },
        contact: { removed: [4, 6], survivors: [] },
      },
    });
    await each(
      [
        ["--strict", "--erase", "--json"],
        ["--contact"],
        ["--erase", "--yes"],
        ["--plan", "fair-untrusted-0123456789abcdef"],
      ],
      async (flags) => {
        const ran = await cli(["recall", "alice", "1", "--dry-run", ...flags], { store });
        expect([flags, ran.code, ran.stderr]).toEqual([flags, 0, ""]);
      },
    );
    const filtered = await cli(["recall", "alice", "--label", "web_page", "-n"], { store });
    expect(filtered).toMatchObject({ code: 0, stderr: "" });
    expect(bytesOf(store)).toEqual(before);
  });

  test("--plan carries out exactly what was shown; an unrelated write does not make it stale", async () => {
    const { store } = await puneStore();
    const { plan } = await result(["recall", "alice", "3", "--dry-run"], { store });
    await asAgent(store, "alice", (alice) => alice.addLot("note", "unrelated"));
    const outcome = await result(["recall", "alice", "3", "--plan", plan], { store });
    expect(outcome).toMatchObject({ plan, removed: [5, 6], dryRun: false });
  });

  test("PLAN_STALE when the recall would do something else now, with the plan as it is; nothing is carried out", async () => {
    const { store } = await puneStore();
    const { plan } = await result(["recall", "alice", "3", "--dry-run"], { store });
    await asAgent(store, "alice", (alice) => alice.corroborate(5, [1]));
    const before = bytesOf(store);
    const stale = ["recall", "alice", "3", "--plan", plan];
    const error = await refused(stale, { code: "PLAN_STALE", exit: 4 }, { store });
    expect(error.plan).toMatchObject({
      targets: [3],
      dryRun: true,
      removed: [],
      survivors: [{ id: 5, heldBy: [[1]] }],
    });
    const now = (error.plan as { plan: string }).plan;
    expect(now).toMatch(/^fair-untrusted-[0-9a-f]{16}$/);
    expect(now).not.toBe(plan);
    expect(error.message).toContain(now);
    // Other flags or targets than the plan's are another recall.
    await each(
      [
        ["recall", "alice", "3", "--strict", "--plan", now],
        ["recall", "alice", "3", "--erase", "--plan", now],
        ["recall", "alice", "2", "3", "--plan", now],
        ["recall", "alice", "3", "--plan", "nonsense"],
      ],
      async (args) => {
        await refusal(args, { code: "PLAN_STALE", exit: 4 }, { store });
      },
    );
    // And say what is missing, or too much.
    const add = await refusal(
      ["recall", "alice", "3", "--plan", now.replace("untrusted", "erase")],
      { code: "PLAN_STALE", exit: 4 },
      { store },
    );
    expect(add.message).toBe(
      `plan ${now.replace("untrusted", "erase")} erases, and this call does not`,
    );
    expect(add.hint).toBe(
      'Give what it was made with: disposal "erase" (on the command line, add --erase).',
    );
    const leave = await refusal(
      ["recall", "alice", "3", "--strict", "--erase", "--plan", now],
      { code: "PLAN_STALE", exit: 4 },
      { store },
    );
    expect(leave.message).toBe(
      `plan ${now} is fair, and this call strict; it does not erase, and this call does`,
    );
    expect(leave.hint).toContain("leave out --strict, leave out --erase");
    expect(leave.plan).toMatchObject({ mode: "strict", disposal: "erase" });
    expect(bytesOf(store)).toEqual(before);
    expect(await result(["recall", "alice", "3", "--plan", now], { store })).toMatchObject({
      removed: [],
      survivors: [{ id: 5, heldBy: [[1]] }],
    });
  });

  test("a filter picks the living lots that fit all of it: since is inclusive, until exclusive", async () => {
    const { store } = await puneStore();
    const uri = "https://example.com/2";
    await asAgent(store, "alice", (alice) => alice.addLot("web_page", "today", { uri }));
    await each<[string[], number[]]>(
      [
        [
          ["--label", "web_page"],
          [2, 7],
        ],
        [["--label", "web_page", "--until", "2026-01-01T00:00:03Z"], [2]],
        [
          ["--uri-prefix", "https://example.com/"],
          [2, 7],
        ],
        [["--uri-prefix", "https://example.com/u"], [2]],
        [["--since", "2026-01-01T00:00:02Z", "--until", "2026-01-01T00:00:03Z"], [2]],
        [["--since", "2026-01-01T05:30:01.000+05:30", "--until", "2026-01-01T00:00:02Z"], [1]],
        [
          ["--until", "2026-01-01T00:00:02.001Z"],
          [1, 2],
        ],
        [
          ["--since", "2026-01-01T00:00:02.001Z"],
          [3, 7],
        ],
      ],
      async ([filter, targets]) => {
        const plan = await result(["recall", "alice", ...filter, "--dry-run"], { store });
        expect([filter, plan.targets]).toEqual([filter, targets]);
      },
    );
    await asAgent(store, "alice", (alice) => alice.recall([2]));
    const rest = await result(["recall", "alice", "--label", "web_page", "--yes"], { store });
    expect(rest).toMatchObject({ targets: [7], dryRun: false });
  });

  test("a filter is refused without --yes, with an id, and when nothing fits; so is neither filter nor id", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const usage = { code: "USAGE", exit: 2 };
    const nothing = { code: "NO_ENTRY", exit: 3 };
    await refused(["recall", "alice", "--label", "web_page"], usage, { store });
    await refusal(["recall", "alice", "2", "--label", "web_page", "--yes"], usage, { store });
    await refusal(["recall", "alice", "--yes"], usage, { store });
    await refusal(["recall", "alice", "--label", "webpage", "--yes"], nothing, { store });
    expect(bytesOf(store)).toEqual(before);
  });

  test("what is no id is USAGE, and the hint says that recall removes", async () => {
    const { store } = await puneStore();
    const args = ["recall", "alice", "where does the user live"];
    const error = await refused(args, { code: "USAGE", exit: 2 }, { store });
    expect(error.hint).toMatch(/removes/);
    expect(error.hint).toMatch(/cheesedb list/);
    expect(error.hint).toMatch(/cheesedb ask/);
  });
});

describe("exit numbers", () => {
  const USAGE = { code: "USAGE", exit: 2 };

  test("USAGE (2): unknown command, flag or shell, what is missing, what is too much", async () => {
    const { store } = await puneStore();
    await each(
      [
        ["nosuch"],
        ["agent", "nosuch"],
        ["list", "alice", "--nosuch"],
        ["list"],
        ["lot", "alice", "note"],
        ["lot", "alice", "note", "one", "two"],
        ["list", "alice", "bob"],
        ["remember", "alice", "m", "--from", "1", "2"],
        ["agent", "list", "alice"],
        ["corroborate", "alice", "4"],
        ["corroborate", "alice", "4", "--from", "1", "--from", "2"],
        ["recall", "alice", "3", "--strict", "--contact"],
        ["completion", "tcsh"],
        ["lot", "alice", "", "an empty label"],
        ["why", "alice", "4", "--depth", "deep"],
        ["list", "alice", "--wait", "soon"],
        ["list", "alice", "--store"],
        ["find", ""],
        ["verify", "--expect", `1-${"0".repeat(64)}`],
        ["export", "alice", "--out", store],
        ["import", "alice", join(store, "nosuch.jsonl")],
        ["import", "alice", store],
        ["agent", "delete", "alice"],
        ["learn", "alice", "--yes"],
        ["learn", "alice", "1"],
        ["demo", "--runs", "0"],
      ],
      async (args) => {
        const { message } = await refusal(args, USAGE, { store });
        expect.soft(message).not.toMatch(/undefined|following error|agent:/);
      },
    );
    await refused(["list", "alice", "--nosuch"], USAGE, { store });
    const { message } = await refusal(["export", "alice"], USAGE, { store });
    expect(message).toContain("--out");
  });

  test("USAGE (2) names the nearest command", async () => {
    const error = await refused(["rcall", "alice", "1"], USAGE);
    expect(error.hint).toContain('"cheesedb recall"');
  });

  test("NOT_UTF8 and TOO_LARGE (2): texts that cannot be stored", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const stdin = Buffer.from("ab\xffc", "latin1");
    const args = ["lot", "alice", "note", "-"];
    const utf8 = await refused(args, { code: "NOT_UTF8", exit: 2 }, { store, stdin });
    expect(utf8.offset).toBe(2);
    const large = { code: "TOO_LARGE", exit: 2 };
    await refused(["lot", "alice", "é".repeat(33), "x"], large, { store });
    await refused(["lot", "alice", "note", "x", "--uri", "u".repeat(8193)], large, { store });
    expect(bytesOf(store)).toEqual(before);
  });

  test("BAD_INPUT (2): one wrong line refuses the whole import, with its number", async () => {
    const { store } = await puneStore();
    await addAgent(store, "bob");
    const good = (await cli(["export", "alice"], { store })).stdout.trimEnd().split("\n");
    expect(good).toHaveLength(7);
    const before = bytesOf(store);
    const wrong = (line: number, text: string) => good.with(line - 1, text).join("\n");
    await each<[string, number]>(
      [
        [wrong(5, "nonsense"), 5],
        [wrong(7, '{"record":6,"kind":"cow"}'), 7],
        ["", 1],
        [wrong(5, good[4]?.replace('"legs":[[1],[2]]', '"legs":[[99]]') ?? ""), 5],
        [`${good.join("\n")}\n{"record":7,"ki`, 8],
      ],
      async ([stdin, line]) => {
        const ran = await cli(["import", "bob", "-", "--json"], { store, stdin });
        const { error } = ran.json;
        expect([line, ran.code, error.code, error.line]).toEqual([line, 2, "BAD_INPUT", line]);
        expect(error.message).toContain(`line ${line}`);
      },
    );
    const file = join(tempFolder(), "bad.jsonl");
    writeFileSync(file, wrong(5, "nonsense"));
    await refused(["import", "bob", file], { code: "BAD_INPUT", exit: 2 }, { store });
    expect(bytesOf(store)).toEqual(before);
  });

  test("NO_AGENT (3): every command that takes an agent says so", async () => {
    const { store } = await puneStore();
    await each(
      [
        ["list", "nobody"],
        ["remember", "nobody", "m", "--from", "1"],
        ["corroborate", "nobody", "4", "--from", "1"],
        ["recall", "nobody", "1"],
        ["why", "nobody", "1"],
        ["verify", "nobody"],
        ["export", "nobody", "--out", "/nowhere"],
        ["find", "x", "--agent", "nobody"],
        ["agent", "delete", "nobody", "--yes"],
      ],
      async (args) => {
        await refusal(args, { code: "NO_AGENT", exit: 3 }, { store });
      },
    );
    await refused(["list", "nobody"], { code: "NO_AGENT", exit: 3 }, { store });
  });

  test("NO_ENTRY (3): one unknown target refuses all", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const expected = { code: "NO_ENTRY", exit: 3 };
    const error = await refused(["recall", "alice", "3", "7"], expected, { store });
    expect(error).toMatchObject({ entry: 7 });
    await refusal(["show", "alice", "7"], expected, { store });
    await refusal(["why", "alice", "0"], expected, { store });
    await refusal(["corroborate", "alice", "7", "--from", "1"], expected, { store });
    expect(bytesOf(store)).toEqual(before);
  });

  test("NO_STORE (3): nothing there, and nothing made there", async () => {
    const folder = tempFolder();
    const nowhere = join(folder, "nowhere");
    await each(
      [["list", "alice"], ["agent", "list"], ["verify"], ["stats"], ["find", "x"]],
      async (args) => {
        await refusal(args, { code: "NO_STORE", exit: 3 }, { store: nowhere });
      },
    );
    await refused(["list", "alice"], { code: "NO_STORE", exit: 3 }, { store: nowhere });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("BAD_TOKEN (3): wrong, of another agent, or not kept; the words do not tell which part is wrong", async () => {
    const { store, token, id } = await puneStore();
    const bob = await addAgent(store, "bob");
    const expected = { code: "BAD_TOKEN", exit: 3 };
    const wrongSecret = `${token.slice(0, -4)}AAAA`;
    const wrongId = `cheese_AAAA${token.slice(11)}`;
    const words = new Set<string>();
    for (const wrong of [wrongSecret, wrongId, "cheese_", "x"]) {
      const error = await refusal(["list", "alice", "--token", wrong], expected, { store });
      words.add(error.message);
    }
    expect(words.size).toBe(1);
    await refused(["list", "alice", "--token", bob], expected, { store });
    await refusal(["list", "alice"], expected, { store, env: { CHEESEDB_TOKEN: bob } });
    rmSync(join(store, "tokens", id));
    await refused(["list", "alice"], expected, { store });
    expect(await result(["list", "alice", "--token", token], { store })).toMatchObject({
      lots: [{ id: 1 }, { id: 2 }, { id: 3 }],
    });
    const env = { CHEESEDB_TOKEN: token };
    expect((await result(["list", "alice"], { store, env })).lots).toHaveLength(3);
  });

  test("NO_LEG, UNKNOWN_PARENT, DEAD_PARENT, CYCLE and DEAD_ENTRY (4): the rules of the engine", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const before = bytesOf(store);
    await each<[string, string[]]>(
      [
        ["NO_LEG", ["remember", "alice", "m"]],
        ["NO_LEG", ["remember", "alice", "m", "--from", ""]],
        ["NO_LEG", ["corroborate", "alice", "4", "--from", ""]],
        ["UNKNOWN_PARENT", ["remember", "alice", "m", "--from", "99"]],
        ["DEAD_PARENT", ["remember", "alice", "m", "--from", "1,3"]],
        ["DEAD_PARENT", ["corroborate", "alice", "4", "--from", "5"]],
        ["CYCLE", ["corroborate", "alice", "4", "--from", "4"]],
        ["DEAD_ENTRY", ["corroborate", "alice", "5", "--from", "1"]],
      ],
      async ([code, args]) => {
        await refusal(args, { code, exit: 4 }, { store });
      },
    );
    await refused(["remember", "alice", "m"], { code: "NO_LEG", exit: 4 }, { store });
    expect(bytesOf(store)).toEqual(before);
    await asAgent(store, "alice", (alice) => alice.remember("on four", [[4]]));
    const ring = ["corroborate", "alice", "4", "--from", "1,7"];
    await refusal(ring, { code: "CYCLE", exit: 4 }, { store });
  });

  test("NAME_TAKEN and BAD_NAME (4): names", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    await refused(["agent", "create", "alice"], { code: "NAME_TAKEN", exit: 4 }, { store });
    await refused(["agent", "create", "../alice"], { code: "BAD_NAME", exit: 4 }, { store });
    expect(bytesOf(store)).toEqual(before);
  });

  test("LOCKED (5): another process writes, and still does after --wait; reading goes on", async () => {
    const { store, id } = await puneStore();
    const letGo = holdLock(store, id);
    const expected = { code: "LOCKED", exit: 5 };
    const before = bytesOf(store);
    const error = await refused(["lot", "alice", "note", "x", "--wait", "0.1"], expected, {
      store,
    });
    expect(error.message).toContain("0.1 s");
    await each(
      [
        ["recall", "alice", "3"],
        ["compact", "alice"],
        ["agent", "delete", "alice", "--yes"],
      ],
      async (args) => {
        await refusal([...args, "--wait", "0"], expected, { store });
      },
    );
    await each(
      [
        ["list", "alice"],
        ["recall", "alice", "3", "--dry-run"],
        ["verify", "alice"],
      ],
      async (args) => {
        await result(args, { store });
      },
    );
    expect(bytesOf(store)).toEqual(before);
    // Without --wait it waits too.
    const waiting = cli(["lot", "alice", "note", "x", "--json"], { store });
    expect((await result(["stats", "alice"], { store })).records).toBe(6);
    letGo();
    const done = await waiting;
    expect([done.code, done.stderr, done.json.id]).toEqual([0, "", 7]);
  });

  test("LOCKED (5): agents are created and deleted one at a time", async () => {
    const { store } = await puneStore();
    holdLock(store, "store");
    const expected = { code: "LOCKED", exit: 5 };
    await refusal(["agent", "create", "bob", "--wait", "0"], expected, { store });
    await refusal(["agent", "delete", "alice", "--yes", "--wait", "0"], expected, { store });
    expect(await result(["lot", "alice", "note", "x", "--wait", "0"], { store })).toMatchObject({
      id: 7,
    });
  });

  test("CORRUPT (6): damage is told with its place, and never served", async () => {
    const { store, id } = await puneStore();
    const { matches } = await result(["find", "Pune: rain"], { store });
    poke(segmentOf(store, id), matches[0].offset, 0x58);
    const expected = { code: "CORRUPT", exit: 6 };
    await refused(["list", "alice"], expected, { store });
    await refusal(["history", "alice"], expected, { store });
    const error = await refusal(["verify", "alice"], expected, { store });
    expect.soft(error.message).toContain('"alice"');
    expect(error).toMatchObject({ entry: 3, file: "log/1/00000001.seg", offset: COUNT });
    expect(error.problems).toMatchObject([{ code: "CORRUPT", entry: 3 }]);
    const all = await cli(["verify", "--json"], { store });
    expect(all).toMatchObject({ code: 6, stderr: "" });
    expect(all.json).toMatchObject({
      ok: false,
      agents: [{ ok: false, agent: "alice", error: { code: "CORRUPT" } }],
    });
    const text = await cli(["verify", "alice"], { store });
    // "verify lists what is wrong", says the hint of every other command: file and offset among it.
    expect.soft(text.stdout + text.stderr).toContain("log/1/00000001.seg");
    const rest = await result(["show", "alice", "2"], { store });
    expect(rest.entry.text).toBe("profile: lives in Pune");
  });

  test("CORRUPT (6): a missing segment", async () => {
    const { store, id } = await puneStore();
    rmSync(segmentOf(store, id));
    await refusal(["list", "alice"], { code: "CORRUPT", exit: 6 }, { store });
    await refusal(["verify", "alice"], { code: "CORRUPT", exit: 6 }, { store });
  });

  test("NEWER_FORMAT (6): a store or an agent of a newer version is left alone", async () => {
    const { store, id } = await puneStore();
    const copy = join(tempFolder(), "copy");
    cpSync(store, copy, { recursive: true });
    makeNewer(join(copy, "store"));
    makeNewer(segmentOf(store, id));
    const expected = { code: "NEWER_FORMAT", exit: 6 };
    const before = [bytesOf(store), bytesOf(copy)];
    await refused(["agent", "list"], expected, { store: copy });
    await refusal(["agent", "create", "bob"], expected, { store: copy });
    await refusal(["lot", "alice", "note", "x"], expected, { store });
    await refusal(["verify", "alice"], expected, { store });
    expect([bytesOf(store), bytesOf(copy)]).toEqual(before);
  });

  test("HEAD_MISMATCH (6): --expect takes the same head or an ancestor, and nothing else", async () => {
    const { store, id } = await puneStore();
    const old = join(tempFolder(), "old");
    cpSync(store, old, { recursive: true });
    const library = await Store.open(store);
    const headOf = async (name: string) => (await library.verifyAgent(name)).head.fingerprint;
    await addAgent(store, "bob");
    const [first, bobs] = [await headOf("alice"), await headOf("bob")];
    await asAgent(store, "alice", async (alice) => {
      await alice.recall([3], { disposal: "erase" });
      await alice.compact();
      await alice.addLot("note", "later");
    });
    const last = await headOf("alice");
    const expecting = (expect: string) => ["verify", "alice", "--expect", expect];
    expect((await result(expecting(last), { store })).expected).toMatchObject({
      fingerprint: last,
      recordsSince: 0,
    });
    const since = Number(last.split("-")[0]) - 6;
    expect((await result(expecting(first), { store })).expected).toMatchObject({
      fingerprint: first,
      recordsSince: since,
    });
    const mismatch = { code: "HEAD_MISMATCH", exit: 6 };
    const flipped = first.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
    await refused(expecting(bobs), mismatch, { store });
    await refusal(expecting(flipped), mismatch, { store });
    // An older copy of the folder is whole in itself.
    await refusal(expecting(last), mismatch, { store: old });
    // A torn batch is no error, unless it was the one expected.
    const torn = join(tempFolder(), "torn");
    cpSync(old, torn, { recursive: true });
    const segment = segmentOf(torn, id);
    const bytes = readFileSync(segment);
    poke(segment, bytes.findLastIndex((byte) => byte !== 0) + 40, 0x42);
    const seen = await result(["verify", "alice"], { store: torn });
    expect(seen).toMatchObject({ ok: true, records: 6 });
    expect(seen.tornBytes).toBeGreaterThan(0);
    await refusal(expecting(last), mismatch, { store: torn });
    await refusal(expecting(first.slice(0, -1)), USAGE, { store });
    await refused(expecting("HEAD"), USAGE, { store });
  });

  test("DISK (7): what stands in a lock file's place is not locked", async () => {
    const { store, id } = await puneStore();
    const before = bytesOf(store);
    writeFileSync(join(store, "locks", `${id}.lock`), "garbage");
    await refused(["lot", "alice", "note", "x"], { code: "DISK", exit: 7 }, { store });
    expect(readFileSync(join(store, "locks", `${id}.lock`), "utf8")).toBe("garbage");
    rmSync(join(store, "locks", `${id}.lock`));
    writeFileSync(join(store, "locks", `${id}.lock`), "");
    expect(Object.keys(bytesOf(store))).toEqual(Object.keys(before));
  });

  test.runIf(existsSync("/dev/full"))(
    "DISK (7): an output that cannot be written is two sentences, and the write stands",
    async () => {
      const { store } = await emptyStore();
      const full = openSync("/dev/full", "w");
      onTestFinished(() => closeSync(full));
      const { child, done } = startCli(["lot", "alice", "note", "x"], { store, stdout: full });
      const ran = await done;
      expect.soft(child.exitCode).toBe(7);
      expect.soft(ran.stderr).toMatch(TWO_SENTENCES);
      expect((await result(["list", "alice"], { store })).lots).toHaveLength(1);
    },
  );

  test("LLM (8): a language model that cannot be reached", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    // Nobody listens there.
    const env = { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", CHEESEDB_MODEL: "none" };
    await refused(["ask", "alice", "why?"], { code: "LLM", exit: 8 }, { store, env });
    expect(bytesOf(store)).toEqual(before);
  });

  test.runIf(HAS_TERMINAL)("CANCELLED (130): no at the prompt", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    for (const answer of ["n\n", "\n", "yes please\n", "\u0003", "\u0004"]) {
      const { code, output } = await onTerminal(["recall", "alice", "3"], { store, answer });
      expect([answer, code]).toEqual([answer, 130]);
      expect(output).toContain("Nothing was changed.");
    }
    const deleted = await onTerminal(["agent", "delete", "alice"], { store, answer: "no\n" });
    expect(deleted.code).toBe(130);
    expect(bytesOf(store)).toEqual(before);
  });

  test("CANCELLED (130): Ctrl-C while it waits for its standard input", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const interrupted = async (...flags: string[]) => {
      const started = startCli(["lot", "alice", "note", "-", ...flags], { store, stdin: null });
      // Once it reads, it listens.
      await new Promise((resolve) => started.child.stdin?.write("x".repeat(1_000_000), resolve));
      started.child.kill("SIGINT");
      return started.done;
    };
    const [text, json] = await Promise.all([interrupted(), interrupted("--json")]);
    expect([text.code, json.code]).toEqual([130, 130]);
    expect(text.stdout).toBe("");
    expect(bytesOf(store)).toEqual(before);
    expect.soft(text.stderr).toMatch(TWO_SENTENCES);
    expect(json.json.error).toMatchObject({ code: "CANCELLED" });
  });
});

describe("find", () => {
  test("gives file, offset and excerpt of every place, and exits 0 with or without any", async () => {
    const { store, id } = await puneStore();
    const found = await result(["find", "Pune: rain"], { store });
    const file = `agents/${id}/log/1/00000001.seg`;
    expect(found).toMatchObject({
      text: "Pune: rain",
      count: 1,
      matches: [{ file, offset: COUNT, excerpt: expect.stringContaining("Pune: rain") }],
      filesScanned: COUNT,
      bytesScanned: COUNT,
    });
    const bytes = readFileSync(join(store, file));
    expect(found.matches[0].offset).toBe(bytes.indexOf("Pune: rain"));
    const [none, folded, exact] = await Promise.all([
      result(["find", "nowhere to be found"], { store }),
      result(["find", "PUNE: RAIN", "-i"], { store }),
      result(["find", "PUNE: RAIN"], { store }),
    ]);
    expect(none).toMatchObject({ count: 0, matches: [] });
    expect(folded.count).toBe(1);
    expect(exact.count).toBe(0);
  });

  test("--absent exits 1 when it is found, 0 when it is gone", async () => {
    const { store } = await puneStore();
    const absent = (text: string, ...more: string[]) =>
      cli(["find", text, "--absent", "--json", ...more], { store });
    expect((await absent("Pune: rain")).code).toBe(1);
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    // Hidden is not gone.
    expect((await absent("Pune: rain")).code).toBe(1);
    await asAgent(store, "alice", (alice) => alice.recall([3], { disposal: "erase" }));
    const gone = await absent("Pune: rain");
    expect([gone.code, gone.json.count]).toEqual([0, 0]);
    expect((await cli(["find", "Pune is rainy", "--absent"], { store })).code).toBe(0);
    expect((await absent("umbrella", "-i")).code).toBe(0);
    expect((await absent("user lives in Pune")).code).toBe(1);
  });

  test("--absent exits 1 when a byte of an erased place is not zero, whatever was looked for", async () => {
    const { store, id } = await puneStore();
    const { matches } = await result(["find", "Pune: rain"], { store });
    await asAgent(store, "alice", (alice) => alice.recall([3], { disposal: "erase" }));
    poke(segmentOf(store, id), matches[0].offset, 1);
    const [json, text, plain] = await Promise.all([
      cli(["find", "nowhere", "--absent", "--json"], { store }),
      cli(["find", "nowhere", "--absent"], { store }),
      cli(["find", "nowhere", "--json"], { store }),
    ]);
    expect([json.code, json.json.count]).toEqual([1, 0]);
    expect(json.json.unerased).toEqual([{ agent: "alice", entry: 3 }]);
    expect(text.code).toBe(1);
    expect(text.stdout).toContain("Entry 3");
    expect(plain.code).toBe(0);
  });

  test("what it cannot search is no proof: --absent exits 1 and says what", async () => {
    const { store, id } = await puneStore();
    writeFileSync(join(store, "locks", `${id}.lock`), "nowhere");
    const ran = await cli(["find", "nowhere", "--absent", "--json"], { store });
    expect([ran.code, ran.json.count]).toEqual([1, 0]);
    expect(ran.json.unsearched).toEqual([`locks/${id}.lock`]);
  });

  test("--agent looks at the files of that agent only, and its words say so", async () => {
    const { store } = await puneStore();
    await addAgent(store, "bob");
    await asAgent(store, "bob", (bob) => bob.addLot("note", "bob's secret"));
    const [all, alices, bobs] = await Promise.all([
      result(["find", "bob's secret"], { store }),
      cli(["find", "bob's secret", "--agent", "alice"], { store }),
      result(["find", "bob's secret", "--agent", "bob"], { store }),
    ]);
    expect([all.count, bobs.count]).toEqual([1, 1]);
    expect(alices.code).toBe(0);
    expect.soft(alices.stdout).not.toContain("nowhere in the store");
    expect(alices.stdout).toContain("alice");
  });

  test("excerpts from tokens/ and llm.conf are masked", async () => {
    const { store, token, id } = await puneStore();
    writeFileSync(join(store, "llm.conf"), "api_key = sk-verysecret\n", { mode: 0o600 });
    const [kept, key] = await Promise.all([
      cli(["find", "--", token.slice(10, 30)], { store }),
      cli(["find", "api_key ="], { store }),
    ]);
    expect(kept.stdout).toContain(`tokens/${id}:`);
    expect(kept.stdout).not.toContain(token.slice(30));
    expect(key.stdout).toContain("llm.conf:");
    expect(key.stdout).not.toContain("verysecret");
  });
});

describe("export and import", () => {
  test("export writes the history a line a record, and texts of the dead only when asked", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const [plain, withDead] = await Promise.all([
      cli(["export", "alice"], { store }),
      cli(["export", "alice", "--dead-texts"], { store }),
    ]);
    const lines = (text: string) =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
    expect(plain).toMatchObject({ code: 0, stderr: "" });
    expect(lines(plain.stdout).slice(1)).toMatchObject([
      { kind: "lot", label: "user_message", uri: null, text: "I live in Pune" },
      { kind: "lot", uri: "https://example.com/u/1", time: "2026-01-01T00:00:02.000Z" },
      { kind: "lot", label: "weather_tool", text: null },
      { kind: "memory", legs: [[1], [2]] },
      { kind: "memory", legs: [[3]], text: null },
      { kind: "memory", legs: [[4, 5]], text: null },
      { kind: "recall", targets: [3], removed: [5, 6], mode: "fair", disposal: "untrusted" },
    ]);
    expect(lines(withDead.stdout)[3]).toMatchObject({ text: "Pune: rain" });
  });

  test("export writes a file of its own, 0600, and never over another", async () => {
    const { store } = await puneStore();
    const out = join(tempFolder(), "out.jsonl");
    writeFileSync(out, "mine");
    await refused(["export", "alice", "--out", out], { code: "USAGE", exit: 2 }, { store });
    expect(readFileSync(out, "utf8")).toBe("mine");
    // A folder that is not there is a slip, and no fault of the disk.
    for (const beyond of [join(tempFolder(), "none", "x.jsonl"), join(out, "x.jsonl")]) {
      const args = ["export", "alice", "--out", beyond];
      const { message } = await refused(args, { code: "USAGE", exit: 2 }, { store });
      expect(message).toMatch(/folder/);
    }
    rmSync(out);
    const [text, piped] = await Promise.all([
      cli(["export", "alice", "--out", out], { store }),
      cli(["export", "alice"], { store }),
    ]);
    expect(text).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(out, "utf8")).toBe(piped.stdout);
    expect(statSync(out).mode & 0o777).toBe(0o600);
  });
});

describe("many entries", () => {
  const MANY = 60_000;

  test("200,000 lots and memories are listed", () => {
    const entry = { text: "x", uri: null, time: "", erased: false, state: "alive" } as const;
    const ids = Array.from({ length: 200_000 }, (_, i) => i + 1);
    const lots: EntryWithText[] = ids.map((id) => ({
      ...entry,
      id,
      kind: "lot",
      label: "note",
      legs: [],
    }));
    const memories: EntryWithText[] = ids.map((id) => ({
      ...entry,
      id,
      kind: "memory",
      label: null,
      legs: [{ parents: [1], holds: true }],
    }));
    const lines = new Renderer(new Style({}, {})).list({ lots, memories }).split("\n");
    expect(lines).toHaveLength(400_003);
    expect(lines[200_000]).toBe("  [200000] note  x");
    expect(lines.at(-1)).toBe("  [200000] x  ← [1]");
  });

  test("a list of 60,000 is printed whole, a closed pipe ends it quietly, and an interrupted import does not deny what it wrote", async () => {
    const { store, id } = await emptyStore();
    await addAgent(store, "big");
    const lot = { label: "note", text: "one of very many lots that fill more than a pipe holds" };
    const lots = Array.from({ length: MANY }, () => lot);
    await asAgent(store, "big", (big) => big.addLots(lots));
    const list = await cli(["list", "big"], { store });
    expect.soft([list.code, list.stderr]).toEqual([0, ""]);
    expect.soft(list.stdout.trimEnd().split("\n").at(-1)).toContain(`[${MANY}]`);

    for (const args of [
      ["history", "big"],
      ["export", "big"],
    ]) {
      const started = startCli(args, { store });
      started.child.stdout?.once("data", () => started.child.stdout?.destroy());
      const { code, stderr } = await started.done;
      expect.soft([args, code, stderr]).toEqual([args, 0, ""]);
    }

    const file = join(tempFolder(), "big.jsonl");
    await result(["export", "big", "--out", file], { store });
    const log = segmentOf(store, id);
    const { size } = statSync(log);
    const started = startCli(["import", "alice", file], { store });
    while (started.child.exitCode === null && statSync(log).size < size + 500_000)
      await new Promise((resolve) => setTimeout(resolve, 2));
    started.child.kill("SIGINT");
    const ran = await started.done;
    expect([ran.code, ran.stdout]).toEqual([130, ""]);
    const written = await result(["stats", "alice"], { store });
    expect(written.lots).toBeGreaterThan(0);
    expect(ran.stderr).not.toContain("Nothing was changed");
  });

  test("a write whose reader is gone stands all the same", async () => {
    const { store } = await emptyStore();
    const started = startCli(["lot", "alice", "note", "x"], { store });
    started.child.stdout?.destroy();
    expect((await started.done).code).toBe(0);
    expect((await result(["list", "alice"], { store })).lots).toHaveLength(1);
  });
});

describe("tokens", () => {
  test("a token stands in no output but that of agent create, wherever it was put by mistake", async () => {
    const { store, token } = await puneStore();
    const bad = `${token.slice(0, -4)}AAAA`;
    const env = { CHEESEDB_TOKEN: token };
    const nowhere = join(tempFolder(), "nowhere");
    const args: string[][] = [
      [token],
      ["help", token],
      ["agent", token],
      ["list", token],
      ["list", "alice", token],
      ["list", "alice", `--${token}`],
      ["list", "alice", "--wait", token],
      ["list", "alice", "--token", bad],
      ["list", "alice", "--store", join(nowhere, token)],
      ["show", "alice", token],
      ["why", "alice", "4", "--depth", token],
      ["remember", "alice", "m", "--from", token],
      ["recall", "alice", token],
      ["recall", "alice", "3", "--plan", token],
      ["recall", "alice", "--since", token, "--yes"],
      ["verify", "alice", "--expect", token],
      ["import", "alice", token],
      ["export", "alice", "--out", join(nowhere, token)],
      ["completion", token],
      ["agent", "create", `${token}/`],
    ];
    const leaks: string[] = [];
    const secret = token.slice(30, 60);
    // The JSON form has the same words; what differs are the facts beside them, and what fails before any command.
    const asJson = args.filter(([word = ""]) => /^(cheese_|help|import|export|show)/.test(word));
    await each([...args, ...asJson.map((words) => [...words, "--json"])], async (words) => {
      const ran = await cli(words, { store, env });
      if ((ran.stdout + ran.stderr).includes(secret))
        leaks.push(words.join(" ").replaceAll(token, "TOKEN").replaceAll(bad, "TOKEN"));
      expect(ran.code).not.toBe(0);
    });
    expect(leaks).toEqual([]);
  });

  test("nor when a command is run with it, with DEBUG or without", async () => {
    const { store, token } = await puneStore();
    const leaks: string[] = [];
    await each([["list", "alice"], ["show", "alice", "99"], ["doctor"]], async (words) => {
      for (const DEBUG of ["", "*"]) {
        const ran = await cli([...words, "--token", token], { store, env: { DEBUG } });
        if ((ran.stdout + ran.stderr).includes(token.slice(7)))
          leaks.push(`DEBUG=${DEBUG} ${words.join(" ")}`);
      }
    });
    expect(leaks).toEqual([]);
  });

  test("the store is its owner's alone, and so is the kept token", async () => {
    const store = join(tempFolder(), "store");
    const { agent, token } = await result(["agent", "create", "alice"], { store });
    const kept = join(store, "tokens", agent.id);
    expect(readFileSync(kept, "utf8").trim()).toBe(token);
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    expect(statSync(store).mode & 0o777).toBe(0o700);
    expect(statSync(join(store, "tokens")).mode & 0o777).toBe(0o700);
  });
});

describe("the terminal", () => {
  test.runIf(HAS_TERMINAL)("colour is for terminals, and NO_COLOR is honoured", async () => {
    const { store } = await puneStore();
    const list = ["list", "alice"];
    const [colored, plain, dumb, json] = await Promise.all([
      onTerminal(list, { store }),
      onTerminal(list, { store, env: { NO_COLOR: "1" } }),
      onTerminal(list, { store, env: { TERM: "dumb" } }),
      onTerminal([...list, "--json"], { store }),
    ]);
    expect(colored.output).toContain("\u001b[");
    expect(plain.output).not.toContain("\u001b");
    expect(dumb.output).not.toContain("\u001b");
    expect(json.output).not.toContain("\u001b");
    expect(JSON.parse(json.output)).toMatchObject({ lots: [{ id: 1 }, { id: 2 }, { id: 3 }] });
    expect(plain.output).toBe((await cli(list, { store })).stdout);
  });

  test.runIf(HAS_TERMINAL)("recall shows its plan and asks; yes carries it out", async () => {
    const { store } = await puneStore();
    const env = { NO_COLOR: "1" };
    const asked = await onTerminal(["recall", "alice", "3"], { store, env, answer: "y\n" });
    expect(asked.code).toBe(0);
    expect(asked.output).toContain("[5]");
    expect(asked.output.indexOf("Recall?")).toBeGreaterThan(asked.output.indexOf("[6]"));
    expect(asked.output.indexOf("Recalled")).toBeGreaterThan(asked.output.indexOf("Recall?"));
    // What would change nothing is not asked about.
    const again = await onTerminal(["recall", "alice", "3"], { store, env });
    expect(again).toEqual({
      code: 0,
      output: "[3] was recalled so before: there is nothing to do.\n",
    });
    const [yes, json] = await Promise.all([
      onTerminal(["recall", "alice", "--label", "web_page", "--yes"], { store, env }),
      onTerminal(["recall", "alice", "2", "--dry-run", "--json"], { store, env }),
    ]);
    expect(yes).toMatchObject({ code: 0 });
    expect(yes.output).not.toContain("[y/N]");
    expect(json.code).toBe(0);
    const gone = await onTerminal(["agent", "delete", "alice"], { store, env, answer: "yes\n" });
    expect(gone.code).toBe(0);
    expect(await result(["agent", "list"], { store })).toEqual({ agents: [] });
  });

  test.runIf(HAS_TERMINAL)(
    "what is no id is refused on a terminal without a question",
    async () => {
      const { store } = await puneStore();
      const ran = await onTerminal(["recall", "alice", "Pune"], { store, env: { NO_COLOR: "1" } });
      expect(ran.code).toBe(2);
      expect(ran.output).toMatch(/^Error: .*\.\n.*cheesedb list.*\.\n$/);
    },
  );

  test("DEBUG=* shows where an error comes from, on standard error; with --json too", async () => {
    const { store } = await puneStore();
    const env = { DEBUG: "*" };
    const [text, json] = await Promise.all([
      cli(["show", "alice", "99"], { store, env }),
      cli(["show", "alice", "99", "--json"], { store, env }),
    ]);
    expect(text).toMatchObject({ code: 3, stdout: "" });
    expect(text.stderr).toMatch(/CheeseError: .*\n {4}at /);
    expect(json.json.error.code).toBe("NO_ENTRY");
    expect(json.stderr).toMatch(/CheeseError: .*\n {4}at /);
  });
});

describe("everywhere", () => {
  test("the store is --store, else CHEESEDB_DIR, else ~/.cheesedb", async () => {
    const home = tempFolder();
    const [flag, env] = [join(home, "flag"), join(home, "env")];
    const create = (name: string, args: string[], CHEESEDB_DIR: string) =>
      result(["agent", "create", name, ...args], { env: { HOME: home, CHEESEDB_DIR } });
    await create("by-flag", ["--store", flag], env);
    await create("by-env", [], env);
    await create("by-default", [], "");
    const agentIn = async (store: string) => {
      const { agents } = await result(["agent", "list"], { store });
      return agents.map(({ name }: { name: string }) => name);
    };
    expect(await agentIn(flag)).toEqual(["by-flag"]);
    expect(await agentIn(env)).toEqual(["by-env"]);
    expect(await agentIn(join(home, ".cheesedb"))).toEqual(["by-default"]);
  });

  test("what only looks writes nothing", async () => {
    const { store } = await puneStore();
    await asAgent(store, "alice", (alice) => alice.recall([3]));
    const before = bytesOf(store);
    await each(
      [
        ["list", "alice", "--all"],
        ["show", "alice", "4"],
        ["why", "alice", "6"],
        ["find", "Pune", "--absent"],
        ["verify", "alice"],
        ["stats"],
        ["stats", "alice"],
        ["export", "alice"],
        ["agent", "list"],
        ["doctor"],
        ["corroborate", "alice", "4", "--from", "2"],
      ],
      async (args) => {
        await cli(args, { store });
      },
    );
    expect(bytesOf(store)).toEqual(before);
  });

  test("a write that was cut short is dropped by the next that may write, which says so on standard error", async () => {
    const { store, id } = await puneStore();
    const segment = segmentOf(store, id);
    const end = readFileSync(segment).findLastIndex((byte) => byte !== 0) + 1;
    poke(segment, end + 40, 0x42);
    const ran = await cli(["lot", "alice", "note", "x", "--json"], { store });
    expect([ran.code, ran.json.id]).toEqual([0, 7]);
    expect(ran.stderr).toMatch(/^Note: .*\n$/);
    expect(await result(["verify", "alice"], { store })).toMatchObject({ ok: true, tornBytes: 0 });
  });

  test("help and version need no store", async () => {
    const [help, bare, command, version] = await Promise.all([
      cli(["help"]),
      cli([]),
      cli(["help", "recall"]),
      cli(["--version"]),
    ]);
    for (const { code, stderr } of [help, bare, command, version])
      expect([code, stderr]).toEqual([0, ""]);
    expect(help.stdout).toBe(bare.stdout);
    for (const name of ["agent", "lot", "remember", "recall", "find", "verify", "doctor"])
      expect(help.stdout).toContain(`  ${name} `);
    expect(command.stdout).toContain("--dry-run");
    expect(command.stdout).toBe((await cli(["recall", "--help"])).stdout);
    expect(version.stdout).toMatch(/^cheesedb\/\d+\.\d+\.\d+ /);
  });

  test("the shell is offered commands, flags and agents", async () => {
    const { store } = await puneStore();
    await addAgent(store, "alan");
    await addAgent(store, "bob");
    await each<[string[], string[]]>(
      [
        [["li"], ["list"]],
        [
          ["agent", ""],
          ["create", "delete", "list"],
        ],
        [
          ["completion", ""],
          ["bash", "fish", "zsh"],
        ],
        [
          ["list", "al"],
          ["alan", "alice"],
        ],
        [
          ["recall", ""],
          ["alan", "alice", "bob"],
        ],
        [["agent", "delete", "b"], ["bob"]],
        [["agent", "create", "b"], []],
        [["list", "--wait", "3", "b"], ["bob"]],
        [["find", "x", "--agent", "b"], ["bob"]],
      ],
      async ([words, offered]) => {
        const ran = await cli(["complete", ...words], { store });
        const lines = ran.stdout.split("\n").filter((line) => line !== "");
        expect.soft([words, ran.code, ran.stderr, lines]).toEqual([words, 0, "", offered]);
      },
    );
  });
});
