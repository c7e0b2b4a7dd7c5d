"""Probabilities worked out by hand from two texts over a vocabulary of four tokens."""

from __future__ import annotations

import math
from itertools import product

import pytest

from headwise.viz_app.measuring.stages import LanguageModel
from tests.floats import near

V = 4


@pytest.fixture
def model() -> LanguageModel:
    """Knows <s> 1 2 and <s> 1 3, where 0 is <s>."""
    made = LanguageModel(V, prefix=1)
    made.learn([0, 1, 2])
    made.learn([0, 1, 3])
    return made


# Three different tokens stand in four places: c() = 4, N() = 3.
ONE, TWO, NEVER = (2 + 3 / 4) / 7, (1 + 3 / 4) / 7, (3 / 4) / 7


@pytest.mark.parametrize(
    ("token", "history", "expected"),
    [
        (1, (), ONE),
        (2, (), TWO),
        (0, (), NEVER),  # <s> is history only
        (1, (0,), (2 + 1 * ONE) / 3),  # two times the same token
        (2, (1,), (1 + 2 * TWO) / 4),  # two different tokens, each once
        (1, (1,), (0 + 2 * ONE) / 4),
        (2, (0, 1), (1 + 2 * (1 + 2 * TWO) / 4) / 4),
        (2, (2, 1), (1 + 2 * TWO) / 4),  # a history that was never seen
        (2, (3, 3), TWO),
    ],
)
def test_longer_histories_are_mixed_with_shorter_ones(
    model: LanguageModel, token: int, history: tuple[int, ...], expected: float
) -> None:
    assert model.probability(token, history) == near(expected)


def test_probabilities_of_all_tokens_sum_to_one(model: LanguageModel) -> None:
    model.learn([0, 2, 2, 1, 3, 3, 2, 1, 2])
    for length in range(3):
        for history in product(range(V), repeat=length):
            assert sum(model.probability(token, history) for token in range(V)) == near(1)


def test_a_model_that_has_seen_nothing_finds_all_tokens_alike() -> None:
    model = LanguageModel(V, prefix=1)
    assert model.tokens == 0
    assert model.log_probabilities([0, 3, 1]) == near([-math.log(V)] * 2)


def test_a_text_has_a_log_probability_for_each_token_after_the_prefix(model: LanguageModel) -> None:
    expected = [model.probability(1, (0,)), model.probability(2, (0, 1))]
    expected.append(model.probability(3, (1, 2)))
    assert model.log_probabilities([0, 1, 2, 3]) == near([math.log(p) for p in expected])
    assert model.tokens == 4


def test_a_longer_prefix_is_history_only() -> None:
    model = LanguageModel(V, prefix=2)
    model.learn([3, 0, 1])
    assert model.tokens == 1
    assert model.probability(1, (3, 0)) > model.probability(1, (0,)) > model.probability(1, ())
    assert model.log_probabilities([3, 0, 1]) == [math.log(model.probability(1, (3, 0)))]
