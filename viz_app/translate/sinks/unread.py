"""What a translation loses when a head does not read some of its keys.

There are two ways. With *values zero*, the weights stay as they are and what lies on the keys
brings nothing. With the keys *removed*, the rest of each row takes their weight, as if they had
never been there. Where a head does nothing with these keys the first costs nothing, although the
second may: the head then looks elsewhere and brings what it finds there. (Weights that bring
nothing, since values are short: Kobayashi et al. 2020; keys that take the weight of rows that look
for nothing: Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks".)

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.model.forced import target_log_probabilities
from headwise.model.hooks import Edit, edit
from headwise.model.interface import Head, Seq2SeqModel, attention_path
from headwise.model.interventions import passes_at_a_time, run_copies


class Unread(NamedTuple):
    """A head does not read some of its keys, in all rows of its map."""

    head: Head
    keys: tuple[int, ...]
    """Their places, from 0."""
    removed: bool = False
    """Whether the rest of a row takes the weight of the keys; else their values are zero. A row
    whose whole weight is on the keys has no rest, and stays as it is."""


@torch.inference_mode()
def costs_of_unread(
    model: Seq2SeqModel,
    source: Sequence[int],
    target: Sequence[int],
    unread: Sequence[Unread],
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """Compute what the log-probability of a target loses by each of some changes, one at a time.

    Args:
        model: the model, in evaluation mode.
        source: ids, ``</s>`` included.
        target: ids, from ``<s>`` on.
        unread: the changes. As many are run together as ``passes_at_a_time`` says.
        known: costs that are known already, by their place; what is found is added.
        note_done: is told how many are done, after every batch.

    Returns:
        (changes,), in nats, float64; below 0 where the target becomes likelier. A key that there is
        not is a ValueError.
    """
    sources, targets = (torch.tensor([list(ids)], device=model.device) for ids in (source, target))
    consumed = targets[:, :-1]
    known = {} if known is None else known
    order = [place for place in range(len(unread)) if place not in known]
    order.sort(key=lambda place: not _is_of_encoder(unread[place]))
    size = passes_at_a_time(model.description, len(source), consumed.shape[1])
    for start in range(0, len(order), size):
        places = order[start : start + size]
        changes = [unread[place] for place in places]
        of_encoder = sum(map(_is_of_encoder, changes))
        with edit(model, _edits(changes)):
            streams = run_copies(model, sources, consumed, len(changes) + 1, of_encoder=of_encoder)
        totals = target_log_probabilities(model, streams, targets)[:, 0].double()
        known.update(zip(places, (totals[-1] - totals[:-1]).tolist(), strict=True))
        note_done(len(known))
    return torch.tensor([known[place] for place in range(len(unread))], dtype=torch.float64)


def _is_of_encoder(unread: Unread) -> bool:
    return unread.head.kind == "encoder_self"


def _edits(unread: Sequence[Unread]) -> dict[str, Edit]:
    """Make the edits under which each row of a batch has one of the changes, by hook points."""
    rows: dict[str, list[tuple[int, Unread]]] = defaultdict(list)
    for row, change in enumerate(unread):
        rows[f"{attention_path(change.head.kind, change.head.layer)}.weights"].append((row, change))
    return {point: _leave_unread(changes) for point, changes in rows.items()}


def _leave_unread(changes: Sequence[tuple[int, Unread]]) -> Edit:
    """Make an edit of the weights of an attention, (B, H, Q, M): each change in its row of B."""

    def leave(weights: Tensor) -> Tensor:
        weights = weights.clone()
        for row, (head, keys, removed) in changes:
            if not 0 <= min(keys) <= max(keys) < weights.shape[-1]:
                raise ValueError(f"keys: expected 0 to {weights.shape[-1] - 1}, got {keys}")
            before = weights[row, head.head]  # (Q, M)
            after = before.clone()
            after[:, list(keys)] = 0
            if removed:
                rest = after.sum(dim=-1, keepdim=True)
                whole = before.sum(dim=-1, keepdim=True)  # 1, but for half an attention
                after = torch.where(rest > 0, after / rest * whole, before)
            weights[row, head.head] = after
        return weights

    return leave
