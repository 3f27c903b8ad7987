import { createReadStream } from "node:fs";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { CheeseError, hasCode } from "../src/index.ts";

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
      if (hasCode(cause, "CANCELLED"))
        throw new CheeseError("CANCELLED", "interrupted", {
          cause,
          hint: "What was written stays: a beginning of the file.",
        });
      const { code, syscall } = cause as NodeJS.ErrnoException;
      if (cause instanceof CheeseError || syscall === undefined) throw cause;
      const why =
        code === "ENOENT" ? "there is no such file" : code === "EISDIR" ? "it is a folder" : code;
      throw new CheeseError("USAGE", `cannot read ${args.file}: ${why}`, {
        cause,
        file: args.file,
        hint: "Name an export, or - for standard input.",
      });
    }
  }
}
