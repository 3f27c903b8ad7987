// A progress bar on standard error, for what takes over a second. Nothing is drawn where there is no terminal.

const SHOW_AFTER_MS = 1000;
const DRAW_EVERY_MS = 100;
const WIDTH = 30;

export class Progress {
  readonly #what: string;
  readonly #stream: NodeJS.WriteStream;
  readonly #begun = performance.now();
  #drawn = 0;
  #isShown = false;

  constructor(what: string, stream: NodeJS.WriteStream) {
    this.#what = what;
    this.#stream = stream;
  }

  update(done: number, all: number) {
    const now = performance.now();
    if (
      !this.#stream.isTTY ||
      now - this.#begun < SHOW_AFTER_MS ||
      now - this.#drawn < DRAW_EVERY_MS
    )
      return;
    this.#drawn = now;
    this.#isShown = true;
    const share = all > 0 ? Math.min(done / all, 1) : 0;
    const full = Math.round(share * WIDTH);
    this.#stream.write(
      `\r${this.#what}  ${"█".repeat(full)}${"░".repeat(WIDTH - full)} ${String(Math.floor(share * 100)).padStart(3)} %`,
    );
  }

  /** Takes the bar away. */
  end() {
    if (this.#isShown) this.#stream.write("\r\u001b[K");
    this.#isShown = false;
  }
}
