import * as Flags from "@oclif/core/flags";
import { anArg, CheeseCommand } from "../src/cli/command.ts";
import { readText } from "../src/cli/input.ts";

export default class Find extends CheeseCommand {
  static override summary = "Search every raw byte of the store for a text.";
  static override description =
    "It knows no format: what it does not find is not there. Lock files are never opened; their size must be 0. With --absent it exits 1 if anything is found, or if the place of an erased text is not all zero. TEXT may be - for standard input.";
  static override examples = [
    { description: "Where does this stand?", command: '<%= config.bin %> find "Pune"' },
    {
      description: "Prove that it is gone",
      command: '<%= config.bin %> find "Pune: rain" --absent',
    },
  ];
  static override args = { text: anArg("TEXT", "what to look for; - reads standard input") };
  static override flags = {
    agent: Flags.string({ description: "in the files of one agent only", helpValue: "NAME" }),
    "ignore-case": Flags.boolean({ char: "i", description: "upper and lower case are the same" }),
    absent: Flags.boolean({ description: "exit 1 if it is found anywhere" }),
  };

  async run() {
    const { args, flags } = await this.parse(Find);
    const text = await readText(args.text);
    const store = await this.openStore(flags, { readOnly: true });
    const found = await store.find(text, {
      agent: flags.agent,
      ignoreCase: flags["ignore-case"],
      absent: flags.absent,
      signal: this.signal,
      onProgress: this.progress("Searching"),
    });
    const isAbsent =
      found.count === 0 && found.unsearched.length === 0 && (found.unerased ?? []).length === 0;
    if (flags.absent && !isAbsent) process.exitCode = 1;
    return this.show(found, (render, result) =>
      render.found(result, { agent: flags.agent, ignoreCase: flags["ignore-case"] }),
    );
  }
}
