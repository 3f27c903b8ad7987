// G3 and G4: damage of every kind to a small store of two agents gets its exact verdict, and no wrong text is ever served.
//
// A seeded sample of what the campaign goes through whole: every so manyth flipped bit, truncation, changed sector, replaced
// file and rollback. What is expected stands beside the kinds of damage, in test/campaign/damage.ts.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import {
  Bench,
  bitFlips,
  checkMixture,
  expectedOfMixture,
  expectedVerdict,
  filesOf,
  type Golden,
  makeGolden,
  manyChanges,
  mixtures,
  type Planned,
  replacements,
  sectorsSwapped,
  sectorsZeroed,
  truncations,
  WELL,
  writtenEnd,
} from "./campaign/damage.ts";
import { workFolder, writeImage } from "./campaign/stores.ts";
import { batchEnd, chance, codeOf, SEED, tempFolder } from "./helpers.ts";

/** DAMAGE_STEP=1 takes all of each kind. */
const STEP = process.env.DAMAGE_STEP === undefined ? null : Number(process.env.DAMAGE_STEP);

let golden: Golden;
let bench: Bench;
const work = workFolder();
afterAll(() => rmSync(work, { recursive: true, force: true }));

beforeAll(async () => {
  console.log(`SEED=${SEED}`);
  golden = await makeGolden(join(work, "golden"));
  bench = new Bench(golden, join(work, "bench"));
});

/** How many there must be at least, where so many are expected of every `step`th. */
const atLeast = (count: number, step: number) => (count * step) / (STEP ?? step);

/** Every so manyth, from a place by the seed. */
function* sample<T>(all: Iterable<T>, step: number): Generator<T> {
  const every = STEP ?? step;
  let i = SEED % every;
  for (const one of all) if (i++ % every === 0) yield one;
}

/** Checks some damage, one time in so many with all texts read, and says how much it was. */
async function checkAll(plans: Iterable<Planned>, { reads = 5 } = {}): Promise<number> {
  let count = 0;
  for (const planned of plans) {
    await bench.check(planned, { readsToo: count % reads === 0 }).catch((error) => {
      throw new Error(`${planned.what}: ${error.message}`, { cause: error });
    });
    count++;
  }
  return count;
}

test("the golden store itself checks, both agents serve their texts, and what is expected of it is that all is well", async () => {
  for (const owner of ["alice", "bob"] as const) {
    expect(expectedVerdict(golden, owner, new Map())).toBe(WELL);
    expect(await bench.verdict(owner)).toBe(WELL);
    expect(golden.moments[owner].at(-1)?.texts).toEqual([
      "I live in Pune",
      "profile: lives in Pune",
      null,
      null,
      null,
      null,
      null,
      "and",
      "so",
      "on",
      "goodbye",
    ]);
    await bench.requireServesRight(owner, golden.moments[owner].at(-1)?.texts ?? []);
    const log = filesOf(golden).filter(([name]) => name.includes(golden.ids[owner]));
    expect(log.filter(([name]) => name.includes("/log/2/")).length).toBeGreaterThan(2);
  }
  // A reading that does not fit is noticed.
  await expect(bench.requireServesRight("alice", ["something else"])).rejects.toThrow("serves");
});

describe("G4", () => {
  test("a flipped bit of any file is found where it matters, and told where it does not", async () => {
    const flips = await checkAll(sample(bitFlips(golden), 97));
    console.log(`${flips} bits flipped`);
    expect(flips).toBeGreaterThan(atLeast(500, 97));
  });

  test("a zeroed sector, two sectors changed for each other, a file removed, doubled or replaced: each gets its verdict", async () => {
    const zeroed = await checkAll(sectorsZeroed(golden), { reads: 1 });
    const swapped = await checkAll(sample(sectorsSwapped(golden), 3));
    const replaced = await checkAll(replacements(golden));
    console.log(`${zeroed} sectors zeroed, ${swapped} swapped, ${replaced} files replaced`);
    expect(Math.min(zeroed, replaced)).toBeGreaterThan(30);
    expect(swapped).toBeGreaterThan(atLeast(30, 3));
  });

  test("many changes at once are no better hidden than one", async () => {
    const random = chance(SEED);
    const plans = Array.from({ length: atLeast(200, 25) }, () => manyChanges(golden, random));
    await checkAll(plans);
  });
});

describe("G3", () => {
  test("a file cut anywhere is damage where its end was named, and otherwise told", async () => {
    const cuts = await checkAll(sample(truncations(golden), 23));
    console.log(`${cuts} truncations`);
    expect(cuts).toBeGreaterThan(atLeast(300, 23));
  });

  test("without a head mark, the last batch cut or flipped anywhere is torn and reported; an earlier one is damage", async () => {
    const folder = join(tempFolder(), "young");
    const store = await Store.open(folder);
    const { token, agent: info } = await store.createAgent("alice");
    const agent = await store.openAgent(token);
    const head = join(folder, "agents", info.id, "head");
    const path = join(folder, "agents", info.id, "log", "1", "00000001.seg");
    const begun = 128;
    await agent.addLot("user_message", "the first of two");
    await agent.addLot("user_message", "the second of two");
    await agent.close();
    const bytes = readFileSync(path);
    const second = batchEnd(bytes, begun);
    const end = batchEnd(bytes, second);
    expect(readFileSync(head).length).toBe(1024);
    rmSync(head);
    const reader = await Store.open(folder, { readOnly: true });
    const verdict = async (contents: Buffer) => {
      writeFileSync(path, contents);
      try {
        const { tornBytes, records } = await reader.verifyAgent("alice");
        return { tornBytes, records };
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    for (let length = second + 1; length < end; length++) {
      const cut = await verdict(bytes.subarray(0, length));
      // Bytes that are zero by chance at the end of what was kept are not counted.
      expect(cut).toMatchObject({ records: 1 });
      expect((cut as { tornBytes: number }).tornBytes).toBe(
        Math.max(writtenEnd(bytes.subarray(0, length)) - second, 0),
      );
    }
    for (let at = second; at < end; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
      expect(await verdict(flipped), `offset ${at}`).toMatchObject({
        records: 1,
        tornBytes: expect.any(Number),
      });
    }
    for (let at = begun; at < second; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
      expect(await verdict(flipped), `offset ${at}`).toBe("CORRUPT");
    }
  });

  test("what a writer finds torn is cut off, told once, and the next write stands where it stood", async () => {
    const folder = join(tempFolder(), "torn");
    const store = await Store.open(folder);
    const { token, agent: info } = await store.createAgent("alice");
    const first = await store.openAgent(token);
    await first.addLot("user_message", "kept");
    await first.close();
    const path = join(folder, "agents", info.id, "log", "1", "00000001.seg");
    const bytes = readFileSync(path);
    const end = batchEnd(bytes, 128);
    bytes.write("half a batch, which nobody was told of", end + 3);
    writeFileSync(path, bytes);
    const second = await store.openAgent(token);
    expect(second.opened.tornBytes).toBe(3 + 38);
    expect(await second.addLot("user_message", "next")).toBe(2);
    await second.close();
    expect(readFileSync(path).includes("half a batch")).toBe(false);
    expect(await store.verifyAgent("alice")).toMatchObject({ ok: true, records: 2, tornBytes: 0 });
  });
});

describe("a rollback", () => {
  test("of a part of an agent's folder to an earlier moment is found by head mark or snapshot, and of all of it by a fingerprint kept elsewhere", async () => {
    let found = 0;
    let hidden = 0;
    for (const mixture of sample(mixtures(golden), 53)) {
      const { owner, log, head, graph } = mixture;
      await checkMixture(bench, mixture).catch((error) => {
        const what = `${owner}, log of moment ${log}, head mark of ${head}, snapshot of ${graph}`;
        throw new Error(`${what}: ${error.message}`, { cause: error });
      });
      if (expectedOfMixture(golden, mixture) === "CORRUPT") found++;
      else hidden++;
    }
    console.log(`${found} rollbacks found, ${hidden} that only a fingerprint tells`);
    expect(Math.min(found, hidden)).toBeGreaterThan(atLeast(10, 53));
  });

  test("a log older than its head mark or its snapshot has lost its end", async () => {
    const folder = join(tempFolder(), "rolled-back");
    const store = await Store.open(folder, { snapshotRecords: 1 });
    const { token, agent: info } = await store.createAgent("alice");
    const agent = await store.openAgent(token);
    await agent.addLot("user_message", "one");
    await agent.close();
    const path = join(folder, "agents", info.id, "log", "1", "00000001.seg");
    const old = readFileSync(path);
    const again = await store.openAgent(token);
    await again.addLot("user_message", "two");
    const { fingerprint } = await again.head();
    await again.close();
    writeFileSync(path, old);
    expect(await codeOf(() => store.openAgent(token))).toBe("CORRUPT");
    // Even without the head mark the snapshot tells; without both only a fingerprint kept elsewhere does.
    rmSync(join(folder, "agents", info.id, "head"));
    expect(await codeOf(() => store.openAgent(token))).toBe("CORRUPT");
    rmSync(join(folder, "agents", info.id, "graph"));
    expect(await codeOf(() => store.verifyAgent("alice"))).toBe(null);
    expect(await codeOf(() => store.verifyAgent("alice", { expect: fingerprint }))).toBe(
      "HEAD_MISMATCH",
    );
  });
});

describe("stores", () => {
  test("one whose store file is missing is not given another: its agents would be nobody's", async () => {
    const folder = join(tempFolder(), "store");
    writeImage(folder, golden.image);
    rmSync(join(folder, "store"));
    for (const options of [{}, { readOnly: true }, { create: false }])
      expect(await codeOf(() => Store.open(folder, options))).toBe("NO_STORE");
    writeFileSync(join(folder, "store"), golden.image.get("store") ?? "");
    expect(await codeOf(async () => (await Store.open(folder)).verifyAgent("alice"))).toBe(null);
  });

  test("one of a newer version is refused as such, and nothing is written", async () => {
    const folder = join(tempFolder(), "newer");
    const versioned = filesOf(golden).filter(
      ([name]) => name === "store" || name.endsWith("/agent") || name.endsWith(".seg"),
    );
    for (const [name, bytes] of versioned) {
      const newer = Buffer.from(bytes);
      newer.writeUInt16LE(2, 8);
      newer.writeUInt32LE(crc32(newer.subarray(0, 124)), 124);
      const image = new Map(golden.image).set(name, newer);
      // With a snapshot a middle segment is not read before a text of it is wanted.
      for (const id of Object.values(golden.ids)) image.delete(`agents/${id}/graph`);
      writeImage(folder, image);
      const open = async () => {
        const store = await Store.open(folder);
        await store.openAgent(golden.tokens[name.includes(golden.ids.bob) ? "bob" : "alice"]);
      };
      expect(await codeOf(open), name).toBe("NEWER_FORMAT");
      expect(readFileSync(join(folder, name)).equals(newer)).toBe(true);
    }
  });

  test("a folder that holds something else, a file, or a link is no store", async () => {
    const folder = tempFolder();
    mkdirSync(join(folder, "photos"));
    writeFileSync(join(folder, "photos", "a.jpg"), "");
    expect(await codeOf(() => Store.open(join(folder, "photos")))).toBe("NO_STORE");
    expect(await codeOf(() => Store.open(join(folder, "photos", "a.jpg")))).toBe("NO_STORE");
    expect(await codeOf(() => Store.open(join(folder, "none"), { create: false }))).toBe(
      "NO_STORE",
    );
  });
});
