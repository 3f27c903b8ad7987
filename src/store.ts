// The folder of agents: create, open, list, delete; and what is asked of all of them.
//
//   store            who the store is          tokens/<agent id>       kept tokens
//   agents/<id>/     one agent                 locks/<agent id>.lock   never opened but by lock.ts, never removed
//   llm.conf         settings, the user's own

import { randomFillSync } from "node:crypto";
import { join, resolve, sep } from "node:path";
import { crc32 } from "node:zlib";
import { Agent } from "./agent.ts";
import type { FillRandom } from "./batch.ts";
import { genesis } from "./chain.ts";
import {
  checkedBody,
  decodeAgentBody,
  decodeFileHeader,
  encodeAgentBody,
  encodeFileHeader,
} from "./codec.ts";
import { AgentCore, openState } from "./core.ts";
import {
  type Disk,
  type FileStat,
  filesBelow,
  folderBytes,
  readWhole,
  realDisk,
  removeFolderWhole,
  replaceWhole,
} from "./disk.ts";
import { CheeseError, corrupt, hasCode } from "./errors.ts";
import { findBytes } from "./find.ts";
import { FLAGS } from "./graph.ts";
import { firstHeadMark, HEAD_MARK_NAME } from "./headmark.ts";
import { type MakeLock, makeKernelLock, type WriterLock } from "./lock.ts";
import { type AgentPlace, logFolder, RESERVE_BYTES } from "./log.ts";
import {
  createStore,
  holdsAgents,
  NAMES,
  readStoreFile,
  SMALL_BYTES_MAX,
  WAIT_MS,
} from "./newstore.ts";
import { NODE_HINT, nodeProblem } from "./node.ts";
import { requireOptions, typeName } from "./options.ts";
import { createSegment, segmentName } from "./segment.ts";
import type { AgentState } from "./state.ts";
import type { AgentInfo, AgentListing, AgentStats, FindReport, VerifyReport } from "./terms.ts";
import { normaliseName } from "./text.ts";
import { tick } from "./tick.ts";
import { BAD_TOKEN, makeToken, parseToken, tokenFits } from "./token.ts";
import { type Problem, verifyAgent } from "./verify.ts";

export interface StoreOptions {
  /** Opens without writing anything. */
  readOnly?: boolean | undefined;
  /** Whether a store is created where there is none; true unless readOnly. */
  create?: boolean | undefined;
  /** How long a write waits for another process; 5,000 ms if not said. */
  waitMs?: number | undefined;
  /** Bytes at which a segment of the log is sealed, and the next begun; 32 MiB if not said. */
  segmentBytes?: number | undefined;
  /** Records behind the last snapshot at which a close writes a new one; by the graph's size if not said. */
  snapshotRecords?: number | undefined;
  /** For tests: the disk, the clock in milliseconds since 1970, and the source of randomness. */
  disk?: Disk | undefined;
  now?: (() => number) | undefined;
  fillRandom?: FillRandom | undefined;
  /** For tests: the locks, where the disk is none that the kernel knows. */
  makeLock?: MakeLock | undefined;
}

export interface FindOptions {
  agent?: string | undefined;
  ignoreCase?: boolean | undefined;
  /** How many places to give with an excerpt; all are counted. */
  matchesMax?: number | undefined;
  /** Also asks the agents whether the place of every erased text is zero. */
  absent?: boolean | undefined;
  signal?: AbortSignal | undefined;
  onProgress?: ((done: number, all: number) => void) | undefined;
}

/** What the store says of one damaged agent. */
export interface AgentFailure {
  ok: false;
  agent: string;
  id: string;
  error: { code: string; message: string; hint: string };
  problems?: Problem[];
}

/** Something about the store that its owner should know. */
export interface StoreWarning {
  code: "OPEN_TO_OTHERS" | "OTHER_OWNER";
  message: string;
  hint: string;
}

const AGENT_ID = /^[0-9a-f]{32}$/;
const UNFINISHED = ".new";
const DELETED = "deleted-";
const MATCHES_MAX = 10_000;
const STRANGE_NAME = "(unknown)";

interface AgentFile extends AgentInfo {
  tokenHash: Buffer;
  agentId: Buffer;
}

export class Store {
  readonly path: string;
  readonly readOnly: boolean;
  /** Permissions that let others in. */
  readonly warnings: StoreWarning[] = [];
  readonly #disk: Disk;
  readonly #storeId: Buffer;
  readonly #waitMs: number;
  readonly #now: () => number;
  readonly #fillRandom: FillRandom;
  readonly #makeLock: MakeLock;
  readonly #options: StoreOptions;

  private constructor(path: string, storeId: Buffer, options: StoreOptions) {
    this.path = path;
    this.readOnly = options.readOnly ?? false;
    this.#storeId = storeId;
    this.#disk = options.disk ?? realDisk;
    this.#options = options;
    this.#waitMs = options.waitMs ?? WAIT_MS;
    this.#now = options.now ?? Date.now;
    this.#fillRandom = options.fillRandom ?? randomFillSync;
    this.#makeLock = options.makeLock ?? makeKernelLock;
  }

  /**
   * Opens a store, and creates it where there is none.
   *
   * @param path its folder; created with mode 0700
   * @throws CheeseError NO_STORE, CORRUPT, NEWER_FORMAT, DISK; UNEXPECTED on a Node that is too old
   */
  static async open(path: string, options: StoreOptions = {}): Promise<Store> {
    requireOptions("Store.open", options);
    // Before anything is written: an older Node fails at the first lock, which stands after the first folders.
    const problem = nodeProblem();
    if (problem !== null) throw new CheeseError("UNEXPECTED", problem, { hint: NODE_HINT });
    const disk = options.disk ?? realDisk;
    const folder = resolve(path);
    const stat = disk.stat(folder);
    if (stat && stat.type !== "folder") {
      const what =
        stat.type === "link"
          ? "a symbolic link"
          : `${stat.type === "file" ? "a file" : "a device, pipe or socket"}, not a folder`;
      const hint =
        stat.type === "link"
          ? "Give the folder that it points to."
          : "Name the store's folder (--store, or the path of Store.open).";
      throw new CheeseError("NO_STORE", `${folder} is ${what}`, { hint });
    }
    for (const name of [NAMES.agents, NAMES.tokens, NAMES.locks]) {
      const part = disk.stat(join(folder, name));
      if (part && part.type !== "folder")
        throw corrupt(`${join(folder, name)} is a ${part.type}, expected a folder`);
    }
    const mayCreate = !options.readOnly && (options.create ?? true);
    const storeId =
      readStoreFile(disk, folder) ?? (mayCreate ? await createStore(disk, folder, options) : null);
    if (!storeId && stat && holdsAgents(disk, folder)) {
      throw new CheeseError("NO_STORE", `${folder} holds agents, and its file "store" is missing`, {
        hint: 'Put the file "store" back from a copy: the agents belong to the id in it.',
      });
    }
    if (!storeId) {
      throw new CheeseError(
        "NO_STORE",
        stat ? `${folder} is not a store of cheesedb` : `there is no store at ${folder}`,
      );
    }
    const store = new Store(folder, storeId, options);
    store.#lookAtPermissions(disk.stat(folder));
    if (!store.readOnly) store.#finishWhatCrashed();
    return store;
  }

  #lookAtPermissions(stat: FileStat | null) {
    if (!stat || process.platform === "win32") return;
    if (stat.mode & 0o022) {
      this.warnings.push({
        code: "OPEN_TO_OTHERS",
        message: `other users can write to ${this.path}`,
        hint: `Shut them out: chmod 700 ${this.path}`,
      });
    }
    const user = process.getuid?.();
    if (user !== undefined && stat.owner !== user && user !== 0) {
      this.warnings.push({
        code: "OTHER_OWNER",
        message: `${this.path} belongs to another user`,
        hint: "Use a store of your own.",
      });
    }
  }

  // ----- agents -----

  /**
   * Creates an agent.
   *
   * @param options.keepToken whether the token is also kept in the store's `tokens/`, for the command line
   * @returns the token: the store keeps a hash of it, so this is the only time that it is given
   * @throws CheeseError BAD_NAME, NAME_TAKEN, READ_ONLY, LOCKED, DISK
   */
  async createAgent(
    name: string,
    options: { keepToken?: boolean | undefined } = {},
  ): Promise<{ agent: AgentInfo; token: string }> {
    requireOptions("createAgent", options);
    const normal = normaliseName(name);
    return this.#underStoreLock(() => {
      const files = this.#agentFiles();
      requireRead(files);
      const taken = files.find((file) => file.name === normal);
      if (taken) throw new CheeseError("NAME_TAKEN", `there is an agent "${normal}" already`);
      const agentId = Buffer.alloc(16);
      this.#fillRandom(agentId);
      const id = agentId.toString("hex");
      const { token, hash } = makeToken(agentId, this.#fillRandom);
      const created = this.#now();
      this.#layOut(agentId, normal, hash, created);
      if (options.keepToken) {
        const path = join(this.path, NAMES.tokens, id);
        replaceWhole(this.#disk, path, Buffer.from(`${token}\n`));
      }
      // The one step that makes it an agent: everything before it is swept up by the next open.
      this.#disk.rename(this.#agentPath(id) + UNFINISHED, this.#agentPath(id));
      this.#disk.flushFolder(join(this.path, NAMES.agents));
      return { agent: { name: normal, id, created: new Date(created).toISOString() }, token };
    });
  }

  /** Writes all files of a new agent under a name that is no agent's yet. */
  #layOut(agentId: Buffer, name: string, tokenHash: Buffer, created: number) {
    const disk = this.#disk;
    const id = agentId.toString("hex");
    const folder = this.#agentPath(id) + UNFINISHED;
    const ids = { storeId: this.#storeId, agentId };
    // The store's own names may not be on the disk yet, where another process made it and died.
    disk.flushFolder(this.path);
    disk.makeFolder(folder);
    const body = encodeAgentBody({ name, tokenHash });
    const header = encodeFileHeader({
      kind: "agent",
      ...ids,
      place: created,
      bodyBytes: body.length,
      bodyCheck: crc32(body),
    });
    this.#writeNew(join(folder, NAMES.agent), Buffer.concat([header, body]));
    const head = genesis(ids.storeId, agentId);
    this.#writeNew(join(folder, HEAD_MARK_NAME), firstHeadMark(ids, head));
    const generation = join(logFolder(folder), "1");
    disk.makeFolder(logFolder(folder));
    disk.makeFolder(generation);
    const before = { record: 0, entries: 0, head };
    createSegment(
      disk,
      join(generation, segmentName(1)),
      ids,
      1,
      { number: 1, before },
      RESERVE_BYTES,
    ).close();
    // Its own name too: the token that is kept next must not outlive the folder by which it is found and swept up.
    const agents = join(this.path, NAMES.agents);
    for (const path of [generation, logFolder(folder), folder, agents]) disk.flushFolder(path);
  }

  #writeNew(path: string, bytes: Buffer) {
    const file = this.#disk.create(path);
    try {
      file.write(bytes, 0);
      file.flush();
    } finally {
      file.close();
    }
  }

  /**
   * Opens an agent: the only way to its data.
   *
   * @throws CheeseError BAD_TOKEN, CORRUPT, NEWER_FORMAT, DISK
   */
  async openAgent(token: string, options: { waitMs?: number | undefined } = {}): Promise<Agent> {
    requireOptions("openAgent", options);
    const { agentId, secret } = parseToken(token);
    const id = agentId.toString("hex");
    if (this.#disk.stat(this.#agentPath(id))?.type !== "folder")
      throw new CheeseError("BAD_TOKEN", BAD_TOKEN);
    const file = this.#readAgentFile(id);
    if (!tokenFits(secret, file.tokenHash)) throw new CheeseError("BAD_TOKEN", BAD_TOKEN);
    const { core, release } = await this.#shareCore(file);
    return new Agent(
      core,
      { name: file.name, id, created: file.created },
      options.waitMs ?? this.#waitMs,
      release,
    );
  }

  /** Names of the agents that are not damaged, ascending. */
  agentNames(): string[] {
    return this.#agentFiles()
      .filter((file) => !("error" in file))
      .map(({ name }) => name);
  }

  /** Which agents are in use by another process, and which locks cannot be taken at all. */
  async lookAtLocks(): Promise<{ held: string[]; failed: string[] }> {
    const held: string[] = [];
    const failed: string[] = [];
    const locks = this.#agentFiles().map(({ name, id }) => ({ name, lock: this.#lockOf(id) }));
    for (const { name, lock } of [{ name: "(the store)", lock: this.#storeLock() }, ...locks]) {
      try {
        if (!lock.tryTake()) held.push(name);
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        failed.push(error.message);
      } finally {
        lock.close();
      }
    }
    return { held, failed };
  }

  /** Whether an agent of this id is too damaged to be read. */
  hasDamagedAgent(id: string): boolean {
    return this.#agentFiles().some((file) => "error" in file && file.id === id);
  }

  /** @throws CheeseError NO_AGENT when there is no agent of that name */
  requireAgent(name: string): AgentInfo {
    const { name: normal, id, created } = this.#findAgent(name);
    return { name: normal, id, created };
  }

  /**
   * The token that was kept for an agent; null if none was, and if there is no such agent.
   *
   * @throws CheeseError NO_AGENT when the name might be a damaged agent's; BAD_TOKEN when it is no token of this agent's
   */
  keptToken(name: string): string | null {
    let file: AgentFile;
    try {
      file = this.#findAgent(name);
    } catch (error) {
      // Who makes the agent where there is none must not make another in the place of a damaged one.
      if (!hasCode(error, "NO_AGENT") || this.#agentFiles().some((each) => "error" in each))
        throw error;
      return null;
    }
    const { id, name: normal } = file;
    const bytes = readWhole(this.#disk, join(this.path, NAMES.tokens, id), SMALL_BYTES_MAX);
    if (!bytes) return null;
    const token = bytes.toString("utf8").trim();
    if (parseToken(token).agentId.toString("hex") !== id)
      throw new CheeseError("BAD_TOKEN", `the token kept for agent "${normal}" is another agent's`);
    return token;
  }

  /** Every agent, by name; a damaged one says so, and does not stop the others. */
  async agents(): Promise<AgentListing[]> {
    const listings: AgentListing[] = [];
    for (const file of this.#agentFiles()) {
      const { name, id } = file;
      const created = "created" in file ? file.created : "";
      const bytes = folderBytes(this.#disk, this.#agentPath(id));
      try {
        if ("error" in file) throw file.error;
        const counts = await this.#withState(file, ({ graph }) => ({
          lots: graph.entryCount - graph.memoryCount,
          memories: graph.memoryCount,
          alive: graph.aliveCount,
        }));
        listings.push({ name, id, created, ...counts, bytes });
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        const { code, message } = error;
        listings.push({
          name,
          id,
          created,
          lots: 0,
          memories: 0,
          alive: 0,
          bytes,
          damaged: { code, message },
        });
      }
    }
    return listings;
  }

  /**
   * Deletes an agent: all its texts are zeroed before its files go.
   *
   * @param name its name; or the id of one that is too damaged to have a name
   * @returns the bytes of its files
   * @throws CheeseError NO_AGENT, LOCKED, READ_ONLY, DISK
   */
  async deleteAgent(name: string): Promise<{ deleted: string; bytes: number }> {
    return this.#underStoreLock(async () => {
      const { id, name: normal } = this.#findDoomed(name);
      const lock = this.#lockOf(id);
      try {
        await lock.take(this.#waitMs);
        const bytes = folderBytes(this.#disk, this.#agentPath(id));
        const doomed = join(this.path, NAMES.agents, DELETED + id);
        this.#disk.rename(this.#agentPath(id), doomed);
        this.#finishDeletion(id);
        return { deleted: normal, bytes };
      } finally {
        lock.close();
      }
    });
  }

  /** @throws CheeseError NO_AGENT */
  #findDoomed(name: string): { id: string; name: string } {
    const damaged = this.#agentFiles().find((file) => "error" in file && file.id === name);
    return damaged ? { id: damaged.id, name: damaged.id } : this.#findAgent(name);
  }

  /** Zeroes and removes what was renamed away from the agents. Under both locks. */
  #finishDeletion(id: string) {
    const disk = this.#disk;
    const doomed = join(this.path, NAMES.agents, DELETED + id);
    const tokens = join(this.path, NAMES.tokens);
    const kept = join(tokens, id);
    const isShared = this.#othersHave((path) => path === kept || path.startsWith(doomed + sep));
    // Before the first byte goes, whoever renamed it: else the agent might come back, damaged.
    disk.flushFolder(join(this.path, NAMES.agents));
    for (const { path, stat } of filesBelow(disk, doomed))
      if (!isShared(stat)) zeroFile(disk, path, stat.size);
    const stat = disk.stat(kept);
    if (stat) {
      if (stat.type === "file" && !isShared(stat)) zeroFile(disk, kept, stat.size);
      disk.removeFile(kept);
    }
    // Also where somebody who died had removed it: the token goes before the folder by which it is found.
    if (disk.stat(tokens)) disk.flushFolder(tokens);
    removeFolderWhole(disk, doomed);
    disk.flushFolder(join(this.path, NAMES.agents));
  }

  /** Whether a file has a second name elsewhere in the store, as a hard link: then its bytes are not only this agent's. */
  #othersHave(isOwn: (path: string) => boolean): (stat: FileStat) => boolean {
    const others = new Set<string>();
    const keyOf = ({ device, inode }: FileStat) => `${device} ${inode}`;
    for (const { path, stat } of filesBelow(this.#disk, this.path))
      if (!isOwn(path)) others.add(keyOf(stat));
    return (stat) => others.has(keyOf(stat));
  }

  /** Sweeps up what a crash left of a creation or a deletion, if nobody else is at it. */
  #finishWhatCrashed() {
    const folder = join(this.path, NAMES.agents);
    const left = this.#disk
      .list(folder)
      .filter((name) => name.startsWith(DELETED) || name.endsWith(UNFINISHED));
    if (left.length === 0) return;
    const lock = this.#storeLock();
    try {
      if (!lock.tryTake()) return;
      for (const name of left) {
        // A link is none of ours, and what it leads to still less.
        if (this.#disk.stat(join(folder, name))?.type !== "folder") continue;
        const id = name.startsWith(DELETED)
          ? name.slice(DELETED.length)
          : name.slice(0, -UNFINISHED.length);
        if (!AGENT_ID.test(id)) continue;
        if (name.endsWith(UNFINISHED)) {
          const tokens = join(this.path, NAMES.tokens);
          for (const kept of [id, `${id}.tmp`].map((file) => join(tokens, file))) {
            if (this.#disk.stat(kept)) this.#disk.removeFile(kept);
          }
          // Before the folder by which they are found.
          if (this.#disk.stat(tokens)) this.#disk.flushFolder(tokens);
          removeFolderWhole(this.#disk, join(folder, name));
          continue;
        }
        const agentLock = this.#lockOf(id);
        try {
          if (agentLock.tryTake()) this.#finishDeletion(id);
        } finally {
          agentLock.close();
        }
      }
    } catch (error) {
      // On a disk that cannot be written to, the store is read all the same.
      if (!hasCode(error, "DISK")) throw error;
    } finally {
      lock.close();
    }
  }

  async #underStoreLock<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.readOnly) throw new CheeseError("READ_ONLY", "this store was opened for reading only");
    const lock = this.#storeLock();
    try {
      await lock.take(this.#waitMs);
      return await work();
    } finally {
      lock.close();
    }
  }

  #storeLock(): WriterLock {
    return this.#makeLock(this.#disk, join(this.path, NAMES.locks, "store.lock"));
  }

  #lockOf(id: string): WriterLock {
    return this.#makeLock(this.#disk, join(this.path, NAMES.locks, `${id}.lock`));
  }

  #agentPath(id: string): string {
    return join(this.path, NAMES.agents, id);
  }

  #place(id: string, access: AgentPlace["access"]): AgentPlace {
    const ids = { storeId: this.#storeId, agentId: Buffer.from(id, "hex") };
    const { segmentBytes, snapshotRecords } = this.#options;
    return {
      disk: this.#disk,
      folder: this.#agentPath(id),
      ids,
      access,
      segmentBytes,
      snapshotRecords,
    };
  }

  /** @throws CheeseError NO_AGENT; CORRUPT when the name might be a damaged agent's */
  #findAgent(name: string): AgentFile {
    const normal = typeof name === "string" && name.isWellFormed() ? name.normalize("NFC") : name;
    const files = this.#agentFiles();
    const file = files.find(
      (file): file is AgentFile => !("error" in file) && file.name === normal,
    );
    if (file) return file;
    requireRead(files);
    const damaged = files.filter((file) => "error" in file);
    const hint =
      damaged.length > 0
        ? `${damaged.length} damaged agent${damaged.length > 1 ? "s" : ""} could not be read: see "cheesedb agent list".`
        : undefined;
    throw new CheeseError("NO_AGENT", `there is no agent "${normal}"`, hint ? { hint } : {});
  }

  #agentFiles(): (AgentFile | { name: string; id: string; error: CheeseError })[] {
    const ids = this.#disk
      .list(join(this.path, NAMES.agents))
      .filter((name) => AGENT_ID.test(name));
    const files = ids.map((id) => {
      try {
        return this.#readAgentFile(id);
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        return { name: STRANGE_NAME, id, error };
      }
    });
    return files.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }

  #readAgentFile(id: string): AgentFile {
    const folder = this.#disk.stat(this.#agentPath(id));
    if (folder?.type !== "folder")
      throw corrupt(`${this.#agentPath(id)} is a ${folder?.type}, expected a folder`);
    const path = join(this.#agentPath(id), NAMES.agent);
    const bytes = readWhole(this.#disk, path, SMALL_BYTES_MAX);
    if (!bytes) throw corrupt(`${path} is missing`, { file: path });
    const header = decodeFileHeader(bytes, "agent", path);
    const { name, tokenHash } = decodeAgentBody(checkedBody(bytes, header, path), path);
    if (!header.storeId.equals(this.#storeId) || header.agentId.toString("hex") !== id) {
      throw corrupt(`${path} belongs to another agent or store`, { file: path, offset: 16 });
    }
    return {
      name,
      id,
      created: new Date(header.place).toISOString(),
      tokenHash,
      agentId: header.agentId,
    };
  }

  /** The core that all handles on an agent in this process share. */
  async #shareCore({ id }: AgentFile): Promise<{ core: AgentCore; release: () => Promise<void> }> {
    const access = this.readOnly ? "read" : "write";
    const stat = this.#disk.stat(this.#agentPath(id));
    const cores = sharedCores(this.#disk);
    const key = `${access} ${id} ${stat?.device} ${stat?.inode}`;
    let shared = cores.get(key);
    if (!shared || shared.core.isShut) {
      const core = new AgentCore({
        place: this.#place(id, access),
        lock: this.#lockOf(id),
        now: this.#now,
        fillRandom: this.#fillRandom,
      });
      shared = { core, users: 0, opened: core.open() };
      cores.set(key, shared);
    }
    const mine = shared;
    mine.users++;
    const release = async () => {
      mine.users--;
      if (mine.users > 0) return;
      if (cores.get(key) === mine) cores.delete(key);
      await mine.core.close();
    };
    try {
      await mine.opened;
    } catch (error) {
      await release();
      throw error;
    }
    return { core: mine.core, release };
  }

  /** Reads an agent without a token, for counts and proofs; nothing of its texts leaves the store this way. */
  async #withState<T>(
    { id }: { id: string },
    use: (state: AgentState) => T | Promise<T>,
  ): Promise<T> {
    const state = await openState(this.#place(id, "read"));
    try {
      return await use(state);
    } finally {
      state.close();
    }
  }

  // ----- all agents -----

  /** Verifies every agent; needs no token. */
  async verify(
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<{ ok: boolean; agents: (VerifyReport | AgentFailure)[] }> {
    requireOptions("store.verify", options);
    const agents = await this.#eachAgent((file) =>
      verifyAgent(this.#place(file.id, "read"), file, options),
    );
    return { ok: agents.every((agent) => !("ok" in agent) || agent.ok), agents };
  }

  /** Verifies one agent by name; needs no token. @throws CheeseError as Agent.verify, and NO_AGENT */
  async verifyAgent(
    name: string,
    options: Parameters<Agent["verify"]>[0] = {},
  ): Promise<VerifyReport> {
    requireOptions("verify", options);
    const file = this.#findAgent(name);
    return verifyAgent(this.#place(file.id, "read"), file, options);
  }

  /** Counts of every agent; needs no token. */
  async stats(): Promise<{ ok: boolean; agents: (AgentStats | AgentFailure)[] }> {
    const agents = await this.#eachAgent(async (file) => {
      const place = this.#place(file.id, "read");
      const core = new AgentCore({
        place,
        lock: this.#lockOf(file.id),
        now: this.#now,
        fillRandom: this.#fillRandom,
      });
      const agent = new Agent(core, file, 0, () => core.close());
      try {
        await core.open();
        return await agent.stats();
      } finally {
        await agent.close();
      }
    });
    return { ok: agents.every((agent) => !("ok" in agent)), agents };
  }

  async #eachAgent<T>(use: (file: AgentFile) => Promise<T>): Promise<(T | AgentFailure)[]> {
    const results: (T | AgentFailure)[] = [];
    for (const file of this.#agentFiles()) {
      try {
        if ("error" in file) throw file.error;
        results.push(await use(file));
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        const { code, message, hint, problems } = error;
        results.push({
          ok: false,
          agent: file.name,
          id: file.id,
          error: { code, message, hint },
          ...(problems ? { problems: problems as Problem[] } : {}),
        });
      }
    }
    return results;
  }

  /**
   * Searches the raw bytes of every file of the store but the lock files, whose size is looked at instead.
   *
   * @throws CheeseError USAGE for an empty text, NO_AGENT, DISK
   */
  async find(text: string, options: FindOptions = {}): Promise<FindReport> {
    requireOptions("find", options);
    if (typeof text !== "string")
      throw new TypeError(`the text to find is a string, got ${typeName(text)}`);
    if (text === "")
      throw new CheeseError("USAGE", "there is nothing to look for: the text is empty");
    const file = options.agent === undefined ? null : this.#findAgent(options.agent);
    const under = file ? `${NAMES.agents}/${file.id}` : "";
    const folder = file ? this.#agentPath(file.id) : this.path;
    const found = await findBytes(this.#disk, folder, under, text, {
      ignoreCase: options.ignoreCase ?? false,
      matchesMax: options.matchesMax ?? MATCHES_MAX,
      isSecret: (name) => name.startsWith(`${NAMES.tokens}/`) || name === NAMES.llm,
      isLeftOut: (name) => name.startsWith(`${NAMES.locks}/`),
      signal: options.signal,
      onProgress: options.onProgress,
    });
    const report: FindReport = { text, ...found, unsearched: this.#unsearched(folder, under) };
    if (options.absent) report.unerased = await this.#unerased(file);
    return report;
  }

  #unsearched(folder: string, under: string): string[] {
    const strange: string[] = [];
    const walk = (path: string, from: string) => {
      for (const entry of this.#disk.list(path)) {
        const name = from === "" ? entry : `${from}/${entry}`;
        const stat = this.#disk.stat(join(path, entry));
        if (stat?.type === "folder") walk(join(path, entry), name);
        else if (
          stat &&
          (stat.type !== "file" || (name.startsWith(`${NAMES.locks}/`) && stat.size > 0))
        )
          strange.push(name);
      }
    };
    walk(folder, under);
    return strange;
  }

  async #unerased(only: AgentFile | null): Promise<{ agent: string; entry: number | null }[]> {
    const left: { agent: string; entry: number | null }[] = [];
    for (const file of only ? [only] : this.#agentFiles()) {
      try {
        if ("error" in file) throw file.error;
        await this.#withState(file, async ({ graph, records }) => {
          const read = records.inARow();
          for (let entry = 1; entry <= graph.entryCount; entry++) {
            if (graph.is(entry, FLAGS.gone) && !records.areaIsZero(entry, read))
              left.push({ agent: file.name, entry });
            if (entry % 1024 === 0) await tick();
          }
        });
      } catch (error) {
        if (!(error instanceof CheeseError)) throw error;
        left.push({ agent: file.name, entry: null });
      }
    }
    return left;
  }
}

/** Failures after which the next try may succeed, and which say nothing of what is there. */
const PASSING = ["EIO", "EMFILE", "ENFILE"];

/** Whoever the disk does not tell of just now may be the agent that is asked for. @throws CheeseError DISK */
function requireRead(files: (AgentFile | { error: CheeseError })[]) {
  for (const file of files) {
    const cause = "error" in file ? (file.error.cause as NodeJS.ErrnoException | undefined) : null;
    if ("error" in file && PASSING.includes(cause?.code ?? "")) throw file.error;
  }
}

/** Overwrites a file with zeros and flushes it. */
function zeroFile(disk: Disk, path: string, size: number) {
  const zeros = Buffer.alloc(Math.min(size, 1024 * 1024));
  const file = disk.open(path, "write");
  try {
    for (let at = 0; at < size; at += zeros.length)
      file.write(zeros.subarray(0, Math.min(zeros.length, size - at)), at);
    file.flush();
  } finally {
    file.close();
  }
}

interface SharedCore {
  core: AgentCore;
  users: number;
  opened: Promise<void>;
}

const allCores = new WeakMap<Disk, Map<string, SharedCore>>();

function sharedCores(disk: Disk): Map<string, SharedCore> {
  let cores = allCores.get(disk);
  if (!cores) {
    cores = new Map();
    allCores.set(disk, cores);
  }
  return cores;
}
