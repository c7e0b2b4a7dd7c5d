"""Rows and columns of maps, and how far two maps are apart."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from math import log2, sqrt
from typing import Any

import numpy as np
import pytest
import torch

from headwise.model.config import BOS, EOS, PAD
from headwise.model.interface import Kind
from headwise.viz_app.analysis.attention import (
    first_word_mismatch,
    head_distances,
    jensen_shannon,
    pool_differences,
)
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.measuring.heads import distance
from headwise.viz_app.records.trace import SPECIAL_IDS, Floats, Tokens, Trace
from tests.floats import assert_near, rounding


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


# Two traces compared


def rows(*values: list[float]) -> Floats:
    return np.array(values, dtype=np.float32)


def test_distance_by_hand() -> None:
    """p = (1, 0), q = (1/2, 1/2) and their mean (3/4, 1/4); masked keys do not change it."""
    divergence = (log2(4 / 3) + (log2(2 / 3) / 2 + log2(2) / 2)) / 2
    a = rows([0.5, 0.5, 0], [1, 0, 0], [1, 0, 0])
    b = rows([0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0.5, 0])
    assert_near(jensen_shannon(a, b), [0, 1, sqrt(divergence)])
    np.testing.assert_array_equal(jensen_shannon(a, b), jensen_shannon(b, a))


def test_distance_is_between_0_and_1() -> None:
    a = np.random.default_rng(3).dirichlet(np.ones(7), 500).astype(np.float32)
    nearest = jensen_shannon(a, np.nextafter(a, np.float32(1)))
    # Its square is that of the step, relative to each weight, and rounding in float64.
    most = (np.finfo(np.float32).eps ** 2 + rounding(np.float64, 1)) ** 0.5
    assert ((nearest >= 0) & (nearest < most)).all()
    nothing = np.zeros_like(a)
    far = jensen_shannon(np.hstack([a, nothing]), np.hstack([nothing, a]))
    assert_near(far, 1)
    assert (far <= 1).all()


def test_head_distance_is_the_mean_over_rows() -> None:
    a = np.zeros((2, 3, 5, 7), np.float32)
    a[..., 0] = 1
    b = a.copy()
    b[1, 2, 3:] = np.eye(7, dtype=np.float32)[[4, 6]]  # two of five rows go elsewhere
    expected = np.zeros((2, 3))
    expected[1, 2] = 2 / 5
    assert_near(head_distances(a, b, allowed=None), expected)
    # The mask leaves one key to the first row, which does not count.
    causal = np.tri(5, 7, dtype=bool)
    assert_near(head_distances(a, b, allowed=causal), expected * 5 / 4)
    with pytest.raises(ValueError, match=r"one shape, got \(2, 3, 5, 7\) and \(2, 3, 5, 5\)$"):
        head_distances(a, b[..., :5], allowed=None)


def test_head_distance_takes_the_memory_of_a_head_and_not_of_all() -> None:
    maps = np.full((4, 8, 100, 100), 0.01, np.float32)
    tracemalloc.start()
    head_distances(maps, maps, allowed=None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < maps.nbytes


def test_head_distance_is_unknown_without_a_choice_of_keys() -> None:
    ones = np.ones((2, 3, 5, 1), np.float32)
    for maps, allowed in ((ones, None), (ones[..., :1, :], np.tri(1, dtype=bool))):
        distances = head_distances(maps, maps, allowed=allowed)
        np.testing.assert_array_equal(distances, np.full((2, 3), np.nan))


@pytest.mark.parametrize("causal", [True, False])
def test_head_distance_is_the_stored_measure(causal: bool) -> None:
    generator = np.random.default_rng(3)
    allowed = np.tri(5, dtype=bool) if causal else np.ones((5, 7), bool)
    a, b = generator.random((2, 2, 3, *allowed.shape), np.float32) * allowed
    a, b = (maps / maps.sum(axis=-1, keepdims=True) for maps in (a, b))
    for layer, found in enumerate(head_distances(a, b, allowed=allowed if causal else None)):
        both = (torch.tensor(maps[layer : layer + 1]) for maps in (a, b))
        measured = distance(*both, torch.tensor(allowed[None]))
        assert_near(found, measured.total[0] / measured.count[0])


def test_pool_differences_takes_the_value_farthest_from_0() -> None:
    maps = rows([0.25, -0.5, 0], [0.125, 0.25, 0], [0, -0.125, 0.0625])
    np.testing.assert_array_equal(pool_differences(maps, 2), rows([-0.5, 0], [-0.125, 0.0625]))
    np.testing.assert_array_equal(pool_differences(maps, 3), maps)
    assert pool_differences(np.zeros((41, 80), np.float32)).shape == (21, 40)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("The cat . | El gato .", "the cat . | el gato .", ""),
        ("The axolotl . | El ajolote .", "the <unk> . | el <unk> .", ""),
        ("the <unk> . | el <unk> .", "The axolotl . | El ajolote .", ""),
        # With a word that is a space.
        ("two ␣ cats | el .", "two <unk> | el .", "2 source is “␣”, is “<unk>” 3 and 2"),
        ("The . | El gato .", "the . | el perro .", "2 target is “gato”, is “perro” 3 and 3"),
        ("The . | El gato .", "the . | el gato . .", "4 target is missing, is “.” 3 and 4"),
        ("The . | El gato .", "the . | el gato", "3 target is “.”, is missing 3 and 2"),
    ],
)
def test_first_word_mismatch(
    trace: Trace, make_tokens: Callable[..., Tokens], first: str, second: str, reason: str
) -> None:
    def worded(text: str) -> Tokens:
        tokens = make_tokens(*([word] for word in text.split()))
        words = (replace(word, text=word.text.replace("␣", " ")) for word in tokens.words)
        return replace(tokens, words=tuple(words))

    sides = [map(worded, text.split(" | ")) for text in (first, second)]
    a, b = (replace(trace, source=source, predicted=target) for source, target in sides)
    told = first_word_mismatch(a, b, ("A", "B"), folded=True)
    pattern = r"Word (\d) of the (\w+) is (.+) for A and (.+) for B \((.*) words in all\)"
    assert re.sub(pattern, r"\1 \2 is \3, is \4 \5", told) == reason
    assert first_word_mismatch(a, a, ("A", "B"), folded=False) == ""
    if not reason and "The cat" in first:
        assert first_word_mismatch(a, b, ("A", "B"), folded=False) == (
            "Word 1 of the source is “The” for A and “the” for B (3 and 3 words in all)"
        )


def test_a_grid_is_named_by_its_axes(trace: Trace) -> None:
    grid = make_grid(trace, "cross")
    of_one = replace(grid, rows=grid.rows[:1])
    assert of_one.said == f"1 row ({grid.row_title}) and 5 columns ({grid.column_title})"
