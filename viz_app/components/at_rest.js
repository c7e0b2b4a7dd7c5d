// Says every few seconds that the app rests, but not while nobody sees the page.

import { sayAtRest } from "./rest.js";

const REST = 300; // milliseconds

export default function ({ parentElement, data: [{ seconds }], setTriggerValue }) {
  const times = { rest: REST, first: 1000 * seconds, again: 1000 * seconds };
  const root = parentElement.querySelector(".at_rest");
  return sayAtRest(root, times, () => !document.hidden, () => setTriggerValue("rests", true));
}
