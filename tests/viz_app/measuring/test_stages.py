"""Stages of a training from translations, texts and alignments made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from headwise.model.transformer import Transformer
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.measuring import stages
from headwise.viz_app.measuring.alignments import Links
from headwise.viz_app.measuring.stages import (
    LanguageModel,
    StageMeasurer,
    find_aligning_head,
    reordering_score,
)
from headwise.viz_app.measuring.sums import draws
from headwise.viz_app.measuring.words import LinksLookup
from tests.floats import near
from tests.viz_app.measuring.conftest import PAIR, WORDS, MakeAligner

ALL_ON_ONE = [[0.1, 0.8, 0.1, 0.0]] * 4
STRAIGHT = [[0.8, 0.1, 0.1, 0.0], [0.1, 0.8, 0.1, 0.0], [0.1, 0.1, 0.8, 0.0], [0.0, 0.0, 0.1, 0.9]]
CROSSED = [[0.8, 0.1, 0.1, 0.0], [0.1, 0.1, 0.8, 0.0], [0.1, 0.8, 0.1, 0.0], [0.0, 0.0, 0.1, 0.9]]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([0, 1, 2, 3, 4, 5], 1),
        ([5, 4, 3, 2, 1, 0], 0),
        ([0, 1, 3, 2, 4, 5], 1 - 3 / 5),  # 0 1 | 2 | 3 | 4 5
        ([3, 4, 5, 0, 1, 2], 1 - 1 / 5),  # two chunks have changed places
        ([0, 0, 2, 2, 4, 9], 1),  # in order, though not one by one
        ([0, 1, 0, 2], 1 - 3 / 3),  # a word stands between two that belong together
        ([1, 0], 0),
        ([0], math.nan),  # a single word has no order
        ([], math.nan),
    ],
)
def test_reordering_counts_chunks(sources: list[int], expected: float) -> None:
    assert reordering_score(sources) == near(expected)


# With maps made by hand


@pytest.fixture
def model(make_aligner: MakeAligner) -> Transformer:
    return make_aligner(ALL_ON_ONE, STRAIGHT, CROSSED)


def linked(*links: tuple[int, int]) -> LinksLookup:
    return lambda _: Links(3, 3, frozenset(links))


@pytest.mark.parametrize(
    ("links_of", "expected"),
    [
        (linked((0, 0), (2, 1), (1, 2)), 2),
        (linked((1, 0), (1, 1), (1, 2)), 0),
        (None, 1),  # it reaches three source words, as the next one does
        (lambda _: None, 1),
    ],
)
def test_the_head_with_the_best_links_is_found(
    model: Transformer, links_of: LinksLookup | None, expected: int
) -> None:
    ids = WORDS.encode_source(PAIR.source), WORDS.encode_target(PAIR.target)
    sentences = [EncodedPair(7, PAIR, *ids)]
    assert find_aligning_head(model, WORDS, sentences, links_of) == expected


def stages_of(
    model: Transformer, translations: Sequence[str], *, head: int = 2, text: Sequence[str] = ()
) -> dict[str, float]:
    measurer = StageMeasurer(WORDS, model, head, [PAIR] * len(translations), text)
    return {name: value for name, (value, _) in measurer.measure(translations).items()}


@pytest.mark.parametrize(("head", "expected"), [(0, 1), (1, 1), (2, 0)])
def test_order_is_that_of_the_chosen_head(model: Transformer, head: int, expected: float) -> None:
    found = stages_of(model, ["rojo rojo perro"], head=head)
    assert found["reordering"] == found["reordering_reference"] == expected


def test_order_is_the_mean_over_translations_of_two_words_or_more(model: Transformer) -> None:
    """The first two words stand in order."""
    found = stages_of(model, ["el perro", "", "el", "el perro rojo"])
    assert found["reordering"] == near((1 + 0) / 2)
    assert math.isnan(stages_of(model, ["", "el"])["reordering"])


def test_likelihood_is_the_mean_over_all_tokens(model: Transformer) -> None:
    text = ["el perro", "el perro dónde", ""]
    expected = LanguageModel(WORDS.target.vocab_size, prefix=1)
    for sentence in text[:2]:
        expected.learn(WORDS.encode_target(sentence))
    found = stages_of(model, ["el perro", "dónde"], text=text)
    logs = [expected.log_probabilities(WORDS.encode_target(t)) for t in ("el perro", "dónde")]
    assert [len(each) for each in logs] == [3, 2]  # </s> included
    assert found["language_model"] == near(sum(map(sum, logs)) / 5)
    reference = expected.log_probabilities(WORDS.encode_target(PAIR.target))
    assert found["language_model_reference"] == near(sum(reference) / 4)
    turned = stages_of(model, ["perro el", "dónde"], text=text)
    assert found["language_model"] > turned["language_model"]


def test_references_are_not_learnt(model: Transformer) -> None:
    assert math.isnan(stages_of(model, ["el perro"], text=[PAIR.target])["language_model"])
    alone = stages_of(model, ["el perro"], text=["dónde"])
    assert stages_of(model, ["el perro"], text=[PAIR.target, "dónde"]) == alone


def test_so_many_tokens_are_learnt(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_MOST_TOKENS", 6)
    read = []

    def text() -> Iterator[str]:
        while True:
            read.append(1)
            yield "el perro"

    StageMeasurer(WORDS, model, 0, [PAIR], text())
    assert len(read) == 2


def test_quality_is_that_of_all_translations_together(model: Transformer) -> None:
    assert stages_of(model, [PAIR.target] * 2)["chrf"] == near(100)
    half, none = (stages_of(model, [PAIR.target, other])["chrf"] for other in ("el", ""))
    assert 100 > half > none > 0


def test_errors_are_over_sentences(model: Transformer) -> None:
    """Orders of 1 and 0 in turn have the error of their resampled means, alike ones none."""
    texts = ["el perro", "el perro rojo"] * 15
    found = StageMeasurer(WORDS, model, 2, [PAIR] * len(texts), []).measure(texts)
    times = draws(range(len(texts))).T
    scores = (times @ ([1, 0] * 15)) / times.sum(axis=1)
    assert found["reordering"][1] == near(np.std(scores, ddof=1))
    assert found["reordering_reference"][1] == near(0)
    assert 0 < found["chrf"][1] < 20
    alike = StageMeasurer(WORDS, model, 2, [PAIR] * 30, []).measure(["el perro"] * 30)
    assert alike["chrf"][1] == near(0, size=100)


def test_no_sentences_have_no_values(model: Transformer) -> None:
    assert all(map(math.isnan, stages_of(model, [], text=["el"]).values()))


# The language model, worked out by hand over a vocabulary of four tokens

V = 4


@pytest.fixture
def known() -> LanguageModel:
    """Knows <s> 1 2 and <s> 1 3, where 0 is <s>."""
    made = LanguageModel(V, prefix=1)
    made.learn([0, 1, 2])
    made.learn([0, 1, 3])
    return made


# Three different tokens stand in four places: c() = 4, N() = 3.
ONE, TWO, NEVER = (2 + 3 / 4) / 7, (1 + 3 / 4) / 7, (3 / 4) / 7


@pytest.mark.parametrize(
    ("token", "history", "expected"),
    [
        (1, (), ONE),
        (2, (), TWO),
        (0, (), NEVER),  # <s> is history only
        (1, (0,), (2 + 1 * ONE) / 3),  # two times the same token
        (2, (1,), (1 + 2 * TWO) / 4),  # two different tokens, each once
        (1, (1,), (0 + 2 * ONE) / 4),
        (2, (0, 1), (1 + 2 * (1 + 2 * TWO) / 4) / 4),
        (2, (2, 1), (1 + 2 * TWO) / 4),  # a history that was never seen
        (2, (3, 3), TWO),
    ],
)
def test_longer_histories_are_mixed_with_shorter_ones(
    known: LanguageModel, token: int, history: tuple[int, ...], expected: float
) -> None:
    assert known.probability(token, history) == near(expected)


def test_probabilities_of_all_tokens_sum_to_one(known: LanguageModel) -> None:
    known.learn([0, 2, 2, 1, 3, 3, 2, 1, 2])
    for length in range(3):
        for history in product(range(V), repeat=length):
            assert sum(known.probability(token, history) for token in range(V)) == near(1)


def test_a_longer_prefix_is_history_only() -> None:
    model = LanguageModel(V, prefix=2)
    model.learn([3, 0, 1])
    assert model.tokens == 1
    assert model.probability(1, (3, 0)) > model.probability(1, (0,)) > model.probability(1, ())
    assert model.log_probabilities([3, 0, 1]) == [math.log(model.probability(1, (3, 0)))]
