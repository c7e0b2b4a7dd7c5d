// What is under the pointer, or where the keys are, lights up wherever else it is drawn: tokens, rows
// and columns of maps. The server has no part in it.

const EVENT = "headwise-pointed";

// Says that tokens are pointed at, each by its side, "source" or "target", and its place there; and in
// which cell, as {axes, row, column}, if they are in one.
export const point = (tokens, cell = null) => document.dispatchEvent(new CustomEvent(EVENT, { detail: { tokens, cell } }));

// Calls `light` with what is pointed at from now on, wherever that is.
export function whenPointed(light, signal) {
  document.addEventListener(EVENT, ({ detail }) => light(detail.tokens, detail.cell), { signal });
}

// The tokens of a row or column, of which an axis has the side, and the first and last place of each.
export const tokensAt = ({ side, spans }, at) => {
  const [start, stop] = spans[at];
  return Array.from({ length: stop - start }, (_, more) => ({ side, place: start + more }));
};

// The rows, or columns, of an axis that have any of some tokens.
export const placesOf = ({ side, spans }, tokens) =>
  spans.flatMap(([start, stop], at) =>
    tokens.some((token) => token.side === side && start <= token.place && token.place < stop) ? [at] : [],
  );

// The small map of the chosen head is plain HTML: it says its axes, and is marked from here.
whenPointed((tokens) => document.querySelectorAll(".small-map").forEach((map) => {
  map.querySelectorAll(".lit").forEach((each) => each.remove());
  const axes = [["top", "height", map.dataset.rows], ["left", "width", map.dataset.columns]];
  for (const [from, size, axis] of axes) {
    const [side, count, back] = axis.split(" ");
    for (const { place } of tokens.filter((each) => each.side === side)) {
      const mark = document.createElement("i");
      Object.assign(mark, { className: "lit", style: `${from}: ${(100 * (place + Number(back))) / count}%; ${size}: ${100 / count}%` });
      if (place + Number(back) < count) map.append(mark);
    }
  }
}));
