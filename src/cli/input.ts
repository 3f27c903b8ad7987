// What comes in on the command line: ids, legs, times, and texts from an argument or standard input.

import { CheeseError, decodeUtf8, type EntryId, hasCode } from "../index.ts";

/** The scenarios that come with cheesedb, by their names in examples/. */
export const EXAMPLES = ["weather", "payment", "laundering", "address", "second-leg"];

const WHOLE_NUMBER = /^(0|[1-9][0-9]{0,19})$/;

/**
 * A number that may be an entry's; whether there is such an entry, the engine says.
 *
 * @param given as all output shows it too: [3]
 * @throws CheeseError USAGE when it is no whole number in its plain form
 */
export function parseId(given: string, hint?: string): EntryId {
  const text = given.replace(/^\[(.*)\]$/, "$1");
  if (!WHOLE_NUMBER.test(text)) {
    throw new CheeseError("USAGE", `"${given}" is no entry's number`, {
      hint: hint ?? 'Entries are numbered 1, 2, 3, …; "cheesedb list" shows them.',
    });
  }
  if (Number(text) > 0xffff_fffe) {
    throw new CheeseError("NO_ENTRY", `there is no entry ${text}`);
  }
  return Number(text);
}

/** @throws CheeseError USAGE */
export function parseDepth(text: string): number {
  if (!WHOLE_NUMBER.test(text)) {
    throw new CheeseError("USAGE", `--depth takes a whole number, got "${text}"`, {
      hint: "For example --depth 2.",
    });
  }
  return Number(text);
}

/** `1` or `2,3`: the parents of one leg. An empty one is for the engine to refuse. */
export function parseLeg(text: string): EntryId[] {
  if (text.trim() === "") return [];
  return text.split(",").map((part) => {
    try {
      return parseId(part.trim(), "A leg is parents joined by commas: --from 1, or --from 2,3.");
    } catch (error) {
      if (!hasCode(error, "NO_ENTRY")) throw error;
      throw new CheeseError("UNKNOWN_PARENT", error.message, { cause: error });
    }
  });
}

const ISO_WITH_ZONE = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))$/;

/** @throws CheeseError USAGE when it is not ISO 8601 with a zone */
export function parseTime(text: string, flag: string): Date {
  const time = ISO_WITH_ZONE.test(text) ? new Date(text) : null;
  const day = Number(text.slice(8, 10));
  const isDay =
    day >= 1 &&
    day <= new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0)).getUTCDate();
  if (!time || Number.isNaN(time.getTime()) || !isDay) {
    throw new CheeseError("USAGE", `${flag} takes a time with its zone, got "${text}"`, {
      hint: `For example ${/^\d{4}-\d\d-\d\d$/.test(text) ? text : "2026-11-30"}T00:00:00Z.`,
    });
  }
  return time;
}

/** A text as given, or the whole of standard input for `-`. @throws CheeseError NOT_UTF8 */
export async function readText(text: string): Promise<string> {
  if (text !== "-") return text;
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of process.stdin) {
    parts.push(part as Buffer);
    bytes += (part as Buffer).length;
    if (bytes > 16 * 1024 * 1024)
      throw new CheeseError("TOO_LARGE", "standard input has more than 16777216 bytes");
  }
  return decodeUtf8(Buffer.concat(parts), "standard input");
}
