"""Show the two stacks as a drawing, beside the translation and the paper's equations."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.figures.drawings import architecture_svg
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.model.equations import show_equations
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import show_target
from headwise.viz_app.views.shared.widgets import show_heading


def show_diagram(selection: Selection, trace: Trace) -> None:
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
