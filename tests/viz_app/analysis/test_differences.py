from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log2, sqrt

import numpy as np
import pytest
import torch

from headwise.viz_app.analysis.differences import (
    first_word_mismatch,
    head_distances,
    jensen_shannon,
    pool_differences,
)
from headwise.viz_app.measuring.heads import distance
from headwise.viz_app.records.trace import Floats, Tokens, Trace
from tests.floats import assert_near, rounding


def rows(*values: list[float]) -> Floats:
    return np.array(values, dtype=np.float32)


def test_distance_is_0_for_equal_and_1_for_disjoint_rows() -> None:
    a = rows([0.5, 0.5, 0], [1, 0, 0], [0.25, 0.25, 0.5])
    b = rows([0.5, 0.5, 0], [0, 0.5, 0.5], [0.25, 0.25, 0.5])
    assert_near(jensen_shannon(a, b), [0, 1, 0])


def test_distance_by_hand() -> None:
    # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4).
    divergence = (log2(4 / 3) + (log2(2 / 3) / 2 + log2(2) / 2)) / 2
    a, b = rows([1, 0]), rows([0.5, 0.5])
    assert_near(jensen_shannon(a, b), [sqrt(divergence)])
    np.testing.assert_array_equal(jensen_shannon(a, b), jensen_shannon(b, a))


def test_masked_keys_do_not_change_the_distance() -> None:
    a, b = rows([1, 0]), rows([0.5, 0.5])
    padded = [np.hstack([each, rows([0, 0])]) for each in (a, b)]
    assert_near(jensen_shannon(*padded), jensen_shannon(a, b))


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


def test_rows_with_a_single_key_do_not_count_in_a_head_distance() -> None:
    """Of three rows the first has one key, the second is the same in both, the third differs."""
    a = np.zeros((1, 1, 3, 3), np.float32)
    a[..., 0] = 1
    b = a.copy()
    b[0, 0, 2] = [0, 0, 1]
    causal = np.tri(3, dtype=bool)
    assert_near(head_distances(a, b, allowed=causal), [[1 / 2]])
    assert_near(head_distances(a, b, allowed=None), [[1 / 3]])


@pytest.mark.parametrize(
    ("queries", "keys", "allowed"), [(1, 1, np.tri(1, dtype=bool)), (5, 1, None)]
)
def test_head_distance_is_unknown_without_a_choice_of_keys(
    queries: int, keys: int, allowed: np.ndarray | None
) -> None:
    ones = np.ones((2, 3, queries, keys), np.float32)
    distances = head_distances(ones, ones, allowed=allowed)
    assert distances.shape == (2, 3)
    assert np.isnan(distances).all()


@pytest.mark.parametrize("causal", [True, False])
def test_head_distance_is_the_stored_measure(causal: bool) -> None:
    generator = np.random.default_rng(3)
    allowed = np.tri(5, dtype=bool) if causal else np.ones((5, 7), bool)
    a, b = (
        generator.random((2, 3, *allowed.shape), np.float32).astype(np.float32) * allowed
        for _ in range(2)
    )
    a, b = (maps / maps.sum(axis=-1, keepdims=True) for maps in (a, b))
    for layer, found in enumerate(head_distances(a, b, allowed=allowed if causal else None)):
        both = (torch.tensor(maps[layer : layer + 1]) for maps in (a, b))
        measured = distance(*both, torch.tensor(allowed[None]))
        assert_near(found, measured.total / measured.count)


def test_maps_of_different_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one shape, got \(1, 2, 3, 5\) and \(1, 2, 3, 7\)$"):
        head_distances(
            np.zeros((1, 2, 3, 5), np.float32), np.zeros((1, 2, 3, 7), np.float32), allowed=None
        )


def test_pool_differences_takes_the_value_farthest_from_0() -> None:
    maps = rows([0.25, -0.5, 0], [0.125, 0.25, 0], [0, -0.125, 0.0625])
    np.testing.assert_array_equal(pool_differences(maps, 2), rows([-0.5, 0], [-0.125, 0.0625]))
    np.testing.assert_array_equal(pool_differences(maps, 3), maps)
    assert pool_differences(np.zeros((41, 80), np.float32)).shape == (21, 40)


@pytest.fixture
def worded(trace: Trace, make_tokens: Callable[..., Tokens]) -> Callable[..., Trace]:
    """A trace whose source and target have these words."""

    def make(source: str, target: str) -> Trace:
        source_tokens, predicted = (
            make_tokens(*([word] for word in text.split())) for text in (source, target)
        )
        return replace(trace, source=source_tokens, predicted=predicted)

    return make


def test_equal_words_have_no_mismatch(worded: Callable[..., Trace]) -> None:
    a, b = worded("The cat .", "El gato ."), worded("the cat .", "el gato .")
    names = ("A", "B")
    assert first_word_mismatch(a, b, names, folded=True) == ""
    assert first_word_mismatch(a, a, names, folded=False) == ""
    assert first_word_mismatch(a, b, names, folded=False) == (
        "Word 1 of the source is “The” for A and “the” for B (3 and 3 words in all)"
    )


def test_unknown_word_matches_any_word(worded: Callable[..., Trace]) -> None:
    a, b = worded("The axolotl .", "El ajolote ."), worded("the <unk> .", "el <unk> .")
    assert first_word_mismatch(a, b, ("A", "B"), folded=True) == ""
    assert first_word_mismatch(b, a, ("A", "B"), folded=True) == ""


def test_unknown_word_does_not_match_a_space(
    worded: Callable[..., Trace], make_tokens: Callable[..., Tokens]
) -> None:
    spaced = replace(worded("", "El gato ."), source=make_tokens(["two"], [" "], ["cats"]))
    spaced = replace(
        spaced,
        source=replace(
            spaced.source,
            words=tuple(
                replace(word, text=text)
                for word, text in zip(spaced.source.words, ["two", " ", "cats"], strict=True)
            ),
        ),
    )
    other = worded("two <unk>", "el gato .")
    assert first_word_mismatch(spaced, other, ("A", "B"), folded=True) == (
        "Word 2 of the source is “␣” for A and “<unk>” for B (3 and 2 words in all)"
    )


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("el perro .", "Word 2 of the target is “gato” for A and “perro” for B"),
        ("el gato . .", "Word 4 of the target is missing for A and “.” for B"),
        ("el gato", "Word 3 of the target is “.” for A and missing for B"),
    ],
)
def test_first_mismatch_is_described(
    worded: Callable[..., Trace], target: str, reason: str
) -> None:
    a, b = worded("The cat .", "El gato ."), worded("the cat .", target)
    counts = f" (3 and {len(target.split())} words in all)"
    assert first_word_mismatch(a, b, ("A", "B"), folded=True) == reason + counts
