"""The page Training: a section of it, below the trainings that are running."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.panels import watch
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import choose_one
from headwise.viz_app.views.training.compare import show_compare
from headwise.viz_app.views.training.curves import other_runs, show_curves
from headwise.viz_app.views.training.embeddings import show_embeddings
from headwise.viz_app.views.training.matrix import show_matrix
from headwise.viz_app.views.training.play import show_play
from headwise.viz_app.views.training.translations import show_translations

_SECTIONS: dict[str, Callable[[Selection], None]] = {
    "curves": show_curves,
    "translations": show_translations,
    "compare": show_compare,
    "play": show_play,
    "heads": show_matrix,
    "embeddings": show_embeddings,
}
_LOGS = {"curves": ("metrics.jsonl",), "translations": ("samples.jsonl",)}
"""Section → the logs that it shows."""


def page(selection: Selection) -> None:
    """Draw the page."""
    above = st.container()
    section = choose_one("Show", list(_SECTIONS), key="training")
    with above:
        run = selection.run
        others = other_runs(selection) if section == "curves" else []
        watch(run.name, others, logs=_LOGS.get(section, ()))
    _SECTIONS[section](selection)
    show_download_menu(selection)
