import { agentArg, CheeseCommand } from "../src/cli/command.ts";

export default class Compact extends CheeseCommand {
  static override summary = "Rewrite the files without the texts of the dead.";
  static override description =
    "What was recalled as untrusted is as if erased afterwards. The history stays verifiable back to its first record. A crash leaves the old files or the new ones.";
  static override examples = [
    { description: "Give the space back", command: "<%= config.bin %> compact alice" },
    { description: "As JSON", command: "<%= config.bin %> compact alice --json" },
  ];
  static override args = { agent: agentArg() };

  async run() {
    const { args, flags } = await this.parse(Compact);
    const agent = await this.openAgent(flags, args.agent);
    const result = await agent.compact({
      signal: this.signal,
      onProgress: this.progress("Compacting"),
    });
    return this.show(result, (render) => render.compacted(result));
  }
}
