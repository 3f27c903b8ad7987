// Checks one segment as far as it can be checked by itself, on whichever thread: the chain, and if wanted every spine and text.

import type { LogEnd } from "./batch.ts";
import type { Digest } from "./chain.ts";
import { isZero, SpineReader } from "./codec.ts";
import type { File } from "./disk.ts";
import { CheeseError, corrupt } from "./errors.ts";
import { areaChecks, FileWindow, findAt, readSpines, SEGMENT_START } from "./segment.ts";

/** What stands where an entry's text does. */
export const AREA = { absent: 0, checks: 1, zero: 2, broken: 3 } as const;

/** Copied from thread to thread. */
export interface Inspection {
  path: string;
  /** 16 bytes. */
  agentId: Uint8Array;
  segment: number;
  before: LogEnd;
  /** Where its last batch ends: what stands behind is not looked at. */
  end: number;
  /** Records at which the head is wanted. */
  headsAt: number[];
  /** Whether nothing but the chain is checked: what a batch's marker covers is taken as whole. */
  chainOnly: boolean;
}

export interface Findings {
  segment: number;
  /** By entry, from the segment's first: one of AREA. */
  areas: Uint8Array<ArrayBuffer>;
  heads: [record: number, head: Digest][];
  problems: { code: CheeseError["code"]; message: string; offset: number }[];
}

const PROBLEMS_MAX = 100;

/** Yields the offset that it has come to after every batch. */
export function* inspect(job: Inspection, file: File): Generator<number, Findings> {
  const agentId = Buffer.from(job.agentId);
  const reader = new SpineReader(agentId);
  const wanted = new Set(job.headsAt);
  const findings: Findings = {
    segment: job.segment,
    areas: new Uint8Array(4096),
    heads: [],
    problems: [],
  };
  const window = new FileWindow(file);
  // The texts lie elsewhere in the file than the spines.
  const texts = new FileWindow(file);
  const visit = (_spineAt: number, areaAt: number, head: Digest) => {
    if (wanted.has(reader.record)) findings.heads.push([reader.record, head]);
    if (job.chainOnly || !reader.isEntry) return;
    const slot = reader.entry - job.before.entries - 1;
    if (slot >= findings.areas.length) {
      const larger = new Uint8Array(findings.areas.length * 2);
      larger.set(findings.areas);
      findings.areas = larger;
    }
    if (areaAt !== 0)
      findings.areas[slot] = lookAt(texts, areaAt, reader.areaBytes, reader.commitment());
  };
  let { before } = job;
  for (let at = SEGMENT_START; at < job.end; ) {
    const batch = findAt(window, agentId, job.segment, at);
    try {
      if (batch.what !== "batch") throw corrupt("a batch changed while it was looked at");
      const { firstRecord, entriesBefore, headBefore } = batch.header;
      // Where a chain broke, what follows is checked by what it says itself.
      if (findings.problems.length > 0)
        before = { record: firstRecord - 1, entries: entriesBefore, head: headBefore };
      before = readSpines(batch, before, reader, visit, { checked: job.chainOnly, whole: false });
    } catch (error) {
      if (!(error instanceof CheeseError)) throw error;
      const { code, message } = error;
      if (findings.problems.length < PROBLEMS_MAX)
        findings.problems.push({ code, message, offset: at });
      if (batch.what !== "batch") break;
    }
    at = batch.end;
    yield at;
  }
  return findings;
}

export function lookAt(
  window: FileWindow,
  areaAt: number,
  areaBytes: number,
  committed: Digest,
): number {
  const area = window.view(areaAt, areaBytes);
  if (area.length < areaBytes) return AREA.broken;
  if (areaChecks(area, 0, areaBytes, committed)) return AREA.checks;
  return isZero(area, 0, areaBytes) ? AREA.zero : AREA.broken;
}
