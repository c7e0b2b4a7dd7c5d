"""Decoding: greedy, or a beam whose hypotheses can be chosen and whose search is drawn."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.labels import piece_label
from viz_app.figures.tree import beam_tree
from viz_app.views._session import (
    Beam,
    Selection,
    beam_of,
    choose_one,
    forget_when_new,
    show_figure,
)

_SIZES = (2, 3, 4, 5, 8)


def choose_decoding() -> int:
    """The width of the beam; 1 is greedy."""
    how = choose_one(
        "Decoding",
        ["greedy", "beam"],
        key="decoding",
        default="greedy",
        help="Greedy takes the likeliest piece at every step. A beam keeps several hypotheses and "
        "takes the best at the end, its log-probability divided by ((5 + n) / 6)^0.6 for n pieces "
        "(Wu et al. 2016; section 6.1 of the paper).",
    )
    if how == "greedy":
        return 1
    return st.select_slider("Width of the beam", _SIZES, value=4, key="beam", bind="query-params")


def choose_hypothesis(selection: Selection, size: int) -> tuple[Beam, int]:
    """The search, and which of its hypotheses is traced; the best at first."""
    beam = beam_of(selection.run, selection.step, selection.text, size)
    decode = selection.run.tokenizers.target.decode
    names = {
        place: f"{decode(h.target) or '(no text)'}  ·  {h.score:.2f}"
        for place, h in enumerate(beam.hypotheses)
    }
    search = (selection.run.info.name, selection.step, selection.text, size)
    forget_when_new("hypothesis", of=search)
    chosen = st.selectbox(
        "Hypotheses of the beam, with their scores",
        list(names),
        format_func=names.__getitem__,
        key="hypothesis",
    )
    return beam, chosen


def show_tree(selection: Selection, beam: Beam, chosen: int) -> None:
    """Draw what the search looked at."""
    st.markdown("##### What the beam looked at")
    nodes = beam.tree
    pieces = selection.run.tokenizers.target.pieces([node.id for node in nodes])
    path, place = [], beam.hypotheses[chosen].node
    while place >= 0:
        path.append(place)
        place = nodes[place].parent
    figure = beam_tree(
        [node.parent for node in nodes],
        steps=[node.step for node in nodes],
        labels=[piece_label(piece) for piece in pieces],
        notes=[
            f"{piece_label(piece)}: {node.fate}, log-probability {node.log_probability:.2f}, "
            f"score {node.score:.2f}"
            for piece, node in zip(pieces, nodes, strict=True)
        ],
        fates=[node.fate for node in nodes],
        path=path,
        theme=selection.theme,
    )
    show_figure(figure, key="tree")
    st.caption(
        "A column is a step; its candidates stand from the likeliest down, those that were dropped "
        "in grey. The way to the chosen hypothesis stands out."
    )
