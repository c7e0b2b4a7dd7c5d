// The two stacks as rows of heads in one frame, with lines from heads to the later ones that read
// them: the encoder on the left, the decoder on the right, first layers below.

import { addNames, allOnPaper, drawOnPaper, onPaper, paper } from "./paper.js";
import { html, svgElement } from "./shared.js";

const ROW = 46; // pixels between two rows of heads
const MOST_HEIGHT = 1000; // pixels, where there are so many rows
const EDGE = 22; // pixels above the first row and below the last
const [THIN, THICK, BOLD] = [1, 3, 4]; // pixels of the weakest line, the strongest, and the chosen one
const BEND = 12; // pixels between lines of the same heads, by queries, keys and values
const ROWS = { encoder_self: "self", decoder_self: "self", cross: "cross" };
const NAMES = 52; // pixels beside the heads, outside of all lines, in which the rows have their names

export const event = "edge";
export const label = (data) => `The two stacks as rows of heads, with the ${data.frames.at(-1).edges.length} `
  + "strongest edges; arrow keys walk through them, Enter chooses";

const nameOf = ([earlier, later, role]) => [earlier, later, role].join();

export function newStage(onPoint = () => {}, onEdge = () => {}) {
  const svg = svgElement("svg", { width: "100%", height: "100%" });
  const root = html("div", "stage graph", svg, { tabIndex: 0, role: "application" });
  const stage = { root, svg, at: null, frame: 0 };
  const edges = () => stage.data.frames[stage.frame].edges;
  const point = (edge) => {
    stage.at = edge ? nameOf(edge) : null;
    paint(stage, stage.frame);
    onPoint();
  };
  const under = ({ target }) => edges()[Number(target.dataset?.edge ?? -1)];
  stage.svg.addEventListener("pointermove", (event) => {
    const edge = under(event);
    if ((edge ? nameOf(edge) : null) !== stage.at) point(edge);
  });
  stage.svg.addEventListener("pointerleave", () => point(null));
  stage.svg.addEventListener("click", (event) => under(event) && onEdge(...under(event).slice(0, 3)));
  stage.root.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const [all, pointed] = [edges(), edges().findIndex((edge) => nameOf(edge) === stage.at)];
    const end = { Home: 0, End: -1 }[event.key];
    if (end !== undefined) point(all.at(end));
    else if (step && all.length) point(all[pointed < 0 ? 0 : (pointed + step + all.length) % all.length]);
    else if (event.key === "Enter" && pointed >= 0) onEdge(...all[pointed].slice(0, 3));
    else if (event.key === "Escape") point(null);
    else return;
    event.preventDefault();
  });
  return stage;
}

export function load(stage, data) {
  Object.assign(stage, { data, at: null, frame: 0 });
  stage.largest = Math.max(...data.frames.flatMap(({ edges }) => edges.map(([, , , score]) => score)), 1e-9);
}

export function paint(stage, frame) {
  stage.frame = frame;
  if (!stage.places) return;
  const { edges } = stage.data.frames[frame];
  const last = [stage.data.chosen && nameOf(stage.data.chosen), stage.at];
  const order = edges.map((edge, at) => [last.indexOf(nameOf(edge)), at, edge]);
  order.sort((a, b) => a[0] - b[0] || b[1] - a[1]); // the chosen one, and the strongest, above the others
  stage.lines.replaceChildren(...order.flatMap(([marked, at, edge]) => line(stage, edge, at, marked >= 0)));
}

function line(stage, edge, at, marked) {
  const [earlier, later, role, score, error] = edge;
  const share = Math.max(0, score) / stage.largest;
  const [[x, y], [toX, toY]] = [stage.places[earlier], stage.places[later]];
  const length = Math.hypot(toX - x, toY - y);
  const bend = ((role - 1) * BEND * 2) / length;
  const middle = `${(x + toX) / 2 + bend * (toY - y)} ${(y + toY) / 2 - bend * (toX - x)}`;
  const way = { d: `M${x} ${y}Q${middle} ${toX} ${toY}`, fill: "none" };
  return [
    svgElement("path", {
      ...way,
      stroke: stage.data.series[role],
      "stroke-width": (marked ? BOLD : THIN) + (THICK - THIN) * share,
      "stroke-opacity": marked ? 1 : 0.3 + 0.5 * share,
      "stroke-dasharray": score > 3 * error ? "none" : "2 4",
    }),
    svgElement("path", { ...way, class: "hit", "data-edge": at }),
  ];
}

export function layOut(stage, width) {
  const { shapes, heads } = stage.data;
  const rows = Math.max(shapes.encoder_self[0], shapes.decoder_self[0]) * 2;
  const row = Math.min(ROW, MOST_HEIGHT / rows);
  const block = width / 2 - 12;
  stage.height = rows * row + EDGE;
  const place = ([kind, layer, head]) => [
    (kind === "encoder_self" ? NAMES : width - block) + ((block - NAMES) * (head + 0.5)) / shapes[kind][1],
    stage.height - EDGE - row * (2 * layer + (kind === "cross")),
  ];
  stage.places = heads.map(place);
  const labels = heads.flatMap(([kind, layer, head], at) => {
    const [x, y] = stage.places[at];
    const circle = svgElement("circle", { class: "head", cx: x, cy: y, r: 4.5 });
    circle.append(svgElement("title", {}, stage.data.labels[at]));
    if (head) return [circle];
    const start = { class: "title", x: kind === "encoder_self" ? 2 : width - NAMES + 8, y: y + 4 };
    return [circle, svgElement("text", start, `${ROWS[kind]} ${layer + 1}`)];
  });
  const stacks = [["encoder", { x: 2 }], ["decoder", { x: width - 2, "text-anchor": "end" }]];
  labels.push(...stacks.map(([name, at]) => svgElement("text", { class: "title", y: 14, ...at }, name)));
  stage.lines = svgElement("g");
  const dots = svgElement("g");
  dots.append(...labels);
  stage.svg.replaceChildren(stage.lines, dots);
  stage.root.style.height = `${stage.height}px`;
  paint(stage, stage.frame);
}

export function legend(data) {
  const entry = (sign, name) => html("span", "masked", [sign, name]);
  const line = ({ name, colour }) => entry(html("i", "", "", { style: `background: ${colour}; height: 3px` }), name);
  return [...names(data).map(line), entry(html("i", "dashed"), "not beyond three standard deviations")];
}

const names = ({ roles, series }) => roles.map((name, role) => ({ name, colour: series[role], sign: "line" }));

// Says what the edge that is pointed at, or else the chosen one, has in a frame.
export function said({ data, at }, frame) {
  const wanted = at ?? (data.chosen && nameOf(data.chosen));
  const edge = data.frames[frame].edges.find((each) => nameOf(each) === wanted);
  if (!edge) return ["Point at a line to read its score."];
  const [earlier, later, role, score, error, chance] = edge;
  const signed = `${score < 0 ? "" : "+"}${score.toFixed(3)}`;
  const deviation = error < 0.0005 ? "< 0.001" : error.toFixed(3);  // as with_error of wording.py
  return [
    html("b", "", data.labels[earlier]), ` → ${data.roles[role]} of `, html("b", "", data.labels[later]),
    `: ${signed} beyond chance, ${chance.toFixed(3)} ± ${deviation}`,
  ];
}

// The edges of a frame as a table.
export function tables({ data }, frame) {
  const head = ["earlier", "read by", "through", "beyond chance", "spread of chance", "chance"];
  const rows = data.frames[frame].edges.map(([earlier, later, role, ...values]) =>
    [data.labels[earlier], data.labels[later], data.roles[role], ...values]);
  return [{ title: "", head, rows }];
}

// The frame that is shown, drawn again on paper, with the names of its colours below.
export function printed({ root, data, frame }) {
  const given = { ...data, chosen: null, series: data.series.map(onPaper), colours: allOnPaper(data.colours) };
  const stage = newStage();
  const svg = drawOnPaper({ root, data }, (sheet) => {
    sheet.append(stage.root);
    load(stage, given);
    paint(stage, frame);
    layOut(stage, paper.width);
    return stage.svg;
  });
  svg.querySelectorAll(".hit").forEach((hit) => hit.remove());
  const height = stage.height + 4;
  return { svg, width: paper.width, height: height + addNames(svg, names(given), paper.width, height) };
}
