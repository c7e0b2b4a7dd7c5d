"""What every way of decoding shares: a batch that grows by a piece a step, with a key/value cache.

``R`` rows still in the batch, ``V`` vocabulary size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import BOS
from model.data import pad
from model.transformer import DecoderCache, Transformer


def longest_target(source_length: int, max_length: int) -> int:
    """Most pieces generated for a source of so many pieces, so that untrained models stop too."""
    return min(2 * source_length + 10, max_length)


class Generation:
    """Rows of encoded sources with the keys and values of their targets so far.

    All targets begin with the same ``prefix``, ``<s>`` first.

    Raises:
        ValueError: on an empty batch or source, one that is too long for the model, or a prefix
            without ``<s>``.
    """

    def __init__(
        self, model: Transformer, sources: Sequence[Sequence[int]], prefix: Sequence[int] = (BOS,)
    ) -> None:
        if not sources:
            raise ValueError("expected at least one source, got an empty batch")
        if list(prefix[:1]) != [BOS]:
            raise ValueError(f"prefix: expected <s> ({BOS}) first, got {list(prefix[:1])}")
        self._model = model
        self._memory, self._mask = model.encode(pad(sources).to(model.device))
        self._cache = DecoderCache(model.config.n_layers)
        self._rows = len(sources)
        self._new = self._ids(prefix).expand(len(sources), -1)
        self.limits = [longest_target(len(s), model.config.max_length) for s in sources]
        """Most pieces of each source's target, ``<s>`` apart."""

    def logits(self) -> Tensor:
        """Logits (R, V) of the next piece of each row."""
        stream = self._model.decode(self._new, self._memory, self._mask, self._cache)
        return self._model.logits(self._model.unembed(stream[:, -1]))

    def append(self, rows: Sequence[int], ids: Sequence[int]) -> None:
        """Go on with these rows, in this order, some perhaps repeated, and a new piece of each."""
        if list(rows) != list(range(self._rows)):
            kept = torch.tensor(rows, dtype=torch.long, device=self._model.device)
            self._memory = self._memory[kept]
            if self._mask is not None:
                self._mask = self._mask[kept]
            self._cache.keep(kept)
        self._rows, self._new = len(rows), self._ids(ids)[:, None]

    def _ids(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, device=self._model.device)
