// Reads a log as docs/format.md describes it, with nothing of the engine and nothing checked: for the floors, which touch the
// same bytes as the engine in the plainest way.

import { readFileSync } from "node:fs";

const HEADER_BYTES = 128;
const BATCH_HEADER_BYTES = 60;
const MARKER_BYTES = 40;
const BATCH_MAGIC = 0x48435442;
const AREA_UNIT_BYTES = 32;
const [LOT, MEMORY] = [1, 2];
/** In a spine, before the entry's number: kind, flags, time, record; behind it the commitment. */
const BEFORE_ENTRY_BYTES = 12;
const COMMITMENT_BYTES = 32;

export interface Area {
  entry: number;
  /** Index into the files. */
  file: number;
  at: number;
  bytes: number;
}

/** Every entry's area, in the order of the log. Only for a log without seen sets that was never compacted. */
export function* areasOf(files: string[]): Generator<Area> {
  for (const [file, path] of files.entries()) {
    const log = readFileSync(path);
    let at = HEADER_BYTES;
    while (at + BATCH_HEADER_BYTES <= log.length && log.readUInt32LE(at) === BATCH_MAGIC) {
      const count = log.readUInt16LE(at + 6);
      const spineBytes = log.readUInt32LE(at + 16);
      const areaBytes = log.readUInt32LE(at + 20);
      let spine = at + BATCH_HEADER_BYTES;
      let area = spine + spineBytes;
      for (let i = 0; i < count; i++) {
        const [length, body] = varint(log, spine);
        spine = body + length;
        const kind = log[body];
        if (kind !== LOT && kind !== MEMORY) continue;
        const [entry, behind] = varint(log, body + BEFORE_ENTRY_BYTES);
        const [units] = varint(log, behind + COMMITMENT_BYTES);
        const bytes = units * AREA_UNIT_BYTES;
        yield { entry, file, at: area, bytes };
        area += bytes;
      }
      at += BATCH_HEADER_BYTES + spineBytes + areaBytes + MARKER_BYTES;
    }
  }
}

function varint(bytes: Buffer, at: number): [value: number, end: number] {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++] as number;
    value += (byte & 127) * 2 ** shift;
    if (byte < 128) return [value, at];
  }
}
