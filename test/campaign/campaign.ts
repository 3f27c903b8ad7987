// What a campaign is: a search for a fault that goes on as long as it is let, counts what it tried, and leaves behind what failed.

/** How far a campaign goes. */
export interface Budget {
  /** What it does follows from this alone. */
  readonly seed: number;
  /** Whether to go on, asked between two cases with the number of those done. */
  more(done: number): boolean;
  /** The folder in which failing images and inputs are left. */
  readonly keep: string;
}

/** What a campaign tried, by name ("crash states": 12345), and what it found. */
export interface Tally {
  counts: Record<string, number>;
  failures: Failure[];
}

export interface Failure {
  /** What is wrong, in a sentence or two. */
  what: string;
  /** What repeats it: a seed, a workload, the folder of an image. */
  repeat: string;
}

export type Campaign = (budget: Budget) => Promise<Tally>;

/** A budget of so many cases. */
export function cases(count: number, seed: number, keep: string): Budget {
  return { seed, keep, more: (done) => done < count };
}
