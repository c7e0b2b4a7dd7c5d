"""The section "heads" of the page Training: one measure of every head at every checkpoint.

Below stand the stages of the training: measures of whole checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.head_ranking import head_table, head_values, order_by_last_value
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.analysis.measure_descriptions import STAGE_DESCRIPTIONS, describe_stage
from headwise.viz_app.figures.checkpoint_lines import StageChart, measure_lines, stage_charts
from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix
from headwise.viz_app.measuring.files import measured_steps
from headwise.viz_app.records.measures import MEASURES, Measures
from headwise.viz_app.views.shared.head_choice import choices_for, choose_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measures import (
    baselines_note,
    choose_measure,
    measure_description,
    measures_of,
    own_measures,
    show_measure_state,
    value_in_words,
    values_of,
)
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view, redraw_all
from headwise.viz_app.views.shared.widgets import (
    THE_HEAD_ALONE,
    choose_one,
    clicked_value,
    open_page,
    show_figure,
)

_MOST_LINES = 6
_MOST_COLUMNS = 60
"""Checkpoints that are drawn: with more, columns are too narrow to read, and take long to fetch."""


def show_matrix(selection: Selection) -> None:
    """Draw the section."""
    every = selection.run.steps()
    steps = every
    if len(every) > _MOST_COLUMNS:
        there = set(measured_steps(selection.run.folder))
        steps = [step for step in every if step in there] or every
        even = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_COLUMNS)).round().astype(int)
        steps = sorted({every[0], every[-1], selection.step, *(steps[place] for place in even)})
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


@panel("matrix")
def _show_panel(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures at these steps, some of which may have none."""
    choices, picture = st.columns([2, 3], gap="large")
    with choices:
        name = choose_measure(selection.run, by_step.values())
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
    about = measure_description(name, selection.run, by_step.values())
    if not heads:
        st.info(f"There is no value of “{escape_markdown(about.name)}” in these measures.")
        return
    order = order_by_last_value(heads, cells) if by_value else list(range(len(heads)))
    heads, cells = [heads[i] for i in order], cells[order]
    words = [
        [
            value_in_words(selection.run, by_step[step], name, each, float(value))
            if step in by_step
            else "not measured"
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
        for name in (*MEASURES, *own_measures(by_step.values()))
        if measure_description(name, selection.run, by_step.values()).range == "share"
    }
    highest = {
        name: max(values, key=lambda v: -1.0 if np.isnan(v) else v)
        for name, values in lines.items()
    }
    known = [name for name in lines if not np.isnan(highest[name])]
    known.sort(key=lambda name: (name != first, -highest[name]))
    names = {
        name: measure_description(name, selection.run, by_step.values()).name
        for name in known[:_MOST_LINES]
    }
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


def show_stages(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures that have a value at any of these steps, some of which may have none."""
    charts = {
        name: chart
        for name in STAGE_DESCRIPTIONS
        if not all(map(math.isnan, (chart := _chart(name, by_step, steps)).values))
    }
    if not charts:
        return
    ends = []
    for chart in charts.values():
        known = [value for value in chart.values if not math.isnan(value)]
        ends.append(f"{chart.name} from {known[0]:.2f} to {known[-1]:.2f}")
    st.markdown("**Stages of the training**")
    show_figure(
        stage_charts(
            list(charts.values()),
            steps=steps,
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="stages",
        alt=f"Measures of {len(steps)} checkpoints as a whole, below the columns of the "
        f"matrix: {'; '.join(ends)}.",
        name="stages",
        on_select=_go_to_clicked_stage,
    )
    corpus = next(iter(by_step.values())).examples_corpus
    st.caption(
        "Voita, Sennrich and Titov (2021b) find three stages: a training first learns to write the "
        "target language, then to translate word by word, then to reorder. Translations are the "
        f"greedy ones of {corpus.sentences:,} sentences. The columns are those of the matrix; the "
        f"vertical line is at step {selection.step:,}, and a click takes the checkpoint of another "
        "step, as the slider does."
    )
    with st.expander("How these are measured"):
        for name in charts:
            about = STAGE_DESCRIPTIONS[name]
            st.markdown(f"**{about.name}**: {escape_markdown(f'{about.note} {about.source}')}")
            st.latex(about.formula)


def _chart(name: str, by_step: Mapping[int, Measures], steps: Sequence[int]) -> StageChart:
    about = STAGE_DESCRIPTIONS[name]
    values = [by_step[step].stages[name] if step in by_step else math.nan for step in steps]
    reference = None
    if about.reference is not None:
        reference = next(iter(by_step.values())).stages[about.reference]
    return StageChart(
        about.name,
        values,
        [describe_stage(name, value) for value in values],
        None if reference is None or math.isnan(reference) else reference,
    )


def _go_to_clicked_stage() -> None:
    if clicked := clicked_value("stages"):
        change_view(step=int(clicked))
        redraw_all()
