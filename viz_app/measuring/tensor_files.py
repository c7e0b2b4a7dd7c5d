"""Records of a checkpoint in files of their own beside its measures, in safetensors.

The tensors of most are the arrays of the record, under the names of fields, or of kinds of
attention; the header says which checkpoint, on what it was measured, and has a checksum of all
that. Those of the strongest sentences of neurons, ``neurons-0000000.safetensors``, are for each
stack sentence, position and activation, (layers, d_ff, examples); all else is in the header.

``L`` layers, ``H`` heads, ``K`` = d_k.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.interface import KINDS, Head, Kind, Stack
from headwise.model.validation import validate_json
from headwise.model.weights import sha256_of_tensors
from headwise.viz_app.core.record import Record, array_fields
from headwise.viz_app.measuring.head_measures import RESAMPLED, SCORE_MEASURES
from headwise.viz_app.records.measures import (
    CorpusSummary,
    Sentence,
    StrongestPositions,
    StrongestSentences,
)
from headwise.viz_app.records.trace import Floats

MOST_OF_TENSORS = 48 * 2**20  # bytes; resamples of the 1,152 heads of a large model have 27 million
VERSION = 1  # version of the formats; raised when a name or a meaning changes
_ERRORS = (SafetensorError, ValueError, KeyError, TypeError, AttributeError)  # of damaged files


@dataclass(frozen=True)
class _Header:
    """What the header of a file says, as JSON, besides the names and shapes of its tensors."""

    format_version: int
    run: str
    step: int
    sha256: str
    corpus: CorpusSummary

    def require(self, step: int) -> None:
        """Refuse, by a ValueError, a file of another version or step."""
        if (self.format_version, self.step) != (VERSION, step):
            raise ValueError(
                f"expected format version {VERSION} and step {step}, got "
                f"{self.format_version} and {self.step}"
            )


@dataclass(frozen=True)
class CheckpointRecord(Record):
    """Arrays that were measured of a checkpoint over a corpus, whose references were forced.

    A subclass has arrays, and for each kind of attention one of those that are in mappings.
    """

    what: ClassVar[str]  # what they are: in the name of the file, and in errors
    may_be_nan: ClassVar[bool] = False

    run: str
    step: int
    sha256: str  # the sha256 of the checkpoint's weights
    corpus: CorpusSummary

    @classmethod
    def path(cls, folder: Path, step: int) -> Path:
        return folder / "measures" / f"step-{step:07d}.{cls.what}.safetensors"

    def write(self, folder: Path) -> None:
        """Write the record into a run's folder, in place of any that was there.

        CheckpointError if it cannot be written.
        """
        path = self.path(folder, self.step)
        make_folder(path.parent)
        tensors: dict[str, NDArray[Any]] = {}
        for name in array_fields(type(self)):
            value = getattr(self, name)
            tensors |= {k: value[k] for k in KINDS} if isinstance(value, Mapping) else {name: value}
        header = _Header(VERSION, self.run, self.step, self.sha256, self.corpus)
        about = orjson.dumps(asdict(header)).decode()
        tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        metadata = {"about": about, "sha256": _sha256(about, tensors)}
        write_bytes(path, safetensors.numpy.save(tensors, metadata))

    @classmethod
    def read(cls, folder: Path, step: int) -> Self | None:
        """Read the record of a checkpoint, whose sha256 and shapes the caller compares; None if
        there is none. CheckpointError if the file is damaged, foreign or of another version.
        """
        path = cls.path(folder, step)
        if not path.exists():
            return None
        try:
            return cls._of(read_bytes(path, most=MOST_OF_TENSORS), step)
        except _ERRORS as error:
            raise CheckpointError(
                f"{path}: not the {cls.what} of step {step:,}, or damaged ({error}); measure again"
            ) from error

    @classmethod
    def _of(cls, content: bytes, step: int) -> Self:
        tensors = safetensors.numpy.load(content)
        length = int.from_bytes(content[:8], "little")
        metadata: dict[str, str] = orjson.loads(content[8 : 8 + length])["__metadata__"]
        header = validate_json(_Header, metadata["about"])
        header.require(step)
        names = {
            name: KINDS if any(axis.endswith("*") for axis in axes) else (name,)
            for name, (axes, _) in array_fields(cls).items()
        }
        ordered = [each for of_field in names.values() for each in of_field]
        if set(tensors) != set(ordered):
            raise ValueError(
                f"expected tensors {', '.join(ordered)}, got {', '.join(sorted(tensors))}"
            )
        if metadata.get("sha256") != _sha256(metadata["about"], {n: tensors[n] for n in ordered}):
            raise ValueError("its sha256 is not that of its content")
        arrays: dict[str, Any] = {}
        for name, (_, dtype) in array_fields(cls).items():
            found = {each: cls._checked(each, tensors[each], dtype) for each in names[name]}
            arrays[name] = found.get(name, found)
        return cls(header.run, header.step, header.sha256, header.corpus, **arrays)

    @classmethod
    def _checked(cls, name: str, array: NDArray[Any], dtype: np.dtype[Any] | None) -> NDArray[Any]:
        """Return an array as one that cannot be changed, if its numbers are as they should be."""
        odd = np.isinf(array) if cls.may_be_nan else ~np.isfinite(array)
        if array.dtype != dtype or odd.any():
            raise ValueError(f"{name}: expected finite numbers of type {dtype}")
        array.flags.writeable = False
        return array


def _sha256(about: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(about.encode())
    for array in tensors.values():
        digest.update(repr(array.shape).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class HeadMeans(CheckpointRecord):
    """The mean output of each head over a corpus, which mean ablation puts in place of its output.

    Wang et al. (2022) ablate a head by its mean output over a reference distribution; here that is
    the corpus on which a run is measured, and the mean is over all positions: the tokens of the
    sources in the encoder, the predicted tokens of the references, which are forced, in the
    decoder. Padding does not count.
    """

    what = "means"

    means: Mapping[Kind, Annotated[Floats, "L* H* K*"]]  # before W_O


@dataclass(frozen=True)
class Resamples(CheckpointRecord):
    """What each measure of each head is on resamples of a corpus, the same for all heads and
    checkpoints: the spread of a difference is its error (the paired bootstrap).
    """

    what = "resamples"
    may_be_nan = True

    deviations: Mapping[Kind, Annotated[NDArray[np.float16], "measure resample L* H*"]]
    """Of ``names``: value on a resample less the mean of all; NaN without a value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = (len(RESAMPLED), len(RESAMPLED) - len(SCORE_MEASURES))
        if len(self.deviations["cross"]) not in counts:
            raise ValueError(f"expected resamples of {counts[0]} measures of heads")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the measures that were resampled, those of ``RESAMPLED`` or its first ones."""
        return RESAMPLED[: len(self.deviations["cross"])]

    def of(self, name: str, head: Head) -> NDArray[np.float64]:
        """Return the deviations of one measure of one head, (resamples,)."""
        of_kind = self.deviations[head.kind][RESAMPLED.index(name), :, head.layer, head.head]
        return of_kind.astype(np.float64)


_SIDES = {"sentence": np.int64, "position": np.int64, "activation": np.float32}


@dataclass(frozen=True)
class _About(_Header):
    sentences: list[tuple[str, str]]  # source and reference
    tensors_sha256: str


def neurons_path(folder: Path, step: int) -> Path:
    """Return the path of the strongest sentences of a checkpoint, in a run's folder."""
    return folder / "measures" / f"neurons-{step:07d}.safetensors"


def write_neurons(folder: Path, found: StrongestSentences) -> None:
    """Write the strongest sentences of a checkpoint into a run's folder, in place of earlier ones.

    CheckpointError if they cannot be written.
    """
    tensors = {
        f"{stack}.{side}": _small(array)
        for stack, places in found.stacks.items()
        for side, array in vars(places).items()
    }
    about = _About(
        format_version=VERSION,
        run=found.run,
        step=found.step,
        sha256=found.sha256,
        corpus=found.corpus,
        sentences=[(each.source, each.reference) for each in found.sentences],
        tensors_sha256=sha256_of_tensors(io.BytesIO(safetensors.numpy.save(tensors)))[0],
    )
    path = neurons_path(folder, found.step)
    make_folder(path.parent)
    header = {"about": orjson.dumps(about).decode()}
    write_bytes(path, safetensors.numpy.save(tensors, header))


def _small(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array in the shortest type that holds its numbers; they have 11 bits at most."""
    if array.dtype.kind == "f":
        fits = np.abs(array).max(initial=0) <= np.finfo(np.float16).max
        return array.astype(np.float16 if fits else np.float32, order="C")
    return array.astype(np.min_scalar_type(int(array.max(initial=0))), order="C")


def read_neurons(folder: Path, step: int) -> StrongestSentences:
    """Read the strongest sentences of a checkpoint; the caller compares their sha256.

    CheckpointError if the file is missing, damaged, foreign or of another version.
    """
    path = neurons_path(folder, step)
    content = read_bytes(path, most=MOST_OF_TENSORS)
    try:
        tensors = safetensors.numpy.load(content)
        sha256, metadata = sha256_of_tensors(io.BytesIO(content))
        about = validate_json(_About, metadata["about"])
        about.require(step)
        if about.tensors_sha256 != sha256:
            raise ValueError("its numbers were altered")
        stacks = {s: _positions(s, tensors, len(about.sentences)) for s in get_args(Stack)}
    except _ERRORS as error:
        raise CheckpointError(
            f"{path}: not the strongest sentences of step {step:,}, or damaged ({error}); measure "
            "them again"
        ) from error
    return StrongestSentences(
        run=about.run,
        step=step,
        sha256=about.sha256,
        corpus=about.corpus,
        sentences=tuple(Sentence(*texts) for texts in about.sentences),
        stacks=stacks,
    )


def _positions(
    stack: Stack, tensors: Mapping[str, NDArray[Any]], sentences: int
) -> StrongestPositions:
    arrays = {side: tensors[f"{stack}.{side}"].astype(dtype) for side, dtype in _SIDES.items()}
    shapes = [array.shape for array in arrays.values()]
    if len({*shapes}) > 1 or len(shapes[0]) != 3 or not np.isfinite(arrays["activation"]).all():
        raise ValueError(f"expected finite numbers of layers, d_ff and examples, got {shapes}")
    if not set(np.unique(arrays["sentence"])) <= set(range(sentences)):
        raise ValueError(f"expected places in {sentences} sentences, got one in another")
    for array in arrays.values():
        array.flags.writeable = False
    return StrongestPositions(**arrays)
