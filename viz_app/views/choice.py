"""Which head a page shows: its kind, layer and number, or how the heads of a layer go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import streamlit as st

from viz_app.analysis.attention import Aggregate, aggregate_heads
from viz_app.analysis.flow import Measure, rolled_out, weights_of
from viz_app.analysis.grid import Grid, Units
from viz_app.analysis.labels import KIND_NAMES, KIND_NOTES
from viz_app.figures.theme import Theme
from viz_app.records import KINDS, Floats, Head, Kind, Trace
from viz_app.views._widgets import choose_for, choose_one, redraw_all

HEAD_PANELS = ("heads", "ablation")
"""What depends on the head that is shown."""
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
class Shown:
    """A head, or the heads of its layer put together; layer and head from 0."""

    kind: Kind
    layer: int
    head: int
    aggregate: Aggregate = "head"
    measure: Measure = "weight"

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

    @property
    def file_name(self) -> str:
        """Kind, layer and head, for the name of a file."""
        of = f"head{self.head + 1}" if self.aggregate == "head" else self.aggregate
        unit = "" if self.measure == "weight" else "-value-norm"
        return f"{self.kind}-layer{self.layer + 1}-{of}{unit}"

    def map_of(self, trace: Trace, grid: Grid) -> Floats:
        """(rows, columns) of the grid."""
        if self.aggregate == "rollout":
            return grid.apply(rolled_out(trace, self.kind, self.layer, self.measure))
        weights = grid.apply(weights_of(trace, self.kind, self.measure)[self.layer])
        return aggregate_heads(weights, self.aggregate, self.head)

    @property
    def note(self) -> str:
        """What the map can tell, and what it cannot."""
        notes = [_AGGREGATE_NOTES.get(self.aggregate, KIND_NOTES[self.kind])]
        if self.aggregate == "rollout" and self.kind == "cross":
            notes.append(_CROSS_ROLLOUT_NOTE)
        if self.measure == "value norm":
            notes.append(_VALUE_NORM_NOTE)
        return " ".join(notes)


def choose_head(layers: int, heads: int, *, on_change: Callable[[], None] | None = None) -> Head:
    """Rows of buttons for kind, layer and head, which all pages share."""
    with st.container(horizontal=True, gap="small"):
        kind = choose_one(
            "Attention",
            KINDS,
            key="kind",
            default="cross",
            format_func=lambda kind: KIND_NAMES[kind],
            on_change=on_change,
            help="A row of weights says how much of each key's value a query takes: "
            r"$\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V$. The source with itself, the target with "
            "what was consumed of it, or the target with the source.",
        )
        layer = choose_one(
            "Layer",
            range(1, layers + 1),
            key="layer",
            default=layers,
            on_change=on_change,
            help="Counted from the input. Each adds to the stream that runs through its stack.",
        )
        head = choose_one(
            "Head",
            range(1, heads + 1),
            key="head",
            default=1,
            on_change=on_change,
            help="Each head of a layer attends by itself, with projections of its own: "
            r"$\mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)\,W_O$.",
        )
    return kind, layer - 1, head - 1


def choose_units() -> Units:
    """Whether maps are of pieces or words."""
    return choose_one(
        "Units",
        get_args(Units),
        key="units",
        default="pieces",
        help="The model reads pieces; · marks those that go on with a word. For words, weights are "
        "summed over the pieces of a column and averaged over those of a row.",
    )


def axes_of(grid: Grid, theme: Theme) -> dict[str, Any]:
    """What all maps of one grid are drawn with."""
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "row_title": grid.row_title,
        "column_title": grid.column_title,
        "theme": theme,
        "allowed": grid.allowed,
    }


def choose_shown(head: Head, *, on_change: Callable[[], None] | None = None) -> Shown:
    """How the head, or its layer, is shown."""
    with st.container(horizontal=True, gap="small"):
        aggregate = choose_one(
            "Show",
            get_args(Aggregate),
            key="show",
            default="head",
            format_func=lambda how: {"head": "one head"}.get(how, how),
            on_change=on_change,
            help="One head; the mean or, cell by cell, the maximum of the layer's heads; or "
            "rollout, which follows attention back to the inputs of the stack: "
            r"$R_l = (\frac12 \bar A_l + \frac12 I)\,R_{l-1}$.",
        )
        measure = choose_one(
            "Cells",
            get_args(Measure),
            key="cells",
            default="weight",
            format_func=lambda measure: {"value norm": "weight × value norm"}.get(measure, measure),
            help="The weight itself, or weight times the length of the value after W_O, "
            r"$\alpha_j \lVert v_j W_O \rVert$, as shares of the row.",
        )
    return Shown(*head, aggregate, measure)


def chosen_head() -> Head | None:
    """The head that is shown, if it is one; for panels other than that of its choice."""
    state = st.session_state
    if state.get("show") != "head":
        return None
    return state["kind"], state["layer"] - 1, state["head"] - 1


def head_label(head: Head) -> str:
    """Kind, layer and number of a head in few letters, counted from 1."""
    kind, layer, number = head
    return f"{KIND_NAMES[kind]} {layer + 1}.{number + 1}"


def open_clicked(key: str, *panels: str, **choices: object) -> None:
    """Choose the head whose marker was clicked in a chart: layer and head, its kind perhaps too.

    Args:
        key: of the chart.
        panels: to be drawn again, as ``choose_for`` wants them.
        choices: what else is then chosen.
    """
    points = st.session_state[key].selection.points
    if points:
        *kind, layer, head = points[0]["customdata"].split(",")
        choices |= {"layer": int(layer) + 1, "head": int(head) + 1}
        if kind:
            choices["kind"] = kind[0]
        choose_for(*panels, **choices)


def redraw_heads() -> None:
    """Draw again what depends on the head that is shown; for callbacks of its widgets."""
    if st.session_state.get("rank"):
        redraw_all()
