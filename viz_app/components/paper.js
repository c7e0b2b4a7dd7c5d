// What saved pictures have in common: the theme of the paper, letters that are large enough, and the
// form and width that a person has chosen. Equal modules are one to all components of a page.

import { download, html, svgElement } from "./shared.js";

export const FONT = "Arial, Helvetica, sans-serif";
const SHARP = 3; // pixels of a PNG for each of the picture
const LINE = 18; // pixels from a row of names to the next
const AFTER_HEADER = 33; // bytes of a PNG's signature and first chunk
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

// What a picture shows, of which run and step, from the name of its file: "…-cross-layer3-head1".
function captionOf(name) {
  const { run, step } = paper;
  const [ofRun, ofStep] = [`headwise-${run}-`, `headwise-${run}-${step}-`];
  const isOfStep = name.startsWith(ofStep);
  const shown = name.slice((isOfStep ? ofStep : ofRun).length).split("-").join(", ");
  const from = `run ${run}${isOfStep ? `, step ${step.toLocaleString("en")}` : ""}`;
  return `${shown.replace(/([a-z])(\d)/g, "$1 $2")} · ${from} · Headwise`;
}

// Downloads a picture of so many pixels, on its paper, in the chosen form, with its size on paper and
// a line that says what it shows.
export async function savePicture(svg, { width, height: above, name }) {
  const [caption, height] = [captionOf(name), above + LINE];
  const millimetre = paper.width / paper.millimetres; // in pixels
  for (const attribute of [...svg.attributes]) svg.removeAttribute(attribute.name);
  const sizes = { width: `${width / millimetre}mm`, height: `${height / millimetre}mm` };
  for (const [attribute, value] of Object.entries({ ...sizes, viewBox: `0 0 ${width} ${height}` }))
    svg.setAttribute(attribute, value);
  svg.prepend(svgElement("title", {}, caption), svgElement("rect", { width, height, fill: paper.ground }));
  svg.append(svgElement("text", { x: 2, y: height - 6, "font-size": paper.letters, "font-family": FONT,
    fill: paper.text }, fitted(caption, width - 4)));
  const text = new XMLSerializer().serializeToString(svg);
  const drawn = new Blob([text], { type: "image/svg+xml" });
  const isPng = paper.form === "png";
  const url = URL.createObjectURL(isPng ? await asPng(drawn, { width, height, millimetre, caption }) : drawn);
  download(url, `${name}.${paper.form}`);
  URL.revokeObjectURL(url);
}

async function asPng(drawn, { width, height, millimetre, caption }) {
  const [image, url, canvas] = [new Image(), URL.createObjectURL(drawn), html("canvas")];
  image.src = url;
  await image.decode();
  [canvas.width, canvas.height] = [SHARP * width, SHARP * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  const content = await (await new Promise((done) => { canvas.toBlob(done, "image/png"); })).arrayBuffer();
  const size = new DataView(new ArrayBuffer(9)); // of a pixel: how many there are in a metre
  for (const place of [0, 4]) size.setUint32(place, Math.round(SHARP * millimetre * 1000));
  size.setUint8(8, 1);
  const title = new TextEncoder().encode(`Title\0\0\0\0\0${caption}`);
  const chunks = [chunk("pHYs", new Uint8Array(size.buffer)), chunk("iTXt", title)];
  return new Blob([content.slice(0, AFTER_HEADER), ...chunks, content.slice(AFTER_HEADER)], { type: "image/png" });
}

// A part of a PNG file: its length, name, content, and the CRC-32 of the latter two.
function chunk(name, content) {
  const bytes = new Uint8Array(12 + content.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, content.length);
  bytes.set(new TextEncoder().encode(name), 4);
  bytes.set(content, 8);
  let rest = -1;
  for (const byte of bytes.subarray(4, -4)) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit += 1) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0);
  }
  view.setUint32(bytes.length - 4, ~rest);
  return bytes;
}
