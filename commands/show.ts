import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { parseId } from "../src/cli/input.ts";

export default class Show extends CheeseCommand {
  static override summary = "Show one entry whole.";
  static override description =
    "Its text, its legs and whether each holds, and what was built on it.";
  static override examples = [
    { description: "Memory 4", command: "<%= config.bin %> show alice 4" },
    { description: "As JSON", command: "<%= config.bin %> show alice 4 --json" },
  ];
  static override args = { agent: agentArg(), id: anArg("ID", "the entry's number") };

  async run() {
    const { args, flags } = await this.parse(Show);
    const id = parseId(args.id);
    const agent = await this.openAgent(flags, args.agent);
    return this.show({ entry: await agent.show(id) }, (render, result) => render.entry(result));
  }
}
