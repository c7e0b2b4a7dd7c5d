"""Sentences of a corpus in tables, with words marked, and rows of a head in them, which open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from headwise.model.interface import Head, Kind, Side
from headwise.viz_app.analysis.labels import marked_words, token_marks
from headwise.viz_app.components.row_table import MarkedText, TextPart
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Tokens
from headwise.viz_app.session.caches import Run, tokens_of
from headwise.viz_app.session.head_choice import choices_for
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


def whole_tokens(run: Run, side: Side, text: str) -> Tokens:
    """Return the tokens that a model of a run is given for a text, the target's from ``<s>`` on."""
    tokenizers = run.tokenizers
    encode = tokenizers.encode_source if side == "source" else tokenizers.encode_target
    return tokens_of(run, side, encode(text.strip()))


def marked_text(run: Run, side: Side, tokens: Tokens, marks: Mapping[int, str]) -> MarkedText:
    """Return a cell of a table with a sentence whose words of some tokens, by index, are marked."""
    parts: list[TextPart] = []
    between = ""
    for word in marked_words(tokens, marks):  # the text between two of them is one part
        between += word.before
        if not word.mark:
            between += word.text
            continue
        parts += [TextPart(between)] * bool(between) + [TextPart(word.text, word.mark)]
        between = ""
    language = run.source_language if side == "source" else run.target_language
    return MarkedText((*parts, *([TextPart(between)] * bool(between))), language)
