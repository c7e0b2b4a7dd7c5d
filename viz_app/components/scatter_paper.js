// A canvas that writes what is drawn on it into an svg: as much of one as a cloud of points needs.

import { svgElement } from "./shared.js";

export function svgCanvas(svg, width, height) {
  const ruler = document.createElement("canvas").getContext("2d");
  let path = "";
  const add = (name, attributes, text = null) => svg.append(svgElement(name, attributes, text));
  const number = (value) => Number(value.toFixed(1));
  const stroke = () => ({ fill: "none", stroke: context.strokeStyle, "stroke-width": context.lineWidth });
  const fill = () => ({ fill: context.fillStyle });
  const write = (style) => (text, x, y) => {
    const [weight, size, ...family] = context.font.split(" ");
    const font = { "font-weight": weight, "font-size": parseInt(size), "font-family": family.join(" ") };
    const place = { x: number(x), y: number(y), "dominant-baseline": "central", "stroke-linejoin": "round" };
    add("text", { ...place, ...font, ...style() }, text);
  };
  const draw = (style) => () => add("path", { d: path, opacity: context.globalAlpha, ...style() });
  const context = {
    globalAlpha: 1,
    setTransform() {},
    clearRect() {},
    beginPath: () => (path = ""),
    moveTo: (x, y) => (path += `M${number(x)} ${number(y)}`),
    lineTo: (x, y) => (path += `L${number(x)} ${number(y)}`),
    arc(x, y, radius) {
      const half = `a${number(radius)} ${number(radius)} 0 1 0 `;
      path += `M${number(x + radius)} ${number(y)}${half}${-number(2 * radius)} 0${half}${number(2 * radius)} 0`;
    },
    fill: draw(fill),
    stroke: draw(stroke),
    fillText: write(fill),
    strokeText: write(stroke),
    measureText(text) {
      ruler.font = context.font;
      return ruler.measureText(text);
    },
  };
  return { clientWidth: width, clientHeight: height, dataset: {}, getContext: () => context };
}
