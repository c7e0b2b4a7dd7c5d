from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.translation import Decoding
from headwise.model.training import evaluation
from headwise.model.training.data import DataError, Pair
from headwise.model.transformer import Transformer
from tests.floats import near

TRANSLATE = "headwise.model.training.evaluation.translate"
PAIRS = [
    Pair("The cat eats fish.", "El gato come pescado."),
    Pair("I want bread.", "Quiero pan."),
    Pair("", "Nada."),
    Pair("I want bread.", "Yo quiero pan, por favor."),
    Pair("I want bread.", "Quiero pan."),
    Pair("The dog runs to the big white house.", "El perro corre a la gran casa blanca."),
]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_formula_of_label_smoothing(smoothing: float) -> None:
    """The true token has 1 - ε + ε/V, any other ε/V."""
    torch.manual_seed(3)
    logits, targets = 3 * torch.randn(7, 11), torch.randint(11, (7,))
    log_p = logits.double() - logits.double().exp().sum(1, keepdim=True).log()  # (n, V)
    wanted = torch.full((7, 11), smoothing / 11, dtype=torch.float64)
    wanted[range(7), targets] += 1 - smoothing
    loss = evaluation.cross_entropy(logits, targets, smoothing=smoothing)
    assert loss.item() == near(-(wanted * log_p).sum().item(), dtype=torch.float32)


def test_half_precision_logits_are_summed_in_float32() -> None:
    """In bfloat16 a sum of 1,000 such losses would be off by whole nats."""
    logits = torch.zeros(1000, 11, dtype=torch.bfloat16)
    loss = evaluation.cross_entropy(logits, torch.zeros(1000, dtype=torch.long))
    assert loss.dtype == torch.float32
    assert loss.item() == near(1000 * math.log(11), dtype=torch.float32)


@pytest.fixture(scope="module")
def model(trained_run: TrainedRun) -> Transformer:
    return load_weights(trained_run, 3, torch.float64).model


def test_loss_is_the_mean_over_target_tokens(trained_run: TrainedRun, model: Transformer) -> None:
    tokenizers, total, tokens = trained_run.tokenizers, 0.0, 0
    kept = [PAIRS[0], PAIRS[1], PAIRS[3], PAIRS[5]]  # neither empty nor repeated
    sources = [tokenizers.encode_source(pair.source) for pair in kept]
    targets = [tokenizers.encode_target(pair.target) for pair in kept]
    for source, target in zip(sources, targets, strict=True):
        log_p = model(torch.tensor([source]), torch.tensor([target[:-1]])).log_softmax(-1)[0]
        for step, id in enumerate(target[1:]):
            total -= log_p[step, id].item()
            tokens += 1

    figures = evaluation.evaluate(model, tokenizers, PAIRS)

    assert figures.tokens == tokens
    loss = total / tokens
    assert figures.loss == near(loss, dtype=torch.float32)  # as the cross-entropy is
    perplexity = math.exp(loss)  # its derivative is the perplexity
    assert figures.perplexity == near(perplexity, dtype=torch.float32, size=perplexity * loss)
    for size in (1, 3):
        mean, count = evaluation.mean_loss(model, sources, targets, batch_size=size)
        assert mean == near(loss, dtype=torch.float32)
        assert count == tokens


def test_bleu_and_chrf_are_those_of_sacrebleu(
    trained_run: TrainedRun, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated source is translated once; all its translations are references."""
    translations = {
        "The cat eats fish.": "El gato come pescado fresco.",
        "I want bread.": "Yo quiero pan, por favor.",
        "The dog runs to the big white house.": "El perro corre a la casa blanca.",
    }
    asked: list[str] = []

    def translate(_: Any, __: Any, texts: Sequence[str], *, decoding: Decoding) -> list[str]:
        asked.extend(texts)
        assert decoding == Decoding(beam=3)
        return [translations[text] for text in texts]

    monkeypatch.setattr(TRANSLATE, translate)
    figures = evaluation.evaluate(model, trained_run.tokenizers, PAIRS, Decoding(beam=3))

    assert asked == list(translations)
    assert figures.sources == 3
    hypotheses = list(translations.values())
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


def test_intervals_are_percentiles_of_the_scores_of_resampled_sentences() -> None:
    """Each resample is scored as a text of its own, and a corpus of one sentence has no width."""
    texts = ["El gato come pescado fresco.", "Quiero un pan.", "El perro corre a la casa blanca."]
    given = [["El gato come pescado."], ["Quiero pan.", "Yo quiero un pan."], [texts[2]]]
    found = evaluation.score_translations(texts, given)
    columns = [[lines[n] if n < len(lines) else None for lines in given] for n in range(2)]
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        random, scores = np.random.default_rng(0), []
        for _ in range(1_000):
            rows = random.integers(3, size=3).tolist()
            drawn = [[column[row] for row in rows] for column in columns]
            scores.append(metric.corpus_score([texts[row] for row in rows], drawn).score)
        low, high = np.percentile(scores, [2.5, 97.5])
        assert found[f"{name}_low"] == near(low)
        assert found[f"{name}_high"] == near(high)
        assert low < found[name] < high
    alone = evaluation.score_translations(texts[:1], given[:1])
    assert 0 < alone["bleu"] < 100
    assert np.isnan(
        [alone[f"{of}_{end}"] for of in ("bleu", "chrf") for end in ("low", "high")]
    ).all()


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
    cat: str, bread: str, expected: float
) -> None:
    """Of three sources, the one with the dog never has an exact translation."""
    references = [["El gato come pescado."], ["Quiero pan.", "Yo quiero pan, por favor."], ["No."]]
    found = evaluation.score_translations([cat, bread, "El perro."], references)
    assert found["exact"] == near(expected)
    assert math.isfinite(evaluation.perplexity_of(1e6))


@pytest.mark.parametrize("pairs", [[], [Pair("", "Nada."), Pair("Nothing.", "")]])
def test_pairs_that_cannot_be_used_are_left_out_or_refused(
    trained_run: TrainedRun, model: Transformer, pairs: list[Pair]
) -> None:
    """Those without two sides, and those too long for the model."""
    with pytest.raises(DataError, match="no pair is left"):
        evaluation.evaluate(model, trained_run.tokenizers, pairs)
    more = [PAIRS[0], Pair("a " * 100, "b"), *pairs]
    figures, alone = (
        evaluation.evaluate(model, trained_run.tokenizers, p) for p in (more, PAIRS[:1])
    )
    assert figures == replace(alone, dropped=1 + len(pairs))


def test_bleu_of_short_targets_is_said_to_mean_nothing() -> None:
    """A perfect model has a BLEU of 0 then; four words in one target are enough."""
    short = [Pair("12", "twelve"), Pair("22", "twenty two."), Pair("1001", "one thousand one")]
    long = [*short, Pair("1011", "one thousand eleven.")]
    for pairs, bleu in ((short, 0), (long, 100)):
        texts = [pair.target for pair in pairs]
        assert sacrebleu.BLEU().corpus_score(texts, [texts]).score == near(bleu, size=100)
    note = "BLEU says nothing here and will be 0: no target has 4 words"
    assert str(evaluation.bleu_note(short)).startswith(note)
    assert evaluation.bleu_note(long) is None
