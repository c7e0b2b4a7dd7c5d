"""The page Model: a section of it, of this sentence or of one of its sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import streamlit as st

from headwise.model.interface import Side
from headwise.viz_app.figures.drawings import architecture_svg
from headwise.viz_app.model.choices import SECTION_TITLES
from headwise.viz_app.model.equations import show_equations
from headwise.viz_app.model.input import TraceSide, show_input, side_of
from headwise.viz_app.model.lens import show_decoder_lens, show_lens
from headwise.viz_app.model.masks import show_masks
from headwise.viz_app.model.modules import show_modules, show_presets
from headwise.viz_app.model.neighbours import show_similar
from headwise.viz_app.model.positions import show_positions
from headwise.viz_app.model.projection import show_projection
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import choose_trace, show_target
from headwise.viz_app.session.widgets import choose_one, show_heading


def _show_diagram(selection: Selection, trace: Trace) -> None:
    """Draw the stacks with the shapes of this sentence, and the equations with its numbers."""
    drawing, equations = st.columns(2, gap="large")
    with drawing:
        show_heading(
            "The two stacks",
            "From the bottom, with the shapes of this sentence: batch × position × width. A line "
            "around a box is a residual connection, + its sum.",
        )
        source, steps = len(trace.source), len(trace.consumed)
        drawn = architecture_svg(
            selection.run.description, source=source, steps=steps, theme=selection.theme
        )
        with st.container(key="stacks", width=460):
            st.markdown(drawn, unsafe_allow_html=True)  # of st.html nothing of it would be left
    with equations:
        show_target(selection, trace, key="translation")
        show_heading("The paper's equations, here")
        show_equations(selection, trace)


_OF_SENTENCE: dict[str, Callable[[Selection, Trace], None]] = {
    "diagram": _show_diagram,
    "lens": show_lens,
    "layers": show_decoder_lens,
    "modules": show_modules,
    "presets": show_presets,
    "masks": show_masks,
}
_OF_SIDE: dict[str, Callable[[Selection, TraceSide], None]] = {
    "input": show_input,
    "positions": show_positions,
    "similarity": show_similar,
    "projection": show_projection,
}


def page(selection: Selection) -> None:
    trace = choose_trace(selection)
    with st.container(horizontal=True, gap="small"):
        section = choose_one(
            "Section",
            list(SECTION_TITLES),
            key="section",
            format_func=SECTION_TITLES.__getitem__,
            show_label=False,
        )
        if section in _OF_SIDE:
            side = choose_one("Side", get_args(Side), key="side", show_label=False)
    if section in _OF_SIDE:
        _OF_SIDE[section](selection, side_of(trace, side))
    else:
        _OF_SENTENCE[section](selection, trace)
    show_download_menu(selection, trace)
