// Where each record stands in the log: for every entry its spine and its area, for the few others their spine.

import { grown, NumberList } from "./arrays.ts";
import { AREA_UNIT_BYTES } from "./codec.ts";

export const ACT = { erases: 1, drop: 2 } as const;

/** Written for an area whose size does not fit: its spine knows it. */
const UNITS_UNKNOWN = 0xffff;

export class Places {
  /** By entry: offsets in its segment. An area at 0 is not in the files: it never was, or a compaction left it out. */
  spineAt: Uint32Array<ArrayBuffer>;
  areaAt: Uint32Array<ArrayBuffer>;
  /** By entry: the area's size in units of 32 bytes. */
  areaUnits: Uint16Array<ArrayBuffer>;

  /** Corroborations, in order: the leg that each added, of which memory, and where it stands. */
  readonly legs = new NumberList();
  readonly legMemory = new NumberList();
  readonly legSegment = new NumberList();
  readonly legSpineAt = new NumberList();

  /** Recalls and drops, in order. */
  readonly actRecord = new NumberList();
  readonly actSegment = new NumberList();
  readonly actSpineAt = new NumberList();
  /** ACT.erases where texts go: what an unfinished erase must be looked for in. */
  readonly actFlags = new NumberList();
  /** The newest record that takes texts. */
  lastErase = 0;

  constructor(entriesHint = 0) {
    this.spineAt = new Uint32Array(entriesHint + 1);
    this.areaAt = new Uint32Array(entriesHint + 1);
    this.areaUnits = new Uint16Array(entriesHint + 1);
  }

  setEntry(entry: number, spineAt: number, areaAt: number, areaBytes: number) {
    if (entry >= this.spineAt.length) {
      this.spineAt = grown(this.spineAt, entry + 64);
      this.areaAt = grown(this.areaAt, entry + 64);
      const units = new Uint16Array(this.spineAt.length);
      units.set(this.areaUnits);
      this.areaUnits = units;
    }
    this.spineAt[entry] = spineAt;
    this.areaAt[entry] = areaAt;
    this.areaUnits[entry] = Math.min(areaBytes / AREA_UNIT_BYTES, UNITS_UNKNOWN);
  }

  /** Areas from .. to were placed by their distance from the first of all; now that is known. */
  shiftAreas(from: number, to: number, firstAreaAt: number) {
    for (let entry = from; entry <= to; entry++) {
      this.areaAt[entry] =
        this.areaUnits[entry] === 0 ? 0 : (this.areaAt[entry] as number) + firstAreaAt;
    }
  }

  /** Size of an entry's area; null if only its spine knows. */
  areaBytes(entry: number): number | null {
    const units = this.areaUnits[entry] as number;
    return units === UNITS_UNKNOWN ? null : units * AREA_UNIT_BYTES;
  }

  addLeg(leg: number, memory: number, segment: number, spineAt: number) {
    this.legs.push(leg);
    this.legMemory.push(memory);
    this.legSegment.push(segment);
    this.legSpineAt.push(spineAt);
  }

  addAct(record: number, segment: number, spineAt: number, flags: number) {
    this.actRecord.push(record);
    this.actSegment.push(segment);
    this.actSpineAt.push(spineAt);
    this.actFlags.push(flags);
    if (flags & ACT.erases) this.lastErase = record;
  }

  get recallCount(): number {
    return this.actFlags.view().reduce((count, flags) => (flags & ACT.drop ? count : count + 1), 0);
  }

  /** Slot of the recall or drop with a record number; -1 if there is none. */
  actOf(record: number): number {
    const slot = this.actRecord.lastAtMost(record);
    return slot !== -1 && this.actRecord.at(slot) === record ? slot : -1;
  }

  /** Slots of a memory's corroborations, in order. */
  *corroborationsOf(memory: number): Generator<number> {
    const memories = this.legMemory.view();
    for (
      let slot = memories.indexOf(memory);
      slot !== -1;
      slot = memories.indexOf(memory, slot + 1)
    )
      yield slot;
  }

  /** Slot of the corroboration that added a leg; -1 if the leg came with its memory. */
  corroborationOfLeg(leg: number): number {
    const slot = this.legs.lastAtMost(leg);
    return slot !== -1 && this.legs.at(slot) === leg ? slot : -1;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    const { spineAt, areaAt, areaUnits } = this;
    const lists = [
      this.legs,
      this.legMemory,
      this.legSegment,
      this.legSpineAt,
      this.actRecord,
      this.actSegment,
      this.actSpineAt,
      this.actFlags,
    ];
    return (
      spineAt.byteLength +
      areaAt.byteLength +
      areaUnits.byteLength +
      lists.reduce((sum, list) => sum + list.view().buffer.byteLength, 0)
    );
  }
}
