"""All measures of a checkpoint as a whole, each declared once.

Those with ``of_batch`` are means over the corpus, with its references as targets; the others are of
the checkpoint's own translations of the example sentences (``stages.py``), as are those of the
references, which are the same for all checkpoints.

``B`` batch, ``L`` layers, ``n`` positions, ``D`` = d_model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import Seq2SeqModel
from headwise.viz_app.core.batches import PaddedIds, captured
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.inputs import MeasuredBatch
from headwise.viz_app.measuring.wording import plus_minus
from headwise.viz_app.records.trace import Floats

# Massive activations: a few numbers of the stream are far larger than most, at the same places in
# all sentences, and heads rest on the tokens that have them (Sun, Chen, Kolter and Liu 2024,
# section 2: magnitudes of a layer's output are compared with the median magnitude of its numbers).


@dataclass(frozen=True)
class LargestNumbers:
    """The largest number of each token, in the input of a stack and the output of each layer."""

    ratios: NDArray[np.float64]  # max |x| over the median of the layer, (L + 1, n); NaN if 0
    dimensions: NDArray[np.int64]  # where that number is, from 0, (L + 1, n)


def largest_numbers(stream: Floats) -> LargestNumbers:
    """Find the largest numbers of a stream, (L + 1, n, D)."""
    sizes = np.abs(stream).astype(np.float64)
    medians = np.median(sizes, axis=(1, 2))[:, None]
    ratios = sizes.max(axis=-1) / np.where(medians > 0, medians, np.nan)
    return LargestNumbers(ratios, sizes.argmax(axis=-1))


def largest_by_chance(count: int) -> float:
    """Return the ratio that the largest of ``count`` normally distributed |x| has to the median
    |x|: its median, at which all are below z with probability (2 Φ(z) − 1)^count = 1/2.
    """
    quantile = NormalDist().inv_cdf
    return quantile((1 + 0.5 ** (1 / count)) / 2) / quantile(0.75)


@torch.inference_mode()
def largest_ratios(model: Seq2SeqModel, ids: PaddedIds) -> dict[str, list[float]]:
    """Return the largest |x| over the median |x| of each of B sentences, targets forced, in the
    layer, or embedding, where it is most: by names of ``STREAM_SIZES``.
    """
    about = model.description
    points = {
        stack: [f"{stack}.embedding.output", *(f"{stack}.layers.{i}.output" for i in range(layers))]
        for stack, layers in (
            ("encoder", about.n_encoder_layers),
            ("decoder", about.n_decoder_layers),
        )
    }
    seen = captured(model, ids, chain(*points.values()))
    there = {"encoder": ids.is_source, "decoder": ids.is_predicted}
    found = {}
    for stack, of_stack in points.items():
        streams = torch.stack([seen[point][0] for point in of_stack], dim=1).float().cpu().numpy()
        rows = zip(streams, there[stack].cpu().numpy(), strict=True)  # (L + 1, n, D), (n,)
        with warnings.catch_warnings():  # of a stream of zeros only
            warnings.simplefilter("ignore", RuntimeWarning)
            found[f"largest_{stack}"] = [
                float(np.nanmax(largest_numbers(stream[:, kept]).ratios)) for stream, kept in rows
            ]
    return found


@dataclass(frozen=True)
class CheckpointMeasure:
    """A measure of a checkpoint: what it is for people, and how it is computed over a batch."""

    name: str
    note: str
    source: str  # where the measure comes from, and where this one differs
    formula: str  # in LaTeX
    words: str  # what ``{value}`` means, which may be as of a choice among ``{tokens}``
    form: str = ".3f"  # how its standard error is written
    reference: str | None = None  # in ``STAGES``, of the references, if it has a meaning
    of_batch: Callable[[MeasuredBatch], Tensor] | None = None  # (B, n); NaN does not count


def _of_predictions(batch: MeasuredBatch, name: str) -> Tensor:
    """Return a figure of each prediction, (B, T)."""
    values: Tensor = getattr(batch.once(contributions), name)
    return values.masked_fill(~batch.ids.is_predicted, math.nan)


def _of_sentences(batch: MeasuredBatch, name: str) -> Tensor:
    """Return the largest number of each sentence, (B, 1)."""
    return torch.tensor(batch.once(largest_ratios)[name], device=batch.model.device)[:, None]


DRAWN: Mapping[str, CheckpointMeasure] = {
    "language_model": CheckpointMeasure(
        "log-probability as text",
        "Mean log-probability of the translations' tokens under a small language model of the "
        "target language, which knows nothing of the source: the nearer to 0, the more they read "
        "like other sentences of that language.",
        "Voita, Sennrich and Titov (2021b) take n-gram models of two to five words; this one is of "
        "three tokens, smoothed after Witten and Bell (1991).",
        r"\overline{\ln p(y_t \mid y_{t-2}\, y_{t-1})}",
        "log-probability as text: {value:.2f} nats per token, as of a choice among {tokens:,.0f} "
        "tokens that are equally likely",
        reference="language_model_reference",
    ),
    "source_contribution": CheckpointMeasure(
        "share of the source",
        "How much of a prediction comes from the source and not from the target so far, while the "
        "corpus's translations are forced.",
        "ALTI+ (Ferrando et al. 2022) through all layers; Voita, Sennrich and Titov (2021a) ask "
        "the same by relevance propagation.",
        r"\overline{\textstyle\sum_j r_{tj}} \quad j \in \text{source}",
        "share of the source: {value:.2f} of a prediction, the rest is of the target so far",
        of_batch=partial(_of_predictions, name="source_contribution"),
    ),
    "source_entropy": CheckpointMeasure(
        "spread over the source",
        "How evenly the share of the source is spread over its tokens: 1 is the same for each, 0 "
        "all on one.",
        "Entropy of these shares, over the largest possible one, as in Voita, Sennrich and Titov "
        "(2021a).",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{source tokens}",
        "spread over the source: {value:.2f} of the largest possible entropy",
        of_batch=partial(_of_predictions, name="source_entropy"),
    ),
    "prefix_entropy": CheckpointMeasure(
        "spread over the target so far",
        "The same for the rest of a prediction, which comes from the tokens of the target before "
        "it.",
        "As for the source.",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{target tokens so far}",
        "spread over the target so far: {value:.2f} of the largest possible entropy",
        of_batch=partial(_of_predictions, name="prefix_entropy"),
    ),
    "largest_encoder": CheckpointMeasure(
        "largest number in the encoder",
        "The largest |x| in the encoder's stream over the median |x| of the same layer, of the "
        "layer where that is most; the mean over the sentences of the corpus.",
        "Massive activations: Sun, Chen, Kolter and Liu (2024), who look at one layer of one "
        "sentence at a time.",
        r"\overline{\max_l \frac{\max_{i,d} |x^l_{id}|}{\mathrm{median}_{i,d}\, |x^l_{id}|}}",
        "largest number in the encoder: {value:.1f} times the median",
        of_batch=partial(_of_sentences, name="largest_encoder"),
    ),
    "largest_decoder": CheckpointMeasure(
        "largest number in the decoder",
        "The same of the decoder's stream, while the corpus's translations are forced.",
        "As for the encoder.",
        r"\overline{\max_l \frac{\max_{t,d} |x^l_{td}|}{\mathrm{median}_{t,d}\, |x^l_{td}|}}",
        "largest number in the decoder: {value:.1f} times the median",
        of_batch=partial(_of_sentences, name="largest_decoder"),
    ),
    "chrf": CheckpointMeasure(
        "chrF",
        "Runs of up to six characters that the translations have in common with the references: "
        "100 is all of them.",
        "Popović (2015), as sacrebleu computes it, over all sentences together.",
        r"100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} \quad \beta = 2",
        "chrF {value:.1f} of 100 against the references",
        form=".1f",
    ),
    "reordering": CheckpointMeasure(
        "order of the source",
        "Share of neighbours in the source's order of a translation's words that are neighbours in "
        "the translation too: 1 goes through the source word by word, lower values reorder more.",
        "The fuzzy reordering score of Talbot et al. (2011), as Voita, Sennrich and Titov (2021b) "
        "take it. Words are linked by a head of the last checkpoint, not by an aligner: the one "
        "with the lowest alignment error or, without a reference, that reaches most source words. "
        "While a checkpoint does not translate yet, the links mean little.",
        r"1 - \frac{C - 1}{M - 1} \quad \begin{aligned} M &= \text{words} \\ "
        r"C &= \text{chunks in the order of the source} \end{aligned}",
        "order of the source: {value:.2f} of neighbouring words stay neighbours",
        reference="reordering_reference",
    ),
}
"""Those that are drawn, from what a training learns first. The translations are greedy ones."""
OF_CORPUS = tuple(name for name, measure in DRAWN.items() if measure.of_batch)
"""Those over the corpus. Files from before ``STREAM_SIZES`` were measured have none of them."""
STREAM_SIZES = ("largest_encoder", "largest_decoder")
STAGES = (
    *OF_CORPUS,
    *(name for name in DRAWN if name not in OF_CORPUS),
    *(measure.reference for measure in DRAWN.values() if measure.reference),
)


def describe_stage(name: str, value: float, error: float = math.nan) -> str:
    """Say in words what a value of a measure means for a checkpoint; NaN gives “no value”.

    Its standard error stands behind, if it is known.
    """
    if name not in DRAWN:
        raise ValueError(f"name: expected one of {', '.join(DRAWN)}, got {name!r}")
    measure = DRAWN[name]
    if math.isnan(value):
        return f"{measure.name}: no value"
    said = measure.words.format(value=value, tokens=math.exp(-value))
    beside = plus_minus(error, measure.form).strip()
    return f"{said} ({beside})" if beside else said
