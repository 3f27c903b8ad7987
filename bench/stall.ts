// The longest that long work keeps the event loop from others: a bulk load, an import, find, verify and compact in an open
// handle, while others await reads of it. At most 50 ms.

import { monitorEventLoopDelay, PerformanceObserver } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { makeGraph, textOf } from "./graph.ts";
import { Findings, sizeName, timed } from "./measure.ts";
import { copyFolder, emptyFolder, openAgent, options, preparedStore } from "./place.ts";

const RESOLUTION_MS = 1;
const STALL_MS_MAX = 50;
const READ_EVERY_MS = 2;
const UNIT = "ms";
const LOADED_MAX = 200_000;
// Also where it is run by itself, without the flags of the whole bench.
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const { size, out } = options();
const findings = new Findings("stall", size);
findings.table("the longest stall of the event loop while others await, in one run");

/** Runs some work while a timer reads; tells the longest that the timer was kept waiting. */
async function watched(what: string, read: () => Promise<unknown>, work: () => Promise<unknown>) {
  // What the caller made, or what was done before it, is not to be collected in this one's time.
  collectGarbage();
  let reads = 0;
  let isReading = false;
  const reader = setInterval(() => {
    if (isReading) return;
    isReading = true;
    void read().then(() => {
      reads++;
      isReading = false;
    });
  }, READ_EVERY_MS);
  let collected = 0;
  const collections = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) collected = Math.max(collected, duration);
  });
  collections.observe({ entryTypes: ["gc"] });
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const ms = await timed(work);
  // The last wait is noted when it ends.
  await new Promise((resolve) => setTimeout(resolve, 5));
  delay.disable();
  collections.disconnect();
  clearInterval(reader);
  while (isReading) await new Promise((resolve) => setTimeout(resolve, 1));
  const longest = delay.max / 1e6;
  const note = `99 % within ${(delay.percentile(99) / 1e6).toFixed(1)} ms; the longest collection of garbage ${collected.toFixed(1)} ms; took ${(ms / 1000).toFixed(2)} s, ${reads} reads answered`;
  findings.row(what, UNIT, [longest], note);
  findings.figure("stall", what, longest, { atMost: STALL_MS_MAX, unit: UNIT });
}

{
  // Making the items is the caller's work: it is done before.
  const count = Math.min(size, LOADED_MAX);
  const { agent } = await openAgent(emptyFolder("stall-load"));
  await agent.addLot("web_page", "the source");
  const items = Array.from({ length: count }, (_, i) => ({ text: textOf(i), legs: [[1]] }));
  const what = `rememberAll of ${sizeName(count)}`;
  await watched(
    what,
    () => agent.head(),
    () => agent.rememberAll(items),
  );
  await agent.close();
}

const folder = copyFolder(await preparedStore(size), "stall");
const { store, agent } = await openAgent(folder);
const read = () => agent.alive([1, 2, 3]);
await watched("find", read, () => store.find("no such words in here"));
await watched("find, in any case", read, () =>
  store.find("No Such Words in Here", { ignoreCase: true }),
);
await watched("verify", read, () => agent.verify());
const lines: string[] = [];
await watched("export", read, async () => {
  for await (const line of agent.export()) lines.push(line);
});
{
  const { agent: copy } = await openAgent(emptyFolder("stall-import"));
  await watched(
    "import",
    () => copy.head(),
    () => copy.import(lines),
  );
  await copy.close();
}
lines.length = 0;
const lots = makeGraph(size).groups.flatMap(({ lots }) => lots);
for (const { lot } of lots) await agent.recall([lot]);
await watched("compact", read, () => agent.compact());
await agent.close();
findings.finish(out);
