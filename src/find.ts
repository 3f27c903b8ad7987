// Searches the raw bytes of files. Knows no format, so that it cannot share a bug with one.

import { type Disk, type File, filesBelow, isMissing } from "./disk.ts";
import { type Anchor, Hunter } from "./scan.ts";
import type { FindMatch } from "./terms.ts";
import { tick } from "./tick.ts";

/** What was read is searched while it is in the processor's cache. */
const CHUNK_BYTES = 256 * 1024;
const EXCERPT_BYTES = 32;
const SLICE_MS = 10;
/** Places that are tried between two looks at the clock: where a text repeats itself, there may be one at each byte. */
const TRIES_AT_ONCE = 64;

export interface FindOptions {
  ignoreCase: boolean;
  /** How many places to give with an excerpt; all are counted. */
  matchesMax: number;
  /** Whether a file's excerpts are masked. */
  isSecret: (name: string) => boolean;
  /** Whether a file is left out. */
  isLeftOut: (name: string) => boolean;
  signal?: AbortSignal | undefined;
  onProgress?: ((done: number, all: number) => void) | undefined;
}

export interface Found {
  count: number;
  matches: FindMatch[];
  filesScanned: number;
  bytesScanned: number;
}

/** Every place below a folder where the UTF-8 bytes of a text stand; overlapping ones too. */
export async function findBytes(
  disk: Disk,
  folder: string,
  under: string,
  text: string,
  options: FindOptions,
): Promise<Found> {
  const needle = options.ignoreCase ? foldedNeedle(text) : exactNeedle(Buffer.from(text, "utf8"));
  const files = [...filesBelow(disk, folder, under)].filter(({ name }) => !options.isLeftOut(name));
  const all = files.reduce((sum, { stat }) => sum + stat.size, 0);
  const found: Found = { count: 0, matches: [], filesScanned: 0, bytesScanned: 0 };
  // A match may stand across two chunks, and an excerpt shows what is around it.
  const around = EXCERPT_BYTES + needle.bytesMax;
  const hunter = newHunter(CHUNK_BYTES + 2 * around);
  const buffer = hunter?.bytes ?? Buffer.allocUnsafeSlow(CHUNK_BYTES + 2 * around);
  let begun = performance.now();
  const giveWay = async () => {
    if (performance.now() - begun <= SLICE_MS) return;
    options.onProgress?.(found.bytesScanned, all);
    await tick();
    options.signal?.throwIfAborted();
    begun = performance.now();
  };
  let tries = 0;
  for (const { path, name } of files) {
    let file: File;
    try {
      file = disk.open(path, "read");
    } catch (error) {
      // Removed since it was listed: what it held is no longer in the store.
      if (isMissing(error)) continue;
      throw error;
    }
    try {
      const isMasked = options.isSecret(name);
      for (let at = 0; ; at += CHUNK_BYTES) {
        const from = Math.max(0, at - around);
        const bytes = buffer.subarray(
          0,
          file.read(buffer.subarray(0, at - from + CHUNK_BYTES + around), from),
        );
        const own = Math.min(bytes.length - (at - from), CHUNK_BYTES);
        // A match belongs to the chunk in which it begins.
        for (const start of placesOf(needle, hunter, bytes, at - from, at - from + own)) {
          if (++tries % TRIES_AT_ONCE === 0) await giveWay();
          const end = needle.matchAt(bytes, start);
          if (end === -1) continue;
          found.count++;
          if (found.matches.length >= options.matchesMax) continue;
          const excerpt = isMasked ? "(masked)" : excerptOf(bytes, start, end);
          found.matches.push({ file: name, offset: from + start, excerpt });
        }
        if (own > 0) found.bytesScanned += own;
        await giveWay();
        if (bytes.length < at - from + CHUNK_BYTES) break;
      }
    } finally {
      file.close();
    }
    found.filesScanned++;
  }
  return found;
}

/** What is looked for. */
interface Needle {
  /** The longest match, in bytes. */
  bytesMax: number;
  /** Where a match that begins at `start` ends; -1 if none begins there. */
  matchAt(bytes: Buffer, start: number): number;
  /** All that the first byte may be. */
  firstBytes: Set<number>;
  /** Bytes that every match has, ascending by their place; none where no place is sure. */
  anchors: Anchor[];
}

/** Compared one by one; the rest of a long needle by a call, which costs as much as these. */
const SINGLE_BYTES = 16;
/** The first of a long needle are enough. */
const ANCHORS_MAX = 64;

function exactNeedle(wanted: Buffer): Needle {
  const { length } = wanted;
  return {
    bytesMax: length,
    matchAt(bytes, start) {
      const end = start + length;
      if (end > bytes.length) return -1;
      const singles = Math.min(length, SINGLE_BYTES);
      for (let i = 0; i < singles; i++) if (bytes[start + i] !== wanted[i]) return -1;
      return singles === length || wanted.compare(bytes, start, end) === 0 ? end : -1;
    },
    firstBytes: new Set(wanted.subarray(0, 1)),
    anchors: [...wanted.subarray(0, ANCHORS_MAX)].map((byte, offset) => ({
      offset,
      bytes: [byte, byte],
    })),
  };
}

/** Letter by letter, in any of the forms that upper and lower case give it. */
function foldedNeedle(text: string): Needle {
  const letters = [...text].map((letter) => {
    const forms = new Set([
      letter,
      letter.toLowerCase(),
      letter.toUpperCase(),
      letter.toUpperCase().toLowerCase(),
    ]);
    // A form of several letters (ß → SS) is not one letter's other case.
    return [...forms]
      .filter((form) => [...form].length === 1)
      .map((form) => Buffer.from(form, "utf8"));
  });
  return {
    bytesMax: letters.reduce((sum, forms) => sum + longest(forms), 0),
    matchAt(bytes, start) {
      let at = start;
      for (const forms of letters) {
        const length = formAt(bytes, at, forms);
        if (length === 0) return -1;
        at += length;
      }
      return at;
    },
    firstBytes: new Set(letters[0]?.map((form) => form[0] as number)),
    anchors: anchorsOf(letters),
  };
}

const longest = (forms: Buffer[]) => Math.max(...forms.map((form) => form.length));

/** How many bytes the form has that stands there; 0 if none does. */
function formAt(bytes: Buffer, at: number, forms: Buffer[]): number {
  for (const form of forms) {
    if (at + form.length > bytes.length) continue;
    let i = 0;
    while (i < form.length && bytes[at + i] === form[i]) i++;
    if (i === form.length) return i;
  }
  return 0;
}

/** As far as it is sure how many bytes stand before, and where no more than two may stand. */
function anchorsOf(letters: Buffer[][]): Anchor[] {
  const anchors: Anchor[] = [];
  let before = 0;
  for (const forms of letters) {
    const bytes = longest(forms);
    if (forms.some((form) => form.length !== bytes) || before > ANCHORS_MAX) break;
    for (let i = 0; i < bytes; i++) {
      const [one, other = one, ...more] = new Set(forms.map((form) => form[i] as number));
      if (one === undefined || other === undefined || more.length > 0) continue;
      anchors.push({ offset: before + i, bytes: [one, other] });
    }
    before += bytes;
  }
  return anchors;
}

/** Null where a process may not use WebAssembly. */
function newHunter(bytes: number): Hunter | null {
  try {
    return new Hunter(bytes);
  } catch {
    return null;
  }
}

/** Where in from .. to a match may begin, ascending. The bytes are the hunter's. */
function placesOf(
  { anchors, firstBytes }: Needle,
  hunter: Hunter | null,
  bytes: Buffer,
  from: number,
  to: number,
): Iterable<number> {
  if (!hunter || anchors.length === 0) return placesOfFirst(bytes, from, to, firstBytes);
  const [first, second] = rarestOf(anchors, sampled(bytes, from, to));
  return hunter.places(from, to, first, second);
}

function* placesOfFirst(bytes: Buffer, from: number, to: number, firstBytes: Set<number>) {
  for (let at = from; at < to; at++) if (firstBytes.has(bytes[at] as number)) yield at;
}

/** The two that are rarest by the counts, in the order of their places; the same twice if there is but one. */
function rarestOf(anchors: Anchor[], counts: Uint16Array): [Anchor, Anchor] {
  const countOf = ({ bytes: [one, other] }: Anchor) =>
    (counts[one] as number) + (one === other ? 0 : (counts[other] as number));
  const [a, b = a] = anchors.toSorted((a, b) => countOf(a) - countOf(b)) as [Anchor, Anchor?];
  return a.offset < b.offset ? [a, b] : [b, a];
}

const SAMPLES = 512;

/** How often each byte stands among some of from .. to. */
function sampled(bytes: Buffer, from: number, to: number): Uint16Array {
  const step = Math.max(1, Math.floor((to - from) / SAMPLES));
  const counts = new Uint16Array(256);
  for (let at = from; at < to; at += step) {
    const byte = bytes[at] as number;
    counts[byte] = (counts[byte] as number) + 1;
  }
  return counts;
}

/** Some bytes around a match; what is no readable UTF-8 shows as a dot. */
function excerptOf(bytes: Buffer, start: number, end: number): string {
  const readable = (part: Buffer) => part.toString("utf8").replace(/[\p{Cc}\uFFFD]/gu, "·");
  const before = readable(bytes.subarray(Math.max(0, start - EXCERPT_BYTES), start));
  const after = readable(bytes.subarray(end, end + EXCERPT_BYTES));
  const tail = before.slice(before.lastIndexOf("··") + 1);
  const stop = after.indexOf("··");
  return (
    tail + readable(bytes.subarray(start, end)) + (stop === -1 ? after : after.slice(0, stop + 1))
  );
}
