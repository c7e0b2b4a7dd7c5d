// Says every few seconds that the app rests, but not while nobody sees the page.

import { sayAtRest } from "./rest.js";

const REST = 300; // milliseconds

export default function ({ parentElement, data: [{ seconds }], setTriggerValue }) {
  let due = performance.now() + 1000 * seconds;
  const isDue = () => !document.hidden && performance.now() >= due;
  const say = () => {
    due = performance.now() + 1000 * seconds;
    setTriggerValue("rests", true);
  };
  return sayAtRest(parentElement.querySelector(".at_rest"), REST, isDue, say);
}
