// Streamlit's field of several lines takes Ctrl + Enter only, and its sidebar folds only on phones.
if (!window.headwise) {
  window.headwise = true;
  document.addEventListener('keydown', event => {
    const {key, shiftKey, ctrlKey, metaKey, isComposing, target} = event;
    if (key !== 'Enter' || shiftKey || ctrlKey || metaKey || isComposing) return;
    if (!target.closest?.('.st-key-sentence textarea')) return;
    event.preventDefault();
    event.stopPropagation();
    target.dispatchEvent(new KeyboardEvent('keydown', {key, ctrlKey: true, bubbles: true}));
  }, true);
  // A field that is blocked, since its server is gone, loses the focus while React hears nothing, and
  // what was typed would never be entered: it is, when the field is free again.
  document.addEventListener('focusout', ({target}) => {
    if (!target.disabled || !target.matches('.stApp :is(textarea, input)')) return;
    const freed = new MutationObserver(() => {
      if (target.disabled) return;
      freed.disconnect();
      const focused = document.activeElement;
      target.focus({preventScroll: true});
      if (focused !== document.body) focused.focus({preventScroll: true});
      else target.blur();
    });
    freed.observe(target, {attributeFilter: ['disabled']});
  });
  // A menu that begins with a field for text is opened to type into it.
  document.addEventListener('click', ({target}) => {
    if (!target.closest?.('.st-key-own-target button')) return;
    const focus = left => {
      const field = document.querySelector('[data-testid="stPopoverBody"] .st-key-target input');
      if (field) field.focus();
      else if (left) setTimeout(focus, 50, left - 1);
    };
    focus(40);
  });
  // Charts that are wider than a sheet of paper are printed smaller.
  const charts = () => document.querySelectorAll('.stPlotlyChart, .heat_map');
  addEventListener('beforeprint', () => charts().forEach(chart => {
    chart.style.zoom = Math.min(1, PAPER / chart.scrollWidth);
  }));
  addEventListener('afterprint', () => charts().forEach(chart => { chart.style.zoom = ''; }));
  // Another page begins at its top, wherever the one before was scrolled to. Its address has no
  // choices until they are written there, and is then no place of its own to go back to. Nor is the
  // page before with the choices of this one, which are written there where they come first.
  const {pushState, replaceState} = history;
  history.pushState = function (...given) {
    const page = location.pathname;
    const isWhole = new URLSearchParams(location.search).has('step');
    const to = new URL(given[2] ?? page, location.href);
    const cameLate = to.pathname !== page && isWhole && to.search === location.search;
    (isWhole && !cameLate ? pushState : replaceState).apply(this, given);
    if (location.pathname !== page) document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
  };
  // Where the sidebar lies over the page, it is folded at first, and when a page is chosen in it.
  const fold = () => {
    if (innerWidth >= 1000) return;
    document.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click();
  };
  fold();
  document.addEventListener('click', ({target}) => {
    if (target.closest?.('[data-testid="stSidebarNavLink"]')) setTimeout(fold);
  });
}
