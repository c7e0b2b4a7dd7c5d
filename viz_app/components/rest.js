// Asks Streamlit for something at a moment when that disturbs nothing. Where a panel is drawn right
// behind another one, or after a link to another page was clicked, the browser keeps on the page
// what should be gone, or fails (Streamlit 1.67).

const RESTING = '[data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]';
const TICK = 50; // milliseconds
const LATE = 200; // milliseconds between two looks after which the browser itself was busy drawing

let busy = 0;
const timers = new WeakMap();

const noteBusy = () => {
  busy = performance.now();
};
for (const event of ["pointerdown", "keydown", "scroll"]) {
  document.addEventListener(event, noteBusy, { capture: true, passive: true });
}

// Calls `say` while `isWanted` says so, at first after some milliseconds and again after some more,
// whenever the app has rested: it drew nothing, and nobody did anything. Returns what ends this.
export function sayAtRest(root, { rest, first, again }, isWanted, say) {
  clearInterval(timers.get(root)); // Streamlit calls a script again for the same element
  let last = performance.now();
  let due = last + first;
  const look = () => {
    const now = performance.now();
    if (!document.querySelector(RESTING) || now - last > LATE) noteBusy();
    last = now;
    if (now < due || now - busy < rest || !isWanted()) return;
    due = now + again;
    noteBusy();
    say();
  };
  timers.set(root, setInterval(look, TICK));
  return () => clearInterval(timers.get(root));
}
