// A record is carried out in one place, and there alone it is noticed when one names what cannot be, whatever else of it checks.

import { beforeEach, describe, expect, test } from "vitest";
import { applyRecord } from "../src/apply.ts";
import { NO_IDS } from "../src/arrays.ts";
import { type RecallSpine, SpineReader, SpineWriter } from "../src/codec.ts";
import { hasCode } from "../src/errors.ts";
import { Graph } from "../src/graph.ts";
import { ACT, Places } from "../src/places.ts";

const AGENT_ID = Buffer.alloc(16, 7);
const ENTRY = { time: 1, commitment: "c".repeat(32), areaBytes: 64, seen: null };
const NO_RECALL: RecallSpine = {
  targets: NO_IDS,
  mode: "fair",
  disposal: "untrusted",
  removed: NO_IDS,
  alsoErased: NO_IDS,
  contactBelow: NO_IDS,
  explained: NO_IDS,
};
const ids = (...list: number[]) => Uint32Array.from(list);

let graph: Graph;
let places: Places;
let record: number;

/** What becomes of the record that a writer is told to make. */
function applied(make: (writer: SpineWriter, record: number, entry: number) => void) {
  const writer = new SpineWriter(AGENT_ID);
  make(writer, ++record, graph.entryCount + 1);
  const reader = new SpineReader(AGENT_ID);
  reader.read(writer.buffer, writer.start, writer.end, false);
  try {
    applyRecord(graph, places, reader, 1, 128, 0);
    return "done";
  } catch (error) {
    if (hasCode(error, "CORRUPT")) return "CORRUPT";
    throw error;
  }
}

const lot = () =>
  applied((writer, record, entry) =>
    writer.lot({ ...ENTRY, record, entry, label: "x", seen: null }),
  );
const memory = (...legs: number[][]) =>
  applied((writer, record, entry) => writer.memory({ ...ENTRY, record, entry, legs }));

beforeEach(() => {
  graph = new Graph();
  places = new Places();
  record = 0;
  for (let i = 0; i < 3; i++) expect(lot()).toBe("done");
});

describe("of three entries, a record that names the third is carried out, and one that names the fourth is damage", () => {
  test.each<[string, (id: number) => string]>([
    ["a memory, as its only parent", (id) => memory([id])],
    ["a memory, as the last parent of its first leg", (id) => memory([1, id], [2])],
    ["a memory, in its last leg", (id) => memory([1], [2], [id])],
    [
      "an entry, as what its seen set counts on from",
      (id) =>
        applied((writer, record, entry) =>
          writer.lot({
            ...ENTRY,
            record,
            entry,
            label: "x",
            seen: { base: id, ranges: ids(1, 1) },
          }),
        ),
    ],
    [
      "a corroboration, as a parent",
      (id) =>
        applied((writer, record) =>
          writer.corroborate({ time: 1, record, memory: 1, leg: [2, id] }),
        ),
    ],
    [
      "a corroboration, as its memory",
      (id) =>
        applied((writer, record) => writer.corroborate({ time: 1, record, memory: id, leg: [1] })),
    ],
    ...(["targets", "removed", "alsoErased", "contactBelow", "explained"] as const).map(
      (list): [string, (id: number) => string] => [
        `a recall, among ${list}`,
        (id) =>
          applied((writer, record) =>
            writer.recall(1, record, { ...NO_RECALL, targets: ids(1), [list]: ids(2, id) }),
          ),
      ],
    ),
    [
      "a drop",
      (id) => applied((writer, record) => writer.drop({ time: 1, record, dropped: ids(1, id) })),
    ],
  ])("%s", (_what, name) => {
    expect(name(4)).toBe("CORRUPT");
    expect(name(3)).toBe("done");
  });

  test("entry 0, which no list can name, is damage as the memory of a corroboration", () => {
    expect(
      applied((writer, record) => writer.corroborate({ time: 1, record, memory: 0, leg: [1] })),
    ).toBe("CORRUPT");
  });
});

describe("whether a recall takes texts is known to the places", () => {
  test.each([
    ["of nothing's text", {}, 0],
    ["of what dies", { disposal: "erase" as const }, ACT.erases],
    ["below a target erased before", { alsoErased: ids(2) }, ACT.erases],
  ])("%s", (_what, how, flags) => {
    applied((writer, record) =>
      writer.recall(1, record, { ...NO_RECALL, targets: ids(1), ...how }),
    );
    expect([...places.actFlags.view()]).toEqual([flags]);
    expect(places.lastErase).toBe(flags === 0 ? 0 : 4);
  });
});
