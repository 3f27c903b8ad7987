// The few file operations that the engine needs, as an interface, and the real one.
// The only engine file that imports node:fs, so that the tests can put a simulated disk underneath.

import fs, { constants } from "node:fs";
import { dirname, join } from "node:path";
import { CheeseError, corrupt, hasCode } from "./errors.ts";

export interface FileStat {
  type: "file" | "folder" | "link" | "other";
  /** In bytes. */
  size: number;
  /** Device and inode: who the file is, whatever it is called. */
  device: number;
  inode: number;
  /** When its bytes were last written, in milliseconds since 1970. */
  modified: number;
  /** Permission bits. */
  mode: number;
  owner: number;
}

/** One open regular file. Positions and sizes are in bytes. Every method may throw DISK. */
export interface File {
  readonly path: string;
  stat(): FileStat;
  /** Reads until `into` is full or the file ends; returns the bytes read. */
  read(into: Uint8Array, at: number): number;
  /** Writes all of `bytes`. */
  write(bytes: Uint8Array, at: number): void;
  truncate(size: number): void;
  /** Returns once everything written is on the disk. */
  flush(): void;
  flushOffThread(): Promise<void>;
  close(): void;
}

/** A disk. Paths are absolute. Nothing follows a symbolic link in a path's last part. */
export interface Disk {
  /** Opens a regular file that exists. Throws DISK, CORRUPT where a link or anything else stands in its place. */
  open(path: string, access: "read" | "write"): File;
  /** Creates a file that does not exist yet, for its owner alone. */
  create(path: string): File;
  /** Null if nothing is there. Does not follow a link. */
  stat(path: string): FileStat | null;
  /** Names in a folder, ascending. */
  list(path: string): string[];
  /** Creates one folder for its owner alone. */
  makeFolder(path: string): void;
  rename(from: string, to: string): void;
  removeFile(path: string): void;
  removeFolder(path: string): void;
  /** Returns once the names in a folder are on the disk. */
  flushFolder(path: string): void;
}

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** A failed file operation, in words; `cause` is the system's own error. */
export function diskError(doing: string, path: string, cause: unknown): CheeseError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const words: Record<string, string> = {
    ENOSPC: "no space is left on the device",
    EDQUOT: "the disk quota is used up",
    EROFS: "the file system is read-only",
    EACCES: "permission is denied",
    EPERM: "the operation is not permitted",
    ENOENT: "it does not exist",
    EIO: "the device reported an I/O error",
    EMFILE: "too many files are open",
    ENFILE: "too many files are open on this machine",
    ELOOP: "it is a symbolic link",
    EFBIG: "the file would be too large",
  };
  const why = code && words[code] ? `${words[code]} (${code})` : (code ?? message);
  return new CheeseError("DISK", `cannot ${doing} ${path}: ${why}`, { cause, file: path });
}

/** Whether an error of the disk says that a file or folder is not there. */
export function isMissing(error: unknown): boolean {
  const cause = error instanceof CheeseError ? error.cause : error;
  return (cause as NodeJS.ErrnoException | undefined)?.code === "ENOENT";
}

function attempt<T>(doing: string, path: string, operation: () => T): T {
  try {
    return operation();
  } catch (error) {
    throw error instanceof CheeseError ? error : diskError(doing, path, error);
  }
}

function toStat(stat: fs.Stats): FileStat {
  const type = stat.isFile()
    ? "file"
    : stat.isDirectory()
      ? "folder"
      : stat.isSymbolicLink()
        ? "link"
        : "other";
  return {
    type,
    size: stat.size,
    device: stat.dev,
    inode: stat.ino,
    modified: stat.mtimeMs,
    mode: stat.mode & 0o7777,
    owner: stat.uid,
  };
}

class RealFile implements File {
  readonly path: string;
  readonly #fd: number;
  /** Whether a write may have changed the size: then fdatasync is not enough on every file system. */
  #grew = false;
  #size: number;

  constructor(path: string, flags: number) {
    this.path = path;
    // O_NONBLOCK: opening a FIFO that someone planted must fail below, not hang here.
    this.#fd = attempt("open", path, () => {
      try {
        return fs.openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, FILE_MODE);
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== "ELOOP") throw cause;
        throw corrupt(`${path} is a symbolic link, expected a file`, { cause, file: path });
      }
    });
    const stat = this.stat();
    this.#size = stat.size;
    if (stat.type !== "file") {
      this.close();
      throw corrupt(`${path} is no regular file`, { file: path });
    }
  }

  stat(): FileStat {
    return attempt("look at", this.path, () => toStat(fs.fstatSync(this.#fd)));
  }

  read(into: Uint8Array, at: number): number {
    return attempt("read", this.path, () => {
      let done = 0;
      while (done < into.length) {
        const count = fs.readSync(this.#fd, into, done, into.length - done, at + done);
        if (count === 0) break;
        done += count;
      }
      return done;
    });
  }

  write(bytes: Uint8Array, at: number): void {
    if (at + bytes.length > this.#size) {
      this.#size = at + bytes.length;
      this.#grew = true;
    }
    attempt("write", this.path, () => {
      let done = 0;
      // A short count is how a full disk announces itself: the next call then throws.
      while (done < bytes.length)
        done += fs.writeSync(this.#fd, bytes, done, bytes.length - done, at + done);
    });
  }

  truncate(size: number): void {
    this.#size = size;
    this.#grew = true;
    attempt("cut", this.path, () => fs.ftruncateSync(this.#fd, size));
  }

  flush(): void {
    const grew = this.#grew;
    this.#grew = false;
    attempt("flush", this.path, () => (grew ? fs.fsyncSync(this.#fd) : fs.fdatasyncSync(this.#fd)));
  }

  flushOffThread(): Promise<void> {
    const flush = this.#grew ? fs.fsync : fs.fdatasync;
    this.#grew = false;
    return new Promise((resolve, reject) => {
      flush(this.#fd, (error) =>
        error ? reject(diskError("flush", this.path, error)) : resolve(),
      );
    });
  }

  close(): void {
    attempt("close", this.path, () => fs.closeSync(this.#fd));
  }
}

export const realDisk: Disk = {
  open: (path, access) =>
    new RealFile(path, access === "read" ? constants.O_RDONLY : constants.O_RDWR),
  create: (path) => new RealFile(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL),
  stat(path) {
    return attempt("look at", path, () => {
      try {
        return toStat(fs.lstatSync(path));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === "ENOENT" || code === "ENOTDIR") return null;
        throw error;
      }
    });
  },
  list: (path) => attempt("list", path, () => fs.readdirSync(path).sort()),
  makeFolder: (path) => attempt("create", path, () => fs.mkdirSync(path, { mode: FOLDER_MODE })),
  rename: (from, to) => attempt("rename", from, () => fs.renameSync(from, to)),
  removeFile: (path) => attempt("remove", path, () => fs.unlinkSync(path)),
  removeFolder: (path) => attempt("remove", path, () => fs.rmdirSync(path)),
  flushFolder(path) {
    attempt("flush", path, () => {
      const fd = fs.openSync(path, constants.O_RDONLY);
      try {
        fs.fsyncSync(fd);
      } catch (error) {
        // Windows cannot flush a folder.
        const { code } = error as NodeJS.ErrnoException;
        if (process.platform !== "win32" || !["EPERM", "EISDIR", "EINVAL"].includes(code ?? ""))
          throw error;
      } finally {
        fs.closeSync(fd);
      }
    });
  },
};

/** Closes a file to which nothing is owed any more: the descriptor is gone, even where closing it reports an error. */
export function closeQuietly(file: File) {
  try {
    file.close();
  } catch (error) {
    if (!hasCode(error, "DISK")) throw error;
  }
}

/** Reads a whole file; null if it is not there. Files read so are small, or bounded by `bytesMax`. */
export function readWhole(
  disk: Disk,
  path: string,
  bytesMax = Number.POSITIVE_INFINITY,
): Buffer | null {
  let file: File;
  try {
    file = disk.open(path, "read");
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
  try {
    const bytes = Buffer.allocUnsafeSlow(Math.min(file.stat().size, bytesMax));
    return bytes.subarray(0, file.read(bytes, 0));
  } finally {
    file.close();
  }
}

/**
 * Writes a whole file so that a crash leaves the old one or the new one: a temporary file, flushed, then renamed.
 * The caller holds a lock that keeps others from the same temporary name.
 */
export function replaceWhole(disk: Disk, path: string, bytes: Uint8Array | Uint8Array[]): void {
  const temporary = `${path}.tmp`;
  if (disk.stat(temporary)) disk.removeFile(temporary);
  const file = disk.create(temporary);
  try {
    let at = 0;
    for (const part of Array.isArray(bytes) ? bytes : [bytes]) {
      file.write(part, at);
      at += part.length;
    }
    file.flush();
  } finally {
    file.close();
  }
  disk.rename(temporary, path);
  disk.flushFolder(dirname(path));
}

/**
 * Every regular file below a folder, with its path from there, in order. What is neither file nor folder is passed over, and
 * so is a link in the folder's own place.
 */
export function* filesBelow(
  disk: Disk,
  folder: string,
  from = "",
): Generator<{ path: string; name: string; stat: FileStat }> {
  if (disk.stat(folder)?.type === "link") return;
  for (const entry of disk.list(folder)) {
    const path = join(folder, entry);
    const name = from === "" ? entry : `${from}/${entry}`;
    const stat = disk.stat(path);
    if (stat?.type === "folder") yield* filesBelow(disk, path, name);
    else if (stat?.type === "file") yield { path, name, stat };
  }
}

/** Bytes of all files below a folder. */
export function folderBytes(disk: Disk, folder: string): number {
  let sum = 0;
  for (const { stat } of filesBelow(disk, folder)) sum += stat.size;
  return sum;
}

/** Removes a folder and everything below it; of a link in its place the link alone, whatever it leads to. */
export function removeFolderWhole(disk: Disk, folder: string) {
  if (disk.stat(folder)?.type !== "folder") {
    disk.removeFile(folder);
    return;
  }
  for (const name of disk.list(folder)) removeFolderWhole(disk, join(folder, name));
  disk.removeFolder(folder);
}

export function sameFile(a: FileStat, b: FileStat): boolean {
  return a.inode === b.inode && a.device === b.device;
}
