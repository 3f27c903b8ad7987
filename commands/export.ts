import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import { CheeseError } from "../src/index.ts";

/** Of what the file system refuses: the user's own slips. */
const WRONG_FILES: Record<string, { why: string; hint: string }> = {
  EEXIST: { why: "it exists already", hint: "Choose another file, or remove this one first." },
  ENOENT: { why: "its folder does not exist", hint: "Make the folder first, or choose another." },
  ENOTDIR: { why: "a file stands where its folder should", hint: "Choose another place." },
};

export default class Export extends CheeseCommand {
  static override summary = "Write the history as JSON Lines, a line a record.";
  static override description =
    "Texts are null where they were erased, and where their entry is dead unless --dead-texts is given. To standard output, or to a file that does not exist yet.";
  static override examples = [
    { description: "Into a file", command: "<%= config.bin %> export alice --out alice.jsonl" },
    {
      description: "Through a pipe",
      command: "<%= config.bin %> export alice | gzip > alice.jsonl.gz",
    },
  ];
  static override args = { agent: agentArg() };
  static override flags = {
    out: Flags.string({ char: "o", description: "the file to write", helpValue: "FILE" }),
    "dead-texts": Flags.boolean({
      description: "also the texts of the dead, as far as they still stand",
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Export);
    if (this.jsonEnabled() && flags.out === undefined) {
      throw new CheeseError(
        "USAGE",
        "export --json wants --out: the export itself is not one JSON document",
      );
    }
    const agent = await this.openAgent(flags, args.agent, { readOnly: true });
    const lines = agent.export({
      deadTexts: flags["dead-texts"],
      signal: this.signal,
      onProgress: this.progress("Exporting"),
    });
    let records = -1;
    let bytes = 0;
    const counted = async function* () {
      for await (const line of lines) {
        records++;
        bytes += Buffer.byteLength(line);
        yield line;
      }
    };
    if (flags.out === undefined) {
      await pipeline(counted(), process.stdout, { end: false });
      return {};
    }
    const file = flags.out;
    try {
      await pipeline(counted(), createWriteStream(file, { flags: "wx", mode: 0o600, flush: true }));
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (code === undefined || cause instanceof CheeseError) throw cause;
      const wrong = WRONG_FILES[code];
      throw new CheeseError(
        wrong ? "USAGE" : "DISK",
        `cannot write ${file}: ${wrong?.why ?? code}`,
        {
          cause,
          file,
          ...(wrong && { hint: wrong.hint }),
        },
      );
    }
    return this.show({ records, bytes, file }, (render, result) => render.exported(result));
  }
}
