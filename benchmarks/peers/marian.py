"""Hugging Face's Marian with our weights, and TransformerLens' bridge around it.

Marian's positional encodings have all sines first and then all cosines, where ours alternate: the
stream's axis D is reordered in every weight that touches it, and the logits are the same.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from headwise.model.attention import MultiHeadAttention
from headwise.model.config import BOS, EOS, PAD
from headwise.model.layers import Norm
from headwise.model.transformer import DecoderLayer, EncoderLayer, Transformer


def marian_of(ours: Transformer, *, attention: Literal["sdpa", "eager"] = "sdpa") -> MarianMTModel:
    """Marian in evaluation mode; needs norms after the sublayers, no final one, all tables tied."""
    config = ours.config
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.target_vocab_size,
            d_model=config.d_model,
            encoder_layers=config.n_encoder_layers,
            decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            dropout=config.dropout,
            attention_dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=config.max_length,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
    )
    places = torch.arange(config.d_model)
    order = torch.cat([places[0::2], places[1::2]])
    with torch.no_grad():
        theirs.model.shared.weight.copy_(ours.unembedding.weight[:, order])
        theirs.final_logits_bias.copy_(ours.unembedding.bias)
        for stack, mine in (
            (theirs.model.encoder, ours.encoder),
            (theirs.model.decoder, ours.decoder),
        ):
            for layer, my_layer in zip(stack.layers, mine.layers, strict=True):
                _copy_layer(my_layer, layer, order)
    theirs.tie_weights()
    return theirs.eval()


def _copy_layer(mine: EncoderLayer | DecoderLayer, layer: Any, order: Tensor) -> None:
    _copy_attention(mine.self_attention, layer.self_attn, order)
    _copy_norm(mine.self_attention_residual.norm, layer.self_attn_layer_norm, order)
    if isinstance(mine, DecoderLayer):
        _copy_attention(mine.cross_attention, layer.encoder_attn, order)
        _copy_norm(mine.cross_attention_residual.norm, layer.encoder_attn_layer_norm, order)
    _copy_linear(mine.feed_forward.expand, layer.fc1, inputs=order)
    _copy_linear(mine.feed_forward.contract, layer.fc2, outputs=order)
    _copy_norm(mine.feed_forward_residual.norm, layer.final_layer_norm, order)


def _copy_attention(mine: MultiHeadAttention, theirs: Any, order: Tensor) -> None:
    _copy_linear(mine.query_projection, theirs.q_proj, inputs=order)
    _copy_linear(mine.key_projection, theirs.k_proj, inputs=order)
    _copy_linear(mine.value_projection, theirs.v_proj, inputs=order)
    _copy_linear(mine.output_projection, theirs.out_proj, outputs=order)


def _copy_linear(
    mine: nn.Linear, theirs: Any, *, inputs: Tensor | None = None, outputs: Tensor | None = None
) -> None:
    weight, bias = mine.weight, mine.bias
    if inputs is not None:
        weight = weight[:, inputs]
    if outputs is not None:
        weight, bias = weight[outputs], bias[outputs]
    theirs.weight.copy_(weight)
    theirs.bias.copy_(bias)


def _copy_norm(mine: Norm, theirs: Any, order: Tensor) -> None:
    theirs.weight.copy_(mine.norm.weight[order])
    theirs.bias.copy_(mine.norm.bias[order])


def bridge_of(marian: MarianMTModel) -> Any:
    """TransformerLens around a copy of Marian; it runs the explicit formula."""
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    marian = copy.deepcopy(marian)
    return build_bridge_from_module(marian, "MarianMTModel", hf_config=marian.config)
