"""Show all heads in one picture, one of them large, and two checkpoints side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Literal, get_args

import streamlit as st

from headwise.model.interface import Kind
from headwise.viz_app.analysis.attention import max_pool
from headwise.viz_app.analysis.grid import Grid
from headwise.viz_app.analysis.labels import KIND_NAMES, token_label
from headwise.viz_app.analysis.rollout import CellValue, map_of_heads, weights_of
from headwise.viz_app.components.heat_map import Cells
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.html import scale_legend
from headwise.viz_app.figures.maps import attention_map, difference_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import trace_of
from headwise.viz_app.session.head_choice import (
    choices_for,
    choose_clicked_head,
    choose_head,
    choose_units,
    head_toolbar,
    token_axes,
)
from headwise.viz_app.session.inspector import inspecting
from headwise.viz_app.session.lessons import answered
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target_text, total_log_probability
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, redraw_all, view
from headwise.viz_app.session.widgets import choose_one, open_page, show_figure
from headwise.viz_app.translate.lines import show_lines
from headwise.viz_app.translate.map_words import show_head_line, show_head_words, show_next_tokens
from headwise.viz_app.translate.mixed import show_mixed, show_with_residual
from headwise.viz_app.translate.shown_map import (
    HEAD_PANELS,
    ShownMap,
    choose_cells,
    choose_options,
    choose_window,
    large_map,
    redraw_heads,
    show_help,
)
from headwise.viz_app.translate.sinks.section import show_special_weight
from headwise.viz_app.translate.step import STEP_PANELS

_Style = Literal["map", "lines", "joint"]

MOST_CELLS = 40
"""Cells a side of each head in the picture of all heads."""
_SHARES, _FEW = {False: (3, 8), True: (2, 3)}, 6
"""What the picture of all heads and the large map have of the width, with few heads or many."""


@panel("heads")
@inspecting
def show_heads(
    selection: Selection,
    first: Trace,
    second: Trace | None,
    grids: Mapping[Kind, Grid],
    *,
    shared: str = "",
) -> None:
    """Draw the heads of one trace, or of two on a target that ``shared`` names.

    ``grids`` are the rows and columns of the maps of the traces.
    """
    most = max(heads for _, heads in selection.run.description.shapes.values())
    with st.container(key="heads-and-map"):
        left, right = st.columns(_SHARES[most > _FEW], gap="small")
    with left:
        head = choose_head(selection.run.description, on_change=redraw_heads)
    with right:
        style, cells = _choose_drawing(selection, compares=second is not None)
    shown, grid = ShownMap(head, view().translate.show, cells), grids[head.kind]
    if not grid.rows or not grid.columns:
        st.caption("Without special tokens nothing is left of this map.")
        return
    with right:
        show_head_line(shown, _note_on_map(selection, first, grid, shown))
        if second is not None:
            compared = sorted((first, second), key=attrgetter("step"))
            _show_comparison(selection, compared, shared, grid, shown)
        elif style == "map":
            show_special_weight(selection, first)
            _show_map(selection, first, grid, shown)
            if shown.aggregate == "rollout":
                show_mixed(selection, first, grid, shown)
            elif (shown.aggregate, shown.cell_value) == ("mean", "value norm"):
                show_with_residual(selection, first, grid, shown)
        else:
            show_lines(selection, first, shown, grids, joint=style == "joint")
    with left, st.container(key="overview"):
        _show_mosaic(selection, first, grid, shown)
        show_head_words(selection, first, shown, grid)


def _choose_drawing(selection: Selection, *, compares: bool) -> tuple[_Style, CellValue]:
    """Ask, right above the large map, how it is drawn: as what, of which cells, and options."""
    style: _Style = "map"
    with head_toolbar("map-toolbar"):
        if not compares:
            style = choose_one(
                "View",
                get_args(_Style),
                key="style",
                format_func=lambda style: {"joint": "each kind"}.get(style, style),
                show_label=False,
            )
        choose_units(show_label=False, on_change=redraw_all)
        cells = choose_cells()
        choose_options(selection.run)
        show_help(selection.run.description)
    return style, cells


def _show_mosaic(selection: Selection, trace: Trace, grid: Grid, shown: ShownMap) -> None:
    kind, layer, head = shown.head
    maps = max_pool(grid.apply(weights_of(trace, kind, shown.cell_value)), MOST_CELLS)
    figure = mosaic(
        maps,
        theme=selection.theme,
        selected=(layer, head) if shown.aggregate == "head" else None,
        **grid.pooled(MOST_CELLS),
    )
    show_figure(
        figure,
        key="mosaic",
        alt=f"{KIND_NAMES[kind]} attention of all heads, a small map each: "
        f"{maps.shape[0]} layers from the top, {maps.shape[1]} heads from the left",
        name=f"{kind}-all-heads",
        on_select=lambda: choose_clicked_head("mosaic", *HEAD_PANELS, show="head"),
        axes=token_axes(kind, grid),
        previews="large",
    )
    legend = scale_legend(
        selection.theme, f"probability, {shown.measured}", masked=grid.allowed is not None
    )
    high, wide = (math.ceil(n / MOST_CELLS) for n in (len(grid.rows), len(grid.columns)))
    pooled = (
        f"Each cell here is the largest of {high} × {wide} weights; the enlarged map has all of "
        "them."
    )
    with st.container(gap="xsmall", key="mosaic-legend"):
        st.html(legend)
        st.caption(
            f"Checkpoint {trace.step:,}: click a head to enlarge it.",
            help=pooled if max(high, wide) > 1 else None,
        )
        _offer_first_step(selection)


def _offer_first_step(selection: Selection) -> None:
    """Offer the same maps before anything was learned, beside these."""
    first = selection.run.steps()[0]
    if first < selection.step and not view().translate.compare:
        st.button(
            "Compare with the untrained model" if first == 0 else f"Compare with step {first:,}",
            key="beside-first",
            type="tertiary",
            icon=":material/compare:",
            on_click=lambda: change_view(WHOLE_PAGE, compare=True, second=first),
        )


def _show_map(selection: Selection, trace: Trace, grid: Grid, shown: ShownMap) -> None:
    """Draw the large map.

    Its cells open Inside a head, its rows choose a step of decoding.
    """

    def open_cell(row: int, column: int) -> None:
        query, key = grid.row_spans[row].start, grid.column_spans[column].start
        if answer := answered("cell", query, key):
            mark = {"column": key} if shown.head.kind != "decoder_self" else {}
            change_view("tokens", "heads", **answer, **mark)
        elif answer := answered("row", query):
            change_view(*STEP_PANELS, **answer, **({"at": query} if steps else {}))
        else:
            open_page("inside", inside="scores", query=query, key=key, **choices_for(shown.head))

    def choose_step(row: int) -> None:
        at = grid.row_spans[row].start
        answer = answered("row", at) | answered("target", at)
        change_view(*STEP_PANELS, at=at, below="steps", first_row=first_row, **answer)

    steps = shown.head.kind != "encoder_self"
    weights = map_of_heads(trace, *shown, to_grid=grid.apply)
    map_place = st.container(key="large-map")
    rows, columns = choose_window(weights, grid.row_of(view().at) if steps else None)
    first_row = rows.start if rows != slice(0, len(grid.rows)) else None
    weights, grid = weights[rows, columns], grid.part(rows, columns)
    selected = grid.row_of(min(view().at, len(trace.consumed) - 1)) if steps else None
    of_source = view().column if shown.head.kind != "decoder_self" else None
    column = grid.column_of(of_source) if of_source is not None else None
    figure = attention_map(
        weights,
        selected=selected,
        column=column,
        measured=shown.measured,
        **large_map(grid, selection.theme),
    )
    of_lesson = answered("cell", 0, 0) | answered("row", 0)
    answers = "answer the question" if of_lesson else "open it in Inside a head"
    with map_place:
        show_figure(
            figure,
            key="large",
            alt=f"{shown.name}: attention map of {grid.said}",
            name=shown.file_name,
            axes=token_axes(shown.head.kind, grid),
            cells=Cells(
                (selected or 0, column or 0),
                f"Click a cell (Enter) to {answers}"
                + "; a row's label (space) to choose it" * steps
                + ".",
                open_cell,
                choose_step if steps else None,
            ),
        )
    if steps:
        show_next_tokens(selection, trace)


def _note_on_map(selection: Selection, trace: Trace, grid: Grid, shown: ShownMap) -> str:
    whole = len(grid.columns) == len(grid.spans[1]) or grid.renormalised
    of_rows = " Rows sum to 1." * (shown.aggregate != "max" and whole)
    merged = selection.run.description.merged_attention and shown.head.kind != "encoder_self"
    if merged and shown.cell_value == "weight":
        of_rows = _of_both_halves(trace, shown)
    return shown.note + of_rows


def _of_both_halves(trace: Trace, shown: ShownMap) -> str:
    """Say how a softmax over target and source is divided between the two, where it is shown."""
    _, layer, head = shown.head
    if shown.aggregate == "rollout":
        return " Rows sum to 1: a row's weights in this half are divided by their sum first."
    at = min(view().at, len(trace.consumed) - 1)
    heads = [head] if shown.aggregate == "head" else slice(None)
    of_target, of_source = (
        float(trace.attention[kind][layer, heads, at].sum(axis=-1).mean())
        for kind in ("decoder_self", "cross")
    )
    who = "This head gives" if shown.aggregate == "head" else "The heads of this layer give"
    whose = "its" if shown.aggregate == "head" else "their"
    predicted = escape_markdown(token_label(trace.predicted.texts[at]))
    return (
        f" {who} {of_target:.0%} of {whose} weight to target tokens and {of_source:.0%} to source "
        f"tokens where “{predicted}” is predicted, by one softmax, so that rows here sum to less "
        "than 1."
    )


def _show_comparison(
    selection: Selection, compared: Sequence[Trace], shared: str, grid: Grid, shown: ShownMap
) -> None:
    """Draw the maps of the earlier and of the later checkpoint, and their difference.

    As many stand side by side as have room, and what they are of in the next place.
    """
    earlier, later = compared
    a, b = (map_of_heads(trace, *shown, to_grid=grid.apply) for trace in compared)
    axes, first = large_map(grid, selection.theme), f"{earlier.step:,}"
    with st.container(key="compared"):
        for key, steps, figure in (
            ("earlier_map", first, attention_map(a, measured=shown.measured, **axes)),
            ("later_map", f"{later.step:,}", attention_map(b, measured=shown.measured, **axes)),
            ("difference", f"{later.step:,} minus {first}", difference_map(b - a, **axes)),
        ):
            title = f"Checkpoint {steps}"
            with st.container():
                st.text(title)
                show_figure(
                    figure,
                    key=key,
                    alt=f"{title}: {shown.name}",
                    name=f"{shown.file_name}-{title.replace(' ', '-')}",
                )
        with st.container():
            st.caption(
                f"All maps are of one target, {shared}, given to both checkpoints, so that their "
                "rows and columns are the same."
            )
            for trace in compared:
                own = trace_of(selection.run, trace.step, selection.text)
                total = total_log_probability(trace)
                st.markdown(f"**Checkpoint {trace.step:,}**, own translation:")
                show_target_text(own.target_text, key=f"own-{trace.step}")
                st.caption(f"Log-probability that it gives to the shared target: {total:.2f} nats")
