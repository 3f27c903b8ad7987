// `cheesedb mcp` among enemies: what is no protocol, what is too much of it, clients that hang, vanish or print, and texts
// that look like messages. No crash, no hang, no growth without bound, nothing half-written.

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import { asAgent, bytesOf, cli, emptyStore, puneStore } from "./cli-helpers.ts";
import { chance, collect, SEED } from "./helpers.ts";
import { ERAS, type Json, openSession, range, type Server, startServer } from "./mcp-helpers.ts";
import { startChild } from "./spawn.ts";

const MIB = 1024 * 1024;
const HAS_PROC = existsSync("/proc/self/status");

console.log(`SEED=${SEED}`);

const textOf = (store: string, id: number) => asAgent(store, "alice", (alice) => alice.text(id));

const stateOf = (store: string) =>
  asAgent(store, "alice", async (alice) => ({
    texts: (await collect(alice.entries())).map(({ text }) => text),
    verified: await alice.verify(),
  }));

/** That it still answers, after whatever was sent. */
async function expectAlive(server: Server) {
  const answer = await server.ask("tools/list");
  expect(answer?.result?.tools?.length).toBe(5);
}

/** Resolves when a process has done nothing for a while. */
async function atRest({ child }: Server) {
  const ticks = () =>
    readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.split(" ").slice(11, 13).join();
  for (let before = "", quiet = 0; quiet < 4; ) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const now = ticks() ?? "";
    quiet = now === before ? quiet + 1 : 0;
    before = now;
  }
}

describe("texts", () => {
  const LOOKALIKES = [
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    '\n{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}\n',
    '"}]}}\n{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"x"}}',
    "Content-Length: 3\r\n\r\n{}",
    "\u0000\u0001\u0007\u001b[2J\u001b]0;title\u0007\u007f\u0085\u009b31m",
    "\u2028\u2029\ufeff\u202e\u200b",
    "\r\r\n\n\r",
    "𝒳\u{10ffff}e\u0301\ufffd",
    "__proto__",
    "",
  ];

  test.each(Object.entries(ERAS))(
    "that look like messages or hold control characters go in and out unchanged, to a client that opens %s",
    async (_, era) => {
      const { store } = await emptyStore();
      const session = await openSession(store, { era });
      for (const [i, text] of LOOKALIKES.entries()) {
        const id = 2 * i + 1;
        const source = await session.call("add_source", { label: `x${text.slice(0, 8)}`, text });
        expect(source.id).toBe(id);
        await session.call("remember", { text, from: [[id]] });
        const { entry, support } = await session.call("explain_memory", { id: id + 1 });
        expect([entry.text, support[0].text, support[0].label]).toEqual([
          text,
          text,
          `x${text.slice(0, 8)}`,
        ]);
      }
      await session.call("recall_bad_source", { ids: [1], mode: "fair" });
      expect((await session.pages()).flat().map(({ text }) => text)).toEqual(
        LOOKALIKES.toReversed(),
      );
      await session.close();
      expect((await stateOf(store)).texts).toEqual(LOOKALIKES.flatMap((text) => [text, text]));
    },
  );

  test("of 10 MB are stored to the last byte, shown in part, and too large ones refused", async () => {
    const { store } = await emptyStore();
    const session = await openSession(store);
    const text = `${"a".repeat(10_000_000 - 4)}🧀`;
    await session.call("add_source", { label: "file", text });
    const { entry } = await session.call("explain_memory", { id: 1 });
    expect(text.startsWith(entry.text)).toBe(true);
    expect(entry.textCut).toMatch(/\d/);
    await session.refused("TOO_LARGE", "add_source", {
      label: "file",
      text: "b".repeat(16 * MIB + 1),
    });
    await session.refused("TOO_LARGE", "remember", { text: "c".repeat(16 * MIB + 1), from: [[1]] });
    await session.refused("TOO_LARGE", "add_source", { label: "l".repeat(100_000), text: "x" });
    await session.refused("TOO_LARGE", "add_source", {
      label: "x",
      text: "x",
      uri: "u".repeat(10_000),
    });
    await session.close();
    const kept = await textOf(store, 1);
    expect(kept?.length).toBe(text.length);
    expect(kept === text).toBe(true);
    expect((await stateOf(store)).texts.length).toBe(1);
  });

  test("in a line of 100 MB are refused as too large, and the next call is answered", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    const { isError, content } = await server.callByHand("add_source", {
      label: "file",
      text: "x".repeat(100_000_000),
    });
    expect(isError).toBe(true);
    expect(content[0].text).toMatch(/^TOO_LARGE: /);
    await expectAlive(server);
    await server.close();
  });

  test("in a line without an end end the connection, before they fill the memory", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    await server.write('{"jsonrpc":"2.0","id":1,"method":"');
    const part = Buffer.alloc(8 * MIB, "x");
    let sent = 0;
    for (; sent < 400 && server.child.exitCode === null; sent += 8) await server.write(part);
    expect(await server.ended).toEqual({ code: 0, signal: null });
    expect(sent).toBeLessThan(400);
  });

  test("that are no UTF-8 are refused or left unanswered, never stored repaired", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    const call = (text: Buffer) =>
      Buffer.concat([
        Buffer.from(
          '{"jsonrpc":"2.0","id":"bad","method":"tools/call","params":{"name":"add_source",',
        ),
        Buffer.from('"arguments":{"label":"x","text":"'),
        text,
        Buffer.from('"}}}\n'),
      ]);
    for (const bad of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xc0]])
      await server.write(call(Buffer.from(bad)));
    await expectAlive(server);
    // Half a surrogate pair, which JSON can say and UTF-8 cannot.
    const { isError, content } = await server.callByHand("add_source", {
      label: "x",
      text: "a\ud800b",
    });
    expect([isError, content[0].text]).toEqual([true, expect.stringMatching(/^NOT_UTF8: /)]);
    // A character in pieces is no such thing.
    const bytes = call(Buffer.from("é🧀"));
    const cut = bytes.indexOf(0xc3) + 1;
    await server.write(bytes.subarray(0, cut));
    await server.write(bytes.subarray(cut, cut + 3));
    const answer = server.answerTo("bad");
    await server.write(bytes.subarray(cut + 3));
    expect((await answer).result.structuredContent.id).toBe(1);
    await server.close();
    expect((await stateOf(store)).texts).toEqual(["é🧀"]);
  });
});

describe("what is no request that it knows", () => {
  const LINES: Record<string, string | Uint8Array> = {
    "malformed JSON": '{"jsonrpc":"2.0","id":',
    "no JSON at all": "hello",
    "an empty line": "",
    "many empty lines": "\n\r\n\n",
    "a batch": '[{"jsonrpc":"2.0","id":"b","method":"tools/list"}]',
    "an empty batch": "[]",
    "two requests in one line":
      '{"jsonrpc":"2.0","id":"t1","method":"tools/list"}{"jsonrpc":"2.0","id":"t2","method":"tools/list"}',
    null: "null",
    "a number": "5",
    "a string": '"tools/list"',
    "another version": '{"jsonrpc":"1.0","id":"v","method":"tools/list"}',
    "no version": '{"id":"v","method":"tools/list"}',
    "an id that is null": '{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
    "an id that is an object": '{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
    "an id that is a fraction": '{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}',
    "an id without bound": '{"jsonrpc":"2.0","id":1e999,"method":"tools/list"}',
    "an id of many digits": `{"jsonrpc":"2.0","id":${"9".repeat(400)},"method":"tools/list"}`,
    "no method": '{"jsonrpc":"2.0","id":"m"}',
    "a method that is a number": '{"jsonrpc":"2.0","id":"m","method":5}',
    "parameters that are a list":
      '{"jsonrpc":"2.0","id":"p","method":"tools/call","params":["add_source"]}',
    "a notification that nobody knows": '{"jsonrpc":"2.0","method":"notifications/nothing"}',
    "a cancellation of nothing":
      '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}',
    "an answer to nothing": '{"jsonrpc":"2.0","id":"none","result":{}}',
    "an error to nothing": '{"jsonrpc":"2.0","id":"none","error":{"code":1,"message":"x"}}',
    "a second opening":
      '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"1"}}',
    "another era": `{"jsonrpc":"2.0","id":"e","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}}`,
    "lists in lists in lists": `${"[".repeat(200_000)}${"]".repeat(200_000)}`,
    "objects in objects": `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`,
    "keys of JavaScript's own":
      '{"jsonrpc":"2.0","id":"k","method":"__proto__","__proto__":{"x":1},"constructor":{}}',
    "bytes that are no UTF-8": Uint8Array.of(0x7b, 0xff, 0xfe, 0x00, 0x7d),
    "zero bytes": new Uint8Array(1000),
  };

  test("is dropped or answered with an error, and the next request is answered", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const server = startServer(store);
    await server.initialize();
    for (const line of Object.values(LINES)) {
      await server.write(line);
      await server.write("\n");
      await expectAlive(server);
    }
    await server.close();
    expect(await server.ended).toEqual({ code: 0, signal: null });
    // No tool ran: not one of a batch, nor of two in a line.
    expect(bytesOf(store)).toEqual(before);
    expect(server.messages.filter(({ id }) => ["b", "t1", "t2"].includes(id))).toEqual([]);
  });

  test("may come first: before anything was opened", async () => {
    const { store } = await emptyStore();
    for (const [what, line] of Object.entries(LINES)) {
      if (!["malformed JSON", "a batch", "zero bytes", "an answer to nothing"].includes(what))
        continue;
      const server = startServer(store);
      await server.write(line);
      await server.write("\n");
      expect((await server.initialize()).result.serverInfo.name).toBe("cheesedb");
      await expectAlive(server);
      await server.close();
    }
  });

  test("an unknown method or tool is an error of the protocol, and named", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    for (const method of [
      "resources/list",
      "prompts/list",
      "logging/setLevel",
      "x",
      "",
      "toString",
    ])
      expect((await server.ask(method, {})).error).toMatchObject({ code: -32601 });
    for (const name of ["recall", "add_lot", "", "__proto__", "constructor", "x".repeat(100_000)])
      expect((await server.ask("tools/call", { name, arguments: {} })).error).toMatchObject({
        code: -32602,
      });
    for (const params of [undefined, {}, { name: 5 }, { name: "list_memories", arguments: "x" }])
      expect((await server.ask("tools/call", params)).error).toMatchObject({ code: -32602 });
    await server.close();
  });

  test("an id may be any string or number, and is given back as it was", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    for (const id of [
      0,
      -1,
      Number.MAX_SAFE_INTEGER,
      "",
      "\n\u0000\u2028",
      "__proto__",
      "i".repeat(MIB),
    ]) {
      const answer = await server.ask("tools/list", undefined, id);
      expect(answer.id).toBe(id);
      expect(answer.result.tools.length).toBe(5);
    }
    await server.close();
  });

  test("many requests in one piece, and one request in many, are answered each", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    const request = (id: string) => `{"jsonrpc":"2.0","id":"${id}","method":"tools/list"}\r\n`;
    const names = range(50).map((i) => `all ${i}`);
    const answers = names.map((id) => server.answerTo(id));
    await server.write(names.map(request).join(""));
    for (const answer of await Promise.all(answers)) expect(answer.result.tools.length).toBe(5);
    const slow = server.answerTo("slow");
    for (const letter of request("slow")) await server.write(letter);
    expect((await slow).result.tools.length).toBe(5);
    await server.close();
  });
});

describe("arguments", () => {
  const WRONG: [string, Record<string, unknown>, string][] = [
    ["add_source", {}, "label"],
    ["add_source", { label: "x" }, "text"],
    ["add_source", { label: 5, text: "x" }, "label"],
    ["add_source", { label: null, text: "x" }, "label"],
    ["add_source", { label: ["x"], text: "x" }, "label"],
    ["add_source", { label: "x", text: 5 }, "text"],
    ["add_source", { label: "x", text: { a: 1 } }, "text"],
    ["add_source", { label: "x", text: "x", uri: 5 }, "uri"],
    ["add_source", { label: "", text: "x" }, "label"],
    ["remember", { text: "x" }, "from"],
    ["remember", { from: [[1]] }, "text"],
    ["remember", { text: true, from: [[1]] }, "text"],
    ["remember", { text: "x", from: 1 }, "from"],
    ["remember", { text: "x", from: "1" }, "from"],
    ["remember", { text: "x", from: [1] }, "from"],
    ["remember", { text: "x", from: { 0: [1] } }, "from"],
    ["remember", { text: "x", from: [["1"]] }, "from"],
    ["remember", { text: "x", from: [[1.5]] }, "from"],
    ["remember", { text: "x", from: [[null]] }, "from"],
    ["remember", { text: "x", from: [[[1]]] }, "from"],
    ["remember", { text: "x", from: [[2 ** 60]] }, "from"],
    ["remember", { text: "x", from: range(5000).map(() => "a") }, "from"],
    ["list_memories", { query: 5 }, "query"],
    ["list_memories", { limit: "5" }, "limit"],
    ["list_memories", { limit: 0 }, "limit"],
    ["list_memories", { limit: -1 }, "limit"],
    ["list_memories", { limit: 1.5 }, "limit"],
    ["list_memories", { limit: 1e9 }, "limit"],
    ["list_memories", { cursor: 5 }, "cursor"],
    ["explain_memory", {}, "id"],
    ["explain_memory", { id: "1" }, "id"],
    ["explain_memory", { id: 1.5 }, "id"],
    ["explain_memory", { id: [1] }, "id"],
    ["explain_memory", { id: 2 ** 60 }, "id"],
    ["recall_bad_source", { ids: [1] }, "mode"],
    ["recall_bad_source", { mode: "fair" }, "ids"],
    ["recall_bad_source", { ids: 1, mode: "fair" }, "ids"],
    ["recall_bad_source", { ids: ["1"], mode: "fair" }, "ids"],
    ["recall_bad_source", { ids: [[1]], mode: "fair" }, "ids"],
    ["recall_bad_source", { ids: [1], mode: "nice" }, "mode"],
    ["recall_bad_source", { ids: [1], mode: ["fair"] }, "mode"],
    ["recall_bad_source", { ids: [1], mode: "fair", erase: "yes" }, "erase"],
    ["recall_bad_source", { ids: [1], mode: "fair", plan: 5 }, "plan"],
  ];

  test("of a wrong type are refused with the code and a hint, and the argument is named; nothing is written", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const session = await openSession(store);
    for (const [name, args, argument] of WRONG) {
      const told = await session.refused("USAGE", name, args).catch((error) => {
        throw new Error(`${name} ${JSON.stringify(args).slice(0, 80)}: ${error.message}`);
      });
      expect(told, `${name} ${JSON.stringify(args).slice(0, 80)}`).toMatch(
        new RegExp(`\\b${argument}\\b`),
      );
    }
    await session.close();
    expect(bytesOf(store)).toEqual(before);
  });

  test("that are numbers of nothing are refused by their code", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const session = await openSession(store);
    for (const id of [0, -1, 7, 2 ** 32 - 1, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]) {
      await session.refused("UNKNOWN_PARENT", "remember", { text: "x", from: [[1, id]] });
      await session.refused("NO_ENTRY", "explain_memory", { id });
      await session.refused("NO_ENTRY", "recall_bad_source", { ids: [1, id], mode: "strict" });
    }
    await session.refused("NO_LEG", "remember", { text: "x", from: [] });
    await session.refused("NO_LEG", "remember", { text: "x", from: [[1], []] });
    for (const plan of ["x", "x".repeat(100_000), "\u001b[2J\n"])
      await session.refused("PLAN_STALE", "recall_bad_source", { ids: [3], mode: "fair", plan });
    await session.close();
    expect(bytesOf(store)).toEqual(before);
  });

  test("that an app fills in with nothing count as left out: an empty plan is a preview", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const session = await openSession(store);
    const empty = { query: "", cursor: "" };
    expect((await session.call("list_memories", empty)).memories.length).toBe(3);
    expect(
      await session.call("recall_bad_source", { ids: [3], mode: "fair", plan: "", erase: false }),
    ).toMatchObject({ dryRun: true, removed: [5, 6] });
    await session.close();
    expect(bytesOf(store)).toEqual(before);
  });

  test("nested without end are refused", async () => {
    const { store } = await puneStore();
    const server = startServer(store);
    await server.initialize();
    const deep = (open: string, close: string, id: string) =>
      `{"jsonrpc":"2.0","id":"${id}","method":"tools/call","params":{"name":"remember","arguments":{"text":"x","from":${open.repeat(50_000)}1${close.repeat(50_000)}}}}\n`;
    const lists = server.answerTo("lists");
    await server.write(deep("[", "]", "lists"));
    expect((await lists).result.isError).toBe(true);
    const objects = server.answerTo("objects");
    await server.write(deep('{"a":', "}", "objects"));
    expect((await objects).result.isError).toBe(true);
    await expectAlive(server);
    await server.close();
  });
});

describe.runIf(HAS_PROC)("a client that never reads", () => {
  const REQUESTS = 3000;
  /** A server at rest takes about 100 MiB. */
  const MIB_MAX = 320;

  test.each<[string, string, object, string[]?]>([
    ["long lists", "tools/call", { name: "list_memories", arguments: { limit: 50 } }],
    ["schemas", "tools/list", {}],
    [
      "texts to store",
      "tools/call",
      { name: "add_source", arguments: { label: "x", text: "t".repeat(20_000) } },
    ],
    ["what does not exist", "no/such/method", { padding: "p".repeat(1000) }],
  ])(
    "and asks thousands of times, for %s: the server waits and does not grow; what was asked is answered, once",
    async (_, method, params) => {
      const { store } = await emptyStore();
      await asAgent(store, "alice", async (alice) => {
        await alice.addLot("x", "a source");
        await alice.rememberAll(
          range(50).map((i) => ({ text: `${i} ${"m".repeat(500)}`, legs: [[1]] })),
        );
      });
      const server = startServer(store, { isUnread: true });
      void server.initialize();
      for (const i of range(REQUESTS))
        void server.write(`${JSON.stringify({ jsonrpc: "2.0", id: i, method, params })}\n`);
      await atRest(server);
      expect(server.child.exitCode).toBe(null);
      expect(server.peakMiB()).toBeLessThan(MIB_MAX);
      // It was only slow.
      const answered: unknown[] = [];
      let half = "";
      const all = new Promise<void>((resolve) => {
        server.child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
          const lines = (half + piece).split("\n");
          half = lines.pop() ?? "";
          for (const line of lines) answered.push(JSON.parse(line).id);
          if (answered.length > REQUESTS) resolve();
        });
      });
      await all;
      expect(server.peakMiB()).toBeLessThan(MIB_MAX);
      const numbers = answered.filter((id) => typeof id === "number").toSorted((a, b) => a - b);
      expect(numbers).toEqual(range(REQUESTS));
      server.child.stdin?.end();
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stderr).toBe("");
    },
  );

  test("and goes away takes the server with it", async () => {
    const { store } = await puneStore();
    for (const signal of [null, "SIGTERM"] as const) {
      const server = startServer(store, { isUnread: true });
      void server.initialize();
      for (const i of range(1000))
        void server.write(`{"jsonrpc":"2.0","id":${i},"method":"tools/list"}\n`);
      await atRest(server);
      if (signal) server.child.kill(signal);
      else {
        server.child.stdout?.destroy();
        server.child.stdin?.destroy();
      }
      expect((await server.ended).signal).toBe(null);
      expect(server.stderr).toBe("");
    }
  });

  test("while a lock is waited for, does not make it take in more and more", async () => {
    const { store, token } = await puneStore();
    const holder = startChild("stop", { store, token, texts: ["held"] });
    await holder.next();
    const server = startServer(store, { flags: ["--wait", "600"] });
    await server.initialize();
    const text = "t".repeat(MIB);
    for (const i of range(200))
      void server.write(
        `${JSON.stringify({ jsonrpc: "2.0", id: i, method: "tools/call", params: { name: "add_source", arguments: { label: "x", text } } })}\n`,
      );
    await atRest(server);
    expect(server.peakMiB()).toBeLessThan(MIB_MAX);
    const last = server.answerTo(200);
    holder.kill("SIGCONT");
    await last;
    await server.close();
    expect((await stateOf(store)).texts.length).toBe(207);
  });
});

describe("a server ends", () => {
  test("when standard input is closed at once: nothing said, nothing wrong", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const server = startServer(store);
    await server.close();
    expect(await server.ended).toEqual({ code: 0, signal: null });
    expect([server.messages, server.half, server.stderr]).toEqual([[], "", ""]);
    expect(bytesOf(store)).toEqual(before);
  });

  test("when standard input is closed after half a line: what was not said is not done", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    const request =
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_source","arguments":{"label":"x","text":"y"}}}';
    for (const length of [1, 20, request.length - 1]) {
      const server = startServer(store);
      await server.initialize();
      await server.write(request.slice(0, length));
      await server.close();
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stderr).toBe("");
    }
    expect(bytesOf(store)).toEqual(before);
  });

  test("when standard input is closed in the middle of a call: it is done whole or not at all, and the lock is free", async () => {
    const random = chance(SEED);
    const { store } = await puneStore();
    const acknowledged: string[] = [];
    const sent: string[] = [];
    for (const round of range(8)) {
      const server = startServer(store);
      await server.initialize();
      // The first call opens the agent: half of the rounds end in that, half in a later one.
      if (round % 2) await server.callByHand("list_memories", {});
      for (const i of range(1 + Math.floor(random() * 5))) {
        const text = `round ${round}, ${i} `.padEnd(1 + Math.floor(random() * 200_000), "x");
        sent.push(text);
        void server.callByHand("add_source", { label: "x", text }).then((result: Json) => {
          if (result?.structuredContent) acknowledged.push(text);
        });
      }
      if (random() < 0.5) await new Promise((resolve) => setTimeout(resolve, random() * 20));
      await server.close();
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stderr).toBe("");
      // The lock is free at once: it is not even waited for.
      const opened = await Store.open(store);
      const alice = await opened.openAgent(opened.keptToken("alice") as string, { waitMs: 0 });
      await alice.addLot("x", `after ${round}`);
      expect(alice.opened.tornBytes).toBe(0);
      await alice.close();
    }
    const { texts, verified } = await stateOf(store);
    expect(verified).toMatchObject({ ok: true, tornBytes: 0 });
    for (const text of acknowledged) expect(texts.filter((other) => other === text).length).toBe(1);
    expect(new Set(texts).size).toBe(texts.length);
    for (const text of texts.slice(6))
      expect(sent.includes(text ?? "") || text?.startsWith("after ")).toBe(true);
  });

  test("at the end of standard input: what was read is answered first, in a batch through a pipe too", async () => {
    const { store } = await puneStore();
    const lines = [
      {
        id: 1,
        method: "initialize",
        params: {
          protocolVersion: "2025-06-18",
          capabilities: {},
          clientInfo: { name: "pipe", version: "1" },
        },
      },
      { method: "notifications/initialized" },
      { id: 2, method: "tools/list" },
      ...range(40).map((i) => ({
        id: 2 + i,
        method: "tools/call",
        params: { name: "add_source", arguments: { label: "x", text: `piped ${i}` } },
      })),
    ].map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const { code, stdout, stderr } = await cli(["mcp", "alice"], { store, stdin: lines.join("") });
    expect([code, stderr]).toEqual([0, ""]);
    const answers: Json[] = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(answers.map(({ id }) => id).sort((a, b) => a - b)).toEqual(range(42));
    for (const { result } of answers) expect(result?.isError ?? false).toBe(false);
    const { texts } = await stateOf(store);
    expect(texts.slice(6).sort()).toEqual(
      range(40)
        .map((i) => `piped ${i}`)
        .sort(),
    );
  });

  test("when standard input is closed while it waits for a lock", async () => {
    const { store, token } = await puneStore();
    const holder = startChild("stop", { store, token, texts: ["held"] });
    await holder.next();
    for (const isOpen of [true, false]) {
      const server = startServer(store, { flags: ["--wait", "600"] });
      await server.initialize();
      if (isOpen) await server.callByHand("list_memories", {});
      const write = server.callByHand("add_source", { label: "x", text: "never" });
      await server.ask("tools/list");
      await server.close();
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(await write).toBeUndefined();
    }
    holder.kill("SIGCONT");
    await holder.ended;
    expect((await stateOf(store)).texts.at(-1)).toBe("held");
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "by %s: quietly, what was acknowledged is there, and the lock is free",
    async (signal) => {
      const { store } = await puneStore();
      const server = startServer(store);
      await server.initialize();
      await server.callByHand("add_source", { label: "x", text: "kept" });
      void server.callByHand("add_source", { label: "x", text: "perhaps" });
      server.child.kill(signal);
      const { code, signal: by } = await server.ended;
      // 130 is Ctrl-C's; a server that was told to end has done nothing wrong.
      expect([0, 130, null]).toContain(code);
      expect([null, "SIGHUP"]).toContain(by);
      // Something was changed: nobody may say that nothing was.
      expect(server.stderr).toBe("");
      const opened = await Store.open(store);
      const alice = await opened.openAgent(opened.keptToken("alice") as string, { waitMs: 0 });
      const id = await alice.addLot("x", "after");
      expect(await alice.text(7)).toBe("kept");
      expect([8, 9]).toContain(id);
      expect(await alice.verify()).toMatchObject({ ok: true, tornBytes: 0 });
      await alice.close();
    },
  );
});

describe("standard output", () => {
  test("carries nothing but protocol with DEBUG, whatever is refused on the way", async () => {
    const { store } = await puneStore();
    const session = await openSession(store, { env: { DEBUG: "*" } });
    await session.call("add_source", { label: "x", text: "y" });
    await session.refused("NO_ENTRY", "explain_memory", { id: 99 });
    await session.server.write("{broken\n[1]\n");
    await session.call("list_memories");
    await session.close();
    expect(session.server.noise).toEqual([]);
  });

  test("carries nothing but protocol when code prints while it serves: that goes to standard error", async () => {
    const { store } = await puneStore();
    // Prints at every message that is read.
    const chatty = `
      const parse = JSON.parse;
      JSON.parse = (text, ...rest) => {
        if (String(text).includes('"jsonrpc"')) {
          console.log("a line of noise");
          console.info({ an: "object" });
          console.table([[1, 2]]);
          console.dir(process.versions);
          process.stdout.write("half a line of noise");
          process.stdout.write(Buffer.from("bytes of noise\\n"), () => {});
          process.stdout.write("noise of an encoding\\n", "latin1");
        }
        return parse(text, ...rest);
      };`;
    const session = await openSession(store, {
      env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(chatty)}` },
    });
    await session.call("add_source", { label: "x", text: "y" });
    expect((await session.call("list_memories")).memories.length).toBe(3);
    await session.close();
    expect(session.server.noise).toEqual([]);
    expect(session.server.stderr).toContain("a line of noise");
    expect(session.server.stderr).toContain("bytes of noise");
  });

  test("carries each message as one line, whatever is in it", async () => {
    const { store } = await emptyStore();
    const server = startServer(store);
    await server.initialize();
    const text = 'a\nb\r\nc\u2028d\u2029e"\\';
    await server.callByHand("add_source", { label: "x\ny", text });
    await server.callByHand("explain_memory", { id: 1 });
    await server.callByHand("add_source", { label: `${"x".repeat(65)}\n`, text }, "id\nid");
    expect(server.messages.length).toBe(4);
    expect(server.messages.at(-1).id).toBe("id\nid");
    await server.close();
    expect(server.half).toBe("");
  });
});
