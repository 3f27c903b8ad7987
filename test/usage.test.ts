// A command that is written wrongly is told how it is written, and what was most likely meant.

import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { EXAMPLES } from "../src/cli/input.ts";
import { noSuchCommand } from "../src/cli/usage.ts";
import { cli, each, puneStore, refused } from "./cli-helpers.ts";

const USAGE = { code: "USAGE", exit: 2 };

describe("what is told", () => {
  test("of a verb, a flag or an argument that there is not", async () => {
    await each<[string[], string, string]>(
      [
        [["forget", "alice", "3"], 'no command "forget"', '"cheesedb recall"'],
        [["remove", "alice", "3"], 'no command "remove"', '"cheesedb recall"'],
        [
          ["add", "alice", "x"],
          'no command "add"',
          '"cheesedb lot"; a memory: "cheesedb remember"',
        ],
        [["create", "agent", "x"], 'no command "create"', '"cheesedb agent create"'],
        [["agent", "crate", "x"], 'no command "agent crate"', '"cheesedb agent create"'],
        [["agent", "rename"], 'no command "agent rename"', "create, delete, list"],
        [["help", "agent", "crate"], 'no command "agent crate"', '"cheesedb agent create"'],
        [["demo", "payment"], "too many arguments: payment", '"cheesedb demo --scenario payment"'],
        [["recall", "a", "3", "--eraze"], "no flag --eraze", "Did you mean --erase?"],
        [["recall", "a", "3", "--untrusted"], "no flag --untrusted", "untrusted is the default"],
        [["lot", "a", "b", "c", "--url", "x"], "no flag --url", "Did you mean --uri?"],
        [["remember", "a", "b", "--source", "1"], "no flag --source", "Did you mean --from?"],
        [["list", "a", "--jsno"], "no flag --jsno", "Did you mean --json?"],
        [["list", "a", "--wiat", "1"], "no flag --wiat", "Did you mean --wait?"],
        [["lot", "a", "b", "--5 degrees"], "no flag --5 degrees", 'goes after "--"'],
        [["lot", "a"], "missing: LABEL, TEXT", '"cheesedb lot AGENT LABEL TEXT [--uri U]"'],
        [["ask", "Where do I live?"], "missing: QUESTION", '"cheesedb ask AGENT QUESTION'],
        [["remember"], "missing: AGENT, TEXT", '"cheesedb remember AGENT TEXT [--from IDS…]"'],
        [["corroborate", "a", "3"], "missing: --from", "AGENT MEMORY --from IDS"],
        [["completion", "tcsh"], "one of: bash, zsh, fish", '"cheesedb completion SHELL"'],
        [["doctor", "x"], "too many arguments: x", '"cheesedb doctor"'],
        [["recall"], "missing: AGENT", '"cheesedb recall AGENT [ID…] [options]"'],
        [["verify", "a", "b"], "too many arguments: b", '"cheesedb verify [AGENT]'],
      ],
      async ([args, message, hint]) => {
        const error = await refused(args, USAGE);
        expect.soft([args, error.message]).toEqual([args, expect.stringContaining(message)]);
        expect.soft([args, error.hint]).toEqual([args, expect.stringContaining(hint)]);
      },
    );
  });

  test("a slip leads to the nearest command, a word from nowhere to the list of them", () => {
    const ids = ["recall", "lot", "agent:create", "agent:list"];
    const { hint } = noSuchCommand(["banana"], ids);
    expect(hint).toBe('"cheesedb help" lists the commands.');
    expect(noSuchCommand(["recal"], ids).hint).toBe('Did you mean "cheesedb recall"?');
  });

  test("version is a word for --version", async () => {
    const [word, flag] = await Promise.all([cli(["version"]), cli(["--version"])]);
    expect(word).toEqual(flag);
    expect(word.stdout).toMatch(/^cheesedb\/\d/);
  });
});

describe("completion", () => {
  const completed = async (...words: string[]) =>
    (await cli(["complete", ...words])).stdout.split("\n").filter((word) => word !== "");

  test("gives the values that a flag takes", async () => {
    const { store } = await puneStore();
    expect(await completed("mcp", "alice", "--print-config", "")).toEqual([
      "claude-code",
      "claude-desktop",
      "cursor",
      "vscode",
    ]);
    expect(await completed("mcp", "alice", "--install", "cu")).toEqual(["cursor"]);
    expect(await completed("demo", "--scenario", "")).toEqual([...EXAMPLES].sort());
    // Where a flag takes something else, the shell gives its files.
    expect(await completed("export", "alice", "--out", "")).toEqual([]);
    const agents = await cli(["complete", "find", "x", "--agent", ""], { store });
    expect(agents.stdout).toBe("alice\n");
  });

  test("knows every scenario that comes with cheesedb", () => {
    const folder = fileURLToPath(new URL("../examples", import.meta.url));
    const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
    expect(files.sort()).toEqual(EXAMPLES.map((name) => `${name}.json`).sort());
  });
});
