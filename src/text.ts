// Texts as they come in: valid UTF-8 of a limited size, or refused; never repaired.

import { CheeseError } from "./errors.ts";

/**
 * Decodes UTF-8 and keeps every byte of meaning: NULs and a byte order mark too.
 *
 * @throws CheeseError NOT_UTF8 with the offset of the first byte that is none
 */
export function decodeUtf8(bytes: Uint8Array, what = "the text"): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    const offset = firstBadByte(bytes);
    throw new CheeseError("NOT_UTF8", `${what} is not valid UTF-8 at byte ${offset}`, {
      cause,
      offset,
    });
  }
}

/** Where the longest valid beginning ends. */
function firstBadByte(bytes: Uint8Array): number {
  let valid = 0;
  let invalid = bytes.length + 1;
  while (invalid - valid > 1) {
    const middle = (valid + invalid) >>> 1;
    // Streaming: a sequence cut in two by the middle is no mistake.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    try {
      decoder.decode(bytes.subarray(0, middle), { stream: true });
      valid = middle;
    } catch {
      invalid = middle;
    }
  }
  // A sequence that was begun and is not ended well is wrong from its first byte.
  for (let at = Math.min(valid, bytes.length); at > 0; at--) {
    try {
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, at));
      return at;
    } catch {}
  }
  return 0;
}

/** Of one UTF-16 unit; a pair of them takes 4. */
const UTF8_BYTES_MAX = 3;

/**
 * Checks a string before it is stored.
 *
 * @throws CheeseError NOT_UTF8 for half a surrogate pair, TOO_LARGE over the limit
 */
export function checkText(text: string, bytesMax: number, what: string, hint?: string) {
  if (typeof text !== "string") throw new TypeError(`${what} is a string, got ${typeof text}`);
  if (!text.isWellFormed()) {
    throw new CheeseError(
      "NOT_UTF8",
      `${what} holds half a surrogate pair, which UTF-8 cannot say`,
    );
  }
  if (text.length * UTF8_BYTES_MAX <= bytesMax) return;
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax)
    throw new CheeseError(
      "TOO_LARGE",
      `${what} has ${bytes} bytes; at most ${bytesMax} are allowed`,
      { hint },
    );
}

const NAME_FORBIDDEN = /[\p{Cc}\p{Zl}\p{Zp}/\\]/u;
const NAME_CODE_POINTS_MAX = 64;

/**
 * An agent's name in the form in which it is compared.
 *
 * @throws CheeseError BAD_NAME
 */
export function normaliseName(name: string): string {
  if (typeof name !== "string")
    throw new TypeError(`an agent's name is a string, got ${typeof name}`);
  if (!name.isWellFormed()) throw new CheeseError("BAD_NAME", "the name is not valid UTF-8");
  const normal = name.normalize("NFC");
  const length = [...normal].length;
  if (length < 1 || length > NAME_CODE_POINTS_MAX) {
    throw new CheeseError(
      "BAD_NAME",
      `the name has ${length} characters; 1 to ${NAME_CODE_POINTS_MAX} are allowed`,
    );
  }
  if (NAME_FORBIDDEN.test(normal))
    throw new CheeseError("BAD_NAME", 'the name holds a control character, "/" or "\\"');
  if (normal === "." || normal === "..")
    throw new CheeseError("BAD_NAME", `"${normal}" is no name`);
  return normal;
}
