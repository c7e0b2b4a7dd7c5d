from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch

from headwise.model.config import EOS
from headwise.model.decoding.greedy import greedy
from headwise.model.decoding.sampling import nucleus, sample
from headwise.model.transformer import Transformer
from tests.floats import near

TABLE = [0.02, 0.03, 0.05, 0.1, 0.4, 0.25, 0.15]
"""Probabilities of the seven tokens of ``memoryless``."""


@pytest.fixture(scope="module")
def memoryless(make_model: Callable[..., Transformer]) -> Transformer:
    """Make a model in float64 whose probabilities do not depend on earlier tokens."""
    model = make_model(target_vocab_size=len(TABLE), output_bias=True, tied="none").double()
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.copy_(torch.tensor(TABLE, dtype=torch.float64).log())
    return model


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1, 1, [0.5, 0.25, 0.15, 0.1]),
        (1, 0.95, [0.5, 0.25, 0.15, 0.1]),
        (1, 0.8, [5 / 9, 2.5 / 9, 1.5 / 9, 0]),
        (1, 0.7, [2 / 3, 1 / 3, 0, 0]),
        (1, 0.4, [1, 0, 0, 0]),
        (1, 1e-9, [1, 0, 0, 0]),
        (0.5, 1, [0.25 / 0.345, 0.0625 / 0.345, 0.0225 / 0.345, 0.01 / 0.345]),
        (0.5, 0.9, [0.8, 0.2, 0, 0]),  # the temperature comes first: 0.725 + 0.181 are enough
        (0.02, 1, [1, 0, 0, 0]),
    ],
)
def test_nucleus_has_the_fewest_tokens_with_enough_probability(
    temperature: float, top_p: float, expected: list[float]
) -> None:
    rows = [[0.1, 0.5, 0.15, 0.25], [0.25, 0.15, 0.1, 0.5]]
    logits = torch.tensor(rows, dtype=torch.float64).log() + 3
    ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
    assert ids.tolist() == [[1, 3, 2, 0], [3, 0, 1, 2]]
    for row in probability.tolist():  # the roundings of logits are divided by the temperature
        assert row == near(expected, size=1 / temperature)
        assert [value == 0 for value in row] == [value == 0 for value in expected] or top_p == 1


@pytest.mark.parametrize(("top_p", "kept"), [(0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (1, 4)])
def test_nucleus_of_equally_likely_tokens(top_p: float, kept: int) -> None:
    ids, probability = nucleus(torch.zeros(1, 4), temperature=1, top_p=top_p)
    assert sorted(ids[0].tolist()) == [0, 1, 2, 3]
    assert probability[0].tolist() == near([1 / kept] * kept + [0] * (4 - kept))


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1, 1, TABLE),
        (0.5, 1, [value**2 / 0.2588 for value in TABLE]),
        (2, 1, [value**0.5 / sum(p**0.5 for p in TABLE) for value in TABLE]),
        (1, 0.75, [0, 0, 0, 0, 0.5, 0.3125, 0.1875]),  # 0.4 + 0.25 are too few
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(
    memoryless: Transformer, temperature: float, top_p: float, expected: list[float]
) -> None:
    seeds = range(500)
    targets = sample(memoryless, [[EOS]] * 500, seeds=seeds, temperature=temperature, top_p=top_p)
    counts = Counter(id for target in targets for id in target[1:])
    total = sum(counts.values())
    assert total > 2000
    assert sum(expected) == near(1)
    assert set(counts) == {id for id, value in enumerate(expected) if value}
    chi_square = sum(
        (counts[id] - total * value) ** 2 / (total * value)
        for id, value in enumerate(expected)
        if value
    )
    assert chi_square < 22.5  # 99.9 % of all draws, for six degrees of freedom


@pytest.mark.parametrize(
    ("drawn", "top_p", "expected"),
    [
        (0.0, 1, 4),
        (0.39, 1, 4),
        (0.41, 1, 5),
        (0.66, 1, 6),
        (1 - 2**-53, 1, 0),
        (0.49, 0.75, 4),
        (0.51, 0.75, 5),
        (1 - 2**-53, 0.75, 6),
    ],
)
def test_a_random_number_selects_a_token_by_cumulative_probability(
    memoryless: Transformer,
    monkeypatch: pytest.MonkeyPatch,
    drawn: float,
    top_p: float,
    expected: int,
) -> None:
    """The likeliest first: 4 up to 0.4, 5 up to 0.65, 6, …, 0; also at the very ends."""
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([drawn], dtype=torch.float64))
    [target] = sample(memoryless, [[EOS]], seeds=[0], top_p=top_p)
    assert target[1] == expected


def test_samples_depend_only_on_their_seeds(model: Transformer, sources: list[list[int]]) -> None:
    """The rest of the batch makes no difference."""
    seeds = list(range(5, 5 + len(sources)))
    targets = sample(model, sources, seeds=seeds)
    assert sample(model, sources, seeds=seeds) == targets
    for source, seed, target in zip(sources, seeds, targets, strict=True):
        assert sample(model, [source], seeds=[seed]) == [target]
    others = sample(model, sources, seeds=[seed + 100 for seed in seeds])
    assert all(other != target for other, target in zip(others, targets, strict=True))
    twice = sample(model, [sources[0]] * 3, seeds=[8, 9, 8])
    assert twice[0] == twice[2] != twice[1]


def test_sampling_does_not_use_the_global_generator(
    model: Transformer, sources: list[list[int]]
) -> None:
    before = torch.get_rng_state()
    sample(model, sources, seeds=range(len(sources)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("temperature", "top_p"), [(1e-4, 1), (1e-4, 0.9), (1, 1e-9), (3, 1e-9)])
def test_low_temperature_or_a_tiny_nucleus_is_greedy_decoding(
    model: Transformer, sources: list[list[int]], temperature: float, top_p: float
) -> None:
    seeds = range(len(sources))
    targets = sample(model, sources, seeds=seeds, temperature=temperature, top_p=top_p)
    assert targets == greedy(model, sources)


def test_each_source_needs_a_seed(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected 2 seeds, one a source, got 1"):
        sample(model, [[EOS], [5, EOS]], seeds=[3])
