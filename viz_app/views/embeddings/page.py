"""The page as a whole: which room is open, and for which side."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from viz_app.analysis.grid import Reading
from viz_app.views._session import Selection, trace_of
from viz_app.views._widgets import choose_one, problems_in_place
from viz_app.views.embeddings.input import show_input
from viz_app.views.embeddings.neighbours import show_neighbours, show_pairs, show_similarity
from viz_app.views.embeddings.positions import show_distances, show_encodings, show_waves
from viz_app.views.embeddings.projection import show_projection
from viz_app.views.embeddings.side import Side, side_of
from viz_app.views.take import show_take
from viz_app.views.target import choose_decoding, choose_target

_ROOMS: dict[str, tuple[Callable[[Selection, Side], None], ...]] = {
    "input": (show_input,),
    "positions": (show_encodings, show_waves, show_distances),
    "similarity": (show_similarity, show_neighbours, show_pairs),
    "projection": (show_projection,),
}


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        with st.sidebar:
            size = choose_decoding()
        target = choose_target(selection, size)
        trace = trace_of(selection.run, selection.step, selection.text, target.ids)
        with st.container(horizontal=True, gap="small"):
            room = choose_one("Show", list(_ROOMS), key="room", default="input")
            side = choose_one(
                "Side",
                ["source", "target"],
                key="side",
                default="source",
                help="The source enters the encoder; the target, from `<s>` on, the decoder.",
            )
        shown = side_of(trace, side)
        for show in _ROOMS[room]:
            show(selection, shown)
        with st.sidebar:
            show_take(selection, trace, Reading())
