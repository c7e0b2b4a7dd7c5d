"""Sentences of a corpus as batches of token ids; the maps and the scores of a batch.

``B`` batch, ``S`` source length, ``T`` target steps, ``D`` = d_model, ``L`` layers, ``H`` heads,
``Q`` and ``M`` the query and key lengths of a map. Memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import torch
from cachetools import FIFOCache
from torch import Tensor

from headwise.model.budget import require_memory
from headwise.model.estimates import maps_bytes
from headwise.model.forced import forced_stream, target_log_probabilities
from headwise.model.hooks import capture
from headwise.model.interface import Kind, Seq2SeqModel, SpecialIds, Tokenizers
from headwise.model.masks import PADDING, causal_mask, pad
from headwise.model.training.data import DataError, Pair
from headwise.model.validation import is_too_long
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.attention import run_maps

if TYPE_CHECKING:  # the app need not load what trains in several processes
    from headwise.model.training.processes import Processes

Result = TypeVar("Result")
_REMEMBERED = 10_000  # number of the latest sources among which a repeated one is noticed
_WINDOW = 1_024  # number of sentences that are sorted by length together
_CELLS = 32 * 64 * 64  # of one head's maps in a batch, with padding; or one sentence


@dataclass(frozen=True)
class EncodedPair:
    """An encoded pair: its source ends with ``</s>``, its target has ``<s>`` and ``</s>``."""

    number: int  # index in the corpus, from 0
    pair: Pair
    source: list[int]
    target: list[int]


@dataclass
class LeftOutCounts:
    """The pairs of a corpus that are left out are counted by reason."""

    empty: int = 0
    repeated: int = 0
    too_long: int = 0

    def __str__(self) -> str:
        return (
            f"{self.empty:,} with an empty side, {self.repeated:,} with a repeated source, "
            f"{self.too_long:,} too long for the model"
        )


def encode_pair(
    number: int, pair: Pair, tokenizers: Tokenizers, *, max_length: int, left_out: LeftOutCounts
) -> EncodedPair | None:
    """Encode a pair; return None if a side is empty or too long, and count it in ``left_out``."""
    if not pair.source or not pair.target:
        left_out.empty += 1
        return None
    if is_too_long(*pair):
        left_out.too_long += 1
        return None
    source = tokenizers.encode_source(pair.source)
    target = tokenizers.encode_target(pair.target)
    if len(source) < 2 or len(target) < 3:  # nothing that the tokenizer takes for text
        left_out.empty += 1
        return None
    if max(len(source), len(target) - 1) > max_length:
        left_out.too_long += 1
        return None
    return EncodedPair(number, pair, source, target)


def encode(
    pairs: Iterable[Pair],
    tokenizers: Tokenizers,
    *,
    max_length: int,
    left_out: LeftOutCounts | None = None,
) -> Iterator[EncodedPair]:
    """Encode pairs; leave out those with an empty side, a repeated source or too many tokens.

    A source is repeated if it is among the ten thousand sources before it. Neither a source nor a
    consumed target may have more than ``max_length`` tokens. What is left out is counted.
    """
    left_out = left_out or LeftOutCounts()
    seen: FIFOCache[str, None] = FIFOCache(_REMEMBERED)
    for number, pair in enumerate(pairs):
        if pair.source and pair.target:
            if pair.source in seen:
                left_out.repeated += 1
                continue
            seen[pair.source] = None
        sentence = encode_pair(number, pair, tokenizers, max_length=max_length, left_out=left_out)
        if sentence is not None:
            yield sentence


def encode_all(
    pairs: Sequence[Pair], tokenizers: Tokenizers, *, max_length: int
) -> tuple[EncodedPair, ...]:
    """Encode pairs that a model can take, each source once. DataError if none is left."""
    left_out = LeftOutCounts()
    found = tuple(encode(pairs, tokenizers, max_length=max_length, left_out=left_out))
    if not found:
        raise DataError(f"expected pairs that the model can take, got none but {left_out}")
    return found


def batches_by_length(
    sentences: Iterable[EncodedPair], size: int = 32
) -> Iterator[list[EncodedPair]]:
    """Yield batches of at most ``size`` sentences of similar length, fewer if they are long."""
    rest = iter(sentences)
    while window := list(islice(rest, _WINDOW)):
        window.sort(key=lambda e: (len(e.target), len(e.source), e.number))
        batch: list[EncodedPair] = []
        longest = 0
        for sentence in window:
            longest = max(longest, len(sentence.source), len(sentence.target))
            if batch and (len(batch) == size or (len(batch) + 1) * longest**2 > _CELLS):
                yield batch
                batch, longest = [], max(len(sentence.source), len(sentence.target))
            batch.append(sentence)
        yield batch


def gather(processes: Processes, found: Sequence[Mapping[int, Result]]) -> list[Result]:
    """Gather what all processes found for the sentences of their batches, in order of sentences.

    Sentences are known by their numbers; all processes must call this.
    """
    parts = [part for of_process in processes.gather(found) for part in of_process]
    together = {number: one for part in parts for number, one in part.items()}
    return [together[number] for number in sorted(together)]


@dataclass(frozen=True)
class PaddedIds:
    """The ids of a batch are padded by ``pad`` and know which positions may attend to which."""

    source: Tensor  # source ids, (B, S)
    target: Tensor  # target ids from ``<s>`` to ``</s>``, (B, T + 1)
    special: SpecialIds  # the ids of the model's special tokens

    @classmethod
    def of(
        cls, sources: Sequence[list[int]], targets: Sequence[list[int]], model: Seq2SeqModel
    ) -> PaddedIds:
        """Pad sequences of ids for a model and move them to its device."""
        source, target = (pad(rows).to(model.device) for rows in (sources, targets))
        return cls(source, target, model.special_ids)

    @classmethod
    def of_pairs(cls, pairs: Sequence[EncodedPair], model: Seq2SeqModel) -> PaddedIds:
        return cls.of([pair.source for pair in pairs], [pair.target for pair in pairs], model)

    @classmethod
    def of_trace(cls, trace: Trace, model: Seq2SeqModel) -> PaddedIds:
        return cls.of([list(trace.source.ids)], [list(trace.target_ids)], model)

    @property
    def is_predicted(self) -> Tensor:
        """Return at which steps a token is predicted, not padding: bool (B, T)."""
        return self.predicted != PADDING

    @property
    def is_source(self) -> Tensor:
        """Return at which positions the source has a token, not padding: bool (B, S)."""
        return self.source != PADDING

    @property
    def predicted(self) -> Tensor:
        """Ids that the decoder predicts, (B, T)."""
        return self.target[:, 1:]

    @property
    def consumed(self) -> Tensor:
        """Ids that the decoder consumes, (B, T); padding where ``predicted`` has padding."""
        return self.target[:, :-1].masked_fill(~self.is_predicted, PADDING)

    def keys(self, kind: Kind) -> Tensor:
        """Return the ids at the columns of the maps of a kind, (B, M)."""
        return self.consumed if kind == "decoder_self" else self.source

    def allowed(self, kind: Kind) -> Tensor:
        """Return which keys each query may attend to, none at padding: bool (B, Q, M)."""
        source, target = self.is_source, self.is_predicted
        queries = source if kind == "encoder_self" else target
        keys = target if kind == "decoder_self" else source
        allowed = queries[:, :, None] & keys[:, None, :]
        if kind == "decoder_self":
            size = queries.shape[1]
            allowed &= causal_mask(size, size, device=queries.device)[0]
        return allowed


def attention_maps(model: Seq2SeqModel, ids: PaddedIds) -> tuple[dict[Kind, Tensor], Tensor]:
    """Compute all attention maps of a teacher-forced pass, (B, L H, Q, M) of each kind, layer by
    layer, and the decoder's output, (B, T, D). ValueError if the maps of the longest sentence take
    more memory than is free.
    """
    require_memory_of_maps(model, ids)
    maps, stream = run_maps(model, ids.source, ids.target[:, :-1])
    return {kind: weights.flatten(1, 2) for kind, weights in maps.items()}, stream


def captured(
    model: Seq2SeqModel, ids: PaddedIds, points: Iterable[str]
) -> Mapping[str, list[Tensor]]:
    """Run a model on a batch, its targets forced, and return what is at some hook points."""
    with capture(model, points) as seen:
        forced_stream(model, ids.source, ids.target[:, :-1])
    return seen


@torch.inference_mode()
def target_scores(model: Seq2SeqModel, batch: Sequence[EncodedPair]) -> Tensor:
    """Compute log P of the targets of a batch, (B,), in nats."""
    ids = PaddedIds.of_pairs(batch, model)
    stream = forced_stream(model, ids.source, ids.target[:, :-1])
    return target_log_probabilities(model, stream, ids.target)


def require_memory_of_maps(model: Seq2SeqModel, ids: PaddedIds) -> None:
    """Refuse, by a ValueError, a batch whose longest maps take more memory than is free."""
    if model.device.type == "cpu":
        lengths = ids.source.shape[1], ids.target.shape[1] - 1
        require_memory(maps_bytes(model.description, *lengths))
