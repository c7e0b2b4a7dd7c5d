from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.batching import pad
from model.config import BOS, EOS, PAD
from model.decoding.importance import batch_head_importance
from model.hooks import edit
from model.interface import KINDS, Head, attention_path
from model.transformer import Transformer
from tests.floats import rounding

SOURCES = [[5, 17, 9, 30, 8, EOS], [6, 11, EOS]]
TARGETS = [[BOS, 12, 7, 33, EOS], [BOS, 9, EOS]]


@pytest.fixture(scope="module", params=["pre", "post"])
def model(make_model: Callable[..., Transformer], request: pytest.FixtureRequest) -> Transformer:
    made = make_model(norm=request.param, final_norm=request.param == "pre", n_encoder_layers=3)
    return made.double()


@torch.inference_mode()
def loss(model: Transformer, number: int, head: Head, factor: float) -> float:
    """Compute −log P of a sentence with the output of a head times a factor."""

    def scaled(x: Tensor) -> Tensor:
        factors = torch.ones(x.shape[1], 1, 1, dtype=x.dtype)
        factors[head.head] = factor
        return x * factors

    source, target = torch.tensor([SOURCES[number]]), torch.tensor([TARGETS[number]])
    with edit(model, {f"{attention_path(head.kind, head.layer)}.heads": scaled}):
        chosen = model(source, target[:, :-1])[0].log_softmax(dim=-1)
    return -float(chosen[range(target.shape[1] - 1), target[0, 1:]].sum())


def test_importance_is_the_derivative_by_a_factor_of_the_head(model: Transformer) -> None:
    """Against the difference quotient, sentence by sentence; the batch is padded."""
    found = batch_head_importance(model, pad(SOURCES, PAD), pad(TARGETS, PAD))
    assert [tuple(found[kind].shape) for kind in KINDS] == [(2, 3, 3), (2, 2, 3), (2, 2, 3)]
    small = 1e-5
    # The factors of heads, and so their gradients, are float32. The difference of two losses is as
    # exact as these, by twice the step; the third derivative adds some of its square.
    of_losses = rounding(torch.float64, loss(model, 0, model.description.all_heads()[0], 1))
    for head in model.description.all_heads():
        for number in range(2):
            more, less = (loss(model, number, head, factor) for factor in (1 + small, 1 - small))
            slope = abs(more - less) / (2 * small)
            importance = float(found[head.kind][number, head.layer, head.head])
            bound = rounding(torch.float32, slope, 4) + of_losses / (2 * small) + 10 * small**2
            assert importance == pytest.approx(slope, rel=0, abs=bound)


def test_gradients_are_found_in_inference_mode_and_none_are_left(model: Transformer) -> None:
    sources, targets = pad(SOURCES, PAD), pad(TARGETS, PAD)
    expected = batch_head_importance(model, sources, targets)
    with torch.inference_mode():
        found = batch_head_importance(model, sources, targets)
    for kind in KINDS:
        assert torch.equal(found[kind], expected[kind])
    assert all(parameter.grad is None for parameter in model.parameters())
