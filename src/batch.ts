// Puts one batch together: spines chained onto the head, areas with their salts, header and commit marker.

import { crc32 } from "node:zlib";
import { commitment, type Digest, link } from "./chain.ts";
import {
  areaBytesFor,
  BATCH_HEADER_BYTES,
  type BatchPlace,
  batchBytes,
  COMMIT_MARKER_BYTES,
  type IdList,
  LIMITS,
  type RecallSpine,
  SALT_BYTES,
  type SeenSet,
  SpineWriter,
  writeArea,
  writeBatchHeader,
  writeCommitMarker,
} from "./codec.ts";
import { CheeseError } from "./errors.ts";

/** Fills bytes with randomness. */
export type FillRandom = (bytes: Uint8Array) => void;

/** Where the log ends: what the next batch is chained onto. */
export interface LogEnd {
  record: number;
  entries: number;
  head: Digest;
}

const RANDOM_POOL_BYTES = 8192;
const NO_COMMITMENT = "\0".repeat(32);

export interface TextOf {
  /** Null for an entry whose text is not to be stored at all: it came by import, and is gone. */
  text: string | null;
  uri: string | null;
}

export class BatchBuilder {
  count = 0;
  record = 0;
  entries = 0;
  head: Digest = "";
  /** The newest record: its spine, from the batch's start, and its area, from the start of all areas. */
  lastSpineAt = 0;
  lastAreaAt = 0;

  #spines = Buffer.allocUnsafeSlow(64 * 1024);
  #spineEnd = 0;
  #areas = Buffer.allocUnsafeSlow(64 * 1024);
  #areaEnd = 0;
  #start: LogEnd = { record: 0, entries: 0, head: "" };
  readonly #agentId: Buffer;
  readonly #writer: SpineWriter;
  readonly #fillRandom: FillRandom;
  /** Random bytes for salts, and how many are used. */
  readonly #salt = { pool: Buffer.allocUnsafeSlow(RANDOM_POOL_BYTES), at: RANDOM_POOL_BYTES };

  constructor(agentId: Buffer, fillRandom: FillRandom) {
    this.#agentId = agentId;
    this.#writer = new SpineWriter(agentId);
    this.#fillRandom = fillRandom;
  }

  /** Forgets what was built, and begins the batch that follows `end`. */
  begin(end: LogEnd) {
    this.#start = end;
    this.count = 0;
    this.#spineEnd = 0;
    this.#areaEnd = 0;
    ({ record: this.record, entries: this.entries, head: this.head } = end);
  }

  /** Bytes of the batch as it stands. */
  get bytes(): number {
    return BATCH_HEADER_BYTES + this.#spineEnd + this.#areaEnd + COMMIT_MARKER_BYTES;
  }

  addLot(
    time: number,
    label: string,
    { text, uri }: TextOf,
    seen: SeenSet | null,
    bornDead = false,
  ) {
    const { commitment, areaBytes } = this.#addArea(text, uri);
    this.entries++;
    this.#writer.lot({
      time,
      record: this.#nextRecord(),
      entry: this.entries,
      commitment,
      areaBytes,
      label,
      seen,
      bornDead,
    });
    this.#addSpine(areaBytes);
  }

  addMemory(
    time: number,
    legs: ArrayLike<number>[],
    { text }: TextOf,
    seen: SeenSet | null,
    bornDead = false,
  ) {
    const { commitment, areaBytes } = this.#addArea(text, null);
    this.entries++;
    this.#writer.memory({
      time,
      record: this.#nextRecord(),
      entry: this.entries,
      commitment,
      areaBytes,
      legs,
      seen,
      bornDead,
    });
    this.#addSpine(areaBytes);
  }

  addCorroboration(time: number, memory: number, leg: ArrayLike<number>) {
    this.#writer.corroborate({ time, record: this.#nextRecord(), memory, leg });
    this.#addSpine(0);
  }

  addRecall(time: number, recall: RecallSpine) {
    this.#writer.recall(time, this.#nextRecord(), recall);
    this.#addSpine(0);
  }

  addDrop(time: number, dropped: IdList) {
    this.#writer.drop({ time, record: this.#nextRecord(), dropped });
    this.#addSpine(0);
  }

  #nextRecord(): number {
    if (this.record >= LIMITS.count)
      throw new CheeseError("TOO_LARGE", `an agent can hold ${LIMITS.count} records`);
    return this.record + 1;
  }

  #addArea(text: string | null, uri: string | null): { commitment: Digest; areaBytes: number } {
    if (text === null) return { commitment: NO_COMMITMENT, areaBytes: 0 };
    const textBytes = Buffer.byteLength(text);
    const uriBytes = uri === null ? -1 : Buffer.byteLength(uri);
    const areaBytes = areaBytesFor(textBytes, uriBytes);
    const at = this.#areaEnd;
    if (at + areaBytes > this.#areas.length)
      this.#areas = enlarged(this.#areas, at, at + areaBytes);
    const contentEnd = writeArea(this.#areas, at, areaBytes, this.#nextSalt(), {
      text,
      textBytes,
      uri,
      uriBytes,
    });
    this.#areaEnd = at + areaBytes;
    return { commitment: commitment(this.#areas, at, contentEnd), areaBytes };
  }

  #nextSalt() {
    const salt = this.#salt;
    salt.at += SALT_BYTES;
    if (salt.at >= RANDOM_POOL_BYTES) {
      this.#fillRandom(salt.pool);
      salt.at = 0;
    }
    return salt;
  }

  #addSpine(areaBytes: number) {
    const { buffer, start, end } = this.#writer;
    const at = this.#spineEnd;
    if (at + end - start > this.#spines.length)
      this.#spines = enlarged(this.#spines, at, at + end - start);
    buffer.copy(this.#spines, at, start, end);
    this.#spineEnd = at + end - start;
    this.head = link(this.head, buffer, start, end);
    this.count++;
    this.record++;
    this.lastSpineAt = BATCH_HEADER_BYTES + at;
    this.lastAreaAt = this.#areaEnd - areaBytes;
  }

  /** The newest record's spine, for the caller to read back. */
  get spineBytes(): { bytes: Buffer; from: number; to: number } {
    return { bytes: this.#writer.buffer, from: this.#writer.start, to: this.#writer.end };
  }

  /** The whole batch, as it is to be written at a place; the bytes are the caller's. */
  finish(place: Omit<BatchPlace, "agentId">): Buffer {
    const header = {
      compacted: false,
      count: this.count,
      firstRecord: this.#start.record + 1,
      entriesBefore: this.#start.entries,
      spineBytes: this.#spineEnd,
      areaBytes: this.#areaEnd,
      headBefore: this.#start.head,
    };
    const out = Buffer.allocUnsafe(batchBytes(header));
    writeBatchHeader(out, 0, header, { ...place, agentId: this.#agentId });
    this.#spines.copy(out, BATCH_HEADER_BYTES, 0, this.#spineEnd);
    const areasAt = BATCH_HEADER_BYTES + this.#spineEnd;
    this.#areas.copy(out, areasAt, 0, this.#areaEnd);
    writeCommitMarker(out, areasAt + this.#areaEnd, crc32(out.subarray(0, areasAt)), this.head);
    return out;
  }

  /** Offset of all areas from the batch's start, once it is complete. */
  get areasAt(): number {
    return BATCH_HEADER_BYTES + this.#spineEnd;
  }
}

function enlarged(buffer: Buffer, used: number, bytesMin: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafeSlow(Math.max(buffer.length * 2, bytesMin));
  buffer.copy(larger, 0, 0, used);
  return larger;
}
