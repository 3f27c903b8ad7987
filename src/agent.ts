// One agent's memory, as a caller holds it. No method takes an agent's name: a handle reaches its own agent only.
//
// Every write is three steps: decide (on the graph, refusing before anything is changed) → commit (bytes, chain, flush) →
// apply (the arrays). The steps between are core.ts, the deciding of deaths is recall.ts.

import { headOf } from "./chain.ts";
import { type IdList, LIMITS } from "./codec.ts";
import { compact } from "./compact.ts";
import type { AgentCore, Transaction } from "./core.ts";
import { folderBytes } from "./disk.ts";
import { copied, Drafts, type NewMemory, refusalOf } from "./drafts.ts";
import { CheeseError, hasCode } from "./errors.ts";
import { FLAGS } from "./graph.ts";
import { requireOptions } from "./options.ts";
import { planIdOf, staleness, toOutcome, toPlan, toPreview } from "./outcome.ts";
import { type Decision, decideRecall, needsSeen } from "./recall.ts";
import type { ReadBytes } from "./records.ts";
import {
  listOf,
  requireEntry,
  requireLivingParents,
  type Seen,
  toLeg,
  toLegs,
  toSeenSet,
  toTargets,
} from "./rules.ts";
import { Session } from "./session.ts";
import type { AgentState } from "./state.ts";
import type {
  AgentInfo,
  AgentStats,
  Compaction,
  Disposal,
  Entry,
  EntryId,
  EntryWhole,
  EntryWithText,
  Head,
  HistoryRecord,
  ImportReport,
  Kind,
  Mode,
  Opened,
  Outcome,
  Plan,
  State,
  VerifyReport,
  Why,
} from "./terms.ts";
import { checkText } from "./text.ts";
import { tick } from "./tick.ts";
import { exportLines, type ImportSource, importLines } from "./transfer.ts";
import { verifyAgent } from "./verify.ts";
import { type RecordView, RecordWalk, readEntry, toHistory, toTime } from "./view.ts";
import { pathFrom, supportOf } from "./why.ts";

export interface LotOptions {
  /** Where the source came from; erased with the text. */
  uri?: string | null | undefined;
  /** Entries that stood in the writer's context. */
  seen?: Seen | undefined;
}

export interface NewLot extends LotOptions {
  label: string;
  text: string;
}

/** A lot, in short. */
export interface Source {
  id: EntryId;
  label: string;
}

export interface RecallOptions {
  /** Default: fair. */
  mode?: Mode | undefined;
  /** Default: untrusted. */
  disposal?: Disposal | undefined;
  /** The id of a plan: carry out exactly that, or refuse with PLAN_STALE. */
  plan?: string | undefined;
}

export interface EntryFilter {
  state?: State | undefined;
  kind?: Kind | undefined;
  newestFirst?: boolean | undefined;
  /** With newestFirst: only entries older than this one. */
  before?: EntryId | undefined;
}

export interface LotFilter {
  label?: string | undefined;
  uriPrefix?: string | undefined;
  /** Times of the lots: from `since` on, before `until`. */
  since?: Date | undefined;
  until?: Date | undefined;
}

/** What a long call can be given. */
export interface LongOptions {
  signal?: AbortSignal | undefined;
  /** Told of what is done so far and of all, in units of the call's own. */
  onProgress?: ((done: number, all: number) => void) | undefined;
}

const MODES: readonly Mode[] = ["fair", "strict", "contact"];
const DISPOSALS: readonly Disposal[] = ["untrusted", "erase"];
const ENTRIES_AT_ONCE = 256;
const ENTRIES_AT_ONCE_MIN = 16;
const TEXTS_AT_ONCE = 4096;
const SLICE_MS = 10;

export class Agent {
  readonly name: string;
  readonly id: string;
  readonly created: string;
  /** What opening the agent found, and what it mended. */
  readonly opened: Opened;
  readonly #core: AgentCore;
  readonly #waitMs: number;
  readonly #release: () => Promise<void>;
  #isClosed = false;

  /** Made by Store.openAgent. */
  constructor(
    core: AgentCore,
    { name, id, created }: AgentInfo,
    waitMs: number,
    release: () => Promise<void>,
  ) {
    this.#core = core;
    this.name = name;
    this.id = id;
    this.created = created;
    this.opened = core.opened;
    this.#waitMs = waitMs;
    this.#release = release;
  }

  // ----- adding -----

  /**
   * Adds a lot: a source that the agent learned from.
   *
   * @param label a category, 1 to 64 bytes, kept for ever: never put personal data in it
   * @param text at most 16 MiB of UTF-8
   * @throws CheeseError NOT_UTF8, TOO_LARGE, UNKNOWN_PARENT or RECALLED_CONTEXT (what was seen), and those of any write:
   *   LOCKED, READ_ONLY, DISK, CLOSED, NO_AGENT
   */
  async addLot(label: string, text: string, options: LotOptions = {}): Promise<EntryId> {
    requireOptions("addLot", options);
    const lot = { label, text, ...options };
    requireLot(lot);
    return this.#write((transaction) => addLotTo(transaction, lot));
  }

  /**
   * Adds many lots. All are checked first and refused together; what is written is durable batch by batch.
   *
   * @throws CheeseError as addLot, with `item` the index of the first that is refused
   */
  async addLots(lots: Iterable<NewLot>, options: LongOptions = {}): Promise<EntryId[]> {
    requireOptions("addLots", options);
    const items = listOf(lots, "lots").map((lot) => {
      requireOptions("an item of addLots", lot);
      return { ...lot, seen: lot.seen && copied(lot.seen) };
    });
    await this.#read(({ graph }) => {
      for (const [item, lot] of items.entries()) {
        try {
          requireLot(lot);
          toSeenSet(graph, lot.seen);
        } catch (error) {
          throw error instanceof CheeseError ? refusalOf(item, error) : error;
        }
      }
    });
    const add = (transaction: Transaction, item: number) =>
      addLotTo(transaction, items[item] as NewLot);
    return this.#writeAll(items.length, add, options);
  }

  /**
   * Adds a memory.
   *
   * @param legs each a set of parents: the memory lives while all parents of any leg are alive
   * @throws CheeseError NO_LEG, UNKNOWN_PARENT, DEAD_PARENT, NOT_UTF8, TOO_LARGE, RECALLED_CONTEXT, and those of any write
   */
  async remember(
    text: string,
    legs: Iterable<Iterable<EntryId>>,
    options: { seen?: Seen | undefined } = {},
  ): Promise<EntryId> {
    requireOptions("remember", options);
    const memory = { text, legs: toLegs(legs), seen: options.seen };
    checkText(text, LIMITS.textBytes, "the text");
    return this.#write((transaction) => addMemoryTo(transaction, memory));
  }

  /**
   * Adds many memories. A parent may be `{ item: i }`, an earlier item of the same call. All are checked first and refused
   * together; what is written is durable batch by batch.
   *
   * @throws CheeseError as remember, with `item` the index of the first that is refused, and `written` if another process
   *   recalled a parent in the middle
   */
  async rememberAll(memories: Iterable<NewMemory>, options: LongOptions = {}): Promise<EntryId[]> {
    requireOptions("rememberAll", options);
    const drafts = await this.#draft(memories);
    const refused = [...drafts.refusals.keys()].sort((a, b) => a - b)[0];
    if (refused !== undefined) throw drafts.refusals.get(refused);
    const add = (transaction: Transaction, item: number, ids: EntryId[]) =>
      addMemoryTo(transaction, {
        text: drafts.texts[item] as string,
        legs: drafts.legs(item, ids),
        seen: drafts.seen(item),
      });
    return this.#writeAll(drafts.count, add, options);
  }

  /**
   * What rememberAll would refuse of some memories, and why; null for each that it would take. Writes nothing.
   *
   * @throws TypeError when an item is not of the form of a memory
   */
  async refusals(memories: Iterable<NewMemory>): Promise<(CheeseError | null)[]> {
    const { count, refusals } = await this.#draft(memories);
    return Array.from({ length: count }, (_, item) => refusals.get(item) ?? null);
  }

  /** Checks many memories, a slice at a time. */
  async #draft(memories: Iterable<NewMemory>): Promise<Drafts> {
    const drafts = new Drafts();
    let begun = performance.now();
    for (const memory of listOf(memories, "memories")) {
      drafts.add(memory);
      if (drafts.count % ENTRIES_AT_ONCE !== 0 || performance.now() - begun < SLICE_MS) continue;
      await tick();
      begun = performance.now();
    }
    for (let item = 0; item < drafts.count; ) {
      item = await this.#read(({ records }) => {
        const until = performance.now() + SLICE_MS;
        let next = item;
        for (; next < drafts.count; next++) {
          if (next % ENTRIES_AT_ONCE === 0 && performance.now() > until) break;
          drafts.check(next, records);
        }
        return next;
      });
      await tick();
    }
    return drafts;
  }

  /**
   * Adds a leg to a living memory. A leg that it has already changes nothing.
   *
   * @returns all legs of the memory
   * @throws CheeseError NO_ENTRY, DEAD_ENTRY, NO_LEG, UNKNOWN_PARENT, DEAD_PARENT, CYCLE, TOO_LARGE, and those of any write
   */
  async corroborate(memory: EntryId, leg: Iterable<EntryId>): Promise<EntryId[][]> {
    const parents = toLeg(leg);
    return this.#write(({ state, batch, time, apply, requireFreshBatch }) => {
      const { graph, records, log } = state;
      requireEntry(graph, memory);
      // Its legs are read from its spine.
      if (memory > log.end.entries) requireFreshBatch();
      if (!graph.is(memory, FLAGS.memory)) {
        throw new CheeseError("NO_ENTRY", `entry ${memory} is a lot: only a memory has legs`, {
          entry: memory,
        });
      }
      if (!graph.isAlive(memory)) {
        throw new CheeseError(
          "DEAD_ENTRY",
          `memory ${memory} is ${graph.state(memory)}: it cannot be held up again`,
          { entry: memory },
        );
      }
      requireLivingParents(records, [parents], () => `memory ${memory}`);
      requireFreshBatch();
      const legs = records.legs(memory).map((parents) => [...parents]);
      if (legs.some((known) => known.join() === parents.join())) return legs;
      if (graph.reaches(memory, new Set(parents))) {
        throw new CheeseError(
          "CYCLE",
          `memory ${memory} would come to stand on itself by this leg: ${parents.join(", ")}`,
          { entry: memory },
        );
      }
      if (legs.length >= LIMITS.legs) {
        throw new CheeseError(
          "TOO_LARGE",
          `memory ${memory} has ${legs.length} legs already; more are not allowed`,
        );
      }
      batch.addCorroboration(time, memory, parents);
      apply();
      return [...legs, [...parents]];
    });
  }

  /**
   * A writer whose context is observed: what it has seen is stored with everything that it writes.
   *
   * @param seen what it has seen already, if it goes on from an earlier handle
   */
  session(seen: Iterable<EntryId> = []): Session {
    return new Session(this, seen);
  }

  #write<T>(run: (transaction: Transaction) => T): Promise<T> {
    this.#requireOpen();
    return this.#core.write(this.#waitMs, run);
  }

  /** Writes many, a batch at a time, so that memory stays bounded and a signal is heeded. */
  async #writeAll(
    count: number,
    add: (transaction: Transaction, item: number, ids: EntryId[]) => EntryId,
    { signal, onProgress }: LongOptions,
  ): Promise<EntryId[]> {
    const ids: EntryId[] = [];
    while (ids.length < count) {
      signal?.throwIfAborted();
      const written = ids.length;
      // What was added before a refusal is written: a prefix. Run again, it begins where it did.
      const refusal = await this.#write((transaction) => {
        ids.length = written;
        try {
          while (ids.length < count && !transaction.isFull())
            ids.push(add(transaction, ids.length, ids));
          return null;
        } catch (error) {
          if (!(error instanceof CheeseError)) throw error;
          return error;
        }
      });
      if (refusal) {
        const { code, message, hint } = refusal;
        const facts = { hint, cause: refusal, item: ids.length, written: ids };
        throw new CheeseError(code, message, facts);
      }
      onProgress?.(ids.length, count);
    }
    return ids;
  }

  // ----- recalling -----

  /**
   * Declares entries bad, for ever: what depended on them dies with them, as far as the mode says.
   *
   * @throws CheeseError NO_ENTRY (and nothing is recalled), USAGE for no id, PLAN_STALE with the plan as it is now, and
   *   those of any write
   */
  async recall(ids: Iterable<EntryId>, options: RecallOptions = {}): Promise<Outcome> {
    requireOptions("recall", options);
    const { mode, disposal } = recallOptions(options);
    const wanted = listOf(ids, "ids");
    return this.#write(({ state, batch, time, apply, requireFreshBatch, endBatch }) => {
      const { graph } = state;
      const targets = toTargets(graph, wanted);
      // A batch of its own: who has seen what is read from the spines, and nothing may stand before an erase's zeroing.
      requireFreshBatch();
      // A plan is compared with others that are decided beside it, each on the graph as it is.
      const keepsBroken = options.plan === undefined;
      const decision = this.#decide(state, targets, mode, disposal, { keepsBroken });
      if (options.plan !== undefined && options.plan !== planIdOf(state, decision)) {
        throw staleness(options.plan, this.#plan(state, targets, mode, disposal));
      }
      if (decision.isNoop) return toOutcome(this.#core, state, decision, null);
      try {
        batch.addRecall(time, decision);
      } catch (error) {
        if (keepsBroken) graph.mendLegs(decision);
        throw error;
      }
      apply(decision);
      endBatch(decision.erased);
      return toOutcome(this.#core, state, decision, batch.record);
    });
  }

  /**
   * Decides a recall and writes nothing: what it would return, whose plan is then to be given to `recall`.
   *
   * @throws CheeseError NO_ENTRY, USAGE
   */
  async previewRecall(
    ids: Iterable<EntryId>,
    options: Omit<RecallOptions, "plan"> = {},
  ): Promise<Outcome> {
    requireOptions("previewRecall", options);
    const { mode, disposal } = recallOptions(options);
    const wanted = listOf(ids, "ids");
    return this.#read((state) => {
      const decision = this.#decide(state, toTargets(state.graph, wanted), mode, disposal);
      return toPreview(this.#core, state, decision);
    });
  }

  /**
   * The same in each mode, so that they can be compared: what would go and what would stay.
   *
   * @throws CheeseError NO_ENTRY, USAGE
   */
  async planRecall(
    ids: Iterable<EntryId>,
    options: Omit<RecallOptions, "plan"> = {},
  ): Promise<Plan> {
    requireOptions("planRecall", options);
    const { mode, disposal } = recallOptions(options);
    const wanted = listOf(ids, "ids");
    return this.#read((state) => this.#plan(state, toTargets(state.graph, wanted), mode, disposal));
  }

  #decide(
    state: AgentState,
    targets: IdList,
    mode: Mode,
    disposal: Disposal,
    options?: { keepsBroken: boolean },
  ): Decision {
    const request = { targets, mode, disposal };
    return decideRecall(
      state.graph,
      request,
      needsSeen(state.graph, request) ? state.records.seenIndex() : null,
      options,
    );
  }

  #plan(state: AgentState, targets: IdList, mode: Mode, disposal: Disposal): Plan {
    const decide = (mode: Mode) => this.#decide(state, targets, mode, disposal);
    return toPlan(
      this.#core,
      state,
      { fair: decide("fair"), strict: decide("strict"), contact: decide("contact") },
      mode,
    );
  }

  /** Living lots that fit all of a filter, ascending. */
  async findLots(filter: LotFilter): Promise<EntryId[]> {
    requireOptions("findLots", filter);
    const { label, uriPrefix, since, until } = filter;
    const fits = (lot: EntryWithText) => {
      const time = Date.parse(lot.time);
      return (
        (label === undefined || lot.label === label) &&
        (uriPrefix === undefined || (lot.uri?.startsWith(uriPrefix) ?? false)) &&
        (since === undefined || time >= since.getTime()) &&
        (until === undefined || time < until.getTime())
      );
    };
    const ids: EntryId[] = [];
    for await (const lot of this.entries({ state: "alive", kind: "lot" }))
      if (fits(lot)) ids.push(lot.id);
    return ids;
  }

  // ----- reading -----

  #read<T>(read: (state: AgentState) => T): Promise<T> {
    this.#requireOpen();
    return this.#core.read(read);
  }

  /** Which of these ids live: for results of an outside index. Unknown ids do not. */
  async alive(ids: Iterable<EntryId>): Promise<EntryId[]> {
    const wanted = listOf(ids, "ids");
    return this.#read(({ graph }) => wanted.filter((id) => graph.has(id) && graph.isAlive(id)));
  }

  /** An entry without its text. @throws CheeseError NO_ENTRY, CORRUPT */
  async get(id: EntryId): Promise<Entry> {
    return this.#read((state) => {
      const {
        text: _text,
        uri: _uri,
        ...entry
      } = readEntry(state, requireEntry(state.graph, id), { withText: false, withSeen: true });
      return entry;
    });
  }

  /** An entry's text, checked against its commitment; null when erased. @throws CheeseError NO_ENTRY, CORRUPT */
  async text(id: EntryId): Promise<string | null> {
    return this.#read(
      (state) => readEntry(state, requireEntry(state.graph, id), { withText: true }).text,
    );
  }

  /**
   * Texts of some entries, in one read: for a list in which those whose text is gone, or does not check, stand without.
   *
   * @throws CheeseError NO_ENTRY
   */
  async readableTexts(ids: Iterable<EntryId>): Promise<Map<EntryId, string>> {
    const wanted = listOf(ids, "ids");
    return this.#read(({ graph, records }) => {
      const texts = new Map<EntryId, string>();
      for (const id of wanted) {
        requireEntry(graph, id);
        try {
          records.spine(id, undefined, false);
          const found = records.text(id);
          if (found) texts.set(id, found.text);
        } catch (error) {
          if (!hasCode(error, "CORRUPT")) throw error;
        }
      }
      return texts;
    });
  }

  /** An entry whole: text, legs and whether each holds, and what was built on it. @throws CheeseError NO_ENTRY, CORRUPT */
  async show(id: EntryId): Promise<EntryWhole> {
    return this.#read((state) => ({
      ...readEntry(state, requireEntry(state.graph, id), { withText: true, withSeen: true }),
      builtOnThis: state.graph.builtOn(id),
    }));
  }

  /** Entries with their texts, ascending or newest first; those that do not fit are passed over unread. */
  async *entries(filter: EntryFilter = {}): AsyncGenerator<EntryWithText> {
    requireOptions("entries", filter);
    const toEntry = (state: AgentState, id: EntryId, read?: ReadBytes) =>
      readEntry(state, id, { withText: true, ...(read && { read }) });
    for await (const part of this.#walk(filter, ENTRIES_AT_ONCE, toEntry)) yield* part;
  }

  /** Texts that are there, and nothing else of their entries, many at a time: for a search through all of them. */
  async *texts(filter: EntryFilter = {}): AsyncGenerator<{ id: EntryId; text: string }[]> {
    requireOptions("texts", filter);
    const toText = ({ records }: AgentState, id: EntryId, read?: ReadBytes) => {
      records.spine(id, read, false);
      const texts = records.text(id, read);
      return texts && { id, text: texts.text };
    };
    for await (const part of this.#walk(filter, TEXTS_AT_ONCE, toText))
      yield part.filter((found) => found !== null);
  }

  async *#walk<T>(
    { newestFirst = false, state: wantedState, kind, before }: EntryFilter,
    atOnceMax: number,
    toItem: (state: AgentState, id: EntryId, read: ReadBytes | undefined) => T,
  ): AsyncGenerator<T[]> {
    const step = newestFirst ? -1 : 1;
    let next = newestFirst ? (before ?? Number.POSITIVE_INFINITY) - 1 : 1;
    // Few at first, for a caller that wants only the first.
    for (let atOnce = ENTRIES_AT_ONCE_MIN; ; atOnce = Math.min(atOnce * 2, atOnceMax)) {
      const part = await this.#read((state) => {
        const { graph, records } = state;
        const read = newestFirst ? undefined : records.inARow();
        const found: T[] = [];
        const until = performance.now() + SLICE_MS;
        let id = Math.min(next, newestFirst ? graph.entryCount : next);
        for (; id >= 1 && id <= graph.entryCount && found.length < atOnce; id += step) {
          if (performance.now() > until) break;
          if (wantedState && graph.state(id) !== wantedState) continue;
          if (kind && graph.kind(id) !== kind) continue;
          found.push(toItem(state, id, read));
        }
        return { found, next: id, isEnd: id < 1 || id > graph.entryCount };
      });
      yield part.found;
      if (part.isEnd) return;
      next = part.next;
      await tick();
    }
  }

  /**
   * Why an entry is believed, or which recall killed it and by which way.
   *
   * @param options.depth levels of support to give; all if not said
   * @param options.entriesMax entries of support to give
   * @throws CheeseError NO_ENTRY, CORRUPT
   */
  async why(
    id: EntryId,
    options: { depth?: number | undefined; entriesMax?: number | undefined } = {},
  ): Promise<Why> {
    requireOptions("why", options);
    const { depth = Number.POSITIVE_INFINITY, entriesMax = Number.POSITIVE_INFINITY } = options;
    return this.#read((state) => {
      const { graph, records, places } = state;
      const entry = readEntry(state, requireEntry(graph, id), { withText: true });
      if (graph.isAlive(id)) {
        const { support, more } = supportOf(records, id, depth, entriesMax);
        return {
          entry,
          support: support.map((at) => {
            const {
              id,
              kind,
              label,
              text,
              state: stateOf,
              legs,
            } = readEntry(state, at, { withText: true });
            return { id, kind, label, text, state: stateOf, legs };
          }),
          more,
        };
      }
      const slot = places.actOf(graph.diedAt[id] as number);
      const act = slot === -1 ? null : records.act(slot);
      if (!act?.recall) return { entry, killedBy: null };
      const { record, time, recall } = act;
      const { mode, disposal, targets } = recall;
      // A target may have carried a wider mode than this recall asked for: then the way is one of that mode.
      let path: EntryId[] = [];
      for (const wider of MODES.slice(MODES.indexOf(mode))) {
        path = pathFrom(
          graph,
          targets,
          id,
          wider,
          wider === "contact" ? records.seenIndex() : null,
        );
        if (path.length > 0) break;
      }
      return {
        entry,
        killedBy: { record, targets: [...targets], mode, disposal, time: toTime(time), path },
      };
    });
  }

  /** The lots that an entry stands on, nearest first, without their texts: the first few, and how many more. @throws CheeseError NO_ENTRY, CORRUPT */
  async sourcesOf(
    id: EntryId,
    options: { max: number },
  ): Promise<{ sources: Source[]; more: number }> {
    requireOptions("sourcesOf", options);
    return this.#read((state) => {
      const lots = lotsBelow(state, requireEntry(state.graph, id));
      const sources = lots.slice(0, options.max).map((lot) => toSource(state, lot));
      return { sources, more: lots.length - sources.length };
    });
  }

  /** Lots that stood in view when an entry was written, though it does not stand on them: the first few, what was seen last first. @throws CheeseError NO_ENTRY, CORRUPT */
  async sourcesInView(
    id: EntryId,
    options: { max: number },
  ): Promise<{ sources: Source[]; hasMore: boolean }> {
    requireOptions("sourcesInView", options);
    return this.#read((state) => {
      const { graph, records } = state;
      const told = new Set(lotsBelow(state, requireEntry(graph, id)));
      const sources: Source[] = [];
      for (const at of records.seenLastFirst(id)) {
        if (graph.is(at, FLAGS.memory) || told.has(at)) continue;
        if (sources.length === options.max) return { sources, hasMore: true };
        told.add(at);
        sources.push(toSource(state, at));
      }
      return { sources, hasMore: false };
    });
  }

  /** Every record in order. Texts are given where they still stand. */
  async *history(): AsyncGenerator<HistoryRecord> {
    yield* this.walkRecords(toHistory);
  }

  /**
   * Every record in order, up to the newest at the time when the walk gets there.
   *
   * @param toItem what to give of each; it is called in the turn in which the record is read
   */
  async *walkRecords<T>(toItem: (view: RecordView, state: AgentState) => T): AsyncGenerator<T> {
    let walk = new RecordWalk();
    for (;;) {
      const part = await this.#read((state) => {
        // A read may be run again: it then begins where this part did.
        const ahead = walk.clone();
        const items: T[] = [];
        const read = state.records.inARow();
        const until = performance.now() + SLICE_MS;
        while (
          !ahead.isAtEnd(state) &&
          items.length < ENTRIES_AT_ONCE &&
          performance.now() < until
        ) {
          items.push(toItem(ahead.next(state, read), state));
        }
        return { items, ahead, isEnd: ahead.isAtEnd(state) };
      });
      walk = part.ahead;
      yield* part.items;
      if (part.isEnd) return;
      await tick();
    }
  }

  /** The newest record and its hash: keep the fingerprint elsewhere, to prove later that nothing before it was changed. */
  async head(): Promise<Head> {
    return this.#read(({ log }) => headOf(log.end.record, log.end.head));
  }

  async stats(): Promise<AgentStats> {
    return this.#read((state) => {
      const { graph, log, places, place } = state;
      let textBytes = 0;
      let deadTextBytes = 0;
      let lots = 0;
      for (let entry = 1; entry <= graph.entryCount; entry++) {
        if (!graph.is(entry, FLAGS.memory)) lots++;
        if (graph.is(entry, FLAGS.gone) || places.areaAt[entry] === 0) continue;
        const bytes = places.areaBytes(entry) ?? state.records.spine(entry).areaBytes;
        textBytes += bytes;
        if (!graph.isAlive(entry)) deadTextBytes += bytes;
      }
      return {
        agent: this.name,
        id: this.id,
        created: this.created,
        records: log.end.record,
        lots,
        memories: graph.memoryCount,
        alive: graph.aliveCount,
        dead: graph.entryCount - graph.aliveCount,
        recalls: places.recallCount,
        legs: graph.legCount,
        depth: graph.depth(),
        bytes: folderBytes(place.disk, place.folder),
        segments: log.segmentCount,
        textBytes,
        deadTextBytes,
        deadShare: textBytes === 0 ? 0 : deadTextBytes / textBytes,
      };
    });
  }

  // ----- chores -----

  /**
   * Reads and checks every record, believing nothing that is in memory.
   *
   * @param options.expect a fingerprint kept elsewhere: its head must be part of this history
   * @throws CheeseError CORRUPT with all `problems`; HEAD_MISMATCH; USAGE when `expect` is no fingerprint; NEWER_FORMAT
   */
  async verify(options: { expect?: string | undefined } & LongOptions = {}): Promise<VerifyReport> {
    requireOptions("verify", options);
    this.#requireOpen();
    return verifyAgent(this.#core.place, this, options);
  }

  /** Rewrites the files without the texts of the dead. @throws CheeseError DISK, LOCKED, and those of any write */
  async compact(options: LongOptions = {}): Promise<Compaction> {
    requireOptions("compact", options);
    this.#requireOpen();
    return compact(this.#core, { waitMs: this.#waitMs, ...options });
  }

  /** The history as JSON Lines, a line a record. Texts are null where erased, and where dead unless asked for. */
  export(options: { deadTexts?: boolean | undefined } & LongOptions = {}): AsyncGenerator<string> {
    requireOptions("export", options);
    this.#requireOpen();
    return exportLines(this, options);
  }

  /**
   * Writes an export's records into this agent, as new records. One wrong line refuses the whole.
   *
   * @throws CheeseError BAD_INPUT with the line, and those of any write
   */
  async import(source: ImportSource, options: LongOptions = {}): Promise<ImportReport> {
    requireOptions("import", options);
    this.#requireOpen();
    return importLines(this.#core, this.#waitMs, source, options);
  }

  /** Lets go of the files. Everything acknowledged is on the disk already. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #requireOpen() {
    if (this.#isClosed) throw new CheeseError("CLOSED", "this handle is closed");
  }
}

// ----- deciding on additions -----

function lotsBelow({ graph, records }: AgentState, id: EntryId): EntryId[] {
  const all = Number.POSITIVE_INFINITY;
  const { support } = supportOf(records, id, all, all);
  return support.filter((at) => !graph.is(at, FLAGS.memory));
}

function toSource(state: AgentState, lot: EntryId): Source {
  return { id: lot, label: readEntry(state, lot, { withText: false }).label ?? "" };
}

/** @throws CheeseError USAGE, TOO_LARGE, NOT_UTF8 */
function requireLot({ label, text, uri }: NewLot) {
  const hint = "A label is a short category, like user_message or web_page.";
  checkText(label, LIMITS.labelBytes, "the label", hint);
  if (label === "") throw new CheeseError("USAGE", "a lot needs a label");
  checkText(text, LIMITS.textBytes, "the text");
  if (uri !== undefined && uri !== null) checkText(uri, LIMITS.uriBytes, "the uri");
}

function addLotTo(
  { state, batch, time, apply }: Transaction,
  { label, text, uri, seen }: NewLot,
): EntryId {
  const seenSet = toSeenSet(state.graph, seen);
  batch.addLot(time, label, { text, uri: uri ?? null }, seenSet);
  apply();
  return state.graph.entryCount;
}

function addMemoryTo(
  { state, batch, time, apply }: Transaction,
  { text, legs, seen }: { text: string; legs: EntryId[][]; seen: Seen | undefined },
): EntryId {
  const { graph, records } = state;
  requireLivingParents(records, legs, () => `memory ${graph.entryCount + 1}`);
  const seenSet = toSeenSet(graph, seen);
  batch.addMemory(time, legs, { text, uri: null }, seenSet);
  apply();
  return graph.entryCount;
}

function recallOptions({ mode = "fair", disposal = "untrusted" }: RecallOptions) {
  if (!MODES.includes(mode)) throw new TypeError(`mode is one of ${MODES.join(", ")}, got ${mode}`);
  if (!DISPOSALS.includes(disposal))
    throw new TypeError(`disposal is one of ${DISPOSALS.join(", ")}, got ${disposal}`);
  return { mode, disposal };
}
