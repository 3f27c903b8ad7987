// One file of the log: how it begins, how its batches are found, and how a torn tail is told from damage.

import { crc32 } from "node:zlib";
import type { LogEnd } from "./batch.ts";
import { commitment, type Digest, link } from "./chain.ts";
import {
  areaContentEnd,
  BATCH_HEADER_BYTES,
  BATCH_MAGIC,
  type BatchHeader,
  batchBytes,
  COMMIT_MARKER_BYTES,
  decodeFileHeader,
  encodeFileHeader,
  FILE_HEADER_BYTES,
  isZero,
  mapBytes,
  readBatchHeader,
  readCommitMarker,
  readSeal,
  SEAL_MAGIC,
  type SpineReader,
} from "./codec.ts";
import { closeQuietly, type Disk, type File } from "./disk.ts";
import { corrupt } from "./errors.ts";

/** Whose log a file must be. */
export interface AgentIds {
  /** 16 bytes each. */
  storeId: Buffer;
  agentId: Buffer;
}

export const SEGMENT_START = FILE_HEADER_BYTES;

/** What a segment's header says: which it is, and where the log stood before it. */
export interface SegmentInfo {
  number: number;
  before: LogEnd;
}

export function segmentName(number: number): string {
  return `${String(number).padStart(8, "0")}.seg`;
}

/** Creates and flushes a segment of a header and zeros; the folder is the caller's to flush. */
export function createSegment(
  disk: Disk,
  path: string,
  { storeId, agentId }: AgentIds,
  generation: number,
  { number, before }: SegmentInfo,
  zeroBytes: number,
): File {
  const file = disk.create(path);
  const header = encodeFileHeader({
    kind: "segment",
    number,
    storeId,
    agentId,
    generation,
    record: before.record,
    entries: before.entries,
    hash: before.head,
  });
  try {
    file.write(Buffer.concat([header, Buffer.alloc(zeroBytes)]), 0);
    file.flush();
  } catch (error) {
    closeQuietly(file);
    throw error;
  }
  return file;
}

/** @throws CheeseError CORRUPT when it is not this agent's segment of this number and generation */
export function readSegmentHeader(
  file: File,
  ids: AgentIds,
  generation: number,
  number: number,
): SegmentInfo {
  const bytes = Buffer.alloc(FILE_HEADER_BYTES);
  const header = decodeFileHeader(bytes.subarray(0, file.read(bytes, 0)), "segment", file.path);
  if (!header.storeId.equals(ids.storeId) || !header.agentId.equals(ids.agentId)) {
    throw corrupt(`${file.path} belongs to another agent or store`, {
      file: file.path,
      offset: 16,
    });
  }
  if (header.number !== number || header.generation !== generation) {
    throw corrupt(
      `${file.path} is segment ${header.number} of generation ${header.generation}, expected ${number} of ${generation}`,
      { file: file.path, offset: 12 },
    );
  }
  return { number, before: { record: header.record, entries: header.entries, head: header.hash } };
}

/** Reads a file in pieces that grow while it is read in a row; a view is good until the next call. */
export class FileWindow {
  readonly file: File;
  /** The file's size when the window was made or refreshed. */
  size: number;
  #buffer: Buffer;
  #from = 0;
  #to = 0;

  constructor(file: File) {
    this.file = file;
    this.size = file.stat().size;
    this.#buffer = Buffer.allocUnsafeSlow(WINDOW_BYTES_MIN);
  }

  /** The most that can be viewed without a larger buffer. */
  get bytes(): number {
    return this.#buffer.length;
  }

  /** Whether `at` lies in it, or right behind it. */
  reaches(at: number): boolean {
    return at >= this.#from && at <= this.#to && this.#to > 0;
  }

  /** Bytes from `at`, fewer only where the file ends. */
  view(at: number, length: number): Buffer {
    const wanted = Math.min(length, Math.max(this.size - at, 0));
    if (at < this.#from || at + wanted > this.#to) {
      const isNext = this.reaches(at);
      const bytes = Math.max(
        wanted,
        isNext ? Math.min(this.#buffer.length * 2, WINDOW_BYTES_MAX) : 0,
      );
      if (bytes > this.#buffer.length) this.#buffer = Buffer.allocUnsafeSlow(bytes);
      this.#from = at;
      const into = this.#buffer.subarray(0, Math.min(this.#buffer.length, this.size - at));
      this.#to = at + this.file.read(into, at);
    }
    return this.#buffer.subarray(at - this.#from, Math.min(at + wanted, this.#to) - this.#from);
  }
}

const WINDOW_BYTES_MIN = 64 * 1024;
const WINDOW_BYTES_MAX = 1024 * 1024;

/** A batch whose header, spines and marker check. Its views are good until the next read of the window. */
export interface FoundBatch {
  what: "batch";
  header: BatchHeader;
  headAfter: Digest;
  /** Offsets in the segment. */
  at: number;
  end: number;
  areasAt: number;
  /** Header, area map and spines. */
  bytes: Buffer;
  /** Where the spines begin in `bytes`. */
  spinesAt: number;
}

export type Found =
  | FoundBatch
  /** Zeros as far as a header reaches, or the file's end. */
  | { what: "nothing"; at: number }
  | { what: "seal"; at: number; record: number; entries: number; head: Digest }
  /** `end`: where it would end, if its header checks. */
  | { what: "broken"; at: number; end: number | null };

/** What stands at an offset of a segment. */
export function findAt(window: FileWindow, agentId: Buffer, segment: number, at: number): Found {
  const place = { agentId, segment, offset: at };
  const head = window.view(at, BATCH_HEADER_BYTES);
  if (isZero(head, 0, head.length)) return { what: "nothing", at };
  const seal = readSeal(head, 0, place);
  if (seal) return { what: "seal", at, ...seal };
  const header = readBatchHeader(head, 0, place);
  if (!header) return { what: "broken", at, end: null };
  const end = at + batchBytes(header);
  if (end > window.size) return { what: "broken", at, end: window.size };
  const spinesAt = BATCH_HEADER_BYTES + mapBytes(header);
  const coveredBytes = spinesAt + header.spineBytes;
  let marker: Buffer;
  let bytes: Buffer;
  if (end - at <= window.bytes) {
    const whole = window.view(at, end - at);
    marker = whole.subarray(whole.length - COMMIT_MARKER_BYTES);
    bytes = whole.subarray(0, coveredBytes);
  } else {
    // The marker first, and copied: a view is good until the next.
    marker = Buffer.from(window.view(end - COMMIT_MARKER_BYTES, COMMIT_MARKER_BYTES));
    bytes = window.view(at, coveredBytes);
  }
  const headAfter = readCommitMarker(marker, 0, crc32(bytes));
  if (headAfter === null) return { what: "broken", at, end };
  return { what: "batch", header, headAfter, at, end, areasAt: at + coveredBytes, bytes, spinesAt };
}

/** Whether a compacted batch still holds the area of its i-th record (from 0). */
export function holdsArea(batch: FoundBatch, i: number): boolean {
  if (!batch.header.compacted) return true;
  return (((batch.bytes[BATCH_HEADER_BYTES + (i >>> 3)] as number) >>> (i & 7)) & 1) === 1;
}

/**
 * Reads a batch's spines in turn, and checks the chain, the numbering and the sizes.
 *
 * @param visit called with the reader standing on each; areaAt is the area's offset in the segment, 0 if it is not there;
 *   head is the one after this record
 * @param options.checked false to check each spine by itself too
 * @param options.whole false to read of an entry no more than its number, commitment and size
 * @param options.chained false to take the marker's word for the head, which is then the one of every record
 * @throws CheeseError CORRUPT or NEWER_FORMAT, before the last call if the chain does not end at the marker's head
 */
export function readSpines(
  batch: FoundBatch,
  before: LogEnd,
  reader: SpineReader,
  visit: (spineAt: number, areaAt: number, head: Digest) => void,
  {
    checked = true,
    chained = true,
    whole = true,
  }: { checked?: boolean; chained?: boolean; whole?: boolean } = {},
): LogEnd {
  const { header, bytes, spinesAt } = batch;
  if (
    header.headBefore !== before.head ||
    header.firstRecord !== before.record + 1 ||
    header.entriesBefore !== before.entries
  ) {
    throw corrupt(`the batch does not follow record ${before.record}`, { offset: batch.at });
  }
  const limit = spinesAt + header.spineBytes;
  let { record, entries } = before;
  let head = chained ? before.head : batch.headAfter;
  let at = spinesAt;
  let areaAt = batch.areasAt;
  for (let i = 0; i < header.count; i++) {
    const next = reader.read(bytes, at, limit, checked, whole);
    if (chained) head = link(head, bytes, at, next);
    record++;
    if (reader.record !== record)
      throw corrupt(`record ${reader.record} stands where ${record} is due`, { offset: batch.at });
    let areaBytes = 0;
    if (reader.isEntry) {
      entries++;
      if (reader.entry !== entries)
        throw corrupt(`entry ${reader.entry} stands where ${entries} is due`, { offset: batch.at });
      if (holdsArea(batch, i)) areaBytes = reader.areaBytes;
    }
    visit(batch.at + at, areaBytes === 0 ? 0 : areaAt, head);
    areaAt += areaBytes;
    at = next;
  }
  if (at !== limit || areaAt !== batch.areasAt + header.areaBytes) {
    throw corrupt("a batch is longer or shorter than its records", { offset: batch.at });
  }
  if (head !== batch.headAfter)
    throw corrupt(`the chain breaks in the batch of record ${header.firstRecord}`, {
      offset: batch.at,
    });
  return { record, entries, head };
}

/** Whether every text that a batch holds checks against its commitment. */
export function textsCheck(window: FileWindow, batch: Found, reader: SpineReader): boolean {
  if (batch.what !== "batch") return false;
  // A copy: the areas may lie elsewhere in the file than the window holds.
  const bytes = Buffer.from(batch.bytes);
  const limit = batch.spinesAt + batch.header.spineBytes;
  let at = batch.spinesAt;
  let areaAt = batch.areasAt;
  for (let i = 0; i < batch.header.count; i++) {
    at = reader.read(bytes, at, limit, true);
    if (!reader.isEntry || reader.areaBytes === 0 || !holdsArea(batch, i)) continue;
    const area = window.view(areaAt, reader.areaBytes);
    if (
      area.length < reader.areaBytes ||
      !areaChecks(area, 0, reader.areaBytes, reader.commitment())
    )
      return false;
    areaAt += reader.areaBytes;
  }
  return true;
}

export function areaChecks(
  bytes: Buffer,
  at: number,
  areaBytes: number,
  committed: Digest,
): boolean {
  const end = areaContentEnd(bytes, at, areaBytes);
  return end !== -1 && commitment(bytes, at, end) === committed;
}

const SCAN_BYTES = 256 * 1024;
const ZEROS = Buffer.alloc(SCAN_BYTES);

/** The next batch header behind `at` that checks, byte by byte; -1 if there is none. For a look at what damage left. */
export function nextHeader(
  window: FileWindow,
  agentId: Buffer,
  segment: number,
  at: number,
): number {
  for (let from = at + 1; from < window.size; from += SCAN_BYTES) {
    const bytes = Buffer.from(window.view(from, SCAN_BYTES + BATCH_MAGIC.length));
    for (
      let i = bytes.indexOf(BATCH_MAGIC);
      i !== -1 && i < SCAN_BYTES;
      i = bytes.indexOf(BATCH_MAGIC, i + 1)
    ) {
      const place = { agentId, segment, offset: from + i };
      if (readBatchHeader(window.view(from + i, BATCH_HEADER_BYTES), 0, place)) return from + i;
    }
  }
  return -1;
}

/** Where the last byte that is not zero ends, from `at` on; `at` itself if there is none. */
export function lastWritten(window: FileWindow, at: number): number {
  for (let to = window.size; to > at; ) {
    const from = Math.max(at, to - SCAN_BYTES);
    const bytes = window.view(from, to - from);
    if (!bytes.equals(ZEROS.subarray(0, bytes.length))) {
      for (let i = bytes.length - 1; i >= 0; i--) if (bytes[i] !== 0) return from + i + 1;
    }
    to = from;
  }
  return at;
}

/**
 * Whether any batch header or seal that checks stands behind a broken one: then it is damage, not a torn tail (G3).
 *
 * @param broken where its header checks, from its end on; else from its own beginning on, byte by byte
 */
export function somethingFollows(
  window: FileWindow,
  agentId: Buffer,
  segment: number,
  broken: { at: number; end: number | null },
): boolean {
  const stands = (at: number) => {
    const head = window.view(at, BATCH_HEADER_BYTES);
    const place = { agentId, segment, offset: at };
    return readBatchHeader(head, 0, place) !== null || readSeal(head, 0, place) !== null;
  };
  // What a broken batch holds of texts is not looked into, where its end is known: a text could be made to look like one.
  for (let from = broken.end ?? broken.at + 1; from < window.size; from += SCAN_BYTES) {
    // A copy, since `stands` moves the window; longer than the step, so that no magic is cut in two.
    const bytes = Buffer.from(window.view(from, SCAN_BYTES + BATCH_MAGIC.length));
    for (const magic of [BATCH_MAGIC, SEAL_MAGIC]) {
      for (
        let i = bytes.indexOf(magic);
        i !== -1 && i < SCAN_BYTES;
        i = bytes.indexOf(magic, i + 1)
      ) {
        if (stands(from + i)) return true;
      }
    }
  }
  return false;
}
