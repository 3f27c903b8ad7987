// The row of segments of one agent: finds what is new, appends a batch, rolls over, reads and zeroes places.
//
// log/<generation>/00000001.seg, …; a compaction writes the next generation and renames its folder into place, so the
// highest one is current. Writing is append only, but for the zeroing of an erase.

import { join } from "node:path";
import type { BatchBuilder, LogEnd } from "./batch.ts";
import { genesis } from "./chain.ts";
import {
  BATCH_HEADER_BYTES,
  COMMIT_MARKER_BYTES,
  encodeSeal,
  isZero,
  SEAL_BYTES,
  type SpineReader,
} from "./codec.ts";
import { closeQuietly, type Disk, type File, isMissing, sameFile } from "./disk.ts";
import { CheeseError, corrupt, hasCode } from "./errors.ts";
import {
  type AgentIds,
  createSegment,
  FileWindow,
  type Found,
  type FoundBatch,
  findAt,
  lastWritten,
  readSegmentHeader,
  SEGMENT_START,
  type SegmentInfo,
  segmentName,
  somethingFollows,
  textsCheck,
} from "./segment.ts";
import { allAtOnce } from "./steps.ts";

/** Zeros kept behind the end for a recall or a compaction alone, so that an erase works on a full disk. */
export const RESERVE_BYTES = 64 * 1024;
/** A segment that has grown to this is sealed, and the next begun. */
export const SEGMENT_BYTES = 32 * 1024 * 1024;
const GROWTH_BYTES_MIN = 64 * 1024;
const GROWTH_BYTES_MAX = 4 * 1024 * 1024;
/** A flush writes whole pages, however little of one was changed. */
const PAGE_BYTES = 4096;
const ZEROS = Buffer.alloc(GROWTH_BYTES_MIN);

/** Where an agent is, and how its files are to be kept. */
export interface AgentPlace {
  disk: Disk;
  /** The agent's folder. */
  folder: string;
  ids: AgentIds;
  access: "read" | "write";
  /** Size at which a segment is sealed; SEGMENT_BYTES if not said. */
  segmentBytes?: number | undefined;
  /** Records behind the last snapshot at which a close writes one; by the size of the graph if not said. */
  snapshotRecords?: number | undefined;
}

export interface LogPosition extends LogEnd {
  /** Segment number, from 1. */
  segment: number;
  /** In bytes, from that segment's start. */
  offset: number;
}

/** What stands behind the last whole batch. */
export interface LogTail {
  /** Bytes of a batch that was only half written: what the next writer cuts off. */
  tornBytes: number;
  /** A successor was begun, and the segment before it not yet sealed. */
  rollUnfinished: boolean;
}

/** The last batch read, as the next writer may have to write it again. */
export interface LastBatch {
  segment: number;
  at: number;
  end: number;
}

export interface Segment extends SegmentInfo {
  file: File;
  /** Bytes of the pages that were zeroed since the last flush. */
  zeroedBytes: number;
}

export function logFolder(agentFolder: string): string {
  return join(agentFolder, "log");
}

const GENERATION = /^[1-9][0-9]{0,9}$/;

/**
 * The current generation; 0 if there is none. Unfinished ones carry an ending and are passed over.
 *
 * @throws CheeseError CORRUPT when a link stands in the place of a folder
 */
export function currentGeneration(disk: Disk, agentFolder: string): number {
  for (const path of [agentFolder, logFolder(agentFolder)]) requireFolder(disk, path);
  const names = disk.list(logFolder(agentFolder)).filter((name) => GENERATION.test(name));
  return names.reduce((highest, name) => Math.max(highest, Number(name)), 0);
}

export class Log {
  readonly generation: number;
  readonly folder: string;
  end: LogPosition;
  tail: LogTail = { tornBytes: 0, rollUnfinished: false };
  lastBatch: LastBatch | null = null;

  readonly #disk: Disk;
  readonly #ids: AgentIds;
  readonly #access: "read" | "write";
  readonly #segmentBytes: number;
  readonly #segments: (Segment | undefined)[] = [];
  #segmentCount: number;
  #window: FileWindow | null = null;
  /** The last seal that was read, and not written by this log. */
  #sealRead: { segment: number; offset: number } | null = null;
  /** Zeros to write beyond what is needed, the next time that the last segment grows. */
  #growth = 0;
  /**
   * Size of the last segment's file, as far as nobody but this log can have changed it; null where it must be looked at.
   * After a look the next write dirties the inode, for whoever looked to see another time of change (Linux 6.13 and later):
   * before each write, looks made its flush a third longer.
   */
  #fileBytes: number | null = null;

  /** @throws CheeseError CORRUPT when there is no generation, or a segment is missing */
  constructor({
    disk,
    folder: agentFolder,
    ids,
    access,
    segmentBytes = SEGMENT_BYTES,
  }: AgentPlace) {
    this.#disk = disk;
    this.#segmentBytes = segmentBytes;
    this.#ids = ids;
    this.#access = access;
    this.generation = currentGeneration(disk, agentFolder);
    this.folder = join(logFolder(agentFolder), String(this.generation));
    if (this.generation === 0)
      throw corrupt(`${logFolder(agentFolder)} holds no generation of the log`);
    requireFolder(disk, this.folder);
    this.#segmentCount = this.#countSegments();
    this.end = { segment: 1, offset: SEGMENT_START, ...this.segment(1).before };
  }

  get segmentCount(): number {
    return this.#segmentCount;
  }

  /** @throws CheeseError CORRUPT when one is missing or a file is none */
  #countSegments(): number {
    const names = this.#disk.list(this.folder);
    for (const [i, name] of names.entries()) {
      if (name !== segmentName(i + 1)) {
        throw corrupt(
          `${join(this.folder, segmentName(i + 1))} is missing: ${name} stands where it is due`,
          { file: join(this.folder, name) },
        );
      }
    }
    if (names.length === 0) throw corrupt(`${this.folder} holds no segment`, { file: this.folder });
    return names.length;
  }

  segment(number: number): Segment {
    let segment = this.#segments[number];
    if (!segment) {
      const file = this.#disk.open(join(this.folder, segmentName(number)), this.#access);
      try {
        segment = {
          file,
          zeroedBytes: 0,
          ...readSegmentHeader(file, this.#ids, this.generation, number),
        };
      } catch (error) {
        file.close();
        throw error;
      }
      this.#segments[number] = segment;
    }
    return segment;
  }

  /** @throws CheeseError CORRUPT when the first segment says that something stood before it */
  requireBeginning() {
    const { record, entries, head } = this.segment(1).before;
    if (record === 0 && entries === 0 && head === genesis(this.#ids.storeId, this.#ids.agentId))
      return;
    throw corrupt(`the log in ${this.folder} does not begin at record 1`, { file: this.folder });
  }

  /** Takes up reading at a place that a snapshot names; false if the log does not stand so there. */
  startAt(position: LogPosition): boolean {
    if (position.segment < 1 || position.segment > this.#segmentCount) return false;
    const { file, before } = this.segment(position.segment);
    if (position.offset === SEGMENT_START) {
      if (before.head !== position.head || before.record !== position.record) return false;
    } else {
      // The commit marker in front of it holds the head.
      const marker = Buffer.alloc(COMMIT_MARKER_BYTES);
      const at = position.offset - COMMIT_MARKER_BYTES;
      if (at < SEGMENT_START || file.read(marker, at) < marker.length) return false;
      if (marker.toString("latin1", 4, 36) !== position.head) return false;
    }
    this.end = { ...position };
    return true;
  }

  /** Looks again at what stands behind `end`: to be called before a round of nextBatch, and when the lock was taken. */
  lookAgain() {
    this.#window = null;
    this.#fileBytes = null;
  }

  /**
   * The next whole batch behind `end`; null at the tail, which is then judged. Its views are good until the next call.
   * The caller reads its spines, and calls `pass`.
   *
   * @param trusted record up to which a last batch need not be judged with its texts: the head mark names it, or this
   *   handle flushed it
   * @throws CheeseError CORRUPT when what follows is damaged and not merely torn
   */
  nextBatch(trusted: number, reader: SpineReader): FoundBatch | null {
    const { agentId } = this.#ids;
    /** Where it was looked a second time. */
    let again: LogPosition | null = null;
    for (;;) {
      const { segment, offset } = this.end;
      this.#window ??= new FileWindow(this.segment(segment).file);
      const window = this.#window;
      let found = findAt(window, agentId, segment, offset);
      if (found.what === "batch") {
        const record = found.header.firstRecord + found.header.count - 1;
        if (record <= trusted) return found;
        const { end } = found;
        const isTorn =
          this.#isLast(window, end) &&
          !textsCheck(window, findAt(window, agentId, segment, offset), reader);
        // Looking ahead has moved the window.
        found = isTorn
          ? { what: "broken", at: offset, end }
          : findAt(window, agentId, segment, offset);
        if (found.what === "batch") return found;
      }
      if (found.what !== "seal") {
        try {
          this.#judgeTail(window, found);
          return null;
        } catch (error) {
          // A writer may have gone on between two looks: what stands here now was whole before anything followed it.
          const now = findAt(new FileWindow(window.file), agentId, segment, offset);
          if (now.what === "nothing" || now.what === "broken" || again === this.end) throw error;
          again = this.end;
          this.#window = null;
          continue;
        }
      }
      this.#checkSeal(found, window);
      if (segment === this.#segmentCount) this.#segmentCount = this.#countSegments();
      if (segment === this.#segmentCount) {
        const path = join(this.folder, segmentName(segment + 1));
        throw corrupt(`${path} is missing: the segment before it is sealed`, { file: path });
      }
      const { before, file } = this.segment(segment + 1);
      if (
        before.record !== this.end.record ||
        before.head !== this.end.head ||
        before.entries !== this.end.entries
      ) {
        throw corrupt(`${file.path} does not follow record ${this.end.record}`, {
          file: file.path,
          offset: 52,
        });
      }
      this.#sealRead = { segment, offset };
      this.end = { ...this.end, segment: segment + 1, offset: SEGMENT_START };
      this.#window = null;
    }
  }

  /** The batch was read and its chain holds: the log goes on behind it. */
  pass(batch: FoundBatch, end: LogEnd) {
    const { segment } = this.end;
    this.lastBatch = { segment, at: batch.at, end: batch.end };
    this.end = { segment, offset: batch.end, ...end };
  }

  #isLast(window: FileWindow, batchEnd: number): boolean {
    const { segment } = this.end;
    if (segment < this.#segmentCount) return false;
    const next = findAt(window, this.#ids.agentId, segment, batchEnd);
    return next.what !== "batch" && next.what !== "seal";
  }

  #checkSeal(seal: Extract<Found, { what: "seal" }>, window: FileWindow) {
    const { record, entries, head } = this.end;
    if (
      seal.record !== record ||
      seal.entries !== entries ||
      seal.head !== head ||
      // Zeros kept ahead may still stand behind it, where a crash came before they were cut off.
      lastWritten(window, seal.at + SEAL_BYTES) > seal.at + SEAL_BYTES
    ) {
      throw corrupt(`the seal of ${window.file.path} does not fit what stands before it`, {
        file: window.file.path,
        offset: seal.at,
      });
    }
  }

  /** Nothing more checks: the end, a torn batch, or damage. */
  #judgeTail(window: FileWindow, found: Extract<Found, { what: "nothing" | "broken" }>) {
    const { segment, offset } = this.end;
    const { agentId } = this.#ids;
    const file = window.file.path;
    window.size = window.file.stat().size;
    const broken = found.what === "broken" ? found : { at: found.at, end: null };
    const written = lastWritten(window, offset);
    this.tail = { tornBytes: written - offset, rollUnfinished: false };
    if (written > offset && somethingFollows(window, agentId, segment, broken)) {
      throw corrupt(`a batch of ${file} does not check, and whole ones follow it`, {
        file,
        offset,
      });
    }
    if (segment === this.#segmentCount) return;
    // A successor exists, and this one is not sealed: a roll that a crash cut short, if nothing was written there yet.
    const successor = this.#disk.open(join(this.folder, segmentName(segment + 1)), "read");
    try {
      const next = new FileWindow(successor);
      if (segment + 1 < this.#segmentCount || lastWritten(next, SEGMENT_START) > SEGMENT_START) {
        throw corrupt(`${file} is not sealed, and the next segment has been written to`, {
          file,
          offset,
        });
      }
    } finally {
      successor.close();
    }
    this.tail.rollUnfinished = true;
  }

  /** Whether `end` still is the end: nothing was written behind it, and the files are those that were opened. */
  isCurrent(): boolean {
    const segment = this.#segments[this.end.segment];
    if (!segment || this.end.segment !== this.#segmentCount) return false;
    const stat = this.#disk.stat(segment.file.path);
    if (!stat || !sameFile(stat, segment.file.stat())) return false;
    const peek = Buffer.alloc(BATCH_HEADER_BYTES);
    const length = segment.file.read(peek, this.end.offset);
    return isZero(peek, 0, length);
  }

  /** Whether the files that were opened are still the log's. */
  isSameLog(): boolean {
    const segment = this.#segments[this.end.segment];
    if (!segment) return false;
    const stat = this.#disk.stat(segment.file.path);
    return stat !== null && sameFile(stat, segment.file.stat());
  }

  // ----- under the lock, by a writer -----

  /** Cuts what is torn, undoes a roll that was cut short, and flushes (G3). */
  cutTail() {
    const { segment, offset } = this.end;
    if (this.tail.rollUnfinished) {
      this.#disk.removeFile(join(this.folder, segmentName(segment + 1)));
      this.#disk.flushFolder(this.folder);
      this.#segments[segment + 1]?.file.close();
      this.#segments[segment + 1] = undefined;
      this.#segmentCount = segment;
    }
    if (this.tail.tornBytes > 0) {
      const { file } = this.segment(segment);
      this.#fileBytes = null;
      file.truncate(offset);
      file.flush();
    }
    this.tail = { tornBytes: 0, rollUnfinished: false };
  }

  /**
   * Writes the last batch's bytes again where they stand, and flushes: a batch that was written and not flushed looks
   * whole in the page cache, and after a failed flush only bytes written again are flushed (G1, G9).
   */
  rewriteLastBatch() {
    if (!this.lastBatch) return;
    const { segment, at, end } = this.lastBatch;
    const { file } = this.segment(segment);
    const step = 1024 * 1024;
    for (let from = at; from < end; from += step) {
      const bytes = Buffer.allocUnsafe(Math.min(step, end - from));
      file.read(bytes, from);
      file.write(bytes, from);
    }
    file.flush();
  }

  /** Whether the log ends behind a seal that somebody else wrote, and may have died before its flush. */
  get sealIsDoubtful(): boolean {
    return this.#sealRead?.segment === this.end.segment - 1 && this.end.offset === SEGMENT_START;
  }

  /** The same for that seal: nothing may be written behind it before it is on the disk. */
  rewriteSeal() {
    if (!this.#sealRead) return;
    const { segment, offset } = this.#sealRead;
    const { file } = this.segment(segment);
    const bytes = Buffer.allocUnsafe(SEAL_BYTES);
    file.read(bytes, offset);
    file.write(bytes, offset);
    file.flush();
    this.#sealRead = null;
  }

  /**
   * Begins the next segment if this one is full. Where the next batch goes is settled then.
   *
   * @throws CheeseError DISK when this one could not be sealed: the log then refuses every write until reopened (G9)
   */
  rollIfFull() {
    if (this.end.offset < this.#segmentBytes) return;
    const file = this.#beginNext();
    if (!file) return;
    try {
      this.#seal(file);
    } catch (error) {
      closeQuietly(file);
      throw error;
    }
  }

  /**
   * Makes room for a batch, and for the reserve behind it.
   *
   * @param mayUseReserve for a recall or a drop: on a full disk the reserve may be used up
   * @throws CheeseError DISK when there is no room; nothing was written to the log then
   */
  makeRoom(bytes: number, mayUseReserve: boolean) {
    const { file } = this.lastSegment;
    this.#fileBytes ??= file.stat().size;
    const size = this.#fileBytes;
    const end = this.end.offset + bytes;
    if (end + RESERVE_BYTES <= size) return;
    this.#fileBytes = null;
    // The first growth of a handle is what is needed and no more, so that a handle for one write leaves a small file.
    const ahead = this.#growth;
    this.#growth = Math.min(Math.max(ahead * 2, GROWTH_BYTES_MIN), GROWTH_BYTES_MAX);
    const enough = [end + RESERVE_BYTES + ahead];
    if (ahead > 0) enough.push(end + RESERVE_BYTES);
    if (mayUseReserve) enough.push(end);
    let failure: unknown = null;
    for (const wanted of enough) {
      if (wanted <= size) return;
      try {
        writeZeros(file, size, wanted - size);
        return;
      } catch (error) {
        failure = error;
        this.#growth = 0;
        file.truncate(size);
      }
    }
    throw failure;
  }

  /** Creates the next segment; null where a full disk keeps it from being begun, and this one goes on growing. */
  #beginNext(): File | null {
    const { segment, record, entries, head } = this.end;
    const next = { number: segment + 1, before: { record, entries, head } };
    const path = join(this.folder, segmentName(next.number));
    let file: File | null = null;
    try {
      file = createSegment(this.#disk, path, this.#ids, this.generation, next, RESERVE_BYTES);
      this.#disk.flushFolder(this.folder);
      return file;
    } catch (error) {
      if (file) closeQuietly(file);
      if (!hasCode(error, "DISK")) throw error;
      if (this.#disk.stat(path)) this.#disk.removeFile(path);
      return null;
    }
  }

  /** Seals the last segment, now that its successor is on the disk: a sealed last segment is damage. */
  #seal(next: File) {
    const { segment, offset, record, entries, head } = this.end;
    const { file } = this.lastSegment;
    const place = { agentId: this.#ids.agentId, segment, offset };
    this.#fileBytes = null;
    file.write(encodeSeal(record, entries, head, place), offset);
    file.truncate(offset + SEAL_BYTES);
    file.flush();
    const before = { record, entries, head };
    this.#segments[segment + 1] = { file: next, zeroedBytes: 0, number: segment + 1, before };
    this.#segmentCount = segment + 1;
    this.#window = null;
    this.end = { ...this.end, segment: segment + 1, offset: SEGMENT_START };
  }

  /**
   * Writes a batch at the end, room for which was made. It is not flushed yet, and `end` not moved.
   *
   * @returns the offset of the batch in the last segment
   * @throws CheeseError DISK; CORRUPT when something was written there by someone else
   */
  write(batch: BatchBuilder): number {
    const { segment, offset } = this.end;
    const { file } = this.lastSegment;
    const peek = Buffer.allocUnsafe(BATCH_HEADER_BYTES);
    if (!isZero(peek, 0, file.read(peek, offset))) {
      throw corrupt(`something else was written to ${file.path} behind record ${this.end.record}`, {
        file: file.path,
        offset,
      });
    }
    file.write(batch.finish({ segment, offset }), offset);
    return offset;
  }

  /** The batch written is on the disk: it belongs to the log now. */
  accept(batch: BatchBuilder) {
    const at = this.end.offset;
    const end = at + batch.bytes;
    this.lastBatch = { segment: this.end.segment, at, end };
    this.end = {
      segment: this.end.segment,
      offset: end,
      record: batch.record,
      entries: batch.entries,
      head: batch.head,
    };
  }

  /** The one that is written to. */
  get lastSegment(): Segment {
    return this.segment(this.end.segment);
  }

  /** Overwrites a place with zeros, to be flushed by flushZeroed. */
  zero(segmentNumber: number, at: number, bytes: number) {
    const segment = this.segment(segmentNumber);
    segment.zeroedBytes += Math.max(bytes, PAGE_BYTES);
    writeZeros(segment.file, at, bytes);
  }

  /** @param flush how, by a file and the bytes that it has to bring to the disk */
  async flushZeroed(flush: (file: File, bytes: number) => Promise<void> | undefined) {
    for (const segment of this.#segments) {
      if (!segment || segment.zeroedBytes === 0) continue;
      const bytes = segment.zeroedBytes;
      segment.zeroedBytes = 0;
      await flush(segment.file, bytes);
    }
  }

  /**
   * Restores the reserve if a recall used of it; a full disk is no reason to fail.
   *
   * @throws CheeseError DISK when the flush fails, after which no other may be believed (G9)
   */
  restoreReserve() {
    const { file } = this.lastSegment;
    if (this.end.offset + RESERVE_BYTES <= file.stat().size) return;
    try {
      this.makeRoom(0, false);
    } catch (error) {
      if (!hasCode(error, "DISK")) throw error;
      return;
    }
    file.flush();
  }

  /** Gives back the space ahead, but for the reserve. Only under the lock. */
  trim() {
    const { file } = this.lastSegment;
    const size = this.end.offset + RESERVE_BYTES;
    if (file.stat().size <= size) return;
    this.#fileBytes = null;
    file.truncate(size);
    file.flush();
  }

  /** Bytes of all segments, zeros ahead included. */
  get bytes(): number {
    let sum = 0;
    for (let number = 1; number <= this.#segmentCount; number++) {
      sum += this.#disk.stat(join(this.folder, segmentName(number)))?.size ?? 0;
    }
    return sum;
  }

  /** @throws CheeseError CORRUPT when the file ends before it */
  read(segmentNumber: number, at: number, bytes: number): Buffer {
    const { file } = this.segment(segmentNumber);
    const into = Buffer.allocUnsafe(bytes);
    if (file.read(into, at) < bytes)
      throw corrupt(`${file.path} ends before offset ${at + bytes}`, {
        file: file.path,
        offset: at,
      });
    return into;
  }

  /** Segment that holds an entry. */
  segmentOf(entry: number): number {
    let low = 1;
    // Not beyond the end: a segment that a crash left half begun holds nothing.
    let high = this.end.segment;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.segment(middle).before.entries < entry) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  async flushOffThread() {
    for (const segment of this.#segments) await segment?.file.flushOffThread();
  }

  close() {
    allAtOnce(this.closing());
  }

  /** Closes all files, a step each, whatever one says: what was acknowledged was flushed before. */
  *closing(): Generator<undefined> {
    for (const segment of this.#segments.splice(0)) {
      if (!segment) continue;
      closeQuietly(segment.file);
      yield;
    }
  }
}

/** A link, or anything else in a folder's place, leads out of the store. */
function requireFolder(disk: Disk, path: string) {
  const stat = disk.stat(path);
  if (stat?.type !== "folder") {
    const what = stat ? `is a ${stat.type}` : "is missing";
    throw corrupt(`${path} ${what}, expected a folder`, { file: path });
  }
}

function writeZeros(file: File, at: number, bytes: number) {
  for (let done = 0; done < bytes; done += ZEROS.length) {
    file.write(ZEROS.subarray(0, Math.min(ZEROS.length, bytes - done)), at + done);
  }
}

/** Whether an error means that the log's files were swapped or removed under a reader, who then begins anew. */
export function mayHaveMoved(error: unknown): boolean {
  return isMissing(error) || (error instanceof CheeseError && error.code === "CORRUPT");
}
