// A process to be killed: `node killed.ts OPTIONS` works on one agent until it is, and says on standard output what was acknowledged.

import { writeSync } from "node:fs";
import { Store } from "../../src/index.ts";
import { chance } from "../chance.ts";

export interface KilledOptions {
  store: string;
  token: string;
  /** Begins every text that it writes. */
  name: string;
  seed: number;
}

/** What it says of itself, a line each. */
export type Said =
  | { open: true }
  /** The texts of one batch, with their ids. */
  | { written: [number, string][] }
  | { erased: string[] };

/** A text of a batch says which it is and of how many, so that what was under way is known to be whole. */
export function textOf(name: string, batch: number, i: number, count: number): string {
  return `${name} ${batch}.${i}/${count} `;
}

/** Straight to the descriptor: what was said is in the pipe, whatever comes after. */
function say(said: Said) {
  writeSync(1, `${JSON.stringify(said)}\n`);
}

/** A lot of its own, with what it learned from it: erased together. */
interface Own {
  lot: number;
  texts: string[];
}

async function work({ store: path, token, name, seed }: KilledOptions) {
  const random = chance(seed);
  const below = (count: number) => Math.floor(random() * count);
  const options = random() < 0.5 ? {} : { segmentBytes: 2000, snapshotRecords: 5 };
  const store = await Store.open(path, { ...options, waitMs: 60_000 });
  let agent = await store.openAgent(token);
  say({ open: true });
  const own: Own[] = [];
  const texts = (batch: number, count: number) =>
    Array.from({ length: count }, (_, i) =>
      textOf(name, batch, i, count).padEnd(20 + below(random() < 0.1 ? 30_000 : 300), "x"),
    );
  for (let batch = 1; ; batch++) {
    const way = random();
    const at = below(own.length);
    const known = own[at];
    if (way < 0.2 && known) {
      own.splice(at, 1);
      await agent.recall([known.lot], { disposal: "erase" });
      say({ erased: known.texts });
    } else if (way < 0.25) {
      await agent.compact();
    } else if (way < 0.3) {
      await agent.close();
      agent = await store.openAgent(token);
    } else if (way < 0.45 && known) {
      const [text = ""] = texts(batch, 1);
      // Before it is acknowledged: an erase that comes next takes it too.
      known.texts.push(text);
      say({ written: [[await agent.remember(text, [[known.lot]]), text]] });
      continue;
    }
    const written = await Promise.all(
      texts(batch, 1 + below(4)).map(async (text): Promise<[number, string]> => {
        const id = await agent.addLot("killed", text);
        return [id, text];
      }),
    );
    say({ written });
    for (const [lot, text] of written) own.push({ lot, texts: [text] });
  }
}

if (process.argv[1] === import.meta.filename)
  await work(JSON.parse(process.argv[2] ?? "{}") as KilledOptions);
