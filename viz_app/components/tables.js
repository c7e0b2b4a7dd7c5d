// Below each chart a fold with its numbers as a table, which is sorted by a click and copied as TSV.
// One script does it for all charts of a page, from what Plotly has drawn: nothing more is sent.

import { button, html } from "./shared.js";

const DIGITS = 7; // of a float of 32 bits
const opened = new Set(); // keys of charts whose fold is open; Streamlit may draw them anew

export default function (component) {
  const { data: [{ marks }] } = component;
  let waits = false;
  const look = () => {
    waits = false;
    document.querySelectorAll(".stPlotlyChart .js-plotly-plot").forEach((chart) => offer(chart, marks));
  };
  // In the frame after a chart has come, so that nothing moves later.
  const observer = new MutationObserver(() => {
    if (!waits) requestAnimationFrame(look);
    waits = true;
  });
  observer.observe(document.body, { childList: true, subtree: true });
  look();
  return () => observer.disconnect();
}

const seen = new WeakMap(); // chart → the data of which a table has been offered

function offer(chart, marks) {
  const place = chart.closest('[class*="-box "]');
  if (!place || !chart._fullData || seen.get(chart) === chart._fullData) return;
  seen.set(chart, chart._fullData);
  chart.dataset.tabled = "true";
  const before = place.querySelector(":scope > .chart-table");
  if (!tablesOf(chart, marks).length) {
    before?.remove();
    return;
  }
  if (before) {
    // The chart is drawn anew, perhaps by another element, which comes after it.
    if (place.lastElementChild !== before) place.append(before);
    before.draw();
    return;
  }
  const fold = html("details", "chart-table");
  const key = place.className.match(/st-key-(\S+)-box/)?.[1];
  fold.open = opened.has(key);
  const body = html("div");
  fold.append(html("summary", "", "As a table"), body);
  place.append(fold);
  fold.draw = () => {
    const now = [...place.querySelectorAll(".js-plotly-plot")].at(-1);
    body.replaceChildren(...(fold.open && now?._fullData ? tablesOf(now, marks).flatMap(drawn) : []));
  };
  fold.draw();
  fold.addEventListener("toggle", () => {
    opened[fold.open ? "add" : "delete"](key);
    fold.draw();
  });
}

const plain = (text) => new DOMParser().parseFromString(String(text ?? ""), "text/html").body.textContent;
const written = (value) => (typeof value === "number" && Number.isFinite(value) ? String(+value.toPrecision(DIGITS)) : String(value ?? ""));

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

function tablesOf({ _fullData: traces, _fullLayout: full, layout }, marks) {
  const tables = [];
  traces.forEach((trace, index) => {
    if (isMark(trace, marks) || isMask(trace)) return;
    const [xaxis, yaxis] = ["x", "y"].map((letter) => layout[`${letter}axis${(trace[`${letter}axis`] ?? letter).slice(1)}`] ?? {});
    const title = plain(trace.name && trace.showlegend !== false && !/^trace \d+$/.test(trace.name) ? trace.name : xaxis.title?.text);
    if (trace.type === "heatmap") {
      const hasNames = (axis, count) => axis.labelalias || axis.ticktext?.length === count;
      const isOneMap = hasNames(yaxis, trace.z.length) || hasNames(xaxis, trace.z[0].length);
      if (!isOneMap) return; // a picture of many maps, each of which has a table where it is large
      const next = traces[index + 1];
      const masked = next && isMask(next) ? next.z : null;
      const cells = Array.from(trace.z, (row, y) => Array.from(row, (value, x) => (masked?.[y][x] ? "masked" : value)));
      const [names, columns] = [namesOf(yaxis, null, cells.length), namesOf(xaxis, null, cells[0].length)];
      const group = groupsOf(full);
      const kept = [...columns.keys()].filter((x) => cells.some((row) => !Number.isNaN(row[x]))); // not the gaps
      tables.push({
        title,
        head: ["", ...kept.map((x) => group(x) + columns[x])],
        rows: cells.map((row, y) => [names[y], ...kept.map((x) => row[x])]),
      });
    } else if (trace.x?.length && trace.y?.length) {
      const lies = trace.type === "bar" && trace.orientation === "h";
      const [names, values] = lies ? [namesOf(yaxis, trace.y, trace.y.length), trace.x] : [namesOf(xaxis, trace.x, trace.x.length), trace.y];
      const head = ["", plain((lies ? xaxis : yaxis).title?.text) || "value"];
      tables.push({ title, head, rows: names.map((name, place) => [name, values[place]]) });
    }
  });
  return tables;
}

function drawn({ title, head, rows }) {
  const table = html("table");
  const shown = [...rows];
  let sorted = [0, 1];
  const fill = () => {
    table.tBodies[0]?.remove();
    const body = table.createTBody();
    for (const [name, ...values] of shown) {
      const row = body.insertRow();
      const first = html("th", "", name);
      first.scope = "row";
      row.append(first, ...values.map((value) => html("td", "", typeof value !== "number" || Number.isInteger(value) ? written(value) : value.toFixed(4))));
    }
  };
  const top = table.createTHead().insertRow();
  head.forEach((name, column) => {
    const cell = html("th");
    cell.scope = "col";
    cell.append(button("", name || "in order", () => {
      sorted = [column, sorted[0] === column ? -sorted[1] : 1];
      const by = ([a], [b]) => rows.indexOf(a) - rows.indexOf(b);
      const size = (row) => (typeof row[column] === "number" ? row[column] : -Infinity);
      shown.sort((a, b) => sorted[1] * (column ? size(b) - size(a) : by([a], [b])));
      [...top.cells].forEach((each, at) => { each.ariaSort = at !== column ? "none" : (column > 0) === (sorted[1] > 0) ? "descending" : "ascending"; });
      fill();
    }));
    top.append(cell);
  });
  fill();
  const tsv = () => [head, ...shown].map((row) => row.map(written).join("\t")).join("\n");
  const copy = button("copy", "Copy as TSV", async () => {
    await navigator.clipboard.writeText(tsv());
    copy.textContent = "Copied";
  });
  const frame = html("div", "frame");
  frame.tabIndex = 0;
  frame.role = "group";
  frame.ariaLabel = title || "The numbers of the chart";
  frame.append(table);
  return [...(title ? [html("p", "", title)] : []), frame, copy];
}
