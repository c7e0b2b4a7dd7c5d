// The attention maps of one frame: a canvas of one pixel a cell, enlarged by its style, with labels
// as text beside it.

import { allOnPaper, drawOnPaper, paper } from "./paper.js";
import { bytesOf, html, isStill, short, svgElement } from "./shared.js";

const TICKS = [0, 0.1, 0.25, 0.5, 1];

const LARGEST = 48; // pixels of a cell of one map
const LARGEST_OF_MANY = 24; // pixels of a cell among several maps
const MOST_HEIGHT = 560; // pixels
const FADE = 150; // milliseconds
const FONT_SIZE = 12; // pixels

// A colour as its pixel has it in memory.
const pixelOf = (colour) => new Uint32Array(Uint8Array.of(...[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)), 255).buffer)[0];

export const event = "head";
export function label(data) {
  const what = data.layers * data.heads > 1 ? `${data.layers * data.heads} attention maps` : "Attention map";
  return `${what}, ${data.rows.length} rows and ${data.columns.length} columns; arrow keys read its cells`;
}

export function newStage(onPoint = () => {}, onHead = () => {}) {
  const [canvas, before] = [html("canvas"), html("canvas", "before")];
  const svg = svgElement("svg", { "aria-hidden": "true", width: "100%", height: "100%" });
  const root = html("div", "stage", [canvas, before, svg], { tabIndex: 0, role: "application" });
  const stage = { root, canvas, before, svg, at: null, context: canvas.getContext("2d", { willReadFrequently: true }) };
  const point = (at) => {
    stage.at = at;
    mark(stage);
    onPoint();
  };
  stage.canvas.addEventListener("pointermove", (event) => point(cellUnder(stage, event)));
  stage.canvas.addEventListener("pointerleave", () => point(null));
  stage.canvas.addEventListener("click", (event) => {
    const at = cellUnder(stage, event);
    if (at && stage.data.layers * stage.data.heads > 1) onHead(at.layer, at.head);
  });
  stage.root.addEventListener("keydown", (event) => {
    const end = stage.columns;
    const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], Home: [0, -end], End: [0, end] }[event.key];
    if (move) point(moved(stage, move));
    else if (event.key === "Escape") point(null);
    else return;
    event.preventDefault();
  });
  stage.root.addEventListener("blur", () => point(null));
  return stage;
}

// Keeps new maps: their bytes, and the colour of each byte.
export function load(stage, data) {
  const [rows, columns] = [data.rows.length, data.columns.length];
  Object.assign(stage, { data, rows, columns, at: null, cells: bytesOf(data.cells) });
  stage.allowed = data.allowed === null ? null : bytesOf(data.allowed);
  stage.palette = data.shades.map(pixelOf);
  stage.masked = pixelOf(data.colours.masked);
  for (const each of [stage.canvas, stage.before]) {
    each.width = data.heads * (columns + 1) - 1;
    each.height = data.layers * (rows + 1) - 1;
  }
  stage.image = stage.context.createImageData(stage.canvas.width, stage.canvas.height);
}

const offset = (stage, frame, layer, head) =>
  ((frame * stage.data.layers + layer) * stage.data.heads + head) * stage.rows * stage.columns;

// Paints a frame, into which the one before fades, unless it is held for a shorter time than that.
export function paint(stage, frame, held = 0) {
  if (held > FADE && !isStill()) {
    stage.before.getContext("2d").drawImage(stage.canvas, 0, 0);
    stage.before.animate([{ opacity: 1 }, { opacity: 0 }], FADE);
  }
  const { data, rows, columns, cells, allowed, palette, masked, image } = stage;
  const pixels = new Uint32Array(image.data.buffer);
  for (let layer = 0; layer < data.layers; layer++) {
    for (let head = 0; head < data.heads; head++) {
      const start = offset(stage, frame, layer, head);
      for (let cell = 0; cell < rows * columns; cell++) {
        const row = layer * (rows + 1) + Math.floor(cell / columns);
        const pixel = row * image.width + head * (columns + 1) + (cell % columns);
        pixels[pixel] = allowed && !allowed[cell] ? masked : palette[cells[start + cell]];
      }
    }
  }
  stage.context.putImageData(image, 0, 0);
}

// The weight of a cell in a frame; null where it is masked.
function weightOf(stage, frame, { layer, head, row, column }) {
  const cell = row * stage.columns + column;
  if (stage.allowed && !stage.allowed[cell]) return null;
  return stage.cells[offset(stage, frame, layer, head) + cell] / 255;
}

function cellUnder(stage, event) {
  const box = stage.canvas.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * stage.canvas.width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * stage.canvas.height);
  const [row, column] = [y % (stage.rows + 1), x % (stage.columns + 1)];
  const inside = x >= 0 && y >= 0 && x < stage.canvas.width && y < stage.canvas.height;
  if (!inside || row === stage.rows || column === stage.columns) return null;
  return { layer: Math.floor(y / (stage.rows + 1)), head: Math.floor(x / (stage.columns + 1)), row, column };
}

function moved(stage, [down, right]) {
  const [layer, head] = stage.data.selected ?? [0, 0];
  const at = stage.at ?? { layer, head, row: -down, column: -right };
  const within = (index, length) => Math.min(length - 1, Math.max(0, index));
  return { ...at, row: within(at.row + down, stage.rows), column: within(at.column + right, stage.columns) };
}

// Places the canvas and all labels in a width and a height in pixels; cells are no larger than is
// useful, unless the maps have the whole screen.
export function layOut(stage, width, height = MOST_HEIGHT, whole = false) {
  const { data } = stage;
  const many = data.layers * data.heads > 1;
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `${FONT_SIZE}px ${getComputedStyle(stage.root).fontFamily}`;
  const measured = (labels) => Math.ceil(Math.max(0, ...labels.map((label) => ruler.measureText(short(label)).width)));
  const numbered = (name, count) => Array.from({ length: count }, (_, at) => `${name} ${at + 1}`);
  const down = many ? numbered("layer", data.layers) : data.rows;
  const across = many ? numbered("head", data.heads) : data.columns;
  const [above, beside] = many ? ["", ""] : [data.titles[1], data.titles[0]];
  const left = measured([...down, beside]) + 10;
  const top = many ? 22 : measured(across) + 30;
  const { width: wide, height: tall } = stage.canvas;
  const available = width - left - 4;
  const largest = whole ? Infinity : many ? LARGEST_OF_MANY : LARGEST;
  let [x, y] = [Math.min(largest, available / wide), 0];
  if (many) x = y = Math.min(x, Math.max(height / tall, 1));
  else {
    x = Math.min(x, Math.max(17, height / tall));
    y = Math.min(largest, Math.max(x, Math.min(17, height / tall)), Math.max(6, height / tall));
  }
  Object.assign(stage, { left, top, x, y });
  const style = { left: `${left}px`, top: `${top}px`, width: `${x * wide}px`, height: `${y * tall}px` };
  for (const each of [stage.canvas, stage.before]) Object.assign(each.style, style);
  stage.root.style.height = `${bottom(stage) + 3}px`;
  const labels = svgElement("g", { "font-size": FONT_SIZE });
  if (!many) {
    const shift = measured([above]) > available ? { x: width - 2, "text-anchor": "end" } : { x: left };
    labels.append(svgElement("text", { class: "title", y: 12, ...shift }, above));
    labels.append(svgElement("text", { class: "title", x: left - 6, y: top - 6, "text-anchor": "end" }, beside));
  }
  const span = many ? [stage.rows + 1, stage.columns + 1] : [1, 1];
  const every = [y * span[0], x * span[1]].map((pixels) => Math.ceil(FONT_SIZE / pixels));
  down.forEach((label, at) => {
    if (at % every[0]) return;
    const middle = top + y * (span[0] * (at + 0.5) - (many ? 0.5 : 0));
    const where = { class: "row", x: left - 6, y: middle, "text-anchor": "end", "dominant-baseline": "central" };
    labels.append(svgElement("text", where, short(label)));
  });
  across.forEach((label, at) => {
    if (at % every[1]) return;
    const middle = left + x * (span[1] * (at + 0.5) - (many ? 0.5 : 0));
    const where = many
      ? { x: middle, y: top - 7, "text-anchor": "middle" }
      : { transform: `translate(${middle} ${top - 6}) rotate(-90)`, "dominant-baseline": "central" };
    labels.append(svgElement("text", { class: "column", ...where }, short(label)));
  });
  stage.svg.replaceChildren(labels);
  if (many && data.selected) {
    const [layer, head] = data.selected;
    const box = { x: left + x * head * span[1], y: top + y * layer * span[0] };
    const size = { width: x * stage.columns, height: y * stage.rows };
    stage.svg.append(svgElement("rect", { class: "selected", ...box, ...size }));
  }
  mark(stage);
}

const right = ({ left, x, canvas }) => left + x * canvas.width;
const bottom = ({ top, y, canvas }) => top + y * canvas.height;

// The cells as an image, whose pixels are so many that programs which smooth them change little.
function picture(stage) {
  const { canvas, left, top, x, y } = stage;
  const fine = html("canvas");
  const times = Math.ceil(3 * Math.max(x, y));
  [fine.width, fine.height] = [times * canvas.width, times * canvas.height];
  const context = fine.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, fine.width, fine.height);
  const place = { x: left, y: top, width: x * canvas.width, height: y * canvas.height };
  return svgElement("image", { href: fine.toDataURL(), preserveAspectRatio: "none", ...place });
}

// Frames the cell that is pointed at.
function mark(stage) {
  stage.svg.querySelector(".cell")?.remove();
  if (!stage.at) return;
  const { layer, head, row, column } = stage.at;
  const x = stage.left + stage.x * (head * (stage.columns + 1) + column);
  const y = stage.top + stage.y * (layer * (stage.rows + 1) + row);
  stage.svg.append(svgElement("rect", { class: "cell", x, y, width: stage.x, height: stage.y }));
}

export function legend(data) {
  const canvas = html("canvas", "", "", { width: data.shades.length, height: 1 });
  const context = canvas.getContext("2d");
  data.shades.forEach((colour, at) => {
    context.fillStyle = colour;
    context.fillRect(at, 0, 1, 1);
  });
  const ticks = TICKS.map((tick) => html("span", "", tick, { style: `left: ${100 * tick}%` }));
  const said = html("span", "", "weight (√ scale), one for all checkpoints");
  const masked = html("span", "masked", [html("i"), "masked: later than the query"]);
  return [said, html("div", "scale", [canvas, ...ticks]), ...(data.allowed === null ? [] : [masked])];
}

// Says which cell is pointed at, and its weight.
export function said(stage, frame) {
  const { at, data } = stage;
  if (!at) return ["Point at a cell to read its weight."];
  const weight = weightOf(stage, frame, at);
  const which = data.layers * data.heads > 1 ? `layer ${at.layer + 1} · head ${at.head + 1}: ` : "";
  const [row, column] = [html("b", "", data.rows[at.row]), html("b", "", data.columns[at.column])];
  const written = weight === null ? "masked" : `weight ${weight.toPrecision(3)}`;
  return [`${which}query `, row, " · key ", column, ` · ${written}`];
}

// The maps of a frame, each as a table.
export function tables(stage, frame) {
  const { layers, heads, rows, columns, selected } = stage.data;
  return Array.from({ length: layers * heads }, (_, map) => {
    const [layer, head] = [Math.floor(map / heads), map % heads];
    const written = (row, column) => weightOf(stage, frame, { layer, head, row, column }) ?? "masked";
    return {
      title: layers * heads > 1 ? `layer ${layer + 1} · head ${head + 1}` : "",
      chosen: selected && selected[0] === layer && selected[1] === head,
      head: ["", ...columns],
      rows: rows.map((name, row) => [name, ...columns.map((_, column) => written(row, column))]),
    };
  });
}

// The maps that are shown, drawn again on paper, with a colour bar.
export function printed({ root, data, frame }) {
  const stage = newStage();
  const svg = drawOnPaper({ root, data }, (sheet) => {
    sheet.append(stage.root);
    const shades = paper.own ? data.shades : data.other_shades;
    load(stage, { ...data, selected: null, shades, colours: allOnPaper(data.colours) });
    paint(stage, frame);
    layOut(stage, paper.width - paper.bar);
    addBar(stage);
    return stage.svg;
  });
  svg.append(picture(stage));
  return { svg, width: Math.ceil(right(stage)) + paper.bar, height: Math.ceil(bottom(stage)) + 10 };
}

function addBar(stage) {
  const { data, top, svg } = stage;
  const [x, height] = [right(stage) + 8, bottom(stage) - top];
  const gradient = svgElement("linearGradient", { id: "weights", x1: 0, y1: 1, x2: 0, y2: 0 });
  // Shades change most where weights are small.
  for (let part = 0; part <= 1; part += 1 / 16) {
    const level = Math.round(part ** 2 * (data.shades.length - 1));
    const offset = level / (data.shades.length - 1);
    gradient.append(svgElement("stop", { offset, "stop-color": data.shades[level] }));
  }
  svg.append(gradient, svgElement("rect", { x, y: top, width: 10, height, style: "fill: url(#weights)" }));
  for (const tick of height < 150 ? [0, 0.5, 1] : TICKS) {
    const at = { x: x + 13, y: top + height * (1 - tick), "dominant-baseline": "central" };
    svg.append(svgElement("text", { ...at, "font-size": paper.letters }, tick));
  }
  const turned = `translate(${x + paper.bar - 14} ${top + height / 2}) rotate(-90)`;
  svg.append(svgElement("text", { class: "title", transform: turned, "text-anchor": "middle" }, "weight"));
}
