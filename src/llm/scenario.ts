// A scenario of the demo: a JSON file of a checked shape.

import { z } from "zod";
import { CheeseError } from "../index.ts";

/** As the store has them. */
const TEXT_BYTES_MAX = 16 * 1024 * 1024;
const URI_BYTES_MAX = 8 * 1024;
const LABEL_BYTES_MAX = 64;

const textOf = (bytesMax: number) =>
  z
    .string()
    .min(1, "is empty")
    .refine((text) => text.isWellFormed(), "holds half a surrogate pair, which UTF-8 cannot say")
    .refine((text) => Buffer.byteLength(text) <= bytesMax, `is longer than ${bytesMax} bytes`);
const Text = textOf(TEXT_BYTES_MAX);

const Shape = z.strictObject({
  title: Text,
  /** What the agent reads, in order. */
  sources: z
    .array(
      z.strictObject({
        label: textOf(LABEL_BYTES_MAX),
        text: Text,
        uri: textOf(URI_BYTES_MAX).optional(),
      }),
    )
    .min(1),
  /** Standing instructions of the agent: they go into prompts, and never into a store. */
  instructions: z.array(Text),
  question: Text,
  /** Which of the sources are bad, from 0. */
  bad: z.array(z.number().int().min(0)).min(1),
  /** What an answer that uses the bad data asserts. */
  claim: Text,
  /** Words to look for in the bytes of the files. */
  search: z.array(Text).min(1),
  /** Used where a model learns nothing usable: a parent is the place of a source, or "m1" for the first memory. */
  memories: z
    .array(
      z.strictObject({
        text: Text,
        from: z.array(z.array(z.union([z.number().int().min(0), z.string()])).min(1)).min(1),
      }),
    )
    .optional(),
});

export type Scenario = z.infer<typeof Shape>;

/** @throws CheeseError BAD_INPUT that names the field */
export function parseScenario(text: string, file: string): Scenario {
  const wrong = (field: string, what: string) =>
    new CheeseError("BAD_INPUT", `${file}: ${field === "" ? "" : `"${field}" `}${what}`, {
      file,
      hint: "docs/scenarios.md tells of every field; examples/weather.json shows them.",
    });
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (cause) {
    throw wrong("", `it is no JSON (${(cause as Error).message})`);
  }
  const parsed = Shape.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0] as z.core.$ZodIssue;
    const field = [
      ...issue.path,
      ...(issue.code === "unrecognized_keys" ? [issue.keys[0] as string] : []),
    ].join(".");
    throw wrong(field, whatIsWrong(issue));
  }
  const scenario = parsed.data;
  for (const [i, bad] of scenario.bad.entries()) {
    if (bad >= scenario.sources.length)
      throw wrong(
        `bad.${i}`,
        `names source ${bad}, and there are ${scenario.sources.length}, from 0`,
      );
  }
  const badTexts = scenario.bad
    .flatMap((i) => [scenario.sources[i]?.text ?? "", scenario.sources[i]?.uri ?? ""])
    .join("\n")
    .toLowerCase();
  for (const [i, word] of scenario.search.entries()) {
    // A search that cannot find anything proves nothing.
    if (!badTexts.includes(word.toLowerCase()))
      throw wrong(`search.${i}`, `stands in no bad source: ${JSON.stringify(word)}`);
  }
  for (const [m, { from }] of (scenario.memories ?? []).entries()) {
    for (const [l, leg] of from.entries()) {
      for (const [p, parent] of leg.entries()) {
        const field = `memories.${m}.from.${l}.${p}`;
        if (typeof parent === "number" && parent >= scenario.sources.length)
          throw wrong(
            field,
            `names source ${parent}, and there are ${scenario.sources.length}, from 0`,
          );
        if (
          typeof parent === "string" &&
          !(/^m[1-9]\d*$/.test(parent) && Number(parent.slice(1)) <= m)
        )
          throw wrong(field, `names "${parent}", which is no earlier memory`);
      }
    }
  }
  return scenario;
}

function whatIsWrong({ code, message }: z.core.$ZodIssue): string {
  if (code === "unrecognized_keys") return "is no field of a scenario";
  // JSON says nothing undefined but by leaving it out.
  if (code === "invalid_type" && message.endsWith("received undefined")) return "is missing";
  const said = message.replace(/^Invalid input: /, "");
  return said.charAt(0).toLowerCase() + said.slice(1);
}
