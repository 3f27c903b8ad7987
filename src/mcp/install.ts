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
  const name = PROJECT_FILES[app];
  if (name === null) {
    throw new CheeseError("USAGE", `${app} keeps its servers in no file of the project`, {
      hint: `Use --print-config ${app}, and paste it into its settings.`,
    });
  }
  const file = join(project, name);
  const before = existsSync(file) ? readFileSync(file, "utf8") : null;
  const config = before === null || before.trim() === "" ? {} : parseConfig(before, file);
  const key = serversKey(app);
  const servers = config[key] ?? {};
  if (typeof servers !== "object" || servers === null || Array.isArray(servers)) {
    throw new CheeseError("BAD_INPUT", `"${key}" in ${file} is no object`, { file });
  }
  const after = { ...config, [key]: { ...servers, [SERVER_NAME]: entry } };
  const indent = /^([ \t]+)"/m.exec(before ?? "")?.[1] ?? 2;
  return { file, before, after: `${JSON.stringify(after, null, indent)}\n` };
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
