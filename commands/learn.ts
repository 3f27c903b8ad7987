import * as Args from "@oclif/core/args";
import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import { parseId } from "../src/cli/input.ts";
import * as story from "../src/cli/story.ts";
import { type Agent, CheeseError, type EntryId } from "../src/index.ts";

export default class Learn extends CheeseCommand {
  static override summary =
    "Let a language model read lots, and write memories with the legs that it declares.";
  static override description =
    "The model reads the lots and the living memories that fit them. What it proposes is shown before it is written; elsewhere than on a terminal it wants --yes, and --dry-run shows it alone. The engine has the last word on every leg. What stood in the prompt is recorded as seen.";
  static override examples = [
    { description: "From lots 1 and 3", command: "<%= config.bin %> learn alice 1 3" },
    {
      description: "From all lots that nothing was built on yet",
      command: "<%= config.bin %> learn alice --new --yes",
    },
  ];
  static override args = {
    agent: agentArg(),
    lot: Args.string({
      name: "LOT",
      description: "numbers of the lots",
      multiple: true,
      ignoreStdin: true,
    }),
  };
  static override flags = {
    new: Flags.boolean({ description: "all living lots that nothing was built on yet" }),
    builtin: Flags.boolean({ description: "use the built-in reader, whatever is configured" }),
    "dry-run": Flags.boolean({
      char: "n",
      description: "show what the model would remember, and write nothing",
    }),
    yes: Flags.boolean({ char: "y", description: "write without asking" }),
  };

  async run() {
    const { args, flags } = await this.parse(Learn);
    const named = (args.lot ?? []) as unknown as string[];
    const ids = [...new Set(named.map((id) => parseId(id)))];
    if (Boolean(flags.new) === ids.length > 0)
      throw new CheeseError(
        "USAGE",
        flags.new ? "name lots or take --new, not both" : "no lot is named",
        { hint: "learn AGENT LOT…, or learn AGENT --new." },
      );
    const isDryRun = flags["dry-run"];
    const agent = await this.openAgent(flags, args.agent, isDryRun ? { readOnly: true } : {});
    const sources = await readLots(agent, flags.new ? await newLots(agent) : ids);
    if (sources.length === 0)
      throw new CheeseError("NO_ENTRY", "there is no new lot: something was built on every one");
    if (!flags.yes && !isDryRun && !this.isInteractive)
      throw new CheeseError("USAGE", "learning wants --yes where there is no terminal to ask on", {
        hint: "Add --yes to write what the model proposes, or --dry-run to see it.",
      });

    const chosen = await this.chooseModel(flags, { builtIn: flags.builtin });
    try {
      await this.askBeforeSending(chosen, flags.yes);
      const { fittingMemories, propose } = await import("../src/llm/learn.ts");
      const { memories } = await fittingMemories(
        agent,
        sources.map(({ text }) => text),
      );
      await this.spin("The model reads");
      const proposal = await propose(
        agent,
        chosen.model,
        { sources, memories, instructions: [] },
        { signal: this.signal },
      );
      await this.spin(null);
      const { model } = chosen;
      const seen = [...sources, ...memories].map(({ id }) => id);
      if (isDryRun) {
        const { memories, refused } = proposal;
        const planned = { dryRun: true, memories, refused, seen, model: model.info };
        return this.show(planned, (render) => story.wouldLearn(render, planned));
      }
      if (!flags.yes && proposal.memories.length > 0) {
        process.stderr.write(`${story.proposal(this.renderError, proposal)}\n\n`);
        await this.confirm("Write these memories?");
      }
      const written = await agent.rememberAll(
        proposal.memories.map((memory) => ({ ...memory, seen })),
      );
      const entries = await Promise.all(written.map((id) => agent.show(id)));
      const result = {
        memories: entries.map(({ id, text, legs }) => ({
          id,
          text,
          legs: legs.map(({ parents }) => parents),
        })),
        refused: proposal.refused,
        seen,
        model: model.info,
      };
      return this.show(result, (render) => story.learned(render, result));
    } finally {
      await chosen.close();
    }
  }
}

/** Lots with their texts. @throws CheeseError NO_ENTRY, DEAD_PARENT */
async function readLots(
  agent: Agent,
  ids: EntryId[],
): Promise<{ id: EntryId; label: string; text: string }[]> {
  const lots: { id: EntryId; label: string; text: string }[] = [];
  for (const id of ids) {
    const { kind, state, label, text } = await agent.show(id);
    if (kind !== "lot")
      throw new CheeseError("NO_ENTRY", `entry ${id} is a memory: a model learns from lots`, {
        entry: id,
      });
    if (state !== "alive" || text === null)
      throw new CheeseError("DEAD_PARENT", `lot ${id} was ${state}: nothing is learned from it`, {
        entry: id,
      });
    lots.push({ id, label: label ?? "", text });
  }
  return lots;
}

async function newLots(agent: Agent): Promise<EntryId[]> {
  const ids: EntryId[] = [];
  for await (const { id } of agent.entries({ state: "alive", kind: "lot" })) {
    if ((await agent.show(id)).builtOnThis.length === 0) ids.push(id);
  }
  return ids;
}
