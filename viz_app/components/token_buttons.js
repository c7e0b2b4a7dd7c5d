// A row of tokens: one stop for Tab, then the arrow keys. One that is longer than a line is folded
// to it: it scrolls sideways, and a button beside it shows all.

import { point, whenPointed } from "./linked.js";
import { button, html, mount, oneStop } from "./shared.js";

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const state = mount(component, "token_buttons", build);
  const { root } = state;
  const focused = root.getRootNode().activeElement?.dataset.place;
  const buttons = data.tokens.map(({ label, title, background, colour }, place) => {
    const frame = place === data.chosen ? "chosen" : data.marked.includes(place) ? "marked" : "";
    const shown = { title, style: `background: ${background}; color: ${colour}`, ariaPressed: String(place === data.chosen) };
    const element = button(frame, html("bdi", "", label), () => setTriggerValue("clicked", place), shown);
    element.dataset.place = place;
    return element;
  });
  const tokens = buttons.map((element, place) => {
    const { number } = data.tokens[place];
    return html("span", "token", [element, number && html("small", "", number)]);
  });
  if (data.side) link(state, data.side, buttons);
  const row = html("div", "tokens", tokens, { lang: data.language, dir: "auto", role: "group", ariaLabel: data.name });
  const start = Math.min(focused ?? data.chosen ?? 0, buttons.length - 1);
  oneStop(row, buttons, start, (key) => {
    const on = getComputedStyle(row).direction === "rtl" ? -1 : 1;
    return { ArrowRight: on, ArrowLeft: -on }[key];
  });
  // A word of several tokens has a line below them, with its own number.
  for (const { start, stop, number } of data.words) {
    const word = html("span", "word");
    tokens[start].before(word);
    word.append(html("span", "", tokens.slice(start, stop)), html("small", "", number));
  }
  const scrolled = root.firstChild?.scrollLeft ?? 0;
  root.replaceChildren(row, state.more);
  Object.assign(state, { all: `show all ${buttons.length}`, chosen: buttons[data.chosen] });
  fold(state);
  row.scrollLeft = scrolled;
  bringIntoView(state);
  if (focused !== undefined) buttons[start]?.focus();
  return () => state.linked?.abort();
}

// The token under the pointer, or where the keys are, lights up in maps, and those of maps here.
function link(state, side, buttons) {
  state.linked?.abort();
  state.linked = new AbortController();
  const { signal } = state.linked;
  buttons.forEach((each, place) => {
    for (const begins of ["pointerenter", "focus"]) each.addEventListener(begins, () => point([{ side, place }]));
    for (const ends of ["pointerleave", "blur"]) each.addEventListener(ends, () => point([]));
  });
  whenPointed((tokens) => {
    const lit = new Set(tokens.filter((each) => each.side === side).map(({ place }) => place));
    buttons.forEach((each, place) => each.classList.toggle("lit", lit.has(place)));
  }, signal);
}

function build(root) {
  const state = { root, open: false };
  state.more = button("more", "", () => {
    state.open = !state.open;
    fold(state);
  });
  new ResizeObserver(() => {
    fold(state);
    bringIntoView(state); // what comes beside it takes room
  }).observe(root);
  document.fonts.ready.then(() => fold(state));
  return state;
}

function fold({ root, open, more, all }) {
  const row = root.firstChild;
  root.classList.toggle("open", open);
  more.textContent = open ? "show one line" : all;
  more.ariaExpanded = String(open);
  more.hidden = !open; // it takes room itself, and a row that fits without it needs none
  more.hidden = !open && row.scrollWidth <= row.clientWidth;
}

// Scrolls the row, but not the page, so that the chosen token is seen.
function bringIntoView({ root, chosen }) {
  if (!chosen) return;
  const row = root.firstChild;
  const [frame, box] = [row, chosen].map((each) => each.getBoundingClientRect());
  row.scrollLeft += Math.min(0, box.left - frame.left - 2) + Math.max(0, box.right - frame.right + 2);
}
