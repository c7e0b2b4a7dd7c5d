"""A corpus as batches of ids, read while it is used; and all attention maps of a batch.

``B`` batch, ``S`` source length, ``T`` target steps, ``D`` = d_model, ``L`` layers, ``H`` heads,
``Q`` and ``M`` the query and key lengths of a map. Nothing here grows with the corpus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from model.ablation import ATTENTIONS
from model.config import PAD
from model.data import Pair, pad
from model.hooks import capture
from model.masks import causal_mask
from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.records import KINDS, Kind

_REMEMBERED = 10_000
"""So many sources back a repeated one is noticed."""
_WINDOW = 1_024
"""Sentences among which those of similar length are put together."""
_CELLS = 32 * 64 * 64
"""Most cells of one head's maps of a batch, padding included; a longer sentence is alone in its."""


@dataclass(frozen=True)
class Encoded:
    """A pair as ids: the source's end with ``</s>``, the target's have ``<s>`` and ``</s>``."""

    number: int
    """Place in the corpus, from 0."""
    pair: Pair
    source: list[int]
    target: list[int]


@dataclass
class LeftOut:
    """How many pairs were passed over."""

    empty: int = 0
    repeated: int = 0
    too_long: int = 0

    def __str__(self) -> str:
        return (
            f"{self.empty:,} with an empty side, {self.repeated:,} with a source that stood there "
            f"before, {self.too_long:,} too long for the model"
        )


def encode(
    pairs: Iterable[Pair], tokenizers: TokenizerPair, *, max_length: int, left_out: LeftOut
) -> Iterator[Encoded]:
    """Pairs as ids; those with an empty side, a repeated source or too many pieces are left out.

    A source counts as repeated if it stood among the last ten thousand before.

    Args:
        pairs: of a corpus, in its order.
        tokenizers: those of the run.
        max_length: most pieces of a source or of a consumed target.
        left_out: counts go on in here.
    """
    order: deque[str] = deque()
    seen: set[str] = set()
    for number, pair in enumerate(pairs):
        if not pair.source or not pair.target:
            left_out.empty += 1
            continue
        if pair.source in seen:
            left_out.repeated += 1
            continue
        order.append(pair.source)
        seen.add(pair.source)
        if len(order) > _REMEMBERED:
            seen.remove(order.popleft())
        source = tokenizers.encode_source(pair.source)
        target = tokenizers.encode_target(pair.target)
        if len(source) < 2 or len(target) < 3:  # nothing that the tokenizer takes for text
            left_out.empty += 1
            continue
        if max(len(source), len(target) - 1) > max_length:
            left_out.too_long += 1
            continue
        yield Encoded(number, pair, source, target)


def in_batches(sentences: Iterable[Encoded], size: int = 32) -> Iterator[list[Encoded]]:
    """At most ``size`` sentences at a time, of similar length, fewer where they are long."""
    rest = iter(sentences)
    while window := list(islice(rest, _WINDOW)):
        window.sort(key=lambda e: (len(e.target), len(e.source), e.number))
        batch: list[Encoded] = []
        longest = 0
        for sentence in window:
            longest = max(longest, len(sentence.source), len(sentence.target))
            if batch and (len(batch) == size or (len(batch) + 1) * longest**2 > _CELLS):
                yield batch
                batch, longest = [], max(len(sentence.source), len(sentence.target))
            batch.append(sentence)
        yield batch


@dataclass(frozen=True)
class Ids:
    """Ids of a batch on the model's device, padded on the right, and what may attend to what."""

    source: Tensor
    """(B, S)."""
    target: Tensor
    """(B, T + 1)."""

    @classmethod
    def of(
        cls, sources: Sequence[list[int]], targets: Sequence[list[int]], device: torch.device
    ) -> Ids:
        """Pad sequences of ids."""
        return cls(pad(sources).to(device), pad(targets).to(device))

    @property
    def predicted(self) -> Tensor:
        """(B, T)."""
        return self.target[:, 1:]

    @property
    def consumed(self) -> Tensor:
        """(B, T); padding wherever ``predicted`` has it, so no ``</s>``."""
        return self.target[:, :-1].masked_fill(self.predicted == PAD, PAD)

    def keys(self, kind: Kind) -> Tensor:
        """Ids at the columns of a kind of map, (B, M)."""
        return self.consumed if kind == "decoder_self" else self.source

    def allowed(self, kind: Kind) -> Tensor:
        """Which keys each query may attend to; none where there is no query: bool (B, Q, M)."""
        queries = self.source if kind == "encoder_self" else self.consumed
        allowed = (queries != PAD)[:, :, None] & (self.keys(kind) != PAD)[:, None, :]
        if kind == "decoder_self":
            size = queries.shape[1]
            allowed &= causal_mask(size, size, device=queries.device)[0]
        return allowed


@torch.inference_mode()
def attention_maps(model: Transformer, ids: Ids) -> tuple[dict[Kind, Tensor], Tensor]:
    """All maps of a teacher-forced pass, and what the decoder gives.

    Returns:
        Kind → weights (B, L H, Q, M), layer by layer; and the stream (B, T, D).
    """
    layers = range(model.config.n_layers)
    names = {
        kind: [f"{ATTENTIONS[kind].format(layer)}.weights" for layer in layers] for kind in KINDS
    }
    with capture(model, [name for found in names.values() for name in found]) as seen:
        memory, mask = model.encode(ids.source)
        stream = model.decode(ids.target[:, :-1], memory, mask)
    maps = {kind: torch.cat([seen[name][0] for name in names[kind]], dim=1) for kind in KINDS}
    return maps, stream
