// What the bench asks of each engine, and how a package outside the project's own is found.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Graph } from "../graph.ts";

export interface Engine {
  /** Creates everything and loads a graph; returns the milliseconds without the making of texts and files. */
  load(graph: Graph): Promise<number>;
  open(): Promise<void>;
  /**
   * A durable fair recall of a lot. What is timed is this call.
   *
   * @param erase whether the texts of what it removes are overwritten too
   */
  recall(lot: number, erase: boolean): Promise<void>;
  /** The memories that the last recall removed; and whatever is put back in order before the next. Not timed. */
  removed(): Promise<ArrayLike<number>>;
  /** A durable insert of one memory on one parent. */
  insert(id: number, text: string, parent: number): Promise<void>;
  /** Durable inserts of many, as one batch. */
  insertMany(ids: number[], texts: string[], parents: number[]): Promise<void>;
  /** The text of a memory and its parents. */
  lookUp(id: number): Promise<void>;
  /** Bytes on the disk. */
  bytes(): Promise<number>;
  close(): Promise<void>;
}

/** bench/peers, where bench/README.md puts what others are compared with, and the project itself. */
const FROM = ["../peers/", "../../"].map((path) => new URL(path, import.meta.url));

/** A package outside the project's own; null where it is not installed. */
export function peerPackage(name: string): unknown {
  const from = FROM.find((from) => existsSync(new URL(`node_modules/${name}`, from)));
  return from ? createRequire(new URL("bench.cjs", from))(name) : null;
}

export function peerVersion(name: string): string {
  const files = FROM.map((from) => new URL(`node_modules/${name}/package.json`, from));
  const file = files.find((file) => existsSync(file));
  return file ? JSON.parse(readFileSync(file, "utf8")).version : "";
}
