"""What the rows and columns of a map mean: labels, words, and which cells the mask allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from viz_app.analysis.attention import causal_words, to_words
from viz_app.analysis.labels import piece_labels, word_labels
from viz_app.records import Floats, Kind, Tokens, Trace, Word

Units = Literal["pieces", "words"]
Lead = Literal["predicted", "consumed"]


@dataclass(frozen=True)
class Grid:
    """The axes of a kind of map. Each row and column spans one or more pieces, in order."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str
    column_title: str
    row_spans: tuple[Word, ...]
    """Decoder steps (or source pieces) that make each row."""
    column_spans: tuple[Word, ...]
    allowed: NDArray[np.bool_] | None
    """(rows, columns), False where the mask forbids; None if it forbids nothing."""

    def apply(self, weights: Floats) -> Floats:
        """Maps between pieces (…, Q, M) as maps of this grid (…, rows, columns)."""
        if len(self.row_spans) == weights.shape[-2] and len(self.column_spans) == weights.shape[-1]:
            return weights
        return to_words(weights, self.row_spans, self.column_spans)

    def row_of(self, step: int) -> int:
        """The row that a decoder step (or source piece) belongs to."""
        return next(i for i, span in enumerate(self.row_spans) if span.start <= step < span.stop)


def make_grid(
    trace: Trace, kind: Kind, *, units: Units = "pieces", lead: Lead = "predicted"
) -> Grid:
    """The axes of a trace's maps.

    A decoder row is one step (or the steps of one word): what it consumed and what it predicts are
    both in its label, the leading one first. Keys are always what was consumed.
    """
    keys = trace.keys_of(kind)
    column_spans = _spans(keys, units)
    if kind == "encoder_self":
        row_spans, rows, row_title = column_spans, _labels(keys, units), "query"
        allowed = None
    else:
        leading, other = (
            (trace.predicted, trace.consumed)
            if lead == "predicted"
            else (trace.consumed, trace.predicted)
        )
        row_spans = _spans(leading, units)
        arrow, row_title = (
            ("←", "predicted ← consumed") if lead == "predicted" else ("→", "consumed → predicted")
        )
        others = piece_labels(other)
        rows = tuple(
            f"{label} {arrow} {' '.join(others[span.start : span.stop])}"
            for label, span in zip(_labels(leading, units), row_spans, strict=True)
        )
        allowed = causal_words(row_spans, column_spans) if kind == "decoder_self" else None
    return Grid(
        rows=rows,
        columns=_labels(keys, units),
        row_title=row_title,
        column_title="consumed (key)" if kind == "decoder_self" else "source (key)",
        row_spans=row_spans,
        column_spans=column_spans,
        allowed=allowed,
    )


def _spans(tokens: Tokens, units: Units) -> tuple[Word, ...]:
    if units == "words":
        return tokens.words
    return tuple(Word(piece, index, index + 1) for index, piece in enumerate(tokens.pieces))


def _labels(tokens: Tokens, units: Units) -> tuple[str, ...]:
    return tuple(word_labels(tokens) if units == "words" else piece_labels(tokens))
