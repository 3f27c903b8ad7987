// Giving way: how long work leaves the event loop to others, and how it waits.

/** Lets everything else that waits have its turn. */
export function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Carries out work that is told in steps, and gives way between them whenever `sliceMs` are over.
 *
 * @throws the signal's reason; what the work throws
 */
export async function inSlices<T>(
  steps: Iterator<unknown, T>,
  sliceMs: number,
  signal?: AbortSignal,
): Promise<T> {
  let begun = performance.now();
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done) return step.value;
    if (performance.now() - begun < sliceMs) continue;
    await tick();
    if (signal?.aborted) {
      // What it holds is let go.
      steps.return?.();
      throw signal.reason;
    }
    begun = performance.now();
  }
}
