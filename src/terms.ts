// The glossary as types: the words of cheesedb, and the shape of what each call gives. No code.

/** An entry's number: 1, 2, 3, …; lots and memories of one agent share one numbering. */
export type EntryId = number;

/** A lot is a source that the agent learned from; a memory is something that it knows. */
export type Kind = "lot" | "memory";

/** `recalled`: the target of a recall. `removed`: died of one. */
export type State = "alive" | "recalled" | "removed";

/**
 * How far a recall goes. fair: a memory lives while any leg holds. strict: it dies if the target stands
 * anywhere in its history. contact: also if the target was merely seen when it was written.
 */
export type Mode = "fair" | "strict" | "contact";

/** untrusted: hidden, the text stays until `compact`. erase: the text leaves the disk before the call returns. */
export type Disposal = "untrusted" | "erase";

/** A fingerprint is `<record>-<64 hex digits>`. */
export interface Head {
  record: number;
  hash: string;
  fingerprint: string;
}

/** One way in which a memory was learned: it holds while all its parents are alive. */
export interface Leg {
  parents: EntryId[];
  holds: boolean;
}

/** An entry without its text, as `agent.get` gives it. */
export interface Entry {
  id: EntryId;
  kind: Kind;
  state: State;
  /** Only lots have one. */
  label: string | null;
  /** Only memories have legs. */
  legs: Leg[];
  /** What stood in the writer's context, ascending; absent when nothing was recorded, and from lists. */
  seen?: EntryId[];
  /** ISO 8601, UTC, to the millisecond. */
  time: string;
  /** Whether the text is gone: erased by a recall, or dropped by a compaction. */
  erased: boolean;
}

/** An entry with its text; text and uri are null once erased. */
export interface EntryWithText extends Entry {
  text: string | null;
  uri: string | null;
}

/** An entry, and what was built on it. */
export interface EntryWhole extends EntryWithText {
  builtOnThis: EntryId[];
}

/** A memory that lost a leg in a recall and lives, with the legs that hold it. */
export interface Survivor {
  id: EntryId;
  heldBy: EntryId[][];
}

/** Why an entry was removed: the leg that broke last, and by which parent; or what it had seen. */
export interface Reason {
  id: EntryId;
  /** Empty when it died of what it had seen. */
  leg: EntryId[];
  brokenBy: EntryId;
  through: "leg" | "seen";
}

/** What a recall did, or would do. Every list ascends. */
export interface Outcome {
  targets: EntryId[];
  mode: Mode;
  disposal: Disposal;
  dryRun: boolean;
  /** The plan's id. */
  plan: string;
  /** Entries that this call killed, targets not among them. */
  removed: EntryId[];
  survivors: Survivor[];
  /** Entries whose text this call took off the disk. */
  erased: EntryId[];
  reasons: Reason[];
  /** The number of the record written; null for a dry run, and when there was nothing to do. */
  record: number | null;
}

/** What a recall would do in one mode, in short. */
export interface Alternative {
  plan: string;
  removed: EntryId[];
  survivors: EntryId[];
  erased: EntryId[];
}

/** A recall that was decided and not carried out. */
export interface Plan extends Outcome {
  id: string;
  /** All of it was recalled so before: carried out, it would write nothing. */
  isNoop: boolean;
  alternatives: Record<Mode, Alternative>;
}

/** One entry in the support of another. */
export interface SupportEntry {
  id: EntryId;
  kind: Kind;
  label: string | null;
  text: string | null;
  state: State;
  legs: Leg[];
}

/** Why a living entry is believed: flat, breadth first, each entry once, the entry itself left out. */
export interface WhyAlive {
  entry: EntryWithText;
  support: SupportEntry[];
  /** How many entries more lie beyond the depth asked for. */
  more: number;
}

/** Why a dead entry is dead: the record that killed it, and the way from a target down to it. */
export interface WhyDead {
  entry: EntryWithText;
  /** Null for an entry that was imported dead without the recall that killed it. */
  killedBy: {
    record: number;
    targets: EntryId[];
    mode: Mode;
    disposal: Disposal;
    time: string;
    path: EntryId[];
  } | null;
}

export type Why = WhyAlive | WhyDead;

/** One record of the log, in short, as `history` tells it. */
export type HistoryRecord = { record: number; time: string } & (
  | {
      kind: "lot";
      id: EntryId;
      label: string;
      text: string | null;
      uri: string | null;
      state: State;
    }
  | { kind: "memory"; id: EntryId; legs: EntryId[][]; text: string | null; state: State }
  | { kind: "corroborate"; memory: EntryId; leg: EntryId[] }
  | {
      kind: "recall";
      targets: EntryId[];
      mode: Mode;
      disposal: Disposal;
      removed: EntryId[];
      erased: EntryId[];
    }
  | { kind: "drop"; erased: EntryId[] }
);

export interface AgentStats {
  agent: string;
  id: string;
  created: string;
  records: number;
  lots: number;
  memories: number;
  alive: number;
  dead: number;
  recalls: number;
  legs: number;
  /** The longest chain of memories above a lot; 0 when there is no memory. */
  depth: number;
  /** Bytes of all the agent's files. */
  bytes: number;
  segments: number;
  /** Bytes of text still in the files, padding included, and how much of them belongs to the dead. */
  textBytes: number;
  deadTextBytes: number;
  /** deadTextBytes ÷ textBytes, 0 when there is no text. */
  deadShare: number;
}

export interface VerifyReport {
  ok: true;
  agent: string;
  id: string;
  records: number;
  segments: number;
  bytes: number;
  head: Head;
  /** With `expect`: that head is part of this history, and so many records came since. */
  expected?: { fingerprint: string; recordsSince: number };
  /** Bytes of a half-written last batch, which the next write cuts off; it may have been acknowledged. */
  tornBytes: number;
  /** Texts of an erase that a crash left unfinished; the next open that may write finishes it. */
  erasesPending: number;
  headMark: "ok" | "one slot damaged" | "missing";
  snapshot: "ok" | "none" | "stale" | "damaged";
}

export interface Compaction {
  /** Bytes of the agent's log. */
  before: number;
  after: number;
  reclaimed: number;
  textsDropped: number;
}

/** What opening an agent found and mended. */
export interface Opened {
  /** Bytes of a half-written batch that were cut off. */
  tornBytes: number;
  /** Erases and drops that a crash had left unfinished, and that were finished. */
  erasesFinished: number;
  /** Records read from the log, because no snapshot covered them. */
  replayed: number;
  fromSnapshot: boolean;
}

export interface FindMatch {
  /** Relative to the store's folder. */
  file: string;
  /** In bytes, from the file's start. */
  offset: number;
  excerpt: string;
}

export interface FindReport {
  text: string;
  /** Of all places, also those that `matches` leaves out. */
  count: number;
  /** In the order of the files; as many as were asked for, 10,000 if not said. */
  matches: FindMatch[];
  filesScanned: number;
  bytesScanned: number;
  /** What could not be searched: links and the like, and lock files that are not empty. Must be empty for a proof. */
  unsearched: string[];
  /** With `absent`: erased entries whose place in the log is not all zero, and agents too damaged to be asked. */
  unerased?: { agent: string; entry: EntryId | null }[];
}

export interface AgentInfo {
  name: string;
  id: string;
  created: string;
}

export interface AgentListing extends AgentInfo {
  lots: number;
  memories: number;
  alive: number;
  bytes: number;
  /** Present when the agent is damaged; the counts are then 0. */
  damaged?: { code: string; message: string };
}

export interface ImportReport {
  lots: number;
  memories: number;
  recalls: number;
  /** Old and new number of each entry, ascending. */
  ids: [EntryId, EntryId][];
}
