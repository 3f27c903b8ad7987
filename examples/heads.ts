// A fingerprint kept elsewhere proves later that nothing before it was changed, and shows a rollback.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CheeseError, Store } from "cheesedb";

const folder = mkdtempSync(join(tmpdir(), "cheesedb-"));
const store = await Store.open(join(folder, "memory"));
const { token } = await store.createAgent("alice");

let alice = await store.openAgent(token);
await alice.addLot("user_message", "the first thing");
await alice.close();
cpSync(join(folder, "memory"), join(folder, "backup"), { recursive: true });

alice = await store.openAgent(token);
await alice.addLot("user_message", "the second thing");
const { fingerprint } = await alice.head(); // keep this elsewhere
await alice.addLot("user_message", "the third thing");
assert.equal((await alice.verify({ expect: fingerprint })).expected?.recordsSince, 1);
await alice.close();

// Somebody puts the old copy back: it is whole in itself, and only the fingerprint tells.
rmSync(join(folder, "memory"), { recursive: true });
cpSync(join(folder, "backup"), join(folder, "memory"), { recursive: true });
const again = await Store.open(join(folder, "memory"));
assert.equal((await again.verify()).ok, true);
await assert.rejects(
  () => again.verifyAgent("alice", { expect: fingerprint }),
  (error) => error instanceof CheeseError && error.code === "HEAD_MISMATCH",
);
rmSync(folder, { recursive: true });
console.log("the rollback was found");
