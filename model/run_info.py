"""Frozen dataclasses hold the contents of ``run.json`` and ``counts.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from headwise.model.config import TrainingConfig, TransformerConfig, from_dict, to_dict

FORMAT_VERSION = 1
"""Version of the format of a run's folder; other versions are refused."""
_Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A count that fits into int64."""
_LARGEST = {
    "n_encoder_layers": 1_000,
    "n_decoder_layers": 1_000,
    "n_heads": 1_000,
    "d_k": 100_000,
    "d_model": 100_000,
    "d_ff": 1_000_000,
    "max_length": 1_000_000,
}
"""Largest sizes that are accepted; the app makes widgets and arrays of these sizes."""


@dataclass(frozen=True)
class DataSource:
    """The data that a run was trained on, with licence and attribution."""

    name: str
    licence: str
    attribution: str
    train_file: str
    train_sha256: str
    train_pairs: _Count
    valid_file: str
    valid_sha256: str
    longest_source: _Count
    """Most tokens of a training source, ``</s>`` included; of joined pairs, the most allowed."""
    held_back: _Count = 0
    """Number of pairs that were held back from the training file and are the validation file, which
    is then in the run's folder; 0 if that is another file."""
    left_out: _Count = 0
    """Number of pairs of the training file that were left out because a text of them is in data
    that the model must not have seen."""


@dataclass(frozen=True)
class RunInfo:
    """The contents of ``run.json``."""

    name: str
    source_language: str
    target_language: str
    model: TransformerConfig
    training: TrainingConfig | None
    """None if the run was converted from a file that does not say how it was trained."""
    data: DataSource | None
    """None if the run was converted from a file that does not say what it was trained on."""
    parameters: _Count
    tokenizer_sha256: Mapping[str, str]
    """sha256 of each tokenizer file, by name; one file if the languages share a tokenizer."""
    source_start: bool = False
    """Whether each source begins with ``<s>``."""

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            size = getattr(self.model, name)
            if size is not None and size > largest:
                raise ValueError(f"{name}: expected at most {largest:,}, got {size!r:.20}")

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON values, the format version first."""
        return {"format_version": FORMAT_VERSION, **to_dict(self)}

    @classmethod
    def from_json(cls, values: object) -> RunInfo:
        """Rebuild from the output of ``to_json``; what is refused is a ValueError."""
        if not isinstance(values, Mapping):
            raise ValueError(f"expected an object, got {type(values).__name__}")
        values = dict(values)
        if (version := values.pop("format_version", None)) != FORMAT_VERSION:
            raise ValueError(
                f"format version {version!r}; this program reads {FORMAT_VERSION}, "
                "use the version of it that wrote the run"
            )
        return from_dict(cls, values)


@dataclass(frozen=True)
class Counts:
    """Counts how often each id occurs in the training data, for each side."""

    source: list[_Count]
    target: list[_Count]
