// The fold below a picture that has its numbers as tables: sorted by a click, copied as TSV. Of many
// tables a list chooses one. Equal modules are one to all components of a page.

import { button, html } from "./shared.js";

const DIGITS = 7; // of a float of 32 bits
const MOST = 4; // tables that are all shown
const opened = new Set(); // keys of pictures whose fold is open; Streamlit may draw them anew

export const plain = (text) =>
  new DOMParser().parseFromString(String(text ?? "").replaceAll("<br>", " "), "text/html").body.textContent;
const written = (value) => (typeof value === "number" && Number.isFinite(value) ? String(+value.toPrecision(DIGITS)) : String(value ?? ""));

// The element of a component in the page, outside of which its own style does not reach.
export const placeOf = (root) => root.getRootNode().host.closest('[class*="st-key-"]');

// Puts the fold below all else in a place. `tablesOf` gives, while it is open, each table as {title,
// head, rows, chosen}: the first cell of a row names it, and `chosen` is that of the marked part.
// `save`, where it is given, saves the picture, by a button beside the fold.
export function offerTable(place, tablesOf, save = null) {
  if (!place) return; // Streamlit calls a component late, when the page is drawn without it
  const tools = place.querySelector(":scope > .chart-tools") ?? newTools(place, save);
  const fold = tools.firstElementChild;
  fold.tablesOf = tablesOf;
  // The picture is drawn anew, perhaps by another element, which comes after it.
  if (place.lastElementChild !== tools) place.append(tools);
  fold.draw();
}

function newTools(place, save) {
  const title = "Its format, width and paper are chosen in the sidebar, in the menu of the link";
  return html("div", "chart-tools", [newFold(place), save ? button("save", "Save picture", save, { title }) : ""]);
}

function newFold(place) {
  const key = place.className.match(/st-key-(\S+)/)[1];
  const body = html("div");
  const fold = html("details", "chart-table", [html("summary", "", "As a table"), body], { open: opened.has(key) });
  fold.draw = () => {
    const tables = fold.open ? fold.tablesOf() : [];
    const values = tables.map((each) => Object.values(each));
    if (same(values, fold.drawn)) return; // the order that was chosen stays, and what has the focus
    fold.drawn = values;
    show(body, tables);
  };
  fold.addEventListener("toggle", () => {
    opened[fold.open ? "add" : "delete"](key);
    fold.draw();
  });
  return fold;
}

const same = (a, b) => Object.is(a, b) || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((each, place) => same(each, b[place])));

function show(body, tables) {
  if (tables.length <= MOST) {
    body.replaceChildren(...tables.flatMap(drawn));
    return;
  }
  const marked = Math.max(0, tables.findIndex(({ chosen }) => chosen));
  if (body.marked !== marked) Object.assign(body, { marked, picked: marked });
  const list = html("select", "", tables.map(({ title }, place) => new Option(title, place)), { ariaLabel: "Which table" });
  list.value = body.picked;
  list.addEventListener("change", () => {
    body.picked = Number(list.value);
    while (list.nextSibling) list.nextSibling.remove(); // the list itself would lose the focus
    body.append(...drawn(tables[body.picked]));
  });
  body.replaceChildren(list, ...drawn(tables[body.picked]));
}

function drawn({ title, head, rows }) {
  const table = html("table");
  const shown = rows.filter(([, ...values]) => !values.every(Number.isNaN)); // without the gaps
  let sorted = [0, 1];
  const fill = () => {
    table.tBodies[0]?.remove();
    const body = table.createTBody();
    for (const [name, ...values] of shown) {
      body.insertRow().append(html("th", "", name, { scope: "row" }), ...values.map((value) => html("td", "", typeof value !== "number" || Number.isInteger(value) ? written(value) : value.toFixed(4))));
    }
  };
  const top = table.createTHead().insertRow();
  const order = new Map(rows.map((row, place) => [row, place]));
  head.forEach((name, column) => {
    top.append(html("th", "", button("", name || "in order", () => {
      sorted = [column, sorted[0] === column ? -sorted[1] : 1];
      const size = (row) => (typeof row[column] === "number" ? row[column] : -Infinity);
      shown.sort((a, b) => sorted[1] * (column ? size(b) - size(a) : order.get(a) - order.get(b)));
      [...top.cells].forEach((each, at) => { each.ariaSort = at !== column ? "none" : (column > 0) === (sorted[1] > 0) ? "descending" : "ascending"; });
      fill();
    }), { scope: "col" }));
  });
  fill();
  const tsv = () => [head, ...shown].map((row) => row.map(written).join("\t")).join("\n");
  const copy = button("copy", "Copy as TSV", async () => {
    await navigator.clipboard.writeText(tsv());
    copy.textContent = "Copied";
  });
  const frame = html("div", "frame", table, { tabIndex: 0, role: "group", ariaLabel: title || "The numbers of the picture" });
  return [...(title ? [html("p", "", title)] : []), frame, copy];
}
