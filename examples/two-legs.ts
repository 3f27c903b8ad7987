// Two ways to know the same: fair spares what another leg holds, strict spares nothing that the source ever touched.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store } from "cheesedb";

const folder = mkdtempSync(join(tmpdir(), "cheesedb-"));
const store = await Store.open(join(folder, "memory"));

async function pune(name: string) {
  const { token } = await store.createAgent(name);
  const agent = await store.openAgent(token);
  const said = await agent.addLot("user_message", "I live in Pune");
  const page = await agent.addLot("web_page", "profile: lives in Pune");
  const lives = await agent.remember("user lives in Pune", [[said], [page]]); // from one, or from the other
  return { agent, said, lives };
}

const fair = await pune("fair");
const spared = await fair.agent.recall([fair.said]);
assert.deepEqual(spared.removed, []);
assert.deepEqual(spared.survivors, [{ id: fair.lives, heldBy: [[2]] }]);

const strict = await pune("strict");
const taken = await strict.agent.recall([strict.said], { mode: "strict" });
assert.deepEqual(taken.removed, [strict.lives]);

await fair.agent.close();
await strict.agent.close();
rmSync(folder, { recursive: true });
console.log("fair: it lives on leg [2]; strict: it is gone");
