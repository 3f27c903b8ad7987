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
 * The shortest, through entries that fell in that recall or were dead before.
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
  const from = new Map<EntryId, EntryId>();
  let open: EntryId[] = [];
  for (let i = 0; i < targets.length; i++) {
    const target = targets[i] as number;
    from.set(target, 0);
    open.push(target);
  }
  const diedAt = graph.diedAt[entry] as number;
  while (open.length > 0 && !from.has(entry)) {
    const next: EntryId[] = [];
    const reach = (id: EntryId, parent: EntryId) => {
      if (from.has(id)) return;
      // Fair recall spreads only through what it kills; the others also through what was dead before.
      const fell = graph.diedAt[id] as number;
      if (fell === 0 || fell > diedAt || (mode === "fair" && fell !== diedAt)) return;
      from.set(id, parent);
      next.push(id);
    };
    for (const at of open)
      graph.forEachChildLeg(at, (leg) => reach(graph.legOwner[leg] as number, at));
    if (seen && mode === "contact") {
      const marked = new Uint8Array(graph.entryCount + 1);
      for (const at of open) marked[at] = 1;
      seen.forEachWhoSaw(marked, (id, what) => reach(id, what));
    }
    open = next;
  }
  const path: EntryId[] = [];
  for (let at = entry; at !== 0 && from.has(at); at = from.get(at) as EntryId) path.unshift(at);
  return path;
}
