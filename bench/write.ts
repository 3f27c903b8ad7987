// Durable inserts beside what a user would have taken instead, and beside the raw file operations that any of them needs: one
// awaited after the other, in batches of 1,000, by 1,000 callers at once, and the load of a whole graph. P6, P7.

import { type EngineName, makeEngine, Peers, TITLES } from "./engines/all.ts";
import type { Engine } from "./engines/engine.ts";
import { lotCount, textOf } from "./graph.ts";
import { Findings, median, sizeName } from "./measure.ts";
import { emptyFolder, options, settle } from "./place.ts";
import { RawFile } from "./raw.ts";
import { Contestant } from "./worker.ts";

const SINGLES = 1000;
/** A graph engine takes as long for a few. */
const SINGLES_SLOW = 100;
const BATCH = 1000;
const BATCHES = 10;
const SHORT_FLUSH_MS = 1;
const STATED = 1_000_000;

const { size, runs, alone, out } = options();
const findings = new Findings("write", size);
const peers = new Peers(findings, alone ? [] : ["sqlite", "postgres", "ladybug"]);
const names: EngineName[] = ["cheesedb", ...peers.names];
const lots = lotCount(size);
/** Ids that the peers are told; cheesedb numbers by itself. */
let nextId = lots + size + 1;

await peers.around(async () => {
  const engines = await loadAll();
  await oneByOne(engines);
  await manyAtOnce(engines);
  for (const { engine } of engines) await engine.close();
});
findings.finish(out);

interface Loaded {
  name: EngineName;
  engine: Engine;
}

/** Loads the graph as often as asked, in turn, each in a process of its own; what was loaded last is then written to. */
async function loadAll(): Promise<Loaded[]> {
  const folderOf = (name: EngineName) =>
    name === "cheesedb" ? emptyFolder(name) : peers.folderOf(name);
  const folders = new Map<EngineName, string>();
  const seconds = new Map<EngineName, number[]>(names.map((name) => [name, []]));
  for (let run = 0; run < runs; run++) {
    for (const name of names) {
      const folder = folderOf(name);
      folders.set(name, folder);
      const loader = new Contestant(name, folder, size);
      settle();
      const { ms } = await loader.ask({ do: "load" });
      await loader.end();
      seconds.get(name)?.push(ms / 1000);
    }
  }
  const how: Record<EngineName, string> = {
    cheesedb: "addLots and rememberAll, durable batch by batch",
    sqlite: "one transaction, the index last",
    postgres: "COPY from files, the indexes last",
    ladybug: "COPY from files",
  };
  findings.table(`load of ${sizeName(size)} memories with their legs`);
  const ours = median(seconds.get("cheesedb") ?? []);
  const limit = { atMost: 2.5, unit: "s", statedFor: STATED };
  findings.figure("P7", "load", ours, limit);
  for (const name of names) {
    const samples = seconds.get(name) ?? [];
    findings.row(TITLES[name], "s", samples, how[name]);
    findings.point("load", name, "s", median(samples));
    if (name === "sqlite" || name === "postgres")
      findings.figure("P7", `load: ${TITLES[name]} takes`, median(samples) / ours, {
        atLeast: 1,
        unit: "times",
        statedFor: STATED,
      });
  }
  const engines = names.map((name) => ({
    name,
    engine: makeEngine(name, folders.get(name) ?? "", size),
  }));
  for (const { engine } of engines) await engine.open();
  settle();
  return engines;
}

/** Some memories to write; making them is not timed. */
function someNew(count: number) {
  const ids = Array.from({ length: count }, () => nextId++);
  return {
    ids,
    texts: ids.map((id) => textOf(id)),
    parents: ids.map((id) => lots + 1 + ((id * 7919) % size)),
  };
}

/** Calls a second, of work that carries out so many. */
async function rate(count: number, work: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  await work();
  return (count / (performance.now() - begun)) * 1000;
}

/** In turn, the first turn not counted. */
async function inTurn(ways: { name: string; run: () => Promise<number> }[]) {
  const rates = new Map<string, number[]>(ways.map(({ name }) => [name, []]));
  for (let run = 0; run <= runs; run++)
    for (const { name, run: once } of ways) {
      const value = await once();
      if (run > 0) rates.get(name)?.push(value);
    }
  return rates;
}

// ----- one awaited after the other -----

async function oneByOne(engines: Loaded[]) {
  const room = (runs + 2) * SINGLES * RawFile.recordBytes;
  const raw = [
    { where: "append", file: new RawFile("raw-append", 0) },
    { where: "into space written beforehand", file: new RawFile("raw-room", room) },
  ];
  const rawAway = [
    { where: "append", file: new RawFile("raw-append-away", 0) },
    { where: "into space written beforehand", file: new RawFile("raw-room-away", room) },
  ];
  const rates = await inTurn([
    ...raw.map(({ where, file }) => ({
      name: `raw, flushed in place, ${where}`,
      run: () =>
        rate(SINGLES, async () => {
          for (let i = 0; i < SINGLES; i++) {
            file.write();
            file.flush();
          }
        }),
    })),
    ...rawAway.map(({ where, file }) => ({
      name: `raw, flushed off the main thread, ${where}`,
      run: () =>
        rate(SINGLES, async () => {
          for (let i = 0; i < SINGLES; i++) {
            file.write();
            await file.flushOffThread();
          }
        }),
    })),
    ...engines.map(({ name, engine }) => ({
      name: TITLES[name],
      run: () => {
        const { ids, texts, parents } = someNew(name === "ladybug" ? SINGLES_SLOW : SINGLES);
        return rate(ids.length, async () => {
          for (const [i, id] of ids.entries())
            await engine.insert(id, texts[i] as string, parents[i] as number);
        });
      },
    })),
  ]);
  for (const { file } of [...raw, ...rawAway]) file.close();

  findings.table("durable inserts, one awaited after the other");
  for (const [name, samples] of rates) findings.row(name, "a second", samples);
  for (const { name } of engines)
    findings.point("single", name, "a second", median(rates.get(TITLES[name]) ?? []));
  const best = (how: string) =>
    Math.max(...[...rates].filter(([name]) => name.includes(how)).map(([, all]) => median(all)));
  const ours = median(rates.get(TITLES.cheesedb) ?? []);
  const inPlace = best("in place");
  const unit = "of the raw rate";
  const what = "one awaited after the other";
  if (1000 / inPlace < SHORT_FLUSH_MS)
    findings.figure("P6", `${what}, flushed in place`, ours / inPlace, { atLeast: 0.9, unit });
  else
    findings.figure("P6", `${what}, flushed off the thread`, ours / best("off the main thread"), {
      atLeast: 0.65,
      unit,
    });
  const sqlite = rates.get(TITLES.sqlite);
  if (sqlite)
    findings.figure("P6", `${what}: beside SQLite`, ours / median(sqlite), {
      atLeast: 1,
      unit: "times",
    });
}

// ----- many at once -----

async function manyAtOnce(engines: Loaded[]) {
  const callers = `${sizeName(BATCH)} callers at once`;
  const rates = await inTurn([
    ...engines.map(({ name, engine }) => ({
      name: TITLES[name],
      run: () => {
        const batches = Array.from({ length: BATCHES }, () => someNew(BATCH));
        return rate(BATCHES * BATCH, async () => {
          for (const { ids, texts, parents } of batches)
            await engine.insertMany(ids, texts, parents);
        });
      },
    })),
    ...engines
      .filter(({ name }) => name === "cheesedb")
      .map(({ name, engine }) => ({
        name: `${TITLES[name]}, ${callers}`,
        run: () => {
          const batches = Array.from({ length: BATCHES }, () => someNew(BATCH));
          return rate(BATCHES * BATCH, async () => {
            for (const { ids, texts, parents } of batches)
              await Promise.all(
                ids.map((id, i) => engine.insert(id, texts[i] as string, parents[i] as number)),
              );
          });
        },
      })),
  ]);
  findings.table(`durable inserts, in batches of ${sizeName(BATCH)}`);
  for (const [name, samples] of rates) findings.row(name, "a second", samples);
  for (const { name } of engines)
    findings.point("batch", name, "a second", median(rates.get(TITLES[name]) ?? []));
  const limit = { atLeast: 300_000, unit: "a second" };
  const of = (name: string) => median(rates.get(name) ?? []);
  findings.figure("P7", `batches of ${sizeName(BATCH)}`, of(TITLES.cheesedb), limit);
  findings.figure("P7", callers, of(`${TITLES.cheesedb}, ${callers}`), limit);
}
