// Hostile and odd input on the command line: numbers, texts, names and folders that somebody will give some day.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseId, parseLeg, parseTime } from "../src/cli/input.ts";
import { decodeUtf8, Store } from "../src/index.ts";
import {
  addAgent,
  asAgent,
  bytesOf,
  CLI,
  cli,
  each,
  emptyStore,
  puneStore,
  type Ran,
  refusal,
  refused,
  result,
  shellQuoted,
  startCli,
} from "./cli-helpers.ts";
import { codeOf, tempFolder } from "./helpers.ts";

const USAGE = { code: "USAGE", exit: 2 };
const NO_ENTRY = { code: "NO_ENTRY", exit: 3 };
const NO_LEG = { code: "NO_LEG", exit: 4 };
const UNKNOWN_PARENT = { code: "UNKNOWN_PARENT", exit: 4 };
const BAD_NAME = { code: "BAD_NAME", exit: 4 };
const NO_STORE = { code: "NO_STORE", exit: 3 };

const MiB16 = 16 * 1024 * 1024;

describe("numbers", () => {
  const NO_NUMBERS = [
    ["-1", "+1", "1.5", "1.0", "1e3", "0x10", "0b1", "1_000", "NaN", "Infinity"],
    ["007", "00", " 7", "7 ", "", " ", "1 2", "1,2", "１", "९", "1\n", "9".repeat(400)],
  ].flat();

  test("an id is a whole number in its plain form", async () => {
    for (const text of NO_NUMBERS) {
      expect([text, await codeOf(async () => parseId(text))]).toEqual([text, "USAGE"]);
    }
    expect(["0", "1", "10", "4294967294"].map((text) => parseId(text))).toEqual([
      0, 1, 10, 4294967294,
    ]);
  });

  test("and of an entry that exists: every command refuses what is neither, and writes nothing", async () => {
    const { store } = await puneStore();
    const before = bytesOf(store);
    await each<[string[], { code: string; exit: number }]>(
      [
        [["show", "alice", "1e3"], USAGE],
        [["show", "alice", "-1"], USAGE],
        [["show", "alice", "9".repeat(400)], USAGE],
        [["show", "alice", "0"], NO_ENTRY],
        [["show", "alice", "7"], NO_ENTRY],
        [["show", "alice", "4294967297"], NO_ENTRY],
        [["why", "alice", "0x4"], USAGE],
        [["recall", "alice", "1", "2x"], USAGE],
        [["recall", "alice", "3", "0"], NO_ENTRY],
        [["corroborate", "alice", "4.0", "--from", "1"], USAGE],
      ],
      async ([args, expected]) => {
        await refusal(args, expected, { store });
      },
    );
    expect(bytesOf(store)).toEqual(before);
  });

  test("a number too large to be an entry's is named as it was given, not rounded", async () => {
    const { store } = await puneStore();
    await each<[string[], { code: string; exit: number }]>(
      [
        [["show", "alice", "9007199254740993"], NO_ENTRY],
        [["recall", "alice", "18446744073709551616"], NO_ENTRY],
        [["remember", "alice", "m", "--from", "9007199254740993"], UNKNOWN_PARENT],
      ],
      async ([args, expected]) => {
        const { message } = await refusal(args, expected, { store });
        expect.soft(message).toContain(args.at(-1));
      },
    );
  });

  test("a leg is parents joined by commas, and nothing else", async () => {
    for (const text of ["1,,2", "1,", ",1", ",", "1;2", "1 2", "[1,2]", "1.5", "-1", "1,2x"]) {
      expect([text, await codeOf(async () => parseLeg(text))]).toEqual([text, "USAGE"]);
    }
    expect(parseLeg(" 2 , 1,2")).toEqual([2, 1, 2]);
    expect(parseLeg("[2],1")).toEqual([2, 1]);
    const { store } = await puneStore();
    const before = bytesOf(store);
    await each<[string[], { code: string; exit: number }]>(
      [
        [["1,,2"], USAGE],
        [["-1"], USAGE],
        [["1", ""], NO_LEG],
        [["0"], UNKNOWN_PARENT],
        [["4294967297"], UNKNOWN_PARENT],
      ],
      async ([legs, expected]) => {
        const flags = legs.map((leg) => `--from=${leg}`);
        await refusal(["remember", "alice", "m", ...flags], expected, { store });
      },
    );
    expect(bytesOf(store)).toEqual(before);
    const made = await result(["remember", "alice", "m", "--from", " 2 , 1,2", "--from", "1,2"], {
      store,
    });
    expect(made.legs).toEqual([[1, 2]]);
  });

  test("a time is ISO 8601 with a zone, and a day that there is", async () => {
    const wrong = [
      ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "1767225600"],
      ["2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z"],
      ["2026-01-01T24:30:00Z", "2026-01-01T00:60:00Z", "+002026-01-01T00:00:00Z"],
    ].flat();
    for (const text of wrong) {
      const code = await codeOf(async () => parseTime(text, "--since"));
      expect.soft([text, code]).toEqual([text, "USAGE"]);
    }
    expect(parseTime("2028-02-29T05:30+05:30", "--since").toISOString()).toBe(
      "2028-02-29T00:00:00.000Z",
    );
    const { store } = await puneStore();
    await refused(["recall", "alice", "--since", "2026-01-01", "--yes"], USAGE, { store });
  });

  test("--wait and --depth take numbers, and say so", async () => {
    const { store } = await puneStore();
    await each(
      [
        ["list", "alice", "--wait", "-1"],
        ["list", "alice", "--wait", "1e3"],
        ["why", "alice", "4", "--depth", "-1"],
        ["why", "alice", "4", "--depth", "deep"],
      ],
      async (args) => {
        const { message } = await refusal(args, USAGE, { store });
        // Neither is an entry's number.
        expect.soft(message).not.toContain("entry");
      },
    );
    expect((await result(["why", "alice", "6", "--depth", "0"], { store })).more).toBe(5);
  });
});

describe("texts", () => {
  test("a text from standard input keeps every byte: NUL, BOM, CRLF, no final newline, none at all", async () => {
    const { store } = await emptyStore();
    const texts = [
      "a\u0000b",
      "\ufeffwith a BOM",
      "two\r\nlines\r\n",
      "no final newline",
      "",
      "\n🧀 Käse 乾酪",
    ];
    for (const stdin of texts) await result(["lot", "alice", "note", "-"], { store, stdin });
    const { lots } = await result(["list", "alice"], { store });
    expect(lots.map(({ text }: { text: string }) => text)).toEqual(texts);
    const exported = await cli(["export", "alice"], { store });
    const lines = exported.stdout.trimEnd().split("\n");
    expect(lines.slice(1).map((line) => JSON.parse(line).text)).toEqual(texts);
  });

  test("UTF-8 that is cut into pieces on its way is put together again", async () => {
    const { store } = await emptyStore();
    const { child, done } = startCli(["lot", "alice", "note", "-"], { store, stdin: null });
    for (const byte of Buffer.from("€🧀"))
      await new Promise((resolve) => child.stdin?.write(Uint8Array.of(byte), resolve));
    child.stdin?.end();
    expect(await done).toMatchObject({ code: 0, stderr: "" });
    expect((await result(["show", "alice", "1"], { store })).entry.text).toBe("€🧀");
  });

  test("what is not UTF-8 is refused with the offset of what is wrong, and nothing is stored", async () => {
    const wrong: [number[], number][] = [
      [[0x61, 0xff, 0x62], 1],
      [[0x80], 0],
      [[0x61, 0x62, 0xe2, 0x82], 2],
      [[0xe2, 0x82, 0x41], 0],
      [[0xed, 0xa0, 0x80], 0],
      [[0x61, 0xc0, 0x80], 1],
      [[0xf4, 0x90, 0x80, 0x80], 0],
    ];
    for (const [bytes, offset] of wrong) {
      let error: unknown;
      try {
        decodeUtf8(Uint8Array.from(bytes));
      } catch (caught) {
        error = caught;
      }
      expect.soft([bytes, error]).toMatchObject([bytes, { code: "NOT_UTF8", offset }]);
    }
    const { store } = await emptyStore();
    const before = bytesOf(store);
    const NOT_UTF8 = { code: "NOT_UTF8", exit: 2 };
    const stdin = Uint8Array.of(0x61, 0x62, 0xff, 0x63);
    const error = await refused(["lot", "alice", "note", "-"], NOT_UTF8, { store, stdin });
    expect(error).toMatchObject({ offset: 2, message: expect.stringContaining("byte 2") });
    await refusal(["find", "-"], NOT_UTF8, { store, stdin });
    await refusal(["remember", "alice", "-", "--from", "1"], NOT_UTF8, { store, stdin });
    expect(bytesOf(store)).toEqual(before);
  });

  test("an argument that is not UTF-8 is refused, and not repaired", async () => {
    const { store } = await emptyStore();
    // Only a shell can pass such a byte on.
    const line = `exec ${CLI.map(shellQuoted).join(" ")} lot alice note "$(printf 'ab\\377c')" --json`;
    const ran = spawnSync("/bin/sh", ["-c", line], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: store, CHEESEDB_DIR: store },
    });
    expect(ran.status).toBe(2);
    expect(JSON.parse(ran.stdout).error.code).toBe("NOT_UTF8");
    expect((await result(["list", "alice"], { store })).lots).toEqual([]);
  });

  test("16 MiB are stored and given back whole; one byte more is TOO_LARGE", async () => {
    const { store } = await emptyStore();
    const text = "x".repeat(MiB16);
    expect(await result(["lot", "alice", "note", "-"], { store, stdin: text })).toMatchObject({
      id: 1,
    });
    const before = bytesOf(store);
    const TOO_LARGE = { code: "TOO_LARGE", exit: 2 };
    const options = { store, stdin: `${text}x` };
    const { message } = await refusal(["lot", "alice", "note", "-"], TOO_LARGE, options);
    expect(message).toContain("16777216");
    expect(bytesOf(store)).toEqual(before);
    const shown = await cli(["show", "alice", "1"], { store });
    expect(shown.code).toBe(0);
    expect(shown.stdout.length).toBeGreaterThan(MiB16);
    const json = await cli(["show", "alice", "1", "--json"], { store });
    expect(json.code).toBe(0);
    expect(json.json.entry.text === text).toBe(true);
  });

  test("a text without an end is refused as too large before it has filled the memory", async () => {
    const { store } = await emptyStore();
    const { child, done } = startCli(["lot", "alice", "note", "-", "--json"], {
      store,
      stdin: null,
    });
    const piece = Buffer.alloc(1024 * 1024, "x");
    let pieces = 0;
    // It reads 16 MiB and a little; a pipe and its buffers hold a little more.
    while (pieces < 64 && child.exitCode === null && child.stdin?.writable) {
      const isWritten = await new Promise((resolve) =>
        child.stdin?.write(piece, (error) => resolve(!error)),
      );
      if (!isWritten) break;
      pieces++;
    }
    child.stdin?.destroy();
    const ran = await done;
    expect([ran.code, ran.json.error.code]).toEqual([2, "TOO_LARGE"]);
    expect(pieces).toBeLessThan(64);
  });

  test("a text that begins with a dash stands after --", async () => {
    const { store } = await emptyStore();
    await result(["lot", "alice", "note", "--", "--uri"], { store });
    await result(["remember", "alice", "--from", "1", "--", "-n"], { store });
    await result(["lot", "alice", "note", "-"], { store, stdin: "-" });
    const listed = await result(["list", "alice"], { store });
    expect(listed).toMatchObject({
      lots: [{ text: "--uri" }, { text: "-" }],
      memories: [{ text: "-n" }],
    });
    expect((await result(["find", "--", "--uri"], { store })).count).toBe(1);
    await refused(["lot", "alice", "note", "-text"], USAGE, { store });
    await refused(["lot", "alice", "note"], USAGE, { store, stdin: "not asked for" });
  });

  test("a text may be empty, a label may not; what is looked for may not either", async () => {
    const { store } = await emptyStore();
    await result(["lot", "alice", "note", ""], { store });
    expect((await result(["show", "alice", "1"], { store })).entry).toMatchObject({
      text: "",
      erased: false,
    });
    // A variable that is not set looks so: it is said, and nothing is asked in its place.
    const said = await cli(["lot", "alice", "note", ""], { store });
    expect(said.stdout).toBe("Added lot [2] note (its text is empty)\n");
    const memory = await cli(["remember", "alice", "", "--from", "2"], { store });
    expect(memory.stdout).toBe("Added memory [3] ← [2] (its text is empty)\n");
    await refused(["ask", "alice", " "], USAGE, { store });
    await refusal(["lot", "alice", "", "x"], USAGE, { store });
    await refusal(["find", "-"], USAGE, { store, stdin: "" });
    await result(["lot", "alice", "é".repeat(32), "a label of 64 bytes"], { store });
  });
});

describe("names", () => {
  test("a name that is no name is BAD_NAME, and no folder is made for it", async () => {
    const folder = tempFolder();
    const store = join(folder, "store");
    const library = await Store.open(store);
    await library.createAgent("alice");
    const before = bytesOf(folder);
    for (const name of [
      "",
      ".",
      "..",
      "a/b",
      "/etc/passwd",
      "../escaped",
      "a\\b",
      "x".repeat(65),
      "🧀".repeat(65),
      "x".repeat(300),
      "a\tb",
      "a\nb",
      "a\u001b[31mb",
      "a\u0007",
      "a\u007f",
      "a\u009bb",
      "a\u2028b",
      "a\ud800",
    ])
      expect([name, await codeOf(() => library.createAgent(name))]).toEqual([name, "BAD_NAME"]);
    await each(["", "..", "a/b", "a\\b", "x".repeat(300), "a\u001b[31mb"], async (name) => {
      await refusal(["agent", "create", name], BAD_NAME, { store });
    });
    expect(bytesOf(folder)).toEqual(before);
  });

  test("odd names are names: of objects' own words, emoji, spaces, quotes, dashes, 64 code points", async () => {
    const store = join(tempFolder(), "store");
    const names = [
      "__proto__",
      "constructor",
      "hasOwnProperty",
      "🧀",
      "two words",
      "it's",
      '"quoted"',
      "-x",
      "--json",
      "CON",
      "trailing. ",
      "~",
      "é".repeat(64),
    ];
    const library = await Store.open(store);
    for (const name of names) {
      const { agent } = await library.createAgent(name, { keepToken: true });
      expect(agent.name).toBe(name);
    }
    const { agents } = await result(["agent", "list"], { store });
    const listed = agents.map(({ name }: { name: string }) => name);
    expect(listed.toSorted()).toEqual(names.toSorted());
    await each(["__proto__", "constructor", "🧀", "--json"], async (name) => {
      await result(["lot", "--", name, "note", name], { store });
      const { lots } = await result(["list", "--", name], { store });
      expect.soft(lots).toMatchObject([{ id: 1, text: name }]);
    });
    for (const folder of readdirSync(join(store, "agents")))
      expect(folder).toMatch(/^[0-9a-f]{32}$/);
    await result(["agent", "delete", "__proto__", "--yes"], { store });
    await refusal(["list", "__proto__"], { code: "NO_AGENT", exit: 3 }, { store });
  });

  test("a name's twin in another normal form is the same name", async () => {
    const store = join(tempFolder(), "store");
    const [nfc, nfd] = ["caf\u00e9", "cafe\u0301"];
    const made = await result(["agent", "create", nfd], { store });
    expect(made.agent.name).toBe(nfc);
    const taken = { code: "NAME_TAKEN", exit: 4 };
    await refusal(["agent", "create", nfc], taken, { store });
    await asAgent(store, nfc, (agent) => agent.addLot("note", "x"));
    expect((await result(["list", nfd], { store })).lots).toHaveLength(1);
    expect((await result(["find", "x", "--agent", nfd], { store })).filesScanned).toBeGreaterThan(
      0,
    );
    // Other letters are another name, however alike they look.
    await addAgent(store, "саfé");
    await addAgent(store, "CAFÉ");
  });

  test("what agent create says to do next can be done, also with an odd name", async () => {
    const store = join(tempFolder(), "store");
    for (const name of ["-x", "it's", "$HOME"]) {
      const { stdout } = await cli(["agent", "create", "--", name], { store });
      const next = /^Next: cheesedb (.*)$/m.exec(stdout)?.[1];
      const line = `exec ${CLI.map(shellQuoted).join(" ")} ${next}`;
      const ran = spawnSync("/bin/sh", ["-c", line], {
        encoding: "utf8",
        env: { PATH: process.env.PATH, HOME: store, CHEESEDB_DIR: store },
      });
      expect.soft([name, ran.status, ran.stderr]).toEqual([name, 0, ""]);
    }
  });
});

describe("the terminal is never let loose on", () => {
  const ESC = "\u001b[31mred\u001b[0m\u001b]0;title\u0007";
  const HOSTILE = `${ESC} \u202ertl\u202c \u2066iso\u2069 \u200frlm \u009b31mC1 del\u007f cr\r bs\b nul\u0000 ls\u2028.`;
  /** All controls but the newline, and what turns the direction of writing. */
  const LOOSE =
    /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

  function expectHarmless({ stdout, stderr }: Pick<Ran, "stdout" | "stderr">, args: string[]) {
    const loose = LOOSE.exec(stdout + stderr)?.[0];
    const code = loose?.codePointAt(0)?.toString(16);
    expect.soft([args, code]).toEqual([args, undefined]);
  }

  /** Labels and texts, uris and a name, all hostile. A name may hold no controls, but marks of direction. */
  async function hostileStore() {
    const folder = join(tempFolder(), "store");
    const store = await Store.open(folder);
    const name = "al\u202eice";
    const { token } = await store.createAgent(name, { keepToken: true });
    const agent = await store.openAgent(token);
    const label = "\u001b[7mL\u202e\u0007\u009b";
    await agent.addLot(label, HOSTILE, { uri: `https://example.com/${HOSTILE}` });
    await agent.addLot("note", "two\nlines");
    await agent.remember(HOSTILE, [[1], [2]]);
    await agent.remember(HOSTILE, [[1]]);
    await agent.close();
    return { store: folder, name, label };
  }

  test("texts, labels, uris and names are shown escaped wherever they are shown", async () => {
    const { store, name, label } = await hostileStore();
    const shown = [
      ["list", name, "--all"],
      ["show", name, "1"],
      ["show", name, "3"],
      ["why", name, "3"],
      ["history", name],
      ["recall", name, "1", "--dry-run"],
      ["recall", name, "1", "--dry-run", "--strict", "--erase"],
      ["recall", name, "--label", label, "--yes"],
      ["recall", name, "1"],
      ["why", name, "4"],
      ["find", ESC],
      ["find", "example.com"],
      ["find", "nowhere\u001b[31m\u202e"],
      ["agent", "list"],
      ["verify", name],
      ["stats"],
      ["compact", name],
      ["agent", "delete", name, "--yes"],
    ];
    for (const args of shown) {
      const ran = await cli(args, { store });
      expect.soft([args, ran.code]).toEqual([args, 0]);
      expectHarmless(ran, args);
    }
  });

  test("so are the arguments that an error repeats", async () => {
    const { store } = await puneStore();
    await each(
      [
        [HOSTILE.replaceAll("\u0000", "")],
        ["list", "\u001b[31mnobody\u202e"],
        ["show", "alice", "\u001b[31m1"],
        ["remember", "alice", "m", "--from", "1\u0007"],
        ["recall", "alice", "3", "--plan", "\u001b[31m"],
        ["list", "alice", "--\u001b[31m"],
        ["list", "alice", "--store", "/nowhere/\u001b[31m\u202e"],
        ["import", "alice", "/nowhere/\u001b[31m"],
        ["export", "alice", "--out", "/nowhere/\u001b[31m"],
        ["completion", "\u001b[31m"],
        ["help", "\u001b[31m"],
      ],
      async (args) => {
        const ran = await cli(args, { store });
        expect.soft([args, ran.code === 0]).toEqual([args, false]);
        expectHarmless(ran, args);
      },
    );
  });

  test("and the paths that a warning names", async () => {
    const store = join(tempFolder(), "st\u202e\u0007\u009bore");
    await result(["agent", "create", "alice"], { store });
    chmodSync(store, 0o777);
    const ran = await cli(["list", "alice"], { store });
    expect(ran.code).toBe(0);
    expect(ran.stderr).toContain("chmod 700");
    expectHarmless(ran, ["list", "alice"]);
    expectHarmless(await cli(["doctor"], { store }), ["doctor"]);
  });

  test("an import file cannot speak through its mistakes", async () => {
    const { store } = await puneStore();
    const header = '{"kind":"cheesedb","version":1}\n';
    await each(
      [
        `${header}{"kind":"\\u001b[31m\\u202e","time":"2026-01-01T00:00:00Z"}\n`,
        `${header}{"kind":"lot","time":"\\u001b[31m"}\n`,
        `${header}{"kind":"lot","\\u001b[31m":1,"\\u001b[31m":2}\n`,
        `${header}\u001b[31m\n`,
        `{"kind":"cheesedb","version":"\\u001b[31m\\u009b"}\n`,
      ],
      async (stdin) => {
        const ran = await cli(["import", "alice", "-"], { store, stdin });
        expect.soft([stdin, ran.code]).toEqual([stdin, 2]);
        expectHarmless(ran, [stdin]);
      },
    );
  });

  test("--json gives every text back exactly", async () => {
    const { store, name, label } = await hostileStore();
    const [list, why, found, agents] = await Promise.all([
      result(["list", name], { store }),
      result(["why", name, "3"], { store }),
      result(["find", ESC], { store }),
      result(["agent", "list"], { store }),
    ]);
    expect(list.lots[0]).toMatchObject({
      label,
      text: HOSTILE,
      uri: `https://example.com/${HOSTILE}`,
    });
    expect(list.lots[1].text).toBe("two\nlines");
    expect(list.memories).toMatchObject([{ text: HOSTILE }, { text: HOSTILE }]);
    expect(why).toMatchObject({
      entry: { text: HOSTILE },
      support: [{ text: HOSTILE, label }, {}],
    });
    // The text, the uri behind it, and the two memories.
    expect(found).toMatchObject({ text: ESC, count: 4 });
    expect(agents.agents[0].name).toBe(name);
  });

  test("--json escapes the control characters too: C0, DEL and C1", async () => {
    const { store, name } = await hostileStore();
    const { stdout } = await cli(["list", name, "--json"], { store });
    expect(/[\u0000-\u0009\u000b-\u001f]/.exec(stdout)).toBeNull();
    expect(/[\u007f-\u009f]/.exec(stdout)?.[0]?.codePointAt(0)?.toString(16)).toBeUndefined();
  });

  test("a text that looks like output is told apart from it by its indent or its escapes", async () => {
    const { store } = await emptyStore();
    const text = "innocent\n[2] memory\n    all is well\n  ← [1]  holds";
    await asAgent(store, "alice", (alice) => alice.addLot("note", text));
    const [list, show] = await Promise.all([
      cli(["list", "alice"], { store }),
      cli(["show", "alice", "1"], { store }),
    ]);
    expect(list.stdout.trimEnd().split("\n")).toHaveLength(2);
    const [, ...lines] = show.stdout.trimEnd().split("\n");
    expect(lines).toEqual(text.split("\n").map((line) => `    ${line}`));
  });
});

describe("folders", () => {
  test("what is no folder is NO_STORE: a file, a link, a dangling link, a FIFO, a device", async () => {
    const folder = tempFolder();
    const { store } = await puneStore();
    const at = (name: string) => join(folder, name);
    writeFileSync(at("file"), "mine");
    symlinkSync(store, at("link"));
    symlinkSync(at("nowhere"), at("dangling"));
    mkdirSync(at("other"));
    writeFileSync(join(at("other"), "mine"), "mine");
    const places = [at("file"), at("link"), at("dangling"), at("other"), "/dev/null"];
    if (spawnSync("mkfifo", [at("fifo")]).status === 0) places.push(at("fifo"));
    else console.log("no mkfifo here: a store that is a FIFO is left out");
    const before = bytesOf(folder);
    await each(places, async (place) => {
      const { message } = await refusal(["agent", "create", "bob", "--store", place], NO_STORE);
      expect.soft(message).not.toMatch(/\ba other\b/);
    });
    await refused(["list", "alice"], NO_STORE, { store: at("file") });
    expect(bytesOf(folder)).toEqual(before);
  });

  test("an empty folder becomes a store only by agent create", async () => {
    const folder = tempFolder();
    await refusal(["list", "alice"], NO_STORE, { store: folder });
    await refusal(["lot", "alice", "note", "x"], NO_STORE, { store: folder });
    expect(readdirSync(folder)).toEqual([]);
    await result(["agent", "create", "alice"], { store: folder });
    expect((await result(["agent", "list"], { store: folder })).agents).toHaveLength(1);
  });

  test("doctor finds nothing wrong where no store was made yet, and what is no store wrong", async () => {
    const folder = tempFolder();
    const none = await cli(["doctor"], { store: join(folder, "store") });
    expect([none.code, none.stderr]).toEqual([0, ""]);
    expect(none.stdout).toContain(
      `✓ store        none yet at ${join(folder, "store")}: cheesedb agent create NAME makes it\n`,
    );
    expect(existsSync(join(folder, "store"))).toBe(false);
    writeFileSync(join(folder, "mine.txt"), "mine");
    const strange = await cli(["doctor", "--json"], { store: folder });
    expect(strange.code).toBe(1);
    expect(strange.json.checks).toContainEqual(
      expect.objectContaining({ name: "store", ok: false }),
    );
  });

  test("a time without its zone is told with one", async () => {
    const { store } = await puneStore();
    const args = ["recall", "alice", "--since", "2026-01-01"];
    const { hint } = await refusal(args, USAGE, { store });
    expect(hint).toBe("For example 2026-01-01T00:00:00Z.");
  });

  test("a store that others can write to is warned about on standard error, and works", async () => {
    const { store } = await puneStore();
    chmodSync(store, 0o777);
    const [text, json] = await Promise.all([
      cli(["list", "alice"], { store }),
      cli(["list", "alice", "--json"], { store }),
    ]);
    for (const { code, stderr } of [text, json]) {
      expect(code).toBe(0);
      expect(stderr).toMatch(/^Warning: [^\n]+chmod 700[^\n]+\n$/);
    }
    expect(json.json.lots).toHaveLength(3);
    const doctor = await cli(["doctor", "--json"], { store });
    expect(doctor.code).toBe(1);
    expect(doctor.json.checks).toContainEqual(
      expect.objectContaining({ name: "permissions", ok: false }),
    );
    chmodSync(store, 0o700);
    expect((await cli(["list", "alice"], { store })).stderr).toBe("");
  });

  test("garbage, a link or a FIFO in a lock file's place: no write, reads go on, doctor says which", async () => {
    const { store, id } = await puneStore();
    const lock = join(store, "locks", `${id}.lock`);
    const DISK = { code: "DISK", exit: 7 };
    const doctorOn = async (name: string) => {
      const { code, json } = await cli(["doctor", "--json"], { store });
      const locks = json.checks.find((check: { name: string }) => check.name === "locks");
      expect.soft([name, code, locks.ok]).toEqual([name, 1, false]);
    };
    const put: Record<string, () => void> = {
      garbage: () => writeFileSync(lock, "garbage"),
      link: () => symlinkSync(join(store, "store"), lock),
      fifo: () => void spawnSync("mkfifo", [lock]),
    };
    for (const [name, stand] of Object.entries(put)) {
      rmSync(lock, { force: true });
      stand();
      await refusal(["lot", "alice", "note", "x"], DISK, { store });
      expect((await result(["list", "alice"], { store })).lots).toHaveLength(3);
      await doctorOn(name);
    }
    rmSync(lock);
    await result(["lot", "alice", "note", "x"], { store });
    const storeLock = join(store, "locks", "store.lock");
    rmSync(storeLock, { force: true });
    writeFileSync(storeLock, "garbage");
    await refusal(["agent", "create", "bob"], DISK, { store });
    expect(readFileSync(storeLock, "utf8")).toBe("garbage");
    // It stops every agent from being made, and the refusal points to doctor.
    await doctorOn("store.lock");
  });

  test("a store that cannot be written to is read, verified and searched; a write is DISK", async () => {
    const { store } = await puneStore();
    if (!makeReadOnly(store)) {
      console.log("no way to make a folder read-only here: left out");
      return;
    }
    const before = bytesOf(store);
    await each(
      [
        ["list", "alice"],
        ["why", "alice", "6"],
        ["verify", "alice"],
        ["find", "Pune", "--agent", "alice"],
        ["agent", "list"],
        ["recall", "alice", "3", "--dry-run"],
      ],
      async (args) => {
        await result(args, { store });
      },
    );
    const exported = await cli(["export", "alice"], { store });
    expect([exported.code, exported.stdout.split("\n").length]).toEqual([0, 8]);
    await each(
      [
        ["lot", "alice", "note", "x"],
        ["recall", "alice", "3", "--erase"],
        ["agent", "create", "bob"],
        ["agent", "delete", "alice", "--yes"],
      ],
      async (args) => {
        await refusal(args, { code: "DISK", exit: 7 }, { store });
      },
    );
    const doctor = await cli(["doctor", "--json"], { store });
    expect(doctor.code).toBe(1);
    const flush = doctor.json.checks.find(({ name }: { name: string }) => name === "flush");
    expect(flush.ok).toBe(false);
    // A folder that cannot be written to is nothing to report to the makers.
    expect.soft(flush.hint).not.toBe("Report this.");
    expect(bytesOf(store)).toEqual(before);
  });

  test("one damaged agent is listed as such, and does not stop the others", async () => {
    const { store, id } = await puneStore();
    await addAgent(store, "bob");
    await asAgent(store, "bob", (bob) => bob.addLot("note", "hello"));
    const file = join(store, "agents", id, "agent");
    const fd = openSync(file, "r+");
    writeSync(fd, Uint8Array.of(0x58), 0, 1, 150);
    closeSync(fd);
    const { agents } = await result(["agent", "list"], { store });
    expect(agents).toHaveLength(2);
    const damaged = agents.find((agent: { id: string }) => agent.id === id);
    expect(damaged.damaged).toMatchObject({ code: "CORRUPT" });
    const bob = agents.find((agent: { id: string }) => agent.id !== id);
    expect(bob).toMatchObject({ name: "bob", lots: 1, alive: 1 });
    expect(bob.damaged).toBeUndefined();
    const text = await cli(["agent", "list"], { store });
    expect(text).toMatchObject({ code: 0, stderr: "" });
    expect(text.stdout).toContain("damaged");
    expect((await result(["list", "bob"], { store })).lots).toHaveLength(1);
    const verified = await cli(["verify", "--json"], { store });
    expect([verified.code, verified.json.ok]).toEqual([6, false]);
    expect(verified.json.agents).toContainEqual(
      expect.objectContaining({ agent: "bob", ok: true }),
    );
    // Nobody can say what the damaged one holds: no proof of absence.
    expect((await cli(["find", "nowhere", "--absent"], { store })).code).toBe(1);
    const doctor = await cli(["doctor", "--json"], { store });
    expect(doctor.code).toBe(1);
  });
});

/** By permissions, or as root by the immutable flag, where the file system knows one; undone when the test ends. */
function makeReadOnly(folder: string): boolean {
  if (process.getuid?.() !== 0) {
    const set = (mode: string) => spawnSync("chmod", ["-R", mode, folder]).status === 0;
    onTestFinished(() => void set("u+w"));
    return set("u-w");
  }
  const set = (flag: string) => spawnSync("chattr", ["-R", flag, folder]).status === 0;
  onTestFinished(() => void set("-i"));
  return set("+i");
}
