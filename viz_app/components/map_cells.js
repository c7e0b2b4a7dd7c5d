// The cells and rows of a heat map that Plotly has drawn: clicked, or walked with the arrow keys.

import { placesOf, point, tokensAt, whenPointed } from "./linked.js";
import { DRAG, headUnder, lightHeads } from "./overview.js";
import { bytesOf, html, mount } from "./shared.js";

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const state = mount(component, "map_cells", build);
  state.listening?.abort();
  state.listening = new AbortController();
  const labels = JSON.stringify([data.rows, data.columns]);
  const { start } = data;
  if (state.labels !== labels) [state.row, state.column] = start;
  else if (state.start[0] !== start[0]) state.row = start[0]; // another row was chosen elsewhere
  Object.assign(state, { data, labels, start, weights: new Float32Array(bytesOf(data.weights).buffer) });
  state.tell = ({ row, column }) => {
    if (column !== null) setTriggerValue("cell", [row, column]);
    else if (data.has_row) setTriggerValue("row", row);
  };
  listen(state);
  const { walker } = state;
  walker.ariaLabel = `${data.label}. ${data.hint}`;
  if (walker.matches(":focus")) show(state);
  else state.status.textContent = data.hint;
  return () => state.listening.abort();
}

function build(root) {
  const [cursor, status] = [html("div", "cursor"), html("div", "status", "", { ariaLive: "polite" })];
  const [lit, preview] = [html("div", "lit"), html("div", "preview")];
  const sheet = html("div", "sheet", [lit, cursor]);
  const walker = html("div", "walker", [sheet, preview], { tabIndex: 0, role: "application" });
  const state = { root, walker, sheet, lit, preview, cursor, status };
  root.append(walker, status);
  walker.addEventListener("focus", () => show(state));
  walker.addEventListener("blur", () => {
    status.textContent = state.data.hint;
    pointAt(state, null);
  });
  walker.addEventListener("keydown", (event) => {
    if (press(state, event.key)) event.preventDefault();
  });
  return state;
}

function listen(state) {
  const { root, data, listening: { signal } } = state;
  const box = root.getRootNode().host.closest(`.st-key-${data.container}`);
  if (!box) return; // Streamlit calls it late, when the page is drawn without it
  box.dataset.cells = "true"; // it needs no other stop for the keys
  state.area = () => [...box.querySelectorAll(DRAG)].find((area) => area.checkVisibility());
  box.addEventListener("click", (event) => {
    const at = place(state, event);
    if (at) state.tell(at);
  }, { signal });
  box.addEventListener("pointermove", (event) => {
    const at = place(state, event);
    if (event.target.style && event.target !== root.getRootNode().host) {
      event.target.style.cursor = at ? "pointer" : "";
    }
    pointAt(state, at);
  }, { signal });
  box.addEventListener("pointerleave", () => pointAt(state, null), { signal });
  whenPointed((tokens) => light(state, tokens), signal);
  // Of the document, since the picture of all heads may be drawn later than this.
  document.addEventListener("pointermove", (event) => {
    const heads = event.target.closest?.(`.st-key-${data.overview} .js-plotly-plot`);
    preview(state, heads && headUnder(heads, event));
  }, { signal });
  signal.addEventListener("abort", () => preview(state, null));
  box.addEventListener("scroll", () => cover(state), { capture: true, signal });
  const sizes = new ResizeObserver(() => cover(state));
  sizes.observe(box);
  signal.addEventListener("abort", () => sizes.disconnect());
}

// The cell under the mouse; a column of null is the label of a row, or its mark.
function place({ area, data }, event) {
  const frame = area()?.getBoundingClientRect();
  const chart = event.target.closest?.(".js-plotly-plot");
  if (!frame || !chart || event.target.closest(".modebar")) return null;
  const row = Math.floor(((event.clientY - frame.top) / frame.height) * data.rows.length);
  const column = Math.floor(((event.clientX - frame.left) / frame.width) * data.columns.length);
  if (row < 0 || row >= data.rows.length || column >= data.columns.length) return null;
  if (column >= 0) return { row, column };
  return data.has_row ? { row, column: null } : null;
}

// Say of which tokens a cell, or the label of a row, is.
function pointAt(state, at) {
  const { axes: [rows, columns] } = state.data;
  if (state.at?.row === at?.row && state.at?.column === at?.column) return;
  state.at = state.pointing = at;
  const ofColumn = at && at.column !== null ? tokensAt(columns, at.column) : [];
  point(at ? [...tokensAt(rows, at.row), ...ofColumn] : []);
  state.pointing = null;
}

// Mark the rows and columns of tokens: of those that are pointed at here, the row and the column.
function light(state, tokens) {
  const { data: { axes, rows, columns }, pointing, lit, walker } = state;
  if (!state.area?.()) return;
  cover(state);
  const [down, across] = pointing
    ? [[pointing.row], pointing.column === null ? [] : [pointing.column]]
    : axes.map((axis) => placesOf(axis, tokens));
  lightHeads(overviewOf(state), axes, [down, across]);
  if (walker.matches(":focus-visible")) return lit.replaceChildren(); // its frame says where the keys are
  lit.replaceChildren(
    ...down.map((row) => html("div", "", "", { style: `inset: ${(100 * row) / rows.length}% 0 auto; height: ${100 / rows.length}%` })),
    ...across.map((column) => html("div", "", "", { style: `inset: 0 auto 0 ${(100 * column) / columns.length}%; width: ${100 / columns.length}%` })),
  );
}

const overviewOf = ({ data }) => document.querySelector(`.st-key-${data.overview} .js-plotly-plot`);

// Show the head that is pointed at in the picture of all heads as large as this map.
function preview(state, head) {
  state.preview.hidden = !head;
  if (!head) return;
  cover(state);
  Object.assign(state.preview.style, head.style);
  state.preview.textContent = head.name;
}

function press(state, key) {
  const [last, end] = [state.data.rows, state.data.columns].map(({ length }) => length - 1);
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -end], End: [0, end] }[key];
  if (key === "Enter") state.tell(state);
  else if (key === " ") state.tell({ row: state.row, column: null });
  else if (move) {
    state.row = Math.min(last, Math.max(0, state.row + move[0]));
    state.column = Math.min(end, Math.max(0, state.column + move[1]));
    reveal(state);
    show(state);
  }
  return key === "Enter" || key === " " || Boolean(move);
}

// Lay the focusable element over the cells that are in sight, where the map is scrolled sideways.
function cover({ area, root, walker, sheet }) {
  const frame = area()?.getBoundingClientRect();
  if (!frame) return;
  const [origin, seen] = [root, boxOf(area())].map((each) => each.getBoundingClientRect());
  const left = Math.max(frame.left, seen.left);
  Object.assign(walker.style, {
    left: `${left - origin.left}px`,
    top: `${frame.top - origin.top}px`,
    width: `${Math.max(0, Math.min(frame.right, seen.right) - left)}px`,
    height: `${frame.height}px`,
  });
  Object.assign(sheet.style, { left: `${frame.left - left}px`, width: `${frame.width}px` });
}

const boxOf = (area) => area.closest('[class*="-box "]');

// Scroll the map sideways to a column that is out of sight.
function reveal({ area, data, column }) {
  const box = boxOf(area());
  const [frame, seen] = [area(), box].map((each) => each.getBoundingClientRect());
  const middle = frame.left + (frame.width * (column + 0.5)) / data.columns.length;
  if (middle < seen.left || middle > seen.right) box.scrollLeft += middle - (seen.left + seen.right) / 2;
}

function show(state) {
  const { data, row, column, cursor, status, weights } = state;
  cover(state);
  Object.assign(cursor.style, {
    left: `${(100 * column) / data.columns.length}%`,
    top: `${(100 * row) / data.rows.length}%`,
    width: `${100 / data.columns.length}%`,
    height: `${100 / data.rows.length}%`,
  });
  pointAt(state, { row, column });
  const weight = weights[row * data.columns.length + column];
  const value = Number.isNaN(weight) ? "masked" : `weight ${weight.toPrecision(3)}`;
  status.textContent = `query ${data.rows[row]}, key ${data.columns[column]}: ${value}`;
}
