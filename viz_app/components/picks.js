// A table of which a row can be picked. Every text is set as text, never as markup.

function html(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".picks");
  for (const [name, value] of Object.entries(data.colours)) root.style.setProperty(`--${name}`, value);
  const table = html("table", "");
  table.setAttribute("aria-label", data.label);
  const heads = html("tr", "");
  for (const title of data.titles) {
    const head = html("th", "", title);
    head.scope = "col";
    heads.append(head);
  }
  const top = html("thead", "");
  top.append(heads);
  const body = html("tbody", "");
  const pick = (row) => setTriggerValue("picked", row.name);
  body.append(...data.rows.map((row) => line(row, data, pick)));
  table.append(top, body);
  const legend = html("div", "legend");
  legend.append(...data.legend.map(marked));
  // The place in a long list, and that of the keyboard, stay when the list is drawn anew.
  const scrolled = root.querySelector(".list")?.scrollTop ?? 0;
  const focused = root.getRootNode().activeElement?.dataset.name;
  const list = html("div", "list");
  list.append(table);
  root.replaceChildren(...(data.legend.length ? [legend, list] : [list]));
  list.scrollTop = scrolled;
  const chosen = list.querySelector(".chosen");
  if (chosen && root.dataset.chosen !== data.chosen) {
    const [row, frame] = [chosen.getBoundingClientRect(), list.getBoundingClientRect()];
    const hidden = row.top < frame.top || row.bottom > frame.bottom;
    if (hidden) list.scrollTop += row.top - frame.top - list.clientHeight / 2;
  }
  root.dataset.chosen = data.chosen;
  if (focused) [...root.querySelectorAll("button")].find((b) => b.dataset.name === focused)?.focus();
}

function line(row, data, pick) {
  const made = html("tr", row.name === data.chosen ? "chosen" : "");
  if (data.action) made.title = data.action;
  made.addEventListener("click", () => pick(row));
  row.cells.forEach((cell, at) => {
    const place = html(at ? "td" : "th", "");
    if (at) fill(place, cell);
    else {
      place.scope = "row";
      const button = html("button", "", cell.text);
      button.type = "button";
      button.dataset.name = row.name;
      if (data.chosen) button.setAttribute("aria-pressed", String(row.name === data.chosen));
      place.append(button); // its click goes up to the row
    }
    made.append(place);
  });
  return made;
}

const marked = ({ text, mark }) => html(mark ? "mark" : "span", mark, text);

function fill(place, cell) {
  if (cell.spans) {
    place.lang = cell.language;
    place.dir = "auto";
    place.append(...cell.spans.map(marked));
  } else if ("start" in cell) {
    const track = html("div", "track");
    const bar = html("i", "");
    Object.assign(bar.style, {
      left: `${100 * cell.start}%`,
      width: `${100 * cell.length}%`,
      background: cell.colour,
    });
    track.append(bar);
    place.className = "bar";
    const inside = html("div", "inside");
    inside.append(track, html("span", "", cell.text));
    place.append(inside);
  } else {
    place.dir = "auto";
    place.textContent = cell.text;
  }
}
