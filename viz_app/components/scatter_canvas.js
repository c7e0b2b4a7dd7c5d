// How a cloud of points is drawn on its canvas; goes on in scatter.js.

const LONGEST = 22; // letters of a label
const FEW = 60; // points that are all labelled

const short = (label) => {
  const letters = [...label]; // not halves of those that take two places in a string
  return letters.length <= LONGEST ? label : letters.slice(0, LONGEST - 1).join("") + "…";
};

function draw(scene) {
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
  drawWays(scene, context);
  const labelled = drawMarks(scene, context, radius);
  const { zoom: factor, x, y } = view;
  canvas.dataset.view = JSON.stringify({ zoom: factor, x, y, scale: pixels(scene) });
  canvas.dataset.labelled = JSON.stringify(labelled);
  show(scene, scene.shown);
}

// Rings, and labels where there is room for them; the labels come back.
function drawMarks(scene, context, radius) {
  const { canvas, data } = scene;
  context.font = `600 13px ${getComputedStyle(scene.root).fontFamily}`;
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
  // What was looked for goes first: it is the last of the marks. Of few points all have a label.
  const others = data.labels.length > FEW ? [] : [...data.labels.keys()]
    .filter((point) => !data.marks.some((mark) => mark.point === point))
    .map((point) => ({ point, colour: data.colours.muted, at: place(point) }))
    .filter(inside);
  const named = [...seen].reverse().concat(others);
  const taken = named.map(({ at: [x, y] }) => [x - radius - 3, y - radius - 3, x + radius + 3, y + radius + 3]);
  taken.push([0, 0, 38, 104]); // the buttons
  const labelled = [];
  for (const { point, at: [x, y], colour } of named) {
    const text = short(data.labels[point]);
    const box = room(text, x, y, radius + 7, context, canvas, taken);
    if (!box) continue;
    taken.push(box);
    labelled.push(data.labels[point]);
    Object.assign(context, { strokeStyle: data.colours.ground, lineWidth: 4, lineJoin: "round" });
    const middle = (box[1] + box[3]) / 2;
    context.strokeText(text, box[0], middle);
    context.fillStyle = colour;
    context.fillText(text, box[0], middle);
  }
  return labelled;
}

function room(text, x, y, off, context, canvas, taken) {
  const [width, half] = [context.measureText(text).width, 8];
  const lefts = [[x + off, y], [x - off - width, y], [x - width / 2, y - off - half], [x - width / 2, y + off + half],
    [x + off, y - half - 4], [x + off, y + half + 4], [x - off - width, y - half - 4], [x - off - width, y + half + 4]];
  for (const [left, middle] of lefts) {
    const box = [left, middle - half, left + width, middle + half];
    const inside = box[0] > 2 && box[1] > 2 && box[2] < canvas.clientWidth - 2 && box[3] < canvas.clientHeight - 2;
    const free = taken.every((t) => box[2] < t[0] || t[2] < box[0] || box[3] < t[1] || t[3] < box[1]);
    if (inside && free) return box;
  }
  return null;
}
