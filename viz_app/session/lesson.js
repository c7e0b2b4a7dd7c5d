// Tells the style of the panel how high it is.
{
  const panel = document.querySelector('.st-key-lesson');
  window.lessonHeight?.disconnect();
  window.lessonHeight = new ResizeObserver(() => document.documentElement.style.setProperty(
    '--lesson-height', `${panel.offsetHeight}px`));
  if (panel) window.lessonHeight.observe(panel);
}
