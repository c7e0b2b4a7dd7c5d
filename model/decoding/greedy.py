"""Greedy decoding, and what it shares with sampling and beam search: a batch that grows by steps.

Models are in evaluation mode. A batch, a source or a prefix that is empty, or a source that is too
long for the model, is a ValueError. ``R`` rows still in the batch, ``V`` vocabulary size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headwise.model.interface import Ids, Rows, Seq2SeqModel
from headwise.model.masks import pad
from headwise.model.placement import in_float32
from headwise.model.ties import first_largest, first_largest_of


def longest_target(source_length: int, max_length: int) -> int:
    """Return the most tokens to generate, without ``<s>``, so that untrained models end, too."""
    return min(2 * source_length + 10, max_length)


class Generation:
    """A batch of targets that grows by one token a step; keys and values are cached."""

    def __init__(self, model: Seq2SeqModel, sources: Rows, prefix: Ids | None = None) -> None:
        special = model.special_ids
        self.prefix = [special.start] if prefix is None else list(prefix)
        """The ids with which every target begins."""
        if not sources:
            raise ValueError("expected at least one source, got an empty batch")
        if not self.prefix:
            raise ValueError("prefix: expected the start token and perhaps more, got no ids")
        self._model = model
        self._memory, self._mask = model.encode(pad(sources).to(model.device))
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

    def append(self, rows: Ids, ids: Ids) -> None:
        """Select rows, in this order and possibly repeated, and append one token to each."""
        if list(rows) != list(range(self._rows)):
            selected = torch.tensor(rows, dtype=torch.long, device=self._model.device)
            self._memory = self._memory[selected]
            if self._mask is not None:
                self._mask = self._mask[selected]
            self._cache.keep(selected)
        self._rows, self._new = len(rows), self._ids(ids)[:, None]

    def _ids(self, ids: Ids) -> Tensor:
        return torch.tensor(ids, device=self._model.device)


Choose = Callable[[Tensor, list[int]], list[int]]
"""A function from logits (R, V) and the source index of each row to the id chosen for it."""


def decode_step_by_step(
    model: Seq2SeqModel,
    sources: Rows,
    choose: Choose,
    prefix: Ids | None = None,
    *,
    keep_rows: bool = False,
) -> list[list[int]]:
    """Decode as ``greedy`` does; ``choose`` picks the next token of each row."""
    batch = Generation(model, sources, prefix)
    targets, ends = [list(batch.prefix) for _ in sources], model.special_ids.ends
    longest = [len(batch.prefix) + most for most in batch.most_generated]
    rows, done = list(range(len(sources))), set[int]()
    while rows:
        continued, ids = [], []
        for place, id in enumerate(choose(batch.logits(), rows)):
            target, ended = targets[rows[place]], rows[place] in done
            if not ended:
                target.append(id)
                if id in ends or len(target) >= longest[rows[place]]:
                    done.add(rows[place])
            if keep_rows or rows[place] not in done:
                continued.append(place)
                ids.append(id)
        rows = [rows[place] for place in continued] if len(done) < len(targets) else []
        if rows:
            batch.append(continued, ids)
    return targets


@torch.inference_mode()
def greedy(
    model: Seq2SeqModel, sources: Rows, prefix: Ids | None = None, *, keep_rows: bool = False
) -> list[list[int]]:
    """Decode a batch of sources, choosing the likeliest token at every step.

    Of tokens that are equally likely, as ``model/ties.py`` says, it is the one of the lowest id.
    Sources include ``</s>``. Each target begins with ``prefix``, by default the model's start
    token, and ends with ``</s>`` unless the limit of ``longest_target`` is reached first.

    A source whose target has ended leaves the batch, so that what ``capture`` records has fewer and
    fewer rows. With ``keep_rows`` row b of every tensor is source b to the end; what a row computes
    after its target has ended is part of no target.
    """

    def likeliest(logits: Tensor, _: list[int]) -> list[int]:
        if logits.is_cpu:  # NumPy's argmax takes a tenth of the time of PyTorch's there
            return first_largest(logits.numpy()).tolist()
        return first_largest_of(logits).tolist()

    return decode_step_by_step(model, sources, likeliest, prefix, keep_rows=keep_rows)
