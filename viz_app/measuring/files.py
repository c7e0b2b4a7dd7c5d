"""Measures of a run on disk: ``measures/step-0000000.json`` and ``measures/sentences.jsonl``.

There is one file for each checkpoint. The example sentences, the same for all checkpoints, are in a
file by themselves, whose sha256 is in each of the others. A JSON file of what was measured is a
dataclass with a line a field, so that changes can be read. Numbers have five decimals, and null is
NaN.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import orjson
from pydantic import AfterValidator, Field, GetPydanticSchema, WrapValidator

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.validation import format_version, validate_json
from headwise.viz_app.measuring.checkpoint_measures import STAGES
from headwise.viz_app.measuring.head_measures import (
    MEAN_ABLATION,
    MEASURES,
    SCORE_MEASURES,
    require_own_names,
)
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

File = TypeVar("File")
Record = TypeVar("Record")
_LARGEST = float(np.finfo(np.float32).max)
Finite = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
Number = Annotated[Finite, WrapValidator(lambda value, read: nan if value is None else read(value))]
"""A number that may be NaN."""


def _array(rows: list[list[float | None]]) -> Floats:
    array: Floats = np.array(rows, dtype=np.float32)  # null becomes NaN
    if array.ndim != 2:
        raise ValueError(f"expected values by layer and head, got shape {array.shape}")
    array.flags.writeable = False
    return array


_Rows = Annotated[list[list[Finite | None]], AfterValidator(_array)]
Table = Annotated[Floats, GetPydanticSchema(lambda _, read: read.generate_schema(_Rows))]
"""Values by layer and head, (L, H); they cannot be changed."""


def write_json(path: Path, file: Any, *, items_apart: bool = False) -> None:
    """Write a dataclass; the folder is made. A field that is empty and has a default is left out;
    ``items_apart`` gives a line to each item of a list. CheckpointError if it cannot be written.
    """
    make_folder(path.parent)
    optional = {
        field.name
        for field in fields(file)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    }
    lines = []
    for name, value in vars(file).items():
        if value or name not in optional:
            text = orjson.dumps(found := _plain(value))
            if items_apart and isinstance(found, list) and found:
                text = b"[\n" + b",\n".join(map(orjson.dumps, found)) + b"\n]"
            lines.append(orjson.dumps(name) + b":" + text)
    write_bytes(path, b"{" + b",\n".join(lines) + b"}\n")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return round(value, 5) + 0.0  # no -0.0
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def read_json(
    path: Path,
    file: type[File],
    make: Callable[[File], Record],
    *,
    what: str,
    version: int,
    within: Path | None = None,
) -> Record:
    """Read a file that says its ``format_version``, and ``make`` a record of the dataclass in it.

    ``what`` names its content in errors; a link must not leave the folder ``within``.
    CheckpointError if the file is damaged, foreign or of another version: also if ``make`` raises
    ValueError or KeyError.
    """
    try:
        content = read_bytes(path, within=within)
        found = format_version(content)
        if found == version:
            return make(validate_json(file, content))
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{path}: not {what}, or damaged ({error}); measure again") from error
    raise CheckpointError(
        f"{path}: format version {found!r}, this program reads {version}; measure again"
    )


MEASURES_VERSION = 2  # version of the format; raised when a name or a meaning changes
_NAME = re.compile(r"step-(\d{7})\.json")


@dataclass(frozen=True, kw_only=True)
class _File:
    """The JSON object in the file of a checkpoint; what is as in ``Measures`` is not explained."""

    format_version: int
    run: str
    step: int
    sha256: str
    distance_to: int | None
    corpus: _Corpus
    examples_corpus: _Corpus
    sentences_sha256: str
    values: dict[str, Mapping[Kind, Table]]
    cost_errors: dict[Kind, Table]
    alignment: AlignmentBaselines | None
    stages: dict[str, Number]
    examples: list[tuple[Kind, int, int, list[tuple[int, int, int, Number]]]]
    """Kind, layer, head, and the fields of its examples."""
    translated: list[_TranslatedRow]
    # These are left out where there are none, as in older files.
    own: dict[str, OwnMeasure] = field(default_factory=dict)
    errors: dict[str, Mapping[Kind, Table]] = field(default_factory=dict)
    even: dict[str, Mapping[Kind, Number]] = field(default_factory=dict)
    stage_errors: dict[str, Number] = field(default_factory=dict)
    detection: object = None
    """How well figures found targets of other sentences, in older files; it is not read."""


_AS_THEY_ARE = ("run", "step", "sha256", "distance_to", "cost_errors", "alignment", "own", "even")
"""Fields that are the same in ``Measures``."""


@dataclass(frozen=True)
class _Corpus:
    """A ``CorpusSummary`` in the file, which calls its number of tokens ``pieces``."""

    name: str
    sha256: str
    sentences: int
    pieces: int


class _TranslatedRow(NamedTuple):
    """A translation, its chrF, and figures of it; those of ``FAILURES`` and others.

    Figures with null as default are in some older files only, but for the source's contribution.
    """

    translation: str
    chrf: Annotated[float, Field(ge=0, le=100)]
    log_probability: Number
    least_attended: Number | None = None
    left_out: Number | None = None
    repetition: Number | None = None
    source_contribution: Number = nan
    wass_to_unif: Number | None = None
    wass_to_data: Number | None = None
    wass_combo: Number | None = None
    unaligned: Number | None = None
    combined: Number | None = None


def measures_path(folder: Path, step: int) -> Path:
    return folder / "measures" / f"step-{step:07d}.json"


def _sentences_path(folder: Path) -> Path:
    return folder / "measures" / "sentences.jsonl"


def measured_steps(folder: Path) -> list[int]:
    matches = (_NAME.fullmatch(path.name) for path in (folder / "measures").glob("step-*.json"))
    return sorted(int(match[1]) for match in matches if match)


# --- writing -------------------------------------------------------------------------------------


def write_measures(folder: Path, measures: Measures) -> None:
    """Write the measures of a checkpoint into a run's folder, in place of any that were there.

    CheckpointError if they cannot be. ValueError if a name is unknown or a value out of range.
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
        corpus=_Corpus(*vars(measures.corpus).values()),
        examples_corpus=_Corpus(*vars(measures.examples_corpus).values()),
        sentences_sha256=hashlib.sha256(lines).hexdigest(),
        examples=[
            (*head, [(e.sentence, e.query, e.key, e.weight) for e in examples])
            for head, examples in measures.examples.items()
        ],
        translated=[
            _TranslatedRow(t.translation, t.chrf, **t.figures) for t in measures.translated
        ],
        values={name: measures.values[name] for name in names},
        **{
            name: getattr(measures, name)
            for name in (*_AS_THEY_ARE, "stages", "errors", "stage_errors")
        },
    )
    write_json(measures_path(folder, measures.step), file)


# --- reading -------------------------------------------------------------------------------------


def read_measures(folder: Path, step: int) -> Measures:
    """Read the measures of a checkpoint; the caller compares their sha256 with the weights.

    CheckpointError if a file is missing, damaged, foreign, or of another version or sentences.
    """
    path = measures_path(folder, step)
    if not path.is_file():
        known = ", ".join(f"{s:,}" for s in measured_steps(folder)) or "none"
        raise CheckpointError(
            f"{path}: no measures of step {step:,}, there are those of: {known}; make them with "
            f"python -m headwise.viz_app.measure --run {shlex.quote(str(folder))}"
        )
    what, version = f"measures of step {step:,}", MEASURES_VERSION
    make = partial(_rebuild, folder, step)
    return read_json(path, _File, make, what=what, version=version, within=folder)


@lru_cache(maxsize=2)
def _sentences_in(content: bytes) -> tuple[Sentence, ...]:
    return tuple(validate_json(Sentence, line) for line in content.splitlines())


def _rebuild(folder: Path, step: int, file: _File) -> Measures:
    if file.step != step:
        raise ValueError(f"its step is {file.step}")
    require_own_names(file.own)
    names = (*MEASURES, *file.own)
    unknown = {
        k: np.broadcast_to(np.float32(np.nan), of.shape) for k, of in file.cost_errors.items()
    }
    given = dict.fromkeys((*SCORE_MEASURES, MEAN_ABLATION), unknown) | file.values
    values = {name: given[name] for name in names}
    errors = {name: file.errors[name] for name in names if name in file.errors}
    for name, about in file.own.items():
        about.require_range(name, values[name])
    of_heads = [*values.values(), file.cost_errors, *errors.values()]
    shapes = {kind: {of_kinds[kind].shape for of_kinds in of_heads} for kind in KINDS}
    for kind, found_shapes in shapes.items():
        if len(found_shapes) != 1:
            raise ValueError(f"{kind}: expected values of one shape, got {sorted(found_shapes)}")
    lines = read_bytes(_sentences_path(folder), within=folder)
    if hashlib.sha256(lines).hexdigest() != file.sentences_sha256:
        raise CheckpointError(
            f"{_sentences_path(folder)}: not the example sentences that were measured; measure "
            "this step again"
        )
    sentences = _sentences_in(lines)
    examples = {
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
        values=values,
        errors=errors,
        corpus=CorpusSummary(*vars(file.corpus).values()),
        examples_corpus=CorpusSummary(*vars(file.examples_corpus).values()),
        stages={name: file.stages.get(name, np.nan) for name in STAGES},
        stage_errors={n: file.stage_errors[n] for n in STAGES if n in file.stage_errors},
        sentences=sentences,
        examples=examples,
        translated=tuple(
            TranslatedSentence(
                row.translation, {name: getattr(row, name) for name in FAILURES}, row.chrf
            )
            for row in file.translated
        ),
        **{name: getattr(file, name) for name in _AS_THEY_ARE},
    )
