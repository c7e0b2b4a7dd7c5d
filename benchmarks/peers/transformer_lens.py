"""TransformerLens' bridge around a Marian."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
from transformers import MarianMTModel


def bridge_of(marian: MarianMTModel) -> Any:
    """TransformerLens around a copy of Marian; it runs the explicit formula."""
    marian = copy.deepcopy(marian)
    return build_bridge_from_module(marian, "MarianMTModel", hf_config=marian.config)


def patterns_of(bridge: Any, source: Tensor, target: Tensor) -> list[Tensor]:
    """The weights of all attention, in the order in which it runs."""
    _, cache = bridge.run_with_cache(
        source,
        decoder_input=target,
        attention_mask=torch.ones_like(source),
        names_filter=lambda name: name.endswith("hook_pattern"),
    )
    return list(cache.values())
