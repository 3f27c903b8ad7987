// On a Node that is too old nothing is written, and what to install is said: by the library, and on the command line.

import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { CLI } from "./cli-helpers.ts";
import { tempFolder } from "./helpers.ts";

const LIBRARY = fileURLToPath(new URL("../dist/src/index.js", import.meta.url));

/** Runs something on this Node, which says that it is another one. */
function onNode(version: string, folder: string, args: string[]) {
  const disguise = join(folder, "disguise.mjs");
  const versions = `{ ...process.versions, node: ${JSON.stringify(version)} }`;
  writeFileSync(disguise, `Object.defineProperty(process, "versions", { value: ${versions} });\n`);
  return spawnSync(process.execPath, ["--import", disguise, ...args], {
    encoding: "utf8",
    // As where no pinned Node stands beside it.
    env: { HOME: folder, CHEESEDB_RESTARTED: "1" },
  });
}

test("the library refuses it before anything is written, and opens a store on one that will do", () => {
  const folder = tempFolder();
  const store = join(folder, "store");
  const program = join(folder, "program.mjs");
  writeFileSync(
    program,
    `import { Store } from ${JSON.stringify(LIBRARY)};
    await Store.open(${JSON.stringify(store)}).then(
      () => console.log("opened"),
      ({ code, message, hint }) => console.log([code, message, hint].join("|")),
    );`,
  );
  expect(onNode("20.20.2", folder, [program])).toMatchObject({
    stdout:
      "UNEXPECTED|cheesedb needs Node 22.16 or newer, and this is 20.20.2|Install a current Node from nodejs.org.\n",
    stderr: "",
  });
  expect(existsSync(store)).toBe(false);
  expect(onNode("22.16.0", folder, [program])).toMatchObject({ stdout: "opened\n", stderr: "" });
  expect(existsSync(store)).toBe(true);
});

test("the command line says the same", () => {
  const folder = tempFolder();
  const [, script = ""] = CLI;
  const args = [script, "agent", "create", "alice", "--store", join(folder, "store")];
  expect(onNode("22.15.1", folder, args)).toMatchObject({
    status: 1,
    stdout: "",
    stderr:
      "Error: cheesedb needs Node 22.16 or newer, and this is 22.15.1.\nInstall a current Node from nodejs.org.\n",
  });
  expect(existsSync(join(folder, "store"))).toBe(false);
});
