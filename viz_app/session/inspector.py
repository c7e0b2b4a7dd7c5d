"""Draws the inspector: in the sidebar of all pages that have a chosen head, what there is of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from html import escape
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from headwise.model.interface import Head
from headwise.model.turned import TurnedHead
from headwise.viz_app.analysis.attention import max_pool, pool_mask
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.figures.checkpoint_lines import spark_line
from headwise.viz_app.figures.heads import head_image
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.example_rows import marked_row, open_row
from headwise.viz_app.session.head_choice import choices_for, chosen_head, head_label, token_axes
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measured_heads import HeadsInWords, choices_over_training
from headwise.viz_app.session.measures import (
    known_measures,
    measure_description,
    measures_of,
    values_of,
)
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import shown_trace
from headwise.viz_app.session.view import change_view, current_page, redraw_all, view
from headwise.viz_app.session.widgets import (
    PAGE_TITLES,
    THE_HEAD_ALONE,
    PageName,
    bring_into_view,
    open_page,
    show_link,
)

Given = ParamSpec("Given")
Result = TypeVar("Result")
_MOST_EXAMPLES = 3
_MOST_KEYS = 3
"""Keys of the chosen row that are named."""


@dataclass
class Inspected:
    """The inspector is of this trace and row, unless what is drawn with it says another."""

    trace: Trace | None
    """Without one it is that of the sentence."""
    row: int | None = None
    """The row of a decoder's map; without one it is what was chosen on the page."""


def inspecting(draw: Callable[Given, Result]) -> Callable[Given, Result]:
    """Have a function that is given the selection, and perhaps a trace, draw the inspector, too."""

    @wraps(draw)
    def with_inspector(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        selection = next(each for each in args if isinstance(each, Selection))
        with inspector(selection, next((each for each in args if isinstance(each, Trace)), None)):
            return draw(*args, **kwargs)

    return with_inspector


@contextmanager
def inspector(selection: Selection, trace: Trace | None = None) -> Iterator[Inspected]:
    """Draw the inspector in the sidebar, once what is in the ``with`` block was drawn."""
    # First of all: Streamlit keeps a panel a place outside of it only if it draws there every time.
    place = st.sidebar.container(gap="xsmall", key="inspector")
    inspected = Inspected(trace)
    yield inspected
    run, trace = selection.run, inspected.trace
    head = chosen_head(run.description, view())
    measures = measures_of(run, [selection.step]).by_step.get(selection.step)
    with place, show_user_errors():
        _say_what_it_does(selection, measures, head)
        with st.container(horizontal=True, gap="small", key="inspected"):
            picture = st.container(width=112)
            _show_ways(selection, measures, head)
        row = st.container()
        if measures is not None:
            _show_over_training(selection, measures, head)
            _show_examples(selection, measures, head)
        with picture:
            if trace is None:
                with suppress(ValueError):  # as of a sentence that is too long, which others say
                    trace = shown_trace(selection)
            if trace is not None:
                grid = make_grid(trace, head.kind)
                chosen = _chosen_cell(head, inspected)
                _show_map(selection, trace, head, grid, chosen)
                with row:
                    _say_row(trace, head, grid, chosen)


def _say_what_it_does(selection: Selection, measures: Measures | None, head: Head) -> None:
    """Draw the name of a head and a few words, behind whose sign the numbers are."""
    run, name = selection.run, f"**{head_label(head)}**"
    if measures is None:
        st.markdown(name)
        return
    words = HeadsInWords(run, measures)
    plain, said = map(escape_markdown, words.head(head))
    over = f"{measures.corpus.sentences:,} sentences"
    by_chance = words.by_chance(run.description.all_heads())
    st.markdown(f"{name}: {plain}", help=f"Over {over}: {said}. {by_chance}")


def _show_ways(selection: Selection, measures: Measures | None, head: Head) -> None:
    """Draw what one does with a head: switch it off, or open it on another page."""
    to_pages: dict[PageName, dict[str, Any]] = {
        "translate": THE_HEAD_ALONE,
        "inside": {},
        "why": {"why": "this word"},
        "training": choices_over_training(selection.run, measures, head),
        "heads": {"heads": "atlas"},
    }
    is_off = TurnedHead(head) in view().strengths
    with st.container(key="head-ways"):
        st.button(
            "On again" if is_off else "Off",
            key="turn-head",
            type="tertiary",
            icon=":material/power_settings_new:",
            on_click=_turn,
            args=(head, is_off),
        )
        for page, choices in to_pages.items():
            if page != current_page():
                title = PAGE_TITLES[page].partition(" ")[0]
                show_link(title, page, key=f"head-{page}", **(choices_for(head) | choices))


def _turn(head: Head, is_off: bool) -> None:
    """Switch a head off, or on again, and open where its effect is seen."""
    others = tuple(each for each in view().strengths if each.head != head)
    strengths = others if is_off else (*others, TurnedHead(head))
    redraw_all()
    if current_page() == "why":
        change_view(strengths=strengths, why="turn heads")
        return
    if not is_off:
        bring_into_view("switched-off")
    if current_page() == "translate":
        change_view(strengths=strengths, below="off")
    elif is_off:
        change_view(strengths=strengths)
    else:
        open_page("translate", strengths=strengths, below="off", **choices_for(head))


def _show_over_training(selection: Selection, measures: Measures, head: Head) -> None:
    """Write the head's value of the chosen measure, and draw it over the measured checkpoints."""
    run, (kind, layer, number) = selection.run, head
    name = view().measure if view().measure in known_measures([measures]) else "cost"
    value = float(values_of(run, measures, name)[kind][layer, number])
    if math.isnan(value):
        return
    about = measure_description(name, run, [measures])
    said = f"{about.name}: {HeadsInWords(run, measures).with_error(name, head, value)}"
    st.caption(escape_markdown(f"{said} {about.unit}".rstrip()))
    by_step = measures_of(run, selection.steps()).by_step
    steps = [step for step, each in by_step.items() if each.corpus == measures.corpus]
    values = [
        float(by_step[step].values[name][kind][layer, number])
        if name in by_step[step].values
        else math.nan
        for step in steps
    ]
    line = spark_line(values, marked=steps.index(selection.step), theme=selection.theme)
    if line:
        alt = f"{about.name} of {head_label(head)} at {len(steps)} checkpoints"
        st.html(f'<img alt="{escape(alt)}" src="{line}">')


def _show_examples(selection: Selection, measures: Measures, head: Head) -> None:
    """Draw the strongest rows of a head as query and key; a click opens one on Translate."""
    found = measures.examples.get(head, ())[:_MOST_EXAMPLES]
    if not found or current_page() == "heads":  # whose atlas has them all
        return
    st.caption("Strongest: query → key")
    with st.container(gap=None, key="head-examples"):
        for place, each in enumerate(found):
            keys = [each.key]
            texts = marked_row(selection.run, measures, each.sentence, head.kind, each.query, keys)
            parts = [part for text in texts for part in text.parts]
            query, key = (
                next((part.text for part in parts if mark in part.mark), "")
                for mark in ("query", "key")
            )
            st.button(
                escape_markdown(f"{query} → {key} {each.weight:.3f}"),
                key=f"head-example-{place}",
                type="tertiary",
                help=" · ".join(
                    escape_markdown("".join(part.text for part in text.parts)) for text in texts
                ),
                on_click=partial(open_row, measures, head, each.sentence, each.query),
            )


def _show_map(
    selection: Selection, trace: Trace, head: Head, grid: Grid, chosen: tuple[int | None, ...]
) -> None:
    """Draw the map of a head, on it a frame around the row and the column that are chosen."""
    weights = trace.attention[head.kind][head.layer, head.head]
    image = head_image(max_pool(weights), allowed=pool_mask(grid.allowed), theme=selection.theme)
    alt = f"{head_label(head)}: attention map of {grid.said}"
    frames = "".join(
        f'<i style="{side}:{place / count:.2%};{length}:{1 / count:.2%}"></i>'
        for place, count, side, length in zip(
            chosen, weights.shape, ("top", "left"), ("height", "width"), strict=True
        )
        if place is not None and place < count
    )
    axes = " ".join(  # of which tokens they are, and how far before its place each begins
        f'data-{name}="{axis.side} {len(axis.spans)} {-axis.spans[0][0]}"'
        for name, axis in zip(("rows", "columns"), token_axes(head.kind, grid), strict=True)
    )
    picture = f'<img alt="{escape(alt)}" src="{image}">'
    st.html(f'<div class="small-map" {axes}>{picture}{frames}</div>')


def _say_row(trace: Trace, head: Head, grid: Grid, chosen: tuple[int | None, ...]) -> None:
    """Write where the chosen row has most of its weight, and the weight of the chosen cell."""
    row, column = chosen
    weights = trace.attention[head.kind][head.layer, head.head]
    if row is None or row >= len(weights):
        return
    usable = range(weights.shape[1] if grid.allowed is None else int(grid.allowed[row].sum()))
    keys = sorted(usable, key=lambda key: -weights[row, key])[:_MOST_KEYS]
    if column is not None and column in usable:
        keys = [column, *(key for key in keys if key != column)]
    said = [escape_markdown(f"{grid.columns[key]} {weights[row, key]:.3f}") for key in keys]
    if column in usable:
        said[0] = f"**{said[0]}**"
    st.caption(f"**{escape_markdown(grid.rows[row])}**: {', '.join(said)}")


def _chosen_cell(head: Head, inspected: Inspected) -> tuple[int | None, int | None]:
    """Return the row and the column that are chosen on the page, each if one is."""
    shown = view()
    if current_page() == "inside":
        return shown.inside.query, shown.inside.key
    if head.kind == "encoder_self":
        return None, shown.column
    row = shown.at if inspected.row is None else inspected.row
    return row, shown.column if head.kind == "cross" else shown.why.earlier
