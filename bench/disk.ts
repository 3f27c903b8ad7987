// Bytes on the disk: the log alone, a memory; the snapshot apart. P12.

import { statSync } from "node:fs";
import { join } from "node:path";
import { makeEngine, Peers, TITLES } from "./engines/all.ts";
import { makeGraph } from "./graph.ts";
import { Findings } from "./measure.ts";
import { agentFolder, emptyFolder, logFiles, openAgent, options, preparedStore } from "./place.ts";

const TEXT = "eighty bytes of what an agent has learned from the one source that it stands on.";
const BATCH = 1000;
/** One at a time takes a flush each. */
const SINGLES_MAX = 5000;

const { size, alone, out } = options();
if (Buffer.byteLength(TEXT) !== 80) throw new Error("the text is not of 80 bytes");
const findings = new Findings("disk", size);
const unit = "bytes";

function logBytes(folder: string): number {
  return logFiles(folder).reduce((sum, path) => sum + statSync(path).size, 0);
}

/** Bytes that the log grew by for each of `count` memories, after a clean close. */
async function eachOf(name: string, count: number, batch: number): Promise<number> {
  const folder = emptyFolder(name);
  {
    const { agent } = await openAgent(folder);
    await agent.addLot("web_page", "the source");
    await agent.close();
  }
  const before = logBytes(folder);
  const { agent } = await openAgent(folder);
  for (let from = 0; from < count; from += batch) {
    if (batch === 1) await agent.remember(TEXT, [[1]]);
    else
      await agent.rememberAll(Array.from({ length: batch }, () => ({ text: TEXT, legs: [[1]] })));
  }
  await agent.close();
  return (logBytes(folder) - before) / count;
}

findings.table("the log alone, a memory of 80 bytes with one leg");
const batched = await eachOf("disk-batched", Math.max(BATCH, size - (size % BATCH)), BATCH);
findings.row(`in batches of ${BATCH.toLocaleString("en-US")}`, unit, [batched]);
findings.figure("P12", "log, in batches of 1,000", batched, { atMost: 192, unit });
const singles = Math.min(size, SINGLES_MAX);
const single = await eachOf("disk-singles", singles, 1);
findings.row("one at a time", unit, [single], `${singles.toLocaleString("en-US")} of them`);
findings.figure("P12", "log, one at a time", single, { atMost: 288, unit });

findings.table("the graph of the bench, a memory: 79 bytes, 1.4 legs of 1.4 parents, 0.05 lots");
const store = await preparedStore(size);
findings.row("cheesedb, log", unit, [logBytes(store) / size]);
const snapshot = statSync(join(agentFolder(store), "graph")).size;
findings.row("cheesedb, snapshot", unit, [snapshot / size], "written at close, may be deleted");
const peers = new Peers(findings, alone ? [] : ["sqlite", "postgres", "ladybug"]);
await peers.around(async () => {
  for (const name of peers.names) {
    const engine = makeEngine(name, peers.folderOf(name), size);
    await engine.load(makeGraph(size));
    findings.row(TITLES[name], unit, [(await engine.bytes()) / size], "indexes included");
    await engine.close();
  }
});
findings.finish(out);
