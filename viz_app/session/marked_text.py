"""Sentences of a corpus in a table, with some of their words marked."""

from __future__ import annotations

from collections.abc import Mapping

from headwise.model.interface import Side
from headwise.viz_app.analysis.labels import marked_words
from headwise.viz_app.components.row_table import MarkedText, TextPart
from headwise.viz_app.records.trace import Tokens
from headwise.viz_app.session.caches import Run, tokens_of


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
