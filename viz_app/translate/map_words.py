"""Say in words and numbers what the large map shows, and what was likeliest beside it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.turned import TurnedHead
from headwise.viz_app.analysis.attention import (
    ALMOST_EVEN,
    MapFacts,
    map_facts,
    most_on_punctuation,
)
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.analysis.predictions import close_positions
from headwise.viz_app.analysis.rollout import map_of_heads
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.head_choice import head_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.vocabulary import special_tokens_of, target_labels
from headwise.viz_app.translate.shown_map import ShownMap
from headwise.viz_app.translate.step import STEP_PANELS, alternatives, force

_LEAST_SHOWN = 0.5
"""Smallest share of the weight that must be left without special tokens for a map not to look
empty."""
_MOST_TOKENS, _MOST_CLOSE = 5, 3
_CLOSE = 0.1
"""Two probabilities that differ by less are called close."""


def show_head_line(shown: ShownMap, note: str) -> None:
    """Draw the name of what the enlarged map shows, which ``note`` explains."""
    line = f"**{shown.name}**"
    if shown.aggregate == "head":
        line, note = f"**{head_label(shown.head)}**", f"{shown.name}. {note}"
        if shown.cell_value == "weight":
            line += ": where it looked, not what it took"
    with st.container(key="head-line"):
        st.markdown(line, help=note)


def show_head_words(selection: Selection, trace: Trace, shown: ShownMap, grid: Grid) -> None:
    """Draw what the sentence shows of the head, in a fold, and whether its checks hold."""
    with st.container(key="head-words", gap="small"):
        if shown.aggregate == "head" and TurnedHead(shown.head) in view().strengths:
            st.caption(
                "The translation above is of the whole model; what it writes without this head "
                "stands below, under “Switch heads off, rank them”."
            )
        if shown.aggregate != "max":  # rows of the maximum sum to more than 1
            with st.expander("In numbers", key="head-numbers", type="compact"):
                st.markdown(_in_this_sentence(selection, trace, shown, grid))
        _show_checks(trace)


def _in_this_sentence(selection: Selection, trace: Trace, shown: ShownMap, grid: Grid) -> str:
    kind = shown.head.kind
    tokens = make_grid(trace, kind)
    facts = map_facts(
        map_of_heads(trace, *shown),
        trace.keys_of(kind),
        allowed=tokens.allowed,
        own_keys=kind != "cross",
    )
    if facts is None:
        return "In this sentence: nothing to choose from, no row has more than one key."
    special = special_tokens_of(selection.run)
    on: dict[str, float | None] = {
        special.start if kind == "decoder_self" else special.end: facts.special,
        "punctuation": facts.punctuation,
    }
    shares = [f"{share:.2f} on {what}" for what, share in on.items() if share is not None]
    row, column = tokens.rows[facts.row], tokens.columns[facts.column]
    by = ", token by token" if view().units == "words" else ""
    itself = "" if facts.itself is None else f"; {facts.itself:.2f} on the token itself, any token"
    said = (
        f"In this sentence{by}: largest {shown.measured} {facts.largest:.2f}, of “{row}” on "
        f"“{column}”; on average over rows with more than one key {', '.join(shares)}{itself}."
    )
    if most := most_on_punctuation(trace.attention, trace.keys_of):
        head, share = most
        said += f" Of all heads {head_label(head)} rests most on punctuation here: {share:.2f}."
    if selection.step == 0 and selection.run.data is not None:
        said += " Nothing is learned at checkpoint 0: even rows, or rows all alike, are expected."
    return escape_markdown(" ".join([said, *_why_it_looks_so(facts, grid)]))


def _why_it_looks_so(facts: MapFacts, grid: Grid) -> list[str]:
    """Explain maps that look as if something were wrong with them."""
    notes = []
    if facts.evenness >= ALMOST_EVEN:
        notes.append(
            "The map is almost even, and that is no fault of the display: the head spreads its "
            f"weight over all keys, {facts.even_weight:.2f} each if it were quite even."
        )
    hidden = len(grid.columns) < len(grid.spans[1]) and not grid.renormalised
    if hidden and 1 - facts.special < _LEAST_SHOWN:
        notes.append(
            f"The map looks empty because {facts.special:.2f} of the weight is on special tokens, "
            "which are left out."
        )
    return notes


def _show_checks(trace: Trace) -> None:
    failed = [check for check in trace.checks if not check.passed]
    if failed:
        st.warning(
            "Do not trust these maps. Not so: "
            + escape_markdown("; ".join(f"{c.name} (off by {c.deviation:.1e})" for c in failed))
        )
        return
    with st.expander(f"✓ {len(trace.checks)} checks hold", key="checks-hold", type="compact"):
        largest = ", ".join(f"{check.name} ({check.deviation:.1g})" for check in trace.checks)
        st.caption(
            f"Checked on this sentence, with the largest deviation: {escape_markdown(largest)}."
        )


def show_next_tokens(selection: Selection, trace: Trace) -> None:
    """Offer the likeliest tokens of the chosen position, and the positions that were close."""
    at = min(view().at, len(trace.consumed) - 1)
    ids = trace.predictions.top_ids[at][:_MOST_TOKENS].tolist()
    labels = target_labels(selection.run, ids)
    names = {id: name for name, id in alternatives(trace, at, labels).items()}
    odds = np.exp(trace.predictions.top_log_probability[at])
    after = escape_markdown(token_labels(trace.consumed)[at])
    st.caption(f"Candidates after {after}: click one to force it")
    with st.container(horizontal=True, gap="small", key="next-tokens"):
        for place, (id, label) in enumerate(zip(ids, labels, strict=True)):
            st.button(
                f"{escape_markdown(label)} {odds[place]:.2f}",
                key=f"next-token-{place}",
                disabled=id not in names,
                on_click=force,
                args=(at, names.get(id, ""), "below"),
            )
    close = close_positions(trace.predictions, within=_CLOSE)
    if not close:
        return
    more = f" The first {_MOST_CLOSE} are shown." if len(close) > _MOST_CLOSE else ""
    st.caption(
        f"{len(close)} close call{'s' * (len(close) > 1)} in {len(trace.consumed)} tokens",
        help="The probabilities of the two likeliest tokens are within "
        f"{_CLOSE:g} of each other: the model might as well have gone on otherwise.{more}",
    )
    with st.container(horizontal=True, gap="small", key="close-positions"):
        for place in close[:_MOST_CLOSE]:
            ids = trace.predictions.top_ids[place][:2].tolist()
            first, second = map(escape_markdown, target_labels(selection.run, ids))
            odds = np.exp(trace.predictions.top_log_probability[place][:2])
            st.button(
                f"{place + 1}: {first} {odds[0]:.2f} or {second} {odds[1]:.2f}",
                key=f"close-{place}",
                type="tertiary",
                on_click=lambda place=place: change_view(*STEP_PANELS, at=place, below="steps"),
            )
