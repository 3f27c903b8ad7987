// The raw writes and flushes of one record: what any durable store must do, and nothing else.

import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { emptyFolder } from "./place.ts";

/** What a memory of 80 bytes with one leg may take in a batch of its own. */
const RECORD = Buffer.alloc(288, 1);

const flushOffThread = promisify(fdatasync);

export class RawFile {
  static readonly recordBytes = RECORD.length;
  readonly #descriptor: number;
  #end = 0;

  /** @param room bytes written beforehand */
  constructor(name: string, room: number) {
    this.#descriptor = openSync(join(emptyFolder(name), "raw"), "w");
    if (room > 0) writeSync(this.#descriptor, Buffer.alloc(room));
    fsyncSync(this.#descriptor);
  }

  write() {
    writeSync(this.#descriptor, RECORD, 0, RECORD.length, this.#end);
    this.#end += RECORD.length;
  }

  flush() {
    fdatasyncSync(this.#descriptor);
  }

  flushOffThread(): Promise<void> {
    return flushOffThread(this.#descriptor);
  }

  close() {
    closeSync(this.#descriptor);
  }
}
