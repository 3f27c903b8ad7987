// Has segments inspected: on all cores where there is much to read and the disk is the real one, else in slices on this thread.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { type Disk, realDisk } from "./disk.ts";
import { type Findings, type Inspection, inspect } from "./inspect.ts";
import { inSlices } from "./tick.ts";

/** Below this a thread takes longer to start than to help. */
const THREADS_FROM_BYTES = 16 * 1024 * 1024;
const THREADS_MAX = 8;
const SLICE_MS = 10;
const WORKER = new URL(
  import.meta.url.endsWith(".ts") ? "./inspectworker.ts" : "./inspectworker.js",
  import.meta.url,
);

export class Inspectors {
  readonly #disk: Disk;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: (bytes: number) => void;
  readonly #waiting: Inspection[] = [];
  readonly #findings: Findings[] = [];
  readonly #threads = new Map<Worker, Inspection | null>();
  #wake: () => void = () => {};

  /** Whether so much on a disk is inspected on other threads. */
  static useThreads(disk: Disk, bytes: number): boolean {
    return disk === realDisk && bytes >= THREADS_FROM_BYTES && availableParallelism() > 1;
  }

  /** @param onProgress told of the bytes that were inspected since it was told last */
  constructor(
    disk: Disk,
    bytes: number,
    signal: AbortSignal | undefined,
    onProgress: (bytes: number) => void,
  ) {
    this.#disk = disk;
    this.#signal = signal;
    this.#onProgress = onProgress;
    if (!Inspectors.useThreads(disk, bytes)) return;
    const count = Math.min(availableParallelism(), THREADS_MAX);
    for (let i = 0; i < count; i++) this.#start();
  }

  #start() {
    const thread = new Worker(WORKER, { execArgv: [], stdin: false });
    thread.on("message", (findings: Findings) => {
      const job = this.#threads.get(thread);
      if (job) this.#take(job, findings);
      this.#next(thread);
    });
    thread.on("error", () => {
      // A bundle that left the thread's file behind, a file that cannot be read: this thread does it, and says what is wrong.
      const job = this.#threads.get(thread);
      this.#threads.delete(thread);
      if (job) this.#waiting.unshift(job);
      this.#dispatch();
      this.#wake();
    });
    this.#threads.set(thread, null);
  }

  #take(job: Inspection, findings: Findings) {
    this.#findings.push(findings);
    this.#onProgress(job.end);
    this.#wake();
  }

  #next(thread: Worker) {
    const job = this.#waiting.shift() ?? null;
    this.#threads.set(thread, job);
    if (job) thread.postMessage(job);
  }

  /** Hands a segment to whoever is free. */
  add(job: Inspection) {
    this.#waiting.push(job);
    this.#dispatch();
  }

  #dispatch() {
    for (const [thread, busyWith] of this.#threads) if (!busyWith) this.#next(thread);
  }

  /** What was found in all of them, in the order of the segments. @throws the signal's reason; CheeseError DISK */
  async all(): Promise<Findings[]> {
    // Once for all: a listener for every segment would be one too many for Node.
    this.#signal?.addEventListener("abort", () => this.#wake(), { once: true });
    for (;;) {
      this.#signal?.throwIfAborted();
      const isBusy = [...this.#threads.values()].some((job) => job !== null);
      const job = this.#threads.size === 0 ? this.#waiting.shift() : undefined;
      if (job) await this.#inspectHere(job);
      else if (!isBusy && this.#waiting.length === 0) break;
      else await this.#woken();
    }
    return this.#findings.sort((a, b) => a.segment - b.segment);
  }

  async #woken() {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  async #inspectHere(job: Inspection) {
    const file = this.#disk.open(job.path, "read");
    try {
      this.#take(job, await inSlices(inspect(job, file), SLICE_MS, this.#signal));
    } finally {
      file.close();
    }
  }

  async close() {
    await Promise.all([...this.#threads.keys()].map((thread) => thread.terminate()));
  }
}
