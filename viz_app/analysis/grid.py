"""Rows and columns of an attention map: their labels, their tokens, and which cells are masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Kind
from headwise.viz_app.analysis.attention import (
    causal_word_mask,
    pool_labels,
    pool_mask,
    punctuation,
    to_words,
)
from headwise.viz_app.analysis.labels import count_of, token_labels, word_labels
from headwise.viz_app.analysis.rollout import row_shares
from headwise.viz_app.records.trace import Floats, Tokens, Trace, Word

Units = Literal["tokens", "words"]
RowsBy = Literal["predicted", "consumed"]


@dataclass(frozen=True)
class Grid:
    """A grid has the axes of the maps of a kind; each row and column spans one or more tokens."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str
    column_title: str
    row_spans: tuple[Word, ...]  # decoder steps (or source tokens) of each row
    column_spans: tuple[Word, ...]  # key tokens of each column
    allowed: NDArray[np.bool_] | None  # by the mask, (rows, columns); None if it allows all
    spans: tuple[tuple[Word, ...], tuple[Word, ...]]  # of all, also those left out
    renormalised: bool  # whether rows are scaled to sum to 1 again after columns were left out

    @property
    def said(self) -> str:
        """How many rows and columns it has, and of what they are."""
        rows, columns = count_of(len(self.rows), "row"), count_of(len(self.columns), "column")
        return f"{rows} ({self.row_title}) and {columns} ({self.column_title})"

    @property
    def axes(self) -> dict[str, Any]:
        """Rows, columns, their titles, and the mask, under the names that figures have for them."""
        names = ("rows", "columns", "row_title", "column_title", "allowed")
        return {name: getattr(self, name) for name in names}

    def pooled(self, most: int = 40) -> dict[str, Any]:
        """The same of ``max_pool`` of its maps, without titles, as the picture of all heads has."""
        return {
            "rows": pool_labels(self.rows, most),
            "columns": pool_labels(self.columns, most),
            "allowed": pool_mask(self.allowed, most),
        }

    def apply(self, weights: Floats) -> Floats:
        """Convert maps between tokens, (…, Q, M), to maps of this grid, (…, rows, columns)."""
        if tuple(map(len, self.spans)) != weights.shape[-2:]:
            weights = to_words(weights, *self.spans)
        if self.spans == (self.row_spans, self.column_spans):
            return weights
        rows, columns = (
            [every.index(span) for span in shown]
            for every, shown in zip(self.spans, (self.row_spans, self.column_spans), strict=True)
        )
        cells = weights[..., rows, :][..., columns]
        return row_shares(cells) if self.renormalised else cells

    def part(self, rows: slice, columns: slice) -> Grid:
        """Return the axes of some neighbouring rows and columns."""
        return replace(
            self,
            rows=self.rows[rows],
            columns=self.columns[columns],
            row_spans=self.row_spans[rows],
            column_spans=self.column_spans[columns],
            allowed=None if self.allowed is None else self.allowed[rows, columns],
        )

    def row_of(self, step: int) -> int | None:
        """Return the row of a decoder step (or source token); None if it is left out."""
        return _place(self.row_spans, step)

    def column_of(self, token: int) -> int | None:
        """Return the column of a key token; None if it is left out."""
        return _place(self.column_spans, token)


def _place(spans: Sequence[Word], token: int) -> int | None:
    return next((i for i, span in enumerate(spans) if span.start <= token < span.stop), None)


@dataclass(frozen=True)
class GridOptions:
    """These options say what the rows and columns of attention maps are."""

    units: Units = "tokens"  # of rows and columns
    rows_by: RowsBy = "predicted"  # whose words group decoder rows, and leave them out as special
    special: bool = True  # whether those of special tokens, such as ``</s>``, are shown
    renormalised: bool = False  # whether rows then sum to 1 again, if those are not shown
    punctuation: bool = True  # whether columns of marks are shown if special ones are not


def make_grid(trace: Trace, kind: Kind, grid_options: GridOptions = GridOptions()) -> Grid:
    """Make the axes of a trace's maps of a kind.

    A decoder row is one position, or those of one word that they predict or consume, as the options
    say; its label is always what it predicts ← what it consumes. Columns are consumed tokens.
    Without special tokens, rows that go by a special token and columns of one are left out.
    """
    units, keys = grid_options.units, trace.keys_of(kind)
    column_spans, columns = _spans(keys, units), _labels(keys, units)
    if kind == "encoder_self":
        leading = keys
        row_spans, rows, row_title, allowed = column_spans, columns, "query", None
    else:
        by_predicted = grid_options.rows_by == "predicted"
        leading, other = trace.predicted, trace.consumed
        if not by_predicted:
            leading, other = other, leading
        row_title, row_spans = "predicted ← consumed", _spans(leading, units)
        words, singles = _labels(leading, units), token_labels(other)
        others = [" ".join(singles[span.start : span.stop]) for span in row_spans]
        sides = (words, others) if by_predicted else (others, words)
        rows = tuple(map(" ← ".join, zip(*sides, strict=True)))
        allowed = causal_word_mask(row_spans, column_spans) if kind == "decoder_self" else None
    shown_rows = _shown_spans(leading, row_spans, grid_options.special)
    shown_columns = _shown_spans(keys, column_spans, grid_options.special)
    if not grid_options.special and not grid_options.punctuation:
        marks = punctuation(keys)
        shown_columns = [
            i
            for i in shown_columns
            if not marks[column_spans[i].start : column_spans[i].stop].all()
        ]
    title = "consumed (key)" if kind == "decoder_self" else "source (key)"
    if not grid_options.special:
        title += ", no special tokens" + " or punctuation" * (not grid_options.punctuation)
        title += ", rows sum to 1 again" * grid_options.renormalised
    return Grid(
        rows=tuple(rows[i] for i in shown_rows),
        columns=tuple(columns[i] for i in shown_columns),
        row_title=row_title,
        column_title=title,
        row_spans=tuple(row_spans[i] for i in shown_rows),
        column_spans=tuple(column_spans[i] for i in shown_columns),
        allowed=allowed[shown_rows][:, shown_columns] if allowed is not None else None,
        spans=(row_spans, column_spans),
        renormalised=grid_options.renormalised and not grid_options.special,
    )


def _shown_spans(tokens: Tokens, spans: tuple[Word, ...], special: bool) -> list[int]:
    """Return the indices of the spans to show. A special token is always a word by itself."""
    if special:
        return list(range(len(spans)))
    return [i for i, span in enumerate(spans) if tokens.ids[span.start] not in tokens.special_ids]


def _spans(tokens: Tokens, units: Units) -> tuple[Word, ...]:
    if units == "words":
        return tokens.words
    return tuple(Word(token, index, index + 1) for index, token in enumerate(tokens.texts))


def _labels(tokens: Tokens, units: Units) -> tuple[str, ...]:
    return tuple(word_labels(tokens) if units == "words" else token_labels(tokens))
