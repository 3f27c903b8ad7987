// The demo: the fields of its --json, what it claims against what can be counted, models that do not do as hoped, and that it
// touches nothing but a temporary folder.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Renderer } from "../src/cli/render.ts";
import { demoStep } from "../src/cli/story.ts";
import { Style } from "../src/cli/style.ts";
import { CheeseError } from "../src/index.ts";
import { chooseModel } from "../src/llm/choose.ts";
import type { LlmSettings } from "../src/llm/config.ts";
import type { DemoResult, StrategyName } from "../src/llm/demo.ts";
import { runDemo } from "../src/llm/demo.ts";
import { parseScenario, type Scenario } from "../src/llm/scenario.ts";
import {
  bytesOf,
  CLI,
  cli,
  each,
  HAS_TERMINAL,
  onTerminal,
  puneStore,
  refusal,
  refused,
  result,
  shellQuoted,
  startCli,
} from "./cli-helpers.ts";
import { allBytes, filesIn, tempFolder } from "./helpers.ts";
import {
  byKind,
  type Chat,
  hangs,
  kindOf,
  lastOf,
  llmServer,
  MODEL,
  type Reply,
  refuses,
  type Script,
  says,
} from "./llm-server.ts";

const DEMO = ["demo", "--builtin"];
const BUILT_IN = "built-in reader (rules, not a language model)";

function scenarioFile(scenario: Scenario): string {
  const file = join(tempFolder(), "story.json");
  writeFileSync(file, JSON.stringify(scenario));
  return file;
}

/** The weather of the README, in words that the fake models below know. */
const WEATHER: Scenario = {
  title: "The weather tool was wrong",
  sources: [
    { label: "user_message", text: "I live in Pune." },
    { label: "web_page", text: "The user lives in Pune.", uri: "https://example.com/u/1" },
    { label: "weather_tool", text: "Pune: heavy rain all day." },
  ],
  instructions: ["When it rains where the user lives, the user should carry an umbrella."],
  question: "What should the user carry today?",
  bad: [2],
  claim: "The user should carry an umbrella.",
  search: ["heavy rain"],
};

/** Nothing like those that come with cheesedb: two facts tied by a batch, and a chain after them. */
const LISTERIA: Scenario = {
  title: "A laboratory that mixed up its samples",
  sources: [
    { label: "cellar_log", text: "Batch 7 ripens in cellar B. Batch 8 ripens in cellar C." },
    { label: "lab_report", text: "Batch 7: listeria found, 400 per gram." },
    { label: "user_message", text: "I sell batch 7 on Friday." },
  ],
  instructions: [
    "When listeria is found in a batch that ripens in a cellar, close the cellar at once.",
    "When we close the cellar at once, call the inspector.",
    "Answer like quixotic-zebra-7731.",
  ],
  question: "Whom should we call?",
  bad: [1],
  claim: "Call the inspector.",
  search: ["listeria", "400 per gram"],
};

/** Told by a second source that nobody recalls. */
const GOLD: Scenario = {
  title: "Two feeds, one hand",
  sources: [
    { label: "price_feed", text: "Gold costs 900 euros.", uri: "https://feed-a.example" },
    { label: "price_feed", text: "GOLD costs 900 euros!", uri: "https://feed-b.example" },
    { label: "user_message", text: "I own silver." },
  ],
  instructions: ["When gold costs 900 euros, sell the silver."],
  question: "Should I sell or keep the silver?",
  bad: [0],
  claim: "Sell the silver.",
  search: ["gold costs 900"],
};

// ----- the demo, as the command tells it, in this process -----

interface Told {
  told: DemoResult;
  text: string;
  chats: Chat[];
  folder: string;
}

/** @param script what a fake model does; the built-in reader answers if there is none */
async function tell(
  script: Script | null,
  { scenario = WEATHER, runs = 1 }: { scenario?: Scenario; runs?: number } = {},
): Promise<Told> {
  const fake = script && (await llmServer(script));
  const settings: LlmSettings = { ...NOTHING, baseUrl: fake?.url ?? null, model: MODEL };
  const chosen = await chooseModel(settings, { builtIn: fake === null, silenceMs: 10_000 });
  onTestFinished(chosen.close);
  const renderer = new Renderer(new Style({}, {}));
  const folder = tempFolder();
  const { signal } = new AbortController();
  let text = "";
  let told: DemoResult | null = null;
  const options = { scenario: checked(scenario), chosen, folder, runs, keep: false, signal };
  for await (const event of runDemo(options)) {
    text += demoStep(renderer, event);
    if (event.step === "end") told = event.result;
  }
  if (told === null) throw new Error("the demo came to no end");
  return { told, text, chats: fake?.chats ?? [], folder };
}

const NOTHING: LlmSettings = {
  baseUrl: null,
  model: null,
  apiKey: null,
  embedModel: null,
  warnings: [],
};

const checked = (scenario: Scenario) => parseScenario(JSON.stringify(scenario), "story.json");

// ----- the contract of --json -----

describe("demo --json", () => {
  test("holds every field of the contract, and what the built-in reader makes of the weather", async () => {
    const told: DemoResult = await result([...DEMO, "--scenario", scenarioFile(WEATHER)]);
    expect(told).toMatchObject({
      scenario: "The weather tool was wrong",
      model: {
        name: "built-in reader (rules, not a language model)",
        server: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1$/),
        builtIn: true,
      },
      question: "What should the user carry today?",
      sources: [
        { id: 1, label: "user_message", text: "I live in Pune.", bad: false },
        { id: 2, label: "web_page", text: "The user lives in Pune.", bad: false },
        { id: 3, label: "weather_tool", text: "Pune: heavy rain all day.", bad: true },
      ],
      memories: [
        { id: 4, text: "the user lives in Pune", from: [[1], [2]] },
        { id: 5, text: "Pune: heavy rain all day", from: [[3]] },
        { id: 6, text: "the user should carry an umbrella", from: [[4, 5]] },
      ],
      memoriesFromScenario: false,
      refused: [],
      before: {
        answer: "The user should carry an umbrella.",
        cites: [6],
        usesBadData: true,
        decidedBy: { cites: true, judge: true, text: true },
        memoriesSeen: 3,
        badTextPlaces: 2,
      },
      runs: 1,
      kept: false,
    });
    expect(told.strategies).toMatchObject([
      {
        name: "naive",
        memoriesSeen: 3,
        answer: "The user should carry an umbrella.",
        cites: [6],
        usesBadData: true,
        decidedBy: { cites: true, judge: true, text: true },
        badTextPlaces: 1,
      },
      {
        name: "untrusted",
        memoriesSeen: 1,
        answer: "I do not know.",
        cites: [],
        usesBadData: false,
        decidedBy: { cites: false, judge: false, text: false },
        badTextPlaces: 2,
        removed: [5, 6],
      },
      {
        name: "erase",
        memoriesSeen: 1,
        answer: "I do not know.",
        cites: [],
        usesBadData: false,
        decidedBy: { cites: false, judge: false, text: false },
        badTextPlaces: 0,
        removed: [5, 6],
      },
    ]);
    expect(told.strategies).toHaveLength(3);
  });

  test("holds every prompt and raw answer, in order: 1 to learn, then 4 questions with a judgement each", async () => {
    const { exchanges, ms } = (await tell(null)).told;
    const kinds = exchanges.map(({ messages }) => kindOf({ messages } as Chat));
    const asked = ["answer", "judgement"];
    expect(kinds).toEqual(["memories", ...asked, ...asked, ...asked, ...asked]);
    for (const { raw, messages, ms } of exchanges) {
      expect(() => JSON.parse(raw)).not.toThrow();
      expect(messages.map(({ role }) => role)).toEqual(["system", "user"]);
      expect(ms).toBeGreaterThanOrEqual(0);
    }
    expect(ms).toBeGreaterThanOrEqual(0);
    // What died of the recall is in no prompt after it; the instructions are in all but the judge's.
    const prompts = exchanges.map(({ messages }) => lastOf({ messages } as Chat));
    expect(prompts.map((prompt) => prompt.includes("heavy rain"))).toEqual([
      true,
      true,
      false,
      true,
      false,
      false,
      false,
      false,
      false,
    ]);
    expect(prompts.map((prompt) => prompt.includes(WEATHER.instructions[0] as string))).toEqual([
      true,
      true,
      false,
      true,
      false,
      true,
      false,
      true,
      false,
    ]);
  });

  const EXAMPLES: [string, Partial<Record<StrategyName, boolean>>][] = [
    ["weather", { naive: true, untrusted: false, erase: false }],
    ["payment", { naive: true, untrusted: false, erase: false }],
    ["laundering", { naive: true, untrusted: false, erase: false }],
    ["address", { naive: true, untrusted: false, erase: false }],
    ["second-leg", { naive: true, untrusted: true, erase: true, strict: false, contact: false }],
  ];

  test("each scenario that comes with cheesedb comes out as it should, and the search finds what it must", async () => {
    await each(EXAMPLES, async ([name, uses]) => {
      const told: DemoResult = await result([...DEMO, "--scenario", name]);
      const used = Object.fromEntries(told.strategies.map((each) => [each.name, each.usesBadData]));
      expect.soft([name, told.before.usesBadData, used]).toEqual([name, true, uses]);
      expect
        .soft([name, told.strategies.map((each) => each.name)])
        .toEqual([name, Object.keys(uses)]);
      const places = Object.fromEntries(
        told.strategies.map((each) => [each.name, each.badTextPlaces]),
      );
      expect.soft(told.before.badTextPlaces).toBeGreaterThan(0);
      expect.soft(places.naive).toBeGreaterThan(0);
      expect.soft(places.untrusted).toBeGreaterThan(0);
      // The second source says the same, and was not recalled: its text stays, and so does the memory it holds.
      expect.soft([name, places.erase]).toEqual([name, name === "second-leg" ? 2 : 0]);
      if (name === "second-leg") expect.soft([places.strict, places.contact]).toEqual([1, 1]);
    });
  });

  test("--runs asks every question so often, and counts", async () => {
    const args = [...DEMO, "--scenario", scenarioFile(WEATHER), "--runs", "3"];
    const [told, { stdout }]: [DemoResult, { stdout: string }] = await Promise.all([
      result(args),
      cli(args),
    ]);
    expect([told.runs, told.before.usedIn]).toEqual([3, 3]);
    expect(told.strategies.map(({ usedIn }) => usedIn)).toEqual([3, 0, 0]);
    // 1 to learn; 4 times 3 questions, each with its judgement.
    expect(told.exchanges).toHaveLength(25);
    expect(rowsOf(stdout)).toMatchObject({
      before: ["3", "3 of 3", "2"],
      "B untrusted": ["1", "0 of 3", "2"],
    });
  });
});

/** The rows of the table at the end, by their first cell. */
function rowsOf(stdout: string): Record<string, string[]> {
  const lines = stdout.split("\n");
  const from = lines.findIndex((line) => /^ +before {2,}/.test(line));
  const to = lines.indexOf("", from);
  return Object.fromEntries(
    lines.slice(from, to).map((line) => {
      const [name = "", ...cells] = line.trim().split(/ {2,}/);
      return [name, cells];
    }),
  );
}

// ----- scenarios of one's own -----

describe("a scenario of one's own", () => {
  test("unlike those that come with cheesedb: the built-in reader answers it by its rules", async () => {
    const { told } = await tell(null, { scenario: LISTERIA });
    expect(told.memories).toEqual([
      { id: 4, text: "Batch 7 ripens in cellar B", from: [[1]] },
      { id: 5, text: "Batch 8 ripens in cellar C", from: [[1]] },
      { id: 6, text: "Batch 7: listeria found, 400 per gram", from: [[2]] },
      { id: 7, text: "the user sells batch 7 on Friday", from: [[3]] },
      { id: 8, text: "close the cellar at once", from: [[4, 6]] },
      { id: 9, text: "call the inspector", from: [[8]] },
    ]);
    expect(told.before).toMatchObject({
      answer: "Call the inspector.",
      cites: [9],
      usesBadData: true,
    });
    expect(told.strategies).toMatchObject([
      { name: "naive", answer: "Call the inspector.", memoriesSeen: 6, usesBadData: true },
      {
        name: "untrusted",
        answer: "I do not know.",
        memoriesSeen: 3,
        usesBadData: false,
        removed: [6, 8, 9],
      },
      {
        name: "erase",
        answer: "I do not know.",
        memoriesSeen: 3,
        usesBadData: false,
        badTextPlaces: 0,
      },
    ]);
    // "listeria" and "400 per gram" stand in the source and in memory 6; the list has lost the source.
    expect(told.before.badTextPlaces).toBe(4);
    expect(told.strategies.map(({ badTextPlaces }) => badTextPlaces)).toEqual([2, 4, 0]);
  });

  test("other words in it, other answers", async () => {
    const text = JSON.stringify(LISTERIA)
      .replaceAll("listeria", "cracks")
      .replaceAll("inspector", "roofer")
      .replaceAll("cellar", "barn")
      .replaceAll("400", "12")
      .replaceAll("gram", "metre");
    const { told } = await tell(null, { scenario: JSON.parse(text) });
    expect(told.before).toMatchObject({ answer: "Call the roofer.", usesBadData: true });
    expect(told.memories.map((each) => each.text)).toContain("close the barn at once");
    expect(told.strategies.map((each) => each.usesBadData)).toEqual([true, false, false]);
  });

  test("without the instruction nothing follows, and the demo says that it shows nothing", async () => {
    const { told, text } = await tell(null, { scenario: { ...LISTERIA, instructions: [] } });
    expect(told.before).toMatchObject({ answer: "I do not know.", cites: [], usesBadData: false });
    expect(flat(text)).toMatch(/shows nothing about answers: even before/);
  });

  test("where it shows nothing, the reader says that it knows words alone, and what it did not apply", async () => {
    const scenario: Scenario = {
      title: "A package",
      sources: [
        { label: "advisory", text: "leftpadder 2.1 has a backdoor." },
        { label: "user_message", text: "The service uses leftpadder." },
      ],
      instructions: [
        "When a package has a backdoor, the team should delete the service.",
        "When the service uses leftpadder, send the invoice.",
      ],
      question: "What should the team do?",
      bad: [0],
      claim: "The team should delete the service.",
      search: ["backdoor"],
      memories: [{ text: "The team should delete the service.", from: [[0]] }],
    };
    const { told, text } = await tell(null, { scenario });
    expect(told.before.usesBadData).toBe(false);
    expect(told.notApplied).toEqual([scenario.instructions[0]]);
    expect(flat(text)).toContain(
      'Not applied: "When a package has a backdoor, the team should delete the service".',
    );
    expect(flat(text)).toContain("The scenario's own memories are used only where");
    // The one word that was missing makes the difference.
    const sources = [{ label: "advisory", text: "The package leftpadder has a backdoor." }];
    const mended = await tell(null, {
      scenario: { ...scenario, sources: [...sources, ...scenario.sources.slice(1)] },
    });
    expect(mended.told).toMatchObject({ notApplied: [], before: { usesBadData: true } });
    expect(flat(mended.text)).not.toContain("Not applied");
  });

  test("several bad sources are removed together", async () => {
    const { told } = await tell(null, { scenario: { ...GOLD, bad: [0, 1] } });
    expect(told.sources.map(({ bad }) => bad)).toEqual([true, true, false]);
    expect(told.strategies).toMatchObject([
      { name: "naive", usesBadData: true },
      { name: "untrusted", usesBadData: false, removed: [4, 6] },
      { name: "erase", usesBadData: false, removed: [4, 6], badTextPlaces: 0 },
    ]);
    expect(told.strategies).toHaveLength(3);
  });

  test("one that fools fair: strict and contact are shown beside it, and it is said that fair was fooled", async () => {
    const { told, text } = await tell(null, { scenario: GOLD });
    expect(told.memories).toEqual([
      { id: 4, text: "Gold costs 900 euros", from: [[1], [2]] },
      { id: 5, text: "the user owns silver", from: [[3]] },
      { id: 6, text: "sell the silver", from: [[4]] },
    ]);
    expect(told.strategies).toMatchObject([
      { name: "naive", usesBadData: true },
      {
        name: "untrusted",
        mode: "fair",
        usesBadData: true,
        survivors: [{ id: 4, heldBy: [[2]] }],
        memoriesSeen: 3,
      },
      {
        name: "erase",
        mode: "fair",
        usesBadData: true,
        removed: [],
        memoriesSeen: 3,
        badTextPlaces: 2,
      },
      {
        name: "strict",
        mode: "strict",
        usesBadData: false,
        removed: [4, 6],
        memoriesSeen: 1,
        badTextPlaces: 1,
      },
      {
        name: "contact",
        mode: "contact",
        usesBadData: false,
        removed: [4, 5, 6],
        memoriesSeen: 0,
        badTextPlaces: 1,
      },
    ]);
    expect(rowsOf(text)).toMatchObject({
      "C erase": ["3", "yes", "2"],
      "D strict": ["1", "no", "1"],
      "E contact": ["0", "no", "1"],
    });
    expect(text).toContain("held by [2]");
    expect(flat(text)).toMatch(/[Ff]air.* fooled/);
  });
});

/** One line of words, however it was broken. */
const flat = (text: string) => text.replaceAll(/\s+/g, " ");

// ----- what it claims, counted again -----

describe("what stands on the disk", () => {
  /** Counted in another way than find does: every place in every byte, by letters in lower case. */
  function placesIn(bytes: Buffer, words: string[]): number {
    const haystack = bytes.toString("latin1").toLowerCase();
    let count = 0;
    for (const word of words) {
      const needle = Buffer.from(word).toString("latin1").toLowerCase();
      for (let at = haystack.indexOf(needle); at !== -1; at = haystack.indexOf(needle, at + 1))
        count++;
    }
    return count;
  }

  const BANANA: Scenario = {
    ...WEATHER,
    sources: [
      { label: "user_message", text: "I eat fruit." },
      { label: "web_page", text: 'Ana\'s "BANANA" is poisonous.' },
    ],
    instructions: [],
    question: "Is fruit poisonous?",
    bad: [1],
    claim: "The banana is poisonous.",
    // Places may overlap, in any case; and a quotation mark is written otherwise in a JSON file.
    search: ["ana", 's "banana'],
  };

  function expectCounted({ told, folder }: { told: DemoResult; folder: string }) {
    const { search, before, strategies } = told;
    expect.soft(placesIn(allBytes(join(folder, "base")), search)).toBe(before.badTextPlaces);
    const naive = readFileSync(join(folder, "naive.json"));
    expect.soft(placesIn(naive, search)).toBe(strategies[0]?.badTextPlaces);
    expect.soft(naive.length).toBe(strategies[0]?.bytesSearched);
    for (const { name, badTextPlaces, bytesSearched } of strategies.slice(1)) {
      const bytes = allBytes(join(folder, name));
      expect.soft([name, placesIn(bytes, search)]).toEqual([name, badTextPlaces]);
      expect.soft([name, bytes.length]).toEqual([name, bytesSearched]);
    }
  }

  test("badTextPlaces is what anyone counts in the files", async () => {
    for (const scenario of [LISTERIA, GOLD, { ...WEATHER, title: "Größer als İstanbul" }])
      expectCounted(await tell(null, { scenario }));
  });

  test("the search finds what stands there in another case, twice in one word, or with quotation marks", async () => {
    const { told, folder } = await tell(null, { scenario: BANANA });
    // "ana" in the source: Ana, bANAna, banANA; the same in the memory; and the words with the mark once each.
    expect(told.before.badTextPlaces).toBe(8);
    expect(placesIn(allBytes(join(folder, "base")), BANANA.search)).toBe(8);
    expect(told.strategies.map(({ name, badTextPlaces }) => [name, badTextPlaces])).toEqual([
      ["naive", 4],
      ["untrusted", 8],
      ["erase", 0],
    ]);
  });

  test("the list keeps what was learned and loses the source, and nothing else", async () => {
    const { folder } = await tell(null);
    expect(JSON.parse(readFileSync(join(folder, "naive.json"), "utf8"))).toEqual({
      sources: [
        { id: 1, label: "user_message", text: "I live in Pune." },
        { id: 2, label: "web_page", text: "The user lives in Pune." },
      ],
      memories: [
        { id: 4, text: "the user lives in Pune" },
        { id: 5, text: "Pune: heavy rain all day" },
        { id: 6, text: "the user should carry an umbrella" },
      ],
    });
  });

  test("a standing instruction, and the question, stand in no byte of any store or file", async () => {
    const { folder } = await tell(null, { scenario: LISTERIA });
    const bytes = allBytes(folder);
    expect(placesIn(bytes, ["quixotic-zebra-7731"])).toBe(0);
    for (const instruction of LISTERIA.instructions) expect(placesIn(bytes, [instruction])).toBe(0);
    expect(placesIn(bytes, [LISTERIA.question, LISTERIA.claim])).toBe(0);
    // The same search finds what does stand there.
    expect(placesIn(bytes, ["ripens in cellar"])).toBeGreaterThan(0);
  });

  /** A blank in its path: the commands that are printed must stand it. */
  function tempFolderWithBlank(): string {
    const folder = join(tempFolder(), "with blank");
    mkdirSync(folder);
    return folder;
  }

  test("--keep leaves the files that were counted, and says so", async () => {
    const env = { TMPDIR: tempFolderWithBlank() };
    const told: DemoResult = await result([...DEMO, "--keep"], { env });
    expect(told.kept).toBe(true);
    expect(readdirSync(told.folder).sort()).toEqual(["base", "erase", "naive.json", "untrusted"]);
    expectCounted({ told, folder: told.folder });
    // As private as a store: nobody else can look in.
    const modes = readdirSync(told.folder, { recursive: true, encoding: "utf8" }).map((name) => {
      const stat = statSync(join(told.folder, name));
      return [name, (stat.mode & 0o777).toString(8), stat.isDirectory() ? "700" : "600"];
    });
    expect(modes.length).toBeGreaterThan(20);
    // Lock files are empty, and of the kernel's making.
    const open = modes.filter(([, mode, wanted]) => mode !== wanted).map(([name]) => name);
    expect(open.filter((name) => !name?.endsWith(".lock"))).toEqual([]);
  });

  test("Ctrl-C with --keep leaves the files, and names their folder", async () => {
    const { url, asked } = await llmServer(byKind({ memories: says(UMBRELLA), answer: hangs() }));
    const TMPDIR = tempFolder();
    const env = { OPENAI_BASE_URL: url, CHEESEDB_MODEL: MODEL, TMPDIR };
    const { child, done } = startCli(["demo", "--keep"], { env });
    await asked(2);
    child.kill("SIGINT");
    const { code, stderr } = await done;
    const [folder = ""] = readdirSync(TMPDIR).filter((name) => name.startsWith("cheesedb"));
    expect(code).toBe(130);
    expect(stderr).toContain(`Its files so far: ${join(TMPDIR, folder)}\n`);
    expect(readdirSync(join(TMPDIR, folder))).toContain("base");
  });

  test("the commands that --keep prints can be run as they stand", async () => {
    const { stdout } = await cli([...DEMO, "--keep"], { env: { TMPDIR: tempFolderWithBlank() } });
    const [, block = ""] = stdout.split("Next: ");
    const commands = block
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
    expect(commands.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
      "cheesedb list",
      "cheesedb why",
      "cheesedb find",
      expect.stringMatching(/^cat /),
    ]);
    const cheesedb = `cheesedb() { ${CLI.map(shellQuoted).join(" ")} "$@"; }`;
    const ran = commands.map((command) => {
      const { status, stdout } = spawnSync("/bin/sh", ["-c", `${cheesedb}\n${command}`], {
        encoding: "utf8",
      });
      return { status, stdout };
    });
    expect(ran.map(({ status }) => status)).toEqual([0, 0, 0, 0]);
    expect(ran[0]?.stdout).toContain("weather_tool");
    expect(ran[3]?.stdout).toContain('"memories"');
  });

  test("without --keep the folder is gone, and its path is of no use to anyone", async () => {
    const TMPDIR = tempFolder();
    const told: DemoResult = await result(DEMO, { env: { TMPDIR } });
    expect(told.kept).toBe(false);
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith("cheesedb"))).toEqual([]);
  });

  test("a reader of the story who has had enough leaves no folder behind either", () => {
    const TMPDIR = tempFolder();
    const command = `${[...CLI, ...DEMO].map(shellQuoted).join(" ")} | head -n 1`;
    const { status, stdout, stderr } = spawnSync("/bin/sh", ["-c", command], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: tempFolder(), TMPDIR },
    });
    expect([status, stdout, stderr]).toEqual([0, "The weather tool was wrong\n", ""]);
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith("cheesedb"))).toEqual([]);
  });

  test("the user's own store is read for its llm.conf alone: not a byte of it changes, nor is one made", async () => {
    const { store } = await puneStore();
    writeFileSync(join(store, "llm.conf"), "model = unused\n", { mode: 0o600 });
    const before = bytesOf(store);
    const HOME = tempFolder();
    const TMPDIR = tempFolder();
    await each([["--json"], ["--keep", "--runs", "2"]], async (flags) => {
      const { code } = await cli([...DEMO, ...flags], { store, env: { TMPDIR } });
      expect(code).toBe(0);
    });
    expect(bytesOf(store)).toEqual(before);
    await cli(DEMO, { env: { HOME, TMPDIR } });
    // What Node keeps of the compiled code is no store.
    const made = filesIn(HOME).filter(({ name }) => !name.startsWith(".cache/"));
    expect(made).toEqual([]);
  });
});

// ----- models that do not do as hoped -----

const UMBRELLA = {
  memories: [
    { text: "user lives in Pune", from: [["1"], ["2"]] },
    { text: "heavy rain in Pune", from: [["3"]] },
    { text: "carry an umbrella", from: [["m1", "m2"]] },
  ],
};
const YES = says({ asserts: true });
const NO = says({ asserts: false });

const usedBy = ({ strategies }: DemoResult) =>
  Object.fromEntries(strategies.map(({ name, usesBadData }) => [name, usesBadData]));

describe("a model that", () => {
  test("goes on using the bad data after B and C: the table says yes, and that it made it up", async () => {
    const { told, text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: says({ answer: "Carry an umbrella!", cites: [6] }),
        judgement: YES,
      }),
    );
    expect(usedBy(told)).toEqual({ naive: true, untrusted: true, erase: true });
    // It cites 6 each time; after the recall it was not shown that, and such a cite counts for nothing.
    expect(told.strategies.map(({ cites }) => cites)).toEqual([[6], [], []]);
    expect(rowsOf(text)).toEqual({
      before: ["3", "yes", "2"],
      "A plain list": ["3", "yes", "1"],
      "B untrusted": ["1", "yes", "2"],
      "C erase": ["1", "yes", "0"],
    });
    expect(flat(text)).toMatch(/made it up/);
    expect(flat(text)).not.toMatch(/no longer knows it/);
  });

  test("goes on using it after C alone: that row says yes", async () => {
    const no = says({ answer: "I do not know.", cites: [] });
    const yes = says({ answer: "Carry an umbrella.", cites: [] });
    const { told, text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: [yes, yes, no, yes],
        judgement: [YES, YES, NO, YES],
      }),
    );
    expect(usedBy(told)).toEqual({ naive: true, untrusted: false, erase: true });
    expect(rowsOf(text)).toMatchObject({
      "B untrusted": ["1", "no", "2"],
      "C erase": ["1", "yes", "0"],
    });
  });

  test("does not use it even before: the demo says that this model shows nothing, and why", async () => {
    const { told, text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: says({ answer: "A smile.", cites: [4] }),
        judgement: NO,
      }),
    );
    expect(told.before.usesBadData).toBe(false);
    expect(usedBy(told)).toEqual({ naive: false, untrusted: false, erase: false });
    expect(flat(text)).toMatch(
      /model shows nothing about answers: even before anything was removed, its answer did not use/,
    );
    expect(flat(text)).not.toMatch(/the agent goes on acting|no longer knows/);
    // What was on the disk is shown all the same.
    expect(told.strategies.map(({ badTextPlaces }) => badTextPlaces)).toEqual([1, 2, 0]);
  });

  test("declares the wrong source: what it learned lives on, and nobody is told that it was made up", async () => {
    const wrong = {
      memories: [
        { text: "heavy rain in Pune", from: [["3"]] },
        // It was learned from 3, whatever the model says.
        { text: "carry an umbrella", from: [["1"]] },
      ],
    };
    const answers: Reply = (response, chat) =>
      says(
        lastOf(chat).includes('[5] "carry an umbrella"')
          ? { answer: "Carry an umbrella.", cites: [5] }
          : { answer: "I do not know.", cites: [] },
      )(response, chat);
    const judges: Reply = (response, chat) =>
      says({ asserts: /^Answer: "Carry/m.test(lastOf(chat)) })(response, chat);
    const { told, text } = await tell(
      byKind({ memories: says(wrong), answer: answers, judgement: judges }),
    );
    expect(told.strategies.slice(0, 3)).toMatchObject([
      { name: "naive", usesBadData: true },
      { name: "untrusted", usesBadData: true, cites: [5], survivors: [] },
      { name: "erase", usesBadData: true, cites: [5] },
    ]);
    // A memory says so: [5], which the answer cites.
    expect(flat(text)).not.toMatch(/none of its memories says so|made it up/);
    expect(flat(text)).toMatch(/declared/);
    // No declared leg leads there; that the source was in view when it was written is recorded.
    expect(told.strategies.at(-1)).toMatchObject({
      name: "contact",
      usesBadData: false,
      memoriesSeen: 0,
    });
  });

  test("judges otherwise than its own words: the judgement decides, and the others are shown beside it", async () => {
    const { told, text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: says({ answer: "The user should carry an umbrella.", cites: [6] }),
        judgement: NO,
      }),
    );
    expect(told.before).toMatchObject({
      usesBadData: false,
      decidedBy: { cites: true, judge: false, text: true },
    });
    expect(told.strategies[1]?.decidedBy).toEqual({ cites: false, judge: false, text: true });
    expect(flat(text)).toMatch(/judgement: no; .*: yes; .*: yes/);
  });

  test("gives no judgement that can be used: the words of the answer decide", async () => {
    const { told, text, chats } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: [
          says({ answer: "The user should carry an umbrella.", cites: [6] }),
          says({ answer: "I do not know.", cites: [] }),
        ],
        judgement: says("hm, hard to say"),
      }),
    );
    expect(told.before).toMatchObject({
      usesBadData: true,
      decidedBy: { cites: true, judge: null, text: true },
    });
    expect(usedBy(told)).toEqual({ naive: false, untrusted: false, erase: false });
    expect(told.strategies[0]?.decidedBy).toEqual({ cites: false, judge: null, text: false });
    expect(flat(text)).toMatch(/judgement: none/);
    // 1 to learn; 4 answers, each judged twice.
    expect(chats).toHaveLength(13);
  });

  test("cites what is not there: it is no cite of an answer", async () => {
    const { told } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: says({ answer: "Carry one.", cites: [99, 6, 3] }),
        judgement: YES,
      }),
    );
    expect(told.before.cites).toEqual([6]);
    expect(told.strategies.map(({ cites }) => cites)).toEqual([[6], [], []]);
  });

  test("learns nothing that can be used: the scenario's own memories stand in, and are marked as such", async () => {
    const memories = [
      { text: "The user lives in Pune.", from: [[0], [1]] },
      { text: "There is heavy rain in Pune.", from: [[2]] },
      { text: "Carry an umbrella.", from: [["m1", "m2"]] },
    ];
    const scenario = { ...WEATHER, memories };
    const rest = { answer: says({ answer: "Hm.", cites: [] }), judgement: NO };
    for (const useless of [
      says("Once upon a time"),
      says({ memories: [] }),
      says({ memories: [{ text: "x", from: [["99"]] }] }),
    ]) {
      const { told, text } = await tell(byKind({ memories: useless, ...rest }), { scenario });
      expect(told.memoriesFromScenario).toBe(true);
      expect(told.memories).toEqual([
        { id: 4, text: "The user lives in Pune.", from: [[1], [2]] },
        { id: 5, text: "There is heavy rain in Pune.", from: [[3]] },
        { id: 6, text: "Carry an umbrella.", from: [[4, 5]] },
      ]);
      expect(flat(text)).toMatch(/the scenario's own memories/);
    }
  });

  test("learns nothing, where the scenario has no memories of its own: LLM, and it says both", async () => {
    for (const scenario of [WEATHER, { ...WEATHER, memories: [] }]) {
      const told = tell(byKind({ memories: says("Once upon a time") }), { scenario });
      const error = await told.catch((error: unknown) => error as CheeseError);
      expect(error).toBeInstanceOf(CheeseError);
      expect(error).toMatchObject({
        code: "LLM",
        message: expect.stringMatching(/Once upon a time.*scenario/),
      });
    }
  });

  test("declares legs that the engine refuses: sent back once, then left out, and told", async () => {
    const bad = {
      text: "from nowhere at all, in a sentence that goes on and on and on for long",
      from: [["42"]],
    };
    const { told, text } = await tell(
      byKind({
        memories: [says({ memories: [...UMBRELLA.memories, bad] }), says({ memories: [bad] })],
        answer: says({ answer: "Hm.", cites: [] }),
        judgement: NO,
      }),
    );
    expect(told.memories.map(({ id }) => id)).toEqual([4, 5, 6]);
    expect(told.refused).toEqual([
      { text: bad.text, message: expect.stringMatching(/not in the prompt/) },
    ]);
    expect(flat(text)).toContain("left out: from nowhere at all");
    expectNarrow(text);
  });

  test("answers otherwise from run to run: k of N, and the words at the end fit the counts", async () => {
    const answers = says({ answer: "Carry an umbrella.", cites: [] });
    const { told, text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: answers,
        // Three before, three after A, three after B, three after C.
        judgement: [NO, YES, YES, YES, YES, NO, NO, NO, NO, NO, NO, NO],
      }),
      { runs: 3 },
    );
    expect([told.before.usedIn, ...told.strategies.map(({ usedIn }) => usedIn)]).toEqual([
      2, 2, 0, 0,
    ]);
    expect(rowsOf(text)).toMatchObject({
      before: ["3", "2 of 3", "2"],
      "A plain list": ["3", "2 of 3", "1"],
      "B untrusted": ["1", "0 of 3", "2"],
      "C erase": ["1", "0 of 3", "0"],
    });
    expect(flat(text)).not.toMatch(/even before anything was removed, its answer did not use/);
  });

  test("uses it after B in a later run alone: the words at the end do not say that it is gone", async () => {
    const { text } = await tell(
      byKind({
        memories: says(UMBRELLA),
        answer: says({ answer: "Carry an umbrella.", cites: [] }),
        judgement: [YES, YES, YES, YES, NO, YES, NO, NO],
      }),
      { runs: 2 },
    );
    expect(rowsOf(text)).toMatchObject({
      "B untrusted": ["1", "1 of 2", "2"],
      "C erase": ["1", "0 of 2", "0"],
    });
    expect(flat(text)).not.toMatch(/no longer knows it/);
  });

  test("fails in the middle: exit 8 in words, no story of success, and nothing is left behind", async () => {
    const scripts: Script[] = [
      refuses(401, "no"),
      byKind({ memories: says(UMBRELLA), answer: says("nothing useful") }),
      byKind({
        memories: says(UMBRELLA),
        answer: [says({ answer: "x", cites: [] }), refuses(500, "boom")],
        judgement: YES,
      }),
    ];
    await each(scripts, async (script) => {
      const { url } = await llmServer(script);
      const TMPDIR = tempFolder();
      const env = { OPENAI_BASE_URL: url, CHEESEDB_MODEL: MODEL, TMPDIR };
      const text = await cli(["demo"], { env });
      expect.soft(text.code).toBe(8);
      expect.soft(text.stderr).toMatch(/^Error: [^\n]+\.\n[^\n]+\.\n$/);
      expect.soft(text.stdout).not.toContain("What it comes to");
      expect.soft(readdirSync(TMPDIR).filter((name) => name.startsWith("cheesedb"))).toEqual([]);
    });
  });

  test("is called off: the demo ends with the reason, and closes its stores", async () => {
    const { url, asked } = await llmServer(byKind({ memories: says(UMBRELLA), answer: hangs() }));
    const settings = { baseUrl: url, model: MODEL, apiKey: null, embedModel: null, warnings: [] };
    const chosen = await chooseModel(settings);
    onTestFinished(chosen.close);
    const stop = new AbortController();
    const told = (async () => {
      const options = {
        scenario: WEATHER,
        chosen,
        folder: tempFolder(),
        runs: 1,
        keep: false,
        signal: stop.signal,
      };
      for await (const _ of runDemo(options));
    })();
    await asked(2);
    stop.abort(new CheeseError("CANCELLED", "interrupted"));
    await expect(told).rejects.toMatchObject({ code: "CANCELLED" });
  });
});

// ----- how it reads -----

/** Columns of a terminal: wide letters take two, marks none. */
function columns(line: string): number {
  let count = 0;
  for (const letter of line) {
    if (/\p{M}|\u200d/u.test(letter)) continue;
    count +=
      /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303f\uff00-\uff60]/u.test(
        letter,
      )
        ? 2
        : 1;
  }
  return count;
}

function expectNarrow(text: string) {
  const wide = text.split("\n").filter((line) => columns(line) > 80);
  expect.soft(wide).toEqual([]);
}

describe("how it reads", () => {
  const WIDE: Scenario = {
    title:
      "A title that goes on for rather longer than anyone would want a title to go on, and then some more",
    sources: [
      {
        label: "a_label_of_sixty_four_bytes_which_is_as_long_as_a_label_may_be__",
        text: "I live in Pune.",
      },
      { label: "网页", text: `大雨整天下在浦那城里所有的街道和市场上${"雨".repeat(60)}` },
      {
        label: "log",
        text: `See https://example.com/${"a-very-long-path/".repeat(12)} for the heavy rain`,
      },
      { label: "weather_tool", text: "Line one: heavy rain.\nLine two.\tTabbed \u202e\u001b[31m" },
    ],
    instructions: [],
    question:
      "Is there, taking everything into account that was ever written down, heavy rain in the city of Pune today?",
    bad: [0, 2, 3],
    claim: "There is heavy rain.",
    search: ["heavy rain"],
  };

  test("no line is wider than 80 columns, in any scenario: there is neither colour nor anything that cannot be copied", async () => {
    const names = ["weather", "payment", "laundering", "address", "second-leg"];
    await each([...names, scenarioFile(WIDE)], async (scenario) => {
      const { code, stdout, stderr } = await cli([...DEMO, "--scenario", scenario]);
      expect.soft([scenario, code, stderr]).toEqual([scenario, 0, ""]);
      expectNarrow(stdout);
      // No-break spaces look like spaces, and are found by no search for them.
      expect.soft(stdout).not.toMatch(/[\u00a0\u202e]/);
      expect.soft(stdout).not.toMatch(/[ \t]$/m);
      expect.soft(stdout).not.toMatch(/\n\n\n/);
      for (const word of ["undefined", "NaN", "null", "[object"])
        expect.soft(stdout).not.toContain(word);
    });
  });

  test("every source, memory, answer and strategy that --json holds is shown to people too", async () => {
    const { told, text: shown } = await tell(null, { scenario: LISTERIA });
    const words = flat(shown);
    expect(words).toContain(LISTERIA.title);
    expect(words).toContain(BUILT_IN);
    expect(words).toContain(LISTERIA.question);
    for (const { id, label, text } of told.sources)
      expect(words).toContain(`[${id}] ${label} ${text}`);
    for (const { id, text } of told.memories) expect(words).toContain(`[${id}] ${text} ←`);
    expect(words).toContain("[8] close the cellar at once ← [4] and [6]");
    for (const { answer } of [told.before, ...told.strategies])
      expect(words).toContain(`"${answer}"`);
    expect(words).toMatch(/A .*B .*C /);
    expect(rowsOf(shown)).toEqual({
      before: ["6", "yes", "4"],
      "A plain list": ["6", "yes", "2"],
      "B untrusted": ["3", "no", "4"],
      "C erase": ["3", "no", "0"],
    });
  });

  test.runIf(HAS_TERMINAL)(
    "on a terminal it has colour, asks nothing, and tells the same",
    async () => {
      const { code, output } = await onTerminal(DEMO);
      expect(code).toBe(0);
      expect(output).toContain("\u001b[");
      expect(output).not.toContain("[y/N]");
      const { stdout } = await cli(DEMO);
      const bare = output.replaceAll(/\u001b\[[0-9;?]*[a-zA-Z]/g, "");
      for (const line of stdout.split("\n").filter((line) => /^ {2}\[\d\]|^ {2}[A-C] /.test(line)))
        expect(bare).toContain(line.replace(/ in \d+ places?$/, "").slice(0, 40));
    },
  );
});

describe("on a terminal that does not know its size, as containers and expect have them", () => {
  test.runIf(HAS_TERMINAL)("the demo comes to its end", () => {
    // Should it hang, then in a loop that heeds nothing but this.
    const command = `stty cols 0 rows 0; timeout -s KILL 20 ${[...CLI, ...DEMO].map(shellQuoted).join(" ")}`;
    const { status, stdout } = spawnSync("script", ["-qec", command, "/dev/null"], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: tempFolder(), TERM: "xterm", SHELL: "/bin/sh" },
      stdio: ["ignore", "pipe", "pipe"],
      maxBuffer: 512 * 1024 * 1024,
    });
    expect(status).toBe(0);
    expect(stdout).toContain("What it comes to");
  });
});

// ----- wrong usage -----

describe("wrong usage", () => {
  test("--runs takes a number from 1 to 100", async () => {
    await each(["0", "-1", "101", "1.5", "1e2", ""], async (runs) => {
      const error = await refusal([...DEMO, `--runs=${runs}`], { code: "USAGE", exit: 2 });
      expect.soft(error.message).toContain("--runs");
    });
  });

  test("arguments, and flags that there are not", async () => {
    await refused(["demo", "weather"], { code: "USAGE", exit: 2 });
    await refusal(["demo", "--scenari", "x"], { code: "USAGE", exit: 2 });
  });

  test("a temporary folder that cannot be had is the disk's fault: exit 7, in words", async () => {
    const TMPDIR = join(tempFolder(), "file");
    writeFileSync(TMPDIR, "");
    const env = { TMPDIR };
    await refused(DEMO, { code: "DISK", exit: 7 }, { env });
  });
});
