// CRC-32 of a part of a buffer: for a few bytes by tables, since a view and a call of zlib's take longer than that.

import { crc32 } from "node:zlib";

/** Up to here the tables are faster. */
const FEW_BYTES = 96;
/** The polynomial of zlib and Ethernet, bits reversed. */
const POLYNOMIAL = 0xedb8_8320;

/**
 * TABLES[k · 256 + b]: what a byte b does to the CRC that stands k bytes further on.
 *
 * @see Kounavis and Berry, "A Systematic Approach to Building High Performance, Software-based, CRC Generators" (2005):
 *   slicing by 4
 */
const TABLES = new Int32Array(4 * 256);
for (let byte = 0; byte < 256; byte++) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  TABLES[byte] = crc;
}
for (let at = 256; at < TABLES.length; at++) {
  const before = TABLES[at - 256] as number;
  TABLES[at] = (before >>> 8) ^ (TABLES[before & 255] as number);
}

/** CRC-32 of from .. to, going on from `seed`, the CRC of what stands before. */
export function crc32Of(bytes: Buffer, from: number, to: number, seed: number): number {
  if (to - from > FEW_BYTES) return crc32(bytes.subarray(from, to), seed);
  let crc = ~seed;
  let at = from;
  for (; at + 4 <= to; at += 4) {
    crc ^=
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    crc =
      (TABLES[768 + (crc & 255)] as number) ^
      (TABLES[512 + ((crc >>> 8) & 255)] as number) ^
      (TABLES[256 + ((crc >>> 16) & 255)] as number) ^
      (TABLES[crc >>> 24] as number);
  }
  for (; at < to; at++) crc = (TABLES[(crc ^ (bytes[at] as number)) & 255] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}
