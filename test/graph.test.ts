// The graph's arrays against plain lists: children, legs that hold, marks and counts, whenever the edges are settled, and
// whether a recall is carried out with what its deciding found or from its record alone. GRAPHS says how many.

import { expect, test } from "vitest";
import { DEAD, FLAGS, Graph, Layer } from "../src/graph.ts";
import { decideRecall } from "../src/recall.ts";
import { SeenIndex } from "../src/seen.ts";
import type { Disposal } from "../src/terms.ts";
import { chance, SEED } from "./helpers.ts";

const GRAPHS = Number(process.env.GRAPHS ?? 150);

/** What is told of a graph in plain lists. */
class Plain {
  readonly legs: { owner: number; parents: number[] }[] = [];
  readonly dead = new Set<number>();
  readonly eraseTargets = new Set<number>();
  readonly memories = new Set<number>();
  entries = 0;

  childLegs(entry: number): number[] {
    return this.legs.flatMap(({ parents }, leg) => (parents.includes(entry) ? [leg] : []));
  }

  /** Entries from some on, through any leg, these included. */
  below(origins: Iterable<number>): Set<number> {
    const found = new Set(origins);
    for (let before = -1; before !== found.size; ) {
      before = found.size;
      for (const { owner, parents } of this.legs)
        if (parents.some((parent) => found.has(parent))) found.add(owner);
    }
    return found;
  }

  /** Of every entry: the longest way up. */
  depths(): Map<number, number> {
    const depths = new Map(range(this.entries).map((entry) => [entry, 0]));
    for (let isNew = true; isNew; ) {
      isNew = false;
      for (const { owner, parents } of this.legs) {
        const depth = 1 + Math.max(...parents.map((parent) => depths.get(parent) ?? 0));
        if (depth <= (depths.get(owner) ?? 0)) continue;
        depths.set(owner, depth);
        isNew = true;
      }
    }
    return depths;
  }
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

test("children, legs, marks and counts are those of plain lists, settled or not, decided or replayed", () => {
  console.log(`SEED=${SEED}`);
  const random = chance(SEED);
  const below = (count: number) => Math.floor(random() * count);
  for (let round = 0; round < GRAPHS; round++) {
    const plain = new Plain();
    const live = new Graph();
    const replayed = new Graph();
    const both = [live, replayed];
    const addLeg = (owner: number, parents: number[]) => {
      const leg = plain.legs.push({ owner, parents }) - 1;
      for (const graph of both)
        expect(graph.addLeg(owner, [0, ...parents, 0], 1, 1 + parents.length)).toBe(leg);
    };
    /** Up to three of some entries, ascending. */
    const some = (from: number[]) =>
      [...new Set([0, 0, 0].slice(below(3)).map(() => from[below(from.length)] as number))].sort(
        (a, b) => a - b,
      );
    const steps = 10 + below(90);
    for (let record = 1; record <= steps; record++) {
      const living = range(plain.entries).filter((entry) => !plain.dead.has(entry));
      const what = living.length === 0 ? 0 : below(20);
      if (what < 4) {
        plain.entries++;
        for (const graph of both) expect(graph.addEntry(0)).toBe(plain.entries);
      } else if (what < 12) {
        const entry = ++plain.entries;
        plain.memories.add(entry);
        for (const graph of both) graph.addEntry(FLAGS.memory);
        addLeg(entry, some(living));
        if (below(2) === 0) addLeg(entry, some(range(entry - 1)));
      } else if (what < 15) {
        const owners = living.filter((entry) => plain.memories.has(entry));
        const owner = owners[below(owners.length)];
        if (owner === undefined) continue;
        const under = plain.below([owner]);
        const parents = living.filter((entry) => !under.has(entry));
        if (parents.length > 0) addLeg(owner, some(parents));
      } else if (what < 17) {
        live.settle();
      } else {
        const targets = Uint32Array.from(some(range(plain.entries)));
        const mode = (["fair", "strict", "contact"] as const)[below(3)] ?? "fair";
        const disposal: Disposal = below(2) === 0 ? "erase" : "untrusted";
        const request = { targets, mode, disposal };
        const decide = (keepsBroken: boolean) =>
          decideRecall(live, request, new SeenIndex(), { keepsBroken });
        let decision = decide(below(2) === 0);
        // Given up, and decided once more.
        if (decision.legsAreBroken && below(2) === 0) {
          live.mendLegs(decision);
          const again = decide(below(2) === 0);
          expect([again.removed, again.brokenLegs]).toEqual([
            decision.removed,
            decision.brokenLegs,
          ]);
          decision = again;
        }
        if (decision.isNoop) continue;
        live.applyRecall(record, decision, decision);
        replayed.applyRecall(record, decision);
        for (const entry of [...targets, ...decision.removed]) plain.dead.add(entry);
        if (disposal === "erase") for (const target of targets) plain.eraseTargets.add(target);
      }
    }
    const { entries, legs, dead } = plain;
    const marked = plain.below(plain.eraseTargets);
    for (const graph of both) {
      expect([graph.entryCount, graph.memoryCount, graph.aliveCount, graph.legCount]).toEqual([
        entries,
        plain.memories.size,
        entries - dead.size,
        legs.length,
      ]);
      expect(graph.edgeCount).toBe(legs.reduce((sum, { parents }) => sum + parents.length, 0));
      expect([graph.has(0), graph.has(1), graph.has(entries), graph.has(entries + 1)]).toEqual([
        false,
        true,
        true,
        false,
      ]);
      const broken = legs.map(({ parents }) => parents.some((parent) => dead.has(parent)));
      const isBroken = (leg: number) =>
        (((graph.legBroken[Math.floor(leg / 32)] as number) >>> (leg % 32)) & 1) === 1;
      expect(legs.map((_, leg) => isBroken(leg))).toEqual(broken);
      expect(legs.map((_, leg) => graph.legOwner[leg])).toEqual(legs.map(({ owner }) => owner));
      const layer = new Layer();
      const asked = Uint32Array.from(range(entries)).reverse();
      const to = Math.max(asked.length - 1, 1);
      graph.lookBelow(asked, 1, to, layer);
      const found = Array.from({ length: layer.count }, (_, i) => {
        const [parent, leg, owner] = [layer.parents[i], layer.legs[i], layer.owners[i]];
        expect(owner).toBe(legs[leg as number]?.owner);
        return [parent, leg] as [number, number];
      });
      const inTurn = [...asked.subarray(1, to)].flatMap((parent) =>
        plain.childLegs(parent).map((leg): [number, number] => [parent, leg]),
      );
      expect(found.map(([parent]) => parent)).toEqual(inTurn.map(([parent]) => parent));
      expect(found.sort(([a, k], [b, l]) => b - a || k - l)).toEqual(inTurn);
      const stragglers: number[] = [];
      for (const entry of range(entries)) {
        const children: number[] = [];
        graph.forEachChildLeg(entry, (leg) => children.push(leg));
        expect(children.sort((a, b) => a - b)).toEqual(plain.childLegs(entry));
        const owners = plain.childLegs(entry).map((leg) => legs[leg]?.owner as number);
        expect(graph.builtOn(entry)).toEqual([...new Set(owners)].sort((a, b) => a - b));
        const holding = legs.filter(({ owner }, leg) => owner === entry && !broken[leg]).length;
        expect(graph.holding[entry]).toBe(holding);
        expect(graph.isAlive(entry)).toBe(!dead.has(entry));
        expect(graph.kind(entry)).toBe(plain.memories.has(entry) ? "memory" : "lot");
        expect(graph.is(entry, FLAGS.belowErased)).toBe(marked.has(entry));
        if (marked.has(entry) && dead.has(entry) && !graph.is(entry, FLAGS.gone))
          stragglers.push(entry);
        if (entry % 7 === 0) {
          const wanted = new Set([1 + below(entries), 1 + below(entries)]);
          const reached = plain.below([entry]);
          const isReached = [...wanted].some((one) => reached.has(one));
          expect(graph.reaches(entry, wanted)).toBe(isReached);
        }
      }
      expect([...graph.stragglers].sort((a, b) => a - b)).toEqual(stragglers);
      if (round % 5 === 0) expect(graph.depth()).toBe(Math.max(0, ...plain.depths().values()));
    }
    const state = ({ flags, diedAt }: Graph) => [
      [...flags.subarray(0, entries + 1)],
      [...diedAt.subarray(0, entries + 1)],
    ];
    expect(state(live)).toEqual(state(replayed));
    expect(
      range(entries).every(
        (entry) =>
          (((live.flags[entry] as number) & DEAD) !== 0) === (live.diedAt[entry] as number) > 0,
      ),
    ).toBe(true);
  }
});

test("of a thousand legs each breaks by itself, and of a leg with a thousand parents each is one", () => {
  const graph = new Graph();
  const many = 1000;
  for (let entry = 1; entry <= many; entry++) graph.addEntry(0);
  for (let lot = 1; lot <= many; lot++) graph.addLeg(graph.addEntry(FLAGS.memory), [lot]);
  const last = graph.addEntry(FLAGS.memory);
  expect(graph.addLeg(last, range(many))).toBe(many);
  expect(graph.edgeCount).toBe(2 * many);
  const removed = Uint32Array.of(many + 7);
  const nothing = new Uint32Array(0);
  const none = { alsoErased: nothing, contactBelow: nothing, explained: nothing };
  const targets = Uint32Array.of(7);
  graph.applyRecall(1, { targets, mode: "fair", disposal: "untrusted", removed, ...none });
  for (let lot = 1; lot <= many; lot++) {
    const legs: number[] = [];
    graph.forEachChildLeg(lot, (leg) => legs.push(leg));
    expect(legs.sort((a, b) => a - b)).toEqual([lot - 1, many]);
    expect(graph.holding[many + lot]).toBe(lot === 7 ? 0 : 1);
  }
  expect(graph.holding[last]).toBe(0);
  expect(graph.targetMode(7)).toBe("fair");
  expect([graph.targetMode(8), graph.targetMode(many + 7)]).toEqual([null, null]);
  // Whether it lived then: also of what died by that very record.
  expect([graph.livedAt(7, 0), graph.livedAt(7, 1), graph.livedAt(8, 1)]).toEqual([
    true,
    false,
    true,
  ]);
});

/** Lots 1 .. count, with one memory on each. */
function pairs(count: number): Graph {
  const graph = new Graph();
  for (let lot = 1; lot <= count; lot++) graph.addEntry(0);
  for (let lot = 1; lot <= count; lot++) graph.addLeg(graph.addEntry(FLAGS.memory), [lot]);
  return graph;
}

const legsOf = (graph: Graph, entry: number) => {
  const legs: number[] = [];
  graph.forEachChildLeg(entry, (leg) => legs.push(leg));
  return legs;
};

test("what was settled takes more, one edge too, and is settled again", () => {
  for (const more of [1, 2, 3]) {
    const graph = pairs(5);
    graph.settle();
    expect([graph.tailCount, graph.settledEntries]).toEqual([0, 10]);
    for (let lot = 1; lot <= more; lot++) graph.addLeg(10, [lot]);
    expect(graph.tailCount).toBe(more);
    graph.settle();
    expect([graph.tailCount, graph.childLegs.length]).toEqual([0, 5 + more]);
    expect(range(5).map((lot) => legsOf(graph, lot))).toEqual(
      range(5).map((lot) => (lot <= more ? [lot - 1, 4 + lot] : [lot - 1])),
    );
    const { childStart } = graph;
    graph.settle();
    expect(graph.childStart).toBe(childStart);
  }
});

test("more entries than one part of the work takes are settled like few", () => {
  const half = 65_536 + 2;
  const graph = pairs(half);
  for (let times = 1; times <= 2; times++) {
    graph.settle();
    for (const lot of [1, 2, 65_535, 65_536, 65_537, half])
      expect(legsOf(graph, lot)).toEqual(times === 1 ? [lot - 1] : [lot - 1, half]);
    expect(graph.childStart[2 * half + 1]).toBe(graph.edgeCount);
    if (times === 1) graph.addLeg(graph.addEntry(FLAGS.memory), range(half));
  }
});

test("entries that came behind the last leg have no children", () => {
  const graph = pairs(3);
  for (let more = 1; more <= 300; more++) {
    const lot = graph.addEntry(0);
    expect(legsOf(graph, lot)).toEqual([]);
    const layer = new Layer();
    graph.lookBelow(Uint32Array.of(lot, 1), 0, 2, layer);
    expect([layer.count, layer.legs[0], layer.parents[0], layer.owners[0]]).toEqual([1, 0, 1, 4]);
  }
});

test("its depth is that of its longest chain: none without a memory", () => {
  const graph = new Graph();
  expect(graph.depth()).toBe(0);
  for (let lot = 1; lot <= 3; lot++) graph.addEntry(0);
  expect(graph.depth()).toBe(0);
  const low = graph.addEntry(FLAGS.memory);
  graph.addLeg(low, [1]);
  expect(graph.depth()).toBe(1);
  const last = graph.addEntry(FLAGS.memory);
  graph.addLeg(last, [2]);
  expect(graph.depth()).toBe(1);
  // An earlier one comes to stand on the last.
  graph.addLeg(low, [last]);
  expect(graph.depth()).toBe(2);
});

test("its size in memory is that of its arrays", () => {
  // Of nothing: flags and counts of two bytes, a record and two places of four.
  expect(new Graph().bytes).toBe(2 + 2 + 4 + 8);
});
