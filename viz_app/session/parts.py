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

from headwise.model.interface import KINDS
from headwise.viz_app.figures.theme import DARK, Theme

PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "translate": {
        "source": ("source_tokens",),
        "target": ("target_tokens",),
        "translation": ("translation", "own-target"),
        "choices": ("head-toolbar", "map-toolbar"),
        "all heads": ("mosaic-box", "mosaic-legend"),
        "map": ("large-map",),
        "words": ("head-line", "head-words"),
        "next tokens": ("top_tokens-box", "fork"),
        "sampling": ("sampling-panel", "sampling"),
        "cost of heads": ("costs-box",),
        "translation without": ("without",),
        "rows of all heads": ("rows_cross-box", "rows_decoder_self-box"),
    },
    "inside": {
        "choices": ("head-toolbar", "query", "key"),
        "projections": ("projections-step",),
        "scores": ("scores-step",),
        "dimensions": ("contributions-step",),
        "score parts": ("score-parts-step",),
        "weighted values": ("weighted-step",),
        "all heads": ("all-heads-step",),
        "residual": ("residual-attention-step", "residual-feed_forward-step"),
    },
    "why": {
        "source": ("source_tokens",),
        "target": ("target_tokens",),
        "words": ("compared",),
        "account": ("account_parts-box",),
        "cross map": ("account_cross-box",),
        "target map": ("account_decoder_self-box",),
        "encoder": ("encoder_parts-box",),
        "neurons": ("neurons-box",),
        "two sentences": ("pair", "pair-targets"),
        "maps of both": ("pair_map_A-box", "pair_map_B-box", "pair_difference-box"),
        "stream of the encoder": ("patch_stream_encoder-box",),
        "stream of the decoder": ("patch_stream_decoder-box",),
        "patched heads": tuple(f"patch_heads_{kind}-box" for kind in KINDS),
        "patched sublayers": ("patch_sublayers_encoder-box", "patch_sublayers_decoder-box"),
    },
    "model": {
        "translation": ("translation",),
        "mask": ("causal-box",),
        "padding": ("alone", "batch"),
        "lens": ("lens",),
        "tokens": ("tokens-box",),
        "positions": ("positions-box",),
        "sum": ("total-box",),
    },
    "training": {"curves": ("curves-box",)},
    "heads": {"dictionary": ("dictionary_table",)},
    "errors": {
        "pairs": ("pair_curves-box",),
        "failing pairs": ("failing_pairs", "phenomenon"),
        "heads on pairs": ("pair_heads",),
    },
    "learn": {},
}
"""Page → part → keys of the containers that it is drawn in."""
_DIMMED = """
<style>
  @media screen {
    /* Only pictures fade: texts would be hard to read. */
    :is(DIMMED) { filter: grayscale(1); }
    :is(DIMMED) .stPlotlyChart { opacity: .5; transition: opacity .15s; }
    :is(DIMMED):is(:hover, :focus-within), :is(DIMMED):is(:hover, :focus-within) .stPlotlyChart {
      filter: none; opacity: 1;
    }
  }
  @media print {
    .stMainBlockContainer div:not(:is(KEPT), :is(KEPT) *, :has(:is(KEPT))) { display: none; }
  }
</style>
"""
_STYLE, _SCRIPT, _BRING_INTO_VIEW = (
    (Path(__file__).parent / name).read_text("utf-8")
    for name in ("lesson.css", "lesson.js", "bring_into_view.js")
)


def bring_into_view(page: str, bright: Sequence[str], step: str) -> None:
    """Scroll to the first part that a step keeps bright, once it is drawn."""
    if bright and (keys := PARTS[page][bright[0]]):
        _run(_BRING_INTO_VIEW.replace("KEY", keys[0]), step)


def dim_others(page: str, bright: Sequence[str]) -> None:
    """Dim all parts of a page but some, and print only those and the lesson; none if none is named.

    A dimmed part is bright again while the mouse or the focus is in it.
    """
    if not bright:
        return
    selectors = {part: [f".st-key-{key}" for key in keys] for part, keys in PARTS[page].items()}
    kept = [".st-key-lesson", *(each for part in bright for each in selectors[part])]
    dimmed = [each for part in selectors if part not in bright for each in selectors[part]]
    words = {"DIMMED": ", ".join(dimmed) or "none", "KEPT": ", ".join(kept)}
    style = _DIMMED
    for name, written in words.items():
        style = style.replace(name, written)
    st.html(style)


def style_lesson(theme: Theme) -> None:
    """Style the panel in a theme; printed, the dark one becomes a light one."""
    paper, inverted = "white", "none"
    if theme == DARK:
        paper, inverted = "black", "invert(1) hue-rotate(180deg)"
    style = _STYLE.replace("FILTER", inverted).replace("PAPER", paper)
    st.html(f"<style>{style.replace('GROUND', theme.background)}</style>")


def tell_height(step: str) -> None:
    """Tell the style of the panel how high it is, once a step is drawn in it."""
    _run(_SCRIPT, step)


def _run(script: str, step: str) -> None:
    """Run a script once for each step: Streamlit runs one again only if it is another one."""
    st.html(f"<script>\n{script}// {step}\n</script>", unsafe_allow_javascript=True)
