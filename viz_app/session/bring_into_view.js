if (innerWidth > 1000) {  // else the lesson itself would be scrolled away
  let tries = 0, seen = 0;
  const timer = setInterval(() => {
    const part = document.querySelector('.st-key-KEY');
    if (part) part.style.scrollMarginTop = '4rem';  // below the names of the pages
    part?.scrollIntoView({block: 'nearest'});
    seen += part !== null;  // what stands above it may yet be drawn
    if (seen > 8 || ++tries > 50) clearInterval(timer);
  }, 250);
  for (const used of ['wheel', 'pointerdown', 'keydown']) {
    addEventListener(used, () => clearInterval(timer), {once: true});
  }
}
