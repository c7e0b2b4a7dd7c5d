from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from math import log2, sqrt

import numpy as np
import pytest
import torch

from headwise.viz_app.analysis.attention import (
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
