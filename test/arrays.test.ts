// Lists of numbers that grow, against plain ones.

import { expect, test } from "vitest";
import { lastAtMost, NumberList } from "../src/arrays.ts";

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

test("a list holds what was pushed and appended, in order, however long it grows", () => {
  const list = new NumberList();
  const expected: number[] = [];
  for (const count of [1, 62, 1, 1, 40, 0, 300]) {
    for (let i = 0; i < count; i++) {
      expected.push(expected.length * 3);
      list.push(expected.at(-1) as number);
    }
    const more = Uint32Array.from({ length: count + 5 }, (_, i) => 0xffff_ffff - i);
    list.append(more, count);
    expected.push(...more.subarray(0, count));
    expect(list.length).toBe(expected.length);
    expect([...list.view()]).toEqual(expected);
    expect([...list.slice(count)]).toEqual(expected.slice(count));
    expect([...list.sorted()]).toEqual(expected.toSorted((a, b) => a - b));
  }
});

test("each bit of a list stands by itself", () => {
  const bits = 5 * 32;
  for (const step of [1, 3, 31, 32, 33]) {
    const list = new NumberList();
    for (let i = 0; i < bits / 32; i++) list.push(0);
    const set = upTo(bits).filter((i) => i % step === 0);
    for (const [at, i] of set.entries()) {
      list.setBit(i);
      expect(upTo(bits).filter((i) => list.bit(i))).toEqual(set.slice(0, at + 1));
    }
  }
});

test("the last that is at most a number is found wherever it stands", () => {
  for (const length of upTo(9)) {
    const ascending = upTo(length).map((i) => 10 + 5 * i);
    const list = new NumberList();
    list.append(Uint32Array.from(ascending), length);
    for (let value = 8; value < 60; value++) {
      const expected = ascending.findLastIndex((each) => each <= value);
      expect(list.lastAtMost(value)).toBe(expected);
      expect(lastAtMost([...ascending, 0, 0], length, value)).toBe(expected);
    }
  }
});
