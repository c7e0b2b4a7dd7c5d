// The maps of a trace in a notebook: a click on a head, or the lists, draw another one large.
(() => {
  const root =
    document.currentScript?.closest(".headwise-trace") ??
    [...document.querySelectorAll(".headwise-trace:not([data-drawn])")].at(-1);
  const parts = JSON.parse(root.querySelector(".data").textContent);
  if (!Object.keys(parts).length) return;
  root.dataset.drawn = "";
  const [all, large] = [root.querySelector(".all"), root.querySelector(".large")];
  const [said, note] = [root.querySelector("output"), root.querySelector(".note")];
  const lists = Object.fromEntries(
    [...root.querySelectorAll("select")].map((list) => [list.dataset.of, list]),
  );
  let cell = null; // row and column that the mouse or the keys are on
  let layout = {}; // where the cells of the two pictures are

  for (const part of Object.values(parts)) {
    const bytes = Uint8Array.from(atob(part.maps), (letter) => letter.charCodeAt(0));
    part.most = 2 ** part.bits - 2;
    part.code = (at) =>
      part.bits === 8 ? bytes[at] : at % 2 ? bytes[at >> 1] & 15 : bytes[at >> 1] >> 4;
  }
  const part = () => parts[lists.kind.value];
  const chosen = () => [Number(lists.layer.value), Number(lists.head.value)];

  const within = (value, count) => Math.max(0, Math.min(count - 1, value));

  function fillHeads() {
    for (const [place, list] of [lists.layer, lists.head].entries()) {
      const [count, value] = [part().shape[place], Number(list.value) || 0];
      list.replaceChildren(...Array.from({ length: count }, (_, at) => new Option(at + 1, at)));
      list.value = within(value, count);
    }
  }

  // The colour of each integer: evenly spaced on the scale, since it is the root of a weight.
  function colours({ most }, style) {
    const scale = style.getPropertyValue("--scale").trim().split(" ");
    const channels = scale.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    const found = Array.from({ length: most + 1 }, (_, code) => {
      const place = (code / most) * (channels.length - 1);
      const low = Math.min(Math.floor(place), channels.length - 2);
      const mix = channels[low].map((from, at) =>
        Math.round(from + (channels[low + 1][at] - from) * (place - low)),
      );
      return `rgb(${mix})`;
    });
    return [...found, style.getPropertyValue("--masked")];
  }

  function start(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px sans-serif";
    return pen;
  }

  function drawAll(style, fills) {
    const [layers, heads, rows, columns] = part().shape;
    const size = Math.max(1, Math.min(6, Math.floor(340 / (heads * (columns + 2)))));
    const [width, height] = [columns * size + 4, rows * size + 4];
    const pen = start(all, heads * width + 2, layers * height + 2);
    for (let at = 0; at < layers * heads * rows * columns; at++) {
      const [column, row] = [at % columns, Math.floor(at / columns) % rows];
      const map = Math.floor(at / (rows * columns));
      const [x, y] = [(map % heads) * width + column * size, Math.floor(map / heads) * height + row * size];
      pen.fillStyle = fills[part().code(at)];
      pen.fillRect(x + 3, y + 3, size, size);
    }
    const [layer, head] = chosen();
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 2;
    pen.strokeRect(head * width + 1, layer * height + 1, width, height);
    layout = { ...layout, width, height };
    all.dataset.head = `${width} ${height}`; // how far heads are apart
    all.setAttribute("aria-label", `${layers} layers of ${heads} heads; click one to enlarge it`);
  }

  const cut = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);

  function drawLarge(style, fills) {
    const { shape, rows, columns, rowTitle, columnTitle } = part();
    const [, heads, n, m] = shape;
    const [layer, head] = chosen();
    const size = Math.max(9, Math.min(24, Math.floor(390 / Math.max(n, m))));
    let pen = start(large, 10, 10);
    const widest = (texts) => Math.max(...texts.map((text) => pen.measureText(cut(text)).width));
    const [left, top] = [widest(rows) + 24, widest(columns) + 24];
    pen = start(large, left + m * size + 4, top + n * size + 4);
    pen.textBaseline = "middle";
    pen.fillStyle = style.getPropertyValue("--muted");
    const write = (text, x, y) => {
      pen.save();
      pen.translate(x, y);
      pen.rotate(-Math.PI / 2);
      pen.fillText(text, 0, 0);
      pen.restore();
    };
    pen.fillText(`${columnTitle} →`, left, 8);
    write(`← ${rowTitle}`, 8, top + n * size);
    pen.fillStyle = style.getPropertyValue("--text");
    pen.textAlign = "right";
    rows.forEach((text, row) => pen.fillText(cut(text), left - 6, top + (row + 0.5) * size));
    pen.textAlign = "left";
    columns.forEach((text, column) => write(cut(text), left + (column + 0.5) * size, top - 6));
    for (let row = 0; row < n; row++)
      for (let column = 0; column < m; column++) {
        pen.fillStyle = fills[code(row, column)];
        pen.fillRect(left + column * size, top + row * size, size - 1, size - 1);
      }
    if (cell) {
      pen.strokeStyle = style.getPropertyValue("--accent");
      pen.lineWidth = 2;
      pen.strokeRect(left + cell[1] * size, top + cell[0] * size, size - 1, size - 1);
    }
    layout = { ...layout, left, top, size };
    large.dataset.cells = `${left} ${top} ${size}`; // where the first is, and how far they are apart
    const name = `${part().name}, layer ${layer + 1}, head ${head + 1} of ${heads}`;
    large.setAttribute("aria-label", `${name}; arrow keys go from cell to cell`);
  }

  function code(row, column) {
    const [, heads, n, m] = part().shape;
    const [layer, head] = chosen();
    return part().code(((layer * heads + head) * n + row) * m + column);
  }

  function say() {
    const { rows, columns, most } = part();
    if (!cell) return (said.textContent = "");
    const found = code(...cell);
    const weight = found > most ? "masked" : ((found / most) ** 2).toFixed(2);
    said.textContent = `${rows[cell[0]]} → ${columns[cell[1]]}: ${weight}`;
  }

  function draw() {
    const style = getComputedStyle(root);
    const fills = colours(part(), style);
    drawAll(style, fills);
    drawLarge(style, fills);
    note.textContent = part().note;
    say();
  }

  function place(event) {
    const box = event.currentTarget.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  all.addEventListener("click", (event) => {
    const [layers, heads] = part().shape;
    const [x, y] = place(event);
    lists.head.value = within(Math.floor((x - 1) / layout.width), heads);
    lists.layer.value = within(Math.floor((y - 1) / layout.height), layers);
    draw();
  });
  large.addEventListener("mousemove", (event) => {
    const [, , n, m] = part().shape;
    const [x, y] = place(event);
    const [column, row] = [(x - layout.left) / layout.size, (y - layout.top) / layout.size].map(
      Math.floor,
    );
    cell = row >= 0 && row < n && column >= 0 && column < m ? [row, column] : null;
    draw();
  });
  large.addEventListener("keydown", (event) => {
    const moved = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!moved) return;
    event.preventDefault();
    event.stopPropagation(); // a notebook goes to another cell by these keys
    const [, , n, m] = part().shape;
    cell = cell ? [within(cell[0] + moved[0], n), within(cell[1] + moved[1], m)] : [0, 0];
    draw();
  });
  lists.kind.addEventListener("change", () => {
    cell = null;
    fillHeads();
    draw();
  });
  for (const of of ["layer", "head"]) lists[of].addEventListener("change", draw);

  const names = Object.entries(parts);
  lists.kind.replaceChildren(...names.map(([kind, { name }]) => new Option(name, kind)));
  lists.kind.value = "cross" in parts ? "cross" : names[0][0];
  fillHeads();
  lists.layer.value = part().shape[0] - 1; // as the app opens
  root.querySelector(".waiting").hidden = true;
  root.querySelector(".drawn").hidden = false;
  draw();
  // The notebook may change from light to dark.
  new MutationObserver(draw).observe(document.body, { attributes: true });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
