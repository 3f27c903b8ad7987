#!/usr/bin/env node
// Starts the command line on the sources, without a build. Needs Node 22.18 or newer, which reads TypeScript as it is.

import { fileURLToPath } from "node:url";

const { start, COMMANDS } = await import("../commands/index.ts");
const root = fileURLToPath(new URL("..", import.meta.url));
await start(process.argv.slice(2), root, "./commands/index.ts", COMMANDS);
