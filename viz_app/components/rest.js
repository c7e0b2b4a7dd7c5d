// Asks Streamlit for something at a moment when that disturbs nothing. Where a panel is drawn right
// behind another one, the browser keeps on the page what should be gone, or fails. Where a panel of
// this page is asked for after another page was, and before the server has said that it begins to
// draw that page, the other page stays empty (Streamlit 1.67).

const RESTING = '[data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]';
const TICK = 50; // milliseconds
const LATE = 200; // milliseconds between two looks after which the browser itself was busy drawing
const PATIENCE = 30_000; // milliseconds after which what was asked of the server has no answer any more

let busy = 0;
let unanswered = -Infinity; // when the server was asked for something, until it says anything
const timers = new WeakMap();

const noteBusy = () => {
  busy = performance.now();
};
for (const event of ["pointerdown", "keydown", "scroll"]) {
  document.addEventListener(event, noteBusy, { capture: true, passive: true });
}

// Streamlit shows by nothing on the page that it has asked: only its connection knows.
const { send } = WebSocket.prototype;
const heardFrom = new WeakSet();
WebSocket.prototype.send = function (message) {
  unanswered = performance.now();
  if (!heardFrom.has(this)) this.addEventListener("message", noteAnswer);
  heardFrom.add(this);
  send.call(this, message);
};
function noteAnswer() {
  unanswered = -Infinity;
  noteBusy();
}

// Calls `say` while `isWanted` says so, at first after some milliseconds and again after some more,
// whenever the app has rested: it drew nothing, it waits for no answer, and nobody did anything.
// Returns what ends this.
export function sayAtRest(root, { rest, first, again }, isWanted, say) {
  clearInterval(timers.get(root)); // Streamlit calls a script again for the same element
  let last = performance.now();
  let due = last + first;
  const look = () => {
    const now = performance.now();
    if (!document.querySelector(RESTING) || now - last > LATE) noteBusy();
    last = now;
    if (now < due || now - busy < rest || now - unanswered < PATIENCE || !isWanted()) return;
    due = now + again;
    noteBusy();
    say();
  };
  timers.set(root, setInterval(look, TICK));
  return () => clearInterval(timers.get(root));
}
