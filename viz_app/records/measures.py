"""What was measured of a run: its training curves, and over a corpus all heads of a checkpoint.

``L`` layers, ``H`` heads. Layers, heads, sentences, rows and columns are counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, Stack
from headwise.viz_app.records.trace import Floats

MeasureRange = Literal["share", "signed", "amount"]  # 0 to 1, any, from 0
_ROUNDING = 1e-5  # how far a value may be beyond its range
MOST_NOTE = 500  # most letters of what is said of such a measure
FAILURES = ("log_probability", "source_contribution")  # of each the smallest is the worst
_LETTERS = 4  # fewest letters of a word that these look for in the source


def has_enough_letters(word: str) -> bool:
    """Return whether a source word has at least four letters. Shorter ones are mostly those that
    another language may do without; of the longer ones, too, many are function words.
    """
    return sum(map(str.isalpha, word)) >= _LETTERS


@dataclass(frozen=True)
class OwnMeasure:
    """A measure that somebody added to ours is described for people by these texts."""

    note: str  # what a value says, in a sentence
    range: MeasureRange = "amount"

    def __post_init__(self) -> None:
        if not 0 < len(self.note) <= MOST_NOTE:
            raise ValueError(
                f"expected a sentence of at most {MOST_NOTE} letters about a measure, got "
                f"{len(self.note)}"
            )

    def require_range(self, name: str, values: Mapping[Kind, Floats]) -> None:
        """Refuse, by a ValueError, values that a measure of this range cannot have."""
        least, most = (0.0 if self.range != "signed" else -np.inf), np.inf
        most = 1.0 if self.range == "share" else most
        found = np.concatenate([of_kind.ravel() for of_kind in values.values()])
        found = found[~np.isnan(found)]
        if found.size and (found.min() < least - _ROUNDING or found.max() > most + _ROUNDING):
            raise ValueError(
                f"measure {name!r}: expected values of the range {self.range!r}, got "
                f"{found.min():.3g} to {found.max():.3g}; give another in ranges"
            )


@dataclass(frozen=True)
class Curve:
    """A curve holds one logged quantity: its steps (n,), rising, and values (n,), all finite."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class OverfittingOnset:
    """Overfitting begins: validation loss rises from here on while train loss goes on falling."""

    step: int  # the milestone with the lowest validation loss
    loss: float  # the validation loss there, in nats per token
    last: int  # the last milestone at which validation loss was measured


@dataclass(frozen=True)
class DataChange:
    """Training pairs are changed from a step on, so that they are harder than those before."""

    step: int  # the first step of which the pairs are changed
    before: float  # of training batches in the last row before it, in nats per token
    after: float  # that in the first row all of whose steps are after it
    what: str = ""  # what is done to the pairs: "joined pairs and replaced names"

    def __str__(self) -> str:
        moved = "rises" if self.after > self.before else "goes"
        return (
            f"from step {self.step:,} on it trains with {self.what}, and the loss of training "
            f"batches {moved} from {self.before:.2f} to {self.after:.2f}"
        )


@dataclass(frozen=True)
class RunCurves:
    """All curves of one run are held here under the names that its log uses."""

    name: str
    curves: Mapping[str, Curve]
    raw: Mapping[str, Curve] = field(default_factory=dict)  # unsmoothed, of those smoothed
    intervals: Mapping[str, tuple[Curve, Curve]] = field(default_factory=dict)
    """Where the 95% intervals of scores begin and end, by the names of their curves."""
    overfitting: OverfittingOnset | None = None  # None if the run does not overfit
    batches: str = "training batches"
    """Of what ``train_loss`` is the mean: "training batches, with label smoothing 0.1"."""
    change: DataChange | None = None  # None if there is none yet


@dataclass(frozen=True)
class AlignmentBaselines:
    """Two alignment error rates are what those of heads are compared with."""

    lowest: float  # the lowest that one link for each target word can reach
    diagonal: float  # that of linking each target word to the source word with the same number


@dataclass(frozen=True)
class CorpusSummary:
    """A corpus is identified by its name and hash; the counts say how much of it was measured."""

    name: str
    sha256: str
    sentences: int
    tokens: int  # number of target tokens, ``</s>`` included


@dataclass(frozen=True)
class Example:
    """An example is a cell of a head's map in which the weight is large."""

    sentence: int  # index of the sentence among the example sentences
    query: int  # row of the map
    key: int  # column of the map
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
    figures: Mapping[str, float]  # by ``FAILURES``; NaN where it has no meaning
    chrf: float  # chrF against the reference (Popović 2015), from 0 to 100


@dataclass(frozen=True)
class StrongestPositions:
    """Where the neurons of a stack are strongest, (L, F, N): L layers, F = d_ff, N places each.

    The strongest comes first, at most one of a sentence. The activation, what the feed-forward's
    second layer is given, may be negative; where it is 0 there is no place.
    """

    sentence: NDArray[np.int64]  # index among the sentences
    position: NDArray[np.int64]
    """Source token, or row of the decoder, which consumes that target token."""
    activation: Floats


@dataclass(frozen=True)
class StrongestSentences:
    """The sentences of a corpus in which the neurons of one checkpoint are strongest."""

    run: str
    step: int
    sha256: str  # the sha256 of the checkpoint's weights
    corpus: CorpusSummary  # its references were forced as targets
    sentences: tuple[Sentence, ...]  # those that are named
    stacks: Mapping[Stack, StrongestPositions]


@dataclass(frozen=True)
class Measures:
    """All measures of one checkpoint are held here, as in a file of the folder ``measures``."""

    run: str
    step: int
    sha256: str  # the sha256 of the checkpoint's weights
    corpus: CorpusSummary  # the corpus of ``values``; its references were forced as targets
    values: Mapping[str, Mapping[Kind, Floats]]  # name → kind → (L, H); NaN without meaning
    cost_errors: Mapping[Kind, Floats]
    """Standard error of the measure ``cost``, (L, H), by a bootstrap over sentences."""
    alignment: AlignmentBaselines | None  # None if the corpus has no reference alignments
    stages: Mapping[str, float]  # of the checkpoint as a whole, by name; NaN if unknown
    examples_corpus: CorpusSummary
    sentences: tuple[Sentence, ...]  # the example sentences; the same for all checkpoints of a run
    examples: Mapping[Head, tuple[Example, ...]]  # largest weights, one a sentence at most
    translated: tuple[TranslatedSentence, ...]  # ``sentences``, in order
    own: Mapping[str, OwnMeasure] = field(default_factory=dict)  # not Headwise's
    errors: Mapping[str, Mapping[Kind, Floats]] = field(default_factory=dict)
    """Standard error of every measure over a corpus, as ``cost_errors``; empty if it is unknown."""
    even: Mapping[str, Mapping[Kind, float]] = field(default_factory=dict)
    """Of an even head: name → kind → value; empty if unknown."""
    stage_errors: Mapping[str, float] = field(default_factory=dict)
    """Standard error of each of ``stages``, by a bootstrap over sentences; empty if unknown."""
    distance_to: int | None = None  # step to which ``distance`` is taken; None if unknown
    translated_at: int | None = None  # whose translations are targets, without references
