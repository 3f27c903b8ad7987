// Every byte layout we write, in the order of docs/format.md, and the only file that counts offsets.
// Pure: bytes in, fields out, or the reverse. All numbers are little-endian; a varint is LEB128, 7 bits a byte.

import { crc32 } from "node:zlib";
import { grown, NO_IDS } from "./arrays.ts";
import { crc32Of } from "./crc.ts";
import { CheeseError, corrupt } from "./errors.ts";
import type { Disposal, Mode } from "./terms.ts";

export const FORMAT_VERSION = 1;

/** Limits that the format sets, in bytes or counts. */
export const LIMITS = {
  textBytes: 16 * 1024 * 1024,
  uriBytes: 8 * 1024,
  labelBytes: 64,
  nameCodePoints: 64,
  legs: 4096,
  parentsOfALeg: 4096,
  seenRanges: 4096,
  batchRecords: 4096,
  batchBytes: 32 * 1024 * 1024,
  /** Records, entries, legs and edges of one agent each stay below 2^32 - 1. */
  count: 0xffff_fffe,
} as const;

// ---------------------------------------------------------------------------------------------
// File header: the first 128 bytes of every file, and of each slot of the head mark

export const FILE_HEADER_BYTES = 128;
const MAGIC = Buffer.from("CHEESEDB", "latin1");
const HEADER_CHECK_AT = 124;

export const FILE_KINDS = { store: 1, agent: 2, segment: 3, headMark: 4, snapshot: 5 } as const;
export type FileKind = keyof typeof FILE_KINDS;

/** What each field means for each kind of file stands in docs/format.md, "File header". */
export interface FileHeader {
  kind: FileKind;
  /** Segment number, or the sequence number of a head mark slot. */
  number: number;
  /** 16 bytes each; zeros where a file belongs to no agent. */
  storeId: Buffer;
  agentId: Buffer;
  generation: number;
  record: number;
  entries: number;
  /** Head mark: the done mark. Snapshot: the segment of its end. */
  extra: number;
  /** 32 bytes as a latin1 string: the head at `record`. */
  hash: string;
  /** Store and agent: milliseconds since 1970. Snapshot: the offset of its end. */
  place: number;
  /** What follows the header, and its CRC-32. */
  bodyBytes: number;
  bodyCheck: number;
}

export const NO_ID = Buffer.alloc(16);
export const NO_HASH = "\0".repeat(32);

export function encodeFileHeader(
  fields: Partial<FileHeader> & { kind: FileKind; storeId: Buffer },
): Buffer {
  const out = Buffer.alloc(FILE_HEADER_BYTES);
  MAGIC.copy(out, 0);
  out.writeUInt16LE(FORMAT_VERSION, 8);
  out.writeUInt16LE(FILE_KINDS[fields.kind], 10);
  out.writeUInt32LE(fields.number ?? 0, 12);
  fields.storeId.copy(out, 16);
  (fields.agentId ?? NO_ID).copy(out, 32);
  out.writeUInt32LE(fields.generation ?? 0, 48);
  out.writeUInt32LE(fields.record ?? 0, 52);
  out.writeUInt32LE(fields.entries ?? 0, 56);
  out.writeUInt32LE(fields.extra ?? 0, 60);
  out.write(fields.hash ?? NO_HASH, 64, 32, "latin1");
  out.writeUIntLE(fields.place ?? 0, 96, 6);
  out.writeUInt32LE(fields.bodyBytes ?? 0, 104);
  out.writeUInt32LE(fields.bodyCheck ?? 0, 108);
  out.writeUInt32LE(crc32(out.subarray(0, HEADER_CHECK_AT)), HEADER_CHECK_AT);
  return out;
}

/**
 * Reads a file header and checks it.
 *
 * @throws CheeseError CORRUPT when it does not check or is of another kind; NEWER_FORMAT when it does, but for its version
 */
export function decodeFileHeader(bytes: Buffer, kind: FileKind, file: string): FileHeader {
  if (bytes.length < FILE_HEADER_BYTES) {
    throw corrupt(`${file} ends within its header: ${bytes.length} of ${FILE_HEADER_BYTES} bytes`, {
      file,
      offset: 0,
    });
  }
  if (
    !bytes.subarray(0, 8).equals(MAGIC) ||
    bytes.readUInt32LE(HEADER_CHECK_AT) !== crc32(bytes.subarray(0, HEADER_CHECK_AT))
  ) {
    throw corrupt(`the header of ${file} does not check`, { file, offset: 0 });
  }
  const version = bytes.readUInt16LE(8);
  if (version > FORMAT_VERSION) {
    throw new CheeseError(
      "NEWER_FORMAT",
      `${file} has format version ${version}; this cheesedb knows ${FORMAT_VERSION}`,
      { file },
    );
  }
  if (version !== FORMAT_VERSION || bytes.readUInt16LE(10) !== FILE_KINDS[kind]) {
    throw corrupt(`${file} is no ${kind} file`, { file, offset: 8 });
  }
  return {
    kind,
    number: bytes.readUInt32LE(12),
    storeId: Buffer.from(bytes.subarray(16, 32)),
    agentId: Buffer.from(bytes.subarray(32, 48)),
    generation: bytes.readUInt32LE(48),
    record: bytes.readUInt32LE(52),
    entries: bytes.readUInt32LE(56),
    extra: bytes.readUInt32LE(60),
    hash: bytes.toString("latin1", 64, 96),
    place: bytes.readUIntLE(96, 6),
    bodyBytes: bytes.readUInt32LE(104),
    bodyCheck: bytes.readUInt32LE(108),
  };
}

/** The body of a file whose header has been read, once it checks; what stands behind it must be nothing. */
export function checkedBody(bytes: Buffer, header: FileHeader, file: string): Buffer {
  const body = bytes.subarray(FILE_HEADER_BYTES);
  if (body.length !== header.bodyBytes || crc32(body) !== header.bodyCheck) {
    throw corrupt(`${file} does not check behind its header`, { file, offset: FILE_HEADER_BYTES });
  }
  return body;
}

// ---------------------------------------------------------------------------------------------
// Agent file: a file header, then who the agent is

export interface AgentIdentity {
  name: string;
  /** SHA-256 of the token's secret, 32 bytes. */
  tokenHash: Buffer;
}

const TOKEN_HASH_BYTES = 32;

export function encodeAgentBody({ name, tokenHash }: AgentIdentity): Buffer {
  return Buffer.concat([tokenHash, Buffer.from(name, "utf8")]);
}

export function decodeAgentBody(body: Buffer, file: string): AgentIdentity {
  if (body.length <= TOKEN_HASH_BYTES) throw corrupt(`${file} is too short`, { file });
  return {
    tokenHash: Buffer.from(body.subarray(0, TOKEN_HASH_BYTES)),
    name: body.toString("utf8", TOKEN_HASH_BYTES),
  };
}

// ---------------------------------------------------------------------------------------------
// Erasable area: salt, lengths, text, uri, zeros

export const SALT_BYTES = 32;
const AREA_HEAD_BYTES = SALT_BYTES + 4 + 2;
export const AREA_UNIT_BYTES = 32;

/**
 * Size of the area that holds a text and a uri: a multiple of 32 up to 1 KiB, and beyond by Padmé, so that it tells
 * little of the exact length.
 *
 * @param uriBytes -1 when there is no uri
 * @see Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs" (2019), section 4.3
 */
export function areaBytesFor(textBytes: number, uriBytes: number): number {
  const content = AREA_HEAD_BYTES + textBytes + Math.max(uriBytes, 0);
  let step = AREA_UNIT_BYTES;
  if (content > 1024) {
    const exponent = 31 - Math.clz32(content);
    step = 2 ** (exponent - (32 - Math.clz32(exponent)));
  }
  return Math.ceil(content / step) * step;
}

/** A text and its uri with their sizes in bytes. */
export interface AreaContent {
  text: string;
  textBytes: number;
  uri: string | null;
  /** -1 when there is no uri. */
  uriBytes: number;
}

/** Writes a whole area, its salt from a pool of random bytes; returns where its content ends and the padding begins. */
export function writeArea(
  out: Buffer,
  at: number,
  areaBytes: number,
  salt: { pool: Buffer; at: number },
  content: AreaContent,
): number {
  const { text, textBytes, uri, uriBytes } = content;
  salt.pool.copy(out, at, salt.at, salt.at + SALT_BYTES);
  out.writeUInt32LE(textBytes, at + SALT_BYTES);
  out.writeUInt16LE(uriBytes + 1, at + SALT_BYTES + 4);
  let end = at + AREA_HEAD_BYTES;
  out.write(text, end, textBytes, "utf8");
  end += textBytes;
  if (uri !== null) end += out.write(uri, end, uriBytes, "utf8");
  // Mostly a few bytes, for which a call of `fill` is the longer way.
  for (let i = end; i < at + areaBytes; i++) out[i] = 0;
  return end;
}

/**
 * Where an area's content ends, or -1 when its lengths run over it or its padding is not zero.
 * What lies from `at` to there is what a commitment covers.
 */
export function areaContentEnd(bytes: Buffer, at: number, areaBytes: number): number {
  if (areaBytes < AREA_HEAD_BYTES) return -1;
  const textBytes = bytes.readUInt32LE(at + SALT_BYTES);
  const uriBytes = Math.max(bytes.readUInt16LE(at + SALT_BYTES + 4) - 1, 0);
  const end = at + AREA_HEAD_BYTES + textBytes + uriBytes;
  if (end > at + areaBytes || areaBytesFor(textBytes, uriBytes) !== areaBytes) return -1;
  return isZero(bytes, end, at + areaBytes) ? end : -1;
}

export function readAreaText(bytes: Buffer, at: number): { text: string; uri: string | null } {
  const textBytes = bytes.readUInt32LE(at + SALT_BYTES);
  const uriField = bytes.readUInt16LE(at + SALT_BYTES + 4);
  const textAt = at + AREA_HEAD_BYTES;
  const uriAt = textAt + textBytes;
  return {
    text: bytes.toString("utf8", textAt, uriAt),
    uri: uriField === 0 ? null : bytes.toString("utf8", uriAt, uriAt + uriField - 1),
  };
}

export function isZero(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) if (bytes[i] !== 0) return false;
  return true;
}

// ---------------------------------------------------------------------------------------------
// Spine: what a record says for ever

export const RECORD_KINDS = { lot: 1, memory: 2, corroborate: 3, recall: 4, drop: 5 } as const;

/** Flags of a spine. Bits that this version does not know are a newer format. */
export const SPINE_FLAGS = {
  /** A seen set follows. */
  seen: 1,
  /** The seen set is counted on from another entry's, named before the ranges. */
  seenBase: 2,
  /** The entry was written dead: it came by import, and a recall in the same file took it. */
  bornDead: 4,
} as const;
const KNOWN_FLAGS = 7;
// Room kept: bit 6 announces a key id (varint, after the flags), bit 7 a signature kind (u8, behind it).

const MODES: readonly Mode[] = ["fair", "strict", "contact"];
const DISPOSALS: readonly Disposal[] = ["untrusted", "erase"];

/** Ascending numbers from 1, as one count and their differences. */
export type IdList = Uint32Array<ArrayBuffer>;

export interface SeenSet {
  /** An entry whose seen set is part of this one; 0 for none. */
  base: number;
  /** First and last of each range, ascending and apart: from, to, from, to, … */
  ranges: Uint32Array;
}

/** Everything that the spine of a recall says beside kind, time and number. */
export interface RecallSpine {
  targets: IdList;
  mode: Mode;
  disposal: Disposal;
  /** Died of this recall, targets not among them. */
  removed: IdList;
  /** Texts that go beside those of removed under erase: of targets, of what was dead before, or below a target erased earlier. */
  alsoErased: IdList;
  /** Under contact: dead before, and below. */
  contactBelow: IdList;
  /** Came dead by import, and this is the recall that had taken them. */
  explained: IdList;
}

const SPINE_LEAD_BYTES = 5;
const VARINT_BYTES_MAX = 5;

/** Builds one spine after another in one buffer; the bytes of the newest lie from `start` to `end`. */
export class SpineWriter {
  buffer = Buffer.allocUnsafeSlow(4096);
  start = 0;
  end = 0;
  /** CRC-32 of the agent's id: a spine that strays into another agent's log does not check there. */
  readonly #seed: number;

  constructor(agentId: Buffer) {
    this.#seed = crc32(agentId);
  }

  #begin(kind: number, flags: number, time: number, record: number) {
    const out = this.buffer;
    const at = SPINE_LEAD_BYTES;
    out[at] = kind;
    out[at + 1] = flags;
    out.writeUInt32LE(time % 0x1_0000_0000, at + 2);
    out.writeUInt16LE(Math.floor(time / 0x1_0000_0000), at + 6);
    out.writeUInt32LE(record, at + 8);
    this.end = at + 12;
  }

  #room(bytes: number) {
    if (this.end + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.buffer.length * 2, this.end + bytes));
    this.buffer.copy(larger, 0, 0, this.end);
    this.buffer = larger;
  }

  #varint(value: number) {
    const out = this.buffer;
    let at = this.end;
    let rest = value;
    while (rest > 127) {
      out[at++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    out[at++] = rest;
    this.end = at;
  }

  #list(ids: ArrayLike<number>) {
    this.#room(5 + ids.length * 5);
    this.#varint(ids.length);
    let before = 0;
    for (let i = 0; i < ids.length; i++) {
      this.#varint((ids[i] as number) - before);
      before = ids[i] as number;
    }
  }

  #entry(entry: number, commitment: string, areaBytes: number) {
    this.#varint(entry);
    this.buffer.write(commitment, this.end, 32, "latin1");
    this.end += 32;
    this.#varint(areaBytes / AREA_UNIT_BYTES);
  }

  #seen(seen: SeenSet | null) {
    if (!seen) return;
    const { base, ranges } = seen;
    this.#room(10 + ranges.length * 5);
    if (base) this.#varint(base);
    this.#varint(ranges.length / 2);
    let before = 0;
    for (let i = 0; i < ranges.length; i++) {
      this.#varint((ranges[i] as number) - before);
      before = ranges[i] as number;
    }
  }

  #finish() {
    this.#room(4);
    // What follows the length is this, and the check of 4 bytes.
    let rest = this.end - SPINE_LEAD_BYTES + 4;
    let at = SPINE_LEAD_BYTES - varintBytes(rest);
    this.start = at;
    while (rest > 127) {
      this.buffer[at++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.buffer[at] = rest;
    this.buffer.writeUInt32LE(crc32Of(this.buffer, this.start, this.end, this.#seed), this.end);
    this.end += 4;
  }

  lot(f: {
    time: number;
    record: number;
    entry: number;
    commitment: string;
    areaBytes: number;
    label: string;
    seen: SeenSet | null;
    bornDead?: boolean;
  }) {
    this.#begin(RECORD_KINDS.lot, flagsOf(f.seen, f.bornDead), f.time, f.record);
    this.#entry(f.entry, f.commitment, f.areaBytes);
    const labelBytes = this.buffer.write(f.label, this.end + 1, LIMITS.labelBytes, "utf8");
    this.buffer[this.end] = labelBytes;
    this.end += 1 + labelBytes;
    this.#seen(f.seen);
    this.#finish();
  }

  memory(f: {
    time: number;
    record: number;
    entry: number;
    commitment: string;
    areaBytes: number;
    /** Each ascending. */
    legs: ArrayLike<number>[];
    seen: SeenSet | null;
    bornDead?: boolean;
  }) {
    this.#begin(RECORD_KINDS.memory, flagsOf(f.seen, f.bornDead), f.time, f.record);
    this.#entry(f.entry, f.commitment, f.areaBytes);
    this.#varint(f.legs.length);
    for (const leg of f.legs) this.#list(leg);
    this.#seen(f.seen);
    this.#finish();
  }

  corroborate(f: { time: number; record: number; memory: number; leg: ArrayLike<number> }) {
    this.#begin(RECORD_KINDS.corroborate, 0, f.time, f.record);
    this.#varint(f.memory);
    this.#list(f.leg);
    this.#finish();
  }

  recall(time: number, record: number, recall: RecallSpine) {
    const { mode, disposal, targets, removed, alsoErased, contactBelow, explained } = recall;
    this.#begin(RECORD_KINDS.recall, 0, time, record);
    this.buffer[this.end++] = MODES.indexOf(mode) | (DISPOSALS.indexOf(disposal) << 4);
    for (const list of [targets, removed, alsoErased, contactBelow, explained]) this.#list(list);
    this.#finish();
  }

  drop(f: { time: number; record: number; dropped: IdList }) {
    this.#begin(RECORD_KINDS.drop, 0, f.time, f.record);
    this.#list(f.dropped);
    this.#finish();
  }
}

function flagsOf(seen: SeenSet | null, bornDead = false): number {
  return (
    (seen ? SPINE_FLAGS.seen : 0) |
    (seen?.base ? SPINE_FLAGS.seenBase : 0) |
    (bornDead ? SPINE_FLAGS.bornDead : 0)
  );
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) bytes++;
  return bytes;
}

/**
 * Reads one spine after another without making objects: the fields are those of the newest.
 *
 * Nothing is trusted: a length or count that leads out of the spine is CORRUPT, before anything of its size is
 * allocated, and a kind or flag that this version does not know is NEWER_FORMAT if the spine checks.
 */
export class SpineReader {
  /** One of RECORD_KINDS. */
  kind = 0;
  flags = 0;
  /** Milliseconds since 1970. */
  time = 0;
  record = 0;
  /** The entry, or for corroborate the memory. */
  entry = 0;
  /** Where the 32 bytes of the commitment, and the label, stand in the buffer that was read. */
  commitmentAt = 0;
  areaBytes = 0;
  labelAt = 0;
  labelBytes = 0;
  /** Legs of a memory, or the one of a corroboration: leg k's parents are parents[legEnds[k-1] .. legEnds[k]). */
  legCount = 0;
  legEnds = new Uint32Array(16);
  parents = new Uint32Array(64);
  seenBase = 0;
  /** As in a SeenSet: the first `seenLength` numbers. */
  seenRanges = new Uint32Array(16);
  seenLength = 0;
  recall: RecallSpine | null = null;
  dropped = NO_IDS;

  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #limit = 0;
  readonly #seed: number;

  constructor(agentId: Buffer) {
    this.#seed = crc32(agentId);
  }

  get isEntry(): boolean {
    return this.kind <= RECORD_KINDS.memory;
  }

  get bornDead(): boolean {
    return (this.flags & SPINE_FLAGS.bornDead) !== 0;
  }

  /**
   * Reads the spine at `at`, which must end by `limit`.
   *
   * @param checked whether the bytes are known to be whole (a commit marker covers them): its own check is then skipped
   * @param whole false for no more than an entry's number, commitment and size; of what is no entry all is read
   * @returns where the next one begins
   * @throws CheeseError CORRUPT or NEWER_FORMAT
   */
  read(bytes: Buffer, at: number, limit: number, checked: boolean, whole = true): number {
    this.#bytes = bytes;
    this.#at = at;
    this.#limit = limit;
    const length = this.#varint();
    const end = this.#at + length;
    if (length < 16 || end > limit) throw corrupt("a spine runs over its batch", { offset: at });
    if (!checked && bytes.readUInt32LE(end - 4) !== crc32Of(bytes, at, end - 4, this.#seed)) {
      throw corrupt("a spine does not check", { offset: at });
    }
    this.#limit = end - 4;
    let p = this.#at;
    this.kind = bytes[p] as number;
    this.flags = bytes[p + 1] as number;
    this.time = bytes.readUInt32LE(p + 2) + bytes.readUInt16LE(p + 6) * 0x1_0000_0000;
    this.record = bytes.readUInt32LE(p + 8);
    p += 12;
    this.#at = p;
    if (this.kind < 1 || this.kind > RECORD_KINDS.drop || (this.flags & ~KNOWN_FLAGS) !== 0) {
      throw new CheeseError(
        "NEWER_FORMAT",
        `a record of an unknown kind (${this.kind}, flags ${this.flags})`,
        { offset: at },
      );
    }
    const mayHave = this.kind <= RECORD_KINDS.memory ? KNOWN_FLAGS : 0;
    const { seen, seenBase } = SPINE_FLAGS;
    if ((this.flags & ~mayHave) !== 0 || (this.flags & (seen | seenBase)) === seenBase) {
      throw corrupt(`a spine of kind ${this.kind} has flags ${this.flags}`, { offset: at });
    }
    this.legCount = 0;
    this.seenBase = 0;
    this.seenLength = 0;
    if (this.kind <= RECORD_KINDS.memory) {
      this.entry = this.#varint();
      this.commitmentAt = this.#at;
      this.#at += 32;
      this.areaBytes = this.#varint() * AREA_UNIT_BYTES;
      if (!whole) return end;
      if (this.kind === RECORD_KINDS.lot) {
        this.labelBytes = this.#at < this.#limit ? (bytes[this.#at] as number) : 0;
        this.labelAt = this.#at + 1;
        this.#at = this.labelAt + this.labelBytes;
      } else {
        const legs = this.#count();
        for (let i = 0; i < legs; i++) this.#leg();
      }
      if (this.flags & SPINE_FLAGS.seen) this.#seen();
    } else if (this.kind === RECORD_KINDS.corroborate) {
      this.entry = this.#varint();
      this.#leg();
    } else if (this.kind === RECORD_KINDS.recall) {
      if (this.#at >= this.#limit) throw corrupt("a recall says nothing", { offset: at });
      const how = bytes[this.#at++] as number;
      const mode = MODES[how & 15];
      const disposal = DISPOSALS[how >> 4];
      if (!mode || !disposal)
        throw new CheeseError("NEWER_FORMAT", `a recall of an unknown mode (${how})`, {
          offset: at,
        });
      this.recall = {
        mode,
        disposal,
        targets: this.#list(),
        removed: this.#list(),
        alsoErased: this.#list(),
        contactBelow: this.#list(),
        explained: this.#list(),
      };
    } else {
      this.dropped = this.#list();
    }
    if (this.#at !== this.#limit)
      throw corrupt("a spine is longer or shorter than its fields", { offset: at });
    return end;
  }

  #varint(): number {
    const at = this.#at;
    const byte = this.#bytes[at] as number;
    // Most are of one byte.
    if (at < this.#limit && byte < 128) {
      this.#at = at + 1;
      return byte;
    }
    return this.#longVarint();
  }

  #longVarint(): number {
    const bytes = this.#bytes;
    const limit = Math.min(this.#at + VARINT_BYTES_MAX, this.#limit);
    let value = 0;
    let unit = 1;
    for (let at = this.#at; at < limit; at++) {
      const byte = bytes[at] as number;
      value += (byte & 127) * unit;
      if (byte < 128) {
        if (value > 0xffff_ffff) break;
        this.#at = at + 1;
        return value;
      }
      unit *= 128;
    }
    throw corrupt("a number runs over its spine", { offset: this.#at });
  }

  /** The next number of an ascending list. */
  #after(before: number): number {
    const next = before + this.#varint();
    if (next === before || next > 0xffff_ffff) {
      throw corrupt("a list does not ascend", { offset: this.#at });
    }
    return next;
  }

  /** A count of things that take a byte each at least. */
  #count(): number {
    const count = this.#varint();
    if (count > this.#limit - this.#at)
      throw corrupt("a count runs over its spine", { offset: this.#at });
    return count;
  }

  #leg() {
    const count = this.#count();
    const leg = this.legCount++;
    const from = leg === 0 ? 0 : (this.legEnds[leg - 1] as number);
    if (this.legCount > this.legEnds.length) this.legEnds = grown(this.legEnds, this.legCount);
    if (from + count > this.parents.length) this.parents = grown(this.parents, from + count);
    let before = 0;
    for (let i = 0; i < count; i++) {
      before = this.#after(before);
      this.parents[from + i] = before;
    }
    this.legEnds[leg] = from + count;
  }

  #seen() {
    if (this.flags & SPINE_FLAGS.seenBase) this.seenBase = this.#varint();
    this.seenLength = 2 * this.#count();
    if (this.seenLength > this.seenRanges.length)
      this.seenRanges = grown(this.seenRanges, this.seenLength);
    const list = this.seenRanges;
    let before = 0;
    for (let i = 0; i < this.seenLength; i += 2) {
      const first = this.#after(before);
      before = first + this.#varint();
      if (before > 0xffff_ffff)
        throw corrupt("a range runs over all numbers", { offset: this.#at });
      list[i] = first;
      list[i + 1] = before;
    }
  }

  #list(): IdList {
    const list = new Uint32Array(this.#count());
    let before = 0;
    for (let i = 0; i < list.length; i++) {
      before = this.#after(before);
      list[i] = before;
    }
    return list;
  }

  /** The commitment of the entry just read, 32 bytes as latin1. */
  commitment(): string {
    return this.#bytes.toString("latin1", this.commitmentAt, this.commitmentAt + 32);
  }

  label(): string {
    return this.#bytes.toString("utf8", this.labelAt, this.labelAt + this.labelBytes);
  }

  /** Parents of leg k, ascending; a copy. */
  leg(k: number): Uint32Array {
    return this.parents.slice(k === 0 ? 0 : this.legEnds[k - 1], this.legEnds[k]);
  }

  legs(): Uint32Array[] {
    return Array.from({ length: this.legCount }, (_, k) => this.leg(k));
  }

  get hasSeen(): boolean {
    return (this.flags & SPINE_FLAGS.seen) !== 0;
  }

  /** Null when no seen set was recorded; a copy. */
  seen(): SeenSet | null {
    if (!this.hasSeen) return null;
    return { base: this.seenBase, ranges: this.seenRanges.slice(0, this.seenLength) };
  }
}

// ---------------------------------------------------------------------------------------------
// Batch: header, [area map], spines, areas, commit marker

export const BATCH_HEADER_BYTES = 60;
export const COMMIT_MARKER_BYTES = 40;
export const BATCH_MAGIC = Buffer.from("BTCH", "latin1");
const BATCH_MAGIC_NUMBER = BATCH_MAGIC.readUInt32LE(0);
const MARKER_MAGIC_NUMBER = Buffer.from("CMIT", "latin1").readUInt32LE(0);

/** The batch was rewritten by a compaction: a map of the areas that it still holds follows the header. */
const BATCH_COMPACTED = 1;

export interface BatchHeader {
  compacted: boolean;
  /** Records in this batch, 1 or more. */
  count: number;
  firstRecord: number;
  /** Entries of the agent before this batch. */
  entriesBefore: number;
  spineBytes: number;
  areaBytes: number;
  /** 32 bytes as latin1. */
  headBefore: string;
}

/** Where a batch stands enters its checks, so that a copy elsewhere does not check. */
export interface BatchPlace {
  agentId: Buffer;
  segment: number;
  /** In bytes from the segment's start. */
  offset: number;
}

function placeSeed({ agentId, segment, offset }: BatchPlace): number {
  const place = Buffer.allocUnsafe(24);
  agentId.copy(place, 0);
  place.writeUInt32LE(segment, 16);
  place.writeUInt32LE(offset, 20);
  return crc32(place);
}

export function mapBytes(header: BatchHeader): number {
  return header.compacted ? Math.ceil(header.count / 8) : 0;
}

/** The whole batch, in bytes. */
export function batchBytes(header: BatchHeader): number {
  return (
    BATCH_HEADER_BYTES +
    mapBytes(header) +
    header.spineBytes +
    header.areaBytes +
    COMMIT_MARKER_BYTES
  );
}

export function writeBatchHeader(out: Buffer, at: number, header: BatchHeader, place: BatchPlace) {
  out.writeUInt32LE(BATCH_MAGIC_NUMBER, at);
  out.writeUInt16LE(header.compacted ? BATCH_COMPACTED : 0, at + 4);
  out.writeUInt16LE(header.count, at + 6);
  out.writeUInt32LE(header.firstRecord, at + 8);
  out.writeUInt32LE(header.entriesBefore, at + 12);
  out.writeUInt32LE(header.spineBytes, at + 16);
  out.writeUInt32LE(header.areaBytes, at + 20);
  out.write(header.headBefore, at + 24, 32, "latin1");
  out.writeUInt32LE(crc32(out.subarray(at, at + 56), placeSeed(place)), at + 56);
}

/** Reads and checks a batch header; null when it does not check. */
export function readBatchHeader(bytes: Buffer, at: number, place: BatchPlace): BatchHeader | null {
  if (bytes.length - at < BATCH_HEADER_BYTES || bytes.readUInt32LE(at) !== BATCH_MAGIC_NUMBER)
    return null;
  if (bytes.readUInt32LE(at + 56) !== crc32(bytes.subarray(at, at + 56), placeSeed(place)))
    return null;
  const flags = bytes.readUInt16LE(at + 4);
  if (bytes.readUInt16LE(at + 6) === 0) return null;
  if ((flags & ~BATCH_COMPACTED) !== 0) {
    throw new CheeseError(
      "NEWER_FORMAT",
      `a batch has flags ${flags} that this cheesedb does not know`,
      { offset: place.offset },
    );
  }
  return {
    compacted: (flags & BATCH_COMPACTED) !== 0,
    count: bytes.readUInt16LE(at + 6),
    firstRecord: bytes.readUInt32LE(at + 8),
    entriesBefore: bytes.readUInt32LE(at + 12),
    spineBytes: bytes.readUInt32LE(at + 16),
    areaBytes: bytes.readUInt32LE(at + 20),
    headBefore: bytes.toString("latin1", at + 24, at + 56),
  };
}

/**
 * Writes the commit marker.
 *
 * @param covered CRC-32 over header, map and spines: all of the batch that is never erased
 */
export function writeCommitMarker(out: Buffer, at: number, covered: number, headAfter: string) {
  out.writeUInt32LE(MARKER_MAGIC_NUMBER, at);
  out.write(headAfter, at + 4, 32, "latin1");
  out.writeUInt32LE(crc32(out.subarray(at, at + 36), covered), at + 36);
}

/** The head after a batch; null when the marker does not check. */
export function readCommitMarker(bytes: Buffer, at: number, covered: number): string | null {
  if (bytes.readUInt32LE(at) !== MARKER_MAGIC_NUMBER) return null;
  if (bytes.readUInt32LE(at + 36) !== crc32(bytes.subarray(at, at + 36), covered)) return null;
  return bytes.toString("latin1", at + 4, at + 36);
}

// ---------------------------------------------------------------------------------------------
// Seal: the last 48 bytes of a segment that has a successor

export const SEAL_BYTES = 48;
export const SEAL_MAGIC = Buffer.from("SEAL", "latin1");
const SEAL_MAGIC_NUMBER = SEAL_MAGIC.readUInt32LE(0);

export function encodeSeal(
  record: number,
  entries: number,
  head: string,
  place: BatchPlace,
): Buffer {
  const out = Buffer.alloc(SEAL_BYTES);
  out.writeUInt32LE(SEAL_MAGIC_NUMBER, 0);
  out.writeUInt32LE(record, 4);
  out.writeUInt32LE(entries, 8);
  out.write(head, 12, 32, "latin1");
  out.writeUInt32LE(crc32(out.subarray(0, 44), placeSeed(place)), 44);
  return out;
}

/** Whether a seal stands at `at` that checks, whatever it says. */
export function readSeal(
  bytes: Buffer,
  at: number,
  place: BatchPlace,
): { record: number; entries: number; head: string } | null {
  if (bytes.length - at < SEAL_BYTES || bytes.readUInt32LE(at) !== SEAL_MAGIC_NUMBER) return null;
  if (bytes.readUInt32LE(at + 44) !== crc32(bytes.subarray(at, at + 44), placeSeed(place)))
    return null;
  return {
    record: bytes.readUInt32LE(at + 4),
    entries: bytes.readUInt32LE(at + 8),
    head: bytes.toString("latin1", at + 12, at + 44),
  };
}
