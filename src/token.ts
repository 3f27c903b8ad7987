// Tokens: made, shown once, and known afterwards by a hash alone.
//
// cheese_<base64url of the agent's id (16 bytes) and the secret (32 bytes)>: the id finds the agent, the secret opens it.

import { timingSafeEqual } from "node:crypto";
import type { FillRandom } from "./batch.ts";
import { tokenHash } from "./chain.ts";
import { CheeseError } from "./errors.ts";

const PREFIX = "cheese_";
const ID_BYTES = 16;
const SECRET_BYTES = 32;
const FORM = new RegExp(`^${PREFIX}([A-Za-z0-9_-]{${((ID_BYTES + SECRET_BYTES) * 4) / 3}})$`);

/** A new token for an agent, and the hash that the store keeps of it. */
export function makeToken(
  agentId: Buffer,
  fillRandom: FillRandom,
): { token: string; hash: Buffer } {
  const secret = Buffer.alloc(SECRET_BYTES);
  fillRandom(secret);
  return {
    token: PREFIX + Buffer.concat([agentId, secret]).toString("base64url"),
    hash: tokenHash(secret),
  };
}

export const BAD_TOKEN = "the token opens no agent of this store";

/** @throws CheeseError BAD_TOKEN when it is not of the form of a token; its words are the same whatever is wrong */
export function parseToken(token: string): { agentId: Buffer; secret: Buffer } {
  const match = typeof token === "string" ? FORM.exec(token) : null;
  if (!match) throw new CheeseError("BAD_TOKEN", BAD_TOKEN);
  const bytes = Buffer.from(match[1] as string, "base64url");
  return { agentId: bytes.subarray(0, ID_BYTES), secret: bytes.subarray(ID_BYTES) };
}

/** In constant time. */
export function tokenFits(secret: Buffer, hash: Buffer): boolean {
  return timingSafeEqual(tokenHash(secret), hash);
}
