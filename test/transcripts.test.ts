// Replays the transcripts: what a command prints is what they show. They are documentation, one file a command.
//
//   # …                    words for the reader
//   % alice: …             given a store with an agent, alice, that knows nothing yet
//   % pune: …              given the store of the README instead: lots 1, 2, 3 and memories 4, 5, 6
//   % page.txt: …          given a file, with one more line; "% page.txt x 1000: …" with a thousand
//   $ cheesedb …           a command, in words and quotes, with "< file" if need be; `cat file` shows one
//   …                      what it prints: standard output, then standard error, then [exit N] if that is not 0; an empty line
//
// What differs from run to run is written <so>. In a command, such a word stands for what was shown last in its place.
// UPDATE=1 writes the files anew: read the difference.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { COMMANDS } from "../commands/index.ts";
import { cli, each, emptyStore } from "./cli-helpers.ts";
import { Replay } from "./replay.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(ROOT, "test", "transcripts");
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".txt"));

/** What the transcripts say, and what is printed now. */
const then = new Map(FILES.map((file) => [file, readFileSync(join(FOLDER, file), "utf8")]));
const now = new Map<string, string>();
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  // A few at a time, since each is a row of processes that wait.
  await each(FILES, async (file) => {
    const replay = new Replay(join(folder, file));
    now.set(file, await replay.replay(then.get(file) as string).catch(String));
  });
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(FILES)("%s shows what is printed", async (file) => {
  if (process.env.UPDATE) writeFileSync(join(FOLDER, file), now.get(file) as string);
  else if (file === "doctor.txt" && !(await flushIsReal()))
    console.log("the temporary folder does not flush, as doctor says: doctor.txt is left out");
  else expect(now.get(file)).toBe(then.get(file));
});

test("every command has one", () => {
  const commands = new Set(Object.keys(COMMANDS).map((id) => id.split(":")[0] as string));
  const shown = FILES.map((name) => name.replace(/\.txt$/, ""));
  // mcp speaks a protocol, and not to people.
  const missing = [...commands, "help"].filter((name) => name !== "mcp" && !shown.includes(name));
  expect(missing).toEqual([]);
});

/** Whether the disk under the temporary folder honours a flush: in memory it does not. */
async function flushIsReal(): Promise<boolean> {
  const { store } = await emptyStore();
  const { checks } = (await cli(["doctor", "--json"], { store })).json;
  return checks.find(({ name }: { name: string }) => name === "flush").ok;
}
