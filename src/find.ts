// Searches the raw bytes of files. Knows no format, so that it cannot share a bug with one.

import { type Disk, type File, filesBelow, isMissing } from "./disk.ts";
import type { FindMatch } from "./terms.ts";
import { tick } from "./tick.ts";

const CHUNK_BYTES = 1024 * 1024;
const EXCERPT_BYTES = 32;
const SLICE_MS = 10;

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
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES + 2 * around);
  let begun = performance.now();
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
        if (own > 0) found.bytesScanned += own;
        // A match belongs to the chunk in which it begins.
        for (const { start, end } of needle.matches(bytes, at - from, at - from + CHUNK_BYTES)) {
          found.count++;
          if (found.matches.length >= options.matchesMax) continue;
          const excerpt = isMasked ? "(masked)" : excerptOf(bytes, start, end);
          found.matches.push({ file: name, offset: from + start, excerpt });
        }
        if (performance.now() - begun > SLICE_MS) {
          options.onProgress?.(found.bytesScanned, all);
          await tick();
          options.signal?.throwIfAborted();
          begun = performance.now();
        }
        if (bytes.length < at - from + CHUNK_BYTES) break;
      }
    } finally {
      file.close();
    }
    found.filesScanned++;
  }
  return found;
}

/** What is looked for, and how. */
interface Needle {
  /** The longest match, in bytes. */
  bytesMax: number;
  /** Matches that begin in from .. to, ascending. */
  matches(bytes: Buffer, from: number, to: number): Iterable<{ start: number; end: number }>;
}

function exactNeedle(wanted: Buffer): Needle {
  const last = wanted.length - 1;
  return {
    bytesMax: wanted.length,
    *matches(bytes, from, to) {
      const rarest = rarestOf(wanted, bytes, from, to);
      if (rarest === -1) {
        for (
          let at = bytes.indexOf(wanted, from);
          at !== -1 && at < to;
          at = bytes.indexOf(wanted, at + 1)
        ) {
          yield { start: at, end: at + wanted.length };
        }
        return;
      }
      const byte = wanted[rarest] as number;
      for (
        let at = bytes.indexOf(byte, from + rarest);
        at !== -1 && at - rarest < to;
        at = bytes.indexOf(byte, at + 1)
      ) {
        const start = at - rarest;
        const end = start + wanted.length;
        // Two bytes first: a call is what costs.
        if (bytes[start] !== wanted[0] || bytes[end - 1] !== wanted[last]) continue;
        if (end <= bytes.length && wanted.compare(bytes, start, end) === 0) yield { start, end };
      }
    },
  };
}

const SAMPLES = 4096;
/** Of the samples: hunting for one byte is faster than for the whole while it is no more frequent. */
const RARE_MAX = 8;

/** The place in the needle of the byte that is rarest in what is searched; -1 if none is rare. */
function rarestOf(wanted: Buffer, bytes: Buffer, from: number, to: number): number {
  const counts = sampled(bytes, from, to);
  let rarest = -1;
  let fewest = RARE_MAX + 1;
  for (const [i, byte] of wanted.entries()) {
    const count = counts[byte] as number;
    if (count >= fewest) continue;
    fewest = count;
    rarest = i;
  }
  return rarest;
}

/** How often each byte stands among some of from .. to. */
function sampled(bytes: Buffer, from: number, to: number): Uint16Array {
  const limit = Math.min(to, bytes.length);
  const step = Math.max(1, Math.floor((limit - from) / SAMPLES));
  const counts = new Uint16Array(256);
  for (let at = from; at < limit; at += step) {
    const byte = bytes[at] as number;
    counts[byte] = (counts[byte] as number) + 1;
  }
  return counts;
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
  const matchAt = (bytes: Buffer, start: number): number => {
    let at = start;
    for (const forms of letters) {
      const form = forms.find(
        (form) =>
          form.length <= bytes.length - at && form.compare(bytes, at, at + form.length) === 0,
      );
      if (!form) return -1;
      at += form.length;
    }
    return at;
  };
  const bytesMax = letters.reduce((sum, forms) => sum + longest(forms), 0);
  const ascii = asciiPart(letters);
  return {
    bytesMax,
    *matches(bytes, from, to) {
      const limit = Math.min(to, bytes.length);
      for (const at of ascii
        ? placesOfAscii(bytes, from, limit, ascii)
        : placesOfFirsts(bytes, from, limit, letters[0] ?? [])) {
        const end = matchAt(bytes, at);
        if (end !== -1) yield { start: at, end };
      }
    },
  };
}

const longest = (forms: Buffer[]) => Math.max(...forms.map((form) => form.length));

interface AsciiPart {
  /** In lower case. */
  text: string;
  /** Bytes of the needle in front of it. */
  before: number;
}

/** The longest run of ASCII letters of a needle of which it is known how many bytes stand before it; null if there is none. */
function asciiPart(letters: Buffer[][]): AsciiPart | null {
  let best: AsciiPart | null = null;
  let run: AsciiPart | null = null;
  let before = 0;
  for (const forms of letters) {
    const bytes = longest(forms);
    if (forms.some((form) => form.length !== bytes)) break;
    if (bytes === 1) {
      run ??= { text: "", before };
      run.text += (forms[0] as Buffer).toString("latin1").toLowerCase();
      if (run.text.length > (best?.text.length ?? 0)) best = { ...run };
    } else {
      run = null;
    }
    before += bytes;
  }
  return best;
}

/** A text in lower case of this size stays in the processor's cache. */
const FOLDED_BYTES = 64 * 1024;

/** So many letters at the most are hunted for: V8 then looks for the first alone, and that is what processors do best. */
const PROBE_CHARS = 6;
const PROBE_CHARS_MIN = 3;

/**
 * Where a needle may begin by its ASCII part. As latin1 every byte is a letter, and lower case changes none of them into
 * an ASCII letter, and the length not at all.
 */
function* placesOfAscii(bytes: Buffer, from: number, limit: number, { text, before }: AsciiPart) {
  const probeAt = rarestLetter(text, sampled(bytes, from, limit));
  const probe = text.slice(probeAt, probeAt + PROBE_CHARS);
  for (let at = from; at < limit; at += FOLDED_BYTES) {
    const to = Math.min(at + FOLDED_BYTES, limit);
    const folded = bytes
      .toString("latin1", at + before, to + before + text.length - 1)
      .toLowerCase();
    for (let i = folded.indexOf(probe, probeAt); i !== -1; i = folded.indexOf(probe, i + 1))
      if (folded.startsWith(text, i - probeAt)) yield at + i - probeAt;
  }
}

/** The place of the letter, of either case, that is rarest by the counts and has some letters behind it. */
function rarestLetter(text: string, counts: Uint16Array): number {
  let rarest = 0;
  let fewest = Number.POSITIVE_INFINITY;
  for (let i = 0; i <= Math.max(0, text.length - PROBE_CHARS_MIN); i++) {
    const letter = text[i] as string;
    const forms = new Set([letter.charCodeAt(0), letter.toUpperCase().charCodeAt(0)]);
    let count = 0;
    for (const byte of forms) count += counts[byte] as number;
    if (count >= fewest) continue;
    fewest = count;
    rarest = i;
  }
  return rarest;
}

function* placesOfFirsts(bytes: Buffer, from: number, limit: number, firsts: Buffer[]) {
  const first = new Set(firsts.map((form) => form[0] as number));
  for (let at = from; at < limit; at++) if (first.has(bytes[at] as number)) yield at;
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
