"""Writes and opens rows of the example sentences of a run's measures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from headwise.model.interface import Head, Kind, Side
from headwise.viz_app.analysis.labels import token_marks
from headwise.viz_app.components.row_table import MarkedText
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.head_choice import choices_for
from headwise.viz_app.session.marked_text import marked_text, whole_tokens
from headwise.viz_app.session.widgets import THE_HEAD_ALONE, open_page


def marked_row(
    run: Run, measures: Measures, number: int, kind: Kind, query: int, keys: Iterable[int]
) -> list[MarkedText]:
    """Return cells of a sentence's source and reference in which a row and keys are marked."""
    sentence = measures.sentences[number]
    texts = zip(get_args(Side), (sentence.source, sentence.reference), strict=True)
    marks = token_marks(kind, query, keys)
    return [
        marked_text(run, side, whole_tokens(run, side, text), mark)
        for (side, text), mark in zip(texts, marks, strict=True)
    ]


def open_row(measures: Measures, head: Head, number: int, query: int) -> None:
    """Open Translate at a row of a head in an example sentence, its reference forced."""
    sentence = measures.sentences[number]
    shown: dict[str, object] = {"sentence": sentence.source, "target": sentence.reference}
    if head.kind != "encoder_self":
        shown["at"] = query
    open_page("translate", **shown, **choices_for(head), **THE_HEAD_ALONE)
