"""The pass that ``transformers`` itself computes: with its own attention, and no hook points.

It shares nothing with the pass that is shown but the weights, so that an error of ours cannot be in
both. ``B`` batch, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from headwise.model.interface import KINDS, Reference
from headwise.model.memory import copy_without_hooks
from headwise.model.pretrained.folders import quiet

_making = threading.Lock()


class EagerTwin:
    """A second tree of modules with the weights of a model, made when it is first used.

    Another model's attention is another setting of its own, which sessions that share it would see
    change; a tree of its own takes no memory for weights.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._twin: Any = None

    def run(self, source: Tensor, consumed: Tensor) -> Reference:
        """Run the model on ids (B, S) and (B, T), all of which are tokens."""
        with torch.inference_mode():
            # As a tokenizer says of texts: without a mask, T5Gemma hides tokens by their ids.
            found = self._made()(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                decoder_input_ids=consumed,
                decoder_attention_mask=torch.ones_like(consumed),
                use_cache=False,
                output_attentions=True,
                return_dict=True,
            )
        maps = found.encoder_attentions, found.decoder_attentions, found.cross_attentions
        return Reference(found.logits, dict(zip(KINDS, maps, strict=True)))

    def _made(self) -> Any:
        with _making:
            if self._twin is None or not _are_same(_tensors(self._twin), _tensors(self._inner)):
                self._twin = _twin_of(self._inner)
            return self._twin


def _tensors(inner: Any) -> Iterable[Tensor]:
    return itertools.chain(inner.parameters(), inner.buffers())


def _are_same(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Return whether weights are those that they were: they are replaced if a model is moved."""
    return all(a is b for a, b in itertools.zip_longest(some, others))


def _twin_of(inner: Any) -> Any:
    twin: Any = copy_without_hooks(inner, shared=_tensors(inner))
    for module in twin.modules():
        # What they say was done to the original.
        vars(module).pop("_output_capturing_hooks_installed", None)
        vars(module).pop("hook_points", None)
    with quiet():
        twin.set_attn_implementation("eager")
    return twin
