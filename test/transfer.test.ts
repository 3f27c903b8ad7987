// Export and import: what a line says, that an import is what was exported, whichever way the bytes come, that an export
// of it is the same again, and that one wrong line refuses the whole, with its number, and writes nothing.

import { describe, expect, onTestFinished, test } from "vitest";
import type { Agent, Store } from "../src/index.ts";
import { allBytes, codeOf, collect, tempAgent } from "./helpers.ts";

type Line = Record<string, unknown>;

const HEADER = { kind: "cheesedb", version: 1 };
const TIME = "2026-01-02T03:04:05.678Z";
const NOW = () => Date.UTC(2026, 0, 2, 3, 4, 5, 678);

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

async function exported(agent: Agent, options = {}): Promise<string> {
  return (await collect(agent.export(options))).join("");
}

function parsed(text: string): Line[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

const toText = (lines: (Line | string)[]) =>
  lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");

const lot = (id: unknown, more: Line = {}): Line => ({
  kind: "lot",
  time: TIME,
  id,
  label: "web_page",
  text: `lot ${id}`,
  uri: null,
  ...more,
});
const memory = (id: unknown, legs: unknown, more: Line = {}): Line => ({
  kind: "memory",
  time: TIME,
  id,
  legs,
  text: `memory ${id}`,
  ...more,
});
const corroborate = (memory: unknown, leg: unknown): Line => ({
  kind: "corroborate",
  time: TIME,
  memory,
  leg,
});
const recall = (targets: unknown, more: Line = {}): Line => ({
  kind: "recall",
  time: TIME,
  targets,
  mode: "fair",
  disposal: "untrusted",
  ...more,
});

/** Another agent of the same store, with nothing in it. */
async function another(store: Store, name = "bob"): Promise<Agent> {
  const agent = await store.openAgent((await store.createAgent(name)).token);
  onTestFinished(() => agent.close());
  return agent;
}

/** All that is known of the entries, but for what a text that did not come along makes different. */
async function entriesOf(agent: Agent) {
  return (await collect(agent.entries())).map(({ erased: _erased, ...entry }) => entry);
}

/** A history in which everything happens: legs, corroborations, seen sets and additions, every kind of recall, a drop. */
async function tempFull(): Promise<{ store: Store; agent: Agent }> {
  const { store, agent } = await tempAgent({ now: NOW });
  for (const i of upTo(5))
    await agent.addLot(`label_${i}`, `lot ${i}`, i === 2 ? { uri: "https://example.com/2" } : {});
  await agent.remember("memory 6", [[1], [2, 3]], { seen: [1, 2, 4] });
  await agent.remember("memory 7", [[6]]);
  const session = agent.session();
  session.see([4, 6]);
  await session.remember("memory 8", [[5]]);
  session.see([1]);
  await session.addLot("label_9", "lot 9");
  await agent.corroborate(7, [5]);
  await agent.remember("memory 10", [[7], [9]]);
  await agent.recall([1], { mode: "fair" });
  await agent.addLot("label_11", "lot 11", { seen: [10] });
  await agent.compact();
  await agent.recall([2], { mode: "strict", disposal: "erase" });
  await agent.addLot("label_12", "lot 12");
  await agent.recall([4], { mode: "contact" });
  await agent.remember("memory 13", [[12], [5, 12]]);
  await agent.recall([5], { mode: "fair", disposal: "erase" });
  return { store, agent };
}

describe("an export", () => {
  test("begins with a header, and says every record in a line, in order", async () => {
    const { agent } = await tempFull();
    const { fingerprint } = await agent.head();
    const text = await exported(agent);
    expect(text.endsWith("}\n")).toBe(true);
    const dead = { text: null, uri: null };
    const time = TIME;
    expect(parsed(text)).toEqual([
      { kind: "cheesedb", version: 1, agent: "alice", id: agent.id, head: fingerprint },
      { record: 1, kind: "lot", time, id: 1, label: "label_1", ...dead, state: "recalled" },
      { record: 2, kind: "lot", time, id: 2, label: "label_2", ...dead, state: "recalled" },
      {
        record: 3,
        kind: "lot",
        time,
        id: 3,
        label: "label_3",
        text: "lot 3",
        uri: null,
        state: "alive",
      },
      { record: 4, kind: "lot", time, id: 4, label: "label_4", ...dead, state: "recalled" },
      { record: 5, kind: "lot", time, id: 5, label: "label_5", ...dead, state: "recalled" },
      {
        record: 6,
        kind: "memory",
        time,
        id: 6,
        legs: [[1], [2, 3]],
        text: null,
        seen: [1, 2, 4],
        state: "removed",
      },
      { record: 7, kind: "memory", time, id: 7, legs: [[6]], text: null, state: "removed" },
      {
        record: 8,
        kind: "memory",
        time,
        id: 8,
        legs: [[5]],
        text: null,
        seen: [4, 6],
        state: "removed",
      },
      {
        record: 9,
        kind: "lot",
        time,
        id: 9,
        label: "label_9",
        ...dead,
        seen: [1, 8],
        seenWith: 8,
        state: "removed",
      },
      { record: 10, kind: "corroborate", time, memory: 7, leg: [5] },
      { record: 11, kind: "memory", time, id: 10, legs: [[7], [9]], text: null, state: "removed" },
      {
        record: 12,
        kind: "recall",
        time,
        targets: [1],
        mode: "fair",
        disposal: "untrusted",
        removed: [],
        erased: [],
      },
      {
        record: 13,
        kind: "lot",
        time,
        id: 11,
        label: "label_11",
        ...dead,
        seen: [10],
        state: "removed",
      },
      { record: 14, kind: "drop", time, erased: [1] },
      {
        record: 15,
        kind: "recall",
        time,
        targets: [2],
        mode: "strict",
        disposal: "erase",
        removed: [6, 7, 10],
        erased: [2, 6, 7, 10],
      },
      {
        record: 16,
        kind: "lot",
        time,
        id: 12,
        label: "label_12",
        text: "lot 12",
        uri: null,
        state: "alive",
      },
      {
        record: 17,
        kind: "recall",
        time,
        targets: [4],
        mode: "contact",
        disposal: "untrusted",
        // 8 and 9 saw 4; 11 saw 10, which saw nothing but stands on what saw 4.
        removed: [8, 9, 11],
        erased: [],
      },
      {
        record: 18,
        kind: "memory",
        time,
        id: 13,
        legs: [[12], [5, 12]],
        text: "memory 13",
        state: "alive",
      },
      {
        record: 19,
        kind: "recall",
        time,
        targets: [5],
        mode: "fair",
        disposal: "erase",
        removed: [],
        erased: [5, 8],
      },
    ]);
  });

  test("gives the texts of the dead where asked to, and no text that is erased", async () => {
    const { agent } = await tempFull();
    const textsIn = async (options = {}) =>
      parsed(await exported(agent, options))
        .filter(({ id, kind }) => id !== undefined && kind !== "cheesedb")
        .map(({ id, text }) => text !== null && id)
        .filter((id) => id !== false);
    expect(await textsIn()).toEqual([3, 12, 13]);
    // 1 was dropped by the compaction; 2, 5, 6, 7, 8 and 10 were erased.
    expect(await textsIn({ deadTexts: true })).toEqual([3, 4, 9, 11, 12, 13]);
  });

  test("keeps every byte of a text, a label and a uri", async () => {
    const { store, agent } = await tempAgent();
    const odd = 'a\0\r\n\u2028"\\\ufeff🧀\u001b[31m\ufffe';
    await agent.addLot(odd.slice(0, 20), odd, { uri: odd });
    await agent.addLot("x", "", { uri: "" });
    await agent.remember(odd, [[1]]);
    const bob = await another(store);
    await bob.import(await exported(agent));
    expect(await entriesOf(bob)).toEqual(await entriesOf(agent));
  });

  test("of an agent without records is a header, and may be imported", async () => {
    const { store, agent } = await tempAgent();
    const text = await exported(agent);
    expect(parsed(text).length).toBe(1);
    const bob = await another(store);
    expect(await bob.import(text)).toEqual({ lots: 0, memories: 0, recalls: 0, ids: [] });
    expect((await bob.head()).record).toBe(0);
  });

  test("heeds a signal, and tells how far it is", async () => {
    const { agent } = await tempAgent();
    await agent.addLots(upTo(50).map((i) => ({ label: "x", text: `${i}` })));
    const reason = new Error("enough");
    const stopped = collect(agent.export({ signal: AbortSignal.abort(reason) }));
    await expect(stopped).rejects.toBe(reason);
    const progress: [number, number][] = [];
    await collect(agent.export({ onProgress: (done, all) => progress.push([done, all]) }));
    expect(progress).toEqual(upTo(50).map((i) => [i, 50]));
  });
});

describe("an import", () => {
  test.each([false, true])(
    "is what was exported, to the last state, with texts of the dead: %s",
    async (deadTexts) => {
      const { store, agent } = await tempFull();
      const bob = await another(store);
      const report = await bob.import(await exported(agent, { deadTexts }));
      expect(report).toEqual({
        lots: 8,
        memories: 5,
        recalls: 4,
        ids: upTo(13).map((id) => [id, id]),
      });
      const expected = (await entriesOf(agent)).map((entry) =>
        entry.state === "alive" || deadTexts ? entry : { ...entry, text: null, uri: null },
      );
      expect(await entriesOf(bob)).toEqual(expected);
      expect((await bob.verify()).ok).toBe(true);
      for (const id of upTo(13)) {
        const [theirs, ours] = [await agent.why(id), await bob.why(id)];
        if ("support" in theirs) {
          expect("support" in ours && ours.support.map(({ id }) => id)).toEqual(
            theirs.support.map(({ id }) => id),
          );
        } else {
          const { targets, path } = theirs.killedBy ?? {};
          expect(ours).toMatchObject({ killedBy: { targets, path } });
        }
      }
      // The chain is new: the head of one is none of the other's.
      const { fingerprint } = await agent.head();
      expect(await codeOf(() => bob.verify({ expect: fingerprint }))).toBe("HEAD_MISMATCH");
    },
  );

  test("goes on as the original would: the same recalls do the same, and the same writes are refused", async () => {
    const { store, agent } = await tempFull();
    const bob = await another(store);
    await bob.import(await exported(agent));
    for (const each of [agent, bob]) {
      expect(await codeOf(() => each.addLot("x", "x", { seen: [9] }))).toBe("RECALLED_CONTEXT");
      expect(await codeOf(() => each.addLot("x", "x", { seen: [5] }))).toBe(null);
      expect(await codeOf(() => each.remember("x", [[6]]))).toBe("DEAD_PARENT");
      expect(await codeOf(() => each.corroborate(10, [12]))).toBe("DEAD_ENTRY");
      // Raised no further than it was: to nothing.
      expect((await each.recall([4], { mode: "strict" })).record).toBe(null);
      expect((await each.recall([2], { disposal: "erase" })).record).toBe(null);
      expect(await each.recall([12])).toMatchObject({ removed: [13], erased: [13] });
    }
    expect((await bob.verify()).ok).toBe(true);
  });

  test("exported again is the same but for what must differ; and from there on the same to the letter", async () => {
    const { store, agent } = await tempFull();
    const [bob, carol] = [await another(store), await another(store, "carol")];
    const first = parsed(await exported(agent));
    await bob.import(toText(first));
    const second = parsed(await exported(bob));
    // A drop leaves no record, so that numbers move; what came without its text says so, and is not erased again.
    const alike = (lines: Line[]) =>
      lines
        .filter(({ kind }) => kind !== "cheesedb" && kind !== "drop")
        .map(({ record: _record, dropped: _dropped, erased: _erased, ...line }) => line);
    expect(alike(second)).toEqual(alike(first));
    const dropped = second.filter((line) => line.dropped === true).map(({ id }) => id);
    expect(dropped).toEqual([1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
    for (const line of second.slice(1)) expect(line.bornDead).toBe(undefined);
    await carol.import(toText(second));
    expect(parsed(await exported(carol)).slice(1)).toEqual(second.slice(1));
  });

  test("never writes a text that the file says was erased, though it gives it", async () => {
    const { store, agent } = await tempAgent();
    const lines = [
      HEADER,
      lot(1, { text: "given all the same" }),
      recall([1], { disposal: "erase" }),
    ];
    await agent.import(toText(lines));
    expect(await agent.text(1)).toBe(null);
    expect(allBytes(store.path).includes("given all the same")).toBe(false);
  });

  test("into an agent that has entries: all ids are moved alike, and nothing that was there is touched", async () => {
    const { store, agent } = await tempFull();
    const bob = await another(store);
    await bob.addLot("own", "of bob");
    await bob.remember("of bob's own", [[1]]);
    await bob.recall([1]);
    const before = await entriesOf(bob);
    const report = await bob.import(await exported(agent, { deadTexts: true }));
    expect(report.ids).toEqual(upTo(13).map((id) => [id, id + 2]));
    const all = await entriesOf(bob);
    expect(all.slice(0, 2)).toEqual(before);
    const moved = (ids: number[]) => ids.map((id) => id + 2);
    expect(all.slice(2)).toEqual(
      (await entriesOf(agent)).map((entry) => ({
        ...entry,
        id: entry.id + 2,
        legs: entry.legs.map(({ parents, holds }) => ({ parents: moved(parents), holds })),
        ...(entry.seen && { seen: moved(entry.seen) }),
      })),
    );
    expect((await bob.history().next()).value).toMatchObject({ record: 1, text: "of bob" });
    expect((await bob.verify()).ok).toBe(true);
    // And once more: the same file gives the same entries again.
    expect((await bob.import(await exported(agent))).ids[0]).toEqual([1, 16]);
  });

  test("of ids with gaps numbers them anew, in their order", async () => {
    const { agent } = await tempAgent();
    const report = await agent.import(
      toText([
        HEADER,
        lot(10),
        lot(20, { seen: [10] }),
        memory(4_000_000_000, [[10, 20], [20]]),
        recall([10], { removed: [] }),
      ]),
    );
    expect(report).toEqual({
      lots: 2,
      memories: 1,
      recalls: 1,
      ids: [
        [10, 1],
        [20, 2],
        [4_000_000_000, 3],
      ],
    });
    expect(await agent.get(3)).toMatchObject({
      legs: [
        { parents: [1, 2], holds: false },
        { parents: [2], holds: true },
      ],
    });
    expect((await agent.get(2)).seen).toEqual([1]);
  });

  test("keeps the times of the file, in any zone", async () => {
    const { agent } = await tempAgent();
    const times = [
      "1970-01-01T00:00:00Z",
      "2026-01-02T05:04:05.678+02:00",
      "2026-06-01T00:00-05:30",
    ];
    await agent.import(toText([HEADER, ...times.map((time, i) => lot(i + 1, { time }))]));
    expect((await collect(agent.entries())).map(({ time }) => time)).toEqual([
      "1970-01-01T00:00:00.000Z",
      "2026-01-02T03:04:05.678Z",
      "2026-06-01T05:30:00.000Z",
    ]);
  });

  test("of many records is written batch by batch, and tells how far it is", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("x", "the source");
    await agent.rememberAll(upTo(3000).map((i) => ({ text: `${i}`, legs: [[1]] })));
    await agent.recall([2]);
    const bob = await another(store);
    const progress: [number, number][] = [];
    await bob.import(await exported(agent), {
      onProgress: (done, all) => progress.push([done, all]),
    });
    expect(progress).toEqual([
      [1024, 3002],
      [2048, 3002],
      [3002, 3002],
    ]);
    expect(await bob.text(3001)).toBe("3000");
    expect((await bob.stats()).alive).toBe(3000);
  });

  describe("that was cut short", () => {
    /** Lots 1 and 2 and memory 3, all dead at the end of the file, corroborated before; so many lots more between. */
    const lines = [
      HEADER,
      lot(1),
      lot(2),
      memory(3, [[1]]),
      memory(4, [[3], [2]]),
      corroborate(3, [2]),
      ...upTo(5000, 5).map((id) => lot(id)),
      recall([1, 2], { removed: [3, 4] }),
    ];

    async function tempCut(): Promise<{ store: Store; agent: Agent }> {
      const { store, agent } = await tempAgent();
      const controller = new AbortController();
      const reason = new Error("enough");
      const stopped = agent.import(toText(lines), {
        signal: controller.signal,
        onProgress: () => controller.abort(reason),
      });
      await expect(stopped).rejects.toBe(reason);
      expect((await agent.head()).record).toBe(1024);
      return { store, agent };
    }

    test("leaves a prefix in which nothing dead lives", async () => {
      const { agent } = await tempCut();
      expect(await agent.alive([1, 2, 3, 4, 5, 1023])).toEqual([5, 1023]);
      expect(await agent.why(3)).toMatchObject({ entry: { state: "removed" }, killedBy: null });
      expect(await codeOf(() => agent.remember("x", [[1]]))).toBe("DEAD_PARENT");
      expect((await agent.verify()).ok).toBe(true);
    });

    test("goes on: what came dead may be recalled, erased and compacted away", async () => {
      const { agent } = await tempCut();
      expect(await agent.recall([1], { mode: "strict", disposal: "erase" })).toMatchObject({
        removed: [],
        erased: [1, 3, 4],
      });
      expect((await agent.get(1)).state).toBe("recalled");
      expect((await agent.compact()).textsDropped).toBe(1);
      expect((await agent.verify()).ok).toBe(true);
    });

    test("may be exported, and imported again", async () => {
      const { store, agent } = await tempCut();
      const bob = await another(store);
      await bob.import(await exported(agent, { deadTexts: true }));
      expect(await entriesOf(bob)).toEqual(await entriesOf(agent));
      expect((await bob.verify()).ok).toBe(true);
    });
  });
});

describe("the bytes of an import may come", () => {
  const odd = "Zo\u00eb 🧀 \u2028 end";
  const lines = [HEADER, lot(1, { text: odd }), memory(2, [[1]], { text: odd }), recall([1])];
  const text = toText(lines);
  const bytes = Buffer.from(text);
  const pieces = (size: number) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      Uint8Array.from(bytes.subarray(i * size, (i + 1) * size)),
    );
  async function* later<T>(items: T[]): AsyncGenerator<T> {
    for (const item of items) {
      await null;
      yield item;
    }
  }
  const sources: Record<string, () => Parameters<Agent["import"]>[0]> = {
    "as one string": () => text,
    "as one string without its last newline": () => text.trimEnd(),
    "with CRLF": () => text.replaceAll("\n", "\r\n"),
    "as lines": () => text.trimEnd().split("\n"),
    "as lines with their newlines": () =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => `${line}\n`),
    "as lines, later": () => later(text.trimEnd().split("\n")),
    "as bytes in one piece": () => [bytes],
    "as bytes one by one": () => pieces(1),
    "as bytes in sevens, later": () => later(pieces(7)),
    "as bytes without the last newline": () => [bytes.subarray(0, -1)],
    "as bytes with CRLF": () => [Buffer.from(text.replaceAll("\n", "\r\n"))],
    "as pieces of nothing too": () => [Buffer.alloc(0), bytes, Buffer.alloc(0)],
  };
  test.each(Object.keys(sources))("%s", async (name) => {
    const { agent } = await tempAgent();
    const report = await agent.import((sources[name] as () => string)());
    expect(report).toMatchObject({ lots: 1, memories: 1, recalls: 1 });
    expect((await collect(agent.history())).map(({ kind }) => kind)).toEqual([
      "lot",
      "memory",
      "recall",
    ]);
  });

  test("as the export of another gives them, line by line", async () => {
    const { store, agent } = await tempFull();
    const bob = await another(store);
    expect((await bob.import(agent.export())).ids.length).toBe(13);
    expect((await bob.stats()).alive).toBe((await agent.stats()).alive);
  });
});

describe("one wrong line refuses the whole, with its number, and nothing is written:", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const withDeep = (line: Line, field: string) =>
    JSON.stringify({ ...line, [field]: "DEEP" }).replace('"DEEP"', deep);
  const raw = (line: Line, from: string, to: string) => JSON.stringify(line).replace(from, to);
  const huge = "t".repeat(16 * 1024 * 1024 + 1);
  /** Lines behind the header; the last is the wrong one unless another is named (the header is 1). */
  const cases: [string, (Line | string)[], number?][] = [
    ["no JSON", [lot(1), "{"]],
    ["no JSON at all", [lot(1), "hello"]],
    ["an empty line in the middle", [lot(1), "", lot(2)], 3],
    ["an array", [lot(1), "[]"]],
    ["a number", [lot(1), "7"]],
    ["null", [lot(1), "null"]],
    ["a string", [lot(1), '"lot"']],
    ["two values", [lot(1), `${JSON.stringify(lot(2))}${JSON.stringify(lot(3))}`]],
    ["a truncated last line", [lot(1), JSON.stringify(lot(2)).slice(0, -5)]],
    ["a key twice", [lot(1), raw(lot(2), '"label"', '"text":"x","label"')]],
    ["a key twice, once escaped", [lot(1), raw(lot(2), '"label"', '"te\\u0078t":"x","label"')]],
    ["deep nesting for a kind", [lot(1), withDeep(lot(2), "kind")]],
    ["deep nesting for a time", [lot(1), withDeep(lot(2), "time")]],
    ["deep nesting for an id", [lot(1), withDeep(lot(2), "id")]],
    ["deep nesting for a label", [lot(1), withDeep(lot(2), "label")]],
    ["deep nesting for a text", [lot(1), withDeep(lot(2), "text")]],
    ["deep nesting for a uri", [lot(1), withDeep(lot(2), "uri")]],
    ["deep nesting for what was seen", [lot(1), withDeep(lot(2), "seen")]],
    ["deep nesting for legs", [lot(1), withDeep(memory(2, [[1]]), "legs")]],
    ["deep nesting for a memory", [lot(1), withDeep(corroborate(2, [1]), "memory")]],
    ["deep nesting for targets", [lot(1), withDeep(recall([1]), "targets")]],
    ["deep nesting for a mode", [lot(1), withDeep(recall([1]), "mode")]],
    ["deep nesting for a disposal", [lot(1), withDeep(recall([1]), "disposal")]],
    ["an unknown kind", [lot(1), lot(2, { kind: "note" })]],
    ["no kind", [lot(1), lot(2, { kind: undefined })]],
    ["a header in the middle", [lot(1), HEADER]],
    ["no time", [lot(1, { time: undefined })]],
    ["a time without a zone", [lot(1, { time: "2026-01-02T03:04:05" })]],
    ["a time that is none", [lot(1, { time: "2026-13-02T03:04:05Z" })]],
    ["a time as a number", [lot(1, { time: 5 })]],
    ["a time before 1970", [lot(1, { time: "1969-12-31T23:59:59Z" })]],
    ["no id", [lot(undefined)]],
    ["an id of 0", [lot(0)]],
    ["a negative id", [lot(-1)]],
    ["half an id", [lot(1.5)]],
    ["an id as a string", [lot("1")]],
    ["an id of 2^32", [lot(2 ** 32)]],
    ["an id of 2^53", [lot(2 ** 53)]],
    ["a huge id", [raw(lot(7), '"id":7', '"id":1e999')]],
    ["an id with 400 digits", [raw(lot(7), '"id":7', `"id":${"9".repeat(400)}`)]],
    ["ids that do not ascend", [lot(2), lot(1)]],
    ["an id twice", [lot(1), lot(1)]],
    ["a lot and a memory of one id", [lot(1), memory(1, [[1]])]],
    ["no label", [lot(1, { label: undefined })]],
    ["an empty label", [lot(1, { label: "" })]],
    ["a label as a number", [lot(1, { label: 7 })]],
    ["a label of 65 bytes", [lot(1, { label: `${"é".repeat(32)}x` })]],
    ["a text as a number", [lot(1, { text: 7 })]],
    ["a text as an object", [lot(1, { text: {} })]],
    [
      "half a surrogate pair",
      [lot(1), '{"kind":"lot","time":"2026-01-02T03:04:05Z","id":2,"label":"x","text":"\\ud800"}'],
    ],
    ["a text over 16 MiB", [lot(1), lot(2, { text: huge })]],
    ["a uri over 8 KiB", [lot(1, { uri: "u".repeat(8193) })]],
    ["a living lot without its text", [lot(1, { text: null }), lot(2)], 2],
    ["a living memory without its text", [lot(1), memory(2, [[1]], { text: null }), lot(3)], 3],
    ["a living lot that says it was dropped", [lot(1, { text: null, dropped: true }), lot(2)], 2],
    ["no legs", [lot(1), memory(2, undefined)]],
    ["an empty list of legs", [lot(1), memory(2, [])]],
    ["an empty leg", [lot(1), memory(2, [[1], []])]],
    ["legs that are no lists", [lot(1), memory(2, [1])]],
    [
      "4,097 legs",
      [
        ...upTo(4097).map((id) => lot(id)),
        memory(
          5000,
          upTo(4097).map((id) => [id]),
        ),
      ],
    ],
    ["an unknown parent", [lot(1), memory(2, [[1], [9]])]],
    ["a parent that comes later", [lot(1), memory(2, [[3]]), lot(3)], 3],
    ["itself for a parent", [lot(1), memory(2, [[2]])]],
    ["a parent as a string", [lot(1), memory(2, [["1"]])]],
    ["a dead parent", [lot(1), lot(2), recall([1]), memory(3, [[2], [1]])]],
    ["a parent that died of a recall", [lot(1), memory(2, [[1]]), recall([1]), memory(3, [[2]])]],
    ["a corroboration of what is unknown", [lot(1), corroborate(2, [1])]],
    ["a corroboration of a lot", [lot(1), lot(2), corroborate(1, [2])]],
    [
      "a corroboration of the dead",
      [lot(1), lot(2), memory(3, [[1]]), recall([1]), corroborate(3, [2])],
    ],
    [
      "a corroboration by the dead",
      [lot(1), lot(2), memory(3, [[2]]), recall([1]), corroborate(3, [1])],
    ],
    ["an empty corroboration", [lot(1), memory(2, [[1]]), corroborate(2, [])]],
    ["a leg that is there already", [lot(1), lot(2), memory(3, [[1, 2]]), corroborate(3, [2, 1])]],
    ["a memory on itself", [lot(1), memory(2, [[1]]), corroborate(2, [2])]],
    ["a ring", [lot(1), memory(2, [[1]]), memory(3, [[2]]), corroborate(2, [3])]],
    ["a recall of nothing", [lot(1), recall([])]],
    ["a recall of what is unknown", [lot(1), recall([1, 2])]],
    ["targets that are no list", [lot(1), recall(1)]],
    ["an unknown mode", [lot(1), recall([1], { mode: "all" })]],
    ["an unknown disposal", [lot(1), recall([1], { disposal: "burn" })]],
    ["a recall that removes too little", [lot(1), memory(2, [[1]]), recall([1], { removed: [] })]],
    [
      "a recall that removes too much",
      [lot(1), lot(2), memory(3, [[1], [2]]), recall([1], { removed: [3] })],
    ],
    ["a recall that removes its target", [lot(1), recall([1], { removed: [1] })]],
    [
      "a recall that erases too little",
      [lot(1), memory(2, [[1]]), recall([1], { disposal: "erase", erased: [1] })],
    ],
    ["an untrusted recall that erases", [lot(1), recall([1], { erased: [1] })]],
    [
      "a contact recall that forgets who saw",
      [lot(1), lot(2, { seen: [1] }), recall([1], { mode: "contact", removed: [] })],
    ],
    ["a drop of a living text", [lot(1), { kind: "drop", time: TIME, erased: [1] }]],
    ["a drop of what is unknown", [lot(1), { kind: "drop", time: TIME, erased: [2] }]],
    ["seen what is unknown", [lot(1), lot(2, { seen: [3] })]],
    ["seen itself", [lot(1), lot(2, { seen: [2] })]],
    ["seen with what is unknown", [lot(1), lot(2, { seen: [1], seenWith: 2 })]],
    ["seen that is no list", [lot(1), lot(2, { seen: 1 })]],
  ];

  async function expectRefused(source: Parameters<Agent["import"]>[0], line: number) {
    const { store, agent: first, token } = await tempAgent();
    await first.addLot("own", "was there before");
    await first.close();
    const before = allBytes(store.path);
    const agent = await store.openAgent(token);
    const error = await agent.import(source).then(
      () => null,
      (error: unknown) => error,
    );
    expect(error).toMatchObject({ name: "CheeseError", code: "BAD_INPUT", line });
    expect((error as Error).message).toMatch(new RegExp(`^line ${line}: .{5,}`));
    expect(allBytes(store.path).equals(before)).toBe(true);
    // The handle is as good as before.
    expect(await agent.addLot("own", "afterwards")).toBe(2);
    await agent.close();
  }

  test.each(cases)("%s", async (_name, lines, line = lines.length + 1) => {
    await expectRefused(toText([HEADER, ...lines]), line);
  });

  test.each<[string, (Line | string)[]]>([
    ["nothing at all", []],
    ["no header", [lot(1)]],
    ["a header of another version", [{ ...HEADER, version: 2 }, lot(1)]],
    ["a header without a version", [{ kind: "cheesedb" }]],
    ["deep nesting for a version", [withDeep(HEADER, "version")]],
    ["another program's line", [{ type: "entity", name: "x" }]],
  ])("%s, in line 1", async (_name, lines) => {
    await expectRefused(toText(lines), 1);
  });

  test("bytes that are no UTF-8, in the line where they stand", async () => {
    const bytes = Buffer.from(toText([HEADER, lot(1), lot(2), lot(3)]));
    bytes[bytes.indexOf("lot 2")] = 0xff;
    await expectRefused([bytes], 3);
  });

  test("a byte order mark is no part of JSON", async () => {
    await expectRefused(`\ufeff${toText([HEADER, lot(1)])}`, 1);
  });

  test("as the last of many, after which nothing of the many is there", async () => {
    await expectRefused(toText([HEADER, ...upTo(10_000).map((id) => lot(id)), lot(1)]), 10_002);
  });

  test("the words never quote a text", async () => {
    const { agent } = await tempAgent();
    const lines = [HEADER, raw(lot(1, { text: "a private text" }), '"uri":null', '"uri":nul')];
    const error = await agent.import(toText(lines)).catch((error: unknown) => error);
    expect((error as Error).message).not.toContain("private");
  });

  test("the right forms of the same are no mistake: the control", async () => {
    const { agent } = await tempAgent();
    const lines = [
      HEADER,
      lot(1),
      lot(2, { seen: [1], uri: "u".repeat(8192), label: "é".repeat(32) }),
      memory(3, [[1], [2]]),
      lot(4, { seen: [3], seenWith: 2 }),
      corroborate(3, [4]),
      recall([1], { removed: [], erased: [] }),
      { kind: "drop", time: TIME, erased: [1] },
      recall([2], { disposal: "erase", removed: [], erased: [2] }),
      { ...lot(5), unknown: { field: [] } },
      recall([4], { mode: "contact", removed: [3] }),
    ];
    expect(await agent.import(toText(lines))).toMatchObject({ lots: 4, memories: 1, recalls: 3 });
    expect(await agent.alive(upTo(5))).toEqual([5]);
  });
});
