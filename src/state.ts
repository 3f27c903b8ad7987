// One agent as it stands on the disk and in memory: log, graph and places kept in step, opened from a snapshot if there is
// one, and caught up batch by batch.

import { join } from "node:path";
import { applyRecord } from "./apply.ts";
import type { LogEnd } from "./batch.ts";
import { SpineReader } from "./codec.ts";
import { CheeseError, corrupt } from "./errors.ts";
import { Graph } from "./graph.ts";
import { HEAD_MARK_NAME, type HeadMark, readHeadMark } from "./headmark.ts";
import { Inspectors } from "./inspectors.ts";
import { type AgentPlace, currentGeneration, Log } from "./log.ts";
import { ACT, Places } from "./places.ts";
import { Records } from "./records.ts";
import { readSpines } from "./segment.ts";
import { type FoundSnapshot, readSnapshot, snapshotPath } from "./snapshot.ts";
import { allAtOnce } from "./steps.ts";

/** Above this, laying the edges side by side pays at once. */
const SETTLE_EDGES = 50_000;

export class AgentState {
  readonly place: AgentPlace;
  readonly log: Log;
  readonly reader: SpineReader;
  readonly graph: Graph;
  readonly places: Places;
  readonly records: Records;
  headMark: HeadMark;
  /** Record up to which the log is known to be flushed: this handle flushed it, or a snapshot was made of it. */
  flushedRecord: number;
  /** Records read from the log at opening. */
  replayed = 0;
  readonly fromSnapshot: boolean;
  /** Record of the snapshot on the disk, 0 if there is none to be used. */
  snapshotRecord: number;
  /** Record of the snapshot, used or not: a log that ends before it has lost its end. */
  readonly #atLeast: number;
  #isOpen = false;
  #settling: Generator<undefined> | null = null;

  /** Checks the chain on other threads while `step` reads a long log for the first time; null where `step` does it. */
  #chain: Inspectors | null = null;
  /** Where the segment begins that is read. */
  #segmentBegin: LogEnd;

  /**
   * Reads the head mark, the snapshot, and where the log stands; `step` then reads the rest.
   *
   * @param options.onThreads whether other threads may check a long log's chain: `chainChecked` must then be awaited
   * @param options.found the snapshot, where it has been read
   */
  constructor(
    place: AgentPlace,
    { onThreads = false, found }: { onThreads?: boolean; found?: FoundSnapshot } = {},
  ) {
    const { disk, folder, ids } = place;
    this.place = place;
    // Before the log, so that what it names is in what is read.
    this.headMark = readHeadMark(disk, join(folder, HEAD_MARK_NAME), ids);
    const generation = currentGeneration(disk, folder);
    const { snapshot, record } = found ?? readSnapshot(disk, folder, ids, generation);
    this.log = new Log(place);
    try {
      this.reader = new SpineReader(ids.agentId);
      const usable =
        snapshot !== null &&
        snapshot.generation === this.log.generation &&
        this.log.startAt(snapshot.position);
      this.graph = usable ? snapshot.graph : new Graph();
      this.places = usable ? snapshot.places : new Places();
      this.fromSnapshot = usable;
      this.snapshotRecord = usable ? snapshot.position.record : 0;
      this.flushedRecord = this.snapshotRecord;
      this.#atLeast = record;
      if (!usable) this.log.requireBeginning();
      this.#segmentBegin = this.log.end;
      if (onThreads && !usable && Inspectors.useThreads(disk, this.log.bytes))
        this.#chain = new Inspectors(disk, this.log.bytes, undefined, () => {});
      this.records = new Records(this.log, this.graph, this.places, this.reader);
    } catch (error) {
      this.log.close();
      throw error;
    }
  }

  /** Whether the head mark, or this handle, says that what stands at the log's end was flushed. */
  get endIsNamed(): boolean {
    const { record, head } = this.log.end;
    return (
      record <= this.flushedRecord ||
      (record === this.headMark.record && head === this.headMark.head)
    );
  }

  /**
   * Reads whole batches that are new, for about `forMs`.
   *
   * @returns whether the tail was reached
   * @throws CheeseError CORRUPT
   */
  step(forMs: number): boolean {
    const until = performance.now() + forMs;
    if (!this.#settleBy(until)) return false;
    const { log, graph, places, reader } = this;
    const trusted = Math.max(this.headMark.record, this.flushedRecord);
    log.lookAgain();
    for (;;) {
      const { segment: segmentBefore, offset } = log.end;
      const batch = log.nextBatch(trusted, reader);
      const { segment } = log.end;
      if (segment !== segmentBefore) this.#handOn(segmentBefore, offset);
      if (!batch) break;
      const before = log.end.record;
      const end = readSpines(
        batch,
        log.end,
        reader,
        (spineAt, areaAt) => applyRecord(graph, places, reader, segment, spineAt, areaAt),
        { chained: this.#chain === null },
      );
      log.pass(batch, end);
      this.replayed += end.record - before;
      const mark = this.headMark;
      if (
        mark.record > before &&
        mark.record <= end.record &&
        (mark.record !== end.record || mark.head !== end.head)
      ) {
        throw corrupt(`the log does not hold record ${mark.record} as the head mark names it`);
      }
      if (performance.now() > until) return false;
    }
    if (!this.#isOpen) this.#requireEnd();
    this.#isOpen = true;
    if (graph.tailCount > SETTLE_EDGES) this.#settling = graph.settling();
    return this.#settleBy(until);
  }

  /** Has the chain of a segment checked, which was read up to an offset. */
  #handOn(segment: number, end: number) {
    const { record, entries, head } = this.#segmentBegin;
    this.#segmentBegin = this.log.end;
    this.#chain?.add({
      path: this.log.segment(segment).file.path,
      agentId: this.place.ids.agentId,
      segment,
      before: { record, entries, head },
      end,
      headsAt: [],
      chainOnly: true,
    });
  }

  /** Returns once what was read hangs together by its chain. @throws CheeseError CORRUPT, DISK */
  async chainChecked() {
    if (!this.#chain) return;
    this.#handOn(this.log.end.segment, this.log.end.offset);
    try {
      for (const { segment, problems } of await this.#chain.all()) {
        const [problem] = problems;
        if (!problem) continue;
        const { code, message, offset } = problem;
        throw new CheeseError(code, message, { file: this.log.segment(segment).file.path, offset });
      }
    } finally {
      await this.#stopThreads();
    }
  }

  async #stopThreads() {
    const chain = this.#chain;
    this.#chain = null;
    await chain?.close();
  }

  /** Goes on with laying edges side by side, if that is under way; whether it is done. */
  #settleBy(until: number): boolean {
    while (this.#settling) {
      if (this.#settling.next().done) this.#settling = null;
      else if (performance.now() > until) return false;
    }
    return true;
  }

  /** A log that ends before what was flushed of it has lost its end: damage or a rollback, never a torn write (G3). */
  #requireEnd() {
    const { record } = this.log.end;
    const { folder } = this.place;
    if (record < this.headMark.record) {
      throw corrupt(
        `the log in ${folder} ends at record ${record}, and its head mark names ${this.headMark.record}: it has lost its end`,
      );
    }
    if (record < this.#atLeast) {
      throw new CheeseError(
        "CORRUPT",
        `the log in ${folder} ends at record ${record}, and its snapshot is of ${this.#atLeast}: it has lost its end`,
        {
          file: snapshotPath(folder),
        },
      );
    }
  }

  readHeadMark() {
    const { disk, folder, ids } = this.place;
    this.headMark = readHeadMark(disk, join(folder, HEAD_MARK_NAME), ids);
  }

  /** Recalls and drops whose zeroing is not known to be finished, as slots of the places. */
  unfinishedErases(): number[] {
    const { actRecord, actFlags } = this.places;
    const slots: number[] = [];
    for (
      let slot = actRecord.length - 1;
      slot >= 0 && actRecord.at(slot) > this.headMark.done;
      slot--
    ) {
      if (actFlags.at(slot) & ACT.erases) slots.push(slot);
    }
    return slots.reverse();
  }

  close() {
    allAtOnce(this.closing());
  }

  /** The same in steps, a file each. */
  *closing(): Generator<undefined> {
    void this.#stopThreads();
    yield* this.log.closing();
  }
}
