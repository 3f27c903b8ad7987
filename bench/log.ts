// Reads a log as docs/format.md describes it, with nothing of the engine: for the floors, which touch the same bytes as the
// engine in the plainest way. Only for logs that were never compacted.

import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";

const HEADER_BYTES = 128;
const BATCH_HEADER_BYTES = 60;
const MARKER_BYTES = 40;
const BATCH_MAGIC = 0x48435442;
const AREA_UNIT_BYTES = 32;
const [LOT, MEMORY] = [1, 2];
const [HAS_SEEN, HAS_BASE] = [1, 2];
/** In a spine, behind its length and before the entry's number: kind, flags, time, record. */
const BEFORE_ENTRY_BYTES = 12;
const COMMITMENT_BYTES = 32;
const CHECK_BYTES = 4;
const SALT_BYTES = 32;
/** Before the text in an area: salt, length of the text, length of the uri. */
const BEFORE_TEXT_BYTES = SALT_BYTES + 6;

export interface Area {
  entry: number;
  /** Index into the files. */
  file: number;
  at: number;
  bytes: number;
}

/** One file of the log and a place in it. */
class Cursor {
  readonly log: Buffer;
  at = HEADER_BYTES;

  constructor(path: string) {
    this.log = readFileSync(path);
  }

  varint(): number {
    const { log } = this;
    let byte = log[this.at++] as number;
    let value = byte & 127;
    for (let shift = 7; byte > 127; shift += 7) {
      byte = log[this.at++] as number;
      value += (byte & 127) * 2 ** shift;
    }
    return value;
  }
}

/**
 * Goes through every record of some files.
 *
 * @param visit is told where the record's spine begins and ends, and where the next area is; the cursor stands behind the
 *   spine's length. It returns the size of the record's own area.
 */
function walk(
  files: string[],
  visit: (cursor: Cursor, file: number, spine: number, end: number, area: number) => number,
) {
  for (const [file, path] of files.entries()) {
    const cursor = new Cursor(path);
    const { log } = cursor;
    for (let batch = HEADER_BYTES; batch + BATCH_HEADER_BYTES <= log.length; ) {
      if (log.readUInt32LE(batch) !== BATCH_MAGIC) break;
      const records = log.readUInt16LE(batch + 6);
      const spineBytes = log.readUInt32LE(batch + 16);
      const areaBytes = log.readUInt32LE(batch + 20);
      let spine = batch + BATCH_HEADER_BYTES;
      let area = spine + spineBytes;
      for (let i = 0; i < records; i++) {
        cursor.at = spine;
        const length = cursor.varint();
        const end = cursor.at + length;
        area += visit(cursor, file, spine, end, area);
        spine = end;
      }
      batch += BATCH_HEADER_BYTES + spineBytes + areaBytes + MARKER_BYTES;
    }
  }
}

function isEntry({ log, at }: Cursor): boolean {
  return log[at] === LOT || log[at] === MEMORY;
}

/** Where every entry's area stands. */
export function areasOf(files: string[], visit: (area: Area) => void) {
  walk(files, (cursor, file, _spine, _end, at) => {
    if (!isEntry(cursor)) return 0;
    cursor.at += BEFORE_ENTRY_BYTES;
    const entry = cursor.varint();
    cursor.at += COMMITMENT_BYTES;
    const bytes = cursor.varint() * AREA_UNIT_BYTES;
    visit({ entry, file, at, bytes });
    return bytes;
  });
}

/** One pass over every text: read, hashed as a commitment is, decoded. Returns how many letters there are. */
export function readTexts(files: string[]): number {
  let letters = 0;
  walk(files, (cursor, _file, _spine, _end, at) => {
    if (!isEntry(cursor)) return 0;
    const { log } = cursor;
    cursor.at += BEFORE_ENTRY_BYTES;
    cursor.varint();
    cursor.at += COMMITMENT_BYTES;
    const bytes = cursor.varint() * AREA_UNIT_BYTES;
    hash("sha256", log.subarray(at, at + bytes), "hex");
    const from = at + BEFORE_TEXT_BYTES;
    letters += log.toString("utf8", from, from + log.readUInt32LE(at + SALT_BYTES)).length;
    return bytes;
  });
  return letters;
}

/** One pass over every memory's record: its check, its legs, what it has seen. Returns how many seen ranges there are. */
export function readRecords(files: string[]): number {
  let ranges = 0;
  walk(files, (cursor, _file, spine, end) => {
    const { log } = cursor;
    if (!isEntry(cursor)) return 0;
    const isMemory = log[cursor.at] === MEMORY;
    const flags = log[cursor.at + 1] as number;
    crc32(log.subarray(spine, end - CHECK_BYTES));
    cursor.at += BEFORE_ENTRY_BYTES;
    cursor.varint();
    cursor.at += COMMITMENT_BYTES;
    const bytes = cursor.varint() * AREA_UNIT_BYTES;
    if (!isMemory) return bytes;
    for (let legs = cursor.varint(); legs > 0; legs--)
      for (let parents = cursor.varint(); parents > 0; parents--) cursor.varint();
    if (flags & HAS_SEEN) {
      if (flags & HAS_BASE) cursor.varint();
      const count = cursor.varint();
      for (let i = 0; i < 2 * count; i++) cursor.varint();
      ranges += count;
    }
    return bytes;
  });
  return ranges;
}
