import * as Args from "@oclif/core/args";
import * as Flags from "@oclif/core/flags";
import { agentArg, CheeseCommand } from "../src/cli/command.ts";
import { parseId, parseTime } from "../src/cli/input.ts";
import type { Named } from "../src/cli/render.ts";
import {
  type Agent,
  CheeseError,
  type Disposal,
  type EntryId,
  hasCode,
  type Mode,
  type Outcome,
  type Plan,
} from "../src/index.ts";

const NOT_AN_ID =
  'Recall removes entries by number. To look something up: "cheesedb list", or "cheesedb ask".';
const NAMED_MAX = 40;

export default class Recall extends CheeseCommand {
  static override summary = "Declare sources bad, for ever: what depended on them goes too.";
  static override description =
    "Fair (the default) spares what another leg still holds; --strict spares nothing that the source ever touched; --contact takes also what was written with it in view. Texts are hidden, and stay in the files until compact; --erase takes them off the disk before the command returns. Entries are named by number, or picked by --label, --uri-prefix, --since and --until. On a terminal the plan is shown first, and asked about. Without a terminal, as in a script, what is named by number is done at once, and what is picked wants --yes; look first with --dry-run.";
  static override examples = [
    {
      description: "What would go, and what would stay",
      command: "<%= config.bin %> recall alice 3 --dry-run",
    },
    { description: "Recall lot 3, and erase", command: "<%= config.bin %> recall alice 3 --erase" },
    {
      description: "Exactly what a plan showed, or nothing",
      command: "<%= config.bin %> recall alice 3 --plan fair-untrusted-0123456789abcdef",
    },
    {
      description: "Everything that one site said",
      command: "<%= config.bin %> recall alice --uri-prefix https://example.com/ --yes",
    },
  ];
  static override args = {
    agent: agentArg(),
    id: Args.string({
      name: "ID",
      description: "numbers of the bad entries",
      multiple: true,
      ignoreStdin: true,
    }),
  };
  static override flags = {
    strict: Flags.boolean({
      description: "take everything that stands on them in any way",
      exclusive: ["contact"],
    }),
    contact: Flags.boolean({
      description: "take also what was written with them in view",
      exclusive: ["strict"],
    }),
    erase: Flags.boolean({ description: "take the texts off the disk, now" }),
    "dry-run": Flags.boolean({
      char: "n",
      description: "show what would happen, and change nothing",
    }),
    plan: Flags.string({
      description: "carry out exactly this plan, or refuse",
      helpValue: "PLAN",
    }),
    label: Flags.string({ description: "pick the living lots with this label", helpValue: "L" }),
    "uri-prefix": Flags.string({
      description: "pick the living lots whose uri begins so",
      helpValue: "U",
    }),
    since: Flags.string({
      description: "pick the living lots from this time on (ISO 8601 with zone)",
      helpValue: "T",
    }),
    until: Flags.string({ description: "pick the living lots before this time", helpValue: "T" }),
    yes: Flags.boolean({ char: "y", description: "do not ask" }),
  };

  async run() {
    const { args, flags } = await this.parse(Recall);
    const ids = ((args.id ?? []) as unknown as string[]).map((id) => parseId(id, NOT_AN_ID));
    const filter = {
      label: flags.label,
      uriPrefix: flags["uri-prefix"],
      since: flags.since === undefined ? undefined : parseTime(flags.since, "--since"),
      until: flags.until === undefined ? undefined : parseTime(flags.until, "--until"),
    };
    const isFiltered = Object.values(filter).some((value) => value !== undefined);
    if (isFiltered === ids.length > 0) {
      throw new CheeseError(
        "USAGE",
        isFiltered
          ? "name entries by number or pick them by a filter, not both"
          : "no entry is named",
        {
          hint: NOT_AN_ID,
        },
      );
    }
    const isDryRun = flags["dry-run"];
    if (isFiltered && !isDryRun && !flags.yes && !this.isInteractive) {
      throw new CheeseError(
        "USAGE",
        "a recall by filter wants --yes where there is no terminal to ask on",
        {
          hint: "Look first with --dry-run.",
        },
      );
    }
    const mode: Mode = flags.contact ? "contact" : flags.strict ? "strict" : "fair";
    const disposal: Disposal = flags.erase ? "erase" : "untrusted";
    const agent = await this.openAgent(flags, args.agent, isDryRun ? { readOnly: true } : {});
    const targets = isFiltered ? await agent.findLots(filter) : ids;
    if (targets.length === 0)
      throw new CheeseError("NO_ENTRY", "no living lot fits", {
        hint: '"cheesedb list AGENT --lots" shows the lots.',
      });

    const plan = await agent.planRecall(targets, { mode, disposal });
    const named = this.jsonEnabled() ? new Map<EntryId, Named>() : await nameEntries(agent, plan);
    if (isDryRun) return this.show<Plan>(plan, (render) => render.plan(plan, args.agent, named));
    let planId = flags.plan;
    if (this.isInteractive && !flags.yes && flags.plan === undefined) {
      if (!plan.isNoop) {
        process.stderr.write(
          `${this.renderError.plan(plan, args.agent, named, { isAsked: true })}\n\n`,
        );
        await this.confirm(disposal === "erase" ? "Recall and erase?" : "Recall?");
      }
      planId = plan.id;
    }
    const isForPeople = !this.jsonEnabled();
    const before = isForPeople && plan.erased.length > 0 ? (await agent.stats()).textBytes : 0;
    const outcome = await agent.recall(targets, { mode, disposal, plan: planId });
    const left = isForPeople ? await whatIsLeft(agent, outcome, before) : NOTHING_LEFT;
    return this.show<Outcome>(outcome, (render) =>
      render.recalled(outcome, args.agent, named, left),
    );
  }
}

const NOTHING_LEFT = { hasTexts: false, erasedBytes: 0 };

/** For the hints alone: whether texts of what it took stand in the files still, and how much an erase left as zeros. */
async function whatIsLeft(
  agent: Agent,
  { targets, removed, erased }: Outcome,
  textBytesBefore: number,
): Promise<typeof NOTHING_LEFT> {
  try {
    if (erased.length > 0) {
      const { textBytes } = await agent.stats();
      return { hasTexts: false, erasedBytes: textBytesBefore - textBytes };
    }
    for (const list of [targets, removed])
      for (const id of list)
        if (!(await agent.get(id)).erased) return { hasTexts: true, erasedBytes: 0 };
    return NOTHING_LEFT;
  } catch (error) {
    // The recall is done, whatever cannot be read now.
    if (!(error instanceof CheeseError)) throw error;
    return { hasTexts: true, erasedBytes: 0 };
  }
}

/** What the first of the entries in a plan are called: for the rows that are shown. */
async function nameEntries(
  agent: Agent,
  { targets, removed, survivors }: Plan,
): Promise<Map<EntryId, Named>> {
  const ids = [
    targets.slice(0, NAMED_MAX),
    removed.slice(0, NAMED_MAX),
    survivors.slice(0, NAMED_MAX).map(({ id }) => id),
  ].flat();
  const named = new Map<EntryId, Named>();
  for (const id of ids) {
    // A damaged text cannot be shown, and can be recalled all the same.
    try {
      const { kind, label, text, uri } = await agent.show(id);
      named.set(id, { kind, label, text, uri });
    } catch (error) {
      if (!hasCode(error, "CORRUPT")) throw error;
    }
  }
  return named;
}
