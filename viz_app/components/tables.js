// Below each chart of Plotly's a fold with its numbers as tables and a button that saves it, by Plotly's
// own, which is hidden; over what can be clicked one stop for the keys; and a sign where something is
// wider than its place. One script does it for all of a page, from what Plotly has drawn: nothing more
// is sent.

import { offerTable, plain } from "./table.js";
import { walk } from "./walking.js";

export default function (component) {
  const { data: [{ marks }] } = component;
  let waits = false;
  const look = () => {
    waits = false;
    for (const chart of document.querySelectorAll(".stPlotlyChart .js-plotly-plot")) {
      if (heard.get(chart) !== chart._ev) chart.on?.("plotly_afterplot", lookSoon); // where only colours change
      heard.set(chart, chart._ev);
      offer(chart, marks);
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

function offer(chart, marks) {
  const place = chart.closest('[class*="-box "]');
  if (!place || !chart._fullData) return;
  if (seen.get(chart) === chart._fullData) {
    place.querySelector(":scope > .chart-tools > .chart-table")?.draw(); // its table may be of a chart that went since
    return;
  }
  seen.set(chart, chart._fullData);
  chart.dataset.tabled = "true";
  place.dataset.tools = ""; // until now the style of the page has kept room for them
  const tables = tablesOf(chart, marks);
  if (!tables.length) {
    place.querySelector(":scope > .chart-tools")?.remove();
    return;
  }
  const label = `${chart.closest("[aria-label]")?.ariaLabel ?? "Chart"}: arrow keys move`;
  walk(place, { origin: chart, label, stopsOf: () => stopsOf(chart) });
  const now = () => [...place.querySelectorAll(".js-plotly-plot")].at(-1);
  const tablesNow = () => (now()?._fullData ? tablesOf(now(), marks) : []);
  offerTable(place, tablesNow, () => now()?.querySelector(".modebar-btn")?.click());
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

function tablesOf({ _fullData: traces, layout }, marks) {
  const tables = [];
  for (const trace of traces) {
    if (isMark(trace, marks) || !trace.x?.length || !trace.y?.length) continue;
    const [xaxis, yaxis] = ["x", "y"].map((letter) => layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`] ?? {});
    const title = plain(trace.name && trace.showlegend !== false && !/^trace \d+$/.test(trace.name) ? trace.name : xaxis.title?.text);
    const lies = trace.type === "bar" && trace.orientation === "h";
    const [names, values] = lies ? [namesOf(yaxis, trace.y, trace.y.length), trace.x] : [namesOf(xaxis, trace.x, trace.x.length), trace.y];
    const head = ["", plain((lies ? xaxis : yaxis).title?.text) || "value"];
    tables.push({ title, head, rows: names.map((name, place) => [name, values[place]]) });
  }
  return tables;
}

// What can be clicked, and walked to: the marks of traces that a click selects, with what the mouse reads.
function stopsOf(chart) {
  const axisOf = (name) => chart._fullLayout[`${name[0]}axis${name.slice(1)}`];
  return chart._fullData.flatMap((trace, curveNumber) => {
    if (!trace.customdata || trace.visible !== true || !trace.x?.length) return [];
    const [x, y] = [trace.xaxis ?? "x", trace.yaxis ?? "y"].map(axisOf);
    return Array.from(trace.x, (_, pointNumber) => {
      const point = { curveNumber, pointNumber, pointIndex: pointNumber, x: trace.x[pointNumber], y: trace.y[pointNumber],
        customdata: trace.customdata[pointNumber], data: chart.data[curveNumber], fullData: trace };
      return {
        left: x._offset + x.d2p(point.x),
        top: y._offset + y.d2p(point.y),
        size: [0, 0],
        said: plain([].concat(trace.text ?? trace.y)[pointNumber] ?? point.y),
        press: () => chart.emit("plotly_selected", { points: [point] }),
      };
    });
  });
}
