from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.config import TrainingConfig
from headwise.model.masks import PADDING
from headwise.model.training.batches import Batches, bucketed, shuffled
from headwise.model.training.schedule import learning_rate
from tests.floats import near

Rows = list[list[int]]
examples = st.lists(st.tuples(st.integers(1, 13), st.integers(2, 13)), min_size=1, max_size=40).map(
    lambda sizes: ([[5] * n for n, _ in sizes], [[5] * n for _, n in sizes])
)


@given(examples, st.integers(1, 40), st.integers(0, 3))
def test_buckets_have_every_example_once_and_at_most_batch_tokens(
    rows: tuple[Rows, Rows], tokens: int, epoch: int
) -> None:
    """Padding counts; the decoder consumes and predicts one token less than a target has.

    Batches ordered by length do not overlap, and every epoch has as many.
    """
    batches = bucketed(*rows, batch_tokens=tokens, seed=7, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows[0])))
    lengths = [[len(rows[1][index]) for index in batch] for batch in batches]
    for batch in lengths:
        assert len(batch) * (max(batch) - 1) <= tokens or len(batch) == 1
    spans = sorted((min(batch), max(batch)) for batch in lengths)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert len(batches) == len(bucketed(*rows, batch_tokens=tokens, seed=0, epoch=epoch + 1))


@given(st.integers(1, 40), st.integers(1, 13), st.integers(0, 3))
def test_shuffled_batches_have_every_example_once(size: int, batch: int, epoch: int) -> None:
    batches = shuffled(size, batch_pairs=batch, seed=7, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(size))
    assert all(len(rows) == batch for rows in batches[:-1])
    assert 1 <= len(batches[-1]) <= batch


@pytest.mark.parametrize(
    "order",
    [
        lambda **of: bucketed([[5] * 3] * 50, [[5] * 4] * 50, batch_tokens=12, **of),
        lambda **of: shuffled(50, batch_pairs=8, **of),
    ],
    ids=["bucketed", "shuffled"],
)
def test_seed_and_epoch_decide_the_order(order: Callable[..., list[list[int]]]) -> None:
    first, again, later, other = (
        order(seed=seed, epoch=epoch) for seed, epoch in ((7, 2), (7, 2), (7, 3), (8, 2))
    )
    assert first == again
    together = [{frozenset(batch) for batch in batches} for batches in (first, later, other)]
    assert together[0] != together[1] != together[2] != together[0]
    assert [index for batch in first for index in batch] != list(range(50))


def test_batches_are_not_in_order_of_length() -> None:
    rows = [[5]] * 30, [[5] * n for n in range(2, 32)]
    lengths = [len(rows[1][batch[0]]) for batch in bucketed(*rows, batch_tokens=1, seed=7, epoch=0)]
    assert lengths != sorted(lengths)


def _tokens(row: list[int]) -> list[int]:
    return [id for id in row if id != PADDING]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_processes_share_the_rows_of_each_batch(count: int) -> None:
    """Each row is used once, whatever the number of processes; a placeholder row has weight 0."""
    rows = [[5 + row] * (2 + row % 3) for row in range(11)]
    batches = Batches(lambda _: (rows, rows), TrainingConfig(batch_pairs=4, seed=7))
    for number in range(7):  # two epochs of three batches, the last of each smaller
        whole = batches.shard(number)
        shards = [batches.shard(number, index=index, count=count) for index in range(count)]
        counted = [_tokens(row) for each in shards for row in each.target.tolist() if each.weight]
        assert sorted(counted) == sorted(map(_tokens, whole.target.tolist()))
        assert len(counted) == (3 if number % 3 == 2 else 4)
        assert all(len(shard.source) and len(shard.source) == len(shard.target) for shard in shards)
        assert {shard.tokens for shard in shards} == {sum(len(row) - 1 for row in counted)}
        sizes = [len(shard.target) * int(shard.weight) for shard in shards]
        assert max(sizes) - min(sizes) <= 1


def test_epochs_of_other_examples_have_as_many_batches_as_the_first() -> None:
    """A batch depends only on its number, not on earlier requests."""
    sizes = [5, 9, 3]

    def epoch(number: int) -> tuple[Rows, Rows]:
        rows = [[5 + number, row] for row in range(sizes[number])]
        return rows, rows

    def rows(numbers: range) -> list[Rows]:
        batches = Batches(epoch, TrainingConfig(batch_pairs=2, seed=7))
        return [batches.shard(number).source.tolist() for number in numbers]

    found = rows(range(9))
    assert [{row[0] for row in batch} for batch in found] == [{5}] * 3 + [{6}] * 3 + [{7}] * 3
    assert found[8] == found[6]  # three rows make two batches: the first comes again
    assert rows(range(8, -1, -1)) == found[::-1]


def test_a_shard_is_only_as_wide_as_it_needs() -> None:
    rows = [[5] * 9, [6] * 3]
    batches = Batches(lambda _: (rows, rows), TrainingConfig(batch_pairs=2))
    widths = [batches.shard(0, index=index, count=2).target.shape[1] for index in (0, 1)]
    assert sorted(widths) == [3, 9]
    assert batches.shard(0).target.shape == (2, 9)


def make(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**({"steps": 119, "learning_rate": 0.6, "warmup_steps": 20} | changes))


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("cosine", 45, 0.3 * (1 + math.sqrt(0.5))),  # a quarter of the way: cos 45°
        ("cosine", 70, 0.3),
        ("cosine", 119, 0.3 * (1 - math.cos(math.pi / 100))),
        ("cosine", 120, 0.0),
        ("cosine", 121, 0.0),
        ("noam", 80, 0.3),  # four times the steps, half the rate
        ("noam", 120, 0.6 / math.sqrt(6)),
        ("trapezoid", 80, 0.6),
        ("trapezoid", 81, 0.585),
        ("trapezoid", 90, 0.45),
        ("trapezoid", 119, 0.015),
        ("trapezoid", 120, 0.0),
        ("trapezoid", 121, 0.0),
        ("constant", 1, 0.6),
        ("constant", 119, 0.6),
    ],
)
def test_hand_computed_points(schedule: str, step: int, rate: float) -> None:
    config = make(schedule=schedule, decay_steps=39 if schedule == "trapezoid" else 0)
    assert learning_rate(step, config) == near(rate, size=0.6)


@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize("steps", [7, 8, 19])
@pytest.mark.parametrize("schedule", ["cosine", "noam", "trapezoid", "constant"])
def test_every_step_has_a_rate_and_falls_only_after_the_warm_up(
    schedule: str, steps: int, warmup: int
) -> None:
    decay = steps - warmup if schedule == "trapezoid" else 0
    config = make(schedule=schedule, steps=steps, warmup_steps=warmup, decay_steps=decay)
    rates = [learning_rate(step, config) for step in range(1, steps + 1)]
    assert all(rate > 0 for rate in rates)
    if schedule != "constant" and warmup:
        assert rates[:warmup] == near([0.6 * step / warmup for step in range(1, warmup + 1)])
        assert all(later < former for former, later in pairwise(rates[warmup - 1 :]))


@pytest.mark.parametrize("step", [0, -1])
def test_steps_count_from_one(step: int) -> None:
    with pytest.raises(ValueError, match=f"step: expected 1 or more, got {step}"):
        learning_rate(step, make())
