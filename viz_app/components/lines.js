// Lines of attention between two columns of tokens. Every text is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const TITLE = 22; // pixels above the first token
const LONGEST = 22; // letters of a label
const MOST_SAID = 8; // connections that are listed in words

// What a person chose, kept while new data comes into the same place.
const choices = new WeakMap();

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".lines");
  const labels = JSON.stringify(data.columns);
  let choice = choices.get(root);
  if (!choice) {
    choice = { least: 0.1, pinned: null };
    choices.set(root, choice);
    choice.observer = new ResizeObserver(() => choice.draw?.());
    choice.observer.observe(root);
  }
  if (choice.labels !== labels) choice.pinned = null;
  choice.labels = labels;
  choice.width = 0;
  choice.draw = () => {
    if (!root.clientWidth || root.clientWidth === choice.width) return;
    choice.width = root.clientWidth;
    draw(root, data, choice);
  };
  choice.draw();
}

function element(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function html(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

const short = (label) => {
  const letters = [...label]; // not halves of those that take two places in a string
  return letters.length <= LONGEST ? label : letters.slice(0, LONGEST - 1).join("") + "…";
};

function draw(root, data, choice) {
  const { text, muted, accent, line } = data.colours;
  const style = { "--text": text, "--muted": muted, "--accent": accent, "--line": line };
  for (const [name, value] of Object.entries(style)) root.style.setProperty(name, value);
  root.style.setProperty("--back", "var(--st-secondary-background-color)");
  const place = layout(data, choice.width);
  const svg = element("svg", { height: place.height, role: "group", "aria-label": "Lines of attention" });
  const all = element("g", { class: "all" });
  const followed = element("g", { class: "followed" });
  const tokens = data.columns.map((column, side) => drawColumn(svg, column, side, place));
  svg.append(all, followed);
  const said = html("div", "said");
  said.setAttribute("aria-live", "polite");

  const redraw = () => {
    all.replaceChildren(...paths(data, place, (bundle, i) => bundle.weights[i] >= choice.least, 0.45));
    follow(choice.pinned);
  };
  const follow = (at) => {
    svg.classList.toggle("following", at !== null);
    tokens.flat().forEach((token) => token.classList.remove("chosen", "shown", "pinned"));
    followed.replaceChildren();
    said.replaceChildren();
    if (choice.pinned) tokens[choice.pinned.side][choice.pinned.index].classList.add("pinned");
    if (at === null) {
      said.textContent = "Point at a token, or move to it with the arrow keys, to leave only its "
        + "lines; click it, or press Enter, to keep them.";
      return;
    }
    const own = (bundle, i) => bundle.weights[i] >= choice.least && touches(bundle, i, at);
    followed.replaceChildren(...paths(data, place, own, 0.85));
    tokens[at.side][at.index].classList.add("chosen");
    for (const end of connections(data, own, at)) tokens[end.side][end.index].classList.add("shown");
    say(said, data, own, at);
  };
  tokens.forEach((column, side) =>
    column.forEach((token, index) => {
      const at = { side, index };
      token.addEventListener("mouseenter", () => follow(at));
      token.addEventListener("mouseleave", () => follow(choice.pinned));
      token.addEventListener("focus", () => follow(at));
      token.addEventListener("blur", () => follow(choice.pinned));
      const pin = () => {
        const { pinned } = choice;
        choice.pinned = pinned?.side === side && pinned.index === index ? null : at;
        follow(choice.pinned);
      };
      token.addEventListener("click", pin);
      token.addEventListener("keydown", (event) => {
        const step = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
        if (step) {
          const other = tokens[Math.min(1, Math.max(0, side + step[0]))];
          const next = other[Math.min(other.length - 1, Math.max(0, index + step[1]))] ?? token;
          tokens.flat().forEach((each) => each.setAttribute("tabindex", each === next ? 0 : -1));
          next.focus();
        } else if (event.key === "Enter" || event.key === " ") {
          pin();
        } else if (event.key === "Escape") {
          choice.pinned = null;
          follow(null);
        } else {
          return;
        }
        event.preventDefault();
      });
    }),
  );
  tokens[0][0]?.setAttribute("tabindex", 0);
  root.replaceChildren(legend(data, choice, redraw, () => save(svg, data)), svg, said);
  redraw();
}

// Where columns and rows are. Arcs of a column with itself need room on its far side.
function layout(data, width) {
  const arcs = [0, 1].map((side) => data.bundles.some((b) => b.from === side && b.to === side));
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
  const widest = data.columns.map(({ labels }) =>
    Math.min(width / 4, Math.max(30, ...labels.map((label) => measure.measureText(short(label)).width))) + 10,
  );
  const bow = Math.min(150, width / 6);
  const middle = width - widest[0] - widest[1] - (arcs[0] ? bow : 0) - (arcs[1] ? bow : 0);
  // Lines that are much longer than the columns are tall are hard to follow.
  const between = Math.min(middle, 420);
  const left = (arcs[0] ? bow : 0) + (middle - between) / 2 * (arcs[0] || arcs[1] ? 1 : 0);
  const most = Math.max(...data.columns.map(({ labels }) => labels.length), 1);
  const row = Math.min(24, Math.max(9, 720 / most));
  return {
    row,
    bow,
    height: TITLE + row * most + 4,
    outer: [left, left + widest[0] + between + widest[1]],
    inner: [left + widest[0], left + widest[0] + between],
    every: Math.ceil(11 / row),
    y: (index) => TITLE + row * (index + 0.5),
  };
}

function drawColumn(svg, column, side, place) {
  const anchor = side === 0 ? "end" : "start";
  const x = place.inner[side] + (side === 0 ? -5 : 5);
  // From the far edge inwards, where there is room for a title wider than its column.
  const edge = { x: place.outer[side], y: 13, "text-anchor": side === 0 ? "start" : "end" };
  svg.append(element("text", { class: "title", ...edge }, column.title));
  return column.labels.map((label, index) => {
    const token = element("g", { class: "token", tabindex: -1, role: "button", lang: column.language });
    token.setAttribute("aria-label", `${column.title}: ${label}`);
    token.classList.toggle("thinned", index % place.every > 0);
    const [from, to] = [Math.min(place.inner[side], place.outer[side]), Math.max(place.inner[side], place.outer[side])];
    token.append(
      element("title", {}, label),
      element("rect", { x: from, y: place.y(index) - place.row / 2, width: to - from, height: place.row, rx: 3 }),
      element("text", { x, y: place.y(index), "text-anchor": anchor, "dominant-baseline": "central" }, short(label)),
    );
    token.lastChild.style.fontSize = `${Math.min(13, Math.max(9, place.row - 2))}px`;
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
      return element("path", {
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

function* connections(data, own, at) {
  for (const [, bundle, i] of cells(data, own)) {
    const ends = [{ side: bundle.from, index: bundle.queries[i] }, { side: bundle.to, index: bundle.keys[i] }];
    for (const end of ends) if (end.side !== at.side || end.index !== at.index) yield end;
  }
}

// The heaviest connections in words: for those who cannot see the lines, and for exact numbers.
function say(said, data, own, at) {
  const heaviest = [...cells(data, own)].sort((a, b) => b[1].weights[b[2]] - a[1].weights[a[2]]);
  const label = (side, index) => data.columns[side].labels[index];
  said.append(html("b", "", label(at.side, at.index)), heaviest.length ? ": " : ": no line of this weight.");
  heaviest.slice(0, MOST_SAID).forEach(([, bundle, i], place) => {
    const asQuery = bundle.from === at.side && bundle.queries[i] === at.index;
    const other = asQuery ? label(bundle.to, bundle.keys[i]) : label(bundle.from, bundle.queries[i]);
    const swatch = html("b", "", asQuery ? "→ " : "← ");
    swatch.style.color = bundle.colour;
    said.append(place ? " · " : "", swatch, `${other} ${bundle.weights[i].toFixed(3)}`);
  });
  if (heaviest.length > MOST_SAID) said.append(` · ${heaviest.length - MOST_SAID} more`);
}

// The picture as it is, with its style, and under it the names of its colours.
function save(svg, data) {
  const [width, height] = [svg.clientWidth, Number(svg.getAttribute("height"))];
  const whole = height + 18 * data.bundles.length + 4;
  const copy = svg.cloneNode(true);
  const style = svg.getRootNode().querySelector("style").textContent.replaceAll(".lines ", "");
  copy.prepend(element("style", {}, style));
  const sizes = { width, height: whole, viewBox: `0 0 ${width} ${whole}` };
  for (const [name, value] of Object.entries(sizes)) copy.setAttribute(name, value);
  for (const [name, value] of Object.entries(data.colours)) copy.style.setProperty(`--${name}`, value);
  copy.style.setProperty("--back", "transparent");
  copy.style.fontFamily = getComputedStyle(svg).fontFamily;
  data.bundles.forEach(({ name, colour }, place) => {
    const y = height + 18 * (place + 1);
    copy.append(
      element("rect", { x: 0, y: y - 6, width: 18, height: 4, fill: colour }),
      element("text", { x: 26, y, "font-size": 13, fill: data.colours.text }, name),
    );
  });
  const link = document.createElement("a");
  const text = new XMLSerializer().serializeToString(copy);
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = `${data.name}.svg`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function legend(data, choice, redraw, keep) {
  const made = html("div", "legend");
  for (const bundle of data.bundles) {
    const name = html("span", "name");
    const swatch = html("span", "swatch");
    swatch.style.background = bundle.colour;
    name.append(swatch, html("span", "", bundle.name));
    made.append(name);
  }
  const least = html("label", "least", "Smallest weight drawn");
  const input = html("input", "");
  Object.assign(input, { type: "range", min: data.least, max: 1, step: 0.01, value: choice.least });
  const output = html("output", "", choice.least.toFixed(2));
  input.addEventListener("input", () => {
    choice.least = Number(input.value);
    output.textContent = choice.least.toFixed(2);
    redraw();
  });
  least.append(input, output);
  const button = html("button", "keep", "Save as SVG");
  button.type = "button";
  button.addEventListener("click", keep);
  made.append(least, button);
  return made;
}
