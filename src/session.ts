// A writer whose context is observed: what it has seen is stored with everything that it writes, whatever it declares.
//
// Each entry's seen set is counted on from the session's last durable entry, so that a long session stays cheap.

import type { Agent } from "./agent.ts";
import { requireOptions } from "./options.ts";
import { listOf, type SeenSince } from "./rules.ts";
import type { EntryId } from "./terms.ts";

export class Session {
  readonly #agent: Agent;
  readonly #all = new Set<EntryId>();
  /** The last entry that is on the disk with all that was seen before it; 0 for none. */
  #base: EntryId = 0;
  #sinceBase = new Set<EntryId>();

  /** Made by Agent.session. */
  constructor(agent: Agent, seen: Iterable<EntryId> = []) {
    this.#agent = agent;
    this.see(seen);
  }

  /** What the session has seen so far, ascending. */
  get seen(): EntryId[] {
    return [...this.#all].sort((a, b) => a - b);
  }

  /** Notes that these entries were shown to the session. */
  see(ids: Iterable<EntryId>) {
    for (const id of listOf(ids, "ids")) {
      if (this.#all.has(id)) continue;
      this.#all.add(id);
      this.#sinceBase.add(id);
    }
  }

  /** As Agent.addLot, with what the session has seen. @throws CheeseError RECALLED_CONTEXT once a contact recall took any of it */
  async addLot(
    label: string,
    text: string,
    options: { uri?: string | null | undefined } = {},
  ): Promise<EntryId> {
    requireOptions("session.addLot", options);
    const { uri } = options;
    return this.#write((seen) => this.#agent.addLot(label, text, { uri, seen }));
  }

  /** As Agent.remember, with what the session has seen. @throws CheeseError RECALLED_CONTEXT once a contact recall took any of it */
  remember(text: string, legs: Iterable<Iterable<EntryId>>): Promise<EntryId> {
    return this.#write((seen) => this.#agent.remember(text, legs, { seen }));
  }

  async #write(write: (seen: SeenSince) => Promise<EntryId>): Promise<EntryId> {
    const sent = new Set(this.#sinceBase);
    const id = await write({ base: this.#base, added: [...sent], all: [...this.#all] });
    // Writes are acknowledged in their order: what was sent with this one is on the disk behind the new base.
    this.#base = id;
    this.#sinceBase = new Set([...this.#sinceBase].filter((seen) => !sent.has(seen)));
    this.see([id]);
    return id;
  }
}
