// What a recall tells its caller. The lists are there at once; the legs behind `survivors` and `reasons` stand in the
// spines, and are read when someone looks: they tell the moment of the call, whatever was recalled since.

import { NO_IDS } from "./arrays.ts";
import { planId } from "./chain.ts";
import type { IdList } from "./codec.ts";
import type { AgentCore } from "./core.ts";
import { CheeseError } from "./errors.ts";
import type { Graph } from "./graph.ts";
import type { AgentPlace } from "./log.ts";
import { type Decision, survivorsOf } from "./recall.ts";
import type { Records } from "./records.ts";
import type { AgentState } from "./state.ts";
import type { EntryId, Mode, Outcome, Plan, Reason, Survivor } from "./terms.ts";

/** Of a decision that is not carried out yet. */
export function planIdOf({ place, graph, log }: AgentState, decision: Decision): string {
  return idOf(place, decision, survivorsOf(graph, decision, log.end.record));
}

function idOf({ ids }: AgentPlace, decision: Decision, survivors: IdList): string {
  const { mode, disposal, targets, removed, erased } = decision;
  return planId(ids.agentId, mode, disposal, { targets, removed, survivors, erased });
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

/** What a recall would do. */
export function toPreview(core: AgentCore, state: AgentState, decision: Decision): Outcome {
  return outcomeOf(core, state, decision, { dryRun: true, record: null });
}

/** What a recall would do in the mode chosen, and in short in the others. */
export function toPlan(
  core: AgentCore,
  state: AgentState,
  decisions: Record<Mode, Decision>,
  chosen: Mode,
): Plan {
  const outcome = toPreview(core, state, decisions[chosen]);
  const alternative = (mode: Mode) => {
    const { removed, erased } = decisions[mode];
    const survivors = survivorsOf(state.graph, decisions[mode], state.log.end.record);
    return {
      plan: idOf(state.place, decisions[mode], survivors),
      removed: toList(removed),
      survivors: toList(survivors),
      erased: toList(erased),
    };
  };
  return Object.assign(outcome, {
    id: outcome.plan,
    isNoop: decisions[chosen].isNoop,
    alternatives: {
      fair: alternative("fair"),
      strict: alternative("strict"),
      contact: alternative("contact"),
    },
  });
}

/** Why a plan is not carried out: it is of another mode or disposal than the call; or the memory has changed since. */
export function staleness(given: string, plan: Plan): CheeseError {
  const [, mode, disposal] =
    /^(fair|strict|contact)-(untrusted|erase)-[0-9a-f]{16}$/.exec(given) ?? [];
  const differs: string[] = [];
  const wanted: string[] = [];
  const flags: string[] = [];
  const say = (word: string, to: string, flag: string | null, other: string | null) => {
    differs.push(word);
    wanted.push(to);
    if (other !== null) flags.push(`leave out --${other}`);
    if (flag !== null) flags.push(`add --${flag}`);
  };
  const flagOf = (mode: string) => (mode === "fair" ? null : mode);
  if (mode !== undefined && mode !== plan.mode)
    say(
      `is ${mode}, and this call ${plan.mode}`,
      `mode "${mode}"`,
      flagOf(mode),
      flagOf(plan.mode),
    );
  if (disposal === "erase" && plan.disposal !== "erase")
    say("erases, and this call does not", 'disposal "erase"', "erase", null);
  if (disposal === "untrusted" && plan.disposal !== "untrusted")
    say("does not erase, and this call does", 'disposal "untrusted"', null, "erase");
  if (differs.length === 0) {
    const message = `the recall would no longer do what plan ${given} showed; it is ${plan.id} now`;
    return new CheeseError("PLAN_STALE", message, { plan });
  }
  return new CheeseError("PLAN_STALE", `plan ${given} ${differs.join("; it ")}`, {
    plan,
    hint: `Give what it was made with: ${wanted.join(", ")} (on the command line, ${flags.join(", ")}).`,
  });
}

function outcomeOf(
  core: AgentCore,
  state: AgentState,
  decision: Decision,
  { dryRun, record }: { dryRun: boolean; record: number | null },
): Outcome {
  const lists = new LazyLists(core, state, decision, record);
  const outcome = {
    targets: toList(decision.targets),
    mode: decision.mode,
    disposal: decision.disposal,
    dryRun,
    plan: "",
    removed: toList(decision.removed),
    survivors: [],
    erased: toList(decision.erased),
    reasons: [],
    record,
  };
  for (const key of ["plan", "survivors", "reasons"] as const) {
    Object.defineProperty(outcome, key, {
      get: () => lists[key],
      enumerable: true,
      configurable: true,
    });
  }
  if (!decision.isNoop) core.beforeClose(new WeakRef(lists));
  return outcome;
}

/** By hand: an array spread from a typed one goes through its iterator, a step a number. */
function toList(ids: IdList): EntryId[] {
  const list = new Array<EntryId>(ids.length);
  for (let i = 0; i < ids.length; i++) list[i] = ids[i] as number;
  return list;
}

/**
 * The lists that need spines, read at their first reading. What held at the moment of the call is told from what has died
 * since: every entry knows the record that killed it.
 */
class LazyLists {
  readonly #core: AgentCore;
  readonly #decision: Decision;
  /** The moment of the call. */
  readonly #record: number;
  readonly #legCount: number;
  #plan: string | null = null;
  #surviving: IdList | null = null;
  #survivors: Survivor[] | null = null;
  #reasons: Reason[] | null = null;

  constructor(
    core: AgentCore,
    { graph, log }: AgentState,
    decision: Decision,
    record: number | null,
  ) {
    this.#core = core;
    this.#decision = decision;
    this.#record = record ?? log.end.record;
    this.#legCount = graph.legCount;
  }

  get plan(): string {
    const { place } = this.#core;
    const decision = this.#decision;
    if (decision.losers.length === 0) this.#plan ??= idOf(place, decision, NO_IDS);
    this.#plan ??= this.#core.readSpines(({ graph }) =>
      idOf(place, decision, this.#survivingIn(graph)),
    );
    return this.#plan;
  }

  #survivingIn(graph: Graph): IdList {
    this.#surviving ??= survivorsOf(graph, this.#decision, this.#record);
    return this.#surviving;
  }

  get survivors(): Survivor[] {
    if (this.#decision.losers.length === 0) return [];
    this.#survivors ??= this.#core.readSpines((records) => {
      const dying = new Set([...this.#decision.targets, ...this.#decision.removed]);
      const lived = (entry: EntryId) =>
        !dying.has(entry) && records.graph.livedAt(entry, this.#record);
      return Array.from(this.#survivingIn(records.graph), (id) => ({
        id,
        heldBy: records
          .legs(id, undefined, this.#legCount)
          .filter((leg) => leg.every(lived))
          .map((leg) => [...leg]),
      }));
    });
    return this.#survivors;
  }

  get reasons(): Reason[] {
    const { removed } = this.#decision;
    if (removed.length === 0) return [];
    const { leg: legs, parent: parents } = this.#decision.reasons;
    this.#reasons ??= this.#core.readSpines((records) =>
      Array.from(removed, (id, i): Reason => {
        const leg = legs[i] as number;
        const brokenBy = parents[i] as number;
        return leg === -1
          ? { id, leg: [], brokenBy, through: "seen" }
          : { id, leg: parentsOf(records, leg), brokenBy, through: "leg" };
      }),
    );
    return this.#reasons;
  }

  materialise() {
    void this.plan;
    void this.survivors;
    void this.reasons;
  }
}

function parentsOf(records: Records, leg: number): EntryId[] {
  return [...records.parents(leg)];
}
