// A scenario of the demo: a JSON file of a checked shape.

import { z } from "zod";
import { CheeseError } from "../index.ts";

const Text = z.string().min(1);

const Shape = z.strictObject({
  title: Text,
  /** What the agent reads, in order. */
  sources: z.array(z.strictObject({ label: Text, text: Text, uri: Text.optional() })).min(1),
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
      hint: "examples/weather.json shows the form of a scenario.",
    });
  let value: unknown;
  try {
    value = JSON.parse(text);
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
    throw wrong(
      field,
      issue.code === "unrecognized_keys" ? "is no field of a scenario" : lowerFirst(issue.message),
    );
  }
  const scenario = parsed.data;
  for (const [i, bad] of scenario.bad.entries()) {
    if (bad >= scenario.sources.length)
      throw wrong(
        `bad.${i}`,
        `names source ${bad}, and there are ${scenario.sources.length}, from 0`,
      );
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

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
