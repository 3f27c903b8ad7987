// Stands in for vitest where a mutant is tried: the same tests in a plain process, which starts in a fraction of the time.
// Only what the tests of the engine use of it is here; what is not here throws, and no test passes for want of it.

import { isDeepStrictEqual } from "node:util";

type Body = (...args: never[]) => unknown;

export interface PlainTest {
  name: string;
  run(): Promise<void>;
}

interface Scope {
  name: string;
  outer: Scope | null;
  before: (() => unknown)[];
  /** Before each test of it. */
  each: (() => unknown)[];
}

/** What the files imported so far have registered. */
export const registered: PlainTest[] = [];
/** What is due when all is over. */
export const atEnd: (() => unknown)[] = [];
let scope: Scope = { name: "", outer: null, before: [], each: [] };
let finishing: (() => unknown)[] = [];

async function begin(of: Scope | null) {
  if (!of) return;
  await begin(of.outer);
  const due = of.before;
  of.before = [];
  for (const hook of due) await hook();
}

async function beginEach(of: Scope | null) {
  if (!of) return;
  await beginEach(of.outer);
  for (const hook of of.each) await hook();
}

/** A file's own scope, under its name. */
export function beginFile(name: string) {
  scope = { name, outer: null, before: [], each: [] };
}

function addTest(name: string, body: Body, args: unknown[] = []) {
  const within = scope;
  registered.push({
    name: `${within.name} › ${name}`,
    async run() {
      finishing = [];
      try {
        await begin(within);
        await beginEach(within);
        await (body as (...args: unknown[]) => unknown)(...args);
      } finally {
        for (const finish of finishing.reverse()) await finish();
      }
    },
  });
}

function addGroup(name: string, body: Body, args: unknown[] = []) {
  scope = { name: `${scope.name} › ${name}`, outer: scope, before: [], each: [] };
  (body as (...args: unknown[]) => unknown)(...args);
  scope = scope.outer as Scope;
}

type Add = (name: string, body: Body, args?: unknown[]) => void;

const forEach =
  (add: Add) =>
  (rows: readonly unknown[]) =>
  (name: string, body: Body): void => {
    for (const [i, row] of rows.entries())
      add(`${name} [${i}]`, body, Array.isArray(row) ? row : [row]);
  };
const unless =
  (add: Add) =>
  (isLeftOut: unknown): Add =>
    isLeftOut ? () => {} : add;

export const test = Object.assign((name: string, body: Body) => addTest(name, body), {
  each: forEach(addTest),
  skipIf: unless(addTest),
});
export const describe = Object.assign((name: string, body: Body) => addGroup(name, body), {
  each: forEach(addGroup),
  skipIf: unless(addGroup),
});
export const beforeAll = (hook: () => unknown) => void scope.before.push(hook);
export const beforeEach = (hook: () => unknown) => void scope.each.push(hook);
export const afterAll = (hook: () => unknown) => void atEnd.push(hook);
export const onTestFinished = (hook: () => unknown) => void finishing.push(hook);

/** Globals as they were before they were replaced. */
const stubbed = new Map<string, unknown>();
const globals = globalThis as Record<string, unknown>;

export const vi = {
  stubGlobal(name: string, value: unknown) {
    if (!stubbed.has(name)) stubbed.set(name, globals[name]);
    globals[name] = value;
  },
  unstubAllGlobals() {
    for (const [name, value] of stubbed) globals[name] = value;
    stubbed.clear();
  },
  /** In the place of the named method, until it is restored. */
  spyOn(owner: object, name: string) {
    const methods = owner as Record<string, unknown>;
    const own = Object.getOwnPropertyDescriptor(owner, name);
    const spy = {
      mockImplementation(body: Body) {
        Object.defineProperty(methods, name, { value: body, configurable: true, writable: true });
        return spy;
      },
      mockRestore() {
        if (own) Object.defineProperty(methods, name, own);
        else delete methods[name];
      },
    };
    return spy;
  },
};

/** Stands for every value that it matches. */
class Matcher {
  readonly matches: (value: unknown) => boolean;

  constructor(matches: (value: unknown) => boolean) {
    this.matches = matches;
  }
}

const PRIMITIVES = new Map<unknown, string>([
  [String, "string"],
  [Number, "number"],
  [Boolean, "boolean"],
]);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

/** As toEqual has it: what is undefined is not there. With `partly`, objects may have more than is expected. */
function equal(found: unknown, expected: unknown, partly: boolean): boolean {
  if (expected instanceof Matcher) return expected.matches(found);
  if (!isObject(found) || !isObject(expected)) return Object.is(found, expected);
  if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) return false;
    return expected.every((item, i) => equal(found[i], item, partly));
  }
  const prototype = Object.getPrototypeOf(expected);
  if (Array.isArray(found)) return false;
  if (prototype !== Object.prototype && prototype !== null && !(expected instanceof Error))
    return isDeepStrictEqual(found, expected);
  const keys = partly ? Object.keys(expected) : Object.keys({ ...found, ...expected });
  return keys.every((key) => equal(found[key], expected[key], partly));
}

const shown = (value: unknown) => {
  try {
    return JSON.stringify(value)?.slice(0, 200);
  } catch {
    return String(value);
  }
};

function thrown(call: unknown, expected: unknown): boolean {
  try {
    (call as () => unknown)();
    return false;
  } catch (error) {
    return throwsAs(error, expected);
  }
}

function throwsAs(error: unknown, expected: unknown): boolean {
  if (expected === undefined) return true;
  const message = error instanceof Error ? error.message : String(error);
  if (typeof expected === "string") return message.includes(expected);
  if (expected instanceof RegExp) return expected.test(message);
  if (typeof expected === "function") return error instanceof expected;
  return equal(error, expected, true);
}

type Check = (value: never, ...args: never[]) => boolean;

const CHECKS = {
  toBe: (value: unknown, other: unknown) => Object.is(value, other),
  toEqual: (value: unknown, other: unknown) => equal(value, other, false),
  toStrictEqual: (value: unknown, other: unknown) => isDeepStrictEqual(value, other),
  toMatchObject: (value: unknown, other: unknown) => equal(value, other, true),
  toBeGreaterThan: (value: number, other: number) => value > other,
  toBeGreaterThanOrEqual: (value: number, other: number) => value >= other,
  toBeLessThan: (value: number, other: number) => value < other,
  toBeLessThanOrEqual: (value: number, other: number) => value <= other,
  toBeInstanceOf: (value: unknown, type: new () => unknown) => value instanceof type,
  toBeNull: (value: unknown) => value === null,
  toBeUndefined: (value: unknown) => value === undefined,
  toBeDefined: (value: unknown) => value !== undefined,
  toContain: (value: string | unknown[] | Set<unknown>, part: never) =>
    value instanceof Set ? value.has(part) : value.includes(part),
  toContainEqual: (value: unknown[], part: unknown) =>
    value.some((item) => equal(item, part, false)),
  toHaveLength: (value: { length: number }, length: number) => value.length === length,
  toMatch: (value: string, part: string | RegExp) =>
    typeof part === "string" ? value.includes(part) : part.test(value),
  toSatisfy: (value: unknown, check: (value: unknown) => boolean) => check(value),
  toThrow: (call: unknown, expected: unknown) => thrown(call, expected),
  toThrowError: (call: unknown, expected: unknown) => thrown(call, expected),
} satisfies Record<string, Check>;

type Checks = Record<keyof typeof CHECKS, (...args: unknown[]) => unknown>;

function checks(value: unknown, message: string | undefined, wanted: boolean): Checks {
  const made = {} as Checks;
  for (const [name, check] of Object.entries(CHECKS) as [keyof typeof CHECKS, Check][]) {
    made[name] = (...args) => {
      if (check(value as never, ...(args as never[])) === wanted) return;
      throw new Error(
        `${message ? `${message}: ` : ""}${shown(value)} ${wanted ? "" : "not "}${name} ${args.map(shown).join()}`,
      );
    };
  }
  return made;
}

const settled =
  (promise: unknown, isRefused: boolean) =>
  (wanted: boolean): Checks =>
    new Proxy({} as Checks, {
      get:
        (_, name: keyof Checks) =>
        async (...args: unknown[]) => {
          let value: unknown;
          let refused = false;
          try {
            value = await (promise as Promise<unknown>);
          } catch (error) {
            value = error;
            refused = true;
          }
          if (refused !== isRefused) throw new Error(refused ? shown(value) : "it is not refused");
          if (name === "toThrow" && isRefused) {
            if (throwsAs(value, args[0]) !== wanted) throw new Error(`refused as ${value}`);
            return;
          }
          checks(value, undefined, wanted)[name](...args);
        },
    });

export const expect = Object.assign(
  (value: unknown, message?: string) => ({
    ...checks(value, message, true),
    not: checks(value, message, false),
    get rejects() {
      return { ...{ not: settled(value, true)(false) }, ...proxied(settled(value, true)(true)) };
    },
    get resolves() {
      return { ...{ not: settled(value, false)(false) }, ...proxied(settled(value, false)(true)) };
    },
  }),
  {
    any: (type: new () => unknown) =>
      new Matcher((value) =>
        PRIMITIVES.has(type) ? typeof value === PRIMITIVES.get(type) : value instanceof type,
      ),
    anything: () => new Matcher((value) => value !== null && value !== undefined),
    objectContaining: (part: object) => new Matcher((value) => equal(value, part, true)),
    stringMatching: (pattern: RegExp | string) =>
      new Matcher((value) => typeof value === "string" && new RegExp(pattern).test(value)),
    stringContaining: (part: string) =>
      new Matcher((value) => typeof value === "string" && value.includes(part)),
    fail: (message: string) => {
      throw new Error(message);
    },
  },
);

function proxied(all: Checks): Checks {
  const made = {} as Checks;
  for (const name of Object.keys(CHECKS) as (keyof Checks)[]) made[name] = all[name];
  return made;
}
