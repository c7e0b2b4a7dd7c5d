// Draws a cloud of points on its canvas.

import { short } from "./shared.js";

const PAD = 24; // pixels around the cloud
const FEW = 60; // points that are all labelled

// Pixels of one unit of the data, the same both ways.
export function pixels({ canvas, data, view }) {
  const [width, height] = [canvas.clientWidth - 2 * PAD, canvas.clientHeight - 2 * PAD];
  return Math.min(width / (data.width || 1), height / (data.height || 1)) * view.zoom;
}

// A function from a point to its place on the canvas. The canvas is measured once, not for each of
// thousands of points.
export function placing(scene, points = scene.data.points) {
  const { canvas, view } = scene;
  const scale = pixels(scene);
  const [left, top] = [canvas.clientWidth / 2 - view.x * scale, canvas.clientHeight / 2 + view.y * scale];
  return (point) => [left + points[2 * point] * scale, top - points[2 * point + 1] * scale];
}

export function draw(scene) {
  const { canvas, data, stage, view } = scene;
  const [width, height] = [stage.clientWidth, stage.clientHeight];
  if (!width) return;
  const sharp = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
  }
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  const most = data.labels.length;
  const radius = (most > 3000 ? 1.7 : most > 600 ? 2.3 : 3.4) * Math.min(2, view.zoom ** 0.25);
  const place = placing(scene);
  context.globalAlpha = 0.8;
  data.groups.forEach(({ colour }, index) => {
    context.fillStyle = colour;
    context.beginPath();
    for (let i = 0; i < most; i++) {
      if (data.group[i] !== index) continue;
      const [x, y] = place(i);
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fill();
  });
  context.globalAlpha = 1;
  if (data.frames) drawPaths(scene, context);
  const labelled = drawMarks(scene, context, radius);
  const { zoom: factor, x, y } = view;
  canvas.dataset.view = JSON.stringify({ zoom: factor, x, y, scale: pixels(scene) });
  canvas.dataset.labelled = JSON.stringify(labelled);
}

// Draws rings, and labels where they hide nothing; returns the labels.
function drawMarks(scene, context, radius) {
  const { canvas, data } = scene;
  context.font = `600 13px ${scene.font ?? getComputedStyle(scene.root).fontFamily}`;
  context.textBaseline = "middle";
  const colours = { sentence: data.colours.text, searched: data.colours.accent };
  const place = placing(scene);
  const inside = ({ at: [x, y] }) => x > -9 && y > -9 && x < canvas.clientWidth + 9 && y < canvas.clientHeight + 9;
  const seen = data.marks
    .map(({ point, kind }) => ({ point, colour: colours[kind], at: place(point) }))
    .filter(inside);
  for (const { at, colour } of seen) {
    context.beginPath();
    context.arc(...at, radius + 2.5, 0, 2 * Math.PI);
    Object.assign(context, { strokeStyle: data.colours.ground, lineWidth: 4 });
    context.stroke();
    Object.assign(context, { strokeStyle: colour, lineWidth: 2 });
    context.stroke();
  }
  // The searched tokens are the last marks and are labelled first. Few points are all labelled.
  const others = data.labels.length > FEW ? [] : [...data.labels.keys()]
    .filter((point) => !data.marks.some((mark) => mark.point === point))
    .map((point) => ({ point, colour: data.colours.muted, at: place(point) }))
    .filter(inside);
  const named = [...seen].reverse().concat(others);
  const occupied = named.map(({ at: [x, y] }) => [x - radius - 3, y - radius - 3, x + radius + 3, y + radius + 3]);
  if (scene.root) occupied.push([0, 0, 38, 104]); // the buttons
  const labelled = [];
  for (const { point, at: [x, y], colour } of named) {
    const text = short(data.labels[point]);
    const box = freeBox(text, x, y, radius + 7, context, canvas, occupied);
    if (!box) continue;
    occupied.push(box);
    labelled.push(data.labels[point]);
    Object.assign(context, { strokeStyle: data.colours.ground, lineWidth: 4, lineJoin: "round" });
    const middle = (box[1] + box[3]) / 2;
    context.strokeText(text, box[0], middle);
    context.fillStyle = colour;
    context.fillText(text, box[0], middle);
  }
  return labelled;
}

// Where a label beside or above or below a point touches nothing; null if it always would.
function freeBox(text, x, y, off, context, canvas, occupied) {
  const [width, half] = [context.measureText(text).width, 8];
  const places = [[x + off, y], [x - off - width, y], [x - width / 2, y - off - half], [x - width / 2, y + off + half],
    [x + off, y - half - 4], [x + off, y + half + 4], [x - off - width, y - half - 4], [x - off - width, y + half + 4]];
  for (const [left, middle] of places) {
    const box = [left, middle - half, left + width, middle + half];
    const inside = box[0] > 2 && box[1] > 2 && box[2] < canvas.clientWidth - 2 && box[3] < canvas.clientHeight - 2;
    const free = occupied.every((o) => box[2] < o[0] || o[2] < box[0] || box[3] < o[1] || o[3] < box[1]);
    if (inside && free) return box;
  }
  return null;
}

// Draws how the marked points have moved up to now.
function drawPaths(scene, context) {
  const { data } = scene;
  const frames = [...data.positions.slice(0, Math.floor(scene.time) + 1), data.points];
  const places = frames.map((points) => placing(scene, points));
  context.lineWidth = 1.5;
  context.globalAlpha = 0.7;
  for (const { point, kind } of data.marks) {
    context.strokeStyle = kind === "searched" ? data.colours.accent : data.colours.muted;
    context.beginPath();
    places.forEach((place, i) => context[i ? "lineTo" : "moveTo"](...place(point)));
    context.stroke();
  }
  context.globalAlpha = 1;
}
