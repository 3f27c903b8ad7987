// Every example is a program that checks itself: it ends well, and leaves nothing behind.

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { tempFolder } from "./helpers.ts";

const FOLDER = fileURLToPath(new URL("../examples", import.meta.url));
const PROGRAMS = readdirSync(FOLDER).filter((name) => name.endsWith(".ts"));

test.each(PROGRAMS)("examples/%s does what it says", (name) => {
  const temporary = join(tempFolder(), "tmp");
  mkdirSync(temporary);
  const env = { ...process.env, TMPDIR: temporary };
  const said = execFileSync(process.execPath, [join(FOLDER, name)], { env, encoding: "utf8" });
  expect(said.trim()).not.toBe("");
  expect(readdirSync(temporary)).toEqual([]);
});
