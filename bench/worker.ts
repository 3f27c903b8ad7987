// One engine in a process of its own, driven by messages, so that engines take turns without sharing a heap or a compiler.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type EngineName, makeEngine } from "./engines/all.ts";
import { CheeseDb } from "./engines/cheesedb.ts";
import { Floor } from "./engines/floor.ts";
import { hashOfIds, makeGraph } from "./graph.ts";

export type WorkerName = EngineName | "floor";

export type Order =
  | { do: "load" }
  | { do: "open" }
  | { do: "recall"; lot: number; erase: boolean }
  | { do: "lookUp"; id: number }
  | { do: "bytes" }
  | { do: "close" };

export interface Answer {
  error?: string;
  /** What the order took, without what only the bench needs. */
  ms: number;
  /** Of a recall: the memories removed. */
  hash: string;
  count: number;
  /** Of a recall by cheesedb: survivors and reasons, read after it; by the floor: the zeroing alone. */
  besideMs: number;
  /** Of opening: what heap and array buffers grew by, and the process's resident size. */
  heapBytes: number;
  residentBytes: number;
  bytes: number;
}

const CACHE_BYTES = 64 * 2 ** 20;
const CACHE_LINE = 64;

/** The other side: a process that holds one engine. */
export class Contestant {
  readonly name: WorkerName;
  readonly #child: ChildProcess;

  constructor(name: WorkerName, folder: string, size: number) {
    this.name = name;
    this.#child = fork(fileURLToPath(import.meta.url), [name, folder, String(size)], {
      execArgv: ["--no-warnings", "--expose-gc", "--max-old-space-size=8192"],
    });
    this.#child.setMaxListeners(0);
  }

  async ask(order: Order): Promise<Answer> {
    const answer = await new Promise<Answer>((resolve, reject) => {
      const ended = (code: number | null) => reject(new Error(`${this.name} ended with ${code}`));
      this.#child.once("exit", ended);
      this.#child.once("message", (message) => {
        this.#child.off("exit", ended);
        resolve(message as Answer);
      });
      this.#child.send(order);
    });
    if (answer.error) throw new Error(`${this.name}: ${answer.error}`);
    return answer;
  }

  /** Closes the engine, and waits for the process to end. */
  async end() {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    await this.ask({ do: "close" });
    this.#child.disconnect();
    await ended;
  }
}

// ----- in the process -----

async function serve(name: WorkerName, folder: string, size: number) {
  const engine = name === "floor" ? null : makeEngine(name, folder, size);
  let floor: Floor | null = null;
  const other = new Int32Array(CACHE_BYTES / 4);

  /** What another program would do between two calls: the graph leaves the CPU's caches. */
  const coolCaches = () => {
    for (let i = 0; i < other.length; i += CACHE_LINE / 4) other[i] = (other[i] as number) + 1;
  };
  const heap = () => {
    globalThis.gc?.();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };

  const carryOut = async (order: Order): Promise<Partial<Answer>> => {
    const begin = () => {
      const begun = performance.now();
      return () => performance.now() - begun;
    };
    switch (order.do) {
      case "load":
        return { ms: (await engine?.load(makeGraph(size))) ?? 0 };
      case "open": {
        if (!engine) {
          const graph = makeGraph(size);
          floor = new Floor(graph, folder);
          if (process.env.BENCH_LOG_OF) floor.useLogOf(process.env.BENCH_LOG_OF, graph.lots + size);
          return {};
        }
        const before = heap();
        const passed = begin();
        await engine.open();
        const ms = passed();
        const heapBytes = heap() - before;
        return { ms, heapBytes, residentBytes: process.memoryUsage().rss };
      }
      case "recall": {
        coolCaches();
        const { lot, erase } = order;
        const passed = begin();
        if (floor) floor.recall(lot, erase);
        else await engine?.recall(lot, erase);
        const ms = passed();
        const removed = floor ? floor.removed() : ((await engine?.removed()) ?? []);
        let besideMs = floor?.zeroingMs ?? 0;
        if (engine instanceof CheeseDb) {
          const passed = begin();
          const { survivors, reasons } = engine.outcome;
          besideMs = survivors.length + reasons.length > 0 ? passed() : 0;
        }
        const ids = Array.from(removed);
        return { ms, besideMs, hash: hashOfIds(ids), count: ids.length };
      }
      case "lookUp": {
        const passed = begin();
        await engine?.lookUp(order.id);
        return { ms: passed() };
      }
      case "bytes":
        return { bytes: (await engine?.bytes()) ?? 0 };
      case "close":
        await engine?.close();
        return {};
    }
  };

  process.on("message", async (order: Order) => {
    try {
      process.send?.(await carryOut(order));
    } catch (error) {
      process.send?.({ error: (error as Error).stack });
    }
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, folder, size] = process.argv.slice(2) as [WorkerName, string, string];
  await serve(name, folder, Number(size));
}
