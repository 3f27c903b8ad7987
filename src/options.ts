// The options of every public call by their names: one that a call does not have is refused, and never passed over in
// silence, since a misspelt `erase` would leave the text where it is.

import { nearest } from "./words.ts";

const LONG = ["signal", "onProgress"];

/** Tests' own are known and not told. */
const OF_TESTS = ["disk", "now", "fillRandom", "makeLock"];

const OPTIONS = {
  "Store.open": ["readOnly", "create", "waitMs", "segmentBytes", "snapshotRecords"],
  createAgent: ["keepToken"],
  openAgent: ["waitMs"],
  find: ["agent", "ignoreCase", "matchesMax", "absent", ...LONG],
  "store.verify": ["signal"],
  verify: ["expect", ...LONG],
  compact: LONG,
  export: ["deadTexts", ...LONG],
  import: LONG,
  addLot: ["uri", "seen"],
  addLots: LONG,
  "an item of addLots": ["label", "text", "uri", "seen"],
  remember: ["seen"],
  rememberAll: LONG,
  "an item of rememberAll": ["text", "legs", "seen"],
  recall: ["mode", "disposal", "plan"],
  previewRecall: ["mode", "disposal"],
  planRecall: ["mode", "disposal"],
  findLots: ["label", "uriPrefix", "since", "until"],
  entries: ["state", "kind", "newestFirst", "before"],
  texts: ["state", "kind", "newestFirst", "before"],
  why: ["depth", "entriesMax"],
  sourcesOf: ["max"],
  sourcesInView: ["max"],
  "session.addLot": ["uri"],
} satisfies Record<string, string[]>;

/** What other systems call them. */
const MEANT: Record<string, string> = {
  erase: 'disposal: "erase"',
  untrusted: 'disposal: "untrusted"',
  fair: 'mode: "fair"',
  strict: 'mode: "strict"',
  contact: 'mode: "contact"',
  url: "uri",
  from: "legs",
  sources: "legs",
};

/** @throws TypeError that names the option, the one that was meant, and all that there are */
export function requireOptions(call: keyof typeof OPTIONS, given: object) {
  if (typeof given !== "object" || given === null)
    throw new TypeError(`the options of ${call} are an object, got ${typeName(given)}`);
  const known: readonly string[] = OPTIONS[call];
  for (const key in given) {
    if (known.includes(key) || (given as Record<string, unknown>)[key] === undefined) continue;
    if (call === "Store.open" && OF_TESTS.includes(key)) continue;
    const meant = Object.hasOwn(MEANT, key) ? MEANT[key] : undefined;
    const guess = meant && known.includes(meant.replace(/:.*/, "")) ? meant : nearest(key, known);
    const question = guess ? `; did you mean ${guess}?` : ".";
    throw new TypeError(
      `${call} has no option "${key}"${question} ${known.length === 1 ? "Its option is" : "Its options are"} ${known.join(", ")}.`,
    );
  }
}

/** What a value is, for the words of a TypeError. */
export function typeName(value: unknown): string {
  return value === null ? "null" : typeof value;
}
