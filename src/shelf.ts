// Many strings put away as UTF-8, outside of the heap: the garbage collector stops everything while it walks through
// millions of small objects.

import { NumberList } from "./arrays.ts";

const BOX_BYTES = 1024 * 1024;
const UTF8_BYTES_MAX = 3;

export class Shelf {
  readonly #boxes: Buffer[] = [];
  /** Of each string: its box, and where it stands there. */
  readonly #box = new NumberList();
  readonly #from = new NumberList();
  readonly #to = new NumberList();
  #used = 0;

  get count(): number {
    return this.#box.length;
  }

  /** @param text well-formed: half a surrogate pair would not come back */
  push(text: string) {
    let box = this.#boxes.at(-1);
    if (!box || box.length - this.#used < text.length * UTF8_BYTES_MAX) {
      const bytes = Buffer.byteLength(text);
      if (!box || box.length - this.#used < bytes) {
        box = Buffer.allocUnsafeSlow(Math.max(BOX_BYTES, bytes));
        this.#boxes.push(box);
        this.#used = 0;
      }
    }
    this.#box.push(this.#boxes.length - 1);
    this.#from.push(this.#used);
    this.#used += box.write(text, this.#used, "utf8");
    this.#to.push(this.#used);
  }

  at(index: number): string {
    const box = this.#boxes[this.#box.at(index)] as Buffer;
    return box.toString("utf8", this.#from.at(index), this.#to.at(index));
  }
}
