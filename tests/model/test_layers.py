from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headwise.model.hooks import capture, edit
from headwise.model.layers import FeedForward, InputEmbedding, residual, sinusoidal_positions
from tests.floats import assert_near
from tests.tiny import tiny_config, tiny_ids

MakeEmbedding = Callable[..., InputEmbedding]


def encoding(position: int, d_model: int) -> list[float]:
    """Compute section 3.5 in float64, one number at a time."""
    row = []
    for pair in range(d_model // 2):
        angle = position / 10_000 ** (2 * pair / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


@pytest.fixture
def embed() -> MakeEmbedding:
    """Return a function that makes an embedding of 37 tokens, with changes of its configuration."""

    def make(d_model: int = 14, **changes: object) -> InputEmbedding:
        config = tiny_config(d_model=d_model, **changes)
        return InputEmbedding(nn.Embedding(37, d_model), config)

    return make


@pytest.mark.parametrize("d_model", [14, 128])
def test_positions_follow_the_formula(d_model: int) -> None:
    positions = sinusoidal_positions(1024, d_model)
    assert positions.dtype == torch.float32
    expected = torch.tensor([encoding(p, d_model) for p in range(1024)], dtype=torch.float64)
    # An angle is a position times a rate, up to 1,023 radians: the rate is rounded, the product,
    # and the exponent that the rate is made from.
    assert_near(positions, expected, size=1023, operations=2)


def test_a_float64_embedding_still_computes_positions_in_float32(embed: MakeEmbedding) -> None:
    embedding = embed().double()
    with capture(embedding, ["positions"]) as seen:
        embedding(torch.ones(1, 8, dtype=torch.long))  # positions are computed 8 at a time
    assert torch.equal(seen["positions"][0][0], sinusoidal_positions(8, 14).double())


def test_positions_edited_in_place_are_as_before_in_the_next_pass(embed: MakeEmbedding) -> None:
    embedding, ids = embed().eval(), torch.ones(1, 7, dtype=torch.long)
    before = embedding(ids)
    with torch.inference_mode(), edit(embedding, {"positions": Tensor.zero_}):
        assert not torch.equal(embedding(ids), before)
    assert torch.equal(embedding(ids), before)


def test_positions_cached_in_inference_can_be_used_in_training(embed: MakeEmbedding) -> None:
    embedding, ids = embed(22), torch.ones(1, 5, dtype=torch.long)
    scale = torch.ones(22, requires_grad=True)
    with torch.inference_mode():
        embedding(ids)
    with edit(embedding, {"positions": lambda positions: positions * scale}):
        embedding(ids).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize(
    ("ids", "start", "message"),
    [
        (torch.ones(1, 12), 0, "expected at most 11 tokens, got 12; shorten the text"),
        (torch.ones(1, 7), 5, "expected at most 11 tokens, got 12; shorten the text"),
        (torch.ones(5), 0, r"expected shape \(batch, length\), got \(5,\)"),
        (torch.ones(2, 3, 5), 0, r"expected shape \(batch, length\), got \(2, 3, 5\)"),
        (torch.tensor([[37, 5]]), 0, "expected ids from 0 to 36, got 5 to 37; is this"),
    ],
)
def test_ids_that_cannot_be_embedded_are_refused(
    embed: MakeEmbedding, ids: Tensor, start: int, message: str
) -> None:
    embedding = embed(max_length=11)
    assert embedding(torch.tensor([[5, 36] * 3]), start=5).shape == (1, 6, 14)
    with pytest.raises(ValueError, match=message):
        embedding(ids.long(), start=start)


# Dropout


def assert_dropped_by_half(dropped: Tensor, kept: Tensor) -> None:
    """Assert that each number is 0 or twice its value, and both occur."""
    zero = dropped == 0
    assert 0.3 < zero.float().mean() < 0.7
    assert_near(dropped[~zero], 2 * kept[~zero])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_acts_on_the_output_of_a_sublayer(norm: str) -> None:
    torch.manual_seed(0)
    stream = torch.randn(3, 7, 14)
    module = residual(tiny_config(norm=norm, dropout=0.5))
    with capture(module, ["norm.before"]) as seen:
        output = module(stream, torch.ones_like)
    total = output if norm == "pre" else seen["norm.before"][0]
    assert_dropped_by_half(total - stream, torch.ones_like(stream))


def test_dropout_acts_on_the_sum_of_embeddings_and_positions(embed: MakeEmbedding) -> None:
    torch.manual_seed(0)
    embedding = embed(dropout=0.5)
    with capture(embedding, ["output"]) as seen:
        x = embedding(tiny_ids([13, 11], 37))
    assert_dropped_by_half(x, seen["output"][0])


def test_hidden_dropout_acts_between_the_layers_of_the_feed_forward() -> None:
    torch.manual_seed(0)
    module = FeedForward(tiny_config(d_ff=14, hidden_dropout=0.5, dropout=0.0))
    nn.init.eye_(module.contract.weight)
    nn.init.zeros_(module.contract.bias)
    nn.init.ones_(module.expand.bias)
    nn.init.zeros_(module.expand.weight)
    assert_dropped_by_half(module(torch.randn(3, 7, 14)), torch.ones(3, 7, 14))
