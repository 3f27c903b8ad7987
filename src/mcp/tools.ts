// The five tools: their names, the words for a model, the form of what goes in and comes out, and what each does.
//
// Schemas are plain objects without unions, since many clients take no others: what is null in a command's JSON is left out
// here. Texts are data from sources; every result says so, and from whom each came.

import { z } from "zod";
import {
  type Agent,
  CheeseError,
  type EntryId,
  type EntryWithText,
  type Mode,
  type Session,
} from "../index.ts";
import { Query } from "../words.ts";
import {
  cutLegs,
  cutText,
  explanation,
  NOTE,
  ROWS_MAX,
  Room,
  recallResult,
  textsOf,
} from "./results.ts";

/** What a tool works with: the agent as it is now, and what this session has seen. */
export interface ToolContext {
  agent: Agent;
  session: Session;
}

export interface Tool {
  name: string;
  title: string;
  description: string;
  annotations: {
    readOnlyHint: boolean;
    destructiveHint: boolean;
    idempotentHint: boolean;
    openWorldHint: boolean;
  };
  input: z.ZodObject;
  output: z.ZodObject;
  run(context: ToolContext, input: never): Promise<Record<string, unknown>>;
}

const PAGE = 20;
const PAGE_MAX = 50;
const SOURCES_MAX = 4;
/** A label has 64 bytes at most. */
const IN_VIEW_MAX = 10;

const Id = z.number().int();
const Ids = z.array(Id);
const Legs = z.array(Ids);
const Source = z.object({ id: Id, label: z.string() });
const LegShape = z.object({ parents: Ids, holds: z.boolean() });
/** How many legs were left out, and how many parents of those that are shown. */
const cut = { moreLegs: z.number().optional(), moreParents: z.number().optional() };
const EntryShape = z.object({
  id: Id,
  kind: z.string(),
  state: z.string(),
  label: z.string().optional(),
  text: z.string().optional(),
  uri: z.string().optional(),
  textCut: z.string().optional(),
  uriCut: z.string().optional(),
  erased: z.boolean(),
  legs: z.array(LegShape),
  ...cut,
});
const Row = z.object({
  id: Id,
  text: z.string().optional(),
  textCut: z.string().optional(),
  because: z.string(),
});

const SEEN_IN_SHORT = "What this session has been shown is recorded with it.";

export const addSource: Tool = {
  name: "add_source",
  title: "Add a source",
  description:
    "Stores a source: something you were told or read (a user message, a web page, a tool result), word for word. Gives its number, for remember. Call it once for each source, before you remember anything from it: only so can what you learned from it be found, and taken back, if the source turns out bad. Not for your own conclusions: use remember.",
  annotations: {
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: false,
    openWorldHint: false,
  },
  input: z.object({
    label: z
      .string()
      .describe(
        'what kind of source: "user_message", "web_page", "weather_tool", …; at most 64 bytes, kept for ever: never personal data',
      ),
    text: z.string().describe("what it said, word for word"),
    uri: z.string().optional().describe("where it came from"),
  }),
  output: z.object({ id: Id, label: z.string() }),
  async run({ session }, { label, text, uri }: { label: string; text: string; uri?: string }) {
    return { id: await session.addLot(label, text, { uri }), label };
  },
};

export const remember: Tool = {
  name: "remember",
  title: "Remember something",
  description: `Stores one short statement that you want to know later, and how you know it. from is a list of ways; each way is a list of the numbers (of sources, or of memories) that it needs together: [[1]] is from 1; [[1],[2,3]] is from 1, or else from 2 and 3 together. Name every source that you really used. ${SEEN_IN_SHORT} Not for the texts of sources: use add_source.`,
  annotations: {
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: false,
    openWorldHint: false,
  },
  input: z.object({
    text: z.string().describe("the statement"),
    from: Legs.describe(
      "a list of the ways in which it was learned, each a list of numbers of sources or memories: [[1],[2,3]]",
    ),
  }),
  output: z.object({ id: Id, legs: Legs, ...cut }),
  async run({ agent, session }, { text, from }: { text: string; from: EntryId[][] }) {
    const id = await session.remember(text, from);
    const { legs } = await agent.get(id);
    return { id, ...cutLegs(legs.map(({ parents }) => parents)) };
  },
};

export const listMemories: Tool = {
  name: "list_memories",
  title: "Look up what is known",
  description:
    "Looks up what you know: memories that share words with query, best fit first, or the newest without query; each with the sources it came from. Use it before you answer, and whenever you are asked to recall or search your memory. Pass cursor on for the next page.",
  annotations: {
    readOnlyHint: true,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
  input: z.object({
    query: z
      .string()
      .optional()
      .describe("words to look for, as they would stand in the memory; leave out for the newest"),
    limit: z
      .number()
      .int()
      .min(1)
      .max(PAGE_MAX)
      .optional()
      .describe(`how many, ${PAGE} if left out`),
    cursor: z.string().optional().describe("the cursor of the page before, for the next one"),
  }),
  output: z.object({
    note: z.string(),
    memories: z.array(
      z.object({
        id: Id,
        text: z.string(),
        textCut: z.string().optional(),
        legs: Legs,
        ...cut,
        time: z.string(),
        state: z.string(),
        sources: z.array(Source),
        moreSources: z.number().optional(),
      }),
    ),
    cursor: z.string().optional(),
  }),
  async run(
    context,
    { query, limit = PAGE, cursor }: { query?: string; limit?: number; cursor?: string },
  ) {
    // A model that has none may fill it in with nothing.
    const wanted = query?.trim() ? query : undefined;
    const at = cursor || undefined;
    const page = wanted
      ? fitting(context.agent, wanted, limit, at)
      : newest(context.agent, limit, at);
    const { entries, next } = await page;
    const memories: Record<string, unknown>[] = [];
    const room = new Room();
    for (const [i, entry] of entries.entries()) {
      const row = {
        id: entry.id,
        ...cutText(entry.text),
        ...cutLegs(entry.legs.map(({ parents }) => parents)),
        time: entry.time,
        state: entry.state,
        ...(await sourcesOf(context.agent, entry.id)),
      };
      if (!room.take(row)) return { note: NOTE, memories, cursor: entries[i - 1]?.cursor };
      context.session.see([entry.id]);
      memories.push(row);
    }
    return { note: NOTE, memories, ...(next !== null && { cursor: next }) };
  },
};

export const explainMemory: Tool = {
  name: "explain_memory",
  title: "Why something is known",
  description:
    "Shows why you know something: what a memory rests on, down to its sources with their numbers; inView, the sources that were shown to its writer besides; or, if it was removed, by which recall and through what. Use it when someone asks why, and to find the number of a source before recall_bad_source.",
  annotations: {
    readOnlyHint: true,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
  input: z.object({ id: Id.describe("number of the memory or source") }),
  output: z.object({
    note: z.string(),
    entry: EntryShape,
    support: z.array(EntryShape).optional(),
    more: z.number().optional(),
    inView: z.array(Source).optional(),
    moreInView: z.boolean().optional(),
    killedBy: z
      .object({
        record: z.number(),
        targets: Ids,
        mode: z.string(),
        disposal: z.string(),
        time: z.string(),
        path: Ids,
        moreTargets: z.number().optional(),
        morePath: z.number().optional(),
      })
      .optional(),
  }),
  async run({ agent, session }, { id }: { id: EntryId }) {
    const why = await agent.why(id, { entriesMax: ROWS_MAX });
    const { sources, hasMore } = await agent.sourcesInView(id, { max: IN_VIEW_MAX });
    const result: Record<string, unknown> = {
      ...explanation(why),
      ...(sources.length > 0 && { inView: sources }),
      ...(hasMore && { moreInView: true }),
    };
    session.see([
      id,
      ...((result.support as { id: EntryId }[] | undefined) ?? []).map((entry) => entry.id),
    ]);
    return result;
  },
};

const recallInput = {
  ids: Ids.describe("numbers of the bad sources; explain_memory shows them"),
  mode: z
    .enum(["fair", "strict", "contact"])
    .describe(
      "fair, for a mistake: spares what is also known in another way. strict, for a source not to be trusted: takes all that ever stood on it. contact, for a source that carried instructions: takes also all that was written with it in view",
    ),
  plan: z
    .string()
    .optional()
    .describe("the plan id that the preview gave: carries out exactly that; leave out to preview"),
};
const erase = z
  .boolean()
  .optional()
  .describe("true also takes the texts off the disk, for private data");

export const recallBadSource = (mayErase: boolean): Tool => ({
  name: "recall_bad_source",
  title: "Recall a bad source",
  description:
    "REMOVES a source that turned out wrong, malicious or private, and what was learned from it, for ever. It looks nothing up: that is list_memories. First call it without plan: nothing is changed, and you get what would go and what would stay, each with its reason, and a plan id. Show that to the user. Only when the user agrees, call it again with the same input and that plan.",
  annotations: {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: true,
    openWorldHint: false,
  },
  input: mayErase ? z.object({ ...recallInput, erase }) : z.object(recallInput),
  output: z.object({
    note: z.string(),
    targets: Ids,
    mode: z.string(),
    disposal: z.string(),
    dryRun: z.boolean(),
    plan: z.string(),
    removed: Ids,
    survivors: z.array(z.object({ id: Id, heldBy: Legs, ...cut })),
    erased: Ids,
    reasons: z.array(
      z.object({
        id: Id,
        leg: Ids,
        moreParents: z.number().optional(),
        brokenBy: Id,
        through: z.string(),
      }),
    ),
    goes: z.array(Row),
    stays: z.array(Row),
    more: z.object({
      targets: z.number(),
      removed: z.number(),
      survivors: z.number(),
      erased: z.number(),
      reasons: z.number(),
    }),
  }),
  async run(context, input: { ids: EntryId[]; mode: Mode; erase?: boolean; plan?: string }) {
    const { agent, session } = context;
    const { ids, mode } = input;
    const plan = input.plan || undefined;
    const disposal = input.erase ? "erase" : "untrusted";
    const planned = await agent.previewRecall(ids, { mode, disposal });
    // Before the texts are gone.
    const texts = await textsOf(agent, planned);
    const done = plan === undefined ? null : await agent.recall(ids, { mode, disposal, plan });
    // Of the same plan, so its lists are those that were read just now.
    const outcome = done ? { ...planned, dryRun: false, record: done.record } : planned;
    const result = recallResult(outcome, texts);
    session.see([...result.goes, ...result.stays].map(({ id }) => id));
    return { ...result };
  },
});

export function toolsFor({ readOnly, mayErase }: { readOnly: boolean; mayErase: boolean }): Tool[] {
  const reading = [listMemories, explainMemory];
  return readOnly ? reading : [addSource, remember, ...reading, recallBadSource(mayErase)];
}

interface Page {
  entries: (EntryWithText & { cursor: string })[];
  next: string | null;
}

async function newest(agent: Agent, limit: number, cursor: string | undefined): Promise<Page> {
  const [before] = cursor === undefined ? [] : parsedCursor(/^n(\d{1,10})$/, cursor);
  const entries: Page["entries"] = [];
  for await (const entry of agent.entries({
    kind: "memory",
    state: "alive",
    newestFirst: true,
    before,
  })) {
    if (entries.length === limit) return { entries, next: entries.at(-1)?.cursor ?? null };
    entries.push({ ...entry, cursor: `n${entry.id}` });
  }
  return { entries, next: null };
}

/** Every living memory is looked at; of those that fit equally well the newest come first. */
async function fitting(
  agent: Agent,
  query: string,
  limit: number,
  cursor: string | undefined,
): Promise<Page> {
  const [scoreMax = Number.POSITIVE_INFINITY, before = 0] =
    cursor === undefined ? [] : parsedCursor(/^f(\d{1,10})\.(\d{1,10})$/, cursor);
  const wanted = new Query(query);
  const fits: { id: EntryId; score: number }[] = [];
  for await (const part of agent.texts({ kind: "memory", state: "alive" })) {
    for (const { id, text } of part) {
      const score = wanted.score(text);
      if (score > 0 && (score < scoreMax || (score === scoreMax && id < before)))
        fits.push({ id, score });
    }
  }
  fits.sort((a, b) => b.score - a.score || b.id - a.id);
  const entries: Page["entries"] = [];
  for (const { id, score } of fits.slice(0, limit)) {
    const entry = await agent.show(id);
    // It may have died since.
    if (entry.state === "alive") entries.push({ ...entry, cursor: `f${score}.${id}` });
  }
  return { entries, next: fits.length > limit ? (entries.at(-1)?.cursor ?? null) : null };
}

function parsedCursor(form: RegExp, cursor: string): number[] {
  const match = form.exec(cursor);
  if (!match) {
    throw new CheeseError("USAGE", "the cursor is none that a page of this list gave", {
      hint: "Leave it out for the first page.",
    });
  }
  return match.slice(1).map(Number);
}

/** The lots below a memory, the first few. */
async function sourcesOf(
  agent: Agent,
  id: EntryId,
): Promise<{ sources: { id: EntryId; label: string }[]; moreSources?: number }> {
  const { sources, more } = await agent.sourcesOf(id, { max: SOURCES_MAX });
  return { sources, ...(more > 0 && { moreSources: more }) };
}
