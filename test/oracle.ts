// A naive evaluator that knows only the definitions: who lives, what a recall removes, spares and erases.
//
// It keeps plain objects and, at every question, computes everything from scratch. It shares no code with the engine.

import type { Disposal, Mode, State } from "../src/index.ts";

export interface OracleEntry {
  id: number;
  kind: "lot" | "memory";
  text: string;
  label: string | null;
  legs: number[][];
  seen: number[];
  /** The text is still to be had. */
  hasText: boolean;
}

interface Target {
  mode: Mode;
  disposal: Disposal;
}

export interface OracleOutcome {
  targets: number[];
  removed: number[];
  survivors: { id: number; heldBy: number[][] }[];
  erased: number[];
  isNoop: boolean;
}

const RANK: Record<Mode, number> = { fair: 0, strict: 1, contact: 2 };
const ascending = (a: number, b: number) => a - b;

export class Oracle {
  entries: OracleEntry[] = [];
  targets = new Map<number, Target>();

  at(id: number): OracleEntry {
    return this.entries[id - 1] as OracleEntry;
  }

  get ids(): number[] {
    return this.entries.map(({ id }) => id);
  }

  /** Every entry below some others: through any leg ever declared, and through what was seen if asked. */
  below(origins: Iterable<number>, throughSeen: boolean): Set<number> {
    const reached = new Set<number>();
    const from = new Set(origins);
    for (let changed = true; changed; ) {
      changed = false;
      for (const entry of this.entries) {
        if (reached.has(entry.id)) continue;
        const parents = [...entry.legs.flat(), ...(throughSeen ? entry.seen : [])];
        if (parents.some((parent) => from.has(parent) || reached.has(parent))) {
          reached.add(entry.id);
          changed = true;
        }
      }
    }
    for (const origin of from) reached.delete(origin);
    return reached;
  }

  /** The dead, evaluated from scratch for some targets. */
  dead(targets: Map<number, Target> = this.targets): Set<number> {
    const dead = new Set(targets.keys());
    const ofMode = (mode: Mode) =>
      [...targets].filter(([, target]) => target.mode === mode).map(([id]) => id);
    for (const id of this.below(ofMode("strict"), false)) dead.add(id);
    for (const id of this.below(ofMode("contact"), true)) dead.add(id);
    for (let changed = true; changed; ) {
      changed = false;
      for (const { id, kind, legs } of this.entries) {
        if (kind === "lot" || dead.has(id)) continue;
        if (legs.every((leg) => leg.some((parent) => dead.has(parent)))) {
          dead.add(id);
          changed = true;
        }
      }
    }
    return dead;
  }

  state(id: number, dead = this.dead()): State {
    if (this.targets.has(id)) return "recalled";
    return dead.has(id) ? "removed" : "alive";
  }

  /** Entries that may not be in a writer's view: the target of a contact recall, or below it. */
  contact(): Set<number> {
    const targets = [...this.targets]
      .filter(([, { mode }]) => mode === "contact")
      .map(([id]) => id);
    return new Set([...targets, ...this.below(targets, true)]);
  }

  /** The first rule that a new memory breaks; null if it may be. */
  refusal(legs: number[][], seen: number[]): string | null {
    const dead = this.dead();
    if (legs.length === 0 || legs.some((leg) => leg.length === 0)) return "NO_LEG";
    for (const leg of distinctLegs(legs)) {
      for (const parent of leg) {
        if (!this.at(parent)) return "UNKNOWN_PARENT";
        if (dead.has(parent)) return "DEAD_PARENT";
      }
    }
    return this.seenRefusal(seen);
  }

  seenRefusal(seen: number[]): string | null {
    const contact = this.contact();
    for (const id of seen) {
      if (!this.at(id)) return "UNKNOWN_PARENT";
      if (contact.has(id)) return "RECALLED_CONTEXT";
    }
    return null;
  }

  add(
    kind: "lot" | "memory",
    text: string,
    label: string | null,
    legs: number[][],
    seen: number[],
  ): number {
    const id = this.entries.length + 1;
    this.entries.push({
      id,
      kind,
      text,
      label,
      legs: distinctLegs(legs),
      seen: [...new Set(seen)].sort(ascending),
      hasText: true,
    });
    return id;
  }

  /** The refusal of a corroboration, or null; a leg that is there already changes nothing. */
  corroborate(memory: number, leg: number[]): string | null {
    const entry = this.at(memory);
    const dead = this.dead();
    if (leg.length === 0) return "NO_LEG";
    if (!entry || entry.kind === "lot") return "NO_ENTRY";
    if (dead.has(memory)) return "DEAD_ENTRY";
    const [parents] = distinctLegs([leg]) as [number[]];
    for (const parent of parents) {
      if (!this.at(parent)) return "UNKNOWN_PARENT";
      if (dead.has(parent)) return "DEAD_PARENT";
    }
    if (entry.legs.some((known) => known.join() === parents.join())) return null;
    const below = this.below([memory], false);
    if (parents.some((parent) => parent === memory || below.has(parent))) return "CYCLE";
    entry.legs.push(parents);
    return null;
  }

  /** What a recall does; carried out unless it is only asked about. */
  recall(ids: number[], mode: Mode, disposal: Disposal, { dryRun = false } = {}): OracleOutcome {
    const targets = [...new Set(ids)].sort(ascending);
    const before = this.dead();
    const widened = new Map(this.targets);
    let raised = false;
    for (const id of targets) {
      const old = widened.get(id);
      const wider: Target = {
        mode: old && RANK[old.mode] > RANK[mode] ? old.mode : mode,
        disposal: old?.disposal === "erase" ? "erase" : disposal,
      };
      if (!old || old.mode !== wider.mode || old.disposal !== wider.disposal) raised = true;
      widened.set(id, wider);
    }
    const after = this.dead(widened);
    const killed = [...after].filter((id) => !before.has(id));
    const removed = killed.filter((id) => !targets.includes(id)).sort(ascending);

    const holds = (leg: number[], dead: Set<number>) => leg.every((parent) => !dead.has(parent));
    const survivors = this.entries
      .filter(
        ({ id, legs }) =>
          !after.has(id) && legs.some((leg) => holds(leg, before) && !holds(leg, after)),
      )
      .map(({ id, legs }) => ({ id, heldBy: legs.filter((leg) => holds(leg, after)) }));

    const erased = new Set<number>();
    const belowOf = (id: number) =>
      this.below([id], (widened.get(id) as Target).mode === "contact");
    for (const id of targets) {
      if ((widened.get(id) as Target).disposal !== "erase") continue;
      erased.add(id);
      for (const below of belowOf(id)) if (after.has(below)) erased.add(below);
    }
    for (const [id, { disposal }] of widened) {
      if (disposal !== "erase") continue;
      const below = belowOf(id);
      for (const dying of killed) if (below.has(dying)) erased.add(dying);
    }
    const gone = [...erased].filter((id) => this.at(id).hasText).sort(ascending);
    if (!dryRun) {
      this.targets = widened;
      for (const id of gone) this.at(id).hasText = false;
    }
    return {
      targets,
      removed,
      survivors,
      erased: gone,
      isNoop: !raised && killed.length === 0 && gone.length === 0,
    };
  }

  /** Compaction: the texts of all that is dead are gone. */
  compact(): number {
    const dead = this.dead();
    const dropped = this.entries.filter(({ id, hasText }) => hasText && dead.has(id));
    for (const entry of dropped) entry.hasText = false;
    return dropped.length;
  }
}

/** Legs as sets: ascending, distinct, in the order in which they were first said. */
export function distinctLegs(legs: number[][]): number[][] {
  const seen = new Map<string, number[]>();
  for (const leg of legs) {
    const parents = [...new Set(leg)].sort(ascending);
    if (!seen.has(parents.join())) seen.set(parents.join(), parents);
  }
  return [...seen.values()];
}
