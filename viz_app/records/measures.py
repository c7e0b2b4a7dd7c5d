"""Measures of all heads of a checkpoint over a corpus, and its translations of example sentences.

``L`` layers, ``H`` heads. Layers, heads, sentences, rows and columns are counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headwise.model.interface import Head, Kind
from headwise.viz_app.records.trace import Floats

MEASURES = (
    "entropy",
    "confidence",
    "previous",
    "same",
    "next",
    "begin",
    "end",
    "punctuation",
    "rare",
    "cost",
    "gradient",
    "aer_predicted",
    "aer_consumed",
    "distance",
    "from_first",
    "velocity",
    "qk_norm",
    "qk_rank",
    "ov_rank",
)
"""Names of the measures of a head; ``analysis.measure_descriptions`` describes each and has
its formula."""
MeasureRange = Literal["share", "signed", "amount"]
"""Whether values are from 0 to 1, of either sign, or from 0 upwards."""
FAILURES = ("log_probability", "least_attended", "left_out", "repetition")
"""Names of the measures of how a translation may have failed; see ``analysis.failures``."""


CONTRIBUTIONS = ("source_contribution", "source_entropy", "prefix_entropy")
"""Names of the measures of what contributes to a checkpoint's predictions."""
STAGES = (
    *CONTRIBUTIONS,
    "language_model",
    "reordering",
    "chrf",
    "language_model_reference",
    "reordering_reference",
)
"""Names of the measures of a whole checkpoint; see ``analysis.stages``. The last two are of the
references in place of the translations, the same for all checkpoints."""


@dataclass(frozen=True)
class AlignmentBaselines:
    """Two alignment error rates are what those of heads are compared with."""

    lowest: float
    """The lowest that one link for each target word can reach."""
    diagonal: float
    """That of linking each target word to the source word with the same number."""


@dataclass(frozen=True)
class CorpusSummary:
    """A corpus is identified by its name and hash; the counts say how much of it was measured."""

    name: str
    sha256: str
    sentences: int
    tokens: int
    """Number of target tokens, ``</s>`` included."""


@dataclass(frozen=True)
class Example:
    """An example is a cell of a head's map in which the weight is large."""

    sentence: int
    """Index of the sentence among the example sentences."""
    query: int
    """Row of the map."""
    key: int
    """Column of the map."""
    weight: float


@dataclass(frozen=True)
class Sentence:
    """An example sentence has a reference translation, the forced target of its attention maps."""

    source: str
    reference: str


@dataclass(frozen=True)
class TranslatedSentence:
    """A checkpoint's greedy translation of an example sentence has figures of how it may fail."""

    translation: str
    figures: Mapping[str, float]
    """Figure for each name in ``FAILURES``; NaN where it has no meaning."""
    chrf: float
    """chrF against the reference (Popović 2015), from 0 to 100."""


@dataclass(frozen=True)
class Measures:
    """All measures of one checkpoint are held here, as in a file of the folder ``measures``."""

    run: str
    step: int
    sha256: str
    """The sha256 of the checkpoint's weights."""
    corpus: CorpusSummary
    """The corpus of ``values``; its references were forced as targets."""
    values: Mapping[str, Mapping[Kind, Floats]]
    """Name → kind → (L, H); NaN where a measure has no meaning for a kind."""
    cost_errors: Mapping[Kind, Floats]
    """Standard error of the measure ``cost``, (L, H), by a bootstrap over sentences."""
    alignment: AlignmentBaselines | None
    """None if the corpus has no reference alignments."""
    stages: Mapping[str, float]
    """Value for each name in ``STAGES``, of the checkpoint as a whole; NaN if it is unknown."""
    examples_corpus: CorpusSummary
    sentences: tuple[Sentence, ...]
    """The example sentences; the same for all checkpoints of a run."""
    examples: Mapping[Head, tuple[Example, ...]]
    """The largest weights of each head, at most one for each sentence, largest first."""
    translated: tuple[TranslatedSentence, ...]
    """The translations of ``sentences``, in the same order."""
    distance_to: int | None = None
    """Step of the checkpoint to which the measure ``distance`` is taken; None if unknown."""
