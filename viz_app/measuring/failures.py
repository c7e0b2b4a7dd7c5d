"""Figures of how a checkpoint's translations of the example sentences may have failed.

``B`` batch, ``L`` layers, ``H`` heads, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.interface import Seq2SeqModel, Tokenizers, Vocabulary
from headwise.model.masks import embeddable
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    PaddedIds,
    attention_maps,
    batches_by_length,
)
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.detached import (
    Doubles,
    SentenceMass,
    UsualMass,
    mean_over_heads,
    source_mass,
    unaligned,
)
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers
from headwise.viz_app.records.measures import FAILURES, has_enough_letters

_SHORTENED = 256
"""Most shortened sources in a batch."""


def words_of_letters(tokenizers: Tokenizers, source: Sequence[int]) -> list[list[int]]:
    """List the words of at least four letters of an encoded source, as the places of tokens."""
    words = _words(source_word_numbers(tokenizers, source))
    texts = _texts(tokenizers.source, source, words)
    return [word for word, text in zip(words, texts, strict=True) if has_enough_letters(text)]


def _words(numbers: Sequence[int]) -> list[list[int]]:
    """List the places of each word's tokens by the word number of each place; −1 is no word."""
    words: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for place, number in enumerate(numbers):
        if number >= 0:
            words[number].append(place)
    return words


def _texts(vocabulary: Vocabulary, ids: Sequence[int], words: Sequence[Sequence[int]]) -> list[str]:
    return [vocabulary.decode([ids[place] for place in word]).strip() for word in words]


def looked_at(cross: Tensor, words: Sequence[list[int]]) -> list[float]:
    """Return how much each word is looked at, in ``cross`` (L H, T, S).

    It is the largest weight that any head at any position puts on the tokens of the word together,
    which are given by their places in the source.
    """
    return [float(cross[..., word].sum(-1).max()) for word in words]


def least_attended(cross: Tensor, words: Sequence[list[int]]) -> float:
    """Return how much the word is ``looked_at`` that is looked at least; NaN without words."""
    return min(looked_at(cross, words), default=math.nan)


@torch.inference_mode()
def least_losses(
    model: Seq2SeqModel,
    sentences: Sequence[EncodedPair],
    words: Sequence[Sequence[list[int]]],
    whole: Sequence[float],
) -> list[float]:
    """Find for each sentence the least that its target loses when a word of the source is left out.

    The words, given by the places of their tokens, are left out one at a time. ``whole`` has the
    log-probability of each target with its whole source, in nats.

    Returns:
        For each sentence the smallest loss of log-probability, in nats; NaN without words.
    """
    shortened = [
        replace(
            sentence,
            number=row,
            source=[id for place, id in enumerate(sentence.source) if place not in word],
        )
        for row, sentence in enumerate(sentences)
        for word in words[row]
    ]
    losses: list[list[float]] = [[] for _ in sentences]
    for batch in batches_by_length(shortened, _SHORTENED):
        ids = PaddedIds.of_pairs(batch, model)
        scores = _scores(model, forced_stream(model, ids.source, ids.target[:, :-1]), ids)
        for sentence, score in zip(batch, scores, strict=True):
            total = float(score[: len(sentence.target) - 1].sum())
            losses[sentence.number].append(whole[sentence.number] - total)
    return [min(found, default=math.nan) for found in losses]


def _scores(model: Seq2SeqModel, stream: Tensor, ids: PaddedIds) -> Tensor:
    """Compute the log-probability of each predicted token: the decoder's output (B, T, D) → (B, T).

    What is at padding means nothing.
    """
    predicted = embeddable(ids.predicted)
    return log_probabilities(model, stream.flatten(0, 1), predicted.flatten()).view_as(predicted)


def repetition(translation: Sequence[str], source: Sequence[str]) -> float:
    """Return by how much the share of repeated pairs of words exceeds that in the source, or 0.

    A pair of neighbouring words is repeated if it occurred before in the same sentence. A
    repetition that is translated does not count.
    """
    return max(_repeated(translation) - _repeated(source), 0.0)


def _repeated(words: Sequence[str]) -> float:
    pairs = list(pairwise(words))
    return 1 - len(set(pairs)) / len(pairs) if pairs else 0.0


@dataclass(frozen=True)
class RawFigures:
    """The figures of one target: those of ``FAILURES`` that need no choice, and some by layer."""

    figures: Mapping[str, float]
    by_layer: Mapping[str, Doubles]
    """For each name in ``BY_LAYER``, (L,)."""


@torch.inference_mode()
def forced_figures(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    sentences: Sequence[EncodedPair],
    usual: UsualMass,
    wanted: Collection[str] = FAILURES,
) -> dict[int, RawFigures]:
    """Compute what says of each target of a batch, which is forced, how it may have failed.

    ``log_probability`` is the mean over tokens in nats, ``</s>`` included, ``source_contribution``
    the mean over tokens of the source's share by ALTI+; the other figures are those of
    ``least_attended``, ``least_losses``, ``repetition``, ``UsualMass.distances`` and ``unaligned``.
    Those that take a pass of their own are NaN if they are not ``wanted``.

    Returns:
        The figures of each sentence number.
    """
    ids = PaddedIds.of_pairs(sentences, model)
    maps, stream = attention_maps(model, ids)
    layers = mean_over_heads(model, maps["cross"])
    steps = [len(sentence.target) - 1 for sentence in sentences]
    whole = [float(s[:n].sum()) for s, n in zip(_scores(model, stream, ids), steps, strict=True)]
    shares = torch.full((len(sentences),), math.nan)
    if "source_contribution" in wanted:
        shares = contributions(model, ids).source_contribution.sum(dim=-1)  # 0 at padding
    words = [words_of_letters(tokenizers, sentence.source) for sentence in sentences]
    left_out = [math.nan] * len(sentences)
    if "left_out" in wanted:
        left_out = least_losses(model, sentences, words, whole)
    found = {}
    for row, sentence in enumerate(sentences):
        source, target, n = sentence.source, sentence.target, steps[row]
        in_source = _words(source_word_numbers(tokenizers, source))
        in_target = _words(word_numbers(tokenizers.target, target))
        figures = {
            "log_probability": whole[row] / n,
            "least_attended": least_attended(maps["cross"][row, :, :n], words[row]),
            "left_out": left_out[row],
            "repetition": repetition(
                _texts(tokenizers.target, target, in_target),
                _texts(tokenizers.source, source, in_source),
            ),
            "source_contribution": float(shares[row]) / n,
        }
        own = layers[row, :, :n, : len(source)]
        mass = SentenceMass(sentence.pair.source, n, source_mass(own))
        by_layer = usual.distances(mass) | {"unaligned": unaligned(tokenizers, sentence, own)}
        found[sentence.number] = RawFigures(figures, by_layer)
    return found


@dataclass(frozen=True)
class Translated:
    """A checkpoint's own translation of an example sentence."""

    sentence: EncodedPair
    """Its target is the translation."""
    text: str
    raw: RawFigures
    chrf: float


def translate_batch(
    model: Seq2SeqModel,
    tokenizers: Tokenizers,
    sentences: Sequence[EncodedPair],
    usual: UsualMass,
) -> dict[int, Translated]:
    """Translate a batch greedily, with the figures of ``forced_figures`` and chrF.

    Returns:
        The translation of each sentence number.
    """
    from sacrebleu import CHRF  # imported late: a page that looks for a word needs none of it

    targets = greedy(model, [sentence.source for sentence in sentences], tokenizers.prefix)
    forced = [replace(s, target=target) for s, target in zip(sentences, targets, strict=True)]
    raw = forced_figures(model, tokenizers, forced, usual)
    found = {}
    for sentence in forced:
        text = tokenizers.target.decode(sentence.target)
        chrf = CHRF().sentence_score(text, [sentence.pair.target]).score
        found[sentence.number] = Translated(sentence, text, raw[sentence.number], chrf)
    return found
