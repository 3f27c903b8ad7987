// All text for people: one function a result, and the escaping of what came from sources. The only import of chalk.
//
// Everything that came from a source, a label or a name passes `plain` before it reaches a terminal.

import { Chalk, type ChalkInstance } from "chalk";
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
  State,
  SupportEntry,
  VerifyReport,
  Why,
} from "../index.ts";

const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\uFFFE\uFFFF]/gu;
/** Joiners that emoji and scripts are written with; they move nothing. */
const HARMLESS = new Set(["\u200c", "\u200d"]);

/** A text from a source, with control, escape and direction characters shown and not sent. */
export function plain(text: string): string {
  return text.replace(CONTROLS, (c) => {
    if (HARMLESS.has(c)) return c;
    if (c === "\n") return "⏎";
    if (c === "\t") return "⇥";
    const code = c.codePointAt(0) as number;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

/** Columns that a text takes: wide characters two, marks none. Close enough for columns to line up. */
function width(text: string): number {
  let columns = 0;
  for (const c of text) {
    if (/\p{Mn}|\p{Me}|\u200d|\ufe0f/u.test(c)) continue;
    const code = c.codePointAt(0) as number;
    const isWide =
      (code >= 0x1100 && code <= 0x115f) ||
      (code >= 0x2e80 && code <= 0xa4cf) ||
      (code >= 0xac00 && code <= 0xd7a3) ||
      (code >= 0xf900 && code <= 0xfaff) ||
      (code >= 0xfe30 && code <= 0xfe6f) ||
      (code >= 0xff00 && code <= 0xff60) ||
      (code >= 0x1f300 && code <= 0x1faff);
    columns += isWide ? 2 : 1;
  }
  return columns;
}

function pad(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - width(text)));
}

/** One line of at most so many columns. */
function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  let kept = "";
  for (const c of text) {
    if (width(kept + c) > columns - 1) break;
    kept += c;
  }
  return `${kept}…`;
}

const plural = (
  count: number,
  one: string,
  many = one === "memory" ? "memories" : one === "entry" ? "entries" : `${one}s`,
) => `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;

export function bytesInWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = -1;
  do {
    value /= 1024;
    unit++;
  } while (value >= 1024 && unit < units.length - 1);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

const ids = (list: readonly EntryId[]) => list.map((id) => `[${id}]`).join(" and ");
const TREE_LINES_MAX = 2000;
const ROWS_MAX = 20;
const TEXT_COLUMNS_MIN = 20;

/** What a recall's rows say of each entry, where the command knows it. */
export interface Named {
  kind: Kind;
  label: string | null;
  text: string | null;
}

export class Renderer {
  readonly #columns: number;
  readonly #chalk: ChalkInstance;

  constructor(stream: { isTTY?: boolean; columns?: number }, env: NodeJS.ProcessEnv = process.env) {
    const isForced = Boolean(env.FORCE_COLOR && env.FORCE_COLOR !== "0");
    const isColored = !env.NO_COLOR && (isForced || Boolean(stream.isTTY && env.TERM !== "dumb"));
    this.#chalk = new Chalk({ level: isColored ? 1 : 0 });
    // What goes to a file or a pipe is whole.
    this.#columns = stream.isTTY ? (stream.columns ?? 80) : Number.POSITIVE_INFINITY;
  }

  dim(text: string): string {
    return this.#chalk.dim(text);
  }

  failure({ message, hint }: CheeseError): string {
    return `${this.#chalk.red("Error:")} ${plain(message)}.\n${plain(hint)}\n`.replace(
      "..\n",
      ".\n",
    );
  }

  #next(text: string): string {
    return `${this.#chalk.cyan("Next:")} ${text}`;
  }

  #id(id: EntryId): string {
    return this.#chalk.bold(`[${id}]`);
  }

  /** How a dead entry is marked: dimmed and struck out where there is colour, in words everywhere. */
  #dead(text: string, state: State): string {
    return state === "alive" ? text : this.#chalk.dim(this.#chalk.strikethrough(text));
  }

  #mark(state: State, erased = false): string {
    return state === "alive" ? "" : this.#chalk.red(`  ✗ ${state}${erased ? ", erased" : ""}`);
  }

  #legs(legs: readonly (readonly EntryId[])[]): string {
    return legs.length === 0
      ? ""
      : `${this.#chalk.dim("←")} ${legs.map(ids).join(this.#chalk.dim(" or "))}`;
  }

  #text(text: string | null, columns = Number.POSITIVE_INFINITY): string {
    return text === null
      ? this.#chalk.dim("(erased)")
      : cut(plain(text), Math.max(columns, TEXT_COLUMNS_MIN));
  }

  // ----- agents -----

  agentCreated({ agent, token }: { agent: { name: string }; token: string }): string {
    const name = plain(agent.name);
    return [
      `Agent "${name}" created.`,
      "",
      `  ${this.#chalk.bold(token)}`,
      "",
      "This is its token, shown this once. It is also kept in the store, for the commands on this machine.",
      this.#next(`cheesedb lot ${quoted(name)} user_message "I live in Pune"`),
    ].join("\n");
  }

  agents({ agents }: { agents: AgentListing[] }): string {
    if (agents.length === 0) return `No agents yet.\n${this.#next("cheesedb agent create NAME")}`;
    const rows = agents.map(({ name, lots, memories, alive, bytes, created, damaged }) => [
      this.#chalk.bold(plain(name)),
      damaged
        ? this.#chalk.red(`damaged (${damaged.code})`)
        : `${plural(lots, "lot")}, ${plural(memories, "memory")}`,
      damaged ? "" : `${alive} alive`,
      bytesInWords(bytes),
      this.dim(created.slice(0, 10)),
    ]);
    return this.#table(rows);
  }

  agentDeleted({ deleted, bytes }: { deleted: string; bytes: number }): string {
    return `Agent "${plain(deleted)}" deleted: its texts zeroed, its files (${bytesInWords(bytes)}) removed.`;
  }

  // ----- adding -----

  lotAdded({ id, label }: { id: EntryId; label: string }): string {
    return `Added lot ${this.#id(id)} ${plain(label)}`;
  }

  memoryAdded({ id, legs }: { id: EntryId; legs: EntryId[][] }): string {
    return `Added memory ${this.#id(id)} ${this.#legs(legs)}`;
  }

  corroborated({ id, legs }: { id: EntryId; legs: EntryId[][] }): string {
    return `Memory ${this.#id(id)} now stands on ${legs.map(ids).join(" or ")}`;
  }

  // ----- looking -----

  list({ lots, memories }: { lots: EntryWithText[]; memories: EntryWithText[] }): string {
    const parts: string[] = [];
    const idColumns =
      String(Math.max(0, ...lots.map(({ id }) => id), ...memories.map(({ id }) => id))).length + 2;
    const idOf = (id: EntryId) => this.#chalk.bold(pad(`[${id}]`, idColumns));
    if (lots.length > 0) {
      const labelColumns = Math.min(
        24,
        Math.max(...lots.map(({ label }) => width(plain(label ?? "")))),
      );
      parts.push(this.#chalk.underline("Lots"));
      for (const { id, label, text, uri, state, erased } of lots) {
        const mark = this.#mark(state, erased);
        const room = this.#columns - idColumns - labelColumns - 8 - (state === "alive" ? 0 : 20);
        const source = uri ? this.dim(`  ${cut(plain(uri), 40)}`) : "";
        parts.push(
          `  ${idOf(id)} ${this.#chalk.yellow(pad(cut(plain(label ?? ""), labelColumns), labelColumns))}  ${this.#dead(this.#text(text, room), state)}${source}${mark}`,
        );
      }
    }
    if (memories.length > 0) {
      if (parts.length > 0) parts.push("");
      parts.push(this.#chalk.underline("Memories"));
      const texts = memories.map(({ text }) => this.#text(text, this.#columns - idColumns - 34));
      const textColumns = Math.min(
        60,
        Math.max(...memories.map(({ text }) => width(text === null ? "(erased)" : plain(text)))),
      );
      for (const [i, { id, text, legs, state, erased }] of memories.entries()) {
        const shown = texts[i] as string;
        const gap = " ".repeat(
          Math.max(0, textColumns - width(text === null ? "(erased)" : shown)),
        );
        parts.push(
          `  ${idOf(id)} ${this.#dead(shown, state)}${gap}  ${this.#legs(legs.map(({ parents }) => parents))}${this.#mark(state, erased)}`,
        );
      }
    }
    return parts.length === 0 ? "Nothing here." : parts.join("\n");
  }

  entry({ entry }: { entry: EntryWhole }): string {
    const { id, kind, label, state, erased, time, text, uri, legs, seen, builtOnThis } = entry;
    const lines = [
      `${this.#id(id)} ${kind}${label === null ? "" : ` ${this.#chalk.yellow(plain(label))}`}${this.#mark(state, erased)}  ${this.dim(time)}`,
      ...(text === null ? [this.#chalk.dim("(erased)")] : text.split("\n").map(plain)).map(
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
    return `${this.#chalk.dim("←")} ${ids(parents)}  ${holds ? this.#chalk.green("holds") : this.#chalk.red("broken")}`;
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
      const broken = isBroken ? this.#chalk.red("  ✗ broken") : "";
      if (parents.length > 1) {
        lines.push(`${this.dim(branch)}${this.dim(`${word}all of`)}${broken}`);
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
          `${this.dim(branch)}${this.dim(word)}${this.#id(parent)}${broken} ${this.dim("…")}`,
        );
      } else if (shown.has(parent)) {
        const again = found.legs.length > 0 ? this.dim(" (above)") : "";
        lines.push(`${this.dim(branch)}${this.dim(word)}${this.#node(found)}${broken}${again}`);
      } else {
        shown.add(parent);
        lines.push(`${this.dim(branch)}${this.dim(word)}${this.#node(found)}${broken}`);
        push(found, below);
      }
    }
    if (open.length > 0) lines.push(this.dim("… the tree is larger; --json gives all of it"));
    if (why.more > 0)
      lines.push(this.dim(`… and ${plural(why.more, "entry")} below: --depth N goes deeper`));
    return lines.join("\n");
  }

  #node({ id, label, text, state }: Pick<SupportEntry, "id" | "label" | "text" | "state">): string {
    const name = label === null ? "" : `${this.#chalk.yellow(plain(label))}: `;
    return `${this.#id(id)} ${name}${this.#dead(this.#text(text, this.#columns - 30), state)}${this.#mark(state)}`;
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
    const head = `${String(record.record).padStart(numberColumns)}  ${this.dim(record.time.replace("T", " ").slice(0, 19))}  `;
    const room = this.#columns - numberColumns - 50;
    switch (record.kind) {
      case "lot":
        return `${head}lot         ${this.#id(record.id)} ${this.#chalk.yellow(plain(record.label))}: ${this.#dead(this.#text(record.text, room), record.state)}${this.#mark(record.state)}`;
      case "memory":
        return `${head}memory      ${this.#id(record.id)} ${this.#dead(this.#text(record.text, room), record.state)} ${this.#legs(record.legs)}${this.#mark(record.state)}`;
      case "corroborate":
        return `${head}corroborate ${this.#id(record.memory)} ${this.#legs([record.leg])}`;
      case "recall": {
        const { targets, mode, disposal, removed, erased } = record;
        const took = removed.length > 0 ? `, took ${some(removed)}` : ", took nothing more";
        const gone = erased.length > 0 ? `, erased ${some(erased)}` : "";
        return `${head}${this.#chalk.red("recall")}      ${some(targets)} (${mode}, ${disposal})${took}${gone}`;
      }
      case "drop":
        return `${head}compact     dropped the texts of ${some(record.erased)}`;
    }
  }

  // ----- recalling -----

  /** What would go and what would stay, in the mode asked for, and the three modes side by side. */
  plan(plan: Plan, agent: string, named: ReadonlyMap<EntryId, Named>): string {
    const { targets, mode, disposal, removed, erased, alternatives, id } = plan;
    const lines = [
      `${this.#chalk.bold("Plan")} for recalling ${this.#list(targets, named)} (${mode}, ${disposal}). Nothing has been changed.`,
      ...this.#rows(plan, named, { goes: "goes", stays: "stays" }),
    ];
    if (removed.length === 0) lines.push("  Nothing else goes.");
    if (erased.length > 0)
      lines.push(`  ${plural(erased.length, "text")} would be erased: ${some(erased)}`);
    lines.push("");
    for (const each of ["fair", "strict", "contact"] as Mode[]) {
      const { removed, survivors } = alternatives[each];
      const here = each === mode ? this.#chalk.cyan(" ◂ this plan") : "";
      const saved = survivors.length > 0 ? `, ${plural(survivors.length, "survivor")}` : "";
      lines.push(
        `  ${pad(each, 8)} ${removed.length === 0 ? "takes nothing more" : `takes ${some(removed)}`}${saved}${here}`,
      );
    }
    const flags = `${mode === "fair" ? "" : ` --${mode}`}${disposal === "erase" ? " --erase" : ""}`;
    lines.push(
      "",
      this.#next(`cheesedb recall ${quoted(agent)} ${targets.join(" ")}${flags} --plan ${id}`),
    );
    return lines.join("\n");
  }

  recalled(outcome: Outcome, agent: string, named: ReadonlyMap<EntryId, Named>): string {
    const { targets, mode, disposal, removed, survivors, erased, record } = outcome;
    if (record === null) {
      return `${ids(targets)} ${targets.length === 1 ? "was" : "were"} recalled so before: there is nothing to do.`;
    }
    const lines = [
      `${this.#chalk.bold("Recalled")} ${this.#list(targets, named)} (${mode}, ${disposal}).`,
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
      lines.push(this.#next(`cheesedb find "words of it" --absent  proves that they are gone`));
      lines.push(`      cheesedb compact ${name}  gives their space back`);
    } else if (disposal === "untrusted") {
      lines.push(
        this.#next(
          `the texts are hidden, and still in the files: "cheesedb compact ${name}" drops them,`,
        ),
      );
      lines.push(
        `      "cheesedb recall ${name} ${targets.join(" ")} --erase" erases them at once`,
      );
    }
    return lines.join("\n");
  }

  #list(list: readonly EntryId[], named: ReadonlyMap<EntryId, Named>): string {
    if (list.length > 3) return some(list);
    return list
      .map((id) => {
        const label = named.get(id)?.label;
        return `${this.#id(id)}${label ? ` ${this.#chalk.yellow(plain(label))}` : ""}`;
      })
      .join(", ");
  }

  #rows(
    { removed, survivors, reasons, targets }: Outcome,
    named: ReadonlyMap<EntryId, Named>,
    words: { goes: string; stays: string },
  ): string[] {
    const rows: string[][] = [];
    const textOf = (id: EntryId) => {
      const entry = named.get(id);
      if (!entry) return "";
      return `${entry.label === null ? "" : `${plain(entry.label)}: `}${this.#text(entry.text, Math.min(this.#columns - 45, 50))}`;
    };
    const why = new Map(reasons.slice(0, ROWS_MAX).map((reason) => [reason.id, reason]));
    for (const [i, id] of removed.slice(0, ROWS_MAX).entries()) {
      const reason = why.get(id);
      const because = !reason
        ? ""
        : reason.through === "seen"
          ? `it was written with [${reason.brokenBy}] in view`
          : `leg ${ids(reason.leg)} broke${reason.leg.length > 1 || !targets.includes(reason.brokenBy) ? ` with [${reason.brokenBy}]` : ""}`;
      rows.push([
        i === 0 ? this.#chalk.red(words.goes) : "",
        this.#id(id),
        textOf(id),
        this.dim(because),
      ]);
    }
    if (removed.length > ROWS_MAX)
      rows.push(["", this.dim(`… and ${removed.length - ROWS_MAX} more`), "", ""]);
    for (const [i, { id, heldBy }] of survivors.slice(0, ROWS_MAX).entries()) {
      rows.push([
        i === 0 ? this.#chalk.green(words.stays) : "",
        this.#id(id),
        textOf(id),
        this.dim(`held by ${heldBy.map(ids).join(" or ")}`),
      ]);
    }
    if (survivors.length > ROWS_MAX)
      rows.push(["", this.dim(`… and ${survivors.length - ROWS_MAX} more`), "", ""]);
    return this.#table(rows, "  ")
      .split("\n")
      .filter((line) => line !== "");
  }

  // ----- chores -----

  found({
    text,
    count,
    matches,
    filesScanned,
    bytesScanned,
    unsearched,
    unerased,
  }: FindReport): string {
    const lines = matches.map(
      ({ file, offset, excerpt }) =>
        `${this.#chalk.magenta(plain(file))}${this.dim(":")}${offset}${this.dim(":")} ${plain(excerpt)}`,
    );
    if (count > matches.length) lines.push(this.dim(`… and ${count - matches.length} places more`));
    const searched = this.dim(
      `(${plural(filesScanned, "file")}, ${bytesInWords(bytesScanned)} searched)`,
    );
    lines.push(
      count === 0
        ? `"${cut(plain(text), 60)}" stands nowhere in the store. ${searched}`
        : `${plural(count, "place")}. ${searched}`,
    );
    for (const name of unsearched) lines.push(this.#chalk.red(`Not searched: ${plain(name)}`));
    for (const { agent, entry } of unerased ?? []) {
      lines.push(
        this.#chalk.red(
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
      `${this.#chalk.green("✓")} "${plain(agent)}": ${plural(records, "record")} in ${plural(segments, "segment")}, ${bytesInWords(bytes)}; every one checks.`,
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
    const lines = [`${this.#chalk.red("✗")} "${plain(agent)}": ${plain(error.message)}`];
    for (const { message, file, offset } of (problems ?? []).slice(0, ROWS_MAX)) {
      const where =
        file === undefined
          ? ""
          : this.dim(`  ${plain(file)}${offset === undefined ? "" : `, offset ${offset}`}`);
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
    return this.#table(
      [
        ["agent", `${plain(stats.agent)}  ${this.dim(stats.id)}`],
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
      ].map(([name, value]) => [this.dim(name as string), value as string]),
    );
  }

  statsAll({ agents }: { agents: (AgentStats | AgentFailure)[] }): string {
    if (agents.length === 0) return "No agents yet.";
    return agents
      .map((agent) => ("error" in agent ? this.#damaged(agent) : this.stats(agent)))
      .join("\n\n");
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
        const line = `${ok ? this.#chalk.green("✓") : this.#chalk.red("✗")} ${pad(name, 12)} ${plain(detail)}`;
        return ok || !hint
          ? line
          : `${line}\n  ${" ".repeat(12)} ${this.#chalk.cyan("→")} ${plain(hint)}`;
      })
      .join("\n");
  }

  /** Rows of cells, each column as wide as its widest. */
  #table(rows: string[][], indent = ""): string {
    const columns: number[] = [];
    for (const row of rows)
      for (const [i, cell] of row.entries())
        columns[i] = Math.max(columns[i] ?? 0, width(unstyled(cell)));
    const line = (row: string[]) =>
      row
        .map(
          (cell, i) =>
            cell + " ".repeat(Math.max(0, (columns[i] as number) - width(unstyled(cell)))),
        )
        .join("  ");
    return rows.map((row) => (indent + line(row)).trimEnd()).join("\n");
  }
}

/** At most a dozen ids, and how many more. */
function some(list: readonly EntryId[]): string {
  const shown = list
    .slice(0, 12)
    .map((id) => `[${id}]`)
    .join(", ");
  return list.length > 12 ? `${shown} and ${list.length - 12} more` : shown;
}

function unstyled(text: string): string {
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}

/** A name as a shell takes it. */
function quoted(name: string): string {
  return /^[\w.@%+:,-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}
