"""Descriptions of the measures of heads: names, sentences and formulas.

``measuring`` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
        "Nats of log-probability that a token of the reference loses when the head alone is off; "
        "below zero it gains.",
        r"\big(\ln p(y \mid x) - \ln p_{\text{off}}(y \mid x)\big) \,/\, |y|",
        range="signed",
        form="+.3f",
    ),
    "gradient": MeasureDescription(
        "importance by gradient",
        "What a token of the reference would lose in nats, to first order, if the head were "
        "weakened: the derivative of the loss by a factor of the head's output, its size averaged "
        "over sentences (Michel et al. 2019).",
        r"\overline{\left|A^\top \frac{\partial L}{\partial A}\right|} \,/\, |y|\quad "
        r"A = \text{output of the head}",
        range="amount",
        form=".3f",
    ),
    "aer_predicted": MeasureDescription(
        "alignment error, by predicted",
        "Each target word's heaviest source word, where its tokens are predicted, against a "
        "reference alignment: 0 agrees always, 1 never (Och and Ney 2003).",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
    "aer_consumed": MeasureDescription(
        "alignment error, by consumed",
        "Each target word's heaviest source word, where its tokens are consumed, against a "
        "reference alignment: 0 agrees always, 1 never (Och and Ney 2003).",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
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
        "however many steps lie between the two (a measure of ours).",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{before}})}}",
    ),
    "emergence": MeasureDescription(
        "emergence",
        "The first checkpoint at which the head is at least half as far from the first checkpoint "
        "as it is at the last (a measure of ours).",
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
}
"""Description of each name in ``MEASURES``, and of the emergence of a head, which is found from
all checkpoints. Rows with only one allowed key never count."""
