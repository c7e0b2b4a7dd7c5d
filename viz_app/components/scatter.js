// A cloud of named points on a 2-D canvas: a page may have many of those, but few WebGL contexts.

import { FONT, addNames, allOnPaper, paper, paperGiven, savePicture } from "./paper.js";
import { button, html, mount, svgElement } from "./shared.js";
import { offerTable, placeOf } from "./table.js";
import { draw, pixels, placing } from "./scatter_canvas.js";
import { prepareFrames } from "./scatter_frames.js";
import { svgCanvas } from "./scatter_paper.js";

const REACH = 14; // pixels from the mouse to the point that it points at
const MOST_ZOOM = 200;
const LEAST_PRINTED = 0.75; // height of a saved picture, as a share of its width
const touched = ({ action }) => "Touch a dot to read its token" + (action && `; a second touch ${action}`)
  + ". The buttons zoom, and show all again.";
const pointed = ({ action, marks }) => "Point at a dot to read its token. Click the picture, and the wheel zooms; drag to "
  + `move.${marks.length || !action ? " The arrow keys walk through the marked tokens;" : ""} Escape shows all again.`
  + (action && ` A click on a dot${marks.length ? ", or Enter," : ""} ${action}.`);
const hint = (data) => (matchMedia("(hover: none)").matches ? touched : pointed)(data);

export default function (component) {
  const [data] = component.data;
  const scene = mount(component, "scatter", build);
  if (scene.data?.content_id !== data.content_id) scene.view = whole(data);
  scene.data = data;
  scene.shown = scene.described = null;
  scene.click = (point) => data.action && component.setTriggerValue("clicked", point);
  prepareFrames(scene);
  scene.status.textContent = hint(data);
  scene.canvas.ariaLabel = `${data.labels.length.toLocaleString("en")} tokens as points, ${data.marks.length} of them marked`;
  scene.legend.replaceChildren(...names(data).map(entry));
  scene.draw();
  scene.tabulate();
}

// All points as they lie now, in parts of the wider side.
function tableOf({ data }) {
  const wide = Math.max(data.width, data.height) || 1;
  const rows = data.labels.map((label, i) => [label, note(data, i), data.points[2 * i] / wide, data.points[2 * i + 1] / wide]);
  return { title: "Across and up, in parts of the wider side", head: ["token", "what it is", "across", "up"], rows };
}

const whole = (data) => ({ zoom: 1, x: data.width / 2, y: data.height / 2 });

function build(root) {
  const scene = { root, shown: null, legend: html("div", "legend"), stage: html("div", "stage") };
  scene.draw = () => {
    draw(scene);
    show(scene, scene.shown);
  };
  scene.tabulate = () => offerTable(placeOf(root), () => [tableOf(scene)]);
  scene.canvas = html("canvas", "", "", { tabIndex: 0, role: "application" });
  scene.ring = html("div", "ring");
  scene.tip = html("div", "tip");
  scene.status = html("div", "status", "", { ariaLive: "polite" });
  const action = (sign, title, act) => button("", sign, act, { title, ariaLabel: title });
  scene.stage.append(scene.canvas, scene.ring, scene.tip, html("div", "buttons", [
    action("+", "Zoom in", () => zoom(scene, 1.6)),
    action("−", "Zoom out", () => zoom(scene, 1 / 1.6)),
    action("⌂", "Show all", () => reset(scene)),
    action("⤓", "Save picture", () => save(scene)),
  ]));
  root.replaceChildren(scene.legend, scene.stage, scene.status);
  listen(scene);
  new ResizeObserver(() => scene.data && scene.draw()).observe(scene.stage);
  return scene;
}

// Draws the part that is shown again on paper, as wide as that is, with the names of its colours.
async function save(scene) {
  await paperGiven;
  const { data, view } = scene;
  const { clientWidth, clientHeight } = scene.canvas;
  const { width } = paper;
  const height = Math.round(width * Math.max(LEAST_PRINTED, clientHeight / clientWidth));
  const groups = data.groups.map((group) => ({ ...group, colour: paper.own ? group.colour : group.other }));
  const printed = { ...data, groups, colours: allOnPaper(data.colours) };
  const cloud = svgElement("svg", { width, height });
  const canvas = svgCanvas(cloud, width, height);
  draw({ data: printed, view, canvas, stage: canvas, font: FONT, time: scene.time });
  const svg = svgElement("svg");
  svg.append(cloud, svgElement("rect", { x: 0.5, y: 0.5, width: width - 1, height: height - 1, fill: "none",
    stroke: printed.colours.line }));
  const when = data.frames ? `-${scene.frame.replace(/[^\d→]/g, "").replace("→", "-")}` : "";
  const size = { width, height: height + 4 + addNames(svg, names(printed), width, height + 4) };
  savePicture(svg, { ...size, name: data.name + when });
}

function listen(scene) {
  const { canvas } = scene;
  let drag = null; // where the mouse was last, and whether it has moved since it went down
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { at: place(event), moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) return show(scene, nearest(scene, x, y));
    const [dx, dy] = [x - drag.at[0], y - drag.at[1]];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return undefined;
    drag = { at: [x, y], moved: true };
    const scale = pixels(scene);
    scene.view.x -= dx / scale;
    scene.view.y += dy / scale;
    return scene.draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = drag && !drag.moved;
    drag = null;
    if (!clicked) return;
    const point = nearest(scene, ...place(event));
    show(scene, point);
    if (point === null) return;
    // A finger does not point before it touches: its first touch reads, the second one clicks.
    if (event.pointerType !== "touch" || scene.described === point) scene.click(point);
    describe(scene, point);
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => drag || show(scene, null));
  canvas.addEventListener("wheel", (event) => {
    // The page scrolls under the wheel until a person has clicked the picture.
    const mine = canvas.getRootNode().activeElement === canvas || event.ctrlKey || event.metaKey;
    if (!mine) return;
    event.preventDefault();
    zoom(scene, Math.exp(-event.deltaY / 400), place(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const ends = { Home: 0, End: scene.data.marks.length - 1 };
    if (step) walk(scene, step);
    else if (event.key in ends) walkTo(scene, ends[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(scene, 1.6);
    else if (event.key === "-") zoom(scene, 1 / 1.6);
    else if (event.key === "Enter" && scene.shown !== null) scene.click(scene.shown);
    else if (event.key === "Escape") reset(scene);
    else return;
    event.preventDefault();
  });
}

// --- where the view is --------------------------------------------------------------------------

function nearest(scene, x, y) {
  const { canvas, data, view } = scene;
  const scale = pixels(scene);
  const [atX, atY] = [view.x + (x - canvas.clientWidth / 2) / scale, view.y - (y - canvas.clientHeight / 2) / scale];
  let [best, least] = [null, (REACH / scale) ** 2];
  for (let i = 0; i < data.labels.length; i++) {
    const off = (data.points[2 * i] - atX) ** 2 + (data.points[2 * i + 1] - atY) ** 2;
    if (off < least) [best, least] = [i, off];
  }
  return best;
}

function zoom(scene, factor, at = [scene.canvas.clientWidth / 2, scene.canvas.clientHeight / 2]) {
  const { canvas, view } = scene;
  const before = pixels(scene);
  view.zoom = Math.min(MOST_ZOOM, Math.max(0.5, view.zoom * factor));
  const grown = 1 / before - 1 / pixels(scene); // what is under the mouse stays there
  view.x += (at[0] - canvas.clientWidth / 2) * grown;
  view.y -= (at[1] - canvas.clientHeight / 2) * grown;
  scene.draw();
}

function reset(scene) {
  scene.view = whole(scene.data);
  scene.shown = scene.described = null;
  scene.status.textContent = hint(scene.data);
  scene.draw();
}

function walk(scene, step) {
  const count = scene.data.marks.length;
  const at = scene.data.marks.findIndex(({ point }) => point === scene.shown);
  walkTo(scene, at < 0 ? (step > 0 ? 0 : count - 1) : (at + step + count) % count);
}

function walkTo(scene, place) {
  const next = scene.data.marks[place]?.point;
  if (next === undefined) {
    scene.status.textContent = "No token is marked.";
    return;
  }
  const [x, y] = placing(scene)(next);
  if (x < 0 || y < 0 || x > scene.canvas.clientWidth || y > scene.canvas.clientHeight) {
    Object.assign(scene.view, { x: scene.data.points[2 * next], y: scene.data.points[2 * next + 1] });
  }
  scene.shown = next;
  scene.draw();
  describe(scene, next);
}

// --- what is shown ------------------------------------------------------------------------------

function note(data, point) {
  if (!data.counts) return data.groups[data.group[point]].name;
  const count = data.counts[point];
  const times = count === 1 ? "once" : `${count.toLocaleString("en")} times`;
  const group = data.named ? `, ${data.groups[data.group[point]].name}` : "";
  return `${times} in the training data${group}`;
}

function describe(scene, point) {
  scene.described = point;
  scene.status.replaceChildren(html("b", "", scene.data.labels[point]), `: ${note(scene.data, point)}`);
}

function show(scene, point) {
  const { canvas, data, ring, stage, tip } = scene;
  scene.shown = point;
  stage.classList.toggle("showing", point !== null);
  if (point === null) return;
  const [x, y] = placing(scene)(point);
  Object.assign(ring.style, { left: `${x}px`, top: `${y}px` });
  tip.replaceChildren(html("b", "", data.labels[point]), html("span", "", note(data, point)));
  const right = x > canvas.clientWidth - 220;
  const low = y > canvas.clientHeight - 70;
  Object.assign(tip.style, {
    left: right ? "" : `${x + 12}px`,
    right: right ? `${canvas.clientWidth - x + 12}px` : "",
    top: low ? "" : `${y + 8}px`,
    bottom: low ? `${canvas.clientHeight - y + 8}px` : "",
  });
}

function names(data) {
  const counted = data.groups.map((group, index) => ({ ...group, count: data.group.filter((g) => g === index).length }));
  const found = counted.filter(({ count }) => count).map(({ name, colour }) => ({ name, colour, sign: "dot" }));
  const kinds = [["sentence", "in the sentence", data.colours.text], ["searched", "looked for", data.colours.accent]];
  const marked = kinds.filter(([kind]) => data.marks.some((mark) => mark.kind === kind));
  return [...found, ...marked.map(([, name, colour]) => ({ name, colour, sign: "circle" }))];
}

const entry = ({ name, colour, sign }) =>
  html("span", "name", [html("i", sign, "", { style: `color: ${colour}` }), html("span", "", name)]);
