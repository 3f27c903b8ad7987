import * as Flags from "@oclif/core/flags";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { readText } from "../src/cli/input.ts";

export default class Lot extends CheeseCommand {
  static override summary = "Add a source that the agent learned from.";
  static override description =
    "The label is a category and stays for ever, also when the text is erased: never put personal data in it. TEXT may be - for standard input.";
  static override examples = [
    {
      description: "A message from the user",
      command: '<%= config.bin %> lot alice user_message "I live in Pune"',
    },
    {
      description: "A web page, from standard input",
      command: "<%= config.bin %> lot alice web_page - --uri https://example.com/u/1 < page.txt",
    },
  ];
  static override args = {
    agent: agentArg(),
    label: anArg("LABEL", "what kind of source it is, at most 64 bytes: user_message, web_page, …"),
    text: anArg("TEXT", "what it said; - reads standard input"),
  };
  static override flags = {
    uri: Flags.string({ description: "where it came from; erased with the text", helpValue: "U" }),
  };

  async run() {
    const { args, flags } = await this.parse(Lot);
    const text = await readText(args.text);
    const agent = await this.openAgent(flags, args.agent);
    const id = await agent.addLot(args.label, text, { uri: flags.uri });
    return this.show({ id, label: args.label }, (render, result) =>
      render.lotAdded(result, text === ""),
    );
  }
}
