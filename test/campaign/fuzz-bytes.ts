// Fuzzing the decoders: every structure of docs/format.md, broken in all ways, and then its checksums mended.

import { crc32 } from "node:zlib";
import { applyRecord } from "../../src/apply.ts";
import { BatchBuilder } from "../../src/batch.ts";
import {
  areaBytesFor,
  areaContentEnd,
  checkedBody,
  decodeAgentBody,
  decodeFileHeader,
  encodeAgentBody,
  encodeFileHeader,
  encodeSeal,
  FILE_HEADER_BYTES,
  FILE_KINDS,
  type FileKind,
  readAreaText,
  readBatchHeader,
  readCommitMarker,
  readSeal,
  SpineReader,
  SpineWriter,
  writeArea,
  writeBatchHeader,
  writeCommitMarker,
} from "../../src/codec.ts";
import { FLAGS, Graph } from "../../src/graph.ts";
import { nextSequence, readHeadMark, writeHeadMark } from "../../src/headmark.ts";
import { Places } from "../../src/places.ts";
import { decideRecall } from "../../src/recall.ts";
import {
  createSegment,
  FileWindow,
  findAt,
  lastWritten,
  nextHeader,
  readSpines,
  SEGMENT_START,
  somethingFollows,
  textsCheck,
} from "../../src/segment.ts";
import { readSnapshot, writeSnapshot } from "../../src/snapshot.ts";
import { chance } from "../chance.ts";
import { MemoryDisk } from "../memorydisk.ts";
import { below, mutate, pick, type Random, randomBytes, repairCheck, varint } from "./mutate.ts";
import { must, refusable, type Target } from "./target.ts";

const STORE = Buffer.alloc(16, 0x11);
const AGENT = Buffer.alloc(16, 0x22);
const IDS = { storeId: STORE, agentId: AGENT };
const PLACE = { agentId: AGENT, segment: 1, offset: 128 };
const HEAD = "h".repeat(32);

/** How often the checksums are mended: without it every input would fail at the first of them. */
const MENDED = 0.9;

const fillWith = (random: Random) => (bytes: Uint8Array) => {
  for (let i = 0; i < bytes.length; i++) bytes[i] = below(random, 256);
};

function ascending(random: Random, max: number): Uint32Array<ArrayBuffer> {
  const ids = new Set(Array.from({ length: 1 + below(random, 6) }, () => 1 + below(random, max)));
  return Uint32Array.from(ids).sort();
}

// ----- spines -----

function writeSpine(random: Random): Buffer {
  const writer = new SpineWriter(AGENT);
  const lead = { time: 1_767_225_600_000, record: 1 + below(random, 1000) };
  const seen =
    random() < 0.4
      ? { base: below(random, 3), ranges: Uint32Array.of(1, 3, 7, 7, 100, 2000) }
      : null;
  const entry = { ...lead, entry: 40, commitment: HEAD, areaBytes: 96, seen };
  switch (below(random, 5)) {
    case 0:
      writer.lot({ ...entry, label: "web_page", bornDead: random() < 0.3 });
      break;
    case 1:
      writer.memory({
        ...entry,
        legs: Array.from({ length: 1 + below(random, 4) }, () => ascending(random, 39)),
      });
      break;
    case 2:
      writer.corroborate({ ...lead, memory: 5, leg: ascending(random, 300) });
      break;
    case 3:
      writer.recall(lead.time, lead.record, {
        mode: pick(random, ["fair", "strict", "contact"] as const),
        disposal: pick(random, ["untrusted", "erase"] as const),
        targets: ascending(random, 40),
        removed: ascending(random, 40),
        alsoErased: ascending(random, 40),
        contactBelow: ascending(random, 40),
        explained: ascending(random, 40),
      });
      break;
    default:
      writer.drop({ ...lead, dropped: ascending(random, 5000) });
  }
  return Buffer.from(writer.buffer.subarray(writer.start, writer.end));
}

/** Where a spine's fields begin: behind its length. */
function leadBytes(spine: Buffer): number {
  let at = 0;
  while (at < 4 && (spine[at] ?? 0) > 127) at++;
  return at + 1;
}

/** The spine with the length and the check that its fields ask for. */
export function mendSpine(spine: Buffer, agentId: Buffer): Buffer {
  const fields = spine.subarray(leadBytes(spine), Math.max(leadBytes(spine), spine.length - 4));
  const body = Buffer.concat([varint(fields.length + 4), fields]);
  const check = Buffer.alloc(4);
  check.writeUInt32LE(crc32(body, crc32(agentId)));
  return Buffer.concat([body, check]);
}

function isAscending(list: ArrayLike<number>): boolean {
  for (let i = 0; i < list.length; i++)
    if ((list[i] as number) <= (i === 0 ? 0 : (list[i - 1] as number))) return false;
  return true;
}

function checkSpine(input: Buffer, checked: boolean) {
  const reader = new SpineReader(AGENT);
  const end = refusable(() => reader.read(input, 0, input.length, checked));
  if (end === null) return;
  must(end <= input.length, "a spine ends behind its bytes");
  if (reader.isEntry) must(reader.commitmentAt + 32 <= end, "a commitment leads out of its spine");
  if (reader.kind === 1) must(reader.labelAt + reader.labelBytes <= end, "a label leads out");
  for (const leg of reader.legs()) must(isAscending(leg), "a leg does not ascend");
  const { recall } = reader;
  const lists = reader.kind === 5 ? [reader.dropped] : [];
  if (reader.kind === 4 && recall)
    lists.push(recall.targets, recall.removed, recall.alsoErased, recall.contactBelow);
  for (const list of lists) must(isAscending(list), "a list does not ascend");
  // What was read says the same when it is written again and read again.
  const again = new SpineReader(AGENT);
  const written = new SpineWriter(AGENT);
  const { time, record, entry, areaBytes } = reader;
  const seen = reader.seen();
  const fields = { time, record, entry, commitment: HEAD, areaBytes, seen };
  if (reader.isEntry && seen?.base === 0 && reader.flags & 2) return;
  if (reader.kind === 2) written.memory({ ...fields, legs: reader.legs() });
  else if (reader.kind === 3)
    written.corroborate({ time, record, memory: entry, leg: reader.leg(0) });
  else if (reader.kind === 4 && recall) written.recall(time, record, recall);
  else if (reader.kind === 5) written.drop({ time, record, dropped: reader.dropped });
  else written.lot({ ...fields, label: "x" });
  again.read(written.buffer, written.start, written.end, false);
  const said = (of: SpineReader) =>
    JSON.stringify([
      of.kind,
      of.time,
      of.record,
      of.isEntry ? [of.entry, of.areaBytes, of.seen()] : null,
      of.kind < 4 ? of.legs() : null,
      of.kind === 4 ? of.recall : null,
      of.kind === 5 ? of.dropped : null,
    ]);
  must(said(again) === said(reader), "a spine says something else when it is written again");
}

const spines: Target = {
  name: "spine",
  share: 30,
  make(random) {
    const spine = writeSpine(random);
    const mutated = mutate(random, spine, [writeSpine(random)]);
    return random() < MENDED ? mendSpine(mutated, AGENT) : mutated;
  },
  check(input) {
    checkSpine(input, false);
    checkSpine(input, true);
  },
  bytesMax: (bytes) => 256 * bytes + 32_768,
};

// ----- headers -----

/** Mends a file's header and what it says of the body. */
export function mendFile(bytes: Buffer): Buffer {
  if (bytes.length < FILE_HEADER_BYTES) return bytes;
  const mended = Buffer.from(bytes);
  const body = mended.subarray(FILE_HEADER_BYTES);
  if (mended.readUInt16LE(10) !== FILE_KINDS.segment) {
    mended.writeUInt32LE(body.length, 104);
    mended.writeUInt32LE(crc32(body), 108);
  }
  repairCheck(mended, 0, 124);
  return mended;
}

function fileOf(random: Random): Buffer {
  const kind = pick(random, Object.keys(FILE_KINDS) as FileKind[]);
  const header = encodeFileHeader({
    kind,
    ...IDS,
    number: below(random, 9),
    generation: 1,
    record: below(random, 99),
    hash: HEAD,
    place: 1_767_225_600_000,
  });
  if (kind !== "agent") return header;
  const name = pick(random, ["alice", "zo\u00eb", "\u{1f9c0}", "__proto__"]);
  return mendFile(
    Buffer.concat([header, encodeAgentBody({ name, tokenHash: Buffer.alloc(32, 7) })]),
  );
}

const headers: Target = {
  name: "file header",
  share: 12,
  make(random) {
    const mutated = mutate(random, fileOf(random), [fileOf(random)]);
    return random() < MENDED ? mendFile(mutated) : mutated;
  },
  check(input) {
    for (const kind of Object.keys(FILE_KINDS) as FileKind[]) {
      const header = refusable(() => decodeFileHeader(input, kind, "it"));
      if (!header) continue;
      const body = refusable(() => checkedBody(input, header, "it"));
      if (body && kind === "agent") refusable(() => decodeAgentBody(body, "it"));
      const kept = Buffer.from(input.subarray(0, FILE_HEADER_BYTES));
      kept.fill(0, 102, 104).fill(0, 112, 124);
      repairCheck(kept, 0, 124);
      must(
        encodeFileHeader(header).equals(kept),
        "a header says something else when written again",
      );
    }
  },
  bytesMax: (bytes) => 64 * bytes + 8192,
};

const batchHeader = (random: Random) => ({
  compacted: random() < 0.3,
  count: 1 + below(random, 4096),
  firstRecord: 1 + below(random, 9),
  entriesBefore: below(random, 9),
  spineBytes: below(random, 9999),
  areaBytes: below(random, 9999),
  headBefore: HEAD,
});

const batchParts: Target = {
  name: "batch header, marker or seal",
  share: 12,
  make(random) {
    const part = Buffer.alloc(60);
    const kind = below(random, 3);
    if (kind === 0) writeBatchHeader(part, 0, batchHeader(random), PLACE);
    if (kind === 1) encodeSeal(3, 2, HEAD, PLACE).copy(part);
    if (kind === 2) writeCommitMarker(part, 0, 7, HEAD);
    const mutated = mutate(random, part);
    if (random() > MENDED) return mutated;
    const place = Buffer.concat([AGENT, Buffer.of(1, 0, 0, 0, 128, 0, 0, 0)]);
    if (kind === 0) repairCheck(mutated, 0, 56, crc32(place));
    if (kind === 1) repairCheck(mutated, 0, 44, crc32(place));
    if (kind === 2) repairCheck(mutated, 0, 36, 7);
    return mutated;
  },
  check(input) {
    const again = Buffer.alloc(60);
    const header = refusable(() => readBatchHeader(input, 0, PLACE));
    if (header) {
      writeBatchHeader(again, 0, header, PLACE);
      must(again.equals(input.subarray(0, 60)), "a batch header is not what it was");
    }
    const seal = refusable(() => readSeal(input, 0, PLACE));
    if (seal)
      must(
        encodeSeal(seal.record, seal.entries, seal.head, PLACE).equals(input.subarray(0, 48)),
        "a seal is not what it was",
      );
    // It is only asked for where there are so many bytes.
    const head = input.length >= 40 ? refusable(() => readCommitMarker(input, 0, 7)) : null;
    if (head !== null) {
      writeCommitMarker(again, 0, 7, head);
      must(again.subarray(0, 40).equals(input.subarray(0, 40)), "a marker is not what it was");
    }
  },
  bytesMax: (bytes) => 64 * bytes + 8192,
};

function writeOneArea(random: Random): Buffer {
  const text = "Pune: rain ".repeat(below(random, 20));
  const uri = random() < 0.5 ? "https://example.com/w" : null;
  const content = { text, textBytes: text.length, uri, uriBytes: uri?.length ?? -1 };
  const bytes = areaBytesFor(content.textBytes, content.uriBytes);
  const area = Buffer.alloc(bytes);
  writeArea(area, 0, bytes, { pool: randomBytes(random, 32), at: 0 }, content);
  return area;
}

const areas: Target = {
  name: "area",
  share: 12,
  make: (random) => mutate(random, writeOneArea(random), [writeOneArea(random)]),
  check(input) {
    const end = areaContentEnd(input, 0, input.length);
    if (end === -1) return;
    must(end <= input.length, "a text leads out of its area");
    const { text, uri } = readAreaText(input, 0);
    const [textBytes, uriBytes] = [
      Buffer.byteLength(text),
      uri === null ? -1 : Buffer.byteLength(uri),
    ];
    if (text.includes("\ufffd") || uri?.includes("\ufffd")) return;
    const again = Buffer.alloc(input.length);
    writeArea(again, 0, input.length, { pool: input, at: 0 }, { text, textBytes, uri, uriBytes });
    must(again.equals(input), "an area is not what it was");
  },
  bytesMax: (bytes) => 64 * bytes + 8192,
};

// ----- small files -----

const headMarks: Target = {
  name: "head mark",
  share: 10,
  make(random) {
    const mark = Buffer.alloc(1024);
    for (const slot of [0, 1]) {
      const number = slot + 1 + 2 * below(random, 9);
      const fields = { number, record: below(random, 99), hash: HEAD, extra: below(random, 99) };
      encodeFileHeader({ kind: "headMark", ...IDS, ...fields }).copy(mark, slot * 512);
    }
    const mutated = mutate(random, mark);
    for (const at of [0, 512]) if (random() < MENDED) repairCheck(mutated, at, at + 124);
    return mutated;
  },
  check(input) {
    const disk = MemoryDisk.of(
      new Map([
        ["/a", null],
        ["/a/head", input],
      ]),
    );
    const mark = refusable(() => readHeadMark(disk, "/a/head", IDS));
    if (!mark) return;
    // The next write finds a mark that can be counted on from, whatever the one before said.
    const next = { record: 100, head: "n".repeat(32), done: 7, sequence: nextSequence(mark) };
    writeHeadMark(disk, "/a/head", IDS, next);
    const { record, head, done, sequence } = readHeadMark(disk, "/a/head", IDS);
    must(
      record === 100 && head === next.head && done === 7 && sequence === next.sequence,
      "what was written to a head mark is not read from it",
    );
  },
  bytesMax: (bytes) => 64 * bytes + 65_536,
};

/** A small history on arrays: its batches in one segment, its graph in a snapshot. */
function history(random: Random): { segment: Buffer; snapshot: Buffer } {
  const disk = MemoryDisk.of(new Map([["/a", null]]));
  const reader = new SpineReader(AGENT);
  const [graph, places] = [new Graph(), new Places()];
  const before = { record: 0, entries: 0, head: HEAD };
  const file = createSegment(disk, "/a/s", IDS, 1, { number: 1, before }, 256);
  const batch = new BatchBuilder(AGENT, fillWith(random));
  let at = SEGMENT_START;
  let end = before;
  const apply = () => {
    const { bytes, from, to } = batch.spineBytes;
    reader.read(bytes, from, to, true);
    applyRecord(graph, places, reader, 1, at + batch.lastSpineAt, at + batch.lastAreaAt);
  };
  const inABatch = (fill: () => void) => {
    batch.begin(end);
    fill();
    const bytes = batch.finish({ segment: 1, offset: at });
    file.write(bytes, at);
    at += bytes.length;
    end = { record: batch.record, entries: batch.entries, head: batch.head };
  };
  inABatch(() => {
    for (let i = 1; i <= 4; i++) {
      batch.addLot(i, "web_page", { text: `lot ${i}`, uri: "u" }, null);
      apply();
    }
  });
  inABatch(() => {
    for (const legs of [[[1], [2]], [[3]], [[5, 6]], [[1, 7]]]) {
      const seen = { base: 0, ranges: Uint32Array.of(1, 3) };
      batch.addMemory(9, legs, { text: "memory", uri: null }, seen);
      apply();
    }
    batch.addCorroboration(10, 6, [4]);
    apply();
  });
  inABatch(() => {
    const request = { targets: Uint32Array.of(3), mode: "strict", disposal: "erase" } as const;
    batch.addRecall(11, decideRecall(graph, request, null));
    apply();
  });
  writeSnapshot(disk, "/a", IDS, {
    graph,
    places,
    generation: 1,
    position: { ...end, segment: 1, offset: at },
  });
  const image = disk.image();
  return {
    segment: image.get("/a/s") as Buffer,
    snapshot: image.get("/a/graph") as Buffer,
  };
}

export const made = history(chance(1));

/** Changes numbers of the arrays in place, so that their sizes stay right; now and then anything. */
function mutateWords(random: Random, bytes: Buffer): Buffer {
  if (random() < 0.2) return mutate(random, bytes);
  const mutated = Buffer.from(bytes);
  for (let i = below(random, 4); i >= 0; i--) {
    const at = FILE_HEADER_BYTES + 4 * below(random, (bytes.length - FILE_HEADER_BYTES) >>> 2);
    const value = pick(random, [0, 1, 2, 7, 9, 64, 255, 65535, 0x7fff_ffff, 0xffff_ffff]);
    mutated.writeUInt32LE(value, random() < 0.05 ? 48 + 4 * below(random, 15) : at);
  }
  return mutated;
}

/** Every walk that the engine makes over a graph; each is to end, within the graph. */
function walkGraph(graph: Graph) {
  const { entryCount, legCount } = graph;
  const ids = Array.from({ length: Math.min(entryCount, 64) }, (_, i) => i + 1);
  for (const id of ids) {
    graph.forEachChildLeg(id, (leg) => {
      must(leg < legCount, "a walk leaves the legs");
      const owner = graph.legOwner[leg] as number;
      must(owner >= 1 && owner <= entryCount, "a walk leaves the entries");
    });
    graph.builtOn(id);
    graph.reaches(id, new Set([entryCount]));
    for (const mode of ["fair", "strict"] as const)
      decideRecall(graph, { targets: Uint32Array.of(id), mode, disposal: "erase" }, null);
  }
  graph.depth();
  const entry = graph.addEntry(FLAGS.memory);
  graph.addLeg(entry, [1]);
  graph.settle();
}

const snapshots: Target = {
  name: "snapshot",
  share: 14,
  make(random) {
    const mutated = mutateWords(random, made.snapshot);
    return random() < MENDED ? mendFile(mutated) : mutated;
  },
  check(input) {
    const disk = MemoryDisk.of(
      new Map([
        ["/a", null],
        ["/a/graph", input],
      ]),
    );
    const { snapshot } = readSnapshot(disk, "/a", IDS);
    if (snapshot) walkGraph(snapshot.graph);
  },
  bytesMax: (bytes) => 64 * bytes + 1_048_576,
};

/** Mends every check of a segment, as far as its batches can be made out. */
function mendSegment(bytes: Buffer): Buffer {
  const mended = mendFile(bytes);
  const position = Buffer.concat([AGENT, Buffer.of(1, 0, 0, 0), Buffer.alloc(4)]);
  for (let at = SEGMENT_START; at + 100 <= mended.length; ) {
    if (mended.toString("latin1", at, at + 4) !== "BTCH") break;
    const [spineBytes, areaBytes] = [mended.readUInt32LE(at + 16), mended.readUInt32LE(at + 20)];
    const map = mended.readUInt16LE(at + 4) & 1 ? Math.ceil(mended.readUInt16LE(at + 6) / 8) : 0;
    position.writeUInt32LE(at, 20);
    repairCheck(mended, at, at + 56, crc32(position));
    const covered = at + 60 + map + spineBytes;
    for (let spine = at + 60 + map; spine < covered && spine + 16 < mended.length; ) {
      const lead = leadBytes(mended.subarray(spine, spine + 5));
      let length = 0;
      for (let i = 0; i < lead; i++) length += ((mended[spine + i] as number) & 127) * 128 ** i;
      repairCheck(mended, spine, spine + lead + length - 4, crc32(AGENT));
      spine += lead + length;
    }
    const marker = covered + areaBytes;
    if (marker + 40 > mended.length) break;
    repairCheck(mended, marker, marker + 36, crc32(mended.subarray(at, covered)));
    at = marker + 40;
  }
  return mended;
}

const segments: Target = {
  name: "segment",
  share: 10,
  make(random) {
    const mutated = mutate(random, made.segment, [made.segment]);
    return random() < MENDED ? mendSegment(mutated) : mutated;
  },
  check(input) {
    const disk = MemoryDisk.of(
      new Map([
        ["/a", null],
        ["/a/s", input],
      ]),
    );
    disk.callsLeft = 10_000;
    const file = disk.open("/a/s");
    const header = refusable(() => decodeFileHeader(input, "segment", "it"));
    if (!header) return;
    const window = new FileWindow(file);
    const reader = new SpineReader(AGENT);
    const [graph, places] = [new Graph(), new Places()];
    let end = { record: header.record, entries: header.entries, head: header.hash };
    for (let at = SEGMENT_START; ; ) {
      const found = refusable(() => findAt(window, AGENT, 1, at));
      if (found?.what !== "batch") {
        lastWritten(window, at);
        if (found?.what === "broken") refusable(() => somethingFollows(window, AGENT, 1, found));
        refusable(() => nextHeader(window, AGENT, 1, at));
        return;
      }
      const texts = new FileWindow(file);
      refusable(() => textsCheck(texts, findAt(texts, AGENT, 1, at), reader));
      const next = refusable(() =>
        readSpines(found, end, reader, (spineAt, areaAt) =>
          applyRecord(graph, places, reader, 1, spineAt, areaAt),
        ),
      );
      if (!next) return;
      walkGraph(graph);
      must(found.end > at, "a batch takes no room");
      end = next;
      at = found.end;
    }
  },
  bytesMax: (bytes) => 1024 * bytes + 8_388_608,
};

export const decoders: Target[] = [
  spines,
  headers,
  batchParts,
  areas,
  headMarks,
  snapshots,
  segments,
];
