// Words: those of a text that carry meaning, for finding by word overlap in a scan; and the one nearest to a misspelt one.

const STOP_WORDS = new Set(
  `a about after all also am an and any are as at be been before being but by can could did do does doing for from get given
  had has have he her here him his how i if in into is it its just let may me might more most my need no not of on once one
  only or our out over own please same shall she should so some such than that the their them then there these they this
  those to today tomorrow too under until up us use very was we were what when where which while who whom why will with
  would you your user agent`.split(/\s+/),
);

/** Endings that English words lose without meaning something else, longest first. */
const ENDINGS = ["ingly", "edly", "ing", "ies", "ied", "ed", "es", "er", "ly", "s", "y", "e"];

function stem(word: string): string {
  for (const ending of ENDINGS) {
    if (word.length - ending.length >= 3 && word.endsWith(ending))
      return word.slice(0, -ending.length);
  }
  return word;
}

/** The words that carry meaning, each by its stem. */
export function contentWords(text: string): Set<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => !STOP_WORDS.has(word)).flatMap(split));
}

/** Scripts that put no spaces between words: there, each two letters in a row count as a word. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

function split(word: string): string[] {
  if (!UNSPACED.test(word)) return [stem(word)];
  const letters = [...word];
  if (letters.length < 2) return letters;
  return letters.slice(1).map((letter, i) => `${letters[i]}${letter}`);
}

const FEW_WORDS = 64;

/** What many texts are compared with. */
export class Query {
  readonly #words: ReadonlySet<string>;
  /** Finds what begins like a word of the query: most texts are told apart by that alone. */
  readonly #likely: RegExp | null;

  constructor(text: string) {
    this.#words = contentWords(text);
    // Of letters and digits alone. With many, most texts have one.
    const words = [...this.#words];
    this.#likely = words.length <= FEW_WORDS ? new RegExp(words.join("|"), "u") : null;
  }

  /** How many words a text has in common with it. */
  score(text: string): number {
    if (this.#words.size === 0 || this.#likely?.test(text.toLowerCase()) === false) return 0;
    return sharedWords(this.#words, contentWords(text));
  }
}

/** How many words two texts have in common. */
export function sharedWords(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let count = 0;
  for (const word of a) if (b.has(word)) count++;
  return count;
}

/** The name that is nearest to a word, a few letters off at the most; undefined if none is. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, distance: editDistance(word.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.min(LETTERS_OFF_MAX, name.length - 2))
    .sort((a, b) => a.distance - b.distance);
  return best?.name;
}

const LETTERS_OFF_MAX = 2;

/** Levenshtein's. */
function editDistance(a: string, b: string): number {
  // No name is so long; and the work would be the product of the lengths.
  if (Math.abs(a.length - b.length) > LETTERS_OFF_MAX) return LETTERS_OFF_MAX + 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, replaced);
    }
    row = next;
  }
  return row[b.length] as number;
}
