#!/usr/bin/env node
// Starts the command line on the build. On a Node that is too old it starts again under the checkout's pinned one, or says
// what to install. Plain JavaScript, so that any Node can read it.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import module from "node:module";
import { constants, homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { NODE_HINT, nodeProblem } from "../dist/src/node.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const problem = nodeProblem();

if (problem === null) {
  // In the user's own folder: one that others can write to could be made to hold their code.
  const { NODE_COMPILE_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = XDG_CACHE_HOME || join(homedir(), ".cache");
  module.enableCompileCache(NODE_COMPILE_CACHE || join(cache, "cheesedb"));
  const { start, COMMANDS } = await import("../dist/cli/index.js");
  await start(process.argv.slice(2), root, "./dist/cli/index.js", COMMANDS);
} else {
  const pinned = join(root, "node_modules", "node", "bin", "node");
  if (process.env.CHEESEDB_RESTARTED || !existsSync(pinned)) {
    process.stderr.write(`Error: ${problem}.\n${NODE_HINT}\n`);
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
