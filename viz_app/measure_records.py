"""What is measured of all heads of a checkpoint over a corpus.

``L`` layers, ``H`` heads. Layers, heads and rows count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viz_app.records import Floats, Head, Kind

MEASURES = (
    "entropy",
    "confidence",
    "previous",
    "same",
    "next",
    "begin",
    "end",
    "punctuation",
    "cost",
    "aer_predicted",
    "aer_consumed",
    "distance",
)
"""Names of the measures; what each means is said where they are computed."""
FAILURES = ("coverage", "repetition", "end", "log_probability")
"""Names of the measures of a translated sentence."""


@dataclass(frozen=True)
class Corpus:
    """What was measured on."""

    name: str
    sha256: str
    sentences: int
    pieces: int
    """Of the targets, ``</s>`` included."""


@dataclass(frozen=True)
class Example:
    """A place where a head's weight is large: a sentence, a row and a column of its map."""

    sentence: int
    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class Sentence:
    """A pair of the example sentences; the reference is the target of the maps of examples."""

    source: str
    reference: str


@dataclass(frozen=True)
class Translated:
    """How a checkpoint translates an example sentence, greedily, and how that may have failed."""

    translation: str
    figures: Mapping[str, float]
    """By the names of ``FAILURES``."""


@dataclass(frozen=True)
class Measures:
    """What was measured of one checkpoint."""

    run: str
    step: int
    sha256: str
    """Of the weights."""
    corpus: Corpus
    """Of the measures; their targets are its references."""
    values: Mapping[str, Mapping[Kind, Floats]]
    """Name → kind → (L, H); NaN where a measure has no meaning for a kind."""
    examples_corpus: Corpus
    sentences: tuple[Sentence, ...]
    """Those that examples and translations count; the same for all checkpoints of a run."""
    examples: Mapping[Head, tuple[Example, ...]]
    """The largest weights of each head, at most one a sentence, largest first."""
    translated: tuple[Translated, ...]
    """One a sentence."""
    distance_to: int | None = None
    """Step of the checkpoint that ``distance`` is measured to."""
