// The loss at all checkpoints, behind the slider that goes through them.

import { svgElement } from "./shared.js";

const HEIGHT = 64; // pixels
const INSET = 8; // pixels: half of the slider's thumb
const EDGE = 7; // pixels above the highest loss and below the lowest

export function drawCurve(svg, { steps, heights, changed, frames }, frame) {
  const between = Math.max(0, svg.clientWidth - 2 * INSET) / Math.max(1, steps.length - 1);
  const x = (place) => INSET + between * place;
  const y = (place) => HEIGHT - EDGE - (heights[place] ?? 0.5) * (HEIGHT - 2 * EDGE);
  const there = new Set(frames.map(({ step }) => step));
  const shown = steps.indexOf(frames[frame].step);
  svg.replaceChildren(
    svgElement("rect", { class: "changed", x: x(changed - 1), width: changed === null ? 0 : between, height: HEIGHT }),
    svgElement("polyline", { points: steps.map((_, place) => `${x(place)},${y(place)}`).join(" ") }),
    svgElement("line", { class: "now", x1: x(shown), x2: x(shown), y2: HEIGHT }),
    ...steps.map((step, place) => svgElement("circle", {
      class: place === shown ? "now" : there.has(step) ? "" : "to-come", cx: x(place), cy: y(place), r: place === shown ? 6 : 3.5,
    })),
  );
}
