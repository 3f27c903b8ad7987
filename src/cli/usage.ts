// A mistake in how a command is written: what the parser says, in our words, and what was most likely meant.

import { CheeseError } from "../index.ts";
import { nearest } from "../words.ts";

/** What the parser throws. */
export interface UsageError extends Error {
  oclif?: { exit?: number };
  /** The arguments that are missing, or the words that are too many. */
  args?: ({ name: string } | string)[];
  /** Flags that there are not. */
  flags?: string[];
}

/** What a command says of itself. */
export interface CommandForm {
  id: string;
  args: Record<string, { name?: string; required?: boolean; multiple?: boolean }>;
  /** Its own, without those that all have. */
  flags: Record<string, { helpValue?: string | string[]; required?: boolean; multiple?: boolean }>;
}

/** What other tools call a verb, and what is to be said of it. */
const VERBS: Record<string, string> = {
  add: 'To add a source: "cheesedb lot"; a memory: "cheesedb remember".',
  create: 'Did you mean "cheesedb agent create"?',
  delete: 'To remove what the agent learned: "cheesedb recall"; an agent: "cheesedb agent delete".',
  forget: 'To remove what the agent learned: "cheesedb recall".',
  get: 'Did you mean "cheesedb show"?',
  grep: 'Did you mean "cheesedb find"?',
  init: 'Did you mean "cheesedb agent create"? It makes the store too.',
  log: 'Did you mean "cheesedb history"?',
  ls: 'Did you mean "cheesedb list"?',
  new: 'Did you mean "cheesedb agent create"?',
  query: 'Did you mean "cheesedb ask", or "cheesedb find"?',
  remove: 'To remove what the agent learned: "cheesedb recall"; an agent: "cheesedb agent delete".',
  rm: 'To remove what the agent learned: "cheesedb recall"; an agent: "cheesedb agent delete".',
  save: 'To keep a source: "cheesedb lot"; a memory: "cheesedb remember".',
  search: 'Did you mean "cheesedb find", or "cheesedb ask"?',
  serve: 'Did you mean "cheesedb mcp"?',
  source: 'Did you mean "cheesedb lot"?',
  undo: 'A recall is for ever. "cheesedb history" shows what was done.',
};

const FLAGS: Record<string, string> = {
  "--url": "--uri",
  "--source": "--from",
  "--sources": "--from",
  "--force": "--yes",
  "--output": "--out",
};

/** What is left off where it is what happens anyway. */
const DEFAULTS = ["--untrusted", "--fair"];

/** @param ids of the commands: "agent:create" */
export function noSuchCommand(words: string[], ids: string[]): CheeseError {
  const [first = "", second] = words;
  const tops = [...new Set(ids.map((id) => id.split(":")[0] as string))];
  const below = ids.filter((id) => id.startsWith(`${first}:`)).map((id) => id.split(":")[1] ?? "");
  const isTopic = below.length > 0 && second !== undefined;
  const meant = isTopic ? nearest(second, below) : nearest(first, tops);
  const others = isTopic
    ? `"cheesedb ${first}" has ${below.join(", ")}.`
    : '"cheesedb help" lists the commands.';
  const hint = meant ? `Did you mean "cheesedb ${isTopic ? `${first} ` : ""}${meant}"?` : others;
  const said = !isTopic && Object.hasOwn(VERBS, first) ? VERBS[first] : undefined;
  const message = `there is no command "${isTopic ? `${first} ${second}` : first}"`;
  return new CheeseError("USAGE", message, { hint: said ?? hint });
}

/** "cheesedb lot AGENT LABEL TEXT [--uri U]" */
function formOf({ id, args, flags }: CommandForm): string {
  const words = Object.entries(args).map(([key, { name = key, required, multiple }]) => {
    const word = `${name.toUpperCase()}${multiple ? "…" : ""}`;
    return required ? word : `[${word}]`;
  });
  const optional: string[] = [];
  for (const [name, { helpValue, required, multiple }] of Object.entries(flags)) {
    const flag = `--${name}${helpValue === undefined ? "" : ` ${helpValue}`}${multiple ? "…" : ""}`;
    if (required) words.push(flag);
    else optional.push(`[${flag}]`);
  }
  words.push(...(optional.length > FLAGS_TOLD_MAX ? ["[options]"] : optional));
  return ["cheesedb", ...id.split(":"), ...words].join(" ");
}

const FLAGS_TOLD_MAX = 4;
const TAKES_TEXT = /^(text|question)$/i;

function missingArgs(error: UsageError): string[] {
  return (
    error.args?.flatMap((arg) => (typeof arg === "string" ? [] : [arg.name.toUpperCase()])) ?? []
  );
}

/** What the parser says, in our words and on one line. */
function messageOf(error: UsageError): string {
  const { args, flags, message } = error;
  const missing = missingArgs(error);
  if (missing.length > 0) return `missing: ${missing.join(", ")}`;
  if (args?.length) return `too many arguments: ${args.join(" ")}`;
  if (flags?.length) return `there is no flag ${flags.join(", ")}`;
  const flag = /Missing required flag (\S+)/.exec(message)?.[1];
  if (flag) return `missing: --${flag}`;
  const [, one, other] =
    /(--\S+?)(?:=\S+)? cannot also be provided when using (--\S+)/.exec(message) ?? [];
  if (one) return `${one} and ${other} cannot both be given`;
  return message.replace(/\nSee more help with --help$/, "").replaceAll("\n", " ");
}

/** @param everywhere flags that all commands have */
function hintOf(error: UsageError, form: CommandForm, everywhere: string[]): string {
  const usage = `The form is "${formOf(form)}".`;
  const [extra] = error.args ?? [];
  if (form.id === "demo" && typeof extra === "string")
    return `Did you mean "cheesedb demo --scenario ${extra}"?`;
  const [flag] = error.flags ?? [];
  if (flag === undefined) return usage;
  const known = [...Object.keys(form.flags), ...everywhere].map((name) => `--${name}`);
  const other = Object.hasOwn(FLAGS, flag) ? FLAGS[flag] : undefined;
  const meant = other && known.includes(other) ? other : nearest(flag, known);
  const hint =
    form.id === "recall" && DEFAULTS.includes(flag)
      ? `Leave it out: ${flag.slice(2)} is the default.`
      : meant
        ? `Did you mean ${meant}?`
        : usage;
  const takesText = Object.values(form.args).some(({ name = "" }) => TAKES_TEXT.test(name));
  return takesText ? `${hint} A text that begins with a dash goes after "--".` : hint;
}

export function usageFailure(
  error: UsageError,
  form: CommandForm | null,
  everywhere: string[] = [],
): CheeseError {
  const hint = form
    ? hintOf(error, form, everywhere)
    : "Add --help to see how the command is used.";
  return new CheeseError("USAGE", messageOf(error), { hint, cause: error });
}
