"""How pages look while a lesson is on: its panel, and the parts that are not dimmed.

The panel stands in the page itself, so that it comes first there for readers of the screen and on
narrow screens. Where the sidebar is open beside the page, the panel is laid over its upper part,
and what the sidebar holds begins below: the page keeps all its room, and the panel stays in sight.
Printed, a step is a sheet: its text, its question, and the figures that it speaks of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from headwise.viz_app.figures.theme import DARK, Theme

PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "translate": {
        "source": ("source_tokens",),
        "target": ("target_tokens",),
        "translation": ("translation", "translation-notes", "own-target"),
        "choices": ("head-toolbar",),
        "all heads": ("mosaic-box",),
        "map": ("large-map",),
        "words": ("head-words",),
        "next tokens": ("top_tokens-box", "fork"),
        "sampling": ("sampling-panel", "sampling"),
        "cost of heads": ("costs-box",),
        "rows of all heads": ("rows_cross-box", "rows_decoder_self-box"),
    },
    "inside": {
        "choices": ("head-toolbar", "query", "key"),
        "projections": ("projections-step",),
        "scores": ("scores-step",),
        "dimensions": ("contributions-step",),
        "weighted values": ("weighted-step",),
        "all heads": ("all-heads-step",),
        "residual": ("residual-attention-step", "residual-feed_forward-step"),
    },
    "architecture": {
        "translation": ("translation",),
        "mask": ("causal-box",),
        "padding": ("alone", "batch"),
        "lens": ("lens",),
    },
    "embeddings": {
        "tokens": ("tokens-box",),
        "positions": ("positions-box",),
        "sum": ("total-box",),
    },
    "training": {"curves": ("curves-box",)},
    "heads": {},
    "learn": {},
}
"""Page → part → keys of the containers that it is drawn in."""
_DIMMED = """
<style>
  @media screen {
    :is(DIMMED) { opacity: .65; transition: opacity .15s; }
    :is(DIMMED):is(:hover, :focus-within) { opacity: 1; }
    /* What is grey already would be hard to read. */
    .stApp :is(DIMMED) [data-testid="stCaptionContainer"] { color: TEXT; }
  }
  @media print {
    .stMainBlockContainer div:not(:is(KEPT), :is(KEPT) *, :has(:is(KEPT))) { display: none; }
  }
</style>
"""
# Once for each step: Streamlit runs a script again only if it is another one.
_BRING_INTO_VIEW = """
<script>
  if (innerWidth > 1000) {{  // else the lesson itself would be scrolled away
    let tries = 0, seen = 0;
    const timer = setInterval(() => {{
      const part = document.querySelector('.st-key-{key}');
      if (part) part.style.scrollMarginTop = '4rem';  // below the names of the pages
      part?.scrollIntoView({{block: 'nearest'}});
      seen += part !== null;  // what stands above it may yet be drawn
      if (seen > 8 || ++tries > 50) clearInterval(timer);
    }}, 250);
    for (const used of ['wheel', 'pointerdown', 'keydown']) {{
      addEventListener(used, () => clearInterval(timer), {{once: true}});
    }}
  }}  // {step}
</script>
"""
_STYLE = Path(__file__).with_name("lesson.css").read_text("utf-8")
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


def bring_into_view(page: str, bright: Sequence[str], step: str) -> None:
    """Scroll to the first part that a step keeps bright, once it is drawn."""
    if bright and (keys := PARTS[page][bright[0]]):
        script = _BRING_INTO_VIEW.format(key=keys[0], step=step)
        st.html(script, unsafe_allow_javascript=True)


def dim_others(page: str, bright: Sequence[str], theme: Theme) -> None:
    """Dim all parts of a page but some, and print only those and the lesson; none if none is named.

    A dimmed part is bright again while the mouse or the focus is in it.
    """
    if not bright:
        return
    selectors = {part: [f".st-key-{key}" for key in keys] for part, keys in PARTS[page].items()}
    kept = [".st-key-lesson", *(each for part in bright for each in selectors[part])]
    dimmed = [each for part in selectors if part not in bright for each in selectors[part]]
    words = {"DIMMED": ", ".join(dimmed) or "none", "KEPT": ", ".join(kept), "TEXT": theme.text}
    style = _DIMMED
    for name, written in words.items():
        style = style.replace(name, written)
    st.html(style)


def lesson_script(step: str) -> str:
    """Return a script that tells the style of the panel how high it is, another for each step."""
    return _SCRIPT.replace("STEP", step)


def lesson_style(theme: Theme) -> str:
    """Return the style of the panel in a theme; printed, the dark one becomes a light one."""
    paper, inverted = "white", "none"
    if theme == DARK:
        paper, inverted = "black", "invert(1) hue-rotate(180deg)"
    style = _STYLE.replace("FILTER", inverted).replace("PAPER", paper)
    return f"<style>{style.replace('GROUND', theme.background)}</style>"
