// The numbers of a figure of heat maps, as tables. Of all heads each has its own.

import { linesOf, isMask } from "./figure.js";

const plain = (markup) => linesOf(markup).join(" ");

// Tables as `offerTable` takes them. `mark` is the name of shapes that frame what is chosen; `codes` and
// `masked` are how the picture of all heads has weights as bytes.
export function tablesOf({ data, layout }, { mark, masked, codes }) {
  const { xaxis, yaxis } = layout;
  const tables = [];
  data.forEach(({ type, z, y, colorscale, meta }, index) => {
    if (type !== "heatmap" || isMask(colorscale)) return;
    if (meta?.tiles) {
      tables.push(...tilesOf(z, { ...meta.tiles, layout, mark, masked, codes }));
      return;
    }
    const next = data[index + 1];
    const covers = isMask(next?.colorscale) ? next.z : null;
    const cells = z.map((row, down) => Array.from(row, (value, across) => (covers?.[down][across] ? "masked" : value)));
    const [names, columns] = [namesOf(yaxis, cells.length, y), namesOf(xaxis, cells[0].length)];
    const group = groupsOf(layout);
    const kept = [...columns.keys()].filter((x) => cells.some((row) => !Number.isNaN(row[x]))); // not the gaps
    const rows = cells.map((row, place) => [names[place], ...kept.map((x) => row[x])]);
    if (y) tables.at(-1)?.rows.splice(y[0], rows.length, ...rows); // rows on a range of their own
    if (!y || !tables.length) tables.push({ title: plain(xaxis.title.text), head: ["", ...kept.map((x) => group(x) + columns[x])], rows });
  });
  return tables;
}

// The name of each place of an axis: its label, or else its number.
function namesOf({ tickvals = [], ticktext, labelalias }, count, values) {
  const labels = new Map(Array.from(tickvals, (at, place) => [at, ticktext[place]]));
  return Array.from({ length: count }, (_, place) => {
    const at = values?.[place] ?? place;
    return plain(labelalias?.[at] ?? labels.get(at) ?? at);
  });
}

// Names that stand above some columns each, as those of kinds of attention: to which a column belongs.
function groupsOf({ annotations = [] }) {
  const above = annotations.filter(({ xref = "x", yref, yanchor }) => xref === "x" && yref === "paper" && yanchor === "bottom");
  if (above.length < 2) return () => "";
  const nearest = (column) => above.reduce((a, b) => (Math.abs(b.x - column) < Math.abs(a.x - column) ? b : a));
  return (column) => `${plain(nearest(column).text)} `;
}

// A table for each map of the picture of all heads, in whose cells weights are codes.
function tilesOf(cells, { rows, columns, signed, layout: { xaxis, yaxis, shapes }, mark, masked, codes }) {
  const frame = shapes?.find(({ name }) => name === mark);
  const weight = (code) => (code === masked ? "masked" : signed ? (2 * code) / codes - 1 : code / codes);
  return yaxis.ticktext.flatMap((layer, down) =>
    xaxis.ticktext.map((head, across) => {
      const [top, left] = [down * (rows.length + 1), across * (columns.length + 1)];
      return {
        title: `${layer} · ${head}, to 1/${codes}`,
        chosen: frame && frame.x0 === left - 0.5 && frame.y0 === top - 0.5,
        head: ["", ...columns],
        rows: rows.map((name, row) => [name, ...columns.map((_, column) => weight(cells[top + row][left + column]))]),
      };
    }),
  );
}
