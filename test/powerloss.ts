// Follows the journal of a simulated disk, and makes every state in which the loss of power may leave it; simdisk.ts says which.

import { basename, dirname } from "node:path";
import {
  Content,
  EMPTY,
  type Image,
  type Operation,
  ROOT,
  rowKey,
  SECTOR_BYTES,
  sectorEnd,
  withoutZeroSectors,
} from "./simdisk.ts";

/** Something done in a folder that is not flushed. */
interface FolderChange {
  folder: number;
  /** Its place among all changes of this folder. */
  order: number;
  names: string[];
  remove: string | null;
  set: { name: string; node: number } | null;
  /** The other half of a rename across two folders, where this is the half that takes the old name away. */
  arrival: FolderChange | null;
  isDurable: boolean;
}

interface DurableFile {
  /** At the last flush, and after each operation since. */
  versions: Content[];
  /** Sizes between those of two versions, where a write that made the file longer may have got to. */
  between: Map<Content, number[]>;
}

interface DurableFolder {
  entries: Map<string, number>;
  changes: FolderChange[];
}

/** Something that the loss of power decides: 0 is old, the highest is new. */
type Point = { count: number } & (
  | { of: "sector"; file: number; index: number; candidates: Buffer[] }
  | { of: "size"; file: number; sizes: number[] }
  | { of: "names"; folder: number; chain: FolderChange[] }
);

/** Up to so many times as many mixtures as states are wanted are gone through, to see whether they are few distinct states. */
const MIXTURES = 4;

/** Follows a journal, and knows at each of its entries in which states the loss of power may leave the disk. */
export class PowerLoss {
  readonly #files = new Map<number, DurableFile>();
  readonly #folders = new Map<number, DurableFolder>();
  /** Files and folders with something that is not flushed. */
  readonly #open = new Set<number>();

  /** Begins where a SimDisk.fromImage of the same image does. */
  constructor(start: Image) {
    this.#folders.set(ROOT, { entries: new Map(), changes: [] });
    const numbers = new Map<string, number>([["/", ROOT]]);
    let number = ROOT;
    for (const [path, content] of start) {
      number++;
      numbers.set(path, number);
      const folder = this.#folders.get(numbers.get(dirname(path)) as number) as DurableFolder;
      folder.entries.set(basename(path), number);
      if (content) this.#files.set(number, { versions: [content], between: new Map() });
      else this.#folders.set(number, { entries: new Map(), changes: [] });
    }
  }

  /** A copy that may go on by itself. */
  clone(): PowerLoss {
    const copy = new PowerLoss(new Map());
    for (const [number, { versions, between }] of this.#files)
      copy.#files.set(number, { versions: [...versions], between: new Map(between) });
    for (const [number, { entries, changes }] of this.#folders)
      copy.#folders.set(number, { entries: new Map(entries), changes: [...changes] });
    for (const number of this.#open) copy.#open.add(number);
    return copy;
  }

  /** Whether everything that can be reached by a name is flushed. */
  get isSettled(): boolean {
    return this.#points().length === 0;
  }

  pass(operation: Operation) {
    switch (operation.do) {
      case "write":
      case "truncate": {
        const file = this.#files.get(operation.file) as DurableFile;
        const before = file.versions.at(-1) as Content;
        if (operation.do === "write")
          file.between.set(operation.after, sizesPassed(before, operation));
        file.versions.push(operation.after);
        this.#open.add(operation.file);
        return;
      }
      case "flush": {
        const file = this.#files.get(operation.file) as DurableFile;
        file.versions = file.versions.slice(-1);
        file.between.clear();
        this.#open.delete(operation.file);
        return;
      }
      case "create":
        this.#files.set(operation.node, { versions: [EMPTY], between: new Map() });
        this.#change(operation.folder, null, operation);
        return;
      case "makeFolder":
        this.#folders.set(operation.node, { entries: new Map(), changes: [] });
        this.#change(operation.folder, null, operation);
        return;
      case "rename": {
        const { folder, name, to, toName, node } = operation;
        if (folder === to) this.#change(folder, name, { name: toName, node });
        else {
          const arrival = this.#change(to, null, { name: toName, node });
          this.#change(folder, name, null).arrival = arrival;
        }
        return;
      }
      case "remove":
        this.#change(operation.folder, operation.name, null);
        return;
      case "flushFolder": {
        const folder = this.#folders.get(operation.folder) as DurableFolder;
        for (const change of folder.changes) {
          apply(change, folder.entries);
          // Never neither name: what took the old one away brings the new one.
          if (change.arrival) this.#settle(change.arrival);
          change.isDurable = true;
        }
        folder.changes = [];
        this.#open.delete(operation.folder);
      }
    }
  }

  #settle(arrival: FolderChange) {
    const folder = this.#folders.get(arrival.folder) as DurableFolder;
    if (!folder.changes.includes(arrival)) return;
    apply(arrival, folder.entries);
    arrival.isDurable = true;
    folder.changes = folder.changes.filter((change) => change !== arrival);
  }

  #change(number: number, remove: string | null, set: FolderChange["set"]): FolderChange {
    const folder = this.#folders.get(number) as DurableFolder;
    const names = [remove, set?.name ?? null].filter((name) => name !== null);
    const order = (folder.changes.at(-1)?.order ?? 0) + 1;
    const change = { folder: number, order, names, remove, set, arrival: null, isDurable: false };
    folder.changes.push(change);
    this.#open.add(number);
    return change;
  }

  /** Everything that is not decided and that some state could show. */
  #points(): Point[] {
    if (this.#open.size === 0) return [];
    const points: Point[] = [];
    const reached = this.#reachable();
    for (const number of this.#open) {
      if (!reached.has(number)) continue;
      const file = this.#files.get(number);
      if (file) points.push(...pointsOf(number, file));
      else points.push(...chainsOf(number, (this.#folders.get(number) as DurableFolder).changes));
    }
    return points;
  }

  #reachable(): Set<number> {
    const reached = new Set<number>([ROOT]);
    for (const number of reached) {
      const folder = this.#folders.get(number);
      if (!folder) continue;
      for (const node of folder.entries.values()) reached.add(node);
      for (const { set } of folder.changes) if (set) reached.add(set.node);
    }
    return reached;
  }

  /**
   * Distinct states in which the loss of power may leave the disk now: all of them if they are no more than `max`; else a
   * sample of at least so many that holds the one in which everything is lost that can be, the one in which all is kept,
   * each in which one thing alone is lost, and each in which one alone is kept.
   */
  states(max: number, random: () => number): { states: Map<string, Image>; isAll: boolean } {
    const points = this.#points();
    const states = new Map<string, Image>();
    const contents = new Map<string, Content>();
    const walks = new Map<string, Row[]>();
    const add = (choice: number[]) => {
      const [key, image] = this.#build(points, choice, contents, walks);
      states.set(key, image);
    };
    const product = points.reduce((all, { count }) => all * count, 1);
    if (product <= MIXTURES * max) {
      for (const choice of allChoices(points)) add(choice);
      if (states.size <= max) return { states, isAll: true };
      states.clear();
    }
    const oldest = points.map(() => 0);
    const newest = points.map(({ count }) => count - 1);
    add(oldest);
    add(newest);
    for (const [i, { count }] of points.entries()) {
      for (let at = 0; at < count; at++) {
        add(newest.with(i, at));
        add(oldest.with(i, at));
      }
    }
    for (let tries = 0; states.size < max && tries < 4 * max; tries++) {
      const kept = random();
      add(points.map(({ count }) => (random() < kept ? count - 1 : Math.floor(random() * count))));
    }
    return { states, isAll: false };
  }

  /** One state, and its key. The rows of a walk are shared by all states in which the same names stand. */
  #build(
    points: Point[],
    choice: number[],
    contents: Map<string, Content>,
    walks: Map<string, Row[]>,
  ): [string, Image] {
    let named = "";
    for (const [i, { of }] of points.entries()) if (of === "names") named += `${choice[i]},`;
    let rows = walks.get(named);
    if (!rows) walks.set(named, (rows = this.#walk(points, choice)));
    const chosen = new Map<number, { point: Point; at: number }[]>();
    for (const [i, point] of points.entries()) {
      if (point.of === "names") continue;
      const ofFile = chosen.get(point.file);
      const one = { point, at: choice[i] as number };
      if (ofFile) ofFile.push(one);
      else chosen.set(point.file, [one]);
    }
    const image: Image = new Map();
    let key = "";
    for (const { path, file } of rows) {
      if (file === 0) {
        image.set(path, null);
        key += rowKey(path, null);
        continue;
      }
      const newest = (this.#files.get(file) as DurableFile).versions.at(-1) as Content;
      const ofFile = chosen.get(file);
      const content = ofFile ? once(contents, file, newest, ofFile) : newest;
      image.set(path, content);
      key += rowKey(path, content);
    }
    return [key, image];
  }

  /** Every path in order, where so much has been done in each folder. */
  #walk(points: Point[], choice: number[]): Row[] {
    const ofFolder = new Map<number, FolderChange[]>();
    const applied = new Set<FolderChange>();
    for (const [i, point] of points.entries()) {
      if (point.of !== "names") continue;
      const kept = ofFolder.get(point.folder) ?? [];
      for (const change of point.chain.slice(0, choice[i])) {
        kept.push(change);
        applied.add(change);
      }
      ofFolder.set(point.folder, kept);
    }
    const entriesOf = (number: number): Map<string, number> => {
      const { entries, changes } = this.#folders.get(number) as DurableFolder;
      if (changes.length === 0) return entries;
      const now = new Map(entries);
      for (const change of (ofFolder.get(number) ?? []).sort((a, b) => a.order - b.order)) {
        const { arrival } = change;
        if (!arrival || arrival.isDurable || applied.has(arrival)) apply(change, now);
      }
      return now;
    };
    const rows: Row[] = [];
    const walk = (number: number, path: string) => {
      const entries = entriesOf(number);
      for (const name of [...entries.keys()].sort()) {
        const node = entries.get(name) as number;
        const below = `${path}/${name}`;
        const isFile = this.#files.has(node);
        rows.push({ path: below, file: isFile ? node : 0 });
        if (!isFile) walk(node, below);
      }
    };
    walk(ROOT, "");
    return rows;
  }
}

/** One path of a walk; file is 0 for a folder. */
interface Row {
  path: string;
  file: number;
}

/** The content that a choice gives a file, made once. */
function once(
  contents: Map<string, Content>,
  file: number,
  newest: Content,
  chosen: { point: Point; at: number }[],
): Content {
  const key = `${file}:${chosen.map(({ at }) => at).join()}`;
  let content = contents.get(key);
  if (!content) contents.set(key, (content = mixed(newest, chosen)));
  return content;
}

function apply({ remove, set }: FolderChange, entries: Map<string, number>) {
  if (remove !== null) entries.delete(remove);
  if (set) entries.set(set.name, set.node);
}

/** Sizes at which a write that makes a file longer may have been cut short. */
function sizesPassed(
  { size: before }: Content,
  { after, written }: Extract<Operation, { do: "write" }>,
): number[] {
  const sizes: number[] = [];
  const first = sectorEnd(before + 1);
  for (let at = first; at < after.size && at <= sectorEnd(written); at += SECTOR_BYTES)
    sizes.push(at);
  // One of those within the zeros behind.
  const zerosFrom = Math.max(first, sectorEnd(written) + SECTOR_BYTES);
  const middle = sectorEnd(Math.floor((zerosFrom + after.size) / 2));
  if (middle > zerosFrom && middle < after.size) sizes.push(middle);
  return sizes;
}

function pointsOf(number: number, { versions, between }: DurableFile): Point[] {
  const points: Point[] = [];
  const bytes = Math.max(...versions.map((version) => version.bytes.length));
  for (let index = 0; index * SECTOR_BYTES < bytes; index++) {
    const candidates: Buffer[] = [];
    for (const version of versions) {
      const sector = version.sector(index);
      // What was written last stands last: it is what is kept where all is kept.
      const same = candidates.findIndex((known) => known.equals(sector));
      if (same !== -1 && same === candidates.length - 1) continue;
      if (same > 0) candidates.splice(same, 1);
      candidates.push(sector);
    }
    if (candidates.length > 1)
      points.push({ of: "sector", file: number, index, candidates, count: candidates.length });
  }
  const sizes: number[] = [];
  for (const version of versions) {
    sizes.push(...(between.get(version) ?? []));
    if (sizes.at(-1) !== version.size) sizes.push(version.size);
  }
  if (sizes.length > 1) points.push({ of: "size", file: number, sizes, count: sizes.length });
  return points;
}

/** Changes that concern the same names, each row of them in order. */
function chainsOf(folder: number, changes: FolderChange[]): Point[] {
  let chains: { names: Set<string>; chain: FolderChange[] }[] = [];
  for (const change of changes) {
    const joined = { names: new Set(change.names), chain: [change] };
    for (const known of chains) {
      if (!change.names.some((name) => known.names.has(name))) continue;
      for (const name of known.names) joined.names.add(name);
      joined.chain.push(...known.chain);
    }
    joined.chain.sort((a, b) => a.order - b.order);
    chains = chains.filter((known) => !change.names.some((name) => known.names.has(name)));
    chains.push(joined);
  }
  return chains.map(({ chain }) => ({ of: "names", folder, chain, count: chain.length + 1 }));
}

/** A file of which each sector, and the size, is of some version. */
function mixed(newest: Content, chosen: { point: Point; at: number }[]): Content {
  let end = newest.bytes.length;
  let size = newest.size;
  for (const { point, at } of chosen) {
    if (point.of === "sector") end = Math.max(end, (point.index + 1) * SECTOR_BYTES);
    else if (point.of === "size") size = point.sizes[at] as number;
  }
  const bytes = Buffer.alloc(end);
  newest.bytes.copy(bytes);
  for (const { point, at } of chosen)
    if (point.of === "sector") point.candidates[at]?.copy(bytes, point.index * SECTOR_BYTES);
  return new Content(withoutZeroSectors(bytes), size).cut(size);
}

function* allChoices(points: Point[]): Generator<number[]> {
  const choice = points.map(() => 0);
  for (;;) {
    yield choice;
    let i = 0;
    for (; i < points.length; i++) {
      choice[i] = (choice[i] as number) + 1;
      if ((choice[i] as number) < (points[i] as Point).count) break;
      choice[i] = 0;
    }
    if (i === points.length) return;
  }
}
