// Draws a figure of heat maps as a part of an svg, the same on a page and in a saved picture.
// A figure is as Plotly's JSON has it, of which this reads what `figures/matrix.py` and its kin write:
// rows go from the top, and trace 0 has the cells.

import { bytesOf, html, svgElement } from "./shared.js";

const ARRAYS = { f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };
const ENTITIES = { amp: "&", lt: "<", gt: ">", "#36": "$", "#123": "{" };
const LINE = 1.3; // height of a line of text, as a multiple of its letters
const BAR = { gap: 8, width: 10, ticks: 4, title: 62 }; // pixels right of the cells
const TICK = 60; // pixels from a number of an axis to the next, at least

// Reads a figure; its matrices are lists of typed rows.
export const read = (json) => JSON.parse(json, (_, value) => (value?.bdata === undefined ? value : arrayOf(value)));

function arrayOf({ dtype, bdata, shape }) {
  const values = new ARRAYS[dtype](bytesOf(bdata).buffer);
  if (!shape) return values;
  const [rows, columns] = shape.split(",").map(Number);
  return Array.from({ length: rows }, (_, row) => values.subarray(row * columns, (row + 1) * columns));
}

// The lines of a text that `escape_plotly` has written.
export const linesOf = (markup) =>
  String(markup ?? "").split("<br>").map((line) => line.replace(/&(\w+|#\d+);/g, (whole, name) => ENTITIES[name] ?? whole));

// Where the cells lie in so many pixels, and what turns places on the axes to pixels and back.
export function placed({ layout: { margin, xaxis, yaxis } }, { width, height }) {
  const [left, top] = [margin.l, margin.t];
  const [across, down] = [Math.max(1, width - left - margin.r), Math.max(1, height - top - margin.b)];
  const along = ([first, last], from, pixels) => ({
    at: (value) => from + ((value - first) / (last - first)) * pixels,
    value: (pixel) => first + ((pixel - from) / pixels) * (last - first),
  });
  return { width, height, left, top, across, down, x: along(xaxis.range, left, across), y: along(yaxis.range, top + down, -down) };
}

export function draw(figure, place, ground) {
  const { data, layout } = figure;
  const { color, size, family } = layout.font;
  return svgElement("g", { fill: color, "font-size": size, "font-family": family }, [
    ...data.filter(({ type }) => type === "heatmap").flatMap((trace) => cells(trace, place, ground)),
    ...data.filter(({ type, visible }) => type === "scatter" && visible !== false).flatMap((trace) => marks(trace, place)),
    ...(layout.shapes ?? []).map((each) => shape(each, place)),
    ...ticksOf(layout.xaxis, place.across).map((tick) => columnLabel(tick, layout.xaxis, place)),
    ...ticksOf(layout.yaxis, place.down).map((tick) => rowLabel(tick, layout.yaxis, place)),
    ...axisTitles(layout, place),
    ...(layout.annotations ?? []).map((each) => annotation(each, place)),
    ...data.flatMap((trace) => colourBar(trace, place)),
  ]);
}

// Cells

const channels = (colour) =>
  colour.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).concat(255)
    : colour.match(/[\d.]+/g).map((value, place) => (place === 3 ? 255 * value : Number(value)));

// The colour of a value on a scale, as four bytes; of NaN it is clear.
function shades({ colorscale, zmin, zmax }) {
  const stops = colorscale.map(([at, colour]) => [at, channels(colour)]);
  const known = new Map();
  const mixed = (value) => {
    const share = Math.min(1, Math.max(0, (value - zmin) / (zmax - zmin)));
    if (Number.isNaN(share)) return [0, 0, 0, 0];
    const next = Math.max(1, stops.findIndex(([at]) => at > share));
    const [[low, a], [high, b]] = share < 1 ? [stops[next - 1], stops[next]] : [stops.at(-1), stops.at(-1)];
    return a.map((channel, place) => channel + (b[place] - channel) * (high > low ? (share - low) / (high - low) : 0));
  };
  return (value) => known.get(value) ?? known.set(value, mixed(value)).get(value);
}

// An image of a pixel for each value, as its address.
function imageOf(rows, colour) {
  const canvas = html("canvas", "", "", { width: rows[0].length, height: rows.length });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  rows.forEach((row, y) => row.forEach((value, x) => image.data.set(colour(value), 4 * (y * row.length + x))));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

const picture = (href, x, y, width, height) =>
  svgElement("image", { href, x, y, width, height, preserveAspectRatio: "none", style: "image-rendering: pixelated" });

function cells(trace, { x, y }, ground) {
  const { z, xgap = 0, ygap = 0, texttemplate } = trace;
  const [first, rows, columns, colour] = [trace.y?.[0] ?? 0, z.length, z[0].length, shades(trace)];
  const [left, right] = [x.at(-0.5), x.at(columns - 0.5)];
  const [top, bottom] = [y.at(first - 0.5), y.at(first + rows - 0.5)];
  const drawn = [picture(imageOf(z, colour), left, top, right - left, bottom - top)];
  const gaps = (d, width) => width && drawn.push(svgElement("path", { d, stroke: ground, "stroke-width": width }));
  gaps(Array.from({ length: columns + 1 }, (_, at) => `M${x.at(at - 0.5)} ${top}V${bottom}`).join(""), xgap);
  gaps(Array.from({ length: rows + 1 }, (_, at) => `M${left} ${y.at(first + at - 0.5)}H${right}`).join(""), ygap);
  if (!texttemplate) return drawn;
  const middle = { "text-anchor": "middle", "dominant-baseline": "central", "font-size": trace.textfont.size };
  z.forEach((row, down) => row.forEach((value, across) => {
    if (Number.isNaN(value)) return;
    const [red, green, blue] = colour(value);
    const fill = 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#000" : "#fff";
    drawn.push(svgElement("text", { x: x.at(across), y: y.at(first + down), fill, ...middle }, filled(texttemplate, { z: value })));
  }));
  return drawn;
}

// Crosses, and texts with a colour of their own. (What can be clicked is clear.)
function marks({ x: across, y: down, mode, text, textfont, marker }, { x, y }) {
  const [columns, rows] = [across ?? [], down ?? []].map((each) => Array.from(each));
  if (mode === "text") {
    const font = { "text-anchor": "middle", "dominant-baseline": "central", "font-size": textfont.size };
    return columns.map((at, place) => svgElement("text", { x: x.at(at), y: y.at(rows[place]), fill: [textfont.color].flat()[place] ?? textfont.color, ...font }, text[place]));
  }
  if (marker?.symbol !== "x-thin") return [];
  const far = marker.size / 2 / Math.SQRT2;
  const d = columns.map((at, place) => [x.at(at), y.at(rows[place])])
    .map(([a, b]) => `M${a - far} ${b - far}L${a + far} ${b + far}M${a - far} ${b + far}L${a + far} ${b - far}`).join("");
  return [svgElement("path", { d, stroke: marker.line.color, "stroke-width": marker.line.width })];
}

// Where the ends of a shape, or a note, are: on the axes, or as shares of all cells.
const acrossAt = (value, ref, { x, left, across }) => ((ref ?? "x") === "x" ? x.at(value) : left + value * across);
const downAt = (value, ref, { y, top, down }) => ((ref ?? "y") === "y" ? y.at(value) : top + (1 - value) * down);

// Where a frame begins and ends, as left, top, right and bottom.
export function endsOf({ x0, x1, y0, y1, xref, yref }, place) {
  const [left, right] = [x0, x1].map((value) => acrossAt(value, xref, place)).sort((a, b) => a - b);
  const [top, bottom] = [y0, y1].map((value) => downAt(value, yref, place)).sort((a, b) => a - b);
  return { left, top, right, bottom };
}

function shape(given, place) {
  const { type, name = "", line = {}, fillcolor = "none" } = given;
  const look = { class: name, stroke: line.color ?? "none", "stroke-width": line.width ?? 2, fill: fillcolor };
  if (type === "path") {
    const d = given.path.replace(/(-?[\d.]+),(-?[\d.]+)/g, (_, x, y) => `${place.left + Number(x)},${place.y.at(Number(y))}`);
    return svgElement("path", { ...look, d });
  }
  const { left, top, right, bottom } = endsOf(given, place);
  return svgElement("path", { ...look, d: `M${left} ${top}${type === "rect" ? `H${right}V${bottom}H${left}Z` : `L${right} ${bottom}`}` });
}

// Labels

// Where an axis has labels, with their lines: those it names, or else round numbers.
function ticksOf({ range, tickvals, ticktext, labelalias, dtick = 1 }, pixels) {
  if (tickvals) return Array.from(tickvals, (at, place) => ({ at, text: linesOf(ticktext[place])[0] }));
  const ends = range.toSorted((a, b) => a - b);
  if (!labelalias) return roundNumbers(ends, pixels).map((at) => ({ at, text: number(at) }));
  const count = Math.ceil((ends[1] - Math.max(0, ends[0])) / dtick);
  return Array.from({ length: count }, (_, place) => place * dtick)
    .map((at) => ({ at, text: linesOf(labelalias[at])[0] }));
}

const number = (value) => String(+value.toPrecision(6)).replace("-", "−");

function roundNumbers([first, last], pixels) {
  const least = ((last - first) * TICK) / Math.max(pixels, TICK);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  const from = Math.ceil(first / step);
  return Array.from({ length: Math.floor(last / step) - from + 1 }, (_, place) => (from + place) * step);
}

function columnLabel({ at, text }, { side, tickangle = 0, tickfont }, place) {
  const [x, above] = [place.x.at(at), side === "top"];
  const y = above ? place.top - (tickangle ? 3 : 6) : place.top + place.down + 14;
  const slants = tickangle && tickangle !== -90;
  return svgElement("g", { class: "xtick", "data-at": at }, [svgElement("text", {
    transform: `translate(${x + (slants ? 5 : 0)} ${y}) rotate(${tickangle})`,
    "text-anchor": tickangle ? "start" : "middle",
    "dominant-baseline": tickangle === -90 ? "central" : "auto",
    "font-size": tickfont.size,
    fill: tickfont.color,
  }, text)]);
}

const rowLabel = ({ at, text }, { tickfont, ticklabelstandoff = 0 }, place) =>
  svgElement("g", { class: "ytick", "data-at": at }, [svgElement("text", {
    x: place.left - ticklabelstandoff - 3,
    y: place.y.at(at),
    "text-anchor": "end",
    "dominant-baseline": "central",
    "font-size": tickfont.size,
    fill: tickfont.color,
  }, text)]);

function axisTitles({ xaxis, yaxis }, { left, top, across, down }) {
  const middle = ({ title: { font } }) => ({ "text-anchor": "middle", "font-size": font.size, fill: font.color });
  const drawn = [];
  if (xaxis.title.text) drawn.push(svgElement("text", { x: left + across / 2, y: top + down + 32, ...middle(xaxis) }, linesOf(xaxis.title.text)[0]));
  if (yaxis.title.text) drawn.push(svgElement("text", { transform: `translate(12 ${top + down / 2}) rotate(-90)`, ...middle(yaxis) }, linesOf(yaxis.title.text)[0]));
  return drawn;
}

function annotation({ text, x, y, xref, yref, xanchor = "center", yanchor = "middle", xshift = 0, yshift = 0, font }, place) {
  const [lines, line] = [linesOf(text), LINE * font.size];
  const [across, middle] = [acrossAt(x, xref, place) + xshift, downAt(y, yref, place) - yshift];
  const top = middle - { top: 0, middle: 0.5, bottom: 1 }[yanchor] * lines.length * line;
  const anchor = { left: "start", center: "middle", right: "end" }[xanchor];
  const shown = lines.map((each, row) => svgElement("tspan", { x: across, y: top + row * line + font.size }, each));
  return svgElement("g", { class: "annotation" }, [svgElement("text", { "text-anchor": anchor, "font-size": font.size, fill: font.color }, shown)]);
}

function colourBar(trace, { left, top, across, down }) {
  const isMap = trace.type === "heatmap";
  const bar = isMap ? trace.colorbar : trace.marker?.colorbar;
  if (!bar || trace.showscale === false || trace.visible === false) return [];
  const [zmin, zmax] = isMap ? [trace.zmin, trace.zmax] : [trace.marker.cmin, trace.marker.cmax];
  const colour = shades({ zmin, zmax, colorscale: isMap ? trace.colorscale : trace.marker.colorscale });
  const steps = Array.from({ length: 256 }, (_, at) => [zmax - ((zmax - zmin) * at) / 255]);
  const x = left + across + BAR.gap;
  const { font, text } = bar.title;
  const ticks = bar.tickvals ?? roundNumbers([zmin, zmax], 2 * down);
  const label = { x: x + BAR.width + BAR.ticks, "dominant-baseline": "central", "font-size": bar.tickfont.size, fill: bar.tickfont.color };
  return [
    picture(imageOf(steps, colour), x, top, BAR.width, down),
    ...Array.from(ticks, (value, place) => svgElement("text", { ...label, y: top + ((zmax - value) / (zmax - zmin)) * down }, bar.ticktext?.[place] ?? number(value))),
    svgElement("text", { transform: `translate(${left + across + BAR.title} ${top + down / 2}) rotate(90)`, "text-anchor": "middle", "font-size": font.size, fill: font.color }, linesOf(text)[0]),
  ];
}

// What the mouse reads

// A text of Plotly's template: each %{name}, or %{name:format} where that is ".3r", "+.3r" or ".1f".
const filled = (template, values) =>
  template.replace(/%\{(\w+)(?::(\+?)\.(\d)([rf]))?\}/g, (_, name, sign, digits, kind) => {
    const value = values[name];
    if (!kind || typeof value !== "number") return value ?? "";
    if (values.masked) return "masked";
    const places = kind === "f" || !value ? digits - (kind === "r") : Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(+value.toPrecision(digits)))));
    const shown = (kind === "r" ? +value.toPrecision(digits) : value).toFixed(Math.max(0, places));
    return (sign && value >= 0 ? "+" : "") + shown;
  });

// Whether a trace with a scale covers what a mask forbids.
export const isMask = (colorscale) => colorscale?.[0][1] === "rgba(0,0,0,0)";

// Where a figure can be clicked, with what a click gives and what is read there.
export const targetsOf = ({ data }) =>
  data.filter(({ customdata, marker }) => customdata && marker?.opacity === 0).flatMap(({ x, y, text, customdata }) =>
    Array.from(x, (column, place) => ({ column, row: y[place], value: customdata[place], said: text[place] })));

// What is read of a cell: lines of text, none where nothing is to be read.
export function readout({ data, layout: { xaxis, yaxis } }, row, column) {
  const name = ({ labelalias, ticktext, tickvals }, at) =>
    labelalias?.[at] ?? ticktext?.[Array.from(tickvals).indexOf(at)] ?? at;
  const values = { x: name(xaxis, column), y: name(yaxis, row) };
  let masked = false;
  for (const { hovertemplate, z, y, customdata, colorscale } of data.toReversed()) {
    const at = row - (y?.[0] ?? 0);
    if (z?.[at]?.[column] === undefined) continue;
    masked ||= isMask(colorscale) && z[at][column] > 0;
    if (!hovertemplate) continue;
    const read = { ...values, z: z[at][column], masked, customdata: customdata?.[at]?.[column] };
    return linesOf(filled(hovertemplate.replace("<extra></extra>", ""), read));
  }
  return [];
}
