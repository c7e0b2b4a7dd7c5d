"""The page as a whole: the model's modules, its variants, masks, the lens, checks, equations."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.grid import Reading
from viz_app.views._session import Selection, trace_of
from viz_app.views._widgets import problems_in_place
from viz_app.views.flow.checks import show_checks
from viz_app.views.flow.equations import show_equations
from viz_app.views.flow.lens import show_lens
from viz_app.views.flow.masks import show_masks
from viz_app.views.flow.modules import show_modules
from viz_app.views.flow.presets import show_presets
from viz_app.views.take import show_take
from viz_app.views.target import choose_decoding, choose_target, show_target


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        with st.sidebar:
            size = choose_decoding()
        target = choose_target(selection, size)
        trace = trace_of(selection.run, selection.step, selection.text, target.ids)
        show_target(selection, trace, key="translation")
        show_modules(selection, trace)
        show_presets(selection)
        show_masks(selection, trace)
        show_lens(selection, trace)
        show_checks(trace)
        show_equations(selection, trace)
        with st.sidebar:
            show_take(selection, trace, Reading())
