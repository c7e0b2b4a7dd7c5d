"""The section "heads" of the page Training: one measure of every head at every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.head_ranking import head_table, head_values, order_by_last_value
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.analysis.measure_descriptions import MEASURE_DESCRIPTIONS
from headwise.viz_app.figures.checkpoint_lines import measure_lines
from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix
from headwise.viz_app.measuring.files import measured_steps
from headwise.viz_app.records.measures import MEASURES, Measures
from headwise.viz_app.views.shared.head_choice import choices_for, choose_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measures import (
    baselines_note,
    choose_measure,
    measures_of,
    show_measure_state,
    value_in_words,
    values_of,
)
from headwise.viz_app.views.shared.opening import THE_HEAD_ALONE, open_page
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.special_tokens import measure_description
from headwise.viz_app.views.shared.widgets import choose_one, clicked_value, show_figure
from headwise.viz_app.views.training.stages import show_stages

_MOST_LINES = 6
_MOST_COLUMNS = 60
"""Checkpoints that are drawn: with more, columns are too narrow to read, and take long to fetch."""


def show_matrix(selection: Selection) -> None:
    """Draw the section."""
    every = selection.run.steps()
    steps = every
    if len(every) > _MOST_COLUMNS:
        there = set(measured_steps(selection.run.folder))
        steps = _spread([step for step in every if step in there] or every)
        steps = sorted({every[0], every[-1], selection.step, *steps})
    measured = measures_of(selection.run, steps)
    show_measure_state(selection.run, measured)
    if len(steps) < len(every):
        st.caption(
            f"Shown are {len(steps)} of {len(every):,} checkpoints: the first, the last, the "
            "chosen one, and others that are spread evenly over those that are measured."
        )
    if len(measured.by_step) == 1:
        steps = [*measured.by_step]
        st.caption(
            f"One checkpoint is measured, that of step {steps[0]:,}: there are no values over "
            "training yet."
        )
    if measured.by_step:
        _show_panel(selection, measured.by_step, steps)


def _spread(steps: Sequence[int]) -> list[int]:
    """Return the first step, the last and others between, at most ``_MOST_COLUMNS``.

    They are evenly spaced in the list.
    """
    places = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_COLUMNS)).round().astype(int)
    return [steps[place] for place in places]


@panel("matrix")
def _show_panel(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures at these steps, some of which may have none."""
    choices, picture = st.columns([2, 3], gap="large")
    with choices:
        name = choose_measure(selection.run)
        order = choose_one(
            "Rows",
            ["layout", "last value"],
            key="matrix_rows",
            format_func=lambda order: {"layout": "by layer", "last value": "by last value"}[order],
            help="Kind by kind: by layer and head, or the largest value at the last checkpoint "
            "that was measured first.",
        )
        head = choose_head(selection.run.description)
        st.button(
            f"Open {head_label(head)} at step {selection.step:,} on Translate",
            key="open_head",
            icon=":material/open_in_new:",
            on_click=lambda: open_page("translate", **choices_for(head), **THE_HEAD_ALONE),
        )
        if len(steps) > 1:
            _show_lines(selection, by_step, steps, head, name)
    with picture:
        _show_cells(selection, by_step, steps, name, head, by_value=order == "last value")
        if len(steps) > 1:
            show_stages(selection, by_step, steps)


def _show_cells(
    selection: Selection,
    by_step: Mapping[int, Measures],
    steps: Sequence[int],
    name: str,
    head: Head,
    *,
    by_value: bool,
) -> None:
    columns = [
        values_of(selection.run, by_step[step], name) if step in by_step else None for step in steps
    ]
    heads, cells = head_table(columns)
    about = measure_description(name, selection.run)
    if not heads:
        st.info(f"There is no value of “{escape_markdown(about.name)}” in these measures.")
        return
    order = order_by_last_value(heads, cells) if by_value else list(range(len(heads)))
    heads, cells = [heads[i] for i in order], cells[order]
    words = [
        [
            _in_words(selection, by_step.get(step), name, each, float(value))
            for step, value in zip(steps, row, strict=True)
        ]
        for each, row in zip(heads, cells, strict=True)
    ]

    def open_cell() -> None:
        if clicked := clicked_value("head_matrix"):
            kind, layer, number, step = clicked.split(",")
            clicked_head = Head(cast(Kind, kind), int(layer), int(number))
            open_page("translate", step=int(step), **choices_for(clicked_head), **THE_HEAD_ALONE)

    left_out = [KIND_NAMES[kind] for kind in KINDS if all(one[0] != kind for one in heads)]
    figure = head_matrix(
        HeadRows(heads, [head_label(each) for each in heads], cells, words),
        steps=steps,
        kinds=KIND_NAMES,
        measured=about.name,
        values=about.range,
        theme=selection.theme,
        selected=(head, selection.step),
    )
    show_figure(
        figure,
        key="head_matrix",
        alt=f"{about.name} of {len(heads)} heads at {len(steps)} checkpoint"
        f"{'s' * (len(steps) != 1)}. {about.note}",
        name=f"heads-{name}",
        on_select=open_cell,
    )
    note = "Rows are layer.head, columns training steps. Click a cell to open that head at that "
    note += "step on Translate."
    if np.isnan(cells).any():
        note += " Grey cells have no value."
    note += baselines_note(name, list(by_step.values())[-1])
    if left_out:
        note += f" It has no meaning for {' and '.join(left_out)} attention."
    st.caption(note)


def _in_words(
    selection: Selection, measures: Measures | None, name: str, head: Head, value: float
) -> str:
    """Say what a cell of the matrix has."""
    if measures is None:
        return "not measured"
    return value_in_words(selection.run, measures, name, head, value)


def _show_lines(
    selection: Selection,
    by_step: Mapping[int, Measures],
    steps: Sequence[int],
    head: Head,
    first: str,
) -> None:
    """Draw the head's measures from 0 to 1 over the steps: the chosen one, then the largest."""
    over_steps = [
        head_values(by_step[step].values, head) if step in by_step else {} for step in steps
    ]
    lines = {
        name: [values.get(name, np.nan) for values in over_steps]
        for name in MEASURES
        if MEASURE_DESCRIPTIONS[name].range == "share"
    }
    highest = {
        name: max(values, key=lambda v: -1.0 if np.isnan(v) else v)
        for name, values in lines.items()
    }
    known = [name for name in lines if not np.isnan(highest[name])]
    known.sort(key=lambda name: (name != first, -highest[name]))
    names = {name: measure_description(name, selection.run).name for name in known[:_MOST_LINES]}
    shown = {names[name]: lines[name] for name in names}
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
        "Measures from 0 to 1 of this head: the chosen one and the largest of the others; the "
        f"vertical line is at step {selection.step:,}."
    )
