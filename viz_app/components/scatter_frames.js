// A cloud of points through time: a slider and a button that move it; put before scatter.js.

const SEGMENT = 700; // milliseconds from one frame to the next

// Adds what the points need to move; takes it away again where they stay.
function prepareFrames(scene) {
  const { data } = scene;
  stop(scene);
  if (!data.frames) {
    scene.player?.remove();
    scene.player = null;
    return;
  }
  const bytes = Uint8Array.from(atob(data.frames.points), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = 2 * data.labels.length;
  data.ways = data.frames.names.map((_, frame) =>
    Float32Array.from({ length: size }, (_, i) => view.getUint16(2 * (frame * size + i), true)));
  if (!scene.player) buildPlayer(scene);
  scene.slider.max = data.ways.length - 1;
  const last = data.ways.length - 1;
  scene.time = scene.of === data.of ? Math.min(scene.time ?? last, last) : last;
  scene.of = data.of;
  seek(scene, scene.time, false);
}

function buildPlayer(scene) {
  scene.player = html("div", "player");
  scene.play = html("button", "", "▶");
  scene.play.type = "button";
  scene.slider = html("input", "");
  Object.assign(scene.slider, { type: "range", min: 0, step: 0.02 });
  scene.slider.setAttribute("aria-label", "Checkpoint");
  scene.when = html("output", "");
  scene.player.append(scene.play, scene.slider, scene.when);
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
    const last = scene.data.ways.length - 1;
    seek(scene, Math.max(0, Math.min(last, (step > 0 ? Math.floor : Math.ceil)(scene.time) + step)));
  });
  scene.play.addEventListener("click", () => (scene.running ? stop(scene) : run(scene)));
  stop(scene);
}

function stop(scene) {
  cancelAnimationFrame(scene.running);
  scene.running = 0;
  if (!scene.player) return;
  scene.play.textContent = "▶";
  scene.play.setAttribute("aria-label", "Play");
}

function run(scene) {
  const last = scene.data.ways.length - 1;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const from = scene.time >= last ? 0 : scene.time;
  let start = null;
  scene.play.textContent = "⏸";
  scene.play.setAttribute("aria-label", "Pause");
  const move = (now) => {
    start ??= now;
    const time = Math.min(last, from + (now - start) / SEGMENT);
    seek(scene, still ? Math.floor(time) : time);
    if (time < last) scene.running = requestAnimationFrame(move);
    else stop(scene);
  };
  scene.running = requestAnimationFrame(move);
}

// Between two frames points are on the straight line from one to the other.
function seek(scene, time, drawn = true) {
  const { data } = scene;
  const before = Math.floor(time);
  const after = Math.min(before + 1, data.ways.length - 1);
  const share = time - before;
  const [a, b] = [data.ways[before], data.ways[after]];
  scene.time = time;
  data.points = share ? a.map((value, i) => value + (b[i] - value) * share) : a;
  scene.slider.value = time;
  const names = data.frames.names;
  const said = share ? `${names[before]} → ${names[after]}` : names[before];
  scene.when.textContent = said;
  scene.slider.setAttribute("aria-valuetext", said);
  if (drawn) draw(scene);
}

// The ways of the marked points up to now.
function drawWays(scene, context) {
  const { data, view, canvas } = scene;
  if (!data.frames) return;
  const scale = pixels(scene);
  const at = (points, point) => [
    canvas.clientWidth / 2 + (points[2 * point] - view.x) * scale,
    canvas.clientHeight / 2 - (points[2 * point + 1] - view.y) * scale,
  ];
  const frames = [...data.ways.slice(0, Math.floor(scene.time) + 1), data.points];
  context.lineWidth = 1.5;
  context.globalAlpha = 0.7;
  for (const { point, kind } of data.marks) {
    context.strokeStyle = kind === "searched" ? data.colours.accent : data.colours.muted;
    context.beginPath();
    frames.forEach((points, i) => context[i ? "lineTo" : "moveTo"](...at(points, point)));
    context.stroke();
  }
  context.globalAlpha = 1;
}
