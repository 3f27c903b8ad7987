// What the campaigns do to whole stores: keep one as an image, lay it out again, and say what a healthy opening shows of it.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Agent, Store, type StoreOptions } from "../../src/index.ts";

/** Every folder (null) and file below a folder, by its path from there. A folder stands before what is in it. */
export type Image = Map<string, Buffer | null>;

export function readImage(folder: string, image: Image = new Map(), under = ""): Image {
  for (const entry of readdirSync(join(folder, under), { withFileTypes: true })) {
    const name = under === "" ? entry.name : `${under}/${entry.name}`;
    if (entry.isDirectory()) {
      image.set(name, null);
      readImage(folder, image, name);
    } else if (entry.isFile()) {
      // Nothing but a lock may open a lock file, and there is nothing in one.
      image.set(name, under === "locks" ? Buffer.alloc(0) : readFileSync(join(folder, name)));
    }
  }
  return image;
}

/** Makes a folder hold exactly an image. */
export function writeImage(folder: string, image: Image) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const [name, bytes] of image) {
    if (bytes === null) mkdirSync(join(folder, name), { mode: 0o700 });
    else writeFileSync(join(folder, name), bytes, { mode: 0o600 });
  }
}

/** Whether some text stands in any file of an image. */
export function stands(image: Image, text: string): boolean {
  for (const bytes of image.values()) if (bytes?.includes(text)) return true;
  return false;
}

/** A folder to work in: in memory where there is such a file system, since nothing here is about a real disk. */
export function workFolder(): string {
  const inMemory = "/dev/shm";
  let base = tmpdir();
  try {
    if (statSync(inMemory).isDirectory()) base = inMemory;
    return mkdtempSync(join(realpathSync(base), "cheesedb-test-"));
  } catch {
    return mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  }
}

export interface EntryView {
  id: number;
  kind: string;
  state: string;
  label: string | null;
  text: string | null;
  uri: string | null;
  legs: { parents: number[]; holds: boolean }[];
}

export interface AgentView {
  records: number;
  entries: EntryView[];
}

/** What can be seen of a store: its agents, by name. */
export type View = Record<string, AgentView>;

export async function viewOfAgent(agent: Agent): Promise<AgentView> {
  const entries: EntryView[] = [];
  for await (const { id, kind, state, label, text, uri, legs } of agent.entries())
    entries.push({ id, kind, state, label, text, uri, legs });
  return { records: (await agent.head()).record, entries };
}

/** What each agent of a store holds, opened by its kept token; an agent whose token is not kept is null. */
export async function viewOf(store: Store): Promise<View> {
  const view: View = {};
  for (const name of store.agentNames()) {
    const agent = await store.openAgent(store.keptToken(name) ?? "");
    try {
      view[name] = await viewOfAgent(agent);
    } finally {
      await agent.close();
    }
  }
  return view;
}

/** Random bytes that follow from a number alone, so that two runs write the same. */
export function countedRandom(): NonNullable<StoreOptions["fillRandom"]> {
  let count = 0;
  return (bytes) => {
    for (let at = 0; at < bytes.length; at++) bytes[at] = Math.imul(++count, 0x9e3779b1) >>> 24;
  };
}

/** Opens a store on a healthy disk. */
export function openHealthy(path: string, options: StoreOptions = {}): Promise<Store> {
  return Store.open(path, { waitMs: 2000, ...options });
}

/** Every agent checks, and nothing is left to be done. */
export async function requireTidy(store: Store) {
  const { ok, agents } = await store.verify();
  if (!ok) throw new Error(`it does not verify: ${JSON.stringify(agents)}`);
  for (const report of agents)
    if (!("tornBytes" in report) || report.tornBytes > 0 || report.erasesPending > 0)
      throw new Error(`it is not tidy: ${JSON.stringify(report)}`);
}
