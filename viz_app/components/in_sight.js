// An empty place that says when a person sees it.

const STAYS = 150; // milliseconds: while a page is being drawn, places move through the window

export default function ({ parentElement, setTriggerValue }) {
  let timer;
  const observer = new IntersectionObserver(([place]) => {
    clearTimeout(timer);
    if (place.isIntersecting) timer = setTimeout(() => setTriggerValue("seen", true), STAYS);
  });
  observer.observe(parentElement.querySelector(".in_sight"));
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}
