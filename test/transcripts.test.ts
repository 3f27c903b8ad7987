// Replays the transcripts: what a command prints is what they show. They are documentation, one file a command.
//
//   # …                    words for the reader
//   % alice: …             given a store with an agent, alice, that knows nothing yet
//   % pune: …              given the store of the README instead: lots 1, 2, 3 and memories 4, 5, 6
//   % page.txt: …          given a file, with one more line; "% page.txt x 1000: …" with a thousand
//   $ cheesedb …           a command, in words and quotes, with "< file" if need be; `cat file` shows one
//   …                      what it prints: standard output, then standard error, then [exit N] if that is not 0; an empty line
//
// What differs from run to run is written <so>. In a command, such a word stands for what was shown last in its place.
// UPDATE=1 writes the files anew: read the difference.

import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cli, each, emptyStore, puneStore } from "./cli-helpers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(ROOT, "test", "transcripts");
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".txt"));

/** What varies, and the word that stands for it. Each is replaced as a whole, the longer forms first. */
const VARYING: [RegExp, string][] = [
  [/cheese_[A-Za-z0-9_-]{64}/g, "cheese_TOKEN"],
  [/(?<=\b(?:fair|strict|contact)-(?:untrusted|erase)-)[0-9a-f]{16}\b/g, "<plan>"],
  [/\b[0-9a-f]{64}\b/g, "<hash>"],
  [/\b[0-9a-f]{32}\b/g, "<agent-id>"],
  [/\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?)?/g, "<time>"],
  [/\b\d+\.\d+ ms\b/g, "<ms>"],
  [/(?<=^ *cheesedb\/)\S+ \S+ node-v\S+/gm, "<version> <platform> node-<version>"],
  [/(?<=^. node +version )\S+/gm, "<version>"],
];
/** Words with these in them, in a command, are looked up among what was shown. */
const PLACEHOLDER = /cheese_TOKEN|[a-z]+-[a-z]+-<plan>|\d+-<hash>/g;

class Replay {
  readonly #work: string;
  readonly #store: string;
  /** The real form of each word with a placeholder, as it was shown last. */
  readonly #shown = new Map<string, string>();

  constructor(folder: string) {
    this.#work = join(folder, "work");
    this.#store = join(folder, "store");
    mkdirSync(this.#work, { recursive: true });
  }

  /** The transcript with what its commands print now. */
  async replay(transcript: string): Promise<string> {
    const lines: string[] = [];
    for (const line of transcript.split("\n")) {
      if (line.startsWith("$ ")) lines.push(line, ...(await this.#run(line.slice(2))), "");
      else if (line.startsWith("# ")) lines.push(line);
      else if (line.startsWith("% ")) {
        lines.push(line);
        await this.#give(line.slice(2));
      } else if (line === "" && lines.at(-1)?.startsWith("% ")) lines.push("");
      // All else is what a command printed when this was written.
    }
    return `${lines.join("\n").trimEnd()}\n`;
  }

  async #give(what: string) {
    const [, name = "", times = "1", content = ""] =
      /^([\w.]+)(?: x (\d+))?: (.*)$/.exec(what) ?? [];
    if (name === "alice") await emptyStore(this.#store);
    else if (name === "pune") await puneStore(this.#store);
    else appendFileSync(join(this.#work, name), `${content}\n`.repeat(Number(times)));
  }

  async #run(line: string): Promise<string[]> {
    const [program, ...args] = this.#words(line);
    if (program === "cat") return this.#printed(readFileSync(this.#path(args[0]), "utf8"));
    if (program !== "cheesedb") throw new Error(`a transcript runs cheesedb, not ${program}`);
    const from = args.at(-2) === "<" ? this.#path(args.at(-1)) : null;
    const ran = await cli(from ? args.slice(0, -2) : args, {
      store: this.#store,
      cwd: this.#work,
      ...(from ? { stdin: readFileSync(from) } : {}),
    });
    const exit = ran.code === 0 ? [] : [`[exit ${ran.code}]`];
    return [...this.#printed(ran.stdout), ...this.#printed(ran.stderr), ...exit];
  }

  /** Words of a command line, quotes taken off, placeholders filled in. */
  #words(line: string): string[] {
    const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)];
    return words
      .map(([, double, single, bare]) => double ?? single ?? bare ?? "")
      .map((word) => word.replace(PLACEHOLDER, (name) => this.#shown.get(name) ?? name));
  }

  #path(name = ""): string {
    return join(this.#work, name);
  }

  /** What was printed, without what varies. */
  #printed(text: string): string[] {
    let plain = text.replaceAll(this.#store, "<store>").replaceAll(this.#work, "<folder>");
    const real = [...plain.matchAll(/cheese_[\w-]{64}|\w+-\w+-[0-9a-f]{16}\b|\d+-[0-9a-f]{64}/g)];
    for (const [pattern, word] of VARYING) plain = plain.replace(pattern, word);
    for (const [value] of real) {
      const name = value
        .replace(/^cheese_.*$/, "cheese_TOKEN")
        .replace(/-[0-9a-f]{16}$/, "-<plan>")
        .replace(/-[0-9a-f]{64}$/, "-<hash>");
      this.#shown.set(name, value);
    }
    return plain === "" ? [] : plain.replace(/\n+$/, "").split("\n");
  }
}

/** What the transcripts say, and what is printed now. */
const then = new Map(FILES.map((file) => [file, readFileSync(join(FOLDER, file), "utf8")]));
const now = new Map<string, string>();
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  // A few at a time, since each is a row of processes that wait.
  await each(FILES, async (file) => {
    const replay = new Replay(join(folder, file));
    now.set(file, await replay.replay(then.get(file) as string).catch(String));
  });
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(FILES)("%s shows what is printed", async (file) => {
  if (process.env.UPDATE) writeFileSync(join(FOLDER, file), now.get(file) as string);
  else if (file === "doctor.txt" && !(await flushIsReal()))
    console.log("the temporary folder does not flush, as doctor says: doctor.txt is left out");
  else expect(now.get(file)).toBe(then.get(file));
});

test("every command has one", () => {
  const commands = readdirSync(join(ROOT, "commands")).map((name) => name.replace(/\.ts$/, ""));
  const shown = FILES.map((name) => name.replace(/\.txt$/, ""));
  // mcp speaks a protocol, and not to people.
  const missing = [...commands, "help"].filter((name) => name !== "mcp" && !shown.includes(name));
  expect(missing).toEqual([]);
});

/** Whether the disk under the temporary folder honours a flush: in memory it does not. */
async function flushIsReal(): Promise<boolean> {
  const { store } = await emptyStore();
  const { checks } = (await cli(["doctor", "--json"], { store })).json;
  return checks.find(({ name }: { name: string }) => name === "flush").ok;
}
