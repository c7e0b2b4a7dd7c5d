"""The shipped runs: measures of these very weights, and pairs and alignments beside them."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open

from headwise.model.checkpoint import CHECKPOINTS, TrainedRun, open_trained_run, weights_path
from headwise.model.config import BOS, EOS
from headwise.model.interface import KINDS
from headwise.viz_app.measuring.alignments import read_alignments
from headwise.viz_app.measuring.files import measured_steps, read_measures
from headwise.viz_app.measuring.head_measures import SCORE_MEASURES
from headwise.viz_app.measuring.pair_files import read_measured_pairs, shipped_pairs
from headwise.viz_app.measuring.pairs import read_pairs
from headwise.viz_app.measuring.tensor_files import Resamples
from tests.shipped import SHIPPED

# Measures


@pytest.fixture(params=SHIPPED)
def run(request: pytest.FixtureRequest) -> TrainedRun:
    return open_trained_run(request.param)


def test_every_checkpoint_has_measures_of_its_weights(run: TrainedRun) -> None:
    assert measured_steps(run.folder) == run.steps()
    for step in run.steps():
        measures = read_measures(run.folder, step)
        with safe_open(weights_path(run.folder, step), "pt") as file:
            assert measures.sha256 == file.metadata()["sha256"]
        assert (measures.run, measures.distance_to) == (run.info.name, run.steps()[-1])
        assert measures.corpus.sha256 == run.info.data.valid_sha256
        assert measures.corpus.sentences == 512
        assert len(measures.translated) == len(measures.sentences) >= 150
        for kind in KINDS:
            assert measures.values["entropy"][kind].shape == run.info.model.description.shapes[kind]
            for name in ("entropy", "confidence", "same", "cost", "distance", *SCORE_MEASURES):
                assert np.isfinite(measures.values[name][kind]).all()
        for way in ("predicted", "consumed"):
            assert np.isfinite(measures.values[f"aer_{way}"]["cross"]).all()
        ablated = np.concatenate([measures.values["mean_ablation"][kind].ravel() for kind in KINDS])
        assert np.isfinite(ablated).all() == (step == run.steps()[-1])
        assert all(len(found) == 8 for found in measures.examples.values())


def test_copying_is_by_position() -> None:
    """Which symbol is next says its place alone, and the target's stream begins with it.

    So both heads of the decoder's first layer come to look by position, as they did not at step 0.
    """
    run = open_trained_run("copy")
    first, last = (
        read_measures(run.folder, step).values["by_position"]["decoder_self"][0]
        for step in (0, run.steps()[-1])
    )
    assert (first < 0.1).all()
    assert (last > 0.9).all()


def test_resamples_are_of_the_measures_and_spread_as_their_errors_say(run: TrainedRun) -> None:
    for step in run.steps():
        measures, found = read_measures(run.folder, step), Resamples.read(run.folder, step)
        assert found is not None
        assert (found.sha256, found.corpus) == (measures.sha256, measures.corpus)
        for place, name in enumerate(found.names):
            for kind in KINDS:
                spread = found.deviations[kind][place].astype(np.float64).std(axis=0, ddof=1)
                expected = measures.errors[name][kind]
                np.testing.assert_allclose(spread, expected, rtol=2e-3, atol=1e-5)


def test_accuracy_on_pairs_is_of_the_weights_and_of_the_pairs_that_ship(run: TrainedRun) -> None:
    measured = read_measured_pairs(run.folder)
    path = shipped_pairs(run.source_language, run.target_language)
    if measured is None:
        assert run.info.name != "de-en"
        return
    assert path is not None
    assert (measured.name, measured.pairs) == (path.name, read_pairs(path))
    assert list(measured.checkpoints) == run.steps()
    assert measured.heads_step == run.steps()[-1]
    for step, scores in measured.checkpoints.items():
        with safe_open(weights_path(run.folder, step), "pt") as file:
            assert scores.sha256 == file.metadata()["sha256"]
        assert (scores.right < 0).all()
        assert (scores.wrong < 0).all()
    shapes = {kind: counted.shape for kind, counted in measured.without_heads.items()}
    assert shapes == {
        kind: (*shape, len(measured.pairs))
        for kind, shape in run.info.model.description.shapes.items()
    }


def test_examples_are_places_in_their_sentences(run: TrainedRun) -> None:
    measures = read_measures(run.folder, run.steps()[-1])
    source, target = run.tokenizers.encode_source, run.tokenizers.encode_target
    for (kind, _, _), examples in measures.examples.items():
        weights = [example.weight for example in examples]
        assert weights == sorted(weights, reverse=True)
        assert len({example.sentence for example in examples}) == len(examples)
        for example in examples:
            sentence = measures.sentences[example.sentence]
            sources, consumed = source(sentence.source), target(sentence.reference)[:-1]
            queries = sources if kind == "encoder_self" else consumed
            keys = consumed if kind == "decoder_self" else sources
            assert example.query < len(queries)
            assert keys[example.key] not in (BOS, EOS)


def test_alignments_are_of_the_validation_corpus(run: TrainedRun) -> None:
    alignments = read_alignments(run.folder)
    assert (alignments is None) == (run.info.name == "copy")
    assert alignments is None or alignments.sha256 == run.info.data.valid_sha256


def test_shipped_runs_are_small() -> None:
    files = {
        file: file.stat().st_size
        for name in SHIPPED
        for folder in (CHECKPOINTS / name, CHECKPOINTS / name / "measures")
        for file in folder.iterdir()
        if file.suffix in (".safetensors", ".json", ".jsonl")
    }
    measured = {"measures": 0, "alignments.jsonl": 0}
    for file, size in files.items():
        for name in {file.name, file.parent.name} & set(measured):
            measured[name] += size
    assert all(measured.values())
    assert sum(measured.values()) < 15_000_000
    assert sum(files.values()) < 300_000_000
