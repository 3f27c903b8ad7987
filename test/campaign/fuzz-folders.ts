// Fuzzing whole stores: the work of a forger who can write every file, and mends every checksum and hash that can be mended.
//
// A store so forged is opened for reading and for writing, and everything is asked of it. What is forged well is served, as
// nobody could tell; but against a head that was kept elsewhere, nothing else passes than the history that it is the head of.

import { crc32 } from "node:zlib";
import { commitment, genesis, headOf, link } from "../../src/chain.ts";
import {
  areaContentEnd,
  encodeFileHeader,
  encodeSeal,
  SpineReader,
  SpineWriter,
  writeBatchHeader,
  writeCommitMarker,
} from "../../src/codec.ts";
import { firstHeadMark } from "../../src/headmark.ts";
import { type Agent, Store } from "../../src/index.ts";
import { FileWindow, findAt, SEGMENT_START } from "../../src/segment.ts";
import { type Image, MemoryDisk } from "../memorydisk.ts";
import { mendFile, mendSpine } from "./fuzz-bytes.ts";
import { collected, FOLDER, fixed, type Kitchen, kitchen } from "./kitchen.ts";
import { below, mutate, pick, type Random, randomBytes } from "./mutate.ts";
import { must, refusable, refusableLater, type Target } from "./target.ts";

/** More than any sane work on so small a store makes. */
const CALLS_MAX = 200_000;

// ----- images as bytes -----

function toBytes(image: Image): Buffer {
  const files = [...image].map(([path, bytes]) => [path, bytes?.toString("base64") ?? null]);
  return Buffer.from(JSON.stringify(files));
}

function toImage(input: Buffer): Image {
  const files = JSON.parse(input.toString("utf8")) as [string, string | null][];
  return new Map(
    files.map(([path, text]) => [path, text === null ? null : Buffer.from(text, "base64")]),
  );
}

// ----- the log, taken apart and put together -----

interface Batch {
  compacted: boolean;
  map: Buffer;
  spines: Buffer[];
  /** One by one, as far as they are in the batch. */
  areas: Buffer[];
}

interface Part {
  number: number;
  batches: Batch[];
  isSealed: boolean;
}

interface Log {
  storeId: Buffer;
  agentId: Buffer;
  generation: number;
  parts: Part[];
}

const folderOf = (id: string) => `${FOLDER}/agents/${id}`;

function segmentsOf(image: Image): string[] {
  return [...image.keys()].filter((path) => path.endsWith(".seg")).sort();
}

function takeApart(image: Image): Log {
  const paths = segmentsOf(image);
  const first = image.get(paths[0] as string) as Buffer;
  const [storeId, agentId] = [first.subarray(16, 32), first.subarray(32, 48)];
  const reader = new SpineReader(agentId);
  const disk = MemoryDisk.of(image);
  const parts = paths.map((path, i): Part => {
    const window = new FileWindow(disk.open(path));
    const part: Part = { number: i + 1, batches: [], isSealed: false };
    for (let at = SEGMENT_START; ; ) {
      const found = findAt(window, agentId, i + 1, at);
      if (found.what !== "batch") {
        part.isSealed = found.what === "seal";
        return part;
      }
      const { compacted, count, areaBytes } = found.header;
      const bytes = Buffer.from(found.bytes);
      const batch: Batch = {
        compacted,
        map: bytes.subarray(60, found.spinesAt),
        spines: [],
        areas: [],
      };
      const allAreas = Buffer.from(window.view(found.areasAt, areaBytes));
      let areaAt = 0;
      for (let i = 0, spineAt = found.spinesAt; i < count; i++) {
        const next = reader.read(bytes, spineAt, bytes.length, true);
        batch.spines.push(Buffer.from(bytes.subarray(spineAt, next)));
        spineAt = next;
        const isHere = !compacted || ((batch.map[i >>> 3] as number) >>> (i & 7)) & 1;
        if (!reader.isEntry || !isHere || reader.areaBytes === 0) continue;
        batch.areas.push(allAreas.subarray(areaAt, areaAt + reader.areaBytes));
        areaAt += reader.areaBytes;
      }
      part.batches.push(batch);
      at = found.end;
    }
  });
  return { storeId, agentId, generation: first.readUInt32LE(48), parts };
}

/** What the forger leaves as it was, or gets wrong. */
interface Slips {
  numbers: boolean;
  chain: boolean;
  sizes: boolean;
  checks: boolean;
}

/** Writes the log again, with all that follows from its spines; returns its head. */
function putTogether(log: Log, image: Image, slips: Slips): { record: number; head: string } {
  const { storeId, agentId, generation, parts } = log;
  const ids = { storeId, agentId };
  const reader = new SpineReader(agentId);
  let record = 0;
  let entries = 0;
  let head = genesis(storeId, agentId);
  const old = segmentsOf(image);
  const folder = (old[0] as string).replace(/\/[^/]+$/, "");
  for (const path of old) image.delete(path);
  for (const { number, batches, isSealed } of parts) {
    const place = { agentId, segment: number };
    const fields = { number, generation, record, entries, hash: head };
    const out = [encodeFileHeader({ kind: "segment", ...ids, ...fields })];
    let offset = SEGMENT_START;
    for (const { compacted, map, spines, areas } of batches) {
      const before = { record, entries, head };
      const written = spines.map((spine) => {
        let mended = spine;
        record++;
        const at = (spine[0] ?? 0) > 127 ? 10 : 9;
        if (!slips.numbers && spine.length > at + 4) {
          mended = Buffer.from(spine);
          mended.writeUInt32LE(record, at);
          // The number of an entry takes one byte: there are few.
          const kind = mended[at - 8] as number;
          if ((kind === 1 || kind === 2) && (mended[at + 4] as number) < 128)
            mended[at + 4] = entries + 1;
        }
        if (!slips.checks) mended = mendSpine(mended, agentId);
        const isRead = refusable(() => reader.read(mended, 0, mended.length, true)) !== null;
        if (isRead && reader.isEntry) entries++;
        if (!slips.chain) head = link(head, mended, 0, mended.length);
        return mended;
      });
      const header = {
        compacted,
        count: Math.max(1, Math.min(spines.length, 4096)),
        firstRecord: before.record + 1,
        entriesBefore: before.entries,
        spineBytes: Buffer.concat(written).length + (slips.sizes ? 1 : 0),
        areaBytes: Buffer.concat(areas).length,
        headBefore: before.head,
      };
      const covered = Buffer.concat([Buffer.alloc(60), map, ...written]);
      writeBatchHeader(covered, 0, header, { ...place, offset });
      const marker = Buffer.alloc(40);
      writeCommitMarker(marker, 0, crc32(covered), head);
      out.push(covered, ...areas, marker);
      offset += covered.length + header.areaBytes + 40;
    }
    if (isSealed) out.push(encodeSeal(record, entries, head, { ...place, offset }));
    else out.push(Buffer.alloc(256));
    image.set(`${folder}/${String(number).padStart(8, "0")}.seg`, Buffer.concat(out));
  }
  return { record, head };
}

// ----- forging -----

/** A commitment that the forger works out for a text of his own. */
function recommit(spine: Buffer, area: Buffer, agentId: Buffer): Buffer {
  const end = areaContentEnd(area, 0, area.length);
  const reader = new SpineReader(agentId);
  if (end === -1 || refusable(() => reader.read(spine, 0, spine.length, true)) === null)
    return spine;
  if (!reader.isEntry) return spine;
  const mended = Buffer.from(spine);
  mended.write(commitment(area, 0, end), reader.commitmentAt, 32, "latin1");
  return mended;
}

const idsOf = (random: Random, max: number): Uint32Array<ArrayBuffer> => {
  const ids = new Set(Array.from({ length: below(random, 5) }, () => 1 + below(random, max)));
  return Uint32Array.from(ids).sort();
};

/** A record of right form that says what no agent would have written: rings, legs on the dead, recalls with any outcome. */
function lie(random: Random, entries: number, writer: SpineWriter) {
  const ids = () => idsOf(random, entries);
  const lead = { time: below(random, 2 ** 31) * pick(random, [1, 131_071]), record: 1 };
  switch (below(random, 3)) {
    case 0:
      return writer.corroborate({ ...lead, memory: 1 + below(random, entries), leg: ids() });
    case 1:
      return writer.recall(lead.time, lead.record, {
        mode: pick(random, ["fair", "strict", "contact"] as const),
        disposal: pick(random, ["untrusted", "erase"] as const),
        targets: ids(),
        removed: ids(),
        alsoErased: ids(),
        contactBelow: ids(),
        explained: ids(),
      });
    default:
      return writer.drop({ ...lead, dropped: ids() });
  }
}

/** An entry that says other legs, another seen set or another size, in the right form. */
function lieOfEntry(random: Random, spine: Buffer, writer: SpineWriter, reader: SpineReader) {
  if (refusable(() => reader.read(spine, 0, spine.length, true)) === null || !reader.isEntry)
    return;
  const { time, record, entry, areaBytes } = reader;
  const seen =
    random() < 0.5
      ? reader.seen()
      : { base: below(random, entry + 1), ranges: Uint32Array.of(1, 1 + below(random, 40)) };
  const fields = {
    time,
    record,
    entry,
    commitment: reader.commitment(),
    areaBytes: random() < 0.9 ? areaBytes : pick(random, [0, 32, 96, 2_097_120, 2_097_152]),
    seen,
    bornDead: random() < 0.2,
  };
  if (reader.kind === 1 && random() < 0.8)
    return writer.lot({ ...fields, label: reader.label() || "x" });
  const legs = Array.from({ length: below(random, 4) }, () =>
    idsOf(random, Math.max(1, entry - 1)),
  );
  return writer.memory({ ...fields, legs });
}

function written(agentId: Buffer, write: (writer: SpineWriter) => void): Buffer | null {
  const writer = new SpineWriter(agentId);
  write(writer);
  return writer.end === 0 ? null : Buffer.from(writer.buffer.subarray(writer.start, writer.end));
}

const isEntry = (spine: Buffer) => [1, 2].includes(spine[(spine[0] ?? 0) > 127 ? 2 : 1] ?? 0);

/** How many entries stand before a record, at least 1. */
function entriesBefore(all: Batch[], batch: Batch, at: number): number {
  const before = all.slice(0, all.indexOf(batch)).flatMap(({ spines }) => spines);
  return Math.max(1, [...before, ...batch.spines.slice(0, at)].filter(isEntry).length);
}

/** One change of the log. */
function forgeLog(random: Random, log: Log) {
  const part = pick(random, log.parts);
  const batch = part.batches[below(random, part.batches.length)];
  if (!batch) return;
  const all = log.parts.flatMap(({ batches }) => batches);
  const at = below(random, batch.spines.length + 1);
  const spine = batch.spines[at];
  const reader = new SpineReader(log.agentId);
  const entries = entriesBefore(all, batch, at);
  switch (below(random, 14)) {
    case 9:
    case 10:
    case 11: {
      const lied = written(log.agentId, (writer) => lie(random, entries, writer));
      if (lied) batch.spines.splice(at, 0, lied);
      break;
    }
    case 12:
    case 13: {
      const lied =
        spine && written(log.agentId, (writer) => lieOfEntry(random, spine, writer, reader));
      if (lied) batch.spines[at] = lied;
      break;
    }
    case 0:
    case 1:
    case 2: {
      const others = all.flatMap(({ spines }) => spines);
      if (spine) batch.spines[at] = mutate(random, spine, others);
      break;
    }
    case 3: {
      const i = below(random, batch.areas.length);
      const area = batch.areas[i];
      if (area) batch.areas[i] = mutate(random, area);
      break;
    }
    case 4: {
      const i = below(random, batch.areas.length);
      const area = batch.areas[i];
      if (!area || area.length < 64 || !spine) break;
      const changed = Buffer.from(area);
      changed[38] = 65 + below(random, 26);
      batch.areas[i] = changed;
      for (const [s, one] of batch.spines.entries())
        batch.spines[s] = s === at ? recommit(one, changed, log.agentId) : one;
      break;
    }
    case 5:
      if (spine) batch.spines.splice(at, 1);
      break;
    case 6:
      batch.spines.splice(at, 0, pick(random, pick(random, all).spines) ?? Buffer.alloc(0));
      break;
    case 7:
      if (random() < 0.5) part.batches.splice(below(random, part.batches.length), 1);
      else part.batches.splice(below(random, part.batches.length), 0, pick(random, all));
      break;
    default: {
      const kind = below(random, 4);
      if (kind === 0) batch.compacted = !batch.compacted;
      if (kind === 1) batch.map = mutate(random, batch.map);
      if (kind === 2) part.isSealed = !part.isSealed;
      if (kind === 3) log.generation = pick(random, [0, 1, 2, 3, 0xffff_fffe, 0xffff_ffff]);
    }
  }
}

function forge(random: Random, { image, id }: Kitchen): Image {
  const forged: Image = new Map(image);
  const log = takeApart(forged);
  const { storeId, agentId } = log;
  for (let i = below(random, 3); i >= 0; i--) forgeLog(random, log);
  const slip = () => random() < 0.04;
  const slips = { numbers: slip(), chain: slip(), sizes: slip(), checks: slip() };
  const generation = [...image.keys()].find((path) => /\/log\/\d+$/.test(path)) as string;
  const { record, head } = putTogether(log, forged, slips);
  const renamed = generation.replace(/\d+$/, String(log.generation));
  for (const [path, bytes] of [...forged]) {
    if (path !== generation && !path.startsWith(`${generation}/`)) continue;
    forged.delete(path);
    forged.set(renamed + path.slice(generation.length), bytes);
  }
  const folder = folderOf(id);
  // The head mark: the true one, none, one that fits, or one that says anything.
  const mark = pick(random, [0, 1, 1, 2, 2, 2, 3]);
  const ids = { storeId, agentId };
  if (mark === 1) forged.delete(`${folder}/head`);
  if (mark === 2) {
    const slots = firstHeadMark(ids, head);
    const number = pick(random, [9, 0xffff_fffe, 0xffff_ffff]);
    const extra = pick(random, [0, record, 0xffff_ffff]);
    encodeFileHeader({ kind: "headMark", ...ids, number, record, hash: head, extra }).copy(slots);
    forged.set(`${folder}/head`, slots);
  }
  if (mark === 3) {
    const bytes = mutate(random, Buffer.from(forged.get(`${folder}/head`) as Buffer));
    for (const at of [0, 512])
      if (bytes.length >= at + 128)
        bytes.writeUInt32LE(crc32(bytes.subarray(at, at + 124)), at + 124);
    forged.set(`${folder}/head`, bytes);
  }
  const snapshot = below(random, 4);
  if (snapshot > 1) forged.delete(`${folder}/graph`);
  if (snapshot === 1) {
    const bytes = Buffer.from(forged.get(`${folder}/graph`) as Buffer);
    for (let i = below(random, 3); i >= 0; i--) {
      const at =
        random() < 0.2
          ? 48 + 4 * below(random, 15)
          : 128 + 4 * below(random, (bytes.length - 128) >>> 2);
      bytes.writeUInt32LE(
        pick(random, [0, 1, 2, 3, 5, 9, 64, 65535, 0xffff_fffe, 0xffff_ffff]),
        at,
      );
    }
    forged.set(`${folder}/graph`, mendFile(bytes));
  }
  if (random() < 0.05) {
    const path = pick(random, [`${folder}/agent`, `${FOLDER}/store`, `${FOLDER}/tokens/${id}`]);
    forged.set(path, mendFile(mutate(random, forged.get(path) as Buffer)));
  }
  if (random() < 0.05) forged.set(`${folder}/log/${pick(random, ["x", "7", "2.new", "01"])}`, null);
  if (random() < 0.05)
    forged.set(
      `${folder}/${pick(random, ["graph.tmp", "x", "head.tmp"])}`,
      randomBytes(random, 40),
    );
  return forged;
}

// ----- asking -----

const TOLD_IDS = 24;

/** Everything that can be asked of an agent; each part is given or refused. */
async function askAll(agent: Agent): Promise<Map<number, string | null>> {
  const texts = new Map<number, string | null>();
  for (let id = 1; id <= TOLD_IDS; id++) {
    await refusableLater(async () => texts.set(id, await agent.text(id)));
    await refusableLater(() => agent.show(id));
    await refusableLater(() => agent.why(id));
    await refusableLater(() => agent.sourcesOf(id, { max: 9 }));
    await refusableLater(() => agent.sourcesInView(id, { max: 9 }));
    const options = { mode: "contact", disposal: "erase" } as const;
    const plan = await refusableLater(() => agent.planRecall([id], options));
    if (plan) refusable(() => JSON.stringify(plan));
  }
  await refusableLater(() => collected(agent.entries()));
  await refusableLater(() => collected(agent.history()));
  await refusableLater(() => collected(agent.export({ deadTexts: true })));
  await refusableLater(() => agent.stats());
  return texts;
}

/** What may be asked for a single one: a case is to stay cheap. */
async function writeAll(agent: Agent) {
  await refusableLater(() => agent.addLot("x", "one more", { uri: "u", seen: [1] }));
  await refusableLater(() => agent.remember("of it", [[1], [2, 4]]));
  await refusableLater(() => agent.corroborate(4, [1]));
  const outcome = await refusableLater(() =>
    agent.recall([2, 4], { mode: "strict", disposal: "erase" }),
  );
  if (outcome) refusable(() => JSON.stringify(outcome));
  await refusableLater(() => agent.compact());
  await refusableLater(() => agent.verify());
}

async function openedIn(image: Image, readOnly: boolean, token: string) {
  const disk = MemoryDisk.of(image);
  disk.callsLeft = CALLS_MAX;
  const store = await refusableLater(() => Store.open(FOLDER, { ...fixed(disk, 9), readOnly }));
  const agent = store && (await refusableLater(() => store.openAgent(token)));
  return { disk, store, agent };
}

async function checkStore(input: Buffer) {
  const { token, fingerprint, texts, history } = await kitchen();
  const image = toImage(input);
  const reader = await openedIn(image, true, token);
  if (reader.store) {
    await refusableLater(() => (reader.store as Store).agents());
    await refusableLater(() => (reader.store as Store).find("Pune", { absent: true }));
    await (reader.store as Store).stats();
  }
  if (reader.agent) {
    const { agent } = reader;
    const served = await askAll(agent);
    await refusableLater(() => agent.verify());
    if (await refusableLater(() => agent.verify({ expect: fingerprint }))) {
      const told = (await refusableLater(() => collected(agent.history()))) ?? [];
      must(
        history.every((line, i) => JSON.stringify(told[i]) === line),
        "a history passes as the one whose head was kept, and is another",
      );
      for (const [i, text] of texts.entries())
        must(served.get(i + 1) === text, `text ${i + 1} is another, and verify found nothing`);
    }
    await agent.close();
  }
  const before = reader.disk.image();
  must(
    [...image].every(([path, bytes]) => bytes === null || before.get(path)?.equals(bytes) === true),
    "a store opened for reading was written to",
  );
  const writer = await openedIn(image, false, token);
  if (writer.agent) {
    await writeAll(writer.agent);
    await askAll(writer.agent);
    await writer.agent.close();
    const again = await openedIn(writer.disk.image(), false, token);
    if (again.agent) await again.agent.close();
  }
  if (writer.store) await refusableLater(() => (writer.store as Store).deleteAgent("alice"));
}

/** What the forger starts from is right, and passes as such. */
export async function controlStore(): Promise<void> {
  const { image, token, fingerprint } = await kitchen();
  const copy: Image = new Map(image);
  const log = takeApart(copy);
  const slips = { numbers: false, chain: false, sizes: false, checks: false };
  const { record, head } = putTogether(log, copy, slips);
  must(headOf(record, head).fingerprint === fingerprint, "a log put together has another head");
  const { agent } = await openedIn(copy, true, token);
  if (!agent) throw new Error("a log put together does not open");
  await agent.verify({ expect: fingerprint });
  await agent.close();
  await checkStore(toBytes(copy));
}

const prepared: Kitchen = await kitchen();

export const folders: Target = {
  name: "store forged whole",
  share: 2,
  make: (random) => toBytes(forge(random, prepared)),
  check: checkStore,
};
