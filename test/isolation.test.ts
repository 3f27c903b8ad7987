// G11: with one agent's token nothing of another's is reached, by any call, name, number, file or link; and nothing that is
// done to one changes a byte of the other, or says a word of it in a result or an error.

import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type Agent, CheeseError, Store } from "../src/index.ts";
import { cli, each, refusal } from "./cli-helpers.ts";
import { chance, codeOf, collect, SEED } from "./helpers.ts";
import { openSession } from "./mcp-helpers.ts";

/** Zoë's name has two forms in Unicode; her words stand in nothing of alice's. */
const ALICE = "alice";
const ZOE = "zo\u00eb";
const WORDS = ["Zirconium", "zoes_diary", "marzipan.example", "Birchwhistle", "Quendoline"];
/** Alice has entries 1 to 4, zoë has more. */
const ALICE_ENTRIES = 4;
const ZOE_ENTRIES = 9;

interface Who {
  id: string;
  token: string;
}

/** A store of the two, as it is made once and copied for each attempt. */
interface Two {
  folder: string;
  alice: Who;
  zoe: Who;
  /** What is known of zoë, without which an attempt would prove little. */
  zoes: { plan: string; fingerprint: string; lines: string; texts: (string | null)[] };
}

let work: string;
let golden: Two;
/** What alice's own calls give in the store as it was made. */
let undisturbed: string;

/** Both have the same generation, a snapshot, and kinds of records; zoë has two segments. */
async function makeTwo(folder: string): Promise<Two> {
  const options = { segmentBytes: 900, snapshotRecords: 1 };
  const store = await Store.open(folder, options);
  const create = async (name: string): Promise<Who> => {
    const { agent, token } = await store.createAgent(name, { keepToken: true });
    return { id: agent.id, token };
  };
  const [alice, zoe] = [await create(ALICE), await create(ZOE)];
  const her = await store.openAgent(zoe.token);
  for (const i of [1, 2, 3]) {
    const uri = `https://marzipan.example/${i}`;
    await her.addLot("zoes_diary", `Zirconium is kept in drawer ${i} `.repeat(5), { uri });
  }
  await her.remember("Birchwhistle has the key", [[1], [2]], { seen: [1, 2, 3] });
  await her.remember("Quendoline knows", [[4]]);
  for (const i of [6, 7, 8, 9]) await her.addLot("zoes_diary", `Zirconium ${i}`);
  await her.recall([9], { mode: "contact", disposal: "erase" });
  const { id: plan } = await her.planRecall([1]);
  const { fingerprint } = await her.head();
  const lines = (await collect(her.export())).join("");
  const texts = (await collect(her.entries())).map(({ text }) => text);
  await her.close();
  const hers = await store.openAgent(alice.token);
  await hers.addLot("user_message", "apples are red", { uri: "https://example.com/a" });
  await hers.addLot("user_message", "pears are green");
  await hers.remember("fruit has colours", [[1], [2]], { seen: [1, 2] });
  await hers.addLot("user_message", "never mind");
  await hers.recall([4]);
  await hers.close();
  return { folder, alice, zoe, zoes: { plan, fingerprint, lines, texts } };
}

beforeAll(async () => {
  console.log(`SEED=${SEED}`);
  work = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  golden = await makeTwo(join(work, "golden"));
  const store = await Store.open(golden.folder, { readOnly: true });
  undisturbed = JSON.stringify(await readAll(store, golden.alice.token));
  return () => rmSync(work, { recursive: true, force: true });
});

let copies = 0;

function copyOfTwo(): Two {
  const folder = join(work, `copy-${copies++}`);
  cpSync(golden.folder, folder, { recursive: true });
  return { ...golden, folder };
}

/** Who zoë's files are, and every byte of them. */
function imprint({ folder, zoe }: Two): Record<string, string> {
  const found: Record<string, string> = {};
  const look = (path: string) => {
    const stat = lstatSync(path);
    const name = relative(folder, path);
    if (!stat.isDirectory()) {
      const hash = createHash("sha256").update(readFileSync(path)).digest("hex");
      found[name] = `${stat.mode} ${stat.ino} ${stat.mtimeMs} ${hash}`;
      return;
    }
    found[name] = `${stat.mode} ${stat.ino}`;
    for (const entry of readdirSync(path)) look(join(path, entry));
  };
  look(join(folder, "agents", zoe.id));
  look(join(folder, "tokens", zoe.id));
  return found;
}

/** What a call gives, or the error that it throws; both as whoever calls could read them. */
async function told(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof CheeseError)) throw error;
    const { code, message, hint, cause } = error;
    return { refused: code, message, hint, facts: { ...error }, cause: String(cause) };
  }
}

const ids = Array.from({ length: ZOE_ENTRIES + 3 }, (_, i) => i + 1);

/** Everything that alice can ask, of her own numbers and of those that only zoë has. */
async function readAll(store: Store, token: string): Promise<Record<string, unknown>> {
  const agent = await store.openAgent(token);
  try {
    const found: Record<string, unknown> = {};
    const calls: Record<string, () => Promise<unknown>> = {
      head: () => agent.head(),
      stats: async () => ({ ...(await agent.stats()), bytes: 0 }),
      alive: () => agent.alive(ids),
      entries: () => collect(agent.entries()),
      history: () => collect(agent.history()),
      export: () => collect(agent.export({ deadTexts: true })),
      byLabel: () => agent.findLots({ label: "zoes_diary" }),
      byUri: () => agent.findLots({ uriPrefix: "https://marzipan" }),
      byTime: () => agent.findLots({ since: new Date(0) }),
    };
    for (const id of ids) {
      calls[`get ${id}`] = () => agent.get(id);
      calls[`text ${id}`] = () => agent.text(id);
      calls[`show ${id}`] = () => agent.show(id);
      calls[`why ${id}`] = () => agent.why(id);
      calls[`sources ${id}`] = () => agent.sourcesOf(id, { max: 100 });
      calls[`view ${id}`] = () => agent.sourcesInView(id, { max: 100 });
      calls[`preview ${id}`] = () => agent.previewRecall([id], { mode: "strict" });
      calls[`plan ${id}`] = () => agent.planRecall([id], { mode: "contact", disposal: "erase" });
    }
    for (const [name, call] of Object.entries(calls)) found[name] = await told(call);
    return found;
  } finally {
    await agent.close();
  }
}

/** Everything that alice can do, of which some names what only zoë has. */
async function writeAll(store: Store, token: string, zoes: Two["zoes"]): Promise<unknown[]> {
  const agent = await store.openAgent(token);
  const said: unknown[] = [];
  try {
    for (const call of [
      () => agent.addLot("user_message", "plums are blue", { seen: [ZOE_ENTRIES] }),
      () => agent.remember("all fruit", [[1, ZOE_ENTRIES]]),
      () => agent.corroborate(3, [ZOE_ENTRIES]),
      () => agent.recall([ZOE_ENTRIES], { mode: "contact", disposal: "erase" }),
      () => agent.recall([1], { plan: zoes.plan }),
      () => agent.verify({ expect: zoes.fingerprint }),
      () => agent.addLot("user_message", "plums are blue"),
      () => agent.recall([1], { mode: "contact", disposal: "erase" }),
      () => agent.compact(),
      () => agent.verify(),
    ])
      said.push(await told(call));
  } finally {
    await agent.close();
  }
  return said;
}

function expectNoWordOfZoe(said: unknown) {
  const text = JSON.stringify(said);
  for (const word of WORDS) expect(text).not.toContain(word);
}

/** Zoë herself is served all of hers: what was looked for is there to be found. */
async function expectZoeWhole({ folder, zoe, zoes }: Two) {
  const store = await Store.open(folder, { readOnly: true });
  const her = await store.openAgent(zoe.token);
  const texts = (await collect(her.entries())).map(({ text }) => text);
  const { ok } = await her.verify({ expect: zoes.fingerprint });
  await her.close();
  expect({ ok, texts }).toEqual({ ok: true, texts: zoes.texts });
}

test("the control: zoë's own token serves her words, and the same calls without it none", async () => {
  const two = copyOfTwo();
  const store = await Store.open(two.folder, { readOnly: true });
  const hers = JSON.stringify(await readAll(store, two.zoe.token));
  for (const word of WORDS) expect(hers).toContain(word);
  expectNoWordOfZoe(await readAll(store, two.alice.token));
  await expectZoeWhole(two);
});

// ----- files and links -----

type Way = "link" | "hard link" | "copy";

/** Puts something of zoë's where something else is due. */
function plant(way: Way, from: string, to: string) {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(dirname(to), { recursive: true });
  if (way === "link") symlinkSync(from, to);
  else if (way === "hard link") linkSync(from, to);
  else cpSync(from, to, { recursive: true });
}

interface Plant {
  /** Below zoë's folder and alice's; or as `place` says. */
  what: string;
  as?: string;
  place?: (two: Two) => [from: string, to: string];
  ways: Partial<Record<Way, "works" | "CORRUPT" | "BAD_TOKEN">>;
}

const A_DEAD_ID = "0123456789abcdef0123456789abcdef";
const inAgents = (two: Two, ...path: string[]) => join(two.folder, "agents", ...path);

const PLANTS: Plant[] = [
  { what: "", ways: { link: "BAD_TOKEN", copy: "CORRUPT" } },
  { what: "agent", ways: { link: "CORRUPT", "hard link": "CORRUPT", copy: "CORRUPT" } },
  { what: "log", ways: { link: "CORRUPT", copy: "CORRUPT" } },
  { what: "log/1", ways: { link: "CORRUPT", copy: "CORRUPT" } },
  {
    what: "log/1/00000001.seg",
    ways: { link: "CORRUPT", "hard link": "CORRUPT", copy: "CORRUPT" },
  },
  {
    what: "log/1/00000002.seg",
    ways: { link: "CORRUPT", "hard link": "CORRUPT", copy: "CORRUPT" },
  },
  { what: "log/1", as: "log/7", ways: { link: "CORRUPT", copy: "CORRUPT" } },
  // What looks like the leftover of a crash is swept up, and what a link leads to is none of it.
  { what: "log/1", as: "log/7.new", ways: { link: "works", copy: "works" } },
  {
    what: "a deletion cut short",
    place: (two) => [inAgents(two, two.zoe.id), inAgents(two, `deleted-${A_DEAD_ID}`)],
    ways: { link: "works" },
  },
  {
    what: "a creation cut short",
    place: (two) => [inAgents(two, two.zoe.id), inAgents(two, `${A_DEAD_ID}.new`)],
    ways: { link: "works", copy: "works" },
  },
  {
    what: "a file of a deletion cut short",
    place: (two) => [
      inAgents(two, two.zoe.id, "log", "1", "00000001.seg"),
      inAgents(two, `deleted-${A_DEAD_ID}`, "log"),
    ],
    ways: { link: "works", "hard link": "works", copy: "works" },
  },
  {
    what: "the token of an agent whose deletion was cut short",
    place: (two) => {
      mkdirSync(inAgents(two, `deleted-${A_DEAD_ID}`));
      return [join(two.folder, "tokens", two.zoe.id), join(two.folder, "tokens", A_DEAD_ID)];
    },
    ways: { link: "works", "hard link": "works", copy: "works" },
  },
  { what: "head", ways: { link: "CORRUPT", "hard link": "works", copy: "works" } },
  { what: "graph", ways: { link: "works", "hard link": "works", copy: "works" } },
  { what: "graph", as: "graph.tmp", ways: { link: "works", "hard link": "works", copy: "works" } },
];

describe("something of zoë's in the place of something of alice's", () => {
  for (const { what, as = what, place, ways } of PLANTS) {
    for (const [way, verdict] of Object.entries(ways)) {
      test(`${what || "the folder"}${as === what ? "" : ` as ${as}`}, by ${way}: ${verdict}`, async () => {
        const two = copyOfTwo();
        const [from, to] = place?.(two) ?? [
          inAgents(two, two.zoe.id, what),
          inAgents(two, two.alice.id, as),
        ];
        plant(way as Way, from, to);
        const before = imprint(two);
        const unharmed = () => expect(imprint(two)).toEqual(before);

        const reader = await Store.open(two.folder, { readOnly: true });
        const read = await told(() => readAll(reader, two.alice.token));
        if (verdict === "works") expect(read).toEqual(JSON.parse(undisturbed));
        else expect(read).toMatchObject({ refused: verdict });
        expectNoWordOfZoe(read);

        const writer = await Store.open(two.folder, { snapshotRecords: 1 });
        const written = await told(() => writeAll(writer, two.alice.token, two.zoes));
        if (verdict === "works") expect(await agentWorks(writer, two.alice.token)).toBe(true);
        else expect(written).toMatchObject({ refused: verdict });
        expectNoWordOfZoe(written);
        unharmed();

        // The store's own chores, in which zoë has her row, and alice hers.
        const agents = await writer.agents();
        expect(agents.find(({ id }) => id === two.zoe.id)).toMatchObject({ name: ZOE });
        await writer.verify();
        await writer.stats();
        unharmed();

        // Deleting alice, by her id where she is damaged.
        const name = agents.find(({ id }) => id === two.alice.id)?.damaged ? two.alice.id : ALICE;
        const deleted = await told(() =>
          writer.deleteAgent(writer.agentNames().includes(ALICE) ? ALICE : name),
        );
        expectNoWordOfZoe(deleted);
        unharmed();
        expect(existsSync(inAgents(two, two.alice.id))).toBe(false);
        await Store.open(two.folder);
        unharmed();
        await expectZoeWhole(two);
      });
    }
  }

  test("zoë's lock file as alice's: a link locks nothing, a hard link may let them wait for each other", async () => {
    for (const way of ["link", "hard link"] as const) {
      const two = copyOfTwo();
      const lockOf = ({ id }: Who) => join(two.folder, "locks", `${id}.lock`);
      // A copy has the locks of those that were made, and not yet of those that never wrote.
      for (const who of [two.alice, two.zoe])
        if (!existsSync(lockOf(who))) writeFileSync(lockOf(who), "");
      plant(way, lockOf(two.zoe), lockOf(two.alice));
      const before = imprint(two);
      const store = await Store.open(two.folder, { waitMs: 50 });
      const agent = await store.openAgent(two.alice.token);
      expect(await agent.text(1)).toBe("apples are red");
      const code = await codeOf(() => agent.addLot("user_message", "x"));
      expect({ way, code }).toEqual({ way, code: way === "link" ? "DISK" : null });
      await agent.close();
      expect(lstatSync(lockOf(two.zoe)).size).toBe(0);
      expect(imprint(two)).toEqual(before);
      await expectZoeWhole(two);
    }
  });

  test("a folder of agents, tokens or locks that is a link is no store's", async () => {
    for (const name of ["agents", "tokens", "locks"]) {
      const two = copyOfTwo();
      const elsewhere = `${two.folder}-${name}`;
      renameSync(join(two.folder, name), elsewhere);
      symlinkSync(elsewhere, join(two.folder, name));
      const code = await codeOf(() => Store.open(two.folder));
      expect({ name, code }).toEqual({ name, code: "CORRUPT" });
    }
  });

  test("alice's folder swapped for a link to zoë's under an open handle", async () => {
    for (const what of ["", "log", "log/1"]) {
      const two = copyOfTwo();
      const before = imprint(two);
      // Something that a writer of zoë's would sweep up, and a writer of alice's may not.
      mkdirSync(inAgents(two, two.zoe.id, "log", "2.new"));
      const store = await Store.open(two.folder);
      const agent = await store.openAgent(two.alice.token);
      await agent.addLot("user_message", "warm");
      const path = inAgents(two, two.alice.id, what);
      renameSync(path, `${two.folder}-away`);
      symlinkSync(inAgents(two, two.zoe.id, what), path);
      await new Promise((resolve) => setTimeout(resolve, 50));
      for (const call of [
        () => agent.text(1),
        () => agent.addLot("user_message", "through the link"),
        () => agent.recall([1], { disposal: "erase" }),
        () => agent.compact(),
        () => collect(agent.entries()),
        () => agent.verify(),
      ])
        expectNoWordOfZoe(await told(call));
      await agent.close();
      expect(existsSync(inAgents(two, two.zoe.id, "log", "2.new"))).toBe(true);
      rmSync(inAgents(two, two.zoe.id, "log", "2.new"), { recursive: true });
      const after = imprint(two);
      expect(after).toEqual(before);
      await expectZoeWhole(two);
    }
  });
});

async function agentWorks(store: Store, token: string): Promise<boolean> {
  const agent = await store.openAgent(token);
  const id = await agent.addLot("user_message", "still here");
  const isThere = (await agent.text(id)) === "still here";
  await agent.close();
  return isThere;
}

// ----- tokens -----

describe("a token", () => {
  test("that is not alice's, whole and as it was given, opens nothing", async () => {
    const two = copyOfTwo();
    const before = imprint(two);
    const store = await Store.open(two.folder);
    const bytesOf = (token: string) => Buffer.from(token.slice("cheese_".length), "base64url");
    const of = (bytes: Uint8Array) => `cheese_${Buffer.from(bytes).toString("base64url")}`;
    const [hers, zoes] = [bytesOf(two.alice.token), bytesOf(two.zoe.token)];
    const { token } = two.alice;
    const flipped = Array.from({ length: hers.length * 8 }, (_, bit) => {
      const bytes = Buffer.from(hers);
      bytes[bit >>> 3] = (bytes[bit >>> 3] as number) ^ (1 << (bit & 7));
      return of(bytes);
    });
    const wrong: unknown[] = [
      ...flipped,
      ...Array.from({ length: token.length }, (_, length) => token.slice(0, length)),
      `${token}A`,
      `${token}\n`,
      ` ${token}`,
      `${token}\0`,
      `${token}=`,
      `${token},${two.zoe.token}`,
      token.toUpperCase(),
      token.replace("cheese_", "CHEESE_"),
      of(Buffer.concat([hers.subarray(0, 16), zoes.subarray(16)])),
      of(Buffer.concat([zoes.subarray(0, 16), hers.subarray(16)])),
      of(Buffer.concat([zoes.subarray(0, 16), Buffer.alloc(32)])),
      `cheese_${two.zoe.id}`,
      `cheese_../${two.zoe.id}`,
      two.zoe.id,
      "",
      undefined,
      null,
      0,
      [two.zoe.token],
      { toString: () => two.zoe.token },
    ];
    // Any of them might be a token by chance, were it not alice's with a bit changed.
    expect(wrong).not.toContain(token);
    for (const given of wrong) {
      const said = await told(() => store.openAgent(given as string));
      expect(said).toMatchObject({
        refused: "BAD_TOKEN",
        message: "the token opens no agent of this store",
      });
    }
    expect((await readAll(store, token)).head).toBeDefined();
    expect(imprint(two)).toEqual(before);
  });

  test("of zoë's in the place of alice's kept one opens neither", async () => {
    for (const way of ["link", "hard link", "copy"] as const) {
      const two = copyOfTwo();
      const before = imprint(two);
      const [hers, zoes] = [two.alice.id, two.zoe.id].map((id) => join(two.folder, "tokens", id));
      plant(way, zoes as string, hers as string);
      const store = await Store.open(two.folder);
      const code = await codeOf(async () => store.keptToken(ALICE));
      expect({ way, code }).toEqual({ way, code: way === "link" ? "CORRUPT" : "BAD_TOKEN" });
      const options = { store: two.folder };
      const exit = way === "link" ? 6 : 3;
      const error = await refusal(["list", ALICE], { code: code as string, exit }, options);
      expectNoWordOfZoe(error);
      expect(JSON.stringify(error)).not.toContain(two.zoe.token);
      expect(store.keptToken(ZOE)).toBe(two.zoe.token);
      expect(imprint(two)).toEqual(before);
    }
  });

  test("kept ones that were swapped open neither", async () => {
    const two = copyOfTwo();
    const [hers, zoes] = [two.alice.id, two.zoe.id].map((id) => join(two.folder, "tokens", id));
    const contents = readFileSync(hers as string);
    writeFileSync(hers as string, readFileSync(zoes as string));
    writeFileSync(zoes as string, contents);
    const store = await Store.open(two.folder);
    for (const name of [ALICE, ZOE])
      expect(await codeOf(async () => store.keptToken(name))).toBe("BAD_TOKEN");
  });
});

// ----- names -----

test("a name that is not zoë's reaches nothing of hers; its twin in the other normal form is hers", async () => {
  const two = copyOfTwo();
  const before = imprint(two);
  const store = await Store.open(two.folder);
  const strange = [
    "zoe",
    "Zo\u00eb",
    "ZO\u00cb",
    " zo\u00eb",
    "zo\u00eb ",
    "zo\u00eb\0",
    "zo\u00eb/",
    "./zo\u00eb",
    "../agents/zo\u00eb",
    "alice/../zo\u00eb",
    two.zoe.id,
    `${two.zoe.id}.new`,
    `deleted-${two.zoe.id}`,
    `../agents/${two.zoe.id}`,
    `agents/${two.zoe.id}`,
    two.zoe.token,
    "",
    ".",
    "..",
    "*",
    "%",
    "__proto__",
    "constructor",
    "toString",
    "zo\u00eb".repeat(100_000),
    "zo\ud800",
    "zo\u00eb\u200b",
    "\u200ezo\u00eb",
    "z\u043e\u00eb",
  ];
  for (const name of strange) {
    for (const call of [
      async () => store.requireAgent(name),
      () => store.verifyAgent(name),
      () => store.find("Zirconium", { agent: name }),
      () => store.deleteAgent(name),
    ]) {
      const said = await told(call as () => Promise<unknown>);
      expect(said).toMatchObject({ refused: "NO_AGENT" });
      expectNoWordOfZoe(said);
    }
    expect(store.keptToken(name)).toBeNull();
  }
  expect(imprint(two)).toEqual(before);
  // The control.
  const twin = "zoe\u0308";
  expect(twin).not.toBe(ZOE);
  expect(store.requireAgent(twin).id).toBe(two.zoe.id);
  expect((await store.find("Zirconium", { agent: twin })).count).toBeGreaterThan(0);
  expect((await store.find("Zirconium", { agent: ALICE })).count).toBe(0);
  expect(await codeOf(() => store.createAgent(twin))).toBe("NAME_TAKEN");
  // One that differs by its case is another agent, and empty.
  const other = await store.createAgent("Zo\u00eb");
  expectNoWordOfZoe(await readAll(store, other.token));
  await store.deleteAgent("Zo\u00eb");
  expect(imprint(two)).toEqual(before);
});

// ----- numbers -----

/** What names an entry that only zoë has, and what refuses it. */
const strangers: [
  what: string,
  code: string,
  call: (agent: Agent, two: Two) => Promise<unknown>,
][] = [
  ["get", "NO_ENTRY", (agent) => agent.get(ZOE_ENTRIES)],
  ["text", "NO_ENTRY", (agent) => agent.text(ZOE_ENTRIES)],
  ["show", "NO_ENTRY", (agent) => agent.show(ZOE_ENTRIES)],
  ["why", "NO_ENTRY", (agent) => agent.why(ZOE_ENTRIES)],
  ["sources", "NO_ENTRY", (agent) => agent.sourcesOf(ZOE_ENTRIES, { max: 9 })],
  ["in view", "NO_ENTRY", (agent) => agent.sourcesInView(ZOE_ENTRIES, { max: 9 })],
  ["a plan", "NO_ENTRY", (agent) => agent.planRecall([1, ZOE_ENTRIES])],
  ["a preview", "NO_ENTRY", (agent) => agent.previewRecall([1, ZOE_ENTRIES])],
  [
    "a recall",
    "NO_ENTRY",
    (agent) => agent.recall([1, ZOE_ENTRIES], { mode: "contact", disposal: "erase" }),
  ],
  ["a leg", "UNKNOWN_PARENT", (agent) => agent.remember("x", [[1], [ZOE_ENTRIES]])],
  ["legs", "UNKNOWN_PARENT", (agent) => agent.rememberAll([{ text: "x", legs: [[5]] }])],
  ["a leg more", "UNKNOWN_PARENT", (agent) => agent.corroborate(3, [ZOE_ENTRIES])],
  ["a memory to corroborate", "NO_ENTRY", (agent) => agent.corroborate(5, [1])],
  ["seen", "UNKNOWN_PARENT", (agent) => agent.addLot("x", "x", { seen: [ZOE_ENTRIES] })],
  ["seen with it", "UNKNOWN_PARENT", (agent) => agent.session([ZOE_ENTRIES]).addLot("x", "x")],
  ["zoë's plan", "PLAN_STALE", (agent, { zoes }) => agent.recall([1], { plan: zoes.plan })],
  ["zoë's head", "HEAD_MISMATCH", (agent, { zoes }) => agent.verify({ expect: zoes.fingerprint })],
];

test("a number, a plan or a head that only zoë has is refused, and nothing is written", async () => {
  const two = copyOfTwo();
  const before = imprint(two);
  const store = await Store.open(two.folder);
  const agent = await store.openAgent(two.alice.token);
  const { fingerprint } = await agent.head();
  for (const [what, code, call] of strangers) {
    const said = await told(() => call(agent, two));
    expect({ what, said }).toMatchObject({ what, said: { refused: code } });
    expectNoWordOfZoe(said);
  }
  expect((await agent.head()).fingerprint).toBe(fingerprint);
  expect(await agent.alive(ids)).toEqual([1, 2, 3]);
  await agent.close();
  expect(imprint(two)).toEqual(before);
  // The control: with zoë's token none of these is a stranger.
  const her = await store.openAgent(two.zoe.token);
  expect(await her.get(ZOE_ENTRIES)).toMatchObject({ id: ZOE_ENTRIES, erased: true });
  expect((await her.recall([1], { plan: two.zoes.plan })).record).not.toBeNull();
  await her.close();
});

test("an import names lines of its own file alone, whatever agent its header names", async () => {
  const two = copyOfTwo();
  const before = imprint(two);
  const store = await Store.open(two.folder);
  const agent = await store.openAgent(two.alice.token);
  const head = { kind: "cheesedb", version: 1, agent: ZOE, id: two.zoe.id, token: two.zoe.token };
  const time = "2026-01-01T00:00:00Z";
  const smuggled = { agent: ZOE, agentId: two.zoe.id, store: two.folder };
  const lot = { kind: "lot", time, id: 1, label: "x", text: "of the file", uri: null, ...smuggled };
  const memory = { kind: "memory", time, id: 2, text: "x", ...smuggled };
  const wrong = [
    { ...memory, legs: [[ZOE_ENTRIES]] },
    { ...memory, legs: [[1], [3]] },
    { ...memory, legs: [[1]], seen: [ZOE_ENTRIES] },
    { ...memory, legs: [[1]], seenWith: ZOE_ENTRIES },
    { kind: "corroborate", time, memory: 4, leg: [1], ...smuggled },
    { kind: "recall", time, targets: [ZOE_ENTRIES], mode: "contact", disposal: "erase" },
    { kind: "recall", time, targets: [1], mode: "fair", disposal: "erase", removed: [4] },
  ];
  const file = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  for (const line of wrong) {
    const said = await told(() => agent.import(file(head, lot, line)));
    expect(said).toMatchObject({ refused: "BAD_INPUT", facts: { line: 3 } });
    expectNoWordOfZoe(said);
  }
  const report = await agent.import(file(head, lot, { ...memory, legs: [[1]] }));
  expect(report.ids).toEqual([
    [1, ALICE_ENTRIES + 1],
    [2, ALICE_ENTRIES + 2],
  ]);
  // The whole of zoë's own export, and a recall of all that came with it: hers is untouched.
  const imported = await agent.import(two.zoes.lines);
  await agent.recall(
    imported.ids.map(([, id]) => id),
    { mode: "contact", disposal: "erase" },
  );
  await agent.compact();
  await agent.close();
  expect(imprint(two)).toEqual(before);
  await expectZoeWhole(two);
});

// ----- the other doors -----

test("the command line refuses one's token for the other, and numbers, plans and heads of the other", async () => {
  const two = copyOfTwo();
  const before = imprint(two);
  const { zoes, zoe, alice } = two;
  const beyond = String(ZOE_ENTRIES);
  const commands: [args: string[], code: string, exit: number, env?: Record<string, string>][] = [
    [["list", ALICE, "--token", zoe.token], "BAD_TOKEN", 3],
    [["lot", ALICE, "x", "x"], "BAD_TOKEN", 3, { CHEESEDB_TOKEN: zoe.token }],
    [["recall", ZOE, "1", "--erase", "--token", alice.token], "BAD_TOKEN", 3],
    [["show", ALICE, beyond], "NO_ENTRY", 3],
    [["remember", ALICE, "x", "--from", beyond], "UNKNOWN_PARENT", 4],
    [["recall", ALICE, beyond, "--contact", "--erase"], "NO_ENTRY", 3],
    [["recall", ALICE, "1", "--plan", zoes.plan], "PLAN_STALE", 4],
    [["verify", ALICE, "--expect", zoes.fingerprint], "HEAD_MISMATCH", 6],
  ];
  await each(commands, async ([args, code, exit, env]) => {
    const error = await refusal(args, { code, exit }, { store: two.folder, ...(env && { env }) });
    expectNoWordOfZoe(error);
    expect(JSON.stringify(error)).not.toContain(zoe.token);
  });
  // The control: --token is the whole difference.
  const hers = await cli(["list", ZOE, "--json", "--token", zoe.token], { store: two.folder });
  expect(hers.stdout).toContain("Birchwhistle");
  expect(imprint(two)).toEqual(before);
});

test("over MCP no argument names another agent, and numbers of zoë's are refused", async () => {
  const two = copyOfTwo();
  const before = imprint(two);
  const session = await openSession(two.folder, { agent: ALICE });
  const smuggled = {
    agent: ZOE,
    name: ZOE,
    AGENT: ZOE,
    agentId: two.zoe.id,
    token: two.zoe.token,
    store: two.folder,
    "--token": two.zoe.token,
    constructor: { agent: ZOE },
  };
  const calls: [name: string, args: Record<string, unknown>][] = [
    ["list_memories", {}],
    ["list_memories", { query: "Zirconium Birchwhistle Quendoline" }],
    ["list_memories", { cursor: `n${ZOE_ENTRIES}` }],
    ["add_source", { label: "x", text: "mine" }],
    ["recall_bad_source", { ids: [1], mode: "contact" }],
    ["recall_bad_source", { ids: [1], mode: "fair", plan: two.zoes.plan }],
    ["remember", { text: "x", from: [[ZOE_ENTRIES]] }],
    ["recall_bad_source", { ids: [ZOE_ENTRIES], mode: "contact", erase: true }],
    ...ids.map((id): [string, Record<string, unknown>] => ["explain_memory", { id }]),
  ];
  const codes: string[] = [];
  for (const [name, args] of calls) {
    const said = await session.client.callTool({ name, arguments: { ...smuggled, ...args } });
    // Its own words may come back to it, zoë's may not.
    const text = JSON.stringify(said).replaceAll(two.zoes.plan, "");
    expectNoWordOfZoe(text);
    if (said.isError) codes.push(/([A-Z_]+): /.exec(text)?.[1] ?? text);
  }
  const beyond = ids.filter((id) => id > ALICE_ENTRIES + 1).map(() => "NO_ENTRY");
  expect(codes).toEqual(["PLAN_STALE", "UNKNOWN_PARENT", "NO_ENTRY", ...beyond]);
  await session.close();
  expect(imprint(two)).toEqual(before);
});

// ----- at random -----

test("whatever is done to alice at random, zoë's bytes stay as they are, and alice never says a word of hers", async () => {
  const random = chance(SEED);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const some = () => Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(ids));
  const two = copyOfTwo();
  const before = imprint(two);
  let store = await Store.open(two.folder, { segmentBytes: 700, snapshotRecords: 3 });
  let agent = await store.openAgent(two.alice.token);
  const aliceLines = (await collect(agent.export())).join("");
  const mode = () => pick(["fair", "strict", "contact"] as const);
  const disposal = () => pick(["untrusted", "erase"] as const);
  const operations: (() => Promise<unknown>)[] = [
    () => agent.addLot(pick(["x", "y"]), `lot ${random()}`, { seen: some() }),
    () => agent.addLot("x", `lot ${random()}`.repeat(20)),
    () => agent.remember(`memory ${random()}`, [some(), some()]),
    () => agent.remember(`memory ${random()}`, [[1 + Math.floor(random() * 4)]], { seen: some() }),
    () => agent.corroborate(pick(ids), some()),
    () => agent.recall(some(), { mode: mode(), disposal: disposal() }),
    () => agent.recall(some(), { mode: mode(), plan: two.zoes.plan }),
    () => agent.planRecall(some(), { mode: mode(), disposal: disposal() }),
    () => agent.show(pick(ids)),
    () => agent.why(pick(ids)),
    () => collect(agent.entries()),
    () => collect(agent.history()),
    async () => agent.import(aliceLines),
    () => collect(agent.export({ deadTexts: true })),
    () => agent.compact(),
    () => agent.verify(),
    () => agent.verify({ expect: two.zoes.fingerprint }),
    async () => store.openAgent(two.alice.token.replace(/.{8}$/, "AAAAAAAA")),
    () => store.createAgent(pick([ZOE, "zoe\u0308", "..", "a/b", "\0"])),
    () => store.deleteAgent(pick([two.zoe.id, "ZOË", `../agents/${two.zoe.id}`])),
    () => store.find(pick(WORDS), { agent: ALICE }),
    async () => {
      await agent.close();
      store = await Store.open(two.folder, { segmentBytes: 700, snapshotRecords: 3 });
      agent = await store.openAgent(two.alice.token);
    },
    async () => {
      const name = pick(["head", "graph"]);
      const way = pick(["hard link", "copy"] as const);
      await agent.close();
      if (existsSync(inAgents(two, two.zoe.id, name)))
        plant(way, inAgents(two, two.zoe.id, name), inAgents(two, two.alice.id, name));
      agent = await store.openAgent(two.alice.token);
    },
  ];
  const done = { works: 0, refused: 0 };
  for (let i = 0; i < 300; i++) {
    const said = await told(pick(operations));
    // What was looked for comes back as such.
    const { text: _looked, ...report } = (said ?? {}) as { text?: unknown };
    expectNoWordOfZoe(Array.isArray(said) ? said : report);
    if (typeof said === "object" && said !== null && "refused" in said) done.refused++;
    else done.works++;
    if (i % 20 === 0) expect(imprint(two)).toEqual(before);
  }
  await agent.close();
  expect(imprint(two)).toEqual(before);
  // Both kinds were tried, or the test proves little.
  expect(Math.min(done.works, done.refused)).toBeGreaterThan(50);
  await expectZoeWhole(two);
});
