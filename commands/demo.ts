import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as Flags from "@oclif/core/flags";
import { CheeseCommand } from "../src/cli/command.ts";
import { EXAMPLES } from "../src/cli/input.ts";
import { demoStep } from "../src/cli/story.ts";
import { CheeseError, decodeUtf8 } from "../src/index.ts";
import type { DemoResult } from "../src/llm/demo.ts";

const RUNS_MAX = 100;

export default class Demo extends CheeseCommand {
  static override summary = "Show, with a language model, why deleting a bad source is not enough.";
  static override description =
    "An agent learns from sources, one of them bad. The bad one is removed three ways, each on its own copy of the memory: from a plain list, and by a recall that hides or that erases; and the same question is asked again. The model is the one in llm.conf or the environment, else a server found on this machine, else a built-in reader. Everything happens in a temporary folder; your own store is not touched. A scenario of your own is a JSON file with title, sources (label, text, uri), instructions, question, bad (places of sources, from 0), claim, search and, if need be, memories; docs/scenarios.md tells what each is for, and examples/weather.json shows them.";
  static override examples = [
    { description: "The weather tool that was wrong", command: "<%= config.bin %> demo" },
    {
      description: "Your own story, five times over",
      command: "<%= config.bin %> demo --scenario story.json --runs 5",
    },
    { description: "Keep the files, to look at them", command: "<%= config.bin %> demo --keep" },
  ];
  static override flags = {
    scenario: Flags.string({
      description: "a scenario: a file, or the name of one in examples/",
      helpValue: "FILE",
    }),
    runs: Flags.string({ description: "ask every question so often, and count", helpValue: "N" }),
    keep: Flags.boolean({ description: "keep the files, and say how to look at them" }),
    builtin: Flags.boolean({ description: "use the built-in reader, whatever is configured" }),
    yes: Flags.boolean({
      char: "y",
      description: "do not ask before texts are sent to another machine",
    }),
  };

  async run() {
    const { flags } = await this.parse(Demo);
    const runs = parseRuns(flags.runs);
    const { parseScenario } = await import("../src/llm/scenario.ts");
    const file = this.#scenarioFile(flags.scenario ?? "weather");
    const scenario = parseScenario(readScenario(file), file);
    const chosen = await this.chooseModel(flags, { builtIn: flags.builtin });
    const folder = tempFolder();
    // Also where a reader of our output has had enough, or Ctrl-C is pressed.
    const sweep = () => rmSync(folder, { recursive: true, force: true });
    let isTold = false;
    process.once("exit", () => {
      if (!flags.keep) sweep();
      else if (!isTold) this.note(`Its files so far: ${folder}`);
    });
    try {
      await this.askBeforeSending(chosen, flags.yes);
      const result = await this.#tell({
        scenario,
        chosen,
        folder,
        runs,
        keep: Boolean(flags.keep),
        signal: this.signal,
      });
      isTold = true;
      return this.show<DemoResult>(result, () => "");
    } finally {
      await chosen.close();
      if (!flags.keep) sweep();
    }
  }

  async #tell(
    options: Parameters<typeof import("../src/llm/demo.ts").runDemo>[0],
  ): Promise<DemoResult> {
    const { runDemo } = await import("../src/llm/demo.ts");
    for await (const event of runDemo(options)) {
      await this.spin(event.step === "thinking" ? `The model thinks about ${event.about}` : null);
      if (!this.jsonEnabled()) process.stdout.write(demoStep(this.render, event));
      if (event.step === "end") return event.result;
    }
    throw new Error("the demo came to no end");
  }

  /** A bare name is one of the scenarios that come with cheesedb, unless there is a file of that name. */
  #scenarioFile(name: string): string {
    const isOwn = statSync(name, { throwIfNoEntry: false })?.isFile();
    return isOwn || !EXAMPLES.includes(name)
      ? name
      : join(this.config.root, "examples", `${name}.json`);
  }
}

function tempFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "cheesedb-demo-"));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new CheeseError("DISK", `cannot make a temporary folder in ${tmpdir()}: ${code}`, {
      cause,
      hint: "Set TMPDIR to a folder in which files can be made.",
    });
  }
}

function readScenario(file: string): string {
  try {
    return decodeUtf8(readFileSync(file), "it");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why =
      cause instanceof CheeseError ? message : code === "ENOENT" && "there is no such file";
    throw new CheeseError("BAD_INPUT", `cannot read the scenario ${file}${why ? `: ${why}` : ""}`, {
      cause,
      file,
      hint: `Name a file, or one of those that come with cheesedb: ${EXAMPLES.join(", ")}.`,
    });
  }
}

function parseRuns(text: string | undefined): number {
  if (text === undefined) return 1;
  const runs = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : Number.NaN;
  if (!(runs <= RUNS_MAX))
    throw new CheeseError("USAGE", `--runs takes a number from 1 to ${RUNS_MAX}, got "${text}"`);
  return runs;
}
