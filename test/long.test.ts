// Logs so long that other threads check their chain.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { BATCH_HEADER_BYTES, readCommitMarker, writeCommitMarker } from "../src/codec.ts";
import { realDisk } from "../src/disk.ts";
import { type Agent, Store } from "../src/index.ts";
import { Inspectors } from "../src/inspectors.ts";
import { codeOf, tempStore } from "./helpers.ts";

const LOTS = 40;
const TEXT_BYTES = 500_000;
const SEGMENT_BYTES = 4 * 1024 * 1024;
const SEGMENT_START = 128;

async function longLog(): Promise<{ store: Store; token: string; folder: string }> {
  const { path } = await tempStore();
  const store = await Store.open(path, { segmentBytes: SEGMENT_BYTES });
  const { token } = await store.createAgent("alice");
  const agent = await store.openAgent(token);
  for (let i = 1; i <= LOTS; i++) await agent.addLot("page", `${i} `.padEnd(TEXT_BYTES, "x"));
  const folder = join(path, "agents", agent.id);
  await agent.close();
  rmSync(join(folder, "graph"), { force: true });
  return { store, token, folder };
}

async function open(store: Store, token: string): Promise<Agent> {
  const agent = await store.openAgent(token);
  onTestFinished(() => agent.close());
  return agent;
}

/** Changes the label in the first batch of a segment, so that every sum checks, and the chain alone tells. */
function forge(path: string) {
  const bytes = readFileSync(path);
  const agentId = bytes.subarray(32, 48);
  const at = SEGMENT_START;
  const spine = at + BATCH_HEADER_BYTES;
  const spineEnd = spine + bytes.readUInt32LE(at + 16);
  const marker = spineEnd + bytes.readUInt32LE(at + 20);
  const covered = () => crc32(bytes.subarray(at, spineEnd));
  const head = readCommitMarker(bytes, marker, covered());
  expect(bytes.toString("latin1", spineEnd - 8, spineEnd - 4)).toBe("page");
  bytes.write("cage", spineEnd - 8);
  bytes.writeUInt32LE(crc32(bytes.subarray(spine, spineEnd - 4), crc32(agentId)), spineEnd - 4);
  writeCommitMarker(bytes, marker, covered(), head ?? "");
  writeFileSync(path, bytes);
}

test("a long log is read whole, and checked on the way", async () => {
  const { store, token, folder } = await longLog();
  const log = join(folder, "log", "1");
  const sizes = readdirSync(log).map((name) => readFileSync(join(log, name)).length);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  // Else this file would test what others do.
  if (!Inspectors.useThreads(realDisk, bytes)) return;
  expect(sizes.length).toBeGreaterThan(3);
  const agent = await open(store, token);
  expect(agent.opened).toMatchObject({ replayed: LOTS, fromSnapshot: false });
  expect((await agent.text(LOTS))?.startsWith(`${LOTS} `)).toBe(true);
  // What comes behind is chained on.
  await agent.addLot("page", "one more");
  expect(await agent.verify()).toMatchObject({ ok: true, records: LOTS + 1 });
});

test.each(["00000001.seg", "00000003.seg"])(
  "a long log whose chain breaks in %s is refused, and told by its file",
  async (segment) => {
    const { store, token, folder } = await longLog();
    forge(join(folder, "log", "1", segment));
    const refused = await store.openAgent(token).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "CORRUPT",
      file: expect.stringContaining(segment),
      message: expect.stringContaining("the chain breaks"),
    });
    expect(await codeOf(() => store.openAgent(token))).toBe("CORRUPT");
  },
);

test("of a long log that lost its end nothing is served", async () => {
  const { store, token, folder } = await longLog();
  const log = join(folder, "log", "1");
  const last = readdirSync(log).at(-1) ?? "";
  writeFileSync(join(log, last), readFileSync(join(log, last)).subarray(0, SEGMENT_START));
  expect(await codeOf(() => store.openAgent(token))).toBe("CORRUPT");
});
