"""A beam search as a tree, the way to the chosen hypothesis marked."""

from __future__ import annotations

import math

import streamlit as st

from viz_app.analysis.labels import piece_label
from viz_app.figures.tree import beam_tree
from viz_app.views._session import Beam, Selection
from viz_app.views._widgets import show_figure

_MOST_STEPS = 16
"""That are drawn at once."""


def show_tree(selection: Selection, beam: Beam, chosen: int) -> None:
    """Draw what the search looked at, of a long search some steps at a time."""
    st.markdown("##### What the beam looked at")
    path, place = set(), beam.hypotheses[chosen].node
    while place >= 0:
        path.add(place)
        place = beam.tree[place].parent
    first = _choose_first_step(max(node.step for node in beam.tree))
    shown = [
        place for place, node in enumerate(beam.tree) if first <= node.step <= first + _MOST_STEPS
    ]
    at = {place: index for index, place in enumerate(shown)}
    nodes = [beam.tree[place] for place in shown]
    pieces = selection.run.tokenizers.target.pieces([node.id for node in nodes])
    figure = beam_tree(
        [at.get(node.parent, -1) for node in nodes],
        steps=[node.step for node in nodes],
        labels=[piece_label(piece) for piece in pieces],
        notes=[
            f"{piece_label(piece)}: {node.fate}, log-probability {node.log_probability:.2f}, "
            f"score {node.score:.2f}"
            for piece, node in zip(pieces, nodes, strict=True)
        ],
        fates=[node.fate for node in nodes],
        path=[at[place] for place in sorted(path & at.keys())],
        theme=selection.theme,
        first=first,
    )
    show_figure(
        figure,
        key="tree",
        alt="The beam search as a tree: a column a step, its candidates from the likeliest down",
        name="beam",
    )
    st.caption(
        "A column is a step; its candidates stand from the likeliest down, those that were dropped "
        "in grey. The way to the chosen hypothesis stands out."
    )


def _choose_first_step(last: int) -> int:
    if last <= _MOST_STEPS:
        return 0
    by = _MOST_STEPS // 2
    latest = math.ceil((last - _MOST_STEPS) / by) * by
    first: int = st.slider(f"From step, of {last}", 0, latest, step=by, key="tree_from")
    return first
