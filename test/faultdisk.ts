// A disk that fails when it is told to: at the n-th call of a kind, once or for ever, or because it is full. It counts what is left open.

import { type Disk, diskError, type File, realDisk } from "../src/disk.ts";
import { CheeseError } from "../src/errors.ts";
import { type MakeLock, makeKernelLock, type WriterLock } from "../src/lock.ts";

export type Fault = "EIO" | "ENOSPC" | "EMFILE" | "short";

/** Every call of a disk, a file and a lock that can fail, and how. `look` is a file's stat; `flush` is both kinds of it. */
export const FAULTS = {
  open: ["EIO", "EMFILE"],
  create: ["EIO", "ENOSPC", "EMFILE"],
  stat: ["EIO"],
  list: ["EIO", "EMFILE"],
  makeFolder: ["EIO", "ENOSPC"],
  rename: ["EIO", "ENOSPC"],
  removeFile: ["EIO"],
  removeFolder: ["EIO"],
  flushFolder: ["EIO", "EMFILE"],
  look: ["EIO"],
  read: ["EIO"],
  write: ["EIO", "ENOSPC", "short"],
  truncate: ["EIO"],
  flush: ["EIO", "ENOSPC"],
  close: ["EIO"],
  take: ["EIO", "EMFILE"],
} as const satisfies Record<string, readonly Fault[]>;

export type Call = keyof typeof FAULTS;
export const CALLS = Object.keys(FAULTS) as Call[];

export interface Injection {
  call: Call;
  /** Which call of that kind fails, from 1, counted from when it was armed. */
  nth: number;
  fault: Fault;
  /** Whether all later ones fail too. */
  forever: boolean;
}

export function describeInjection({ call, nth, fault, forever }: Injection): string {
  return `${call} ${nth} ${fault}${forever ? " for ever" : ""}`;
}

/** What failed. */
export interface Hit {
  call: Call;
  path: string;
  /** For a call of a file: how it was opened. */
  access?: Access;
}

type Access = "read" | "write" | "create";

/** What a new file or folder takes by itself. */
const BLOCK_BYTES = 4096;

export class FaultDisk {
  /** How often each was called since it was armed. */
  readonly counts = new Map<Call, number>();
  readonly hits: Hit[] = [];
  /** Whether nothing may grow but by what was given back: bytes can still be written over where they stand. */
  #isFull = false;
  #freeBytes = 0;
  openFiles = 0;
  #openLocks = new Set<WriterLock>();
  #injections: Injection[] = [];
  readonly #below: Disk;

  constructor(below: Disk = realDisk) {
    this.#below = below;
  }

  /** Begins to count anew. */
  arm(...injections: Injection[]) {
    this.counts.clear();
    this.hits.length = 0;
    this.#injections = injections;
  }

  /** The disk is well again. */
  disarm() {
    this.#injections = [];
    this.#isFull = false;
  }

  /** From now on there is no space but what is given back. */
  fill() {
    this.#isFull = true;
    this.#freeBytes = 0;
  }

  /** Locks whose file is open. */
  get openLocks(): number {
    return this.#openLocks.size;
  }

  /** Counts a call, and says how it fails, if it does. */
  #pass(call: Call, path: string, access?: Access): Fault | null {
    const count = (this.counts.get(call) ?? 0) + 1;
    this.counts.set(call, count);
    const failing = this.#injections.find(
      ({ call: which, nth, forever }) => which === call && (forever ? count >= nth : count === nth),
    );
    if (!failing) return null;
    this.hits.push({ call, path, ...(access && { access }) });
    return failing.fault;
  }

  #fail(call: Call, path: string, access?: Access) {
    const fault = this.#pass(call, path, access);
    if (fault) throw failure(call, path, fault);
  }

  /** Takes space where there is some, and fails where a full disk has none. */
  #takeSpace(call: Call, path: string, bytes: number) {
    if (!this.#isFull) return;
    this.#freeBytes -= bytes;
    if (this.#freeBytes >= 0) return;
    this.#freeBytes += bytes;
    this.hits.push({ call, path });
    throw failure(call, path, "ENOSPC");
  }

  #wrap(file: File, access: Access): File {
    const { path } = file;
    this.openFiles++;
    let isOpen = true;
    return {
      path,
      stat: () => {
        this.#fail("look", path);
        return file.stat();
      },
      read: (into, at) => {
        this.#fail("read", path);
        return file.read(into, at);
      },
      write: (bytes, at) => {
        const fault = this.#pass("write", path);
        if (fault === "short") file.write(bytes.subarray(0, bytes.length >>> 1), at);
        if (fault) throw failure("write", path, fault === "short" ? "ENOSPC" : fault);
        if (this.#isFull) {
          const { size } = file.stat();
          const isGrowing = at + bytes.length > size;
          if (isGrowing && at < size) file.write(bytes.subarray(0, size - at), at);
          if (isGrowing) this.#takeSpace("write", path, at + bytes.length - size);
        }
        file.write(bytes, at);
      },
      truncate: (size) => {
        this.#fail("truncate", path);
        this.#freeBytes += file.stat().size - size;
        file.truncate(size);
      },
      flush: () => {
        this.#fail("flush", path, access);
        file.flush();
      },
      flushOffThread: async () => {
        this.#fail("flush", path, access);
        await file.flushOffThread();
      },
      close: () => {
        // As the system does: the descriptor is gone even where closing it reports an error.
        if (isOpen) this.openFiles--;
        isOpen = false;
        file.close();
        this.#fail("close", path);
      },
    };
  }

  readonly disk: Disk = {
    open: (path, access) => {
      this.#fail("open", path);
      return this.#wrap(this.#below.open(path, access), access);
    },
    create: (path) => {
      this.#fail("create", path);
      this.#takeSpace("create", path, BLOCK_BYTES);
      return this.#wrap(this.#below.create(path), "create");
    },
    stat: (path) => {
      this.#fail("stat", path);
      return this.#below.stat(path);
    },
    list: (path) => {
      this.#fail("list", path);
      return this.#below.list(path);
    },
    makeFolder: (path) => {
      this.#fail("makeFolder", path);
      this.#takeSpace("makeFolder", path, BLOCK_BYTES);
      this.#below.makeFolder(path);
    },
    rename: (from, to) => {
      this.#fail("rename", from);
      this.#below.rename(from, to);
    },
    removeFile: (path) => {
      this.#fail("removeFile", path);
      this.#freeBytes += this.#below.stat(path)?.size ?? 0;
      this.#below.removeFile(path);
    },
    removeFolder: (path) => {
      this.#fail("removeFolder", path);
      this.#below.removeFolder(path);
    },
    flushFolder: (path) => {
      this.#fail("flushFolder", path);
      this.#below.flushFolder(path);
    },
  };

  /** Locks of the kernel, which fail to be taken when they are told to. */
  readonly makeLock: MakeLock = (disk, path) => {
    const lock = makeKernelLock(disk, path);
    const open = this.#openLocks;
    const pass = () => this.#fail("take", path);
    const wrapped: WriterLock = {
      get isHeld() {
        return lock.isHeld;
      },
      tryTake() {
        pass();
        open.add(wrapped);
        return lock.tryTake();
      },
      async take(waitMs) {
        pass();
        open.add(wrapped);
        await lock.take(waitMs);
      },
      requireStill: () => lock.requireStill(),
      release: () => lock.release(),
      close() {
        open.delete(wrapped);
        lock.close();
      },
    };
    return wrapped;
  };
}

/** What the real disk throws for the same. */
function failure(call: Call, path: string, fault: Fault): CheeseError {
  if (call === "take")
    return new CheeseError("DISK", `cannot lock ${path}: ${fault}`, { file: path });
  const code = fault === "short" ? "ENOSPC" : fault;
  return diskError(call, path, Object.assign(new Error(`${code}: injected`), { code }));
}
