// Fuzzing the program as it is run: command lines, and lines told to its MCP server. Each is a process of its own, so few.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { codes } from "../../src/index.ts";
import { FOLDER, kitchen } from "./kitchen.ts";
import { below, mutate, mutateText, mutateValue, pick, type Random } from "./mutate.ts";
import { must, type Target } from "./target.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BIN = join(ROOT, "bin", "run.js");
/** Whether there is a program to run: npm run build makes it. */
export const isBuilt = existsSync(join(ROOT, "dist", "cli", "index.js"));

const STACK = /\n? {4}at .*:\d+:\d+/;
const KILL_AFTER_MS = 60_000;
const exits = new Set<number | null>([0, 1, ...Object.values(codes).map(({ exit }) => exit)]);

interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the program on a store of its own, which is gone afterwards. */
async function run(args: string[], input: string | Buffer): Promise<Ran> {
  const { image } = await kitchen();
  const folder = mkdtempSync(join(tmpdir(), "cheesedb-fuzz-"));
  try {
    for (const [path, bytes] of image) {
      const at = join(folder, "store", path.slice(FOLDER.length));
      mkdirSync(bytes === null ? at : dirname(at), { recursive: true, mode: 0o700 });
      if (bytes !== null) writeFileSync(at, bytes, { mode: 0o600 });
    }
    const ran = spawnSync(process.execPath, [BIN, ...args], {
      cwd: folder,
      input,
      encoding: "utf8",
      timeout: KILL_AFTER_MS,
      killSignal: "SIGKILL",
      maxBuffer: 2 ** 28,
      env: { PATH: process.env.PATH ?? "", HOME: folder, CHEESEDB_DIR: join(folder, "store") },
    });
    must(
      ran.error === undefined && ran.signal === null,
      `it did not end: ${ran.error ?? ran.signal}`,
    );
    return ran;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// ----- command lines -----

const COMMANDS = [
  ["agent", "create", "bob"],
  ["agent", "list"],
  ["agent", "delete", "alice", "--yes"],
  ["lot", "alice", "web_page", "Pune: sun", "--uri", "https://e.com/2"],
  ["remember", "alice", "it is sunny", "--from", "1", "--from", "2,4"],
  ["corroborate", "alice", "4", "--from", "1"],
  ["recall", "alice", "2", "3", "--contact", "--erase", "--dry-run"],
  ["recall", "alice", "--label", "web_page", "--since", "2026-01-01T00:00:00Z", "--yes"],
  ["list", "alice", "--all"],
  ["show", "alice", "4"],
  ["why", "alice", "6", "--depth", "2"],
  ["history", "alice"],
  ["find", "Pune", "--agent", "alice", "--absent"],
  ["verify", "alice", "--expect", "1-00"],
  ["compact", "alice"],
  ["stats"],
  ["export", "alice"],
  ["import", "alice", "-"],
  ["completion", "bash"],
];

/** What a shell can pass on: no NUL, and valid UTF-8. */
const asArgument = (text: string) => text.replaceAll("\0", "").toWellFormed();

const commandLines: Target = {
  name: "command line",
  share: 1,
  make(random) {
    const args = [...pick(random, COMMANDS)];
    for (let i = below(random, 3); i >= 0; i--) {
      const at = 1 + below(random, args.length);
      const kind = below(random, 5);
      if (kind === 0) args.splice(at, 1);
      if (kind === 1) args.splice(at, 0, pick(random, pick(random, COMMANDS)));
      if (kind === 2)
        args.splice(
          at,
          0,
          pick(random, ["--json", "--token", "--wait", "--", "-", "--store", "-h"]),
        );
      if (kind > 2) args[at] = mutateText(random, args[at] ?? "", COMMANDS.flat());
    }
    return Buffer.from(JSON.stringify(args.map(asArgument)));
  },
  async check(input) {
    const args = JSON.parse(input.toString()) as string[];
    const { status, stdout, stderr } = await run(args, "Pune: from a pipe");
    must(exits.has(status), `exit ${status} stands in no table`);
    must(!STACK.test(stdout + stderr), `a stack trace: ${stderr}`);
    must(!`${stdout}${stderr}`.includes("\u001b"), "an escape is let loose");
    must(!/UNEXPECTED/.test(stdout), `something unexpected: ${stdout}`);
    const isJson = args
      .slice(0, args.includes("--") ? args.indexOf("--") : undefined)
      .includes("--json");
    // Help is for people, also where JSON is asked for.
    if (isJson && stdout !== "" && !/^\S.*\n\nUSAGE\n/.test(stdout)) JSON.parse(stdout);
  },
};

// ----- lines to the MCP server -----

const call = (name: string, args: unknown, id: unknown = 7) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

const MESSAGES: unknown[] = [
  { jsonrpc: "2.0", id: 2, method: "tools/list" },
  { jsonrpc: "2.0", id: 3, method: "ping" },
  { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } },
  call("add_source", { label: "x", text: "y" }),
  call("remember", { text: "z", from: [[1], [2, 4]] }),
  call("list_memories", { query: "Pune", limit: 3 }),
  call("explain_memory", { id: 6 }),
  call("recall_bad_source", { ids: [1], mode: "fair", erase: true }),
];

const HELLO = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "fuzz", version: "1" },
  },
};

function messageOf(random: Random): Buffer {
  const message = pick(random, MESSAGES);
  const line = JSON.stringify(random() < 0.7 ? mutateValue(random, message) : message) ?? "";
  const text = (random() < 0.3 ? mutateText(random, line) : line).replaceAll("\n", " ");
  const bytes = Buffer.from(text.toWellFormed());
  return random() < 0.1 ? mutate(random, bytes) : bytes;
}

const mcpLines: Target = {
  name: "lines to the MCP server",
  share: 1,
  make(random) {
    const lines: Buffer[] = [
      Buffer.from(JSON.stringify(random() < 0.9 ? HELLO : mutateValue(random, HELLO))),
    ];
    for (let i = 0; i < 40; i++) lines.push(messageOf(random));
    return Buffer.concat(lines.map((line) => Buffer.concat([line, Buffer.from("\n")])));
  },
  async check(input) {
    const { status, stdout, stderr } = await run(["mcp", "alice"], input);
    must(status === 0, `the server ended with ${status}: ${stderr}`);
    must(!STACK.test(stderr), `a stack trace: ${stderr}`);
    must(!/"UNEXPECTED: /.test(stdout), "something unexpected");
    for (const line of stdout.split("\n"))
      if (line !== "") must(JSON.parse(line).jsonrpc === "2.0", `no protocol: ${line}`);
  },
};

/** None where nothing is built: who counts will see that none was tried. */
export const commands: Target[] = isBuilt ? [commandLines, mcpLines] : [];
