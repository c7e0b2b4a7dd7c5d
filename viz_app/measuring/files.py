"""Measures of a run on disk: ``measures/step-0000000.json`` and ``measures/sentences.jsonl``.

There is one file for each checkpoint. The example sentences, the same for all checkpoints, are in a
file by themselves, whose sha256 is in each of the others. Numbers have five decimals; null is NaN.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import orjson
from pydantic import Field

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.validation import format_version, validate_json
from headwise.viz_app.measuring.checkpoint_measures import STAGES
from headwise.viz_app.measuring.head_measures import MEASURES, SCORE_MEASURES, require_own_names
from headwise.viz_app.records.measures import (
    FAILURES,
    AlignmentBaselines,
    CorpusSummary,
    Example,
    Measures,
    OwnMeasure,
    Sentence,
    TranslatedSentence,
)
from headwise.viz_app.records.trace import Floats

MEASURES_VERSION = 2
"""Version of the format; raised when a name or a meaning changes."""
_NAME = re.compile(r"step-(\d{7})\.json")
_DECIMALS = 5
_LARGEST = float(np.finfo(np.float32).max)
_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]


@dataclass(frozen=True)
class _File:
    """The JSON object in the file of a checkpoint; null is NaN."""

    format_version: int
    run: str
    step: int
    sha256: str
    distance_to: int | None
    corpus: _Corpus
    examples_corpus: _Corpus
    sentences_sha256: str
    values: dict[str, dict[Kind, list[list[_Number | None]]]]
    """Measure → kind → layer → head."""
    cost_errors: dict[Kind, list[list[_Number | None]]]
    """Kind → layer → head."""
    alignment: _Baselines | None
    stages: dict[str, _Number | None]
    examples: list[tuple[Kind, int, int, list[tuple[int, int, int, _Number]]]]
    """Kind, layer, head, and the fields of its examples."""
    translated: list[_TranslatedRow]
    own: dict[str, OwnMeasure] = field(default_factory=dict)
    """The measures in ``values`` that somebody added to ours; left out where there are none."""
    errors: dict[str, dict[Kind, list[list[_Number | None]]]] = field(default_factory=dict)
    """Standard errors, as ``values``; left out in files from before there were any."""
    even: dict[str, dict[Kind, _Number | None]] = field(default_factory=dict)
    """Measure → kind → what a head with even rows has; left out likewise."""
    stage_errors: dict[str, _Number | None] = field(default_factory=dict)
    """Standard errors of ``stages``; left out likewise."""
    detection: object = None
    """How well figures found targets of other sentences, in older files; it is not read."""


@dataclass(frozen=True)
class _Corpus:
    """A ``CorpusSummary`` in the file, which calls its number of tokens ``pieces``."""

    name: str
    sha256: str
    sentences: int
    pieces: int


@dataclass(frozen=True)
class _Baselines:
    """The ``AlignmentBaselines`` in the file."""

    lowest: _Number
    diagonal: _Number


class _TranslatedRow(NamedTuple):
    """A translation, its chrF, and figures of it; those of ``FAILURES`` and others.

    Figures with null as default are in some older files only, but for the source's contribution.
    """

    translation: str
    chrf: Annotated[float, Field(ge=0, le=100)]
    log_probability: _Number | None
    least_attended: _Number | None
    left_out: _Number | None = None
    repetition: _Number | None = None
    source_contribution: _Number | None = None
    wass_to_unif: _Number | None = None
    wass_to_data: _Number | None = None
    wass_combo: _Number | None = None
    unaligned: _Number | None = None
    combined: _Number | None = None


def measures_path(folder: Path, step: int) -> Path:
    """Return the path of the measures of a checkpoint, in a run's folder."""
    return folder / "measures" / f"step-{step:07d}.json"


def _sentences_path(folder: Path) -> Path:
    return folder / "measures" / "sentences.jsonl"


def measured_steps(folder: Path) -> list[int]:
    """List the steps whose measures are in a run's folder, in order."""
    matches = (_NAME.fullmatch(path.name) for path in (folder / "measures").glob("step-*.json"))
    return sorted(int(match[1]) for match in matches if match)


# --- writing -------------------------------------------------------------------------------------


def write_measures(folder: Path, measures: Measures) -> None:
    """Write the measures of a checkpoint into a run's folder, in place of any that were there.

    Raises:
        CheckpointError: if they cannot be written.
        ValueError: if there is a measure among the values that neither is ours nor in ``own``, or a
            value beyond the range of its measure.
    """
    require_own_names(measures.own)
    names = (*MEASURES, *measures.own)
    if {*measures.values} != {*names}:
        odd = sorted({*measures.values} ^ {*names})
        raise ValueError(
            f"expected a value for each measure of Headwise and each in own, got a difference in "
            f"{', '.join(map(repr, odd[:5]))}"
        )
    for name, about in measures.own.items():
        about.require_range(name, measures.values[name])
    make_folder(folder / "measures")
    lines = b"".join(orjson.dumps(sentence) + b"\n" for sentence in measures.sentences)
    path = _sentences_path(folder)
    if not path.is_file() or path.read_bytes() != lines:
        write_bytes(path, lines)
    file = _File(
        format_version=MEASURES_VERSION,
        run=measures.run,
        step=measures.step,
        sha256=measures.sha256,
        distance_to=measures.distance_to,
        corpus=_Corpus(*vars(measures.corpus).values()),
        examples_corpus=_Corpus(*vars(measures.examples_corpus).values()),
        sentences_sha256=hashlib.sha256(lines).hexdigest(),
        values=_all_rounded({name: measures.values[name] for name in names}),
        cost_errors={kind: _rounded(array) for kind, array in measures.cost_errors.items()},
        alignment=None
        if measures.alignment is None
        else _Baselines(*(round(rate, _DECIMALS) for rate in vars(measures.alignment).values())),
        stages={name: round(value, _DECIMALS) for name, value in measures.stages.items()},
        examples=[
            (*head, [(e.sentence, e.query, e.key, round(e.weight, _DECIMALS)) for e in examples])
            for head, examples in measures.examples.items()
        ],
        translated=[
            _TranslatedRow(
                t.translation,
                round(t.chrf, _DECIMALS),
                least_attended=round(t.least_attended, _DECIMALS),
                **{name: round(t.figures[name], _DECIMALS) for name in FAILURES},
            )
            for t in measures.translated
        ],
        own=dict(measures.own),
        errors=_all_rounded(measures.errors),
        even={
            name: {kind: round(value, _DECIMALS) for kind, value in of_kinds.items()}
            for name, of_kinds in measures.even.items()
        },
        stage_errors={
            name: round(error, _DECIMALS) for name, error in measures.stage_errors.items()
        },
    )
    # A line for each of these, so that a change can be read; a NaN becomes null.
    text = b",\n".join(
        orjson.dumps(k) + b":" + orjson.dumps(v, default=tuple)
        for k, v in vars(file).items()
        if v or k not in ("own", "errors", "even", "stage_errors", "detection")
    )
    write_bytes(measures_path(folder, measures.step), b"{" + text + b"}\n")


def _all_rounded(
    values: Mapping[str, Mapping[Kind, Floats]],
) -> dict[str, dict[Kind, list[list[float | None]]]]:
    return {
        name: {kind: _rounded(array) for kind, array in of_kinds.items()}
        for name, of_kinds in values.items()
    }


def _rounded(array: Floats) -> list[list[float | None]]:
    return [[round(value, _DECIMALS) + 0.0 for value in row] for row in array.tolist()]  # no -0.0


# --- reading -------------------------------------------------------------------------------------


def read_measures(folder: Path, step: int) -> Measures:
    """Read the measures of a checkpoint; the caller compares their sha256 with the weights.

    Raises:
        CheckpointError: if a file is missing, damaged, foreign or of another version, or the
            example sentences are not those that were measured.
    """
    path = measures_path(folder, step)
    if not path.is_file():
        known = ", ".join(f"{s:,}" for s in measured_steps(folder)) or "none"
        raise CheckpointError(
            f"{path}: no measures of step {step:,}, there are those of: {known}; make them with "
            f"python -m headwise.viz_app.measure --run {shlex.quote(str(folder))}"
        )
    try:
        content = read_bytes(path, within=folder)
        version = format_version(content)
        if version == MEASURES_VERSION:
            return _rebuild(folder, step, validate_json(_File, content))
    except (ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path}: not measures of step {step:,}, or damaged ({error}); measure again"
        ) from error
    raise CheckpointError(
        f"{path}: format version {version!r}, this program reads {MEASURES_VERSION}; measure again"
    )


def _rebuild(folder: Path, step: int, file: _File) -> Measures:
    if file.step != step:
        raise ValueError(f"its step is {file.step}")
    require_own_names(file.own)
    names = (*MEASURES, *file.own)
    unknown = {kind: [[None] * len(row) for row in file.cost_errors[kind]] for kind in KINDS}
    given = dict.fromkeys(SCORE_MEASURES, unknown) | file.values
    values = {name: {kind: _array(given[name][kind]) for kind in KINDS} for name in names}
    cost_errors = {kind: _array(file.cost_errors[kind]) for kind in KINDS}
    errors = {
        name: {kind: _array(file.errors[name][kind]) for kind in KINDS}
        for name in names
        if name in file.errors
    }
    for name, about in file.own.items():
        about.require_range(name, values[name])
    arrays = [*values.values(), cost_errors, *errors.values()]
    shapes = {kind: {of_kinds[kind].shape for of_kinds in arrays} for kind in KINDS}
    for kind, found_shapes in shapes.items():
        if len(found_shapes) != 1:
            raise ValueError(f"{kind}: expected values of one shape, got {sorted(found_shapes)}")
    sentences = _sentences(folder, file.sentences_sha256)
    examples: dict[Head, tuple[Example, ...]] = {
        Head(kind, layer, head): tuple(Example(*example) for example in found)
        for kind, layer, head, found in file.examples
    }
    heads = {Head(kind, *place) for kind in KINDS for place in np.ndindex(*shapes[kind].pop())}
    if set(examples) != heads:
        raise ValueError(f"expected examples of {len(heads)} heads, got {len(examples)}")
    if len(file.translated) != len(sentences):
        raise ValueError(f"expected {len(sentences)} translations, got {len(file.translated)}")
    found = [example for of_head in examples.values() for example in of_head]
    if any(not 0 <= example.sentence < len(sentences) for example in found):
        raise ValueError(f"expected examples from {len(sentences)} sentences, got one of another")
    return Measures(
        run=file.run,
        step=step,
        sha256=file.sha256,
        corpus=CorpusSummary(*vars(file.corpus).values()),
        values=values,
        cost_errors=cost_errors,
        alignment=None
        if file.alignment is None
        else AlignmentBaselines(*vars(file.alignment).values()),
        stages={name: _or_nan(file.stages.get(name)) for name in STAGES},
        examples_corpus=CorpusSummary(*vars(file.examples_corpus).values()),
        sentences=sentences,
        examples=examples,
        translated=tuple(
            TranslatedSentence(
                row.translation,
                {name: _or_nan(getattr(row, name)) for name in FAILURES},
                row.chrf,
                _or_nan(row.least_attended),
            )
            for row in file.translated
        ),
        own=file.own,
        errors=errors,
        even={
            name: {kind: _or_nan(value) for kind, value in of_kinds.items()}
            for name, of_kinds in file.even.items()
        },
        stage_errors={
            name: _or_nan(file.stage_errors[name]) for name in STAGES if name in file.stage_errors
        },
        distance_to=file.distance_to,
    )


def _or_nan(figure: float | None) -> float:
    return float("nan") if figure is None else figure


def _array(rows: Sequence[Sequence[float | None]]) -> Floats:
    array: Floats = np.array(rows, dtype=np.float32)  # null becomes NaN
    if array.ndim != 2:
        raise ValueError(f"expected values by layer and head, got shape {array.shape}")
    array.flags.writeable = False
    return array


def _sentences(folder: Path, sha256: str) -> tuple[Sentence, ...]:
    path = _sentences_path(folder)
    lines = read_bytes(path, within=folder)
    if hashlib.sha256(lines).hexdigest() != sha256:
        raise CheckpointError(
            f"{path}: not the example sentences that were measured; measure this step again"
        )
    return tuple(validate_json(Sentence, line) for line in lines.splitlines())
