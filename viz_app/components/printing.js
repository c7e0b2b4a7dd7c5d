// Saves figures as paper shows them. Plotly's own button saves what is on the screen: for the moment of
// its click this script gives the figure other data and another layout, of which Plotly makes a copy. The
// picture that Plotly then hands to the browser is taken, and saved as those of all components are.

import { givePaper, savePicture } from "./paper.js";
import { printed } from "./printed.js";

export default function (component) {
  givePaper(component.data[0]);
  document.addEventListener("click", onClick, true); // before Plotly's own listener
  return () => document.removeEventListener("click", onClick, true);
}

const awaited = new Map(); // name of a picture's file → its size

function onClick(event) {
  const link = event.target.closest?.("a[download]");
  const name = link?.download.replace(/\.svg$/, "");
  if (awaited.has(name)) {
    event.preventDefault();
    event.stopImmediatePropagation();
    finish(fetch(link.href), name);
    return;
  }
  const figure = event.target.closest?.(".modebar-btn")?.closest(".js-plotly-plot");
  if (!figure || figure.dataset.printing) return;
  const { data, layout, _context } = figure;
  const { toImageButtonOptions } = _context;
  const { options, ...drawn } = printed(figure, { ...toImageButtonOptions, format: "svg", scale: 1 });
  Object.assign(figure, drawn);
  _context.toImageButtonOptions = options;
  awaited.set(options.filename, options);
  figure.dataset.printing = "true";
  setTimeout(() => {
    Object.assign(figure, { data, layout });
    _context.toImageButtonOptions = toImageButtonOptions;
    delete figure.dataset.printing;
  });
}

async function finish(answer, name) {
  const { width, height } = awaited.get(name);
  awaited.delete(name);
  const text = await (await answer).text();
  const picture = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  await savePicture(document.importNode(picture, true), { width, height, name });
}
