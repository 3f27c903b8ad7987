// What a language model does, in words for people: the demo step by step, what it learned, what it answered.

import { join } from "node:path";
import type { EntryId, Why } from "../index.ts";
import type { ModelInfo } from "../llm/client.ts";
import type { DemoAnswer, DemoEvent, DemoResult, Strategy, StrategyName } from "../llm/demo.ts";
import type { Proposal } from "../llm/learn.ts";
import type { Renderer } from "./render.ts";
import {
  cut,
  eitherOf,
  ids,
  pad,
  plain,
  plural,
  quoted,
  type Style,
  some,
  wrapped,
} from "./style.ts";

const LABEL_COLUMNS = 13;
/** Unbroken while lines are made; then with spaces, so that it is found by who looks for it. */
const BAD = "←\u00a0will\u00a0turn\u00a0out\u00a0bad";
const REFUSED_COLUMNS = 50;

// ----- learn and ask -----

export interface LearnResult {
  memories: { id: EntryId; text: string | null; legs: EntryId[][] }[];
  refused: Proposal["refused"];
  /** What stood in the prompt. */
  seen: EntryId[];
  model: ModelInfo;
}

export interface AskResult {
  question: string;
  answer: string;
  cites: EntryId[];
  invented: number[];
  /** Memories in the prompt, and living ones that were not. */
  memories: number;
  leftOut: number;
  model: ModelInfo;
  why?: Why[];
}

/** What a model would remember, before it is written: new memories are (1), (2), … */
export function proposal({ style }: Renderer, { memories, refused }: Proposal): string {
  const named = (parent: EntryId | { item: number }) =>
    typeof parent === "number" ? `[${parent}]` : `(${parent.item + 1})`;
  const rows = memories.map(({ text, legs }, i) => [
    `(${i + 1})`,
    style.text(text, style.columns - 30),
    `${style.dim("←")} ${Array.from(legs, (leg) => Array.from(leg, named).join(" and ")).join(style.dim(" or "))}`,
  ]);
  return [style.table(rows, "  "), ...refusals(style, refused)].join("\n");
}

/** As proposal, for who asked to see it alone. */
export function wouldLearn(
  renderer: Renderer,
  { model, ...proposed }: Proposal & { model: ModelInfo },
): string {
  const { style } = renderer;
  const head =
    proposed.memories.length === 0
      ? "The model found nothing to remember. Nothing has been changed."
      : `The model would remember ${plural(proposed.memories.length, "memory")}. Nothing has been changed.`;
  const lines = [head, proposal(renderer, proposed), modelLine(style, model)];
  return lines.filter((line) => line !== "").join("\n");
}

export function learned({ style }: Renderer, { memories, refused, model }: LearnResult): string {
  const rows = memories.map(({ id, text, legs }) => [
    style.id(id),
    style.text(text, style.columns - 30),
    style.legs(legs),
  ]);
  const head =
    memories.length === 0
      ? "The model found nothing to remember."
      : `Learned ${plural(memories.length, "memory")}:`;
  const lines = [
    head,
    style.table(rows, "  "),
    ...refusals(style, refused),
    modelLine(style, model),
  ];
  return lines.filter((line) => line !== "").join("\n");
}

function refusals(style: Style, refused: Proposal["refused"]): string[] {
  return refused.map(({ text, message }) =>
    style.dim(
      wrapped(`left out: ${cut(plain(text), REFUSED_COLUMNS)} (${plain(message)})`, "  ", 2),
    ),
  );
}

function modelLine(style: Style, { name }: ModelInfo): string {
  return style.dim(`model: ${plain(name)}`);
}

export function answered(
  renderer: Renderer,
  { answer, cites, invented, memories, leftOut, model, why }: AskResult,
  texts: ReadonlyMap<EntryId, string>,
): string {
  const { style } = renderer;
  const lines = answer.split("\n").map(plain);
  if (cites.length > 0) lines.push("");
  for (const id of cites) {
    lines.push(`  ${style.id(id)} ${style.text(texts.get(id) ?? "", style.columns - 12)}`);
  }
  if (invented.length > 0) {
    lines.push(style.chalk.yellow(`It also cited ${invented.join(", ")}, which it was not shown.`));
  }
  for (const each of why ?? []) lines.push("", renderer.why(each));
  const left =
    leftOut > 0 ? `; ${leftOut.toLocaleString("en-US")} that fit less were left out` : "";
  lines.push("", style.dim(`from ${plural(memories, "memory")}${left}`), modelLine(style, model));
  return lines.join("\n");
}

// ----- demo -----

/** One step of the demo, as it happens. */
export function demoStep({ style }: Renderer, event: DemoEvent): string {
  switch (event.step) {
    case "begin": {
      const model = wrapped(`model: ${plain(event.model.name)}; ${event.model.how}`, "");
      return `${style.chalk.bold(wrapped(plain(event.title), ""))}\n${model}\n${heading(style, 1, "Sources arrive")}`;
    }
    case "source": {
      const { id, label, text, bad } = event.source;
      const line = `[${id}] ${pad(plain(label), LABEL_COLUMNS)} ${plain(text)}${bad ? ` ${BAD}` : ""}`;
      const lines = wrapped(line, "  ", 18);
      if (!bad) return `${lines}\n`;
      return `${lines.slice(0, -BAD.length)}${style.chalk.red(BAD.replaceAll("\u00a0", " "))}\n`;
    }
    case "thinking":
      return "";
    case "memories":
      return memoriesStep(style, event);
    case "before": {
      const title = heading(style, 3, `A question: ${plain(event.question)}`);
      return `${title}${answerLines(style, event.before)}`;
    }
    case "strategy":
      return strategyStep(style, event);
    case "end":
      return endStep(style, event.result);
  }
}

function heading(style: Style, number: number, text: string): string {
  return `\n${style.chalk.cyan(String(number))}${style.chalk.bold(wrapped(text, "   ").slice(1))}\n`;
}

function memoriesStep(
  style: Style,
  { memories, fromScenario, refused }: Extract<DemoEvent, { step: "memories" }>,
): string {
  const rows = memories.map(({ id, text, from }) =>
    wrapped(`[${id}] ${plain(text)} ← ${from.map(ids).join(" or ")}`, "  ", 6),
  );
  const note =
    fromScenario === null
      ? []
      : [wrapped(`${plain(fromScenario)}. So these are the scenario's own memories:`, "  ")];
  const title = heading(style, 2, "The model learns, and says from where");
  return `${title}${[...note, ...rows, ...refusals(style, refused)].join("\n")}\n`;
}

function answerLines(style: Style, { answer, cites, usesBadData, decidedBy }: DemoAnswer): string {
  const cited =
    cites.length > 0 ? `cites ${cites.map((id) => `[${id}]`).join(" ")}` : "cites nothing";
  const verdict = usesBadData
    ? style.chalk.red("it uses the bad data")
    : style.chalk.green("it does not use the bad data");
  const lines = [wrapped(`"${plain(answer)}"`, "  ", 1), `  ${cited}; ${verdict}`];
  const said = [decidedBy.cites, decidedBy.judge ?? decidedBy.text, decidedBy.text];
  if (decidedBy.judge === null || said.some((each) => each !== said[0])) {
    // What decides is the model's judgement; where there is none, or the witnesses differ, all are named.
    const words = [
      `the model's own judgement: ${yesNo(decidedBy.judge)}`,
      `cites a memory on the bad source alone: ${yesNo(decidedBy.cites)}`,
      `the words of the claim stand in the answer: ${yesNo(decidedBy.text)}`,
    ];
    lines.push(style.dim(wrapped(`(${words.join("; ")})`, "  ", 1)));
  }
  return `${lines.join("\n")}\n`;
}

function yesNo(value: boolean | null): string {
  return value === null ? "none that can be used" : value ? "yes" : "no";
}

const STRATEGY_TITLES: Record<StrategyName, string> = {
  naive: "A  a plain list in a file: the source's text is deleted, and nothing else",
  untrusted: "B  cheesedb, untrusted: the source, and all that was learned from it alone",
  erase: "C  cheesedb, erase: the same, and the texts leave the files",
  strict: "D  strict: everything that the source ever touched, whatever else holds it",
  contact: "E  contact: also everything that was written with the source in view",
};
const STRATEGY_ROWS: Record<StrategyName, string> = {
  naive: "A plain list",
  untrusted: "B untrusted",
  erase: "C erase",
  strict: "D strict",
  contact: "E contact",
};

function strategyStep(
  style: Style,
  { strategy, bad, repeatedIn, fooledBy }: Extract<DemoEvent, { step: "strategy" }>,
): string {
  const { name, removed, survivors, badTextPlaces, bytesSearched } = strategy;
  const lines: string[] = [];
  if (name === "naive") {
    const named = bad.map(({ id, label }) => `[${id}] ${plain(label)}`).join(", ");
    lines.push(heading(style, 4, `${named} was bad. It is removed, in three ways`).trimEnd());
  }
  if (name === "strict") {
    lines.push(
      wrapped(
        fooledBy === "declaration"
          ? "Fair goes by the sources that the model declared, and what the answer rests on was declared to come from others. Two other modes:"
          : "Fair was fooled: what it spared stands on a source that was not recalled, and that may be the same attacker's. Two other modes:",
        "  ",
      ),
      "",
    );
  }
  lines.push(`  ${style.chalk.bold(STRATEGY_TITLES[name])}`);
  if (name !== "naive") {
    const stays = survivors.map(
      ({ id, heldBy }) => `[${id}] stays, held by ${heldBy.map(ids).join(" or ")}`,
    );
    const goes = removed.length === 0 ? "nothing else goes" : `${some(removed)} went too`;
    lines.push(wrapped([goes, ...stays].join("; "), "  "));
  }
  lines.push(answerLines(style, strategy).trimEnd());
  const searched = `a search of all ${bytesSearched.toLocaleString("en-US")} bytes of its files`;
  const found = badTextPlaces === 0 ? "nowhere" : `in ${plural(badTextPlaces, "place")}`;
  const repeated = repeatedIn.length > 0 ? `: its words stand again in ${some(repeatedIn)}` : "";
  lines.push(style.dim(wrapped(`${searched} finds the bad text ${found}${repeated}`, "  ")));
  return `${lines.join("\n")}\n\n`;
}

function endStep(style: Style, result: DemoResult): string {
  const { before, strategies, runs, kept, folder, memories, search } = result;
  const uses = ({ usedIn }: { usedIn: number }) => {
    const word = runs > 1 ? `${usedIn} of ${runs}` : yesNo(usedIn > 0);
    return usedIn > 0 ? style.chalk.red(word) : style.chalk.green(word);
  };
  const row = (name: string, each: DemoResult["before"] | Strategy) => [
    name,
    String(each.memoriesSeen),
    uses(each),
    String(each.badTextPlaces),
  ];
  const head = ["", "memories seen", "still uses the bad data", "bad text on disk"];
  const table = style.table(
    [
      head.map((cell) => style.dim(cell)),
      row("before", before),
      ...strategies.map((strategy) => row(STRATEGY_ROWS[strategy.name], strategy)),
    ],
    "  ",
  );
  const lines = [
    `${heading(style, 5, "What it comes to").trim()}`,
    table,
    "",
    wrapped(conclusion(result), "  "),
  ];
  if (kept) {
    const at = (name: string) => quoted(join(folder, name));
    lines.push(
      "",
      style.next(`cheesedb list demo --all --store ${at("untrusted")}`),
      `      cheesedb why demo ${memories.at(-1)?.id ?? 1} --store ${at("untrusted")}`,
      `      cheesedb find ${quoted(search[0] ?? "")} --absent --store ${at("erase")}`,
      `      cat ${at("naive.json")}`,
    );
  } else {
    lines.push(
      "",
      style.next("cheesedb demo --keep  leaves the files, to look at them"),
      "      cheesedb demo --scenario payment  (or laundering, address, second-leg)",
      "      cheesedb agent create NAME  begins a memory of your own",
    );
  }
  return `${lines.join("\n")}\n`;
}

/** What the table shows, in words; also where it shows nothing, or the contrary. */
function conclusion(result: DemoResult): string {
  const { before, strategies, model, memories, runs } = result;
  const of = (name: StrategyName) => strategies.find((each) => each.name === name);
  const [naive, untrusted, erase, strict, contact] = [
    of("naive"),
    of("untrusted"),
    of("erase"),
    of("strict"),
    of("contact"),
  ];
  if (!naive || !untrusted || !erase) return "";
  const disk =
    erase.badTextPlaces === 0
      ? "After the erase no byte of the files holds the bad text."
      : `After the erase its words still stand in ${plural(erase.badTextPlaces, "place")}: in what did not come from this source alone.`;
  if (before.usedIn === 0) {
    const shown =
      "This model shows nothing about answers: even before anything was removed, its answer did not use the bad data.";
    return [shown, ...(model.builtIn ? [rulesOnly(result)] : []), disk].join(" ");
  }
  const parts = [
    naive.usedIn > 0
      ? "The plain list deleted the source, and the agent goes on acting on what it had learned from it."
      : "The plain list kept what was learned from the source; this model did not use it this time.",
  ];
  const fooled = [erase, untrusted].find(({ usedIn }) => usedIn > 0);
  if (!fooled) {
    parts.push("The recall took what was learned too, and the agent no longer knows it.");
  } else if (strict?.usedIn === 0 && fooled.survivors.length > 0) {
    parts.push(
      "The fair recall was fooled by a second leg; strict was not. Which mode is right, only someone who knows the sources can say.",
    );
  } else if (contact && fooled.cites.length > 0) {
    const cited = memories.filter(({ id }) => fooled.cites.includes(id));
    const legs = cited.map(({ id, from }) => `[${id}] ← ${eitherOf(from)}`).join(", ");
    parts.push(
      `After the recall the answer still asserts it, and rests on a memory that the model declared to come from elsewhere: ${legs}. A recall follows the legs that were declared.`,
      contact.usedIn > 0
        ? "Not even contact changed this answer."
        : "Contact goes by what was in view when it was written, and took it.",
    );
  } else {
    parts.push(
      `After the recall the model still asserts it${runs > 1 ? " in some runs" : ""}, and cites no memory for it: it made it up. That, no memory database can take from a model.`,
    );
  }
  parts.push(disk);
  if (model.builtIn) {
    parts.push(
      "The model here was the built-in reader, rules and not a language model: name a real one in llm.conf, and see.",
    );
  }
  return parts.join(" ");
}

/** Why the built-in reader may have come to nothing, for who wrote the scenario. */
function rulesOnly({ notApplied, memoriesFromScenario }: DemoResult): string {
  const named = notApplied.map((instruction) => `"${plain(instruction)}"`).join(", ");
  const parts = [
    'It is the built-in reader: rules, that know words and no meanings. An instruction is applied if it reads "When …, …" and the sources carry the words of its condition.',
    ...(named === "" ? [] : [`Not applied: ${named.replace(/\."$/, '"')}.`]),
    ...(memoriesFromScenario
      ? []
      : ["The scenario's own memories are used only where a model's answer is of no use."]),
  ];
  return parts.join(" ");
}
