// A small extractive reader: rules for plain English, no language model. It restates what sources say, applies "When …, …"
// instructions, and answers a question from the memories that fit it. It knows no scenario: other words, other answers.

import { contentWords, sharedWords as shared } from "../words.ts";

export interface Source {
  id: string;
  label: string;
  text: string;
}

export interface Memory {
  id: string;
  text: string;
}

export interface Derived {
  text: string;
  /** Sets of ids. */
  from: string[][];
}

/** Sentences, without bullets and white space around them. */
export function statements(text: string): string[] {
  return text
    .split(/(?<=[.!?])\s+|\n+|;\s+/)
    .map((part) => withoutEnd(part.replace(/^[\s\-*•>]+/, "")))
    .filter((part) => contentWords(part).size > 0);
}

/** Without the white space and full stops at its end: looked for from there, since a text may be full of both. */
function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && /[\s.]/.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** What a person says of herself, as the agent would note it. */
export function restate(label: string, statement: string): string {
  if (!/user|person|human|message|chat/i.test(label)) return statement;
  return statement
    .replace(/\bI'm\b|\bI am\b/g, "the user is")
    .replace(/\bI've\b|\bI have\b/g, "the user has")
    .replace(/\bI (can|do|did|wo|would|should|could|was|had)n?['’]t\b/g, (_, verb: string) =>
      denied(verb),
    )
    .replace(
      /\bI ((?:(?:never|always|often|usually|sometimes|rarely|also|still|really|only|just|now) )*)([a-z]+)\b/g,
      (_, adverbs: string, verb: string) => `the user ${adverbs}${thirdPerson(verb)}`,
    )
    .replace(/\b[Mm]y\b/g, "the user's")
    .replace(/\b(me|I)\b/g, "the user");
}

/** "I don't" and the like. */
function denied(verb: string): string {
  if (verb === "can") return "the user cannot";
  return `the user ${verb === "do" ? "does" : verb === "wo" ? "will" : verb} not`;
}

/** Past forms that do not end in -ed. */
const PAST = new Set(
  `ate became began bought brought built came chose drank drove fell felt flew forgot found gave got grew had heard held kept
  knew left lent lost made met moved paid ran said sang sat saw sent slept sold spent spoke stood swam taught thought told
  took understood was went were woke won wore wrote`.split(/\s+/),
);

function thirdPerson(verb: string): string {
  if (/^(did|can|cannot|could|will|would|must|should|may|might)$/.test(verb)) return verb;
  if (PAST.has(verb) || /ed$/.test(verb)) return verb;
  if (/(s|x|ch|sh|o)$/.test(verb)) return `${verb}es`;
  return /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ies` : `${verb}s`;
}

interface Rule {
  condition: Set<string>;
  consequence: string;
  /** The memory that is the rule, if it is one. */
  id: string | null;
}

/** "When C, A" or "If C, A"; null for anything else. */
export function toRule(text: string, id: string | null = null): Rule | null {
  const sentence = text.trim();
  const begin = /^(?:when|whenever|if|once|as soon as)\s/i.exec(sentence)?.[0].length;
  const comma = begin === undefined ? -1 : sentence.indexOf(",", begin);
  if (comma === -1) return null;
  const condition = sentence.slice(begin, comma).trim();
  const consequence = sentence
    .slice(comma + 1)
    .trimStart()
    .replace(/^then\s+/i, "");
  if (!condition || !consequence || contentWords(condition).size === 0) return null;
  return { condition: contentWords(condition), consequence: consequence.replace(/\.$/, ""), id };
}

const FACTS_MAX = 400;

interface Fact {
  text: string;
  words: Set<string>;
  /** What it is called where it is built on. */
  name: string;
  /** What it rests on. */
  from: string[];
}

const fact = (text: string, name: string, from: string[]): Fact => ({
  text,
  words: contentWords(text),
  name,
  from,
});

/**
 * Applies rules to facts until nothing new follows.
 *
 * A condition is met by one fact that holds all its words, or by two that do together and have another word in common.
 *
 * @param derive makes the fact that follows
 * @returns the facts that followed, in order
 */
function follow(
  facts: Fact[],
  rules: Rule[],
  derive: (text: string, met: Fact[], rule: Rule) => Fact,
): Fact[] {
  const all = [...facts];
  const known = new Set(all.map(({ text }) => normal(text)));
  for (let changed = true; changed && all.length < FACTS_MAX; ) {
    changed = false;
    for (const rule of rules) {
      if (known.has(normal(rule.consequence))) continue;
      const met = meet(all, rule.condition);
      if (!met) continue;
      known.add(normal(rule.consequence));
      all.push(derive(rule.consequence, met, rule));
      changed = true;
    }
  }
  return all.slice(facts.length);
}

function meet(facts: Fact[], condition: Set<string>): Fact[] | null {
  // A rule states nothing by itself.
  const some = facts.filter(
    ({ text, words }) => toRule(text) === null && shared(condition, words) > 0,
  );
  const whole = some.find(({ words }) => shared(condition, words) === condition.size);
  if (whole) return [whole];
  for (const a of some) {
    for (const b of some) {
      if (a === b || shared(condition, new Set([...a.words, ...b.words])) < condition.size)
        continue;
      if ([...a.words].some((word) => b.words.has(word) && !condition.has(word))) return [a, b];
    }
  }
  return null;
}

function normal(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** Sources → memories with their legs. The same said twice is one memory with two legs. */
export function learn(sources: Source[], memories: Memory[], instructions: string[]): Derived[] {
  const existing = new Set(memories.map(({ text }) => normal(text)));
  const learned = new Map<string, Derived>();
  for (const { id, label, text } of sources) {
    for (const statement of statements(text)) {
      const restated = restate(label, statement);
      const key = normal(restated);
      const before = learned.get(key);
      if (before && !before.from.some(([only]) => only === id)) before.from.push([id]);
      if (!before && !existing.has(key)) learned.set(key, { text: restated, from: [[id]] });
    }
  }
  // A new memory is named by its place in the answer.
  const restated = [...learned.values()];
  let count = restated.length;
  const facts = [
    ...memories.map(({ id, text }) => fact(text, id, [])),
    ...restated.map(({ text }, i) => fact(text, `m${i + 1}`, [])),
  ];
  const followed = follow(facts, rulesIn(instructions), (text, met) =>
    fact(
      text,
      `m${++count}`,
      met.map(({ name }) => name),
    ),
  );
  return [...restated, ...followed.map(({ text, from }) => ({ text, from: [from] }))];
}

function rulesIn(instructions: string[]): Rule[] {
  return instructions.map((instruction) => toRule(instruction)).filter((rule) => rule !== null);
}

const DO_NOT_KNOW = "I do not know.";
const ANSWERS_MAX = 3;

/** The memories that fit a question best, in their own words; and what follows from them by the instructions. */
export function answer(
  question: string,
  memories: Memory[],
  instructions: string[],
): { answer: string; cites: string[] } {
  const facts = memories.map(({ id, text }) => fact(text, id, [id]));
  // A memory may itself be an instruction: it is followed like any other, which is how a planted one does its harm.
  const remembered = memories
    .map(({ id, text }) => toRule(text, id))
    .filter((rule) => rule !== null);
  const followed = follow(facts, [...rulesIn(instructions), ...remembered], (text, met, { id }) =>
    fact(text, "", [...new Set([...met.flatMap(({ from }) => from), ...(id ? [id] : [])])]),
  );
  const wanted = contentWords(question);
  const scored = [...followed, ...facts]
    .filter(({ text }) => toRule(text) === null)
    .map((each) => {
      const score = shared(wanted, each.words);
      return { each, score, density: score / each.words.size };
    })
    // Of those that fit equally well, what says little else comes first.
    .sort((a, b) => b.score - a.score || b.density - a.density);
  const best = scored[0]?.score ?? 0;
  if (best === 0) return { answer: DO_NOT_KNOW, cites: [] };
  const chosen: Fact[] = [];
  for (const { each, score } of scored) {
    if (score < best || chosen.length === ANSWERS_MAX) break;
    if (!chosen.some(({ text }) => normal(text) === normal(each.text))) chosen.push(each);
  }
  return {
    answer: chosen.map(({ text }) => sentence(text)).join(" "),
    cites: [...new Set(chosen.flatMap(({ from }) => from))],
  };
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** Whether a text says all that a claim says, by its words. */
export function asserts(text: string, claim: string): boolean {
  const claimed = contentWords(claim);
  if (claimed.size === 0) return false;
  const isDenied = (said: string) => /\b(?:not|no|never|cannot|nobody|\w+n['’]t)\b/i.test(said);
  return text
    .split(/(?<=[.!?])\s+/)
    .some(
      (said) =>
        shared(claimed, contentWords(said)) === claimed.size && isDenied(said) === isDenied(claim),
    );
}
