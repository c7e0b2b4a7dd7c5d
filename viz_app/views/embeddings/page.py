"""Draw a section of the page Embeddings & positions, for the source or the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import streamlit as st

from headwise.model.interface import Side
from headwise.viz_app.views.embeddings.input import TraceSide, show_input, side_of
from headwise.viz_app.views.embeddings.neighbours import (
    show_neighbours,
    show_similar_pairs,
    show_similarity,
)
from headwise.viz_app.views.embeddings.positions import show_positions
from headwise.viz_app.views.embeddings.projection import show_projection
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import choose_trace
from headwise.viz_app.views.shared.vocabulary import special_tokens_of
from headwise.viz_app.views.shared.widgets import choose_one

_SECTIONS: dict[str, tuple[Callable[[Selection, TraceSide], None], ...]] = {
    "input": (show_input,),
    "positions": (show_positions,),
    "similarity": (show_similarity, show_neighbours, show_similar_pairs),
    "projection": (show_projection,),
}


def page(selection: Selection) -> None:
    """Draw the page."""
    trace = choose_trace(selection)
    start = escape_markdown(special_tokens_of(selection.run).start)
    with st.container(horizontal=True, gap="small"):
        section = choose_one("Show", list(_SECTIONS), key="section")
        side = choose_one(
            "Side",
            get_args(Side),
            key="side",
            help=f"The source enters the encoder; the target, from {start} on, the decoder.",
        )
    for show in _SECTIONS[section]:
        show(selection, side_of(trace, side))
    show_download_menu(selection, trace)
