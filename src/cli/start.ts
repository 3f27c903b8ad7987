// Runs the command line: what happens before any command is known, and when there is none of that name.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Config, run } from "@oclif/core";
import { CheeseError, codes } from "../index.ts";
import { toFailure } from "./command.ts";
import { complete } from "./complete.ts";
import { Renderer } from "./render.ts";
import { Style } from "./style.ts";

/**
 * @param bin where it was started from: the folder above it holds package.json
 * @param commands another folder of commands than the one that package.json names
 */
export async function start(argv: string[], bin: string, commands?: string) {
  // A reader that has had enough (`| head`) ends us quietly; a dead standard error must not end in a loop.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      throw error;
    });
  }
  const root = fileURLToPath(new URL("..", bin));
  try {
    const pjson = JSON.parse(readFileSync(`${root}package.json`, "utf8"));
    if (commands) pjson.oclif.commands = commands;
    const config = await Config.load({ root, pjson });
    if (argv[0] === "complete") {
      process.stdout.write(
        (await complete(config, argv.slice(1))).map((word) => `${word}\n`).join(""),
      );
      return;
    }
    requireCommand(config, argv);
    // `help lot` is `lot --help`.
    await run(argv[0] === "help" ? [...argv.slice(1), "--help"] : argv, config);
  } catch (error) {
    fail(error as Error, argv.includes("--json"));
  }
}

/** @throws CheeseError USAGE with the nearest name, when the first word names no command and no topic */
function requireCommand(config: Config, argv: string[]) {
  const [word] = argv[0] === "help" ? argv.slice(1) : argv;
  if (word === undefined || word.startsWith("-")) return;
  const names = [...new Set(config.commandIDs.map((id) => id.split(":")[0] as string))];
  if (names.includes(word)) return;
  const nearest = names
    .map((name) => ({ name, distance: editDistance(word, name) }))
    .sort((a, b) => a.distance - b.distance)[0];
  const hint =
    nearest && nearest.distance <= 2
      ? `Did you mean "cheesedb ${nearest.name}"?`
      : '"cheesedb help" lists the commands.';
  throw new CheeseError("USAGE", `there is no command "${word}"`, { hint });
}

/** Levenshtein's. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, replaced);
    }
    row = next;
  }
  return row[b.length] as number;
}

function fail(error: Error & { code?: string; oclif?: { exit?: number } }, isJson: boolean) {
  if (error.code === "EEXIT") {
    process.exitCode = error.oclif?.exit ?? 0;
    return;
  }
  const failure = toFailure(error);
  const { code, message, hint } = failure;
  process.exitCode = codes[code].exit;
  if (isJson) {
    process.stdout.write(`${JSON.stringify({ error: { code, message, hint } }, null, 2)}\n`);
  } else {
    process.stderr.write(new Renderer(new Style(process.stderr)).failure(failure));
  }
  if (process.env.DEBUG) process.stderr.write(`${error.stack}\n`);
}
