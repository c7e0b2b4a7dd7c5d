"""Sentences that a person gives are read, translated if need be, and measured without a file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.translation import translate
from headwise.model.interface import KINDS
from headwise.model.interventions import head_costs
from headwise.model.training.data import Pair
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.measuring import given
from headwise.viz_app.measuring.corpus import read_sentences
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.given import GivenSentences
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples
from tests.floats import PASS, assert_near, rounding

PAIRS = [
    Pair("The cats don't see the dog.", "Los gatos no ven al perro."),
    Pair("Where is the old dog?", "¿Dónde está el perro viejo?"),
    Pair("She gave him a book.", "Ella le dio un libro."),
    Pair("The cat", "El gato"),
]
UNIT = 1e-5


def test_lines_are_read_with_translations_or_without() -> None:
    pairs = [Pair("a b", "c"), Pair("d", "e f")]
    assert [*read_sentences("\ufeff a b\t c\r\n\n d\te f\n")] == pairs
    assert [*read_sentences("a b\nd\t")] == [Pair("a b", ""), Pair("d", "")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" \n", "there is no sentence yet: paste some"),
        ("a\n" * 513, "there are 513 sentences; at most 512"),
        ("é" * (2**17 + 512), "have 257 KiB; at most 256"),
        ("a\tb\nc", "line 2 has no translation after a tab, unlike those before"),
        ("a\n\nc\td", "line 3 has a translation after a tab, unlike those before"),
        ("a\tb\tc", "line 1: expected a sentence, and perhaps a tab and its translation, got 2"),
        ("\tb", "line 1: expected a sentence"),
        ("a\n\ufffd", "line 2 is not UTF-8"),
        ("a\n" + "b" * 20_001, "20,001 characters, at most 20,000"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_sentences(text)


def test_sentences_that_fit_no_model_or_are_too_many_tokens_are_refused(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"none of the sentences .* 1 too long for the model"):
        GivenSentences(run, [Pair("cat " * 99, "")])
    monkeypatch.setattr(given, "MOST_TOKENS", 9)
    with pytest.raises(ValueError, match="tokens; at most 9 are measured here"):
        GivenSentences(run, PAIRS)


def test_measures_are_those_that_the_command_writes_for_the_same_pairs(
    own_root: Path, run: TrainedRun, tmp_path: Path
) -> None:
    """All of them, with what stands beside them; here nothing is written."""
    data = tmp_path / "pairs.tsv"
    lines = "\n".join(f"{pair.source}\t{pair.target}" for pair in PAIRS)
    data.write_text(f"en\tes\n{lines}\n")
    before = {path.name for path in run.folder.rglob("*")}
    sentences = GivenSentences(run, [*read_sentences(lines), PAIRS[0]])
    passes = sentences.passes([20, 60])
    assert sum(sentences.measure([20, 60])) == passes
    assert str(sentences.left_out) == (
        "0 with an empty side, 1 with a repeated source, 0 too long for the model"
    )
    assert {path.name for path in run.folder.rglob("*")} == before
    (tmp_path / "examples.jsonl").write_text(
        "".join(f'{{"source": "{p.source}", "reference": "{p.target}"}}\n' for p in PAIRS)
    )
    arguments = ["--run", "tiny", "--checkpoints", str(own_root), "--data", str(data)]
    arguments += ["--examples", str(tmp_path / "examples.jsonl"), "--steps", "20", "60"]
    main(tyro.cli(MeasureArguments, args=arguments))
    for step in (20, 60):
        found, folder = sentences.found[step], own_root / "tiny"
        written = read_measures(folder, step)
        assert found.measures.sentences == written.sentences
        assert found.measures.corpus.tokens == written.corpus.tokens
        assert found.measures.translated_at is None
        for name in MEASURES:
            if name.startswith("aer"):  # the command was given no alignments either
                continue
            for kind in KINDS:
                np.testing.assert_allclose(
                    found.measures.values[name][kind],
                    written.values[name][kind],
                    atol=UNIT + rounding(np.float32, UNIT),
                    rtol=np.finfo(np.float32).eps,
                )
        assert found.measures.examples.keys() == written.examples.keys()
        chrf = [each.chrf for each in written.translated]
        assert [each.chrf for each in found.measures.translated] == pytest.approx(chrf, abs=UNIT)
        for ours, theirs in (
            (found.means.means, HeadMeans.read(folder, step).means),
            (found.resamples.deviations, Resamples.read(folder, step).deviations),
            (found.costs.costs, SentenceCosts.read(folder, step).costs),
        ):
            for kind in KINDS:
                np.testing.assert_allclose(ours[kind], theirs[kind], atol=1e-6, rtol=2e-3)


def test_without_targets_those_of_the_newest_checkpoint_are_forced(run: TrainedRun) -> None:
    """What compares with references is left out then."""
    [pair] = PAIRS[:1]
    sentences = GivenSentences(run, [Pair(pair.source, "")])
    of = sentences.passes([20])
    assert 0 < sum(sentences.measure([20])) <= of
    measures = sentences.found[20].measures
    newest = load_weights(run, 60).model
    [text] = translate(newest, run.tokenizers, [pair.source])
    assert measures.translated_at == 60
    assert measures.sentences[0].reference == text.strip()
    source = run.tokenizers.encode_source(pair.source)
    target = run.tokenizers.encode_target(text.strip())
    costs = head_costs(load_weights(run, 20).model, source, target)
    for kind in KINDS:
        expected = costs[kind].numpy() / (len(target) - 1)
        assert_near(measures.values["cost"][kind], expected, size=10, operations=PASS)
    assert all(math.isnan(each.chrf) for each in measures.translated)
    assert math.isnan(measures.stages["chrf"])
    again = sentences.passes([60])
    sum(sentences.measure([60]))
    assert sentences.found.keys() == {20, 60}
    assert again < of  # it is translated once
    assert sentences.found[60].measures.sentences == measures.sentences


def test_weights_of_all_come_first_then_the_newest_and_the_oldest(run: TrainedRun) -> None:
    sentences = GivenSentences(run, PAIRS)
    work = sentences.measure([0, 20, 60])
    assert [next(work) for _ in range(3)] == [1, 1, 1]
    assert [*sentences.by_weights] == [60, 0, 20]
    assert not sentences.found
    for _ in work:
        pass
    assert [*sentences.found] == [60, 0, 20]
    for step, each in sentences.by_weights.items():
        known = {name for name, of in each.values.items() if np.isfinite(of["cross"]).any()}
        assert known == {"qk_norm", "qk_rank", "ov_rank"}
        for name in known:
            whole = sentences.found[step].measures.values[name]
            np.testing.assert_array_equal(each.values[name]["cross"], whole["cross"])
