// Raw search beside grep over the same files: prose with a needle of a rare byte, one of the commonest letters, and one in any
// case. grep's own start is measured and taken off; ours runs in a process that is up. P9.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { chance } from "./graph.ts";
import { Findings, median } from "./measure.ts";
import { emptyFolder, logFiles, openAgent, options, settle } from "./place.ts";

const MIB = 2 ** 20;
/** At 1,000,000. */
const ALL_MIB = 512;
const LOT_BYTES = 64 * 1024;
const BLOCK_BYTES = 4 * MIB;
const LINE_CHARS = 72;
const SLOW_MS_MAX = 10_000;
const VOCABULARY = 3000;
/** English letters by how common they are, in text of a thousand. */
const LETTERS =
  "e127t91a82o75i70n67s63h61r60d43l40c28u28m24w24f22g20y20p19b15v10k8j2x2q1z1".matchAll(
    /([a-z])(\d+)/g,
  );
/** One planted in every so many lots. */
const PLANTED_EVERY = 4;
const NEEDLES = [
  { name: "with a rare byte", text: "the quixotic jury", ignoreCase: false },
  { name: "of common letters", text: "set on the tea stone", ignoreCase: false },
  { name: "in any case", text: "Cellar Log of Rennes", ignoreCase: true },
] as const;

const { size, runs, out } = options();
const findings = new Findings("find", size);
const lots = Math.max(64, Math.round((ALL_MIB * MIB * size) / 1_000_000 / LOT_BYTES));
const folder = emptyFolder("find");
const planted = await fill();
settle();
const files = logFiles(folder);

const mib = Math.round((lots * LOT_BYTES) / MIB);
findings.version("grep", grepVersion());
findings.table(`find over ${mib} MiB of prose`);
const { store, agent } = await openAgent(folder);
const empty = join(folder, "nothing");
writeFileSync(empty, "");
for (const [i, { name, text, ignoreCase }] of NEEDLES.entries()) {
  const due = planted[i] as number;
  const flags = ignoreCase ? ["-c", "-i", "-F"] : ["-c", "-F"];
  const ways = [
    {
      what: "cheesedb",
      run: async () => {
        const begun = performance.now();
        const { count } = await store.find(text, { ignoreCase });
        const ms = performance.now() - begun;
        requireSame("cheesedb", count, due);
        return ms;
      },
    },
    ...["C.UTF-8", "C"].map((locale) => ({
      what: `grep ${flags.join(" ")}, ${locale}`,
      run: async () => {
        const start = grep(flags, text, [empty], locale).ms;
        const { ms, count } = grep(flags, text, files, locale);
        requireSame("grep", count, due);
        return ms - start;
      },
    })),
  ];
  const samples = ways.map(() => [] as number[]);
  const until = performance.now() + SLOW_MS_MAX;
  // What is far too slow is repeated less.
  for (let run = 0; run <= runs && (run < 2 || performance.now() < until); run++)
    for (const [w, { run: once }] of ways.entries()) {
      const ms = await once();
      if (run > 0) samples[w]?.push(ms);
    }
  for (const [w, { what }] of ways.entries()) {
    const all = samples[w] as number[];
    const speed = mib / 1024 / (median(all) / 1000);
    findings.row(`needle ${name}: ${what}`, "ms", all, `${speed.toFixed(1)} GiB/s`);
  }
  const [ours, ...greps] = samples.map(median) as [number, number, number];
  const unit = "times grep";
  findings.figure("P9", `find, needle ${name}`, ours / Math.min(...greps), { atMost: 1.2, unit });
  findings.point(`find ${i + 1}`, "cheesedb", "ms", ours);
}
await agent.close();
findings.finish(out);

/** Fills the store, and returns how often each needle was planted. */
async function fill(): Promise<number[]> {
  const random = chance(7);
  const block = prose(random);
  const planted = NEEDLES.map(() => 0);
  const { agent } = await openAgent(folder);
  const newLots = [];
  for (let lot = 0; lot < lots; lot++) {
    const from = Math.floor(random() * (block.length - LOT_BYTES));
    let text = block.slice(from, from + LOT_BYTES);
    if (lot % PLANTED_EVERY === 0) {
      const which = (lot / PLANTED_EVERY) % NEEDLES.length;
      const { text: needle, ignoreCase } = NEEDLES[which] as (typeof NEEDLES)[number];
      const shown = ignoreCase && lot % 8 === 0 ? needle.toUpperCase() : needle;
      const line = text.indexOf("\n", Math.floor(random() * (LOT_BYTES / 2)));
      text = `${text.slice(0, line)}\n${shown}\n${text.slice(line + shown.length + 2)}`;
      planted[which] = (planted[which] as number) + 1;
    }
    newLots.push({ label: "web_page", text });
  }
  await agent.addLots(newLots);
  await agent.close();
  return planted;
}

/** Words by Zipf's law, letters as common as in English. */
function prose(random: () => number): string {
  const bag = [...LETTERS].flatMap(([, letter, often]) =>
    Array.from({ length: Number(often) }, () => letter as string),
  );
  const letter = () => bag[Math.floor(random() * bag.length)] as string;
  const word = () =>
    Array.from({ length: 2 + Math.floor(random() * random() * 10) }, letter).join("");
  const words = Array.from({ length: VOCABULARY }, word);
  let text = "";
  let line = "";
  while (text.length < BLOCK_BYTES) {
    // The n-th word comes about as often as 1 / n.
    line += `${words[Math.floor(VOCABULARY ** random()) - 1] as string} `;
    if (line.length < LINE_CHARS) continue;
    text += `${line.trimEnd()}\n`;
    line = "";
  }
  return text;
}

function grep(flags: string[], text: string, files: string[], locale: string) {
  const begun = performance.now();
  const { stdout } = spawnSync("grep", [...flags, "--", text, ...files], {
    encoding: "utf8",
    env: { PATH: process.env.PATH ?? "", LC_ALL: locale },
  });
  const ms = performance.now() - begun;
  const counts = stdout.trim().split("\n");
  return { ms, count: counts.reduce((sum, line) => sum + Number(line.split(":").at(-1)), 0) };
}

function grepVersion(): string {
  const { stdout } = spawnSync("grep", ["--version"], { encoding: "utf8" });
  return stdout?.match(/[0-9]+\.[0-9.]+/)?.[0] ?? "not found";
}

function requireSame(who: string, count: number, due: number) {
  if (count !== due) throw new Error(`${who} found ${count} places, and ${due} are there`);
}
