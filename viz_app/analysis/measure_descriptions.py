"""Descriptions of the measures of heads, and of whole checkpoints: names, sentences and formulas.

``measuring`` computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headwise.viz_app.analysis.labels import NO_SUM_NOTE, OFF_NOTE
from headwise.viz_app.records.measures import MeasureRange


@dataclass(frozen=True)
class MeasureDescription:
    """A measure of heads is described for people by these texts."""

    name: str
    note: str
    formula: str
    """In LaTeX: a_ij is the weight of query i on key j, a bar the mean over a corpus's queries."""
    range: MeasureRange = "share"
    form: str = ".2f"
    """How a value is written, as a format of Python's."""


_OF_SCORES = (
    "The rest is of what layers wrote, and of biases. Where terms cancel, one may be below 0 or "
    "above 1. It says what the scores are made of, not what the head is for: what a layer wrote "
    "may be of a position, or of a token, as well."
)


def _share_of_variance(part: str) -> str:
    """Return the formula of what a part of a query and the same part of a key explain."""
    return (
        rf"\frac{{\sum_i \mathrm{{cov}}_j(q_i({part})\, k_j({part}),\; s_{{ij}})}}"
        r"{\sum_i \mathrm{var}_j(s_{ij})}"
    )


MEASURE_DESCRIPTIONS: Mapping[str, MeasureDescription] = {
    "entropy": MeasureDescription(
        "entropy",
        "How evenly a row of weights is spread: 1 is the same for every key that the mask allows, "
        "0 all on one.",
        r"\begin{gathered} \overline{-\textstyle\sum_j a_{ij} \ln a_{ij} \,/\, \ln m_i} \\ "
        r"m_i = \text{allowed keys} \end{gathered}",
    ),
    "confidence": MeasureDescription(
        "confidence",
        "The largest weight of a row, whichever key it is on.",
        r"\overline{\max_j a_{ij}}",
    ),
    "previous": MeasureDescription(
        "previous token",
        "Weight on the key one place before the query; in cross-attention the source token one "
        "before that in the place of the predicted token.",
        r"\overline{a_{i,i-1}}",
    ),
    "same": MeasureDescription(
        "same token",
        "Weight on the key at the query's own place; in cross-attention the source token in the "
        "place of the predicted token.",
        r"\overline{a_{ii}}",
    ),
    "next": MeasureDescription(
        "next token",
        "Weight on the key one place after the query; in cross-attention the source token one "
        "after that in the place of the predicted token.",
        r"\overline{a_{i,i+1}}",
    ),
    "begin": MeasureDescription(
        "on <s>",
        "Weight on the token with which every target begins.",
        r"\overline{a_{ij}}\quad j = \texttt{<s>}",
    ),
    "end": MeasureDescription(
        "on </s>",
        "Weight on the token that ends the source.",
        r"\overline{a_{ij}}\quad j = \texttt{</s>}",
    ),
    "punctuation": MeasureDescription(
        "on punctuation",
        "Weight on punctuation marks, together.",
        r"\overline{\textstyle\sum_j a_{ij}}\quad j \in \text{punctuation}",
    ),
    "rare": MeasureDescription(
        "on the rarest token",
        "Share of rows whose largest weight is on the token that is rarest in the training data, "
        "of those that the row may attend to, special tokens aside (Voita et al. 2019).",
        r"\overline{[\arg\max_j a_{ij} = \arg\min_j n_j]}\quad n_j = \text{occurrences}",
    ),
    "cost": MeasureDescription(
        "cost of switching off",
        "Nats of log-probability that a token of the target loses when the head alone is off; "
        f"below zero it gains. {OFF_NOTE} {NO_SUM_NOTE}",
        r"\big(\ln p(y \mid x) - \ln p_{\text{off}}(y \mid x)\big) \,/\, |y|",
        range="signed",
        form="+.3f",
    ),
    "gradient": MeasureDescription(
        "importance by gradient",
        "What a token of the target would lose in nats, to first order, if the head were "
        "weakened: the derivative of the loss by a factor of the head's output, its size averaged "
        "over sentences (Michel et al. 2019).",
        r"\overline{\left|A^\top \frac{\partial L}{\partial A}\right|} \,/\, |y|\quad "
        r"A = \text{output of the head}",
        range="amount",
        form=".3f",
    ),
    **{
        f"aer_{by}": MeasureDescription(
            f"alignment error, by {by}",
            f"Each target word's heaviest source word, where its tokens are {by}, against a "
            "reference alignment: 0 agrees always, 1 never (Och and Ney 2003).",
            r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
        )
        for by in ("predicted", "consumed")
    },
    "distance": MeasureDescription(
        "distance to the last checkpoint",
        "Jensen-Shannon distance of the head's rows to the same rows at the run's last checkpoint: "
        "0 is the same, 1 has no key in common.",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{last}})}}",
    ),
    "from_first": MeasureDescription(
        "distance from the first checkpoint",
        "Jensen-Shannon distance of the head's rows to the same rows at the run's first "
        "checkpoint: 0 is the same, 1 has no key in common.",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{first}})}}",
    ),
    "velocity": MeasureDescription(
        "change since the checkpoint before",
        "Jensen-Shannon distance of the head's rows to the same rows at the checkpoint before, "
        "however many training steps lie between the two (a measure of ours).",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{before}})}}",
    ),
    "emergence": MeasureDescription(
        "emergence",
        "The first checkpoint at which the head is at least half as far from the first checkpoint "
        "as it is at the last (a measure of ours). It emerged by that checkpoint, and after the "
        "one before: what was between them is not known.",
        r"\min \left\{ s : d(s, \text{first}) \ge \tfrac{1}{2}\, "
        r"d(\text{last}, \text{first}) \right\}",
        range="amount",
        form=",.0f",
    ),
    "qk_norm": MeasureDescription(
        "norm of the scores' matrix",
        "The largest singular value of the matrix by which queries and keys are compared; the "
        "larger, the sharper the head can be (Zhai et al. 2023). From the weights alone.",
        r"\left\| W_Q W_K^\top / \sqrt{d_k} \right\|_2",
        range="amount",
    ),
    "qk_rank": MeasureDescription(
        "effective rank of the scores' matrix",
        "In how many directions queries and keys are compared, at most d_k: the exponential of the "
        "entropy of the singular values (Roy and Vetterli 2007). From the weights alone.",
        r"\exp H\!\left(\sigma(W_Q W_K^\top)\right)",
        range="amount",
        form=".1f",
    ),
    "ov_rank": MeasureDescription(
        "effective rank of what is copied",
        "Through how many directions a head passes on what it looks at, at most d_k: the "
        "exponential of the entropy of the singular values (Roy and Vetterli 2007). From the "
        "weights alone.",
        r"\exp H\!\left(\sigma(W_V W_O)\right)",
        range="amount",
        form=".1f",
    ),
    "by_position": MeasureDescription(
        "by position",
        "How much of what tells keys apart in a row of scores is what the query's position makes "
        "with the keys' positions, those that are added to scores included: 1 is all of it. "
        f"{_OF_SCORES}",
        _share_of_variance(r"p"),
        range="signed",
    ),
    "by_token": MeasureDescription(
        "by token",
        "How much of what tells keys apart in a row of scores is what the query's token makes with "
        "the keys' tokens, by their embeddings alone (turned by their positions, in a model that "
        f"turns queries and keys): 1 is all of it. {_OF_SCORES}",
        _share_of_variance(r"e"),
        range="signed",
    ),
    "by_both": MeasureDescription(
        "by token and position",
        "How much of what tells keys apart in a row of scores is what the query's token makes with "
        f"the keys' positions, and its position with their tokens. {_OF_SCORES}",
        r"\frac{\sum_i \mathrm{cov}_j(q_i(e)\, k_j(p) + q_i(p)\, k_j(e),\; s_{ij})}"
        r"{\sum_i \mathrm{var}_j(s_{ij})}",
        range="signed",
    ),
}
"""Description of each name in ``MEASURES``, and of the emergence of a head, which is found from
all checkpoints. Rows with only one allowed key never count."""


@dataclass(frozen=True)
class StageDescription:
    """A measure of a checkpoint is described for people by these texts."""

    name: str
    note: str
    source: str
    """Where the measure comes from, and where this one differs."""
    formula: str
    """In LaTeX."""
    words: str
    """What ``{value}`` means, which may be as of a choice among ``{tokens}``."""
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
        "log-probability as text: {value:.2f} nats per token, as of a choice among {tokens:,.0f} "
        "tokens that are equally likely",
        reference="language_model_reference",
    ),
    "source_contribution": StageDescription(
        "share of the source",
        "How much of a prediction comes from the source and not from the target so far, while the "
        "corpus's translations are forced.",
        "ALTI+ (Ferrando et al. 2022) through all layers; Voita, Sennrich and Titov (2021a) ask "
        "the same by relevance propagation.",
        r"\overline{\textstyle\sum_j r_{tj}} \quad j \in \text{source}",
        "share of the source: {value:.2f} of a prediction, the rest is of the target so far",
    ),
    "source_entropy": StageDescription(
        "spread over the source",
        "How evenly the share of the source is spread over its tokens: 1 is the same for each, 0 "
        "all on one.",
        "Entropy of these shares, over the largest possible one, as in Voita, Sennrich and Titov "
        "(2021a).",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{source tokens}",
        "spread over the source: {value:.2f} of the largest possible entropy",
    ),
    "prefix_entropy": StageDescription(
        "spread over the target so far",
        "The same for the rest of a prediction, which comes from the tokens of the target before "
        "it.",
        "As for the source.",
        r"\overline{-\textstyle\sum_j p_j \ln p_j \,/\, \ln m} \quad "
        r"p_j \propto r_{tj},\ m = \text{target tokens so far}",
        "spread over the target so far: {value:.2f} of the largest possible entropy",
    ),
    "largest_encoder": StageDescription(
        "largest number in the encoder",
        "The largest |x| in the encoder's stream over the median |x| of the same layer, of the "
        "layer where that is most; the mean over the sentences of the corpus.",
        "Massive activations: Sun, Chen, Kolter and Liu (2024), who look at one layer of one "
        "sentence at a time.",
        r"\overline{\max_l \frac{\max_{i,d} |x^l_{id}|}{\mathrm{median}_{i,d}\, |x^l_{id}|}}",
        "largest number in the encoder: {value:.1f} times the median",
    ),
    "largest_decoder": StageDescription(
        "largest number in the decoder",
        "The same of the decoder's stream, while the corpus's translations are forced.",
        "As for the encoder.",
        r"\overline{\max_l \frac{\max_{t,d} |x^l_{td}|}{\mathrm{median}_{t,d}\, |x^l_{td}|}}",
        "largest number in the decoder: {value:.1f} times the median",
    ),
    "chrf": StageDescription(
        "chrF",
        "Runs of up to six characters that the translations have in common with the references: "
        "100 is all of them.",
        "Popović (2015), as sacrebleu computes it, over all sentences together.",
        r"100 \cdot \frac{(1 + \beta^2)\, P R}{\beta^2 P + R} \quad \beta = 2",
        "chrF {value:.1f} of 100 against the references",
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
        "order of the source: {value:.2f} of neighbouring words stay neighbours",
        reference="reordering_reference",
    ),
}
"""Description of each name in ``STAGES``, from what a training learns first. The translations are
greedy ones of the example sentences."""


def describe_stage(name: str, value: float, error: float = math.nan) -> str:
    """Say in words what a value of a measure means for a checkpoint; NaN gives “no value”.

    Its standard error stands behind, if it is known.
    """
    if name not in STAGE_DESCRIPTIONS:
        raise ValueError(f"name: expected one of {', '.join(STAGE_DESCRIPTIONS)}, got {name!r}")
    if math.isnan(value):
        return f"{STAGE_DESCRIPTIONS[name].name}: no value"
    plus_minus = "" if math.isnan(error) else f" (± {error:.{1 if name == 'chrf' else 3}f})"
    words = STAGE_DESCRIPTIONS[name].words.format(value=value, tokens=math.exp(-value))
    return f"{words}{plus_minus}"
