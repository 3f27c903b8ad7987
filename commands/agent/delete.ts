import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../../src/cli/command.ts";
import { CheeseError } from "../../src/index.ts";

export default class AgentDelete extends CheeseCommand {
  static override summary = "Delete an agent and everything that it knows.";
  static override description =
    "All its texts are zeroed before its files go. On a terminal it asks first; elsewhere it wants --yes.";
  static override examples = [
    { description: "Asks, then deletes", command: "<%= config.bin %> agent delete alice" },
    { description: "In a script", command: "<%= config.bin %> agent delete alice --yes" },
  ];
  static override args = { name: agentArg() };
  static override flags = { yes: Flags.boolean({ char: "y", description: "do not ask" }) };

  async run() {
    const { args, flags } = await this.parse(AgentDelete);
    const store = await this.openStore(flags);
    if (!store.hasDamagedAgent(args.name)) store.requireAgent(args.name);
    if (!flags.yes) {
      if (!this.isInteractive) {
        throw new CheeseError(
          "USAGE",
          "deleting an agent wants --yes where there is no terminal to ask on",
          { hint: "Add --yes to delete it with everything that it knows." },
        );
      }
      await this.confirm(`Delete agent "${args.name}" and everything that it knows?`);
    }
    return this.show(await store.deleteAgent(args.name), (render, result) =>
      render.agentDeleted(result),
    );
  }
}
