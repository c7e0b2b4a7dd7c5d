// One stop for the keys over each chart that has cells or things to click: the arrow keys go from one
// to the next, Home and End to the ends of a row, and Enter does what a click does.

import { html } from "./shared.js";
import { plain } from "./table.js";

const LEAST = 12; // pixels of the frame that shows where the keys are
const LINE = 28; // pixels of the line of buttons below a chart

// Offers the stop in a chart's place; a map whose cells a component listens to has its own.
// `mapOf` gives the table of the chart's map, if it has one.
export function walk(chart, place, mapOf) {
  const stop = place.querySelector(":scope > .chart-keys") ?? newStop(place);
  Object.assign(stop, { chart, at: null, stopsOf: () => targetsOf(chart) ?? cellsOf(chart, mapOf()) ?? [] });
  stop.hidden = !stop.stopsOf().length;
  stop.ariaLabel = `${chart.closest("[aria-label]")?.ariaLabel ?? "Chart"}: arrow keys move`;
}

function newStop(place) {
  const [cursor, said] = [html("div", "cursor"), html("div", "said", "", { ariaLive: "polite" })];
  const stop = html("div", "chart-keys", [cursor, said], { tabIndex: 0, role: "application", cursor, said });
  place.style.position = "relative";
  stop.addEventListener("focus", () => go(stop, stop.at ?? 0));
  stop.addEventListener("keydown", (event) => {
    if (press(stop, event.key)) event.preventDefault();
  });
  place.prepend(stop);
  return stop;
}

const axesOf = ({ _fullLayout: full }, { xaxis = "x", yaxis = "y" }) =>
  [xaxis, yaxis].map((name) => full[`${name[0]}axis${name.slice(1)}`]);

// What can be clicked: the marks of traces that a click selects, with what the mouse reads there.
function targetsOf(chart) {
  const found = chart._fullData.flatMap((trace, curveNumber) => {
    if (!trace.customdata || trace.visible !== true || !trace.x?.length) return [];
    const [x, y] = axesOf(chart, trace);
    return Array.from(trace.x, (_, pointNumber) => ({
      left: x._offset + x.d2p(trace.x[pointNumber]),
      top: y._offset + y.d2p(trace.y[pointNumber]),
      size: [LEAST, LEAST],
      said: plain([].concat(trace.text ?? trace.y)[pointNumber] ?? trace.y[pointNumber]),
      point: { curveNumber, pointNumber, pointIndex: pointNumber, x: trace.x[pointNumber], y: trace.y[pointNumber],
        customdata: trace.customdata[pointNumber], data: chart.data[curveNumber], fullData: trace },
    }));
  });
  return found.length ? found : null;
}

function cellsOf(chart, table) {
  const trace = chart._fullData.find(({ type }) => type === "heatmap");
  if (!trace || !table) return null;
  const [x, y] = axesOf(chart, trace);
  const size = [x, y].map((axis) => Math.abs(axis.d2p(1) - axis.d2p(0)));
  return table.rows.flatMap(([row, ...values], down) =>
    values.map((value, across) => ({
      left: x._offset + x.d2p(trace.x?.[across] ?? across),
      top: y._offset + y.d2p(trace.y?.[down] ?? down),
      size,
      said: `${row}, ${table.head[across + 1]}: ${typeof value === "number" ? value.toPrecision(3) : value}`,
    })),
  );
}

function press(stop, key) {
  const stops = stop.stopsOf();
  const here = stops[stop.at ?? 0];
  if (!here) return false;
  if (key === "Enter") {
    if (!here.point) return false;
    stop.chart.emit("plotly_selected", { points: [here.point] });
    return true;
  }
  const [along, sign] = { ArrowLeft: ["left", -1], ArrowRight: ["left", 1], ArrowUp: ["top", -1], ArrowDown: ["top", 1], Home: ["left", -1], End: ["left", 1] }[key] ?? [];
  if (!along) return false;
  const across = along === "left" ? "top" : "left";
  const beside = stops
    .map((each, place) => ({ place, ahead: sign * (each[along] - here[along]), off: Math.abs(each[across] - here[across]) }))
    .filter(({ ahead }) => ahead > 0.5);
  if (!beside.length) return true;
  const far = key === "Home" || key === "End";
  // In the same row or column, the next one; else the nearest of those ahead.
  const least = Math.min(...beside.map(({ off }) => off));
  const inLine = beside.filter(({ off }) => off < least + 0.5);
  inLine.sort((a, b) => (far ? b.ahead - a.ahead : a.ahead - b.ahead));
  if (!far || least < 0.5) go(stop, inLine[0].place);
  return true;
}

function go(stop, at) {
  const here = stop.stopsOf()[at];
  if (!here) return;
  stop.at = at;
  const [frame, origin] = [stop.chart, stop].map((each) => each.getBoundingClientRect());
  const [width, height] = here.size.map((pixels) => Math.max(LEAST, pixels));
  Object.assign(stop.cursor.style, {
    left: `${frame.left - origin.left + here.left - width / 2}px`,
    top: `${frame.top - origin.top + here.top - height / 2}px`,
    width: `${width}px`,
    height: `${height}px`,
  });
  stop.said.style.bottom = `${Math.max(0, origin.bottom - frame.bottom - LINE)}px`; // a table may be below
  stop.said.textContent = here.said;
}
