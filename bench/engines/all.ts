// The engines by name: which of them are installed, how one is made, and how PostgreSQL is started and stopped around it all.

import { join } from "node:path";
import { lotCount } from "../graph.ts";
import type { Findings } from "../measure.ts";
import { emptyFolder, workFolder } from "../place.ts";
import { CheeseDb } from "./cheesedb.ts";
import type { Engine } from "./engine.ts";
import { hasLadybug, LadybugDb, ladybugVersion } from "./ladybug.ts";
import { hasPostgres, Postgres, PostgresServer, postgresVersion } from "./postgres.ts";
import { Sqlite } from "./sqlite.ts";

export type PeerName = "sqlite" | "postgres" | "ladybug";
export type EngineName = PeerName | "cheesedb";

export const TITLES: Record<EngineName, string> = {
  cheesedb: "cheesedb",
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  ladybug: "LadybugDB",
};

/** @param folder for PostgreSQL, its server's */
export function makeEngine(name: EngineName, folder: string, memories: number): Engine {
  const lots = lotCount(memories);
  if (name === "sqlite") return new Sqlite(folder, lots);
  if (name === "postgres") return new Postgres(folder, lots);
  if (name === "ladybug") return new LadybugDb(folder, lots);
  return new CheeseDb(folder);
}

/** What cheesedb is compared with, as far as it is installed. What is missing is told. */
export class Peers {
  readonly names: PeerName[] = [];
  readonly #server = new PostgresServer(join(workFolder(), "postgres"));

  constructor(findings: Findings, wanted: PeerName[]) {
    for (const name of wanted) {
      const isThere = name === "sqlite" || (name === "postgres" ? hasPostgres() : hasLadybug());
      if (!isThere) {
        findings.missing(TITLES[name]);
        continue;
      }
      const version =
        name === "sqlite"
          ? (process.versions.sqlite ?? "")
          : name === "postgres"
            ? postgresVersion()
            : ladybugVersion();
      findings.version(TITLES[name], version);
      this.names.push(name);
    }
  }

  /** Runs some work with the server up, and ends the server whatever happens. */
  async around(work: () => Promise<void>) {
    const hasServer = this.names.includes("postgres");
    if (hasServer) this.#server.start();
    try {
      await work();
    } finally {
      if (hasServer) this.#server.stop();
    }
  }

  /** Where a peer is to keep its data; empty, but for PostgreSQL, which drops its own tables. */
  folderOf(name: PeerName): string {
    return name === "postgres" ? this.#server.folder : emptyFolder(name);
  }
}
