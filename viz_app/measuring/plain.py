"""Some measures of a checkpoint's heads over pairs, without files, examples and stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headwise.model.interface import Seq2SeqModel, Tokenizers
from headwise.model.run_info import Counts
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    batches_by_length,
    encode,
)
from headwise.viz_app.measuring.heads import RowMeasure
from headwise.viz_app.measuring.sums import Measurer, MeasureSums
from headwise.viz_app.measuring.words import LinksLookup


def encode_all(
    pairs: Sequence[Pair], tokenizers: Tokenizers, *, max_length: int
) -> tuple[EncodedPair, ...]:
    """Encode pairs that a model can take, each source once.

    Raises:
        DataError: if none is left.
    """
    left_out = LeftOutCounts()
    found = tuple(encode(pairs, tokenizers, max_length=max_length, left_out=left_out))
    if not found:
        raise DataError(f"expected pairs that the model can take, got none but {left_out}")
    return found


def measure_pairs(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    pairs: Sequence[EncodedPair],
    *,
    names: Collection[str],
    own: Mapping[str, RowMeasure],
    counts: Counts | None = None,
    others: Mapping[str, Seq2SeqModel] | None = None,
    links_of: LinksLookup | None = None,
    advance: Callable[[int], object] = lambda sentences: None,
) -> MeasureSums:
    """Measure the heads of a model: those of ``MEASURES`` that are named, and a person's own.

    ``counts``, ``others`` and ``links_of`` are what ``Measurer`` needs for some of ours;
    ``advance`` is told how many sentences were done.
    """
    measurer = Measurer(tokenizers, counts, model.device, own, links_of=links_of, wanted=names)
    sums = MeasureSums(model.description, model.device, own)
    for batch in batches_by_length(pairs):
        measurer.add(sums, model, others or {}, batch)
        advance(len(batch))
    return sums
