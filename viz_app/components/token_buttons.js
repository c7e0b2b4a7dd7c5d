// A row of tokens: one stop for Tab, then the arrow keys. One that is longer than a line is folded
// to it: it scrolls sideways, and a button beside it shows all.

import { button, html, mount, oneStop } from "./shared.js";

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const state = mount(component, "token_buttons", build);
  const { root } = state;
  const focused = root.getRootNode().activeElement?.dataset.place;
  const row = html("div", "tokens");
  row.lang = data.language;
  row.dir = "auto";
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", data.name);
  const buttons = data.tokens.map((token, place) => {
    const frame = place === data.chosen ? "chosen" : data.marked.includes(place) ? "marked" : "";
    const element = button(frame, "", () => setTriggerValue("clicked", place));
    element.append(html("bdi", "", token.label));
    element.title = token.title;
    element.dataset.place = place;
    Object.assign(element.style, { background: token.background, color: token.colour });
    element.setAttribute("aria-pressed", String(place === data.chosen));
    return element;
  });
  const start = Math.min(focused ?? data.chosen ?? 0, buttons.length - 1);
  oneStop(row, buttons, start, (key) => {
    const on = getComputedStyle(row).direction === "rtl" ? -1 : 1;
    return { ArrowRight: on, ArrowLeft: -on }[key];
  });
  const tokens = buttons.map((element, place) => {
    const token = html("span", "token");
    const { number } = data.tokens[place];
    token.append(element, ...(number ? [html("small", "", number)] : []));
    return token;
  });
  row.append(...tokens);
  // A word of several tokens has a line below them, with its own number.
  for (const { start, stop, number } of data.words) {
    const word = html("span", "word");
    tokens[start].before(word);
    const inner = html("span");
    inner.append(...tokens.slice(start, stop));
    word.append(inner, html("small", "", number));
  }
  const scrolled = root.firstChild?.scrollLeft ?? 0;
  root.replaceChildren(row, state.more);
  state.all = `show all ${buttons.length}`;
  fold(state);
  row.scrollLeft = scrolled;
  if (data.chosen in buttons) bringIntoView(row, buttons[data.chosen]);
  if (focused !== undefined) buttons[start]?.focus();
}

function build(root) {
  const state = { root, open: false, more: button("more", "") };
  state.more.addEventListener("click", () => {
    state.open = !state.open;
    fold(state);
  });
  new ResizeObserver(() => fold(state)).observe(root);
  return state;
}

function fold({ root, open, more, all }) {
  const row = root.firstChild;
  root.classList.toggle("open", open);
  more.textContent = open ? "show one line" : all;
  more.setAttribute("aria-expanded", String(open));
  more.hidden = !open && row.scrollWidth <= row.clientWidth;
}

// Scrolls the row, but not the page, so that a token is seen.
function bringIntoView(row, token) {
  const [frame, box] = [row, token].map((each) => each.getBoundingClientRect());
  row.scrollLeft += Math.min(0, box.left - frame.left - 2) + Math.max(0, box.right - frame.right + 2);
}
