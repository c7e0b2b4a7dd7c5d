// An empty place that says when a person sees it, until it is drawn anew or taken away.

import { sayAtRest } from "./rest.js";

const STAYS = 150; // milliseconds: while a page scrolls or is drawn, places move through the window
const AGAIN = 1000; // milliseconds: what is said beside a click may go unanswered

export default function ({ parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".in_sight");
  // Tab comes to it, and so sees it: else it would leave the page before this part is there.
  Object.assign(root, { tabIndex: 0, role: "group", ariaLabel: "The page goes on here" });
  let isSeen = false;
  const observer = new IntersectionObserver(([place]) => {
    isSeen = place.isIntersecting;
  });
  observer.observe(root);
  const times = { rest: STAYS, first: 0, again: AGAIN };
  const stop = sayAtRest(root, times, () => isSeen, () => setTriggerValue("seen", true));
  return () => {
    stop();
    observer.disconnect();
  };
}
