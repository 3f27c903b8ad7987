// A thread that inspects the segments that it is told of.

import { parentPort } from "node:worker_threads";
import { realDisk } from "./disk.ts";
import { type Inspection, inspect } from "./inspect.ts";

parentPort?.on("message", (job: Inspection) => {
  const file = realDisk.open(job.path, "read");
  try {
    const steps = inspect(job, file);
    for (;;) {
      const step = steps.next();
      if (!step.done) continue;
      parentPort?.postMessage(step.value, [step.value.areas.buffer]);
      return;
    }
  } finally {
    file.close();
  }
});
