// A disk in memory that keeps a journal of what is done to it, and the model of what a crash may leave of it.
//
// powerloss.ts makes the states. In them the power can go behind any entry of the journal, and then:
//
// - A sector is 512 bytes and atomic: a crash leaves it whole, old or new. (The engine needs less: a torn sector is one more
//   mixture of old and new bytes of a batch, which its checks judge like any other. That is not simulated here.)
// - Each sector of a file holds what it held at the file's last flush, or after any one of the writes since. Sectors are
//   independent of each other, so that writes are lost, kept and reordered in any mixture.
// - A file's size is the one at its last flush, or after any write or truncation since, independent of its sectors. A write
//   that makes a file longer may have got only so far: to a sector's boundary. (Of the boundaries within zeros, which all
//   read alike, one is tried.) Where a file has grown and the data is lost, it reads zero.
// - A file's flush makes its data and its size durable, and not its name. A name is durable once its folder was flushed.
// - What was done in a folder since its last flush (create, rename, remove) has happened up to some point or not: in order
//   where the same names are concerned, and independently where they are not. Folders are independent of each other.
//   A rename within a folder is atomic. One across two folders may leave the old name, the new one or both, and never none.
// - A file or folder without a name is gone, with everything below it.
// - When a process dies and the power stays, nothing is lost: what was not flushed can be read, and is still not flushed.

import { hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Disk, diskError, type File, type FileStat } from "../src/disk.ts";
import { CheeseError } from "../src/errors.ts";
import type { MakeLock, WriterLock } from "../src/lock.ts";

export const SECTOR_BYTES = 512;
const ZERO_SECTOR = Buffer.alloc(SECTOR_BYTES);
const NO_BYTES = Buffer.alloc(0);

/** What a file holds. Never changed; a write makes another one. */
export class Content {
  /** In bytes. */
  readonly size: number;
  /** Whole sectors, the last of them not all zero; what lies behind is zero up to the size. */
  readonly bytes: Buffer;
  #id: string | null = null;

  constructor(bytes: Buffer, size: number) {
    this.bytes = bytes;
    this.size = size;
  }

  /** The same for the same bytes. */
  get id(): string {
    this.#id ??= `${this.size}:${hash("sha1", this.bytes, "base64")}`;
    return this.#id;
  }

  sector(index: number): Buffer {
    const at = index * SECTOR_BYTES;
    return at < this.bytes.length ? this.bytes.subarray(at, at + SECTOR_BYTES) : ZERO_SECTOR;
  }

  read(into: Uint8Array, at: number): number {
    const length = Math.max(0, Math.min(into.length, this.size - at));
    const known = Math.max(0, Math.min(length, this.bytes.length - at));
    if (known > 0) this.bytes.copy(into, 0, at, at + known);
    if (known < length) into.fill(0, known, length);
    return length;
  }

  /** All bytes, zeros at the end included. */
  whole(): Buffer {
    const bytes = Buffer.alloc(this.size);
    this.read(bytes, 0);
    return bytes;
  }

  written(bytes: Uint8Array, at: number): Content {
    const used = lastNotZero(bytes);
    const size = Math.max(this.size, at + bytes.length);
    const touched = Math.min(at + bytes.length, Math.max(this.bytes.length, used && at + used));
    if (touched <= at) return new Content(this.bytes, size);
    const whole = Buffer.alloc(Math.max(this.bytes.length, sectorEnd(touched)));
    this.bytes.copy(whole);
    whole.set(bytes.subarray(0, touched - at), at);
    return new Content(withoutZeroSectors(whole), size);
  }

  cut(size: number): Content {
    if (size >= this.bytes.length) return new Content(this.bytes, size);
    const kept = Buffer.from(this.bytes.subarray(0, sectorEnd(size)));
    kept.fill(0, size);
    return new Content(withoutZeroSectors(kept), size);
  }
}

export const EMPTY = new Content(NO_BYTES, 0);

export function sectorEnd(at: number): number {
  return Math.ceil(at / SECTOR_BYTES) * SECTOR_BYTES;
}

/** Where the last byte that is not zero ends; 0 if there is none. */
function lastNotZero(bytes: Uint8Array): number {
  let end = bytes.length;
  while (end >= SECTOR_BYTES && ZERO_SECTOR.equals(bytes.subarray(end - SECTOR_BYTES, end)))
    end -= SECTOR_BYTES;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return end;
}

export function withoutZeroSectors(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && ZERO_SECTOR.equals(bytes.subarray(end - SECTOR_BYTES, end)))
    end -= SECTOR_BYTES;
  return end === bytes.length ? bytes : bytes.subarray(0, end);
}

/** A state of a disk: what each path holds, in the order of a walk; null is a folder. Contents are shared, never changed. */
export type Image = Map<string, Content | null>;

/** The same for the same image. */
export function imageKey(image: Image): string {
  let key = "";
  for (const [path, content] of image) key += rowKey(path, content);
  return key;
}

export function rowKey(path: string, content: Content | null): string {
  return content ? `${path}=${content.id}\n` : `${path}\n`;
}

/** Lays an image out in a real folder, to be looked at. */
export function writeImage(image: Image, folder: string) {
  mkdirSync(folder, { recursive: true });
  for (const [path, content] of image) {
    if (content) writeFileSync(join(folder, path), content.whole());
    else mkdirSync(join(folder, path), { recursive: true });
  }
}

/** One entry of the journal. Files and folders are named by their numbers, as an inode is. */
export type Operation =
  | { do: "write"; file: number; after: Content; from: number; to: number; written: number }
  | { do: "truncate"; file: number; after: Content }
  | { do: "flush"; file: number }
  | { do: "create"; folder: number; name: string; node: number }
  | { do: "makeFolder"; folder: number; name: string; node: number }
  | { do: "rename"; folder: number; name: string; to: number; toName: string; node: number }
  | { do: "remove"; folder: number; name: string; node: number }
  | { do: "flushFolder"; folder: number };

interface FileNode {
  kind: "file";
  number: number;
  content: Content;
  modified: number;
}

interface FolderNode {
  kind: "folder";
  number: number;
  entries: Map<string, Node>;
}

type Node = FileNode | FolderNode;

/** The number of the folder in which all others are. */
export const ROOT = 1;
const DEVICE = 7;
const OWNER = process.getuid?.() ?? 0;

const split = new Map<string, string[]>();

function partsOf(path: string): string[] {
  let parts = split.get(path);
  if (!parts) split.set(path, (parts = path.split("/").filter((part) => part !== "")));
  return parts;
}

function systemError(code: string): Error {
  return Object.assign(new Error(code), { code });
}

export class SimDisk implements Disk {
  /** Everything that changed the disk, and every flush, since it began with its image. */
  readonly journal: Operation[] = [];
  readonly #nodes = new Map<number, Node>();
  readonly #root: FolderNode = { kind: "folder", number: ROOT, entries: new Map() };
  #numbers = ROOT;
  #clock = 0;

  constructor() {
    this.#nodes.set(ROOT, this.#root);
  }

  /** A disk that holds an image, all of it durable. */
  static fromImage(image: Image): SimDisk {
    const disk = new SimDisk();
    for (const [path, content] of image) {
      const parts = partsOf(path);
      const folder = disk.#folder(parts.slice(0, -1), path);
      disk.#add(
        folder,
        parts.at(-1) as string,
        content
          ? { kind: "file", number: ++disk.#numbers, content, modified: 0 }
          : { kind: "folder", number: ++disk.#numbers, entries: new Map() },
      );
    }
    return disk;
  }

  /** The disk as a process that died left it, with the power on: its journal goes on. */
  static afterKill(start: Image, journal: Operation[]): SimDisk {
    const disk = SimDisk.fromImage(start);
    for (const operation of journal) disk.#do(operation);
    return disk;
  }

  /** What can be read now, flushed or not. */
  image(): Image {
    const image: Image = new Map();
    const walk = (folder: FolderNode, path: string) => {
      for (const name of [...folder.entries.keys()].sort()) {
        const node = folder.entries.get(name) as Node;
        const below = `${path}/${name}`;
        image.set(below, node.kind === "file" ? node.content : null);
        if (node.kind === "folder") walk(node, below);
      }
    };
    walk(this.#root, "");
    return image;
  }

  #add(folder: FolderNode, name: string, node: Node) {
    folder.entries.set(name, node);
    this.#nodes.set(node.number, node);
  }

  #do(operation: Operation) {
    this.journal.push(operation);
    switch (operation.do) {
      case "write":
      case "truncate": {
        const file = this.#nodes.get(operation.file) as FileNode;
        file.content = operation.after;
        file.modified = ++this.#clock;
        return;
      }
      case "create":
      case "makeFolder": {
        const { node: number, name } = operation;
        const folder = this.#nodes.get(operation.folder) as FolderNode;
        this.#numbers = Math.max(this.#numbers, number);
        this.#add(
          folder,
          name,
          operation.do === "create"
            ? { kind: "file", number, content: EMPTY, modified: ++this.#clock }
            : { kind: "folder", number, entries: new Map() },
        );
        return;
      }
      case "rename": {
        const from = this.#nodes.get(operation.folder) as FolderNode;
        const to = this.#nodes.get(operation.to) as FolderNode;
        from.entries.delete(operation.name);
        to.entries.set(operation.toName, this.#nodes.get(operation.node) as Node);
        return;
      }
      case "remove":
        (this.#nodes.get(operation.folder) as FolderNode).entries.delete(operation.name);
    }
  }

  #folder(parts: string[], path: string): FolderNode {
    let at: Node = this.#root;
    for (const part of parts) {
      const next: Node | undefined = at.kind === "folder" ? at.entries.get(part) : undefined;
      if (!next) throw diskError("find", path, systemError("ENOENT"));
      at = next;
    }
    if (at.kind === "file") throw diskError("find", path, systemError("ENOTDIR"));
    return at;
  }

  #find(path: string): Node | null {
    let at: Node = this.#root;
    for (const part of partsOf(path)) {
      const next: Node | undefined = at.kind === "folder" ? at.entries.get(part) : undefined;
      if (!next) return null;
      at = next;
    }
    return at;
  }

  /** Where a new name is to go. */
  #place(doing: string, path: string): { folder: FolderNode; name: string } {
    const parts = partsOf(path);
    const folder = this.#folder(parts.slice(0, -1), path);
    const name = parts.at(-1);
    if (name === undefined) throw diskError(doing, path, systemError("EEXIST"));
    return { folder, name };
  }

  #new(doing: "create" | "makeFolder", path: string): number {
    const { folder, name } = this.#place("create", path);
    if (folder.entries.has(name)) throw diskError("create", path, systemError("EEXIST"));
    const node = this.#numbers + 1;
    this.#do({ do: doing, folder: folder.number, name, node });
    return node;
  }

  open(path: string, access: "read" | "write"): File {
    const node = this.#find(path);
    if (!node) throw diskError("open", path, systemError("ENOENT"));
    if (node.kind === "folder") throw diskError("open", path, systemError("EISDIR"));
    return this.#handle(path, node, access === "write");
  }

  create(path: string): File {
    return this.#handle(path, this.#nodes.get(this.#new("create", path)) as FileNode, true);
  }

  #handle(path: string, node: FileNode, mayWrite: boolean): File {
    let isOpen = true;
    const file = node.number;
    const requireOpen = (forWriting: boolean) => {
      if (!isOpen || (forWriting && !mayWrite)) throw diskError("use", path, systemError("EBADF"));
    };
    const flush = () => {
      requireOpen(false);
      this.#do({ do: "flush", file });
    };
    return {
      path,
      stat: () => {
        requireOpen(false);
        return toStat(node);
      },
      read: (into, at) => {
        requireOpen(false);
        return node.content.read(into, at);
      },
      write: (bytes, at) => {
        requireOpen(true);
        const to = at + bytes.length;
        const written = at + lastNotZero(bytes);
        this.#do({
          do: "write",
          file,
          after: node.content.written(bytes, at),
          from: at,
          to,
          written,
        });
      },
      truncate: (size) => {
        requireOpen(true);
        this.#do({ do: "truncate", file, after: node.content.cut(size) });
      },
      flush,
      flushOffThread: async () => flush(),
      close: () => {
        requireOpen(false);
        isOpen = false;
      },
    };
  }

  stat(path: string): FileStat | null {
    const node = this.#find(path);
    return node && toStat(node);
  }

  list(path: string): string[] {
    return [...this.#folder(partsOf(path), path).entries.keys()].sort();
  }

  makeFolder(path: string) {
    this.#new("makeFolder", path);
  }

  rename(from: string, to: string) {
    const source = this.#place("rename", from);
    const target = this.#place("rename", to);
    const node = source.folder.entries.get(source.name);
    if (!node) throw diskError("rename", from, systemError("ENOENT"));
    const there = target.folder.entries.get(target.name);
    if (there?.kind === "folder") throw diskError("rename", from, systemError("ENOTEMPTY"));
    this.#do({
      do: "rename",
      folder: source.folder.number,
      name: source.name,
      to: target.folder.number,
      toName: target.name,
      node: node.number,
    });
  }

  removeFile(path: string) {
    this.#remove(path, "file");
  }

  removeFolder(path: string) {
    this.#remove(path, "folder");
  }

  #remove(path: string, kind: Node["kind"]) {
    const { folder, name } = this.#place("remove", path);
    const node = folder.entries.get(name);
    if (!node) throw diskError("remove", path, systemError("ENOENT"));
    if (node.kind !== kind) throw diskError("remove", path, systemError("EPERM"));
    if (node.kind === "folder" && node.entries.size > 0)
      throw diskError("remove", path, systemError("ENOTEMPTY"));
    this.#do({ do: "remove", folder: folder.number, name, node: node.number });
  }

  flushFolder(path: string) {
    this.#do({ do: "flushFolder", folder: this.#folder(partsOf(path), path).number });
  }
}

function toStat(node: Node): FileStat {
  return {
    type: node.kind,
    size: node.kind === "file" ? node.content.size : 0,
    device: DEVICE,
    inode: node.number,
    modified: node.kind === "file" ? node.modified : 0,
    mode: node.kind === "file" ? 0o600 : 0o700,
    owner: OWNER,
  };
}

// ----- locks -----

const held = new WeakMap<Disk, Set<string>>();

/** Locks of a simulated disk: they die with it, as a kernel's do with the machine, and leave no file. */
export const makeSimLock: MakeLock = (disk, path) => {
  let ofDisk = held.get(disk);
  if (!ofDisk) held.set(disk, (ofDisk = new Set()));
  return new SimLock(ofDisk, path);
};

class SimLock implements WriterLock {
  readonly #held: Set<string>;
  readonly #path: string;
  isHeld = false;

  constructor(held: Set<string>, path: string) {
    this.#held = held;
    this.#path = path;
  }

  tryTake(): boolean {
    if (this.isHeld) return true;
    if (this.#held.has(this.#path)) return false;
    this.#held.add(this.#path);
    this.isHeld = true;
    return true;
  }

  async take() {
    if (!this.tryTake()) throw new CheeseError("LOCKED", "another handle is writing");
  }

  requireStill() {}

  release() {
    if (this.isHeld) this.#held.delete(this.#path);
    this.isHeld = false;
  }

  close() {
    this.release();
  }
}
