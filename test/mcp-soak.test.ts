// Many sessions at once on one agent: servers, the command line and a program, none of which holds the lock between calls;
// and servers that are killed at random moments while they write. SOAK_SECONDS says for how long, SEED repeats a run's chance.

import { type ChildProcess, spawn } from "node:child_process";
import { describe, expect, onTestFinished, test } from "vitest";
import { Store } from "../src/index.ts";
import { asAgent, CLI, emptyStore, result, shellQuoted } from "./cli-helpers.ts";
import { chance, collect, SEED } from "./helpers.ts";
import { openSession, range, type Server, startServer } from "./mcp-helpers.ts";

const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 6);
const SERVERS = 8;
const SHELLS = 2;
/** Longer than it takes, however slow the machine: nobody is to be refused. */
const PATIENT = ["--wait", "60"];

console.log(`SEED=${SEED}`);

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

describe("several servers, the command line and a program on one agent", () => {
  test("see each other's writes at their next call, and none of them keeps the lock", async () => {
    const { store, token } = await emptyStore();
    const sessions = await Promise.all([
      openSession(store),
      openSession(store, { era: { pin: "2026-07-28" } }),
      openSession(store),
    ]);
    const program = await (await Store.open(store)).openAgent(token);
    onTestFinished(() => program.close());
    const doors: ((text: string) => Promise<number>)[] = [
      ...sessions.map((session) => async (text: string) => {
        const { id } = await session.call("remember", { text, from: [[1]] });
        return id as number;
      }),
      async (text) => (await result(["remember", "alice", text, "--from", "1"], { store })).id,
      (text) => program.remember(text, [[1]]),
    ];
    await program.addLot("x", "a source");
    for (const round of range(3)) {
      for (const [door, write] of doors.entries()) {
        const expected = 1 + (round - 1) * doors.length + door + 1;
        const text = `round ${round}, door ${door}`;
        expect(await write(text)).toBe(expected);
        // Each of the others, at once.
        for (const session of sessions) {
          const { memories } = await session.call("list_memories", { limit: 1 });
          expect(memories[0]).toMatchObject({ id: expected, text });
        }
        expect(await program.text(expected)).toBe(text);
      }
    }
    // What one door recalls, no other builds on.
    const { plan } = await sessions[0].call("recall_bad_source", { ids: [2], mode: "fair" });
    await sessions[0].call("recall_bad_source", { ids: [2], mode: "fair", plan });
    await sessions[1].refused("DEAD_PARENT", "remember", { text: "on 2", from: [[2]] });
    expect(await program.alive([2, 3])).toEqual([3]);
    const { memories } = await result(["list", "alice", "--memories"], { store });
    expect(memories.map(({ id }: { id: number }) => id)).toEqual(range(16, 3));
    // Nor does it matter that the files are rewritten under them.
    await result(["compact", "alice"], { store });
    for (const [i, session] of sessions.entries())
      expect(await session.call("remember", { text: "after", from: [[1]] })) //
        .toMatchObject({ id: 17 + i });
    for (const session of sessions) await session.close();
  });

  test("write all at the same time, and nothing is lost or doubled", async () => {
    const { store, token } = await emptyStore();
    const servers = range(3).map(() => startServer(store));
    await Promise.all(servers.map((server) => server.initialize()));
    const program = await (await Store.open(store)).openAgent(token);
    onTestFinished(() => program.close());
    const written: [number, string][] = [];
    const note = async (text: string, id: Promise<number>) => void written.push([await id, text]);
    await Promise.all([
      // Each server is told everything at once.
      ...servers.flatMap((server, door) =>
        range(40).map((i) => {
          const text = `server ${door}, ${i}`;
          const call = server.callByHand("add_source", { label: "x", text });
          return note(
            text,
            call.then(({ structuredContent }) => structuredContent.id),
          );
        }),
      ),
      ...range(40).map((i) => note(`program ${i}`, program.addLot("x", `program ${i}`))),
      ...range(3).map((i) =>
        note(
          `command ${i}`,
          result(["lot", "alice", "x", `command ${i}`], { store }).then(({ id }) => id),
        ),
      ),
    ]);
    written.sort(([a], [b]) => a - b);
    expect(written.map(([id]) => id)).toEqual(range(163));
    const entries = await collect(program.entries());
    expect(entries.map(({ text }) => text)).toEqual(written.map(([, text]) => text));
    for (const server of servers) await server.close();
  });
});

describe("servers that are killed while they write", () => {
  interface Ran {
    acknowledged: Map<string, number>;
    sent: Set<string>;
    removed: Set<number>;
    refusals: Record<string, number>;
    kills: number;
  }

  /** One session after another, each until it is killed or the time is over, with one call under way. */
  async function sessions(
    name: string,
    ran: Ran,
    random: () => number,
    isOver: () => boolean,
    start: () => Server,
  ) {
    for (let life = 1; !isOver(); life++) {
      const server = start();
      if ((await server.ask("tools/list")) === null) continue;
      const known: number[] = [];
      const some = () => known[Math.floor(random() * known.length)] as number;
      for (let n = 1; !isOver(); n++) {
        const text = `${name}.${life} ${n} `.padEnd(20 + Math.floor(random() ** 4 * 5000), "x");
        const choice = random();
        let call: [string, object];
        if (choice < 0.4 || known.length === 0) call = ["add_source", { label: "soak", text }];
        else if (choice < 0.8) call = ["remember", { text, from: [[some()], [some(), some()]] }];
        else if (choice < 0.9) call = ["list_memories", { limit: 5 }];
        else if (choice < 0.97) call = ["explain_memory", { id: some() }];
        else
          call = ["recall_bad_source", { ids: [some()], mode: random() < 0.5 ? "fair" : "strict" }];
        const isWrite = call[0] === "add_source" || call[0] === "remember";
        if (isWrite) ran.sent.add(text);
        let answer = await server.callByHand(...call);
        if (call[0] === "recall_bad_source" && answer?.structuredContent) {
          const { plan } = answer.structuredContent;
          answer = await server.callByHand(call[0], { ...call[1], plan });
          const { targets = [], removed = [] } = answer?.structuredContent ?? {};
          for (const id of [...targets, ...removed]) ran.removed.add(id);
        }
        // Killed.
        if (!answer) break;
        if (answer.isError) {
          const code = answer.content[0].text.split(":")[0];
          ran.refusals[code] = (ran.refusals[code] ?? 0) + 1;
        } else if (isWrite) {
          ran.acknowledged.set(text, answer.structuredContent.id);
          known.push(answer.structuredContent.id);
        }
      }
      if (isOver()) await server.close();
    }
  }

  /** A shell that adds one source after another with the command line; a line for each that was acknowledged. */
  function shell(name: string, store: string, ran: Ran): ChildProcess {
    const command = [...CLI, "lot", ...PATIENT, "alice", "shell"].map(shellQuoted).join(" ");
    const child = spawn(
      "sh",
      [
        "-c",
        `i=0; while :; do i=$((i+1)); echo "sent $i"; r=$(${command} "${name} $i" --json) && echo "done $i" $r; done`,
      ],
      {
        detached: true,
        env: { PATH: process.env.PATH ?? "", HOME: "/nobody/at/home", CHEESEDB_DIR: store },
        stdio: ["ignore", "pipe", "ignore"],
      },
    );
    let half = "";
    child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
      const lines = (half + piece).split("\n");
      half = lines.pop() ?? "";
      for (const line of lines) {
        const [, what, i, json] = /^(sent|done) (\d+) ?(.*)$/.exec(line) ?? [];
        if (what === "sent") ran.sent.add(`${name} ${i}`);
        else if (json) ran.acknowledged.set(`${name} ${i}`, JSON.parse(json).id);
      }
    });
    return child;
  }

  /** With all that it started. */
  const killShell = (child: ChildProcess) =>
    new Promise<void>((resolve) => {
      if (child.stdout?.closed) return resolve();
      child.on("close", () => resolve());
      process.kill(-(child.pid as number), "SIGKILL");
    });

  test(
    `for ${SOAK_SECONDS} seconds, eight of them and two shells: every acknowledged entry is there, none twice, and verify is clean`,
    async () => {
      const { store } = await emptyStore();
      const random = chance(SEED);
      const ran: Ran = {
        acknowledged: new Map(),
        sent: new Set(),
        removed: new Set(),
        refusals: {},
        kills: 0,
      };
      const servers = range(SERVERS).map(() => startServer(store, { flags: PATIENT }));
      await Promise.all(servers.map((server) => server.ask("tools/list")));
      const until = Date.now() + SOAK_SECONDS * 1000;
      const isOver = () => Date.now() > until;
      const first = [...servers];
      const shells = range(SHELLS).map((i) => shell(`shell ${i}`, store, ran));
      onTestFinished(async () => void (await Promise.all(shells.map(killShell))));
      const loops = range(SERVERS).map((i) =>
        sessions(`server ${i}`, ran, chance(SEED + i), isOver, () => {
          const server = first[i - 1] ?? startServer(store, { flags: PATIENT });
          delete first[i - 1];
          servers[i - 1] = server;
          return server;
        }),
      );
      for (let kill = 1; !isOver(); kill++) {
        await pause(100 + random() * 400);
        if (random() < 0.15) {
          const at = Math.floor(random() * SHELLS);
          await killShell(shells[at] as ChildProcess);
          shells[at] = shell(`shell ${at + 1} after kill ${kill}`, store, ran);
        } else (servers[Math.floor(random() * SERVERS)] as Server).child.kill("SIGKILL");
        ran.kills++;
      }
      await Promise.all(loops);
      await Promise.all(shells.map(killShell));

      const { acknowledged, sent, removed, refusals, kills } = ran;
      const { entries, alive, report } = await asAgent(store, "alice", async (alice) => ({
        entries: await collect(alice.entries()),
        alive: await alice.alive(removed),
        report: await alice.verify(),
      }));
      console.log(
        `${kills} kills; ${acknowledged.size} acknowledged of ${entries.length} entries; refused: ${JSON.stringify(refusals)}`,
      );
      expect(report).toMatchObject({ ok: true, tornBytes: 0, erasesPending: 0 });
      // Every acknowledged entry, under its number.
      const lost = [...acknowledged].filter(([text, id]) => entries[id - 1]?.text !== text);
      expect(lost).toEqual([]);
      // None twice, and none that nobody sent.
      const texts = entries.map(({ text }) => text as string);
      expect(new Set(texts).size).toBe(texts.length);
      expect(texts.filter((text) => !sent.has(text))).toEqual([]);
      // What was not acknowledged and is there all the same was under way at a kill, or at the end of the shells.
      expect(texts.length - acknowledged.size).toBeLessThanOrEqual(kills + SHELLS);
      expect(alive).toEqual([]);
      // Others may recall what one stands on, or change a plan; nothing else goes wrong, and nobody waits in vain.
      const foreseen = ["DEAD_PARENT", "PLAN_STALE"];
      expect(Object.keys(refusals).filter((code) => !foreseen.includes(code))).toEqual([]);
      // Each had its turn, if there was time for it.
      const had = (name: string) => [...acknowledged.keys()].some((text) => text.startsWith(name));
      const names = [...range(SERVERS).map((i) => `server ${i}.`), "shell 1", "shell 2"];
      expect(names.some(had)).toBe(true);
      if (SOAK_SECONDS >= 30) expect(names.filter((name) => !had(name))).toEqual([]);
    },
    SOAK_SECONDS * 1000 + 120_000,
  );
});
