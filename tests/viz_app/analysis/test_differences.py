from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log2, sqrt

import numpy as np
import pytest

from viz_app.analysis.differences import (
    head_distances,
    jensen_shannon,
    pool_differences,
    ranked,
    shapes,
    why_not_by_cell,
)
from viz_app.records import Floats, Kind, Tokens, Trace


def rows(*values: list[float]) -> Floats:
    return np.array(values, dtype=np.float32)


def test_distance_is_nought_for_equal_rows_and_one_for_rows_without_a_common_key() -> None:
    a = rows([0.5, 0.5, 0], [1, 0, 0], [0.25, 0.25, 0.5])
    b = rows([0.5, 0.5, 0], [0, 0.5, 0.5], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(jensen_shannon(a, b), [0, 1, 0], atol=1e-7)


def test_distance_by_hand() -> None:
    # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4).
    divergence = (log2(4 / 3) + (log2(2 / 3) / 2 + log2(2) / 2)) / 2
    a, b = rows([1, 0]), rows([0.5, 0.5])
    np.testing.assert_allclose(jensen_shannon(a, b), [sqrt(divergence)], rtol=1e-6)
    np.testing.assert_array_equal(jensen_shannon(a, b), jensen_shannon(b, a))


def test_masked_keys_count_nothing() -> None:
    a, b = rows([1, 0]), rows([0.5, 0.5])
    padded = [np.hstack([each, rows([0, 0])]) for each in (a, b)]
    np.testing.assert_allclose(jensen_shannon(*padded), jensen_shannon(a, b), rtol=1e-7)


def test_a_distance_is_from_0_to_1_however_numbers_are_rounded() -> None:
    a = np.random.default_rng(3).dirichlet(np.ones(7), 500).astype(np.float32)
    near = jensen_shannon(a, np.nextafter(a, np.float32(1)))
    assert ((near >= 0) & (near < 1e-3)).all()
    nothing = np.zeros_like(a)
    far = jensen_shannon(np.hstack([a, nothing]), np.hstack([nothing, a]))
    assert ((far > 1 - 1e-6) & (far <= 1)).all()


def test_distance_of_a_head_is_the_mean_of_its_rows() -> None:
    a = np.zeros((2, 3, 5, 7), np.float32)
    a[..., 0] = 1
    b = a.copy()
    b[1, 2, 3:] = np.eye(7, dtype=np.float32)[[4, 6]]  # two of five rows go elsewhere
    expected = np.zeros((2, 3))
    expected[1, 2] = 2 / 5
    np.testing.assert_allclose(head_distances(a, b), expected, atol=1e-7)


def test_maps_of_two_shapes_have_no_distance() -> None:
    with pytest.raises(ValueError, match=r"one shape, got \(1, 2, 3, 5\) and \(1, 2, 3, 7\)$"):
        head_distances(np.zeros((1, 2, 3, 5), np.float32), np.zeros((1, 2, 3, 7), np.float32))


def test_the_value_farthest_from_nought_stands_for_its_block() -> None:
    maps = rows([0.25, -0.5, 0], [0.125, 0.25, 0], [0, -0.125, 0.0625])
    np.testing.assert_array_equal(pool_differences(maps, 2), rows([-0.5, 0], [-0.125, 0.0625]))
    np.testing.assert_array_equal(pool_differences(maps, 3), maps)
    assert pool_differences(np.zeros((41, 80), np.float32)).shape == (21, 40)


def test_heads_of_all_kinds_are_ranked() -> None:
    distances: dict[Kind, Floats] = {
        "encoder_self": rows([0.25, 0.125], [0, 0.75]),
        "cross": rows([0.5, 0.0625]),
    }
    assert ranked(distances) == [
        (("encoder_self", 1, 1), 0.75),
        (("cross", 0, 0), 0.5),
        (("encoder_self", 0, 0), 0.25),
        (("encoder_self", 0, 1), 0.125),
        (("cross", 0, 1), 0.0625),
        (("encoder_self", 1, 0), 0),
    ]


@pytest.fixture
def worded(trace: Trace, make_tokens: Callable[..., Tokens]) -> Callable[..., Trace]:
    """A trace whose source and target have these words."""

    def make(source: str, target: str) -> Trace:
        source_tokens, predicted = (
            make_tokens(*([word] for word in text.split())) for text in (source, target)
        )
        return replace(trace, source=source_tokens, predicted=predicted)

    return make


def test_the_same_words_can_be_compared_by_cell(worded: Callable[..., Trace]) -> None:
    a, b = worded("The cat .", "El gato ."), worded("the cat .", "el gato .")
    names = ("A", "B")
    assert why_not_by_cell(a, b, names, folded=True) == ""
    assert why_not_by_cell(a, a, names, folded=False) == ""
    assert why_not_by_cell(a, b, names, folded=False) == (
        "Word 1 of the source is “The” for A and “the” for B (3 and 3 words in all)"
    )


def test_a_word_that_one_does_not_know_stands_for_that_of_the_other(
    worded: Callable[..., Trace],
) -> None:
    a, b = worded("The axolotl .", "El ajolote ."), worded("the <unk> .", "el <unk> .")
    assert why_not_by_cell(a, b, ("A", "B"), folded=True) == ""
    assert why_not_by_cell(b, a, ("A", "B"), folded=True) == ""


def test_an_unknown_word_does_not_stand_for_a_space(
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
    assert why_not_by_cell(spaced, other, ("A", "B"), folded=True) == (
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
def test_the_first_word_that_differs_is_named(
    worded: Callable[..., Trace], target: str, reason: str
) -> None:
    a, b = worded("The cat .", "El gato ."), worded("the cat .", target)
    counts = f" (3 and {len(target.split())} words in all)"
    assert why_not_by_cell(a, b, ("A", "B"), folded=True) == reason + counts


def test_shapes_are_layers_and_heads(trace: Trace) -> None:
    assert shapes(trace) == (2, 3)
