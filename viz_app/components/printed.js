// A figure as its saved picture shows it: in the colours of the paper, without marks of what is chosen,
// with letters that are large enough, and labels that do not touch.

import { FONT, onPaper, paper, textWidth } from "./paper.js";

const WITH_NUMBER = 36; // pixels of the narrowest cell with a number in it
const FEW_TICKS = 500; // pixels of a picture below which axes have few labels
const LINE = 14; // pixels from a line of a title to the next
const MOST_HEIGHT = 1.3; // of a picture, as a multiple of its width

// A figure as a picture of it has it, and the picture's options, of which its size may be another.
export function printed({ data, layout }, given) {
  const print = copied(layout);
  print.paper_bgcolor = paper.ground;
  print.shapes = (print.shapes ?? []).filter((shape) => shape.name !== paper.mark);
  const options = { ...given };
  const traces = data.filter((trace) => trace.meta !== paper.mark).map((trace) => copied(trace));
  for (const bar of traces.filter((trace) => trace.meta === paper.printed)) {
    bar.visible = true;
    print.margin.r += paper.bar;
    options.width = Math.min(paper.width, options.width + paper.bar);
  }
  options.height += wrapTitle(print, options.width);
  options.height = fullHeight(print, options);
  const pixels = fitLabels(print, options.width);
  for (const trace of traces) {
    delete trace.selectedpoints;
    if (pixels < WITH_NUMBER) delete trace.texttemplate;
    if (!trace.meta?.other) continue;
    trace.visible = pixels >= WITH_NUMBER;
    if (!paper.own) trace.textfont.color = trace.meta.other;
  }
  return { data: traces, layout: print, options };
}

// Breaks the title above the cells where it is too wide; returns the pixels of what is added.
function wrapTitle({ annotations = [], margin }, width) {
  const above = annotations.filter(({ yanchor, yref }) => yanchor === "top" && yref === "paper");
  const title = above.find(({ xanchor }) => xanchor === "left");
  if (!title) return 0;
  const before = title.text.split("<br>");
  const lines = [""];
  for (const word of before.join(" ").split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (textWidth(longer) <= width - margin.l) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const more = LINE * Math.max(0, lines.length - before.length);
  if (more) title.text = lines.join("<br>");
  for (const each of above) each.yshift += more;
  margin.t += more;
  return more;
}

// Cells that become wider than they were made for, which is `meta`, become higher, up to squares.
function fullHeight({ margin, meta, xaxis, yaxis }, { width, height }) {
  if (!(width > meta)) return height;
  const [across, down] = [xaxis, yaxis].map(({ range }) => Math.abs(range[1] - range[0]));
  const square = margin.t + margin.b + ((width - margin.l - margin.r) * down) / across;
  return Math.round(Math.max(height, Math.min(square, MOST_HEIGHT * width)));
}

// Leaves out labels of columns that would touch each other, and returns the pixels of a column.
function fitLabels({ xaxis = {}, margin = {}, ...others }, width) {
  const { labelalias, range, ticktext } = xaxis;
  if (width < FEW_TICKS)
    for (const [name, axis] of Object.entries({ xaxis, ...others }))
      if (name.startsWith("xaxis") && !axis.tickvals) axis.nticks = 4;
  if (!range || !(labelalias || ticktext)) return Infinity;
  const [first = 0, second = first + 1] = xaxis.tickvals ?? [];
  const share = (second - first) / Math.abs(range[1] - range[0]);
  const pixels = share * (width - (margin.l ?? 0) - (margin.r ?? 0));
  const upright = xaxis.tickangle ? 1 : Math.max(...(ticktext ?? [""]).map((text) => text.length));
  const every = Math.max(1, Math.ceil(((paper.letters + 1) * (1 + upright)) / 2 / pixels));
  if (!xaxis.tickvals) xaxis.dtick = every;
  else
    for (const part of ["tickvals", "ticktext"])
      xaxis[part] = xaxis[part]?.filter((_, place) => place % every === 0);
  return pixels;
}

// A copy in the colours of the paper, and with letters that are large enough, of a font that others have.
function copied(value, key = "") {
  if (typeof value === "string") return value.replace(/#[0-9a-f]{6}\b/gi, onPaper);
  if (Array.isArray(value)) return value.map((each) => copied(each, key));
  if (!value || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  const own = Object.entries(value).filter(([name]) => !name.startsWith("_"));
  const copy = Object.fromEntries(own.map(([name, each]) => [name, copied(each, name)]));
  if (/font$/i.test(key)) {
    copy.size = Math.max(copy.size ?? 0, paper.letters);
    copy.family = FONT;
  }
  return copy;
}
