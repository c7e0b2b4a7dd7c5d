// An empty place that says when a person sees it, until it is drawn anew or taken away.

const STAYS = 150; // milliseconds: while a page is being drawn, places move through the window
const AGAIN = 1000; // milliseconds: what is said beside a click may go unanswered

export default function ({ parentElement, setTriggerValue }) {
  let timer;
  const say = () => {
    setTriggerValue("seen", true);
    timer = setTimeout(say, AGAIN);
  };
  const observer = new IntersectionObserver(([place]) => {
    clearTimeout(timer);
    if (place.isIntersecting) timer = setTimeout(say, STAYS);
  });
  observer.observe(parentElement.querySelector(".in_sight"));
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}
