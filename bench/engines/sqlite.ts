// SQLite through node:sqlite, with the SQL that was the fastest of eleven tried: rounds over temporary tables, and the count
// of a memory's legs kept on each edge, so that a memory with one leg needs no check. WAL, synchronous=FULL.

import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { edgesOf, type Graph, textOf } from "../graph.ts";
import type { Engine } from "./engine.ts";

const SETTINGS = `
  pragma journal_mode = wal; pragma synchronous = full; pragma temp_store = memory;
  pragma cache_size = -524288; pragma mmap_size = 2147483648;`;
const TABLES = `
  create table lot(id integer primary key, name text);
  create table mem(id integer primary key, text text not null);
  create table par(child integer, leg integer, parent integer, nlegs integer, primary key(child, leg, parent)) without rowid;
  create table dead(id integer primary key);`;
/** A leg of c that holds. */
const HOLDS = `exists(select 1 from par q left join dead d on d.id = q.parent
  where q.child = c group by q.leg having count(d.id) = 0)`;

export class Sqlite implements Engine {
  readonly #file: string;
  readonly #statements = new Map<string, StatementSync>();
  #db: DatabaseSync | null = null;
  #erased = false;
  #lots = 0;

  constructor(folder: string, lots: number) {
    this.#file = join(folder, "bench.sqlite");
    this.#lots = lots;
  }

  static version(): string {
    return process.versions.sqlite ?? "";
  }

  get #open(): DatabaseSync {
    if (!this.#db) throw new Error("not open");
    return this.#db;
  }

  #run(sql: string, ...values: (number | string)[]) {
    let statement = this.#statements.get(sql);
    if (!statement) this.#statements.set(sql, (statement = this.#open.prepare(sql)));
    return statement.run(...values);
  }

  async load(graph: Graph): Promise<number> {
    this.#db = new DatabaseSync(this.#file);
    const { lots, memories } = graph;
    const texts = Array.from({ length: memories }, (_, i) => textOf(lots + 1 + i));
    const edges = Int32Array.from(flat(graph));
    const begun = performance.now();
    this.#open.exec(SETTINGS + TABLES);
    this.#open.exec("begin");
    const lot = this.#open.prepare("insert into lot values(?, ?)");
    const memory = this.#open.prepare("insert into mem values(?, ?)");
    const edge = this.#open.prepare("insert into par values(?, ?, ?, ?)");
    for (let i = 1; i <= lots; i++) lot.run(i, `lot ${i}`);
    for (let i = 0; i < memories; i++) memory.run(lots + 1 + i, texts[i] as string);
    for (let e = 0; e < edges.length; e += 4)
      edge.run(
        edges[e] as number,
        edges[e + 1] as number,
        edges[e + 2] as number,
        edges[e + 3] as number,
      );
    this.#open.exec("create index par_up on par(parent, child, nlegs); commit");
    this.#open.exec("analyze; pragma wal_checkpoint(truncate)");
    return performance.now() - begun;
  }

  async open() {
    this.#db = new DatabaseSync(this.#file);
    this.#open.exec(SETTINGS);
    this.#open.exec("pragma secure_delete = on");
    this.#open.exec(
      "create temp table front(id integer primary key); create temp table next(id integer primary key)",
    );
  }

  async recall(lot: number, erase: boolean) {
    this.#erased = erase;
    this.#open.exec("begin immediate");
    this.#run("insert or ignore into dead values(?)", lot);
    this.#run("delete from front");
    this.#run("insert into front values(?)", lot);
    for (;;) {
      this.#run("delete from next");
      const { changes } = this.#run(
        `insert into next select c from
          (select distinct p.child c, p.nlegs n from front cross join par p on p.parent = front.id)
          where not exists(select 1 from dead where id = c) and (n = 1 or not ${HOLDS})`,
      );
      if (changes === 0) break;
      this.#run("insert into dead select id from next");
      this.#run("delete from front");
      this.#run("insert into front select id from next");
    }
    if (erase) {
      this.#run("delete from mem where id in (select id from dead)");
      this.#run("delete from par where child in (select id from dead)");
    }
    this.#open.exec("commit");
    if (erase) this.#open.exec("pragma wal_checkpoint(truncate)");
  }

  async removed() {
    const rows = this.#open.prepare("select id from dead where id > ?").all(this.#lots);
    this.#open.exec("delete from dead");
    if (!this.#erased) this.#open.exec("pragma wal_checkpoint(truncate)");
    return rows.map(({ id }) => Number(id));
  }

  async insert(id: number, text: string, parent: number) {
    this.#run("begin immediate");
    this.#add(id, text, parent);
    this.#run("commit");
  }

  async insertMany(ids: number[], texts: string[], parents: number[]) {
    this.#run("begin immediate");
    for (const [i, id] of ids.entries()) this.#add(id, texts[i] as string, parents[i] as number);
    this.#run("commit");
  }

  #add(id: number, text: string, parent: number) {
    this.#run("insert into mem values(?, ?)", id, text);
    this.#run("insert into par values(?, 0, ?, 1)", id, parent);
  }

  async lookUp(id: number) {
    const row = this.#open.prepare("select text from mem where id = ?").get(id);
    const legs = this.#open.prepare("select leg, parent from par where child = ?").all(id);
    if (!row || legs.length === 0) throw new Error(`memory ${id} is not there`);
  }

  async bytes() {
    return statSync(this.#file).size;
  }

  async close() {
    this.#statements.clear();
    this.#open.exec("pragma wal_checkpoint(truncate)");
    this.#open.close();
  }
}

function* flat(graph: Graph): Generator<number> {
  for (const edge of edgesOf(graph)) yield* edge;
}
