"""Greedy decoding, and the loop that it shares with sampling. ``R`` rows, ``V`` vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headwise.model.decoding.generation import Generation
from headwise.model.interface import Seq2SeqModel
from headwise.model.ties import first_largest, first_largest_of

Choose = Callable[[Tensor, list[int]], list[int]]
"""A function from logits (R, V) and the source index of each row to the id chosen for it."""


def decode_step_by_step(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    choose: Choose,
    prefix: Sequence[int] | None = None,
) -> list[list[int]]:
    """Decode a batch token by token; ``choose`` picks the next token of each row.

    Rows that have ended leave the batch. Args, results and errors are otherwise as in ``greedy``.
    """
    batch = Generation(model, sources, prefix)
    targets, end = [list(batch.prefix) for _ in sources], model.special_ids.end
    longest = [len(batch.prefix) + most for most in batch.most_generated]
    rows = list(range(len(sources)))
    while rows:
        continued, ids = [], []
        for place, id in enumerate(choose(batch.logits(), rows)):
            target = targets[rows[place]]
            target.append(id)
            if id != end and len(target) < longest[rows[place]]:
                continued.append(place)
                ids.append(id)
        rows = [rows[place] for place in continued]
        if rows:
            batch.append(continued, ids)
    return targets


@torch.inference_mode()
def greedy(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    prefix: Sequence[int] | None = None,
) -> list[list[int]]:
    """Decode a batch of sources, choosing the likeliest token at every step.

    Of tokens that are equally likely, as ``model/ties.py`` says, it is the one of the lowest id.

    Args:
        model: the model, in evaluation mode.
        sources: ids of each source, ``</s>`` included.
        prefix: ids with which every target begins; by default the model's start token.

    Returns:
        For each source its target: the prefix, the tokens and ``</s>``, which is missing if the
        limit of ``longest_target`` was reached first.

    Raises:
        ValueError: if the batch, a source or the prefix is empty, or a source is too long for the
            model.
    """
    return decode_step_by_step(model, sources, lambda logits, _: _argmax(logits), prefix)


def _argmax(logits: Tensor) -> list[int]:
    if logits.is_cpu:  # NumPy's argmax takes a tenth of the time of PyTorch's there
        return first_largest(logits.numpy()).tolist()
    return first_largest_of(logits).tolist()
