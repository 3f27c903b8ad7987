// Runs the command line: what happens before any command is known, and when there is none of that name.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Config, run } from "@oclif/core";
import { CheeseError, codes, decodeUtf8 } from "../index.ts";
import { masked, toFailure, toJson } from "./command.ts";
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
    // oclif throws what it meets here.
    stream.removeAllListeners("error");
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      fail(
        new CheeseError("DISK", `cannot write the output: ${error.code}`, {
          cause: error,
          hint: "What the command did, it did.",
        }),
        false,
      );
      process.exit(codes.DISK.exit);
    });
  }
  takeToken(argv);
  takeToken(process.argv);
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
    requireUtf8(argv);
    requireCommand(config, argv);
    // `help lot` is `lot --help`.
    await run(argv[0] === "help" ? [...argv.slice(1), "--help"] : argv, config);
  } catch (error) {
    fail(error as Error, argv.includes("--json"));
  }
}

/** Node repairs arguments that are not UTF-8, and tells nobody; the kernel still has them as they were. */
function requireUtf8(argv: string[]) {
  if (!argv.some((word) => word.includes("\ufffd"))) return;
  let raw: Buffer;
  try {
    raw = readFileSync("/proc/self/cmdline");
  } catch {
    return;
  }
  decodeUtf8(raw, "an argument");
}

/** Into the environment, where nothing that repeats the arguments finds it. */
function takeToken(argv: string[]) {
  const end = argv.indexOf("--");
  const at = argv.findIndex((word, i) => (end === -1 || i < end) && /^--token(=|$)/.test(word));
  if (at === -1) return;
  const word = argv[at] as string;
  const token = word.includes("=") ? word.slice("--token=".length) : argv[at + 1];
  if (token === undefined) return;
  argv.splice(at, word.includes("=") ? 1 : 2);
  if (token !== "") process.env.CHEESEDB_TOKEN = token;
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
    process.stdout.write(masked(toJson({ error: { code, message, hint } })));
  } else {
    process.stderr.write(masked(new Renderer(new Style(process.stderr)).failure(failure)));
  }
  if (process.env.DEBUG) process.stderr.write(masked(`${error.stack}\n`));
}
