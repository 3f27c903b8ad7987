// What callers see of entries and records, put together from spines, areas and the graph.

import { RECORD_KINDS, type RecallSpine, type SeenSet } from "./codec.ts";
import { corrupt } from "./errors.ts";
import { FLAGS } from "./graph.ts";
import { erasedBy, type ReadBytes } from "./records.ts";
import type { AgentState } from "./state.ts";
import type { EntryId, EntryWithText, HistoryRecord } from "./terms.ts";

/** ISO 8601, UTC, to the millisecond. */
export function toTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** @throws CheeseError CORRUPT when its spine or its text does not check */
export function readEntry(
  { graph, records }: Pick<AgentState, "graph" | "records">,
  id: EntryId,
  { withText, withSeen = false, read }: { withText: boolean; withSeen?: boolean; read?: ReadBytes },
): EntryWithText {
  const isMemory = graph.is(id, FLAGS.memory);
  const reader = records.spine(id, read);
  const time = toTime(reader.time);
  const label = reader.kind === RECORD_KINDS.lot ? reader.label() : null;
  const legs = isMemory && !graph.is(id, FLAGS.corroborated) ? reader.legs() : null;
  const texts = withText ? records.text(id, read) : null;
  const seen = withSeen && graph.is(id, FLAGS.seen) ? records.seen(id) : null;
  const holds = (parents: Uint32Array) => parents.every((parent) => graph.isAlive(parent));
  return {
    id,
    kind: graph.kind(id),
    state: graph.state(id),
    label,
    text: texts?.text ?? null,
    uri: texts?.uri ?? null,
    legs: isMemory
      ? (legs ?? records.legs(id, read)).map((parents) => ({
          parents: [...parents],
          holds: holds(parents),
        }))
      : [],
    ...(seen && { seen }),
    time,
    erased: graph.is(id, FLAGS.gone),
  };
}

/** One record with everything that it says, in order. */
export type RecordView = { record: number; time: number } & (
  | {
      kind: "lot" | "memory";
      id: EntryId;
      label: string;
      legs: Uint32Array[];
      text: string | null;
      uri: string | null;
      seen: SeenSet | null;
      /** Written without a text. */
      dropped: boolean;
      bornDead: boolean;
    }
  | { kind: "corroborate"; memory: EntryId; leg: Uint32Array }
  | { kind: "recall"; recall: RecallSpine; erased: EntryId[] }
  | { kind: "drop"; erased: EntryId[] }
);

/** Walks an agent's records in order, over several reads of a log that may grow meanwhile. */
export class RecordWalk {
  #record = 0;
  #entry = 0;
  #act = 0;
  #corroboration = 0;

  clone(): RecordWalk {
    const copy = new RecordWalk();
    copy.#record = this.#record;
    copy.#entry = this.#entry;
    copy.#act = this.#act;
    copy.#corroboration = this.#corroboration;
    return copy;
  }

  isAtEnd({ log }: AgentState): boolean {
    return this.#record >= log.end.record;
  }

  next({ graph, places, records }: AgentState, read: ReadBytes): RecordView {
    const record = ++this.#record;
    if (this.#act < places.actRecord.length && places.actRecord.at(this.#act) === record) {
      const { time, recall, dropped } = records.act(this.#act++);
      if (!recall) return { record, time, kind: "drop", erased: [...dropped] };
      return { record, time, kind: "recall", recall, erased: [...erasedBy(recall)] };
    }
    if (this.#entry < graph.entryCount) {
      const id = this.#entry + 1;
      const reader = records.spine(id, read);
      if (reader.record === record) {
        this.#entry = id;
        const isLot = reader.kind === RECORD_KINDS.lot;
        const view = {
          record,
          time: reader.time,
          kind: isLot ? ("lot" as const) : ("memory" as const),
          id,
          label: isLot ? reader.label() : "",
          legs: reader.legs(),
          seen: reader.seen(),
          dropped: reader.areaBytes === 0,
          bornDead: reader.bornDead,
        };
        const texts = records.text(id, read);
        return { ...view, text: texts?.text ?? null, uri: texts?.uri ?? null };
      }
    }
    if (this.#corroboration >= places.legs.length) throw corrupt(`record ${record} is of no kind`);
    return { record, kind: "corroborate", ...records.corroboration(this.#corroboration++) };
  }
}

export function toHistory(view: RecordView, { graph }: AgentState): HistoryRecord {
  const { record } = view;
  const time = toTime(view.time);
  switch (view.kind) {
    case "lot":
      return {
        record,
        time,
        kind: "lot",
        id: view.id,
        label: view.label,
        text: view.text,
        uri: view.uri,
        state: graph.state(view.id),
      };
    case "memory":
      return {
        record,
        time,
        kind: "memory",
        id: view.id,
        legs: view.legs.map((leg) => [...leg]),
        text: view.text,
        state: graph.state(view.id),
      };
    case "corroborate":
      return { record, time, kind: "corroborate", memory: view.memory, leg: [...view.leg] };
    case "recall": {
      const { targets, mode, disposal, removed, explained } = view.recall;
      const fell = [...removed, ...explained].sort((a, b) => a - b);
      return {
        record,
        time,
        kind: "recall",
        targets: [...targets],
        mode,
        disposal,
        removed: fell,
        erased: view.erased,
      };
    }
    case "drop":
      return { record, time, kind: "drop", erased: view.erased };
  }
}
