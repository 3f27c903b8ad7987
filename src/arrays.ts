// Typed arrays that grow, and lists of numbers.

export const NO_IDS: Uint32Array<ArrayBuffer> = new Uint32Array(0);

/** A larger copy, at least half as long again. */
export function grown(array: Uint32Array, lengthMin: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(Math.max(Math.ceil(array.length * 1.5), lengthMin));
  larger.set(array);
  return larger;
}

/** A list of numbers that grows, without an object for each. */
export class NumberList {
  #array = new Uint32Array(64);
  length = 0;

  push(value: number) {
    if (this.length === this.#array.length) this.#array = grown(this.#array, 0);
    this.#array[this.length++] = value;
  }

  /** Adds the first `count` numbers of an array. */
  append(numbers: Uint32Array, count: number) {
    const end = this.length + count;
    if (end > this.#array.length) this.#array = grown(this.#array, end);
    this.#array.set(numbers.subarray(0, count), this.length);
    this.length = end;
  }

  at(index: number): number {
    return this.#array[index] as number;
  }

  /** Of an ascending list: the place of the last number that is at most `value`; -1 if none is. */
  lastAtMost(value: number): number {
    return lastAtMost(this.#array, this.length, value);
  }

  /** The list as a row of bits, 32 a number: bit i, which must be in it. */
  bit(i: number): boolean {
    return (((this.#array[i >>> 5] as number) >>> (i & 31)) & 1) === 1;
  }

  setBit(i: number) {
    this.#array[i >>> 5] = (this.#array[i >>> 5] as number) | (1 << (i & 31));
  }

  /** The numbers so far: a view, good until the next push. */
  view(): Uint32Array<ArrayBuffer> {
    return this.#array.subarray(0, this.length);
  }

  /** A copy of those from an index on. */
  slice(from: number): Uint32Array<ArrayBuffer> {
    return this.#array.slice(from, this.length);
  }

  /** A sorted copy. */
  sorted(): Uint32Array<ArrayBuffer> {
    return this.#array.slice(0, this.length).sort();
  }
}

/** Position of the last element that is at most `value`, in an ascending array; -1 if none is. */
export function lastAtMost(ascending: ArrayLike<number>, length: number, value: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
