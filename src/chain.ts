// What is hashed, and how: a spine onto the head before it, the salted commitment of a text, a token, a plan.
// Pure, and the only file that hashes. Digests are SHA-256, as latin1 strings of 32 characters: immutable, compared
// with ===, and 3 times cheaper to get from Node than a Buffer.

import { createHash, hash } from "node:crypto";
import { SALT_BYTES } from "./codec.ts";
import type { Disposal, Head, Mode } from "./terms.ts";

/** SHA-256, 32 bytes as latin1. */
export type Digest = string;

const CHAIN_DOMAIN = Buffer.from("cheesedb/chain/v1", "latin1");
const TEXT_DOMAIN = Buffer.from("cheesedb/text/v1", "latin1");

const sha256 = (bytes: Uint8Array): Digest => hash("sha256", bytes, "binary");

/** A buffer whose views are made once for each length, since making a view costs a third of a hash. */
class Scratch {
  readonly bytes = Buffer.alloc(4096);
  readonly #views: Buffer[] = [];

  view(length: number): Buffer {
    let view = this.#views[length];
    if (!view) {
      view = this.bytes.subarray(0, length);
      this.#views[length] = view;
    }
    return view;
  }
}

const linkScratch = new Scratch();
const areaScratch = new Scratch();
TEXT_DOMAIN.copy(areaScratch.bytes, SALT_BYTES);

/** hash(0), before any record. */
export function genesis(storeId: Uint8Array, agentId: Uint8Array): Digest {
  return sha256(Buffer.concat([CHAIN_DOMAIN, storeId, agentId]));
}

/** hash(n) = SHA-256(hash(n-1) ‖ spine n); the spine lies at from .. to. */
export function link(before: Digest, bytes: Buffer, from: number, to: number): Digest {
  const length = 32 + to - from;
  if (length > linkScratch.bytes.length) {
    return createHash("sha256")
      .update(before, "binary")
      .update(bytes.subarray(from, to))
      .digest("binary");
  }
  linkScratch.bytes.write(before, 0, 32, "latin1");
  bytes.copy(linkScratch.bytes, 32, from, to);
  return sha256(linkScratch.view(length));
}

/**
 * SHA-256(salt ‖ domain ‖ lengths ‖ text ‖ uri): what a spine keeps of a text.
 *
 * The area's content lies at from .. to: 32 random bytes of salt, the two lengths, the text, the uri. Once the salt is
 * gone, a guessed text cannot be confirmed.
 */
export function commitment(bytes: Buffer, from: number, to: number): Digest {
  const length = to - from + TEXT_DOMAIN.length;
  if (length > areaScratch.bytes.length) {
    const body = from + SALT_BYTES;
    return createHash("sha256")
      .update(bytes.subarray(from, body))
      .update(TEXT_DOMAIN)
      .update(bytes.subarray(body, to))
      .digest("binary");
  }
  bytes.copy(areaScratch.bytes, 0, from, from + SALT_BYTES);
  bytes.copy(areaScratch.bytes, SALT_BYTES + TEXT_DOMAIN.length, from + SALT_BYTES, to);
  return sha256(areaScratch.view(length));
}

/** What a store keeps of a token's secret: 32 bytes. */
export function tokenHash(secret: Uint8Array): Buffer {
  return Buffer.from(sha256(secret), "latin1");
}

const toHex = (digest: Digest): string => Buffer.from(digest, "latin1").toString("hex");

export function headOf(record: number, digest: Digest): Head {
  const hex = toHex(digest);
  return { record, hash: hex, fingerprint: `${record}-${hex}` };
}

/** Null when it is no fingerprint. */
export function parseFingerprint(text: string): { record: number; hash: Digest } | null {
  const match = /^(0|[1-9][0-9]{0,9})-([0-9a-f]{64})$/.exec(text);
  if (!match) return null;
  return {
    record: Number(match[1]),
    hash: Buffer.from(match[2] as string, "hex").toString("latin1"),
  };
}

/**
 * A plan's id: `<mode>-<disposal>-` and 16 hex digits of SHA-256 over the agent's id and five lists of numbers, each as
 * its count and its members, u32 little-endian: targets, removed, survivors, erased; mode and disposal before them.
 */
export function planId(
  agentId: Uint8Array,
  mode: Mode,
  disposal: Disposal,
  lists: {
    targets: ArrayLike<number>;
    removed: ArrayLike<number>;
    survivors: ArrayLike<number>;
    erased: ArrayLike<number>;
  },
): string {
  const state = createHash("sha256").update(agentId).update(`${mode}-${disposal}-`);
  for (const list of [lists.targets, lists.removed, lists.survivors, lists.erased]) {
    const numbers = list instanceof Uint32Array ? list : Uint32Array.from(list);
    state.update(Uint32Array.of(list.length)).update(numbers);
  }
  return `${mode}-${disposal}-${state.digest("hex").slice(0, 16)}`;
}
