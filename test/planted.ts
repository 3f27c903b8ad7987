// Bugs to be planted in a copy of the engine, and the search for each: the test of the crash tests.
//
// Each is a replacement or two in the text of the sources. A text must stand there exactly once: if the code has moved on, the
// bug has to be planted anew, and says so.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** What the campaign needs beside the sources. */
const BESIDE = [
  "chance.ts",
  "oracle.ts",
  "simdisk.ts",
  "powerloss.ts",
  "campaign/workloads.ts",
  "campaign/campaign.ts",
  "campaign/crash.ts",
];

export interface PlantedBug {
  name: string;
  edits: { file: string; from: string; to: string }[];
  /**
   * The operations among whose workloads it is looked for: every one of up to three of them, the shortest first. None: in
   * the creation of the store.
   */
  among: string[];
}

const edit = (file: string, from: string, to: string) => ({ file: `src/${file}.ts`, from, to });

export const plantedBugs: PlantedBug[] = [
  {
    name: "a write is acknowledged before its flush",
    edits: [
      edit(
        "core",
        "const flushed = this.#pacer.flush(state.log.lastSegment.file, this.#batch.bytes);",
        "const flushed = this.#pacer && (null as Promise<void> | null);",
      ),
    ],
    among: ["lot"],
  },
  {
    name: "the name of a new segment is not flushed",
    edits: [
      edit(
        "log",
        "      this.#disk.flushFolder(this.folder);\n      return file;",
        "      return file;",
      ),
    ],
    among: ["lot", "bigLot"],
  },
  {
    name: "a segment is sealed before its successor is flushed",
    edits: [edit("segment", "    file.flush();\n  } catch", "  } catch")],
    among: ["lot", "bigLot"],
  },
  {
    name: "a segment is sealed before its successor exists",
    edits: [
      edit(
        "log",
        "    const file = this.#beginNext();\n",
        "    const { segment, offset, record, entries, head } = this.end;\n    this.lastSegment.file.write(encodeSeal(record, entries, head, { agentId: this.#ids.agentId, segment, offset }), offset);\n    this.lastSegment.file.flush();\n    const file = this.#beginNext();\n",
      ),
    ],
    among: ["lot", "bigLot"],
  },
  {
    name: "the seal of somebody who died is not written again",
    edits: [edit("core", "    if (state.log.sealIsDoubtful) state.log.rewriteSeal();\n", "")],
    among: ["lot", "idle"],
  },
  {
    name: "the last batch of somebody who died is not written again",
    edits: [edit("core", "      state.log.rewriteLastBatch();\n", "")],
    among: ["lot"],
  },
  {
    name: "the head mark names a batch before its flush",
    edits: [
      edit(
        "core",
        "      state.log.write(this.#batch);\n",
        "      state.log.write(this.#batch);\n      writeHeadMark(this.place.disk, join(this.place.folder, HEAD_MARK_NAME), this.place.ids, { record: this.#batch.record, head: this.#batch.head, done: this.#done, sequence: ++state.headMark.sequence });\n",
      ),
    ],
    among: ["lot"],
  },
  {
    name: "texts are zeroed before the recall is on the disk",
    edits: [
      edit(
        "core",
        "      state.log.write(this.#batch);\n",
        "      state.log.write(this.#batch);\n      if (erased) state.records.zeroAreas(erased);\n",
      ),
    ],
    among: ["erase"],
  },
  {
    name: "an erase is acknowledged before its zeros are flushed",
    edits: [
      edit(
        "core",
        "    await state.log.flushZeroed((file, bytes) => this.#pacer.flush(file, bytes));\n    this.#done = state.log.end.record;\n    this.#markIsDue = true;\n    state.log.restoreReserve();\n",
        "    this.#done = state.log.end.record;\n    this.#markIsDue = true;\n",
      ),
    ],
    among: ["erase"],
  },
  {
    name: "an erase is marked as done before it is",
    edits: [
      edit(
        "core",
        "    this.#writeMark(state);\n    let begun",
        "    this.#done = state.log.end.record;\n    this.#writeMark(state);\n    let begun",
      ),
    ],
    among: ["erase"],
  },
  {
    name: "recovery does not finish an erase",
    edits: [edit("core", "      state.records.zeroAreas(state.records.textsTakenBy(slot));\n", "")],
    among: ["erase"],
  },
  {
    name: "a torn tail is not cut",
    edits: [
      edit("log", "      file.truncate(offset);\n      file.flush();\n", "      file.flush();\n"),
    ],
    among: ["lot"],
  },
  {
    name: "too much of a torn tail is cut",
    edits: [edit("log", "      file.truncate(offset);\n", "      file.truncate(offset - 32);\n")],
    among: ["lot"],
  },
  {
    name: "a torn batch behind zeros is taken for a clean end",
    edits: [
      edit(
        "core",
        "    if (isClean && isOwnEnd &&",
        "    if ((isClean || isOwnEnd) && isOwnEnd &&",
      ),
    ],
    among: ["lot"],
  },
  {
    name: "the texts of the last batch are not judged",
    edits: [
      edit(
        "log",
        "        if (record <= trusted) return found;\n",
        "        if (record > 0) return found;\n",
      ),
    ],
    among: ["bigLot"],
  },
  {
    name: "a commit marker is believed without its check",
    edits: [
      edit(
        "segment",
        "  const headAfter = readCommitMarker(marker, 0, crc32(bytes));\n",
        '  const headAfter = readCommitMarker(marker, 0, crc32(bytes)) ?? marker.toString("latin1", 4, 36);\n',
      ),
    ],
    among: ["bigLot"],
  },
  {
    name: "a snapshot is believed without its check, and renamed without a flush",
    edits: [
      edit(
        "disk",
        "    file.flush();\n  } finally {\n    file.close();\n  }\n  disk.rename",
        "  } finally {\n    file.close();\n  }\n  disk.rename",
      ),
      edit("snapshot", "  if (!isWhole || check !== header.bodyCheck) return null;\n", ""),
      edit(
        "snapshot",
        "  if (file.stat().size !== FILE_HEADER_BYTES + header.bodyBytes) return null;\n",
        "",
      ),
    ],
    among: ["lot", "reopen"],
  },
  {
    name: "a snapshot of another generation is believed",
    edits: [
      edit(
        "core",
        "readingSnapshot(disk, folder, ids, generation)",
        "readingSnapshot(disk, folder, ids)",
      ),
      edit(
        "state",
        "        snapshot.generation === this.log.generation &&\n        this.log.startAt(snapshot.position);",
        "        (this.log.startAt(snapshot.position) || Boolean((this.log.end = { ...snapshot.position })));",
      ),
    ],
    among: ["erase", "compact", "lot"],
  },
  {
    name: "a file is renamed into place before it is flushed",
    edits: [
      edit(
        "disk",
        "    file.flush();\n  } finally {\n    file.close();\n  }\n  disk.rename",
        "  } finally {\n    file.close();\n  }\n  disk.rename",
      ),
    ],
    among: ["create"],
  },
  {
    name: "a compaction switches to a generation that is not flushed",
    edits: [
      edit(
        "compact",
        "    await this.#file?.flushOffThread();\n    this.#file?.close();",
        "    this.#file?.close();",
      ),
    ],
    among: ["erase", "compact"],
  },
  {
    name: "a compaction removes the old generation before the new one's name is flushed",
    edits: [edit("compact", "  disk.flushFolder(logs);\n  // One at a time", "  // One at a time")],
    among: ["erase", "compact"],
  },
  {
    name: "a compaction does not flush the names of the new segments",
    edits: [edit("compact", "    this.#state.place.disk.flushFolder(this.#folder);\n", "")],
    among: ["erase", "compact"],
  },
  {
    name: "a compaction zeroes nothing before it rewrites",
    edits: [
      edit(
        "compact",
        "      await core.commitNow(state, dropped, (batch",
        "      await core.commitNow(state, new Uint32Array(0), (batch",
      ),
    ],
    among: ["fair", "compact"],
  },
  {
    name: "leftovers are removed before the generation in use has its name on the disk",
    edits: [edit("compact", "  if (left.length > 0) disk.flushFolder(folder);\n", "")],
    among: ["erase", "compact"],
  },
  {
    name: "an agent's files have no names on the disk when it gets its own",
    edits: [
      edit(
        "store",
        "    for (const path of [generation, logFolder(folder), folder, agents])",
        "    for (const path of [agents])",
      ),
    ],
    among: ["create"],
  },
  {
    name: "a token is kept before the folder is on the disk by which it is swept up",
    edits: [
      edit(
        "store",
        "    for (const path of [generation, logFolder(folder), folder, agents])",
        "    for (const path of [generation, logFolder(folder), folder])",
      ),
    ],
    among: ["create"],
  },
  {
    name: "a new agent is acknowledged before its name is on the disk",
    edits: [
      edit(
        "store",
        "      this.#disk.flushFolder(join(this.path, NAMES.agents));\n      return { agent",
        "      return { agent",
      ),
    ],
    among: ["create"],
  },
  {
    name: "an agent whose creator died is written to before its name is on the disk",
    edits: [
      edit("core", "    if (state.log.end.record === 0) disk.flushFolder(dirname(folder));\n", ""),
    ],
    among: ["create"],
  },
  {
    name: "a store whose creator died is used before its name is on the disk",
    edits: [edit("newstore", "    flushNameOf(disk, folder);\n", "")],
    among: [],
  },
  {
    name: "a store whose creator died is used before its folders have names on the disk",
    edits: [
      edit(
        "newstore",
        "  // Whoever made them may have died before they were.\n  disk.flushFolder(folder);\n",
        "",
      ),
      edit(
        "store",
        "    disk.flushFolder(this.path);\n    disk.makeFolder(folder);",
        "    disk.makeFolder(folder);",
      ),
    ],
    among: [],
  },
  {
    name: "a store file whose creator died is used before its name is on the disk",
    edits: [
      edit(
        "store",
        "    disk.flushFolder(this.path);\n    disk.makeFolder(folder);",
        "    disk.makeFolder(folder);",
      ),
    ],
    among: [],
  },
  {
    name: "an agent is zeroed before it has left the row of agents on the disk",
    edits: [
      edit(
        "store",
        "    disk.flushFolder(join(this.path, NAMES.agents));\n    for (const { path, stat }",
        "    for (const { path, stat }",
      ),
    ],
    among: ["delete"],
  },
  {
    name: "a deletion that was cut short is not finished",
    edits: [
      edit(
        "store",
        "          if (agentLock.tryTake()) this.#finishDeletion(id);\n",
        "          agentLock.tryTake();\n",
      ),
    ],
    among: ["delete"],
  },
];

/** Plants a bug in a copy of the engine below a folder. */
export function plant(bug: PlantedBug, folder: string) {
  requirePlantable(bug);
  cpSync(join(ROOT, "src"), join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, "test", "campaign"), { recursive: true });
  for (const file of BESIDE) cpSync(join(ROOT, "test", file), join(folder, "test", file));
  cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  for (const { file, from, to } of bug.edits) {
    const text = readFileSync(join(folder, file), "utf8");
    writeFileSync(
      join(folder, file),
      text.replace(from, () => to),
    );
  }
}

/** @throws Error when the code has moved on */
export function requirePlantable({ name, edits }: PlantedBug) {
  for (const { file, from } of edits) {
    const count = readFileSync(join(ROOT, file), "utf8").split(from).length - 1;
    if (count !== 1)
      throw new Error(`"${name}" cannot be planted: its text stands ${count} times in ${file}`);
  }
}

/** What the campaign finds in a copy: how many workloads and states it took, and what is wrong first. */
export interface Finding {
  workloads: number;
  states: number;
  failure: string | null;
}

/** Looks among the workloads of some operations, the shortest first, until something is found. */
export async function search(folder: string, among: string[], seed: number): Promise<Finding> {
  const program = `
    import { crash } from "./test/campaign/crash.ts";
    const among = ${JSON.stringify(among)};
    const pairs = among.flatMap((a) => among.map((b) => [a, b]));
    const all = [...(among.length === 0 ? [[]] : []), ...among.map((a) => [a]), ...pairs, ...pairs.flatMap((pair) => among.map((c) => [...pair, c]))];
    const budget = { seed: ${seed}, keep: ${JSON.stringify(join(folder, "kept"))}, more: () => true };
    const { counts, failures } = await crash(budget, all, { failuresMax: 1 });
    const states = counts["crash states"] + counts["crash states within a recovery"];
    console.log(JSON.stringify({ workloads: counts.workloads, states, failure: failures[0]?.what ?? null }));
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", program],
    { cwd: folder, maxBuffer: 2 ** 24 },
  );
  return JSON.parse(stdout) as Finding;
}
