// Lots to memories: a model reads, and says where each memory came from; the engine has the last word.

import type { Agent, EntryId, NewMemory } from "../index.ts";
import { contentWords, sharedWords } from "../words.ts";
import type { AskOptions, Model } from "./client.ts";
import {
  Learned,
  learnPrompt,
  type MemoryInPrompt,
  mendPrompt,
  type SourceInPrompt,
} from "./prompts.ts";

/** What a model proposes to remember, with its legs as the engine takes them; nothing is written yet. */
export interface Proposal {
  memories: NewMemory[];
  /** What was left out, since the engine refuses it, and why. */
  refused: { text: string; message: string }[];
}

/** As many memories as a prompt shows. */
export const MEMORIES_IN_PROMPT = 40;

export interface LearnInput {
  sources: readonly SourceInPrompt[];
  /** Living memories that fit the sources. */
  memories: readonly MemoryInPrompt[];
  instructions: readonly string[];
}

/**
 * Asks a model what to remember. What the engine refuses is sent back once; what it refuses again is left out.
 *
 * @throws CheeseError LLM
 */
export async function propose(
  agent: Agent,
  model: Model,
  input: LearnInput,
  options: AskOptions = {},
): Promise<Proposal> {
  const prompt = learnPrompt(input);
  const inPrompt = new Set([...input.sources, ...input.memories].map(({ id }) => id));
  const answer = await model.json("memories", Learned, prompt, options);
  const first = await sift(agent, toMemories(answer, inPrompt, []));
  if (first.refused.length === 0) return { ...first, refused: [] };
  const mended = await model.json(
    "memories",
    Learned,
    mendPrompt(prompt, answer, first.refused),
    options,
  );
  const second = await sift(agent, toMemories(mended, inPrompt, first.memories));
  return second;
}

/** A memory as a model declared it; a leg of null names something that is not there. */
interface Declared {
  text: string;
  legs: (EntryId | { item: number } | null)[][];
}

/** @param before memories taken already, whose items come first; "m1" is the first of this answer */
function toMemories(
  { memories }: Learned,
  inPrompt: ReadonlySet<EntryId>,
  before: NewMemory[],
): Declared[] {
  const declared = memories.map(({ text, from }) => ({
    text: text.trim(),
    legs: from.map((leg) =>
      leg.map((parent) => {
        const [, m, number] = /^\[?(m?)(\d{1,9})\]?$/.exec(parent.trim()) ?? [];
        if (number === undefined) return null;
        if (m) return { item: before.length + Number(number) - 1 };
        return inPrompt.has(Number(number)) ? Number(number) : null;
      }),
    ),
  }));
  const taken = before.map(({ text, legs }) => ({
    text,
    legs: Array.from(legs, (leg) => [...leg]),
  }));
  return [...taken, ...declared];
}

/** Parts what the engine would take from what it would refuse; what stands on something refused is refused with it. */
async function sift(agent: Agent, declared: Declared[]): Promise<Proposal> {
  const refused: Proposal["refused"] = [];
  const memories: NewMemory[] = [];
  /** Where each declared memory stands among those that are taken. */
  const placeOf = new Map<number, number>();
  for (const [i, { text, legs }] of declared.entries()) {
    const refuse = (message: string) => refused.push({ text, message });
    const unknown = legs.flat().some((parent) => parent === null);
    const lost = legs
      .flat()
      .some((parent) => typeof parent === "object" && parent !== null && !placeOf.has(parent.item));
    if (text === "") continue;
    if (unknown) {
      refuse("it names something that is not in the prompt");
      continue;
    }
    if (lost) {
      refuse("it stands on a memory that is not there, or was refused itself");
      continue;
    }
    const moved = legs.map((leg) =>
      leg.map((parent) =>
        typeof parent === "object" && parent !== null
          ? { item: placeOf.get(parent.item) as number }
          : (parent as EntryId),
      ),
    );
    const memory: NewMemory = { text, legs: moved };
    const refusal = (await agent.refusals([...memories, memory])).at(-1);
    if (refusal) {
      refuse(refusal.message.replace(/^item \d+: /, ""));
      continue;
    }
    placeOf.set(i, memories.length);
    memories.push(memory);
  }
  return { memories, refused };
}

/** Living memories that share words with some texts, best first, at most `countMax`; and how many lived in all. */
export async function fittingMemories(
  agent: Agent,
  texts: readonly string[],
  countMax = MEMORIES_IN_PROMPT,
): Promise<{ memories: MemoryInPrompt[]; all: number }> {
  const wanted = contentWords(texts.join("\n"));
  const scored: { id: EntryId; text: string; score: number }[] = [];
  let all = 0;
  for await (const { id, text } of agent.entries({ state: "alive", kind: "memory" })) {
    if (text === null) continue;
    all++;
    scored.push({ id, text, score: sharedWords(wanted, contentWords(text)) });
  }
  // The best fit first; of equal ones the newest.
  scored.sort((a, b) => b.score - a.score || b.id - a.id);
  const chosen = scored.slice(0, countMax).sort((a, b) => a.id - b.id);
  return { memories: chosen.map(({ id, text }) => ({ id, text })), all };
}
