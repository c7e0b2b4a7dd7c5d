"""What heads cost together and one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Head
from headwise.model.interventions import head_costs
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.together.cost import JointCost, joint_cost
from headwise.viz_app.heads.together.section import joint_cost_in_words
from headwise.viz_app.measuring.pruning import prune
from headwise.viz_app.measuring.sums import draws
from tests.floats import PASS, near

NAN = float("nan")
HEADS = [Head("cross", 1, 2), Head("encoder_self", 0, 1), Head("cross", 0, 0)]


def test_heads_are_off_together_and_one_by_one(run: TrainedRun, many_sentences: Sentences) -> None:
    """Against what ``prune`` and the costs of single heads say of the same sentences."""
    model = load_weights(run, 60, torch.float64).model
    found = joint_cost(model, many_sentences, frozenset(HEADS))
    [pruned] = prune(model, many_sentences.pairs, HEADS, [3])
    assert found.together == near(pruned.rise, operations=PASS)
    assert found.together_error == near(pruned.error, operations=PASS)
    tokens = np.array([len(each.target) - 1 for each in many_sentences.pairs])
    alone = np.array(
        [
            [float(head_costs(model, s.source, s.target)[h.kind][h.layer, h.head]) for h in HEADS]
            for s in many_sentences.pairs
        ]
    )
    for head, costs in zip(HEADS, alone.T, strict=True):
        assert found.alone[head] == near(costs.sum() / tokens.sum(), operations=PASS)
    assert len(found.alone) == 3
    assert found.summed == near(alone.sum() / tokens.sum(), operations=PASS)
    assert found.beyond == near(found.together - found.summed)
    times = draws([each.number for each in many_sentences.pairs]).T
    sums = (times @ alone.sum(axis=1)) / (times @ tokens)
    assert found.summed_error == near(np.std(sums, ddof=1), operations=PASS)
    assert found.sentences == 32


def test_one_head_costs_together_as_alone(run: TrainedRun, many_sentences: Sentences) -> None:
    model = load_weights(run, 60, torch.float64).model
    found = joint_cost(model, many_sentences, frozenset(HEADS[:1]))
    assert found.beyond == near(0, size=10, operations=PASS)
    assert found.beyond_error == near(0, size=10, operations=PASS)
    with pytest.raises(ValueError, match="expected heads that are off together"):
        joint_cost(model, many_sentences, frozenset())


def test_costs_without_an_error_are_not_said_to_be_sure() -> None:
    """Sentences that all lose nothing have resamples that are all the same, and one has none."""
    nothing = JointCost(2, 0.0, 0.0, {HEADS[0]: 0.0}, 0.0, 0.0, 0.0, 0.0)
    said = joint_cost_in_words(nothing)
    assert said.count("+0.000 ± < 0.001") == 3
    assert "which may be chance" in said
    unknown = JointCost(1, 0.2, NAN, {HEADS[0]: 0.1}, 0.1, NAN, 0.1, NAN)
    said = joint_cost_in_words(unknown)
    assert "they cost +0.200 nats" in said
    assert "beyond it: +0.100, which may be chance" in said
