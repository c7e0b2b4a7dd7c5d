"""The section "heads" of the page Training: a value of every head at every checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.head_ranking import head_table, head_values, order_by_last_value
from headwise.viz_app.analysis.labels import KIND_NAMES, count_of
from headwise.viz_app.figures.checkpoint_lines import measure_lines
from headwise.viz_app.figures.heads import HeadRows, head_matrix
from headwise.viz_app.measuring.files import measured_steps
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES, OF_WEIGHTS
from headwise.viz_app.measuring.head_words import Phase, phases
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import MeasureRange, Measures
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.given import measured_by_weights
from headwise.viz_app.session.head_choice import choices_for, choose_head, head_label
from headwise.viz_app.session.inspector import inspector
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measured_heads import HeadsInWords, error_of
from headwise.viz_app.session.measures import (
    baselines_note,
    choose_measure,
    measure_description,
    measures_of,
    own_measures,
    show_measure_state,
    values_of,
)
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import (
    THE_HEAD_ALONE,
    choose_one,
    clicked_value,
    open_page,
    show_figure,
)

_MOST_LINES = 6
_MOST_PHASES = 3


def show_matrix(selection: Selection) -> None:
    """Draw the section on a corpus."""
    steps = measured_steps_of(selection)
    measured, above = measures_of(selection.run, steps), st.container()
    by_step = {**measured_by_weights(selection.run, steps), **measured.by_step}
    selection.say_steps(steps)
    if len(by_step) == 1:
        steps = [*by_step]
        say_one_measured(*steps)
    if by_step:
        _show_panel(selection, by_step, steps)
    with above:  # last: measuring goes on there
        show_measure_state(selection, measured)


def measured_steps_of(selection: Selection) -> list[int]:
    """Return the checkpoints to draw, of a long training some of those that are measured."""
    there = set(measured_steps(selection.run.folder))
    return selection.steps(among=[step for step in selection.run.steps() if step in there])


def say_one_measured(step: int) -> None:
    """Say that there is nothing to draw over training."""
    st.caption(
        f"One checkpoint is measured, that of step {step:,}: there are no values over training yet."
    )


@panel("matrix")
def _show_panel(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int]
) -> None:
    """Draw the measures at these steps, some of which may have none, or those of weights only."""
    whole = {step: of for step, of in by_step.items() if of.corpus.sentences}
    choices, picture = st.columns([2, 3], gap="large")
    with inspector(selection):
        with choices:
            name = choose_measure(selection.run, by_step.values())
            if not whole and name not in OF_WEIGHTS:
                name = OF_WEIGHTS[0]
                about = measure_description(name, selection.run, by_step.values())
                st.caption(
                    f"Drawn is “{escape_markdown(about.name)}”, which needs the weights alone, "
                    "until a checkpoint is measured on the sentences."
                )
            order = choose_order()
            head = choose_head(selection.run.description)
            if len(steps) > 1 and whole:
                _show_history(selection, whole, steps, head)
                _show_lines(selection, whole, steps, head, name)
        with picture:
            _show_measure(selection, by_step, steps, name, head, order)


def _show_measure(
    selection: Selection,
    by_step: Mapping[int, Measures],
    steps: Sequence[int],
    name: str,
    head: Head,
    order: str,
) -> None:
    columns = [
        values_of(selection.run, by_step[step], name) if step in by_step else None for step in steps
    ]
    heads, cells = head_table(columns)
    about = measure_description(name, selection.run, by_step.values())
    if not heads:
        st.info(f"There is no value of “{escape_markdown(about.name)}” in these measures.")
        return

    say = {step: HeadsInWords(selection.run, measures) for step, measures in by_step.items()}

    def words(each: Head, step: int, value: float) -> str:
        return say[step].value(name, each, value) if step in say else "not measured"

    note = show_cells(
        selection,
        heads,
        cells,
        steps=steps,
        order=order,
        words=words,
        name=name,
        measured=about.name,
        values=about.range,
        about=about.note,
        selected=head,
        on_click=lambda each, step: open_page(
            "translate", step=step, **choices_for(each), **THE_HEAD_ALONE
        ),
    )
    note += " Click a cell to open that head at that checkpoint on Translate."
    st.caption(note + baselines_note(name, selection.run, list(by_step.values())[-1]))


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
    names, lines, highest = dict[str, str](), dict[str, list[float]](), dict[str, float]()
    for name in (*MEASURES, *own_measures(by_step.values())):
        about = measure_description(name, selection.run, by_step.values())
        values = [each.get(name, np.nan) for each in over_steps]
        if about.range == "share" and not np.isnan(values).all():
            names[name], lines[name], highest[name] = about.name, values, np.nanmax(values)
    order = sorted(lines, key=lambda name: (name != first, -highest[name]))
    shown = {names[name]: lines[name] for name in order[:_MOST_LINES]}
    if not shown:
        return
    title = f"{head_label(head)} over training"
    st.markdown(
        f"**{title}**",
        help="Measures from 0 to 1 of this head: the chosen one and the largest of the others; the "
        f"vertical line is at step {selection.step:,}.",
    )
    figure = measure_lines(
        shown, steps=steps, theme=selection.theme, marked=steps.index(selection.step)
    )
    show_figure(
        figure,
        key="head_lines",
        alt=f"{title}: {', '.join(shown)}, by training step",
        name=f"measures-of-{head[0]}-layer{head[1] + 1}-head{head[2] + 1}",
    )


def _show_history(
    selection: Selection, by_step: Mapping[int, Measures], steps: Sequence[int], head: Head
) -> None:
    """Say when what is said of the head at the last of these checkpoints became so."""
    run = selection.run
    measured = {step: by_step[step] for step in steps if step in by_step}
    say = {step: HeadsInWords(run, measures) for step, measures in measured.items()}
    at_last = [*say.values()][-1]
    told = {name: _told(measured, say, name, head) for name in at_last.striking(head)}
    rows = [
        f"- **{measure_description(name, run, by_step.values()).name}**: {text}"
        for name, text in told.items()
        if text
    ]
    if not rows:
        return
    with st.container(gap="xsmall", key="head-history"):
        st.markdown(
            f"**How {head_label(head)} came to be what it is**",
            help="At the last of these checkpoints, with values and their standard errors. A word "
            "stays until a value is more than two of these from the last that had it by itself. "
            + at_last.by_chance(run.description.all_heads()),
        )
        st.markdown("\n".join(rows))


def _told(
    measured: Mapping[int, Measures], say: Mapping[int, HeadsInWords], name: str, head: Head
) -> str:
    """Say when what is said of a measure of a head changed, the last times; "" if nothing is.

    Dots stand for what was before these. ``say`` has the words of values at each step.
    """
    form = DESCRIBED[name].form
    values = {step: head_values(of.values, head)[name] for step, of in measured.items()}
    errors = {step: error_of(of, name, head) for step, of in measured.items()}

    def at(step: int) -> str:
        return f"{step:,} ({with_error(values[step], errors[step], form)})"

    def write(phase: Phase) -> str:
        said = f"“{phase.said}”" if phase.said else "no clear pattern"
        if phase.first == phase.last:
            return f"{said} at step {at(phase.first)}"
        return f"{said} from step {at(phase.first)} to {at(phase.last)}"

    found = phases(
        {step: say[step].value(name, head, value) for step, value in values.items()},
        {step: (value, errors[step]) for step, value in values.items()},
    )
    if not any(phase.said for phase in found):
        return ""
    before = "…; " if len(found) > _MOST_PHASES else ""
    return escape_markdown(before + "; ".join(map(write, found[-_MOST_PHASES:])))


def choose_order() -> str:
    """Ask for the order of the rows: ``layout`` or ``last value``."""
    return choose_one(
        "Rows",
        ["layout", "last value"],
        key="matrix_rows",
        format_func=lambda order: {"layout": "by layer", "last value": "by last value"}[order],
        help="Kind by kind: by layer and head, or the largest value at the last checkpoint that "
        "has one first.",
    )


def show_cells(
    selection: Selection,
    heads: Sequence[Head],
    cells: Floats,
    *,
    steps: Sequence[int],
    order: str,
    words: Callable[[Head, int, float], str],
    name: str,
    measured: str,
    values: MeasureRange,
    about: str,
    selected: Head,
    on_click: Callable[[Head, int], None],
) -> str:
    """Draw the values (heads, steps) of some heads, and return what is to be said below.

    Args:
        selection: the run and its chosen step.
        heads, cells, steps: rows, values and columns; NaN where there is no value.
        order: of the rows, as ``choose_order`` gives it.
        words: says what the value of a head at a step means.
        name: of the file of the picture.
        measured: the name of what the values are.
        values: their range.
        about: a sentence on them, for those who cannot see the picture.
        selected: the head whose cell is framed.
        on_click: is called with the head and the step of a clicked cell.
    """
    if order == "last value":
        places = order_by_last_value(heads, cells)
        heads, cells = [heads[place] for place in places], cells[places]

    def click() -> None:
        if clicked := clicked_value("head_matrix"):
            kind, layer, number, step = clicked.split(",")
            on_click(Head(cast(Kind, kind), int(layer), int(number)), int(step))

    said = [
        [words(head, step, float(value)) for step, value in zip(steps, row, strict=True)]
        for head, row in zip(heads, cells, strict=True)
    ]
    show_figure(
        head_matrix(
            HeadRows(heads, [head_label(head) for head in heads], cells, said),
            steps=steps,
            kinds=KIND_NAMES,
            measured=measured,
            values=values,
            theme=selection.theme,
            selected=(selected, selection.step),
        ),
        key="head_matrix",
        alt=f"{measured} of {count_of(len(heads), 'head')} at "
        f"{count_of(len(steps), 'checkpoint')}. {about}",
        name=f"heads-{name}",
        on_select=click,
    )
    note = "Rows are layer.head, columns training steps."
    if np.isnan(cells).any():
        note += " Grey cells have no value."
    if left_out := [KIND_NAMES[kind] for kind in KINDS if all(one.kind != kind for one in heads)]:
        note += f" It has no meaning for {' and '.join(left_out)} attention."
    return note
