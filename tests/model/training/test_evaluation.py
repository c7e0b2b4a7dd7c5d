from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import sacrebleu
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.translation import Decoding
from headwise.model.training.data import DataError, Pair
from headwise.model.training.evaluation import bleu_note, evaluate, mean_loss
from headwise.model.transformer import Transformer
from tests.floats import near

PAIRS = [
    Pair("The cat eats fish.", "El gato come pescado."),
    Pair("I want bread.", "Quiero pan."),
    Pair("", "Nada."),
    Pair("I want bread.", "Yo quiero pan, por favor."),
    Pair("I want bread.", "Quiero pan."),
    Pair("The dog runs to the big white house.", "El perro corre a la gran casa blanca."),
]
TRANSLATIONS = {
    "The cat eats fish.": "El gato come pescado fresco.",
    "I want bread.": "Yo quiero pan, por favor.",
    "The dog runs to the big white house.": "El perro corre a la casa blanca.",
}


@pytest.fixture(scope="module")
def model(trained_run: TrainedRun) -> Transformer:
    return load_weights(trained_run, 3, torch.float64).model


def test_loss_is_the_mean_over_all_target_tokens(
    trained_run: TrainedRun, model: Transformer
) -> None:
    tokenizers, total, tokens = trained_run.tokenizers, 0.0, 0
    kept = [PAIRS[0], PAIRS[1], PAIRS[3], PAIRS[5]]  # neither empty nor repeated
    sources = [tokenizers.encode_source(pair.source) for pair in kept]
    targets = [tokenizers.encode_target(pair.target) for pair in kept]
    for source, target in zip(sources, targets, strict=True):
        log_p = model(torch.tensor([source]), torch.tensor([target[:-1]])).log_softmax(-1)[0]
        for step, id in enumerate(target[1:]):
            total -= log_p[step, id].item()
            tokens += 1

    figures = evaluate(model, tokenizers, PAIRS)

    assert figures.tokens == tokens
    loss = total / tokens
    assert figures.loss == near(loss, dtype=torch.float32)  # as the cross-entropy is
    perplexity = math.exp(loss)  # its derivative is the perplexity
    assert figures.perplexity == near(perplexity, dtype=torch.float32, size=perplexity * loss)
    for size in (1, 3):
        mean, count = mean_loss(model, sources, targets, batch_size=size)
        assert mean == near(loss, dtype=torch.float32)
        assert count == tokens


def test_bleu_and_chrf_are_those_of_sacrebleu(
    trained_run: TrainedRun, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated source is translated once; all its translations are references."""
    asked: list[str] = []

    def translate(_: Any, __: Any, texts: Sequence[str], *, decoding: Decoding) -> list[str]:
        asked.extend(texts)
        assert decoding == Decoding(beam=3)
        return [TRANSLATIONS[text] for text in texts]

    monkeypatch.setattr("headwise.model.training.evaluation.translate", translate)
    figures = evaluate(model, trained_run.tokenizers, PAIRS, Decoding(beam=3))

    assert asked == list(TRANSLATIONS)
    assert figures.sources == 3
    hypotheses = list(TRANSLATIONS.values())
    references = [
        ["El gato come pescado.", "Quiero pan.", "El perro corre a la gran casa blanca."],
        [None, "Yo quiero pan, por favor.", None],
        [None, "Quiero pan.", None],
    ]
    bleu = sacrebleu.BLEU().corpus_score(hypotheses, references).score
    assert figures.bleu == near(bleu)
    assert figures.chrf == near(sacrebleu.CHRF().corpus_score(hypotheses, references).score)
    assert 50 < bleu < 95
    assert bleu > sacrebleu.BLEU().corpus_score(hypotheses, references[:1]).score
    assert "nrefs:var|case:mixed" in figures.bleu_signature
    assert "nrefs:var|case:mixed" in figures.chrf_signature


@pytest.mark.parametrize(
    ("cat", "bread", "expected"),
    [
        ("El gato come pescado.", "Quiero pan.", 2 / 3),
        ("El gato come pescado.", "Yo quiero pan, por favor.", 2 / 3),
        ("El gato come pescado", "Quiero pan.", 1 / 3),
        ("El gato come pescado", "quiero pan.", 0),
        ("Quiero pan.", "El gato come pescado.", 0),
    ],
)
def test_a_translation_is_exact_if_it_equals_a_reference(
    trained_run: TrainedRun,
    model: Transformer,
    monkeypatch: pytest.MonkeyPatch,
    cat: str,
    bread: str,
    expected: float,
) -> None:
    """Of three sources, the one with the dog never has an exact translation."""
    monkeypatch.setattr(
        "headwise.model.training.evaluation.translate", lambda *_, **__: [cat, bread, "El perro."]
    )
    figures = evaluate(model, trained_run.tokenizers, PAIRS)
    assert figures.exact == near(expected)


def test_a_huge_perplexity_is_finite(
    trained_run: TrainedRun, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.model.training.evaluation.mean_loss", lambda *_: (1e6, 7))
    assert math.isfinite(evaluate(model, trained_run.tokenizers, PAIRS).perplexity)


@pytest.mark.parametrize("pairs", [[], [Pair("", "Nada."), Pair("Nothing.", "")]])
def test_pairs_without_two_sides_are_refused(
    trained_run: TrainedRun, model: Transformer, pairs: list[Pair]
) -> None:
    with pytest.raises(DataError, match="no pair is left"):
        evaluate(model, trained_run.tokenizers, pairs)


def test_a_source_too_long_for_the_model_is_left_out(
    trained_run: TrainedRun, model: Transformer
) -> None:
    figures = evaluate(model, trained_run.tokenizers, [PAIRS[0], Pair("a " * 100, "b")])
    assert figures.dropped == 1
    alone = evaluate(model, trained_run.tokenizers, PAIRS[:1])
    assert replace(figures, dropped=0) == alone


def test_bleu_of_short_targets_is_said_to_mean_nothing() -> None:
    """A perfect model has a BLEU of 0 then; four words in one target are enough."""
    short = [Pair("12", "twelve"), Pair("22", "twenty two."), Pair("1001", "one thousand one")]
    texts = [pair.target for pair in short]
    assert sacrebleu.BLEU().corpus_score(texts, [texts]).score == 0
    note = bleu_note(short)
    assert note is not None
    assert note.startswith("BLEU says nothing here and will be 0: no target has 4 words")
    long = [*short, Pair("1011", "one thousand eleven.")]
    texts = [pair.target for pair in long]
    assert sacrebleu.BLEU().corpus_score(texts, [texts]).score == near(100)
    assert bleu_note(long) is None
