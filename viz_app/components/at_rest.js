// Says every few seconds that the app rests, but not while nobody sees the page; and soon after the
// colours of the system have changed, so that the page is drawn in them.

import { sayAtRest } from "./rest.js";

const REST = 300; // milliseconds

export default function ({ parentElement, data: [{ seconds }], setTriggerValue }) {
  const wait = 1000 * seconds;
  const times = { rest: Math.min(REST, wait), unused: REST, first: wait, again: wait };
  const root = parentElement.querySelector(".at_rest");
  const say = () => setTriggerValue("rests", true);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const sayLater = () => setTimeout(say, REST); // Streamlit changes its own colours first
  dark.addEventListener("change", sayLater);
  const stop = sayAtRest(root, times, () => !document.hidden, say);
  return () => {
    dark.removeEventListener("change", sayLater);
    stop();
  };
}
