// Explains: the support of a living entry down to its lots, and the way by which a dead one fell.

import { FLAGS, type Graph } from "./graph.ts";
import type { Records } from "./records.ts";
import type { SeenIndex } from "./seen.ts";
import type { EntryId, Mode } from "./terms.ts";

/**
 * What an entry stands on, breadth first, each entry once, itself left out.
 *
 * @param depth levels to go down
 * @param countMax entries to give at most
 * @returns the entries, and how many more lie beyond
 */
export function supportOf(
  records: Records,
  entry: EntryId,
  depth: number,
  countMax: number,
): { support: EntryId[]; more: number } {
  const visited = new Set([entry]);
  const support: EntryId[] = [];
  let more = 0;
  let level = [entry];
  for (let below = 1; level.length > 0; below++) {
    const next: EntryId[] = [];
    for (const at of level) {
      if (!records.graph.is(at, FLAGS.memory)) continue;
      for (const leg of records.legs(at)) {
        for (const parent of leg) {
          if (visited.has(parent)) continue;
          visited.add(parent);
          next.push(parent);
          if (below <= depth && support.length < countMax) support.push(parent);
          else more++;
        }
      }
    }
    level = next;
  }
  return { support, more };
}

/**
 * The way from a target down to an entry that a recall took: each next one stands on the one before, or has seen it.
 * Through entries that fell in that recall or, but for fair, were dead before.
 *
 * @param seen who has seen what; null unless the recall was by contact
 */
export function pathFrom(
  graph: Graph,
  targets: ArrayLike<EntryId>,
  entry: EntryId,
  mode: Mode,
  seen: SeenIndex | null,
): EntryId[] {
  const diedAt = graph.diedAt[entry] as number;
  const from = new Map<EntryId, EntryId>();
  const order: EntryId[] = [];
  const reached = new Uint8Array(mode === "contact" ? graph.entryCount + 1 : 0);
  const reach = (id: EntryId, parent: EntryId) => {
    if (from.has(id)) return;
    const fell = graph.diedAt[id] as number;
    const isPart = fell !== 0 && (mode === "fair" ? fell === diedAt : fell <= diedAt);
    if (parent !== 0 && !isPart) return;
    from.set(id, parent);
    order.push(id);
    reached[id] = 1;
  };
  let walked = 0;
  const walkAll = () => {
    for (; walked < order.length && !from.has(entry); walked++) {
      const at = order[walked] as number;
      graph.forEachChildLeg(at, (leg) => reach(graph.legOwner[leg] as number, at));
    }
  };
  for (let i = 0; i < targets.length; i++) reach(targets[i] as number, 0);
  walkAll();
  while (seen && mode === "contact" && !from.has(entry)) {
    const before = order.length;
    seen.forEachWhoSaw(reached, (id, what) => {
      reach(id, what);
      walkAll();
    });
    if (order.length === before) break;
  }
  const path: EntryId[] = [];
  for (let at = entry; at !== 0 && from.has(at); at = from.get(at) as EntryId) path.push(at);
  return path.reverse();
}
