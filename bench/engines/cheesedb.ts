// cheesedb through its library, as a program uses it.

import { statSync } from "node:fs";
import { join } from "node:path";
import type { Agent, Outcome } from "../../src/index.ts";
import type { Graph } from "../graph.ts";
import { agentFolder, loadAgent, logFiles, openAgent } from "../place.ts";
import type { Engine } from "./engine.ts";

export class CheeseDb implements Engine {
  readonly #folder: string;
  #agent: Agent | null = null;
  #outcome: Outcome | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get agent(): Agent {
    if (!this.#agent) throw new Error("not open");
    return this.#agent;
  }

  get outcome(): Outcome {
    if (!this.#outcome) throw new Error("nothing was recalled");
    return this.#outcome;
  }

  async load(graph: Graph): Promise<number> {
    await this.open();
    return loadAgent(this.agent, graph);
  }

  async open() {
    this.#agent = (await openAgent(this.#folder)).agent;
  }

  async recall(lot: number, erase: boolean) {
    this.#outcome = await this.agent.recall([lot], { disposal: erase ? "erase" : "untrusted" });
  }

  async removed() {
    return this.outcome.removed;
  }

  async insert(_id: number, text: string, parent: number) {
    await this.agent.remember(text, [[parent]]);
  }

  async insertMany(ids: number[], texts: string[], parents: number[]) {
    await this.agent.rememberAll(
      ids.map((_, i) => ({ text: texts[i] as string, legs: [[parents[i] as number]] })),
    );
  }

  async lookUp(id: number) {
    await this.agent.why(id, { depth: 1 });
  }

  async bytes() {
    const log = logFiles(this.#folder).reduce((sum, path) => sum + statSync(path).size, 0);
    return log;
  }

  snapshotBytes(): number {
    return statSync(join(agentFolder(this.#folder), "graph")).size;
  }

  async close() {
    await this.#agent?.close();
  }
}
