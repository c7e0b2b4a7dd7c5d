"""The measures of the shipped runs: readable, of these very weights, and saying what is known."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import safe_open

from headwise.model.checkpoint import CHECKPOINTS, TrainedRun, open_trained_run, weights_path
from headwise.model.config import BOS, EOS
from headwise.model.interface import KINDS
from headwise.viz_app.measuring.alignments import alignments_path, read_alignments
from headwise.viz_app.measuring.files import measured_steps, measures_path, read_measures
from tests.shipped import SHIPPED


@pytest.fixture(params=SHIPPED)
def run(request: pytest.FixtureRequest) -> TrainedRun:
    return open_trained_run(request.param)


def test_every_checkpoint_has_measures_of_its_weights(run: TrainedRun) -> None:
    assert measured_steps(run.folder) == run.steps()
    model = run.info.model
    for step in run.steps():
        measures = read_measures(run.folder, step)
        with safe_open(weights_path(run.folder, step), "pt") as file:
            assert measures.sha256 == file.metadata()["sha256"]
        assert (measures.run, measures.distance_to) == (run.info.name, run.steps()[-1])
        assert measures.corpus.sha256 == run.info.data.valid_sha256
        assert measures.corpus.sentences == 512
        assert len(measures.translated) == len(measures.sentences) >= 150
        for kind in KINDS:
            assert measures.values["entropy"][kind].shape == model.description.shapes[kind]
            for name in ("entropy", "confidence", "same", "cost", "distance"):
                assert np.isfinite(measures.values[name][kind]).all()
        for way in ("predicted", "consumed"):
            assert np.isfinite(measures.values[f"aer_{way}"]["cross"]).all()
        assert all(len(found) == 8 for found in measures.examples.values())


def test_examples_are_places_in_their_sentences(run: TrainedRun) -> None:
    measures = read_measures(run.folder, run.steps()[-1])
    source, target = run.tokenizers.encode_source, run.tokenizers.encode_target
    for (kind, _, _), examples in measures.examples.items():
        weights = [example.weight for example in examples]
        assert weights == sorted(weights, reverse=True)
        assert len({example.sentence for example in examples}) == len(examples)
        for example in examples:
            sentence = measures.sentences[example.sentence]
            sources, targets = source(sentence.source), target(sentence.reference)
            consumed = targets[:-1]
            queries = sources if kind == "encoder_self" else consumed
            keys = consumed if kind == "decoder_self" else sources
            assert example.query < len(queries)
            assert keys[example.key] not in (BOS, EOS)


def test_the_best_head_aligns_what_is_predicted(run: TrainedRun) -> None:
    """Cross-attention aligns the word that is being written better than the one before it."""
    values = read_measures(run.folder, run.steps()[-1]).values
    predicted, consumed = (values[f"aer_{way}"]["cross"].min() for way in ("predicted", "consumed"))
    assert predicted < consumed


def test_alignments_are_of_the_validation_corpus(run: TrainedRun) -> None:
    alignments = read_alignments(run.folder)
    if run.info.name == "copy":
        assert alignments is None
    else:
        assert alignments is not None
        assert alignments.sha256 == run.info.data.valid_sha256


def test_measures_are_small() -> None:
    folders = [CHECKPOINTS / name for name in SHIPPED]
    files = [
        file
        for folder in folders
        for file in (*folder.glob("measures/*"), *folder.glob("alignments.jsonl"))
    ]
    assert alignments_path(CHECKPOINTS / "en-es") in files
    assert measures_path(CHECKPOINTS / "copy", 0) in files
    assert sum(file.stat().st_size for file in files) < 6_000_000
    shipped = [
        file
        for folder in folders
        for file in folder.iterdir()
        if file.suffix in (".safetensors", ".json", ".jsonl")
    ]
    assert sum(file.stat().st_size for file in (*files, *shipped)) < 240_000_000
