"""Attention sinks: where heads put most of their weight whatever the query, and what that is worth.

Two costs tell what a head does with some of its keys. With *values zero*, the weights stay as they
are and what lies on the keys brings nothing. With the keys *removed*, the rest of each row takes
their weight, as if they had never been there. Where a head does nothing with these keys the first
costs nothing, although the second may: the head then looks elsewhere and brings what it finds
there. (Weights that bring nothing, since values are short: Kobayashi et al. 2020; keys that take
the weight of rows that look for nothing: Xiao et al. 2024, "Efficient Streaming Language Models
with Attention Sinks".)

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.estimates import effects_bytes
from headwise.model.forced import target_log_probabilities
from headwise.model.hooks import Edit, edit
from headwise.model.interface import Head, Kind, Seq2SeqModel, attention_path
from headwise.model.interventions import passes_at_a_time, run_copies
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.attention import punctuation, rows_with_several_keys
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.records.trace import Doubles, Floats, Tokens, Trace
from headwise.viz_app.trace.attention import to_numpy

NOTHING = 0.005
"""In nats a token of the target: a sink costs nothing if zero in place of its values costs less."""
SAME = 1.1
"""Stable rank below which a head brings one direction to all rows: at least 10 / 11 of the squared
length of what it brings lies along it."""
Role = Literal[
    "does nothing there", "brings one direction everywhere", "brings something from there"
]
"""What a head does with its sink. The first that is true is said."""
SINK_NOTE = (
    "A head's sink is the token on which its weight, on average over its rows, is nearer to all of "
    "it than to what a head has there that spreads its weight evenly (in brackets), or else all "
    "special tokens and punctuation marks if their weight together is. “Values zero” is what the "
    "translation's log-probability loses, in nats, if what lies there brings nothing; “removed” "
    "if these keys are not there and the rest of a row takes their weight; “others zero” if all "
    f"other keys bring nothing. A head does nothing there if “values zero” is less than {NOTHING} "
    "nats a token of the translation, lost or gained; it brings one direction everywhere, though "
    f"perhaps of another length in each row, if the stable rank of what it brings is below {SAME} "
    "(an even head's in brackets: it is near 1, too). Costs in one sentence have no error, and say "
    "nothing of other sentences; that a head does nothing there does not mean that it is not "
    "needed."
)
"""What the table of sinks shows, and what it cannot tell."""


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
        rows: dict[str, list[tuple[int, Unread]]] = defaultdict(list)  # by hook point
        for row, each in enumerate(changes):
            rows[f"{attention_path(each.head.kind, each.head.layer)}.weights"].append((row, each))
        with edit(model, {point: _leave_unread(those) for point, those in rows.items()}):
            streams = run_copies(model, sources, consumed, len(changes) + 1, of_encoder=of_encoder)
        totals = target_log_probabilities(model, streams, targets)[:, 0].double()
        known.update(zip(places, (totals[-1] - totals[:-1]).tolist(), strict=True))
        note_done(len(known))
    return torch.tensor([known[place] for place in range(len(unread))], dtype=torch.float64)


def _is_of_encoder(unread: Unread) -> bool:
    return unread.head.kind == "encoder_self"


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


@dataclass(frozen=True)
class Sink:
    """A head's weight on some keys is nearer to all of it than to what an even head has there.

    Means are over the rows that have several keys.
    """

    head: Head
    keys: tuple[int, ...]
    """The places of its tokens: one, or all special tokens and punctuation marks together."""
    share: float
    """Mean weight of a row on them together."""
    even: float
    """What an even head has there."""
    norm: float
    """Mean length ‖v W_O‖ of the values there."""
    norm_elsewhere: float
    """The same over all other keys."""

    def named(self, keys: Tokens) -> str:
        """Name its tokens, each once."""
        labels = token_labels(keys)
        return "  ".join(dict.fromkeys(labels[key] for key in self.keys))


@dataclass(frozen=True)
class SinkEffects:
    """What a head does with its sink is told by passes without it, and by what the head brings.

    Costs are what the log-probability of the whole target loses, in nats.
    """

    sink: Sink
    values_zero: float
    """Cost of zero in place of the values at the sink."""
    removed: float
    """Cost of removing the sink's keys, so that the rest of each row takes their weight."""
    elsewhere_zero: float
    """Cost of zero in place of the values at all other keys."""
    rank: float
    """Stable rank of what the head brings to its rows, which is 1 where it brings to all the same
    but for a factor: ‖A‖²_F / ‖A‖²_2 (Rudelson and Vershynin 2007)."""
    even_rank: float
    """That of an even head with the same values."""

    def role(self, steps: int) -> Role:
        """Say what the head does there, in a translation of a number of predicted tokens."""
        if abs(self.values_zero) / steps < NOTHING:
            return "does nothing there"
        if self.rank < SAME:
            return "brings one direction everywhere"
        return "brings something from there"


def without_content(tokens: Tokens) -> NDArray[np.bool_]:
    """Return which tokens are special, such as ``</s>`` and language codes, or punctuation."""
    return np.isin(tokens.ids, list(tokens.special_ids)) | punctuation(tokens)


def rest_without_content(trace: Trace, head: Head) -> tuple[float, float] | None:
    """Return the share of a head's weight on such tokens, and that of an even head.

    Means are over the rows that have several keys. None if that is not most of the weight, as
    ``find_sinks`` has it: where this says something, that finds a sink of the head.
    """
    shares, even = _shares(trace.attention[head.kind], head.kind)
    keys = np.flatnonzero(without_content(trace.keys_of(head.kind)))
    return _most_weight(shares[head.layer, head.head], even, keys)


def _shares(maps: Floats, kind: Kind) -> tuple[Doubles, Doubles]:
    """Return the mean weight on each key, (L, H, M), and that of an even head, (M,)."""
    causal = np.tri(maps.shape[-1], dtype=bool) if kind == "decoder_self" else None
    rows = rows_with_several_keys(maps.shape, causal)
    if not rows.any():
        return np.zeros((*maps.shape[:2], maps.shape[-1])), np.zeros(maps.shape[-1])
    may = np.ones(maps.shape[-2:]) if causal is None else causal.astype(np.float64)
    even = (may / may.sum(axis=1, keepdims=True))[rows].mean(axis=0)
    return maps[..., rows, :].mean(axis=-2, dtype=np.float64), even


def _most_weight(
    shares: Doubles, even: Doubles, keys: NDArray[np.int64]
) -> tuple[float, float] | None:
    """Return what a head and an even head have on some keys, of the mean weights on each, (M,).

    None unless the head's share is nearer to all of the weight than to the even head's.
    """
    share, chance = float(shares[keys].sum()), float(even[keys].sum())
    return (share, chance) if len(keys) < len(shares) and share > (1 + chance) / 2 else None


def find_sinks(trace: Trace, kind: Kind) -> list[Sink]:
    """Find the sink of each head of a kind that has one, layer by layer."""
    found, maps = [], trace.attention[kind]
    shares, even = _shares(maps, kind)
    group = np.flatnonzero(without_content(trace.keys_of(kind)))
    for layer, number in np.ndindex(*maps.shape[:2]):
        of_head, norms = shares[layer, number], trace.value_norms[kind][layer, number]
        strongest = np.array([int(first_largest(of_head))])
        for keys in (strongest, group):
            if most := _most_weight(of_head, even, keys):
                there, elsewhere = float(norms[keys].mean()), np.delete(norms, keys).mean()
                head = Head(kind, layer, number)
                places = tuple(keys.tolist())
                found.append(Sink(head, places, *most, there, float(elsewhere)))
                break
    return found


@of_trace("sinks", needs=effects_bytes)
def sink_effects(
    model: Seq2SeqModel,
    trace: Trace,
    kind: Kind,
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> list[SinkEffects]:
    """Measure what the sinks of a kind are worth, the target forced and heads as in the model.

    ``known`` is as for ``costs_of_unread``.
    """
    sinks, every = find_sinks(trace, kind), range(len(trace.keys_of(kind)))
    changes = [
        change
        for sink in sinks
        for change in (
            Unread(sink.head, sink.keys),
            Unread(sink.head, sink.keys, removed=True),
            Unread(sink.head, tuple(key for key in every if key not in sink.keys)),
        )
    ]
    costs = costs_of_unread(
        model,
        trace.source.ids,
        trace.target_ids,
        changes,
        known=known,
        note_done=lambda done: note_done(done, len(changes)),
    )
    return [
        SinkEffects(sink, zero, removed, others, *_ranks(model, trace, sink.head))
        for sink, (zero, removed, others) in zip(sinks, costs.view(-1, 3).tolist(), strict=True)
    ]


def _ranks(model: Seq2SeqModel, trace: Trace, head: Head) -> tuple[float, float]:
    """Return the stable rank of what a head brings to its rows with several keys, and if even."""
    kind, layer, number = head
    weights = trace.attention[kind][layer, number].astype(np.float64)  # (Q, M)
    may = np.tri(*weights.shape) if kind == "decoder_self" else np.ones(weights.shape)
    rows = may.sum(axis=1) > 1
    output = model.linear(f"{attention_path(kind, layer)}.output_projection").weight  # (H K, D)
    of_head = output.unflatten(0, (model.description.heads(kind), -1))[number]
    values = trace.values[kind][layer, number] @ to_numpy(of_head).astype(np.float64)  # (M, D)
    even = may / may.sum(axis=1, keepdims=True)
    return stable_rank(weights[rows] @ values), stable_rank(even[rows] @ values)


def stable_rank(matrix: Doubles) -> float:
    """Return ‖A‖²_F / ‖A‖²_2 of a matrix: 1 if its rank is 1, NaN if all of it is 0."""
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    return float(squares.sum() / squares[0]) if squares[:1].any() else float("nan")
