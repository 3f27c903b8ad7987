// Reads single records back from the log, each checked by itself: spines, texts, legs, recalls, seen sets.

import { NumberList } from "./arrays.ts";
import type { AreaContent, RecallSpine, SpineReader } from "./codec.ts";
import { isZero, RECORD_KINDS, readAreaText } from "./codec.ts";
import { CheeseError, corrupt } from "./errors.ts";
import { FLAGS, type Graph } from "./graph.ts";
import type { Log } from "./log.ts";
import type { Places } from "./places.ts";
import { idsInDescending, SeenIndex } from "./seen.ts";
import { areaChecks, FileWindow } from "./segment.ts";
import type { EntryId } from "./terms.ts";

/** Enough for most spines, so that one read does. */
const SPINE_BYTES_LIKELY = 512;
const WINDOW_BYTES = 256 * 1024;

export type Texts = Pick<AreaContent, "text" | "uri">;

/** Where bytes come from: straight from the log, or through a window for many in a row. */
export type ReadBytes = (segment: number, at: number, bytes: number) => Buffer;

export class Records {
  readonly log: Log;
  readonly graph: Graph;
  readonly places: Places;
  readonly reader: SpineReader;
  #served: EntryId[] = [];
  readonly #haveSeenSet = new NumberList();
  #askedUpTo = 0;

  constructor(log: Log, graph: Graph, places: Places, reader: SpineReader) {
    this.log = log;
    this.graph = graph;
    this.places = places;
    this.reader = reader;
  }

  /** From now on, the entries whose texts are read are put into this list. */
  noteServed(): EntryId[] {
    this.#served = [];
    return this.#served;
  }

  anyGone(entries: EntryId[]): boolean {
    return entries.some((entry) => this.graph.is(entry, FLAGS.gone));
  }

  readonly #straight: ReadBytes = (segment, at, bytes) => {
    const { file } = this.log.segment(segment);
    // A length that was damaged must not become an allocation.
    const wanted =
      bytes > WINDOW_BYTES ? Math.max(Math.min(bytes, file.stat().size - at), 0) : bytes;
    const into = Buffer.allocUnsafe(wanted);
    return into.subarray(0, file.read(into, at));
  };

  /**
   * Reads through windows, for records in ascending order: two a segment, since spines and texts lie apart. Not to be kept:
   * what was zeroed since it would not see.
   */
  inARow(): ReadBytes {
    const windows: [FileWindow, FileWindow][] = [];
    return (segment, at, bytes) => {
      let pair = windows[segment];
      if (!pair) {
        const { file } = this.log.segment(segment);
        pair = [new FileWindow(file), new FileWindow(file)];
        windows[segment] = pair;
      }
      // The one that was used last stands second.
      const [other, last] = pair;
      if (last.reaches(at)) return last.view(at, bytes);
      windows[segment] = [last, other];
      return other.view(at, bytes);
    };
  }

  /**
   * Stands the reader on the spine at a place.
   *
   * @throws CheeseError CORRUPT when it does not check
   */
  #spineAt(
    segment: number,
    at: number,
    read: ReadBytes = this.#straight,
    whole = true,
  ): SpineReader {
    let bytes = read(segment, at, SPINE_BYTES_LIKELY);
    const length = spineBytes(bytes);
    if (length > bytes.length) bytes = read(segment, at, length);
    try {
      this.reader.read(bytes, 0, bytes.length, false, whole);
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      const file = this.log.segment(segment).file.path;
      throw new CheeseError(error.code, `${error.message}: ${file}, offset ${at}`, {
        cause: error,
        file,
        offset: at,
      });
    }
    return this.reader;
  }

  /**
   * Stands the reader on an entry's spine.
   *
   * @param whole false where its text is all that is asked for: what stands behind its commitment is checked, and not read
   */
  spine(entry: EntryId, read?: ReadBytes, whole = true): SpineReader {
    const segment = this.log.segmentOf(entry);
    const at = this.places.spineAt[entry] as number;
    const reader = this.#spineAt(segment, at, read, whole);
    if (!reader.isEntry || reader.entry !== entry) {
      const file = this.log.segment(segment).file.path;
      throw corrupt(`entry ${reader.entry} stands where entry ${entry} is due`, {
        entry,
        file,
        offset: at,
      });
    }
    return reader;
  }

  /**
   * The text of the entry on whose spine the reader stands; null if it is not in the files, or erased.
   *
   * @throws CheeseError CORRUPT when it does not check against its commitment
   */
  text(entry: EntryId, read: ReadBytes = this.#straight): Texts | null {
    const areaAt = this.places.areaAt[entry] as number;
    if (areaAt === 0 || this.graph.is(entry, FLAGS.gone)) return null;
    const segment = this.log.segmentOf(entry);
    const { areaBytes } = this.reader;
    const committed = this.reader.commitment();
    const area = read(segment, areaAt, areaBytes);
    if (area.length < areaBytes || !areaChecks(area, 0, areaBytes, committed)) {
      const file = this.log.segment(segment).file.path;
      throw corrupt(`the text of entry ${entry} does not check`, { entry, file, offset: areaAt });
    }
    this.#served.push(entry);
    return readAreaText(area, 0);
  }

  /**
   * Every leg of a memory, in the order in which they were declared.
   *
   * @param legCount leaves out what came later: legs of this number and above
   */
  legs(memory: EntryId, read?: ReadBytes, legCount = Number.POSITIVE_INFINITY): Uint32Array[] {
    const legs = this.spine(memory, read).legs();
    if (this.graph.is(memory, FLAGS.corroborated)) {
      for (const slot of this.places.corroborationsOf(memory))
        if (this.places.legs.at(slot) < legCount) legs.push(this.corroboration(slot).leg);
    }
    return legs;
  }

  /** The corroboration in a slot of the places. */
  corroboration(slot: number): { memory: EntryId; leg: Uint32Array; time: number } {
    const { legSegment, legSpineAt } = this.places;
    const reader = this.#spineAt(legSegment.at(slot), legSpineAt.at(slot));
    if (reader.kind !== RECORD_KINDS.corroborate)
      throw corrupt("another record stands where a corroboration is due");
    return { memory: reader.entry, leg: reader.leg(0), time: reader.time };
  }

  /** The parents of a leg of the graph. */
  parents(leg: number): Uint32Array {
    const slot = this.places.corroborationOfLeg(leg);
    if (slot !== -1) return this.corroboration(slot).leg;
    const owner = this.graph.legOwner[leg] as number;
    // The legs that came with a memory are numbered in a row, before any corroboration of it.
    let first = leg;
    while (first > 0 && this.graph.legOwner[first - 1] === owner) first--;
    return this.spine(owner).leg(leg - first);
  }

  /** The recall or drop in a slot of the places. */
  act(slot: number): {
    record: number;
    time: number;
    recall: RecallSpine | null;
    dropped: Uint32Array;
  } {
    const { actSegment, actSpineAt, actRecord } = this.places;
    const reader = this.#spineAt(actSegment.at(slot), actSpineAt.at(slot));
    if (reader.record !== actRecord.at(slot))
      throw corrupt(`record ${reader.record} stands where ${actRecord.at(slot)} is due`);
    const isRecall = reader.kind === RECORD_KINDS.recall;
    return {
      record: reader.record,
      time: reader.time,
      recall: isRecall ? reader.recall : null,
      dropped: isRecall ? new Uint32Array(0) : reader.dropped,
    };
  }

  /** The entries whose text the recall or drop in a slot takes, ascending. */
  textsTakenBy(slot: number): Uint32Array {
    const { recall, dropped } = this.act(slot);
    return recall ? erasedBy(recall) : dropped;
  }

  /** What an entry had seen, ascending; null when nothing was recorded. */
  seen(entry: EntryId): EntryId[] | null {
    if (!this.graph.is(entry, FLAGS.seen)) return null;
    return [...new Set(this.seenLastFirst(entry))].sort((a, b) => a - b);
  }

  /** The same, what was seen last first, some of it more than once; reads no further than is asked. */
  *seenLastFirst(entry: EntryId): Generator<EntryId> {
    for (let at = entry; at !== 0; ) {
      const set = this.spine(at).seen();
      if (!set) return;
      yield* idsInDescending(set.ranges);
      at = set.base;
    }
  }

  /** All seen sets, read from the spines: they are not kept in memory. */
  seenIndex(): SeenIndex {
    const index = new SeenIndex();
    const read = this.inARow();
    for (const entry of this.#withSeenSet()) {
      const { seenBase, seenRanges, seenLength } = this.spine(entry, read);
      index.add(entry, seenBase, seenRanges, seenLength);
    }
    return index;
  }

  /** Ascending. Who has one has it from the start, so each entry is asked once. */
  #withSeenSet(): Uint32Array {
    const { flags, entryCount } = this.graph;
    for (; this.#askedUpTo < entryCount; this.#askedUpTo++) {
      const entry = this.#askedUpTo + 1;
      if ((flags[entry] as number) & FLAGS.seen) this.#haveSeenSet.push(entry);
    }
    return this.#haveSeenSet.view();
  }

  /** Overwrites the areas of some entries with zeros, in ascending order; to be flushed by the caller. */
  zeroAreas(entries: Uint32Array) {
    for (const entry of entries) {
      const at = this.places.areaAt[entry] as number;
      if (at === 0) continue;
      const bytes = this.places.areaBytes(entry) ?? this.spine(entry).areaBytes;
      this.log.zero(this.log.segmentOf(entry), at, bytes);
    }
  }

  /** Whether the place of an erased text is all zero, or no longer there. */
  areaIsZero(entry: EntryId, read: ReadBytes = this.#straight): boolean {
    const at = this.places.areaAt[entry] as number;
    if (at === 0) return true;
    let bytes = this.places.areaBytes(entry) ?? this.spine(entry).areaBytes;
    let from = at;
    while (bytes > 0) {
      const piece = read(this.log.segmentOf(entry), from, Math.min(bytes, WINDOW_BYTES));
      if (piece.length === 0 || !isZero(piece, 0, piece.length)) return false;
      from += piece.length;
      bytes -= piece.length;
    }
    return true;
  }
}

/** The entries whose text a recall takes, ascending. */
export function erasedBy({ disposal, removed, alsoErased }: RecallSpine): Uint32Array {
  if (disposal !== "erase") return alsoErased;
  const both = new Uint32Array(removed.length + alsoErased.length);
  both.set(removed);
  both.set(alsoErased, removed.length);
  return both.sort();
}

/** Length of a spine from its first bytes, its own length field included. */
function spineBytes(bytes: Buffer): number {
  let length = 0;
  for (let i = 0; i < 5 && i < bytes.length; i++) {
    const byte = bytes[i] as number;
    length += (byte & 127) * 2 ** (7 * i);
    if (byte < 128) return length + i + 1;
  }
  return 0;
}
