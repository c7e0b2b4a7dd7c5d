"""Choose heads, by buttons, from a list or by a click in a chart, and the units of their maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import streamlit as st

from headwise.model.interface import KINDS, Description, Head, Kind, Side
from headwise.model.turned import TurnedHead
from headwise.viz_app.analysis.grid import Grid, Units
from headwise.viz_app.analysis.labels import HALVES_NOTE, KIND_NAMES
from headwise.viz_app.components.heat_map import Axes, TokenAxis
from headwise.viz_app.figures.theme import Theme
from headwise.viz_app.session.lessons import answered
from headwise.viz_app.session.state import View
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.widgets import choose_one, clicked_value

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


def head_toolbar(key: str = "head-toolbar") -> DeltaGenerator:
    """Return a row of small controls for ``choose_head`` and others, which wraps where it must."""
    return st.container(horizontal=True, gap="small", vertical_alignment="center", key=key)


def choose_head(model: Description, *, on_change: Callable[[], None] = lambda: None) -> Head:
    """Ask for kind, layer and head by rows of buttons, in a row of controls; all pages share them.

    ``on_change`` is called when another button is pressed.
    """
    with head_toolbar():
        kind = choose_one(
            "Attention",
            KINDS,
            key="kind",
            format_func=lambda kind: KIND_NAMES[kind],
            on_change=on_change,
            show_label=False,
        )
        layers, heads = model.shapes[kind]
        layer = choose_one(
            "Layer", range(1, layers + 1), key="layer", default=layers, on_change=on_change
        )
        head = choose_one("Head", range(1, heads + 1), key="head", on_change=on_change)
    if model.merged_attention and kind != "encoder_self":
        st.caption(HALVES_NOTE)
    return Head(kind, layer - 1, head - 1)


def choose_units(*, show_label: bool = True, on_change: Callable[[], None] = lambda: None) -> Units:
    """Ask whether maps are of tokens or of words; the arguments are as for ``choose_one``."""
    return choose_one(
        "Units",
        get_args(Units),
        key="units",
        show_label=show_label,
        on_change=on_change,
        help="The model reads tokens; · marks those that go on with a word. For words, weights are "
        "summed over the tokens of a column and averaged over those of a row.",
    )


def map_arguments(grid: Grid, theme: Theme) -> dict[str, Any]:
    """Return the arguments that all maps of a grid are drawn with."""
    return grid.axes | {"theme": theme}


def token_axes(kind: Kind, grid: Grid) -> Axes:
    """Return of which tokens the rows and the columns of a map of a kind are.

    A consumed token is the one that was predicted before it.
    """
    row_side: Side = "source" if kind == "encoder_self" else "target"
    column_side: Side = "target" if kind == "decoder_self" else "source"
    back = int(kind == "decoder_self")
    return (
        TokenAxis(row_side, [(span.start, span.stop) for span in grid.row_spans]),
        TokenAxis(column_side, [(s.start - back, s.stop - back) for s in grid.column_spans]),
    )


def choose_heads(options: Sequence[Head], label: str, *, key: str) -> list[Head]:
    """Ask for any number of heads; ``key`` is their field of the view."""
    name = label.partition(",")[0]
    chosen: list[Head] = st.multiselect(
        label,
        options,
        format_func=head_label,
        placeholder="kind, layer and head",
        **control(key, name, usable=options.__contains__, written=head_label),
    )
    return chosen


def chosen_head(model: Description, shown: View) -> Head:
    """Return the head that a view has chosen; of the last layer, or the first of a layer, if the
    model does not have it.
    """
    layers, heads = model.shapes[shown.kind]
    layer = shown.layer if shown.layer is not None and 1 <= shown.layer <= layers else layers
    head = shown.head if 1 <= shown.head <= heads else 1
    return Head(shown.kind, layer - 1, head - 1)


def choices_for(head: Head) -> dict[str, object]:
    """Return the fields of the view that choose a head, and their values."""
    return {"kind": head.kind, "layer": head.layer + 1, "head": head.head + 1}


def head_label(head: Head) -> str:
    """Return kind, layer and number of a head in few letters, counted from 1."""
    kind, layer, number = head
    return f"{KIND_NAMES[kind]} {layer + 1}.{number + 1}"


def turned_label(turned: TurnedHead) -> str:
    """Return a head's label with its strength; without one if it is off."""
    strength = f" × {turned.strength:g}" if turned.strength else ""
    return f"{head_label(turned.head)}{strength}"


def choose_clicked_head(key: str, *panels: str, **choices: object) -> None:
    """Choose the head whose marker was clicked in a chart, from the callback of the click.

    A marker names layer and head, and its kind where the chart has more than one. Panels and other
    choices are as for ``change_view``.
    """
    if clicked := clicked_value(key):
        *kind, layer, head = clicked.split(",")
        choices |= {"layer": int(layer) + 1, "head": int(head) + 1}
        if kind:
            choices["kind"] = kind[0]
        if not kind or kind[0] == view().kind:
            choices |= answered("head", int(layer), int(head))
        change_view(*panels, **choices)
