"""All heads in one picture, one of them large, and two checkpoints side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import streamlit as st

from viz_app.analysis.attention import Aggregate, aggregate_heads, max_pool
from viz_app.analysis.flow import Measure, rolled_out, weights_of
from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.figures.maps import attention_map, difference_map
from viz_app.figures.mosaic import mosaic
from viz_app.records import KINDS, Floats, Head, Kind, Trace
from viz_app.views._session import Selection, choose_one, show_figure, trace_of

MOST_CELLS = 40
"""Cells a side of each head in the picture of all heads."""
_MAP_WIDTH, _THIRD_WIDTH, _FULL_WIDTH = 530, 290, 900
"""Pixels that a map has in a window of 1,280: the large one, one of three, one alone."""
_MOST_SIDE_BY_SIDE = 14
"""Columns; comparisons of longer sentences stand one below the other."""

KIND_NAMES: dict[Kind, str] = {
    "encoder_self": "Encoder self",
    "decoder_self": "Decoder self",
    "cross": "Cross",
}
_KIND_NOTES: dict[Kind, str] = {
    "encoder_self": "A row is a source piece; it shows from which source pieces the head gathered "
    "for it.",
    "decoder_self": "A row is a step of decoding; it shows at which of the pieces consumed so far "
    "the head looked. Later ones are masked, in grey.",
    "cross": "A row is a step of decoding; it shows at which source pieces the head looked: at the "
    "encoder's output there, which has gathered from other pieces too.",
}
_AGGREGATE_NOTES: dict[Aggregate, str] = {
    "mean": "The mean of the layer's heads: what most of them look at; it hides that they differ.",
    "max": "Cell by cell the largest weight of any head: nothing strong is hidden, but which head "
    "it was is not said, and rows may sum to more than 1.",
    "rollout": "Rollout up to this layer (Abnar and Zuidema 2020): from which inputs a position "
    "could have gathered, if all heads counted alike and half of each layer were the residual. It "
    "knows nothing of values, feed-forward layers, or heads that cancel each other.",
}
_CROSS_ROLLOUT_NOTE = (
    "Here the mean of the layer's heads goes on through the whole encoder: a column is a source "
    "piece as it went in."
)
_VALUE_NORM_NOTE = (
    "Weight times ‖v W_O‖, as shares of the row (Kobayashi et al. 2020): how much a key adds and "
    "not only how much it is looked at. In which direction it adds is not said."
)


@dataclass(frozen=True)
class _Head:
    """What the large map shows; layer and head from 0."""

    kind: Kind
    aggregate: Aggregate
    measure: Measure
    layer: int
    head: int

    @property
    def name(self) -> str:
        """For people, counted from 1."""
        of = {
            "head": f"head {self.head + 1}",
            "mean": "mean of heads",
            "max": "max of heads",
            "rollout": "rollout",
        }[self.aggregate]
        unit = "" if self.measure == "weight" else ", weight × value norm"
        return f"{KIND_NAMES[self.kind]}, layer {self.layer + 1}, {of}{unit}"

    def map_of(self, trace: Trace, grid: Grid) -> Floats:
        """(rows, columns) of the grid."""
        if self.aggregate == "rollout":
            return grid.apply(rolled_out(trace, self.kind, self.layer, self.measure))
        weights = grid.apply(weights_of(trace, self.kind, self.measure)[self.layer])
        return aggregate_heads(weights, self.aggregate, self.head)

    @property
    def note(self) -> str:
        """What the map can tell, and what it cannot."""
        notes = [_AGGREGATE_NOTES.get(self.aggregate, _KIND_NOTES[self.kind])]
        if self.aggregate == "rollout" and self.kind == "cross":
            notes.append(_CROSS_ROLLOUT_NOTE)
        if self.measure == "value norm":
            notes.append(_VALUE_NORM_NOTE)
        return " ".join(notes)


def show_heads(
    selection: Selection,
    first: Trace,
    second: Trace | None,
    reading: Reading,
    *,
    shared: str = "",
) -> Head | None:
    """Draw the heads of one trace, or of two on a target that is said to be ``shared``.

    What the large map shows comes back, if it is one head.
    """
    layers, heads = first.attention["cross"].shape[:2]
    chosen = _choose_head(layers, heads)
    grid = make_grid(first, chosen.kind, reading)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _show_mosaic(selection, first, grid, chosen)
    with right:
        if second is None:
            _show_map(selection, first, grid, chosen)
        else:
            _describe_comparison(selection, first, second, shared)
    if second is not None:
        _show_comparison(selection, first, second, grid, chosen)
    return (chosen.kind, chosen.layer, chosen.head) if chosen.aggregate == "head" else None


def _choose_head(layers: int, heads: int) -> _Head:
    with st.container(horizontal=True, gap="medium"):
        kind = choose_one(
            "Attention",
            KINDS,
            key="kind",
            default="cross",
            format_func=lambda kind: KIND_NAMES[kind],
        )
        layer = choose_one("Layer", range(1, layers + 1), key="layer", default=layers)
        head = choose_one("Head", range(1, heads + 1), key="head", default=1)
        aggregate = choose_one(
            "Show",
            get_args(Aggregate),
            key="show",
            default="head",
            format_func=lambda how: {"head": "one head"}.get(how, how),
            help="One head; the mean or, cell by cell, the maximum of the layer's heads; or "
            "rollout, which follows attention back to the inputs of the stack.",
        )
        measure = choose_one(
            "Cells",
            get_args(Measure),
            key="cells",
            default="weight",
            format_func=lambda measure: {"value norm": "weight × value norm"}.get(measure, measure),
            help="The weight itself, or weight times the length of the value after W_O, as shares "
            "of the row.",
        )
    return _Head(kind, aggregate, measure, layer - 1, head - 1)


def open_clicked(key: str) -> None:
    """Choose the head whose marker was clicked in a chart: layer and head, its kind perhaps too."""
    points = st.session_state[key].selection.points
    if points:
        *kind, layer, head = points[0]["customdata"].split(",")
        st.session_state.update(layer=int(layer) + 1, head=int(head) + 1, show="head")
        if kind:
            st.session_state["kind"] = kind[0]


def _pool_note(grid: Grid) -> str:
    blocks = [math.ceil(n / MOST_CELLS) for n in (len(grid.rows), len(grid.columns))]
    if max(blocks) == 1:
        return "click a head to enlarge it."
    return (
        f"click a head to enlarge it. Each cell here is the largest of {blocks[0]} × {blocks[1]} "
        "weights; the enlarged map has all of them."
    )


def _show_mosaic(selection: Selection, trace: Trace, grid: Grid, chosen: _Head) -> None:
    maps = max_pool(grid.apply(weights_of(trace, chosen.kind, chosen.measure)), MOST_CELLS)
    allowed = grid.allowed
    if allowed is not None:
        allowed = max_pool(allowed.astype(np.float32), MOST_CELLS) > 0

    figure = mosaic(
        maps,
        theme=selection.theme,
        allowed=allowed,
        selected=(chosen.layer, chosen.head) if chosen.aggregate == "head" else None,
    )
    show_figure(figure, key="mosaic", on_select=lambda: open_clicked("mosaic"))
    st.caption(f"Step {trace.step:,}: {_pool_note(grid)}")


def _axes(selection: Selection, grid: Grid) -> dict[str, Any]:
    """What all maps of one grid share."""
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "row_title": grid.row_title,
        "column_title": grid.column_title,
        "theme": selection.theme,
        "allowed": grid.allowed,
    }


def _show_map(selection: Selection, trace: Trace, grid: Grid, chosen: _Head) -> None:
    """The large map; a click on a row's mark chooses that step of decoding."""

    def take() -> None:
        points = st.session_state["large"].selection.points
        if points:
            st.session_state["at"] = grid.row_spans[round(points[0]["y"])].start

    st.markdown(f"**{chosen.name}**")
    steps = chosen.kind != "encoder_self"
    at = min(st.session_state.get("at", 0), len(trace.consumed) - 1)
    figure = attention_map(
        chosen.map_of(trace, grid),
        selected=grid.row_of(at) if steps else None,
        width=_MAP_WIDTH,
        **_axes(selection, grid),
    )
    show_figure(figure, key="large", on_select=take if steps else None)
    whole = len(grid.columns) == len(grid.spans[1]) or grid.renormalised
    st.caption(chosen.note + " Rows sum to 1." * (chosen.aggregate != "max" and whole))


def _describe_comparison(selection: Selection, first: Trace, second: Trace, shared: str) -> None:
    st.caption(
        f"All maps are of one target, {shared}, given to both checkpoints, so that their rows and "
        "columns are the same."
    )
    for trace in (first, second):
        own = trace_of(selection.run, trace.step, selection.text)
        total = float(trace.predictions.log_probability.sum())
        st.markdown(f"**Step {trace.step:,}**, own translation:")
        with st.container(key=f"own-{trace.step}"):
            st.text(own.target_text or "(no text: the model ended the sentence at once)")
        st.caption(f"Log-probability that it gives to the shared target: {total:.2f} nats")


def _show_comparison(
    selection: Selection, first: Trace, second: Trace, grid: Grid, chosen: _Head
) -> None:
    a, b = (chosen.map_of(trace, grid) for trace in (first, second))
    axes = _axes(selection, grid)
    st.markdown(f"**{chosen.name}**")
    side_by_side = len(grid.columns) <= _MOST_SIDE_BY_SIDE
    width = _THIRD_WIDTH if side_by_side else _FULL_WIDTH
    maps = {
        "first": (f"Step {first.step:,}", attention_map(a, width=width, **axes)),
        "second_map": (f"Step {second.step:,}", attention_map(b, width=width, **axes)),
        "difference": (
            f"Step {second.step:,} minus step {first.step:,}",
            difference_map(b - a, width=width, **axes),
        ),
    }
    places = st.columns(3, gap="small") if side_by_side else [st.container() for _ in maps]
    for place, (key, (title, figure)) in zip(places, maps.items(), strict=True):
        with place:
            st.text(title)
            show_figure(figure, key=key)
