// Carries one record out on the graph and the places: the same step for a record just written and for one replayed.

import { RECORD_KINDS, SPINE_FLAGS, type SpineReader } from "./codec.ts";
import { corrupt } from "./errors.ts";
import { type Decided, FLAGS, type Graph } from "./graph.ts";
import { ACT, type Places } from "./places.ts";

/**
 * @param reader stands on the record's spine
 * @param spineAt offset of the spine in its segment
 * @param areaAt offset of its area, 0 if that is not in the files
 * @param decided of a recall that was decided just now
 * @throws CheeseError CORRUPT when the record names what cannot be: an entry that is not there
 */
export function applyRecord(
  graph: Graph,
  places: Places,
  reader: SpineReader,
  segment: number,
  spineAt: number,
  areaAt: number,
  decided?: Decided,
) {
  const { kind } = reader;
  if (kind === RECORD_KINDS.lot || kind === RECORD_KINDS.memory) {
    const flags =
      (kind === RECORD_KINDS.memory ? FLAGS.memory : 0) |
      (reader.bornDead ? FLAGS.bornDead | FLAGS.removed : 0) |
      (reader.areaBytes === 0 ? FLAGS.gone : 0) |
      (reader.flags & SPINE_FLAGS.seen ? FLAGS.seen : 0);
    requireKnown(
      graph,
      reader.parents,
      reader.legCount === 0 ? 0 : (reader.legEnds[reader.legCount - 1] as number),
    );
    if (reader.seenBase > graph.entryCount)
      throw corrupt(`a seen set counts on from entry ${reader.seenBase}`, {
        entry: reader.seenBase,
      });
    const entry = graph.addEntry(flags);
    places.setEntry(entry, spineAt, areaAt, reader.areaBytes);
    for (let k = 0, from = 0; k < reader.legCount; k++) {
      const to = reader.legEnds[k] as number;
      graph.addLeg(entry, reader.parents, from, to);
      from = to;
    }
    return;
  }
  if (kind === RECORD_KINDS.corroborate) {
    const { entry: memory } = reader;
    requireKnown(graph, reader.parents, reader.legEnds[0] as number);
    requireKnown(graph, [memory], 1);
    places.addLeg(
      graph.addLeg(memory, reader.parents, 0, reader.legEnds[0]),
      memory,
      segment,
      spineAt,
    );
    graph.flags[memory] = (graph.flags[memory] as number) | FLAGS.corroborated;
    return;
  }
  if (kind === RECORD_KINDS.recall && reader.recall) {
    const { recall } = reader;
    for (const list of [
      recall.targets,
      recall.removed,
      recall.alsoErased,
      recall.contactBelow,
      recall.explained,
    ]) {
      requireKnown(graph, list, list.length);
    }
    graph.applyRecall(reader.record, recall, decided);
    places.addAct(
      reader.record,
      segment,
      spineAt,
      recall.disposal === "erase" || recall.alsoErased.length > 0 ? ACT.erases : 0,
    );
    return;
  }
  requireKnown(graph, reader.dropped, reader.dropped.length);
  graph.setFlag(reader.dropped, FLAGS.gone);
  places.addAct(reader.record, segment, spineAt, ACT.drop | ACT.erases);
}

function requireKnown(graph: Graph, entries: ArrayLike<number>, count: number) {
  for (let i = 0; i < count; i++) {
    const entry = entries[i] as number;
    if (entry < 1 || entry > graph.entryCount) {
      throw corrupt(`a record names entry ${entry}, and there are ${graph.entryCount}`, { entry });
    }
  }
}
