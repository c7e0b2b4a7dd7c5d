"""``torch.nn.Transformer`` with the weights of our model, and the embeddings it does not have."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.layers import sinusoidal_positions
from headwise.model.masks import PADDING, embeddable
from headwise.model.transformer import DecoderLayer, EncoderLayer, Transformer


class TorchTransformer(nn.Module):
    """Needs our norms after the sublayers, no final one, all tables tied."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        config = ours.config
        settings = {
            "d_model": config.d_model,
            "nhead": config.n_heads,
            "dim_feedforward": config.d_ff,
            "dropout": config.dropout,
            "batch_first": True,
        }
        self.scale = math.sqrt(config.d_model)
        self.table = copy.deepcopy(ours.encoder.embedding.table)
        positions = sinusoidal_positions(config.max_length, config.d_model)
        self.register_buffer("positions", positions, persistent=False)
        # Custom ones, since its own end with a norm.
        encoder = nn.TransformerEncoderLayer(**settings)
        decoder = nn.TransformerDecoderLayer(**settings)
        self.body = nn.Transformer(
            custom_encoder=nn.TransformerEncoder(encoder, config.n_encoder_layers),
            custom_decoder=nn.TransformerDecoder(decoder, config.n_decoder_layers),
            **settings,
        )
        self.unembedding = nn.Linear(config.d_model, config.target_vocab_size)
        with torch.no_grad():
            for mine, layer in zip(
                [*ours.encoder.layers, *ours.decoder.layers],
                [*self.body.encoder.layers, *self.body.decoder.layers],
                strict=True,
            ):
                copy_layer(mine, layer)
            self.unembedding.bias.copy_(ours.unembedding.bias)
        self.unembedding.weight = self.table.weight
        self.eval()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """As ``Transformer.forward``."""
        padding = source == PADDING
        stream = self.body(
            self._embed(source),
            self._embed(target),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(
                target.shape[1], dtype=torch.bool
            ),
            tgt_is_causal=True,
        )
        return self.unembedding(stream)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.table(embeddable(ids)) * self.scale + self.positions[: ids.shape[1]]


def copy_layer(mine: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    """Give a layer of ``torch.nn`` the weights of ours."""
    _copy_attention(mine.self_attention, theirs.self_attn)
    norms = [mine.self_attention_residual.norm]
    if isinstance(mine, DecoderLayer):
        _copy_attention(mine.cross_attention, theirs.multihead_attn)
        norms.append(mine.cross_attention_residual.norm)
    theirs.linear1.load_state_dict(mine.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(mine.feed_forward.contract.state_dict())
    norms.append(mine.feed_forward_residual.norm)
    for place, norm in enumerate(norms, 1):
        theirs.get_submodule(f"norm{place}").load_state_dict(norm.norm.state_dict())


def _copy_attention(mine: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = [mine.query_projection, mine.key_projection, mine.value_projection]
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
    if theirs.in_proj_bias is not None:
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    theirs.out_proj.load_state_dict(mine.output_projection.state_dict())
