// How a figure is taken and told: repeats, their median, least and most, tables, targets, and the machine it ran on.

import { writeFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { styleText } from "node:util";

export interface Spread {
  median: number;
  min: number;
  max: number;
  runs: number;
}

/** One line of a table. */
export interface Row extends Spread {
  what: string;
  unit: string;
  note: string;
}

export interface Table {
  title: string;
  rows: Row[];
}

/** A figure beside what it should reach. */
export interface Figure {
  /** P1, P2, … */
  id: string;
  what: string;
  value: string;
  target: string;
  /** How many times the limit: 1 or less is reached. */
  ratio: number;
  /** Null where the target is stated for another size. */
  reached: boolean | null;
}

/** One point of the plot, and of the table of growth. */
export interface Point {
  /** P1, P2, … or a name of its own. */
  id: string;
  engine: string;
  memories: number;
  /** What the plot's other axis shows: memories removed. */
  removed: number;
  unit: string;
  value: number;
}

export interface Report {
  program: string;
  memories: number;
  machine: Machine;
  versions: Record<string, string>;
  missing: string[];
  tables: Table[];
  figures: Figure[];
  points: Point[];
}

export interface Machine {
  cpu: string;
  cores: number;
  ramGiB: number;
  system: string;
  node: string;
  date: string;
}

export function machine(): Machine {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model.trim() || process.arch,
    cores: cpus().length,
    ramGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    node: process.versions.node,
    date: new Date().toISOString().slice(0, 10),
  };
}

export function spread(samples: number[]): Spread {
  const sorted = [...samples].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[half]] as [number, number];
  return {
    median: (low + high) / 2,
    min: sorted[0] as number,
    max: sorted.at(-1) as number,
    runs: sorted.length,
  };
}

export function median(samples: number[]): number {
  return spread(samples).median;
}

/** Milliseconds that a call takes. */
export async function timed(call: () => unknown): Promise<number> {
  const begun = performance.now();
  await call();
  return performance.now() - begun;
}

/** Three figures that matter, thousands apart. */
export function number(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toPrecision(3);
}

/** What one program found; told as a table, and written as JSON for the run that started it. */
export class Findings {
  readonly report: Report;

  constructor(program: string, memories: number) {
    this.report = {
      program,
      memories,
      machine: machine(),
      versions: {},
      missing: [],
      tables: [],
      figures: [],
      points: [],
    };
  }

  version(name: string, version: string) {
    this.report.versions[name] = version;
  }

  missing(name: string) {
    this.report.missing.push(name);
  }

  table(title: string) {
    this.report.tables.push({ title, rows: [] });
  }

  row(what: string, unit: string, samples: number[], note = "") {
    if (samples.length > 0) this.fact({ what, unit, note, ...spread(samples) });
  }

  fact(row: Row) {
    (this.report.tables.at(-1) as Table).rows.push(row);
  }

  /**
   * @param limit where `value` should be: at most there, or at least
   * @param statedFor memories that the target is stated for, if it speaks of a size; it is judged there alone
   */
  figure(
    id: string,
    what: string,
    value: number,
    {
      atMost,
      atLeast,
      unit,
      statedFor,
    }: {
      atMost?: number;
      atLeast?: number;
      unit: string;
      statedFor?: number;
    },
  ) {
    const limit = atMost ?? atLeast ?? 0;
    const ratio = atMost === undefined ? limit / value : value / limit;
    const target = `${atMost === undefined ? "at least" : "at most"} ${number(limit)} ${unit}`;
    const isJudged = statedFor === undefined || statedFor === this.report.memories;
    this.report.figures.push({
      id,
      what,
      value: `${number(value)} ${unit}`,
      target,
      ratio,
      reached: isJudged ? ratio <= 1 : null,
    });
  }

  point(id: string, engine: string, unit: string, value: number, removed = 0) {
    const { memories } = this.report;
    this.report.points.push({ id, engine, memories, removed, unit, value });
  }

  /** Prints all, and writes it where it was asked for. */
  finish(out: string | undefined) {
    process.stdout.write(asText(this.report));
    if (out) writeFileSync(out, JSON.stringify(this.report));
  }
}

export function sizeName(memories: number): string {
  return memories.toLocaleString("en-US");
}

const range = ({ median, min, max, runs }: Row) =>
  runs === 1 ? [number(median), "", ""] : [number(median), number(min), number(max)];

export function asText({ program, memories, versions, missing, tables, figures }: Report): string {
  let text = `\n${styleText("bold", program)}, ${sizeName(memories)} memories`;
  text += `  ${styleText("dim", versionsLine(versions))}\n`;
  for (const name of missing) text += `  ${name} is not installed: bench/README.md says how\n`;
  for (const { title, rows } of tables) {
    const cells = rows.map((row) => [row.what, ...range(row), row.unit, row.note]);
    text += `\n${columns([[title, "median", "min", "max", "", ""], ...cells])}`;
  }
  if (figures.length > 0) {
    const cells = figures.map(({ id, what, value, target, ratio, reached }) => [
      `${id} ${what}`,
      value,
      target,
      `${number(ratio)} of it`,
      verdict(reached),
    ]);
    text += `\n${columns(cells)}`;
  }
  return text;
}

export function verdict(reached: boolean | null): string {
  return reached === null ? "stated for another size" : reached ? "reached" : "NOT REACHED";
}

/** Cells in columns: the first and the last two to the left, the numbers to the right. */
function columns(lines: string[][]): string {
  const widths = lines.reduce<number[]>(
    (widths, line) => line.map((cell, i) => Math.max(cell.length, widths[i] ?? 0)),
    [],
  );
  return lines
    .map((line) =>
      line
        .map((cell, i) => {
          const width = widths[i] as number;
          return i > 0 && i < line.length - 2 ? cell.padStart(width) : cell.padEnd(width);
        })
        .join("  ")
        .trimEnd(),
    )
    .map((line) => `  ${line}\n`)
    .join("");
}

export function asMarkdown({ program, memories, versions, missing, tables }: Report): string {
  let text = `#### ${program}, ${sizeName(memories)} memories\n\n`;
  text += `${versionsLine(versions)}.`;
  for (const name of missing) text += ` ${name} was not installed.`;
  text += "\n";
  for (const { title, rows } of tables) {
    text += `\n| ${title} | median | min | max | unit | runs | |\n|---|--:|--:|--:|---|--:|---|\n`;
    for (const row of rows)
      text += `| ${[row.what, ...range(row), row.unit, row.runs, row.note].join(" | ")} |\n`;
  }
  return text;
}

function versionsLine(versions: Record<string, string>): string {
  return Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
}
