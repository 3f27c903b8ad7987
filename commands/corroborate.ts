import * as Flags from "@oclif/core/flags";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { parseId, parseLeg } from "../src/cli/input.ts";

export default class Corroborate extends CheeseCommand {
  static override summary = "Add a leg to a living memory: another way in which it is known.";
  static override description =
    "A leg that it has already changes nothing. A leg by which it would come to stand on itself is refused.";
  static override examples = [
    {
      description: "Memory 4 is also known from lot 7",
      command: "<%= config.bin %> corroborate alice 4 --from 7",
    },
    {
      description: "… and from 8 and 9 together",
      command: "<%= config.bin %> corroborate alice 4 --from 8,9",
    },
  ];
  static override args = { agent: agentArg(), memory: anArg("MEMORY", "the memory's number") };
  static override flags = {
    from: Flags.string({
      description: "the leg: entries joined by commas",
      helpValue: "IDS",
      required: true,
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Corroborate);
    const id = parseId(args.memory);
    const leg = parseLeg(flags.from);
    const agent = await this.openAgent(flags, args.agent);
    const before = await agent.get(id);
    const legs = await agent.corroborate(id, leg);
    const isNew = legs.length > before.legs.length;
    return this.show({ id, legs }, (render, result) => render.corroborated(result, isNew));
  }
}
