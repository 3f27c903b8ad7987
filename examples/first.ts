// A store, a source, two memories, a recall. Run it with: npx node examples/first.ts

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store } from "cheesedb";

const folder = mkdtempSync(join(tmpdir(), "cheesedb-"));

// #region first
const store = await Store.open(join(folder, "memory"));
const kept = store.keptToken("alice"); // by an earlier run of this program: a token is given once
const token = kept ?? (await store.createAgent("alice", { keepToken: true })).token;
const alice = await store.openAgent(token); // the only way to Alice's data

const said = await alice.addLot("user_message", "I live in Pune");
const tool = await alice.addLot("weather_tool", "Pune: rain");
const lives = await alice.remember("user lives in Pune", [[said]]);
const rainy = await alice.remember("Pune is rainy", [[tool]]);
const umbrella = await alice.remember("carry an umbrella", [[lives, rainy]]); // needs both

const { removed } = await alice.recall([tool]); // the tool was wrong
await alice.close();
// #endregion

assert.deepEqual(removed, [rainy, umbrella]);
// What the next run of the program finds.
const again = await store.openAgent(store.keptToken("alice") ?? "");
assert.deepEqual(await again.alive([lives, rainy, umbrella]), [lives]);
await again.close();
rmSync(folder, { recursive: true });
console.log(`removed ${removed.join(", ")}; memory ${lives} lives`);
