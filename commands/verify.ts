import * as Args from "@oclif/core/args";
import * as Flags from "@oclif/core/flags";
import { CheeseCommand } from "../src/cli/command.ts";
import { CheeseError, codes } from "../src/index.ts";

export default class Verify extends CheeseCommand {
  static override summary = "Read and check every record, and print the head's fingerprint.";
  static override description =
    "Keep the fingerprint elsewhere: given back with --expect, it proves that nothing before it was changed, and says how many records came since. Without AGENT, all agents are checked.";
  static override examples = [
    { description: "One agent", command: "<%= config.bin %> verify alice" },
    {
      description: "Against a fingerprint kept elsewhere",
      command:
        "<%= config.bin %> verify alice --expect 6-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    },
  ];
  static override args = {
    agent: Args.string({
      name: "AGENT",
      description: "the agent's name; all if left out",
      ignoreStdin: true,
    }),
  };
  static override flags = {
    expect: Flags.string({
      description: "a head that must be part of this history (wants AGENT)",
      helpValue: "FINGERPRINT",
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Verify);
    if (flags.expect !== undefined && args.agent === undefined) {
      throw new CheeseError("USAGE", "--expect wants the agent whose head it is");
    }
    const store = await this.openStore(flags, { readOnly: true });
    if (args.agent !== undefined) {
      const report = await store.verifyAgent(args.agent, {
        expect: flags.expect,
        signal: this.signal,
        onProgress: this.progress("Verifying"),
      });
      return this.show(report, (render, result) => render.verified(result));
    }
    const report = await store.verify({ signal: this.signal });
    if (!report.ok) process.exitCode = codes.CORRUPT.exit;
    return this.show(report, (render, result) => render.verifiedAll(result));
  }
}
