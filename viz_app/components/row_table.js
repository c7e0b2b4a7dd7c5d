// A table whose rows can be clicked: one stop for Tab, then the arrow keys.

import { button, html, mount, oneStop } from "./shared.js";

const SHORT = 10; // letters of a text that stays in one line

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const { root } = mount(component, "row_table", (root) => ({ root }));
  root.getRootNode().host.closest(".stElementContainer").dataset.drawn = ""; // until then the style of the page keeps its place
  const titles = data.titles.map((title) => html("th", "", title, { scope: "col" }));
  const body = html("tbody", "", data.rows.map((row) => tableRow(row, data, () => setTriggerValue("clicked", row.name))));
  const table = html("table", "", [html("thead", "", html("tr", "", titles)), body], { ariaLabel: data.label });
  // Drawing the table again changes neither how far it is scrolled, unless it has other rows or
  // another order, nor where the focus is. (Its style keeps the chosen row in view.)
  const order = data.rows.map((row) => row.name).join("\n");
  const scrolled = root.dataset.order === order ? root.querySelector(".list").scrollTop : 0;
  root.dataset.order = order;
  const focused = root.getRootNode().activeElement?.dataset.name;
  const list = html("div", "list", table);
  const legend = data.legend.length ? [html("div", "legend", data.legend.map(textPart))] : [];
  root.replaceChildren(...legend, list);
  list.scrollTop = scrolled;
  const openers = [...body.querySelectorAll("button")];
  const placeOf = (name) => data.rows.findIndex((row) => row.name === name);
  oneStop(body, openers, placeOf(focused ?? data.chosen), (key) => ({ ArrowDown: 1, ArrowUp: -1 })[key]);
  openers[placeOf(focused)]?.focus();
}

function tableRow({ name, cells: [first, ...others] }, { chosen, action }, onclick) {
  const opener = button("", first.text); // its click goes up to the row
  opener.dataset.name = name;
  if (chosen) opener.ariaPressed = String(name === chosen);
  const header = html("th", "", opener, { scope: "row" });
  return html("tr", name === chosen ? "chosen" : "", [header, ...others.map(tableCell)], { onclick, title: action });
}

const textPart = ({ text, mark }) => html(mark ? "mark" : "span", mark, text);

function tableCell({ text, parts, language, start, length, colour }) {
  if (parts) return html("td", "", parts.map(textPart), { lang: language, dir: "auto" });
  if (start === undefined) return html("td", text.length < SHORT ? "short" : "", text, { dir: "auto" });
  const style = `left: ${100 * start}%; width: ${100 * length}%; background: ${colour}`;
  const track = html("div", "track", html("i", "", "", { style }));
  return html("td", "bar", html("div", "inside", [track, html("span", "", text)]));
}
