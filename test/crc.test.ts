import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { crc32Of } from "../src/crc.ts";
import { chance, SEED } from "./chance.ts";

test("the CRC of a part of a buffer is zlib's, at every length and from any beginning", () => {
  const random = chance(SEED);
  const int = (limit: number) => Math.floor(random() * limit);
  const bytes = Buffer.from(Array.from({ length: 400 }, () => int(256)));
  for (let length = 0; length <= 200; length++) {
    const from = int(200);
    const seed = crc32(bytes.subarray(0, int(400)));
    const expected = crc32(bytes.subarray(from, from + length), seed);
    expect(crc32Of(bytes, from, from + length, seed), `${length} bytes, seed ${SEED}`).toBe(
      expected,
    );
  }
});
