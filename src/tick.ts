// Giving way: how long work leaves the event loop to others, and how it waits.

/** Lets everything else that waits have its turn. */
export function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
