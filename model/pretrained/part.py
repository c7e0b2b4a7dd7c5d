"""The encoder or the decoder of a Hugging Face model, with the record of its family."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.model.interface import Stack
from headwise.model.pretrained.families import Family, SublayerPaths
from headwise.model.pretrained.parameters import find


class Part(NamedTuple):
    """The encoder or the decoder in ``transformers``, and the record of its family."""

    stack: Stack
    module: Any
    family: Family

    def find(self, path: str) -> Any:
        """Return the module at a path; None if there is none."""
        return find(self.module, path)

    def layers(self) -> Any:
        """Return the list of layers."""
        return self.module.get_submodule(self.family.layers)

    def feed_forward(self) -> nn.Module:
        """Return the module that holds the linear layers of the first feed-forward."""
        paths: SublayerPaths = getattr(self.family, f"{self.stack}_feed_forward")
        return self.layers()[0].get_submodule(paths.module)

    def embedding(self) -> nn.Embedding:
        """Return the module of the embeddings of tokens."""
        return self.module.get_input_embeddings()

    def open_mask(self, ids: Tensor, before: int = 0) -> Tensor | None:
        """Return a mask that hides nothing, (B, n), for a family that is to be given one."""
        if not self.family.hides_padding:
            return None
        return ids.new_ones(len(ids), before + ids.shape[1])

    def position_ids(self, ids: Tensor, before: int = 0) -> dict[str, Tensor]:
        """Return the numbers of positions, (B, n), of a family that is to be given them."""
        if not self.family.numbers_positions:
            return {}
        numbers = torch.arange(before, before + ids.shape[1], device=ids.device)
        return {"position_ids": numbers.expand(len(ids), -1)}
