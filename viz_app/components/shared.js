// What the scripts of several components use. Every text is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const LONGEST_LABEL = 22; // characters

// An element with its class, what is in it, a text or several texts and elements, and properties.
export function html(name, className = "", content = "", properties = {}) {
  const element = document.createElement(name);
  element.append(...[content].flat().filter((each) => each !== ""));
  return Object.assign(element, { className }, properties);
}

export const button = (className, content, onclick = null, properties = {}) =>
  html("button", className, content, { type: "button", onclick, ...properties });

// Makes buttons one stop for Tab: there keys lead from one to the next, Home and End to the ends.
// `stepOf` gives 1 for the key that leads on, and -1 for the one that leads back.
export function oneStop(place, buttons, start, stepOf) {
  let current;
  const goTo = (at) => {
    current = Math.min(buttons.length - 1, Math.max(0, at));
    buttons.forEach((each, other) => { each.tabIndex = other === current ? 0 : -1; });
  };
  goTo(start);
  place.addEventListener("focusin", ({ target }) => goTo(buttons.indexOf(target)));
  place.addEventListener("keydown", (event) => {
    const { key } = event;
    const next = { Home: 0, End: buttons.length - 1 }[key] ?? current + (stepOf(key) ?? NaN);
    if (Number.isNaN(next)) return;
    goTo(next);
    buttons[current].focus();
    event.preventDefault();
  });
}

// An element of an svg with attributes, and what is in it: a text, or elements.
export function svgElement(name, attributes = {}, content = []) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...[content ?? ""].flat());
  return element;
}

// A label with at most 22 characters. They are counted by code points, so that no pair of
// surrogates is split.
export function short(label) {
  const characters = [...label];
  if (characters.length <= LONGEST_LABEL) return label;
  return characters.slice(0, LONGEST_LABEL - 1).join("") + "…";
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

export function download(href, fileName) {
  const link = html("a");
  Object.assign(link, { href, download: fileName });
  link.click();
}

const states = new WeakMap();

// The state of a component, whose element is found by its class. Streamlit calls a script again with
// new data for the same element: `build` makes the state at the first call only.
export function mount({ parentElement, data: [data] }, className, build) {
  const root = parentElement.querySelector(`.${className}`);
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--${name}`, colour);
  if (!states.has(root)) states.set(root, build(root));
  return states.get(root);
}

// Whether the system asks for no motion: then nothing plays, and a click goes on by one.
export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
