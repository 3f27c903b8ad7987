// Runs the command line: what happens before any command is known, and when there is none of that name.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Config } from "@oclif/core/config";
import { CheeseError, codes, decodeUtf8 } from "../index.ts";
import { type CheeseCommand, masked, toFailure, toJson } from "./command.ts";
import { complete } from "./complete.ts";
import { Renderer } from "./render.ts";
import { Style } from "./style.ts";
import { noSuchCommand } from "./usage.ts";

/** Commands by their ids: "agent:create". */
export type Commands = Record<
  string,
  { id: string; new (argv: string[], config: Config): CheeseCommand }
>;

/**
 * @param root the folder that holds package.json
 * @param entry the module that exports the commands as COMMANDS, from root, for oclif to load when it makes the help
 */
export async function start(argv: string[], root: string, entry: string, commands: Commands) {
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
  try {
    requireUtf8(argv);
    const id = commandIn(commands, argv);
    const pjson = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    pjson.oclif.commands = { strategy: "explicit", target: entry, identifier: "COMMANDS" };
    if (id !== null) {
      const Found = commands[id] as Commands[string];
      Found.id = id;
      await new Found(argv.slice(id.split(":").length), lightConfig(root, pjson)).start();
      return;
    }
    if (/^(--version|-v|version)$/.test(argv[0] ?? "")) {
      const { name, version } = pjson;
      const { platform, arch } = process;
      process.stdout.write(`${name}/${version} ${platform}-${arch} node-${process.version}\n`);
      return;
    }
    const config = await Config.load({ root, pjson });
    if (argv[0] === "complete") {
      process.stdout.write(
        (await complete(config, argv.slice(1))).map((word) => `${word}\n`).join(""),
      );
    } else {
      requireCommand(config, argv);
      const { run } = await import("@oclif/core/run");
      // `help lot` is `lot --help`.
      await run(argv[0] === "help" ? [...argv.slice(1), "--help"] : argv, config);
    }
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

/**
 * What a command that runs asks of its configuration. oclif's own loading also gathers what the help of every command
 * says, which takes as long as all the rest.
 */
function lightConfig(root: string, pjson: Config["pjson"]): Config {
  const config = new Config({ root, pjson });
  const { name, version, oclif } = pjson;
  const runHook = async () => ({ failures: [], successes: [] });
  return Object.assign(config, { root, pjson, name, version, bin: oclif.bin, runHook });
}

/** The id of the command that the words begin with; null if there is none, or help is asked for. */
function commandIn(commands: Commands, words: string[]): string | null {
  const end = words.indexOf("--");
  if (words.slice(0, end === -1 ? words.length : end).some((word) => /^(--help|-h)$/.test(word)))
    return null;
  const ids = [words.slice(0, 2).join(":"), words[0] ?? ""];
  return ids.find((id) => Object.hasOwn(commands, id)) ?? null;
}

/** @throws CheeseError USAGE with what was meant, when the words name no command and no topic */
function requireCommand(config: Config, argv: string[]) {
  const words = (argv[0] === "help" ? argv.slice(1) : argv).slice(0, 2);
  const named = words.filter((word) => !word.startsWith("-"));
  if (named.length === 0 || words[0] !== named[0]) return;
  const ids = config.commandIDs;
  const isKnown = ids.some((id) => id === named[0] || id === named.join(":"));
  const isTopic = named.length === 1 && ids.some((id) => id.startsWith(`${named[0]}:`));
  if (!isKnown && !isTopic) throw noSuchCommand(named, ids);
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
