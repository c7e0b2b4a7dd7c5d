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
from headwise.model.masks import PADDING, causal_mask
from headwise.model.transformer import Decoder, DecoderLayer, Encoder, Transformer
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


def copy_weights(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = [ours.query_projection, ours.key_projection, ours.value_projection]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        if theirs.in_proj_bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    copy_weights(ours.output_projection, theirs.out_proj)


def copy_stack(ours: Encoder | Decoder, theirs: Any) -> None:
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        sublayers = ["self_attention", "feed_forward"]
        copy_attention(our_layer.self_attention, their_layer.self_attn)
        if isinstance(our_layer, DecoderLayer):
            sublayers.insert(1, "cross_attention")
            copy_attention(our_layer.cross_attention, their_layer.multihead_attn)
        copy_weights(our_layer.feed_forward.expand, their_layer.linear1)
        copy_weights(our_layer.feed_forward.contract, their_layer.linear2)
        for number, sublayer in enumerate(sublayers, start=1):
            norm = our_layer.get_submodule(f"{sublayer}_residual.norm.norm")
            copy_weights(norm, their_layer.get_submodule(f"norm{number}"))
    if theirs.norm is not None:
        copy_weights(ours.final_norm.norm, theirs.norm)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("final_norm", [True, False], ids=["final_norm", "no_final_norm"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_memory_logits_and_gradients_are_those_of_torch(
    make_model: Callable[..., Transformer],
    make_ids: Callable[..., Tensor],
    norm_first: bool,
    final_norm: bool,
    bias: bool,
) -> None:
    """In train mode: in eval mode torch.nn takes shortcuts."""
    changes = {"n_heads": N_HEADS, "d_k": None, "dropout": 0.0, "attention_bias": bias}
    norm = "pre" if norm_first else "post"
    model = make_model(norm=norm, final_norm=final_norm, **changes).double().train()
    source, target = make_ids([7, 4, 1], 37), make_ids([3, 5, 2], 41)

    def last() -> nn.LayerNorm | None:
        return nn.LayerNorm(D_MODEL, dtype=torch.float64) if final_norm else None

    layers = [
        kind(norm_first=norm_first, **SETTINGS)
        for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    ]
    encoder = nn.TransformerEncoder(layers[0], N_LAYERS, last(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(layers[1], N_LAYERS, last())
    for attention in (m for m in [*encoder.modules(), *decoder.modules()] if not bias):
        if isinstance(attention, nn.MultiheadAttention):
            attention.in_proj_bias = attention.out_proj.bias = None
    copy_stack(model.encoder, encoder)
    copy_stack(model.decoder, decoder)
    tables = [model.encoder.embedding.table.weight, model.decoder.embedding.table.weight]

    logits = model(source, target)
    memory = encoder(model.encoder.embedding(source), src_key_padding_mask=source == PADDING)
    stream = decoder(
        model.decoder.embedding(target),
        memory,
        tgt_mask=~causal_mask(5, 5)[0, 0],
        memory_key_padding_mask=source == PADDING,
    )
    expected = stream @ model.decoder.embedding.table.weight.T

    assert_near(model.encode(source)[0], memory, operations=PASS)
    assert_near(logits, expected, operations=PASS)
    ours = torch.autograd.grad(logits.square().sum(), tables)
    theirs = torch.autograd.grad(expected.square().sum(), tables)
    for our_gradient, their_gradient in zip(ours, theirs, strict=True):
        assert_near(our_gradient, their_gradient, operations=PASS)
