"""What a run says of itself: ``run.json`` and ``counts.json`` as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.config import TrainingConfig, TransformerConfig, check_kinds, from_dict, to_dict

FORMAT_VERSION = 1
"""Of everything in a run's folder; other versions are refused."""
_MOST = 2**63 - 1
"""What an array of whole numbers holds."""
_LARGEST = {
    "n_layers": 1_000,
    "n_heads": 1_000,
    "d_k": 100_000,
    "d_model": 100_000,
    "d_ff": 1_000_000,
    "max_length": 1_000_000,
}
"""Far beyond what can be trained here; the app makes widgets and arrays of these sizes."""


@dataclass(frozen=True)
class DataSource:
    """Where a run's sentences come from; what its licence asks to be said."""

    name: str
    licence: str
    attribution: str
    train_file: str
    train_sha256: str
    train_pairs: int
    valid_file: str
    valid_sha256: str
    longest_source: int
    """Pieces of the longest source of the training data, ``</s>`` included."""

    def __post_init__(self) -> None:
        check_kinds(self)
        _check_counts(train_pairs=self.train_pairs, longest_source=self.longest_source)


@dataclass(frozen=True)
class RunInfo:
    """What ``run.json`` says."""

    name: str
    source_language: str
    target_language: str
    model: TransformerConfig
    training: TrainingConfig
    data: DataSource
    parameters: int
    tokenizer_sha256: Mapping[str, str]
    """File name → sha256, one file where the languages share a tokenizer."""

    def __post_init__(self) -> None:
        check_kinds(self)
        _check_counts(parameters=self.parameters)
        for name, largest in _LARGEST.items():
            size = getattr(self.model, name)
            if size is not None and size > largest:
                raise ValueError(f"{name}: expected at most {largest:,}, got {size!r:.20}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the format version first."""
        return {
            "format_version": FORMAT_VERSION,
            **vars(self),
            "model": to_dict(self.model),
            "training": to_dict(self.training),
            "data": to_dict(self.data),
            "tokenizer_sha256": dict(self.tokenizer_sha256),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunInfo:
        """Rebuild from ``to_json``.

        Raises:
            ValueError: on another format version, or on unknown or missing keys.
        """
        values = dict(values)
        version = values.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"format version {version!r}; this program reads {FORMAT_VERSION}, "
                "use the version of it that wrote the run"
            )
        for key, kind in (
            ("model", TransformerConfig),
            ("training", TrainingConfig),
            ("data", DataSource),
        ):
            if not isinstance(values.get(key), dict):
                raise ValueError(f"expected an object under '{key}'")
            values[key] = from_dict(kind, values[key])
        return from_dict(cls, values)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not 0 <= count <= _MOST:
            raise ValueError(f"{name}: expected a number from 0 to {_MOST:,}")


@dataclass(frozen=True)
class Counts:
    """How often each id occurs in the training data, by side."""

    source: list[int]
    target: list[int]

    def __post_init__(self) -> None:
        for counts in (self.source, self.target):
            if any(type(count) is not int or not 0 <= count <= _MOST for count in counts):
                raise ValueError("expected whole numbers from 0 on")
