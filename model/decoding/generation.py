"""Step-by-step decoding of a batch, shared by greedy decoding, sampling and beam search.

``R`` rows still in the batch, ``V`` vocabulary size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.model.batching import pad
from headwise.model.interface import Seq2SeqModel
from headwise.model.placement import in_float32


def longest_target(source_length: int, max_length: int) -> int:
    """Return the most tokens to generate for a source of this length, without ``<s>``.

    The limit also stops untrained models.
    """
    return min(2 * source_length + 10, max_length)


class Generation:
    """A batch of targets grows by one token a step; keys and values are cached.

    All targets begin with ``prefix``, by default the model's start token.

    Raises:
        ValueError: if the batch, a source or the prefix is empty, or a source is too long for the
            model.
    """

    def __init__(
        self,
        model: Seq2SeqModel,
        sources: Sequence[Sequence[int]],
        prefix: Sequence[int] | None = None,
    ) -> None:
        special = model.special_ids
        self.prefix = [special.start] if prefix is None else list(prefix)
        """The ids with which every target begins."""
        if not sources:
            raise ValueError("expected at least one source, got an empty batch")
        if not self.prefix:
            raise ValueError("prefix: expected the start token and perhaps more, got no ids")
        self._model = model
        self._memory, self._mask = model.encode(pad(sources, special.padding).to(model.device))
        self._cache = model.new_cache()
        self._rows = len(sources)
        self._new = self._ids(self.prefix).expand(len(sources), -1)
        self._never = self._ids(special.never_generated) if special.never_generated else None
        longest = [longest_target(len(s), model.description.max_length) for s in sources]
        self.most_generated = [max(1, most + 1 - len(self.prefix)) for most in longest]
        """How many tokens to generate for each source at most. (What the prefix has after ``<s>``,
        such as a language, is part of the target.)"""

    def logits(self) -> Tensor:
        """Compute the logits (R, V) of the next token of each row."""
        stream = self._model.decode(self._new, self._memory, self._mask, self._cache)
        logits = in_float32(self._model.unembed(stream[:, -1]))
        if self._never is not None:
            logits = logits.index_fill(-1, self._never, -math.inf)
        return logits

    def append(self, rows: Sequence[int], ids: Sequence[int]) -> None:
        """Select rows, in this order and possibly repeated, and append one token to each."""
        if list(rows) != list(range(self._rows)):
            selected = torch.tensor(rows, dtype=torch.long, device=self._model.device)
            self._memory = self._memory[selected]
            if self._mask is not None:
                self._mask = self._mask[selected]
            self._cache.keep(selected)
        self._rows, self._new = len(rows), self._ids(ids)[:, None]

    def _ids(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, device=self._model.device)
