// How a store begins: the names of what is in its folder, and the file that says who it is.

import { randomFillSync } from "node:crypto";
import { dirname, join } from "node:path";
import type { FillRandom } from "./batch.ts";
import { checkedBody, decodeFileHeader, encodeFileHeader, NO_ID } from "./codec.ts";
import { type Disk, readWhole, replaceWhole } from "./disk.ts";
import { hasCode } from "./errors.ts";
import { type MakeLock, makeKernelLock } from "./lock.ts";

export const NAMES = {
  store: "store",
  agents: "agents",
  tokens: "tokens",
  locks: "locks",
  agent: "agent",
  llm: "llm.conf",
} as const;
/** What is kept in files that are read whole. */
export const SMALL_BYTES_MAX = 64 * 1024;
export const WAIT_MS = 5000;

interface Making {
  now?: (() => number) | undefined;
  fillRandom?: FillRandom | undefined;
  waitMs?: number | undefined;
  makeLock?: MakeLock | undefined;
}

/** The store's id; null where there is no store file. */
export function readStoreFile(disk: Disk, folder: string): Buffer | null {
  if (!disk.stat(folder)) return null;
  const path = join(folder, NAMES.store);
  const bytes = readWhole(disk, path, SMALL_BYTES_MAX);
  if (!bytes) return null;
  const header = decodeFileHeader(bytes, "store", path);
  checkedBody(bytes, header, path);
  return header.storeId;
}

export function holdsAgents(disk: Disk, folder: string): boolean {
  const agents = join(folder, NAMES.agents);
  return disk.stat(agents)?.type === "folder" && disk.list(agents).length > 0;
}

/** Creates a store in a folder that is new, empty, or holds what a crashed creation left; null if it holds anything else. */
export async function createStore(
  disk: Disk,
  folder: string,
  {
    now = Date.now,
    fillRandom = randomFillSync,
    waitMs = WAIT_MS,
    makeLock = makeKernelLock,
  }: Making,
): Promise<Buffer | null> {
  if (disk.stat(folder)) {
    const ours: string[] = [...Object.values(NAMES), `${NAMES.store}.tmp`];
    if (disk.list(folder).some((name) => !ours.includes(name))) return null;
    flushNameOf(disk, folder);
  } else {
    makeFolders(disk, folder);
  }
  for (const name of [NAMES.locks, NAMES.agents, NAMES.tokens]) {
    const path = join(folder, name);
    if (!disk.stat(path)) makeFolder(disk, path);
  }
  // Whoever made them may have died before they were.
  disk.flushFolder(folder);
  const lock = makeLock(disk, join(folder, NAMES.locks, "store.lock"));
  try {
    await lock.take(waitMs);
    const existing = readStoreFile(disk, folder);
    if (existing) return existing;
    // Under a new id they would be nobody's.
    if (holdsAgents(disk, folder)) return null;
    const storeId = Buffer.alloc(16);
    fillRandom(storeId);
    replaceWhole(
      disk,
      join(folder, NAMES.store),
      encodeFileHeader({ kind: "store", storeId, agentId: NO_ID, place: now() }),
    );
    return storeId;
  } finally {
    lock.close();
  }
}

/** Another process may make the same folder at the same time. */
function makeFolder(disk: Disk, path: string) {
  try {
    disk.makeFolder(path);
  } catch (error) {
    if (disk.stat(path)?.type !== "folder") throw error;
  }
  disk.flushFolder(dirname(path));
}

/** Puts a folder's name on the disk, which a process that died may have made; where we may not, it is none of ours. */
function flushNameOf(disk: Disk, path: string) {
  try {
    disk.flushFolder(dirname(path));
  } catch (error) {
    if (!hasCode(error, "DISK")) throw error;
  }
}

function makeFolders(disk: Disk, path: string) {
  const parent = dirname(path);
  if (!disk.stat(parent) && parent !== path) makeFolders(disk, parent);
  makeFolder(disk, path);
}
