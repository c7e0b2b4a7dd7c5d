"""Which source words a prediction needs: three answers side by side."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import word_labels
from headwise.viz_app.components.row_table import Bar, Cell, Row, row_table
from headwise.viz_app.figures.bars import signed_text
from headwise.viz_app.records.trace import Doubles, Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import view
from headwise.viz_app.why.word.account import Account
from headwise.viz_app.why.word.bars import disagrees
from headwise.viz_app.why.word.effects import run_contributions, run_source_effects
from headwise.viz_app.why.word.section.asked import mark

MOST_LEFT_OUT = 200
"""Words of the longest sentence of which each is left out; every one takes a pass."""


def show_source_words(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw a table of source words: whole effect, direct effect, and ALTI+."""
    spans = trace.source.words
    names = word_labels(trace.source)
    all_three = len(spans) <= MOST_LEFT_OUT
    losses = np.full(len(spans), np.nan)
    if all_three:
        losses = ask_trace(run_source_effects, selection.run, trace, account.step, account.instead)
    direct = account.parts.heads["cross"].sum(axis=(0, 1))
    shares = ask_trace(run_contributions, selection.run, trace)[account.step]
    answers = {
        "without it": losses,
        "direct": np.array([direct[span.start : span.stop].sum() for span in spans]),
        "ALTI+": np.array([shares[span.start : span.stop].sum() for span in spans]),
    }
    first = {
        answer: int(first_largest(values))
        for answer, values in answers.items()
        if all_three or answer != "without it"
    }
    agreed, smallest = len(set(first.values())) == 1, view().why.smallest
    odd = [
        (all_three and disagrees(float(answers["direct"][at]), float(losses[at]), smallest))
        or (not agreed and at in first.values())
        for at in range(len(spans))
    ]
    column = view().column
    marked = [at for at, span in enumerate(spans) if column in range(span.start, span.stop)]

    def mark_word(name: str) -> None:
        place = int(name)
        mark(column=None if place in marked else spans[place].start)

    columns = [_bars(values, signed=answer != "ALTI+") for answer, values in answers.items()]
    row_table(
        [
            "source word",
            "the difference loses without it",
            "cross-attention brought",
            "share of the prediction, ALTI+",
            "disagree",
        ],
        [
            Row(str(at), (name, *(cells[at] for cells in columns), "≠" * odd[at]))
            for at, name in enumerate(names)
        ],
        label="Source words, and how much the prediction needs each by three answers",
        theme=selection.theme,
        key="source_words",
        on_click=mark_word,
        chosen=str(marked[0]) if marked else "",
        action="Mark this word in all pictures",
    )
    said = f"{'All three' if all_three else 'Both'} put “{names[first['direct']]}” first."
    if not agreed:
        each = (f"“{names[at]}” ({answer})" for answer, at in first.items())
        said = f"They disagree on the first: {', '.join(each)}."
    left_out = (
        "Without a word the sentence is another one, so that everything may change"
        if all_three
        else f"Words are left out of sentences of at most {MOST_LEFT_OUT}, of which this one has "
        f"{len(spans):,}"
    )
    st.caption(
        f"{escape_markdown(said)} ≠ marks a word that is first by one answer and not by all, or "
        "whose first two answers differ in sign or by more than half. "
        f"{left_out}; the direct effect holds all weights; ALTI+ (Ferrando et al. 2022) says how "
        "much a word went into the prediction, not for which word it spoke."
    )


def _bars(values: Doubles, *, signed: bool) -> list[Cell]:
    """Return values as bars on the range of all; text where there is none."""
    limit = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    low, write = (-limit, signed_text) if signed else (0.0, "{:.3f}".format)
    return [
        "–" if np.isnan(value) else Bar(value, write(value), low, limit)
        for value in values.tolist()
    ]
