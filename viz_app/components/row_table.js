// A table whose rows can be clicked: one stop for Tab, then the arrow keys.

import { button, html, mount, oneStop } from "./shared.js";

const SHORT = 10; // letters of a text that stays in one line

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const { root } = mount(component, "row_table", (root) => ({ root }));
  root.getRootNode().host.closest(".stElementContainer").dataset.drawn = ""; // until then the style of the page keeps its place
  const table = html("table");
  table.setAttribute("aria-label", data.label);
  const titles = html("tr");
  for (const title of data.titles) {
    const cell = html("th", "", title);
    cell.scope = "col";
    titles.append(cell);
  }
  const head = html("thead");
  head.append(titles);
  const body = html("tbody");
  const onClick = (row) => setTriggerValue("clicked", row.name);
  body.append(...data.rows.map((row) => tableRow(row, data, onClick)));
  table.append(head, body);
  const legend = html("div", "legend");
  legend.append(...data.legend.map(textPart));
  // Drawing the table again changes neither how far it is scrolled, unless it has other rows or
  // another order, nor where the focus is. (Its style keeps the chosen row in view.)
  const order = data.rows.map((row) => row.name).join("\n");
  const scrolled = root.dataset.order === order ? root.querySelector(".list").scrollTop : 0;
  root.dataset.order = order;
  const focused = root.getRootNode().activeElement?.dataset.name;
  const list = html("div", "list");
  list.append(table);
  root.replaceChildren(...(data.legend.length ? [legend, list] : [list]));
  list.scrollTop = scrolled;
  const openers = [...body.querySelectorAll("button")];
  const placeOf = (name) => data.rows.findIndex((row) => row.name === name);
  oneStop(body, openers, placeOf(focused ?? data.chosen), (key) => ({ ArrowDown: 1, ArrowUp: -1 })[key]);
  openers[placeOf(focused)]?.focus();
}

function tableRow(row, data, onClick) {
  const element = html("tr", row.name === data.chosen ? "chosen" : "");
  if (data.action) element.title = data.action;
  element.addEventListener("click", () => onClick(row));
  const [first, ...others] = row.cells;
  element.append(rowHeader(row, first.text, data), ...others.map(tableCell));
  return element;
}

function rowHeader(row, text, data) {
  const header = html("th");
  header.scope = "row";
  const opener = button("", text); // its click goes up to the row
  opener.dataset.name = row.name;
  if (data.chosen) opener.setAttribute("aria-pressed", String(row.name === data.chosen));
  header.append(opener);
  return header;
}

const textPart = ({ text, mark }) => html(mark ? "mark" : "span", mark, text);

function tableCell(cell) {
  const element = html("td");
  if (cell.parts) {
    element.lang = cell.language;
    element.dir = "auto";
    element.append(...cell.parts.map(textPart));
  } else if ("start" in cell) {
    const track = html("div", "track");
    const bar = html("i");
    Object.assign(bar.style, {
      left: `${100 * cell.start}%`,
      width: `${100 * cell.length}%`,
      background: cell.colour,
    });
    track.append(bar);
    element.className = "bar";
    const inside = html("div", "inside");
    inside.append(track, html("span", "", cell.text));
    element.append(inside);
  } else {
    element.dir = "auto";
    element.textContent = cell.text;
    if (cell.text.length < SHORT) element.className = "short";
  }
  return element;
}
