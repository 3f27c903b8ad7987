// The file of a scenario: what is allowed, and that each mistake in it names its field.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { CheeseError } from "../src/index.ts";
import { parseScenario, type Scenario } from "../src/llm/scenario.ts";
import { cli, each, refusal, refused } from "./cli-helpers.ts";
import { tempFolder } from "./helpers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BAD_INPUT = { code: "BAD_INPUT", exit: 2 };

/** All fields that there are, and three sources. */
function whole() {
  return {
    title: "Mould",
    sources: [
      { label: "user_message", text: "I ripen the wheel in cellar 2." },
      { label: "cellar_log", text: "Cellar 2 is damp.", uri: "https://cellar.example/2" },
      { label: "sensor", text: "Cellar 2: 99 per cent humidity." },
    ],
    instructions: ["When the cellar is damp, open the window."],
    question: "What should I do with the cellar?",
    bad: [2],
    claim: "Open the window.",
    search: ["99 per cent"],
    memories: [
      { text: "The user ripens the wheel in cellar 2.", from: [[0]] },
      { text: "Cellar 2 is damp.", from: [[1], [2]] },
      { text: "Open the window.", from: [["m1", "m2"]] },
    ],
  };
}

const at = (value: unknown, path: (string | number)[]): Record<string | number, unknown> =>
  path.reduce((inner, key) => (inner as Record<string, unknown>)[key], value) as never;

/** The whole scenario with one thing set, or taken away where it is undefined. */
function changed(path: (string | number)[], value: unknown): string {
  const scenario = whole();
  const key = path.at(-1) as string | number;
  const place = at(scenario, path.slice(0, -1));
  if (value === undefined) delete place[key];
  else place[key] = value;
  return JSON.stringify(scenario);
}

function mistake(text: string): CheeseError {
  try {
    parseScenario(text, "story.json");
  } catch (error) {
    if (error instanceof CheeseError) return error;
    throw error;
  }
  throw new Error(`no mistake was found in ${text.slice(0, 200)}`);
}

describe("a scenario", () => {
  test("that leaves out a field is told that it is missing, and where all fields stand", () => {
    expect(mistake(changed(["title"], undefined)).message).toBe('story.json: "title" is missing');
    const text = mistake(changed(["sources", 1, "text"], undefined));
    expect(text.message).toBe('story.json: "sources.1.text" is missing');
    expect(text.hint).toContain("docs/scenarios.md");
    expect(mistake(changed(["title"], 3)).message).toBe(
      'story.json: "title" expected string, received number',
    );
    const documented = readFileSync(join(ROOT, "docs", "scenarios.md"), "utf8");
    for (const field of Object.keys(whole())) expect(documented).toContain(`| \`${field}\` |`);
  });

  test("with all its fields is read as it stands", () => {
    expect(parseScenario(JSON.stringify(whole()), "story.json")).toEqual(whole());
  });

  test("may leave out the memories and a source's uri, and may have no instructions", () => {
    const { memories: _, ...rest } = whole();
    const small: Scenario = { ...rest, instructions: [], bad: [0, 1, 2] };
    expect(parseScenario(JSON.stringify(small), "story.json")).toEqual(small);
  });

  test("each of those that come with cheesedb is one, and there are at least five", () => {
    const files = readdirSync(join(ROOT, "examples")).filter((name) => name.endsWith(".json"));
    expect(files).toEqual(
      expect.arrayContaining([
        "address.json",
        "laundering.json",
        "payment.json",
        "second-leg.json",
        "weather.json",
      ]),
    );
    for (const file of files) {
      const text = readFileSync(join(ROOT, "examples", file), "utf8");
      const { sources, bad, search } = parseScenario(text, file);
      // What is searched for stands in what is bad.
      const texts = bad.map((i) => sources[i]?.text).join("\n");
      for (const word of search) expect([file, texts.includes(word)]).toEqual([file, true]);
    }
  });
});

describe("a mistake names its field", () => {
  const x65 = "x".repeat(65);
  const WRONG: [string, (string | number)[], unknown, string?][] = [
    ["no title", ["title"], undefined],
    ["no sources", ["sources"], undefined],
    ["no instructions", ["instructions"], undefined],
    ["no question", ["question"], undefined],
    ["nothing that is bad", ["bad"], undefined],
    ["no claim", ["claim"], undefined],
    ["nothing to search for", ["search"], undefined],
    ["a title that is a number", ["title"], 3],
    ["an empty title", ["title"], ""],
    ["an empty question", ["question"], ""],
    ["an empty claim", ["claim"], ""],
    ["a claim that is null", ["claim"], null],
    ["sources that are an object", ["sources"], {}],
    ["no source at all", ["sources"], []],
    ["a source that is null", ["sources", 1], null],
    ["a source that is a text", ["sources", 0], "I live in Pune"],
    ["a source without a label", ["sources", 1, "label"], undefined],
    ["a source without a text", ["sources", 2, "text"], undefined],
    ["an empty label", ["sources", 0, "label"], ""],
    ["an empty text", ["sources", 0, "text"], ""],
    ["a label longer than 64 bytes", ["sources", 1, "label"], x65],
    ["a label longer than 64 bytes, in fewer letters", ["sources", 1, "label"], "ü".repeat(33)],
    ["half a letter in a text", ["sources", 2, "text"], "\ud83e"],
    ["half a letter in a label", ["sources", 0, "label"], "\udc00"],
    ["a uri that is a number", ["sources", 1, "uri"], 7],
    ["an empty uri", ["sources", 1, "uri"], ""],
    ["a field of a source that there is not", ["sources", 1, "url"], "x"],
    ["a field that there is not", ["sorces"], []],
    ["a field in another case", ["Title"], "x"],
    ["instructions that are a text", ["instructions"], "When it rains, hide."],
    ["an instruction that is null", ["instructions", 0], null],
    ["an empty instruction", ["instructions", 0], ""],
    ["bad that is a number", ["bad"], 2],
    ["none that is bad", ["bad"], []],
    ["a bad one that is a text", ["bad", 0], "2"],
    ["a bad one that is a label", ["bad", 0], "sensor"],
    ["a bad one below nought", ["bad", 0], -1],
    ["half a bad one", ["bad", 0], 1.5],
    ["a bad one that is not there", ["bad", 0], 3],
    ["a bad one that is far away", ["bad", 0], 1e300],
    ["nothing in search", ["search"], []],
    ["an empty word to search for", ["search", 0], ""],
    ["a search that is a text", ["search"], "humidity"],
    ["memories that are an object", ["memories"], {}],
    ["a memory without a text", ["memories", 1, "text"], undefined],
    ["an empty memory", ["memories", 1, "text"], ""],
    ["half a letter in a memory", ["memories", 1, "text"], "\ud83e"],
    ["a memory from nowhere", ["memories", 0, "from"], undefined],
    ["a memory without a leg", ["memories", 0, "from"], []],
    ["an empty leg", ["memories", 0, "from", 0], []],
    ["a leg that is a number", ["memories", 0, "from", 0], 0],
    ["a parent that is null", ["memories", 0, "from", 0, 0], null],
    ["a parent that is an object", ["memories", 0, "from", 0, 0], { source: 0 }],
    ["a parent below nought", ["memories", 0, "from", 0, 0], -1],
    ["a source that is not there", ["memories", 1, "from", 1, 0], 3],
    ["a memory that stands on itself", ["memories", 1, "from", 0, 0], "m2"],
    ["a memory that stands on a later one", ["memories", 0, "from", 0, 0], "m3"],
    ["m0", ["memories", 2, "from", 0, 0], "m0"],
    ["a parent that is neither", ["memories", 2, "from", 0, 0], "2"],
    ["a field of a memory that there is not", ["memories", 0, "seen"], [0]],
    ["a field from which objects come", ["constructor"], 1],
  ];

  test.each(WRONG)("%s", (_, path, value) => {
    const error = mistake(changed(path, value));
    expect(error.code).toBe("BAD_INPUT");
    expect(error.message).toContain("story.json");
    expect(error.message).toContain(`"${path.join(".")}"`);
    expect(error.message).not.toMatch(/\bzod\b|\bundefined\b.*\bundefined\b|\[object/i);
    expect(error.hint).toMatch(/^\S.*\.$/);
  });

  test("a word to search for that stands in no bad source: a search for it proves nothing", () => {
    const error = mistake(changed(["search"], ["99 per cent", "nowhere"]));
    expect(error).toMatchObject({ code: "BAD_INPUT" });
    expect(error.message).toContain('"search.1"');
    // In another case it stands there, and is found: the search of the demo heeds no case.
    parseScenario(changed(["search"], ["99 PER CENT"]), "story.json");
  });

  test("a prototype is a field like any other", () => {
    const text = JSON.stringify(whole()).replace("{", '{"__proto__":{"title":"x"},');
    expect(mistake(text).message).toContain('"__proto__"');
  });

  const NO_OBJECTS: [string, string][] = [
    ["an empty file", ""],
    ["a list", "[]"],
    ["null", "null"],
    ["a text", '"title"'],
    ["a comma too many", '{"title":"x",}'],
    ["a comment", '{"title":"x"} // mine'],
    ["half of it", JSON.stringify(whole()).slice(0, 100)],
    ["a raw control character", '{"title":"\u001b[31m"}'],
    ["two documents", "{}{}"],
  ];

  test.each(NO_OBJECTS)("where there is no object, the file is named: %s", (_, text) => {
    const error = mistake(text);
    expect(error.code).toBe("BAD_INPUT");
    expect(error.message).toMatch(/^story\.json: \S/);
  });

  test("however deep it is nested", () => {
    const deep = (open: string, close: string) => open.repeat(100_000) + close.repeat(100_000);
    const text = JSON.stringify(whole());
    for (const [from, to, field] of [
      ['"bad":[2]', `"bad":${deep("[", "]")}`, "bad.0"],
      ['"from":[[0]]', `"from":${deep("[", "]")}`, "memories.0.from.0.0"],
      ['"title":"Mould"', `"title":${deep('{"a":', "}").replace("}", "1}")}`, "title"],
      ['"sources":[', `"sources":[${deep("[", "]")},`, "sources.0"],
    ] as const) {
      const error = mistake(text.replace(from, to));
      expect([field, error.code]).toEqual([field, "BAD_INPUT"]);
      expect(error.message).toContain(`"${field}"`);
    }
    expect(mistake('{"a":'.repeat(100_000)).code).toBe("BAD_INPUT");
  });

  test("however large it is", () => {
    const sources = Array.from({ length: 100_000 }, (_, i) => ({ label: "note", text: `n${i}` }));
    const large = { ...whole(), sources, search: ["n2"], memories: undefined };
    expect(parseScenario(JSON.stringify(large), "story.json").sources).toHaveLength(100_000);
    sources[99_999] = { label: "note", text: "" };
    expect(mistake(JSON.stringify(large)).message).toContain('"sources.99999.text"');
    const wrong = { ...whole(), sources: Array(100_000).fill(1) };
    expect(mistake(JSON.stringify(wrong)).message).toContain('"sources.0"');
    const long = changed(["question"], "x".repeat(10_000_000));
    expect(parseScenario(long, "story.json").question).toHaveLength(10_000_000);
  });

  test("a text that is too large for a store", () => {
    const text = `${"x".repeat(16 * 1024 * 1024)}99 per cent`;
    expect(mistake(changed(["sources", 2, "text"], text)).message).toContain('"sources.2.text"');
  });
});

describe("on the command line", () => {
  test("a mistake is exit 2, in both forms, before anything is shown or asked", async () => {
    const folder = tempFolder();
    const file = (name: string, content: string | Uint8Array) => {
      writeFileSync(join(folder, name), content);
      return join(folder, name);
    };
    const valid = JSON.stringify(whole());
    await each(
      [
        [file("field.json", changed(["bad"], [9])), '"bad.0"'],
        [file("label.json", changed(["sources", 0, "label"], "x".repeat(65))), '"sources.0.label"'],
        [file("broken.json", "{"), "broken.json"],
        [file("escape.json", changed(["\u001b[2Jx"], 1)), "x"],
        // It is repaired by nobody: what would be stored is not what was written.
        [file("latin1.json", Buffer.from(valid.replace("Mould", "K\xe4se"), "latin1")), "UTF-8"],
        [folder, folder],
        [join(folder, "nosuch.json"), "nosuch.json"],
      ],
      async ([path, words]) => {
        const args = ["demo", "--builtin", "--scenario", path as string];
        const error = await refused(args, BAD_INPUT, { cwd: folder });
        expect.soft(error.message).toContain(words);
        expect.soft(error.message).not.toMatch(/\n/);
      },
    );
  });

  test("a name that is neither a file nor comes with cheesedb: the hint names those that do", async () => {
    const error = await refusal(["demo", "--builtin", "--scenario", "nosuch"], BAD_INPUT);
    for (const name of ["weather", "payment", "laundering", "address", "second-leg"])
      expect(error.hint).toContain(name);
  });

  test("one's own file needs no ending and no path, and a byte order mark does no harm", async () => {
    const folder = tempFolder();
    writeFileSync(join(folder, "story"), `\ufeff${JSON.stringify(whole())}`);
    const args = ["demo", "--builtin", "--scenario", "story", "--json"];
    const { code, json } = await cli(args, { cwd: folder });
    expect([code, json.scenario]).toEqual([0, "Mould"]);
  });
});
