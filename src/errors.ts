// The one error class, and the one table of codes: when each is thrown, what to do, and the exit number it ends a command with.

/** Every code, in the order of its exit number. Codes and exits are a contract; the words may improve. */
export const codes = {
  UNEXPECTED: {
    exit: 1,
    when: "something went wrong that cheesedb did not foresee",
    hint: 'Run it again with DEBUG="*" to see where, and report it.',
  },
  USAGE: {
    exit: 2,
    when: "a flag, argument or option is missing or is not of its form",
    hint: 'See "cheesedb help" (in a program, docs/library.md) for its form.',
  },
  NOT_UTF8: {
    exit: 2,
    when: "a text is not valid UTF-8",
    hint: "Convert it to UTF-8 first; cheesedb stores texts byte for byte and repairs nothing.",
  },
  TOO_LARGE: {
    exit: 2,
    when: "a text, label or list is over its limit",
    hint: "Split it into smaller pieces.",
  },
  BAD_INPUT: {
    exit: 2,
    when: "an import file, scenario or llm.conf has a mistake",
    hint: "Mend the line or field named, and try again; nothing was written.",
  },
  NO_AGENT: {
    exit: 3,
    when: "the store has no such agent",
    hint: '"cheesedb agent list" shows the agents; "cheesedb agent create NAME" makes one.',
  },
  NO_ENTRY: {
    exit: 3,
    when: "the agent has no such entry",
    hint: '"cheesedb list AGENT --all" shows every entry.',
  },
  NO_STORE: {
    exit: 3,
    when: "there is no store at that place",
    hint: 'Name its folder (--store, or the path of Store.open); "cheesedb agent create NAME" makes one.',
  },
  BAD_TOKEN: {
    exit: 3,
    when: "the token opens no agent, or not the one named",
    hint: "Give the token that was shown when this agent was created.",
  },
  NO_LEG: {
    exit: 4,
    when: "a memory has no leg, or a leg is empty",
    hint: "Say what it was learned from: at least one leg, each with at least one parent.",
  },
  UNKNOWN_PARENT: {
    exit: 4,
    when: "a leg or a seen set names an entry that does not exist",
    hint: "Name entries that exist.",
  },
  DEAD_PARENT: {
    exit: 4,
    when: "a leg names an entry that a recall took",
    hint: "Choose living parents.",
  },
  CYCLE: {
    exit: 4,
    when: "a leg would make a memory depend on itself",
    hint: "Choose parents that do not stand on this memory.",
  },
  DEAD_ENTRY: {
    exit: 4,
    when: "the memory to corroborate is dead",
    hint: "A recall is for ever: add a new memory instead.",
  },
  RECALLED_CONTEXT: {
    exit: 4,
    when: "the writer has seen what a contact recall took",
    hint: "Start a new session: this one has read the recalled source.",
  },
  PLAN_STALE: {
    exit: 4,
    when: "a recall would no longer do what its plan showed",
    hint: "Look at the plan as it is now, and carry that out.",
  },
  READ_ONLY: {
    exit: 4,
    when: "the store was opened for reading only",
    hint: "Open it without readOnly to write.",
  },
  NAME_TAKEN: {
    exit: 4,
    when: "an agent of that name exists",
    hint: "Open it with its token (store.openAgent), or choose another name.",
  },
  BAD_NAME: {
    exit: 4,
    when: "an agent's name is not of the allowed form",
    hint: 'Use 1 to 64 characters, no control characters, no "/" or "\\", and not "." or "..".',
  },
  LOCKED: {
    exit: 5,
    when: "another process writes to this agent, and still did after the wait",
    hint: "Try again, or wait longer (--wait SECONDS, or waitMs).",
  },
  CORRUPT: {
    exit: 6,
    when: "damage or tampering was found",
    hint: '"cheesedb verify" lists what is wrong; restore the agent\'s folder from a copy.',
  },
  HEAD_MISMATCH: {
    exit: 6,
    when: "the history does not contain the head that was expected",
    hint: "The log was rolled back, forked or replaced: compare it with your copies.",
  },
  NEWER_FORMAT: {
    exit: 6,
    when: "a file was written by a newer version of cheesedb",
    hint: "Use that version, or a later one.",
  },
  DISK: {
    exit: 7,
    when: "the disk refused an operation",
    hint: 'See the cause; "cheesedb doctor" checks the store. Then try again.',
  },
  CLOSED: {
    exit: 7,
    when: "the handle is closed, or a failed write has shut it",
    hint: "Open the agent again.",
  },
  LLM: {
    exit: 8,
    when: "the language model cannot be reached, or its answer is of no use",
    hint: '"cheesedb doctor" checks the settings in llm.conf; --builtin does without a language model.',
  },
  CANCELLED: {
    exit: 130,
    when: "Ctrl-C, or the answer at the prompt was no",
    hint: "Nothing was changed.",
  },
} as const satisfies Record<string, { exit: number; when: string; hint: string }>;

export type Code = keyof typeof codes;

/** Facts that an error may carry beside its words. All optional; more may be added. */
export interface ErrorFacts {
  hint?: string;
  cause?: unknown;
  /** The entry, the item of a list, or the line of a file (from 1) that is meant. */
  entry?: number;
  item?: number;
  line?: number;
  file?: string;
  /** In bytes. */
  offset?: number;
  /** After a failed write: whether it may be on the disk all the same. */
  maybeWritten?: boolean;
  /** With PLAN_STALE: the plan as it is now. */
  plan?: unknown;
  /** With CORRUPT from verify: every problem found. */
  problems?: unknown;
  /** With a list that failed in the middle: the ids already written. */
  written?: number[];
}

/** Every failure that a caller may want to handle. `code` is a contract, `message` may improve. */
export class CheeseError extends Error {
  override readonly name = "CheeseError";
  readonly code: Code;
  readonly hint: string;
  declare readonly entry?: number;
  declare readonly item?: number;
  declare readonly line?: number;
  declare readonly file?: string;
  declare readonly offset?: number;
  declare readonly maybeWritten?: boolean;
  declare readonly plan?: unknown;
  declare readonly problems?: unknown;
  declare readonly written?: number[];

  constructor(code: Code, message: string, { hint, cause, ...facts }: ErrorFacts = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.hint = hint ?? codes[code].hint;
    for (const [key, value] of Object.entries(facts)) {
      if (value !== undefined) Object.defineProperty(this, key, { value, enumerable: true });
    }
  }
}

/** Damage at a place in a file: got and expected belong into the words. */
export function corrupt(message: string, facts: ErrorFacts = {}): CheeseError {
  return new CheeseError("CORRUPT", message, facts);
}

export function hasCode(error: unknown, ...wanted: Code[]): error is CheeseError {
  return error instanceof CheeseError && wanted.includes(error.code);
}
