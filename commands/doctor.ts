import { CheeseCommand } from "../src/cli/command.ts";

export default class Doctor extends CheeseCommand {
  static override summary = "Check that everything cheesedb stands on is in order.";
  static override description =
    "The Node version, its hash, the store's permissions, the locks, whether the disk honours a flush, and whether the language model answers, if one is configured. Says what to do about each failure, and exits 1 if there is one.";
  static override examples = [
    { description: "The default store", command: "<%= config.bin %> doctor" },
    {
      description: "Another one, as JSON",
      command: "<%= config.bin %> doctor --store ./memory --json",
    },
  ];

  async run() {
    const { flags } = await this.parse(Doctor);
    const { examine } = await import("../src/cli/doctor.ts");
    const result = await examine(this.storePath(flags), process.env);
    if (!result.ok) process.exitCode = 1;
    return this.show(result, (render) => render.doctor(result));
  }
}
