import { CheeseCommand } from "../../src/cli/command.ts";

export default class AgentList extends CheeseCommand {
  static override summary = "List the agents of the store.";
  static override description = "A damaged agent is listed as such, and does not stop the others.";
  static override examples = [
    { description: "All agents", command: "<%= config.bin %> agent list" },
    { description: "As JSON", command: "<%= config.bin %> agent list --json" },
  ];

  async run() {
    const { flags } = await this.parse(AgentList);
    const store = await this.openStore(flags, { readOnly: true });
    return this.show({ agents: await store.agents() }, (render, result) => render.agents(result));
  }
}
