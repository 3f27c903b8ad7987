// One agent, as all handles of a process share it: the lock and the recovery that goes with it, group commit, and reads
// that see what other processes wrote.
//
// A write is decided and applied to the arrays when its batch is formed, and acknowledged once the batch is flushed. Between
// the two nothing that saw it is answered. A failed write or flush throws the arrays away and shuts the handles (G9).

import { dirname, join } from "node:path";
import { applyRecord } from "./apply.ts";
import { BatchBuilder, type FillRandom } from "./batch.ts";
import { LIMITS } from "./codec.ts";
import { removeLeftovers } from "./compact.ts";
import { CheeseError, corrupt, hasCode } from "./errors.ts";
import { FlushPacer } from "./flush.ts";
import type { Decided } from "./graph.ts";
import { HEAD_MARK_NAME, nextSequence, writeHeadMark } from "./headmark.ts";
import type { WriterLock } from "./lock.ts";
import { type AgentPlace, currentGeneration, mayHaveMoved } from "./log.ts";
import type { Records } from "./records.ts";
import { readingSnapshot, writeSnapshot } from "./snapshot.ts";
import { AgentState } from "./state.ts";
import type { Opened } from "./terms.ts";
import { inSlices, pause, tick } from "./tick.ts";

/** The lock is kept so long after a write, and let go at least so often, for so long. */
const IDLE_MS = 20;
const HOLD_MS_MAX = 1000;
const YIELD_MS = 50;
/** No stretch of work keeps the event loop longer. */
const SLICE_MS = 10;
/** A snapshot is written at close if so many records lie behind the last one: or a tenth of the graph, if that is less, but not a handful. */
const SNAPSHOT_RECORDS = 50_000;
const SNAPSHOT_RECORDS_MIN = 2_000;

/** What a write is given to work with: the state it decides on, and the batch that it adds to. */
export interface Transaction {
  readonly state: AgentState;
  readonly batch: BatchBuilder;
  /** Milliseconds since 1970. */
  readonly time: number;
  /** Carries out on the arrays the record just added to the batch; with what was decided of it, if it is a recall. */
  apply(decided?: Decided): void;
  /** Whether the batch has all that it may hold. */
  isFull(): boolean;
  /**
   * To be called before anything is added: the write needs all before it on the disk.
   * If it is not, the write is run again as the first of the next batch.
   */
  requireFreshBatch(): void;
  /** The record just added ends the batch, and may use up the reserve; these texts are zeroed before the next. */
  endBatch(erased: Uint32Array): void;
}

interface Write {
  run(transaction: Transaction): unknown;
  waitMs: number;
  /** When the lock is no longer waited for, in milliseconds of performance.now. */
  deadline?: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

interface Task {
  task(state: AgentState): Promise<unknown>;
  waitMs: number;
  deadline?: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

const RETRY_MS_MAX = 25;
const LAZIES_KEPT = 64;
const ZEROED_AT_ONCE = 512;

const NOT_YET = Symbol("not yet");

export interface CoreOptions {
  place: AgentPlace;
  lock: WriterLock;
  now: () => number;
  fillRandom: FillRandom;
}

/**
 * Opens an agent's state and reads it to its tail.
 *
 * @throws CheeseError CORRUPT, DISK: another process may change the files over or cut them under the reading, so what fails
 *   must fail again on the same generation
 */
export async function openState(place: AgentPlace): Promise<AgentState> {
  for (let failed = 0; ; ) {
    const { disk, folder, ids } = place;
    const generation = currentGeneration(disk, folder);
    let state: AgentState | null = null;
    try {
      const found = await inSlices(readingSnapshot(disk, folder, ids, generation), SLICE_MS);
      state = new AgentState(place, { onThreads: true, found });
      while (!state.step(SLICE_MS)) await tick();
      await state.chainChecked();
      return state;
    } catch (error) {
      state?.close();
      if (!mayHaveMoved(error) || generation === failed) throw error;
      failed = generation;
    }
  }
}

export class AgentCore {
  readonly place: AgentPlace;
  /** What opening found; recovery adds to it. */
  readonly opened: Opened = { tornBytes: 0, erasesFinished: 0, replayed: 0, fromSnapshot: false };
  readonly #lock: WriterLock;
  readonly #now: () => number;
  readonly #batch: BatchBuilder;
  readonly #pacer = new FlushPacer();
  #state: AgentState | null = null;
  /** Why every call is refused: closed, deleted, or a write that failed. */
  #shut: CheeseError | null = null;
  /** Why writes are refused, where the disk lets us only read. */
  #whyReadOnly: CheeseError | null = null;
  /** Set while work is under way that spans several turns of the event loop and must not be mixed with other work. */
  #busy: Promise<void> | null = null;
  #queue: (Write | Task)[] = [];
  #running: Promise<void> | null = null;
  #heldSince = 0;
  #letGoTimer: NodeJS.Timeout | null = null;
  /** Whether the head mark is behind the log, and up to which record erases are finished. */
  #markIsDue = false;
  #done = 0;
  #hasWritten = false;
  #lastTick = 0;
  #lazies: WeakRef<{ materialise(): void }>[] = [];

  constructor({ place, lock, now, fillRandom }: CoreOptions) {
    this.place = place;
    this.#lock = lock;
    this.#now = now;
    this.#batch = new BatchBuilder(place.ids.agentId, fillRandom);
  }

  get canWrite(): boolean {
    return this.place.access === "write" && !this.#whyReadOnly;
  }

  /** Opens the agent, and finishes what a crash left, if this may write and the lock is free. */
  async open(): Promise<void> {
    await this.#alone(async () => {
      const state = await this.#openWritable();
      Object.assign(this.opened, {
        replayed: state.replayed,
        fromSnapshot: state.fromSnapshot,
        // A writer that finds them cuts them off, and says so then; here it may be a batch under way.
        tornBytes: this.canWrite ? 0 : state.log.tail.tornBytes,
      });
      if (this.canWrite && this.#looksUnfinished(state) && this.#lockIsFree()) {
        this.#heldSince = performance.now();
        await this.#recoverOrShut();
        this.#letGoSoon();
      }
    });
  }

  /** Where the disk is read-only, reading works all the same; writing then says why it does not. */
  async #openWritable(): Promise<AgentState> {
    try {
      return await this.#openState();
    } catch (error) {
      if (!this.canWrite || !isReadOnly(error)) throw error;
      this.#whyReadOnly = error;
      return this.#openState();
    }
  }

  #looksUnfinished(state: AgentState): boolean {
    const { tail } = state.log;
    return (
      tail.tornBytes > 0 ||
      tail.rollUnfinished ||
      !state.endIsNamed ||
      state.unfinishedErases().length > 0
    );
  }

  async #openState(): Promise<AgentState> {
    this.#state?.close();
    this.#state = null;
    this.#state = await this.#freshState();
    return this.#state;
  }

  async #freshState(): Promise<AgentState> {
    this.#requireFolder();
    try {
      return await openState({ ...this.place, access: this.canWrite ? "write" : "read" });
    } catch (error) {
      this.#requireFolder();
      throw error;
    }
  }

  #requireFolder() {
    const { disk, folder } = this.place;
    const stat = disk.stat(folder);
    if (stat?.type === "link") throw corrupt(`${folder} is a link, expected a folder`);
    if (!stat) {
      throw this.#shutWith(new CheeseError("NO_AGENT", "the agent was deleted"));
    }
  }

  #shutWith(error: CheeseError): CheeseError {
    this.#shut ??= error;
    this.#state?.close();
    this.#state = null;
    this.#lock.close();
    if (this.#letGoTimer) clearTimeout(this.#letGoTimer);
    return error;
  }

  get isShut(): boolean {
    return this.#shut !== null;
  }

  /** Runs alone among all work that spans several turns. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    while (this.#busy) await this.#busy;
    let free = () => {};
    this.#busy = new Promise((resolve) => {
      free = resolve;
    });
    try {
      return await work();
    } finally {
      this.#busy = null;
      free();
    }
  }

  // ----- reading -----

  /**
   * Runs a read on a committed state that is up to date. It is run again if a text that it served was erased meanwhile.
   *
   * @param read runs in one turn; it may be run more than once
   * @throws CheeseError CLOSED, NO_AGENT, CORRUPT, DISK, or what `read` throws
   */
  async read<T>(read: (state: AgentState) => T): Promise<T> {
    for (let mayRepeat = true; ; ) {
      const state = await this.#upToDate();
      let result: T;
      const served = state.records.noteServed();
      try {
        result = read(state);
      } catch (error) {
        // The files may have been swapped under the read: it fails only if it fails again on what is there now.
        if (!mayRepeat || !mayHaveMoved(error) || this.#lock.isHeld) throw error;
        mayRepeat = false;
        await this.#alone(() => this.#openState());
        continue;
      }
      // Read first, decide after: another process may have erased what was read while it was.
      if (this.#lock.isHeld || state.log.isCurrent()) return result;
      const after = await this.#upToDate();
      if (after === state && !state.records.anyGone(served)) return result;
    }
  }

  /** The state, with everything that other processes committed. */
  async #upToDate(): Promise<AgentState> {
    for (;;) {
      while (this.#busy) await this.#busy;
      if (this.#shut) throw this.#shut;
      const state = this.#state;
      if (state && (this.#lock.isHeld || state.log.isCurrent())) return state;
      await this.#alone(() => this.#catchUp());
      if (this.#state) return this.#state;
    }
  }

  /** Reads what is new; begins anew if the log was rewritten under this handle. */
  async #catchUp(): Promise<AgentState> {
    const state = this.#state;
    if (!state?.log.isSameLog()) return this.#openState();
    try {
      while (!state.step(SLICE_MS)) await tick();
      return state;
    } catch (error) {
      if (!mayHaveMoved(error)) throw error;
      // A batch that does not carry this head: the log is another one, or it is damaged. A fresh look tells.
      return this.#openState();
    }
  }

  /**
   * Reads from the spines of flushed records, which never change, whatever is under way.
   *
   * @throws CheeseError CLOSED
   */
  readSpines<T>(read: (records: Records) => T): T {
    if (this.#shut) throw this.#shut;
    if (this.#state) return read(this.#state.records);
    const state = new AgentState({ ...this.place, access: "read" });
    try {
      while (!state.step(Number.POSITIVE_INFINITY));
      return read(state.records);
    } finally {
      state.close();
    }
  }

  /** Something that reads spines when it is looked at: it is looked at before they cannot be read any more. */
  beforeClose(lazy: WeakRef<{ materialise(): void }>) {
    if (this.#lazies.length >= LAZIES_KEPT)
      this.#lazies = this.#lazies.filter((kept) => kept.deref());
    this.#lazies.push(lazy);
  }

  // ----- writing -----

  /**
   * Puts a write into the next batch.
   *
   * @param waitMs how long to wait for the lock
   * @param run decides on the state, adds records to the batch and applies them; a refusal is thrown before that
   * @returns what `run` returned, once its batch is on the disk
   * @throws CheeseError what `run` throws; LOCKED, DISK, CLOSED, READ_ONLY
   */
  write<T>(waitMs: number, run: (transaction: Transaction) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#enqueue({ run, waitMs, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  /** Runs a task that needs the lock for itself: nothing is written, and nothing read, until it ends. */
  exclusively<T>(waitMs: number, task: (state: AgentState) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#enqueue({ task, waitMs, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  #enqueue(work: Write | Task) {
    if (this.#shut) return work.reject(this.#shut);
    if (!this.canWrite)
      return work.reject(
        this.#whyReadOnly ?? new CheeseError("READ_ONLY", "this store was opened for reading only"),
      );
    work.deadline = performance.now() + work.waitMs;
    this.#queue.push(work);
    this.#running ??= this.#run();
  }

  async #run() {
    // All calls of this turn go into one batch.
    await null;
    this.#lastTick = performance.now();
    while (this.#queue.length > 0) {
      try {
        if (this.#lock.isHeld && performance.now() - this.#heldSince > HOLD_MS_MAX) {
          while (this.#busy) await this.#busy;
          this.#letGo();
          await pause(YIELD_MS);
        }
        await this.#hold();
        if (this.#queue.length === 0) break;
        await this.#next();
      } catch (error) {
        this.#fail(error);
      }
      if (performance.now() - this.#lastTick > SLICE_MS) {
        await tick();
        this.#lastTick = performance.now();
      }
    }
    // In the turn that found the queue empty: who comes next starts a run of their own.
    this.#running = null;
    if (this.#lock.isHeld) this.#letGoSoon();
  }

  /** Refuses everything that waits, with the reason. */
  #fail(error: unknown) {
    const waiting = this.#queue;
    this.#queue = [];
    for (const work of waiting) work.reject(error);
  }

  async #next() {
    const first = this.#queue[0];
    if (first && "task" in first) {
      this.#queue.shift();
      await this.#alone(() => this.#runTask(first));
    } else {
      await this.#commit();
    }
  }

  async #runTask({ task, resolve, reject }: Task) {
    try {
      resolve(await task(this.#state as AgentState));
    } catch (error) {
      reject(error);
    }
  }

  /** Takes the lock if it is not held, and brings the state to where it may be written to. */
  async #hold() {
    if (this.#letGoTimer) clearTimeout(this.#letGoTimer);
    this.#letGoTimer = null;
    while (this.#busy) await this.#busy;
    if (this.#shut) throw this.#shut;
    if (this.#lock.isHeld && this.#state) {
      this.#lock.requireStill();
      return;
    }
    // Waiting is done between tries, so that it keeps nobody from reading.
    for (let pauseMs = 1; this.#queue.length > 0; pauseMs = Math.min(pauseMs * 1.5, RETRY_MS_MAX)) {
      if (await this.#alone(() => this.#tryHold())) return;
      this.#refuseOverdue();
      await pause(pauseMs * (0.5 + Math.random()));
    }
  }

  async #tryHold(): Promise<boolean> {
    if (!this.#lock.isHeld) {
      this.#requireFolder();
      if (!this.#lock.tryTake()) return false;
      this.#heldSince = performance.now();
    }
    await this.#recoverOrShut();
    return true;
  }

  /** Each piece of work waits as long as its caller said, whoever stands before it. */
  #refuseOverdue() {
    const now = performance.now();
    this.#queue = this.#queue.filter(({ deadline = 0, waitMs, reject }) => {
      if (now < deadline) return true;
      const message = `another process is writing, and still was after ${waitMs / 1000} s`;
      reject(new CheeseError("LOCKED", message));
      return false;
    });
  }

  /** Tries the lock; where the disk does not even let us do that, we only read. */
  #lockIsFree(): boolean {
    try {
      return this.#lock.tryTake();
    } catch (error) {
      if (!hasCode(error, "DISK")) throw error;
      return false;
    }
  }

  /** After a recovery that failed nothing may be written as if it had not: the lock goes, and with it the arrays. */
  async #recoverOrShut() {
    try {
      await this.#recover();
    } catch (error) {
      if (hasCode(error, "DISK")) throw this.#failed(error);
      this.#lock.release();
      this.#state?.close();
      this.#state = null;
      throw error;
    }
  }

  /** Taking the lock is the moment of recovery. The lock is not let go inside. */
  async #recover() {
    const { disk, folder } = this.place;
    this.#requireFolder();
    let state = this.#state;
    if (!state || currentGeneration(disk, folder) !== state.log.generation)
      state = await this.#openState();
    // Nothing was acknowledged yet: its creator may have died before its name was on the disk.
    if (state.log.end.record === 0) disk.flushFolder(dirname(folder));
    // Always: another process's compaction that died leaves copies of living texts, and no mark in the log.
    removeLeftovers(disk, folder, state.log.generation);
    const before = state.log.end.record;
    state.log.lookAgain();
    if (!state.log.isCurrent()) state = await this.#catchUp();
    if (state.log.sealIsDoubtful) state.log.rewriteSeal();
    // A torn batch may stand behind zeros: a loss of power need not have kept its header.
    const isClean = state.log.tail.tornBytes === 0 && !state.log.tail.rollUnfinished;
    const isOwnEnd =
      state.log.end.record === before && state.flushedRecord >= before && state.log.isCurrent();
    if (isClean && isOwnEnd && this.#done === state.places.lastErase) return;

    state.readHeadMark();
    this.#done = state.headMark.done;
    const { tail } = state.log;
    if (tail.tornBytes > 0 || tail.rollUnfinished) {
      this.opened.tornBytes = tail.tornBytes;
      state.log.cutTail();
    }
    if (!state.endIsNamed) {
      state.log.rewriteLastBatch();
      this.#markIsDue = true;
    }
    state.flushedRecord = state.log.end.record;
    removeLeftovers(disk, folder, state.log.generation);
    for (const slot of state.unfinishedErases()) {
      state.records.zeroAreas(state.records.textsTakenBy(slot));
      this.opened.erasesFinished++;
      this.#markIsDue = true;
    }
    await state.log.flushZeroed((file, bytes) => this.#pacer.flush(file, bytes));
    this.#done = state.places.lastErase;
    if (this.#markIsDue) this.#writeMark(state);
    state.log.restoreReserve();
  }

  #writeMark(state: AgentState) {
    const { disk, folder, ids } = this.place;
    const { record, head } = state.log.end;
    const sequence = nextSequence(state.headMark);
    writeHeadMark(disk, join(folder, HEAD_MARK_NAME), ids, {
      record,
      head,
      done: this.#done,
      sequence,
    });
    state.headMark = { record, head, done: this.#done, sequence, health: state.headMark.health };
    this.#markIsDue = false;
  }

  /** Forms one batch of what waits, and commits it. */
  async #commit() {
    const state = this.#state as AgentState;
    const { log } = state;
    const batch = this.#batch;
    this.#rollIfFull(state);
    batch.begin(log.end);
    let erased: Uint32Array | null = null;
    const transaction: Transaction = {
      state,
      batch,
      time: this.#now(),
      apply: (decided) => this.#apply(state, decided),
      isFull: () => batch.count >= LIMITS.batchRecords || batch.bytes >= LIMITS.batchBytes,
      requireFreshBatch: () => {
        if (batch.count > 0) throw NOT_YET;
      },
      endBatch: (entries) => {
        erased = entries;
      },
    };
    const works: (Write | Task)[] = [];
    const settle: (() => void)[] = [];
    for (const work of this.#queue) {
      if ("task" in work || erased || transaction.isFull()) break;
      try {
        const value = work.run(transaction);
        settle.push(() => work.resolve(value));
      } catch (error) {
        if (error === NOT_YET) break;
        settle.push(() => work.reject(error));
      }
      works.push(work);
    }
    this.#queue.splice(0, works.length);
    if (batch.count > 0) {
      try {
        log.makeRoom(batch.bytes, erased !== null);
      } catch (error) {
        this.#forget(state);
        for (const work of works) work.reject(error);
        return;
      }
      try {
        await this.#writeOut(state, erased, { isAlone: false });
      } catch (error) {
        for (const work of works) work.reject(error);
        throw this.#shut ?? error;
      }
    }
    for (const done of settle) done();
  }

  #rollIfFull(state: AgentState) {
    try {
      state.log.rollIfFull();
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Shuts every handle after a failed write or flush; returns what the caller is told. */
  #failed(cause: unknown): CheeseError {
    const { message } = cause as Error;
    const code = cause instanceof CheeseError ? cause.code : "UNEXPECTED";
    const hint = "Open the agent again, and look whether the write is there.";
    this.#shutWith(new CheeseError("CLOSED", `a write failed before: ${message}`, { cause }));
    return new CheeseError(code, message, { cause, hint, maybeWritten: true });
  }

  /** Nothing was written: the arrays are ahead of the log, and are read anew. */
  #forget(state: AgentState) {
    state.close();
    this.#state = null;
  }

  /** Carries out on the arrays the record just added to the batch. */
  #apply(state: AgentState, decided?: Decided) {
    const { bytes, from, to } = this.#batch.spineBytes;
    const { segment, offset } = state.log.end;
    state.reader.read(bytes, from, to, true);
    applyRecord(
      state.graph,
      state.places,
      state.reader,
      segment,
      offset + this.#batch.lastSpineAt,
      this.#batch.lastAreaAt,
      decided,
    );
  }

  /**
   * Writes and flushes the batch, and zeroes what it erases. After a failure nothing can be known of what is on the disk:
   * the arrays are thrown away, and every handle is shut (G9).
   */
  async #writeOut(
    state: AgentState,
    erased: Uint32Array | null,
    { isAlone }: { isAlone: boolean },
  ) {
    try {
      state.log.write(this.#batch);
      const flushed = this.#pacer.flush(state.log.lastSegment.file, this.#batch.bytes);
      if (flushed) {
        const accept = async () => {
          await flushed;
          this.#accept(state);
        };
        await (isAlone ? accept() : this.#alone(accept));
      } else {
        this.#accept(state);
      }
      if (erased && erased.length > 0) await this.#zero(state, erased);
      else if (erased) state.log.restoreReserve();
      // What an import recalls came without its text: nothing is left to zero.
      this.#done = state.places.lastErase;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  #accept(state: AgentState) {
    const batch = this.#batch;
    const areasAt = state.log.end.offset + batch.areasAt;
    state.places.shiftAreas(state.log.end.entries + 1, batch.entries, areasAt);
    state.log.accept(batch);
    state.flushedRecord = state.log.end.record;
    this.#markIsDue = true;
    this.#hasWritten = true;
  }

  /** The record is flushed: from the head mark on no reader is served the texts; then they go, in place. */
  async #zero(state: AgentState, entries: Uint32Array) {
    this.#writeMark(state);
    let begun = performance.now();
    for (let from = 0; from < entries.length; from += ZEROED_AT_ONCE) {
      if (performance.now() - begun > SLICE_MS) {
        await tick();
        begun = performance.now();
      }
      state.records.zeroAreas(entries.subarray(from, from + ZEROED_AT_ONCE));
    }
    await state.log.flushZeroed((file, bytes) => this.#pacer.flush(file, bytes));
    this.#done = state.log.end.record;
    this.#markIsDue = true;
    state.log.restoreReserve();
  }

  /**
   * To be used inside `exclusively`: commits one batch, and returns once it is on the disk, and what it erases zeroed.
   *
   * @param erased null where the reserve is not to be used
   */
  async commitNow(
    state: AgentState,
    erased: Uint32Array | null,
    fill: (batch: BatchBuilder, time: number, apply: () => void) => void,
  ) {
    if (!erased) this.#rollIfFull(state);
    this.#batch.begin(state.log.end);
    fill(this.#batch, this.#now(), () => this.#apply(state));
    if (this.#batch.count === 0) return;
    try {
      state.log.makeRoom(this.#batch.bytes, erased !== null);
    } catch (error) {
      this.#forget(state);
      throw error;
    }
    await this.#writeOut(state, erased, { isAlone: true });
  }

  /** To be used inside `exclusively`, for what leaves nobody knowing which files are the log's when it fails (G9). */
  async orShut<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** To be used inside `exclusively`, after the log was rewritten: reads it anew. */
  async reopen(): Promise<AgentState> {
    const before = this.#state;
    const state = await this.#freshState();
    state.flushedRecord = state.log.end.record;
    this.#state = state;
    // It takes the system some 10 ms to let go of a segment that has no name any more.
    if (before) await inSlices(before.closing(), 0);
    return state;
  }

  // ----- letting go -----

  #letGoSoon() {
    if (this.#letGoTimer) clearTimeout(this.#letGoTimer);
    this.#letGoTimer = setTimeout(() => {
      this.#letGoTimer = null;
      if (this.#running) return;
      if (this.#busy) this.#letGoSoon();
      else this.#letGo();
    }, IDLE_MS).unref();
  }

  /** Lets the lock go; the head mark is brought up to the log before. */
  #letGo() {
    if (!this.#lock.isHeld) return;
    try {
      if (this.#markIsDue && this.#state) this.#writeMark(this.#state);
    } catch (error) {
      // The mark is a second witness: without it the next open looks closer.
      if (!(error instanceof CheeseError)) throw error;
    }
    this.#lock.release();
  }

  /** Waits for what is under way, trims, writes the snapshot if it pays, and lets go. */
  async close() {
    while (this.#running) await this.#running;
    while (this.#busy) await this.#busy;
    if (this.#shut) return;
    try {
      for (const lazy of this.#lazies) lazy.deref()?.materialise();
      await this.#leaveTidy();
    } catch (error) {
      // All that was acknowledged is on the disk; what is left is done by the next open.
      if (!(error instanceof CheeseError)) throw error;
    } finally {
      this.#shutWith(new CheeseError("CLOSED", "this handle is closed"));
    }
  }

  async #leaveTidy() {
    const state = this.#state;
    if (!state || !this.canWrite) return;
    const { record } = state.log.end;
    const behind = record - state.snapshotRecord;
    const enough =
      this.place.snapshotRecords ??
      Math.min(SNAPSHOT_RECORDS, Math.max(record / 10, SNAPSHOT_RECORDS_MIN));
    const wantsSnapshot = behind > 0 && behind >= enough;
    if (!this.#hasWritten && !wantsSnapshot) return this.#letGo();
    if (!this.#lock.isHeld && !this.#lock.tryTake()) return;
    await this.#alone(() => this.#recoverOrShut());
    const current = this.#state as AgentState;
    if (this.#markIsDue) this.#writeMark(current);
    if (this.#hasWritten) current.log.trim();
    if (wantsSnapshot) {
      const { disk, folder, ids } = this.place;
      const { graph, places, log } = current;
      writeSnapshot(disk, folder, ids, {
        graph,
        places,
        generation: log.generation,
        position: log.end,
      });
    }
  }
}

function isReadOnly(error: unknown): error is CheeseError {
  const code =
    error instanceof CheeseError
      ? (error.cause as NodeJS.ErrnoException | undefined)?.code
      : undefined;
  return code === "EROFS" || code === "EACCES" || code === "EPERM";
}
