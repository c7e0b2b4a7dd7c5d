// The picture of all heads, of which Plotly has drawn one heat map: the maps in it are a cell apart.

import { html } from "./shared.js";

export const DRAG = '.nsewdrag[data-subplot="xy"]';
const tilesOf = (overview) => overview?._fullData?.find(({ meta }) => meta?.tiles);

// Mark the same rows and columns in every map of the picture; not where that is pooled.
export function lightHeads(overview, axes, places) {
  const trace = tilesOf(overview);
  const frame = trace && overview.querySelector(DRAG)?.getBoundingClientRect();
  if (!frame) return;
  const cells = [trace.meta.tiles.rows.length, trace.meta.tiles.columns.length];
  if (cells.some((count, axis) => count !== axes[axis].spans.length)) return;
  const sheet = overview.querySelector(":scope > .lit-heads") ?? overview.appendChild(html("div", "lit-heads"));
  const origin = overview.getBoundingClientRect();
  Object.assign(sheet.style, { left: `${frame.left - origin.left}px`, top: `${frame.top - origin.top}px`, width: `${frame.width}px`, height: `${frame.height}px` });
  const bands = places.flatMap((lit, axis) => {
    const whole = cells[axis] + 1; // with the gap between two maps
    const period = (100 * whole) / (axis ? trace.z[0].length : trace.z.length);
    return lit.map((at) => {
      const ends = [at, at + 1].map((end) => `${(100 * end) / whole}%`);
      const colours = `transparent ${ends[0]}, var(--accent) ${ends[0]} ${ends[1]}, transparent ${ends[1]}`;
      return axis
        ? `linear-gradient(to right, ${colours}) 0 0 / ${period}% 100%`
        : `linear-gradient(to bottom, ${colours}) 0 0 / 100% ${period}%`;
    });
  });
  sheet.style.background = bands.join(", ");
}

// The map under the mouse: its name, and the style that draws its part of the picture.
export function headUnder(overview, { clientX, clientY }) {
  const trace = tilesOf(overview);
  const image = overview.querySelector(".heatmaplayer image")?.getAttribute("href");
  const frame = overview.querySelector(DRAG)?.getBoundingClientRect();
  if (!trace || !image || !frame) return null;
  const { rows, columns } = trace.meta.tiles;
  const sizes = [[clientX - frame.left, frame.width, columns.length, trace.z[0].length], [clientY - frame.top, frame.height, rows.length, trace.z.length]];
  const places = sizes.map(([from, pixels, cells, all]) => Math.floor(((from / pixels) * all) / (cells + 1)));
  if (sizes.some(([from, pixels]) => from < 0 || from >= pixels)) return null;
  const [across, down] = sizes.map(([, , cells, all], axis) => ({
    size: `${(100 * all) / cells}%`,
    at: all > cells ? `${(100 * places[axis] * (cells + 1)) / (all - cells)}%` : "0%",
  }));
  return {
    name: `layer ${places[1] + 1} · head ${places[0] + 1}`,
    style: { backgroundImage: `url("${image}")`, backgroundSize: `${across.size} ${down.size}`, backgroundPosition: `${across.at} ${down.at}` },
  };
}
