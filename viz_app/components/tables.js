// Below each chart a fold with its numbers as tables and a button that saves it, by Plotly's
// own, which is hidden; over each map one stop for the keys; and a sign where something is
// wider than its place. One
// script does it for all charts of a page, from what Plotly has drawn: nothing more is sent.

import { offerTable, plain } from "./table.js";
import { walk } from "./walking.js";

export default function (component) {
  const { data: [{ marks, masked, codes }] } = component;
  let waits = false;
  const look = () => {
    waits = false;
    for (const chart of document.querySelectorAll(".stPlotlyChart .js-plotly-plot")) {
      if (heard.get(chart) !== chart._ev) chart.on?.("plotly_afterplot", lookSoon); // where only colours change
      heard.set(chart, chart._ev);
      offer(chart, marks, { masked, codes });
    }
    showMore([...document.querySelectorAll(WIDE)]);
  };
  // In the frame after a chart has come, so that nothing moves later.
  const lookSoon = () => {
    if (!waits) requestAnimationFrame(look);
    waits = true;
  };
  const heard = new WeakMap(); // chart → what tells of its events
  const observer = new MutationObserver(lookSoon);
  observer.observe(document.body, { childList: true, subtree: true });
  look();
  const scrolled = ({ target }) => target.matches?.(WIDE) && showMore([target]);
  document.addEventListener("scroll", scrolled, true);
  return () => {
    observer.disconnect();
    document.removeEventListener("scroll", scrolled, true);
  };
}

const WIDE = '[class*="-box "], .modules div, .comparison, .stMarkdown table'; // what may be scrolled sideways

// Marks what goes on to the right of what is seen, so that it fades there.
function showMore(places) {
  const goesOn = ({ scrollWidth, clientWidth, scrollLeft }) => scrollWidth - clientWidth - scrollLeft > 8;
  const found = places.map((each) => [each, goesOn(each) && getComputedStyle(each).overflowX === "auto"]);
  for (const [each, more] of found) each.toggleAttribute("data-more", more);
}

const seen = new WeakMap(); // chart → the data of which a table has been offered

function offer(chart, marks, tiled) {
  const place = chart.closest('[class*="-box "]');
  if (!place || !chart._fullData) return;
  if (seen.get(chart) === chart._fullData) {
    place.querySelector(":scope > .chart-tools > .chart-table")?.draw(); // its table may be of a chart that went since
    showChosen(chart, place, marks);
    return;
  }
  seen.set(chart, chart._fullData);
  chart.dataset.tabled = "true";
  place.dataset.tools = ""; // until now the style of the page has kept room for them
  const tables = tablesOf(chart, place, marks, tiled);
  if (!tables.length) {
    place.querySelector(":scope > .chart-tools")?.remove();
    return;
  }
  walk(chart, place, () => tables.find((table) => table.isMap));
  shown.delete(place);
  showChosen(chart, place, marks);
  const now = () => [...place.querySelectorAll(".js-plotly-plot")].at(-1);
  const tablesNow = () => (now()?._fullData ? tablesOf(now(), place, marks, tiled) : []);
  offerTable(place, tablesNow, () => now()?.querySelector(".modebar-btn")?.click());
}

// The frames around what is chosen: most lie over the chart.
const framesOf = ({ layout }, place, marks) => [
  ...(layout.shapes ?? []).filter(({ name }) => marks.includes(name)),
  ...[...place.querySelectorAll(".chosen i")].map(({ dataset }) => JSON.parse(dataset.frame)),
];

const shown = new WeakMap(); // place → the frame that was scrolled to

// Scrolls a chart that is wider than its place as little as is needed to see the chosen column.
function showChosen(chart, place, marks) {
  const { xaxis } = chart._fullLayout;
  const chosen = framesOf(chart, place, marks).find(({ xref, x0, x1 }) => (xref ?? "x") === "x" && x1 > x0);
  const before = shown.get(place), now = JSON.stringify([chosen?.x0, chosen?.x1, place.clientWidth]);
  shown.set(place, now);
  if (now === before) return;
  if (!chosen || !xaxis?.d2p) return;
  const [left, right] = [chosen.x0, chosen.x1].map((x) => xaxis._offset + xaxis.d2p(x));
  if (right - left < place.clientWidth && right > place.clientWidth) place.scrollLeft = right - place.clientWidth + 8;
}

// The name of each place of an axis: its label, or else what the trace has there.
function namesOf(axis, values, count) {
  const labels = new Map((axis.tickvals ?? []).map((at, place) => [String(at), axis.ticktext?.[place]]));
  return Array.from({ length: count }, (_, place) => {
    const at = values?.[place] ?? place;
    return plain(axis.labelalias?.[at] ?? labels.get(String(at)) ?? at);
  });
}

// Whether a trace is one of the marks that are no data: what is chosen, and what is clicked.
const isMark = (trace, marks) =>
  marks.includes(trace.meta) || trace.visible !== true || trace.marker?.opacity === 0 || trace.mode === "text";
const isMask = ({ type, colorscale }) => type === "heatmap" && colorscale[0][1] === "rgba(0,0,0,0)";

// Names that stand above some columns each, as those of kinds of attention: to which a column belongs.
function groupsOf({ annotations = [] }) {
  const above = annotations.filter(({ x, xref, yref, yanchor }) => typeof x === "number" && xref === "x" && yref === "paper" && yanchor === "bottom");
  if (above.length < 2) return () => "";
  const nearest = (column) => above.reduce((a, b) => (Math.abs(b.x - column) < Math.abs(a.x - column) ? b : a));
  return (column) => `${plain(nearest(column).text)} `;
}

// A table for each map of the picture of all heads, in whose cells weights are codes.
function tilesOf(cells, { tiles, xaxis, yaxis, frame }, { masked, codes }) {
  const { rows, columns, signed } = tiles;
  const weight = (code) => (code === masked ? "masked" : signed ? (2 * code) / codes - 1 : code / codes);
  return yaxis.ticktext.flatMap((layer, down) =>
    xaxis.ticktext.map((head, across) => {
      const [top, left] = [down * (rows.length + 1), across * (columns.length + 1)];
      return {
        title: `${layer} · ${head}, to 1/${codes}`,
        chosen: frame && frame.x0 === left - 0.5 && frame.y0 === top - 0.5,
        head: ["", ...columns],
        rows: rows.map((name, row) => [name, ...columns.map((_, column) => weight(cells[top + row][left + column]))]),
      };
    }),
  );
}

function tablesOf({ _fullData: traces, _fullLayout: full, layout }, place, marks, tiled) {
  const tables = [];
  traces.forEach((trace, index) => {
    if (isMark(trace, marks) || isMask(trace)) return;
    const [xaxis, yaxis] = ["x", "y"].map((letter) => layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`] ?? {});
    const title = plain(trace.name && trace.showlegend !== false && !/^trace \d+$/.test(trace.name) ? trace.name : xaxis.title?.text);
    if (trace.type === "heatmap") {
      const { tiles } = trace.meta ?? {};
      if (tiles) {
        const [frame] = framesOf({ layout }, place, marks);
        tables.push(...tilesOf(trace.z, { tiles, xaxis, yaxis, frame }, tiled));
        return;
      }
      const next = traces[index + 1];
      const masked = next && isMask(next) ? next.z : null;
      const cells = Array.from(trace.z, (row, y) => Array.from(row, (value, x) => (masked?.[y][x] ? "masked" : value)));
      const [names, columns] = [namesOf(yaxis, trace.y, cells.length), namesOf(xaxis, null, cells[0].length)];
      const group = groupsOf(full);
      const kept = [...columns.keys()].filter((x) => cells.some((row) => !Number.isNaN(row[x]))); // not the gaps
      const rows = cells.map((row, y) => [names[y], ...kept.map((x) => row[x])]);
      const before = traces[index - 1];
      if (before?.type === "heatmap" && before.xaxis === trace.xaxis && before.yaxis === trace.yaxis) {
        tables.at(-1).rows.splice(trace.y[0], rows.length, ...rows); // rows on a range of their own
        return;
      }
      tables.push({ title, isMap: true, head: ["", ...kept.map((x) => group(x) + columns[x])], rows });
    } else if (trace.x?.length && trace.y?.length) {
      const lies = trace.type === "bar" && trace.orientation === "h";
      const [names, values] = lies ? [namesOf(yaxis, trace.y, trace.y.length), trace.x] : [namesOf(xaxis, trace.x, trace.x.length), trace.y];
      const head = ["", plain((lies ? xaxis : yaxis).title?.text) || "value"];
      tables.push({ title, head, rows: names.map((name, place) => [name, values[place]]) });
    }
  });
  return tables;
}
