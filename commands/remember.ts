import * as Flags from "@oclif/core/flags";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { parseLeg, readText } from "../src/cli/input.ts";

export default class Remember extends CheeseCommand {
  static override summary = "Add a memory, and say what it was learned from.";
  static override description =
    "Each --from is one leg: parents joined by commas, all of which it needs. With several legs the memory lives while any one of them holds. TEXT may be - for standard input.";
  static override examples = [
    {
      description: "Learned from lot 1, or from lot 2",
      command: '<%= config.bin %> remember alice "user lives in Pune" --from 1 --from 2',
    },
    {
      description: "Needs memory 4 and memory 5",
      command: '<%= config.bin %> remember alice "carry an umbrella" --from 4,5',
    },
  ];
  static override args = {
    agent: agentArg(),
    text: anArg("TEXT", "what the agent knows; - reads standard input"),
  };
  static override flags = {
    from: Flags.string({
      description: "one leg: the entries that this needs, joined by commas",
      helpValue: "IDS",
      multiple: true,
      multipleNonGreedy: true,
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Remember);
    const legs = (flags.from ?? []).map(parseLeg);
    const text = await readText(args.text);
    const agent = await this.openAgent(flags, args.agent);
    const id = await agent.remember(text, legs);
    const { legs: stored } = await agent.get(id);
    return this.show({ id, legs: stored.map(({ parents }) => parents) }, (render, result) =>
      render.memoryAdded(result, text === ""),
    );
  }
}
