// The format does not move: old stores read as they always did, today's writer writes the newest version to the byte, and
// docs/format.md says what both do.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  AREA_UNIT_BYTES,
  areaBytesFor,
  BATCH_HEADER_BYTES,
  COMMIT_MARKER_BYTES,
  FILE_HEADER_BYTES,
  FORMAT_VERSION,
  LIMITS,
  SALT_BYTES,
  SEAL_BYTES,
} from "../src/codec.ts";
import { type Agent, type EntryWithText, type HistoryRecord, Store } from "../src/index.ts";
import { RESERVE_BYTES, SEGMENT_BYTES } from "../src/log.ts";
import { SEGMENT_START } from "../src/segment.ts";
import { cases, makeCase } from "./golden/make.ts";
import { collect, filesIn, tempFolder } from "./helpers.ts";

const GOLDEN = fileURLToPath(new URL("golden", import.meta.url));
const DOCS = fileURLToPath(new URL("../docs", import.meta.url));

/** What must be read from a golden store: expected.json. */
interface Expected {
  store: { id: string; created: string };
  agent: { name: string; id: string; created: string };
  token: string;
  generation: number;
  segments: number;
  head: string;
  tornBytes: number;
  /** Texts that an unfinished erase took and that still stand; and how many records' zeroing the next writer finishes. */
  textsPending: number;
  erasesFinished: number;
  headMark: { record: number; done: number };
  /** The record that the snapshot was made at. */
  snapshot: number | null;
  entries: EntryWithText[];
  history: HistoryRecord[];
}

const versions = readdirSync(GOLDEN)
  .filter((name) => /^v\d+$/.test(name))
  .sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
const goldenStores = versions.flatMap((version) =>
  readdirSync(join(GOLDEN, version)).map((name) => `${version}/${name}`),
);

function expectedOf(name: string): Expected {
  return JSON.parse(readFileSync(join(GOLDEN, name, "expected.json"), "utf8")) as Expected;
}

/** A copy of a golden store that a test may write to. */
function copyOf(name: string): string {
  const folder = join(tempFolder(), "store");
  cpSync(join(GOLDEN, name, "store"), folder, { recursive: true });
  // Git keeps no empty folder.
  for (const part of ["agents", "locks", "tokens"])
    mkdirSync(join(folder, part), { recursive: true });
  return folder;
}

const contents = (folder: string) =>
  Object.fromEntries(
    filesIn(folder).map(({ name, path }) => [name, readFileSync(path).toString("hex")]),
  );

/** Entries with what was seen, which lists leave out. */
async function entriesWhole(agent: Agent): Promise<EntryWithText[]> {
  const entries = await collect(agent.entries());
  return Promise.all(
    entries.map(async (entry) => {
      const { seen } = await agent.get(entry.id);
      return seen ? { ...entry, seen } : entry;
    }),
  );
}

async function openGolden(folder: string, { token }: Expected, options: { readOnly: boolean }) {
  const store = await Store.open(folder, options);
  const agent = await store.openAgent(token);
  onTestFinished(() => agent.close());
  return { store, agent };
}

describe.each(goldenStores)("golden store %s", (name) => {
  const expected = expectedOf(name);
  const { agent: info, entries, history, head } = expected;
  const records = history.length;

  test("reads as it always did, and reading changes no byte", async () => {
    const folder = copyOf(name);
    const before = contents(folder);
    const { store, agent } = await openGolden(folder, expected, { readOnly: true });

    expect(readFileSync(join(folder, "store")).toString("hex", 16, 32)).toBe(expected.store.id);
    expect(await store.agents()).toEqual([
      {
        ...info,
        lots: entries.filter(({ kind }) => kind === "lot").length,
        memories: entries.filter(({ kind }) => kind === "memory").length,
        alive: entries.filter(({ state }) => state === "alive").length,
        bytes: expect.any(Number),
      },
    ]);
    expect(store.keptToken(info.name)).toBe(expected.token);
    expect({ name: agent.name, id: agent.id, created: agent.created }).toEqual(info);
    expect(agent.opened).toEqual({
      tornBytes: expected.tornBytes,
      erasesFinished: 0,
      replayed: records - (expected.snapshot ?? 0),
      fromSnapshot: expected.snapshot !== null,
    });
    expect(await entriesWhole(agent)).toEqual(entries);
    expect(await collect(agent.history())).toEqual(history);
    expect((await agent.head()).fingerprint).toBe(head);
    for (const { id, text } of entries) expect(await agent.text(id)).toBe(text);
    expect(await agent.verify({ expect: head })).toEqual({
      ok: true,
      agent: info.name,
      id: info.id,
      records,
      segments: expected.segments,
      bytes: expect.any(Number),
      head: { record: records, hash: head.slice(head.indexOf("-") + 1), fingerprint: head },
      tornBytes: expected.tornBytes,
      erasesPending: expected.textsPending,
      headMark: "ok",
      snapshot: expected.snapshot === null ? "none" : "ok",
      expected: { fingerprint: head, recordsSince: 0 },
    });
    expect(readdirSync(join(folder, "agents", info.id, "log"))).toEqual([`${expected.generation}`]);
    expect(contents(folder)).toEqual(before);
  });

  test("opens for writing, is mended where a crash left it unfinished, and goes on", async () => {
    const folder = copyOf(name);
    const { agent } = await openGolden(folder, expected, { readOnly: false });
    expect(agent.opened).toMatchObject({
      tornBytes: expected.tornBytes,
      erasesFinished: expected.erasesFinished,
    });
    expect(await entriesWhole(agent)).toEqual(entries);
    expect(await collect(agent.history())).toEqual(history);
    expect((await agent.head()).fingerprint).toBe(head);

    const added = await agent.addLot("user_message", "written by a later cheesedb");
    expect(added).toBe(entries.length + 1);
    const report = await agent.verify({ expect: head });
    expect(report).toMatchObject({
      records: records + 1,
      tornBytes: 0,
      erasesPending: 0,
      expected: { fingerprint: head, recordsSince: 1 },
    });
    await agent.close();

    const again = await openGolden(folder, expected, { readOnly: true });
    expect(again.agent.opened).toMatchObject({ tornBytes: 0, erasesFinished: 0 });
    const now = await entriesWhole(again.agent);
    expect(now.slice(0, -1)).toEqual(entries);
    expect(now.at(-1)).toMatchObject({ id: added, text: "written by a later cheesedb" });
  });

  test("the head mark says what it must", () => {
    const { record, done } = expected.headMark;
    const bytes = readFileSync(join(GOLDEN, name, "store", "agents", info.id, "head"));
    const slots = [0, 512].map((at) => ({
      sequence: bytes.readUInt32LE(at + 12),
      record: bytes.readUInt32LE(at + 52),
      done: bytes.readUInt32LE(at + 60),
    }));
    const [newest, older] = slots.sort((a, b) => b.sequence - a.sequence);
    expect(newest).toMatchObject({ record, done });
    expect(newest?.sequence).toBe((older?.sequence ?? 0) + 1);
  });
});

describe("today's writer", () => {
  const newest = versions.at(-1) as string;

  test("every case has its golden store, and every golden store its case", () => {
    expect(readdirSync(join(GOLDEN, newest))).toEqual(cases.map(({ name }) => name).sort());
  });

  test.each(cases)("writes $name of the newest version to the byte", async (golden) => {
    const folder = join(tempFolder(), "store");
    await makeCase(golden, folder);
    expect(contents(folder)).toEqual(contents(join(GOLDEN, newest, golden.name, "store")));
  });

  test("what crashes left in golden stores is mended: a torn batch is cut, an unfinished erase zeroed", async () => {
    for (const [name, text, standsBefore] of [
      // The half that reached the disk holds a part of the text only, or all of it.
      ["torn", "never acknowledged", 0],
      ["torn-reordered", "never acknowledged", 1],
      ["erase-unfinished", "I live in Pune", 1],
    ] as const) {
      const golden = `${newest}/${name}`;
      const folder = copyOf(golden);
      const before = await Store.open(folder, { readOnly: true });
      expect((await before.find(text)).count, name).toBe(standsBefore);
      const { store, agent } = await openGolden(folder, expectedOf(golden), { readOnly: false });
      await agent.close();
      expect(await store.find(text, { absent: true })).toMatchObject({ count: 0, unerased: [] });
    }
  });
});

// ----- docs/format.md -----

const page = readFileSync(join(DOCS, "format.md"), "utf8");

/** The tables of a page, each with the heading that it stands under. */
function tablesOf(markdown: string): { heading: string; columns: string[]; rows: string[][] }[] {
  const tables: ReturnType<typeof tablesOf> = [];
  let heading = "";
  let inTable = false;
  for (const line of markdown.split("\n")) {
    if (/^#+ /.test(line)) heading = line.replace(/^#+ /, "");
    if (!line.startsWith("|")) {
      inTable = false;
      continue;
    }
    const cells = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    if (!inTable) tables.push({ heading, columns: cells, rows: [] });
    else if (!/^[|:\- ]+$/.test(line)) tables.at(-1)?.rows.push(cells);
    inTable = true;
  }
  return tables;
}

/** As GitHub makes them. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

describe("docs/format.md", () => {
  test("the hex dump is the golden segment, byte for byte and without a gap", () => {
    const dump = /```hexdump\n([^`]*)```/.exec(page)?.[1] ?? "";
    const { agent } = expectedOf("v1/one-batch");
    const folder = join(GOLDEN, "v1", "one-batch", "store", "agents", agent.id, "log", "1");
    const shown: Buffer[] = [];
    let offset = 0;
    for (const line of dump.trimEnd().split("\n")) {
      const parts = /^([0-9a-f]{4}) {2}((?:[0-9a-f]{2} ?){1,16}) *(?: (.*))?$/.exec(line);
      expect(parts, line).not.toBe(null);
      expect(Number.parseInt(parts?.[1] ?? "", 16), line).toBe(offset);
      const bytes = Buffer.from((parts?.[2] ?? "").replaceAll(" ", ""), "hex");
      shown.push(bytes);
      offset += bytes.length;
    }
    expect(Buffer.concat(shown).toString("hex")).toBe(
      readFileSync(join(folder, "00000001.seg")).toString("hex"),
    );
  });

  /** Where the fixed fields of each table with offsets end. */
  const sizes: Record<string, number> = {
    "File header (128 bytes)": 128,
    "Agent file": 32,
    "Erasable area": 38,
    "Batch header (60 bytes)": 60,
    "Commit marker (40 bytes)": 40,
    "Seal (48 bytes)": 48,
    "Head mark": 1024,
  };

  test("the fields of every table with offsets stand side by side and add up to the structure's size", () => {
    const tables = tablesOf(page).filter(({ columns }) => columns[0] === "offset");
    expect(tables.map(({ heading }) => heading)).toEqual(Object.keys(sizes));
    for (const { heading, rows } of tables) {
      let end = 0;
      for (const [offset, size] of rows) {
        if (!/^\d+$/.test(offset ?? "")) continue;
        expect(Number(offset), `${heading}, offset ${offset}`).toBe(end);
        if (/^\d+$/.test(size ?? "")) end += Number(size);
      }
      expect(end, heading).toBe(sizes[heading]);
      const said = /\((\d+) bytes\)/.exec(heading)?.[1];
      if (said) expect(Number(said)).toBe(end);
    }
  });

  test("the snapshot's table counts as many numbers as it has", () => {
    const [counts, arrays] = tablesOf(page).filter(({ heading }) => heading === "Snapshot");
    expect(counts?.rows.map(([index]) => index)).toEqual(["0", "1", "2", "3", "4", "5 … 22"]);
    expect(arrays?.rows.map(([index]) => Number(index))).toEqual(
      Array.from({ length: 18 }, (_, i) => i + 1),
    );
    expect(arrays?.rows.filter(([, , of]) => of === "u16").length).toBe(3);
    // The golden snapshot is as long as the page says: header, 23 numbers, and the arrays that they count.
    const { agent } = expectedOf("v1/snapshot");
    const bytes = readFileSync(
      join(GOLDEN, "v1", "snapshot", "store", "agents", agent.id, "graph"),
    );
    const elements = Array.from({ length: 18 }, (_, i) => bytes.readUInt32LE(128 + 4 * (5 + i)));
    const sum = (from: number, to: number) => elements.slice(from, to).reduce((a, b) => a + b, 0);
    expect(bytes.length).toBe(128 + 4 * 23 + 4 * sum(0, 15) + 2 * sum(15, 18));
  });

  test("its sizes of areas and its limits are the code's", () => {
    const areas = tablesOf(page).find(({ columns }) => columns[0] === "*c*");
    const numbers = (cells: string[] = []) =>
      cells.slice(1).map((cell) => Number(cell.replaceAll(",", "")));
    const contents = numbers(areas?.columns);
    expect(contents.length).toBe(8);
    expect(numbers(areas?.rows[0])).toEqual(contents.map((size) => areaBytesFor(size - 38, -1)));

    const limits = tablesOf(page).find(({ columns }) => columns[1] === "limit");
    expect(
      limits?.rows.map(([, limit]) => Number.parseInt((limit ?? "").replaceAll(",", ""), 10)),
    ).toEqual([
      LIMITS.textBytes,
      LIMITS.uriBytes,
      LIMITS.labelBytes,
      LIMITS.nameCodePoints,
      LIMITS.legs,
      LIMITS.parentsOfALeg,
      LIMITS.seenRanges,
      LIMITS.batchRecords,
      LIMITS.count,
      2 ** 32 - 1,
    ]);
  });

  test("its other sizes are the code's", () => {
    const said = (words: RegExp) => {
      const match = words.exec(page);
      expect(match, words.source).not.toBe(null);
      return match?.slice(1).map(Number);
    };
    expect(said(/This is format version (\d+)\./)).toEqual([FORMAT_VERSION]);
    expect(said(/## File header \((\d+) bytes\)/)).toEqual([FILE_HEADER_BYTES]);
    expect(said(/## Batch header \((\d+) bytes\)/)).toEqual([BATCH_HEADER_BYTES]);
    expect(said(/## Commit marker \((\d+) bytes\)/)).toEqual([COMMIT_MARKER_BYTES]);
    expect(said(/## Seal \((\d+) bytes\)/)).toEqual([SEAL_BYTES]);
    expect(said(/batches one behind the other from offset (\d+)/)).toEqual([SEGMENT_START]);
    expect(said(/\| +0 \| +(\d+) \| salt /)).toEqual([SALT_BYTES]);
    expect(said(/size of the area ÷ (\d+);/)).toEqual([AREA_UNIT_BYTES]);
    expect(said(/seals one when it has grown to (\d+) MiB/)).toEqual([SEGMENT_BYTES / 1024 ** 2]);
    expect(said(/keeps at least (\d+) KiB of zeros ahead/)).toEqual([RESERVE_BYTES / 1024]);
    expect(said(/A batch is closed when it .* has grown to (\d+) MiB/)).toEqual([
      LIMITS.batchBytes / 1024 ** 2,
    ]);
  });

  test("it names every golden store", () => {
    const named = tablesOf(page)
      .find(({ heading }) => heading === "Golden stores")
      ?.rows.flatMap(([names]) => names?.split(", "));
    expect(named?.sort()).toEqual(readdirSync(join(GOLDEN, "v1")).sort());
  });
});

test("every link in docs leads to a file or a heading that is there", () => {
  for (const { name, path } of filesIn(DOCS).filter(({ name }) => name.endsWith(".md"))) {
    const markdown = readFileSync(path, "utf8");
    for (const [, target = ""] of markdown.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const linked = file === "" ? path : join(dirname(path), file);
      expect(existsSync(linked), `${name} links to ${target}`).toBe(true);
      if (anchor === undefined) continue;
      const headings = readFileSync(linked, "utf8").match(/^#+ .*$/gm) ?? [];
      const anchors = headings.map((heading) => anchorOf(heading.replace(/^#+ /, "")));
      expect(anchors, `${name} links to ${target}`).toContain(anchor);
    }
  }
});
