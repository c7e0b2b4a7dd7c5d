"""Measures, and accuracy on pairs, as if a run of two layers of three heads had been measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headwise.model.interface import KINDS, Kind, Stack
from headwise.viz_app.measuring.checkpoint_measures import STAGES
from headwise.viz_app.measuring.head_measures import MEASURES, RESAMPLED
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import HeadMeans, Resamples
from headwise.viz_app.records.measures import (
    FAILURES,
    AlignmentBaselines,
    CorpusSummary,
    Example,
    Measures,
    Sentence,
    StrongestPositions,
    StrongestSentences,
    TranslatedSentence,
)
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs, PairScores
from headwise.viz_app.records.trace import Floats

SENTENCES = (
    Sentence("The cats don't see the dog.", "Los gatos no ven al perro."),
    Sentence("Where is the <b>old</b> dog?", "¿Dónde está el perro viejo?"),
)


def made_up_measures(step: int = 20, **changes: Any) -> Measures:
    """Measures of a checkpoint, of random numbers; </s> has none in the decoder."""
    random = np.random.default_rng(step)
    values: dict[str, dict[Kind, Floats]] = {
        name: {kind: random.random((2, 3)).astype(np.float32) for kind in KINDS}
        for name in MEASURES
    }
    values["end"]["decoder_self"] = np.full((2, 3), np.nan, np.float32)
    values["cost"]["cross"] -= 0.5
    heads = [(kind, layer, head) for kind in KINDS for layer in range(2) for head in range(3)]
    made = Measures(
        run="tiny",
        step=step,
        sha256="5ha",
        corpus=CorpusSummary("six <sentences>", "5ha", 600, 7_000),
        values=values,
        cost_errors={kind: np.full((2, 3), 0.05, np.float32) for kind in KINDS},
        alignment=AlignmentBaselines(lowest=0.06, diagonal=0.61),
        stages={name: place / 8 for place, name in enumerate(STAGES)},
        examples_corpus=CorpusSummary("some", "5ha", 2, 19),
        sentences=SENTENCES,
        examples={
            head: (Example(1, 3, 1, 0.9), Example(0, 1, 1, 0.4)) if head[1] else ()
            for head in heads
        },
        translated=tuple(
            TranslatedSentence(
                f"_{place}_", {name: random.random() for name in FAILURES}, chrf=50.0 * place
            )
            for place in range(2)
        ),
        distance_to=60,
    )
    return replace(made, **changes)


def made_up_means(step: int = 20, **changes: Any) -> HeadMeans:
    """Means of heads' outputs at a checkpoint, of random numbers; d_k is 5."""
    random = np.random.default_rng(step)
    means: dict[Kind, Floats] = {
        kind: random.standard_normal((2, 3, 5)).astype(np.float32) for kind in KINDS
    }
    corpus = CorpusSummary("six <sentences>", "5ha", 600, 7_000)
    return replace(HeadMeans("tiny", step, "5ha", corpus, means), **changes)


def made_up_costs(step: int = 20, **changes: Any) -> SentenceCosts:
    """Costs of four sentences at a checkpoint, of random numbers; those of the first are 0."""
    random = np.random.default_rng(step)
    costs: dict[Kind, Floats] = {
        kind: random.standard_normal((4, 2, 3)).astype(np.float16) for kind in KINDS
    }
    for of_kind in costs.values():
        of_kind[0] = 0
    made = SentenceCosts(
        run="tiny",
        step=step,
        sha256="5ha",
        corpus=CorpusSummary("six <sentences>", "5ha", 600, 7_000),
        places=np.array([0, 1, 2, 5], np.int32),
        tokens=np.array([9, 7, 8, 4], np.int32),
        costs=costs,
    )
    return replace(made, **changes)


def made_up_resamples(step: int = 20, **changes: Any) -> Resamples:
    """Deviations of every measure on five resamples at a checkpoint, of random numbers."""
    random = np.random.default_rng(step)
    shape = (len(RESAMPLED), 5, 2, 3)
    deviations: dict[Kind, Floats] = {
        kind: (random.standard_normal(shape) / 20).astype(np.float16) for kind in KINDS
    }
    corpus = CorpusSummary("six <sentences>", "5ha", 600, 7_000)
    return replace(Resamples("tiny", step, "5ha", corpus, deviations), **changes)


def made_up_neurons(step: int = 20, **changes: Any) -> StrongestSentences:
    """Two places of each of seven neurons in two layers a stack; the first is never active."""
    random = np.random.default_rng(step)
    stacks: dict[Stack, StrongestPositions] = {}
    for stack, sentence in (("encoder", 0), ("decoder", 1)):
        activation = random.integers(-9, 9, (2, 7, 2)).astype(np.float32) / 4
        activation[0, 0] = 0
        stacks[stack] = StrongestPositions(
            sentence=np.broadcast_to([sentence, 1 - sentence], (2, 7, 2)).astype(np.int64),
            position=random.integers(0, 3, (2, 7, 2)),
            activation=activation,
        )
    made = StrongestSentences(
        run="tiny",
        step=step,
        sha256="5ha",
        corpus=CorpusSummary("six <sentences>", "5ha", 600, 7_000),
        sentences=SENTENCES,
        stacks=stacks,
    )
    return replace(made, **changes)


# Accuracy on pairs


PAIRS = (
    ContrastivePair("The old dog.", "El perro viejo.", "El perro vieja.", "gender"),
    ContrastivePair("The old cat.", "La gata vieja.", "La gata viejo.", "gender"),
    ContrastivePair("He does not see.", "No ve.", "Ve <b>.", "negation"),
    ContrastivePair("He sees.", "Ve.", "No ve.", "negation"),
)
MARGINS = {0: (-1.0, 1.0, -2.0, 0.0), 20: (1.5, 0.5, -0.25, 2.0)}
"""By how many nats the right target is likelier: right in 1, tied in 1; then right in 3 of 4."""


def made_up_pairs(sha256: Mapping[int, str] | str = "5ha", **changes: Any) -> MeasuredPairs:
    """Make the accuracy of two checkpoints, 0 and 20; without cross 2.3 no pair is right at 20."""
    checkpoints = {
        step: PairScores(
            step,
            sha256 if isinstance(sha256, str) else sha256[step],
            np.array([-7.5 + margin for margin in margins]),
            np.full(len(margins), -7.5),
        )
        for step, margins in MARGINS.items()
    }
    outcomes = np.array([1, 1, 0, 1], np.float32)
    without = {kind: np.tile(outcomes, (2, 3, 1)) for kind in KINDS}
    without["cross"][1, 2] = 0
    without["encoder_self"][0, 0] = [1, 0.5, 0, 1]
    measured = MeasuredPairs("tiny", "four.jsonl", PAIRS, checkpoints, 20, without)
    return replace(measured, **changes)
