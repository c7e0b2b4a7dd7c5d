"""Hugging Face's Marian with our weights, and what it is asked for."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from transformers import MarianMTModel

from headwise.model.pretrained.to_transformers import to_config, to_model
from headwise.model.transformer import Transformer


def marian_of(ours: Transformer, *, attention: Literal["sdpa", "eager"] = "sdpa") -> MarianMTModel:
    """Marian in evaluation mode; needs norms after the sublayers and no final one."""
    theirs = to_model(ours, to_config(ours.config))
    assert isinstance(theirs, MarianMTModel)
    theirs.set_attn_implementation(attention)
    return theirs


def _passed(marian: Any, source: Tensor, target: Tensor, **more: bool) -> Any:
    return marian(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        decoder_input_ids=target,
        use_cache=False,
        **more,
    )


def logits_of(marian: Any, source: Tensor, target: Tensor) -> Tensor:
    """(batch, target, vocabulary)."""
    logits: Tensor = _passed(marian, source, target).logits
    return logits


def attention_of(marian: Any, source: Tensor, target: Tensor) -> list[Tensor]:
    """The weights of all layers of the encoder, then those of each layer of the decoder."""
    output = _passed(marian, source, target, output_attentions=True)
    decoder = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(kind for layer in decoder for kind in layer)]


def generate(marian: Any, source: Tensor, tokens: int) -> Tensor:
    """So many new tokens, greedy: (batch, tokens + 1)."""
    target: Tensor = marian.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        max_new_tokens=tokens,
        num_beams=1,
        do_sample=False,
    )
    return target
