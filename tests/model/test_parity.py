"""Compare with ``torch.nn`` with the same weights, in float64.

Masks there are True where attention is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.config import PAD
from headwise.model.layers import FeedForward
from headwise.model.masks import causal_mask, padding_mask
from headwise.model.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, Transformer
from tests.floats import PASS, assert_near

D_MODEL, N_HEADS, D_FF, N_LAYERS = 14, 7, 23, 2
SETTINGS: dict[str, Any] = {
    "d_model": D_MODEL,
    "nhead": N_HEADS,
    "dim_feedforward": D_FF,
    "dropout": 0.0,
    "batch_first": True,
    "dtype": torch.float64,
}


@pytest.fixture(params=[True, False], ids=["pre", "post"])
def norm_first(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[True, False], ids=["final_norm", "no_final_norm"])
def final_norm(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def model(
    make_model: Callable[..., Transformer], norm_first: bool, final_norm: bool
) -> Transformer:
    """Make a model in train mode: in eval mode torch.nn takes shortcuts."""
    changes: dict[str, Any] = {"n_heads": N_HEADS, "d_k": None, "dropout": 0.0}
    norm = "pre" if norm_first else "post"
    return make_model(norm=norm, final_norm=final_norm, **changes).double().train()


@pytest.fixture
def source(make_ids: Callable[..., Tensor]) -> Tensor:
    return make_ids([7, 4, 1], 37)


@pytest.fixture
def target(make_ids: Callable[..., Tensor]) -> Tensor:
    return make_ids([3, 5, 2], 41)


def copy_weights(ours: nn.Linear | nn.LayerNorm, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = [ours.query_projection, ours.key_projection, ours.value_projection]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        if theirs.in_proj_bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    copy_weights(ours.output_projection, theirs.out_proj)


def copy_feed_forward(ours: FeedForward, theirs: Any) -> None:
    copy_weights(ours.expand, theirs.linear1)
    copy_weights(ours.contract, theirs.linear2)


def copy_encoder(ours: Encoder, theirs: nn.TransformerEncoder) -> None:
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        assert isinstance(our_layer, EncoderLayer)
        assert isinstance(their_layer, nn.TransformerEncoderLayer)
        copy_attention(our_layer.self_attention, their_layer.self_attn)
        copy_feed_forward(our_layer.feed_forward, their_layer)
        copy_weights(our_layer.self_attention_residual.norm.norm, their_layer.norm1)
        copy_weights(our_layer.feed_forward_residual.norm.norm, their_layer.norm2)
    copy_final_norm(ours, theirs)


def copy_decoder(ours: Decoder, theirs: nn.TransformerDecoder) -> None:
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        assert isinstance(our_layer, DecoderLayer)
        assert isinstance(their_layer, nn.TransformerDecoderLayer)
        copy_attention(our_layer.self_attention, their_layer.self_attn)
        copy_attention(our_layer.cross_attention, their_layer.multihead_attn)
        copy_feed_forward(our_layer.feed_forward, their_layer)
        copy_weights(our_layer.self_attention_residual.norm.norm, their_layer.norm1)
        copy_weights(our_layer.cross_attention_residual.norm.norm, their_layer.norm2)
        copy_weights(our_layer.feed_forward_residual.norm.norm, their_layer.norm3)
    copy_final_norm(ours, theirs)


def copy_final_norm(ours: Encoder | Decoder, theirs: Any) -> None:
    if theirs.norm is not None:
        assert not isinstance(ours.final_norm, nn.Identity)
        copy_weights(ours.final_norm.norm, theirs.norm)


def torch_encoder(ours: Encoder, *, norm_first: bool, final_norm: bool) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(norm_first=norm_first, **SETTINGS)
    norm = nn.LayerNorm(D_MODEL, dtype=torch.float64) if final_norm else None
    encoder = nn.TransformerEncoder(layer, N_LAYERS, norm, enable_nested_tensor=False)
    copy_encoder(ours, encoder)
    return encoder


def torch_decoder(ours: Decoder, *, norm_first: bool, final_norm: bool) -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(norm_first=norm_first, **SETTINGS)
    norm = nn.LayerNorm(D_MODEL, dtype=torch.float64) if final_norm else None
    decoder = nn.TransformerDecoder(layer, N_LAYERS, norm)
    copy_decoder(ours, decoder)
    return decoder


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    assert_near(ours, theirs, operations=PASS)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention(bias: bool, masked: bool) -> None:
    torch.manual_seed(5)
    width = D_MODEL // N_HEADS
    ours = MultiHeadAttention(d_model=D_MODEL, n_heads=N_HEADS, d_k=width, bias=bias).double()
    theirs = nn.MultiheadAttention(
        D_MODEL, N_HEADS, bias=bias, batch_first=True, dtype=torch.float64
    )
    copy_attention(ours, theirs)
    x = torch.randn(2, 5, D_MODEL, dtype=torch.float64)
    y = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    past = causal_mask(5, 7)
    tokens = padding_mask(torch.tensor([[9] * 7, [9] * 3 + [PAD] * 4]))

    output = ours(x, y, mask=past & tokens if masked else None)
    expected, _ = theirs(
        x,
        y,
        y,
        attn_mask=~past[0, 0] if masked else None,
        key_padding_mask=~tokens[:, 0, 0] if masked else None,
        need_weights=False,
    )

    assert_same(output, expected)


def test_encoder(model: Transformer, source: Tensor, norm_first: bool, final_norm: bool) -> None:
    encoder = torch_encoder(model.encoder, norm_first=norm_first, final_norm=final_norm)
    memory, _ = model.encode(source)
    embedded = model.encoder.embedding(source)
    assert_same(memory, encoder(embedded, src_key_padding_mask=source == PAD))


def test_decoder(
    model: Transformer, source: Tensor, target: Tensor, norm_first: bool, final_norm: bool
) -> None:
    decoder = torch_decoder(model.decoder, norm_first=norm_first, final_norm=final_norm)
    memory, memory_mask = model.encode(source)

    expected = decoder(
        model.decoder.embedding(target),
        memory,
        tgt_mask=~causal_mask(5, 5)[0, 0],
        memory_key_padding_mask=source == PAD,
    )

    assert_same(model.decode(target, memory, memory_mask), expected)


@pytest.mark.parametrize("final_norm", [True], indirect=True)
def test_logits_and_gradients_of_the_whole_model(
    model: Transformer, source: Tensor, target: Tensor, norm_first: bool, final_norm: bool
) -> None:
    reference = nn.Transformer(
        custom_encoder=torch_encoder(model.encoder, norm_first=norm_first, final_norm=final_norm),
        custom_decoder=torch_decoder(model.decoder, norm_first=norm_first, final_norm=final_norm),
        **SETTINGS,
    )
    copy_encoder(model.encoder, reference.encoder)  # it has drawn new weights
    copy_decoder(model.decoder, reference.decoder)
    tables = [model.encoder.embedding.table.weight, model.decoder.embedding.table.weight]

    logits = model(source, target)
    stream = reference(
        model.encoder.embedding(source),
        model.decoder.embedding(target),
        tgt_mask=~causal_mask(5, 5)[0, 0],
        src_key_padding_mask=source == PAD,
        memory_key_padding_mask=source == PAD,
    )
    expected = stream @ model.decoder.embedding.table.weight.T

    assert_same(logits, expected)
    ours = torch.autograd.grad(logits.square().sum(), tables)
    theirs = torch.autograd.grad(expected.square().sum(), tables)
    for our_gradient, their_gradient in zip(ours, theirs, strict=True):
        assert_same(our_gradient, their_gradient)
