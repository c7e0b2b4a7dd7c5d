"""Draw head composition: the strongest edges of both stacks, and what one carries in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import streamlit as st

from headwise.model.interface import head_name
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.components.head_graph import Frame, head_graph
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.figures.maps import difference_map
from headwise.viz_app.heads.composition.paths import path
from headwise.viz_app.heads.composition.scores import (
    ROLES,
    STANDS_OUT,
    Composition,
    Edge,
    composition,
)
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.session.asked import ask_trace, ask_weights
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import trace_of, weights_sha256
from headwise.viz_app.session.download import offer_record
from headwise.viz_app.session.head_choice import choices_for, head_label, map_arguments
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import each_in_slices
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, checked, control
from headwise.viz_app.session.widgets import show_figure, show_link

_KEY = "heads_feed"
_MOST = 30
"""Edges that are drawn and listed."""


@panel(_KEY)
def show_composition(selection: Selection) -> None:
    """Draw the strongest edges of the checkpoint, and what the chosen one carries."""
    run = selection.run
    found = ask_weights(composition, run, selection.step)
    name: str = checked(
        "edge",
        "Edge between heads",
        default=found.edge(int(found.score.argmax())).name,
        usable=lambda name: found.named(name) is not None,
    )
    if (edge := found.named(name)) is None:
        return
    by_step = _by_step(selection, found, edge)
    drawing, listed = st.columns([2, 3], gap="medium")
    with drawing:
        head_graph(
            run.description.shapes,
            {head: head_label(head) for head in run.description.all_heads()},
            ROLES,
            {step: frame for step, (frame, _) in by_step.items()},
            chosen=edge,
            start=selection.step,
            run=run.name,
            theme=selection.theme,
            key="heads_graph",
            on_open=lambda step: change_view(WHOLE_PAGE, step=step),
            on_edge=lambda earlier, later, role: change_view(
                _KEY, edge=f"{head_name(earlier)}-{head_name(later)}-{role}"
            ),
        )
    edges = found.strongest(_MOST)
    with drawing:
        with st.expander("What an edge is, and chance", key="how-edges", type="compact"):
            st.caption(found.against_random)
            st.caption(
                f"The {len(edges)} strongest are drawn, and the chosen one: a line goes from a "
                "head to the later one that reads it, by its queries, keys or values. Chance is "
                "what random matrices have, ± their standard deviation: the score has no error, "
                "since weights give it exactly. A click on a line, or in the table, asks what it "
                "carries in this sentence. The score is of weights alone: it says what the later "
                "head could read of what the earlier one writes, not that the one writes anything, "
                "or the other looks, in any sentence."
            )
        offer_record("All edges", found, run=run.name, step=selection.step, of="edges")
    with listed:
        _list(selection, edges, edge)
        _show_path(selection, edge)
    if len(by_step) > 1:
        _show_course(selection, {step: edge for step, (_, edge) in by_step.items()})


def _by_step(selection: Selection, here: Composition, edge: Edge) -> dict[int, tuple[Frame, Edge]]:
    """Return what is drawn of this checkpoint, and, where it is asked for, of the others."""
    run = selection.run

    def drawn(found: Composition) -> tuple[Frame, Edge]:
        strongest, chosen = found.strongest(_MOST), found.between(*edge[:3])
        # It is drawn also where it does not stand out.
        return Frame((*strongest, *[chosen] * (chosen not in strongest)), found.said), chosen

    def drawn_at(step: int) -> tuple[Frame, Edge]:
        # Of many checkpoints all edges would not fit into memory.
        key = weights_sha256(run, step), edge[:3]
        return cached(
            "edges that are drawn", key, lambda: drawn(ask_weights(composition, run, step))
        )

    alone = {selection.step: drawn(here)}
    if len(run.steps()) < 2 or not st.toggle(
        "Through training", **control("edge_training", "Edges through training")
    ):
        st.empty()
        return alone
    steps = selection.steps()
    selection.say_steps(steps)

    found = each_in_slices(
        "Comparing heads of checkpoints",
        steps,
        drawn_at,
        key="edge-progress",
        stop=lambda: change_view(edge_training=False),
    )
    return alone if found is None else dict(zip(steps, found, strict=True))


def _list(selection: Selection, edges: list[Edge], chosen: Edge) -> None:
    largest = max((edge.score for edge in edges), default=1.0)
    row_table(
        ["earlier", "read by", "through", "beyond chance (chance ± its spread)"],
        [
            Row(
                edge.name,
                (
                    head_label(edge.earlier),
                    head_label(edge.later),
                    edge.role,
                    Bar(edge.score, f"{edge.score:+.3f} ({_chance(edge)})", 0.0, largest),
                ),
            )
            for edge in edges
        ],
        label="Strongest edges between heads",
        theme=selection.theme,
        key="edge_table",
        chosen=chosen.name,
        on_click=lambda name: change_view(_KEY, edge=name),
        action="Show what it carries in this sentence",
    )


def _show_path(selection: Selection, edge: Edge) -> None:
    """Say what an edge carries in the sentence at hand, and draw how the later map changes."""
    trace = trace_of(selection.run, selection.step, selection.text)
    found = ask_trace(path, selection.run, trace, edge.earlier, edge.later)
    earlier, later = head_label(edge.earlier), head_label(edge.later)
    st.markdown(
        f"**{earlier} → {edge.role} of {later}**, in this sentence",
        help=f"What {earlier} wrote is taken out of only one side of {later}, all else of the pass "
        "being as it was, divisors of norms held. Numbers are means over queries; rows of a map "
        "move by the Jensen-Shannon distance: 0 is the same, 1 no key in common.",
    )
    st.caption(found.said)
    if edge.role in found.maps:
        change = found.maps[edge.role][edge.earlier.head] - found.weights
        arguments = map_arguments(make_grid(trace, edge.later.kind), selection.theme)
        show_figure(
            difference_map(change.astype(np.float32), **arguments),
            key="path_map",
            alt=f"How the map of {later} changes without {earlier} in its {edge.role}",
        )
        st.caption("The map without it, less the map as it is.")
    offer_record(
        "This path",
        found,
        run=selection.run.name,
        step=selection.step,
        of=f"path-{head_name(edge.earlier)}-{head_name(edge.later)}",
    )
    with st.container(horizontal=True, gap="small"):
        for name, head in (("earlier", edge.earlier), ("later", edge.later)):
            show_link(
                f"{head_label(head)} on Inside a head",
                "inside",
                key=f"{name}-head",
                **choices_for(head),
            )


def _show_course(selection: Selection, edges: Mapping[int, Edge]) -> None:
    """Draw the score of an edge at every checkpoint, and say since when it stands out."""
    steps = [*edges]
    show_figure(
        named_lines(
            np.array([[e.score / e.error, STANDS_OUT] for e in edges.values()], np.float32),
            steps=steps,
            names=["this edge", "stands out"],
            title="standard deviations of random matrices",
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="edge_lines",
        alt=f"The score of this edge at {len(steps)} checkpoints",
    )
    st.caption(course_sentence(edges))


def course_sentence(edges: Mapping[int, Edge]) -> str:
    """Say what the score of an edge is at the first and last step, and since when it stands out."""
    steps, out = [*edges], [edge.stands_out for edge in edges.values()]
    ends = " and ".join(
        f"{edges[step].score:+.3f} over {_chance(edges[step])} at checkpoint {step:,}"
        for step in (steps[0], steps[-1])
    )
    if not out[-1]:
        said = f"At the last it does not stand out; at {sum(out)} of {len(out)} checkpoints it does"
    elif all(out):
        said = "It stands out at every one"
    else:
        since = len(out) - out[::-1].index(False)
        said = f"It stands out from checkpoint {steps[since]:,} on"
    return f"The edge has {ends}, where ± is the spread of random matrices. {said}."


def _chance(edge: Edge) -> str:
    return with_error(edge.chance, edge.error)
