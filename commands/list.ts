import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import type { EntryWithText } from "../src/index.ts";

export default class List extends CheeseCommand {
  static override summary = "List what the agent knows, and from where.";
  static override description = "What is alive; with --all the dead too, marked.";
  static override examples = [
    { description: "Everything alive", command: "<%= config.bin %> list alice" },
    {
      description: "Memories only, the dead too",
      command: "<%= config.bin %> list alice --memories --all",
    },
  ];
  static override args = { agent: agentArg() };
  static override flags = {
    all: Flags.boolean({ char: "a", description: "the dead too" }),
    lots: Flags.boolean({ description: "lots only" }),
    memories: Flags.boolean({ description: "memories only" }),
  };

  async run() {
    const { args, flags } = await this.parse(List);
    const agent = await this.openAgent(flags, args.agent);
    const both = flags.lots === flags.memories;
    const kind = both ? undefined : flags.lots ? "lot" : "memory";
    const lots: EntryWithText[] = [];
    const memories: EntryWithText[] = [];
    for await (const entry of agent.entries({ kind, state: flags.all ? undefined : "alive" })) {
      (entry.kind === "lot" ? lots : memories).push(entry);
    }
    const result = {
      lots: lots.map(({ id, label, text, uri, time, state, erased }) => ({
        id,
        label,
        text,
        uri,
        time,
        state,
        erased,
      })),
      memories: memories.map(({ id, text, legs, time, state, erased }) => ({
        id,
        text,
        legs: legs.map(({ parents }) => parents),
        time,
        state,
        erased,
      })),
    };
    return this.show(result, (render) => render.list({ lots, memories }));
  }
}
