// Opening by itself, on a disk in memory: a log laid batch by batch, and what head mark and snapshot say of it.

import { beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../src/codec.ts";
import { writeHeadMark } from "../src/headmark.ts";
import { createSegment } from "../src/segment.ts";
import { readSnapshot, writeSnapshot } from "../src/snapshot.ts";
import { AgentState } from "../src/state.ts";
import {
  AGENT,
  beginLog,
  disk,
  drop,
  end,
  HEAD_MARK,
  heads,
  IDS,
  ids,
  lay,
  lot,
  memory,
  pathOf,
  recall,
  roll,
  START,
} from "./laid.ts";
import { type DiskCall, watched } from "./memorydisk.ts";

const OTHER_HEAD = "h".repeat(32);
const FOR_EVER = Number.POSITIVE_INFINITY;

let calls: DiskCall[];
beforeEach(() => {
  beginLog();
  calls = [];
});

function opened(): AgentState {
  const watching = watched(disk, (call) => calls.push(call));
  return new AgentState({ disk: watching, folder: AGENT, ids: IDS, access: "read" });
}

function read(): AgentState {
  const state = opened();
  expect(state.step(FOR_EVER)).toBe(true);
  return state;
}

function mark({ record = end.record, head = end.head, done = 0 } = {}) {
  writeHeadMark(disk, HEAD_MARK, IDS, { record, head, done, sequence: 3 });
}

/** Of what was laid so far. */
function snapshot(as: Partial<{ record: number; head: string; generation: number }> = {}) {
  const { graph, places } = read();
  const { generation = 1, ...position } = as;
  writeSnapshot(disk, AGENT, IDS, { graph, places, generation, position: { ...end, ...position } });
}

describe("the log alone", () => {
  test("is read whole, batch by batch, over the end of a segment", () => {
    lay(lot("one"), lot("two"));
    roll();
    lay(memory([[1]]));
    const state = read();
    expect(state).toMatchObject({ replayed: 3, fromSnapshot: false, snapshotRecord: 0 });
    expect(state.log.end).toEqual(end);
    expect(state.graph.entryCount).toBe(3);
    // What comes later is read by the next step, and nothing twice.
    lay(lot("four"));
    expect(state.step(FOR_EVER)).toBe(true);
    expect(state).toMatchObject({ replayed: 4 });
    expect(state.step(FOR_EVER)).toBe(true);
    expect(state.replayed).toBe(4);
  });

  test("gives way when its time is over, and goes on where it was", () => {
    lay(lot("one"));
    lay(lot("two"));
    lay(lot("three"));
    const state = opened();
    const records: number[] = [];
    while (!state.step(-1)) records.push(state.log.end.record);
    expect(records).toEqual([1, 2, 3]);
    expect(state.log.end).toEqual(end);
  });

  test("must begin at record 1, as this agent's", () => {
    for (const before of [
      { ...START, head: OTHER_HEAD },
      { ...START, record: 1 },
      { ...START, entries: 1 },
    ]) {
      beginLog();
      disk.removeFile(pathOf(1));
      createSegment(disk, pathOf(1), IDS, 1, { number: 1, before }, 0);
      calls = [];
      expect(() => opened()).toThrow("does not begin at record 1");
      const [open, close] = (["open", "close"] as const).map((what) =>
        calls.filter(({ call, path }) => call === what && path === pathOf(1)),
      );
      expect([open?.length, close?.length]).toEqual([1, 1]);
    }
  });
});

describe("the head mark", () => {
  test.each([0, 2, 3])("may be of the last record of any batch: %i", (record) => {
    lay(lot("one"), lot("two"));
    lay(lot("three"));
    mark({ record, head: heads[record] as string });
    const state = read();
    expect(state.endIsNamed).toBe(record === 3);
    expect(state.flushedRecord).toBe(0);
  });

  test("of an empty log names its end", () => {
    expect(read().endIsNamed).toBe(true);
  });

  test("of a log of one record that nobody named, the end is not", () => {
    lay(lot("one"));
    expect(read().endIsNamed).toBe(false);
  });

  test.each([2, 3, 5])("with another head for record %i is damage", (record) => {
    lay(lot("one"), lot("two"));
    lay(lot("three"));
    lay(lot("four"), lot("five"));
    mark({ record, head: OTHER_HEAD });
    expect(() => read()).toThrow(
      `the log does not hold record ${record} as the head mark names it`,
    );
  });

  test("of a record inside a batch is damage, with that record's own head too", () => {
    lay(lot("one"));
    lay(lot("two"), lot("three"));
    mark({ record: 2, head: heads[2] as string });
    expect(() => read()).toThrow("the log does not hold record 2 as the head mark names it");
    mark({ record: 2, head: heads[3] as string });
    expect(() => read()).toThrow("the log does not hold record 2 as the head mark names it");
  });

  test("of a record that is not there any more: the log has lost its end", () => {
    lay(lot("one"));
    mark({ record: 2, head: OTHER_HEAD });
    expect(() => read()).toThrow(
      "ends at record 1, and its head mark names 2: it has lost its end",
    );
  });

  test("may move on while the log is read: what it names by then is not asked for", () => {
    lay(lot("one"));
    mark();
    const state = read();
    lay(lot("two"));
    mark();
    expect(state.step(FOR_EVER)).toBe(true);
    expect(state.endIsNamed).toBe(false);
    state.readHeadMark();
    expect(state.endIsNamed).toBe(true);
    expect(state.headMark).toMatchObject({ record: 2, head: end.head });
  });

  test("is read before the log, so that a write in between is no lost end", () => {
    lay(lot("one"));
    mark();
    let isWritten = false;
    const disk2 = watched(disk, ({ call, path }) => {
      if (isWritten || call !== "open" || path !== pathOf(1)) return;
      isWritten = true;
      lay(lot("two"));
      mark();
    });
    const state = new AgentState({ disk: disk2, folder: AGENT, ids: IDS, access: "read" });
    expect(state.step(FOR_EVER)).toBe(true);
    expect(state.log.end.record).toBe(2);
    expect(state.headMark.record).toBe(1);
  });
});

describe("the snapshot", () => {
  test("spares the records before it, and is a witness of its own", () => {
    lay(lot("one"), lot("two"));
    snapshot();
    lay(memory([[1, 2]]));
    const state = read();
    expect(state).toMatchObject({ fromSnapshot: true, snapshotRecord: 2, replayed: 1 });
    expect(state.flushedRecord).toBe(2);
    expect(state.graph.entryCount).toBe(3);
    expect(state.endIsNamed).toBe(false);
  });

  test("names the end of the log that it is of", () => {
    lay(lot("one"), lot("two"));
    snapshot();
    expect(read().endIsNamed).toBe(true);
  });

  test("that the log does not hold is not used; the log is read whole", () => {
    lay(lot("one"));
    lay(lot("two"));
    for (const as of [{ head: OTHER_HEAD }, { generation: 2 }]) {
      snapshot(as);
      expect(read()).toMatchObject({ fromSnapshot: false, snapshotRecord: 0, replayed: 2 });
      expect(read().flushedRecord).toBe(0);
    }
  });

  test("also where it was read before, and is of another generation than the log", () => {
    lay(lot("one"));
    snapshot({ generation: 2 });
    const place = { disk, folder: AGENT, ids: IDS, access: "read" } as const;
    const found = readSnapshot(disk, AGENT, IDS, 2);
    expect(found.snapshot).not.toBe(null);
    const state = new AgentState(place, { found });
    expect(state.step(FOR_EVER)).toBe(true);
    expect(state).toMatchObject({ fromSnapshot: false, replayed: 1 });
  });

  test("of more records than the log has: the log has lost its end", () => {
    lay(lot("one"));
    const before = disk.image();
    lay(lot("two"));
    snapshot();
    const file = disk.open(pathOf(1));
    const was = before.get(pathOf(1)) as Buffer;
    file.truncate(was.length);
    expect(() => read()).toThrow("ends at record 1, and its snapshot is of 2: it has lost its end");
  });
});

test("many edges are laid side by side at once, in steps; few are left as they are", () => {
  lay(lot("one"), lot("two"), lot("three"), lot("four"), lot("five"));
  const five = [1, 2, 3, 4, 5];
  const settledAfter = (memories: number) => {
    for (let left = memories; left > 0; left -= LIMITS.batchRecords) {
      const count = Math.min(left, LIMITS.batchRecords);
      lay(...Array.from({ length: count }, () => memory([five])));
    }
    const state = opened();
    let steps = 1;
    while (!state.step(0)) {
      steps++;
      // Whoever asks in between is told of no more than was read.
      if (steps > 1000) throw new Error("it does not come to an end");
    }
    const { graph } = state;
    const legsOf = (entry: number) => {
      const legs: number[] = [];
      graph.forEachChildLeg(entry, (leg) => legs.push(leg));
      return legs.sort((a, b) => a - b);
    };
    for (const entry of five) expect(legsOf(entry).length).toBe(graph.legCount);
    expect(graph.edgeCount).toBe(5 * graph.legCount);
    return graph.tailCount;
  };
  expect(settledAfter(10_000)).toBe(50_000);
  expect(settledAfter(1)).toBe(0);
});

describe("erases that are not known to be finished", () => {
  beforeEach(() => {
    lay(lot("one"), lot("two"), lot("three"), lot("four"));
    lay(recall({ targets: ids(1), disposal: "erase", alsoErased: ids(1) }));
    lay(recall({ targets: ids(2) }));
    lay(drop(2));
    lay(recall({ targets: ids(3), disposal: "erase", alsoErased: ids(3) }));
  });

  test.each([
    [0, [0, 2, 3]],
    [4, [0, 2, 3]],
    [5, [2, 3]],
    [6, [2, 3]],
    [7, [3]],
    [8, []],
  ])("are those behind record %i", (done, slots) => {
    mark({ done });
    const state = read();
    expect(state.unfinishedErases()).toEqual(slots);
    state.close();
  });
});
