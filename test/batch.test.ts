// One batch put together by itself: where its salts come from, how many records an agent may hold, and a batch that outgrows
// its room; read back by the reader of segments, or cut out of the bytes by hand.

import { expect, test } from "vitest";
import { BatchBuilder } from "../src/batch.ts";
import {
  BATCH_HEADER_BYTES,
  COMMIT_MARKER_BYTES,
  LIMITS,
  readBatchHeader,
  SALT_BYTES,
  SpineReader,
} from "../src/codec.ts";

const AGENT_ID = Buffer.alloc(16, 7);
const PLACE = { segment: 1, offset: 4096 };
const START = { record: 0, entries: 0, head: "\0".repeat(32) };

/** Never the same 32 bytes twice. */
function counting() {
  let next = 1;
  return (bytes: Uint8Array) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length; at += 4) view.setUint32(at, next++);
  };
}

/** The entries of a finished batch, each with the bytes of its area. */
function entriesOf(batch: Buffer): { entry: number; area: Buffer; committed: string }[] {
  const header = readBatchHeader(batch, 0, { agentId: AGENT_ID, ...PLACE });
  if (!header) throw new Error("the batch's header does not check");
  const reader = new SpineReader(AGENT_ID);
  const spinesEnd = BATCH_HEADER_BYTES + header.spineBytes;
  expect(spinesEnd + header.areaBytes + COMMIT_MARKER_BYTES).toBe(batch.length);
  const found = [];
  let area = spinesEnd;
  for (let at = BATCH_HEADER_BYTES; at < spinesEnd; ) {
    at = reader.read(batch, at, spinesEnd, false);
    const bytes = batch.subarray(area, area + reader.areaBytes);
    found.push({ entry: reader.entry, area: bytes, committed: reader.commitment() });
    area += reader.areaBytes;
  }
  expect(found).toHaveLength(header.count);
  return found;
}

test("each text has a salt of its own, all of it from the source of randomness, over any number of batches", () => {
  const builder = new BatchBuilder(AGENT_ID, counting());
  const salts: string[] = [];
  let end = START;
  for (const count of [1, 254, 2, 300, 600]) {
    builder.begin(end);
    for (let i = 0; i < count; i++) builder.addLot(1, "x", { text: "the same", uri: null }, null);
    const { record, entries, head } = builder;
    end = { record, entries, head };
    const found = entriesOf(builder.finish(PLACE));
    for (const { area } of found) salts.push(area.toString("hex", 0, SALT_BYTES));
  }
  const source = Buffer.alloc(salts.length * SALT_BYTES * 2);
  counting()(source);
  const offered = new Set<string>();
  for (let at = 0; at < source.length; at += SALT_BYTES)
    offered.add(source.toString("hex", at, at + SALT_BYTES));
  expect(salts).toHaveLength(1157);
  expect(new Set(salts).size).toBe(salts.length);
  for (const salt of salts) expect(offered.has(salt)).toBe(true);
});

test("the last record that an agent may hold is taken, and the next refused before anything is added", () => {
  const builder = new BatchBuilder(AGENT_ID, counting());
  builder.begin({ ...START, record: LIMITS.count - 1, entries: 5 });
  builder.addCorroboration(1, 2, [1]);
  expect(builder.record).toBe(LIMITS.count);
  const { bytes, head } = builder;
  expect(() => builder.addCorroboration(1, 2, [1])).toThrow(
    expect.objectContaining({ code: "TOO_LARGE" }),
  );
  expect(() => builder.addDrop(1, Uint32Array.of(1))).toThrow(
    expect.objectContaining({ code: "TOO_LARGE" }),
  );
  expect(builder).toMatchObject({ count: 1, record: LIMITS.count, bytes, head });
});

test("spines and texts beyond the room of a fresh builder, one by one and in one piece, are all there", () => {
  for (const parents of [1, 70, 4000, 40_000]) {
    for (const letters of [1, 900, 70_000, 200_000]) {
      const builder = new BatchBuilder(AGENT_ID, counting());
      builder.begin({ ...START, entries: 50_000 });
      const leg = Uint32Array.from({ length: parents }, (_, i) => i + 1);
      const texts = Array.from({ length: parents > 1000 ? 5 : 1100 }, (_, i) =>
        `${i} `.padEnd(i % 7 === 0 ? letters : 30, "text"),
      );
      const few = texts.slice(0, letters > 1000 ? 30 : undefined);
      for (const text of few) builder.addMemory(1, [leg], { text, uri: null }, null);
      const found = entriesOf(builder.finish(PLACE));
      expect(found.map(({ entry }) => entry)).toEqual(few.map((_, i) => 50_001 + i));
      for (const [i, text] of few.entries()) {
        const area = found[i]?.area as Buffer;
        const from = SALT_BYTES + 6;
        expect(area.toString("utf8", from, from + text.length) === text).toBe(true);
      }
    }
  }
});

test("bytes of the batch as it stands are those that it has when it is finished", () => {
  const builder = new BatchBuilder(AGENT_ID, counting());
  builder.begin(START);
  builder.addLot(1, "x", { text: "one", uri: "file:one" }, null);
  builder.addMemory(1, [[1]], { text: null, uri: null }, null, true);
  builder.addDrop(1, Uint32Array.of(2));
  const { bytes, areasAt } = builder;
  const batch = builder.finish(PLACE);
  expect(batch).toHaveLength(bytes);
  // One area of 64 bytes, since 3 and 8 letters with salt and lengths are 49.
  expect(areasAt).toBe(bytes - COMMIT_MARKER_BYTES - 64);
  const found = entriesOf(batch);
  expect(found[1]).toMatchObject({ area: Buffer.alloc(0), committed: "\0".repeat(32) });
});
