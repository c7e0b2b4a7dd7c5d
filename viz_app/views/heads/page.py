"""The page as a whole: the heads of a checkpoint, examples of one, sentences that failed."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.grid import Reading
from viz_app.views._session import Selection
from viz_app.views._widgets import problems_in_place
from viz_app.views.heads.examples import show_examples
from viz_app.views.heads.failures import show_failures
from viz_app.views.heads.measured import measured_of, show_state
from viz_app.views.heads.overview import show_list
from viz_app.views.take import show_take


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        measured = measured_of(selection.run, (selection.step,))
        show_state(selection.run, measured)
        measures = measured.by_step.get(selection.step)
        if measures is not None:
            above = st.container()
            # The list shows which head is chosen, by widgets below it: those are drawn first.
            show_examples(selection, measures)
            with above:
                show_list(selection, measures)
            show_failures(selection, measures)
        with st.sidebar:
            show_take(selection, None, Reading())
