import * as Flags from "@oclif/core/flags";
import { agentArg, anArg, CheeseCommand } from "../src/cli/command.ts";
import { readText } from "../src/cli/input.ts";
import * as story from "../src/cli/story.ts";
import { CheeseError, type Why } from "../src/index.ts";

export default class Ask extends CheeseCommand {
  static override summary = "Ask a language model, which answers from what is alive, and cites it.";
  static override description =
    "At most 40 living memories go into the prompt, those that fit the question best; it says how many were left out. Nothing is written.";
  static override examples = [
    {
      description: "A question",
      command: '<%= config.bin %> ask alice "Where does the user live?"',
    },
    {
      description: "And what the answer rests on, down to the sources",
      command: '<%= config.bin %> ask alice "Where does the user live?" --why',
    },
  ];
  static override args = {
    agent: agentArg(),
    question: anArg("QUESTION", "the question; - reads standard input"),
  };
  static override flags = {
    why: Flags.boolean({ description: "also why each cited memory is believed" }),
    builtin: Flags.boolean({ description: "use the built-in reader, whatever is configured" }),
    yes: Flags.boolean({
      char: "y",
      description: "do not ask before texts are sent to another machine",
    }),
  };

  async run() {
    const { args, flags } = await this.parse(Ask);
    const question = await readText(args.question);
    if (question.trim() === "")
      throw new CheeseError("USAGE", "the question is empty", {
        hint: 'cheesedb ask AGENT "Where does the user live?".',
      });
    const agent = await this.openAgent(flags, args.agent);
    const chosen = await this.chooseModel(flags, { builtIn: flags.builtin });
    try {
      await this.askBeforeSending(chosen, flags.yes);
      const { fittingMemories } = await import("../src/llm/learn.ts");
      const { answerFrom } = await import("../src/llm/ask.ts");
      const { memories, all } = await fittingMemories(agent, [question]);
      await this.spin("The model thinks");
      const answered = await answerFrom(
        chosen.model,
        { question, memories, instructions: [] },
        { signal: this.signal },
      );
      await this.spin(null);
      const whys: Why[] = [];
      if (flags.why) for (const id of answered.cites) whys.push(await agent.why(id));
      const result = {
        question,
        ...answered,
        memories: memories.length,
        leftOut: all - memories.length,
        model: chosen.model.info,
        ...(flags.why && { why: whys }),
      };
      const texts = new Map(memories.map(({ id, text }) => [id, text]));
      return this.show(result, (render) => story.answered(render, result, texts));
    } finally {
      await chosen.close();
    }
  }
}
