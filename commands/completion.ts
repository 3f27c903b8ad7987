import * as Args from "@oclif/core/args";
import { CheeseCommand } from "../src/cli/command.ts";
import { SHELLS, type Shell, scripts } from "../src/cli/complete.ts";

export default class Completion extends CheeseCommand {
  static override summary =
    "Print the script that completes commands, flags and agents in a shell.";
  static override description = "Load it from your shell's own start-up file.";
  static override examples = [
    {
      description: "bash, for this session",
      command: 'eval "$(<%= config.bin %> completion bash)"',
    },
    {
      description: "fish, for ever",
      command: "<%= config.bin %> completion fish > ~/.config/fish/completions/cheesedb.fish",
    },
  ];
  static override args = {
    shell: Args.string({
      name: "SHELL",
      description: SHELLS.join(", "),
      options: [...SHELLS],
      required: true,
      ignoreStdin: true,
    }),
  };

  async run() {
    const { args } = await this.parse(Completion);
    const shell = args.shell as Shell;
    return this.show({ shell, script: scripts[shell] }, (_render, { script }) => script);
  }
}
