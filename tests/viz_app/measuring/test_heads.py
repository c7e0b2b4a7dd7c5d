"""Measures of maps small enough for pencil and paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.viz_app.measuring.heads import (
    HeadSum,
    confidence,
    distance,
    entropy,
    on_keys,
    on_offset,
    on_rarest,
)
from tests.floats import near

Measure = Callable[[Tensor, Tensor], HeadSum]

CAUSAL = torch.ones(1, 3, 3, dtype=torch.bool).tril()
MAP = torch.tensor([[[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]]])
"""One sentence, one head; the first row allows one key and must not count."""


def mean(found: HeadSum) -> list[float]:
    return (found.total / found.count).tolist()


def test_entropy_is_relative_to_uniform_weights() -> None:
    second = (0.25 * math.log(4) + 0.75 * math.log(4 / 3)) / math.log(2)
    third = (0.5 * math.log(2) + 0.5 * math.log(4)) / math.log(3)
    found = entropy(MAP, CAUSAL)
    assert mean(found) == near([(second + third) / 2])
    assert found.count == 2
    equal = CAUSAL.double()[:, None] / CAUSAL.sum(dim=-1)[:, None, :, None]
    assert mean(entropy(equal, CAUSAL)) == near([1])


def test_confidence_is_the_largest_weight() -> None:
    assert mean(confidence(MAP, CAUSAL)) == near([(0.75 + 0.5) / 2])


@pytest.mark.parametrize(
    ("offset", "weights"), [(-1, 0.25 + 0.25), (0, 0.75 + 0.25), (-2, 0.5), (1, 0), (5, 0)]
)
def test_on_offset_is_of_all_rows(offset: int, weights: float) -> None:
    found = on_offset(MAP, CAUSAL, offset)
    assert found.count == 2
    assert found.total.tolist() == near([weights])


def test_on_offset_of_rectangular_maps() -> None:
    """Two rows, three keys: row 1 has key 2 after it, row 0 none before it."""
    weights = torch.tensor([[[[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]]], dtype=torch.float64)
    allowed = torch.ones(1, 2, 3, dtype=torch.bool)
    assert mean(on_offset(weights, allowed, 1)) == near([(0.2 + 0.3) / 2])
    assert mean(on_offset(weights, allowed, -1)) == near([(0 + 0.3) / 2])


def test_on_keys_is_of_all_rows() -> None:
    last = torch.tensor([[False, False, True]])
    assert mean(on_keys(MAP, CAUSAL, last)) == near([(0 + 0.25) / 2])
    outer = torch.tensor([[True, False, True]])
    assert mean(on_keys(MAP, CAUSAL, outer)) == near([(0.25 + 0.75) / 2])


def test_shares_of_places_and_of_tokens_add_up_to_at_most_1() -> None:
    """Rows that look before, at and after themselves, as far as they can; no key counts twice."""
    weights = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]])
    allowed = torch.ones(1, 2, 2, dtype=torch.bool)
    places = [mean(on_offset(weights, allowed, offset))[0] for offset in (-1, 0, 1)]
    assert places == [0.5, 0, 0.5]
    first = torch.tensor([[True, False]])
    tokens = [mean(on_keys(MAP[..., :2, :2], CAUSAL[:, :2, :2], k))[0] for k in (first, ~first)]
    assert sum(tokens) == near(1)


def test_on_rarest_counts_rows_whose_largest_weight_is_there() -> None:
    weights = torch.tensor([[[[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]]]])
    everywhere = torch.ones(1, 3, 3, dtype=torch.bool)
    assert mean(on_rarest(weights, everywhere, torch.tensor([[9, 4, 30]]))) == near([1 / 3])
    # The special token is never the rarest; of equally rare ones each counts.
    assert mean(on_rarest(weights, everywhere, torch.tensor([[4, 4, -1]]))) == near([2 / 3])
    # The mask hides the rarest from row 1, which has key 0 as the rarer; row 0 has no choice.
    found = on_rarest(weights, CAUSAL, torch.tensor([[4, 9, 1]]))
    assert (found.total.tolist(), found.count) == ([1], 2)


def test_distance_is_0_for_equal_and_1_for_disjoint_rows() -> None:
    allowed = torch.ones(1, 1, 2, dtype=torch.bool)
    one, other, half = (torch.tensor([[[row]]]) for row in ([1.0, 0.0], [0.0, 1.0], [0.5, 0.5]))
    assert mean(distance(one, one, allowed)) == [0]
    assert mean(distance(one, other, allowed)) == near([1])
    # Middle (3/4, 1/4): (log2(4/3) + (log2(2/3) + log2(2)) / 2) / 2.
    divergence = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    for maps in ((one, half), (half, one)):
        assert mean(distance(*maps, allowed)) == near([math.sqrt(divergence)])


@pytest.mark.parametrize(
    "measure",
    [
        entropy,
        confidence,
        lambda weights, allowed: on_offset(weights, allowed, -1),
        lambda weights, allowed: on_offset(weights, allowed, 1),
        lambda weights, allowed: on_keys(weights, allowed, allowed.any(dim=1)),
        lambda weights, allowed: on_rarest(
            weights, allowed, torch.arange(7)[: allowed.shape[2]][None].expand(len(allowed), -1)
        ),
        lambda weights, allowed: distance(weights, weights.flip(1), allowed),
    ],
)
def test_padding_does_not_count(measure: Measure) -> None:
    """Two sentences, of 5 × 7 and 3 × 4, together and each alone."""
    torch.manual_seed(3)
    allowed = torch.zeros(2, 5, 7, dtype=torch.bool)
    allowed[0] = allowed[1, :3, :4] = True
    weights = torch.rand(2, 2, 5, 7, dtype=torch.float64).masked_fill(~allowed[:, None], 0.0)
    alone = [
        measure(weights[:1], allowed[:1]),
        measure(weights[1:, :, :3, :4], allowed[1:, :3, :4]),
    ]
    weights[1, :, 3:] = torch.rand(2, 2, 7, dtype=torch.float64)
    together = measure(weights, allowed)
    total = alone[0].total + alone[1].total
    assert together.total.tolist() == near(total.tolist())
    assert together.count == alone[0].count + alone[1].count
