"""The maps of two checkpoints on one target: which heads differ most, and where one of them does.

Two runs with tokenizers of their own are compared by words; where these do not match, the maps
stand side by side without a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from model.checkpoint import Run
from viz_app.analysis.attention import max_pool
from viz_app.analysis.differences import (
    head_distances,
    pool_differences,
    ranked,
    shapes,
    why_not_by_cell,
)
from viz_app.analysis.grid import Grid, Reading, Units, make_grid
from viz_app.analysis.labels import KIND_NAMES
from viz_app.figures.costs import distance_map
from viz_app.figures.maps import attention_map, difference_map
from viz_app.figures.mosaic import mosaic
from viz_app.records import KINDS, Floats, Head, Kind, Trace
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_for, choose_one, panel, plain, show_figure
from viz_app.views.address import check_asked, is_switch
from viz_app.views.choice import axes_of, choose_head, head_label, open_clicked
from viz_app.views.training.shared import same_tokenizers

_PANEL = "differences"
_MOST_CELLS = 40
"""Cells a side of each head in the picture of all heads."""
_LARGE_WIDTH, _HALF_WIDTH = 530, 420
"""Pixels that maps have in a window of 1,280."""
_MOST_NAMED = 5
"""Heads that are listed."""


@dataclass(frozen=True)
class Side:
    """One of the two checkpoints and its trace of the shared target."""

    run: Run
    trace: Trace
    name: str
    """For people."""


@dataclass(frozen=True)
class _Pair:
    """Both sides with their maps; ``against`` says why no cells can be set against each other."""

    a: Side
    b: Side
    grids: Mapping[Kind, tuple[Grid, Grid]]
    same_run: bool
    against: str

    @property
    def same_shape(self) -> bool:
        """Whether both have as many layers and heads."""
        return shapes(self.a.trace) == shapes(self.b.trace)

    def maps(self, kind: Kind) -> tuple[Floats, Floats]:
        """Of all heads: (L, H, rows, columns) of A and of B."""
        first, second = self.grids[kind]
        a, b = self.a.trace.attention[kind], self.b.trace.attention[kind]
        return first.apply(a), second.apply(b)


@panel(_PANEL)
def show_differences(selection: Selection, a: Side, b: Side, units: Units) -> None:
    """Rank all heads by how far apart they are, and draw one of them large."""
    pair = _pair(a, b, units)
    kind, layer, head = choose_head(*shapes(a.trace))
    place = _choose_other_head(pair, layer, head)
    if pair.against:
        st.info(
            f"{plain(pair.against)}. The maps have other rows or columns and cannot be compared "
            "cell by cell; they stand side by side, without a difference and without distances."
        )
    elif not pair.same_run and not same_tokenizers(a.run, b.run):
        st.caption(
            "The two runs cut text into other pieces, so maps are compared by words: weights are "
            "summed over the pieces of a column and averaged over those of a row."
        )
    if not pair.against:
        _show_ranking(selection, pair, (kind, layer, head))
        left, right = st.columns([2, 3], gap="medium")
        with left:
            _show_overview(selection, pair, kind, (layer, head))
        with right:
            _show_difference(selection, pair, kind, (layer, head), place)
    _show_both(selection, pair, kind, (layer, head), place)


def _pair(a: Side, b: Side, units: Units) -> _Pair:
    same = same_tokenizers(a.run, b.run)
    reading = Reading(units if same else "words")
    folded = "word" in {run.tokenizers.target.kind for run in (a.run, b.run)}
    against = ""
    if not same:
        names = a.run.info.name, b.run.info.name
        against = why_not_by_cell(a.trace, b.trace, names, folded=folded)
    grids = {
        kind: (make_grid(a.trace, kind, reading), make_grid(b.trace, kind, reading))
        for kind in KINDS
    }
    return _Pair(a, b, grids, a.run is b.run, against)


def _choose_other_head(pair: _Pair, layer: int, head: int) -> tuple[int, int]:
    """Layer and head of B: those of A, or others where the two are of different runs."""
    if pair.same_run:
        return layer, head
    layers, heads = shapes(pair.b.trace)
    there = layer < layers and head < heads
    name = plain(pair.b.run.info.name)
    check_asked("unpaired", f"Another head of {pair.b.run.info.name}", is_switch)
    if there and not st.toggle(
        f"Another head of {name}",
        key="unpaired",
        bind="query-params",
        help="Heads of two trainings have nothing but their numbers in common: a head of one may "
        "do what another does in the other.",
    ):
        return layer, head
    with st.container(horizontal=True, gap="small"):
        other_layer = choose_one(
            f"Layer of {name}",
            range(1, layers + 1),
            key="other_layer",
            default=min(layer + 1, layers),
        )
        other_head = choose_one(
            f"Head of {name}", range(1, heads + 1), key="other_head", default=min(head + 1, heads)
        )
    return other_layer - 1, other_head - 1


def _show_ranking(selection: Selection, pair: _Pair, selected: Head) -> None:
    st.markdown("**How far apart the heads are**")
    if not pair.same_shape:
        (layers, heads), (other_layers, other_heads) = shapes(pair.a.trace), shapes(pair.b.trace)
        st.caption(
            f"Not ranked: A has {layers} layers of {heads} heads, B {other_layers} of "
            f"{other_heads}, so that heads do not pair. Choose a head of each."
        )
        return
    distances = {kind: head_distances(*pair.maps(kind)) for kind in KINDS}
    left, right = st.columns([3, 2], gap="medium")
    with left:
        show_figure(
            distance_map(distances, theme=selection.theme, names=KIND_NAMES, selected=selected),
            key="distances",
            alt="Mean Jensen-Shannon distance between A and B of each head: a cell a head, layers "
            "from the top, kind by kind",
            name="distance-of-heads",
            on_select=lambda: open_clicked("distances", _PANEL),
        )
    with (
        right,
        st.container(horizontal=True, gap="small", key="farthest", vertical_alignment="center"),
    ):
        st.caption("Farthest apart:", width="content")
        for place, (head, distance) in enumerate(ranked(distances)[:_MOST_NAMED]):
            st.button(
                f"{head_label(head)} · {distance:.2f}",
                key=f"farthest-{place}",
                on_click=lambda head=head: _open(head),
            )
    by_number = "" if pair.same_run else " Heads are paired by their numbers only."
    st.caption(
        "Jensen-Shannon distance of the rows of A and B, from 0 (the same) to 1 (no key in "
        f"common), mean over rows. Click a head to see where it differs.{by_number}"
    )


def _open(head: Head) -> None:
    kind, layer, number = head
    choose_for(_PANEL, kind=kind, layer=layer + 1, head=number + 1)


def _show_overview(selection: Selection, pair: _Pair, kind: Kind, at: tuple[int, int]) -> None:
    grid = pair.grids[kind][0]
    shown = choose_one(
        "All heads",
        ["B − A", "A", "B"],
        key="overview",
        default="B − A",
        help="Of the chosen kind, a small map each.",
    )
    a, b = pair.maps(kind)
    if shown == "B − A" and not pair.same_shape:
        st.caption("A and B differ in layers and heads: there is no difference of all of them.")
        return
    signed = shown == "B − A"
    maps = {
        "B − A": lambda: pool_differences(b - a, _MOST_CELLS),
        "A": lambda: max_pool(a, _MOST_CELLS),
        "B": lambda: max_pool(b, _MOST_CELLS),
    }[shown]()
    allowed = grid.allowed
    if allowed is not None:
        allowed = max_pool(allowed.astype(np.float32), _MOST_CELLS) > 0
    show_figure(
        mosaic(
            maps,
            theme=selection.theme,
            allowed=allowed,
            selected=at if shown != "B" else None,
            signed=signed,
        ),
        key="overview-mosaic",
        alt=f"{KIND_NAMES[kind]} attention of all heads, {shown}: {maps.shape[0]} layers from the "
        f"top, {maps.shape[1]} heads from the left",
        name=f"{kind}-all-heads-{shown.replace(' ', '')}",
        on_select=lambda: open_clicked("overview-mosaic", _PANEL),
    )
    if max(len(grid.rows), len(grid.columns)) > _MOST_CELLS:
        what = "cell farthest from 0" if signed else "largest weight"
        st.caption(f"Each cell here is the {what} of several; the large maps have all of them.")


def _heads_named(kind: Kind, at: tuple[int, int], place: tuple[int, int]) -> str:
    first = head_label((kind, *at))
    return first if at == place else f"{head_label((kind, *place))} of B, {first} of A"


def _show_difference(
    selection: Selection, pair: _Pair, kind: Kind, at: tuple[int, int], place: tuple[int, int]
) -> None:
    a, b = pair.maps(kind)
    name = _heads_named(kind, at, place)
    st.markdown(f"**B − A: {plain(name)}**")
    show_figure(
        difference_map(
            b[place] - a[at], width=_LARGE_WIDTH, **axes_of(pair.grids[kind][0], selection.theme)
        ),
        key="difference",
        alt=f"{name}: weights of {pair.b.name} minus those of {pair.a.name}",
        name=f"{kind}-layer{at[0] + 1}-head{at[1] + 1}-difference",
    )
    st.caption("Where B has more weight than A, and where less; the scale is fixed at −1 to 1.")


def _show_both(
    selection: Selection, pair: _Pair, kind: Kind, at: tuple[int, int], place: tuple[int, int]
) -> None:
    places = st.columns(2, gap="medium")
    for column, letter, side, grid, maps, of in zip(
        places, "AB", (pair.a, pair.b), pair.grids[kind], pair.maps(kind), (at, place), strict=True
    ):
        label = head_label((kind, *of))
        with column:
            st.markdown(f"**{letter}: {plain(side.name)}, {label}**")
            show_figure(
                attention_map(maps[of], width=_HALF_WIDTH, **axes_of(grid, selection.theme)),
                key=f"map-{letter}",
                alt=f"{label} of {side.name}: attention map of {len(grid.rows)} rows and "
                f"{len(grid.columns)} columns",
                name=f"{kind}-layer{of[0] + 1}-head{of[1] + 1}-{letter}",
            )
