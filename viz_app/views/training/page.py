"""The page as a whole: which room is open; and what trains meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from viz_app.analysis.grid import Reading
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_one, problems_in_place
from viz_app.views.live import watch
from viz_app.views.take import show_take
from viz_app.views.training.compare import show_compare
from viz_app.views.training.curves import other_runs, show_curves
from viz_app.views.training.embeddings import show_embeddings
from viz_app.views.training.matrix import show_matrix
from viz_app.views.training.play import show_play
from viz_app.views.training.translations import show_translations

_ROOMS: dict[str, Callable[[Selection], None]] = {
    "curves": show_curves,
    "translations": show_translations,
    "compare": show_compare,
    "play": show_play,
    "heads": show_matrix,
    "embeddings": show_embeddings,
}
_LOGS = {"curves": ("metrics.jsonl",), "translations": ("samples.jsonl",)}
"""What a room shows of a training besides its checkpoints."""


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        above = st.container()
        room = choose_one("Show", list(_ROOMS), key="training", default="curves")
        with above:
            run = selection.run
            others = other_runs(selection) if room == "curves" else []
            watch(run.folder.parent, run.folder.name, others, logs=_LOGS.get(room, ()))
        _ROOMS[room](selection)
        with st.sidebar:
            show_take(selection, None, Reading())
