"""How many multiply-adds a pass takes, counted from the shapes of a model before it is run.

Counted are the products of matrices: projections, feed-forwards, and those of attention with its
scores and weights. ``S`` source length, ``T`` target steps, ``D`` = d_model.
"""

from __future__ import annotations

from headwise.model.interface import Description

AT_A_TIME = 40_000_000_000
"""Multiply-adds of the copies that are run together where somebody may want to end it: about a
second of one processor."""
A_SECOND = 30_000_000_000
"""Multiply-adds in a second of one processor, a cautious guess."""


def encoding_work(model: Description, source: int) -> int:
    """Count the multiply-adds of the encoder on S tokens."""
    model, width = model.of("encoder"), model.n_encoder_heads * model.encoder_d_k
    a_token = 4 * model.d_model * width + _feed_forward(model, model.encoder_d_ff)
    return model.n_encoder_layers * source * (a_token + 2 * source * width)


def decoding_work(model: Description, source: int, target: int) -> int:
    """Count the multiply-adds of the decoder on T tokens together, after S, without the logits."""
    width = model.n_decoder_heads * model.decoder_d_k
    a_token = 6 * model.d_model * width + _feed_forward(model, model.decoder_d_ff)
    of_source = 2 * model.of("encoder").d_model * width  # keys and values of cross-attention
    attended = 2 * (source + target) * width
    return model.n_decoder_layers * (target * (a_token + attended) + source * of_source)


def _feed_forward(model: Description, width: int) -> int:
    return (3 if model.gated else 2) * model.d_model * width
