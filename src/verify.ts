// Reads every byte of an agent again and believes nothing that is in memory.
//
// The chain back to record 1, every spine, text and padding; each recall decided anew from the definitions; every missing
// text against the record that took it; head mark and snapshot against the log.

import { join } from "node:path";
import { applyRecord } from "./apply.ts";
import type { LogEnd } from "./batch.ts";
import { type Digest, headOf, parseFingerprint } from "./chain.ts";
import { RECORD_KINDS, SpineReader } from "./codec.ts";
import { filesBelow, folderBytes } from "./disk.ts";
import { CheeseError, corrupt, type ErrorFacts } from "./errors.ts";
import { FLAGS, Graph } from "./graph.ts";
import { HEAD_MARK_NAME, type HeadMark, readHeadMark } from "./headmark.ts";
import { AREA, type Findings, lookAt } from "./inspect.ts";
import { Inspectors } from "./inspectors.ts";
import { type AgentPlace, Log, logFolder } from "./log.ts";
import { ACT, Places } from "./places.ts";
import { decideRecall, needsSeen } from "./recall.ts";
import { Records } from "./records.ts";
import { SeenIndex } from "./seen.ts";
import {
  FileWindow,
  type FoundBatch,
  findAt,
  nextHeader,
  readSpines,
  SEGMENT_START,
} from "./segment.ts";
import { readingSnapshot, type Snapshot, snapshotDiffers, snapshotPath } from "./snapshot.ts";
import type { VerifyReport } from "./terms.ts";
import { inSlices, tick } from "./tick.ts";

/** One thing that is wrong, and where. */
export interface Problem extends Pick<ErrorFacts, "file" | "offset" | "entry"> {
  code: "CORRUPT" | "NEWER_FORMAT" | "DISK";
  message: string;
}

export interface VerifyOptions {
  expect?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Told of the bytes read so far, and of all. */
  onProgress?: ((done: number, all: number) => void) | undefined;
}

const SLICE_MS = 10;
const ENTRIES_AT_ONCE = 64 * 1024;
/** A writer may change the files under the reading: what looks wrong then is looked at again. */
const ATTEMPTS = 8;
const PROBLEMS_MAX = 1000;

/**
 * @throws CheeseError CORRUPT with every problem found; HEAD_MISMATCH when the expected head is not part of this history;
 *   USAGE when `expect` is no fingerprint; NEWER_FORMAT; NO_AGENT
 */
export async function verifyAgent(
  place: AgentPlace,
  agent: { name: string; id: string },
  options: VerifyOptions = {},
): Promise<VerifyReport> {
  const expected = options.expect === undefined ? null : parseFingerprint(options.expect);
  if (options.expect !== undefined && !expected) {
    throw new CheeseError(
      "USAGE",
      `"${options.expect}" is no fingerprint: that is a number, a dash and 64 hex digits`,
    );
  }
  for (let attempt = 1; ; attempt++) {
    if (!place.disk.stat(place.folder)) throw new CheeseError("NO_AGENT", "the agent was deleted");
    const check = new Check(place, expected, options);
    try {
      await check.run();
      if (check.problems.length > 0) {
        if (attempt < ATTEMPTS && check.wasWritten()) continue;
        throw toError(check.problems, agent.name);
      }
      return await check.report(agent, options.expect);
    } finally {
      await check.close();
    }
  }
}

function toError(problems: Problem[], name: string): CheeseError {
  const first = problems[0] as Problem;
  const more = problems.length > 1 ? `, and ${problems.length - 1} more` : "";
  const { file, offset, entry } = first;
  const where =
    file === undefined ? "" : ` (${file}${offset === undefined ? "" : `, byte ${offset}`})`;
  return new CheeseError(first.code, `agent "${name}": ${first.message}${where}${more}`, {
    file,
    offset,
    entry,
    problems,
  });
}

class Check {
  readonly problems: Problem[] = [];
  readonly #place: AgentPlace;
  readonly #expected: { record: number; hash: Digest } | null;
  readonly #options: VerifyOptions;
  readonly #headMark: HeadMark;
  /** The log's files as they were when the reading began. */
  readonly #signature: string;
  readonly #reader: SpineReader;
  readonly #graph = new Graph();
  readonly #places = new Places();
  readonly #seen = new SeenIndex();
  readonly #inspectors: Inspectors;
  #log: Log | null = null;
  /** By segment, from 1. */
  readonly #findings: Findings[] = [];
  #bytesDone = 0;
  /** Texts that an erase took which is not known to be finished, and that still stand. */
  #unfinished = 0;
  #snapshot: Snapshot | null = null;
  #snapshotHealth: VerifyReport["snapshot"] = "none";
  /** Heads at the records that someone names. */
  readonly #heads = new Map<number, Digest | null>();

  constructor(
    place: AgentPlace,
    expected: { record: number; hash: Digest } | null,
    options: VerifyOptions,
  ) {
    this.#place = place;
    this.#expected = expected;
    this.#options = options;
    this.#reader = new SpineReader(place.ids.agentId);
    const all = [...filesBelow(place.disk, logFolder(place.folder))];
    const bytes = all.reduce((sum, { stat }) => sum + stat.size, 0);
    this.#inspectors = new Inspectors(place.disk, bytes, options.signal, (done) => {
      this.#bytesDone += done;
      options.onProgress?.(Math.min(this.#bytesDone, bytes), bytes);
    });
    this.#signature = signatureOf(place);
    this.#headMark = readHeadMark(place.disk, join(place.folder, HEAD_MARK_NAME), place.ids);
    this.#heads.set(this.#headMark.record, null);
    if (expected) this.#heads.set(expected.record, null);
  }

  #problem(error: unknown, facts: Omit<Partial<Problem>, "message"> = {}) {
    if (!(error instanceof CheeseError)) throw error;
    const { code, message, file, offset, entry } = error;
    if (code !== "CORRUPT" && code !== "NEWER_FORMAT" && code !== "DISK") throw error;
    const problem: Problem = { code, message, file, offset, entry, ...facts };
    if (problem.file) problem.file = problem.file.replace(`${this.#place.folder}/`, "");
    if (this.problems.length < PROBLEMS_MAX) this.problems.push(problem);
  }

  async run() {
    const { disk, folder, ids } = this.#place;
    const { health, snapshot } = await inSlices(
      readingSnapshot(disk, folder, ids),
      SLICE_MS,
      this.#options.signal,
    );
    this.#snapshotHealth = health === "ok" ? "stale" : health;
    this.#snapshot = snapshot;
    try {
      const log = new Log({ ...this.#place, access: "read" });
      this.#log = log;
      log.requireBeginning();
      await this.#replay(log);
      await this.#inspect(log);
      await this.#checkErasures(log);
      this.#checkWitnesses(log);
    } catch (error) {
      this.#problem(error);
      if (this.#log) await this.#lookBehind(this.#log);
    }
  }

  /** Goes through the structure, on the marker's word for the chain, and hands each segment on to be inspected. */
  async #replay(log: Log) {
    const { signal } = this.#options;
    let begun = performance.now();
    let before: LogEnd = log.end;
    this.#noteHead(log.end);
    await this.#meetSnapshot(log);
    for (;;) {
      const { segment, offset } = log.end;
      const batch = log.nextBatch(this.#headMark.record, this.#reader);
      if (log.end.segment !== segment) {
        this.#handOn(log, segment, before, offset);
        before = log.end;
      }
      if (!batch) return this.#handOn(log, log.end.segment, before, log.end.offset);
      log.pass(batch, this.#readBatch(log, batch));
      await this.#meetSnapshot(log);
      if (performance.now() - begun > SLICE_MS) {
        await tick();
        signal?.throwIfAborted();
        begun = performance.now();
      }
    }
  }

  #handOn(log: Log, segment: number, before: LogEnd, end: number) {
    const { record, entries, head } = before;
    this.#inspectors.add({
      path: log.segment(segment).file.path,
      agentId: this.#place.ids.agentId,
      segment,
      before: { record, entries, head },
      end,
      headsAt: [...this.#heads.keys()],
      chainOnly: false,
    });
  }

  #noteHead({ record, head }: LogEnd) {
    if (this.#heads.has(record)) this.#heads.set(record, head);
  }

  async #inspect(log: Log) {
    for (const findings of await this.#inspectors.all()) {
      this.#findings[findings.segment] = findings;
      for (const [record, head] of findings.heads) this.#heads.set(record, head);
      const file = log.segment(findings.segment).file.path;
      for (const { code, message, offset } of findings.problems)
        this.#problem(new CheeseError(code, message, { file, offset }));
    }
  }

  /** Checks one batch as far as it does not stand by itself: what its recalls decided, and what its records name. */
  #readBatch(log: Log, batch: FoundBatch): LogEnd {
    const reader = this.#reader;
    const graph = this.#graph;
    const { segment } = log.end;
    const visit = (spineAt: number, areaAt: number) => {
      if (reader.kind === RECORD_KINDS.recall) this.#decideAgain(log);
      if (reader.kind === RECORD_KINDS.drop) this.#requireDead(reader.dropped);
      applyRecord(graph, this.#places, reader, segment, spineAt, areaAt);
      if (!reader.isEntry) return;
      if (reader.areaBytes === 0 && !reader.bornDead) {
        this.#problem(corrupt(`entry ${reader.entry} was written without a text`), {
          entry: reader.entry,
        });
      }
      if (reader.hasSeen)
        this.#seen.add(reader.entry, reader.seenBase, reader.seenRanges, reader.seenLength);
    };
    try {
      return readSpines(batch, log.end, reader, visit, { chained: false });
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      const { file } = log.segment(segment);
      throw new CheeseError(error.code, error.message, {
        cause: error,
        file: file.path,
        offset: batch.at,
      });
    }
  }

  /** The recall on which the reader stands must be what the definitions say, on the graph before it. */
  #decideAgain(log: Log) {
    const { recall, record } = this.#reader;
    if (!recall) return;
    const graph = this.#graph;
    for (const list of [
      recall.targets,
      recall.removed,
      recall.alsoErased,
      recall.contactBelow,
      recall.explained,
    ]) {
      for (const entry of list)
        if (!graph.has(entry))
          throw corrupt(`record ${record} names entry ${entry}, which does not exist`, { entry });
    }
    const decision = decideRecall(graph, recall, needsSeen(graph, recall) ? this.#seen : null);
    const same = (a: ArrayLike<number>, b: ArrayLike<number>) =>
      a.length === b.length && Array.prototype.every.call(a, (id, i) => id === b[i]);
    const differs = (["removed", "alsoErased", "contactBelow"] as const).find(
      (list) => !same(decision[list], recall[list]),
    );
    const isExplained = (entry: number) =>
      graph.is(entry, FLAGS.bornDead) && graph.diedAt[entry] === 0;
    if (differs || !recall.explained.every(isExplained)) {
      this.#problem(
        corrupt(
          `the recall of record ${record} says ${differs ?? "explained"} otherwise than the definitions`,
          {
            file: log.segment(log.end.segment).file.path,
          },
        ),
      );
    }
  }

  #requireDead(dropped: Uint32Array) {
    for (const entry of dropped) {
      if (!this.#graph.has(entry) || this.#graph.isAlive(entry)) {
        this.#problem(
          corrupt(
            `record ${this.#reader.record} drops the text of entry ${entry}, which is not dead`,
            { entry },
          ),
        );
      }
    }
  }

  /** A missing text is right only where a record took it; one that a record took must be missing. */
  async #checkErasures(log: Log) {
    const graph = this.#graph;
    const places = this.#places;
    const records = new Records(log, graph, places, this.#reader);
    const pending = new Set<number>();
    for (let slot = 0; slot < places.actRecord.length; slot++) {
      if (
        places.actRecord.at(slot) <= this.#headMark.done ||
        !(places.actFlags.at(slot) & ACT.erases)
      )
        continue;
      for (const entry of records.textsTakenBy(slot)) pending.add(entry);
    }
    let segment = 0;
    let first = 1;
    let last = 0;
    let file = "";
    for (let entry = 1; entry <= graph.entryCount; entry++) {
      if (entry % ENTRIES_AT_ONCE === 0) await tick();
      if (entry > last) {
        segment++;
        const info = log.segment(segment);
        first = info.before.entries + 1;
        last =
          segment < log.end.segment ? log.segment(segment + 1).before.entries : graph.entryCount;
        file = info.file.path;
        entry--;
        continue;
      }
      const found = this.#findings[segment]?.areas[entry - first] ?? AREA.absent;
      const offset = places.areaAt[entry] as number;
      if (found === AREA.checks && offset !== 0 && !graph.is(entry, FLAGS.gone)) continue;
      const facts = { entry, file, offset };
      if (graph.is(entry, FLAGS.gone)) {
        if (found === AREA.zero || offset === 0) continue;
        if (pending.has(entry)) this.#unfinished++;
        else
          this.#problem(
            corrupt(`the text of entry ${entry} was erased, and its place is not all zero`, facts),
          );
      } else if (offset === 0) {
        this.#problem(
          corrupt(`the text of entry ${entry} is missing, and no record took it`, facts),
        );
      } else if (found === AREA.zero) {
        this.#problem(
          corrupt(`the text of entry ${entry} is all zero, and no record took it`, facts),
        );
      } else if (found === AREA.broken) {
        this.#problem(corrupt(`the text of entry ${entry} does not check`, facts));
      }
    }
  }

  /** Compares the snapshot once the replay stands where it was made. */
  async #meetSnapshot(log: Log) {
    const snapshot = this.#snapshot;
    if (
      !snapshot ||
      snapshot.position.record !== log.end.record ||
      snapshot.generation !== log.generation
    )
      return;
    this.#snapshot = null;
    const { position } = snapshot;
    const { segment, offset, head } = log.end;
    // Where a segment was begun and nothing written to it yet, the end is its beginning, or that of the one before.
    const isNext = position.segment === segment + 1 && position.offset === SEGMENT_START;
    const isHere =
      position.head === head &&
      (isNext || (position.segment === segment && position.offset === offset));
    const differs = () =>
      inSlices(
        snapshotDiffers(snapshot, this.#graph, this.#places),
        SLICE_MS,
        this.#options.signal,
      );
    if (!isHere || (await differs())) {
      this.#problem(
        corrupt(`the snapshot of record ${position.record} says otherwise than the log`),
        { file: snapshotPath(this.#place.folder) },
      );
      return;
    }
    this.#snapshotHealth = "ok";
  }

  /** Head mark and snapshot against the log's end. */
  #checkWitnesses(log: Log) {
    const { record } = log.end;
    const mark = this.#headMark;
    const found = this.#heads.get(mark.record);
    if (mark.head && mark.record > record) {
      this.#problem(
        corrupt(
          `the log ends at record ${record}, and its head mark names ${mark.record}: it has lost its end`,
        ),
      );
    } else if (mark.head && found !== mark.head) {
      this.#problem(
        corrupt(`the log does not hold record ${mark.record} as the head mark names it`),
      );
    }
    const left = this.#snapshot;
    if (left && (left.position.record > record || left.generation === log.generation)) {
      this.#problem(
        corrupt(
          `the log ends at record ${record}, and a snapshot was made at ${left.position.record}: it has lost its end`,
        ),
      );
    }
  }

  /** After damage to the structure, whatever batches stand behind it are looked at by themselves, to tell of all that is wrong. */
  async #lookBehind(log: Log) {
    const { agentId } = this.#place.ids;
    let at = log.end.offset;
    for (
      let number = log.end.segment;
      number <= log.segmentCount;
      number++, at = SEGMENT_START - 1
    ) {
      try {
        const { file } = log.segment(number);
        const window = new FileWindow(file);
        for (let next = nextHeader(window, agentId, number, at); next !== -1; ) {
          const batch = findAt(window, agentId, number, next);
          if (batch.what === "batch") this.#checkAlone(batch, file.path, new FileWindow(file));
          else
            this.#problem(
              corrupt(`a batch of ${file.path} does not check`, { file: file.path, offset: next }),
            );
          next = nextHeader(window, agentId, number, batch.what === "batch" ? batch.end - 1 : next);
          await tick();
          this.#options.signal?.throwIfAborted();
        }
      } catch (error) {
        this.#problem(error);
      }
    }
  }

  #checkAlone(batch: FoundBatch, file: string, window: FileWindow) {
    const { firstRecord, entriesBefore, headBefore } = batch.header;
    const reader = this.#reader;
    const before = { record: firstRecord - 1, entries: entriesBefore, head: headBefore };
    try {
      readSpines(
        batch,
        before,
        reader,
        (_spineAt, areaAt) => {
          if (areaAt === 0 || !reader.isEntry) return;
          if (lookAt(window, areaAt, reader.areaBytes, reader.commitment()) === AREA.broken) {
            this.#problem(
              corrupt(`the text of entry ${reader.entry} does not check`, {
                entry: reader.entry,
                file,
                offset: areaAt,
              }),
            );
          }
        },
        { checked: false },
      );
    } catch (error) {
      this.#problem(error, { file, offset: batch.at });
    }
  }

  /** Whether something was written meanwhile, so that what looked wrong may have been a race. */
  wasWritten(): boolean {
    return signatureOf(this.#place) !== this.#signature;
  }

  async report(
    { name, id }: { name: string; id: string },
    expect: string | undefined,
  ): Promise<VerifyReport> {
    const log = this.#log as Log;
    const { record, head } = log.end;
    await flushQuietly(log);
    const report: VerifyReport = {
      ok: true,
      agent: name,
      id,
      records: record,
      segments: log.segmentCount,
      bytes: folderBytes(this.#place.disk, this.#place.folder),
      head: headOf(record, head),
      tornBytes: log.tail.tornBytes,
      erasesPending: this.#unfinished,
      headMark: this.#headMark.health,
      snapshot: this.#snapshotHealth,
    };
    const expected = this.#expected;
    if (expected && expect !== undefined) {
      if (this.#heads.get(expected.record) !== expected.hash) {
        const torn =
          log.tail.tornBytes > 0
            ? `; behind it stands a batch that was only half written (${log.tail.tornBytes} bytes)`
            : "";
        const why =
          expected.record > record
            ? `its history ends at record ${record}: it was rolled back, or this is another agent's fingerprint${torn}`
            : `record ${expected.record} has another hash here: another history, or another agent's fingerprint`;
        throw new CheeseError(
          "HEAD_MISMATCH",
          `agent "${name}" does not hold the head ${expect}: ${why}`,
        );
      }
      report.expected = { fingerprint: expect, recordsSince: record - expected.record };
    }
    return report;
  }

  async close() {
    this.#log?.close();
    await this.#inspectors.close();
  }
}

/** Changes whenever a file of the log is written to, cut or replaced. */
function signatureOf({ disk, folder }: AgentPlace): string {
  const files = [...filesBelow(disk, logFolder(folder))];
  return files
    .map(({ name, stat }) => [name, stat.inode, stat.size, stat.modified].join())
    .join(";");
}

/** A fingerprint is only given of what is on the disk; where it cannot be written to, it has been so before. */
async function flushQuietly(log: Log) {
  try {
    await log.flushOffThread();
  } catch (error) {
    const code =
      error instanceof CheeseError
        ? (error.cause as NodeJS.ErrnoException | undefined)?.code
        : undefined;
    if (code !== "EROFS" && code !== "EINVAL" && code !== "EBADF") throw error;
  }
}
