// How everything for people looks: colour, columns, and the escaping of what came from sources. The only import of chalk.
//
// Everything that came from a source, a label or a name passes `plain` before it reaches a terminal.

import { Chalk, type ChalkInstance } from "chalk";
import type { EntryId, State } from "../index.ts";

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
export function width(text: string): number {
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

export function pad(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - width(text)));
}

/** One line of at most so many columns. */
export function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  let kept = "";
  for (const c of text) {
    if (width(kept + c) > columns - 1) break;
    kept += c;
  }
  return `${kept}…`;
}

export const plural = (
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

export const ids = (list: readonly EntryId[]) => list.map((id) => `[${id}]`).join(" and ");
/** Legs, as in "[1] or ([2] and [3])". */
export const eitherOf = (legs: readonly (readonly EntryId[])[], or = " or ") =>
  legs.map((leg) => (legs.length > 1 && leg.length > 1 ? `(${ids(leg)})` : ids(leg))).join(or);
const TEXT_COLUMNS_MIN = 20;
const PROSE_COLUMNS = 78;

/** Styles for one stream: none where it is no terminal, or colour is not wanted. */
export class Style {
  readonly columns: number;
  readonly chalk: ChalkInstance;

  constructor(stream: { isTTY?: boolean; columns?: number }, env: NodeJS.ProcessEnv = process.env) {
    const isForced = Boolean(env.FORCE_COLOR && env.FORCE_COLOR !== "0");
    const isColored = !env.NO_COLOR && (isForced || Boolean(stream.isTTY && env.TERM !== "dumb"));
    this.chalk = new Chalk({ level: isColored ? 1 : 0 });
    // What goes to a file or a pipe is whole.
    this.columns = stream.isTTY ? stream.columns || 80 : Number.POSITIVE_INFINITY;
  }

  dim(text: string): string {
    return this.chalk.dim(text);
  }

  next(text: string): string {
    return `${this.chalk.cyan("Next:")} ${text}`;
  }

  id(id: EntryId): string {
    return this.chalk.bold(`[${id}]`);
  }

  /** How a dead entry is marked: dimmed and struck out where there is colour, in words everywhere. */
  dead(text: string, state: State): string {
    return state === "alive" ? text : this.chalk.dim(this.chalk.strikethrough(text));
  }

  mark(state: State, erased = false): string {
    return state === "alive" ? "" : this.chalk.red(`  ✗ ${state}${erased ? ", erased" : ""}`);
  }

  legs(legs: readonly (readonly EntryId[])[]): string {
    if (legs.length === 0) return "";
    return `${this.chalk.dim("←")} ${eitherOf(legs, this.chalk.dim(" or "))}`;
  }

  text(text: string | null, columns = Number.POSITIVE_INFINITY): string {
    if (text === null) return this.chalk.dim("(erased)");
    return cut(plain(text), Math.max(columns, TEXT_COLUMNS_MIN));
  }

  /** Rows of cells, each column as wide as its widest. */
  table(rows: string[][], indent = ""): string {
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

/**
 * Lines of prose, at most 78 columns wide; those after the first hang in by so many more. A word that is wider than a line
 * is broken.
 */
export function wrapped(text: string, indent: string, hanging = 0): string {
  const next = indent + " ".repeat(hanging);
  const lines: string[] = [];
  let line = indent;
  let isEmpty = true;
  const breakLine = () => {
    lines.push(line.trimEnd());
    line = next;
    isEmpty = true;
  };
  for (let word of text.split(" ")) {
    if (!isEmpty && width(line) + 1 + width(word) > PROSE_COLUMNS) breakLine();
    if (!isEmpty) line += " ";
    for (;;) {
      const piece = beginning(word, PROSE_COLUMNS - width(line));
      line += piece;
      if (piece === word) break;
      word = word.slice(piece.length);
      breakLine();
    }
    isEmpty = false;
  }
  return [...lines, line.trimEnd()].join("\n");
}

/** As much of a word as so many columns hold; one letter at the least. */
function beginning(word: string, columns: number): string {
  let piece = "";
  let taken = 0;
  for (const letter of word) {
    taken += width(letter);
    if (taken > columns && piece !== "") break;
    piece += letter;
  }
  return piece;
}

/** At most a dozen ids, and how many more. */
export function some(list: readonly EntryId[]): string {
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
export function quoted(text: string): string {
  const name = plain(text);
  return /^[\w.@%+:,/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}
