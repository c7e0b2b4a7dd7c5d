"""Descriptions of the measures of a whole checkpoint, which show the stages of a training.

``measuring.stages`` and ``measuring.contributions`` compute the measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StageDescription:
    """A measure of a checkpoint is described for people by these texts."""

    name: str
    note: str
    source: str
    """Where the measure comes from, and where this one differs."""
    formula: str
    """In LaTeX."""
    reference: str | None = None
    """Name in ``STAGES`` of the same measure of the references, if it has a meaning."""


STAGE_DESCRIPTIONS: Mapping[str, StageDescription] = {
    "language_model": StageDescription(
        "log-probability as text",
        "Mean log-probability of the translations' tokens under a small language model of the "
        "target language, which knows nothing of the source: the nearer to 0, the more they read "
        "like other sentences of that language.",
        "Voita, Sennrich and Titov (2021b) take n-gram models of two to five words; this one is of "
        "three tokens, smoothed after Witten and Bell (1991).",
        r"\overline{\ln p(y_t \mid y_{t-2}\, y_{t-1})}",
        reference="language_model_reference",
    ),
    "source_contribution": StageDescription(
        "share of the source",
        "How much of a prediction comes from the source and not from the target so far, while the "
        "corpus's translations are forced.",
        "ALTI+ (Ferrando et al. 2022) through all layers; Voita, Sennrich and Titov (2021a) ask "
        "the same by relevance propagation.",
        r"\overline{\textstyle\sum_j r_{tj}} \quad j \in \text{source}",
    ),
    "source_entropy": StageDescription(
        "spread over the source",
        "How evenly the share of the source is spread over its tokens: 1 is the same for each, 0 "
        "all on one.",
        "Entropy of these shares, over the largest possible one, as in Voita, Sennrich and Titov "
        "(2021a).",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{source tokens}",
    ),
    "prefix_entropy": StageDescription(
        "spread over the target so far",
        "The same for the rest of a prediction, which comes from the tokens of the target before "
        "it.",
        "As for the source.",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{target tokens so far}",
    ),
    "chrf": StageDescription(
        "chrF",
        "Runs of up to six characters that the translations have in common with the references: "
        "100 is all of them.",
        "Popović (2015), as sacrebleu computes it, over all sentences together.",
        r"100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} \quad \beta = 2",
    ),
    "reordering": StageDescription(
        "order of the source",
        "Share of neighbours in the source's order of a translation's words that are neighbours in "
        "the translation too: 1 goes through the source word by word, lower values reorder more.",
        "The fuzzy reordering score of Talbot et al. (2011), as Voita, Sennrich and Titov (2021b) "
        "take it. Words are linked by a head of the last checkpoint, not by an aligner: the one "
        "with the lowest alignment error or, without a reference, that reaches most source words. "
        "While a checkpoint does not translate yet, the links mean little.",
        r"1 - \frac{C - 1}{M - 1} \quad \begin{aligned} M &= \text{words} \\ "
        r"C &= \text{chunks in the order of the source} \end{aligned}",
        reference="reordering_reference",
    ),
}
"""Description of each name in ``STAGES``, from what a training learns first. The translations are
greedy ones of the example sentences."""


def describe_stage(name: str, value: float) -> str:
    """Say in words what a value of a measure means for a checkpoint; NaN gives “no value”.

    Raises:
        ValueError: if no words are written for the measure yet.
    """
    if name not in STAGE_DESCRIPTIONS:
        raise ValueError(f"name: expected one of {', '.join(STAGE_DESCRIPTIONS)}, got {name!r}")
    if math.isnan(value):
        return f"{STAGE_DESCRIPTIONS[name].name}: no value"
    if name == "language_model":
        return (
            f"log-probability as text: {value:.2f} nats per token, as of a choice among "
            f"{math.exp(-value):,.0f} tokens that are equally likely"
        )
    if name == "source_contribution":
        return f"share of the source: {value:.2f} of a prediction, the rest is of the target so far"
    if name in ("source_entropy", "prefix_entropy"):
        return f"{STAGE_DESCRIPTIONS[name].name}: {value:.2f} of the largest possible entropy"
    if name == "chrf":
        return f"chrF {value:.1f} of 100 against the references"
    return f"order of the source: {value:.2f} of neighbouring words stay neighbours"
