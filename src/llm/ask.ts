// A question to a cited answer, from living memories alone.

import type { EntryId } from "../index.ts";
import type { AskOptions, Model } from "./client.ts";
import { Answer, askPrompt, type MemoryInPrompt } from "./prompts.ts";

export interface Answered {
  answer: string;
  /** Memories that the answer rests on, ascending; all of them were in the prompt. */
  cites: EntryId[];
  /** Numbers that the model cited and that were not in the prompt. */
  invented: number[];
}

/** @throws CheeseError LLM */
export async function answerFrom(
  model: Model,
  input: { question: string; memories: readonly MemoryInPrompt[]; instructions: readonly string[] },
  options: AskOptions = {},
): Promise<Answered> {
  const { answer, cites } = await model.json("answer", Answer, askPrompt(input), options);
  const known = new Set(input.memories.map(({ id }) => id));
  const cited = [...new Set(cites)].sort((a, b) => a - b);
  return {
    answer: answer.trim(),
    cites: cited.filter((id) => known.has(id)),
    invented: cited.filter((id) => !known.has(id)),
  };
}
