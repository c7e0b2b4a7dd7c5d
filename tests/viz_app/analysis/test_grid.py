from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from headwise.model.config import BOS, EOS, PAD
from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import GridOptions, RowsBy, Units, make_grid
from headwise.viz_app.records.trace import SPECIAL_IDS, Tokens, Trace
from tests.floats import assert_near

SOURCE_TOKENS = ("He", "see", "·s", ".", "</s>")
SOURCE_WORDS = ("He", "sees", ".", "</s>")


@pytest.fixture
def trace(make_tokens: Callable[..., Tokens]) -> Trace:
    """«He sees.» → «lo ve», with two tokens in «sees» and in «ve»; no arrays."""
    values: dict[str, Any] = {field.name: None for field in fields(Trace)}
    values["source"] = make_tokens([" He"], [" see", "s"], ["."], ["</s>"])
    values["consumed"] = make_tokens(["<s>"], [" lo"], [" v", "e"])
    values["predicted"] = make_tokens([" lo"], [" v", "e"], ["</s>"])
    return Trace(**values)


TOKENS_BY_PREDICTED = ("lo ← <s>", "v ← lo", "·e ← v", "</s> ← ·e")
TOKENS_BY_CONSUMED = ("<s> → lo", "lo → v", "v → ·e", "·e → </s>")
WORDS_BY_PREDICTED = ("lo ← <s>", "ve ← lo v", "</s> ← ·e")
WORDS_BY_CONSUMED = ("<s> → lo", "lo → v", "ve → ·e </s>")
CONSUMED_TOKENS = ("<s>", "lo", "v", "·e")
CONSUMED_WORDS = ("<s>", "lo", "ve")


@pytest.mark.parametrize(
    ("kind", "units", "rows_by", "rows", "columns"),
    [
        ("encoder_self", "tokens", "predicted", SOURCE_TOKENS, SOURCE_TOKENS),
        ("encoder_self", "words", "consumed", SOURCE_WORDS, SOURCE_WORDS),
        ("decoder_self", "tokens", "predicted", TOKENS_BY_PREDICTED, CONSUMED_TOKENS),
        ("decoder_self", "tokens", "consumed", TOKENS_BY_CONSUMED, CONSUMED_TOKENS),
        ("decoder_self", "words", "predicted", WORDS_BY_PREDICTED, CONSUMED_WORDS),
        ("decoder_self", "words", "consumed", WORDS_BY_CONSUMED, CONSUMED_WORDS),
        ("cross", "tokens", "predicted", TOKENS_BY_PREDICTED, SOURCE_TOKENS),
        ("cross", "words", "predicted", WORDS_BY_PREDICTED, SOURCE_WORDS),
    ],
)
def test_row_and_column_labels(
    trace: Trace,
    kind: Kind,
    units: Units,
    rows_by: RowsBy,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> None:
    grid = make_grid(trace, kind, GridOptions(units=units, rows_by=rows_by))
    assert grid.rows == rows
    assert grid.columns == columns


@pytest.mark.parametrize(
    ("kind", "rows_by", "row_title", "column_title"),
    [
        ("encoder_self", "predicted", "query", "source (key)"),
        ("decoder_self", "predicted", "predicted ← consumed", "consumed (key)"),
        ("cross", "consumed", "consumed → predicted", "source (key)"),
    ],
)
def test_axis_titles(
    trace: Trace, kind: Kind, rows_by: RowsBy, row_title: str, column_title: str
) -> None:
    grid = make_grid(trace, kind, GridOptions(rows_by=rows_by))
    assert (grid.row_title, grid.column_title) == (row_title, column_title)


@pytest.mark.parametrize(
    ("units", "rows_by", "allowed"),
    [
        ("tokens", "predicted", np.tri(4)),
        ("tokens", "consumed", np.tri(4)),
        ("words", "predicted", [[1, 0, 0], [1, 1, 1], [1, 1, 1]]),
        ("words", "consumed", np.tri(3)),
    ],
)
def test_allowed_cells_of_decoder_self_attention(
    trace: Trace, units: Units, rows_by: RowsBy, allowed: Any
) -> None:
    grid = make_grid(trace, "decoder_self", GridOptions(units=units, rows_by=rows_by))
    assert grid.allowed is not None
    assert grid.allowed.dtype == np.bool_
    np.testing.assert_array_equal(grid.allowed, np.array(allowed, dtype=bool))


@pytest.mark.parametrize("kind", ["encoder_self", "cross"])
def test_only_decoder_self_attention_is_masked(trace: Trace, kind: Kind) -> None:
    assert make_grid(trace, kind, GridOptions(units="words")).allowed is None


@pytest.mark.parametrize(
    ("units", "rows_by", "rows"),
    [
        ("tokens", "predicted", [0, 1, 2, 3]),
        ("words", "predicted", [0, 1, 1, 2]),
        ("words", "consumed", [0, 1, 2, 2]),
    ],
)
def test_row_of_step(trace: Trace, units: Units, rows_by: RowsBy, rows: list[int]) -> None:
    grid = make_grid(trace, "cross", GridOptions(units=units, rows_by=rows_by))
    assert [grid.row_of(step) for step in range(4)] == rows


def test_word_grid_merges_tokens(trace: Trace) -> None:
    weights = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    together = make_grid(trace, "cross", GridOptions(units="words")).apply(weights)
    assert together.tolist() == [[[0, 3, 3, 4], [7.5, 18, 10.5, 11.5], [15, 33, 18, 19]]]


# Without special tokens


@pytest.mark.parametrize(
    ("kind", "units", "rows_by", "rows", "columns"),
    [
        ("decoder_self", "tokens", "predicted", TOKENS_BY_PREDICTED[:-1], CONSUMED_TOKENS[1:]),
        ("decoder_self", "tokens", "consumed", TOKENS_BY_CONSUMED[1:], CONSUMED_TOKENS[1:]),
        ("decoder_self", "words", "consumed", WORDS_BY_CONSUMED[1:], CONSUMED_WORDS[1:]),
        ("cross", "words", "predicted", WORDS_BY_PREDICTED[:-1], SOURCE_WORDS[:-1]),
    ],
)
def test_special_tokens_are_left_out(
    trace: Trace,
    kind: Kind,
    units: Units,
    rows_by: RowsBy,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> None:
    """A row goes by what leads it; the first row led by what it predicts stays, though it is all
    that <s> consumes."""
    grid = make_grid(trace, kind, GridOptions(units, rows_by, special=False))
    assert (grid.rows, grid.columns) == (rows, columns)
    assert grid.column_title.endswith("(key), no special tokens")
    whole = make_grid(trace, kind, GridOptions(units, rows_by))
    if whole.allowed is not None and grid.allowed is not None:
        first = int(rows_by == "consumed")
        assert (grid.allowed == whole.allowed[first : first + len(rows), 1:]).all()


@pytest.mark.parametrize(("rows_by", "rows"), [("predicted", slice(3)), ("consumed", slice(1, 4))])
def test_cells_without_special_tokens_are_those_of_the_others(
    trace: Trace, rows_by: RowsBy, rows: slice
) -> None:
    weights = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    grid = make_grid(trace, "decoder_self", GridOptions("tokens", rows_by, special=False))
    np.testing.assert_array_equal(grid.apply(weights)[0], weights[0, rows, 1:])


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
    scaled = kept / np.array([[0.5], [0.7]])
    assert_near(again.apply(weights), scaled)


def test_row_without_weight_stays_zero(trace: Trace) -> None:
    """The first row of decoder self-attention has only <s> to look at."""
    reading = GridOptions(special=False, renormalised=True)
    weights = np.tril(np.full((4, 4), 0.25, dtype=np.float32))
    cells = make_grid(trace, "decoder_self", reading).apply(weights)
    assert_near(cells, [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]])


def test_row_of_a_step_that_is_left_out_is_none(trace: Trace) -> None:
    grid = make_grid(trace, "cross", GridOptions("words", special=False))
    assert [grid.row_of(step) for step in range(4)] == [0, 1, 1, None]


def test_renormalising_needs_special_tokens_left_out(trace: Trace) -> None:
    """Rows sum to 1 already: there is nothing to scale."""
    weights = np.random.default_rng(0).random((2, 4, 5)).astype(np.float32)
    grid = make_grid(trace, "cross", GridOptions(renormalised=True))
    np.testing.assert_array_equal(grid.apply(weights), weights)
