// The graph and the places in one file, bound to a head: a cache. Any doubt about it means a replay, never a wrong answer.
//
// It holds no text. Its arrays are read straight into place, with some room behind them.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { NumberList } from "./arrays.ts";
import {
  decodeFileHeader,
  encodeFileHeader,
  FILE_HEADER_BYTES,
  type FileHeader,
  LIMITS,
} from "./codec.ts";
import { type Disk, type File, isMissing, replaceWhole } from "./disk.ts";
import { hasCode } from "./errors.ts";
import { DEAD, FLAGS, Graph } from "./graph.ts";
import type { LogPosition } from "./log.ts";
import { ACT, Places } from "./places.ts";
import type { AgentIds } from "./segment.ts";
import { allAtOnce, inParts } from "./steps.ts";

export const SNAPSHOT_NAME = "graph";

/** Room for new entries and legs, beyond what is there, so that the first write after an open copies nothing. */
const ROOM_SHARE = 1 / 32;
const ROOM_MIN = 256;
const BODY_BYTES_MAX = 0xffff_ffff;
const STEP_BYTES = 4 * 1024 * 1024;

export interface Snapshot {
  position: LogPosition;
  generation: number;
  graph: Graph;
  places: Places;
}

export function snapshotPath(agentFolder: string): string {
  return join(agentFolder, SNAPSHOT_NAME);
}

/** The first part of the body: these, then how many elements each array has. */
function scalarsOf({
  entryCount,
  memoryCount,
  aliveCount,
  legCount,
  edgeCount,
}: Graph): Uint32Array<ArrayBuffer> {
  return Uint32Array.of(entryCount, memoryCount, aliveCount, legCount, edgeCount);
}

const SCALARS = 5;

type Numbers = Uint32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** The parts of the body, in order: those of 4 bytes first, so that every one is aligned. */
function partsOf(graph: Graph, places: Places): Numbers[] {
  const entries = graph.entryCount + 1;
  return [
    graph.diedAt.subarray(0, entries),
    graph.legOwner.subarray(0, graph.legCount),
    graph.legBroken.subarray(0, (graph.legCount + 31) >>> 5),
    graph.childStart,
    graph.childLegs,
    places.spineAt.subarray(0, entries),
    places.areaAt.subarray(0, entries),
    ...listsOf(places).map((list) => list.view()),
    graph.flags.subarray(0, entries),
    graph.holding.subarray(0, entries),
    places.areaUnits.subarray(0, entries),
  ];
}

function listsOf(places: Places): NumberList[] {
  const { legs, legMemory, legSegment, legSpineAt, actRecord, actSegment, actSpineAt, actFlags } =
    places;
  return [legs, legMemory, legSegment, legSpineAt, actRecord, actSegment, actSpineAt, actFlags];
}

const bytesOf = (array: Numbers) =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Writes the snapshot of a flushed state, old or new after a crash. Under the agent's lock. */
export function writeSnapshot(
  disk: Disk,
  agentFolder: string,
  ids: AgentIds,
  { graph, places, generation, position }: Snapshot,
) {
  graph.settle();
  const parts = partsOf(graph, places);
  const table = Uint32Array.from([...scalarsOf(graph), ...parts.map((part) => part.length)]);
  const body = [table, ...parts].map(bytesOf);
  const bodyBytes = body.reduce((sum, part) => sum + part.length, 0);
  if (bodyBytes > BODY_BYTES_MAX) return;
  const header = encodeFileHeader({
    kind: "snapshot",
    ...ids,
    generation,
    record: position.record,
    entries: position.entries,
    hash: position.head,
    extra: position.segment,
    place: position.offset,
    bodyBytes,
    bodyCheck: body.reduce((sum, part) => crc32(part, sum), 0),
  });
  replaceWhole(disk, snapshotPath(agentFolder), [header, ...body]);
}

export type SnapshotHealth = "ok" | "none" | "damaged";

export interface FoundSnapshot {
  health: SnapshotHealth;
  /** Null when there is none that checks and is this agent's, or it is of another generation than was asked for. */
  snapshot: Snapshot | null;
  /** The record that it is of, whether it can be used or not; 0 when its header does not check. */
  record: number;
}

/**
 * Reads the snapshot, in steps of a few milliseconds.
 *
 * @param generation of the log: one of another is not read whole, since it says where things stood before; null for any
 * @throws CheeseError NEWER_FORMAT never: a snapshot of another version is as good as none
 */
export function* readingSnapshot(
  disk: Disk,
  agentFolder: string,
  ids: AgentIds,
  generation: number | null = null,
): Generator<undefined, FoundSnapshot> {
  let file: File;
  try {
    file = disk.open(snapshotPath(agentFolder), "read");
  } catch (error) {
    if (isMissing(error)) return { health: "none", snapshot: null, record: 0 };
    if (hasCode(error, "CORRUPT")) return { health: "damaged", snapshot: null, record: 0 };
    throw error;
  }
  try {
    const bytes = Buffer.alloc(FILE_HEADER_BYTES);
    const header = decodeFileHeader(bytes.subarray(0, file.read(bytes, 0)), "snapshot", file.path);
    if (!header.storeId.equals(ids.storeId) || !header.agentId.equals(ids.agentId))
      return { health: "damaged", snapshot: null, record: 0 };
    const { record } = header;
    if (generation !== null && header.generation !== generation)
      return { health: "ok", snapshot: null, record };
    const snapshot = yield* readBody(file, header);
    return { health: snapshot ? "ok" : "damaged", snapshot, record };
  } catch (error) {
    if (hasCode(error, "CORRUPT", "NEWER_FORMAT"))
      return { health: "damaged", snapshot: null, record: 0 };
    throw error;
  } finally {
    file.close();
  }
}

/** The same in one go. */
export function readSnapshot(
  disk: Disk,
  agentFolder: string,
  ids: AgentIds,
  generation: number | null = null,
): FoundSnapshot {
  return allAtOnce(readingSnapshot(disk, agentFolder, ids, generation));
}

function* readBody(file: File, header: FileHeader): Generator<undefined, Snapshot | null> {
  if (file.stat().size !== FILE_HEADER_BYTES + header.bodyBytes) return null;
  let at = FILE_HEADER_BYTES;
  let check = 0;
  function* readInto(array: Numbers): Generator<undefined, boolean> {
    const bytes = bytesOf(array);
    for (let from = 0; from < bytes.length; from += STEP_BYTES) {
      const piece = bytes.subarray(from, from + STEP_BYTES);
      if (file.read(piece, at) < piece.length) return false;
      at += piece.length;
      check = crc32(piece, check);
      yield;
    }
    return true;
  }
  const graph = new Graph();
  const places = new Places();
  const counts = new Uint32Array(SCALARS + partsOf(graph, places).length);
  if (!(yield* readInto(counts))) return null;
  const sizes = [...counts.subarray(SCALARS)];
  const wide = sizes.length - 3;
  const bodyBytes =
    counts.byteLength + sizes.reduce((sum, size, i) => sum + size * (i < wide ? 4 : 2), 0);
  // Before anything of these sizes is allocated.
  if (bodyBytes !== header.bodyBytes || !sizesFit(counts, header)) return null;

  const room = (size: number) => size + ROOM_MIN + Math.ceil(size * ROOM_SHARE);
  const next = { part: 0 };
  let isWhole = true;
  function* words(roomFor = (size: number) => size) {
    const size = sizes[next.part++] as number;
    const array = new Uint32Array(roomFor(size));
    isWhole &&= yield* readInto(array.subarray(0, size));
    return array;
  }
  function* halves() {
    const size = sizes[next.part++] as number;
    const array = new Uint16Array(room(size));
    isWhole &&= yield* readInto(array.subarray(0, size));
    return array;
  }
  const diedAt = yield* words(room);
  const legOwner = yield* words(room);
  const legBroken = yield* words(room);
  const childStart = yield* words();
  const childLegs = yield* words();
  const spineAt = yield* words(room);
  const areaAt = yield* words(room);
  const lists: Uint32Array[] = [];
  for (const _ of listsOf(places)) lists.push(yield* words());
  const flags = yield* halves();
  const holding = yield* halves();
  const areaUnits = yield* halves();
  if (!isWhole || check !== header.bodyCheck) return null;

  const [entryCount, memoryCount, aliveCount, legCount, edgeCount] = counts as unknown as [
    number,
    number,
    number,
    number,
    number,
  ];
  Object.assign(graph, { diedAt, legOwner, legBroken, childStart, childLegs, flags, holding });
  Object.assign(graph, {
    entryCount,
    memoryCount,
    aliveCount,
    legCount,
    edgeCount,
    settledEntries: entryCount,
  });
  Object.assign(places, { spineAt, areaAt, areaUnits });
  for (const [i, list] of listsOf(places).entries())
    for (const value of lists[i] ?? []) list.push(value);
  for (let slot = 0; slot < places.actRecord.length; slot++) {
    if (places.actFlags.at(slot) & ACT.erases) places.lastErase = places.actRecord.at(slot);
  }
  if (!(yield* staysInside(graph, places))) return null;
  yield* inParts(entryCount, (from, to) => {
    for (let entry = from; entry < to; entry++) {
      const flag = flags[entry] as number;
      if (flag & FLAGS.belowErased && flag & DEAD && !(flag & FLAGS.gone))
        graph.stragglers.add(entry);
    }
  });
  return {
    generation: header.generation,
    position: {
      segment: header.extra,
      offset: header.place,
      record: header.record,
      entries: header.entries,
      head: header.hash,
    },
    graph,
    places,
  };
}

/** Whether a snapshot says anything else than a graph and places that were read from the log up to its record; in steps. */
export function* snapshotDiffers(
  snapshot: Snapshot,
  graph: Graph,
  places: Places,
): Generator<undefined, boolean> {
  yield* graph.settling();
  const ours = [scalarsOf(graph), ...partsOf(graph, places)].map(bytesOf);
  const theirs = [scalarsOf(snapshot.graph), ...partsOf(snapshot.graph, snapshot.places)].map(
    bytesOf,
  );
  for (const [i, part] of ours.entries()) {
    if (Buffer.compare(part, theirs[i] as Uint8Array) !== 0) return true;
    yield;
  }
  return false;
}

/** Whether every array is as long as what is counted before it asks for. */
function sizesFit(counts: Uint32Array, { record, entries }: FileHeader): boolean {
  const [entryCount, memoryCount, aliveCount, legCount, edgeCount, ...sizes] =
    counts as unknown as [number, number, number, number, number, ...number[]];
  if (entryCount !== entries || record > LIMITS.count) return false;
  if (memoryCount > entryCount || aliveCount > entryCount) return false;
  const ofEntries = entryCount + 1;
  const wordsOfLegs = Math.ceil(legCount / 32);
  const [corroborations, acts] = [sizes[7], sizes[11]];
  const due = [
    ...[ofEntries, legCount, wordsOfLegs, entryCount + 2, edgeCount, ofEntries, ofEntries],
    ...[corroborations, corroborations, corroborations, corroborations],
    ...[acts, acts, acts, acts],
    ...[ofEntries, ofEntries, ofEntries],
  ];
  return due.every((size, i) => size === sizes[i]);
}

/** Whether no walk leaves the arrays, whoever wrote them; the rest `verify` compares with a replay. In steps. */
function* staysInside(graph: Graph, places: Places): Generator<undefined, boolean> {
  const { entryCount, legCount, edgeCount, childStart, childLegs, legOwner } = graph;
  let isInside = true;
  let before = childStart[0] as number;
  yield* inParts(childStart.length - 1, (from, to) => {
    for (let i = from; i < to; i++) {
      const start = childStart[i] as number;
      if (start < before) isInside = false;
      before = start;
    }
  });
  if (before !== edgeCount) return false;
  yield* inParts(edgeCount, (from, to) => {
    for (let edge = from - 1; edge < to - 1; edge++)
      if ((childLegs[edge] as number) >= legCount) isInside = false;
  });
  yield* inParts(legCount, (from, to) => {
    for (let leg = from - 1; leg < to - 1; leg++) {
      const owner = legOwner[leg] as number;
      if (owner < 1 || owner > entryCount) isInside = false;
    }
  });
  return isInside && places.legs.view().every((leg) => leg < legCount);
}
