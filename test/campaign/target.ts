// What is fuzzed: something that reads what may come from anywhere, and either makes sense of it or refuses it with a code.

import { CheeseError } from "../../src/index.ts";
import type { Random } from "./mutate.ts";

export interface Target {
  /** In the counts: "fuzz inputs: NAME". */
  name: string;
  /** How often it has its turn. */
  share: number;
  make(random: Random): Buffer;
  /** Throws when the input is neither taken nor refused as it should be. */
  check(input: Buffer): void | Promise<void>;
  /** What may be allocated for an input of so many bytes; not metered if not said. */
  bytesMax?(inputBytes: number): number;
}

/** What a call gives; null when it is refused, as data may be: with a code and a hint. Anything else thrown is a fault. */
export function refusable<T>(call: () => T): T | null {
  try {
    return call();
  } catch (error) {
    return refusedBy(error);
  }
}

export async function refusableLater<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call();
  } catch (error) {
    return refusedBy(error);
  }
}

function refusedBy(error: unknown): null {
  if (!(error instanceof CheeseError)) throw error;
  if (error.code === "UNEXPECTED" || !error.message || !error.hint) throw error;
  return null;
}

export function must(isSo: boolean, what: string): asserts isSo {
  if (!isSo) throw new Error(what);
}
