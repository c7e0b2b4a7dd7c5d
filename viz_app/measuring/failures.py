"""Figures of how a checkpoint's translations of the example sentences may have failed.

``B`` batch, ``L`` layers, ``H`` heads, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.interface import Seq2SeqModel, Tokenizers, Vocabulary
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    PaddedIds,
    attention_maps,
    batches_by_length,
)
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers
from headwise.viz_app.records.measures import TranslatedSentence, has_enough_letters

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
    scores = log_probabilities(model, stream.flatten(0, 1), ids.predicted.flatten())
    return scores.view_as(ids.predicted)


def repetition(translation: Sequence[str], source: Sequence[str]) -> float:
    """Return by how much the share of repeated pairs of words exceeds that in the source, or 0.

    A pair of neighbouring words is repeated if it occurred before in the same sentence. A
    repetition that is translated does not count.
    """
    return max(_repeated(translation) - _repeated(source), 0.0)


def _repeated(words: Sequence[str]) -> float:
    pairs = list(pairwise(words))
    return 1 - len(set(pairs)) / len(pairs) if pairs else 0.0


@torch.inference_mode()
def translate_batch(
    model: Seq2SeqModel, tokenizers: Tokenizers, sentences: Sequence[EncodedPair]
) -> dict[int, TranslatedSentence]:
    """Translate a batch greedily and compute figures of how the translations may have failed.

    ``log_probability`` is the mean over tokens in nats, ``</s>`` included; the other figures are
    those of ``least_attended``, ``least_losses`` and ``repetition``.

    Returns:
        The translation of each sentence number.
    """
    from sacrebleu import CHRF  # imported late: a page that looks for a word needs none of it

    sources = [sentence.source for sentence in sentences]
    targets = greedy(model, sources, tokenizers.prefix)
    ids = PaddedIds.of(sources, targets, model)
    maps, stream = attention_maps(model, ids)
    steps = [len(target) - 1 for target in targets]
    scores = _scores(model, stream, ids)
    whole = [float(score[:n].sum()) for score, n in zip(scores, steps, strict=True)]
    words = [words_of_letters(tokenizers, source) for source in sources]
    forced = [replace(s, target=target) for s, target in zip(sentences, targets, strict=True)]
    left_out = least_losses(model, forced, words, whole)
    found = {}
    for row, sentence in enumerate(forced):
        source, target = sentence.source, sentence.target
        in_source = _words(source_word_numbers(tokenizers, source))
        in_target = _words(word_numbers(tokenizers.target, target))
        translation = tokenizers.target.decode(target)
        figures = {
            "log_probability": whole[row] / steps[row],
            "least_attended": least_attended(maps["cross"][row, :, : steps[row]], words[row]),
            "left_out": left_out[row],
            "repetition": repetition(
                _texts(tokenizers.target, target, in_target),
                _texts(tokenizers.source, source, in_source),
            ),
        }
        chrf = CHRF().sentence_score(translation, [sentence.pair.target]).score
        found[sentence.number] = TranslatedSentence(translation, figures, chrf)
    return found
