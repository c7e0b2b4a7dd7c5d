"""The style of a lesson's panel: over the upper part of the sidebar, or above the page on a phone.

The panel stands in the page itself, so that it comes first there for readers of the screen and on
narrow screens. Where the sidebar is open beside the page, the panel is laid over its upper part,
and what the sidebar holds begins below: the page keeps all its room, and the panel stays in sight.
Printed, a step is a sheet: its text, its question, and the figures that it speaks of.
"""

from __future__ import annotations

from headwise.viz_app.figures.theme import DARK, Theme

_STYLE = """
<style>
  .st-key-lesson { gap: .45rem; }
  .st-key-lesson [data-testid="stMarkdownContainer"] p { font-size: .9rem; line-height: 1.4; }
  .st-key-lesson .stElementContainer:has(script) { display: none; }
  .st-key-lesson h5 { font-size: 1.05rem; padding: 0; }
  .st-key-lesson p[role="status"] { margin: 0; font-size: .8rem; }
  .st-key-lesson button { min-height: 1.9rem; padding: 0 .6rem; }
  .st-key-lesson button * { font-size: .85rem; }
  .st-key-lesson-ways { gap: .2rem; }
  .st-key-lesson-ways button { padding: 0 .4rem; }
  .st-key-lesson [data-testid="stAlertContainer"] { padding: .5rem .7rem; }
  .st-key-lesson-question { border-left: 3px solid currentColor; padding-left: .6rem; }
  @media screen and (min-width: 1001px) {
    .stApp:has(.st-key-lesson) .stSidebar { anchor-name: --sidebar; }
    .stApp:has(.st-key-lesson) .stSidebar[data-collapsed="false"] {
      [data-testid="stSidebarUserContent"] {
        padding-top: calc(min(74vh - 1rem, var(--lesson-height, 74vh)) - 2rem);
      }
      h1 { display: none; }
    }
    .stApp:has(.stSidebar[data-collapsed="false"]) .st-key-lesson {
      position: fixed; z-index: 999992; top: 3.2rem; left: .6rem; width: calc(300px - 1.2rem);
      position-anchor: --sidebar; width: calc(anchor-size(--sidebar width, 300px) - 1.2rem);
      max-height: calc(74vh - 1rem); overflow-y: auto; padding: .7rem .8rem;
      background: GROUND;
    }
  }
  @media print {
    .stSidebar, .stAppHeader, .stAlert, .st-key-sentence, .st-key-example, .st-key-own-target,
    .st-key-download-menu, .st-key-lesson-ways, .modebar-container { display: none !important; }
    .stApp, .stAppViewContainer, .stMain { position: static !important; overflow: visible; }
    html, body { background: white; }
    .stApp { background: PAPER; filter: FILTER; }
    .stHorizontalBlock > .stColumn { flex: 1 1 100%; min-width: 100%; break-inside: avoid; }
    .stHorizontalBlock:has(> .stColumn) { flex-wrap: wrap; }
  }
</style>
"""
# Once for each step: Streamlit runs a script again only if it is another one.
_SCRIPT = """
<script>
  {
    const panel = document.querySelector('.st-key-lesson');
    window.lessonHeight?.disconnect();
    window.lessonHeight = new ResizeObserver(() => document.documentElement.style.setProperty(
      '--lesson-height', `${panel.offsetHeight}px`));
    if (panel) window.lessonHeight.observe(panel);
  }  // STEP
</script>
"""


def lesson_script(step: str) -> str:
    """Return a script that tells the style of the panel how high it is, another for each step."""
    return _SCRIPT.replace("STEP", step)


def lesson_style(theme: Theme) -> str:
    """Return the style of the panel in a theme; printed, the dark one becomes a light one."""
    dark = theme == DARK
    style = _STYLE.replace("FILTER", "invert(1) hue-rotate(180deg)" if dark else "none")
    return style.replace("PAPER", "black" if dark else "white").replace("GROUND", theme.background)
