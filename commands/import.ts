import { createReadStream } from "node:fs";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { CheeseError } from "../src/index.ts";

export default class Import extends CheeseCommand {
  static override summary = "Write an export's records into an agent.";
  static override description =
    "As new records, with a chain of their own and new numbers for the entries. One wrong line refuses the whole file, with its number. FILE may be - for standard input.";
  static override examples = [
    {
      description: "Into a new agent",
      command: "<%= config.bin %> agent create bob && <%= config.bin %> import bob alice.jsonl",
    },
    {
      description: "From standard input",
      command: "gunzip -c alice.jsonl.gz | <%= config.bin %> import bob -",
    },
  ];
  static override args = {
    agent: agentArg(),
    file: anArg("FILE", "the export; - reads standard input"),
  };

  async run() {
    const { args, flags } = await this.parse(Import);
    const agent = await this.openAgent(flags, args.agent);
    const source = args.file === "-" ? process.stdin : createReadStream(args.file);
    try {
      const report = await agent.import(source, {
        signal: this.signal,
        onProgress: this.progress("Importing"),
      });
      return this.show(report, (render, result) => render.imported(result));
    } catch (cause) {
      const { code, path } = cause as NodeJS.ErrnoException;
      if (cause instanceof CheeseError || path === undefined) throw cause;
      throw new CheeseError("USAGE", `cannot read ${args.file}: ${code}`, {
        cause,
        file: args.file,
      });
    }
  }
}
