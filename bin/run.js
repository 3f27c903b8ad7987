#!/usr/bin/env node
// Starts the command line on the build. On a Node that is too old it starts again under the checkout's pinned one, or says
// what to install. Plain JavaScript, so that any Node can read it.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import module from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const [major, minor] = process.versions.node.split(".").map(Number);

if (major > 22 || (major === 22 && minor >= 16)) {
  module.enableCompileCache?.();
  const { start } = await import("../dist/src/cli/start.js");
  await start(process.argv.slice(2), import.meta.url);
} else {
  const pinned = fileURLToPath(new URL("../node_modules/node/bin/node", import.meta.url));
  if (process.env.CHEESEDB_RESTARTED || !existsSync(pinned)) {
    process.stderr.write(
      `cheesedb needs Node 22.16 or newer, and this is ${process.versions.node}: install a current Node from nodejs.org.\n`,
    );
    process.exit(1);
  }
  const child = spawn(pinned, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { ...process.env, CHEESEDB_RESTARTED: "1" },
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
