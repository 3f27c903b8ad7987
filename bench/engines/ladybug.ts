// LadybugDB, an embedded graph engine that goes on from kuzu, where it is installed. The fastest right way of four tried: one
// recursive pattern for all that lies below, one query for their legs, the decision in JavaScript, one statement that marks.

import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { edgesOf, type Graph, textOf } from "../graph.ts";
import { type Engine, peerPackage, peerVersion } from "./engine.ts";
import { writeLines } from "./postgres.ts";

const PACKAGE = "@ladybugdb/core";
const POOL_BYTES = 4 * 2 ** 30;
const THREADS = 2;
/** No chain of the graph is longer. */
const STEPS_MAX = 30;

/** Only what is used of the package; its synchronous calls, since the others take a turn of the event loop for each row. */
type Row = Record<string, unknown>;
interface Result {
  getAllSync(): Row[];
  close(): void;
}
interface Connection {
  init(): Promise<void>;
  querySync(text: string): Result | Result[];
  prepareSync(text: string): object;
  executeSync(statement: object, values: object): Result | Result[];
  close(): Promise<void>;
}
interface Database {
  init(): Promise<void>;
  close(): Promise<void>;
}
interface Ladybug {
  Database: new (path: string, poolBytes: number) => Database;
  Connection: new (database: Database, threads: number) => Connection;
}

export function hasLadybug(): boolean {
  return peerPackage(PACKAGE) !== null;
}

export function ladybugVersion(): string {
  return peerVersion(PACKAGE);
}

export class LadybugDb implements Engine {
  readonly #folder: string;
  readonly #lots: number;
  readonly #statements = new Map<string, object>();
  #database: Database | null = null;
  #connection: Connection | null = null;

  constructor(folder: string, lots: number) {
    this.#folder = join(folder, "ladybug");
    this.#lots = lots;
  }

  #query(text: string, values?: object): Row[] {
    const connection = this.#connection;
    if (!connection) throw new Error("not open");
    let results: Result | Result[];
    if (values) {
      let statement = this.#statements.get(text);
      if (!statement) this.#statements.set(text, (statement = connection.prepareSync(text)));
      results = connection.executeSync(statement, values);
    } else results = connection.querySync(text);
    const all = [results].flat();
    const rows = all.at(-1)?.getAllSync() ?? [];
    for (const result of all) result.close();
    return rows;
  }

  async open() {
    const { Database, Connection } = peerPackage(PACKAGE) as Ladybug;
    this.#database = new Database(join(this.#folder, "db"), POOL_BYTES);
    await this.#database.init();
    this.#connection = new Connection(this.#database, THREADS);
    await this.#connection.init();
  }

  async load(graph: Graph): Promise<number> {
    const { lots, memories } = graph;
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder, { recursive: true });
    const [nodes, edges] = [join(this.#folder, "n.csv"), join(this.#folder, "e.csv")];
    writeLines(
      nodes,
      (function* () {
        for (let id = 1; id <= lots; id++) yield `${id},lot ${id},false\n`;
        for (let id = lots + 1; id <= lots + memories; id++) yield `${id},${textOf(id)},false\n`;
      })(),
    );
    writeLines(
      edges,
      (function* () {
        for (const [child, leg, parent, legs] of edgesOf(graph))
          yield `${parent},${child},${leg},${legs}\n`;
      })(),
    );
    const begun = performance.now();
    await this.open();
    this.#query("CREATE NODE TABLE N(id INT64, text STRING, dead BOOLEAN, PRIMARY KEY(id))");
    this.#query("CREATE REL TABLE P(FROM N TO N, leg INT64, nlegs INT64)");
    this.#query(`COPY N FROM '${nodes}' (HEADER=false)`);
    this.#query(`COPY P FROM '${edges}' (HEADER=false)`);
    this.#query("CHECKPOINT");
    const ms = performance.now() - begun;
    rmSync(nodes);
    rmSync(edges);
    return ms;
  }

  async recall(lot: number) {
    this.#query("BEGIN TRANSACTION");
    const below = this.#query(
      `MATCH (a:N {id: $id})-[e:P* SHORTEST 1..${STEPS_MAX}]->(k:N) RETURN k.id AS k`,
      { id: lot },
    );
    const ids = below.map(({ k }) => Number(k));
    const rows = this.#query(
      "UNWIND $ids AS i MATCH (k:N {id: i})<-[e:P]-(p:N) RETURN k.id AS k, e.leg AS l, p.id AS p, p.dead AS d",
      { ids },
    );
    const dead = new Set([lot]);
    const byChild = new Map<number, Row[]>();
    for (const row of rows) {
      const list = byChild.get(Number(row.k));
      if (list) list.push(row);
      else byChild.set(Number(row.k), [row]);
    }
    for (const child of [...byChild.keys()].sort((a, b) => a - b)) {
      const broken: boolean[] = [];
      for (const { l, p, d } of byChild.get(child) ?? [])
        broken[Number(l)] = (broken[Number(l)] ?? false) || d === true || dead.has(Number(p));
      if (broken.every(Boolean)) dead.add(child);
    }
    this.#query("UNWIND $ids AS i MATCH (n:N {id: i}) SET n.dead = true", { ids: [...dead] });
    this.#query("COMMIT");
  }

  async removed() {
    const rows = this.#query(
      `MATCH (n:N) WHERE n.dead = true AND n.id > ${this.#lots} RETURN n.id AS k`,
    );
    this.#query("MATCH (n:N) WHERE n.dead = true SET n.dead = false");
    this.#query("CHECKPOINT");
    return rows.map(({ k }) => Number(k));
  }

  async insert(id: number, text: string, parent: number) {
    this.#query(
      "MATCH (p:N {id: $p}) CREATE (p)-[:P {leg: 0, nlegs: 1}]->(:N {id: $id, text: $t, dead: false})",
      { p: parent, id, t: text },
    );
  }

  async insertMany(ids: number[], texts: string[], parents: number[]) {
    const rows = ids.map((id, i) => ({ id, t: texts[i], p: parents[i] }));
    this.#query(
      "UNWIND $rows AS r MATCH (p:N {id: r.p}) CREATE (p)-[:P {leg: 0, nlegs: 1}]->(:N {id: r.id, text: r.t, dead: false})",
      { rows },
    );
  }

  async lookUp(id: number) {
    const rows = this.#query(
      "MATCH (n:N {id: $id})<-[e:P]-(p:N) RETURN n.text AS t, e.leg AS l, p.id AS p",
      { id },
    );
    if (rows.length === 0) throw new Error(`memory ${id} is not there`);
  }

  async bytes() {
    return readdirSync(this.#folder).reduce(
      (sum, name) => sum + statSync(join(this.#folder, name)).size,
      0,
    );
  }

  async close() {
    await this.#connection?.close();
    await this.#database?.close();
  }
}
