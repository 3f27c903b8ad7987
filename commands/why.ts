import * as Flags from "@oclif/core/flags";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { parseDepth, parseId } from "../src/cli/input.ts";

/** A tree deeper than this is no longer read by anyone; --depth goes on. */
const DEPTH_FOR_PEOPLE = 16;

export default class Why extends CheeseCommand {
  static override summary = "Why the agent believes something, or which recall took it.";
  static override description =
    "The support of an entry down to its lots, as a tree; an entry that was shown before is named again, not expanded. For a dead entry: the recall that killed it, and the way by which it did.";
  static override examples = [
    { description: "Why memory 6 is believed", command: "<%= config.bin %> why alice 6" },
    { description: "Two levels of it", command: "<%= config.bin %> why alice 6 --depth 2" },
  ];
  static override args = { agent: agentArg(), id: anArg("ID", "the entry's number") };
  static override flags = {
    depth: Flags.string({ char: "d", description: "levels to go down", helpValue: "N" }),
  };

  async run() {
    const { args, flags } = await this.parse(Why);
    const id = parseId(args.id);
    const depth =
      flags.depth === undefined
        ? this.jsonEnabled()
          ? undefined
          : DEPTH_FOR_PEOPLE
        : parseDepth(flags.depth);
    const agent = await this.openAgent(flags, args.agent);
    return this.show(await agent.why(id, { depth }), (render, result) => render.why(result));
  }
}
