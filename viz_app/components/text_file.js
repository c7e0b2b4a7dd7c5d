// A place into which a text file is dropped, or where one is chosen. Only its text is sent.

import { html, mount } from "./shared.js";

export default function (component) {
  const { data: [data], setTriggerValue } = component;
  const state = mount(component, "text_file", build);
  state.most = data.most;
  state.send = (text) => setTriggerValue("text", text);
  state.label.textContent = data.label;
}

function build(root) {
  const accept = ".txt,.tsv,text/plain,text/tab-separated-values";
  const [label, input] = [html("span"), html("input", "", "", { type: "file", accept })];
  const [place, said] = [html("label", "place", [label, input]), html("small", "", "", { role: "status" })];
  const state = { label };
  const take = async (file) => {
    if (!file) return;
    const fits = file.size <= state.most;
    said.textContent = fits ? "" : `${file.name} has ${Math.ceil(file.size / 1024)} KiB; at most ${state.most / 1024} are read here.`;
    if (fits) state.send(await file.text());
  };
  input.addEventListener("change", () => {
    take(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  const over = (isOver) => (event) => {
    event.preventDefault(); // else the browser would open the file in place of the page
    place.classList.toggle("over", isOver);
  };
  place.addEventListener("dragover", over(true));
  place.addEventListener("dragleave", over(false));
  place.addEventListener("drop", (event) => {
    over(false)(event);
    take(event.dataTransfer.files[0]);
  });
  root.append(place, said);
  return state;
}
