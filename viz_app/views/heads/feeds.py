"""Heads that feed heads: the strongest edges of both stacks, and what one carries in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headwise.model.interface import head_name
from headwise.viz_app.analysis.composition import (
    CANNOT_TELL,
    PathName,
    course_sentence,
    parse_path,
    path_arrays,
    path_maps,
    path_name,
    path_sentences,
)
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.components.head_graph import GraphFrame, head_graph
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.figures.maps import difference_map
from headwise.viz_app.measuring.composition import composition
from headwise.viz_app.records.composition import Composition, Edge
from headwise.viz_app.trace.circuits import run_path
from headwise.viz_app.views.caches import Run, checkpoint_of, trace_of, weights_sha256
from headwise.viz_app.views.shared.accounts import MOST_ASKED, of_prediction
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.download import offer_arrays
from headwise.viz_app.views.shared.head_choice import choices_for, head_label, map_arguments
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.slices import NoteDone, in_slices
from headwise.viz_app.views.shared.view import change_view, checked, control, redraw_all
from headwise.viz_app.views.shared.widgets import show_figure, show_heading, show_link

_MOST = 30
"""Edges that are drawn and listed."""
_BY_CHANCE = 1 / 740
"""Share of a normal distribution above three standard deviations."""


def composition_of(run: Run, step: int) -> Composition:
    """Compute the composition of all heads of a checkpoint."""
    return cached(
        "composition of heads",
        weights_sha256(run, step),
        lambda: composition(checkpoint_of(run, step).model),
        facts=lambda found: {"run": run.name, "step": step, "edges": len(found.score)},
        says="Comparing what heads write with what later ones read",
    )


@dataclass(frozen=True)
class _Drawn:
    """What is shown of a checkpoint: the strongest edges, how many stand out, and the chosen one.

    (Of many checkpoints all edges would not fit into memory.)
    """

    strongest: tuple[Edge, ...]
    count: int
    of: int
    chosen: Edge

    def frame(self, step: int) -> GraphFrame:
        """Return it as it is drawn; the chosen edge is there also where it does not stand out."""
        drawn = self.strongest + (self.chosen,) * (self.chosen not in self.strongest)
        return GraphFrame(step, drawn, f"{self.count:,} of {self.of:,} edges stand out")


def _drawn_of(run: Run, step: int, chosen: PathName) -> _Drawn:
    def compute() -> _Drawn:
        found = composition_of(run, step)
        count = int(found.stand_out.sum())
        strongest = tuple(found.strongest(_MOST))
        return _Drawn(strongest, count, len(found.score), found.between(*chosen))

    key = (weights_sha256(run, step), chosen)
    return cached("edges that are drawn", key, compute, entries=512)


@panel("heads_feed")
def show_feeds(selection: Selection) -> None:
    """Draw the strongest edges of the checkpoint, and what the chosen one carries."""
    show_heading("Heads that feed heads")
    run = selection.run
    found = composition_of(run, selection.step)
    edges = found.strongest(_MOST)
    count = int(found.stand_out.sum())
    said = (
        f"Of {len(found.score):,} edges between a head and a later one that may read it, {count:,} "
        f"stand above three standard errors of random matrices of the same shapes and spectra; by "
        f"chance about {_BY_CHANCE * len(found.score):.0f} would."
    )
    given: str = checked(
        "edge",
        "Edge between heads",
        default=path_name(found.edge(int(found.score.argmax()))),
        usable=lambda name: _is_of(found, name),
    )
    if (chosen := parse_path(given)) is None:
        return
    drawn = _drawn_by_step(selection, chosen)
    drawing, listed = st.columns([2, 3], gap="medium")
    with drawing:
        head_graph(
            run.description.shapes,
            {head: head_label(head) for head in run.description.all_heads()},
            [each.frame(step) for step, each in drawn.items()],
            chosen=chosen,
            start=selection.step,
            content_id=run.name,
            theme=selection.theme,
            name=f"headwise-{run.name}-edges",
            key="heads_graph",
            on_open=_open,
            on_edge=lambda *edge: change_view("heads_feed", edge=path_name(PathName(*edge))),
        )
    with listed:
        _list(selection, edges, path_name(chosen))
        offer_arrays(
            "All edges",
            lambda ending: found.arrays(),
            run=run.name,
            step=selection.step,
            of="edges",
        )
    st.caption(
        f"{said} The {len(edges)} strongest are drawn, and the chosen one: a line goes from a head "
        "to the later one that reads it, by its queries, keys or values; ± is the spread of random "
        "matrices. A "
        f"click on a line, or in the table, asks what it carries in this sentence. {CANNOT_TELL}"
    )
    if len(drawn) > 1:
        _show_lines(selection, chosen, {step: each.chosen for step, each in drawn.items()})
    _show_path(selection, chosen)


def _open(step: int) -> None:
    change_view(step=step)
    redraw_all()


def _drawn_by_step(selection: Selection, chosen: PathName) -> dict[int, _Drawn]:
    """Return what is drawn of this checkpoint, and, where it is asked for, of the others."""
    run, here = selection.run, selection.step
    alone = {here: _drawn_of(run, here, chosen)}
    if len(run.steps()) < 2 or not st.toggle(
        "Through training", **control("edge_training", "Edges through training")
    ):
        st.empty()
        return alone
    steps = sorted({here, *spread(run.steps(), MOST_ASKED)})

    def compute(note: NoteDone) -> dict[int, _Drawn]:
        found = {}
        for done, step in enumerate(steps, 1):
            found[step] = _drawn_of(run, step, chosen)
            note(done, len(steps))
        return found

    found = in_slices(
        "Comparing heads of checkpoints",
        compute,
        key="edge-progress",
        stop=lambda: change_view(edge_training=False),
    )
    return alone if found is None else found


def _is_of(found: Composition, name: str) -> bool:
    """Return whether the text names an edge between heads of a model."""
    try:
        return (path := parse_path(name)) is not None and found.between(*path) is not None
    except ValueError:
        return False


def _list(selection: Selection, edges: list[Edge], chosen: str) -> None:
    largest = max((edge.score for edge in edges), default=1.0)
    row_table(
        ["earlier", "read by", "through", "beyond chance"],
        [
            Row(
                path_name(edge),
                (
                    head_label(edge.earlier),
                    head_label(edge.later),
                    edge.role,
                    Bar(edge.score, f"{edge.score:+.3f} ± {edge.error:.3f}", 0.0, largest),
                ),
            )
            for edge in edges
        ],
        label="Strongest edges between heads",
        theme=selection.theme,
        key="edge_table",
        chosen=chosen,
        on_click=lambda name: change_view("heads_feed", edge=name),
        action="Show what it carries in this sentence",
    )


def _show_path(selection: Selection, edge: PathName) -> None:
    """Say what an edge carries in the sentence at hand, and draw how the later map changes."""
    run = selection.run
    trace = trace_of(run, selection.step, selection.text)
    path = f"{head_label(edge.earlier)} → {edge.role} of {head_label(edge.later)}"
    st.markdown(f"**{path}**, in this sentence")
    found = of_prediction(
        "path between heads",
        run,
        trace,
        len(trace.predicted) - 1,
        (edge.earlier, edge.later),
        lambda model: run_path(model, trace, edge.earlier, edge.later),
    )
    st.caption(
        f"What {head_label(edge.earlier)} wrote is taken out of only one side of "
        f"{head_label(edge.later)}, all else of the pass being as it was, divisors of norms held. "
        + " ".join(path_sentences(found))
    )
    if edge.role in found.maps:
        grid = make_grid(trace, edge.later.kind)
        arguments = map_arguments(grid, selection.theme)
        show_figure(
            difference_map(
                (found.maps[edge.role][edge.earlier.head] - found.weights).astype("float32"),
                **arguments,
            ),
            key="path_map",
            alt=f"How the map of {head_label(edge.later)} changes without "
            f"{head_label(edge.earlier)} in its {edge.role}",
        )
        st.caption("The map without it, less the map as it is.")
    offer_arrays(
        "This path",
        lambda ending: path_arrays(found) | (path_maps(found) if ending != ".tsv" else {}),
        run=run.name,
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


def _show_lines(selection: Selection, path: PathName, edges: Mapping[int, Edge]) -> None:
    """Draw the score of an edge at every checkpoint, and say since when it stands out."""
    steps = [*edges]
    values = [[edge.score / edge.error, 3.0] for edge in edges.values()]
    show_figure(
        named_lines(
            np.array(values, np.float32),
            steps=steps,
            names=["this edge", "stands out"],
            title="standard errors beyond chance",
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="edge_lines",
        alt=f"The score of this edge at {len(steps)} checkpoints",
    )
    st.caption(course_sentence(edges))
