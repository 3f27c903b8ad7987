// One line of JSON that must be an object with each key once.

import { CheeseError } from "./errors.ts";

/** @throws CheeseError BAD_INPUT when it is no JSON, no object, or names a key twice */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    // Not its own words: they quote the text.
    const position = /position (\d+)/.exec((cause as Error).message);
    throw new CheeseError(
      "BAD_INPUT",
      `it is no JSON${position ? ` from character ${position[1]} on` : ""}`,
      { cause },
    );
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CheeseError("BAD_INPUT", "it is no JSON object");
  }
  const twice = repeatedKey(text);
  if (twice !== null) throw new CheeseError("BAD_INPUT", `it names the key ${twice} twice`);
  return value as Record<string, unknown>;
}

/** JSON.parse keeps the last of two equal keys and tells nobody. The text is valid JSON, and an object. */
function repeatedKey(text: string): string | null {
  const seen = new Set<string>();
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    else if (c === '"') {
      const from = i;
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      const string = text.slice(from, i + 1);
      let after = i + 1;
      while (/\s/.test(text[after] ?? "")) after++;
      if (depth === 1 && text[after] === ":") {
        const key = JSON.parse(string) as string;
        if (seen.has(key)) return string;
        seen.add(key);
      }
    }
  }
  return null;
}
