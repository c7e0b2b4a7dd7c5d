"""Figures of failed translations, by hand, on a tiny model and on the copy task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch

from headwise.model.checkpoint import load_weights, open_trained_run
from headwise.model.config import BOS, EOS
from headwise.model.decoding.translation import translate
from headwise.model.interface import Tokenizers
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.failures import worst_first
from headwise.viz_app.measuring.batches import EncodedPair, LeftOutCounts, encode
from headwise.viz_app.measuring.failures import (
    content_words,
    least_attended,
    least_losses,
    repetition,
    translate_batch,
)
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.attention import target_log_probability
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near

PAIRS = [
    Pair("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    Pair("Where is the old dog?", "¿Dónde está el perro?"),
    Pair("Some dogs sleep", "Unos perros duermen."),
    Pair("The cat.", "El gato."),
]


ONCE: dict[str, Any] = {"dtype": np.float32, "operations": 1}
"""What was computed in float64 and rounded to float32, as all that is recorded is."""


@pytest.fixture(scope="module")
def sentences(tokenizers: TokenizerPair) -> list[EncodedPair]:
    return encoded(tokenizers, PAIRS)


def encoded(tokenizers: Tokenizers, pairs: list[Pair]) -> list[EncodedPair]:
    return list(encode(pairs, tokenizers, max_length=31, left_out=LeftOutCounts()))


def total(log_probability: Floats) -> float:
    return float(log_probability.sum(dtype=np.float64))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("Don't worry, she sees him.", ["worry", "sees"]),
        ("The café is far.", ["café"]),
        ("12345 a1234b 5678", []),
        ("The cat.", []),
        ("彼は昨日来た。", ["彼は昨日来た"]),
        ("", []),
    ],
)
def test_content_words_have_four_letters(
    tokenizers: TokenizerPair, source: str, words: list[str]
) -> None:
    ids = tokenizers.encode_source(source)
    places = content_words(tokenizers, ids)
    found = [tokenizers.source.decode([ids[place] for place in word]) for word in places]
    assert found == words


def test_least_attended_word_by_hand() -> None:
    """Two heads, two steps. The first word has two tokens: at most .3 + .2. The second: .25."""
    cross = torch.tensor(
        [
            [[0.3, 0.2, 0.05, 0.45], [0.0, 0.1, 0.2, 0.7]],
            [[0.0, 0.3, 0.1, 0.6], [0.4, 0.05, 0.25, 0.3]],
        ]
    )
    assert least_attended(cross, [[0, 1], [2]]) == 0.25
    assert least_attended(cross, [[0, 1]]) == near(0.5, dtype=torch.float32)
    assert math.isnan(least_attended(cross, []))


def test_least_loss_is_that_of_the_word_that_matters_least(
    precise: Transformer, tokenizers: TokenizerPair, sentences: list[EncodedPair]
) -> None:
    """Each word left out alone; the sentences differ in length, the first has no content word."""
    sentences = sentences[::-1]  # their numbers are not their places in the batch
    words = [content_words(tokenizers, sentence.source) for sentence in sentences]
    whole = [total(target_log_probability(precise, s.source, s.target)) for s in sentences]
    found = least_losses(precise, sentences, words, whole)
    assert [len(of_sentence) for of_sentence in words] == [0, 3, 1, 2]
    assert math.isnan(found[0])
    for sentence, of_sentence, log_probability, loss in zip(
        sentences[1:], words[1:], whole[1:], found[1:], strict=True
    ):
        losses = []
        for word in of_sentence:
            shorter = [id for place, id in enumerate(sentence.source) if place not in word]
            without = target_log_probability(precise, shorter, sentence.target)
            losses.append(log_probability - total(without))
        size = abs(log_probability - loss)
        assert loss == near(min(losses), size=size, **ONCE)
        assert abs(loss) > 0.01


def test_the_only_word_can_be_left_out(precise: Transformer, tokenizers: TokenizerPair) -> None:
    (sentence,) = encoded(tokenizers, [Pair("Where", "Dónde")])
    words = content_words(tokenizers, sentence.source)
    without = target_log_probability(precise, [EOS], sentence.target)
    found = least_losses(precise, [sentence], [words], [0.0])
    assert found == near([-total(without)], **ONCE)


@pytest.mark.parametrize(
    ("translation", "source", "share"),
    [
        ("a b c d", "a b c d", 0),
        ("a b a b a", "a b c", 2 / 4),
        ("a a a a", "", 2 / 3),
        ("a b a b a", "v w v w v", 0),
        ("a b a b a", "w w w", 0),
        ("a a a a", "w w w", 2 / 3 - 1 / 2),
        ("a", "w w w", 0),
        ("a b b a", "v", 0),
    ],
)
def test_repetition_by_hand(translation: str, source: str, share: float) -> None:
    assert repetition(translation.split(), source.split()) == near(share)


def test_translations_and_figures_match_traces(
    precise: Transformer, tokenizers: TokenizerPair, sentences: list[EncodedPair]
) -> None:
    found = translate_batch(precise, tokenizers, sentences[::-1])
    texts = translate(precise, tokenizers, [pair.source for pair in PAIRS])
    assert [found[number].translation for number in range(4)] == texts
    for number, pair in enumerate(PAIRS):
        trace = run_trace(precise, tokenizers, pair.source)
        log_probability = trace.predictions.log_probability
        places = content_words(tokenizers, trace.source.ids)
        cross = torch.tensor(trace.attention["cross"]).flatten(0, 1)
        alone = EncodedPair(0, pair, [*trace.source.ids], [BOS, *trace.predicted.ids])
        expected = {
            "log_probability": total(log_probability) / len(log_probability),
            "least_attended": least_attended(cross, places),
            "left_out": least_losses(precise, [alone], [places], [total(log_probability)])[0],
            "repetition": repetition(
                *(
                    [w.text for w in t.words if w.text != "</s>"]
                    for t in (trace.predicted, trace.source)
                )
            ),
        }
        size = max(1, abs(total(log_probability)))
        assert found[number].figures == near(expected, size=size, **ONCE)
        chrf = sacrebleu.sentence_chrf(trace.target_text, [pair.target]).score
        assert found[number].chrf == near(chrf)


def test_perfect_copies_with_repeated_pairs_are_not_listed() -> None:
    run = open_trained_run("copy")
    sources = ["a b a b a b", "c c c c c", "d e f d e f"]
    sentences = encoded(run.tokenizers, [Pair(source, source) for source in sources])
    model = load_weights(run, run.steps()[-1]).model
    found = translate_batch(model, run.tokenizers, sentences)
    assert [found[number].translation for number in range(3)] == sources
    assert [found[number].chrf for number in range(3)] == [100] * 3
    figures = [found[number].figures for number in range(3)]
    assert worst_first("repetition", [of_one["repetition"] for of_one in figures]) == []
    assert all(math.isnan(of_one["left_out"]) for of_one in figures)
