// Long work told in steps, so that who carries it out may give way between them.

/** Carries out all of it in one go. */
export function allAtOnce<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

const PART = 64 * 1024;

/** Work on 1 .. last, a part after the other, for a step that takes some millionths of a second. */
export function* inParts(
  last: number,
  work: (from: number, to: number) => void,
): Generator<undefined> {
  for (let from = 1; from <= last; from += PART) {
    work(from, Math.min(from + PART, last + 1));
    yield;
  }
}
