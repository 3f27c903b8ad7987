// Lots to memories: a model reads, and says where each memory came from; the engine has the last word.

import type { Agent, EntryId, NewMemory } from "../index.ts";
import { Query } from "../words.ts";
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
  const declared = toDeclared(answer, inPrompt);
  const first = await sift(agent, declared);
  if (first.refused.length === 0) return withoutNumbers(first);
  const mended = await model.json(
    "memories",
    Learned,
    mendPrompt(prompt, answer, first.refused),
    options,
  );
  const merged = merge(declared, toDeclared(mended, inPrompt), first.refused);
  return withoutNumbers(await sift(agent, merged));
}

interface Sifted {
  memories: NewMemory[];
  /** `number`: its place in the model's first answer, from 1. */
  refused: { number: number; text: string; message: string }[];
}

function withoutNumbers({ memories, refused }: Sifted): Proposal {
  return { memories, refused: refused.map(({ text, message }) => ({ text, message })) };
}

/** A memory as a model declared it. */
interface Declared {
  text: string;
  /** `item`: one of the same answer, from 0; a string is what names nothing that was shown. */
  legs: (EntryId | { item: number } | string)[][];
}

function toDeclared({ memories }: Learned, inPrompt: ReadonlySet<EntryId>): Declared[] {
  return memories.map(({ text, from }) => ({
    text: text.trim(),
    legs: from.map((leg) =>
      leg.map((parent) => {
        const [, m, digits] = /^\[?(m?)(\d{1,9})\]?$/.exec(parent.trim()) ?? [];
        const number = Number(digits ?? 0);
        if (m && number > 0) return { item: number - 1 };
        return !m && inPrompt.has(number) ? number : parent;
      }),
    ),
  }));
}

/**
 * What was refused, replaced by what the model mended: the one of the same text, else the next in order. All others stay,
 * each in its place, so that "m1" means the same in both answers.
 */
function merge(
  declared: readonly Declared[],
  mended: readonly Declared[],
  refused: readonly { number: number; text: string }[],
): Declared[] {
  const merged = [...declared];
  const open = new Set(refused.map(({ number }) => number - 1));
  const known = new Set(declared.map(({ text }) => text));
  const place = (memory: Declared, index: number | undefined) => {
    if (index === undefined) return;
    open.delete(index);
    merged[index] = memory;
  };
  for (const memory of mended)
    place(
      memory,
      [...open].find((index) => declared[index]?.text === memory.text),
    );
  for (const memory of mended) if (!known.has(memory.text)) place(memory, [...open][0]);
  return merged;
}

const REFERENCE_CHARACTERS_MAX = 40;

/** Parts what the engine would take from what it would refuse; what stands on something refused is refused with it. */
async function sift(agent: Agent, declared: readonly Declared[]): Promise<Sifted> {
  // First by form: each may name what was shown, and what stands before it.
  const candidates: { index: number; text: string; legs: (EntryId | { item: number })[][] }[] = [];
  const placeOf = new Map<number, number>();
  const why = new Map<number, string>();
  const isLost = (parent: Declared["legs"][number][number]) =>
    typeof parent === "object" && !placeOf.has(parent.item);
  for (const [index, { text, legs }] of declared.entries()) {
    if (text === "") continue;
    const stranger = legs.flat().find((parent) => typeof parent === "string");
    if (stranger !== undefined) {
      const name = JSON.stringify(stranger.slice(0, REFERENCE_CHARACTERS_MAX));
      why.set(index, `it names ${name}, which is not in the prompt`);
    } else if (legs.flat().some(isLost)) {
      why.set(index, LOST);
    } else {
      placeOf.set(index, candidates.length);
      candidates.push({ index, text, legs: moved(legs as NewLegs, placeOf) });
    }
  }
  // Then by the rules of the engine, all at once; each refusal is of one memory alone.
  const refusals = await agent.refusals(candidates.map(({ text, legs }) => ({ text, legs })));
  const memories: NewMemory[] = [];
  const taken = new Map<number, number>();
  for (const [place, { index, text, legs }] of candidates.entries()) {
    const refusal = refusals[place];
    const isOrphan = legs
      .flat()
      .some((parent) => typeof parent === "object" && !taken.has(parent.item));
    if (refusal) why.set(index, refusal.message.replace(/^item \d+: /, ""));
    else if (isOrphan) why.set(index, LOST);
    else {
      taken.set(place, memories.length);
      memories.push({ text, legs: moved(legs, taken) });
    }
  }
  const refused = [...why.keys()]
    .sort((a, b) => a - b)
    .map((index) => ({
      number: index + 1,
      text: declared[index]?.text ?? "",
      message: why.get(index) ?? "",
    }));
  return { memories, refused };
}

const LOST = "it stands on a memory that is not there, or was refused itself";
type NewLegs = (EntryId | { item: number })[][];

/** Legs with each item at its new place. */
function moved(legs: NewLegs, places: ReadonlyMap<number, number>): NewLegs {
  return legs.map((leg) =>
    leg.map((parent) =>
      typeof parent === "object" ? { item: places.get(parent.item) as number } : parent,
    ),
  );
}

/** Living memories that share words with some texts, best first, at most `countMax`; and how many lived in all. */
export async function fittingMemories(
  agent: Agent,
  texts: readonly string[],
  countMax = MEMORIES_IN_PROMPT,
): Promise<{ memories: MemoryInPrompt[]; all: number }> {
  const query = new Query(texts.join("\n"));
  // The best fit first; of equal ones the newest.
  const best: { id: EntryId; text: string; score: number }[] = [];
  const keepBest = () => {
    best.sort((a, b) => b.score - a.score || b.id - a.id);
    best.length = Math.min(best.length, countMax);
  };
  let all = 0;
  for await (const part of agent.texts({ state: "alive", kind: "memory" })) {
    all += part.length;
    for (const { id, text } of part) best.push({ id, text, score: query.score(text) });
    keepBest();
  }
  const chosen = best.sort((a, b) => a.id - b.id);
  return { memories: chosen.map(({ id, text }) => ({ id, text })), all };
}
