// G1, G2, G6, G8 with real processes: several that write at once, some killed at random moments or at each operation that
// changes the disk, some stopped while they have the lock.
//
// KILLS says how often a writer is killed at a random moment, CRASH_STEP at every so manyth operation a job dies (1 for
// all), WRITERS_MS how long writers contend.

import {
  appendFileSync,
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { realDisk } from "../src/disk.ts";
import { type Agent, Store, type StoreOptions } from "../src/index.ts";
import type { ChildOptions } from "./child.ts";
import {
  allBytes,
  chance,
  codeOf,
  collect,
  filesIn,
  SEED,
  tempAgent,
  tempFolder,
} from "./helpers.ts";
import { type Child, runChild, startChild } from "./spawn.ts";

const KILLS = Number(process.env.KILLS ?? 20);
const CRASH_STEP = Number(process.env.CRASH_STEP ?? 1);
const WRITERS_MS = Number(process.env.WRITERS_MS ?? 2000);
/** No job has as many operations. */
const OPERATIONS_MAX = 1000;

const SECRET = "Quendoline Birchwhistle keeps 40312";

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function textsOf(agent: Agent): Promise<(string | null)[]> {
  return (await collect(agent.entries())).map(({ text }) => text);
}

/** Opens an agent for the length of a test. */
async function opened(store: Store, token: string, options = {}): Promise<Agent> {
  const agent = await store.openAgent(token, options);
  onTestFinished(() => agent.close());
  return agent;
}

/** Lets a child on that stops itself, however short before, until it has closed. */
async function letOn(child: Child) {
  for (; child.said.at(-1) !== "closed"; await pause(5)) child.kill("SIGCONT");
}

/** What a writing child said: its batches, each [[id, text], …]. */
function batchesOf(child: Child): [number, string][][] {
  return child.said.filter((said) => Array.isArray(said)) as [number, string][][];
}

beforeAll(async () => {
  console.log(`SEED=${SEED}`);
});

describe("G8: two processes and this one, writing to one agent at once", () => {
  test("lose nothing, interleave nothing, and none of them starves", async () => {
    const { store, agent, token } = await tempAgent();
    const writers = ["one", "two"].map((name) =>
      startChild("write", { store: store.path, token, name, group: 3, forMs: WRITERS_MS }),
    );
    await Promise.all(writers.map((writer) => writer.next()));
    const own: [number, string][][] = [];
    for (let batch = 1; writers.some(({ said }) => said.at(-1) !== "closed"); batch++) {
      const texts = upTo(3).map((i) => `three ${batch}.${i}`);
      const ids = await Promise.all(texts.map((text) => agent.addLot("here", text)));
      own.push(ids.map((id, i) => [id, texts[i] as string]));
      await turn();
    }
    const all = [...writers.map(batchesOf), own];
    for (const batches of all) {
      expect(batches.length).toBeGreaterThan(0);
      // A batch is of one process, whole and in a row.
      for (const batch of batches)
        expect(batch.map(([id]) => id)).toEqual(
          upTo(3, 0)
            .map((i) => (batch[0]?.[0] ?? 0) + i)
            .slice(0, 3),
        );
    }
    const said = all.flat(2).toSorted(([a], [b]) => a - b);
    expect(said.map(([id]) => id)).toEqual(upTo(said.length));
    expect(await textsOf(agent)).toEqual(said.map(([, text]) => text));
    expect(await agent.verify()).toMatchObject({ records: said.length, tornBytes: 0 });
  });

  test("on one store that is not there yet make one store, and of one name one agent", async () => {
    const path = join(tempFolder(), "store");
    const names = ["alice", "bob", "carol", "alice"];
    const runs = await Promise.all(names.map((name) => runChild("create", { store: path, name })));
    const answers = runs.map(({ said }) => said[0]);
    const store = await Store.open(path, { create: false });
    expect((await store.agents()).map(({ name }) => name)).toEqual(["alice", "bob", "carol"]);
    const tokens = answers.filter((answer) => typeof answer === "string");
    expect(tokens.toSorted()).toEqual(
      ["alice", "bob", "carol"].map((name) => store.keptToken(name)).toSorted(),
    );
    expect(answers.filter((answer) => typeof answer !== "string")).toEqual([
      { code: "NAME_TAKEN" },
    ]);
    expect((await store.verify()).ok).toBe(true);
  });

  test("readers and verify beside a writer that erases and compacts never speak of damage", async () => {
    const { store, agent, token } = await tempAgent({ segmentBytes: 4000 });
    await agent.addLots(upTo(20).map((i) => ({ label: "x", text: `stays ${i}` })));
    await agent.close();
    const reader = await opened(await Store.open(store.path, { readOnly: true }), token);
    const writer = startChild("erase", {
      store: store.path,
      token,
      forMs: WRITERS_MS / 2,
      options: { segmentBytes: 4000 },
    });
    await writer.next();
    let rounds = 0;
    for (; writer.said.at(-1) !== "closed"; rounds++) {
      await turn();
      expect((await store.verifyAgent("alice")).ok).toBe(true);
      const texts = await textsOf(reader);
      expect(texts.slice(0, 20)).toEqual(upTo(20).map((i) => `stays ${i}`));
    }
    expect(rounds).toBeGreaterThan(3);
  });
});

describe("G1, G2: a writer that is killed", () => {
  test(`at ${KILLS} random moments loses nothing that it acknowledged, and leaves at most one batch more, whole`, async () => {
    const random = chance(SEED);
    const { store, agent: first, token } = await tempAgent();
    await first.close();
    const texts: string[] = [];
    const seen = { batches: 0, unsaid: 0, torn: 0 };
    for (let kill = 1; kill <= KILLS; kill++) {
      // Given: a writer of small or of large batches, in short or long segments.
      const group = 1 + Math.floor(random() * 4);
      const textBytes = [20, 3000, 200_000][Math.floor(random() * 3)] as number;
      const options: StoreOptions =
        random() < 0.5 ? {} : { segmentBytes: 3000, snapshotRecords: 1 };
      const name = `kill ${kill}`;
      const child = startChild("write", {
        store: store.path,
        token,
        name,
        group,
        textBytes,
        options,
      });
      await child.next();
      // Done
      await pause(random() * 60);
      child.kill("SIGKILL");
      expect((await child.ended).signal).toBe("SIGKILL");
      // Seen: what it said is there with its text, and nothing else but perhaps the batch under way.
      const batches = batchesOf(child);
      const said = batches.flat();
      expect(said.map(([id]) => id)).toEqual(upTo(texts.length + said.length, texts.length + 1));
      texts.push(...said.map(([, text]) => text));
      const agent = await store.openAgent(token);
      const found = await textsOf(agent);
      if (found.length !== texts.length) {
        texts.push(
          ...upTo(group).map((i) =>
            `${name} ${batches.length + 1}.${i - 1} `.padEnd(textBytes, "x"),
          ),
        );
        seen.unsaid++;
      }
      expect(found.length).toBe(texts.length);
      expect(found.every((text, i) => text === texts[i])).toBe(true);
      expect(await agent.verify()).toMatchObject({ records: texts.length, tornBytes: 0 });
      texts.push(`after ${name}`);
      expect(await agent.addLot("here", `after ${name}`)).toBe(texts.length);
      if (agent.opened.tornBytes > 0) seen.torn++;
      seen.batches += batches.length;
      await agent.close();
      // Small again, so that the rounds do not grow.
      if (found.length > 3000) break;
    }
    console.log(
      `${KILLS} kills: ${seen.batches} batches said, ${seen.unsaid} whole and unsaid, ${seen.torn} torn and told`,
    );
    expect(seen.batches).toBeGreaterThan(0);
  });

  test("in the middle of writing a batch leaves it torn: the next opening says how many bytes, and cuts them", async () => {
    const { store, agent: first, token } = await tempAgent();
    await first.addLot("x", "was there");
    await first.close();
    let torn = 0;
    for (const diesAt of upTo(12)) {
      const before = await store.verifyAgent("alice");
      const { said } = await runChild("lots", {
        store: store.path,
        token,
        texts: [SECRET],
        diesAt,
        tears: true,
      });
      const { tornBytes, records } = await store.verifyAgent("alice");
      expect(said.length === 0 || records === before.records + 1).toBe(true);
      const agent = await store.openAgent(token);
      expect(agent.opened.tornBytes).toBe(tornBytes);
      if (tornBytes > 0) {
        torn++;
        expect(records).toBe(before.records);
      }
      expect((await agent.verify()).tornBytes).toBe(0);
      await agent.close();
    }
    expect(torn).toBeGreaterThan(0);
  });
});

describe("G6: killed at each operation that changes the disk,", () => {
  interface Crash {
    /** The folder as the child left it. */
    folder: string;
    /** Whether the child said what it had to say: it was acknowledged. */
    wasSaid: boolean;
    at: string;
  }

  /** Runs a job on copies of a folder until it comes through, and looks at what each death left. */
  async function dieEverywhere(
    job: string,
    prepared: string | null,
    options: Omit<ChildOptions, "store">,
    look: (crash: Crash) => Promise<void>,
  ) {
    const place = tempFolder();
    let deaths = 0;
    const from = 1 + (SEED % CRASH_STEP);
    for (let diesAt = from; diesAt < OPERATIONS_MAX; diesAt += CRASH_STEP) {
      const folder = join(place, `${job}-${diesAt}`);
      if (prepared) cpSync(prepared, folder, { recursive: true });
      const tears = (SEED + diesAt) % 2 === 0;
      const { said, signal } = await runChild(job, { ...options, store: folder, diesAt, tears });
      const at = `${job}, operation ${diesAt}${tears ? ", half done" : ""}`;
      try {
        await look({ folder, wasSaid: said.length > 0, at });
      } catch (error) {
        throw new Error(`${at}: ${(error as Error).message}`, { cause: error });
      }
      rmSync(folder, { recursive: true });
      if (signal === null) break;
      deaths++;
    }
    console.log(`${job}: ${deaths} deaths`);
    expect(deaths).toBeGreaterThan(0);
  }

  const small: StoreOptions = { segmentBytes: 500, snapshotRecords: 1 };

  /** Lots 1 to 6, the odd ones with the secret; memory 7 on 1, memory 8 on 1 or 2; a recall of 6 and an erase of 5. */
  async function tempPrepared(options: StoreOptions = small) {
    const { store, agent, token } = await tempAgent(options);
    for (const i of upTo(6))
      await agent.addLot("x", i % 2 === 1 ? `${SECRET} in ${i}` : `lot ${i}, which stays`);
    await agent.remember(`learned: ${SECRET}`, [[1]]);
    await agent.remember("learned from 1 or 2", [[1], [2]]);
    await agent.recall([6]);
    await agent.recall([5], { disposal: "erase" });
    await agent.close();
    return { prepared: store.path, token, id: agent.id };
  }

  const hasSecret = (folder: string) => allBytes(folder).includes(SECRET);

  test("an erase is all of it or nothing to every reader, and is finished by the next opening that may write", async () => {
    const { prepared, token } = await tempPrepared();
    expect(hasSecret(prepared)).toBe(true);
    let finished = 0;
    await dieEverywhere(
      "recall",
      prepared,
      { token, ids: [1, 3], options: small },
      async (crash) => {
        const before = ["lot 2, which stays", "lot 4, which stays", null, "learned from 1 or 2"];
        const kept = [1, 3, 7];
        // A reader first: it changes nothing, and sees old or new.
        const reader = await (await Store.open(crash.folder, { readOnly: true })).openAgent(token);
        const seen = await Promise.all(kept.map((id) => reader.text(id)));
        const isNew = seen[0] === null;
        expect(seen.map((text) => text === null)).toEqual([isNew, isNew, isNew]);
        if (crash.wasSaid) expect(isNew).toBe(true);
        await reader.close();
        // Then a writer.
        const store = await Store.open(crash.folder, small);
        const agent = await store.openAgent(token);
        expect(await Promise.all(kept.map((id) => agent.text(id)))).toEqual(seen);
        expect(await Promise.all([2, 4, 5, 8].map((id) => agent.text(id)))).toEqual(before);
        expect(await agent.alive(upTo(8))).toEqual(isNew ? [2, 4, 8] : [1, 2, 3, 4, 7, 8]);
        expect(hasSecret(crash.folder)).toBe(!isNew);
        expect(await agent.verify()).toMatchObject({ tornBytes: 0, erasesPending: 0 });
        if (agent.opened.erasesFinished > 0) finished++;
        // Whichever it was, it can be done now, and is the same then.
        await agent.recall([1, 3], { disposal: "erase" });
        expect(hasSecret(crash.folder)).toBe(false);
        expect(await agent.alive(upTo(8))).toEqual([2, 4, 8]);
        await agent.close();
        expect((await store.verify()).ok).toBe(true);
      },
    );
    expect(finished).toBeGreaterThan(0);
  });

  test("a compaction leaves old or new, loses no living text, and can be done again", async () => {
    const { prepared: path, token, id } = await tempPrepared();
    const agent = await (await Store.open(path, small)).openAgent(token);
    await agent.recall([1, 3]);
    const { fingerprint } = await agent.head();
    await agent.close();
    const living = [
      [2, "lot 2, which stays"],
      [4, "lot 4, which stays"],
      [8, "learned from 1 or 2"],
    ] as const;
    await dieEverywhere("compact", path, { token, options: small }, async (crash) => {
      const reader = await (await Store.open(crash.folder, { readOnly: true })).openAgent(token);
      for (const [id, text] of living) expect(await reader.text(id)).toBe(text);
      const dead = await Promise.all([1, 3, 7].map((id) => reader.text(id)));
      const isNew = dead[0] === null;
      expect(dead.map((text) => text === null)).toEqual([isNew, isNew, isNew]);
      if (crash.wasSaid) expect(isNew).toBe(true);
      await reader.close();
      const store = await Store.open(crash.folder, small);
      const agent = await store.openAgent(token);
      for (const [id, text] of living) expect(await agent.text(id)).toBe(text);
      expect(hasSecret(crash.folder)).toBe(!isNew);
      expect((await agent.verify({ expect: fingerprint })).expected?.recordsSince).toBe(
        isNew ? 1 : 0,
      );
      await agent.compact();
      expect(hasSecret(crash.folder)).toBe(false);
      expect((await agent.verify({ expect: fingerprint })).expected?.recordsSince).toBe(1);
      for (const [id, text] of living) expect(await agent.text(id)).toBe(text);
      await agent.addLot("x", "one more");
      await agent.close();
      const generations = readdirSync(join(crash.folder, "agents", id, "log"));
      expect(generations.length).toBe(1);
      expect((await store.verify()).ok).toBe(true);
    });
  });

  test("a compaction leaves no copy behind that a later erase through another process's warm handle would miss", async () => {
    // Given: nothing dead has a text any more, but there is space to give back.
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "erased before");
    await agent.addLot("x", `${SECRET}, alive`);
    await agent.close();
    const place = tempFolder();
    let deaths = 0;
    for (let diesAt = 1; ; diesAt++) {
      const folder = join(place, `warm-${diesAt}`);
      cpSync(store.path, folder, { recursive: true });
      const warm = await (await Store.open(folder)).openAgent(token);
      await warm.recall([1], { disposal: "erase" });
      const { signal } = await runChild("compact", { store: folder, token, diesAt });
      // Done and seen
      expect(await warm.text(2)).toBe(`${SECRET}, alive`);
      await warm.recall([2], { disposal: "erase" });
      expect(hasSecret(folder), `operation ${diesAt}`).toBe(false);
      await warm.close();
      rmSync(folder, { recursive: true });
      if (signal === null) break;
      deaths++;
    }
    expect(deaths).toBeGreaterThan(5);
  });

  test("the creation of a store and an agent leaves no agent without its kept token, and no token without its agent", async () => {
    await dieEverywhere("create", null, { name: "alice" }, async ({ folder, wasSaid }) => {
      const store = await Store.open(folder);
      const agents = await store.agents();
      const isThere = agents.length === 1;
      if (wasSaid) expect(isThere).toBe(true);
      const ids = agents.map(({ id }) => id);
      expect(readdirSync(join(folder, "agents"))).toEqual(ids);
      expect(readdirSync(join(folder, "tokens"))).toEqual(ids);
      if (!isThere) await store.createAgent("alice", { keepToken: true });
      const agent = await store.openAgent(store.keptToken("alice") ?? "");
      expect(await agent.addLot("x", "the first")).toBe(1);
      await agent.close();
      expect((await store.verify()).agents).toMatchObject([
        { ok: true, agent: "alice", records: 1 },
      ]);
    });
  });

  test("the deletion of an agent leaves it whole, or nothing of it after the next opening that may write", async () => {
    const { prepared, token, id } = await tempPrepared();
    const both = await Store.open(prepared);
    const bob = await both.openAgent((await both.createAgent("bob", { keepToken: true })).token);
    await bob.addLot("x", "of bob");
    await bob.close();
    const filesOf = (folder: string) =>
      readdirSync(folder).flatMap((name) => (name.includes(id) ? filesIn(join(folder, name)) : []));
    const whole = filesOf(join(prepared, "agents")).length;
    await dieEverywhere("delete", prepared, { name: "alice" }, async ({ folder, wasSaid }) => {
      // All texts are zeroed before the first file goes.
      if (filesOf(join(folder, "agents")).length < whole) expect(hasSecret(folder)).toBe(false);
      const store = await Store.open(folder);
      const names = store.agentNames();
      const isThere = names.includes("alice");
      if (wasSaid) expect(isThere).toBe(false);
      expect(names.includes("bob")).toBe(true);
      expect(hasSecret(folder)).toBe(isThere);
      expect(readdirSync(join(folder, "agents")).length).toBe(isThere ? 2 : 1);
      expect(readdirSync(join(folder, "tokens")).includes(id)).toBe(isThere);
      if (isThere) {
        const alice = await store.openAgent(token);
        expect(await alice.text(1)).toBe(`${SECRET} in 1`);
        await alice.close();
        await store.deleteAgent("alice");
        expect(hasSecret(folder)).toBe(false);
      } else {
        expect(await codeOf(() => store.openAgent(token))).toBe("BAD_TOKEN");
      }
      const bob = await store.openAgent(store.keptToken("bob") ?? "");
      expect(await textsOf(bob)).toEqual(["of bob"]);
      await bob.close();
      expect((await store.verify()).ok).toBe(true);
    });
  });

  test("writing, changing segments and the snapshot of a close lose nothing, and an opening is none the wiser", async () => {
    const { prepared, token } = await tempPrepared();
    const texts = upTo(3).map((i) => `new ${i} ${"y".repeat(150)}`);
    await dieEverywhere(
      "lots",
      prepared,
      { token, texts, options: small },
      async ({ folder, wasSaid }) => {
        const store = await Store.open(folder, small);
        const report = await store.verifyAgent("alice");
        expect(report.snapshot).not.toBe("damaged");
        const agent = await store.openAgent(token);
        const found = (await textsOf(agent)).slice(8);
        expect(found).toEqual(texts.slice(0, found.length));
        if (wasSaid) expect(found.length).toBeGreaterThan(0);
        expect((await agent.head()).record).toBe(10 + found.length);
        expect(await agent.addLot("x", "and on")).toBe(9 + found.length);
        await agent.close();
        expect(await store.verifyAgent("alice")).toMatchObject({ snapshot: "ok", tornBytes: 0 });
        expect(readdirSync(join(folder, "agents", agent.id)).toSorted()).toEqual([
          "agent",
          "graph",
          "head",
          "log",
        ]);
      },
    );
  });

  test("an import of one batch is there whole or not at all", async () => {
    const { store, agent: from, token } = await tempAgent();
    await from.addLots(upTo(10).map((i) => ({ label: "x", text: `lot ${i}` })));
    await from.remember("of 1", [[1]]);
    await from.recall([1]);
    const lines = (await collect(from.export())).join("");
    await from.recall(upTo(10), { disposal: "erase" });
    await from.close();
    await dieEverywhere("import", store.path, { token, lines }, async ({ folder, wasSaid }) => {
      const store = await Store.open(folder);
      const agent = await store.openAgent(token);
      const { record } = await agent.head();
      expect([13, 25]).toContain(record);
      if (wasSaid) expect(record).toBe(25);
      expect(await agent.alive(upTo(22))).toEqual(record === 13 ? [] : upTo(21, 13));
      if (record === 25) expect(await agent.text(13)).toBe("lot 2");
      expect(await agent.verify()).toMatchObject({ records: record, tornBytes: 0 });
      await agent.close();
    });
  });
});

describe("the lock", () => {
  test("is kept by a process that stands still: LOCKED after the wait, nothing is written, and reading goes on", async () => {
    const { store, token } = await tempAgent({ waitMs: 100 });
    const agent = await opened(store, token);
    await agent.addLot("x", "one");
    const child = startChild("stop", { store: store.path, token, texts: ["of the child"] });
    expect(await child.next()).toBe(2);
    const writes: Record<string, () => Promise<unknown>> = {
      addLot: () => agent.addLot("x", "x"),
      recall: () => agent.recall([1], { disposal: "erase" }),
      compact: () => agent.compact(),
      import: () => agent.import('{"kind":"cheesedb","version":1}'),
      deleteAgent: () => store.deleteAgent("alice"),
    };
    for (const [name, write] of Object.entries(writes))
      expect(await codeOf(write), name).toBe("LOCKED");
    expect(await textsOf(agent)).toEqual(["one", "of the child"]);
    expect((await agent.verify()).records).toBe(2);
    expect((await store.lookAtLocks()).held).toEqual(["alice"]);
    // Another agent is not concerned.
    const bob = await opened(store, (await store.createAgent("bob")).token);
    expect(await bob.addLot("x", "of bob")).toBe(1);
    // Let on, it closes, and the lock is free.
    await letOn(child);
    await child.ended;
    expect(await agent.addLot("x", "three")).toBe(3);
    // This process lets go a little after its last write.
    while ((await store.lookAtLocks()).held.length > 0) await pause(5);
  });

  test("is free the moment its process is killed: whoever comes next need not wait", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.close();
    const child = startChild("stop", { store: store.path, token, texts: ["of the child"] });
    expect(await child.next()).toBe(1);
    const other = await opened(store, token, { waitMs: 0 });
    expect(await codeOf(() => other.addLot("x", "x"))).toBe("LOCKED");
    child.kill("SIGKILL");
    expect((await child.ended).signal).toBe("SIGKILL");
    expect(await other.addLot("x", "mine")).toBe(2);
    expect(await textsOf(other)).toEqual(["of the child", "mine"]);
  });

  test("is waited for as long as each caller said, whoever else waits", async () => {
    const { store, token } = await tempAgent();
    const [short, long] = [
      await opened(store, token, { waitMs: 0 }),
      await opened(store, token, { waitMs: 60_000 }),
    ];
    const child = startChild("stop", { store: store.path, token, texts: ["of the child"] });
    expect(await child.next()).toBe(1);
    const first = codeOf(() => short.addLot("x", "does not wait"));
    const second = long.addLot("x", "waits").catch((error) => error.code);
    expect(await first).toBe("LOCKED");
    await letOn(child);
    expect(await second).toBe(2);
  });

  test("is waited for without holding up the readers of the same handle", async () => {
    const { store, token } = await tempAgent();
    const agent = await opened(store, token, { waitMs: 60_000 });
    const child = startChild("stop", { store: store.path, token, texts: ["of the child"] });
    expect(await child.next()).toBe(1);
    const write = agent.addLot("x", "waits");
    await pause(50);
    const text = await Promise.race([agent.text(1), pause(5000).then(() => "kept waiting")]);
    await letOn(child);
    expect(text).toBe("of the child");
    expect(await write).toBe(2);
  });

  test("whose file was deleted while it was held is noticed: the write is refused, nothing is written, and the next takes it anew", async () => {
    const { store, agent } = await tempAgent();
    const path = join(store.path, "locks", `${agent.id}.lock`);
    await agent.addLot("x", "one");
    unlinkSync(path);
    expect(await codeOf(() => agent.addLot("x", "while nobody knows who holds it"))).toBe("DISK");
    expect((await agent.head()).record).toBe(1);
    expect(await agent.addLot("x", "two")).toBe(2);
    expect((await agent.verify()).records).toBe(2);
  });

  test("whose file was replaced while it was held lets two in, and never both write", async () => {
    const { store, agent, token } = await tempAgent();
    // Another disk object: a handle that shares nothing with the first but the files, as another process's would.
    const other = await opened(await Store.open(store.path, { disk: { ...realDisk } }), token);
    const path = join(store.path, "locks", `${agent.id}.lock`);
    const expected: string[] = [];
    for (const round of upTo(5)) {
      await agent.addLot("x", `${round} of the first`);
      expected.push(`${round} of the first`);
      unlinkSync(path);
      writeFileSync(path, "");
      await other.addLot("x", `${round} of the other`);
      expected.push(`${round} of the other`);
      const text = `${round} of the first again`;
      if ((await codeOf(() => agent.addLot("x", text))) === null) expected.push(text);
    }
    expect(await textsOf(agent)).toEqual(expected);
    expect(await textsOf(other)).toEqual(expected);
    expect((await agent.verify()).records).toBe(expected.length);
  });

  test.each([
    ["has content", (path: string) => writeFileSync(path, "not empty")],
    ["is a folder", (path: string) => mkdirSync(path)],
  ])("that %s is no lock: DISK, and reading goes on", async (_name, plant) => {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "one");
    await agent.close();
    const path = join(store.path, "locks", `${agent.id}.lock`);
    rmSync(path, { force: true });
    plant(path);
    const again = await opened(store, token);
    expect(await codeOf(() => again.addLot("x", "two"))).toBe("DISK");
    expect(await textsOf(again)).toEqual(["one"]);
  });
});

describe("a foreign append", () => {
  async function tempForeign() {
    const { store, agent, token } = await tempAgent();
    await agent.addLot("x", "one");
    const path = join(store.path, "agents", agent.id, "log", "1", "00000001.seg");
    const isThere = () => readFileSync(path).includes("foreign");
    /** Writes where the log ends; a few bytes on, since the last ones of a marker may be zeros. */
    const append = () => {
      const bytes = readFileSync(path);
      let end = bytes.length;
      while (bytes[end - 1] === 0) end--;
      const file = openSync(path, "r+");
      writeSync(file, "foreign", end + 8);
      closeSync(file);
      expect(isThere()).toBe(true);
    };
    return { store, agent, token, path, append, isThere };
  }

  test("under a writer that has the lock is refused, and not written over", async () => {
    const { store, agent, token, append, isThere } = await tempForeign();
    append();
    expect(await codeOf(() => agent.addLot("x", "two"))).toBe("CORRUPT");
    expect(isThere()).toBe(true);
    expect(await codeOf(() => agent.addLot("x", "two"))).toBe("CLOSED");
    expect(await codeOf(() => agent.text(1))).toBe("CLOSED");
    await agent.close();
    // It is no batch: the next opening takes it for torn, and says so.
    const again = await opened(store, token);
    expect(again.opened.tornBytes).toBeGreaterThan(0);
    expect(await textsOf(again)).toEqual(["one"]);
    expect(await again.addLot("x", "two")).toBe(2);
    expect(isThere()).toBe(false);
  });

  test("between two writes is torn to whoever takes the lock next: cut off, and told", async () => {
    const { store, agent, append, isThere } = await tempForeign();
    while ((await store.lookAtLocks()).held.length > 0) await pause(5);
    append();
    expect(await agent.text(1)).toBe("one");
    expect(await agent.addLot("x", "two")).toBe(2);
    expect(agent.opened.tornBytes).toBeGreaterThan(0);
    expect(isThere()).toBe(false);
    expect(await agent.verify()).toMatchObject({ records: 2, tornBytes: 0 });
  });

  test("behind the zeros that are kept ahead is never taken for records, and is gone with the next opening", async () => {
    const { store, agent, token, path, isThere } = await tempForeign();
    appendFileSync(path, "foreign");
    expect(await agent.addLot("x", "two")).toBe(2);
    expect((await agent.verify()).records).toBe(2);
    await agent.close();
    const again = await opened(store, token);
    expect(await textsOf(again)).toEqual(["one", "two"]);
    expect(isThere()).toBe(false);
    expect(await again.verify()).toMatchObject({ records: 2, tornBytes: 0 });
  });
});
