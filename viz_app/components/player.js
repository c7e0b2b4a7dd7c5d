// Attention maps through the steps of a training: play, pause, drag; one frame a step, each shown
// until the next.

import { allOnPaper, drawOnPaper, paper, paperGiven, savePicture } from "./paper.js";
import { button, html, isStill, mount, svgElement } from "./shared.js";
import { offerTable, placeOf } from "./table.js";
import { bottom, layOut, load, newStage, paint, picture, right, weightAt, weightOf } from "./player_stage.js";

const SPEEDS = [1, 2, 5, 10, 20]; // steps a second
const TICKS = [0, 0.1, 0.25, 0.5, 1];

export default function (component) {
  const [data] = component.data;
  const scene = mount(component, "player", build);
  scene.send = component.setTriggerValue;
  const steps = data.frames.map(({ step }) => step);
  const same = scene.data?.content_id === data.content_id && scene.data.start === data.start;
  const shown = same ? scene.data.frames[scene.frame].step : data.start;
  scene.data = data;
  scene.frame = Math.max(0, steps.indexOf(shown));
  scene.slider.max = steps.length - 1;
  scene.translations.replaceChildren(...data.frames.map((frame) => translation(frame, data)));
  drawScale(scene);
  load(scene.stage, data);
  const what = data.layers * data.heads > 1 ? `${data.layers * data.heads} attention maps` : "Attention map";
  const label = `${what}, ${data.rows.length} rows and ${data.columns.length} columns; arrow keys read its cells`;
  scene.stage.root.setAttribute("aria-label", label);
  scene.width = 0;
  resize(scene);
  show(scene, scene.frame);
}

function build(root) {
  const scene = { root, frame: 0, drawn: 0, playing: false, width: 0 };
  scene.stage = newStage(
    () => describe(scene),
    (layer, head) => scene.send("head", [layer, head]),
  );
  scene.stage.root.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    toggle(scene);
    event.preventDefault();
  });
  scene.play = button("play", isStill() ? "Next" : "▶ Play", () => toggle(scene));
  scene.slider = html("input");
  Object.assign(scene.slider, { type: "range", min: 0, step: 1 });
  scene.slider.setAttribute("aria-label", "Checkpoint, by training step");
  scene.slider.addEventListener("input", () => {
    pause(scene);
    show(scene, Number(scene.slider.value));
  });
  scene.output = html("output");
  const time = html("label", "time");
  time.append(scene.slider, scene.output);
  scene.speed = html("select", "speed");
  scene.speed.append(...SPEEDS.map((speed) => new Option(speed, speed)));
  scene.speed.value = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 5;
  const speed = html("label", "", "checkpoints a second");
  speed.prepend(scene.speed);
  scene.repeat = html("input");
  scene.repeat.type = "checkbox";
  const repeat = html("label", "repeat");
  repeat.append(scene.repeat, "repeat");
  const open = button("open", "Use this checkpoint", () =>
    scene.send("step", scene.data.frames[scene.frame].step));
  open.title = "Set the page's checkpoint to the one that is shown";
  const saving = button("save", "Save picture", () => save(scene));
  saving.title = "Save the maps of the checkpoint that is shown";
  const controls = html("div", "controls");
  controls.append(scene.play, time, speed, repeat, open, saving);
  scene.translations = html("div", "translations");
  scene.legend = html("div", "legend");
  scene.status = html("div", "status");
  scene.status.setAttribute("aria-live", "polite");
  root.replaceChildren(controls, scene.translations, scene.legend, scene.stage.root, scene.status);
  new ResizeObserver(() => scene.data && resize(scene)).observe(root);
  return scene;
}

function resize(scene) {
  const width = scene.root.clientWidth;
  if (!width || width === scene.width) return;
  scene.width = width;
  layOut(scene.stage, width);
}

// The model's own translation at a step. Those of all steps lie on each other, so that nothing moves.
function translation(frame, data) {
  const element = html("div");
  const tokens = html("div", "tokens");
  tokens.dir = "auto";
  tokens.lang = data.language;
  for (const [at, text] of frame.tokens.entries()) {
    const token = html("bdi", "", text);
    Object.assign(token.style, { background: data.shades[frame.shades[at]], color: data.inks[frame.shades[at]] });
    tokens.append(token);
  }
  element.append(tokens, html("div", "score", frame.score));
  return element;
}

function drawScale(scene) {
  const { data } = scene;
  const [scale, canvas] = [html("div", "scale"), html("canvas")];
  [canvas.width, canvas.height] = [data.shades.length, 1];
  const context = canvas.getContext("2d");
  data.shades.forEach((colour, at) => {
    context.fillStyle = colour;
    context.fillRect(at, 0, 1, 1);
  });
  scale.append(canvas);
  for (const tick of TICKS) {
    const mark = html("span", "", tick);
    mark.style.left = `${100 * tick}%`;
    scale.append(mark);
  }
  scene.legend.replaceChildren(html("span", "", "weight, colours by √, on one scale for all checkpoints"), scale);
  if (data.allowed !== null) {
    const masked = html("span", "masked");
    masked.append(html("i"), "masked: later than the query");
    scene.legend.append(masked);
  }
}

// Draws the maps that are shown again on paper, with a colour bar.
async function save(scene) {
  await paperGiven;
  const { data, frame } = scene;
  const stage = newStage();
  const svg = drawOnPaper(scene, (sheet) => {
    sheet.append(stage.root);
    const shades = paper.own ? data.shades : data.other_shades;
    load(stage, { ...data, selected: null, shades, colours: allOnPaper(data.colours) });
    paint(stage, frame);
    layOut(stage, paper.width - paper.bar);
    addBar(stage);
    return stage.svg;
  });
  svg.append(picture(stage));
  const size = { width: Math.ceil(right(stage)) + paper.bar, height: Math.ceil(bottom(stage)) + 10 };
  savePicture(svg, { ...size, name: `${data.name}-checkpoint${data.frames[frame].step}` });
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

function show(scene, frame) {
  scene.frame = frame;
  scene.drawn += 1;
  const { step } = scene.data.frames[frame];
  const name = `step ${step.toLocaleString("en")}`;
  paint(scene.stage, frame);
  scene.slider.value = frame;
  scene.slider.setAttribute("aria-valuetext", name);
  scene.output.textContent = name;
  [...scene.translations.children].forEach((each, at) => each.classList.toggle("shown", at === frame));
  Object.assign(scene.root.dataset, { step, frame, drawn: scene.drawn, playing: scene.playing });
  describe(scene);
  offerTable(placeOf(scene.root), () => tablesOf(scene));
}

// The maps of the checkpoint that is shown, each as a table.
function tablesOf({ stage, data, frame }) {
  const { layers, heads, rows, columns, selected } = data;
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

// Says which cell is pointed at, and its weight.
function describe(scene) {
  const { stage, data } = scene;
  const at = stage.at;
  scene.status.setAttribute("aria-live", scene.playing ? "off" : "polite");
  if (!at) {
    scene.status.textContent = "Point at a cell to read its weight.";
    return;
  }
  const weight = weightAt(stage, scene.frame);
  const which = data.layers * data.heads > 1 ? `layer ${at.layer + 1} · head ${at.head + 1}: ` : "";
  const [row, column] = [html("b", "", data.rows[at.row]), html("b", "", data.columns[at.column])];
  const written = weight === null ? "masked" : `weight ${weight.toFixed(2)}`;
  scene.status.replaceChildren(`${which}query `, row, " · key ", column, ` · ${written}`);
}

function toggle(scene) {
  if (!isStill()) return (scene.playing ? pause : play)(scene);
  show(scene, scene.frame < scene.data.frames.length - 1 ? scene.frame + 1 : 0);
}

function pause(scene) {
  scene.playing = false;
  scene.root.dataset.playing = false;
  scene.play.textContent = isStill() ? "Next" : "▶ Play";
}

function play(scene) {
  const last = () => scene.data.frames.length - 1;
  scene.playing = true;
  scene.play.textContent = "❚❚ Pause";
  if (scene.frame >= last()) show(scene, 0);
  scene.root.dataset.playing = true;
  let since = performance.now();
  const tick = (now) => {
    if (!scene.playing || !scene.root.isConnected) return;
    const held = 1000 / Number(scene.speed.value);
    if (now - since >= held) {
      // No step is left out where the browser is late.
      since = Math.max(since + held, now - held);
      if (scene.frame < last()) show(scene, scene.frame + 1);
      else if (scene.repeat.checked) show(scene, 0);
      else return pause(scene);
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}
