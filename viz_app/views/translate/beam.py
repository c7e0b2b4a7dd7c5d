"""Show a beam search as a tree, with the way to the chosen hypothesis marked."""

from __future__ import annotations

import math

import streamlit as st

from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.figures.tree import beam_tree
from headwise.viz_app.views.caches import Beam
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import SCORE
from headwise.viz_app.views.shared.view import control
from headwise.viz_app.views.shared.widgets import show_figure

_MOST_STEPS = 16
"""Most steps that are drawn at once."""


def show_tree(selection: Selection, beam: Beam, chosen: int) -> None:
    """Draw the candidates of the search; of a long search, some steps at a time."""
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
    tokens = selection.run.tokenizers.target.tokens([node.id for node in nodes])
    figure = beam_tree(
        [at.get(node.parent, -1) for node in nodes],
        steps=[node.step for node in nodes],
        labels=[token_label(token) for token in tokens],
        notes=[
            f"{token_label(token)}: {node.outcome}, log-probability {node.log_probability:.2f}, "
            f"score {node.score:.2f}"
            for token, node in zip(tokens, nodes, strict=True)
        ],
        outcomes=[node.outcome for node in nodes],
        path=[at[place] for place in sorted(path & at.keys())],
        theme=selection.theme,
        first=first,
    )
    show_figure(
        figure,
        key="tree",
        alt="The beam search as a tree: a column a position, from the likeliest candidate down",
        name="beam",
    )
    st.caption(
        "A column is a position; its candidates stand from the likeliest down, those that were "
        "dropped in grey. The way to the chosen hypothesis stands out. Rest the mouse on a "
        f"candidate for its log-probability and its score, the {SCORE}."
    )


def _choose_first_step(last: int) -> int:
    if last <= _MOST_STEPS:
        return 0
    by = _MOST_STEPS // 2
    latest = math.ceil((last - _MOST_STEPS) / by) * by
    label = f"From position, of {last}"
    bound = control("tree_from", label, usable=range(0, latest + 1, by).__contains__)
    first: int = st.slider(label, 0, latest, step=by, **bound)
    return first
