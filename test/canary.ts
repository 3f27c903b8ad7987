// In which forms a text, or what would confirm a guess at it, may stand in a file; and the search for all of them.

import { createHash, hash } from "node:crypto";
import { crc32 } from "node:zlib";

/** Long enough to be distinctive; the scheme of an address is not. */
const WORD = /(?!https:)[^\s/:?=&]{5,}/g;

/** What an area's commitment would be without its salt, or with one of zeros. */
function unsalted(text: string, salt: Buffer): Buffer {
  const sizes = Buffer.alloc(6);
  sizes.writeUInt32LE(Buffer.byteLength(text));
  return createHash("sha256")
    .update(salt)
    .update("cheesedb/text/v1")
    .update(sizes)
    .update(text)
    .digest();
}

export function formsOf(text: string): Record<string, Buffer> {
  const bytes = Buffer.from(text, "utf8");
  const percent = encodeURIComponent(text);
  const forms: Record<string, Buffer> = {
    utf8: bytes,
    lowercase: Buffer.from(text.toLowerCase(), "utf8"),
    uppercase: Buffer.from(text.toUpperCase(), "utf8"),
    json: Buffer.from(JSON.stringify(text).slice(1, -1), "utf8"),
    "json in json": Buffer.from(JSON.stringify(JSON.stringify(text).slice(1, -1)).slice(1, -1)),
    utf16le: Buffer.from(text, "utf16le"),
    utf16be: Buffer.from(text, "utf16le").swap16(),
    hex: Buffer.from(bytes.toString("hex")),
    HEX: Buffer.from(bytes.toString("hex").toUpperCase()),
    percent: Buffer.from(percent),
    "percent, lower": Buffer.from(percent.replace(/%../g, (code) => code.toLowerCase())),
    "percent, plus": Buffer.from(percent.replaceAll("%20", "+")),
  };
  for (const word of text.match(WORD) ?? []) {
    forms[`word ${word}`] = Buffer.from(word);
    forms[`word ${word} in utf16le`] = Buffer.from(word, "utf16le");
  }
  for (const shift of [0, 1, 2]) {
    // The letters that are the same whatever stands around.
    for (const alphabet of ["base64", "base64url"] as const) {
      const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString(alphabet);
      forms[`${alphabet} +${shift}`] = Buffer.from(encoded.slice(shift === 0 ? 0 : 4, -4));
    }
  }
  for (const [name, digest] of Object.entries({
    sha256: hash("sha256", bytes, "buffer"),
    "sha256 of utf16": hash("sha256", Buffer.from(text, "utf16le"), "buffer"),
    "commitment without salt": unsalted(text, Buffer.alloc(0)),
    "commitment with a salt of zeros": unsalted(text, Buffer.alloc(32)),
    sha1: hash("sha1", bytes, "buffer"),
    md5: hash("md5", bytes, "buffer"),
  })) {
    forms[name] = digest;
    forms[`${name} in hex`] = Buffer.from(digest.toString("hex"));
    forms[`${name} in base64`] = Buffer.from(digest.toString("base64").replace(/=+$/, ""));
  }
  const check = Buffer.alloc(4);
  check.writeUInt32LE(crc32(bytes));
  forms["crc32, little end first"] = Buffer.from(check);
  forms["crc32, big end first"] = Buffer.from(check.reverse());
  forms["crc32 in hex"] = Buffer.from(crc32(bytes).toString(16).padStart(8, "0"));
  return forms;
}

const known = new Map<string, [name: string, form: Buffer][]>();

/** The names of the forms of a text that stand somewhere in some bytes. */
export function formsIn(bytes: Buffer, text: string): string[] {
  let forms = known.get(text);
  if (!forms) {
    forms = Object.entries(formsOf(text));
    known.set(text, forms);
  }
  return forms.filter(([, form]) => bytes.includes(form)).map(([name]) => name);
}

/** The forms in which a text stands within itself. */
export function formsInItself(text: string): string[] {
  return formsIn(Buffer.from(text), text);
}

/** Four bytes may stand anywhere by chance: what they say counts only if it is said again with other randomness. */
export const isByChance = (form: string) => form.startsWith("crc32,");
