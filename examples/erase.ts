// Someone asks for her address to be deleted: it and what was learned from it leave the disk, and a search of every byte
// proves it. Before that the same search finds it: one that cannot find anything proves nothing.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store } from "cheesedb";

const folder = mkdtempSync(join(tmpdir(), "cheesedb-"));
const store = await Store.open(join(folder, "memory"));
const { token } = await store.createAgent("alice");
const alice = await store.openAgent(token);

const said = await alice.addLot("user_message", "I moved to 12 Baker Lane");
await alice.remember("she lives at 12 Baker Lane", [[said]]);
const before = await store.find("12 Baker Lane");
assert.equal(before.count, 2);

const { erased } = await alice.recall([said], { disposal: "erase" });
assert.deepEqual(erased, [1, 2]);

const after = await store.find("12 Baker Lane", { absent: true });
assert.equal(after.count, 0);
assert.deepEqual(after.unerased, []);
assert.equal((await alice.verify()).ok, true); // the chain still holds, back to the first record
await alice.close();
rmSync(folder, { recursive: true });
console.log(`${before.count} places before, ${after.count} after, in ${after.filesScanned} files`);
