// Real processes are killed: at random moments while several work on one store, and at each system call that changes the disk.
// Every acknowledged write is there, none twice, what was under way is whole or absent, and what was erased is gone.
//
// The kills at system calls need `strace`; without it they are left out, and counted as none.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CheeseError, Store } from "../../src/index.ts";
import { chance } from "../chance.ts";
import type { Campaign, Failure } from "./campaign.ts";
import { type KilledOptions, type Said, textOf } from "./killed.ts";
import {
  type Image,
  openHealthy,
  readImage,
  requireTidy,
  stands,
  type View,
  viewOf,
  workFolder,
  writeImage,
} from "./stores.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const KILLED = join(ROOT, "test", "campaign", "killed.ts");
const BIN = join(ROOT, "bin", "run.js");
/** The command line runs from what was built. */
const HAS_COMMANDS = existsSync(join(ROOT, "dist", "cli", "index.js"));
export const HAS_STRACE = spawnSync("strace", ["--version"]).status === 0;

const NAMES = ["alice", "bob"] as const;
type Name = (typeof NAMES)[number];

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

// ----- a soak of several processes -----

/** What one process said before it ended. */
interface Life {
  name: string;
  agent: Name;
  written: [number, string][];
  erased: string[];
  wasKilled: boolean;
  isCommand: boolean;
}

class Soak {
  readonly path: string;
  readonly #cache: string;
  readonly #random: () => number;
  readonly #tokens = new Map<Name, string>();
  /** What must be there: text by id. */
  readonly #expected = new Map<Name, Map<number, string>>();
  readonly #fingerprints = new Map<Name, string>();
  #lives = 0;
  entries = 0;

  private constructor(folder: string, random: () => number) {
    this.path = join(folder, "soak");
    this.#cache = join(folder, "compiled");
    this.#random = random;
  }

  static async begin(folder: string, random: () => number): Promise<Soak> {
    const soak = new Soak(folder, random);
    rmSync(soak.path, { recursive: true, force: true });
    const store = await Store.open(soak.path);
    for (const name of NAMES) {
      const { token } = await store.createAgent(name, { keepToken: true });
      soak.#tokens.set(name, token);
      soak.#expected.set(name, new Map());
    }
    return soak;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  /** Several processes at once, each killed and followed by the next, so many times; then all is looked at. */
  async round(processes: number, kills: number): Promise<{ kills: number; ofCommands: number }> {
    const lives: Life[] = [];
    let hasFailed = false;
    const slots = Array.from({ length: processes }, async () => {
      try {
        for (let i = 0; i < kills && !hasFailed; i++) lives.push(await this.#live());
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
    // All of them end, whatever one says: nobody is left behind who still writes, or who was stopped.
    const ends = await Promise.allSettled(slots);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    await this.#check(lives);
    const killed = lives.filter(({ wasKilled }) => wasKilled);
    return {
      kills: killed.length,
      ofCommands: killed.filter(({ isCommand }) => isCommand).length,
    };
  }

  /** Starts a process and ends it. */
  async #live(): Promise<Life> {
    const random = this.#random;
    const agent = NAMES[this.#below(NAMES.length)] as Name;
    const isCommand = HAS_COMMANDS && random() < 0.08;
    const life: Life = {
      name: `life${++this.#lives}`,
      agent,
      written: [],
      erased: [],
      wasKilled: false,
      isCommand,
    };
    const text = textOf(life.name, 1, 0, 1);
    const options: KilledOptions = {
      store: this.path,
      token: this.#tokens.get(agent) ?? "",
      name: life.name,
      seed: this.#below(2 ** 31),
    };
    const args = isCommand
      ? [BIN, "lot", agent, "killed", text, "--json", "--wait", "60"]
      : [KILLED, JSON.stringify(options)];
    const child = spawn(process.execPath, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_COMPILE_CACHE: this.#cache, CHEESEDB_DIR: this.path },
    });
    let said = "";
    let errors = "";
    let isOpen = () => {};
    const opened = new Promise<void>((resolve) => {
      isOpen = resolve;
    });
    child.stdout.setEncoding("utf8").on("data", (part: string) => {
      said += part;
      isOpen();
    });
    child.stderr.setEncoding("utf8").on("data", (part: string) => {
      errors += part;
    });
    const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
      child.on("close", (code, signal) => {
        isOpen();
        resolve(signal ?? code);
      });
    });
    // While it starts, opens and recovers; or while it works.
    if (isCommand) await Promise.race([ended, pause(100 + this.#below(300))]);
    else if (random() < 0.2) await pause(this.#below(250));
    else await Promise.all([opened, opened.then(() => pause(this.#below(60)))]);
    await this.#stopAndKill(child);
    const how = await ended;
    life.wasKilled = how === "SIGKILL";
    // A command that came to its end may have had a note to give: that it finished another's erase.
    if (!life.wasKilled && how !== 0)
      throw new Error(`${life.name} ended by itself with ${how}: ${errors}`);
    if (isCommand) {
      if (said.trimEnd().endsWith("}"))
        life.written.push([(JSON.parse(said) as { id: number }).id, text]);
    } else {
      for (const line of said.split("\n").slice(0, -1)) {
        const one = JSON.parse(line) as Said;
        if ("written" in one) life.written.push(...one.written);
        if ("erased" in one) life.erased.push(...one.erased);
      }
    }
    return life;
  }

  async #stopAndKill(child: ChildProcess) {
    if (this.#random() < 0.3) {
      child.kill("SIGSTOP");
      await pause(1 + this.#below(20));
      if (this.#random() < 0.5) {
        child.kill("SIGCONT");
        await pause(this.#below(10));
      }
    }
    child.kill("SIGKILL");
  }

  async #check(lives: Life[]) {
    const store = await openHealthy(this.path);
    for (const name of NAMES) {
      const token = this.#tokens.get(name) ?? "";
      const expect = this.#fingerprints.get(name);
      const agent = await store.openAgent(token);
      try {
        const found = new Map<number, string>();
        for await (const { id, text } of agent.entries()) if (text !== null) found.set(id, text);
        this.#checkAgent(
          name,
          found,
          lives.filter(({ agent }) => agent === name),
        );
        if (expect) await agent.verify({ expect });
        this.#fingerprints.set(name, (await agent.head()).fingerprint);
      } finally {
        await agent.close();
      }
    }
    await requireTidy(store);
    this.#checkBytes();
    this.entries = Math.max(...[...this.#expected.values()].map(({ size }) => size));
  }

  #checkAgent(name: Name, found: Map<number, string>, lives: Life[]) {
    const expected = this.#expected.get(name) as Map<number, string>;
    for (const { written } of lives) for (const [id, text] of written) expected.set(id, text);
    const erased = new Set(lives.flatMap(({ erased }) => erased));
    for (const [id, text] of expected) if (erased.has(text)) expected.delete(id);
    const times = new Map<string, number>();
    for (const text of found.values()) times.set(text, (times.get(text) ?? 0) + 1);
    for (const [text, count] of times)
      if (count > 1) throw new Error(`"${text.slice(0, 30)}" stands ${count} times in ${name}`);
    // Of each life one erase may have been under way: of a lot, and of what was learned from it.
    const missing = new Map<string, number[]>();
    for (const [id, text] of expected) {
      const now = found.get(id);
      if (now === text) continue;
      if (now !== undefined) throw new Error(`entry ${id} of ${name} holds another text`);
      const life = text.split(" ")[0] ?? "";
      missing.set(life, [...(missing.get(life) ?? []), id]);
      expected.delete(id);
    }
    for (const [life, ids] of missing)
      this.#requireUnderWay(
        life,
        ids,
        lives.find(({ name }) => name === life),
      );
    for (const [id, text] of found) {
      if (expected.has(id)) continue;
      if (erased.has(text)) throw new Error(`"${text.slice(0, 30)}" is back in ${name}`);
      expected.set(id, text);
      this.#requireNext(text, found, lives);
    }
  }

  /** What was acknowledged and is gone must be one lot that was being erased, and memories; all in a life that just ended. */
  #requireUnderWay(name: string, ids: number[], life: Life | undefined) {
    const batches = new Map<string, number>();
    for (const id of ids) {
      const text = life?.written.find(([written]) => written === id)?.[1] ?? "";
      // Batches of one may be memories.
      const [, batch = "", count = "0"] = / (\d+)\.\d+\/(\d+) /.exec(text) ?? [];
      batches.set(batch, Number(count));
    }
    const isOne =
      life !== undefined &&
      ids.length === batches.size &&
      [...batches.values()].filter((count) => count > 1).length <= 1;
    if (!isOne) throw new Error(`entries ${ids} of ${name}, which were acknowledged, are lost`);
  }

  /** What was not acknowledged and is there must be of the batch under way, and all of it. */
  #requireNext(text: string, found: Map<number, string>, lives: Life[]) {
    const [, name = "", batch = "", count = "0"] = /^(\w+) (\d+)\.\d+\/(\d+) /.exec(text) ?? [];
    const life = lives.find((one) => one.name === name);
    const last = Math.max(0, ...(life?.written ?? []).map(([, said]) => batchOf(said)));
    const whole = [...found.values()].filter((one) => one.startsWith(`${name} ${batch}.`));
    // A batch without a text that was said is one that only erased, compacted or closed: none is passed over.
    if (!life || Number(batch) !== last + 1 || whole.length !== Number(count)) {
      throw new Error(
        `"${text.slice(0, 30)}" was never acknowledged; ${whole.length} of ${count} are there, and ${name} last said ${last}`,
      );
    }
  }

  /** Every text in the files, whole or in part, is one that an agent shows. */
  #checkBytes() {
    const shown = new Set(
      [...this.#expected.values()].flatMap((texts) =>
        [...texts.values()].map((text) => text.slice(0, text.indexOf("/"))),
      ),
    );
    let count = 0;
    for (const [file, bytes] of readImage(this.path)) {
      for (const [, text = ""] of bytes?.toString("latin1").matchAll(/(life\d+ \d+\.\d+)\//g) ??
        []) {
        count++;
        if (!shown.has(text)) throw new Error(`"${text}" stands in ${file}, and is not shown`);
      }
    }
    if (count < shown.size) throw new Error(`of ${shown.size} texts ${count} stand in the files`);
  }
}

function batchOf(text: string): number {
  return Number(/ (\d+)\./.exec(text)?.[1] ?? 0);
}

// ----- at each system call -----

const CANARY = "Quendoline Birchwhistle";
const OF_BOB = "Fotheringay of Zanzibar";
/** Those by which a command changes the disk. */
const SYSTEM_CALLS = [
  "write",
  "pwrite64",
  "fsync",
  "fdatasync",
  "rename",
  "renameat2",
  "unlink",
  "unlinkat",
  "rmdir",
  "ftruncate",
  "mkdir",
  "openat",
];

interface Command {
  args: string[];
  stdin?: string;
  /** A text that stands nowhere once it is done. */
  erases?: string;
}

const lines = [
  { kind: "cheesedb", version: 1 },
  { kind: "lot", id: 1, label: "a", text: "imported one", uri: null, state: "alive" },
  { kind: "memory", id: 2, legs: [[1]], text: "imported two", state: "alive" },
].map((line, i) => ({ ...line, ...(i > 0 && { record: i, time: "2026-01-01T00:00:00.000Z" }) }));

const COMMANDS: Command[] = [
  { args: ["lot", "alice", "web_page", "one more lot"] },
  { args: ["remember", "alice", "one more memory", "--from", "1"] },
  { args: ["corroborate", "alice", "3", "--from", "1"] },
  { args: ["recall", "alice", "2", "--erase"], erases: CANARY },
  { args: ["compact", "alice"] },
  { args: ["agent", "create", "carol"] },
  { args: ["agent", "delete", "bob", "--yes"], erases: OF_BOB },
  {
    args: ["import", "alice", "-"],
    stdin: lines.map((line) => JSON.stringify(line)).join("\n"),
  },
];

/** A place in a command: the n-th call of a thread of its process. */
export interface Point {
  command: Command;
  call: string;
  nth: number;
}

interface Prepared {
  image: Image;
  before: View;
}

async function prepare(folder: string): Promise<Prepared> {
  const path = join(folder, "prepared");
  const store = await Store.open(path, { segmentBytes: 700 });
  for (const [name, text] of [
    ["alice", CANARY],
    ["bob", OF_BOB],
  ] as const) {
    const { token } = await store.createAgent(name, { keepToken: true });
    const agent = await store.openAgent(token);
    await agent.addLot("user_message", `what the user said to ${name}`);
    await agent.addLot("web_page", `${text}, of a page`);
    await agent.remember(`learned that ${text}`, [[2]]);
    await agent.addLot("web_page", "soon dead".padEnd(300, "d"));
    await agent.recall([4]);
    await agent.close();
  }
  const image = readImage(path);
  return { image, before: await viewOf(await Store.open(path, { readOnly: true })) };
}

/** Runs a command to its end, under a tracer if one is given. */
function run(path: string, { args, stdin }: Command, tracer: string[] = []) {
  const [program = "", ...rest] = [...tracer, process.execPath, BIN, ...args];
  return spawnSync(program, rest, {
    input: stdin ?? "",
    encoding: "utf8",
    env: { ...process.env, CHEESEDB_DIR: path, NODE_COMPILE_CACHE: `${path}.compiled` },
  });
}

/** What a command leaves when nobody kills it, and every place at which it changes the store or says that it did. */
async function pointsOf(
  path: string,
  { image }: Prepared,
  command: Command,
): Promise<{ after: View; points: Point[] }> {
  // Once before, so that what is compiled then is not compiled again, and the calls are the same every time.
  writeImage(path, image);
  run(path, command);
  writeImage(path, image);
  const log = `${path}.trace`;
  const tracer = ["strace", "-f", "-y", "-s", "0", "-e", `trace=${SYSTEM_CALLS}`, "-o", log];
  const { status, stderr } = run(path, command, tracer);
  if (status !== 0) throw new Error(`${command.args.join(" ")} ended with ${status}: ${stderr}`);
  const counts = new Map<string, number>();
  const points: Point[] = [];
  for (const line of readFileSync(log, "utf8").split("\n")) {
    const [, thread = "", call = ""] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    const nth = (counts.get(thread + call) ?? 0) + 1;
    counts.set(thread + call, nth);
    const isOfStore = line.includes(path) && !line.includes("/locks/");
    const isWanted =
      call === "write"
        ? /^\d+ +write\(1</.test(line)
        : isOfStore && (call !== "openat" || line.includes("O_CREAT"));
    if (isWanted) points.push({ command, call, nth });
  }
  rmSync(log);
  const after = await viewOf(await openHealthy(path));
  return { after, points };
}

/** Kills a command at a point, and looks at what it left. */
async function killAt(
  path: string,
  { image, before }: Prepared,
  after: View,
  { command, call, nth }: Point,
): Promise<{ wasKilled: boolean }> {
  writeImage(path, image);
  const inject = ["-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${nth}`];
  const tracer = ["strace", "-f", ...inject, "-o", "/dev/null"];
  const { status, signal, stderr } = run(path, command, tracer);
  const wasKilled = signal === "SIGKILL";
  if (!wasKilled && status !== 0) throw new Error(`it ended with ${status}: ${stderr}`);
  const store = await openHealthy(path);
  const view = await viewOf(store);
  const possible = wasKilled ? [before, after] : [after];
  if (!possible.some((one) => JSON.stringify(one) === JSON.stringify(view)))
    throw new Error(`it leaves ${JSON.stringify(view)}`);
  await requireTidy(store);
  const { erases } = command;
  if (erases && !JSON.stringify(view).includes(erases) && stands(readImage(path), erases))
    throw new Error(`"${erases}" stands in the files, and nobody is shown it`);
  for (const name of Object.keys(view)) {
    const agent = await store.openAgent(store.keptToken(name) ?? "");
    await agent.addLot("x", "and on");
    await agent.close();
  }
  return { wasKilled };
}

// ----- the campaign -----

const PROCESSES = 4;
const KILLS_A_ROUND = 6;
const POINTS_A_ROUND = 6;
const ENTRIES_MAX = 2500;

export const kills: Campaign = async ({ seed, more, keep }) => {
  const random = chance(seed);
  const folder = workFolder();
  const failures: Failure[] = [];
  const counts = {
    "kills at a random moment": 0,
    "of these, of commands": 0,
    "kills at a system call": 0,
  };
  let done = 0;
  const attempt = async (what: string, path: string, run: () => Promise<void>) => {
    try {
      await run();
    } catch (error) {
      let left = join(keep, `kills-${seed}-${done}`);
      try {
        writeImage(left, readImage(path));
      } catch (cause) {
        // A process of the round may still be at work in it.
        left = `nothing: ${(cause as Error).message}`;
      }
      const facts = error instanceof CheeseError ? ` (${error.code})` : "";
      failures.push({
        what: `${what}: ${(error as Error).message}${facts}`,
        repeat: `SEED=${seed}, after ${done} kills; left in ${left}`,
      });
    }
  };
  try {
    const path = join(folder, "traced");
    const points: { point: Point; after: View }[] = [];
    const waiting = HAS_STRACE && HAS_COMMANDS ? [...COMMANDS] : [];
    for (let i = waiting.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [waiting[i], waiting[j]] = [waiting[j] as Command, waiting[i] as Command];
    }
    const prepared = await prepare(folder);
    let soak = await Soak.begin(folder, random);
    while (more(done)) {
      let isBroken = true;
      await attempt("a soak", soak.path, async () => {
        const round = await soak.round(PROCESSES, KILLS_A_ROUND);
        counts["kills at a random moment"] += round.kills;
        counts["of these, of commands"] += round.ofCommands;
        done += round.kills;
        isBroken = false;
      });
      if (isBroken) done++;
      if (isBroken || soak.entries > ENTRIES_MAX) soak = await Soak.begin(folder, random);
      for (let i = 0; i < POINTS_A_ROUND && more(done); i++) {
        if (points.length === 0) {
          const command = waiting.shift();
          if (!command) break;
          await attempt(command.args.join(" "), path, async () => {
            const { after, points: found } = await pointsOf(path, prepared, command);
            for (const point of found) points.push({ point, after });
          });
          continue;
        }
        const [next] = points.splice(Math.floor(random() * points.length), 1);
        if (!next) break;
        const { point, after } = next;
        const what = `${point.command.args.join(" ")}, killed at ${point.call} ${point.nth}`;
        await attempt(what, path, async () => {
          const { wasKilled } = await killAt(path, prepared, after, point);
          if (wasKilled) counts["kills at a system call"]++;
        });
        done++;
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { counts, failures };
};

export const campaign = kills;
