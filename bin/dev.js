#!/usr/bin/env node
// Starts the command line on the sources, without a build. Needs Node 22.18 or newer, which reads TypeScript as it is.

const { start } = await import("../src/cli/start.ts");
await start(process.argv.slice(2), import.meta.url, "./commands");
