// Makes inputs that are nearly right out of inputs that are right, and meters what is allocated for one.

import { crc32 } from "node:zlib";

export type Random = () => number;

export const below = (random: Random, count: number) => Math.floor(random() * count);
export const pick = <T>(random: Random, items: readonly T[]): T =>
  items[below(random, items.length)] as T;

/** Numbers at which something may go over. */
const EDGES = [
  0, 1, 2, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 4096, 4097, 65534, 65535, 65536,
  0x7fff_ffff, 0x8000_0000, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff,
];

export function randomBytes(random: Random, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = below(random, 256);
  return bytes;
}

/** LEB128, in its shortest form; or in a longer one, of as many bytes as are asked for. */
export function varint(value: number, bytesMin = 1): Buffer {
  const out: number[] = [];
  let rest = value;
  do {
    out.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  } while (rest > 0 || out.length < bytesMin);
  out[out.length - 1] = (out.at(-1) as number) & 127;
  return Buffer.from(out);
}

const replaced = (bytes: Buffer, from: number, to: number, by: Buffer) =>
  Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(Math.max(from, to))]);

/** One change of some bytes, of the kinds that break parsers. */
export function mutateOnce(random: Random, bytes: Buffer, others: readonly Buffer[]): Buffer {
  const at = below(random, bytes.length + 1);
  const length = 1 + below(random, pick(random, [2, 4, 16, 64, 512]));
  switch (below(random, 11)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < flipped.length) flipped[at] = (flipped[at] as number) ^ (1 << below(random, 8));
      return flipped;
    }
    case 1:
      return replaced(bytes, at, at + 1, Buffer.of(pick(random, [0, 1, 2, 127, 128, 254, 255])));
    case 2: {
      const number = Buffer.alloc(8);
      number.writeUInt32LE(pick(random, EDGES), 0);
      const size = pick(random, [2, 4, 6]);
      return replaced(bytes, at, at + size, number.subarray(0, size));
    }
    case 3:
      return replaced(bytes, at, at + 1 + below(random, 5), varint(pick(random, EDGES)));
    case 4:
      return replaced(
        bytes,
        at,
        at + 1 + below(random, 5),
        varint(pick(random, [...EDGES, 2 ** 32, 2 ** 34, 2 ** 35]), 1 + below(random, 7)),
      );
    case 5:
      return replaced(bytes, at, at, randomBytes(random, length));
    case 6:
      return replaced(bytes, at, at + length, Buffer.alloc(0));
    case 7:
      return replaced(bytes, at, at, bytes.subarray(at, at + length));
    case 8:
      return bytes.subarray(0, at);
    case 9: {
      const other = pick(random, others.length > 0 ? others : [bytes]);
      const from = below(random, other.length + 1);
      return replaced(bytes, at, at + length, other.subarray(from, from + length));
    }
    default:
      return Buffer.concat([
        bytes,
        random() < 0.5 ? Buffer.alloc(length) : randomBytes(random, length),
      ]);
  }
}

/** A few changes; none now and then, so that what is right stays tried. */
export function mutate(random: Random, bytes: Buffer, others: readonly Buffer[] = []): Buffer {
  let mutated = bytes;
  for (let i = below(random, 4); i >= 0; i--)
    if (random() < 0.9) mutated = mutateOnce(random, mutated, others);
  return mutated;
}

/** What stands in texts that people and programs write, at its worst. */
const TOKENS = [
  "",
  "\0",
  "\ufeff",
  "\ud800",
  "\u2028",
  "\u202e",
  "\n",
  "\r\n",
  "\r",
  "\t",
  "{",
  "}",
  "[",
  "]",
  '"',
  "\\",
  "\\u0000",
  "\\ud83d",
  ":",
  ",",
  "=",
  "#",
  "null",
  "true",
  "-0",
  "1e999",
  "-1",
  "0",
  "1",
  "0.5",
  "4294967294",
  "4294967295",
  "4294967296",
  "9007199254740993",
  "1e21",
  "__proto__",
  "constructor",
  "toString",
  "length",
  "..",
  "/",
  "%00",
  "\u00e9",
  "e\u0301",
  "\u{1f9c0}",
  "[".repeat(2000),
  '{"a":'.repeat(500),
  "x".repeat(5000),
  "1970-01-01T00:00:00Z",
  "9999-12-31T23:59:59.999Z",
  "2026-02-30T00:00:00+14:00",
];

/** A few changes of a text. */
export function mutateText(random: Random, text: string, others: readonly string[] = []): string {
  let mutated = text;
  for (let i = below(random, 4); i >= 0; i--) {
    const at = below(random, mutated.length + 1);
    const length = below(random, pick(random, [2, 8, 40]));
    const token = pick(random, TOKENS);
    switch (below(random, 7)) {
      case 0:
        mutated = mutated.slice(0, at) + token + mutated.slice(at);
        break;
      case 1:
        mutated = mutated.slice(0, at) + mutated.slice(at + length);
        break;
      case 2:
        mutated = mutated.slice(0, at) + token + mutated.slice(at + length);
        break;
      case 3:
        mutated =
          mutated.slice(0, at) +
          mutated.slice(at, at + length).repeat(2) +
          mutated.slice(at + length);
        break;
      case 4:
        mutated = mutated.slice(0, at);
        break;
      case 5: {
        const other = pick(random, others.length > 0 ? others : [text]);
        const from = below(random, other.length + 1);
        mutated = mutated.slice(0, at) + other.slice(from, from + length) + mutated.slice(at);
        break;
      }
      default:
    }
  }
  return mutated;
}

/** One change of a value that was read from JSON: of some key or place in it, of any depth. */
export function mutateValue(random: Random, value: unknown): unknown {
  if (random() < 0.3 || typeof value !== "object" || value === null)
    return strangeValue(random, value);
  if (Array.isArray(value)) {
    const at = below(random, value.length + 1);
    const kind = below(random, 4);
    if (kind === 0) return value.toSpliced(at, 1);
    if (kind === 1) return value.toSpliced(at, 0, value[below(random, value.length)]);
    return value.toSpliced(at, 1, mutateValue(random, value[at]));
  }
  const entries = Object.entries(value);
  const at = below(random, entries.length + 1);
  const [key, inner] = entries[at] ?? [pick(random, TOKENS), null];
  const kind = below(random, 5);
  if (kind === 0) return Object.fromEntries(entries.toSpliced(at, 1));
  const name = kind === 1 ? pick(random, [...TOKENS, ...entries.map(([other]) => other)]) : key;
  return Object.fromEntries(entries.toSpliced(at, 1, [name, mutateValue(random, inner)]));
}

function strangeValue(random: Random, value: unknown): unknown {
  if (typeof value === "number" && random() < 0.6)
    return pick(random, [...EDGES, value + 1, value - 1, -value, value + 0.5, 1e308, 2 ** 53]);
  if (typeof value === "string" && random() < 0.6) return mutateText(random, value);
  return pick<unknown>(random, [
    null,
    true,
    false,
    0,
    1,
    -1,
    "",
    [],
    {},
    [[]],
    [null],
    ...TOKENS,
    value,
  ]);
}

/** Writes a CRC-32 of what stands before its place there. */
export function repairCheck(bytes: Buffer, from: number, at: number, seed = 0) {
  if (from >= 0 && at + 4 <= bytes.length)
    bytes.writeUInt32LE(crc32(bytes.subarray(from, at), seed), at);
}

/**
 * Counts the bytes that are asked for by number: the lengths of typed arrays and buffers. An allocation by a length that was
 * read from a hostile file is counted whole, whether the system has given the memory or not.
 */
export class Meter {
  bytes = 0;
  /** More than this at once is refused, before it does harm. */
  readonly #bytesMax = 1024 ** 3;
  readonly #restore: (() => void)[] = [];

  #count(bytes: number) {
    this.bytes += bytes;
    if (bytes > this.#bytesMax) throw new Error(`${bytes} bytes are asked for at once`);
  }

  install() {
    const count = (bytes: number) => this.#count(bytes);
    for (const name of ["Uint8Array", "Uint16Array", "Uint32Array", "Int32Array"] as const) {
      const real = globalThis[name];
      const metered: object = new Proxy(real, {
        construct(target, args: unknown[], newTarget) {
          if (typeof args[0] === "number") count(args[0] * target.BYTES_PER_ELEMENT);
          return Reflect.construct(
            target,
            args,
            newTarget === metered ? target : newTarget,
          ) as object;
        },
      });
      Object.assign(globalThis, { [name]: metered });
      this.#restore.push(() => Object.assign(globalThis, { [name]: real }));
    }
    for (const name of ["alloc", "allocUnsafe", "allocUnsafeSlow"] as const) {
      const real = Buffer[name];
      const metered = (size: number, ...rest: []) => {
        count(size);
        return real(size, ...rest);
      };
      Object.assign(Buffer, { [name]: metered });
      this.#restore.push(() => Object.assign(Buffer, { [name]: real }));
    }
  }

  remove() {
    for (const restore of this.#restore.splice(0)) restore();
  }
}
