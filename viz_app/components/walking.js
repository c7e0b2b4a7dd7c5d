// One stop for the keys over each chart that has cells or things to click: the arrow keys go from one
// to the next, Home and End to the ends of a row, and Enter does what a click does.

import { html } from "./shared.js";

const LEAST = 12; // pixels of the frame that shows where the keys are
const LINE = 28; // pixels of the line of buttons below a chart
const MOVES = { ArrowLeft: ["left", -1], ArrowRight: ["left", 1], ArrowUp: ["top", -1], ArrowDown: ["top", 1], Home: ["left", -1], End: ["left", 1] };

// Offers the stop in a place. `stopsOf` gives where the keys go: each has the middle and the size of its
// frame, in pixels from the corner of the element `origin`; what is said there; and, where there is any,
// what Enter does, `press`, the space bar, `choose`, and what is done once the keys are there, `seen`.
// The keys begin at `start`, which is null where they stay. What is said stands in an element `said`,
// which else has a `hint`, or below the chart.
export function walk(place, { origin, label, stopsOf, start = null, said = null, hint = "", onLeave = () => {} }) {
  const stop = place.querySelector(":scope > .chart-keys") ?? newStop(place);
  Object.assign(stop, { origin, stopsOf, hint, onLeave, said: said ?? stop.own, at: start ?? (said ? stop.at : null) });
  stop.hidden = !stopsOf().length;
  stop.ariaLabel = hint ? `${label}. ${hint}` : label;
  if (stop.matches(":focus")) go(stop, stop.at ?? 0);
  else stop.said.textContent = hint;
}

function newStop(place) {
  const [cursor, own] = [html("div", "cursor"), html("div", "said", "", { ariaLive: "polite" })];
  const stop = html("div", "chart-keys", [cursor, own], { tabIndex: 0, role: "application", cursor, own });
  place.style.position = "relative";
  stop.addEventListener("focus", () => go(stop, stop.at ?? 0));
  stop.addEventListener("blur", () => {
    stop.said.textContent = stop.hint;
    stop.onLeave();
  });
  stop.addEventListener("keydown", (event) => {
    if (press(stop, event.key)) event.preventDefault();
  });
  place.prepend(stop);
  return stop;
}

function press(stop, key) {
  const stops = stop.stopsOf();
  const here = stops[stop.at ?? 0];
  const does = { Enter: here?.press, " ": here?.choose }[key];
  if (does) {
    does();
    return true;
  }
  if (!here || !MOVES[key]) return false;
  const [along, sign] = MOVES[key];
  const across = along === "left" ? "top" : "left";
  const beside = stops
    .map((each, place) => ({ place, ahead: sign * (each[along] - here[along]), off: Math.abs(each[across] - here[across]) }))
    .filter(({ ahead }) => ahead > 0.5);
  if (!beside.length) return true;
  const far = key === "Home" || key === "End";
  // In the same row or column, the next one; else the nearest of those ahead.
  const least = beside.reduce((found, { off }) => Math.min(found, off), Infinity);
  const inLine = beside.filter(({ off }) => off < least + 0.5);
  inLine.sort((a, b) => (far ? b.ahead - a.ahead : a.ahead - b.ahead));
  if (!far || least < 0.5) go(stop, inLine[0].place);
  return true;
}

function go(stop, at) {
  const here = stop.stopsOf()[at];
  if (!here) return;
  stop.at = at;
  here.seen?.();
  const [frame, from] = [stop.origin, stop].map((each) => each.getBoundingClientRect());
  const [width, height] = here.size.map((pixels) => Math.max(LEAST, pixels));
  Object.assign(stop.cursor.style, {
    left: `${frame.left - from.left + here.left - width / 2}px`,
    top: `${frame.top - from.top + here.top - height / 2}px`,
    width: `${width}px`,
    height: `${height}px`,
  });
  stop.own.style.bottom = `${Math.max(0, from.bottom - frame.bottom - LINE)}px`; // a table may be below
  stop.said.textContent = here.said;
}
