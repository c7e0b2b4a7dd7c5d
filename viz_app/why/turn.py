"""Draws the section *turn heads*: strengths, pinned rows, and the translation written anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from headwise.model.interface import Head, head_name
from headwise.model.turned import LEAST_STRENGTH, MOST_STRENGTH, PinnedRow, Turned, TurnedHead
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, OFF_NOTE, next_token_label, token_labels
from headwise.viz_app.components.heat_map import Cells
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import beam_of, trace_of
from headwise.viz_app.session.head_choice import (
    choose_head,
    head_label,
    map_arguments,
    token_axes,
    turned_label,
)
from headwise.viz_app.session.inspector import inspecting
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.view import change_view, checked, control_part, view
from headwise.viz_app.session.widgets import show_figure, show_heading

_STEP, _DECIMALS = 0.05, 2
"""Step and decimals of the sliders."""


@inspecting
def show_turn_heads(selection: Selection, trace: Trace) -> Trace:
    """Draw the section; return the trace of the translation that is written anew."""
    st.session_state["files"] = f"headwise-{trace.run}-{trace.step}-turned"
    turned = _checked(selection, trace)
    anew = _written_anew(selection, turned)
    _show_translations(selection, trace, anew, turned)
    head = choose_head(selection.run.description)
    left, right = st.columns(2, gap="medium")
    with left:
        _show_sliders(head, turned)
        _show_pins(anew, turned)
        if turned:
            st.button(
                "Reset all",
                key="reset-all",
                icon=":material/restart_alt:",
                on_click=lambda: change_view(strengths=(), pinned=()),
            )
        _show_probabilities(selection, trace, turned)
    with right:
        _show_map_to_pin(selection, anew, head, turned)
    return anew


def _checked(selection: Selection, trace: Trace) -> Turned:
    """Return what the view has turned, without what this model and sentence do not have."""
    heads = selection.run.description.all_heads()
    strengths = checked(
        "strengths", "Turned heads", usable=lambda each: each.head in heads, written=turned_label
    )
    pinned = checked("pinned", "Pinned rows", usable=lambda pin: _fits(trace, pin))
    return Turned(tuple(strengths), tuple(pinned))


def _written_anew(selection: Selection, turned: Turned) -> Trace:
    """Trace the model's own translation with what is turned, decoded as the sidebar says."""
    run, step, text = selection.run, selection.step, selection.text
    target = None
    if view().decoding == "beam":
        beam = beam_of(run, step, text, view().beam, turned=turned)
        target = tuple(beam.hypotheses[0].target)
    return trace_of(run, step, text, target, turned=turned)


def _show_translations(selection: Selection, trace: Trace, anew: Trace, turned: Turned) -> None:
    before, after = st.columns(2, gap="large")
    with before:
        st.caption("The model as it is, shaded by probability")
        show_target(selection, trace, key="as-it-is")
    with after:
        st.caption("Written anew with what is turned below, shaded by probability")
        show_target(selection, anew, key="written-anew")
        if not turned:
            st.caption("Nothing is turned yet: move a slider, or click a cell of the map.")
        elif anew.target_ids == trace.target_ids:
            st.caption("It is the same translation.")


def _show_sliders(head: Head, turned: Turned) -> None:
    """Draw a slider for the chosen head and for each that is turned, and buttons to reset them."""
    show_heading(
        "Steering by strength",
        "The strength multiplies what the head writes, before W_O: 1 is the model, 0 is off, below "
        "0 it writes the opposite. Beyond 1 the model is where no training has been: what it "
        f"writes then says less of what the head is for. {OFF_NOTE}",
    )
    strengths = {each.head: each.strength for each in turned.strengths}
    for each in dict.fromkeys([head, *strengths]):
        strength = strengths.get(each, 1.0)
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            st.slider(
                turned_label(TurnedHead(each, strength)) if strength else f"{head_label(each)} off",
                LEAST_STRENGTH,
                MOST_STRENGTH,
                step=_STEP,
                **control_part(
                    f"strength-{head_name(each)}",
                    round(strength, _DECIMALS),
                    on_change=partial(_set_strength, each),
                ),
            )
            st.button(
                "Reset" if strength != 1 else "Switch off",
                key=f"reset-{head_name(each)}",
                type="tertiary",
                on_click=_set_strength,
                args=(each, 1.0 if strength != 1 else 0.0),
            )


def _set_strength(head: Head, strength: float) -> None:
    """Give a head a strength, in its place among the turned ones; 1 takes it out of them."""
    strengths = {each.head: each.strength for each in view().strengths} | {head: strength}
    kept = (TurnedHead(*each) for each in strengths.items() if each[1] != 1)
    change_view(strengths=tuple(kept))


def _show_pins(anew: Trace, turned: Turned) -> None:
    """List the pinned rows, each with a button that frees it."""
    if not turned.pinned:
        return
    show_heading("Pinned rows")
    for pin in turned.pinned:
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.text(_label_of(anew, pin), width="content")
            st.button(
                "Free",
                key=f"free-{pin}",
                type="tertiary",
                on_click=lambda pin=pin: change_view(pinned=_without(view().why.pinned, pin)),
            )


def _show_probabilities(selection: Selection, trace: Trace, turned: Turned) -> None:
    """Draw the probability of each token of the page's target before and after."""
    run, step, text = selection.run, selection.step, selection.text
    after = trace_of(run, step, text, trace.target_ids, turned=turned)
    spaced = run.tokenizers.target.kind == "bpe"
    names = token_labels(trace.predicted)
    probabilities = [np.exp(each.predictions.log_probability) for each in (trace, after)]
    rows = [
        Row(
            str(place),
            (
                names[place],
                *(Bar(float(p[place]), f"{p[place]:.3f}") for p in probabilities),
                next_token_label(after.top_tokens[place][0], spaced=spaced),
            ),
        )
        for place in range(len(names))
    ]
    show_heading("The same words, before and after")
    row_table(
        ["token", "in the model", "with what is turned", "then the likeliest"],
        rows,
        label="Probability of each token of the translation of the model as it is",
        theme=selection.theme,
        key="before_and_after",
        on_click=lambda name: change_view(at=int(name), why="this word"),
        action="ask why the model wrote it",
    )
    totals = [total_log_probability(each) for each in (trace, after)]
    st.caption(
        f"Log-probability of “{escape_markdown(trace.target_text)}”: {totals[0]:.2f} nats in the "
        f"model, {totals[1]:.2f} with what is turned ({totals[1] - totals[0]:+.2f}).",
        help="Each token is predicted after the same tokens before it, so that the two can be "
        "compared; that a head changes a token does not say that it wrote it: later layers work "
        "with what it wrote.",
    )


def _fits(trace: Trace, pin: PinnedRow) -> bool:
    """Return whether a model and a source have a row and its key; a step may come later."""
    of_source = pin.head.kind != "decoder_self"
    rows_end = len(trace.source) if pin.head.kind == "encoder_self" else pin.row + 1
    return (
        pin.head in trace.heads
        and pin.row < rows_end
        and not (of_source and pin.last_key >= len(trace.source))
    )


def _without(pinned: Sequence[PinnedRow], pin: PinnedRow) -> tuple[PinnedRow, ...]:
    """Return the pinned rows but that of the same query of the same head."""
    return tuple(each for each in pinned if each[:2] != pin[:2])


def _label_of(trace: Trace, pin: PinnedRow) -> str:
    """Say which row is pinned onto what, by the tokens of a trace where it has them."""
    grid = make_grid(trace, pin.head.kind)
    row = f"row {pin.row + 1}"
    if pin.row < len(grid.rows):
        row += f", {grid.rows[pin.row]}"
    else:
        row += " (the translation ends before)"
    if pin.onto is None:
        onto = "the mean of all keys"
    elif pin.last_key < len(grid.columns):
        onto = grid.columns[pin.last_key]
    else:
        onto = f"key {pin.last_key + 1}"
    return f"{head_label(pin.head)}, {row} → {onto}"


def _show_map_to_pin(selection: Selection, trace: Trace, head: Head, turned: Turned) -> None:
    """Draw the map of a head as it is turned; clicks pin its rows, or free them."""
    grid = make_grid(trace, head.kind)
    weights = trace.attention[head.kind][head.layer, head.head]
    own = [pin for pin in turned.pinned if pin.head == head]
    shown = [pin.row for pin in own if pin.row < len(grid.rows)]

    def pin(row: int, column: int | None) -> None:
        if column is not None and grid.allowed is not None and not grid.allowed[row, column]:
            return
        chosen = PinnedRow(head, row, column)
        pinned = view().why.pinned
        rest = _without(pinned, chosen)
        change_view(pinned=rest if chosen in pinned else (*rest, chosen))

    name = f"{KIND_NAMES[head.kind]}, layer {head.layer + 1}, head {head.head + 1}"
    with st.container(key="pinned-map"):
        show_figure(
            attention_map(
                weights,
                selected=shown[-1] if shown else None,
                width=450,  # pixels in a window of 1,280
                **map_arguments(grid, selection.theme),
            ),
            key="turned_map",
            alt=f"{name}, with what is turned: attention map of {grid.said}",
            name=f"{head.kind}-layer{head.layer + 1}-head{head.head + 1}",
            axes=token_axes(head.kind, grid),
            cells=Cells(
                (shown[-1] if shown else 0, 0),
                "A click on a cell, or Enter, gives that key all the weight of its row. A row's "
                "label, or the space bar, spreads it evenly. Once more frees the row.",
                pin,
                lambda row: pin(row, None),
            ),
        )
    st.caption(
        "The head in the translation that is written anew. A pinned row is what the head would "
        "bring from that key alone, or from all keys alike, whatever it would look at by itself. "
        "All that follows is computed anew."
    )
