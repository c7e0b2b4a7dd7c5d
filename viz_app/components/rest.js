// Asks Streamlit for something at a moment when that disturbs nothing. Where a panel is drawn right
// behind another one, or after a link to another page was clicked, the browser keeps on the page
// what should be gone, or fails (Streamlit 1.67).

const RESTING = '[data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]';
const TICK = 50; // milliseconds

let busy = 0;
const timers = new WeakMap();

const noteBusy = () => {
  busy = performance.now();
};
for (const event of ["pointerdown", "keydown", "scroll"]) {
  document.addEventListener(event, noteBusy, { capture: true, passive: true });
}

// Calls `say` when `isDue` says so and the app has rested for some milliseconds: it drew nothing,
// and nobody did anything. Returns a function that ends this.
export function sayAtRest(root, milliseconds, isDue, say) {
  clearInterval(timers.get(root)); // Streamlit calls a script again for the same element
  const look = () => {
    if (!document.querySelector(RESTING)) noteBusy();
    if (performance.now() - busy < milliseconds || !isDue()) return;
    noteBusy();
    say();
  };
  timers.set(root, setInterval(look, TICK));
  return () => clearInterval(timers.get(root));
}
