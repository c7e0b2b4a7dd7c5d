from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from model.config import BOS, EOS, PAD
from viz_app.analysis.grid import SPECIAL_IDS, Grid, Lead, Reading, Units, make_grid
from viz_app.records import Kind, Tokens, Trace

SOURCE_PIECES = ("He", "see", "·s", ".", "</s>")
SOURCE_WORDS = ("He", "sees", ".", "</s>")


@pytest.fixture
def trace(make_tokens: Callable[..., Tokens]) -> Trace:
    """«He sees.» → «lo ve», with two pieces in «sees» and in «ve»; no arrays."""
    values: dict[str, Any] = {field.name: None for field in fields(Trace)}
    values["source"] = make_tokens([" He"], [" see", "s"], ["."], ["</s>"])
    values["consumed"] = make_tokens(["<s>"], [" lo"], [" v", "e"])
    values["predicted"] = make_tokens([" lo"], [" v", "e"], ["</s>"])
    return Trace(**values)


def spans(grid: Grid) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Row and column spans as plain numbers."""
    return (
        [(word.start, word.stop) for word in grid.row_spans],
        [(word.start, word.stop) for word in grid.column_spans],
    )


PIECES_BY_PREDICTED = ("lo ← <s>", "v ← lo", "·e ← v", "</s> ← ·e")
PIECES_BY_CONSUMED = ("<s> → lo", "lo → v", "v → ·e", "·e → </s>")
WORDS_BY_PREDICTED = ("lo ← <s>", "ve ← lo v", "</s> ← ·e")
WORDS_BY_CONSUMED = ("<s> → lo", "lo → v", "ve → ·e </s>")
CONSUMED_PIECES = ("<s>", "lo", "v", "·e")
CONSUMED_WORDS = ("<s>", "lo", "ve")


@pytest.mark.parametrize(
    ("kind", "units", "lead", "rows", "columns"),
    [
        ("encoder_self", "pieces", "predicted", SOURCE_PIECES, SOURCE_PIECES),
        ("encoder_self", "pieces", "consumed", SOURCE_PIECES, SOURCE_PIECES),
        ("encoder_self", "words", "predicted", SOURCE_WORDS, SOURCE_WORDS),
        ("encoder_self", "words", "consumed", SOURCE_WORDS, SOURCE_WORDS),
        ("decoder_self", "pieces", "predicted", PIECES_BY_PREDICTED, CONSUMED_PIECES),
        ("decoder_self", "pieces", "consumed", PIECES_BY_CONSUMED, CONSUMED_PIECES),
        ("decoder_self", "words", "predicted", WORDS_BY_PREDICTED, CONSUMED_WORDS),
        ("decoder_self", "words", "consumed", WORDS_BY_CONSUMED, CONSUMED_WORDS),
        ("cross", "pieces", "predicted", PIECES_BY_PREDICTED, SOURCE_PIECES),
        ("cross", "pieces", "consumed", PIECES_BY_CONSUMED, SOURCE_PIECES),
        ("cross", "words", "predicted", WORDS_BY_PREDICTED, SOURCE_WORDS),
        ("cross", "words", "consumed", WORDS_BY_CONSUMED, SOURCE_WORDS),
    ],
)
def test_labels(
    trace: Trace,
    kind: Kind,
    units: Units,
    lead: Lead,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> None:
    grid = make_grid(trace, kind, Reading(units=units, lead=lead))
    assert grid.rows == rows
    assert grid.columns == columns


@pytest.mark.parametrize(
    ("kind", "lead", "row_title", "column_title"),
    [
        ("encoder_self", "predicted", "query", "source (key)"),
        ("decoder_self", "predicted", "predicted ← consumed", "consumed (key)"),
        ("decoder_self", "consumed", "consumed → predicted", "consumed (key)"),
        ("cross", "predicted", "predicted ← consumed", "source (key)"),
        ("cross", "consumed", "consumed → predicted", "source (key)"),
    ],
)
def test_titles(trace: Trace, kind: Kind, lead: Lead, row_title: str, column_title: str) -> None:
    grid = make_grid(trace, kind, Reading(lead=lead))
    assert (grid.row_title, grid.column_title) == (row_title, column_title)


def test_pieces_by_predicted_is_the_default(trace: Trace) -> None:
    assert make_grid(trace, "cross").rows == PIECES_BY_PREDICTED


EACH_STEP = [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("kind", "units", "lead", "rows", "columns"),
    [
        ("decoder_self", "pieces", "predicted", EACH_STEP, EACH_STEP),
        ("decoder_self", "words", "predicted", [(0, 1), (1, 3), (3, 4)], [(0, 1), (1, 2), (2, 4)]),
        ("decoder_self", "words", "consumed", [(0, 1), (1, 2), (2, 4)], [(0, 1), (1, 2), (2, 4)]),
        (
            "cross",
            "words",
            "predicted",
            [(0, 1), (1, 3), (3, 4)],
            [(0, 1), (1, 3), (3, 4), (4, 5)],
        ),
    ],
)
def test_spans(
    trace: Trace,
    kind: Kind,
    units: Units,
    lead: Lead,
    rows: list[tuple[int, int]],
    columns: list[tuple[int, int]],
) -> None:
    assert spans(make_grid(trace, kind, Reading(units=units, lead=lead))) == (rows, columns)


@pytest.mark.parametrize(
    ("units", "lead", "allowed"),
    [
        ("pieces", "predicted", np.tri(4)),
        ("pieces", "consumed", np.tri(4)),
        ("words", "predicted", [[1, 0, 0], [1, 1, 1], [1, 1, 1]]),
        ("words", "consumed", np.tri(3)),
    ],
)
def test_cells_that_the_mask_allows(trace: Trace, units: Units, lead: Lead, allowed: Any) -> None:
    grid = make_grid(trace, "decoder_self", Reading(units=units, lead=lead))
    assert grid.allowed is not None
    assert grid.allowed.dtype == np.bool_
    np.testing.assert_array_equal(grid.allowed, np.array(allowed, dtype=bool))


@pytest.mark.parametrize("kind", ["encoder_self", "cross"])
def test_only_the_decoder_s_self_attention_is_masked(trace: Trace, kind: Kind) -> None:
    assert make_grid(trace, kind, Reading(units="words")).allowed is None


@pytest.mark.parametrize(
    ("units", "lead", "rows"),
    [
        ("pieces", "predicted", [0, 1, 2, 3]),
        ("words", "predicted", [0, 1, 1, 2]),
        ("words", "consumed", [0, 1, 2, 2]),
    ],
)
def test_the_row_of_a_step(trace: Trace, units: Units, lead: Lead, rows: list[int]) -> None:
    grid = make_grid(trace, "cross", Reading(units=units, lead=lead))
    assert [grid.row_of(step) for step in range(4)] == rows


def test_a_grid_of_words_puts_pieces_together(trace: Trace) -> None:
    weights = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    together = make_grid(trace, "cross", Reading(units="words")).apply(weights)
    assert together.tolist() == [[[0, 3, 3, 4], [7.5, 18, 10.5, 11.5], [15, 33, 18, 19]]]


def test_a_grid_of_pieces_changes_nothing(trace: Trace) -> None:
    weights = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    np.testing.assert_array_equal(make_grid(trace, "cross").apply(weights), weights)


# Without special tokens


@pytest.mark.parametrize(
    ("kind", "units", "lead", "rows", "columns"),
    [
        ("encoder_self", "pieces", "predicted", SOURCE_PIECES[:-1], SOURCE_PIECES[:-1]),
        ("decoder_self", "pieces", "predicted", PIECES_BY_PREDICTED[:-1], CONSUMED_PIECES[1:]),
        ("decoder_self", "pieces", "consumed", PIECES_BY_CONSUMED[1:], CONSUMED_PIECES[1:]),
        ("decoder_self", "words", "consumed", WORDS_BY_CONSUMED[1:], CONSUMED_WORDS[1:]),
        ("cross", "pieces", "predicted", PIECES_BY_PREDICTED[:-1], SOURCE_PIECES[:-1]),
        ("cross", "words", "predicted", WORDS_BY_PREDICTED[:-1], SOURCE_WORDS[:-1]),
    ],
)
def test_rows_and_columns_of_special_tokens_are_left_out(
    trace: Trace,
    kind: Kind,
    units: Units,
    lead: Lead,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> None:
    """A row goes by what leads it; the first row led by what it predicts stays, though it is all
    that <s> consumes."""
    grid = make_grid(trace, kind, Reading(units, lead, special=False))
    assert (grid.rows, grid.columns) == (rows, columns)
    assert grid.column_title.endswith("(key), no special tokens")
    whole = make_grid(trace, kind, Reading(units, lead))
    if whole.allowed is not None and grid.allowed is not None:
        first = int(lead == "consumed")
        assert (grid.allowed == whole.allowed[first : first + len(rows), 1:]).all()


def test_special_tokens_are_those_of_the_model() -> None:
    assert {PAD, BOS, EOS} == SPECIAL_IDS


def test_cells_without_special_tokens_computed_by_hand(trace: Trace) -> None:
    """Cross-attention by words: pieces of «sees» are summed, steps of «ve» averaged."""
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
    grid = make_grid(trace, "cross", Reading("words", special=False))
    np.testing.assert_allclose(grid.apply(weights), kept, rtol=1e-6)
    np.testing.assert_allclose(grid.apply(np.stack([weights] * 3))[2], kept, rtol=1e-6)
    again = make_grid(trace, "cross", Reading("words", special=False, renormalised=True))
    assert again.column_title == "source (key), no special tokens, rows sum to 1 again"
    scaled = kept / np.array([[0.5], [0.7]])
    np.testing.assert_allclose(again.apply(weights), scaled, rtol=1e-6)


def test_a_row_with_nothing_left_stays_zero(trace: Trace) -> None:
    """The first row of decoder self-attention has only <s> to look at."""
    reading = Reading(special=False, renormalised=True)
    weights = np.tril(np.full((4, 4), 0.25, dtype=np.float32))
    cells = make_grid(trace, "decoder_self", reading).apply(weights)
    np.testing.assert_allclose(cells, [[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]], rtol=1e-6)


def test_a_row_that_is_left_out_belongs_to_no_step(trace: Trace) -> None:
    grid = make_grid(trace, "cross", Reading("words", special=False))
    assert [grid.row_of(step) for step in range(4)] == [0, 1, 1, None]


def test_special_tokens_change_nothing_while_they_are_there(trace: Trace) -> None:
    """Rows sum to 1 already: there is nothing to scale."""
    weights = np.random.default_rng(0).random((2, 4, 5)).astype(np.float32)
    grid = make_grid(trace, "cross", Reading(renormalised=True))
    np.testing.assert_array_equal(grid.apply(weights), weights)
