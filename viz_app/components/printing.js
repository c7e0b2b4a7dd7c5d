// Saves figures as paper shows them. Plotly's camera saves what is on the screen: for the moment of
// its click this script gives the figure other data and another layout, of which Plotly makes a copy.

const FONT = "Arial, Helvetica, sans-serif";
const WITH_NUMBER = 36; // pixels of the narrowest cell with a number in it
const FEW_TICKS = 500; // pixels of a picture below which axes have few labels

let settings;

export default function (component) {
  settings = component.data;
  document.addEventListener("click", onClick, true); // before Plotly's own listener
  return () => document.removeEventListener("click", onClick, true);
}

function onClick(event) {
  const figure = event.target.closest?.(".modebar-btn")?.closest(".js-plotly-plot");
  if (!figure || figure.dataset.printing) return;
  const { data, layout } = figure;
  Object.assign(figure, printed(figure));
  figure.dataset.printing = "true";
  setTimeout(() => {
    Object.assign(figure, { data, layout });
    delete figure.dataset.printing;
  });
}

function printed({ data, layout, _context }) {
  const print = copied(layout);
  print.paper_bgcolor = "#ffffff";
  print.shapes = (print.shapes ?? []).filter((shape) => shape.name !== settings.mark);
  const { width } = _context.toImageButtonOptions;
  const pixels = fitLabels(print, width);
  const traces = data.filter((trace) => trace.meta !== settings.mark).map((trace) => copied(trace));
  for (const trace of traces) {
    delete trace.selectedpoints;
    if (pixels < WITH_NUMBER) delete trace.texttemplate;
  }
  return { data: traces, layout: print };
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
  const every = Math.max(1, Math.ceil(((settings.letters + 1) * (1 + upright)) / 2 / pixels));
  if (labelalias) xaxis.dtick = every;
  else
    for (const part of ["tickvals", "ticktext"])
      xaxis[part] = xaxis[part].filter((_, place) => place % every === 0);
  return pixels;
}

// A copy with light colours, and with letters that are large enough, of a font that others have.
function copied(value, key = "") {
  if (typeof value === "string") return value.replace(/#[0-9a-f]{6}\b/gi, light);
  if (Array.isArray(value)) return value.map((each) => copied(each, key));
  if (!value || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  const own = Object.entries(value).filter(([name]) => !name.startsWith("_"));
  const copy = Object.fromEntries(own.map(([name, each]) => [name, copied(each, name)]));
  if (/font$/i.test(key)) {
    copy.size = Math.max(copy.size ?? 0, settings.letters);
    copy.family = FONT;
  }
  return copy;
}

const light = (colour) => settings.colours[colour.toLowerCase()] ?? colour;
