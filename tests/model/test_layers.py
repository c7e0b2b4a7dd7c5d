from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headwise.model.config import TransformerConfig
from headwise.model.hooks import capture, edit
from headwise.model.layers import (
    FeedForward,
    InputEmbedding,
    PostNorm,
    PreNorm,
    residual,
    sinusoidal_positions,
)
from tests.floats import assert_near

MakeConfig = Callable[..., TransformerConfig]


def encoding(position: int, d_model: int) -> list[float]:
    """Compute section 3.5 in float64, one number at a time."""
    row = []
    for pair in range(d_model // 2):
        angle = position / 10_000 ** (2 * pair / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / deviation * norm.weight + norm.bias


def randomise(module: nn.Module) -> None:
    torch.manual_seed(5)
    for parameter in module.parameters():
        nn.init.normal_(parameter)


@pytest.mark.parametrize("d_model", [14, 128])
def test_positions_follow_the_formula(d_model: int) -> None:
    positions = sinusoidal_positions(1024, d_model)

    assert positions.dtype == torch.float32
    expected = torch.tensor([encoding(p, d_model) for p in range(1024)], dtype=torch.float64)
    # An angle is a position times a rate, up to 1,023 radians: the rate is rounded, the product,
    # and the exponent that the rate is made from.
    assert_near(positions, expected, size=1023, operations=2)


@pytest.mark.parametrize(("scaled", "scale"), [(True, math.sqrt(14)), (False, 1.0)])
def test_embeddings_are_scaled_then_positions_added(
    make_config: MakeConfig, make_ids: Callable[..., Tensor], scaled: bool, scale: float
) -> None:
    table = nn.Embedding(37, 14)
    embedding = InputEmbedding(table, make_config(scale_embeddings=scaled)).eval()
    ids = make_ids([7, 5], 37)

    with capture(embedding, ["tokens", "positions", "output"]) as seen:
        x = embedding(ids, start=9)

    tokens = scale * table.weight[ids]
    positions = sinusoidal_positions(16, 14)[9:].expand(2, 7, 14)  # computed 16 at a time there too
    assert_near(seen["tokens"][0], tokens)
    assert torch.equal(seen["positions"][0], positions)
    assert_near(seen["output"][0], tokens + positions)
    assert torch.equal(x, seen["output"][0])


def test_a_float64_embedding_still_computes_positions_in_float32(make_config: MakeConfig) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config()).double()
    with capture(embedding, ["positions"]) as seen:
        embedding(torch.ones(1, 8, dtype=torch.long))  # positions are computed 8 at a time
    assert torch.equal(seen["positions"][0][0], sinusoidal_positions(8, 14).double())


def test_positions_edited_in_place_are_as_before_in_the_next_pass(
    make_config: MakeConfig,
) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config()).eval()
    ids = torch.ones(1, 7, dtype=torch.long)
    before = embedding(ids)
    with torch.inference_mode(), edit(embedding, {"positions": Tensor.zero_}):
        assert not torch.equal(embedding(ids), before)
    assert torch.equal(embedding(ids), before)


def test_positions_cached_in_inference_can_be_used_in_training(make_config: MakeConfig) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 22), make_config(d_model=22))
    scale = torch.ones(22, requires_grad=True)
    ids = torch.ones(1, 5, dtype=torch.long)
    with torch.inference_mode():
        embedding(ids)
    with edit(embedding, {"positions": lambda positions: positions * scale}):
        embedding(ids).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize(("start", "length"), [(0, 12), (5, 7)])
def test_text_beyond_the_maximum_is_refused(
    make_config: MakeConfig, start: int, length: int
) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config(max_length=11))
    ids = torch.ones(1, length, dtype=torch.long)

    assert embedding(ids[:, 1:], start=start).shape == (1, length - 1, 14)
    with pytest.raises(ValueError, match="expected at most 11 tokens, got 12; shorten the text"):
        embedding(ids, start=start)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5)])
def test_ids_of_another_shape_are_refused(make_config: MakeConfig, shape: tuple[int, ...]) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config())
    with pytest.raises(ValueError, match=r"expected shape \(batch, length\), got \("):
        embedding(torch.ones(shape, dtype=torch.long))


def test_ids_outside_the_vocabulary_are_refused(make_config: MakeConfig) -> None:
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config())
    assert embedding(torch.tensor([[5, 36]])).shape == (1, 2, 14)
    with pytest.raises(ValueError, match="expected ids from 0 to 36, got 5 to 37; is this"):
        embedding(torch.tensor([[37, 5]]))


def test_feed_forward_is_equation_2(make_config: MakeConfig) -> None:
    module = FeedForward(make_config()).double()
    randomise(module)
    x = torch.randn(2, 7, 14, dtype=torch.float64)

    with capture(module, ["hidden", "output"]) as seen:
        output = module(x)

    hidden = (x @ module.expand.weight.T + module.expand.bias).clamp(min=0)
    assert hidden.shape == (2, 7, 23)
    assert_near(seen["hidden"][0], hidden)
    assert_near(output, hidden @ module.contract.weight.T + module.contract.bias)
    assert torch.equal(output, seen["output"][0])


def test_post_norm_is_the_norm_of_the_sum(make_config: MakeConfig) -> None:
    module = residual(make_config(norm="post")).eval().double()
    assert isinstance(module, PostNorm)
    randomise(module)
    stream = torch.randn(2, 7, 14, dtype=torch.float64)

    with capture(module, ["norm.before", "norm.after"]) as seen:
        output = module(stream, torch.tanh)

    total = stream + torch.tanh(stream)
    assert_near(seen["norm.before"][0], total)
    assert_near(output, layer_norm(total, module.norm.norm))
    assert torch.equal(output, seen["norm.after"][0])


def test_pre_norm_adds_the_sublayer_of_the_norm(make_config: MakeConfig) -> None:
    module = residual(make_config(norm="pre")).eval().double()
    assert isinstance(module, PreNorm)
    randomise(module)
    stream = torch.randn(2, 7, 14, dtype=torch.float64)

    with capture(module, ["norm.before", "norm.after"]) as seen:
        output = module(stream, torch.tanh)

    normed = layer_norm(stream, module.norm.norm)
    assert torch.equal(seen["norm.before"][0], stream)
    assert_near(seen["norm.after"][0], normed)
    assert_near(output, stream + normed.tanh())


def assert_dropped_by_half(dropped: Tensor, kept: Tensor) -> None:
    """Assert that each number is 0 or twice its value, and both occur."""
    zero = dropped == 0
    assert 0.3 < zero.float().mean() < 0.7
    assert_near(dropped[~zero], 2 * kept[~zero])


def test_dropout_acts_on_the_output_of_a_sublayer(make_config: MakeConfig) -> None:
    torch.manual_seed(0)
    stream = torch.randn(3, 7, 14)
    pre, post = PreNorm(make_config(dropout=0.5)), PostNorm(make_config(dropout=0.5))

    assert_dropped_by_half(pre(stream, torch.ones_like) - stream, torch.ones_like(stream))
    with capture(post, ["norm.before"]) as seen:
        post(stream, torch.ones_like)
    assert_dropped_by_half(seen["norm.before"][0] - stream, torch.ones_like(stream))


def test_dropout_acts_on_the_sum_of_embeddings_and_positions(
    make_config: MakeConfig, make_ids: Callable[..., Tensor]
) -> None:
    torch.manual_seed(0)
    embedding = InputEmbedding(nn.Embedding(37, 14), make_config(dropout=0.5))
    with capture(embedding, ["output"]) as seen:
        x = embedding(make_ids([13, 11], 37))
    assert_dropped_by_half(x, seen["output"][0])


def test_hidden_dropout_acts_between_the_layers_of_the_feed_forward(
    make_config: MakeConfig,
) -> None:
    torch.manual_seed(0)
    module = FeedForward(make_config(d_ff=14, hidden_dropout=0.5, dropout=0.0))
    nn.init.eye_(module.contract.weight)
    nn.init.zeros_(module.contract.bias)
    nn.init.ones_(module.expand.bias)
    nn.init.zeros_(module.expand.weight)
    assert_dropped_by_half(module(torch.randn(3, 7, 14)), torch.ones(3, 7, 14))
