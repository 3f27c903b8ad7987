// Recall beside what a user would have taken instead: fair, durable, in a process that opened what another had closed; then the
// same with the texts overwritten; and the memory that the graph takes. P1, P2, P3.

import { type PeerName, Peers, TITLES } from "./engines/all.ts";
import { type Graph, hashOfIds, makeGraph } from "./graph.ts";
import { Findings, median, sizeName } from "./measure.ts";
import { copyFolder, emptyFolder, options, preparedStore, settle } from "./place.ts";
import { type Answer, Contestant, type WorkerName } from "./worker.ts";

const NAMES: Record<WorkerName, string> = { ...TITLES, floor: "floor: flat arrays, one flush" };
/** Of each group of lots, so many first ones warm up and are not counted. */
const UNCOUNTED = 2;
/** Memories that the targets speak of. */
const STATED = 1_000_000;
/** Beyond, one process more that holds it all is too much. */
const FRESH_MAX = 1_000_000;

const { size, alone, out } = options();
const graph = makeGraph(size);
const findings = new Findings("recall", size);
let disagree = false;

const peers = new Peers(findings, alone ? [] : ["sqlite", "postgres", "ladybug"]);
await peers.around(measure);
findings.finish(out);
if (disagree) process.exitCode = 1;

async function measure() {
  const store = await preparedStore(size);
  const loaded = await loadPeers();
  const started: Contestant[] = [];
  const start = async (name: WorkerName, folder: string, env: Record<string, string> = {}) => {
    Object.assign(process.env, env);
    const contestant = new Contestant(name, folder, size);
    for (const key of Object.keys(env)) delete process.env[key];
    started.push(contestant);
    return { contestant, opened: await contestant.ask({ do: "open" }) };
  };

  // Everyone as they were left by another process.
  const ours = await start("cheesedb", copyFolder(store, `recall-${size}`));
  const floor = await start("floor", emptyFolder("floor"));
  // In the process that loaded it, before the first snapshot.
  const fresh = size <= FRESH_MAX ? new Contestant("cheesedb", emptyFolder("fresh"), size) : null;
  if (fresh) {
    started.push(fresh);
    await fresh.ask({ do: "load" });
  }
  const others: Contestant[] = [];
  const erasing: Contestant[] = [];
  for (const { name, folder } of loaded) {
    if (name === "sqlite") {
      const copy = copyFolder(folder, `sqlite-erase-${size}`);
      erasing.push((await start(name, copy)).contestant);
    }
    others.push((await start(name, folder)).contestant);
  }

  const inTurn = [ours.contestant, floor.contestant, ...others];
  settle();
  const answers = await recallAll(graph, fresh ? [...inTurn, fresh] : inTurn, false);
  const erase = await start("cheesedb", copyFolder(store, `erase-${size}`));
  const logCopy = copyFolder(store, `erase-floor-${size}`);
  const eraseFloor = await start("floor", emptyFolder("floor-erase"), { BENCH_LOG_OF: logCopy });
  settle();
  const eraseAnswers = await recallAll(
    graph,
    [erase.contestant, eraseFloor.contestant, ...erasing],
    true,
  );
  for (const contestant of started) await contestant.end();

  tell(answers, inTurn, fresh);
  tellErase(eraseAnswers, erase.contestant, eraseFloor.contestant, erasing);
  tellMemory(ours.opened);
}

/** Each in a process of its own that ends after. */
async function loadPeers(): Promise<{ name: PeerName; folder: string }[]> {
  const loaded = peers.names.map((name) => ({ name, folder: peers.folderOf(name) }));
  for (const { name, folder } of loaded) {
    const loader = new Contestant(name, folder, size);
    await loader.ask({ do: "load" });
    await loader.end();
  }
  return loaded;
}

type Answers = Map<Contestant, Map<number, Answer[]>>;

/** Lot after lot, and for each lot one engine after the other. */
async function recallAll(graph: Graph, inTurn: Contestant[], erase: boolean): Promise<Answers> {
  const all: Answers = new Map(inTurn.map((contestant) => [contestant, new Map()]));
  for (const { removed, lots } of graph.groups) {
    for (const { lot, doomed } of lots) {
      const expected = hashOfIds(doomed);
      for (const contestant of inTurn) {
        const answer = await contestant.ask({ do: "recall", lot, erase });
        if (answer.hash !== expected) {
          console.error(
            `${contestant.name} removed ${answer.count} memories for lot ${lot}, hash ${answer.hash}; due are ${doomed.length}, hash ${expected}`,
          );
          disagree = true;
        }
        const groups = all.get(contestant) as Map<number, Answer[]>;
        groups.set(removed, [...(groups.get(removed) ?? []), answer]);
      }
    }
  }
  return all;
}

function counted(answers: Answers, contestant: Contestant, removed: number): number[] {
  const list = answers.get(contestant)?.get(removed) ?? [];
  return list.slice(UNCOUNTED).map(({ ms }) => ms);
}

function beside(answers: Answers, contestant: Contestant, removed: number): number[] {
  const list = answers.get(contestant)?.get(removed) ?? [];
  return list.slice(UNCOUNTED).map(({ besideMs }) => besideMs);
}

function tell(answers: Answers, inTurn: Contestant[], fresh: Contestant | null) {
  const [ours, floor, ...others] = inTurn as [Contestant, Contestant, ...Contestant[]];
  for (const { removed, lots } of graph.groups) {
    findings.table(`fair recall of ${sizeName(removed)} of ${sizeName(size)}`);
    const oursMs = median(counted(answers, ours, removed));
    for (const contestant of inTurn) {
      const samples = counted(answers, contestant, removed);
      const times = median(samples) / oursMs;
      const note = contestant === ours ? "" : `${times.toPrecision(2)} times ours`;
      findings.row(NAMES[contestant.name], "ms", samples, note);
      findings.point("recall", contestant.name, "ms", median(samples), removed);
    }
    const before = fresh ? counted(answers, fresh, removed) : [];
    findings.row("cheesedb, before the first snapshot", "ms", before, "where it was loaded");
    findings.row("then survivors and reasons, read", "ms", beside(answers, ours, removed));
    if (removed !== graph.groups[0]?.removed) continue;
    const first = answers.get(ours)?.get(removed)?.[0];
    if (first) findings.row("the first call of the process", "ms", [first.ms], "not counted above");
    const times = (contestant: Contestant) =>
      median(counted(answers, contestant, removed)) / oursMs;
    const unit = "times";
    const what = `recall of ${sizeName(removed)}`;
    findings.figure("P1", `${what}: beside the floor`, 1 / times(floor), {
      atMost: 2,
      unit,
      statedFor: STATED,
    });
    const least = { sqlite: 10, postgres: 20, ladybug: 130, cheesedb: 0, floor: 0 };
    for (const other of others) {
      const name = NAMES[other.name];
      const limit = { atLeast: least[other.name], unit, statedFor: STATED };
      findings.figure("P1", `${what}: ${name} takes`, times(other), limit);
    }
    if (lots.length <= UNCOUNTED) throw new Error("too few lots");
  }
}

function tellErase(answers: Answers, ours: Contestant, floor: Contestant, others: Contestant[]) {
  for (const { removed } of graph.groups) {
    findings.table(`the same with erase: ${sizeName(removed + 1)} texts overwritten`);
    for (const contestant of [ours, floor, ...others]) {
      const name =
        contestant === floor
          ? "floor: recall, three flushes, the same places zeroed"
          : contestant === ours
            ? "cheesedb"
            : "SQLite, rows deleted, secure_delete, checkpoint";
      const samples = counted(answers, contestant, removed);
      findings.row(name, "ms", samples);
      findings.point("erase", contestant.name, "ms", median(samples), removed);
    }
    findings.row("floor: the zeroing and its flushes alone", "ms", beside(answers, floor, removed));
    if (removed !== graph.groups[0]?.removed) continue;
    const oursMs = median(counted(answers, ours, removed));
    const unit = "times";
    const floorMs = median(counted(answers, floor, removed));
    findings.figure("P2", "erase: beside its floor", oursMs / floorMs, {
      atMost: 1.5,
      unit,
      statedFor: STATED,
    });
    for (const other of others) {
      const value = median(counted(answers, other, removed)) / oursMs;
      findings.figure("P2", "erase: SQLite takes", value, {
        atLeast: 1,
        unit,
        statedFor: STATED,
      });
    }
  }
}

function tellMemory({ heapBytes, residentBytes }: Answer) {
  findings.table("memory, after a reopen");
  const each = heapBytes / size;
  findings.row(
    "heap and array buffers, a memory",
    "bytes",
    [each],
    `${graph.lots} lots among them`,
  );
  findings.row("the process's resident size", "MiB", [residentBytes / 2 ** 20]);
  findings.point("memory", "cheesedb", "bytes", each);
  const limit = { atMost: 48, unit: "bytes", statedFor: STATED };
  findings.figure("P3", "graph in RAM, a memory", each, limit);
}
