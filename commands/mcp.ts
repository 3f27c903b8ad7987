import { resolve } from "node:path";
import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import { CheeseError, codes } from "../src/index.ts";
import {
  APPS,
  type App,
  carryOut,
  configFor,
  INSTALLABLE,
  PASTE_INTO,
  planInstall,
  serverEntry,
} from "../src/mcp/install.ts";

export default class Mcp extends CheeseCommand {
  static override enableJsonFlag = false;
  static override summary =
    "Serve one agent's memory to an AI app over MCP, on standard input and output.";
  static override description =
    "Five tools on this one agent: add_source, remember, list_memories, explain_memory, recall_bad_source. An app starts it; --print-config prints what to paste into the app's settings, and --install writes it into the project's own file, beside what stands there: it shows the change, asks on a terminal, and elsewhere is done at once. A second agent gets a name of its own there.";
  static override examples = [
    {
      description: "What Claude Desktop is to be told",
      command: "<%= config.bin %> mcp alice --print-config claude-desktop",
    },
    {
      description: "For Claude Code, in this project",
      command: "<%= config.bin %> mcp alice --install claude-code",
    },
    { description: "Only looking", command: "<%= config.bin %> mcp alice --read-only" },
  ];
  static override args = { agent: agentArg() };
  static override flags = {
    "read-only": Flags.boolean({ description: "only the two tools that read" }),
    "no-erase": Flags.boolean({ description: "the recall tool cannot erase" }),
    "print-config": Flags.string({
      description: `print what an app is to be told: ${APPS.join(", ")}`,
      options: [...APPS],
      helpValue: "APP",
      exclusive: ["install"],
    }),
    install: Flags.string({
      description: `write it into the project's file: ${INSTALLABLE.join(", ")}`,
      options: [...INSTALLABLE],
      helpValue: "APP",
      exclusive: ["print-config"],
    }),
    yes: Flags.boolean({ char: "y", description: "install without asking" }),
  };

  async run() {
    const { args, flags } = await this.parse(Mcp);
    const app = (flags["print-config"] ?? flags.install) as App | undefined;
    if (app === undefined) return this.#serve(args.agent, flags);

    const store = await this.openStore(flags, { readOnly: true });
    store.requireAgent(args.agent);
    if (!flags.token && store.keptToken(args.agent) === null) {
      this.note(
        `Note: no token of "${args.agent}" is kept in the store: give the app the environment CHEESEDB_TOKEN.`,
      );
    }
    const entry = serverEntry(app, {
      node: process.execPath,
      script: resolve(this.config.root, "bin", "run.js"),
      agent: args.agent,
      store: store.path,
      readOnly: flags["read-only"],
      mayErase: !flags["no-erase"],
    });
    if (flags["print-config"]) {
      process.stdout.write(`${JSON.stringify(configFor(app, entry), null, 2)}\n`);
      this.note(`Paste it ${PASTE_INTO[app]}, beside what stands there.`);
      return;
    }
    const change = planInstall(app, process.cwd(), entry);
    if (change.before === change.after) {
      process.stdout.write(`${change.file} says so already.\n`);
      return;
    }
    process.stderr.write(`${this.renderError.change(change)}\n`);
    if (this.isInteractive && !flags.yes) await this.confirm(`Write ${change.file}?`);
    carryOut(change);
    process.stdout.write(`Written to ${change.file}. Restart the app in this project.\n`);
  }

  async #serve(
    name: string,
    flags: {
      store?: string | undefined;
      token?: string | undefined;
      wait?: string | undefined;
      "read-only": boolean;
      "no-erase": boolean;
    },
  ) {
    if (process.stdin.isTTY) {
      this.note(
        `This speaks JSON-RPC with an AI app. To set one up: cheesedb mcp ${name} --print-config ${APPS[0]}`,
      );
    }
    const { serve } = await import("../src/mcp/server.ts");
    const readOnly = flags["read-only"];
    await serve({
      open: async () => {
        try {
          const store = await this.openStore(flags, { readOnly });
          return await this.openAgentIn(store, flags, name);
        } catch (error) {
          if (error instanceof CheeseError) throw error;
          throw new CheeseError("UNEXPECTED", (error as Error).message, { cause: error });
        }
      },
      version: this.config.version,
      readOnly,
      mayErase: !flags["no-erase"],
      signal: this.signal,
    });
    // Whatever a client left half said, nothing more is to come.
    process.exit(this.signal.aborted ? codes.CANCELLED.exit : 0);
  }
}
