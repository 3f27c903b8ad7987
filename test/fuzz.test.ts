// Whatever comes from outside is taken or refused with a code: a sample of the fuzzing, the inputs that once broke something,
// and proof that the fuzzing would notice.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { CheeseError } from "../src/index.ts";
import { cases } from "./campaign/campaign.ts";
import { campaign, checkInput, fuzzing, inputOf, targets } from "./campaign/fuzz.ts";
import { decoders } from "./campaign/fuzz-bytes.ts";
import { commands } from "./campaign/fuzz-commands.ts";
import { controlStore, folders } from "./campaign/fuzz-folders.ts";
import { texts } from "./campaign/fuzz-texts.ts";
import type { Target } from "./campaign/target.ts";
import { filesIn, SEED, tempFolder } from "./helpers.ts";

const CORPUS = fileURLToPath(new URL("corpus", import.meta.url));

beforeAll(() => console.log(`SEED=${SEED}`));

/** A target that does as it is told, to see what is made of it. */
const targetThat = (check: Target["check"], more: Partial<Target> = {}): Target => ({
  name: "planted",
  share: 1,
  make: () => Buffer.from("x"),
  check,
  ...more,
});

async function run(chosen: readonly Target[], count: number) {
  const { counts, failures } = await fuzzing(chosen)(cases(count, SEED, tempFolder()));
  return { counts, failures: failures.map(({ what, repeat }) => `${what}\n${repeat}`) };
}

/** Every target has had its turn, and none has failed. */
async function expectClean(chosen: readonly Target[], count: number) {
  const { counts, failures } = await run(chosen, count);
  console.log(counts);
  expect(failures).toEqual([]);
  expect(Object.keys(counts)).toHaveLength(chosen.length);
}

describe("inputs that are nearly right", () => {
  test("of every structure of the format, its checks mended", () => expectClean(decoders, 4000));
  test("of what people, programs and models write", () => expectClean(texts, 500));
  test("of the program and its MCP server, run as they are", () => expectClean(commands, 2));

  test("of whole stores, by a forger who mends what can be mended; what he starts from passes", async () => {
    await controlStore();
    await expectClean([folders], 60);
  });

  test("follow from the seed, the target and the number alone", () => {
    const target = decoders[0] as Target;
    const some = [1, 2, 3].map((number) => inputOf(target, SEED, number).toString("hex"));
    const again = [3, 2, 1].map((number) => inputOf(target, SEED, number).toString("hex"));
    expect(again.toReversed()).toEqual(some);
    expect(inputOf(target, SEED + 1, 1).toString("hex")).not.toBe(some[0]);
    expect(new Set(some).size).toBeGreaterThan(1);
  });
});

describe("inputs that were kept", () => {
  const fileName = (name: string) => name.replace(/\W+/g, "-");
  for (const file of readdirSync(CORPUS)) {
    test(file, async () => {
      const bytes = readFileSync(join(CORPUS, file));
      const input = file.endsWith(".b64") ? Buffer.from(bytes.toString("latin1"), "base64") : bytes;
      const target = targets.find(({ name }) => fileName(name) === file.split("--")[0]);
      await checkInput(target as Target, input);
    });
  }
});

describe("the fuzzing itself notices", () => {
  const faults: [what: string, says: RegExp, target: Target][] = [
    [
      "a TypeError that comes from data",
      /TypeError/,
      targetThat(() => {
        throw new TypeError("Cannot read properties of undefined");
      }),
    ],
    [
      "a refusal without a code that says something",
      /UNEXPECTED|unforeseen/,
      targetThat(() => {
        throw new CheeseError("UNEXPECTED", "unforeseen");
      }),
    ],
    [
      "an allocation by a length that stands in the input",
      /268435456 bytes are allocated for 1, at most 1000/,
      targetThat(() => void new Uint32Array(2 ** 26), { bytesMax: () => 1000 }),
    ],
    [
      "one of a buffer, too",
      /bytes are allocated/,
      targetThat(() => void Buffer.allocUnsafeSlow(5000), { bytesMax: () => 1000 }),
    ],
    [
      "one that would do harm, before it is made",
      /bytes are asked for at once/,
      targetThat(() => void Buffer.alloc(2 ** 31), { bytesMax: () => 1000 }),
    ],
  ];
  for (const [what, says, target] of faults) {
    test(what, async () => {
      const keep = tempFolder();
      const { failures } = await fuzzing([target])(cases(1, SEED, keep));
      expect(failures.map((failure) => failure.what)).toEqual([expect.stringMatching(says)]);
      // What broke it is kept.
      const kept = filesIn(keep).map(({ path }) => readFileSync(path, "latin1"));
      expect(kept.map((text) => Buffer.from(text, "base64").toString())).toEqual(["x"]);
    });
  }

  test("a case that does not end, and says which", () => {
    const keep = tempFolder();
    const program = `
      import { fuzzing } from ${JSON.stringify(new URL("campaign/fuzz.ts", import.meta.url).href)};
      const check = () => { for (;;); };
      const target = { name: "planted", share: 1, make: () => Buffer.of(1), check };
      await fuzzing([target], [], { hangMs: 500 })({ seed: 5, keep: ${JSON.stringify(keep)}, more: () => true });
    `;
    const ran = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      encoding: "utf8",
    });
    expect(ran.signal).toBe("SIGKILL");
    expect(ran.stderr).toContain("seed 5, case 1 does not end");
    expect(filesIn(keep).map(({ path }) => readFileSync(path, "utf8"))).toEqual([
      "seed 5, case 1 does not end\n",
    ]);
  });

  test("nothing in a campaign of no cases", async () => {
    expect(await campaign(cases(0, SEED, tempFolder()))).toEqual({ counts: {}, failures: [] });
  });
});
