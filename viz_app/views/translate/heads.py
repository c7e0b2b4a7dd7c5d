"""All heads in one picture, one of them large, and two checkpoints side by side."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import streamlit as st

from viz_app.analysis.attention import max_pool
from viz_app.analysis.flow import weights_of
from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES
from viz_app.figures.maps import attention_map, difference_map
from viz_app.figures.mosaic import mosaic
from viz_app.records import Trace
from viz_app.views._session import Selection, trace_of
from viz_app.views._widgets import choose_for, choose_one, panel, show_figure
from viz_app.views.choice import (
    HEAD_PANELS,
    Shown,
    axes_of,
    choose_head,
    choose_shown,
    open_clicked,
    redraw_heads,
)
from viz_app.views.translate.lines import show_lines
from viz_app.views.translate.step import STEP_PANELS

View = Literal["map", "lines", "joint"]

MOST_CELLS = 40
"""Cells a side of each head in the picture of all heads."""
_MAP_WIDTH, _THIRD_WIDTH, _FULL_WIDTH = 530, 290, 900
"""Pixels that a map has in a window of 1,280: the large one, one of three, one alone."""
_MOST_SIDE_BY_SIDE = 14
"""Columns; comparisons of longer sentences stand one below the other."""


@panel("heads")
def show_heads(
    selection: Selection,
    first: Trace,
    second: Trace | None,
    reading: Reading,
    *,
    shared: str = "",
) -> None:
    """Draw the heads of one trace, or of two on a target that is said to be ``shared``."""
    layers, heads = first.attention["cross"].shape[:2]
    left, right = st.columns([2, 3], gap="medium")
    with left:
        head = choose_head(layers, heads, on_change=redraw_heads)
    with right:
        shown = choose_shown(head, on_change=redraw_heads)
    grid = make_grid(first, shown.kind, reading)
    if not grid.rows or not grid.columns:
        st.caption("Without special tokens nothing is left of this map.")
        return
    with left:
        _show_mosaic(selection, first, grid, shown)
    with right:
        if second is None:
            _show_large(selection, first, grid, shown, reading)
        else:
            _describe_comparison(selection, first, second, shared)
    if second is not None:
        _show_comparison(selection, first, second, grid, shown)


def _show_large(
    selection: Selection, trace: Trace, grid: Grid, shown: Shown, reading: Reading
) -> None:
    view: View = choose_one(
        "View",
        get_args(View),
        key="view",
        default="map",
        format_func=lambda view: {"joint": "lines of all kinds"}.get(view, view),
        help="The map; its cells as lines from token to token; or the lines of all three kinds of "
        "attention in one picture.",
    )
    st.markdown(f"**{shown.name}**")
    if view == "map":
        _show_map(selection, trace, grid, shown)
    else:
        show_lines(selection, trace, shown, reading, joint=view == "joint")


def _pool_note(grid: Grid) -> str:
    blocks = [math.ceil(n / MOST_CELLS) for n in (len(grid.rows), len(grid.columns))]
    if max(blocks) == 1:
        return "click a head to enlarge it."
    return (
        f"click a head to enlarge it. Each cell here is the largest of {blocks[0]} × {blocks[1]} "
        "weights; the enlarged map has all of them."
    )


def _show_mosaic(selection: Selection, trace: Trace, grid: Grid, shown: Shown) -> None:
    maps = max_pool(grid.apply(weights_of(trace, shown.kind, shown.measure)), MOST_CELLS)
    allowed = grid.allowed
    if allowed is not None:
        allowed = max_pool(allowed.astype(np.float32), MOST_CELLS) > 0

    figure = mosaic(
        maps,
        theme=selection.theme,
        allowed=allowed,
        selected=(shown.layer, shown.head) if shown.aggregate == "head" else None,
    )
    show_figure(
        figure,
        key="mosaic",
        alt=f"{KIND_NAMES[shown.kind]} attention of all heads, a small map each: "
        f"{maps.shape[0]} layers from the top, {maps.shape[1]} heads from the left",
        name=f"{shown.kind}-all-heads",
        on_select=lambda: open_clicked("mosaic", *HEAD_PANELS, show="head"),
    )
    st.caption(f"Step {trace.step:,}: {_pool_note(grid)}")


def _show_map(selection: Selection, trace: Trace, grid: Grid, shown: Shown) -> None:
    """The large map; a click on a row's mark chooses that step of decoding."""

    def take() -> None:
        points = st.session_state["large"].selection.points
        if points:
            choose_for(*STEP_PANELS, at=grid.row_spans[round(points[0]["y"])].start)

    steps = shown.kind != "encoder_self"
    at = min(st.session_state.get("at", 0), len(trace.consumed) - 1)
    figure = attention_map(
        shown.map_of(trace, grid),
        selected=grid.row_of(at) if steps else None,
        width=_MAP_WIDTH,
        **axes_of(grid, selection.theme),
    )
    show_figure(
        figure,
        key="large",
        alt=f"{shown.name}: attention map of {len(grid.rows)} rows ({grid.row_title}) and "
        f"{len(grid.columns)} columns ({grid.column_title})",
        name=shown.file_name,
        on_select=take if steps else None,
    )
    whole = len(grid.columns) == len(grid.spans[1]) or grid.renormalised
    st.caption(shown.note + " Rows sum to 1." * (shown.aggregate != "max" and whole))


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
    selection: Selection, first: Trace, second: Trace, grid: Grid, shown: Shown
) -> None:
    a, b = (shown.map_of(trace, grid) for trace in (first, second))
    axes = axes_of(grid, selection.theme)
    st.markdown(f"**{shown.name}**")
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
            show_figure(
                figure,
                key=key,
                alt=f"{title}: {shown.name}",
                name=f"{shown.file_name}-{title.replace(' ', '-')}",
            )
