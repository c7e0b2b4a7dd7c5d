"""Choose what the large map shows, and how it is read: its rows, columns and cells.

It shows one head, or the heads of its layer put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import streamlit as st

from headwise.model.interface import Description, Head
from headwise.viz_app.analysis.attention import Aggregate
from headwise.viz_app.analysis.formulas import scores_formula
from headwise.viz_app.analysis.grid import Grid, GridOptions, RowsBy
from headwise.viz_app.analysis.labels import KIND_NAMES, KIND_NOTES
from headwise.viz_app.analysis.rollout import CellValue
from headwise.viz_app.figures.theme import Theme
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.head_choice import chosen_head
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.state import CHOICES, chosen
from headwise.viz_app.session.view import control, redraw_all, view
from headwise.viz_app.session.vocabulary import special_tokens_of
from headwise.viz_app.session.widgets import choose_on_slider, choose_one

HEAD_PANELS = ("heads", "below")
"""Panels that depend on the head that is shown."""
_WEIGHT_NOTES: dict[Aggregate, str] = {
    "head": "A weight says where the head looked, not what it took from there, nor what became of "
    "it.",
    "mean": "The mean of the layer's heads: what most of them look at; it hides that they differ.",
    "max": "Cell by cell the largest weight of any head: nothing strong is hidden, but which head "
    "it was is not said, and rows may sum to more than 1.",
    "rollout": "Rollout up to this layer (Abnar and Zuidema 2020): from which inputs a position "
    "could have gathered, if all heads counted alike and half of each layer were the residual. It "
    "knows nothing of values, feed-forward layers, or heads that cancel each other.",
}
_CROSS_ROLLOUT_NOTE = (
    "Here the layer's map goes on through the whole encoder: a column is a source token as it went "
    "in."
)
_VALUE_NORM_NOTES: dict[Aggregate, str] = {
    "head": "Weight times ‖v W_O‖, as shares of the row (Kobayashi et al. 2020): how much a key "
    "adds and not only how much it is looked at. In which direction it adds is not said.",
    "mean": "The vectors that the layer's heads add for a key, weight times v W_O, are averaged; a "
    "cell is the length of their mean, as a share of the row (Kobayashi et al. 2020). Heads that "
    "add in opposite directions cancel each other. In which direction a key adds is not said.",
    "max": "Cell by cell the largest share of any head: weight times ‖v W_O‖, as shares of the "
    "head's row (Kobayashi et al. 2020). Which head it was is not said, nor in which direction it "
    "adds, and rows may sum to more than 1.",
    "rollout": "Rollout up to this layer (Abnar and Zuidema 2020): from which inputs a position "
    "could have gathered, if half of each layer were the residual. A layer's map is what its heads "
    "add together for each key: the length of the sum of weight times v W_O, as shares of the row "
    "(Kobayashi et al. 2020), so that heads that cancel each other count little. It knows nothing "
    "of feed-forward layers, or of the direction in which a key adds.",
}
_BIASES_NOTE = (
    "Where the model has biases, v has that of W_V, as in the paper; the bias of W_O, the same "
    "whatever a query looks at, is in no cell."
)
_MAP_WIDTH = 530
"""Pixels that the large map has in a window of 1,280."""
MOST_LABELLED = 60
"""Rows and columns of the large map whose labels can all be read."""
_OPTIONS = ("show", "rows", "special", "renormalised", "punctuation")
_DECODER_ROW = (
    "a position of the target, named by the token that is predicted there ← the one that was "
    "consumed last"
)


class ShownMap(NamedTuple):
    """The large map shows one head, or the heads of its layer put together.

    ``map_of_heads(trace, *shown, …)`` computes it.
    """

    head: Head
    aggregate: Aggregate = "head"
    cell_value: CellValue = "weight"

    @property
    def name(self) -> str:
        """Kind, layer and head in words, counted from 1."""
        kind, layer, head = self.head
        of = {
            "head": f"head {head + 1}",
            "mean": "mean of heads",
            "max": "max of heads",
            "rollout": "rollout",
        }[self.aggregate]
        unit = "" if self.cell_value == "weight" else ", weight × value norm"
        return f"{KIND_NAMES[kind]}, layer {layer + 1}, {of}{unit}"

    @property
    def file_name(self) -> str:
        """Kind, layer and head as part of a file's name."""
        kind, layer, head = self.head
        of = f"head{head + 1}" if self.aggregate == "head" else self.aggregate
        unit = "" if self.cell_value == "weight" else "-value-norm"
        return f"{kind}-layer{layer + 1}-{of}{unit}"

    @property
    def measured(self) -> str:
        """What a cell is, in a word."""
        return "weight" if self.cell_value == "weight" else "share"

    @property
    def note(self) -> str:
        """Sentences on what the map shows, and what it does not."""
        notes = [KIND_NOTES[self.head.kind]] if self.aggregate == "head" else []
        of_cells = _WEIGHT_NOTES if self.cell_value == "weight" else _VALUE_NORM_NOTES
        if self.aggregate in of_cells:
            notes.append(of_cells[self.aggregate])
        if self.aggregate == "rollout" and self.head.kind == "cross":
            notes.append(_CROSS_ROLLOUT_NOTE)
        if self.cell_value == "value norm":
            notes.append(_BIASES_NOTE)
        return " ".join(notes)


def large_map(grid: Grid, theme: Theme) -> dict[str, Any]:
    """Return the arguments that a large map of a grid is drawn with."""
    return grid.axes | {"theme": theme, "width": _MAP_WIDTH, "square": True}


def choose_cells() -> CellValue:
    """Ask what the cells of maps are."""
    return choose_one(
        "Cells",
        get_args(CellValue),
        key="cells",
        # (Of “×” Streamlit would think that it may be an emoji, and import all of them: 0.1 s.)
        format_func=lambda cells: {"value norm": "by value norm"}.get(cells, cells),
        on_change=redraw_heads,
        show_label=False,
    )


def choose_window(weights: Floats, at: int | None) -> tuple[slice, slice]:
    """Ask which rows and columns of a long map, (rows, columns), are drawn; all of a short one.

    At first these are the rows around ``at``, and the columns where those have most weight.
    """
    count, across = weights.shape
    rows = _choose_stretch(
        "Rows",
        count,
        key="first_row",
        default=lambda starts: max(
            each for each in starts if each <= max(0, (at or 0) - MOST_LABELLED // 4)
        ),
    )
    columns = _choose_stretch(
        "Columns",
        across,
        key="first_column",
        default=lambda starts: max(
            starts, key=lambda each: float(np.nansum(weights[rows, each : each + MOST_LABELLED]))
        ),
    )
    if max(weights.shape) > MOST_LABELLED:
        st.caption(
            f"The map has {count:,} rows and {across:,} columns: {MOST_LABELLED} of each are drawn "
            "at most, at first those with most weight around the chosen row. The sliders move them."
        )
    return rows, columns


def _choose_stretch(
    label: str, count: int, *, key: str, default: Callable[[Sequence[int]], int]
) -> slice:
    if count <= MOST_LABELLED:
        return slice(0, count)
    last = count - MOST_LABELLED
    starts = sorted({*range(0, last, MOST_LABELLED // 4), last})
    first = choose_on_slider(
        label,
        starts,
        key=key,
        default=default(starts),
        format_func=lambda start: f"{start + 1:,} to {start + MOST_LABELLED:,}",
    )
    return slice(first, first + MOST_LABELLED)


def shown_head(model: Description) -> Head | None:
    """Return the chosen head if its own map is shown, and not one of several heads together."""
    return chosen_head(model, view()) if view().translate.show == "head" else None


def redraw_heads() -> None:
    """Draw again, from a callback of ``choose_head``, what depends on the head that is shown."""
    if view().translate.rank or view().translate.below == "sinks":
        redraw_all()


def chosen_grid_options() -> GridOptions:
    """Return the rows and columns that were chosen."""
    own = view().translate
    return GridOptions(view().units, own.rows, own.special, own.renormalised, own.punctuation)


def show_help(model: Description) -> None:
    """Draw a button that opens what is to be known to read the map that is shown."""
    kind = view().kind
    weights = rf"$\mathrm{{softmax}}({scores_formula(model, kind)})$"
    rows = "a token of the source" if kind == "encoder_self" else _DECODER_ROW
    with st.popover("Help", key="reading-help"):
        st.markdown(
            f"**A row** is a *query*: {rows}. **A column** is a *key*, a token that the query may "
            "look at. **A cell** is a *weight*: which share of the row goes to that key. The "
            "darker a cell, or the brighter on a dark page, the more; colours go by the square "
            "root, so that small weights are seen. Grey cells are masked: their weight is 0.\n\n"
            f"{KIND_NOTES[kind]} A row of weights, {weights}, says how much of each key's value a "
            "query takes. Layers are counted from the input."
        )


def choose_options(run: Run) -> None:
    """Draw a button that opens further choices of maps, with how many were changed."""
    changed = sum(chosen(view(), name) != CHOICES[name].default for name in _OPTIONS)
    label = "Options" + f" ({changed})" * bool(changed)
    with st.popover(label, key="reading"):
        choose_one(
            "Show",
            get_args(Aggregate),
            key="show",
            format_func=lambda how: {"head": "one head"}.get(how, how),
            in_menu=True,
            on_change=redraw_heads,
            help="One head; the mean or, cell by cell, the maximum of the layer's heads; or "
            "rollout, which follows attention back to the inputs of the stack: "
            r"$R_l = (\frac12 \bar A_l + \frac12 I)\,R_{l-1}$.",
        )
        choose_one(
            "Decoder rows by",
            get_args(RowsBy),
            key="rows",
            in_menu=True,
            on_change=redraw_all,
            help="A decoder row consumes one token and predicts the next; its label is predicted ← "
            "consumed. This says by which of them rows are put together to words, and left out "
            "without special tokens.",
        )
        _choose_special(run)


def _choose_special(run: Run) -> None:
    tokens = special_tokens_of(run)
    start, end = escape_markdown(tokens.start), escape_markdown(tokens.end)
    special = st.toggle(
        "Special tokens",
        help=f"Rows and columns of {start}, with which every target begins, and {end}, which ends "
        "source and target. Much weight there does not say that a head does nothing: "
        "switch it off to see.",
        **control("special", "Special tokens", in_menu=True, on_change=redraw_all),
    )
    if not special:
        st.toggle(
            "Rows sum to 1 again",
            help="Scale what is left of each row to a sum of 1. Small weights then look large "
            "where most of the weight was on special tokens.",
            **control("renormalised", "Rows sum to 1 again", in_menu=True, on_change=redraw_all),
        )
        st.toggle(
            "Columns of punctuation",
            **control("punctuation", "Columns of punctuation", in_menu=True, on_change=redraw_all),
        )
