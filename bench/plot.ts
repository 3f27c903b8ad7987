// The plot of recall time against history and against what is removed, as SVG that reads on light and on dark pages.

import { number, type Point, sizeName } from "./measure.ts";

const WIDTH = 880;
const HEIGHT = 380;
const PANEL = { top: 64, bottom: 58, left: 58, width: 258 };
const PANEL_LEFTS = [PANEL.left, 496] as const;
const LABEL_GAP = 15;

const SERIES: Record<string, { title: string; light: string; dark: string; dash: string }> = {
  floor: { title: "flat arrays", light: "#767676", dark: "#9a9a9a", dash: "4 4" },
  cheesedb: { title: "cheesedb", light: "#b35900", dark: "#ffb454", dash: "" },
  sqlite: { title: "SQLite", light: "#1f6fb2", dark: "#6cb6ff", dash: "" },
  postgres: { title: "PostgreSQL", light: "#3d7a37", dark: "#7fc97a", dash: "" },
  ladybug: { title: "LadybugDB", light: "#8a4fa8", dark: "#d2a8ff", dash: "" },
};

interface Panel {
  title: string;
  axis: string;
  x(point: Point): number;
  points: Point[];
}

export function plot(points: Point[], machine: string): string {
  const recalls = points.filter(({ id }) => id === "recall");
  const largest = mostCompared(recalls);
  const sizes = new Set(recalls.map(({ memories }) => memories)).size;
  const removed = mostShared(recalls);
  const panels: Panel[] = [
    {
      title: `${sizeName(removed)} memories removed`,
      axis: "memories in the history",
      x: ({ memories }) => memories,
      points: recalls.filter((point) => point.removed === removed),
    },
    {
      title: `of ${sizeName(largest)} memories`,
      axis: "memories removed",
      x: (point) => point.removed,
      points: recalls.filter(({ memories }) => memories === largest),
    },
  ];
  const values = panels.flatMap(({ points }) => points.map(({ value }) => value));
  const low = 10 ** Math.floor(Math.log10(Math.min(...values)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...values)));
  const styles = Object.entries(SERIES).map(
    ([name, { light }]) => `.${name}{stroke:${light};fill:${light}}`,
  );
  const dark = Object.entries(SERIES).map(
    ([name, { dark }]) => `.${name}{stroke:${dark};fill:${dark}}`,
  );
  const drawn = panels.map((panel, i) => drawPanel(panel, PANEL_LEFTS[i] as number, low, high));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Time of a durable fair recall, in milliseconds, against history and against what is removed">
<style>
svg{font:13px system-ui,sans-serif}
text{fill:#24292f;stroke:none}
.grid{stroke:#8886;stroke-width:1}
.quiet{fill:#57606a}
path{fill:none!important;stroke-width:2}
.cheesedb path{stroke-width:3}
${styles.join("\n")}
@media (prefers-color-scheme: dark){
text{fill:#e6edf3}
.quiet{fill:#9198a1}
${dark.join("\n")}
}
</style>
<text x="${PANEL.left}" y="22" font-size="16" font-weight="600">Time of a durable fair recall, milliseconds</text>
<text x="${PANEL.left}" y="${HEIGHT - 6}" class="quiet" font-size="11">${escaped(machine)}; medians; both axes logarithmic${sizes === 1 ? "; one size measured" : ""}</text>
${drawn.join("\n")}
</svg>
`;
}

/** The number of removed memories that was measured at most sizes; the largest of these. */
function mostShared(points: Point[]): number {
  const sizes = new Map<number, Set<number>>();
  for (const { removed, memories } of points)
    sizes.set(removed, (sizes.get(removed) ?? new Set()).add(memories));
  const most = Math.max(...[...sizes.values()].map(({ size }) => size));
  return Math.max(...[...sizes].filter(([, { size }]) => size === most).map(([n]) => n));
}

/** The size at which most engines were measured; the largest of these. */
function mostCompared(points: Point[]): number {
  const engines = new Map<number, Set<string>>();
  for (const { memories, engine } of points)
    engines.set(memories, (engines.get(memories) ?? new Set()).add(engine));
  const most = Math.max(...[...engines.values()].map(({ size }) => size));
  return Math.max(...[...engines].filter(([, { size }]) => size === most).map(([n]) => n));
}

function drawPanel({ title, axis, x, points }: Panel, left: number, low: number, high: number) {
  const right = left + PANEL.width;
  const bottom = HEIGHT - PANEL.bottom;
  const xs = [...new Set(points.map(x))].sort((a, b) => a - b);
  const [first, last] = [Math.log10(xs[0] as number), Math.log10(xs.at(-1) as number)];
  const toX = (value: number) =>
    last === first
      ? (left + right) / 2
      : left + 14 + ((Math.log10(value) - first) / (last - first)) * (PANEL.width - 28);
  const toY = (value: number) =>
    bottom - (Math.log10(value / low) / Math.log10(high / low)) * (bottom - PANEL.top);
  let svg = `<text x="${left}" y="48" font-weight="600">${title}</text>\n`;
  for (let value = low; value <= high * 1.001; value *= 10) {
    const y = toY(value).toFixed(1);
    svg += `<line class="grid" x1="${left}" x2="${right}" y1="${y}" y2="${y}"/>`;
    svg += `<text class="quiet" x="${left - 8}" y="${y}" dy="4" text-anchor="end">${sizeName(value)}</text>\n`;
  }
  for (const value of xs)
    svg += `<text class="quiet" x="${toX(value).toFixed(1)}" y="${bottom + 18}" text-anchor="middle">${shortName(value)}</text>\n`;
  svg += `<text class="quiet" x="${(left + right) / 2}" y="${bottom + 36}" text-anchor="middle">${axis}</text>\n`;

  const lines = Object.entries(SERIES)
    .map(([name, series]) => ({
      name,
      series,
      own: points.filter(({ engine }) => engine === name).sort((a, b) => x(a) - x(b)),
    }))
    .filter(({ own }) => own.length > 0);
  for (const { name, series, own } of lines) {
    const places = own.map((point) => [toX(x(point)).toFixed(1), toY(point.value).toFixed(1)]);
    const path = places.map((place, i) => `${i === 0 ? "M" : "L"}${place.join(" ")}`).join("");
    const dots = places.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3"/>`).join("");
    svg += `<g class="${name}"><path d="${path}" stroke-dasharray="${series.dash}"/>${dots}</g>\n`;
  }
  // Names at the lines' ends, pushed apart where they would overlap.
  const names = lines
    .map(({ series, own }) => ({ series, y: toY((own.at(-1) as Point).value), point: own.at(-1) }))
    .sort((a, b) => a.y - b.y);
  let above = Number.NEGATIVE_INFINITY;
  for (const { series, y, point } of names) {
    above = Math.max(y, above + LABEL_GAP);
    svg += `<text x="${right + 6}" y="${above.toFixed(1)}" dy="4">${series.title} ${number(point?.value ?? 0)}</text>\n`;
  }
  return svg;
}

function shortName(value: number): string {
  return value >= 1e6 ? `${value / 1e6} million` : sizeName(value);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
