"""Heads that feed heads: the strongest edges of both stacks, and what one carries in a sentence."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.composition import (
    CANNOT_TELL,
    PathName,
    parse_path,
    path_name,
    path_sentences,
)
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.figures.composition import heads_graph
from headwise.viz_app.figures.maps import difference_map
from headwise.viz_app.measuring.composition import composition
from headwise.viz_app.records.composition import Composition, Edge
from headwise.viz_app.trace.circuits import run_path
from headwise.viz_app.views.caches import Run, checkpoint_of, trace_of
from headwise.viz_app.views.shared.accounts import MOST_ASKED, of_prediction
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.head_choice import choices_for, head_label, map_arguments
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.slices import NoteDone, in_slices
from headwise.viz_app.views.shared.view import change_view, checked, control
from headwise.viz_app.views.shared.widgets import (
    clicked_value,
    show_figure,
    show_heading,
    show_link,
)

_MOST = 30
"""Edges that are drawn and listed."""
_BY_CHANCE = 1 / 740
"""Share of a normal distribution above three standard deviations."""


def composition_of(run: Run, step: int) -> Composition:
    """Compute the composition of all heads of a checkpoint."""
    checkpoint = checkpoint_of(run, step)
    return cached(
        "composition of heads",
        (checkpoint.sha256,),
        lambda: composition(checkpoint.model),
        entries=16,
        facts=lambda found: {"run": run.name, "step": step, "edges": len(found.score)},
        says="Comparing what heads write with what later ones read",
    )


@panel("heads_feed")
def show_feeds(selection: Selection) -> None:
    """Draw the strongest edges of the checkpoint, and what the chosen one carries."""
    show_heading("Heads that feed heads")
    found = composition_of(selection.run, selection.step)
    edges = found.strongest(_MOST)
    count = int((found.score > 3 * found.error).sum())
    said = (
        f"Of {len(found.score):,} edges between a head and a later one that may read it, {count:,} "
        f"stand above three standard errors of random matrices of the same shapes and spectra; by "
        f"chance about {_BY_CHANCE * len(found.score):.0f} would."
    )
    names = [path_name(edge) for edge in edges]
    given = checked(
        "edge",
        "Edge between heads",
        default=names[0] if names else None,
        usable=lambda name: _is_of(selection.run, parse_path(name)),
    )
    chosen = parse_path(given) if given else None
    if chosen is None or not edges:
        st.caption(f"{said} {CANNOT_TELL}")
        return
    place = names.index(path_name(chosen)) if path_name(chosen) in names else None
    drawing, listed = st.columns([2, 3], gap="medium")
    with drawing:
        show_figure(
            heads_graph(
                selection.run.description.shapes,
                [(e.earlier, e.later, e.role, e.score, _told(e)) for e in edges],
                chosen=place,
                theme=selection.theme,
            ),
            key="heads_graph",
            alt=f"The two stacks as rows of heads, with the {len(edges)} strongest edges",
            on_select=lambda: _choose(names, clicked_value("heads_graph")),
        )
    with listed:
        _list(selection, edges, names, names[place] if place is not None else "")
    st.caption(
        f"{said} The {len(edges)} strongest are drawn: a line goes from a head to the later one "
        "that reads it, by its queries, keys or values; ± is the spread of random matrices. A "
        f"click on a line, or in the table, asks what it carries in this sentence. {CANNOT_TELL}"
    )
    _show_path(selection, chosen)


def _is_of(run: Run, path: PathName | None) -> bool:
    """Return whether both heads of a path are heads of a run's models."""
    return path is not None and {path.earlier, path.later} <= {*run.description.all_heads()}


def _told(edge: Edge) -> str:
    return (
        f"{head_label(edge.earlier)} → {edge.role} of {head_label(edge.later)}<br>"
        f"{edge.score:+.3f} ± {edge.error:.3f} beyond chance, {edge.chance:.3f}"
    )


def _choose(names: list[str], place: str | None) -> None:
    if place is not None:
        change_view("heads_feed", edge=names[int(place)])


def _list(selection: Selection, edges: list[Edge], names: list[str], chosen: str) -> None:
    largest = edges[0].score
    row_table(
        ["earlier", "read by", "through", "beyond chance"],
        [
            Row(
                name,
                (
                    head_label(edge.earlier),
                    head_label(edge.later),
                    edge.role,
                    Bar(edge.score, f"{edge.score:+.3f} ± {edge.error:.3f}", 0.0, largest),
                ),
            )
            for name, edge in zip(names, edges, strict=True)
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
    try:
        found = of_prediction(
            "path between heads",
            run,
            trace,
            len(trace.predicted) - 1,
            (edge.earlier, edge.later),
            lambda model: run_path(model, trace, edge.earlier, edge.later),
        )
    except ValueError:
        st.info(
            f"{head_label(edge.later)} reads nothing of what {head_label(edge.earlier)} writes."
        )
        return
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
    _show_training(selection, edge)
    with st.container(horizontal=True, gap="small"):
        for name, head in (("earlier", edge.earlier), ("later", edge.later)):
            show_link(
                f"{head_label(head)} on Inside a head",
                "inside",
                key=f"{name}-head",
                **choices_for(head),
            )


def _show_training(selection: Selection, path: PathName) -> None:
    """Draw the score of an edge at every checkpoint, from weights alone."""
    run = selection.run
    if len(run.steps()) < 2 or not st.toggle(
        "This edge at every checkpoint", **control("edge_training", "Edge through training")
    ):
        st.empty()
        return
    steps = sorted({selection.step, *spread(run.steps(), MOST_ASKED)})

    def compute(note: NoteDone) -> list[Edge]:
        found = []
        for done, step in enumerate(steps, 1):
            found.append(composition_of(run, step).between(*path))
            note(done, len(steps))
        return found

    edges = in_slices(
        "Comparing heads of checkpoints",
        compute,
        key="edge-progress",
        stop=lambda: change_view("heads_feed", edge_training=False),
    )
    if edges is None:
        return
    lines = {
        "this edge": [edge.score / edge.error for edge in edges],
        "stands out": [3.0 for _ in edges],
    }
    show_figure(
        named_lines(
            np.array([*lines.values()], np.float32).T,
            steps=steps,
            names=[*lines],
            title="standard errors beyond chance",
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="edge_lines",
        alt=f"The score of this edge at {len(steps)} checkpoints",
    )
