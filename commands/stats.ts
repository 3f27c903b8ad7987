import * as Args from "@oclif/core/args";
import { CheeseCommand } from "../src/cli/command.ts";

export default class Stats extends CheeseCommand {
  static override summary = "Counts, bytes, the share of dead text, and the depth of the graph.";
  static override description = "Without AGENT, of all agents.";
  static override examples = [
    { description: "One agent", command: "<%= config.bin %> stats alice" },
    { description: "All of them, as JSON", command: "<%= config.bin %> stats --json" },
  ];
  static override args = {
    agent: Args.string({
      name: "AGENT",
      description: "the agent's name; all if left out",
      ignoreStdin: true,
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Stats);
    if (args.agent !== undefined) {
      const agent = await this.openAgent(flags, args.agent, { readOnly: true });
      return this.show(await agent.stats(), (render, result) => render.stats(result));
    }
    const store = await this.openStore(flags, { readOnly: true });
    return this.show(await store.stats(), (render, result) => render.statsAll(result));
  }
}
