"""Load further checkpoints of a training: the same modules as of its first, with other weights.

``transformers`` builds and initialises a model for every checkpoint; a Marian's table of positions
alone takes half a second of Python at 1,024 of them. A copy of its modules is made in a tenth.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Modules:
    """The modules of a model, without the weights that its files have."""

    def __init__(self, inner: Any, given: Mapping[str, Tensor]) -> None:
        """Copy the modules of a model that was loaded from the tensors of a checkpoint's files.

        Raises:
            ValueError: if the model's weights are not these tensors, one by one and by their names,
                so that those of other files would have to be converted.
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
