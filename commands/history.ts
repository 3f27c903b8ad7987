import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import type { HistoryRecord } from "../src/index.ts";

export default class History extends CheeseCommand {
  static override summary = "Every record in order: what was added, recalled and erased, and when.";
  static override description =
    "Texts are shown where they still stand. A record is for ever: nothing here can be edited unseen.";
  static override examples = [
    { description: "The whole history", command: "<%= config.bin %> history alice" },
    { description: "As JSON", command: "<%= config.bin %> history alice --json" },
  ];
  static override args = { agent: agentArg() };

  async run() {
    const { args, flags } = await this.parse(History);
    const agent = await this.openAgent(flags, args.agent);
    const records: HistoryRecord[] = [];
    for await (const record of agent.history()) records.push(record);
    return this.show({ records }, (render, result) => render.history(result));
  }
}
