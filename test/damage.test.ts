// G3 and G4: every single bit flip and every truncation of a small store of two agents gets its exact verdict, and no wrong
// text is ever served. What is expected follows from where the byte stands.

import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import { chance, codeOf, collect, filesIn, SEED, tempFolder } from "./helpers.ts";

/** Every so many bytes: 1 for all. */
const STEP = Number(process.env.FLIP_STEP ?? 1);

interface Golden {
  folder: string;
  tokens: Record<string, string>;
  agents: Record<string, string>;
  /** What each entry of alice is, by its text. */
  texts: (string | null)[];
  files: { name: string; bytes: Buffer }[];
}

let golden: Golden;

/** Two agents, all kinds of records, an erase, a compaction before it, several segments and a snapshot. */
async function makeGolden(folder: string): Promise<Golden> {
  const store = await Store.open(folder, { segmentBytes: 900, snapshotRecords: 4 });
  const tokens: Record<string, string> = {};
  const agents: Record<string, string> = {};
  for (const name of ["alice", "bob"]) {
    const created = await store.createAgent(name, { keepToken: true });
    tokens[name] = created.token;
    agents[name] = created.agent.id;
    const agent = await store.openAgent(created.token);
    const user = await agent.addLot("user_message", "I live in Pune");
    const page = await agent.addLot("web_page", "profile: lives in Pune", {
      uri: "https://example.com/u/1",
    });
    const tool = await agent.addLot("weather_tool", "Pune: rain");
    const other = await agent.addLot("web_page", "nothing to see", { seen: [user, page] });
    const lives = await agent.remember("user lives in Pune", [[user], [page]]);
    const rainy = await agent.remember("Pune is rainy", [[tool]], { seen: [tool] });
    await agent.remember("carry an umbrella", [[lives, rainy]]);
    await agent.corroborate(lives, [other]);
    await agent.recall([other], { mode: "strict" });
    await agent.compact();
    await agent.recall([tool], { disposal: "erase" });
    await agent.addLot("user_message", "goodbye");
    await agent.close();
  }
  const alice = await store.openAgent(tokens.alice as string);
  const texts = (await collect(alice.entries())).map(({ text }) => text);
  await alice.close();
  const files = filesIn(folder).map(({ name, path }) => ({ name, bytes: readFileSync(path) }));
  return { folder, tokens, agents, texts, files };
}

let work: string;

beforeAll(async () => {
  console.log(`SEED=${SEED}`);
  const { mkdtempSync } = await import("node:fs");
  const { tmpdir } = await import("node:os");
  work = mkdtempSync(join(tmpdir(), "cheesedb-test-"));
  golden = await makeGolden(join(work, "golden"));
  return () => rmSync(work, { recursive: true, force: true });
});

let copies = 0;

/** A copy of the golden store in which one file has other bytes; null removes it. */
function damagedCopy(name: string, bytes: Buffer | null): string {
  const folder = join(work, `copy-${copies++}`);
  cpSync(golden.folder, folder, { recursive: true });
  if (bytes === null) rmSync(join(folder, name));
  else writeFileSync(join(folder, name), bytes);
  return folder;
}

/** The verdicts on alice and bob: a code, "torn" or "ok". */
async function verdicts(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  let store: Store;
  try {
    store = await Store.open(folder, { readOnly: true });
  } catch (error) {
    return { store: (error as { code: string }).code };
  }
  for (const name of ["alice", "bob"]) {
    try {
      const { tornBytes } = await store.verifyAgent(name);
      found[name] = tornBytes > 0 ? "torn" : "ok";
    } catch (error) {
      found[name] = (error as { code: string }).code;
    }
  }
  return found;
}

/** Every text that alice serves is the right one, or she refuses. */
async function servesNothingWrong(folder: string) {
  const store = await Store.open(folder, { readOnly: true });
  let agent: Awaited<ReturnType<Store["openAgent"]>>;
  try {
    agent = await store.openAgent(golden.tokens.alice as string);
  } catch (error) {
    expect((error as { code: string }).code).toMatch(/CORRUPT|BAD_TOKEN|NEWER_FORMAT/);
    return;
  }
  for (const [i, text] of golden.texts.entries()) {
    let served: string | null;
    try {
      served = await agent.text(i + 1);
    } catch (error) {
      expect((error as { code: string }).code).toMatch(/CORRUPT|NEWER_FORMAT|NO_ENTRY/);
      continue;
    }
    expect(served).toBe(text);
  }
  await agent.close();
}

const isLog = (name: string) => name.includes("/log/");
const ofAlice = () =>
  golden.files.filter(({ name }) => name.includes(golden.agents.alice as string));
/** Where the records of a segment end and its zeros begin. */
const written = (bytes: Buffer) => {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return end;
};

describe("G4", () => {
  test("every flipped bit of alice's log is found by verify, and bob does not notice", async () => {
    let flips = 0;
    for (const { name, bytes } of ofAlice().filter(({ name }) => isLog(name))) {
      const folder = damagedCopy(name, bytes);
      const store = await Store.open(folder, { readOnly: true });
      const file = openSync(join(folder, name), "r+");
      for (let at = 0; at < written(bytes); at += STEP) {
        for (let bit = 0; bit < 8; bit++) {
          writeSync(file, Uint8Array.of((bytes[at] as number) ^ (1 << bit)), 0, 1, at);
          const verdict = await codeOf(() => store.verifyAgent("alice"));
          expect(verdict, `${name} offset ${at} bit ${bit}`).toMatch(/^(CORRUPT|NEWER_FORMAT)$/);
          flips++;
        }
        expect(await codeOf(() => store.verifyAgent("bob"))).toBe(null);
        writeSync(file, bytes, at, 1, at);
      }
      closeSync(file);
      expect(await codeOf(() => store.verifyAgent("alice"))).toBe(null);
      rmSync(folder, { recursive: true });
    }
    console.log(`${flips} bits flipped in the log`);
  });

  test("no flipped bit makes a wrong text be served", async () => {
    const random = chance(SEED);
    for (const { name, bytes } of ofAlice()) {
      const folder = damagedCopy(name, bytes);
      for (let at = Math.floor(random() * 7); at < written(bytes); at += 7) {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] as number) ^ (1 << Math.floor(random() * 8));
        writeFileSync(join(folder, name), flipped);
        await servesNothingWrong(folder);
      }
      rmSync(folder, { recursive: true });
    }
  });

  test("a flipped bit in the head mark is told and harmless, in the agent file it is damage, in the snapshot a replay", async () => {
    for (const { name, bytes } of ofAlice().filter(({ name }) => !isLog(name))) {
      const folder = damagedCopy(name, bytes);
      for (let at = 0; at < bytes.length; at += 3) {
        const flipped = Buffer.from(bytes);
        flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
        writeFileSync(join(folder, name), flipped);
        const { alice, bob } = await verdicts(folder);
        expect(bob).toBe("ok");
        if (name.endsWith("/agent")) {
          // Its name does not check: it is no agent of that name any more, and listed as damaged.
          expect(alice).toBe("NO_AGENT");
          const store = await Store.open(folder, { readOnly: true });
          const damaged = (await store.agents()).filter((agent) => agent.damaged);
          expect(damaged.map((agent) => agent.id)).toEqual([golden.agents.alice]);
          expect(await codeOf(() => store.openAgent(golden.tokens.alice as string))).toMatch(
            /CORRUPT|NEWER_FORMAT/,
          );
        } else {
          expect(alice, `${name} offset ${at}`).toBe("ok");
        }
      }
      rmSync(folder, { recursive: true });
    }
  });
});

describe("G3", () => {
  test("every truncation of alice's log is damage: her head mark names its end", async () => {
    for (const { name, bytes } of ofAlice().filter(({ name }) => isLog(name))) {
      const folder = damagedCopy(name, bytes);
      const isLast = written(bytes) < bytes.length;
      for (let length = 0; length < written(bytes); length++) {
        truncateSync(join(folder, name), 0);
        writeFileSync(join(folder, name), bytes.subarray(0, length));
        expect(await verdicts(folder), `${name} cut at ${length}`).toEqual({
          alice: "CORRUPT",
          bob: "ok",
        });
      }
      // The zeros ahead may be of any length.
      if (isLast) {
        for (let length = written(bytes); length < bytes.length; length += 4001) {
          writeFileSync(join(folder, name), bytes.subarray(0, length));
          expect(await verdicts(folder)).toEqual({ alice: "ok", bob: "ok" });
        }
      }
      rmSync(folder, { recursive: true });
    }
  });

  test("without a head mark, the last batch cut or flipped anywhere is torn and reported; an earlier one is damage", async () => {
    const folder = join(work, "young");
    const store = await Store.open(folder);
    const { token, agent: info } = await store.createAgent("alice");
    const agent = await store.openAgent(token);
    const head = join(folder, "agents", info.id, "head");
    const path = join(folder, "agents", info.id, "log", "1", "00000001.seg");
    const begun = 128;
    await agent.addLot("user_message", "the first of two");
    const second = written(readFileSync(path));
    await agent.addLot("user_message", "the second of two");
    await agent.close();
    const bytes = readFileSync(path);
    const end = written(bytes);
    const noMark = (contents: Buffer) => {
      const copy = join(work, `copy-${copies++}`);
      cpSync(folder, copy, { recursive: true });
      rmSync(join(copy, "agents", info.id, "head"));
      writeFileSync(join(copy, "agents", info.id, "log", "1", "00000001.seg"), contents);
      return copy;
    };
    expect(readFileSync(head).length).toBe(1024);
    const verdict = async (contents: Buffer) => {
      const copy = noMark(contents);
      try {
        const { tornBytes, records } = await (
          await Store.open(copy, { readOnly: true })
        ).verifyAgent("alice");
        return { tornBytes, records };
      } catch (error) {
        return (error as { code: string }).code;
      } finally {
        rmSync(copy, { recursive: true });
      }
    };
    for (let length = second + 1; length < end; length++) {
      const cut = await verdict(bytes.subarray(0, length));
      // Bytes that are zero by chance at the end of what was kept are not counted.
      expect(cut).toMatchObject({ records: 1 });
      expect((cut as { tornBytes: number }).tornBytes).toBe(
        Math.max(written(bytes.subarray(0, length)) - second, 0),
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
    const folder = join(work, "torn");
    const store = await Store.open(folder);
    const { token, agent: info } = await store.createAgent("alice");
    const first = await store.openAgent(token);
    await first.addLot("user_message", "kept");
    await first.close();
    const path = join(folder, "agents", info.id, "log", "1", "00000001.seg");
    const bytes = readFileSync(path);
    const end = written(bytes);
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

describe("segments", () => {
  test("one missing, copied, swapped or from elsewhere is damage", async () => {
    const segments = ofAlice().filter(({ name }) => isLog(name));
    expect(segments.length).toBeGreaterThan(2);
    const bobs = golden.files.filter(
      ({ name }) => isLog(name) && name.includes(golden.agents.bob as string),
    );
    for (const [i, { name }] of segments.entries()) {
      expect((await verdicts(damagedCopy(name, null))).alice).toBe("CORRUPT");
      const other = segments[(i + 1) % segments.length] as { bytes: Buffer };
      expect((await verdicts(damagedCopy(name, other.bytes))).alice).toBe("CORRUPT");
      expect((await verdicts(damagedCopy(name, (bobs[i] as { bytes: Buffer }).bytes))).alice).toBe(
        "CORRUPT",
      );
    }
    const last = segments.at(-1) as { name: string; bytes: Buffer };
    const extra = damagedCopy(last.name, last.bytes);
    writeFileSync(
      join(
        extra,
        last.name.replace(
          /(\d{8})\.seg$/,
          (_, n) => `${String(Number(n) + 1).padStart(8, "0")}.seg`,
        ),
      ),
      last.bytes,
    );
    expect((await verdicts(extra)).alice).toBe("CORRUPT");
  });

  test("a log older than its head mark or its snapshot has lost its end", async () => {
    const folder = join(work, "rolled-back");
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
    const folder = damagedCopy("store", null);
    for (const options of [{}, { readOnly: true }, { create: false }])
      expect(await codeOf(() => Store.open(folder, options))).toBe("NO_STORE");
    cpSync(join(golden.folder, "store"), join(folder, "store"));
    expect(await codeOf(async () => (await Store.open(folder)).verifyAgent("alice"))).toBe(null);
  });

  test("every flipped bit of the store file is damage", async () => {
    const { bytes } = golden.files.find(({ name }) => name === "store") as { bytes: Buffer };
    const folder = damagedCopy("store", bytes);
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] as number) ^ (1 << (at % 8));
      writeFileSync(join(folder, "store"), flipped);
      expect(await codeOf(() => Store.open(folder))).toBe("CORRUPT");
    }
  });

  test("one of a newer version is refused as such, and nothing is written", async () => {
    const { crc32 } = await import("node:zlib");
    for (const { name, bytes } of golden.files.filter(
      ({ name }) => name === "store" || name.endsWith("/agent") || isLog(name),
    )) {
      const newer = Buffer.from(bytes);
      newer.writeUInt16LE(2, 8);
      newer.writeUInt32LE(crc32(newer.subarray(0, 124)), 124);
      const folder = damagedCopy(name, newer);
      // With a snapshot a middle segment is not read before a text of it is wanted.
      rmSync(join(folder, "agents", golden.agents.alice as string, "graph"), { force: true });
      rmSync(join(folder, "agents", golden.agents.bob as string, "graph"), { force: true });
      const open = async () => {
        const store = await Store.open(folder);
        await store.openAgent(
          golden.tokens[name.includes(golden.agents.bob as string) ? "bob" : "alice"] as string,
        );
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
