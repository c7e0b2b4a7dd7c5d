// Attention maps, or edges between heads, through the steps of a training: play, pause, drag; one
// frame a step, each shown until the next.

import { paperGiven, savePicture } from "./paper.js";
import { button, html, isStill, mount, svgElement } from "./shared.js";
import { drawCurve } from "./player_curve.js";
import * as graph from "./player_graph.js";
import * as maps from "./player_stage.js";
import { offerTable, placeOf } from "./table.js";

const SPEEDS = [1, 2, 5, 10, 20]; // steps a second
const ABOVE = 240; // pixels of the page above a player
const LEAST_HEIGHT = 520; // pixels of what it draws, where it needs as many

export default function (component) {
  const [data] = component.data;
  const scene = mount(component, "player", (root) => build(root, data.shapes ? graph : maps));
  scene.send = component.setTriggerValue;
  const steps = data.frames.map(({ step }) => step);
  data.steps ??= steps;
  const known = scene.data?.content_id === data.content_id;
  const same = known && scene.data.start === data.start;
  const shown = same ? (scene.wanted ?? scene.data.frames[scene.frame].step) : known ? data.start : (data.opens ?? data.start);
  scene.data = data;
  scene.frame = frameAt(data, shown);
  scene.slider.max = data.steps.length - 1;
  scene.translations.replaceChildren(...data.frames.map((frame) => translation(frame, data)));
  scene.legend.replaceChildren(...scene.drawing.legend(data));
  scene.drawing.load(scene.stage, data);
  scene.stage.root.ariaLabel = scene.drawing.label(data);
  const wanted = same ? scene.wanted : null;
  scene.root.classList.toggle("alone", data.steps.length < 2);
  scene.root.classList.toggle("watch", Boolean(data.heights));
  scene.changed.textContent = data.changed_said ?? "";
  scene.size = null;
  resize(scene);
  show(scene, scene.frame);
  scene.wanted = wanted;
}

function build(root, drawing) {
  const scene = { root, drawing, frame: 0, drawn: 0, playing: false, size: null };
  scene.stage = drawing.newStage(
    () => describe(scene),
    (...chosen) => scene.send(drawing.event, chosen),
  );
  scene.stage.root.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    toggle(scene);
    event.preventDefault();
  });
  scene.play = button("play", isStill() ? "Next" : "▶ Play", () => toggle(scene));
  scene.slider = html("input", "", "", { type: "range", min: 0, step: 1, ariaLabel: "Checkpoint, by training step" });
  scene.slider.addEventListener("input", () => {
    pause(scene);
    const wanted = scene.data.steps[Number(scene.slider.value)];
    show(scene, frameAt(scene.data, wanted));
    scene.wanted = wanted; // also where it is yet to come
  });
  scene.curve = svgElement("svg", { "aria-hidden": "true" });
  scene.changed = html("div", "changed-said");
  scene.output = html("output");
  scene.speed = html("select", "speed", SPEEDS.map((speed) => new Option(speed, speed)), { value: isStill() ? 1 : 5 });
  scene.repeat = html("input", "", "", { type: "checkbox" });
  const controls = html("div", "controls", [
    scene.play,
    html("label", "time", [html("div", "course", [scene.curve, scene.slider]), scene.output]),
    html("label", "", [scene.speed, "checkpoints a second"]),
    html("label", "repeat", [scene.repeat, "repeat"]),
    button("open", "Use this checkpoint", () => scene.send("step", scene.data.frames[scene.frame].step),
      { title: "Set the page's checkpoint to the one that is shown" }),
    button("whole", "Full screen", () => fillScreen(root), { hidden: !document.fullscreenEnabled }),
    button("save", "Save picture", () => save(scene), { title: "Save the picture of the checkpoint that is shown" }),
  ]);
  scene.translations = html("div", "translations");
  scene.legend = html("div", "legend");
  scene.status = html("div", "status", "", { ariaLive: "polite" });
  root.replaceChildren(scene.translations, controls, scene.changed, scene.legend, scene.stage.root, scene.status);
  new ResizeObserver(() => scene.data && resize(scene)).observe(root);
  return scene;
}

function resize(scene) {
  const size = `${scene.root.clientWidth} ${scene.root.clientHeight * isWhole(scene.root)}`;
  if (!scene.root.clientWidth || size === scene.size) return;
  scene.size = size;
  const whole = isWhole(scene.root);
  const height = whole ? scene.root.clientHeight - 100 : Math.max(LEAST_HEIGHT, innerHeight - ABOVE);
  scene.drawing.layOut(scene.stage, scene.stage.root.clientWidth, height, whole);
  if (scene.data.heights) drawCurve(scene.curve, scene.data, scene.frame);
}

// The frame of a step, or of the last one before it that is there.
const frameAt = ({ frames }, wanted) => Math.max(0, frames.findLastIndex(({ step }) => step <= wanted));

const isWhole = (root) => root.getRootNode().fullscreenElement === root;

function fillScreen(root) {
  if (isWhole(root)) document.exitFullscreen();
  else root.requestFullscreen();
}

// The model's own translation at a step. Those of all steps lie on each other, so that nothing moves.
function translation(frame, data) {
  const tokens = frame.tokens.map((text, at) => {
    const shade = frame.shades[at];
    return html("bdi", "", text, { style: `background: ${data.shades[shade]}; color: ${data.inks[shade]}` });
  });
  const read = { tabIndex: 0, role: "group", ariaLabel: "Translation" }; // long ones scroll
  const row = html("div", "tokens", tokens, { dir: "auto", lang: data.language, ...read });
  return html("div", "", [row, html("div", "score", frame.score)]);
}

async function save(scene) {
  await paperGiven;
  const { data, frame } = scene;
  const { svg, ...size } = scene.drawing.printed(scene);
  savePicture(svg, { ...size, name: `${data.name}-checkpoint${data.frames[frame].step}` });
}

function show(scene, frame) {
  scene.frame = frame;
  scene.wanted = null;
  scene.drawn += 1;
  const { step } = scene.data.frames[frame];
  const name = `step ${step.toLocaleString("en")}`;
  scene.drawing.paint(scene.stage, frame, scene.playing ? heldFor(scene) : Infinity);
  const place = scene.data.steps.indexOf(step);
  scene.slider.value = place;
  scene.slider.ariaValueText = name;
  scene.output.textContent = [name, scene.data.losses?.[place]].filter(Boolean).join(" · ");
  if (scene.data.heights) drawCurve(scene.curve, scene.data, scene.frame);
  [...scene.translations.children].forEach((each, at) => each.classList.toggle("shown", at === frame));
  Object.assign(scene.root.dataset, { step, frame, drawn: scene.drawn, playing: scene.playing });
  describe(scene);
  offerTable(placeOf(scene.root), () => scene.drawing.tables(scene.stage, scene.frame));
}

function describe(scene) {
  scene.status.ariaLive = scene.playing ? "off" : "polite";
  scene.status.replaceChildren(...scene.drawing.said(scene.stage, scene.frame));
}

function toggle(scene) {
  if (!isStill()) return (scene.playing ? pause : play)(scene);
  if (scene.frame < scene.data.frames.length - 1) show(scene, scene.frame + 1);
  else if (isAll(scene)) show(scene, 0);
}

// Whether the frames of all checkpoints are there: in a long training some are on their way.
const isAll = ({ data }) => data.frames.length === data.steps.length;

function pause(scene) {
  scene.playing = false;
  scene.root.dataset.playing = false;
  scene.play.textContent = isStill() ? "Next" : "▶ Play";
}

// Milliseconds for which a checkpoint is shown.
const heldFor = (scene) => 1000 / Number(scene.speed.value);

function play(scene) {
  const last = () => scene.data.frames.length - 1;
  scene.playing = true;
  scene.play.textContent = "❚❚ Pause";
  if (isAll(scene) && scene.frame >= last()) show(scene, 0);
  scene.root.dataset.playing = true;
  let since = performance.now();
  const tick = (now) => {
    if (!scene.playing || !scene.root.isConnected) return;
    const held = heldFor(scene);
    if (now - since >= held) {
      // No step is left out where the browser is late.
      since = Math.max(since + held, now - held);
      if (scene.frame < last()) show(scene, scene.frame + 1);
      else if (isAll(scene) && scene.repeat.checked) show(scene, 0);
      else if (isAll(scene)) return pause(scene);
    }
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}
