// The small file of two alternating slots that remembers the last head, and up to which record every erase is finished.
//
// A slot that does not check is never trusted, and no error by itself: what it guards against is a log that lost its end.

import { dirname } from "node:path";
import type { Digest } from "./chain.ts";
import { decodeFileHeader, encodeFileHeader, FILE_HEADER_BYTES, type FileHeader } from "./codec.ts";
import { type Disk, isMissing } from "./disk.ts";
import { corrupt, hasCode } from "./errors.ts";
import type { AgentIds } from "./segment.ts";

/** Slots are a sector apart, so that tearing one leaves the other. */
const SLOT_STEP_BYTES = 512;
const SLOTS = 2;
const SEQUENCE_MAX = 0xffff_ffff;

export interface HeadMark {
  record: number;
  head: Digest | null;
  /** Every erase and drop up to this record is finished. */
  done: number;
  /** Number of the newest slot; 0 if none checks. */
  sequence: number;
  health: "ok" | "one slot damaged" | "missing";
}

export const HEAD_MARK_NAME = "head";

/** The newest slot that checks and is this agent's. */
export function readHeadMark(disk: Disk, path: string, ids: AgentIds): HeadMark {
  const bytes = Buffer.alloc(SLOT_STEP_BYTES * SLOTS);
  const nothing: HeadMark = { record: 0, head: null, done: 0, sequence: 0, health: "missing" };
  let length: number;
  try {
    const file = disk.open(path, "read");
    try {
      length = file.read(bytes, 0);
    } finally {
      file.close();
    }
  } catch (error) {
    if (isMissing(error)) return nothing;
    throw error;
  }
  const slots: FileHeader[] = [];
  for (let at = 0; at < bytes.length; at += SLOT_STEP_BYTES) {
    try {
      const slot = decodeFileHeader(
        bytes.subarray(at, Math.min(at + FILE_HEADER_BYTES, length)),
        "headMark",
        path,
      );
      if (slot.storeId.equals(ids.storeId) && slot.agentId.equals(ids.agentId)) slots.push(slot);
    } catch (error) {
      if (!hasCode(error, "CORRUPT")) throw error;
    }
  }
  slots.sort((a, b) => b.number - a.number);
  const newest = slots[0];
  if (!newest) return nothing;
  return {
    record: newest.record,
    head: newest.hash,
    done: newest.extra,
    sequence: newest.number,
    health: slots.length === SLOTS ? "ok" : "one slot damaged",
  };
}

/** Both slots as they are when an agent is created. */
export function firstHeadMark(ids: AgentIds, head: Digest): Buffer {
  const bytes = Buffer.alloc(SLOT_STEP_BYTES * SLOTS);
  for (let slot = 0; slot < SLOTS; slot++) {
    encodeFileHeader({ kind: "headMark", ...ids, number: slot + 1, hash: head }).copy(
      bytes,
      slot * SLOT_STEP_BYTES,
    );
  }
  return bytes;
}

/** The number of the next slot. After the last that there is they begin anew, with a new file. */
export function nextSequence({ sequence }: HeadMark): number {
  return sequence >= SEQUENCE_MAX ? 1 : sequence + 1;
}

/** Writes and flushes the next slot. Only under the agent's lock, after the log's flush, and only forward. */
export function writeHeadMark(
  disk: Disk,
  path: string,
  ids: AgentIds,
  {
    record,
    head,
    done,
    sequence,
  }: { record: number; head: Digest; done: number; sequence: number },
) {
  const folder = dirname(path);
  if (disk.stat(folder)?.type === "link")
    throw corrupt(`${folder} is a link, expected a folder`, { file: folder });
  // Either the numbers begin anew, or none of its slots was this agent's: it may be another's file that has a second name
  // here, and is not to be written to.
  if (sequence === 1 && disk.stat(path)) disk.removeFile(path);
  const file = disk.stat(path) ? disk.open(path, "write") : disk.create(path);
  try {
    const slot = encodeFileHeader({
      kind: "headMark",
      ...ids,
      number: sequence,
      record,
      hash: head,
      extra: done,
    });
    // Slot 1 holds the even numbers: the newest is never the one that is written over.
    file.write(slot, ((sequence + 1) % SLOTS) * SLOT_STEP_BYTES);
    file.flush();
  } finally {
    file.close();
  }
}
