// A disk in memory, and locks that go with it: a store of a few files opens on it thousands of times a second. Nothing on
// it fails or is lost; what it can do is to count, so that an endless loop over files comes to an end.

import { dirname } from "node:path";
import { type Disk, diskError, type File, type FileStat } from "../src/disk.ts";
import { corrupt } from "../src/errors.ts";
import type { MakeLock } from "../src/lock.ts";

/** Files by path with their bytes; a folder is null. */
export type Image = Map<string, Buffer | null>;

interface Node {
  inode: number;
  /** Null for a folder. */
  bytes: Buffer | null;
  size: number;
}

function missing(path: string): Error {
  return Object.assign(new Error(`ENOENT: no such file or directory, '${path}'`), {
    code: "ENOENT",
  });
}

export class MemoryDisk implements Disk {
  readonly #nodes = new Map<string, Node>();
  #inodes = 0;
  /** Calls that may still be made. */
  callsLeft = Number.POSITIVE_INFINITY;

  /** A disk with the files of an image, whose bytes are not written to. */
  static of(image: Image): MemoryDisk {
    const disk = new MemoryDisk();
    for (const [path, bytes] of image) disk.#add(path, bytes && Buffer.from(bytes));
    return disk;
  }

  image(): Image {
    const image: Image = new Map();
    for (const [path, { bytes, size }] of this.#nodes)
      image.set(path, bytes && Buffer.from(bytes.subarray(0, size)));
    return image;
  }

  #add(path: string, bytes: Buffer | null): Node {
    const node = { inode: ++this.#inodes, bytes, size: bytes?.length ?? 0 };
    this.#nodes.set(path, node);
    return node;
  }

  #pass() {
    if (--this.callsLeft < 0) throw new Error("more calls of the disk than any work could need");
  }

  #need(doing: string, path: string): Node {
    this.#pass();
    const node = this.#nodes.get(path);
    if (!node) throw diskError(doing, path, missing(path));
    return node;
  }

  open(path: string): File {
    const node = this.#need("open", path);
    if (!node.bytes) throw corrupt(`${path} is no regular file`, { file: path });
    return this.#file(path, node);
  }

  create(path: string): File {
    if (this.#nodes.has(path)) throw diskError("create", path, new Error("EEXIST"));
    this.#need("create", dirname(path));
    return this.#file(path, this.#add(path, Buffer.alloc(0)));
  }

  #file(path: string, node: Node): File {
    const resize = (size: number) => {
      const bytes = node.bytes as Buffer;
      if (size > bytes.length) {
        const larger = Buffer.alloc(Math.max(size, bytes.length * 2));
        bytes.copy(larger);
        node.bytes = larger;
      } else if (size < node.size) bytes.fill(0, size, node.size);
      node.size = size;
    };
    return {
      path,
      stat: () => this.#statOf(node),
      read: (into, at) => {
        this.#pass();
        if (at >= node.size) return 0;
        const part = (node.bytes as Buffer).subarray(at, Math.min(node.size, at + into.length));
        into.set(part);
        return part.length;
      },
      write: (bytes, at) => {
        this.#pass();
        if (at + bytes.length > node.size) resize(at + bytes.length);
        (node.bytes as Buffer).set(bytes, at);
      },
      truncate: resize,
      flush: () => this.#pass(),
      flushOffThread: async () => this.#pass(),
      close: () => {},
    };
  }

  #statOf({ inode, bytes, size }: Node): FileStat {
    const type = bytes ? "file" : "folder";
    return { type, size, device: 1, inode, modified: 0, mode: 0o700, owner: 0 };
  }

  stat(path: string): FileStat | null {
    this.#pass();
    const node = this.#nodes.get(path);
    return node ? this.#statOf(node) : null;
  }

  list(path: string): string[] {
    this.#need("list", path);
    const names: string[] = [];
    for (const at of this.#nodes.keys())
      if (at.startsWith(`${path}/`) && !at.includes("/", path.length + 1))
        names.push(at.slice(path.length + 1));
    return names.sort();
  }

  makeFolder(path: string) {
    if (this.#nodes.has(path)) throw diskError("create", path, new Error("EEXIST"));
    if (dirname(path) !== path && dirname(path) !== "/") this.#need("create", dirname(path));
    this.#add(path, null);
  }

  rename(from: string, to: string) {
    this.#need("rename", from);
    for (const [path, node] of [...this.#nodes]) {
      if (path !== from && !path.startsWith(`${from}/`)) continue;
      this.#nodes.delete(path);
      this.#nodes.set(to + path.slice(from.length), node);
    }
  }

  removeFile(path: string) {
    this.#need("remove", path);
    this.#nodes.delete(path);
  }

  removeFolder(path: string) {
    this.#need("remove", path);
    if (this.list(path).length > 0) throw diskError("remove", path, new Error("ENOTEMPTY"));
    this.#nodes.delete(path);
  }

  flushFolder(path: string) {
    this.#need("flush", path);
  }
}

/** One call of a disk, or of one of its files: `look` is a file's stat. */
export interface DiskCall {
  call: keyof Disk | Exclude<keyof File, "path" | "stat"> | "look";
  path: string;
  /** Of a read and a write; of a truncation the size. */
  at?: number;
  bytes?: number;
}

/** The same disk, on which something is done before each call; the call fails with what that throws. */
export function watched(disk: Disk, before: (call: DiskCall) => void): Disk {
  const watch = (file: File): File => {
    const { path } = file;
    const passes = (call: DiskCall["call"], at?: number, bytes?: number) =>
      before({
        call,
        path,
        ...(at !== undefined && { at }),
        ...(bytes !== undefined && { bytes }),
      });
    return {
      path,
      stat: () => {
        passes("look");
        return file.stat();
      },
      read: (into, at) => {
        passes("read", at, into.length);
        return file.read(into, at);
      },
      write: (bytes, at) => {
        passes("write", at, bytes.length);
        file.write(bytes, at);
      },
      truncate: (size) => {
        passes("truncate", size);
        file.truncate(size);
      },
      flush: () => {
        passes("flush");
        file.flush();
      },
      flushOffThread: async () => {
        passes("flushOffThread");
        await file.flushOffThread();
      },
      close: () => {
        passes("close");
        file.close();
      },
    };
  };
  const passed = <T>(call: keyof Disk, path: string, work: () => T): T => {
    before({ call, path });
    return work();
  };
  return {
    open: (path, access) => passed("open", path, () => watch(disk.open(path, access))),
    create: (path) => passed("create", path, () => watch(disk.create(path))),
    stat: (path) => passed("stat", path, () => disk.stat(path)),
    list: (path) => passed("list", path, () => disk.list(path)),
    makeFolder: (path) => passed("makeFolder", path, () => disk.makeFolder(path)),
    rename: (from, to) => passed("rename", from, () => disk.rename(from, to)),
    removeFile: (path) => passed("removeFile", path, () => disk.removeFile(path)),
    removeFolder: (path) => passed("removeFolder", path, () => disk.removeFolder(path)),
    flushFolder: (path) => passed("flushFolder", path, () => disk.flushFolder(path)),
  };
}

/** Locks of this process alone, one for each path. */
export function memoryLocks(): MakeLock {
  const holders = new Map<string, object>();
  return (_disk, path) => {
    const me = {};
    const release = () => {
      if (holders.get(path) === me) holders.delete(path);
    };
    const tryTake = () => {
      const holder = holders.get(path) ?? me;
      if (holder === me) holders.set(path, me);
      return holder === me;
    };
    return {
      get isHeld() {
        return holders.get(path) === me;
      },
      tryTake,
      async take() {
        while (!tryTake()) await new Promise((resolve) => setTimeout(resolve, 1));
      },
      requireStill() {},
      release,
      close: release,
    };
  };
}
