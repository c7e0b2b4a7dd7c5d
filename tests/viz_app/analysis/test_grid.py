from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from headwise.model.config import BOS, EOS, PAD
from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.records.trace import SPECIAL_IDS, Tokens, Trace
from tests.floats import assert_near


@pytest.fixture
def trace(make_tokens: Callable[..., Tokens]) -> Trace:
    """«He sees.» → «lo ve», with two tokens in «sees» and in «ve»; no arrays."""
    values: dict[str, Any] = {field.name: None for field in fields(Trace)}
    values["source"] = make_tokens([" He"], [" see", "s"], ["."], ["</s>"])
    values["consumed"] = make_tokens(["<s>"], [" lo"], [" v", "e"])
    values["predicted"] = make_tokens([" lo"], [" v", "e"], ["</s>"])
    return Trace(**values)


SOURCE = ("source (key)", ("He", "see", "·s", ".", "</s>"))
SOURCE_WORDS = ("source (key)", ("He", "sees", ".", "</s>"))
CONSUMED = ("consumed (key)", ("<s>", "lo", "v", "·e"))
CONSUMED_WORDS = ("consumed (key)", ("<s>", "lo", "ve"))
BY_PREDICTED = ("predicted ← consumed", ("lo ← <s>", "v ← lo", "·e ← v", "</s> ← ·e"))
WORDS_BY_PREDICTED = ("predicted ← consumed", ("lo ← <s>", "ve ← lo v", "</s> ← ·e"))
WORDS_BY_CONSUMED = ("predicted ← consumed", ("lo ← <s>", "v ← lo", "·e </s> ← ve"))
WORDS = GridOptions("words")
CONSUMED_FIRST = GridOptions(rows_by="consumed")
CONSUMED_WORDS_FIRST = GridOptions("words", "consumed")


@pytest.mark.parametrize(
    ("kind", "options", "rows", "columns", "allowed"),
    [
        ("encoder_self", GridOptions(), ("query", SOURCE[1]), SOURCE, None),
        ("encoder_self", CONSUMED_WORDS_FIRST, ("query", SOURCE_WORDS[1]), SOURCE_WORDS, None),
        ("decoder_self", GridOptions(), BY_PREDICTED, CONSUMED, np.tri(4)),
        ("decoder_self", CONSUMED_FIRST, BY_PREDICTED, CONSUMED, np.tri(4)),
        ("decoder_self", WORDS, WORDS_BY_PREDICTED, CONSUMED_WORDS, [[1, 0, 0], [1] * 3, [1] * 3]),
        ("decoder_self", CONSUMED_WORDS_FIRST, WORDS_BY_CONSUMED, CONSUMED_WORDS, np.tri(3)),
        ("cross", GridOptions(), BY_PREDICTED, SOURCE, None),
        ("cross", WORDS, WORDS_BY_PREDICTED, SOURCE_WORDS, None),
    ],
)
def test_rows_columns_and_mask(
    trace: Trace,
    kind: Kind,
    options: GridOptions,
    rows: tuple[str, tuple[str, ...]],
    columns: tuple[str, tuple[str, ...]],
    allowed: Any,
) -> None:
    grid = make_grid(trace, kind, options)
    assert (grid.row_title, grid.rows) == rows
    assert (grid.column_title, grid.columns) == columns
    if allowed is None:
        assert grid.allowed is None
    else:
        assert grid.allowed is not None
        assert grid.allowed.dtype == np.bool_
        np.testing.assert_array_equal(grid.allowed, np.array(allowed, dtype=bool))


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (GridOptions(), [0, 1, 2, 3]),
        (WORDS, [0, 1, 1, 2]),
        (CONSUMED_WORDS_FIRST, [0, 1, 2, 2]),
        (GridOptions("words", special=False), [0, 1, 1, None]),
    ],
)
def test_row_of_a_step(trace: Trace, options: GridOptions, rows: list[int | None]) -> None:
    grid = make_grid(trace, "cross", options)
    assert [grid.row_of(step) for step in range(4)] == rows


def test_word_grid_merges_tokens(trace: Trace) -> None:
    grid = make_grid(trace, "cross", WORDS)
    together = grid.apply(np.arange(20, dtype=np.float32).reshape(1, 4, 5))
    assert together.tolist() == [[[0, 3, 3, 4], [7.5, 18, 10.5, 11.5], [15, 33, 18, 19]]]
    assert [grid.column_of(token) for token in range(5)] == [0, 1, 1, 2, 3]


# Without special tokens


@pytest.mark.parametrize(
    ("kind", "units", "rows_by", "rows", "columns"),
    [
        ("decoder_self", "tokens", "predicted", BY_PREDICTED[1][:-1], CONSUMED[1][1:]),
        ("decoder_self", "tokens", "consumed", BY_PREDICTED[1][1:], CONSUMED[1][1:]),
        ("decoder_self", "words", "consumed", WORDS_BY_CONSUMED[1][1:], CONSUMED_WORDS[1][1:]),
        ("cross", "words", "predicted", WORDS_BY_PREDICTED[1][:-1], SOURCE_WORDS[1][:-1]),
    ],
)
def test_special_tokens_are_left_out(
    trace: Trace, kind: Kind, units: Any, rows_by: Any, rows: tuple[str], columns: tuple[str]
) -> None:
    """A row goes by what leads it; the first row led by what it predicts stays, though it is all
    that <s> consumes."""
    grid = make_grid(trace, kind, GridOptions(units, rows_by, special=False))
    assert (grid.rows, grid.columns) == (rows, columns)
    assert grid.column_title.endswith("(key), no special tokens")
    whole = make_grid(trace, kind, GridOptions(units, rows_by))
    shown = slice(1, None) if rows_by == "consumed" else slice(-1)
    if whole.allowed is not None and grid.allowed is not None:
        np.testing.assert_array_equal(grid.allowed, whole.allowed[shown, 1:])
    if units == "tokens":
        weights = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
        np.testing.assert_array_equal(grid.apply(weights)[0], weights[0, shown, 1:])


def test_special_ids_match_the_model() -> None:
    assert {PAD, BOS, EOS} == SPECIAL_IDS


def test_cells_without_special_tokens_by_hand(trace: Trace) -> None:
    """Cross-attention by words: tokens of «sees» are summed, steps of «ve» averaged."""
    weights = np.array(
        [
            [0.1, 0.2, 0.1, 0.1, 0.5],
            [0.0, 0.5, 0.3, 0.0, 0.2],
            [0.2, 0.1, 0.1, 0.2, 0.4],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ],
        dtype=np.float32,
    )
    kept = np.array([[0.1, 0.3, 0.1], [0.1, 0.5, 0.1]])
    grid = make_grid(trace, "cross", GridOptions("words", special=False))
    assert_near(grid.apply(weights), kept)
    assert_near(grid.apply(np.stack([weights] * 3))[2], kept)
    again = make_grid(trace, "cross", GridOptions("words", special=False, renormalised=True))
    assert again.column_title == "source (key), no special tokens, rows sum to 1 again"
    assert_near(again.apply(weights), kept / np.array([[0.5], [0.7]]))
    # With special tokens, rows sum to 1 already: there is nothing to scale.
    whole = make_grid(trace, "cross", GridOptions(renormalised=True))
    np.testing.assert_array_equal(whole.apply(weights * 2), weights * 2)


def test_row_without_weight_stays_zero(trace: Trace) -> None:
    """The first row of decoder self-attention has only <s> to look at."""
    grid = make_grid(trace, "decoder_self", GridOptions(special=False, renormalised=True))
    cells = grid.apply(np.tril(np.full((4, 4), 0.25, dtype=np.float32)))
    assert_near(cells, [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]])
