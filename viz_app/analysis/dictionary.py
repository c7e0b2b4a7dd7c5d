"""What heads write, in words: entries of dictionaries, precision by a lexicon, and copying."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, Tokenizers
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.analysis.pairs import accuracy
from headwise.viz_app.records.dictionary import HeadDictionary, WritingScores
from headwise.viz_app.records.trace import Floats

COPIES, SUPPRESSES = 0.75, 0.25
"""Copying scores from which on a head is said to copy, and below which to suppress, where they are
two standard errors from chance."""

HELD_NOTE = (
    "A head that looks at a token adds α v W_O to the stream. v W_O is taken through the norms "
    "after it and through the output matrix; the norms' divisors are held, and like α they only "
    "scale all logits of a token, so that they are given in standard deviations over the "
    "vocabulary. It is what the head writes where it looks, directly: whether it looks there, and "
    "what later layers make of it, this does not say."
)


def token_names(tokenizers: Tokenizers, kind: Kind | None, ids: Sequence[int]) -> tuple[str, ...]:
    """Name tokens that a kind of attention reads, or, for None, tokens of the target."""
    vocabulary = tokenizers.source if kind == "cross" else tokenizers.target
    return vocabulary_labels(vocabulary.tokens(ids), spaced=vocabulary.kind == "bpe")


def dictionary_arrays(
    found: HeadDictionary, tokenizers: Tokenizers, kind: Kind
) -> dict[str, NDArray[np.generic]]:
    """Return the dictionary of a head under the names that files have.

    ``token`` and ``places``, over how many its value is the mean, are (n,); ``raises`` and
    ``lowers`` have the tokens, most first, with ``raised_by`` and ``lowered_by``, (n, k) each.
    """

    def names(ids: NDArray[np.int64]) -> NDArray[np.str_]:
        named = token_names(tokenizers, None, ids.ravel().tolist())
        return np.array(named, np.str_).reshape(ids.shape)

    return {
        "token": np.array(token_names(tokenizers, kind, found.ids.tolist()), np.str_),
        "places": found.counts,
        "raises": names(found.raised),
        "raised_by": found.raised_by,
        "lowers": names(found.lowered),
        "lowered_by": found.lowered_by,
    }


def entry_text(names: Sequence[str], values: Floats) -> str:
    """Write named tokens with their logits, the first one first."""
    return "  ".join(
        f"{name} {value:+.1f}" for name, value in zip(names, values.tolist(), strict=True)
    )


def best_other(scores: WritingScores, head: Head) -> Head | None:
    """Return the other head with the largest score; None if there is no other one."""
    values = scores.values.copy()
    values[head.layer, head.head] = -np.inf
    if not np.isfinite(values).any():
        return None
    place = first_largest(np.nan_to_num(values, nan=-np.inf).ravel())
    layer, number = divmod(int(place), values.shape[1])
    return Head(head.kind, layer, number)


def precision_sentence(scores: WritingScores, head: Head) -> str:
    """Say how often what a head raises most is the translation, and what that is by chance."""
    value, chance = (float(of[head.layer, head.head]) for of in (scores.values, scores.chance))
    right = round(value * scores.tokens)
    interval = accuracy(np.repeat([1, 0], [right, scores.tokens - right]).astype(np.float32))
    return (
        f"the token that it raises most is the lexicon's for {right:,} of {scores.tokens:,} source "
        f"tokens, {value:.2f} (95% interval {interval.low:.2f} to {interval.high:.2f}); with the "
        f"translations of the other entries in place of one's own it would be {chance:.2f}."
    )


def copying_sentence(scores: WritingScores, head: Head) -> str:
    """Say whether a head copies what it reads, or suppresses it, beside chance."""
    value, chance, error = (
        float(of[head.layer, head.head]) for of in (scores.values, scores.chance, scores.errors)
    )
    apart = abs(value - chance) >= 2 * error
    what = "neither copies nor suppresses what it reads"
    if apart and value >= COPIES and value > chance:
        what = "copies what it reads"
    elif apart and value <= SUPPRESSES and value < chance:
        what = "suppresses what it reads"
    return (
        f"it {what}: of the vocabulary, {value:.2f} is raised less than the very token that it "
        f"reads, on average over {scores.tokens:,} target tokens; less than the same token where "
        f"it reads another one, {chance:.2f} (the difference is {value - chance:+.2f} ± "
        f"{error:.2f})."
    )
