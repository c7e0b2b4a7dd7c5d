"""Hugging Face's Marian with our weights, and TransformerLens' bridge around it."""

from __future__ import annotations

import copy
from typing import Any, Literal

from transformers import MarianMTModel

from headwise.model.pretrained.to_transformers import to_config, to_model
from headwise.model.transformer import Transformer


def marian_of(ours: Transformer, *, attention: Literal["sdpa", "eager"] = "sdpa") -> MarianMTModel:
    """Marian in evaluation mode; needs norms after the sublayers and no final one."""
    theirs = to_model(ours, to_config(ours.config))
    assert isinstance(theirs, MarianMTModel)
    theirs.set_attn_implementation(attention)
    return theirs


def bridge_of(marian: MarianMTModel) -> Any:
    """TransformerLens around a copy of Marian; it runs the explicit formula."""
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    marian = copy.deepcopy(marian)
    return build_bridge_from_module(marian, "MarianMTModel", hf_config=marian.config)
