// Builds dist/: the library with its types, as modules of its own, and the command line with all that it needs in few files,
// because each file that Node looks for and reads costs a command more than what is in it.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
/** What oclif loads to find commands by pattern and to load plugins: here the commands are in a table. */
const LEFT_OUT = ["tinyglobby", "minimatch", "lilconfig", "wsl-utils"];
const NOTHING = "\0nothing";
/** Loaded only by the commands that need them. */
const SELDOM =
  /node_modules\/(openai|zod|ora|@modelcontextprotocol)\/|src\/(llm|mcp)\/|cli\/doctor/;

rmSync(dist, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [join(root, "node_modules/typescript/bin/tsc"), "-p", join(root, "tsconfig.build.json")],
  {
    stdio: "inherit",
  },
);

const leftOut = {
  name: "left-out",
  resolveId: (id) => (LEFT_OUT.includes(id) ? NOTHING : null),
  load: (id) => (id === NOTHING ? "export default {};" : null),
};
const options = { cwd: root, platform: "node", plugins: [leftOut] };
const form = { dir: join(dist, "cli"), format: "esm", entryFileNames: "[name].js", minify: true };
const cli = await rolldown({ ...options, input: { index: "commands/index.ts" } });
const { output } = await cli.write({
  ...form,
  chunkFileNames: "[name]-[hash].js",
  codeSplitting: { groups: [{ name: "main", test: (id) => !SELDOM.test(id) }] },
});
// A thread starts from a file of its own.
const worker = await rolldown({ ...options, input: { inspectworker: "src/inspectworker.ts" } });
await worker.write(form);

const packages = new Set(
  output
    .flatMap(({ moduleIds = [] }) => moduleIds)
    .map((id) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(id)?.[0])
    .filter(Boolean),
);
const licences = [...packages].sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8") : ""}`;
});
writeFileSync(join(dist, "cli", "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n`));
