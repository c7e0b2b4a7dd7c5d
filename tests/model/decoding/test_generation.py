from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.decoding.greedy import Generation, greedy, longest_target
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near

MakeModel = Callable[..., Transformer]
MakeIds = Callable[..., Tensor]


@torch.inference_mode()
def test_rows_are_repeated_reordered_and_dropped_with_their_targets(model: Transformer) -> None:
    """The logits always equal those of the whole targets without a cache."""
    sources = [[5, 9, 30, EOS], [EOS], [17, 8, EOS]]
    batch = Generation(model, sources)
    rows = [(source, [BOS]) for source in sources]
    steps = [
        ([0, 1, 2], [7, 7, 8]),  # as they stand
        ([2, 0, 0, 1], [9, 5, 6, 7]),
        ([1, 0, 3], [11, 12, 13]),
        ([2, 2], [14, 15]),
    ]
    for kept, ids in [*steps, ([], [])]:
        wanted = [model(torch.tensor([s]), torch.tensor([t]))[0, -1] for s, t in rows]
        assert_near(batch.logits(), torch.stack(wanted), operations=PASS)
        if kept:
            batch.append(kept, ids)
        rows = [(rows[row][0], [*rows[row][1], id]) for row, id in zip(kept, ids, strict=True)]


def test_each_row_has_its_own_limit_of_which_a_prefix_is_a_part(model: Transformer) -> None:
    sources = [[EOS], [5, 6, EOS], [5] * 30]
    assert Generation(model, sources).most_generated == [12, 16, 31]
    assert Generation(model, sources, [BOS, 7]).most_generated == [11, 15, 30]
    assert Generation(model, sources, [BOS] * 20).most_generated == [1, 1, 12]


@pytest.mark.parametrize(
    ("source_length", "max_length", "expected"), [(1, 1024, 12), (7, 1024, 24), (600, 1024, 1024)]
)
def test_longest_target_depends_on_the_source_length(
    source_length: int, max_length: int, expected: int
) -> None:
    assert longest_target(source_length, max_length) == expected


@pytest.mark.parametrize(("max_length", "tokens"), [(31, 24), (17, 17)])
def test_a_target_that_does_not_end_stops_at_its_limit(
    make_model: MakeModel, make_ids: MakeIds, max_length: int, tokens: int
) -> None:
    model = make_model(output_bias=True, max_length=max_length)
    with torch.no_grad():
        model.unembedding.bias[EOS] = -1e9
    [target] = greedy(model, make_ids([7], 37).tolist())
    assert target[0] == BOS
    assert len(target) - 1 == tokens


def test_an_empty_batch_is_refused(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected at least one source, got an empty batch"):
        greedy(model, [])


@pytest.mark.parametrize("sources", [[[]], [[5, EOS], []]])
def test_an_empty_source_is_refused(model: Transformer, sources: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="allows no key: expected at least one token in each row"):
        greedy(model, sources)


def test_a_source_beyond_the_maximum_is_refused(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected at most 31 tokens, got 32"):
        greedy(model, [[5] * 32])
