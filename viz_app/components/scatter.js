// A cloud of named points on a 2-D canvas: of those there may be many, of WebGL contexts only few.
// Every text is set as text or drawn, never as markup. The drawing is in scatter_canvas.js, which is
// put before this file.

const PAD = 24; // pixels around the cloud
const REACH = 14; // pixels from the mouse to a point that is meant
const MOST_ZOOM = 200;
const HINT = "Point at a dot to read its token. Click the picture, and the wheel zooms; drag to move. "
  + "The arrow keys walk through the marked tokens; Escape shows all again.";

// What was built in a place and how it is looked at, kept while new data comes into it.
const scenes = new WeakMap();

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".scatter");
  let scene = scenes.get(root);
  if (!scene) {
    scene = build(root);
    scenes.set(root, scene);
  }
  if (scene.data?.of !== data.of) scene.view = whole(data);
  scene.data = data;
  scene.shown = null;
  prepareFrames(scene);
  scene.said.textContent = HINT;
  for (const [name, value] of Object.entries(data.colours)) root.style.setProperty(`--${name}`, value);
  scene.canvas.setAttribute(
    "aria-label",
    `${data.labels.length.toLocaleString("en")} tokens as points, ${data.marks.length} of them marked`,
  );
  scene.legend.replaceChildren(...legend(data));
  draw(scene);
}

const whole = (data) => ({ zoom: 1, x: data.width / 2, y: data.height / 2 });

function html(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

function build(root) {
  const scene = { root, shown: null, legend: html("div", "legend"), stage: html("div", "stage") };
  scene.canvas = html("canvas", "");
  scene.canvas.tabIndex = 0;
  scene.canvas.setAttribute("role", "application");
  scene.ring = html("div", "ring");
  scene.tip = html("div", "tip");
  scene.said = html("div", "said");
  scene.said.setAttribute("aria-live", "polite");
  const buttons = html("div", "buttons");
  const actions = [
    ["+", "Zoom in", () => zoom(scene, 1.6)],
    ["−", "Zoom out", () => zoom(scene, 1 / 1.6)],
    ["⌂", "Show all", () => reset(scene)],
    ["⤓", "Save as PNG", () => save(scene)],
  ];
  for (const [sign, name, act] of actions) {
    const button = html("button", "", sign);
    Object.assign(button, { type: "button", title: name });
    button.setAttribute("aria-label", name);
    button.addEventListener("click", act);
    buttons.append(button);
  }
  scene.stage.append(scene.canvas, scene.ring, scene.tip, buttons);
  root.replaceChildren(scene.legend, scene.stage, scene.said);
  listen(scene);
  new ResizeObserver(() => scene.data && draw(scene)).observe(scene.stage);
  return scene;
}

function save(scene) {
  const link = document.createElement("a");
  link.href = scene.canvas.toDataURL("image/png");
  link.download = `${scene.data.name}.png`;
  link.click();
}

function listen(scene) {
  const { canvas } = scene;
  let held = null; // where the mouse went down, and how far it has gone since
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held = { at: place(event), far: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!held) return show(scene, nearest(scene, x, y));
    const [dx, dy] = [x - held.at[0], y - held.at[1]];
    if (!held.far && Math.hypot(dx, dy) < 4) return undefined;
    held = { at: [x, y], far: true };
    const scale = pixels(scene);
    scene.view.x -= dx / scale;
    scene.view.y += dy / scale;
    return draw(scene);
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = held && !held.far;
    held = null;
    if (!clicked) return;
    const point = nearest(scene, ...place(event));
    show(scene, point);
    if (point !== null) say(scene, point);
  });
  canvas.addEventListener("pointercancel", () => (held = null));
  canvas.addEventListener("pointerleave", () => held || show(scene, null));
  canvas.addEventListener(
    "wheel",
    (event) => {
      // The page scrolls under the wheel until a person has clicked the picture.
      const mine = canvas.getRootNode().activeElement === canvas || event.ctrlKey || event.metaKey;
      if (!mine) return;
      event.preventDefault();
      zoom(scene, Math.exp(-event.deltaY / 400), place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) walk(scene, step);
    else if (event.key === "+" || event.key === "=") zoom(scene, 1.6);
    else if (event.key === "-") zoom(scene, 1 / 1.6);
    else if (event.key === "Escape") reset(scene);
    else return;
    event.preventDefault();
  });
}

// --- where things are ---------------------------------------------------------------------------

// Pixels of one unit of the data, the same both ways.
function pixels({ canvas, data, view }) {
  const [width, height] = [canvas.clientWidth - 2 * PAD, canvas.clientHeight - 2 * PAD];
  return Math.min(width / (data.width || 1), height / (data.height || 1)) * view.zoom;
}

// From a point to its place on the canvas; sizes are asked for once, not for each of thousands.
function placing(scene) {
  const { canvas, data, view } = scene;
  const scale = pixels(scene);
  const [left, top] = [canvas.clientWidth / 2 - view.x * scale, canvas.clientHeight / 2 + view.y * scale];
  return (point) => [left + data.points[2 * point] * scale, top - data.points[2 * point + 1] * scale];
}

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
  draw(scene);
}

function reset(scene) {
  scene.view = whole(scene.data);
  scene.shown = null;
  scene.said.textContent = HINT;
  draw(scene);
}

function walk(scene, step) {
  const marks = scene.data.marks.map(({ point }) => point);
  if (!marks.length) {
    scene.said.textContent = "No token is marked.";
    return;
  }
  const at = marks.indexOf(scene.shown);
  const next = marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length];
  const [x, y] = placing(scene)(next);
  if (x < 0 || y < 0 || x > scene.canvas.clientWidth || y > scene.canvas.clientHeight) {
    Object.assign(scene.view, { x: scene.data.points[2 * next], y: scene.data.points[2 * next + 1] });
  }
  scene.shown = next;
  draw(scene);
  say(scene, next);
}

// --- what is shown ------------------------------------------------------------------------------

function note(data, point) {
  const count = data.counts[point];
  const times = count === 1 ? "once" : `${count.toLocaleString("en")} times`;
  const group = data.named ? `, ${data.groups[data.group[point]].name}` : "";
  return `${times} in the training data${group}`;
}

function say(scene, point) {
  scene.said.replaceChildren(html("b", "", scene.data.labels[point]), `: ${note(scene.data, point)}`);
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

function legend(data) {
  const names = data.groups.map((group, index) => ({ ...group, count: data.group.filter((g) => g === index).length }));
  const made = names.filter(({ count }) => count).map(({ name, colour }) => entry(name, colour, "dot"));
  for (const [kind, colour] of [["sentence", data.colours.text], ["searched", data.colours.accent]]) {
    if (data.marks.some((mark) => mark.kind === kind)) {
      made.push(entry({ sentence: "in the sentence", searched: "looked for" }[kind], colour, "circle"));
    }
  }
  return made;
}

function entry(name, colour, kind) {
  const made = html("span", "name");
  const sign = html("i", kind);
  sign.style.color = colour;
  made.append(sign, html("span", "", name));
  return made;
}
