// Export and import: an agent's history as JSON Lines, a line a record in order.
//
// An import first plays the whole file through on a graph of its own, by the engine's rules and definitions, and refuses it
// with the number of the first wrong line. Then it writes the records: what the file ends with dead is written dead from
// the start, so that a crash leaves a prefix in which nothing dead lives; the recalls follow as records.

import type { Agent, LongOptions } from "./agent.ts";
import { NumberList } from "./arrays.ts";
import { LIMITS } from "./codec.ts";
import type { AgentCore } from "./core.ts";
import { CheeseError, hasCode } from "./errors.ts";
import { DEAD, FLAGS, Graph } from "./graph.ts";
import { parseObject } from "./jsonl.ts";
import { decideRecall, needsSeen } from "./recall.ts";
import { toLeg, toLegs } from "./rules.ts";
import { idsIn, SeenIndex, toRanges } from "./seen.ts";
import { Shelf } from "./shelf.ts";
import type { AgentState } from "./state.ts";
import type { Disposal, EntryId, ImportReport, Mode } from "./terms.ts";
import { checkText, decodeUtf8 } from "./text.ts";
import { tick } from "./tick.ts";
import { type RecordView, toTime } from "./view.ts";

/** The whole file as one string; or its lines as strings; or its bytes in pieces of any size. */
export type ImportSource =
  | string
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>;

const EXPORT_VERSION = 1;

export interface ExportOptions extends LongOptions {
  /** Whether texts of the dead that still stand are given too. */
  deadTexts?: boolean | undefined;
}

/** Lines, each with its newline. */
export async function* exportLines(
  agent: Agent,
  { deadTexts = false, signal, onProgress }: ExportOptions,
): AsyncGenerator<string> {
  const first = await agent.head();
  yield `${JSON.stringify({ kind: "cheesedb", version: EXPORT_VERSION, agent: agent.name, id: agent.id, head: first.fingerprint })}\n`;
  const toLine = (view: RecordView, { graph, log }: AgentState) => ({
    line: lineOf(view, graph, deadTexts),
    all: log.end.record,
    view,
  });
  for await (const { line, all, view } of agent.walkRecords(toLine)) {
    signal?.throwIfAborted();
    yield `${JSON.stringify(line)}\n`;
    onProgress?.(view.record, all);
  }
}

function lineOf(view: RecordView, graph: Graph, deadTexts: boolean): object {
  const { record, kind } = view;
  const time = toTime(view.time);
  if (kind === "corroborate")
    return { record, kind, time, memory: view.memory, leg: [...view.leg] };
  if (kind === "drop") return { record, kind, time, erased: view.erased };
  if (kind === "recall") {
    const { targets, mode, disposal, removed, explained } = view.recall;
    const fell = [...removed, ...explained].sort((a, b) => a - b);
    return {
      record,
      kind,
      time,
      targets: [...targets],
      mode,
      disposal,
      removed: fell,
      erased: view.erased,
    };
  }
  const { id, seen } = view;
  const hasText = graph.isAlive(id) || deadTexts;
  return {
    record,
    kind,
    time,
    id,
    ...(kind === "lot" ? { label: view.label } : { legs: view.legs.map((leg) => [...leg]) }),
    text: hasText ? view.text : null,
    ...(kind === "lot" && { uri: hasText ? view.uri : null }),
    ...(seen && { seen: [...idsIn(seen.ranges)] }),
    ...(seen?.base && { seenWith: seen.base }),
    state: graph.state(id),
    // Written without a text, by an import before this export.
    ...(view.dropped && { dropped: true }),
    // Came dead, and the recall that took it is not in this history.
    ...(view.bornDead && graph.diedAt[id] === 0 && { bornDead: true }),
  };
}

// ----- import -----

/** A line that was checked. Entries are numbered from 1 in the order of the file. */
type Line = { time: number } & (
  | { kind: "lot"; label: string; text: string | null; uri: string | null; seen: SeenLine | null }
  | { kind: "memory"; legs: EntryId[][]; text: string | null; seen: SeenLine | null }
  | { kind: "corroborate"; memory: number; leg: EntryId[] }
  | { kind: "recall"; targets: EntryId[]; mode: Mode; disposal: Disposal; removed: EntryId[] }
  | { kind: "drop" }
);

interface SeenLine {
  base: number;
  ids: number[];
}

const lineAt = (lines: Shelf, at: number): Line => JSON.parse(lines.at(at)) as Line;

/** A file that was played through. */
interface Played {
  /** As JSON, each a Line. */
  lines: Shelf;
  graph: Graph;
  /** The file's number of each entry, at [entry - 1], ascending. */
  oldIds: NumberList;
}

/** @throws CheeseError BAD_INPUT with the line; and those of any write */
export async function importLines(
  core: AgentCore,
  waitMs: number,
  source: ImportSource,
  options: LongOptions,
): Promise<ImportReport> {
  const played = await play(source, options);
  return core.exclusively(waitMs, (state) => writeAll(core, state, played, options));
}

async function play(source: ImportSource, { signal }: LongOptions): Promise<Played> {
  const player = new Player();
  let number = 0;
  let begun = performance.now();
  for await (const line of linesOf(source)) {
    number++;
    try {
      player.play(typeof line === "string" ? line : decodeUtf8(line, "the line"));
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      throw new CheeseError("BAD_INPUT", `line ${number}: ${error.message}`, {
        cause: error,
        line: number,
      });
    }
    if (performance.now() - begun > 10) {
      await tick();
      signal?.throwIfAborted();
      begun = performance.now();
    }
  }
  try {
    return player.finish();
  } catch (error) {
    if (!hasCode(error, "BAD_INPUT") || error.line !== undefined) throw error;
    throw new CheeseError("BAD_INPUT", `line 1: ${error.message}`, { line: 1 });
  }
}

async function* linesOf(source: ImportSource): AsyncGenerator<string | Uint8Array> {
  if (typeof source === "string") {
    const lines = source.split("\n");
    if (lines.at(-1) === "") lines.pop();
    yield* lines;
    return;
  }
  let rest: Uint8Array[] = [];
  for await (const piece of source) {
    if (typeof piece === "string") {
      yield* linesOf(piece);
      continue;
    }
    let from = 0;
    for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
      yield rest.length === 0
        ? Buffer.from(piece.subarray(from, at))
        : Buffer.concat([...rest, piece.subarray(from, at)]);
      rest = [];
      from = at + 1;
    }
    if (from < piece.length) rest.push(Buffer.from(piece.subarray(from)));
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

function wrong(message: string): CheeseError {
  return new CheeseError("BAD_INPUT", message);
}

type Fields = Record<string, unknown>;

/** Plays an export through: every rule is the engine's own. */
class Player {
  #hasHeader = false;
  readonly #lines = new Shelf();
  readonly #graph = new Graph();
  readonly #seen = new SeenIndex();
  readonly #oldIds = new NumberList();
  /** Legs of each memory that was corroborated, as text, to know a repeated one. */
  readonly #legs = new Map<number, Set<string>>();
  /** Of each entry, at [entry - 1], its place among the lines that were taken. */
  readonly #lineOf = new NumberList();
  /** Entries that came without a text. */
  readonly #textless = new NumberList();

  play(text: string) {
    const fields = parseObject(text);
    const { kind } = fields;
    if (kind === "cheesedb") {
      if (this.#hasHeader) throw wrong("a header stands in the middle of the file");
      if (fields.version !== EXPORT_VERSION)
        throw wrong(
          `the file has version ${quoted(fields.version)}; this cheesedb knows ${EXPORT_VERSION}`,
        );
      this.#hasHeader = true;
      return;
    }
    this.#requireHeader();
    this.#lines.push(JSON.stringify(this.#playRecord(fields)));
  }

  #requireHeader() {
    if (!this.#hasHeader)
      throw wrong(
        'it is no export of cheesedb: its first line is no header ({"kind":"cheesedb","version":1,…})',
      );
  }

  #playRecord(fields: Fields): Line {
    const time = timeOf(fields.time);
    switch (fields.kind) {
      case "lot":
      case "memory":
        return this.#playEntry(fields, time);
      case "corroborate": {
        const memory = this.#entry(fields.memory, "memory");
        const leg = this.#leg(fields.leg, "leg");
        const graph = this.#graph;
        if (!graph.is(memory, FLAGS.memory)) throw wrong("a lot cannot be corroborated");
        if (!graph.isAlive(memory) && !graph.is(memory, FLAGS.bornDead))
          throw wrong(`memory ${String(fields.memory)} is dead here, and cannot be corroborated`);
        this.#requireAlive(leg);
        if (graph.reaches(memory, new Set(leg)))
          throw wrong("the leg makes the memory depend on itself");
        const legs = this.#legsSoFar(memory);
        if (legs.has(leg.join())) throw wrong("the memory has this leg already");
        if (legs.size >= LIMITS.legs) throw wrong(`the memory has more than ${LIMITS.legs} legs`);
        legs.add(leg.join());
        graph.addLeg(memory, leg);
        return { kind: "corroborate", time, memory, leg };
      }
      case "recall":
        return this.#playRecall(fields, time);
      case "drop":
        for (const entry of this.#ids(fields.erased, "erased")) {
          if (this.#graph.isAlive(entry)) throw wrong("a drop takes the text of a living entry");
          this.#graph.setFlag(Uint32Array.of(entry), FLAGS.gone);
        }
        return { kind: "drop", time };
      default:
        throw wrong(
          `"kind" is ${quoted(fields.kind)}: expected lot, memory, corroborate, recall or drop`,
        );
    }
  }

  #playEntry(fields: Fields, time: number): Line {
    const { id } = fields;
    if (!isId(id)) throw wrong('"id" is no number from 1 on');
    if (this.#oldIds.length > 0 && id <= this.#oldIds.at(this.#oldIds.length - 1))
      throw wrong(`"id" is ${id}: ids ascend`);
    const text = textOf(fields.text, LIMITS.textBytes, "text");
    const seen = this.#seenLine(fields);
    const bornDead = fields.bornDead === true;
    const isLot = fields.kind === "lot";
    const legs = isLot ? [] : this.#legsOf(fields.legs);
    for (const leg of legs) this.#requireAlive(leg);
    if (
      !isLot &&
      !bornDead &&
      !legs.some((leg) => leg.every((parent) => this.#graph.isAlive(parent)))
    ) {
      throw wrong("the memory stands on nothing that lives here");
    }
    const line: Line = isLot
      ? {
          kind: "lot",
          time,
          label: labelOf(fields.label),
          text,
          uri: textOf(fields.uri ?? null, LIMITS.uriBytes, "uri"),
          seen,
        }
      : { kind: "memory", time, legs, text, seen };
    const entry = this.#graph.addEntry(
      (isLot ? 0 : FLAGS.memory) |
        (bornDead ? FLAGS.removed | FLAGS.bornDead : 0) |
        (fields.dropped === true ? FLAGS.gone : 0),
    );
    for (const leg of legs) this.#graph.addLeg(entry, leg);
    if (seen) this.#seen.add(entry, seen.base, toRanges(seen.ids));
    this.#oldIds.push(id);
    this.#lineOf.push(this.#lines.count);
    if (text === null) this.#textless.push(entry);
    return line;
  }

  #legsSoFar(memory: number): Set<string> {
    const known = this.#legs.get(memory);
    if (known) return known;
    const line = lineAt(this.#lines, this.#lineOf.at(memory - 1));
    const legs = new Set(line.kind === "memory" ? line.legs.map((leg) => leg.join()) : []);
    this.#legs.set(memory, legs);
    return legs;
  }

  #playRecall(fields: Fields, time: number): Line {
    const targets = Uint32Array.from(this.#ids(fields.targets, "targets")).sort();
    if (targets.length === 0) throw wrong('"targets" is empty');
    const { mode, disposal } = fields;
    if (mode !== "fair" && mode !== "strict" && mode !== "contact")
      throw wrong(`"mode" is ${quoted(mode)}`);
    if (disposal !== "untrusted" && disposal !== "erase")
      throw wrong(`"disposal" is ${quoted(disposal)}`);
    const request = { targets, mode, disposal } as const;
    const decision = decideRecall(
      this.#graph,
      request,
      needsSeen(this.#graph, request) ? this.#seen : null,
    );
    for (const list of ["removed", "erased"] as const) {
      if (fields[list] === undefined) continue;
      const said = [...this.#ids(fields[list], list)].sort((a, b) => a - b);
      if (said.join() !== [...decision[list]].join())
        throw wrong(
          `"${list}" is not what this recall does here: ${this.#oldList(decision[list])}`,
        );
    }
    this.#graph.applyRecall(1, decision);
    const removed = [...decision.removed];
    return { kind: "recall", time, targets: [...targets], mode, disposal, removed };
  }

  #oldList(entries: ArrayLike<number>): string {
    const ids = Array.from(entries, (entry) => this.#oldIds.at(entry - 1));
    return ids.length === 0
      ? "nothing"
      : `${ids.slice(0, 10).join(", ")}${ids.length > 10 ? ", …" : ""}`;
  }

  /** What came dead itself may stand in legs that were broken from the start. */
  #requireAlive(parents: EntryId[]) {
    for (const parent of parents) {
      if (this.#graph.isAlive(parent) || this.#graph.is(parent, FLAGS.bornDead)) continue;
      throw wrong(`it stands on entry ${this.#oldIds.at(parent - 1)}, which is dead here`);
    }
  }

  #entry(id: unknown, field: string): number {
    const at = isId(id) ? this.#oldIds.lastAtMost(id) : -1;
    if (at === -1 || this.#oldIds.at(at) !== id)
      throw wrong(`"${field}" names ${quoted(id)}, which no line before has added`);
    return at + 1;
  }

  #ids(ids: unknown, field: string): number[] {
    if (!Array.isArray(ids)) throw wrong(`"${field}" is no list`);
    return [...new Set(ids.map((id) => this.#entry(id, field)))];
  }

  #leg(leg: unknown, field: string): EntryId[] {
    return toLeg(this.#ids(leg, field));
  }

  #legsOf(legs: unknown): EntryId[][] {
    if (!Array.isArray(legs)) throw wrong('"legs" is no list');
    return toLegs(legs.map((leg) => this.#ids(leg, "legs")));
  }

  #seenLine({ seen, seenWith }: Fields): SeenLine | null {
    if (seen === undefined && seenWith === undefined) return null;
    return {
      base: seenWith === undefined ? 0 : this.#entry(seenWith, "seenWith"),
      ids: this.#ids(seen ?? [], "seen").sort((a, b) => a - b),
    };
  }

  /** Every entry that lives at the end has its text. */
  finish(): Played {
    this.#requireHeader();
    for (const entry of this.#textless.view()) {
      if (!this.#graph.isAlive(entry)) continue;
      // The header stands before them.
      const number = this.#lineOf.at(entry - 1) + 2;
      throw new CheeseError(
        "BAD_INPUT",
        `line ${number}: entry ${this.#oldIds.at(entry - 1)} lives at the end of the file, and has no text`,
        { line: number },
      );
    }
    return { lines: this.#lines, graph: this.#graph, oldIds: this.#oldIds };
  }
}

/** A value of the file in words; a list or an object only as what it is, since it may be nested without end. */
function quoted(value: unknown): string {
  if (typeof value === "object" && value !== null)
    return Array.isArray(value) ? "a list" : "an object";
  return JSON.stringify(value) ?? "missing";
}

function isId(id: unknown): id is number {
  return typeof id === "number" && Number.isInteger(id) && id >= 1 && id <= LIMITS.count;
}

function textOf(text: unknown, bytesMax: number, field: string): string | null {
  if (text === null) return null;
  if (typeof text !== "string") throw wrong(`"${field}" is neither a string nor null`);
  checkText(text, bytesMax, `"${field}"`);
  return text;
}

function labelOf(label: unknown): string {
  if (typeof label !== "string" || label === "") throw wrong('"label" is no string');
  checkText(label, LIMITS.labelBytes, '"label"');
  return label;
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;

function timeOf(time: unknown): number {
  const ms = typeof time === "string" && ISO_TIME.test(time) ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(ms) || ms < 0)
    throw wrong(`"time" is ${quoted(time)}: expected ISO 8601 with a zone, from 1970 on`);
  return ms;
}

/** So many records are written without giving way: some 10 ms. */
const RECORDS_AT_ONCE = 1024;

/** Writes what was played through, as new records of this agent. */
async function writeAll(
  core: AgentCore,
  state: AgentState,
  { lines, graph: end, oldIds }: Played,
  { signal, onProgress }: LongOptions,
): Promise<ImportReport> {
  const base = state.graph.entryCount;
  const moved = (ids: ArrayLike<number>) => Uint32Array.from(ids, (id) => id + base);
  const report: ImportReport = {
    lots: 0,
    memories: 0,
    recalls: 0,
    ids: [],
  };
  let entry = 0;
  for (let next = 0; next < lines.count; ) {
    signal?.throwIfAborted();
    await core.commitNow(state, null, (batch, _now, apply) => {
      for (
        ;
        next < lines.count && batch.count < RECORDS_AT_ONCE && batch.bytes < LIMITS.batchBytes;
        next++
      ) {
        const line = lineAt(lines, next);
        if (line.kind === "drop") continue;
        if (line.kind === "recall") {
          const request = {
            targets: moved(line.targets),
            mode: line.mode,
            disposal: line.disposal,
          };
          const wantsSeen = needsSeen(state.graph, request);
          // Who has seen what is read from the spines: those before must be on the disk.
          if (wantsSeen && batch.count > 0) return;
          const decision = decideRecall(
            state.graph,
            request,
            wantsSeen ? state.records.seenIndex() : null,
          );
          batch.addRecall(line.time, { ...decision, explained: moved(line.removed) });
          report.recalls++;
        } else if (line.kind === "corroborate") {
          batch.addCorroboration(line.time, line.memory + base, moved(line.leg));
        } else {
          entry++;
          report.ids.push([oldIds.at(entry - 1), base + entry]);
          const flags = end.flags[entry] as number;
          const isDead = (flags & DEAD) !== 0;
          const text = isDead && flags & FLAGS.gone ? null : line.text;
          const seen = line.seen && {
            base: line.seen.base === 0 ? 0 : line.seen.base + base,
            ranges: toRanges(moved(line.seen.ids)),
          };
          if (line.kind === "lot") {
            batch.addLot(
              line.time,
              line.label,
              { text, uri: text === null ? null : line.uri },
              seen,
              isDead,
            );
            report.lots++;
          } else {
            const legs =
              base === 0 ? line.legs : line.legs.map((leg) => leg.map((id) => id + base));
            batch.addMemory(line.time, legs, { text, uri: null }, seen, isDead);
            report.memories++;
          }
        }
        apply();
      }
    });
    onProgress?.(next, lines.count);
    await tick();
  }
  return report;
}
