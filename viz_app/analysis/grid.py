"""What the rows and columns of a map mean: labels, words, and which cells the mask allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from viz_app.analysis.attention import causal_words, to_words
from viz_app.analysis.labels import piece_labels, word_labels
from viz_app.records import Floats, Kind, Tokens, Trace, Word

SPECIAL_IDS = frozenset({0, 2, 3})
"""``<pad>``, ``<s>`` and ``</s>``; ``<unk>`` stands for a word."""

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
    spans: tuple[tuple[Word, ...], tuple[Word, ...]]
    """Of all rows and all columns, those of special tokens among them."""
    renormalised: bool
    """Whether rows are scaled to sum to 1 again where columns are left out."""

    def apply(self, weights: Floats) -> Floats:
        """Maps between pieces (…, Q, M) as maps of this grid (…, rows, columns)."""
        if tuple(map(len, self.spans)) != weights.shape[-2:]:
            weights = to_words(weights, *self.spans)
        if self.spans == (self.row_spans, self.column_spans):
            return weights
        rows, columns = (
            [all_of.index(span) for span in kept]
            for all_of, kept in zip(self.spans, (self.row_spans, self.column_spans), strict=True)
        )
        kept = weights[..., rows, :][..., columns]
        if not self.renormalised:
            return kept
        sums = kept.sum(axis=-1, keepdims=True)
        scaled: Floats = np.divide(kept, sums, out=np.zeros_like(kept), where=sums > 0)
        return scaled

    def row_of(self, step: int) -> int | None:
        """The row that a decoder step (or source piece) belongs to; None if it is left out."""
        spans = enumerate(self.row_spans)
        return next((i for i, span in spans if span.start <= step < span.stop), None)


@dataclass(frozen=True)
class Reading:
    """How maps are to be read."""

    units: Units = "pieces"
    lead: Lead = "predicted"
    """Which of what a decoder row consumes and predicts leads."""
    special: bool = True
    """Whether ``<s>`` and ``</s>`` have rows and columns."""
    renormalised: bool = False
    """Whether rows without those columns are scaled to sum to 1 again."""


def make_grid(trace: Trace, kind: Kind, reading: Reading = Reading()) -> Grid:
    """The axes of a trace's maps.

    A decoder row is one step (or the steps of one word): what it consumed and what it predicts are
    both in its label, the leading one first. Keys are always what was consumed. Without special
    tokens, rows led by one and columns of one are left out.
    """
    units, lead = reading.units, reading.lead
    keys = trace.keys_of(kind)
    column_spans = _spans(keys, units)
    if kind == "encoder_self":
        leading = keys
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
    kept_rows = _kept(leading, row_spans, reading.special)
    kept_columns = _kept(keys, column_spans, reading.special)
    columns = _labels(keys, units)
    title = "consumed (key)" if kind == "decoder_self" else "source (key)"
    if not reading.special:
        title += ", no special tokens" + ", rows sum to 1 again" * reading.renormalised
    return Grid(
        rows=tuple(rows[i] for i in kept_rows),
        columns=tuple(columns[i] for i in kept_columns),
        row_title=row_title,
        column_title=title,
        row_spans=tuple(row_spans[i] for i in kept_rows),
        column_spans=tuple(column_spans[i] for i in kept_columns),
        allowed=allowed[kept_rows][:, kept_columns] if allowed is not None else None,
        spans=(row_spans, column_spans),
        renormalised=reading.renormalised and not reading.special,
    )


def _kept(tokens: Tokens, spans: tuple[Word, ...], special: bool) -> list[int]:
    """Places of the spans that stay. A special token is a word of its own in any units."""
    if special:
        return list(range(len(spans)))
    return [i for i, span in enumerate(spans) if tokens.ids[span.start] not in SPECIAL_IDS]


def _spans(tokens: Tokens, units: Units) -> tuple[Word, ...]:
    if units == "words":
        return tokens.words
    return tuple(Word(piece, index, index + 1) for index, piece in enumerate(tokens.pieces))


def _labels(tokens: Tokens, units: Units) -> tuple[str, ...]:
    return tuple(word_labels(tokens) if units == "words" else piece_labels(tokens))
