// What the tests run as a process of its own: `node test/child.ts JOB OPTIONS`. It says on standard output what was
// acknowledged, one JSON document a line, and waits for a line on standard input where its job says so.

import { readSync, writeSync } from "node:fs";
import { type Disk, type File, realDisk } from "../src/disk.ts";
import { type Agent, Store, type StoreOptions } from "../src/index.ts";

export interface ChildOptions {
  store: string;
  token?: string;
  options?: StoreOptions;
  /** Kills itself at the so manyth operation that changes the disk, from 1, beginning with the job's own call. */
  diesAt?: number;
  /** Whether the write at which it dies is half done. */
  tears?: boolean;
  waitMs?: number;
  /** What each job takes stands at the job. */
  name?: string;
  texts?: string[];
  ids?: number[];
  group?: number;
  textBytes?: number;
  forMs?: number;
  lines?: string;
}

/** Straight to the descriptor: what was said is in the pipe, whatever comes after. */
function say(value: unknown) {
  writeSync(1, `${JSON.stringify(value)}\n`);
}

/** Waits for a line on standard input. */
function listen() {
  const byte = Buffer.alloc(1);
  while (readSync(0, byte, 0, 1, null) === 1 && byte[0] !== 10);
}

/** Counts what changes the disk, and dies at one of it. */
class DyingDisk {
  #count = 0;
  #isArmed = false;
  readonly #diesAt: number;
  readonly #tears: boolean;

  constructor(diesAt: number, tears: boolean) {
    this.#diesAt = diesAt;
    this.#tears = tears;
  }

  arm() {
    this.#isArmed = true;
  }

  #pass(half?: () => void) {
    if (!this.#isArmed || ++this.#count !== this.#diesAt) return;
    if (this.#tears) half?.();
    process.kill(process.pid, "SIGKILL");
  }

  get disk(): Disk {
    const pass = (half?: () => void) => this.#pass(half);
    const wrap = (file: File): File => ({
      path: file.path,
      stat: () => file.stat(),
      read: (into, at) => file.read(into, at),
      write(bytes, at) {
        pass(() => file.write(bytes.subarray(0, bytes.length >>> 1), at));
        file.write(bytes, at);
      },
      truncate(size) {
        pass();
        file.truncate(size);
      },
      flush() {
        pass();
        file.flush();
      },
      flushOffThread() {
        pass();
        return file.flushOffThread();
      },
      close: () => file.close(),
    });
    const counted =
      <A extends unknown[], R>(call: (...args: A) => R) =>
      (...args: A): R => {
        pass();
        return call(...args);
      };
    return {
      open: (path, access) => wrap(realDisk.open(path, access)),
      create: (path) => {
        pass();
        return wrap(realDisk.create(path));
      },
      stat: realDisk.stat,
      list: realDisk.list,
      makeFolder: counted(realDisk.makeFolder),
      rename: counted(realDisk.rename),
      removeFile: counted(realDisk.removeFile),
      removeFolder: counted(realDisk.removeFolder),
      flushFolder: counted(realDisk.flushFolder),
    };
  }
}

const [job = "", json = "{}"] = process.argv.slice(2);
const given = JSON.parse(json) as ChildOptions;
const { token = "", texts = [], ids = [], group = 1, textBytes = 20, forMs = 3_600_000 } = given;
const dying = new DyingDisk(given.diesAt ?? 0, given.tears ?? false);
const options = { ...given.options, ...(given.diesAt && { disk: dying.disk }) };
const waitMs = given.waitMs;

async function open(): Promise<Agent> {
  const store = await Store.open(given.store, options);
  return store.openAgent(token, { waitMs });
}

const jobs: Record<string, () => Promise<void>> = {
  /** Adds `texts` as lots, says their ids, and closes. */
  async lots() {
    const agent = await open();
    dying.arm();
    for (const text of texts) say(await agent.addLot("child", text));
    await agent.close();
    say("closed");
  },

  /** Adds `texts` as lots, says so once it has let the lock go, and closes when it is told to. */
  async rest() {
    const agent = await open();
    for (const text of texts) await agent.addLot("child", text);
    await new Promise((resolve) => setTimeout(resolve, 200));
    say("rests");
    listen();
    await agent.close();
    say("closed");
  },

  /** Writes batches of `group` lots until it is killed or `forMs` are over, and says [[id, text], …] of each. */
  async write() {
    const agent = await open();
    say("open");
    const end = Date.now() + forMs;
    for (let batch = 1; Date.now() < end; batch++) {
      const written = await Promise.all(
        Array.from({ length: group }, async (_, i) => {
          const text = `${given.name} ${batch}.${i} `.padEnd(textBytes, "x");
          return [await agent.addLot("child", text), text];
        }),
      );
      say(written);
    }
    await agent.close();
    say("closed");
  },

  /** Writes one text and stops itself while it has the lock; goes on when it is let, and closes. */
  async stop() {
    const agent = await open();
    const id = await agent.addLot("child", texts[0] ?? "");
    say(id);
    process.kill(process.pid, "SIGSTOP");
    await agent.close();
    say("closed");
  },

  /** Adds a text, says so, erases it, says so; over and over. */
  async erase() {
    const agent = await open();
    const end = Date.now() + forMs;
    for (let round = 1; Date.now() < end; round++) {
      const id = await agent.addLot("child", `doomed ${round}`);
      say({ added: id });
      await agent.recall([id], { disposal: "erase" });
      say({ erased: id });
      if (round % 20 === 0) await agent.compact();
    }
    await agent.close();
    say("closed");
  },

  /** Opens, says what opening found, and gives the texts of `ids` as often as it is asked. */
  async read() {
    const agent = await open();
    say(agent.opened);
    for (;;) {
      listen();
      const texts = [];
      for (const id of ids) texts.push(await agent.text(id).catch((error) => error.code));
      say(texts);
    }
  },

  /** Erases `ids`. */
  async recall() {
    const agent = await open();
    dying.arm();
    say((await agent.recall(ids, { disposal: "erase" })).erased);
    await agent.close();
    say("closed");
  },

  async compact() {
    const agent = await open();
    dying.arm();
    say((await agent.compact()).textsDropped);
    await agent.close();
    say("closed");
  },

  async import() {
    const agent = await open();
    dying.arm();
    say((await agent.import(given.lines ?? "")).ids.length);
    await agent.close();
    say("closed");
  },

  /** Opens the store, new perhaps, creates an agent of that `name` with a kept token, and says the token or the refusal. */
  async create() {
    dying.arm();
    const store = await Store.open(given.store, { ...options, waitMs });
    const created = store.createAgent(given.name ?? "", { keepToken: true });
    say(
      await created.then(
        ({ token }) => token,
        ({ code }) => ({ code }),
      ),
    );
  },

  async delete() {
    const store = await Store.open(given.store, options);
    dying.arm();
    await store.deleteAgent(given.name ?? "");
    say("deleted");
  },
};

await jobs[job]?.();
