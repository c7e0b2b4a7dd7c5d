// What saved pictures have in common: the theme of the paper, letters that are large enough, and the
// form and width that a person has chosen. Equal modules are one to all components of a page.

import { download, html, svgElement } from "./shared.js";

export const FONT = "Arial, Helvetica, sans-serif";
const SHARP = 3; // pixels of a PNG for each of the picture
const LINE = 18; // pixels from a row of names to the next
const INHERITED = ["fill", "stroke", "strokeWidth", "strokeLinecap", "paintOrder", "fontFamily", "fontSize",
  "fontWeight"];

// What the component "printing" was given, which stands on every page; it may come after the others.
export const paper = {};
let noteGiven;
export const paperGiven = new Promise((resolve) => { noteGiven = resolve; });

export function givePaper(data) {
  Object.assign(paper, data);
  noteGiven();
}

export const onPaper = (colour) => paper.colours[colour.toLowerCase()] ?? colour;

export function allOnPaper(colours) {
  return Object.fromEntries(Object.entries(colours).map(([name, colour]) => [name, onPaper(colour)]));
}

const ruler = document.createElement("canvas").getContext("2d");

export function textWidth(text, font = `${paper.letters}px ${FONT}`) {
  ruler.font = font;
  return ruler.measureText(text).width;
}

// A text, cut off where it would be wider than so many pixels.
export function fitted(text, width, font) {
  const letters = [...text];
  let cut = text;
  while (letters.length > 1 && textWidth(cut, font) > width) {
    letters.pop();
    cut = letters.join("").trimEnd() + "…";
  }
  return cut;
}

// Lets a component draw on a sheet of paper beside its own element; returns the svg that `draw`
// returns, with what the style sheet says of it in attributes.
export function drawOnPaper({ root, data }, draw) {
  const sheet = html("div", root.className);
  const colours = { ...allOnPaper(data.colours), "token-background": "transparent" };
  for (const [name, colour] of Object.entries(colours)) sheet.style.setProperty(`--${name}`, colour);
  sheet.style.fontFamily = FONT;
  root.after(sheet);
  const svg = draw(sheet);
  for (const element of svg.querySelectorAll("*")) {
    const [own, outer] = [element, element.parentNode].map((each) => getComputedStyle(each));
    if (own.visibility === "hidden" || own.display === "none") element.classList.add("hidden");
    const plain = element.parentNode === svg ? {} : outer;
    for (const name of INHERITED)
      if (own[name] !== plain[name])
        element.setAttribute(name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`), own[name]);
  }
  svg.querySelectorAll(".hidden").forEach((element) => element.remove());
  sheet.remove();
  return svg;
}

// Adds what colours stand for, in as many rows as it takes; returns how high they are.
export function addNames(svg, names, width, top) {
  let [x, y] = [0, top + LINE / 2];
  for (const { name, colour, sign } of names) {
    const wide = textWidth(name) + 26;
    if (x && x + wide > width) [x, y] = [0, y + LINE];
    svg.append(
      sign === "line"
        ? svgElement("rect", { x, y: y - 2, width: 18, height: 4, fill: colour })
        : svgElement("circle", { cx: x + 9, cy: y, r: 4, stroke: colour, "stroke-width": 2,
          fill: sign === "dot" ? colour : "none" }),
      svgElement("text", { x: x + 24, y, "font-size": paper.letters, "font-family": FONT,
        fill: paper.text, "dominant-baseline": "central" }, name),
    );
    x += wide + 16;
  }
  return y + LINE / 2 - top;
}

// Downloads a picture of this size, on its paper, in the chosen form.
export async function savePicture(svg, { width, height, name }) {
  for (const attribute of [...svg.attributes]) svg.removeAttribute(attribute.name);
  const sizes = { width, height, viewBox: `0 0 ${width} ${height}` };
  for (const [attribute, value] of Object.entries(sizes)) svg.setAttribute(attribute, value);
  svg.prepend(svgElement("rect", { width, height, fill: paper.ground }));
  const text = new XMLSerializer().serializeToString(svg);
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  download(paper.form === "png" ? await drawnAs(url, width, height) : url, `${name}.${paper.form}`);
  URL.revokeObjectURL(url);
}

async function drawnAs(url, width, height) {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = html("canvas");
  [canvas.width, canvas.height] = [SHARP * width, SHARP * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}
