// PostgreSQL, where it is installed: a server of our own in the bench's folder, spoken to over its socket by the pg package.
// The fastest of six ways tried: rounds over arrays in PL/pgSQL, and the count of a memory's legs kept on each edge.

import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { edgesOf, type Graph, textOf } from "../graph.ts";
import { type Engine, peerPackage, peerVersion } from "./engine.ts";

const DEBIAN = "/usr/lib/postgresql";
const USER = "bench";
const SETTINGS = `
listen_addresses = ''
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = 2GB
work_mem = 256MB
maintenance_work_mem = 1GB
max_wal_size = 8GB
wal_level = minimal
max_wal_senders = 0
jit = off
autovacuum = off
max_parallel_workers_per_gather = 0
random_page_cost = 1.1
effective_cache_size = 8GB
`;
const HOLDS = `exists(select 1 from par q left join dead d on d.id = q.parent
  where q.child = s.c group by q.leg having count(d.id) = 0)`;
const RECALL = `
create or replace function recall(poison int) returns int language plpgsql as $$
declare front int[] := array[poison]; next int[]; total int := 0;
begin
  insert into dead values(poison) on conflict do nothing;
  loop
    select array_agg(c) into next from
      (select distinct p.child c, p.nlegs n from unnest(front) u(id) join par p on p.parent = u.id) s
      where not exists(select 1 from dead where id = c) and (s.n = 1 or not ${HOLDS});
    exit when next is null;
    insert into dead select unnest(next);
    total := total + cardinality(next);
    front := next;
  end loop;
  return total;
end $$`;

/** Only what is used of the pg package. */
interface Client {
  connect(): Promise<void>;
  query(
    query: string | { name?: string; text: string; rowMode?: "array" },
    values?: unknown[],
  ): Promise<{ rows: unknown[][] }>;
  end(): Promise<void>;
}
type Pg = { Client: new (options: object) => Client };

/** Where the server's programs are: PG_BIN, else the newest that Debian installed; null where there is none. */
function binFolder(): string | null {
  if (process.env.PG_BIN) return process.env.PG_BIN;
  if (!existsSync(DEBIAN)) return null;
  const versions = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
  const found = versions.find((version) => existsSync(join(DEBIAN, version, "bin", "initdb")));
  return found ? join(DEBIAN, found, "bin") : null;
}

export function hasPostgres(): boolean {
  return binFolder() !== null && peerPackage("pg") !== null;
}

export function postgresVersion(): string {
  const { stdout } = spawnSync(join(binFolder() ?? "", "postgres"), ["--version"], {
    encoding: "utf8",
  });
  return `${stdout.match(/[0-9.]+/)?.[0]} (pg ${peerVersion("pg")})`;
}

/** A server of our own. Not as root: it refuses, so then as the user that came with the package. */
export class PostgresServer {
  readonly folder: string;
  readonly #bin: string;

  constructor(folder: string) {
    this.folder = folder;
    this.#bin = binFolder() ?? "";
  }

  start() {
    const { folder } = this;
    if (!existsSync(join(folder, "data"))) {
      mkdirSync(folder, { recursive: true });
      // The path above must let the server's user through.
      for (
        let above = folder;
        above.startsWith(tmpdir()) && above !== tmpdir();
        above = join(above, "..")
      )
        chmodSync(above, 0o755);
      if (process.getuid?.() === 0) chownSync(folder, idOf("-u"), idOf("-g"));
      this.#sh(`${this.#bin}/initdb -D ${folder}/data -A trust -U ${USER} -E UTF8 --locale=C -N`);
      appendFileSync(`${folder}/data/postgresql.conf`, SETTINGS);
      appendFileSync(`${folder}/data/postgresql.conf`, `unix_socket_directories = '${folder}'\n`);
    }
    this.#sh(`${this.#bin}/pg_ctl -D ${folder}/data -w -l ${folder}/log start`);
  }

  stop() {
    this.#sh(`${this.#bin}/pg_ctl -D ${this.folder}/data -w -m fast stop`);
  }

  #sh(command: string) {
    const isRoot = process.getuid?.() === 0;
    const [program, ...args] = isRoot
      ? ["su", "postgres", "-s", "/bin/sh", "-c", command]
      : ["sh", "-c", command];
    // The server keeps what it inherits: a pipe would never end.
    const { status } = spawnSync(program as string, args, { cwd: tmpdir(), stdio: "ignore" });
    if (status !== 0) throw new Error(`failed: ${command}`);
  }
}

function idOf(flag: string): number {
  return Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
}

export class Postgres implements Engine {
  readonly #folder: string;
  readonly #lots: number;
  #client: Client | null = null;

  /** @param folder the server's */
  constructor(folder: string, lots: number) {
    this.#folder = folder;
    this.#lots = lots;
  }

  get #open(): Client {
    if (!this.#client) throw new Error("not open");
    return this.#client;
  }

  async #connect() {
    const { Client } = peerPackage("pg") as Pg;
    this.#client = new Client({ host: this.#folder, user: USER, database: "postgres" });
    await this.#client.connect();
  }

  async load(graph: Graph): Promise<number> {
    const { lots, memories } = graph;
    await this.#connect();
    const db = this.#open;
    await db.query("drop table if exists lot, mem, par, dead");
    const file = (name: string) => join(this.#folder, `${name}.copy`);
    writeLines(
      file("lot"),
      count(1, lots, (id) => `${id}\tlot ${id}\n`),
    );
    writeLines(
      file("mem"),
      count(lots + 1, lots + memories, (id) => `${id}\t${textOf(id)}\n`),
    );
    writeLines(
      file("par"),
      (function* () {
        for (const [child, leg, parent, legs] of edgesOf(graph))
          yield `${child}\t${parent}\t${leg}\t${legs}\n`;
      })(),
    );
    const begun = performance.now();
    await db.query("begin");
    await db.query(
      `create table lot(id int not null, name text);
       create table mem(id int not null, text text not null);
       create table par(child int not null, parent int not null, leg smallint not null, nlegs smallint not null);
       create table dead(id int primary key)`,
    );
    for (const name of ["lot", "mem", "par"]) await db.query(`copy ${name} from '${file(name)}'`);
    await db.query(
      `alter table lot add primary key(id); alter table mem add primary key(id);
       create index par_down on par(child, leg, parent);
       create index par_up on par(parent) include (child, nlegs)`,
    );
    await db.query("commit");
    await db.query("vacuum analyze");
    await db.query("checkpoint");
    const ms = performance.now() - begun;
    await db.query(RECALL);
    return ms;
  }

  async open() {
    await this.#connect();
  }

  async recall(lot: number, erase: boolean) {
    const db = this.#open;
    if (!erase) {
      await db.query("select recall($1)", [lot]);
      return;
    }
    await db.query("begin");
    await db.query("select recall($1)", [lot]);
    await db.query("delete from mem m using dead d where m.id = d.id");
    await db.query("delete from par p using dead d where p.child = d.id");
    await db.query("commit");
  }

  async removed() {
    const text = "select id from dead where id > $1";
    const { rows } = await this.#open.query({ text, rowMode: "array" }, [this.#lots]);
    await this.#open.query("truncate dead");
    await this.#open.query("checkpoint");
    return rows.map(([id]) => Number(id));
  }

  async insert(id: number, text: string, parent: number) {
    const one = "with m as (insert into mem values($1, $2)) insert into par values($1, $3, 0, 1)";
    await this.#open.query({ name: "one", text: one }, [id, text, parent]);
  }

  async insertMany(ids: number[], texts: string[], parents: number[]) {
    const many = `with m as (insert into mem select * from unnest($1::int[], $2::text[]))
      insert into par select a, b, 0, 1 from unnest($1::int[], $3::int[]) u(a, b)`;
    await this.#open.query({ name: "many", text: many }, [ids, texts, parents]);
  }

  async lookUp(id: number) {
    const { rows } = await this.#open.query(
      {
        text: "select text, leg, parent from mem join par on child = id where id = $1",
        rowMode: "array",
      },
      [id],
    );
    if (rows.length === 0) throw new Error(`memory ${id} is not there`);
  }

  async bytes() {
    const { rows } = await this.#open.query({
      text: "select sum(pg_total_relation_size(oid)) from pg_class where relname in ('lot', 'mem', 'par', 'dead')",
      rowMode: "array",
    });
    return Number(rows[0]?.[0]);
  }

  async close() {
    await this.#client?.end();
  }
}

function* count(from: number, to: number, line: (id: number) => string): Generator<string> {
  for (let id = from; id <= to; id++) yield line(id);
}

export function writeLines(path: string, lines: Iterable<string>) {
  writeFileSync(path, "", { mode: 0o644 });
  let some = "";
  for (const line of lines) {
    some += line;
    if (some.length < 1 << 20) continue;
    appendFileSync(path, some);
    some = "";
  }
  appendFileSync(path, some);
}
