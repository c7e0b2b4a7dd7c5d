"""Room of the page Training: one measure of every head at every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import streamlit as st

from viz_app.analysis.head_words import ABOUT, by_last_value, in_words, table_of, values_of
from viz_app.analysis.labels import KIND_NAMES
from viz_app.figures.head_matrix import Rows, head_matrix, measure_lines
from viz_app.measure_records import MEASURES, Measures
from viz_app.records import KINDS, Head
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_one, panel, plain, show_figure
from viz_app.views.choice import choose_head, head_label
from viz_app.views.heads.measured import choose_measure, measured_of, show_state
from viz_app.views.opening import open_on_translate

_MOST_LINES = 6


def show_matrix(selection: Selection) -> None:
    """Draw the room."""
    measured = measured_of(selection.run, selection.run.steps())
    show_state(selection.run, measured)
    if measured.by_step:
        _show(selection, measured.by_step)


@panel("matrix")
def _show(selection: Selection, by_step: Mapping[int, Measures]) -> None:
    config = selection.run.info.model
    choices, picture = st.columns([2, 3], gap="large")
    with choices:
        name = choose_measure()
        order = choose_one(
            "Rows",
            ["layout", "last value"],
            key="matrix_rows",
            default="layout",
            format_func=lambda order: {"layout": "by layer", "last value": "by last value"}[order],
            help="Kind by kind: by layer and head, or the largest value at the last checkpoint "
            "that was measured first.",
        )
        head = choose_head(config.n_layers, config.n_heads)
        st.button(
            f"Open {head_label(head)} at step {selection.step:,} on Translate",
            key="open_head",
            icon=":material/open_in_new:",
            on_click=lambda: open_on_translate(head, step=selection.step),
        )
        _show_lines(selection, by_step, head, name)
    with picture:
        _show_cells(selection, by_step, name, head, by_value=order == "last value")


def _show_cells(
    selection: Selection,
    by_step: Mapping[int, Measures],
    name: str,
    head: Head,
    *,
    by_value: bool,
) -> None:
    steps = selection.run.steps()
    columns = [by_step[step].values[name] if step in by_step else None for step in steps]
    heads, cells = table_of(columns)
    about = ABOUT[name]
    if not heads:
        st.info(f"There is no value of “{plain(about.name)}” in these measures.")
        return
    order = by_last_value(heads, cells) if by_value else list(range(len(heads)))
    heads, cells = [heads[i] for i in order], cells[order]
    words = [
        [
            in_words(name, each[0], float(value)) if step in by_step else "not measured"
            for step, value in zip(steps, row, strict=True)
        ]
        for each, row in zip(heads, cells, strict=True)
    ]

    def take() -> None:
        points = st.session_state["head_matrix"].selection.points
        if points:
            kind, layer, number, step = points[0]["customdata"].split(",")
            open_on_translate((kind, int(layer), int(number)), step=int(step))

    left_out = [KIND_NAMES[kind] for kind in KINDS if all(one[0] != kind for one in heads)]
    figure = head_matrix(
        Rows(heads, [head_label(each) for each in heads], cells, words),
        steps=steps,
        kinds=KIND_NAMES,
        signed=about.signed,
        theme=selection.theme,
        selected=(head, selection.step),
    )
    show_figure(
        figure,
        key="head_matrix",
        alt=f"{about.name} of {len(heads)} heads at {len(steps)} checkpoints. {about.note}",
        name=f"heads-{name}",
        on_select=take,
    )
    note = "Rows are layer.head, columns training steps. Click a cell to open that head at that "
    note += "step on Translate."
    if np.isnan(cells).any():
        note += " Grey cells have no value."
    if left_out:
        note += f" It has no meaning for {' and '.join(left_out)} attention."
    st.caption(note)


def _show_lines(
    selection: Selection, by_step: Mapping[int, Measures], head: Head, first: str
) -> None:
    """The head's measures from 0 to 1 over the steps: the chosen one, then the largest."""
    steps = selection.run.steps()
    over_steps = [
        values_of(by_step[step].values, head) if step in by_step else {} for step in steps
    ]
    lines = {
        name: [values.get(name, np.nan) for values in over_steps]
        for name in MEASURES
        if not ABOUT[name].signed
    }
    highest = {
        name: max(values, key=lambda v: -1.0 if np.isnan(v) else v)
        for name, values in lines.items()
    }
    known = [name for name in lines if not np.isnan(highest[name])]
    known.sort(key=lambda name: (name != first, -highest[name]))
    shown = {ABOUT[name].name: lines[name] for name in known[:_MOST_LINES]}
    if not shown:
        return
    title = f"{head_label(head)} over training"
    st.markdown(f"**{title}**")
    figure = measure_lines(
        shown, steps=steps, theme=selection.theme, marked=steps.index(selection.step)
    )
    show_figure(
        figure,
        key="head_lines",
        alt=f"{title}: {', '.join(shown)}, by step",
        name=f"measures-of-{head[0]}-layer{head[1] + 1}-head{head[2] + 1}",
    )
    st.caption(
        "Measures from 0 to 1 of this head: the chosen one and the largest of the others; the line "
        f"is step {selection.step:,}."
    )
