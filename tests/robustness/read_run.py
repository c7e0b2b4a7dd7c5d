"""Read and use everything in a run's folder as the app and the programs do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from headwise.model.checkpoint import CheckpointError, load_weights, open_trained_run
from headwise.model.decoding.translation import translate
from headwise.model.training.resume import read_resume_state
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.curves import curve_of, progress
from headwise.viz_app.analysis.embeddings import frequency_groups, most_frequent
from headwise.viz_app.analysis.pairs import accuracy_curves, accuracy_losses, failing_pairs
from headwise.viz_app.measuring.alignments import read_alignments
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples, read_neurons
from tests.robustness.tiny_run import STEP

_SENTENCE = "Where is the old cat?"


def _logs(rows: list[dict[str, Any]], steps: int) -> list[str]:
    """Make the curves of a log; return its rows as text."""
    for name in ("train_loss", "valid_loss", "tokens"):
        curve_of(rows, name)
    str(progress(rows, steps))
    return [_text(row) for row in rows]


def _text(value: object) -> str:
    """A value as text that can be encoded in UTF-8."""
    text = repr(value) if not isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
    text.encode()
    return text


def _usable(counts: list[int]) -> str:
    array = np.array(counts, np.int64)
    frequency_groups(array[most_frequent(array, 20)])
    return _text(counts)


def _measures_text(folder: Path) -> str:
    measures = read_measures(folder, STEP)
    for corpus in (measures.corpus, measures.examples_corpus):
        f"{corpus.name.strip()} {corpus.sentences:,} {corpus.tokens:,}"
    examples = [each for found in measures.examples.values() for each in found]
    texts = [t.translation for t in measures.translated]
    texts += [text for e in examples for text in vars(measures.sentences[e.sentence]).values()]
    orjson.dumps([text.strip() for text in texts])
    np.array([[e.query + 0, e.key + 0, e.weight + 0.0] for e in examples]).tolist()
    values = {n: {k: v.tolist() for k, v in kinds.items()} for n, kinds in measures.values.items()}
    return _text((values, vars(measures) | {"values": None}))


def _record_text(record: Any) -> str:
    assert record is not None
    return _text([_plain(record)])


def _plain(value: Any) -> Any:
    """Make lists of the arrays in a record, in the records in it and so on."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _plain(vars(value)) if is_dataclass(value) else value


def _pairs_text(folder: Path) -> str:
    measured = read_measured_pairs(folder)
    assert measured is not None
    losses = accuracy_losses(measured)
    curves = accuracy_curves(measured, measured.checkpoints)
    failing = [failing_pairs(measured, each) for each in measured.checkpoints.values()]
    orjson.dumps([vars(pair) for pair in measured.pairs])
    return _text((measured.run, measured.name, measured.pairs, curves, losses, failing))


def _neurons_text(folder: Path) -> str:
    found = read_neurons(folder, STEP)
    for places in found.stacks.values():
        for number in places.sentence.ravel().tolist():
            " ".join(vars(found.sentences[number]).values()).encode()
        f"{places.activation.sum():.3g} {places.position.max() + 1}"
    stacks = {stack: _plain(places) for stack, places in found.stacks.items()}
    return _text((stacks, vars(found) | {"stacks": None}))


def read_run(root: Path, name: str, *, translating: bool = True) -> dict[str, Any]:
    """What each part of a run holds, or CheckpointError; with ``translating``, weights too."""
    found: dict[str, Any] = {}

    def part(key: str, how: Callable[[], Any]) -> None:
        try:
            found[key] = how()
        except CheckpointError as error:
            str(error).encode()
            found[key] = CheckpointError

    try:
        run = open_trained_run(name, root=root)
    except CheckpointError:
        return {"run": CheckpointError}
    _text(run.info.to_json())
    json.dumps(run.info.to_json(), ensure_ascii=False).encode()
    found["run"] = _text(run.info)
    found["tokens"] = run.tokenizers.source.encode(_SENTENCE), run.tokenizers.target.encode("Dónde")

    def weights() -> str:
        checkpoint = load_weights(run, STEP)
        digest = hashlib.sha256(checkpoint.sha256.encode())
        for parameter in checkpoint.model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        translation = translate(checkpoint.model, run.tokenizers, [_SENTENCE])
        return f"{digest.hexdigest()} {translation}"

    def resume() -> str:
        with torch.device("meta"):
            model = Transformer(run.info.model)
        state = read_resume_state(run.folder, model)
        sums = {n: hashlib.sha256(t.numpy()).hexdigest() for n, t in state.tensors.items()}
        return f"{sorted(sums.items())} {state.tokens:,}"

    if translating:
        part("weights", weights)
    part("counts", lambda: (_usable(run.counts.source), _usable(run.counts.target)))
    part("metrics", lambda: _logs(run.metrics(), run.info.training.steps))
    part("samples", lambda: _logs(run.samples(), run.info.training.steps))
    part("measures", lambda: _measures_text(run.folder))
    for kind in (HeadMeans, SentenceCosts, Resamples):
        part(kind.__name__, lambda kind=kind: _record_text(kind.read(run.folder, STEP)))
    part("pairs", lambda: _pairs_text(run.folder))
    part("neurons", lambda: _neurons_text(run.folder))
    part("alignments", lambda: repr(read_alignments(run.folder)))
    part("resume", resume)
    return found
