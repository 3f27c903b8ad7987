// All text for people: one function a result.
//
// Everything that came from a source, a label or a name passes `plain` before it reaches a terminal.

import type {
  AgentFailure,
  AgentListing,
  AgentStats,
  CheeseError,
  Compaction,
  EntryId,
  EntryWhole,
  EntryWithText,
  FindReport,
  HistoryRecord,
  ImportReport,
  Kind,
  Leg,
  Mode,
  Outcome,
  Plan,
  SupportEntry,
  VerifyReport,
  Why,
} from "../index.ts";
import {
  bytesInWords,
  cut,
  eitherOf,
  ids,
  pad,
  plain,
  plural,
  quoted,
  type Style,
  some,
  width,
} from "./style.ts";

const TREE_LINES_MAX = 2000;
const ROWS_MAX = 20;

/** What a recall's rows say of each entry, where the command knows it. */
export interface Named {
  kind: Kind;
  label: string | null;
  text: string | null;
  uri: string | null;
}

const EMPTY = " (its text is empty)";

/** What is less than a block of the disk is not worth the rewriting. */
const WORTH_COMPACTING_BYTES = 4096;

/** The mode, and what becomes of the texts. */
function howFar({ mode, disposal }: Outcome): string {
  return `(${mode}, ${disposal === "erase" ? "erase" : "untrusted: texts hidden"})`;
}

function recalledBefore(targets: readonly EntryId[]): string {
  return `${ids(targets)} ${targets.length === 1 ? "was" : "were"} recalled so before: there is nothing to do.`;
}

export class Renderer {
  readonly style: Style;

  constructor(style: Style) {
    this.style = style;
  }

  failure({ message, hint }: CheeseError): string {
    return `${this.style.chalk.red("Error:")} ${plain(message)}.\n${plain(hint)}\n`.replace(
      "..\n",
      ".\n",
    );
  }

  // ----- agents -----

  agentCreated({ agent, token }: { agent: { name: string }; token: string }): string {
    const name = plain(agent.name);
    return [
      `Agent "${name}" created.`,
      "",
      `  ${this.style.chalk.bold(token)}`,
      "",
      "This is its token, shown this once. It is also kept in the store, for the commands on this machine.",
      this.style.next(
        `cheesedb lot ${name.startsWith("-") ? "-- " : ""}${quoted(name)} user_message "I live in Pune"`,
      ),
    ].join("\n");
  }

  agents({ agents }: { agents: AgentListing[] }): string {
    if (agents.length === 0)
      return `No agents yet.\n${this.style.next("cheesedb agent create NAME")}`;
    const rows = agents.map(({ name, id, lots, memories, alive, bytes, created, damaged }) => [
      this.style.chalk.bold(plain(name)),
      damaged
        ? this.style.chalk.red(`damaged (${damaged.code}), ${id}`)
        : `${plural(lots, "lot")}, ${plural(memories, "memory")}`,
      damaged ? "" : `${alive.toLocaleString("en-US")} alive`,
      bytesInWords(bytes),
      this.style.dim(created.slice(0, 10)),
    ]);
    return this.style.table(rows);
  }

  agentDeleted({ deleted, bytes }: { deleted: string; bytes: number }): string {
    return `Agent "${plain(deleted)}" deleted: its texts zeroed, its files (${bytesInWords(bytes)}) removed.`;
  }

  // ----- adding -----

  /** @param isEmpty said, since a variable that is not set looks so */
  lotAdded({ id, label }: { id: EntryId; label: string }, isEmpty: boolean): string {
    return `Added lot ${this.style.id(id)} ${plain(label)}${isEmpty ? EMPTY : ""}`;
  }

  memoryAdded({ id, legs }: { id: EntryId; legs: EntryId[][] }, isEmpty: boolean): string {
    return `Added memory ${this.style.id(id)} ${this.style.legs(legs)}${isEmpty ? EMPTY : ""}`;
  }

  corroborated({ id, legs }: { id: EntryId; legs: EntryId[][] }, isNew: boolean): string {
    return isNew
      ? `Memory ${this.style.id(id)} now stands on ${eitherOf(legs)}`
      : `Memory ${this.style.id(id)} stands on ${eitherOf(legs)} already: nothing was changed.`;
  }

  // ----- looking -----

  list({ lots, memories }: { lots: EntryWithText[]; memories: EntryWithText[] }): string {
    const parts: string[] = [];
    const idColumns =
      String([...lots, ...memories].reduce((most, { id }) => Math.max(most, id), 0)).length + 2;
    const idOf = (id: EntryId) => this.style.chalk.bold(pad(`[${id}]`, idColumns));
    if (lots.length > 0) {
      const labelColumns = Math.min(
        24,
        lots.reduce((most, { label }) => Math.max(most, width(plain(label ?? ""))), 0),
      );
      parts.push(this.style.chalk.underline("Lots"));
      for (const { id, label, text, uri, state, erased } of lots) {
        const mark = this.style.mark(state, erased);
        const room =
          this.style.columns - idColumns - labelColumns - 8 - (state === "alive" ? 0 : 20);
        const source = uri ? this.style.dim(`  ${cut(plain(uri), 40)}`) : "";
        parts.push(
          `  ${idOf(id)} ${this.style.chalk.yellow(pad(cut(plain(label ?? ""), labelColumns), labelColumns))}  ${this.style.dead(this.style.text(text, room), state)}${source}${mark}`,
        );
      }
    }
    if (memories.length > 0) {
      if (parts.length > 0) parts.push("");
      parts.push(this.style.chalk.underline("Memories"));
      const texts = memories.map(({ text }) =>
        this.style.text(text, this.style.columns - idColumns - 34),
      );
      const textColumns = Math.min(
        60,
        memories.reduce(
          (most, { text }) => Math.max(most, width(text === null ? "(erased)" : plain(text))),
          0,
        ),
      );
      for (const [i, { id, text, legs, state, erased }] of memories.entries()) {
        const shown = texts[i] as string;
        const gap = " ".repeat(
          Math.max(0, textColumns - width(text === null ? "(erased)" : shown)),
        );
        parts.push(
          `  ${idOf(id)} ${this.style.dead(shown, state)}${gap}  ${this.style.legs(legs.map(({ parents }) => parents))}${this.style.mark(state, erased)}`,
        );
      }
    }
    return parts.length === 0 ? "Nothing here." : parts.join("\n");
  }

  entry({ entry }: { entry: EntryWhole }): string {
    const { id, kind, label, state, erased, time, text, uri, legs, seen, builtOnThis } = entry;
    const lines = [
      `${this.style.id(id)} ${kind}${label === null ? "" : ` ${this.style.chalk.yellow(plain(label))}`}${this.style.mark(state, erased)}  ${this.style.dim(time)}`,
      ...(text === null ? [this.style.chalk.dim("(erased)")] : text.split("\n").map(plain)).map(
        (line) => `    ${line}`,
      ),
    ];
    if (uri !== null) lines.push(`  from   ${plain(uri)}`);
    for (const leg of legs) lines.push(`  ${this.#leg(leg)}`);
    if (seen)
      lines.push(
        `  seen   ${seen.length > ROWS_MAX ? `${plural(seen.length, "entry")}` : ids(seen)}`,
      );
    if (builtOnThis.length > 0)
      lines.push(
        `  built on this: ${builtOnThis.length > ROWS_MAX ? plural(builtOnThis.length, "memory") : ids(builtOnThis)}`,
      );
    return lines.join("\n");
  }

  #leg({ parents, holds }: Leg): string {
    return `${this.style.chalk.dim("←")} ${ids(parents)}  ${holds ? this.style.chalk.green("holds") : this.style.chalk.red("broken")}`;
  }

  /** The support as a tree; an entry shown before is named again, not expanded. */
  why(why: Why): string {
    const { entry } = why;
    if ("killedBy" in why) return this.#whyDead(why);
    const support = new Map<EntryId, EntryWithText | SupportEntry>(
      why.support.map((entry) => [entry.id, entry]),
    );
    support.set(entry.id, entry);
    const lines: string[] = [this.#node(entry)];
    const shown = new Set([entry.id]);
    /** What is still to be drawn, the next one last. */
    const open: {
      prefix: string;
      isLast: boolean;
      word: string;
      parents: EntryId[];
      isBroken: boolean;
    }[] = [];
    const push = (at: EntryWithText | SupportEntry, prefix: string) => {
      for (const [i, { parents, holds }] of [...at.legs.entries()].reverse()) {
        const word = at.legs.length === 1 ? "" : i === 0 ? "either " : "or ";
        open.push({ prefix, isLast: i === at.legs.length - 1, word, parents, isBroken: !holds });
      }
    };
    push(entry, "");
    for (
      let next = open.pop();
      next !== undefined && lines.length < TREE_LINES_MAX;
      next = open.pop()
    ) {
      const { prefix, isLast, word, parents, isBroken } = next;
      const branch = `${prefix}${isLast ? "└─ " : "├─ "}`;
      const below = `${prefix}${isLast ? "   " : "│  "}`;
      const broken = isBroken ? this.style.chalk.red("  ✗ broken") : "";
      if (parents.length > 1) {
        lines.push(`${this.style.dim(branch)}${this.style.dim(`${word}all of`)}${broken}`);
        for (const [i, parent] of [...parents.entries()].reverse()) {
          open.push({
            prefix: below,
            isLast: i === parents.length - 1,
            word: "",
            parents: [parent],
            isBroken: false,
          });
        }
        continue;
      }
      const parent = parents[0] as EntryId;
      const found = support.get(parent);
      if (!found) {
        lines.push(
          `${this.style.dim(branch)}${this.style.dim(word)}${this.style.id(parent)}${broken} ${this.style.dim("…")}`,
        );
      } else if (shown.has(parent)) {
        const again = found.legs.length > 0 ? this.style.dim(" (above)") : "";
        lines.push(`${this.style.dim(branch)}${this.style.dim(word)}${this.#node(found)}${again}`);
      } else {
        shown.add(parent);
        // That the leg is broken, the mark of its one parent says.
        lines.push(`${this.style.dim(branch)}${this.style.dim(word)}${this.#node(found)}`);
        push(found, below);
      }
    }
    if (open.length > 0) lines.push(this.style.dim("… the tree is larger; --json gives all of it"));
    if (why.more > 0)
      lines.push(this.style.dim(`… and ${plural(why.more, "entry")} below: --depth N goes deeper`));
    return lines.join("\n");
  }

  #node({ id, label, text, state }: Pick<SupportEntry, "id" | "label" | "text" | "state">): string {
    const name = label === null ? "" : `${this.style.chalk.yellow(plain(label))}: `;
    return `${this.style.id(id)} ${name}${this.style.dead(this.style.text(text, this.style.columns - 30), state)}${this.style.mark(state)}`;
  }

  #whyDead({ entry, killedBy }: Extract<Why, { killedBy: unknown }>): string {
    const lines = [this.#node(entry)];
    if (!killedBy) {
      lines.push("It was imported dead; the recall that took it is not in this history.");
      return lines.join("\n");
    }
    const { record, targets, mode, time, path } = killedBy;
    const isTarget = targets.includes(entry.id);
    lines.push(
      isTarget
        ? `It was recalled by record ${record} (${mode}) on ${time}.`
        : `It died by the ${mode} recall of ${ids(targets)}, record ${record}, on ${time}.`,
    );
    if (path.length > 1) lines.push(`The way: ${path.map((id) => `[${id}]`).join(" → ")}`);
    return lines.join("\n");
  }

  history({ records }: { records: HistoryRecord[] }): string {
    if (records.length === 0) return "Nothing has happened yet.";
    const numberColumns = String(records.at(-1)?.record ?? 0).length;
    return records.map((record) => this.#record(record, numberColumns)).join("\n");
  }

  #record(record: HistoryRecord, numberColumns: number): string {
    const head = `${String(record.record).padStart(numberColumns)}  ${this.style.dim(`${record.time.replace("T", " ").slice(0, 19)}Z`)}  `;
    const room = this.style.columns - numberColumns - 50;
    switch (record.kind) {
      case "lot":
        return `${head}lot         ${this.style.id(record.id)} ${this.style.chalk.yellow(plain(record.label))}: ${this.style.dead(this.style.text(record.text, room), record.state)}${this.style.mark(record.state)}`;
      case "memory":
        return `${head}memory      ${this.style.id(record.id)} ${this.style.dead(this.style.text(record.text, room), record.state)} ${this.style.legs(record.legs)}${this.style.mark(record.state)}`;
      case "corroborate":
        return `${head}corroborate ${this.style.id(record.memory)} ${this.style.legs([record.leg])}`;
      case "recall": {
        const { targets, mode, disposal, removed, erased } = record;
        const took = removed.length > 0 ? `, took ${some(removed)}` : ", took nothing more";
        const gone = erased.length > 0 ? `, erased ${some(erased)}` : "";
        return `${head}${this.style.chalk.red("recall")}      ${some(targets)} (${mode}, ${disposal})${took}${gone}`;
      }
      case "drop":
        return `${head}compact     dropped the texts of ${some(record.erased)}`;
    }
  }

  // ----- recalling -----

  /** What would go and what would stay, in the mode asked for, and the three modes side by side. */
  plan(
    plan: Plan,
    agent: string,
    named: ReadonlyMap<EntryId, Named>,
    { isAsked = false }: { isAsked?: boolean } = {},
  ): string {
    const { targets, mode, removed, erased, alternatives, id, isNoop } = plan;
    const lines = [
      `${this.style.chalk.bold("Plan")} for recalling ${this.#list(targets, named)} ${howFar(plan)}. Nothing has been changed.`,
      ...this.#rows(plan, named, { bad: "bad", goes: "goes", stays: "stays" }),
    ];
    if (isNoop) return [...lines, `  ${recalledBefore(targets)}`].join("\n");
    if (removed.length === 0) lines.push("  Nothing else goes.");
    if (erased.length > 0)
      lines.push(`  ${plural(erased.length, "text")} would be erased: ${some(erased)}`);
    lines.push("");
    for (const each of ["fair", "strict", "contact"] as Mode[]) {
      const { removed, survivors } = alternatives[each];
      const here = each === mode ? this.style.chalk.cyan(" ◂ this plan") : "";
      const saved = survivors.length > 0 ? `, ${plural(survivors.length, "survivor")}` : "";
      lines.push(
        `  ${pad(each, 8)} ${removed.length === 0 ? "takes nothing more" : `takes ${some(removed)}`}${saved}${here}`,
      );
    }
    if (isAsked) return lines.join("\n");
    const flags = `${mode === "fair" ? "" : ` --${mode}`}${plan.disposal === "erase" ? " --erase" : ""}`;
    lines.push(
      "",
      this.style.next(`cheesedb recall ${quoted(agent)} ${targets.join(" ")}${flags} --plan ${id}`),
    );
    return lines.join("\n");
  }

  /** @param left what stands in the files after it: whether texts of what it took do, and bytes that a compaction gives back */
  recalled(
    outcome: Outcome,
    agent: string,
    named: ReadonlyMap<EntryId, Named>,
    left: { hasTexts: boolean; erasedBytes: number },
  ): string {
    const { targets, mode, removed, survivors, erased, record } = outcome;
    if (record === null) return recalledBefore(targets);
    const lines = [
      `${this.style.chalk.bold("Recalled")} ${this.#list(targets, named)} ${howFar(outcome)}.`,
      ...this.#rows(outcome, named, { goes: "went", stays: "stays" }),
    ];
    if (removed.length === 0) lines.push("  Nothing else went.");
    if (erased.length > 0)
      lines.push(`  ${plural(erased.length, "text")} erased from the files: ${some(erased)}`);
    const name = quoted(agent);
    if (erased.length > 0) {
      if (survivors.length > 0) {
        const flags = `${mode === "fair" ? "" : ` --${mode}`} --erase`;
        lines.push(
          `  Survivors keep their texts, even where they repeat what was erased. To take one too: cheesedb recall ${name} ID${flags}`,
        );
      }
      lines.push(
        this.style.next(`cheesedb find "words of it" --absent  proves that they are gone`),
      );
      if (left.erasedBytes >= WORTH_COMPACTING_BYTES)
        lines.push(`      cheesedb compact ${name}  gives their space back`);
    } else if (left.hasTexts) {
      lines.push(
        this.style.next(
          `the texts are hidden, and still in the files: "cheesedb compact ${name}" drops them,`,
        ),
      );
      lines.push(
        `      "cheesedb recall ${name} ${targets.join(" ")} --erase" erases them at once`,
      );
    } else {
      const whose = targets.length + removed.length === 1 ? "Its text was" : "Their texts were";
      lines.push(`  ${whose} gone from the files before.`);
    }
    return lines.join("\n");
  }

  #list(list: readonly EntryId[], named: ReadonlyMap<EntryId, Named>): string {
    if (list.length > 3) return some(list);
    return list
      .map((id) => {
        const label = named.get(id)?.label;
        return `${this.style.id(id)}${label ? ` ${this.style.chalk.yellow(plain(label))}` : ""}`;
      })
      .join(", ");
  }

  #rows(
    { removed, survivors, reasons, targets }: Outcome,
    named: ReadonlyMap<EntryId, Named>,
    words: { bad?: string; goes: string; stays: string },
  ): string[] {
    const rows: string[][] = [];
    const textOf = (id: EntryId) => {
      const entry = named.get(id);
      if (!entry) return "";
      return `${entry.label === null ? "" : `${plain(entry.label)}: `}${this.style.text(entry.text, Math.min(this.style.columns - 45, 50))}`;
    };
    for (const [i, id] of (words.bad ? targets.slice(0, ROWS_MAX) : []).entries()) {
      const uri = named.get(id)?.uri;
      rows.push([
        i === 0 ? this.style.chalk.yellow(words.bad as string) : "",
        this.style.id(id),
        textOf(id),
        uri ? this.style.dim(cut(plain(uri), 60)) : "",
      ]);
    }
    if (words.bad && targets.length > ROWS_MAX)
      rows.push(["", this.style.dim(`… and ${targets.length - ROWS_MAX} more`), "", ""]);
    const why = new Map(reasons.slice(0, ROWS_MAX).map((reason) => [reason.id, reason]));
    for (const [i, id] of removed.slice(0, ROWS_MAX).entries()) {
      const reason = why.get(id);
      const because = !reason
        ? ""
        : reason.through === "seen"
          ? `it was written with [${reason.brokenBy}] in view`
          : `leg ${ids(reason.leg)} broke${reason.leg.length > 1 || !targets.includes(reason.brokenBy) ? ` with [${reason.brokenBy}]` : ""}`;
      rows.push([
        i === 0 ? this.style.chalk.red(words.goes) : "",
        this.style.id(id),
        textOf(id),
        this.style.dim(because),
      ]);
    }
    if (removed.length > ROWS_MAX)
      rows.push(["", this.style.dim(`… and ${removed.length - ROWS_MAX} more`), "", ""]);
    for (const [i, { id, heldBy }] of survivors.slice(0, ROWS_MAX).entries()) {
      rows.push([
        i === 0 ? this.style.chalk.green(words.stays) : "",
        this.style.id(id),
        textOf(id),
        this.style.dim(`held by ${heldBy.map(ids).join(" or ")}`),
      ]);
    }
    if (survivors.length > ROWS_MAX)
      rows.push(["", this.style.dim(`… and ${survivors.length - ROWS_MAX} more`), "", ""]);
    return this.style
      .table(rows, "  ")
      .split("\n")
      .filter((line) => line !== "");
  }

  // ----- chores -----

  found(
    { text, count, matches, filesScanned, bytesScanned, unsearched, unerased }: FindReport,
    { agent, ignoreCase = false }: { agent?: string | undefined; ignoreCase?: boolean } = {},
  ): string {
    const lines = matches.map(
      ({ file, offset, excerpt }) =>
        `${this.style.chalk.magenta(plain(file))}${this.style.dim(":")}${offset}${this.style.dim(":")} ${plain(excerpt)}`,
    );
    if (count > matches.length)
      lines.push(this.style.dim(`… and ${count - matches.length} places more`));
    const minded =
      count === 0 && !ignoreCase && text.toLowerCase() !== text.toUpperCase()
        ? "; -i ignores case"
        : "";
    const searched = this.style.dim(
      `(${plural(filesScanned, "file")}, ${bytesInWords(bytesScanned)} searched${minded})`,
    );
    const zero = unerased?.length === 0 ? ", and the place of every erased text is all zero" : "";
    lines.push(
      count === 0
        ? `"${cut(plain(text), 60)}" stands nowhere in ${agent === undefined ? "the store" : `the files of "${plain(agent)}"`}${zero}. ${searched}`
        : `${plural(count, "place")}. ${searched}`,
    );
    for (const name of unsearched) lines.push(this.style.chalk.red(`Not searched: ${plain(name)}`));
    for (const { agent, entry } of unerased ?? []) {
      lines.push(
        this.style.chalk.red(
          entry === null
            ? `Agent "${plain(agent)}" is damaged, and cannot be asked.`
            : `Entry ${entry} of "${plain(agent)}" was erased, and its place is not all zero.`,
        ),
      );
    }
    return lines.join("\n");
  }

  verified({
    agent,
    records,
    segments,
    bytes,
    head,
    expected,
    tornBytes,
    erasesPending,
    headMark,
    snapshot,
  }: VerifyReport): string {
    const lines = [
      `${this.style.chalk.green("✓")} "${plain(agent)}": ${plural(records, "record")} in ${plural(segments, "segment")}, ${bytesInWords(bytes)}; every one checks.`,
      `  head  ${head.fingerprint}`,
    ];
    if (expected)
      lines.push(
        `  The head that you expected is part of this history; ${plural(expected.recordsSince, "record")} came since.`,
      );
    if (tornBytes > 0)
      lines.push(
        `  Behind it stands a write that was cut short (${tornBytes} bytes); it may have been acknowledged, and the next write drops it.`,
      );
    if (erasesPending > 0)
      lines.push(
        `  ${plural(erasesPending, "text")} of an erase that a crash left unfinished; the next write finishes it.`,
      );
    if (headMark !== "ok") lines.push(`  The head mark: ${headMark}. The next write mends it.`);
    if (snapshot === "damaged")
      lines.push("  The snapshot is damaged, and will be made anew: it is a cache.");
    return lines.join("\n");
  }

  verifiedAll({ agents }: { ok: boolean; agents: (VerifyReport | AgentFailure)[] }): string {
    if (agents.length === 0) return "No agents to verify.";
    return agents
      .map((agent) => (agent.ok ? this.verified(agent) : this.#damaged(agent)))
      .join("\n");
  }

  #damaged({ agent, error, problems }: AgentFailure): string {
    const lines = [`${this.style.chalk.red("✗")} "${plain(agent)}": ${plain(error.message)}`];
    for (const { message, file, offset } of (problems ?? []).slice(0, ROWS_MAX)) {
      const where =
        file === undefined
          ? ""
          : this.style.dim(`  ${plain(file)}${offset === undefined ? "" : `, offset ${offset}`}`);
      lines.push(`    ${plain(message)}${where}`);
    }
    return lines.join("\n");
  }

  compacted({ before, after, reclaimed, textsDropped }: Compaction): string {
    const dropped =
      textsDropped === 0
        ? "No text had to be dropped"
        : `${plural(textsDropped, "text")} of the dead dropped`;
    return `${dropped}; ${bytesInWords(Math.max(reclaimed, 0))} came back (${bytesInWords(before)} → ${bytesInWords(after)}).`;
  }

  stats(stats: AgentStats): string {
    const share = `${(stats.deadShare * 100).toFixed(0)} %`;
    return this.style.table(
      [
        ["agent", `${plain(stats.agent)}  ${this.style.dim(stats.id)}`],
        [
          "entries",
          `${plural(stats.lots, "lot")}, ${plural(stats.memories, "memory")}; ${stats.alive} alive, ${stats.dead} dead`,
        ],
        ["legs", `${stats.legs}; the longest chain is ${plural(stats.depth, "memory")} deep`],
        ["records", `${stats.records}, ${plural(stats.recalls, "recall")} among them`],
        ["files", `${bytesInWords(stats.bytes)} in ${plural(stats.segments, "segment")}`],
        [
          "texts",
          `${bytesInWords(stats.textBytes)}, ${share} of it of the dead${stats.deadTextBytes > 0 ? ` (cheesedb compact ${quoted(stats.agent)})` : ""}`,
        ],
      ].map(([name, value]) => [this.style.dim(name as string), value as string]),
    );
  }

  statsAll({ agents }: { agents: (AgentStats | AgentFailure)[] }): string {
    if (agents.length === 0) return "No agents yet.";
    return agents
      .map((agent) => ("error" in agent ? this.#damaged(agent) : this.stats(agent)))
      .join("\n\n");
  }

  /** Lines that go and come in a file: for someone who is to agree. */
  change({ file, before, after }: { file: string; before: string | null; after: string }): string {
    const old = (before ?? "").split("\n");
    const lines = after.trimEnd().split("\n");
    const gone = old.filter((line) => line.trim() !== "" && !lines.includes(line));
    const shown = lines.map((line) =>
      old.includes(line) ? `  ${line}` : this.style.chalk.green(`+ ${line}`),
    );
    const removed = gone.map((line) => this.style.chalk.red(`- ${line}`));
    return [this.style.chalk.bold(plain(file)), ...removed, ...shown].join("\n");
  }

  exported({ records, bytes, file }: { records: number; bytes: number; file: string }): string {
    return `${plural(records, "record")} written to ${plain(file)} (${bytesInWords(bytes)}).`;
  }

  imported({ lots, memories, recalls, ids }: ImportReport): string {
    const range = ids.length === 0 ? "" : `, as [${ids[0]?.[1]}] to [${ids.at(-1)?.[1]}]`;
    return `Imported ${plural(lots, "lot")}, ${plural(memories, "memory")} and ${plural(recalls, "recall")}${range}.`;
  }

  doctor({
    checks,
  }: {
    checks: { name: string; ok: boolean; detail: string; hint?: string }[];
  }): string {
    return checks
      .map(({ name, ok, detail, hint }) => {
        const line = `${ok ? this.style.chalk.green("✓") : this.style.chalk.red("✗")} ${pad(name, 12)} ${plain(detail)}`;
        return ok || !hint
          ? line
          : `${line}\n  ${" ".repeat(12)} ${this.style.chalk.cyan("→")} ${plain(hint)}`;
      })
      .join("\n");
  }
}
