import { anArg, CheeseCommand } from "../../src/cli/command.ts";
import type { Renderer } from "../../src/cli/render.ts";

export default class AgentCreate extends CheeseCommand {
  static override summary = "Create an agent, and print its token once.";
  static override description =
    "The store is created too, where there is none. The token opens the agent from anywhere; it is also kept in the store's tokens folder for the commands on this machine.";
  static override examples = [
    {
      description: "An agent in the default store, ~/.cheesedb",
      command: "<%= config.bin %> agent create alice",
    },
    {
      description: "In a store of its own",
      command: "<%= config.bin %> agent create alice --store ./memory",
    },
  ];
  static override args = {
    name: anArg("NAME", "1 to 64 characters, without control characters and slashes"),
  };

  async run() {
    const { args, flags } = await this.parse(AgentCreate);
    const store = await this.openStore(flags, { create: true });
    const created = await store.createAgent(args.name, { keepToken: true });
    return this.show(created, (render: Renderer) => render.agentCreated(created));
  }
}
