// An empty place that says when a person sees it, until it is drawn anew or taken away.

import { sayAtRest } from "./rest.js";

const STAYS = 150; // milliseconds: while a page scrolls or is drawn, places move through the window
const AGAIN = 1000; // milliseconds: what is said beside a click may go unanswered
const TICK = 50; // milliseconds
const WAITS = 5000; // milliseconds for which Tab stays where the page is being drawn
const STOPS = "a[href], button, input, textarea, summary, [tabindex]";

export default function ({ parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".in_sight");
  // Tab comes to it, and so sees it: else it would leave the page before this part is there.
  Object.assign(root, { tabIndex: 0, role: "group", ariaLabel: "The page goes on here" });
  root.onfocus ??= () => waitForNext(root);
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

// Holds Tab here until the part is drawn, and then gives the focus to what comes next in it.
function waitForNext(root) {
  const { host } = root.getRootNode();
  const stops = () => [...document.querySelectorAll(STOPS)].filter((each) => each.tabIndex >= 0 && each.checkVisibility());
  const last = stops().findLast((each) => host.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_PRECEDING);
  const until = performance.now() + WAITS;
  root.onkeydown = (event) => {
    if (event.key === "Tab" && !event.shiftKey && performance.now() < until) event.preventDefault();
  };
  const timer = setInterval(() => {
    const isLeft = root.isConnected ? !root.matches(":focus") : document.activeElement !== document.body;
    if (isLeft || performance.now() > until) return clearInterval(timer);
    const next = !root.isConnected && stops()[stops().indexOf(last) + 1];
    if (!next) return;
    clearInterval(timer);
    next.focus();
  }, TICK);
}
