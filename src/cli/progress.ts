// A progress bar for what takes over a second, and a spinner while a model thinks: on standard error, and only on a
// terminal. The only import of ora.

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

/** Says that something is under way, until it is stopped. */
export async function startSpinner(text: string, stream: NodeJS.WriteStream): Promise<() => void> {
  // On a terminal that does not know its width ora would clear lines without end.
  if (!stream.isTTY || !stream.columns || process.env.TERM === "dumb") return () => {};
  const { default: ora } = await import("ora");
  // discardStdin would take the keyboard away from Ctrl-C.
  const spinner = ora({ text, stream, discardStdin: false }).start();
  return () => spinner.stop();
}
