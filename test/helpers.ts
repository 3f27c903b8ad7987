// What the tests share: folders, stores and agents that clean up after themselves, and a seeded source of chance.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Agent, CheeseError, Store, type StoreOptions } from "../src/index.ts";

export { chance, SEED } from "./chance.ts";

/** A folder that is removed when the test ends. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function tempStore(options: StoreOptions = {}): Promise<Store> {
  return Store.open(join(tempFolder(), "store"), options);
}

/** An agent in a store of its own, closed when the test ends. */
export async function tempAgent(
  options: StoreOptions = {},
): Promise<{ store: Store; agent: Agent; token: string }> {
  const store = await tempStore(options);
  const { token } = await store.createAgent("alice", { keepToken: true });
  const agent = await store.openAgent(token);
  onTestFinished(() => agent.close());
  return { store, agent, token };
}

/** The code of what a call throws; a TypeError by its name, and null when it succeeds. */
export async function codeOf(call: () => Promise<unknown>): Promise<string | null> {
  try {
    await call();
    return null;
  } catch (error) {
    if (error instanceof CheeseError) return error.code;
    if (error instanceof TypeError) return "TypeError";
    throw error;
  }
}

/** Every regular file below a folder, with its path from there. */
export function filesIn(folder: string, under = ""): { name: string; path: string }[] {
  return readdirSync(join(folder, under))
    .sort()
    .flatMap((entry) => {
      const name = under === "" ? entry : `${under}/${entry}`;
      const path = join(folder, name);
      return statSync(path).isDirectory() ? filesIn(folder, name) : [{ name, path }];
    });
}

/** All bytes of all files below a folder but the lock files, which nothing but a lock may open. */
export function allBytes(folder: string): Buffer {
  const files = filesIn(folder).filter(({ name }) => !name.startsWith("locks/"));
  return Buffer.concat(files.map(({ path }) => readFileSync(path)));
}

/** Where the batch at a place of a segment ends. Its last byte may be a zero, as those behind it are. */
export function batchEnd(segment: Buffer, at: number): number {
  const [spineBytes, areaBytes] = [segment.readUInt32LE(at + 16), segment.readUInt32LE(at + 20)];
  return at + 60 + spineBytes + areaBytes + 40;
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
