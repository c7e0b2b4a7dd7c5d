// Lines of attention between two columns of tokens.

import { addNames, drawOnPaper, fitted, onPaper, paper, paperGiven, savePicture, textWidth } from "./paper.js";
import { button, html, mount, short, svgElement } from "./shared.js";
import { offerTable, placeOf } from "./table.js";

const TITLE = 22; // pixels above the first token
const MOST_LISTED = 8; // connections that are listed in words
const MOST_PRINTED = 620; // pixels of a picture: wider, lines would only be longer

export default function (component) {
  const [data] = component.data;
  const state = mount(component, "lines", build);
  const { root } = state;
  const labels = JSON.stringify(data.columns);
  if (state.labels !== labels) state.pinned = null;
  state.labels = labels;
  state.setSmallest = (value) => component.setTriggerValue("smallest", value);
  const changed = data.smallest !== state.sent && data.smallest !== state.least;
  if (data.smallest !== state.sent) state.least = state.sent = data.smallest;
  // What the slider itself has changed is drawn already: drawn again, it would lose the focus.
  const others = JSON.stringify({ ...data, smallest: null });
  if (others === state.others && !changed) return;
  state.others = others;
  state.width = 0;
  state.draw = () => {
    if (!root.clientWidth || root.clientWidth === state.width) return;
    state.width = root.clientWidth;
    draw(data, state);
  };
  state.draw();
}

function build(root) {
  const state = { root, pinned: null, letters: 9 };
  new ResizeObserver(() => state.draw?.()).observe(root);
  return state;
}

function draw(data, state, onPage = true) {
  const { root } = state;
  const place = layout(data, state);
  const svg = svgElement("svg", { height: place.height, role: "group", "aria-label": "Lines of attention" });
  const all = svgElement("g", { class: "all" });
  const followed = svgElement("g", { class: "followed" });
  const tokens = data.columns.map((column, side) => drawColumn(svg, column, side, place));
  svg.append(all, followed);
  const status = html("div", "status", "", { ariaLive: "polite" });

  const redraw = () => {
    all.replaceChildren(...paths(data, place, (bundle, i) => bundle.weights[i] >= state.least, 0.45));
    follow(state.pinned);
    if (onPage) offerTable(placeOf(root), () => data.bundles.map((bundle) => tableOf(bundle, data, state.least)));
  };
  const follow = (at) => {
    svg.classList.toggle("following", at !== null);
    tokens.flat().forEach((token) => token.classList.remove("chosen", "shown", "pinned"));
    followed.replaceChildren();
    status.replaceChildren();
    if (state.pinned) tokens[state.pinned.side][state.pinned.index].classList.add("pinned");
    if (at === null) {
      status.textContent = "Point at a token, or move to it with the arrow keys, to leave only its "
        + "lines; click it, or press Enter, to keep them.";
      return;
    }
    const isDrawn = (bundle, i) => bundle.weights[i] >= state.least && touches(bundle, i, at);
    followed.replaceChildren(...paths(data, place, isDrawn, 0.85));
    tokens[at.side][at.index].classList.add("chosen");
    for (const end of connections(data, isDrawn, at)) tokens[end.side][end.index].classList.add("shown");
    listConnections(status, data, isDrawn, at);
  };
  tokens.forEach((column, side) =>
    column.forEach((token, index) => {
      const at = { side, index };
      token.addEventListener("mouseenter", () => follow(at));
      token.addEventListener("mouseleave", () => follow(state.pinned));
      token.addEventListener("focus", () => follow(at));
      token.addEventListener("blur", () => follow(state.pinned));
      const pin = () => {
        const { pinned } = state;
        state.pinned = pinned?.side === side && pinned.index === index ? null : at;
        follow(state.pinned);
      };
      token.addEventListener("click", pin);
      token.addEventListener("keydown", (event) => {
        const last = column.length - 1;
        const step = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0], Home: [0, -last], End: [0, last] }[event.key];
        if (step) {
          const other = tokens[Math.min(1, Math.max(0, side + step[0]))];
          const next = other[Math.min(other.length - 1, Math.max(0, index + step[1]))] ?? token;
          tokens.flat().forEach((each) => each.setAttribute("tabindex", each === next ? 0 : -1));
          next.focus();
        } else if (event.key === "Enter" || event.key === " ") {
          pin();
        } else if (event.key === "Escape") {
          state.pinned = null;
          follow(null);
        } else {
          return;
        }
        event.preventDefault();
      });
    }),
  );
  tokens[0][0]?.setAttribute("tabindex", 0);
  root.replaceChildren(legend(data, state, redraw, () => save(data, state)), svg, status);
  redraw();
}

// Where columns and rows are. Arcs of a column with itself bow out on its far side.
function layout(data, { root, width, letters }) {
  const arcs = [0, 1].map((side) => data.bundles.some((b) => b.from === side && b.to === side));
  const family = getComputedStyle(root).fontFamily;
  const font = `600 13px ${family}`;
  const most = width / (arcs[0] || arcs[1] ? 4 : 3);
  const widest = data.columns.map(({ labels }) =>
    Math.min(most, Math.max(30, ...labels.map((label) => textWidth(short(label), font)))) + 10,
  );
  const bow = Math.min(150, width / 6);
  const middle = width - widest[0] - widest[1] - (arcs[0] ? bow : 0) - (arcs[1] ? bow : 0);
  // Lines that are much longer than the columns are tall are hard to follow.
  const between = Math.min(middle, 420);
  const left = (arcs[0] ? bow : 0) + (middle - between) / 2 * (arcs[0] || arcs[1] ? 1 : 0);
  const rows = Math.max(...data.columns.map(({ labels }) => labels.length), 1);
  const row = Math.min(24, Math.max(9, 720 / rows));
  const outer = [left, left + widest[0] + between + widest[1]];
  const [first, second] = data.columns.map(({ title }) => title);
  const beside = outer[1] - outer[0] - textWidth(second, `12px ${family}`) - 12;
  return {
    row,
    bow,
    outer,
    height: TITLE + row * rows + 4,
    inner: [left + widest[0], left + widest[0] + between],
    every: Math.ceil((letters + 2) / row),
    letters: Math.min(13, Math.max(letters, row - 2)),
    y: (index) => TITLE + row * (index + 0.5),
    titles: [fitted(first, beside, `12px ${family}`), second],
    label: (text, side) => fitted(short(text), widest[side] - 10, font),
  };
}

function drawColumn(svg, column, side, place) {
  const anchor = side === 0 ? "end" : "start";
  const x = place.inner[side] + (side === 0 ? -5 : 5);
  // From the far edge inwards: a title may be wider than its column.
  const edge = { x: place.outer[side], y: 13, "text-anchor": side === 0 ? "start" : "end" };
  svg.append(svgElement("text", { class: "title", ...edge }, place.titles[side]));
  return column.labels.map((label, index) => {
    const token = svgElement("g", { class: "token", tabindex: -1, role: "button", lang: column.language });
    token.setAttribute("aria-label", `${column.title}: ${label}`);
    token.classList.toggle("thinned", index % place.every > 0);
    const [from, to] = [Math.min(place.inner[side], place.outer[side]), Math.max(place.inner[side], place.outer[side])];
    token.append(
      svgElement("title", {}, label),
      svgElement("rect", { x: from, y: place.y(index) - place.row / 2, width: to - from, height: place.row, rx: 3 }),
      svgElement("text", { x, y: place.y(index), "text-anchor": anchor, "dominant-baseline": "central" }, place.label(label, side)),
    );
    token.lastChild.style.fontSize = `${place.letters}px`;
    svg.append(token);
    return token;
  });
}

function* cells(data, chosen) {
  for (const [number, bundle] of data.bundles.entries()) {
    for (let i = 0; i < bundle.weights.length; i++) if (chosen(bundle, i)) yield [number, bundle, i];
  }
}

function paths(data, place, chosen, opacity) {
  return [...cells(data, chosen)]
    .sort((a, b) => a[1].weights[a[2]] - b[1].weights[b[2]])
    .map(([number, bundle, i]) => {
      const weight = bundle.weights[i];
      return svgElement("path", {
        d: curve(bundle, place, bundle.queries[i], bundle.keys[i]),
        stroke: bundle.colour,
        "stroke-width": (Math.min(1, weight) * Math.min(7, place.row * 0.6) + 0.4).toFixed(2),
        "stroke-opacity": opacity,
        "data-bundle": number,
        "data-query": bundle.queries[i],
        "data-key": bundle.keys[i],
        "data-weight": weight,
      });
    });
}

function curve(bundle, place, query, key) {
  const [a, b] = [place.y(query), place.y(key)];
  if (bundle.from !== bundle.to) {
    const [x, to] = [place.inner[bundle.from], place.inner[bundle.to]];
    const bend = (to - x) / 3;
    return `M${x} ${a}C${x + bend} ${a} ${to - bend} ${b} ${to} ${b}`;
  }
  const away = bundle.from === 0 ? -1 : 1;
  const x = place.outer[bundle.from];
  const reach = x + away * Math.min(place.bow * 1.25, 14 + Math.abs(a - b) * 0.6);
  const spread = a === b ? place.row * 0.45 : 0;
  return `M${x} ${a - spread}C${reach} ${a - spread} ${reach} ${b + spread} ${x} ${b + spread}`;
}

const touches = (bundle, i, at) =>
  (bundle.from === at.side && bundle.queries[i] === at.index) ||
  (bundle.to === at.side && bundle.keys[i] === at.index);

function* connections(data, isDrawn, at) {
  for (const [, bundle, i] of cells(data, isDrawn)) {
    const ends = [{ side: bundle.from, index: bundle.queries[i] }, { side: bundle.to, index: bundle.keys[i] }];
    for (const end of ends) if (end.side !== at.side || end.index !== at.index) yield end;
  }
}

// The heaviest connections in words: for those who cannot see the lines, and for exact numbers.
function listConnections(status, data, isDrawn, at) {
  const heaviest = [...cells(data, isDrawn)].sort((a, b) => b[1].weights[b[2]] - a[1].weights[a[2]]);
  const label = (side, index) => data.columns[side].labels[index];
  status.append(html("b", "", label(at.side, at.index)), heaviest.length ? ": " : ": no line of this weight.");
  heaviest.slice(0, MOST_LISTED).forEach(([, bundle, i], place) => {
    const asQuery = bundle.from === at.side && bundle.queries[i] === at.index;
    const other = asQuery ? label(bundle.to, bundle.keys[i]) : label(bundle.from, bundle.queries[i]);
    const swatch = html("b", "", asQuery ? "looks at " : "seen by ");
    swatch.style.color = bundle.colour;
    status.append(place ? " · " : "", swatch, `${other} ${bundle.weights[i].toPrecision(3)}`);
  });
  if (heaviest.length > MOST_LISTED) status.append(` · ${heaviest.length - MOST_LISTED} more`);
}

// The lines of a bundle that are drawn, as a table: each is named by its query.
function tableOf(bundle, { columns }, least) {
  const places = [...bundle.weights.keys()].filter((i) => bundle.weights[i] >= least);
  const [from, to] = [bundle.from, bundle.to].map((side) => columns[side].labels);
  const rows = places.map((i) => [from[bundle.queries[i]], to[bundle.keys[i]], bundle.weights[i]]);
  return { title: bundle.name, head: ["query", "key", "weight"], rows };
}

// Draws the lines again on paper, with the names of their colours below.
async function save(data, state) {
  await paperGiven;
  const width = Math.min(paper.width, MOST_PRINTED);
  const bundles = data.bundles.map((bundle) => ({ ...bundle, colour: onPaper(bundle.colour) }));
  const svg = drawOnPaper({ root: state.root, data }, (root) => {
    draw({ ...data, bundles }, { ...state, root, width, letters: paper.letters }, false);
    for (const name of ["chosen", "pinned"])
      root.querySelectorAll(`.${name}`).forEach((token) => token.classList.replace(name, "shown"));
    return root.querySelector("svg");
  });
  const top = Number(svg.getAttribute("height"));
  const names = bundles.map(({ name, colour }) => ({ name, colour, sign: "line" }));
  savePicture(svg, { width, height: top + addNames(svg, names, width, top), name: data.name });
}

function legend(data, state, redraw, onSave) {
  const names = data.bundles.map(({ name, colour }) => {
    const swatch = html("span", "swatch", "", { style: `background: ${colour}` });
    return html("span", "name", [swatch, html("span", "", name)]);
  });
  const input = html("input", "", "", { type: "range", min: data.least, max: 1, step: 0.01, value: state.least });
  const output = html("output", "", state.least.toFixed(2));
  input.addEventListener("input", () => {
    state.least = Number(input.value);
    output.textContent = state.least.toFixed(2);
    redraw();
  });
  input.addEventListener("change", () => {
    state.sent = state.least;
    state.setSmallest(state.least);
  });
  const least = html("label", "least", ["Smallest weight drawn", input, output]);
  return html("div", "legend", [...names, least, button("save", "Save picture", onSave)]);
}
