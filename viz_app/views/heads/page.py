"""Draw the page Heads: the heads of a checkpoint, examples of one, and failed sentences."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.views.heads.examples import show_examples
from headwise.viz_app.views.heads.failures import show_failures
from headwise.viz_app.views.heads.overview import show_list
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.measures import measures_of, show_measure_state
from headwise.viz_app.views.shared.selection import Selection


def page(selection: Selection) -> None:
    """Draw the page."""
    measured = measures_of(selection.run, (selection.step,))
    show_measure_state(selection.run, measured)
    measures = measured.by_step.get(selection.step)
    if measures is not None:
        above = st.container()
        # The list shows which head is chosen, by widgets below it: those are drawn first.
        show_examples(selection, measures)
        with above:
            show_list(selection, measures)
        show_failures(selection, measures)
    show_download_menu(selection)
