"""Show a beam search as a tree, and what it writes where the greedy translation is another."""

from __future__ import annotations

import math

import streamlit as st

from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.components.unseen import draw_again
from headwise.viz_app.figures.tree import beam_tree
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import Beam, beam_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import SCORE, show_target_text, total_log_probability
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control, note_timer_rerun
from headwise.viz_app.session.widgets import show_figure

_BESIDE, _REST = 4, 0.3
"""Width of the beam beside the greedy translation, and seconds of rest before it is searched."""
_MOST_STEPS = 16
"""Most steps that are drawn at once."""


@panel("beam")
def show_beam_beside(selection: Selection, trace: Trace) -> None:
    """Say whether a beam writes something else than the greedy translation, and show it then.

    It is searched once the app rests, in a run of this panel alone, so that no map waits for it.
    """
    asked = (selection.run.name, selection.step, selection.text)
    if st.session_state.get("beam_beside") != asked:
        st.session_state["beam_beside"] = asked
        with st.container(key="beam-progress"):
            st.caption("Checking what beam search writes …")
        draw_again(seconds=_REST, on_due=note_timer_rerun, key="beam_due")
        return
    best = beam_of(selection.run, selection.step, selection.text, _BESIDE).hypotheses[0]
    if tuple(best.target) == trace.target_ids:
        st.caption(f"A beam of {_BESIDE} writes the same as the greedy translation above.")
        return
    st.caption(
        f"A beam of {_BESIDE} disagrees: log-probability {best.log_probability:.2f} nats, greedy "
        f"{total_log_probability(trace):.2f}."
    )
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        show_target_text(selection.run.tokenizers.target.decode(best.target), key="beam-beside")
        st.button(
            "Show it above",
            key="take-beam",
            on_click=lambda: change_view(WHOLE_PAGE, decoding="beam", beam=_BESIDE),
        )


def show_tree(selection: Selection, beam: Beam, chosen: int) -> None:
    """Draw the candidates of the search; of a long search, some steps at a time."""
    path, place = set(), beam.hypotheses[chosen].node
    while place >= 0:
        path.add(place)
        place = beam.tree[place].parent
    first, last = 0, max(node.step for node in beam.tree)
    if last > _MOST_STEPS:
        by = _MOST_STEPS // 2
        latest = math.ceil((last - _MOST_STEPS) / by) * by
        label = f"From position, of {last}"
        usable = range(0, latest + 1, by).__contains__
        first = st.slider(label, 0, latest, step=by, **control("tree_from", label, usable=usable))
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
