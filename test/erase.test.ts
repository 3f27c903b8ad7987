// G5, G6, G7: an erase takes a text off the raw bytes before it returns, and all that could confirm a guess at it; a
// compaction does so for the untrusted; and the chain stands through both.

import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Agent, Store } from "../src/index.ts";
import { formsIn, formsInItself, formsOf } from "./canary.ts";
import { allBytes, codeOf, collect, filesIn, tempAgent, tempFolder } from "./helpers.ts";

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i);

const SECRET = "Quendoline Birchwhistle keeps 40312 in Marzipan Lane";
const URI = "https://zanzibar.example/Fotheringay?q=40312";

function logFiles(store: Store, agent: Agent): string[] {
  const folder = join(store.path, "agents", agent.id, "log");
  return filesIn(folder).map(({ path }) => path);
}

/** The 32 bytes before the two lengths and a text, where it stands first. */
function saltBefore(bytes: Buffer, text: string): Buffer {
  const at = bytes.indexOf(text);
  return Buffer.from(bytes.subarray(at - 38, at - 6));
}

/** SHA-256(salt ‖ "cheesedb/text/v1" ‖ u32 text size ‖ u16 uri size + 1 ‖ text ‖ uri), as the format says. */
function commitmentOf(salt: Buffer, text: string, uri: string | null): Buffer {
  const sizes = Buffer.alloc(6);
  sizes.writeUInt32LE(Buffer.byteLength(text));
  sizes.writeUInt16LE(uri === null ? 0 : Buffer.byteLength(uri) + 1, 4);
  return createHash("sha256")
    .update(salt)
    .update("cheesedb/text/v1")
    .update(sizes)
    .update(text)
    .update(uri ?? "")
    .digest();
}

test("the scan itself finds every form of a text where it stands, and none where it does not", () => {
  for (const text of [SECRET, URI]) {
    for (const [name, form] of Object.entries(formsOf(text))) {
      const around = Buffer.concat([Buffer.alloc(1000, 1), form, Buffer.alloc(1000, 2)]);
      expect(formsIn(around, text), name).toContain(name);
    }
    expect(formsIn(Buffer.alloc(2000, 1), text)).toEqual([]);
  }
  // In base64 at each of the three places that it may have.
  for (const shift of [0, 1, 2]) {
    const encoded = Buffer.from(`${"#".repeat(3 + shift)}${SECRET}####`).toString("base64");
    expect(formsIn(Buffer.from(encoded), SECRET)).toContain(`base64 +${shift}`);
  }
});

describe("G5: an erase", () => {
  test("takes text and uri off every byte of the store before it returns, and leaves nothing to confirm a guess with", async () => {
    // Given: small segments and snapshots, so that the text is not in the last one and everything has been written down.
    const options = { segmentBytes: 600, snapshotRecords: 1 };
    const { store, agent: first, token } = await tempAgent(options);
    for (const i of upTo(4)) await first.addLot("web_page", `before ${i}`);
    await first.addLot("user_message", SECRET, { uri: URI, seen: [1, 2] });
    await first.remember(`learned that ${SECRET}`, [[5]]);
    for (const i of upTo(4)) await first.addLot("web_page", `after ${i}`);
    await first.close();
    const agent = await store.openAgent(token);
    await collect(agent.entries());
    const segments = logFiles(store, agent);
    const inodes = segments.map((path) => statSync(path).ino);
    expect(segments.length).toBeGreaterThan(2);
    // The control: it is there, as itself and in no other form.
    const before = allBytes(store.path);
    expect(formsIn(before, SECRET)).toEqual(formsInItself(SECRET));
    expect(formsIn(before, URI)).toEqual(formsInItself(URI));
    expect(readFileSync(segments.at(-1) ?? "").includes(SECRET)).toBe(false);
    const salt = saltBefore(before, SECRET);
    const commitment = commitmentOf(salt, SECRET, URI);
    expect(before.includes(salt)).toBe(true);
    expect(before.includes(commitment)).toBe(true);

    // Done
    const outcome = await agent.recall([5], { disposal: "erase" });

    // Seen
    const after = allBytes(store.path);
    expect(outcome.erased).toEqual([5, 6]);
    expect(formsIn(after, SECRET)).toEqual([]);
    expect(formsIn(after, URI)).toEqual([]);
    // What remains of it is a commitment that nobody can work out without the salt, and the salt is gone.
    expect(after.includes(salt)).toBe(false);
    expect(after.includes(commitment)).toBe(true);
    expect(after.includes("user_message")).toBe(true);
    for (const i of upTo(4)) expect(after.includes(`before ${i}`)).toBe(true);
    for (const i of upTo(4)) expect(after.includes(`after ${i}`)).toBe(true);
    // In place: no segment was replaced.
    expect(segments.map((path) => statSync(path).ino)).toEqual(inodes);

    // Nor does anything bring it back: the close with its snapshot, a reopening, a compaction, an export.
    await agent.close();
    const again = await store.openAgent(token);
    expect(await again.text(5)).toBe(null);
    expect(await again.show(5)).toMatchObject({ uri: null, label: "user_message", erased: true });
    const lines = (await collect(again.export({ deadTexts: true }))).join("");
    expect(formsIn(Buffer.from(lines), SECRET)).toEqual([]);
    await again.compact();
    await again.addLot("web_page", "one more");
    await again.close();
    expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
    expect((await store.find(SECRET, { absent: true })).unerased).toEqual([]);
    expect((await store.verify()).ok).toBe(true);
  });

  test("takes the text of what is dead below, and a survivor keeps its own, though it repeats the source", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("web_page", SECRET);
    await agent.addLot("web_page", "another source");
    await agent.remember(`survivor: ${SECRET}`, [[1], [2]]);
    await agent.remember(`dies: ${SECRET}`, [[1]]);
    await agent.remember(`dies too: ${SECRET}`, [[3, 4]]);
    expect((await store.find(SECRET)).count).toBe(4);
    const outcome = await agent.recall([1], { disposal: "erase" });
    expect(outcome).toMatchObject({
      removed: [4, 5],
      erased: [1, 4, 5],
      survivors: [{ id: 3, heldBy: [[2]] }],
    });
    expect((await store.find(SECRET)).count).toBe(1);
    expect((await store.find(`survivor: ${SECRET}`)).count).toBe(1);
    expect(await agent.text(3)).toBe(`survivor: ${SECRET}`);
    // And how to recall it too: it is a target like any other.
    expect((await agent.recall([3], { disposal: "erase" })).erased).toEqual([3]);
    expect((await store.find(SECRET)).count).toBe(0);
    expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
  });

  test("leaves an equal text of another entry, and of another agent, where it is", async () => {
    const { store, agent } = await tempAgent();
    const bob = await store.openAgent((await store.createAgent("bob")).token);
    await agent.addLot("web_page", SECRET);
    await agent.addLot("web_page", SECRET);
    await bob.addLot("web_page", SECRET);
    expect((await store.find(SECRET)).count).toBe(3);
    await agent.recall([1], { disposal: "erase" });
    expect((await store.find(SECRET)).count).toBe(2);
    expect([await agent.text(1), await agent.text(2), await bob.text(1)]).toEqual([
      null,
      SECRET,
      SECRET,
    ]);
    await bob.close();
  });

  test("equal texts have nothing equal outside their areas: no one tells from an erased one that it was the same", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("web_page", SECRET);
    await agent.addLot("web_page", SECRET);
    const before = allBytes(store.path);
    const salts = [
      saltBefore(before, SECRET),
      saltBefore(before.subarray(before.indexOf(SECRET) + 1), SECRET),
    ];
    expect(salts[0]?.equals(salts[1] as Buffer)).toBe(false);
    for (const salt of salts) expect(before.includes(commitmentOf(salt, SECRET, null))).toBe(true);
  });

  test("of many texts in many segments takes each and no other", async () => {
    const { store, agent } = await tempAgent({ segmentBytes: 5000 });
    await agent.addLot("web_page", "the source of the odd ones");
    await agent.addLot("web_page", "the source of the even ones");
    const ids = await agent.rememberAll(
      upTo(2000).map((i) => ({
        text: `memory number ${i}, that long ${"=".repeat((i * 7) % 300)}|`,
        legs: [[1 + ((i + 1) % 2)]],
      })),
    );
    await agent.addLots(upTo(200).map((i) => ({ label: "x", text: `tail ${i}` })));
    const odd = ids.filter((_, i) => i % 2 === 0);
    const outcome = await agent.recall([1], { disposal: "erase" });
    expect(outcome.erased).toEqual([1, ...odd]);
    const bytes = allBytes(store.path).toString("latin1");
    const left = [...bytes.matchAll(/memory number (\d+), that long/g)].map(([, i]) => Number(i));
    expect(left).toEqual(upTo(1000).map((i) => 2 * i));
    expect((await agent.verify()).records).toBe(2 + 2000 + 200 + 1);
  });

  test("of everything leaves a store that opens, checks, and goes on", async () => {
    const { store, agent, token } = await tempAgent();
    await agent.addLots(upTo(10).map((i) => ({ label: "x", text: `${SECRET} ${i}` })));
    expect((await agent.recall(upTo(10), { disposal: "erase" })).erased).toEqual(upTo(10));
    await agent.close();
    expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
    const again = await store.openAgent(token);
    expect(await again.addLot("x", "a new beginning")).toBe(11);
    expect((await again.verify()).records).toBe(12);
    await again.close();
  });

  test("of a text that was never there, or is gone, is no more than a record at most", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("x", "");
    await agent.addLot("x", SECRET);
    expect((await agent.recall([1], { disposal: "erase" })).erased).toEqual([1]);
    expect((await agent.recall([1], { disposal: "erase" })).record).toBe(null);
    await agent.recall([2]);
    await agent.compact();
    // Dropped by the compaction: raised to erase it is a record, and takes nothing.
    expect(await agent.recall([2], { disposal: "erase" })).toMatchObject({ erased: [], record: 6 });
    expect((await agent.verify()).ok).toBe(true);
  });

  test("is refused nowhere because of what an untrusted recall did before", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("x", SECRET);
    await agent.remember(`of ${SECRET}`, [[1]]);
    await agent.recall([1]);
    // Untrusted: hidden from the agent's view, and in the files until a compaction.
    expect((await store.find(SECRET)).count).toBe(2);
    expect(await agent.text(1)).toBe(SECRET);
    expect((await agent.recall([1], { disposal: "erase" })).erased).toEqual([1, 2]);
    expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
  });
});

describe("the length of an erased text", () => {
  // An area is 38 bytes, text and uri, rounded up: to 32 up to 1 KiB, by Padmé beyond.
  test.each([
    [0, 64],
    [26, 64],
    [27, 96],
    [986, 1024],
    [987, 1088],
    [2010, 2048],
    [2011, 2176],
    [8962, 9216],
    [10_000, 10_240],
    [999_962, 1_015_808],
  ])("%i bytes of text take an area of %i", async (textBytes, areaBytes) => {
    const { agent } = await tempAgent();
    await agent.addLot("x", "t".repeat(textBytes));
    expect((await agent.stats()).textBytes).toBe(areaBytes);
  });

  test("is not to be told from the files within its step, nor is whether there was a uri", async () => {
    /** The sizes of all files of an agent with one lot, closed and so without space ahead. */
    const sizes = async (text: string, uri?: string) => {
      const { store, agent } = await tempAgent();
      await agent.addLot("x", text, { uri });
      await agent.recall([1], { disposal: "erase" });
      await agent.close();
      return filesIn(join(store.path, "agents", agent.id)).map(
        ({ name, path }) => `${name} ${readFileSync(path).length}`,
      );
    };
    const short = await sizes("t".repeat(27));
    expect(await sizes("t".repeat(58))).toEqual(short);
    expect(await sizes("t".repeat(20), "u".repeat(30))).toEqual(short);
    expect(await sizes("t".repeat(59))).not.toEqual(short);
  });

  test("padding that is not zero is damage, and so is a byte in an erased place", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("x", "t".repeat(40));
    await agent.addLot("x", SECRET);
    await agent.close();
    const [path = ""] = logFiles(store, agent);
    const bytes = readFileSync(path);
    const write = (at: number, byte: number) => {
      const changed = Buffer.from(bytes);
      changed[at] = byte;
      writeFileSync(path, changed);
    };
    const textAt = bytes.indexOf("t".repeat(40));
    expect(bytes[textAt + 40]).toBe(0);
    write(textAt + 40, 1);
    expect(await codeOf(() => store.verifyAgent("alice"))).toBe("CORRUPT");
    writeFileSync(path, bytes);
    expect(await codeOf(() => store.verifyAgent("alice"))).toBe(null);

    const secretAt = bytes.indexOf(SECRET);
    const again = await store.openAgent(store.keptToken("alice") ?? "");
    await again.recall([2], { disposal: "erase" });
    await again.close();
    const erased = readFileSync(path);
    expect(erased[secretAt]).toBe(0);
    erased[secretAt] = 0x51;
    writeFileSync(path, erased);
    expect(await codeOf(() => store.verifyAgent("alice"))).toBe("CORRUPT");
    expect((await store.find("nothing", { absent: true })).unerased).toEqual([
      { agent: "alice", entry: 2 },
    ]);
  });
});

describe("a compaction", () => {
  test("drops the texts of the untrusted, and says how many and how many bytes came back", async () => {
    const { store, agent } = await tempAgent();
    await agent.addLot("web_page", SECRET, { uri: URI });
    await agent.addLot("user_message", "a living one", { uri: "ftp://there.example/" });
    await agent.remember(`of ${SECRET}`, [[1]]);
    await agent.remember("of 2", [[2]]);
    await agent.recall([1]);
    expect(formsIn(allBytes(store.path), SECRET)).toContain("utf8");
    const sizeOfAll = () =>
      logFiles(store, agent).reduce((sum, path) => sum + readFileSync(path).length, 0);
    const sizeBefore = sizeOfAll();
    const outcome = await agent.compact();
    expect(outcome.textsDropped).toBe(2);
    expect(outcome.before).toBe(sizeBefore);
    expect(outcome.after).toBe(sizeOfAll());
    expect(outcome.reclaimed).toBe(outcome.before - outcome.after);
    expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
    expect(formsIn(allBytes(store.path), URI)).toEqual([]);
    expect(await agent.show(1)).toMatchObject({
      text: null,
      uri: null,
      erased: true,
      state: "recalled",
      label: "web_page",
    });
    expect(await agent.show(2)).toMatchObject({
      text: "a living one",
      uri: "ftp://there.example/",
    });
    expect((await agent.show(4)).text).toBe("of 2");
  });

  test("gives back what was erased, down to what the living need", async () => {
    const { agent } = await tempAgent();
    await agent.addLots(upTo(50).map((i) => ({ label: "x", text: `${i} ${"z".repeat(20_000)}` })));
    await agent.addLot("x", "the one that stays");
    await agent.recall(upTo(50), { disposal: "erase" });
    const { reclaimed, after, textsDropped } = await agent.compact();
    expect(textsDropped).toBe(0);
    expect(reclaimed).toBeGreaterThan(50 * 20_000);
    // 51 spines of some 60 bytes, one area, and 64 KiB kept ahead.
    expect(after).toBeLessThan(64 * 1024 + 10_000);
    expect(await agent.text(51)).toBe("the one that stays");
  });

  test("leaves no file of the generation before, and one of the new", async () => {
    const { store, agent } = await tempAgent({ segmentBytes: 500 });
    await agent.addLots(upTo(20).map((i) => ({ label: "x", text: `lot ${i}` })));
    await agent.recall([3, 4]);
    await agent.compact();
    await agent.recall([5, 6]);
    await agent.compact();
    expect(readdirSync(join(store.path, "agents", agent.id, "log"))).toEqual(["3"]);
    expect((await agent.verify()).ok).toBe(true);
  });

  test("that has nothing to drop and nothing to give back writes nothing", async () => {
    const { store, agent: first, token } = await tempAgent();
    await first.addLot("x", "alive");
    await first.recall([await first.addLot("x", "dead")]);
    await first.compact();
    await first.close();
    const before = allBytes(store.path);
    const agent = await store.openAgent(token);
    expect(await agent.compact()).toMatchObject({ reclaimed: 0, textsDropped: 0 });
    expect(allBytes(store.path).equals(before)).toBe(true);
    await agent.close();
    expect(allBytes(store.path).equals(before)).toBe(true);
  });

  test("changes nothing else that can be asked", async () => {
    const { store, agent, token } = await tempAgent({ segmentBytes: 700, snapshotRecords: 1 });
    await agent.addLots(upTo(6).map((i) => ({ label: `label ${i}`, text: `lot ${i}` })));
    await agent.remember("of 1 or 2", [[1], [2]]);
    await agent.remember("of 3", [[3]], { seen: [1, 2, 5] });
    await agent.remember("of 7 and 8", [[7, 8]]);
    await agent.corroborate(7, [4, 5]);
    await agent.recall([3]);
    await agent.recall([1], { disposal: "erase" });
    const ask = async (agent: Agent) => ({
      entries: (await collect(agent.entries())).map((entry) =>
        entry.state === "alive" ? entry : { ...entry, text: "", erased: true },
      ),
      why: await Promise.all([7, 9].map((id) => agent.why(id))).then((whys) =>
        whys.map((why) =>
          "support" in why
            ? why.support.map(({ id, state, legs }) => ({ id, state, legs }))
            : why.killedBy,
        ),
      ),
      plan: (await agent.planRecall([2], { mode: "contact" })).id,
    });
    const before = await ask(agent);
    await agent.compact();
    expect(await ask(agent)).toEqual(before);
    await agent.close();
    const again = await store.openAgent(token);
    expect(again.opened.fromSnapshot).toBe(true);
    expect(await ask(again)).toEqual(before);
    expect((await again.recall([2])).removed).toEqual([]);
    expect((await again.recall([4])).removed).toEqual([7]);
    await again.close();
  });
});

describe("G7: the chain", () => {
  test("a head kept from before verifies after erase and compaction, back to record 1, and no other head does", async () => {
    const { store, agent, token } = await tempAgent({ segmentBytes: 600 });
    const heads = [await agent.head()];
    const step = async (write: () => Promise<unknown>) => {
      await write();
      heads.push(await agent.head());
    };
    await step(() => agent.addLot("web_page", SECRET));
    await step(() => agent.addLot("web_page", "two"));
    await step(() => agent.remember("of 1", [[1]]));
    await step(() => agent.remember("of 1 or 2", [[1], [2]]));
    await step(() => agent.recall([1], { disposal: "erase" }));
    await step(() => agent.recall([2]));
    await step(() => agent.compact());
    await step(() => agent.addLot("web_page", "three"));
    expect(heads.map(({ record }) => record)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for (const { record, hash, fingerprint } of heads) {
      expect(fingerprint).toBe(`${record}-${hash}`);
      expect(await agent.verify({ expect: fingerprint })).toMatchObject({
        records: 8,
        expected: { fingerprint, recordsSince: 8 - record },
      });
      const changed = `${record}-${hash.startsWith("0") ? "1" : "0"}${hash.slice(1)}`;
      expect(await codeOf(() => agent.verify({ expect: changed }))).toBe("HEAD_MISMATCH");
      const elsewhere = `${record + 1}-${hash}`;
      expect(await codeOf(() => agent.verify({ expect: elsewhere }))).toBe("HEAD_MISMATCH");
    }
    await agent.close();
    const last = heads.at(-1)?.fingerprint;
    expect((await store.verifyAgent("alice", { expect: last })).head.fingerprint).toBe(last);
    const again = await store.openAgent(token);
    expect((await again.head()).fingerprint).toBe(last);
    await again.close();
  });

  test("the zeroing of an erase changes no head, and a compaction only by its drop record", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("x", SECRET);
    const { record } = await agent.recall([1], { disposal: "erase" });
    const head = await agent.head();
    expect(head.record).toBe(record);
    // Nothing to drop: the rewriting alone.
    expect((await agent.compact()).reclaimed).toBeGreaterThan(0);
    expect(await agent.head()).toEqual(head);
  });
});

describe("G6: deleting an agent", () => {
  test("takes all its texts and its token off the disk, and nothing of another's", async () => {
    const { store, agent, token } = await tempAgent({ segmentBytes: 500 });
    const bob = await store.openAgent((await store.createAgent("bob", { keepToken: true })).token);
    await bob.addLot("x", "of bob");
    await agent.addLots(upTo(20).map((i) => ({ label: "x", text: `${SECRET} ${i}`, uri: URI })));
    const before = allBytes(store.path);
    expect(before.includes(SECRET)).toBe(true);
    expect(before.includes(token)).toBe(true);
    await agent.close();
    await store.deleteAgent("alice");
    const after = allBytes(store.path);
    expect(formsIn(after, SECRET)).toEqual([]);
    expect(formsIn(after, URI)).toEqual([]);
    expect(after.includes(token)).toBe(false);
    expect(await bob.text(1)).toBe("of bob");
    expect(store.keptToken("bob")).toMatch(/^cheese_/);
    await bob.close();
  });
});

test("I5: a copy of a folder from before the erase shows that the scan looks at what is there", async () => {
  const { store, agent } = await tempAgent();
  await agent.addLot("x", SECRET);
  const copy = tempFolder();
  cpSync(store.path, copy, { recursive: true });
  await agent.recall([1], { disposal: "erase" });
  expect(formsIn(allBytes(store.path), SECRET)).toEqual([]);
  expect(formsIn(allBytes(copy), SECRET)).toContain("utf8");
  expect((await (await Store.open(copy, { readOnly: true })).find(SECRET)).count).toBe(1);
});
