// Asks Streamlit for something at a moment when that disturbs nothing. Where a panel is drawn right
// behind another one, the browser keeps on the page what should be gone, or fails (Streamlit 1.67).

const RESTING = '[data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]';
const TICK = 50; // milliseconds
const LATE = 200; // milliseconds between two looks after which the browser itself was busy drawing
const PATIENCE = 30_000; // milliseconds after which what was asked of the server has no answer any more
const LINKS = '[data-testid="stTopNavLink"], [data-testid="stSidebarNavLink"]';
const HERE = `:is(${LINKS})[aria-current="page"]`;
const LEFT = '[data-testid="stMain"], [data-testid="stSidebarUserContent"]';

let busy = 0; // when the app has drawn something last
let used = 0; // when a person has done something last
let unanswered = -Infinity; // when the server was asked for something, until it says anything
let leaving = 0; // the interval that looks whether it has begun
const timers = new WeakMap();

const noteBusy = () => {
  busy = performance.now();
};
const noteUse = () => {
  used = performance.now();
};
for (const event of ["pointerdown", "keydown", "scroll"]) {
  document.addEventListener(event, noteUse, { capture: true, passive: true });
}

// Streamlit shows by nothing on the page that it has asked: only its connection knows.
const { send } = WebSocket.prototype;
WebSocket.prototype.send = function (message) {
  unanswered = performance.now();
  this.addEventListener("message", noteAnswer);
  send.call(this, message);
};
function noteAnswer() {
  unanswered = -Infinity;
  noteBusy();
}

// A page that is left takes no clicks and keys: what has the whole page drawn would have it drawn, and
// not the next one.
const leaveFor = (path) => {
  // Without the bar of pages, as where the app is embedded, nothing would say that it has begun.
  if (![...document.querySelectorAll(LINKS)].some((link) => link.pathname === path)) return;
  const until = performance.now() + PATIENCE;
  const look = () => {
    const hasBegun = document.querySelector(HERE)?.pathname === path || performance.now() > until;
    document.querySelectorAll(LEFT).forEach((part) => part.toggleAttribute("inert", !hasBegun));
    if (!hasBegun) return;
    noteBusy();
    clearInterval(leaving);
  };
  clearInterval(leaving);
  leaving = setInterval(look, TICK);
  look();
};
document.addEventListener("click", ({ target, button, ctrlKey, metaKey, shiftKey, altKey }) => {
  const link = target.closest?.(LINKS);
  if (link && !button && !(ctrlKey || metaKey || shiftKey || altKey)) leaveFor(link.pathname);
}, { capture: true });
addEventListener("popstate", () => leaveFor(location.pathname), { capture: true });

// Calls `say` while `isWanted` says so, at first after some milliseconds and again after some more,
// whenever the app has rested: it drew nothing, it waits for no answer, and nobody did anything, for
// which another time can be given: a click ends some time after it has begun. Returns what ends this.
export function sayAtRest(root, { rest, unused = rest, first, again }, isWanted, say) {
  clearInterval(timers.get(root)); // Streamlit calls a script again for the same element
  let last = performance.now();
  let due = last + first;
  const look = () => {
    const now = performance.now();
    if (!document.querySelector(RESTING) || now - last > LATE) noteBusy();
    last = now;
    if (now < due || now - busy < rest || now - used < unused) return;
    if (now - unanswered < PATIENCE || !isWanted()) return;
    due = now + again;
    noteBusy();
    say();
  };
  timers.set(root, setInterval(look, TICK));
  return () => clearInterval(timers.get(root));
}
