// What a program misspells is refused with what it meant: an option that a call does not have, a list that is none.

import { describe, expect, test } from "vitest";
import { Store } from "../src/index.ts";
import { nearest } from "../src/words.ts";
import { allBytes, collect, tempAgent, tempFolder } from "./helpers.ts";

/** As a program in plain JavaScript calls it: no type stands in its way. */
type Loose = Record<string, (...args: unknown[]) => Promise<unknown>>;
const loose = (handle: object) => handle as unknown as Loose;

const said = (message: string) => expect.objectContaining({ name: "TypeError", message });

describe("an option that a call does not have", () => {
  test("recall with erase: true is refused before anything is done, and says what was meant", async () => {
    const { agent, store } = await tempAgent();
    await agent.addLot("user_message", "I live in Pune");
    await expect(loose(agent).recall?.([1], { erase: true })).rejects.toEqual(
      said(
        'recall has no option "erase"; did you mean disposal: "erase"? Its options are mode, disposal, plan.',
      ),
    );
    expect(await agent.alive([1])).toEqual([1]);
    // What it says is what does it.
    await agent.recall([1], { disposal: "erase" });
    expect(allBytes(store.path).includes("Pune")).toBe(false);
  });

  test("Store.open with readonly: true creates nothing", async () => {
    const folder = `${tempFolder()}/store`;
    const open = loose(Store).open as (...args: unknown[]) => Promise<unknown>;
    await expect(open.call(Store, folder, { readonly: true })).rejects.toEqual(
      said(
        'Store.open has no option "readonly"; did you mean readOnly? Its options are readOnly, create, waitMs, segmentBytes, snapshotRecords.',
      ),
    );
    await expect(Store.open(folder, { readOnly: true })).rejects.toMatchObject({
      code: "NO_STORE",
    });
  });

  test("addLot with a url loses no address", async () => {
    const { agent } = await tempAgent();
    const url = { url: "https://example.com" };
    await expect(loose(agent).addLot?.("web_page", "Pune", url)).rejects.toEqual(
      said('addLot has no option "url"; did you mean uri? Its options are uri, seen.'),
    );
    const uri = { uri: "https://example.com" };
    const id = await agent.addLot("web_page", "Pune", uri);
    expect(await agent.show(id)).toMatchObject(uri);
  });

  test("every call refuses one, and takes all of its own", async () => {
    const { agent, store, token } = await tempAgent();
    const session = agent.session();
    const lot = { label: "note", text: "a" };
    const memory = { text: "b", legs: [[1]] };
    const long = { signal: new AbortController().signal, onProgress: () => {} };
    await agent.addLot("note", "the first");
    const calls: [string, (options: object) => Promise<unknown>, object][] = [
      ["addLot", (o) => agent.addLot("note", "a", o), { uri: "u", seen: [1] }],
      ["session.addLot", (o) => session.addLot("note", "a", o), { uri: "u" }],
      ["addLots", (o) => agent.addLots([lot], o), long],
      ["an item of addLots", (o) => agent.addLots([{ ...lot, ...o }]), { uri: "u", seen: [1] }],
      ["remember", (o) => agent.remember("b", [[1]], o), { seen: [1] }],
      ["rememberAll", (o) => agent.rememberAll([memory], o), long],
      ["an item of rememberAll", (o) => agent.rememberAll([{ ...memory, ...o }]), { seen: [1] }],
      ["an item of rememberAll", (o) => agent.refusals([{ ...memory, ...o }]), { seen: [1] }],
      ["planRecall", (o) => agent.planRecall([1], o), { mode: "fair", disposal: "erase" }],
      ["previewRecall", (o) => agent.previewRecall([1], o), { mode: "strict" }],
      ["findLots", (o) => agent.findLots(o), { label: "x", uriPrefix: "u", since: new Date() }],
      [
        "entries",
        (o) => collect(agent.entries(o)),
        { state: "alive", kind: "lot", newestFirst: true, before: 2 },
      ],
      ["why", (o) => agent.why(1, o), { depth: 1, entriesMax: 1 }],
      ["sourcesOf", (o) => agent.sourcesOf(1, { max: 1, ...o }), {}],
      ["sourcesInView", (o) => agent.sourcesInView(1, { max: 1, ...o }), {}],
      [
        "verify",
        async (o) => agent.verify(o),
        { ...long, expect: (await agent.head()).fingerprint },
      ],
      ["verify", (o) => store.verifyAgent("alice", o), long],
      ["store.verify", (o) => store.verify(o), { signal: long.signal }],
      ["compact", (o) => agent.compact(o), long],
      ["export", async (o) => collect(agent.export(o)), { ...long, deadTexts: true }],
      ["import", (o) => agent.import("", o), long],
      [
        "find",
        (o) => store.find("x", o),
        { ...long, agent: "alice", ignoreCase: true, matchesMax: 1, absent: true },
      ],
      ["createAgent", (o) => store.createAgent(`bob${Math.random()}`, o), { keepToken: true }],
      ["openAgent", async (o) => (await store.openAgent(token, o)).close(), { waitMs: 1 }],
      ["recall", (o) => agent.recall([1], o), { mode: "fair", disposal: "untrusted" }],
    ];
    for (const [name, call, options] of calls) {
      const begin = `${name} has no option "surprise". Its option`;
      await expect(call({ ...options, surprise: 1 })).rejects.toEqual(
        said(expect.stringMatching(new RegExp(`^${begin}`)) as unknown as string),
      );
      // Undefined is what a program passes on that was itself not given it.
      const taken = await call({ ...options, surprise: undefined }).catch((error) => error);
      expect([name, taken instanceof TypeError]).toEqual([name, false]);
    }
  });

  test("the options themselves are an object", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("note", "a");
    await expect(loose(agent).recall?.([1], "erase")).rejects.toEqual(
      said("the options of recall are an object, got string"),
    );
    await expect(loose(agent).recall?.([1], null)).rejects.toEqual(
      said("the options of recall are an object, got null"),
    );
  });
});

describe("a list that is none", () => {
  test("says what was expected, and what was given", async () => {
    const { agent } = await tempAgent();
    await agent.addLot("note", "a");
    const calls: [string, () => Promise<unknown> | undefined][] = [
      ["ids is a list of numbers, got number", () => loose(agent).recall?.(1)],
      ["ids is a list of numbers, got undefined", () => loose(agent).planRecall?.()],
      ["ids is a list of numbers, got string", () => loose(agent).alive?.("1")],
      ["legs is a list of lists of ids, got number", () => loose(agent).remember?.("b", 1)],
      ["a leg is a list of ids, got number", () => loose(agent).remember?.("b", [1])],
      ["seen is a list of ids, got number", () => loose(agent).remember?.("b", [[1]], { seen: 1 })],
      ["lots is a list, got object", () => loose(agent).addLots?.({ label: "a", text: "b" })],
      ["memories is a list, got number", () => loose(agent).rememberAll?.(1)],
    ];
    for (const [message, call] of calls) await expect(call()).rejects.toEqual(said(message));
  });
});

test("the nearest name is a letter or two away, and none is better than a wild guess", () => {
  const names = ["recall", "remember", "list", "lot", "why"];
  expect(nearest("recal", names)).toBe("recall");
  expect(nearest("Lits", names)).toBe("list");
  expect(nearest("wyh", names)).toBeUndefined();
  expect(nearest("x".repeat(1e6), names)).toBeUndefined();
  expect(nearest("banana", names)).toBeUndefined();
});
