// One writer an agent: a lock from the kernel, so that it dies with its process.
//
// SQLite's exclusive lock on an empty file that nothing else ever opens: POSIX record locks on Unix, LockFileEx on Windows,
// from a module that Node brings. The transaction is never committed, so the file stays at 0 bytes. Closing any other
// descriptor of the file would drop the lock silently: that is why the lock files have a folder of their own, and why
// they are looked at with stat alone. The only file that imports node:sqlite.

import { type Disk, type FileStat, sameFile } from "./disk.ts";
import { CheeseError } from "./errors.ts";

type Database = import("node:sqlite").DatabaseSync;

const SQLITE = { busy: 5, locked: 6, readOnly: 8, cannotOpen: 14, notADatabase: 26 } as const;

/** Locks that are held: the garbage collector must not drop one. */
const held = new Set<Lock>();

/** Without the warning that Node 22 gives for it: a library does not print. */
function sqlite(): typeof import("node:sqlite") {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule("node:sqlite");
  } catch (cause) {
    throw new CheeseError("DISK", "this Node has no node:sqlite, which the lock is made of", {
      cause,
      hint: "Use a Node that was built with SQLite, as those from nodejs.org are.",
    });
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** What the engine needs of a lock. */
export interface WriterLock {
  readonly isHeld: boolean;
  /** Takes it if it is free. */
  tryTake(): boolean;
  /** Waits for it. @throws CheeseError LOCKED */
  take(waitMs: number): Promise<void>;
  /** @throws CheeseError DISK when it was replaced while it was held */
  requireStill(): void;
  release(): void;
  close(): void;
}

/** Makes the lock of a path; for tests that put another disk underneath. */
export type MakeLock = (disk: Disk, path: string) => WriterLock;

export const makeKernelLock: MakeLock = (disk, path) => new Lock(disk, path);

export class Lock implements WriterLock {
  readonly path: string;
  readonly #disk: Disk;
  #database: Database | null = null;
  /** The file that the database has open. */
  #opened: FileStat | null = null;
  #stat: FileStat | null = null;

  constructor(disk: Disk, path: string) {
    this.#disk = disk;
    this.path = path;
  }

  get isHeld(): boolean {
    return this.#stat !== null;
  }

  /**
   * Takes the lock if it is free.
   *
   * @returns false when another process, thread or handle holds it
   * @throws CheeseError DISK when the lock file cannot be locked at all, READ_ONLY never
   */
  tryTake(): boolean {
    if (this.isHeld) return true;
    const stat = this.#requirePlain();
    if (this.#opened && (!stat || !sameFile(stat, this.#opened))) this.#closeDatabase();
    try {
      this.#database ??= this.#open();
      this.#database.exec("PRAGMA journal_mode=MEMORY");
      this.#database.exec("BEGIN EXCLUSIVE");
      // Two processes both "lock" a file that they cannot write: this write, never committed, shows that we can.
      this.#database.exec("PRAGMA user_version=1");
    } catch (cause) {
      this.#rollBack();
      const code = ((cause as { errcode?: number }).errcode ?? 0) & 255;
      if (code === SQLITE.busy || code === SQLITE.locked) return false;
      this.#closeDatabase();
      const why =
        code === SQLITE.readOnly
          ? "it is not writable"
          : code === SQLITE.notADatabase
            ? "it is not empty"
            : code === SQLITE.cannotOpen
              ? "it cannot be opened for writing"
              : (cause as Error).message;
      throw new CheeseError("DISK", `cannot lock ${this.path}: ${why}`, { cause, file: this.path });
    }
    try {
      this.#opened ??= this.#disk.stat(this.path);
      this.#stat = this.#opened;
      held.add(this);
      this.requireStill();
    } catch (error) {
      // Nobody would let go of it, or recover under it, who was told that it could not be taken.
      this.release();
      throw error;
    }
    return true;
  }

  /**
   * Takes the lock, trying again until `waitMs` are over.
   *
   * @throws CheeseError LOCKED when it is still not free then
   */
  async take(waitMs: number): Promise<void> {
    const deadline = Date.now() + waitMs;
    for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 1.5, 25)) {
      if (this.tryTake()) return;
      if (Date.now() >= deadline) {
        throw new CheeseError(
          "LOCKED",
          `another process is writing, and still was after ${waitMs / 1000} s`,
          { file: this.path },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())));
    }
  }

  /** @throws CheeseError DISK when the file that was locked is no longer the one of this name */
  requireStill() {
    const now = this.#disk.stat(this.path);
    if (!this.#stat || !now || !sameFile(this.#stat, now) || now.size !== 0) {
      this.release();
      throw new CheeseError("DISK", `the lock file ${this.path} was replaced while it was held`, {
        file: this.path,
      });
    }
  }

  release() {
    held.delete(this);
    this.#stat = null;
    this.#rollBack();
  }

  close() {
    this.release();
    this.#closeDatabase();
  }

  #open(): Database {
    const { DatabaseSync } = sqlite();
    return new DatabaseSync(this.path, { timeout: 0 });
  }

  #rollBack() {
    if (this.#database?.isTransaction) this.#database.exec("ROLLBACK");
  }

  #closeDatabase() {
    this.#database?.close();
    this.#database = null;
    this.#opened = null;
  }

  /** A link, a FIFO or a file with content is nobody's lock. */
  #requirePlain(): FileStat | null {
    const stat = this.#disk.stat(this.path);
    if (stat && (stat.type !== "file" || stat.size !== 0)) {
      const what = stat.type === "file" ? `it holds ${stat.size} bytes` : `it is a ${stat.type}`;
      throw new CheeseError("DISK", `${this.path} is no lock file: ${what}`, { file: this.path });
    }
    return stat;
  }
}
