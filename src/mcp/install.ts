// The set-up of an AI app for the MCP server: what it needs to be told, and the change to a project's own file.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { CheeseError } from "../index.ts";

export const APPS = ["claude-code", "claude-desktop", "cursor", "vscode"] as const;
export type App = (typeof APPS)[number];

/** Apps that keep their servers in a file of the project; null for one that keeps them elsewhere. */
const PROJECT_FILES: Record<App, string | null> = {
  "claude-code": ".mcp.json",
  "claude-desktop": null,
  cursor: join(".cursor", "mcp.json"),
  vscode: join(".vscode", "mcp.json"),
};
export const INSTALLABLE = APPS.filter((app) => PROJECT_FILES[app] !== null);

export interface ServerEntry {
  type?: "stdio";
  command: string;
  args: string[];
}

export interface Launch {
  /** The Node that runs now, and the script that it runs: absolute. */
  node: string;
  script: string;
  agent: string;
  store: string;
  readOnly: boolean;
  mayErase: boolean;
}

export const SERVER_NAME = "cheesedb";

function serversKey(app: App): "mcpServers" | "servers" {
  return app === "vscode" ? "servers" : "mcpServers";
}

export function serverEntry(
  app: App,
  { node, script, agent, store, readOnly, mayErase }: Launch,
): ServerEntry {
  const flags = [...(readOnly ? ["--read-only"] : []), ...(mayErase ? [] : ["--no-erase"])];
  const args = [script, "mcp", "--store", store, ...flags, "--", agent];
  return { ...(app === "vscode" && { type: "stdio" as const }), command: node, args };
}

/** The whole of a file that holds nothing else. */
export function configFor(app: App, entry: ServerEntry): Record<string, unknown> {
  return { [serversKey(app)]: { [SERVER_NAME]: entry } };
}

export interface Change {
  file: string;
  before: string | null;
  after: string;
}

/**
 * The change to a project's file; everything that stands in it is kept.
 *
 * @param project the project's folder
 * @throws CheeseError BAD_INPUT when the file is there and is no JSON object; USAGE when the app keeps no such file
 */
export function planInstall(app: App, project: string, entry: ServerEntry): Change {
  const path = PROJECT_FILES[app];
  if (path === null) {
    throw new CheeseError("USAGE", `${app} keeps its servers in no file of the project`, {
      hint: `Use --print-config ${app}, and paste it into its settings.`,
    });
  }
  const file = join(project, path);
  const before = existsSync(file) ? readFileSync(file, "utf8") : null;
  const config = before === null || before.trim() === "" ? {} : parseConfig(before, file);
  const key = serversKey(app);
  const servers = config[key] ?? {};
  if (typeof servers !== "object" || servers === null || Array.isArray(servers)) {
    throw new CheeseError("BAD_INPUT", `"${key}" in ${file} is no object`, { file });
  }
  const name = nameFor(servers as Record<string, unknown>, entry);
  const after = { ...config, [key]: { ...servers, [name]: entry } };
  const indent = /^([ \t]+)"/m.exec(before ?? "")?.[1] ?? 2;
  return { file, before, after: `${JSON.stringify(after, null, indent)}\n` };
}

/** The name that this agent has in the file; else one that no other agent has. */
function nameFor(servers: Record<string, unknown>, entry: ServerEntry): string {
  const { agent, store } = servedBy(entry);
  const isOwn = (name: string) => {
    const other = servedBy(servers[name]);
    return other.agent === agent && (other.store ?? store) === store;
  };
  const ours = Object.keys(servers).filter((name) => name.startsWith(SERVER_NAME));
  const own = ours.find((name) => servedBy(servers[name]).agent !== undefined && isOwn(name));
  if (own !== undefined) return own;
  const named = `${SERVER_NAME}-${agent?.replace(/[^A-Za-z0-9_-]+/g, "-") ?? "agent"}`;
  // One that serves no agent is an old one of ours.
  const isFree = (name: string) =>
    !Object.hasOwn(servers, name) || servedBy(servers[name]).agent === undefined;
  if (isFree(SERVER_NAME)) return SERVER_NAME;
  for (let number = 1; ; number++) {
    const name = number === 1 ? named : `${named}-${number}`;
    if (isFree(name)) return name;
  }
}

/** Which agent of which store an entry serves, as far as its arguments say. */
function servedBy(entry: unknown): { agent?: string; store?: string } {
  const { args } = (entry ?? {}) as { args?: unknown };
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string")) return {};
  const words: string[] = args.slice(args.indexOf("mcp") + 1);
  const end = words.indexOf("--");
  const flags = end === -1 ? words : words.slice(0, end);
  const at = flags.indexOf("--store");
  const store = at === -1 ? undefined : flags[at + 1];
  const plain = flags.filter((word, i) => !word.startsWith("-") && (at === -1 || i !== at + 1));
  const agent = end === -1 ? (args.includes("mcp") ? plain[0] : undefined) : words[end + 1];
  return { ...(agent !== undefined && { agent }), ...(store !== undefined && { store }) };
}

function parseConfig(text: string, file: string): Record<string, unknown> {
  let config: unknown;
  try {
    config = JSON.parse(text);
  } catch (cause) {
    throw new CheeseError("BAD_INPUT", `${file} is no plain JSON, and is left as it is`, {
      cause,
      file,
      hint: "Add the server by hand: --print-config prints it.",
    });
  }
  if (typeof config !== "object" || config === null || Array.isArray(config))
    throw new CheeseError("BAD_INPUT", `${file} holds no JSON object`, { file });
  return config as Record<string, unknown>;
}

/** Where what is printed goes. */
export const PASTE_INTO: Record<App, string> = {
  "claude-code": "into .mcp.json in the project's folder",
  "claude-desktop":
    "into claude_desktop_config.json: Settings, Developer, Edit Config; then start the app anew",
  cursor: "into .cursor/mcp.json in the project's folder, or ~/.cursor/mcp.json for all",
  vscode: "into .vscode/mcp.json in the project's folder",
};

/** Old or new after a crash. A link stays one, and who may read the file may read it still: it may hold other servers' keys. */
export function carryOut({ file, after }: Change) {
  mkdirSync(dirname(file), { recursive: true });
  const real = existsSync(file) ? realpathSync(file) : file;
  const mode = existsSync(real) ? statSync(real).mode & 0o777 : undefined;
  const temporary = `${real}.tmp-cheesedb`;
  rmSync(temporary, { force: true });
  writeFileSync(temporary, after, { flag: "wx", flush: true, ...(mode !== undefined && { mode }) });
  if (mode !== undefined) chmodSync(temporary, mode);
  renameSync(temporary, real);
}
