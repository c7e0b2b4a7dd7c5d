"""List sentences by a sign that their translation may have failed.

The least of a sentence's words is less, the more words it has. So a sentence's figure is ranked
among those of sentences that are about as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headwise.model.ties import descending
from headwise.viz_app.analysis.head_ranking import correlation_in_words
from headwise.viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from headwise.viz_app.records.measures import FAILURES, Measures, has_enough_letters
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import measures_of, show_measure_state, targets_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.vocabulary import special_tokens_of
from headwise.viz_app.session.widgets import choose_one, open_page

_MOST = 50
"""Most sentences that are listed."""
_ALIKE = 20  # sentences, nearest in length, among which a figure is ranked


def show_failures(selection: Selection) -> None:
    """Draw the sentences of the checkpoint, where it was measured, and what it was measured on."""
    measured = measures_of(selection.run, (selection.step,))
    if measures := measured.by_step.get(selection.step):
        _show_sentences(selection, measures)
    show_measure_state(selection, measured)


@panel("failures")
def _show_sentences(selection: Selection, measures: Measures) -> None:
    name = choose_one(
        "Sorted by",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: FAILURE_DESCRIPTIONS[name].name,
    )
    about = FAILURE_DESCRIPTIONS[name]
    figures = [translated.figures[name] for translated in measures.translated]
    sources = [sentence.source for sentence in measures.sentences]
    scores = [translated.chrf for translated in measures.translated]
    found = worst_first(figures, sources)
    if found:
        count = f"{_MOST} of {len(found)}" if len(found) > _MOST else f"{len(found)}"
        st.caption(
            f"{count} sentences, the worst for their length first: where to look, not what is "
            "wrong. Click one to open it."
        )
        _show_table(selection, measures, name, found[:_MOST])
    else:
        st.info(about.none)
    with st.expander("How well this order finds them", key="how-well", type="compact"):
        note = special_tokens_of(selection.run).name_in(about.note)
        compared = cached(
            "order beside chrF",
            (np.array([figures, scores]).tobytes(), *sources),
            lambda: compare_with_chrf(figures, scores, sources),
        )
        st.caption(escape_markdown(f"{note} {about.blind}") + f"\n\n{compared}")


def _show_table(selection: Selection, measures: Measures, name: str, order: list[int]) -> None:
    run, about = selection.run, FAILURE_DESCRIPTIONS[name]

    def text(content: str, language: str) -> MarkedText:
        return MarkedText((TextPart(content),), language)

    rows = []
    for place in order:
        sentence, translated = measures.sentences[place], measures.translated[place]
        cells = (
            f"{round(translated.figures[name], 2) + 0.0:.2f}",  # no -0.00
            text(sentence.source, run.source_language),
            text(translated.translation or "(no text)", run.target_language),
            text(sentence.reference, run.target_language),
        )
        rows.append(Row(str(place), cells))
    row_table(
        [
            about.column,
            "source",
            f"translation at checkpoint {selection.step:,}",
            targets_of(measures),
        ],
        rows,
        label=f"Sentences by {about.name}",
        theme=selection.theme,
        key="failure_table",
        on_click=lambda place: open_page(
            "translate",
            sentence=measures.sentences[int(place)].source,
            target="",
            decoding="greedy",
        ),
        action="Open on Translate",
    )


@dataclass(frozen=True)
class FailureDescription:
    """A figure of how a translation may have failed is described for people by these texts."""

    name: str
    column: str  # what the numbers are, in a word: the title of their column
    note: str
    none: str  # what is said where no sentence can be listed
    blind: str  # what it cannot see, in a sentence


FAILURE_DESCRIPTIONS: Mapping[str, FailureDescription] = {
    "log_probability": FailureDescription(
        "log-probability",
        "log-probability",
        "The mean log-probability of a token of the translation, in nats, </s> included.",
        "There are no translations.",
        "It cannot see a wrong translation of which the model is sure.",
    ),
    "source_contribution": FailureDescription(
        "share of the source",
        "share",
        "The mean share of a prediction that comes from the source and not from the target so far, "
        "by ALTI+ (Ferrando et al. 2022).",
        "These measures have no share of the source; measure again.",
        "It cannot see a wrong word that was well attended.",
    ),
}


def shares_below(figures: Sequence[float], sources: Sequence[str]) -> list[float]:
    """Return for each sentence the share of the 20 nearest in length whose figure is lower, equal
    ones by half; NaN without a figure, or without others. Length is in long words, then letters.
    """

    def length(place: int) -> tuple[int, int]:
        return sum(map(has_enough_letters, sources[place].split())), len(sources[place])

    known = [place for place, figure in enumerate(figures) if not math.isnan(figure)]
    known.sort(key=length)
    shares = [math.nan] * len(figures)
    for at, place in enumerate(known):
        first = max(0, min(at - _ALIKE // 2, len(known) - _ALIKE - 1))
        others = [figures[i] for i in known[first : first + _ALIKE + 1] if i != place]
        if others:
            below = sum((o < figures[place]) + (o == figures[place]) / 2 for o in others)
            shares[place] = below / len(others)
    return shares


def worst_first(figures: Sequence[float], sources: Sequence[str]) -> list[int]:
    """Return the indices of the sentences with a figure, those first that have a sign of failure
    most: by the share of sentences about as long whose figure is lower, then by figures.
    """
    shares = shares_below(figures, sources)
    listed = [place for place, figure in enumerate(figures) if not math.isnan(figure)]
    listed = [listed[i] for i in descending([-figures[place] for place in listed])]
    return [listed[i] for i in descending([-np.nan_to_num(shares[place]) for place in listed])]


def compare_with_chrf(
    figures: Sequence[float], scores: Sequence[float], sources: Sequence[str]
) -> str:
    """Say how well a sign orders sentences, those with a figure, as their chrF, 0 to 100, does."""
    known = sum(not math.isnan(figure) for figure in figures)
    shares = shares_below(figures, sources)
    found = correlation_in_words(shares, scores, "sentences")
    if not found:
        return f"Over {known:,} example sentences it cannot be compared with chrF."
    return (
        f"Over {known:,} example sentences the rank correlation of this order with chrF, which "
        f"compares translation and reference, is {found}: at +1 it would find the same sentences "
        "the worst, at 0 it would find them no better than chance."
    )
