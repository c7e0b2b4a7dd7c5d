// A cloud of points through time: a slider and a button that move the points from frame to frame.

import { bytesOf, button, html, isStill } from "./shared.js";

const SEGMENT = 700; // milliseconds from one frame to the next

// Decodes the frames and shows their player; hides it where there are none.
export function prepareFrames(scene) {
  const { data } = scene;
  stop(scene);
  if (!data.frames) {
    scene.player?.remove();
    scene.player = null;
    return;
  }
  const view = new DataView(bytesOf(data.frames.points).buffer);
  const size = 2 * data.labels.length;
  data.positions = data.frames.names.map((_, frame) =>
    Float32Array.from({ length: size }, (_, i) => view.getUint16(2 * (frame * size + i), true)));
  if (!scene.player) buildPlayer(scene);
  scene.slider.max = data.positions.length - 1;
  const last = data.positions.length - 1;
  // Other frames may have come between those that there were.
  const shown = scene.contentId === data.content_id ? data.frames.names.indexOf(scene.names[Math.round(scene.time)]) : -1;
  scene.time = shown < 0 ? last : shown;
  scene.names = data.frames.names;
  scene.contentId = data.content_id;
  seek(scene, scene.time, false);
}

function buildPlayer(scene) {
  scene.play = button("", "▶", () => (scene.running ? stop(scene) : run(scene)));
  scene.slider = html("input", "", "", { type: "range", min: 0, step: 0.02, ariaLabel: "Checkpoint" });
  scene.when = html("output");
  scene.player = html("div", "player", [scene.play, scene.slider, scene.when]);
  scene.stage.before(scene.player);
  scene.slider.addEventListener("input", () => {
    stop(scene);
    seek(scene, Number(scene.slider.value));
  });
  scene.slider.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    stop(scene);
    const last = scene.data.positions.length - 1;
    seek(scene, Math.max(0, Math.min(last, (step > 0 ? Math.floor : Math.ceil)(scene.time) + step)));
  });
  stop(scene);
}

function stop(scene) {
  cancelAnimationFrame(scene.running);
  scene.running = 0;
  if (!scene.player) return;
  Object.assign(scene.play, { textContent: "▶", ariaLabel: isStill() ? "Next checkpoint" : "Play" });
}

function run(scene) {
  const last = scene.data.positions.length - 1;
  const from = scene.time >= last ? 0 : scene.time;
  if (isStill()) return seek(scene, scene.time >= last ? 0 : Math.floor(from) + 1);
  let start = null;
  Object.assign(scene.play, { textContent: "⏸", ariaLabel: "Pause" });
  const move = (now) => {
    start ??= now;
    const time = Math.min(last, from + (now - start) / SEGMENT);
    seek(scene, time);
    if (time < last) scene.running = requestAnimationFrame(move);
    else stop(scene);
  };
  scene.running = requestAnimationFrame(move);
}

// Between two frames points are on the straight line from one to the other.
function seek(scene, time, drawNow = true) {
  const { data } = scene;
  const before = Math.floor(time);
  const after = Math.min(before + 1, data.positions.length - 1);
  const share = time - before;
  const [a, b] = [data.positions[before], data.positions[after]];
  scene.time = time;
  data.points = share ? a.map((value, i) => value + (b[i] - value) * share) : a;
  const { names } = data.frames;
  const name = share ? `${names[before]} → ${names[after]}` : names[before];
  scene.when.textContent = scene.frame = name;
  Object.assign(scene.slider, { value: time, ariaValueText: name });
  if (drawNow) scene.draw();
  if (drawNow && !share) scene.tabulate();
}
