"""Measures of a run on disk: ``measures/step-0000000.json`` and ``measures/sentences.jsonl``.

A file a checkpoint; the example sentences, the same for all checkpoints, stand once in a file of
their own, whose sha256 each of the others names. Numbers have five decimals; null is NaN.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson

from model.config import check_kinds
from model.files import CheckpointError, read_bytes, write_bytes
from viz_app.measure_records import (
    FAILURES,
    MEASURES,
    Corpus,
    Example,
    Measures,
    Sentence,
    Translated,
)
from viz_app.records import KINDS, Floats, Head

MEASURES_VERSION = 1
"""Of the format; raised when a name or a meaning changes."""
_NAME = re.compile(r"step-(\d{7})\.json")
_DECIMALS = 5
_LARGEST = float(np.finfo(np.float32).max)
Record = TypeVar("Record", Corpus, Example, Sentence, Translated, Measures)


def measures_path(folder: Path, step: int) -> Path:
    """The file with the measures of a checkpoint, in a run's folder."""
    return folder / "measures" / f"step-{step:07d}.json"


def _sentences_path(folder: Path) -> Path:
    return folder / "measures" / "sentences.jsonl"


def measured_steps(folder: Path) -> list[int]:
    """Steps whose measures are in a run's folder, in order."""
    matches = (_NAME.fullmatch(path.name) for path in (folder / "measures").glob("step-*.json"))
    return sorted(int(match[1]) for match in matches if match)


# --- writing -------------------------------------------------------------------------------------


def write_measures(folder: Path, measures: Measures) -> None:
    """Write the measures of a checkpoint into a run's folder, in place of any that were there.

    Raises:
        CheckpointError: if they cannot be written.
    """
    try:
        (folder / "measures").mkdir(exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{folder / 'measures'}: cannot be made ({error.strerror}); see to that and measure "
            "again"
        ) from error
    lines = b"".join(orjson.dumps(asdict(sentence)) + b"\n" for sentence in measures.sentences)
    path = _sentences_path(folder)
    if not path.is_file() or path.read_bytes() != lines:
        write_bytes(path, lines)
    content = {
        "format_version": MEASURES_VERSION,
        "run": measures.run,
        "step": measures.step,
        "sha256": measures.sha256,
        "distance_to": measures.distance_to,
        "corpus": asdict(measures.corpus),
        "examples_corpus": asdict(measures.examples_corpus),
        "sentences_sha256": hashlib.sha256(lines).hexdigest(),
        "values": {
            name: {kind: _rounded(array) for kind, array in measures.values[name].items()}
            for name in MEASURES
        },
        "examples": [
            [*head, [[e.sentence, e.query, e.key, round(e.weight, _DECIMALS)] for e in examples]]
            for head, examples in measures.examples.items()
        ],
        "translated": [
            [t.translation, *(round(t.figures[name], _DECIMALS) for name in FAILURES)]
            for t in measures.translated
        ],
    }
    # A line for each of these, so that a change can be read; a NaN becomes null.
    text = b",\n".join(orjson.dumps(k) + b":" + orjson.dumps(v) for k, v in content.items())
    write_bytes(measures_path(folder, measures.step), b"{" + text + b"}\n")


def _rounded(array: Floats) -> list[list[float]]:
    return [[round(value, _DECIMALS) + 0.0 for value in row] for row in array.tolist()]  # no -0.0


# --- reading -------------------------------------------------------------------------------------


def read_measures(folder: Path, step: int) -> Measures:
    """The measures of a checkpoint; whether its weights are still those is for the caller to see.

    Raises:
        CheckpointError: if a file is missing, damaged, foreign or of another version, or the
            example sentences are not those that were measured.
    """
    path = measures_path(folder, step)
    if not path.is_file():
        known = ", ".join(f"{s:,}" for s in measured_steps(folder)) or "none"
        raise CheckpointError(
            f"{path}: no measures of step {step:,}, there are those of: {known}; make them with "
            f"python -m viz_app.measure --run {folder.name}"
        )
    try:
        content = orjson.loads(read_bytes(path))
        version = content["format_version"]
        if version == MEASURES_VERSION:
            return _rebuild(folder, step, content)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{path}: not measures of step {step:,}, or damaged ({error}); measure again"
        ) from error
    raise CheckpointError(
        f"{path}: format version {version!r}, this program reads {MEASURES_VERSION}; measure again"
    )


def _rebuild(folder: Path, step: int, content: Mapping[str, Any]) -> Measures:
    if content["step"] != step:
        raise ValueError(f"its step is {content['step']}")
    values = {
        name: {kind: _array(content["values"][name][kind]) for kind in KINDS} for name in MEASURES
    }
    shapes = {array.shape for arrays in values.values() for array in arrays.values()}
    if len(shapes) != 1:
        raise ValueError(f"expected values of one shape, got {sorted(shapes)}")
    n_layers, n_heads = shapes.pop()
    sentences = _sentences(folder, content["sentences_sha256"])
    examples: dict[Head, tuple[Example, ...]] = {
        (kind, layer, head): tuple(_checked(Example(*example)) for example in found)
        for kind, layer, head, found in content["examples"]
    }
    heads = {(kind, i, h) for kind in KINDS for i in range(n_layers) for h in range(n_heads)}
    if set(examples) != heads:
        raise ValueError(f"expected examples of {len(heads)} heads, got {len(examples)}")
    if len(content["translated"]) != len(sentences):
        raise ValueError(
            f"expected {len(sentences)} translations, got {len(content['translated'])}"
        )
    found = [example for kept in examples.values() for example in kept]
    if any(not 0 <= example.sentence < len(sentences) for example in found):
        raise ValueError(f"expected examples from {len(sentences)} sentences, got one of another")
    measures = Measures(
        run=content["run"],
        step=step,
        sha256=content["sha256"],
        corpus=_checked(Corpus(**content["corpus"])),
        values=values,
        examples_corpus=_checked(Corpus(**content["examples_corpus"])),
        sentences=sentences,
        examples=examples,
        translated=tuple(_translated(row) for row in content["translated"]),
        distance_to=content["distance_to"],
    )
    return _checked(measures)


def _checked(record: Record) -> Record:
    check_kinds(record)
    return record


def _array(rows: Sequence[Sequence[float | None]]) -> Floats:
    for value in chain.from_iterable(rows):
        if not (value is None or (type(value) in (int, float) and abs(value) <= _LARGEST)):
            raise ValueError(f"expected a number or null, got {value!r:.40}")
    array: Floats = np.array(rows, dtype=np.float32)  # null becomes NaN
    if array.ndim != 2:
        raise ValueError(f"expected values by layer and head, got shape {array.shape}")
    array.flags.writeable = False
    return array


def _translated(row: Sequence[Any]) -> Translated:
    translation, *figures = row
    numbers = [float("nan") if figure is None else float(figure) for figure in figures]
    return _checked(Translated(translation, dict(zip(FAILURES, numbers, strict=True))))


def _sentences(folder: Path, sha256: str) -> tuple[Sentence, ...]:
    path = _sentences_path(folder)
    lines = read_bytes(path)
    if hashlib.sha256(lines).hexdigest() != sha256:
        raise CheckpointError(
            f"{path}: not the example sentences that were measured; measure this step again"
        )
    return tuple(_checked(Sentence(**orjson.loads(line))) for line in lines.splitlines())
