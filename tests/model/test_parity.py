"""Compare with ``torch.nn`` with the same weights, in float64.

Masks there are True where attention is forbidden.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.peers.torch_nn import copy_layer
from headwise.model.masks import PADDING, causal_mask
from headwise.model.transformer import Decoder, Encoder
from tests.floats import PASS, assert_near
from tests.tiny import tiny_ids, tiny_model

D_MODEL, N_HEADS, D_FF, N_LAYERS = 14, 7, 23, 2
SETTINGS: dict[str, Any] = {
    "d_model": D_MODEL,
    "nhead": N_HEADS,
    "dim_feedforward": D_FF,
    "dropout": 0.0,
    "batch_first": True,
    "dtype": torch.float64,
}


@torch.no_grad()
def copy_stack(ours: Encoder | Decoder, theirs: Any) -> None:
    for layers in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(*layers)
    if theirs.norm is not None:
        theirs.norm.load_state_dict(ours.final_norm.norm.state_dict())


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("final_norm", [True, False], ids=["final_norm", "no_final_norm"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_memory_logits_and_gradients_are_those_of_torch(
    norm_first: bool, final_norm: bool, bias: bool
) -> None:
    """In train mode: in eval mode torch.nn takes shortcuts."""
    changes = {"n_heads": N_HEADS, "d_k": None, "dropout": 0.0, "attention_bias": bias}
    norm = "pre" if norm_first else "post"
    model = tiny_model(norm=norm, final_norm=final_norm, **changes).double().train()
    source, target = tiny_ids([7, 4, 1], 37), tiny_ids([3, 5, 2], 41)

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
