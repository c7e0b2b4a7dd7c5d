"""Some measures of a checkpoint's heads over pairs, without files, examples and stages."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.model.interface import Tokenizers
from headwise.model.training.data import DataError, Pair
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    encode,
)


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
