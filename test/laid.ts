// One agent's log laid batch by batch on a disk in memory, every checksum right: what a test then spoils, or asks of. It is
// the module's own, and begun anew before each test.

import { createHash } from "node:crypto";
import { BatchBuilder, type LogEnd } from "../src/batch.ts";
import { encodeSeal, type RecallSpine, type SeenSet } from "../src/codec.ts";
import { firstHeadMark } from "../src/headmark.ts";
import type { LogPosition } from "../src/log.ts";
import { createSegment } from "../src/segment.ts";
import { MemoryDisk } from "./memorydisk.ts";

export const AGENT = "/agent";
export const FOLDER = "/agent/log/1";
export const HEAD_MARK = "/agent/head";
export const IDS = { storeId: Buffer.alloc(16, 1), agentId: Buffer.alloc(16, 2) };
/** Sizes as docs/format.md has them. */
export const HEADER = 128;
export const BATCH_HEADER = 60;
export const MARKER = 40;
export const SEAL = 48;
/** Of a short text. */
export const AREA = 64;
export const START: LogEnd = {
  record: 0,
  entries: 0,
  head: createHash("sha256")
    .update("cheesedb/chain/v1")
    .update(IDS.storeId)
    .update(IDS.agentId)
    .digest("binary"),
};

export let disk: MemoryDisk;
/** Where the log stands behind what was laid so far. */
export let end: LogPosition;
/** The head after each record. */
export let heads: string[];
/** Where each entry's text stands. */
export let areas: { segment: number; at: number }[];

/** Begins anew. */
export function beginLog() {
  disk = MemoryDisk.of(
    new Map(["/", AGENT, "/agent/log", FOLDER].map((path): [string, null] => [path, null])),
  );
  disk.create(HEAD_MARK).write(firstHeadMark(IDS, START.head), 0);
  end = { ...START, segment: 1, offset: HEADER };
  heads = [START.head];
  areas = [{ segment: 0, at: 0 }];
  createSegment(disk, pathOf(1), IDS, 1, { number: 1, before: START }, 0);
}

export const nameOf = (segment: number) => `log/1/${String(segment).padStart(8, "0")}.seg`;
export const pathOf = (segment: number) => `${AGENT}/${nameOf(segment)}`;
export const ids = (...list: number[]) => Uint32Array.from(list);

// ----- what a batch is made of -----

export type Step = (builder: BatchBuilder) => void;

export const lot =
  (text: string | null = "milk", { seen = null as SeenSet | null, bornDead = false } = {}): Step =>
  (builder) =>
    builder.addLot(1, "x", { text, uri: null }, seen, bornDead);
export const memory =
  (legs: number[][], seen: SeenSet | null = null): Step =>
  (builder) =>
    builder.addMemory(1, legs, { text: "drinks milk", uri: null }, seen);
export const recall =
  (outcome: Partial<Record<keyof RecallSpine, unknown>> & { targets: Uint32Array }): Step =>
  (builder) =>
    builder.addRecall(1, {
      mode: "fair",
      disposal: "untrusted",
      removed: ids(),
      alsoErased: ids(),
      contactBelow: ids(),
      explained: ids(),
      ...outcome,
    } as RecallSpine);
export const drop =
  (...dropped: number[]): Step =>
  (builder) =>
    builder.addDrop(1, ids(...dropped));
export const corroborate =
  (memory: number, leg: number[]): Step =>
  (builder) =>
    builder.addCorroboration(1, memory, leg);

export interface Laid {
  at: number;
  end: number;
}

/** Lays one batch of these records behind what there is. */
export function lay(...steps: Step[]): Laid {
  const builder = new BatchBuilder(IDS.agentId, (bytes) => bytes.fill(0xee));
  builder.begin(end);
  const placed: number[] = [];
  for (const step of steps) {
    const { entries } = builder;
    step(builder);
    heads.push(builder.head);
    if (builder.entries > entries) placed.push(builder.lastAreaAt);
  }
  const { segment, offset } = end;
  const bytes = builder.finish({ segment, offset });
  disk.open(pathOf(segment)).write(bytes, offset);
  for (const at of placed) areas.push({ segment, at: offset + builder.areasAt + at });
  const { record, entries, head } = builder;
  end = { segment, offset: offset + bytes.length, record, entries, head };
  return { at: offset, end: end.offset };
}

/** Seals the segment, and begins the next. */
export function roll() {
  const { segment, offset, ...before } = end;
  const seal = encodeSeal(before.record, before.entries, before.head, {
    agentId: IDS.agentId,
    segment,
    offset,
  });
  disk.open(pathOf(segment)).write(seal, offset);
  createSegment(disk, pathOf(segment + 1), IDS, 1, { number: segment + 1, before }, 0);
  end = { ...end, segment: segment + 1, offset: HEADER };
}

export function write(segment: number, at: number, bytes: Uint8Array) {
  disk.open(pathOf(segment)).write(bytes, at);
}

export function zero(...entries: number[]) {
  for (const entry of entries) {
    const { segment, at } = areas[entry] as { segment: number; at: number };
    write(segment, at, Buffer.alloc(AREA));
  }
}

/** What there is now, to be gone back to. */
export function keepLog(): () => void {
  const kept = { image: disk.image(), end, heads: [...heads], areas: [...areas] };
  return () => {
    disk = MemoryDisk.of(kept.image);
    ({ end, heads, areas } = kept);
  };
}

/** What was written by hand is counted as laid: the next batch goes here. */
export function endsAt(offset: number) {
  end = { ...end, offset };
}

/** The same for its head: the next batch is chained onto this one. */
export function followsHead(head: string) {
  end = { ...end, head };
}
