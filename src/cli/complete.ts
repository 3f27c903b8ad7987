// Shell completion: what may stand next on a command line that is being typed, and the script that asks for it.

import { homedir } from "node:os";
import { join } from "node:path";
import type { Config } from "@oclif/core/config";
import { CheeseError, Store } from "../index.ts";
import { EXAMPLES } from "./input.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/**
 * @param words those after `cheesedb`; the last is the one being typed, empty if it has not begun
 * @returns candidates for the last word, one a line for the shell to take
 */
export async function complete(config: Config, words: string[]): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const commands = config.commandIDs.map((id) => id.split(":"));
  const command = commands.find((parts) => parts.every((part, i) => before[i] === part));
  let candidates: string[];
  if (!command) {
    const inTopic = commands.filter((parts) => before.every((word, i) => parts[i] === word));
    candidates = [...new Set(inTopic.map((parts) => parts[before.length] ?? ""))];
    if (before.length === 0) candidates.push("help");
  } else {
    const { flags, args } = config.findCommand(command.join(":"), { must: true });
    const rest = before.slice(command.length);
    const takesValue = (word: string | undefined) =>
      word?.startsWith("--") && flags[word.slice(2)]?.type === "option";
    const isPlain = (word: string, i: number) => !word.startsWith("-") && !takesValue(rest[i - 1]);
    const place = rest.filter(isPlain).length;
    const argument = Object.values(args)[place]?.name;
    const option = takesValue(rest.at(-1)) ? (rest.at(-1) as string).slice(2) : undefined;
    const flag = option === undefined ? undefined : flags[option];
    if (flag?.type === "option" && flag.options) candidates = [...flag.options];
    else if (option === "scenario") candidates = EXAMPLES;
    else if (typed.startsWith("-")) candidates = Object.keys(flags).map((flag) => `--${flag}`);
    else if (
      rest.at(-1) === "--agent" ||
      (!takesValue(rest.at(-1)) && argument?.match(/^(AGENT|NAME)$/i) && command[1] !== "create")
    )
      candidates = await agentNames(before);
    else if (command[0] === "completion" && place === 0) candidates = [...SHELLS];
    else candidates = [];
  }
  return candidates.filter((word) => word !== "" && word.startsWith(typed)).sort();
}

async function agentNames(words: string[]): Promise<string[]> {
  const flag = words.lastIndexOf("--store");
  const folder =
    (flag === -1 ? process.env.CHEESEDB_DIR : words[flag + 1]) || join(homedir(), ".cheesedb");
  try {
    const store = await Store.open(folder, { readOnly: true });
    return store.agentNames();
  } catch (error) {
    // Where there is no store, there is nothing to complete.
    if (error instanceof CheeseError) return [];
    throw error;
  }
}

export const scripts: Record<Shell, string> = {
  bash: `_cheesedb() {
  local IFS=$'\\n'
  COMPREPLY=($(cheesedb complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  COMPREPLY=("\${COMPREPLY[@]@Q}")
  COMPREPLY=("\${COMPREPLY[@]//\\'/}")
}
complete -o default -F _cheesedb cheesedb
`,
  zsh: `#compdef cheesedb
_cheesedb() {
  local -a found
  found=("\${(@f)$(cheesedb complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- "\${found[@]}"; else _files; fi
}
compdef _cheesedb cheesedb
`,
  fish: `function __cheesedb_complete
  set -l words (commandline -opc) (commandline -ct)
  cheesedb complete $words[2..] 2>/dev/null
end
complete -c cheesedb -f -a '(__cheesedb_complete)'
`,
};
