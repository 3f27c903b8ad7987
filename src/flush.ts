// Flushes a file in place while flushes are short, and off the main thread where they are long.

import type { File } from "./disk.ts";

/** A flush in place costs the event loop its length, and off the thread some 50 µs more. */
const SHORT_MS = 1;
const REMEMBERED = 16;
/** What is more is flushed off the thread: the 50 µs do not count beside it, and a disk that hesitates keeps nobody. */
const IN_PLACE_BYTES_MAX = 256 * 1024;

export class FlushPacer {
  /** So many of the last flushes were short. Off the thread until so many in a row were. */
  #shortInARow = 0;

  /**
   * @param bytes written since the last flush
   * @returns a promise where the flush went off the thread, nothing where it is done
   */
  flush(file: File, bytes: number): Promise<void> | undefined {
    // How long it takes says nothing about the next small one.
    if (bytes > IN_PLACE_BYTES_MAX) return file.flushOffThread();
    const begun = performance.now();
    if (this.#shortInARow >= REMEMBERED) {
      file.flush();
      this.#note(performance.now() - begun);
      return undefined;
    }
    return file.flushOffThread().then(() => this.#note(performance.now() - begun));
  }

  #note(ms: number) {
    this.#shortInARow = ms < SHORT_MS ? this.#shortInARow + 1 : 0;
  }
}
