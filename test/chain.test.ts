// What is hashed, against @noble/hashes, node:crypto and published vectors: the engine's own hash is Node's.

import { createHash } from "node:crypto";
import { sha256 } from "@noble/hashes/sha2.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  commitment,
  genesis,
  headOf,
  link,
  parseFingerprint,
  planId,
  tokenHash,
} from "../src/chain.ts";
import { SEED } from "./helpers.ts";

fc.configureGlobal({ seed: SEED, numRuns: 200 });

const ascii = (text: string) => Buffer.from(text, "latin1");
const hex = (bytes: Uint8Array | string) =>
  (typeof bytes === "string" ? ascii(bytes) : Buffer.from(bytes)).toString("hex");

function u32(...values: number[]): Buffer {
  return Buffer.concat(
    values.map((value) => Buffer.from([value, value >>> 8, value >>> 16, value >>> 24])),
  );
}

/** By noble and by Node's streaming hash, which must agree. */
function hashOf(...parts: Uint8Array[]): string {
  const bytes = Buffer.concat(parts);
  const byNoble = hex(sha256(bytes));
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(byNoble);
  return byNoble;
}

const bytes = (min: number, max: number = min) =>
  fc.uint8Array({ minLength: min, maxLength: max }).map((array) => Buffer.from(array));
const digest = bytes(32).map((b) => b.toString("latin1"));

describe("SHA-256", () => {
  // FIPS 180-4 examples and CAVP short messages of NIST.
  const vectors: [message: Buffer, digest: string][] = [
    [ascii(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    [ascii("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    [
      ascii("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ],
    [
      ascii(
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      ),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
    ],
    [
      Buffer.alloc(1_000_000, "a"),
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    ],
    [Buffer.from("d3", "hex"), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"],
    [
      Buffer.from("11af", "hex"),
      "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98",
    ],
  ];

  test("the engine's hash, noble's and Node's give the published digests", () => {
    for (const [message, published] of vectors) {
      expect(hashOf(message)).toBe(published);
      // A token's hash is the plain hash of its secret: the one way to the engine's.
      expect(hex(tokenHash(message))).toBe(published);
    }
  });
});

describe("chain", () => {
  test("hash 0 is over the domain and the two ids", () => {
    fc.assert(
      fc.property(bytes(16), bytes(16), (storeId, agentId) => {
        expect(hex(genesis(storeId, agentId))).toBe(
          hashOf(ascii("cheesedb/chain/v1"), storeId, agentId),
        );
      }),
    );
    expect(hex(genesis(Buffer.alloc(16, 1), Buffer.alloc(16, 2)))).toBe(
      hashOf(
        Buffer.from("63686565736564622f636861696e2f7631", "hex"),
        Buffer.from("01010101010101010101010101010101", "hex"),
        Buffer.from("02020202020202020202020202020202", "hex"),
      ),
    );
  });

  test("hash n is over the hash before it and the whole spine, of whatever length", () => {
    fc.assert(
      fc.property(digest, bytes(0, 5000), fc.nat(50), fc.nat(50), (before, spine, front, back) => {
        const around = Buffer.concat([Buffer.alloc(front, 7), spine, Buffer.alloc(back, 9)]);
        expect(hex(link(before, around, front, front + spine.length))).toBe(
          hashOf(ascii(before), spine),
        );
      }),
    );
  });

  test("lengths around the buffer that is kept for hashing, long and short in turn, do not mix", () => {
    const before = "\xff".repeat(32);
    for (const length of [4064, 17, 4063, 4065, 1, 4096, 4064, 40_000, 16, 0]) {
      const spine = Buffer.alloc(length, length & 255);
      expect(hex(link(before, spine, 0, length))).toBe(hashOf(ascii(before), spine));
    }
  });

  test("one flipped bit in the spine or in the hash before it gives another hash", () => {
    const before = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7));
    const spine = Buffer.from(Array.from({ length: 60 }, (_, i) => i * 11));
    const seen = new Set([link(before.toString("latin1"), spine, 0, spine.length)]);
    for (const part of [before, spine]) {
      for (let bit = 0; bit < part.length * 8; bit++) {
        part[bit >>> 3] = (part[bit >>> 3] as number) ^ (1 << (bit & 7));
        seen.add(link(before.toString("latin1"), spine, 0, spine.length));
        part[bit >>> 3] = (part[bit >>> 3] as number) ^ (1 << (bit & 7));
      }
    }
    expect(seen.size).toBe(1 + 32 * 8 + 60 * 8);
  });

  test("a fingerprint is the record, a hyphen and the hash, and reads back", () => {
    fc.assert(
      fc.property(fc.nat(0xffff_fffe), digest, (record, hash) => {
        const { fingerprint, ...head } = headOf(record, hash);
        expect(head).toEqual({ record, hash: hex(hash) });
        expect(fingerprint).toBe(`${record}-${hex(hash)}`);
        expect(parseFingerprint(fingerprint)).toEqual({ record, hash });
      }),
    );
  });

  test("what is no fingerprint is told so", () => {
    const hash = "0123456789abcdef".repeat(4);
    expect(parseFingerprint(`0-${hash}`)?.record).toBe(0);
    for (const text of [
      "",
      "7",
      hash,
      `7-${hash.slice(1)}`,
      `7-${hash}0`,
      `7-${hash.toUpperCase()}`,
      `07-${hash}`,
      `-7-${hash}`,
      `7 -${hash}`,
      ` 7-${hash}`,
      `7-${hash}\n`,
      `12345678901-${hash}`,
      `7–${hash}`,
    ]) {
      expect(parseFingerprint(text), JSON.stringify(text)).toBe(null);
    }
  });
});

describe("commitment", () => {
  test("it is over salt, domain, sizes, text and uri", () => {
    fc.assert(
      fc.property(
        bytes(32),
        bytes(0, 5000),
        fc.option(bytes(0, 200)),
        fc.nat(50),
        (salt, text, uri, front) => {
          const sizes = Buffer.concat([
            u32(text.length),
            u32(uri ? uri.length + 1 : 0).subarray(0, 2),
          ]);
          const rest = Buffer.concat([sizes, text, uri ?? Buffer.alloc(0)]);
          const area = Buffer.concat([Buffer.alloc(front, 3), salt, rest, Buffer.alloc(64)]);
          expect(hex(commitment(area, front, front + 32 + rest.length))).toBe(
            hashOf(salt, ascii("cheesedb/text/v1"), rest),
          );
        },
      ),
    );
  });

  test("contents around the buffer that is kept for hashing, long and short in turn, do not mix", () => {
    for (const length of [4080, 38, 4079, 4081, 39, 4096, 4080, 100_000, 38]) {
      const content = Buffer.alloc(length, length & 255);
      expect(hex(commitment(content, 0, length))).toBe(
        hashOf(content.subarray(0, 32), ascii("cheesedb/text/v1"), content.subarray(32)),
      );
    }
  });

  test("one flipped bit in salt, sizes, text or uri gives another commitment", () => {
    const content = Buffer.concat([
      Buffer.alloc(32, 0xaa),
      u32(4),
      Buffer.from([4, 0]),
      ascii("Puneabc"),
    ]);
    const seen = new Set([commitment(content, 0, content.length)]);
    for (let bit = 0; bit < content.length * 8; bit++) {
      const flipped = Buffer.from(content);
      flipped[bit >>> 3] = (flipped[bit >>> 3] as number) ^ (1 << (bit & 7));
      seen.add(commitment(flipped, 0, flipped.length));
    }
    expect(seen.size).toBe(1 + content.length * 8);
  });
});

describe("plan id", () => {
  const ids = fc
    .uniqueArray(fc.integer({ min: 1, max: 0xffff_fffe }), { maxLength: 20 })
    .map((list) => list.sort((a, b) => a - b));
  const lists = fc.record({ targets: ids, removed: ids, survivors: ids, erased: ids });
  const mode = fc.constantFrom("fair", "strict", "contact");
  const disposal = fc.constantFrom("untrusted", "erase");

  test("it is over the agent, mode, disposal and the four lists", () => {
    fc.assert(
      fc.property(bytes(16), mode, disposal, lists, (agentId, mode, disposal, lists) => {
        const { targets, removed, survivors, erased } = lists;
        const listed = [targets, removed, survivors, erased].map((list) =>
          u32(list.length, ...list),
        );
        const all = hashOf(agentId, ascii(`${mode}-${disposal}-`), ...listed);
        expect(planId(agentId, mode, disposal, lists)).toBe(
          `${mode}-${disposal}-${all.slice(0, 16)}`,
        );
      }),
    );
  });

  test("an entry that moves from one list to the next makes another plan", () => {
    const agentId = Buffer.alloc(16, 5);
    const none = { targets: [7], removed: [], survivors: [], erased: [] };
    const plans = [
      none,
      { ...none, removed: [8] },
      { ...none, survivors: [8] },
      { ...none, erased: [8] },
      { ...none, targets: [7, 8] },
    ].map((lists) => planId(agentId, "fair", "erase", lists));
    expect(new Set(plans).size).toBe(5);
    expect(planId(Buffer.alloc(16, 6), "fair", "erase", none)).not.toBe(plans[0]);
  });
});
