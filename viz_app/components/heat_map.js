// A heat map: drawn, clicked, walked with the arrow keys, read out, saved. What is pointed at in one map
// of a page lights up in the others, and a head under the pointer is seen in the place of the large map.

import { draw, endsOf, linesOf, placed, read, readout, targetsOf } from "./figure.js";
import { tablesOf } from "./figure_tables.js";
import { placesOf, point, tokensAt, whenPointed } from "./linked.js";
import { paper, savePicture } from "./paper.js";
import { printed } from "./printed.js";
import { html, mount, svgElement } from "./shared.js";
import { offerTable } from "./table.js";
import { walk } from "./walking.js";

const APART = 14; // pixels from the pointer to what is read there

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const state = mount(component, "heat_map", build);
  const { root } = state;
  const box = root.closest('[class*="-box "]');
  if (!box) return undefined; // Streamlit calls it late, when the page is drawn without it
  state.box = box;
  if (state.data?.figure !== data.figure) root.figure = state.figure = read(data.figure);
  state.targets = data.clicks ? targetsOf(state.figure) : [];
  state.send = setTriggerValue;
  const begins = data.cells && state.data?.cells?.start.join() !== data.cells.start.join(); // another was chosen elsewhere
  state.data = data;
  redraw(state);
  walk(root, {
    origin: state.sheet,
    label: data.label,
    stopsOf: () => stopsOf(state),
    start: begins ? data.cells.start[0] * columnsOf(state) + data.cells.start[1] : null,
    said: data.cells && state.status,
    hint: data.cells?.hint,
    onLeave: () => pointAt(state, null),
  });
  offerTable(box, () => tablesOf(state.figure, data.tables), () => save(state));
  showChosen(state);
  box.dataset.tools = "";
  listen(state);
  return () => state.listening.abort();
}

function build(root) {
  const sheet = html("div", "sheet");
  const lit = svgElement("svg", { class: "lit" });
  const [preview, tip, status] = [html("div", "preview", "", { hidden: true }), html("div", "tip", "", { popover: "manual" }), html("div", "status", "", { ariaLive: "polite" })];
  root.append(sheet, lit, preview, tip, status);
  const state = { root, sheet, lit, preview, tip, status };
  new ResizeObserver(() => redraw(state)).observe(sheet);
  return state;
}

function redraw(state) {
  const { sheet, figure, data, preview, drawn } = state;
  const [width, height] = [sheet.clientWidth, sheet.clientHeight];
  if (!width || (drawn?.figure === data.figure && drawn.width === width && drawn.height === height)) return;
  state.drawn = { figure: data.figure, width, height };
  state.place = placed(figure, { width, height });
  sheet.replaceChildren(svgElement("svg", { width, height, "aria-hidden": true }, [draw(figure, state.place, data.colours.ground)]));
  const { left, top, across, down } = state.place;
  Object.assign(preview.style, { left: `${left}px`, top: `${top}px`, width: `${across}px`, height: `${down}px` });
}

const columnsOf = ({ figure }) => figure.data[0].z[0].length;
const rowsOf = ({ figure }) => Math.abs(figure.layout.yaxis.range[1] - figure.layout.yaxis.range[0]);

// What the pointer, or a key, is on: a cell, or the label of a row, whose column is null.
function cellAt({ sheet, place, data, ...state }, { clientX, clientY }) {
  const frame = sheet.getBoundingClientRect();
  const [across, down] = [clientX - frame.left, clientY - frame.top];
  const row = Math.round(place.y.value(down));
  if (down < place.top || down >= place.top + place.down || across < 0 || across >= place.left + place.across) return null;
  if (across < place.left) return data.cells?.has_row ? { row, column: null } : null;
  return { row, column: Math.min(columnsOf(state) - 1, Math.round(place.x.value(across))) };
}

// What is clicked at a cell: of things that are apart, the nearest.
function targetAt({ targets, place }, { row, column }) {
  const far = (target) => Math.hypot(place.x.at(target.column) - place.x.at(column), place.y.at(target.row) - place.y.at(row));
  return targets.reduce((best, each) => (far(each) < far(best) ? each : best), targets[0]);
}

function listen(state) {
  const { sheet, data } = state;
  state.listening?.abort();
  state.listening = new AbortController();
  const { signal } = state.listening;
  sheet.addEventListener("click", (event) => {
    const at = cellAt(state, event);
    if (at) answer(state, at);
  }, { signal });
  sheet.addEventListener("pointermove", (event) => {
    const at = cellAt(state, event);
    sheet.style.cursor = at && (data.cells || (state.targets.length && at.column !== null)) ? "pointer" : "";
    pointAt(state, at);
    say(state, at, event);
  }, { signal });
  sheet.addEventListener("pointerleave", () => leave(state), { signal });
  if (data.axes) whenPointed((tokens, cell) => light(state, tokens, cell), signal);
  signal.addEventListener("abort", () => leave(state));
}

function leave(state) {
  pointAt(state, null);
  state.tip.hidePopover();
}

function answer(state, { row, column }) {
  const { data: { cells }, targets, send } = state;
  if (cells && column !== null) send("cell", [row, column]);
  else if (cells?.has_row) send("row", row);
  else if (targets.length && column !== null) send("clicked", targetAt(state, { row, column }).value);
}

const saidOf = (state, { row, column }) =>
  state.targets.length ? linesOf(targetAt(state, { row, column }).said) : readout(state.figure, row, column);

// Says beside the pointer what is read there.
function say(state, at, { clientX, clientY }) {
  const { tip } = state;
  const lines = !at || at.column === null ? [] : saidOf(state, at);
  if (!lines.length) return tip.hidePopover();
  tip.replaceChildren(...lines.map((line) => html("div", "", line)));
  tip.showPopover();
  const { width, height } = tip.getBoundingClientRect();
  const left = clientX + APART + width > innerWidth ? clientX - APART - width : clientX + APART;
  const top = clientY + APART + height > innerHeight ? clientY - APART - height : clientY + APART;
  Object.assign(tip.style, { left: `${Math.max(0, left)}px`, top: `${Math.max(0, top)}px` });
}

// The keys

function stopsOf(state) {
  const { targets, place } = state;
  if (!place) return []; // it is hidden
  const size = [place.x, place.y].map((axis) => Math.abs(axis.at(1) - axis.at(0)));
  const columns = columnsOf(state);
  const cells = Array.from({ length: rowsOf(state) * columns }, (_, at) => ({ row: Math.floor(at / columns), column: at % columns }));
  const places = targets.length ? targets : cells;
  return places.map((at) => ({
    left: place.x.at(at.column),
    top: place.y.at(at.row),
    size,
    get said() { return saidOf(state, at).join(", "); },
    press: targets.length || state.data.cells ? () => answer(state, at) : null,
    choose: state.data.cells?.has_row ? () => answer(state, { ...at, column: null }) : null,
    seen: () => {
      reveal(state, at);
      pointAt(state, at);
    },
  }));
}

// Scrolls the map sideways to a column that is out of sight.
function reveal({ box, sheet, place }, { column }) {
  const [frame, seen] = [sheet, box].map((each) => each.getBoundingClientRect());
  const middle = frame.left + place.x.at(column);
  if (middle < seen.left || middle > seen.right) box.scrollLeft += middle - (seen.left + seen.right) / 2;
}

// Scrolls as little as is needed to see the framed column, when another is framed.
function showChosen(state) {
  const { box, figure, place, data } = state;
  const frame = place && figure.layout.shapes?.find(({ name, type, xref = "x" }) => name === data.tables.mark && type === "rect" && xref === "x");
  const { left, right } = frame ? endsOf(frame, place) : {};
  const now = [left, right, box.clientWidth].join();
  if (now === state.shown) return;
  state.shown = now;
  if (right > box.clientWidth && right - left < box.clientWidth) box.scrollLeft = right - box.clientWidth + 8;
}

// What is pointed at

function pointAt(state, at) {
  const { data } = state;
  const now = at ? [at.row, at.column].join() : null;
  if (now === (state.pointed ?? null)) return;
  state.pointed = now;
  if (data.previews) preview(state, at);
  if (!data.axes || data.previews) return;
  const [rows, columns] = data.axes;
  const ofColumn = at && at.column !== null ? tokensAt(columns, at.column) : [];
  point(at ? [...tokensAt(rows, at.row), ...ofColumn] : [], at && { axes: data.axes, ...at });
}

// The maps of a figure, of which a picture of all heads has many: how many rows and columns each has,
// and where each begins.
function mapsOf({ figure: { data: [{ z, meta }], layout } }) {
  const { rows, columns } = meta?.tiles ?? { rows: z, columns: z[0] };
  const size = [rows.length, columns.length];
  if (!meta?.tiles) return { size, corners: [[0, 0]] };
  const corners = layout.yaxis.tickvals.flatMap((_, layer) => Array.from(layout.xaxis.tickvals, (_, head) => [layer * (size[0] + 1), head * (size[1] + 1)]));
  return { size, corners };
}

// Marks the rows and columns of tokens: in maps of the same tokens as that which is pointed at, its row
// and column. Not where maps are pooled.
function light(state, tokens, cell) {
  const { data: { axes, previews }, lit, place, root } = state;
  if (!place) return;
  const { size, corners } = mapsOf(state);
  const isSame = cell && JSON.stringify(cell.axes) === JSON.stringify(axes);
  const found = isSame ? [[cell.row], cell.column === null ? [] : [cell.column]] : axes.map((axis) => placesOf(axis, tokens));
  const isPooled = size.some((count, axis) => count !== axes[axis].spans.length);
  const isWalked = !previews && root.querySelector(".chart-keys:focus-visible"); // a frame says where the keys are
  const band = ([row, column], [rows, columns]) =>
    `M${place.x.at(column - 0.5)} ${place.y.at(row - 0.5)}H${place.x.at(column + columns - 0.5)}V${place.y.at(row + rows - 0.5)}H${place.x.at(column - 0.5)}Z`;
  const bands = isPooled || isWalked ? [] : found.flatMap((places, axis) => places.map((at) =>
    corners.map(([row, column]) => (axis ? band([row, column + at], [size[0], 1]) : band([row + at, column], [1, size[1]]))).join("")));
  lit.classList.toggle("filled", Boolean(previews));
  lit.replaceChildren(...bands.map((d) => svgElement("path", { d })));
}

// Shows the head that is pointed at in the picture of all heads as large as the map of one.
function preview({ data, figure, sheet, ...state }, at) {
  const shown = document.querySelector(`.st-key-${data.previews} .heat_map > .preview`);
  if (!shown) return;
  shown.hidden = !at;
  if (!at) return;
  const { size } = mapsOf({ figure, ...state });
  const { z } = figure.data[0];
  const [down, across] = [[at.row, z.length], [at.column, z[0].length]].map(([place, all], axis) => {
    const map = Math.floor(place / (size[axis] + 1));
    const begin = all > size[axis] ? `${(100 * map * (size[axis] + 1)) / (all - size[axis])}%` : "0%";
    return { map, size: `${(100 * all) / size[axis]}%`, begin };
  });
  shown.textContent = `layer ${down.map + 1} · head ${across.map + 1}`;
  shown.style.backgroundImage = `url("${sheet.querySelector("image").getAttribute("href")}")`;
  shown.style.backgroundSize = `${across.size} ${down.size}`;
  shown.style.backgroundPosition = `${across.begin} ${down.begin}`;
}

function save({ figure, data }) {
  const { options, ...drawn } = printed(figure, data.picture);
  const { width, height, filename } = options;
  const picture = svgElement("svg", {}, [draw(drawn, placed(drawn, options), paper.ground)]);
  savePicture(picture, { width, height, name: filename });
}
