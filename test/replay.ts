// Runs the commands of a transcript in a folder and a store of their own, and gives back what they print now.

import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cli, emptyStore, puneStore } from "./cli-helpers.ts";

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

export class Replay {
  readonly #work: string;
  readonly #store: string;
  /** The real form of each word with a placeholder, as it was shown last. */
  readonly #shown = new Map<string, string>();

  constructor(folder: string) {
    this.#work = join(folder, "work");
    this.#store = join(folder, "store");
    mkdirSync(this.#work, { recursive: true });
  }

  /**
   * The transcript with what its commands print now.
   *
   * @param options.gap whether an empty line follows what each command prints
   */
  async replay(transcript: string, { gap = true } = {}): Promise<string> {
    const lines: string[] = [];
    for (const line of transcript.split("\n")) {
      if (line.startsWith("$ ")) {
        lines.push(line, ...(await this.#run(line.slice(2))), ...(gap ? [""] : []));
      } else if (line.startsWith("# ")) lines.push(line);
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
