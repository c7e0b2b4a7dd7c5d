// An empty place that says when a person sees it, until it is drawn anew or taken away.

import { sayAtRest } from "./rest.js";

const STAYS = 150; // milliseconds: while a page scrolls or is drawn, places move through the window
const AGAIN = 1000; // milliseconds: what is said beside a click may go unanswered

export default function ({ parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".in_sight");
  let isSeen = false;
  let due = 0;
  const observer = new IntersectionObserver(([place]) => {
    isSeen = place.isIntersecting;
  });
  observer.observe(root);
  const isDue = () => isSeen && performance.now() >= due;
  const say = () => {
    due = performance.now() + AGAIN;
    setTriggerValue("seen", true);
  };
  const stop = sayAtRest(root, STAYS, isDue, say);
  return () => {
    stop();
    observer.disconnect();
  };
}
