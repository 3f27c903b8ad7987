// What a recall tells its caller. The lists are there at once; the legs behind `survivors` and `reasons` stand in the
// spines, and are read when someone looks: they tell the moment of the call, since leg numbers and spines never change.

import { planId } from "./chain.ts";
import type { AgentCore } from "./core.ts";
import type { Decision } from "./recall.ts";
import type { Records } from "./records.ts";
import type { AgentState } from "./state.ts";
import type { EntryId, Mode, Outcome, Plan, Reason, Survivor } from "./terms.ts";

export function planIdOf(state: AgentState, decision: Decision): string {
  return planId(state.place.ids.agentId, decision.mode, decision.disposal, decision);
}

/** The outcome of a recall that was carried out, after it was applied; or of one that changes nothing. */
export function toOutcome(
  core: AgentCore,
  state: AgentState,
  decision: Decision,
  record: number | null,
): Outcome {
  return outcomeOf(core, state, decision, { dryRun: false, record });
}

/** What a recall would do in the mode chosen, and in short in the others. */
export function toPlan(
  core: AgentCore,
  state: AgentState,
  decisions: Record<Mode, Decision>,
  chosen: Mode,
): Plan {
  const outcome = outcomeOf(core, state, decisions[chosen], { dryRun: true, record: null });
  const alternative = (mode: Mode) => {
    const { removed, survivors, erased } = decisions[mode];
    return {
      plan: planIdOf(state, decisions[mode]),
      removed: [...removed],
      survivors: [...survivors],
      erased: [...erased],
    };
  };
  return Object.assign(outcome, {
    id: outcome.plan,
    alternatives: {
      fair: alternative("fair"),
      strict: alternative("strict"),
      contact: alternative("contact"),
    },
  });
}

function outcomeOf(
  core: AgentCore,
  state: AgentState,
  decision: Decision,
  { dryRun, record }: { dryRun: boolean; record: number | null },
): Outcome {
  const lists = new LazyLists(core, state, decision);
  const outcome = {
    targets: [...decision.targets],
    mode: decision.mode,
    disposal: decision.disposal,
    dryRun,
    plan: planIdOf(state, decision),
    removed: [...decision.removed],
    survivors: [],
    erased: [...decision.erased],
    reasons: [],
    record,
  };
  for (const key of ["survivors", "reasons"] as const) {
    Object.defineProperty(outcome, key, {
      get: () => lists[key],
      enumerable: true,
      configurable: true,
    });
  }
  if (decision.removed.length + decision.survivors.length > 0) core.beforeClose(new WeakRef(lists));
  return outcome;
}

/** The lists that need spines, read at their first reading. */
class LazyLists {
  readonly #core: AgentCore;
  readonly #decision: Decision;
  /** The numbers of the legs that hold each survivor. */
  readonly #holding: number[][];
  #survivors: Survivor[] | null = null;
  #reasons: Reason[] | null = null;

  constructor(core: AgentCore, { graph, records }: AgentState, decision: Decision) {
    this.#core = core;
    this.#decision = decision;
    const breaks = new Set(decision.brokenLegs);
    this.#holding = Array.from(decision.survivors, (entry, i) =>
      records
        .legNumbers(entry, decision.survivorLeg[i] as number)
        .filter((leg) => !graph.legIsBroken(leg) && !breaks.has(leg)),
    );
  }

  get survivors(): Survivor[] {
    const { survivors } = this.#decision;
    if (survivors.length === 0) return [];
    this.#survivors ??= this.#core.readSpines((records) =>
      Array.from(survivors, (id, i) => ({
        id,
        heldBy: (this.#holding[i] as number[]).map((leg) => parentsOf(records, leg)),
      })),
    );
    return this.#survivors;
  }

  get reasons(): Reason[] {
    const { removed, reasonLeg, reasonParent } = this.#decision;
    if (removed.length === 0) return [];
    this.#reasons ??= this.#core.readSpines((records) =>
      Array.from(removed, (id, i): Reason => {
        const leg = reasonLeg[i] as number;
        const brokenBy = reasonParent[i] as number;
        return leg === -1
          ? { id, leg: [], brokenBy, through: "seen" }
          : { id, leg: parentsOf(records, leg), brokenBy, through: "leg" };
      }),
    );
    return this.#reasons;
  }

  materialise() {
    void this.survivors;
    void this.reasons;
  }
}

function parentsOf(records: Records, leg: number): EntryId[] {
  return [...records.parents(leg)];
}
