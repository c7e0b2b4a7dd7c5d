"""Copies of a Hugging Face model's modules: with other weights, or with another attention.

``B`` batch, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.model.hooks import copy_without_hooks
from headwise.model.interface import KINDS, Reference
from headwise.model.pretrained.folders import quiet


class Modules:
    """The modules of a training's first checkpoint, to be filled with the weights of others.

    ``transformers`` builds and initialises a model for every checkpoint; a Marian's table of
    positions alone takes half a second of Python. A copy of its modules is made in a tenth.
    """

    def __init__(self, inner: Any, given: Mapping[str, Tensor]) -> None:
        """Copy the modules of a model that was loaded from the tensors of files.

        If these are not its weights one by one and by name, it is a ValueError: others would have
        to be converted.
        """
        places = inner.state_dict(keep_vars=True)
        self._empty: dict[str, Tensor] = {}
        memo: dict[int, Any] = {}
        for name, tensor in given.items():
            place = places.get(name)
            if place is None or id(place) in memo or not torch.equal(place, tensor.to(place.dtype)):
                raise ValueError(f"{name}: expected a weight of its own, as the file has it")
            empty = torch.empty_like(place, device="meta")
            is_weight = isinstance(place, nn.Parameter)
            memo[id(place)] = nn.Parameter(empty, requires_grad=False) if is_weight else empty
            self._empty[name] = memo[id(place)]
        self._inner = copy.deepcopy(inner, memo)

    def fit(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Return whether tensors of these names and shapes are all that the modules need."""
        return shapes == {name: tuple(tensor.shape) for name, tensor in self._empty.items()}

    def filled(self, given: Mapping[str, Tensor]) -> Any:
        """Return a copy with these weights."""
        memo: dict[int, Any] = {}
        for name, empty in self._empty.items():
            tensor = given[name].to(empty.dtype, copy=True)  # not where the file is mapped
            is_weight = isinstance(empty, nn.Parameter)
            memo[id(empty)] = nn.Parameter(tensor, requires_grad=False) if is_weight else tensor
        return copy.deepcopy(self._inner, memo)


_making = threading.Lock()


class EagerTwin:
    """The pass that ``transformers`` computes with its own attention, and no hook points.

    It shares nothing with the pass that is shown but the weights, so that an error of ours cannot
    be in both. It has modules of its own, made when it is first used: sessions that share a model
    would see its attention change.
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
            tensors = _tensors(self._inner)
            # Weights are replaced if a model is moved.
            if self._twin is None or any(map(operator.is_not, _tensors(self._twin), tensors)):
                self._twin = copy_without_hooks(self._inner, shared=tensors)
                for module in self._twin.modules():
                    # What they say was done to the original.
                    vars(module).pop("_output_capturing_hooks_installed", None)
                    vars(module).pop("hook_points", None)
                with quiet():
                    self._twin.set_attn_implementation("eager")
            return self._twin


def _tensors(inner: Any) -> list[Tensor]:
    return [*inner.parameters(), *inner.buffers()]
