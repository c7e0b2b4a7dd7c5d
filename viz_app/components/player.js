// Attention maps, or edges between heads, through the steps of a training: play, pause, drag; one
// frame a step, each shown until the next.

import { paperGiven, savePicture } from "./paper.js";
import { button, html, isStill, mount } from "./shared.js";
import * as graph from "./player_graph.js";
import * as maps from "./player_stage.js";
import { offerTable, placeOf } from "./table.js";

const SPEEDS = [1, 2, 5, 10, 20]; // steps a second

export default function (component) {
  const [data] = component.data;
  const scene = mount(component, "player", (root) => build(root, data.shapes ? graph : maps));
  scene.send = component.setTriggerValue;
  const steps = data.frames.map(({ step }) => step);
  const same = scene.data?.content_id === data.content_id && scene.data.start === data.start;
  const shown = same ? scene.data.frames[scene.frame].step : data.start;
  scene.data = data;
  scene.frame = Math.max(0, steps.indexOf(shown));
  scene.slider.max = steps.length - 1;
  scene.translations.replaceChildren(...data.frames.map((frame) => translation(frame, data)));
  scene.legend.replaceChildren(...scene.drawing.legend(data));
  scene.drawing.load(scene.stage, data);
  scene.stage.root.ariaLabel = scene.drawing.label(data);
  scene.root.classList.toggle("alone", steps.length < 2);
  scene.width = 0;
  resize(scene);
  show(scene, scene.frame);
}

function build(root, drawing) {
  const scene = { root, drawing, frame: 0, drawn: 0, playing: false, width: 0 };
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
    show(scene, Number(scene.slider.value));
  });
  scene.output = html("output");
  scene.speed = html("select", "speed", SPEEDS.map((speed) => new Option(speed, speed)), { value: isStill() ? 1 : 5 });
  scene.repeat = html("input", "", "", { type: "checkbox" });
  const controls = html("div", "controls", [
    scene.play,
    html("label", "time", [scene.slider, scene.output]),
    html("label", "", [scene.speed, "checkpoints a second"]),
    html("label", "repeat", [scene.repeat, "repeat"]),
    button("open", "Use this checkpoint", () => scene.send("step", scene.data.frames[scene.frame].step),
      { title: "Set the page's checkpoint to the one that is shown" }),
    button("save", "Save picture", () => save(scene), { title: "Save the picture of the checkpoint that is shown" }),
  ]);
  scene.translations = html("div", "translations");
  scene.legend = html("div", "legend");
  scene.status = html("div", "status", "", { ariaLive: "polite" });
  root.replaceChildren(controls, scene.translations, scene.legend, scene.stage.root, scene.status);
  new ResizeObserver(() => scene.data && resize(scene)).observe(root);
  return scene;
}

function resize(scene) {
  const width = scene.root.clientWidth;
  if (!width || width === scene.width) return;
  scene.width = width;
  scene.drawing.layOut(scene.stage, width);
}

// The model's own translation at a step. Those of all steps lie on each other, so that nothing moves.
function translation(frame, data) {
  const tokens = frame.tokens.map((text, at) => {
    const shade = frame.shades[at];
    return html("bdi", "", text, { style: `background: ${data.shades[shade]}; color: ${data.inks[shade]}` });
  });
  const row = html("div", "tokens", tokens, { dir: "auto", lang: data.language });
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
  scene.drawn += 1;
  const { step } = scene.data.frames[frame];
  const name = `step ${step.toLocaleString("en")}`;
  scene.drawing.paint(scene.stage, frame);
  scene.slider.value = frame;
  scene.slider.ariaValueText = name;
  scene.output.textContent = name;
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
