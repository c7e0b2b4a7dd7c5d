"""All measures of heads, each declared once: pages, tables, shell, files and tests follow.

A measure has a name, texts that define it and give its source, the range and unit of its values,
words for them (``wording.py``), and one way of being computed: from the rows of maps, which also
gives its chance level, that of a head whose rows are all even; from a batch; or from weights alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from headwise.model.interface import KINDS, Kind, Seq2SeqModel
from headwise.model.interventions import batch_head_importance
from headwise.viz_app.analysis.labels import NO_SUM_NOTE, OFF_NOTE
from headwise.viz_app.measuring import heads, wording
from headwise.viz_app.measuring.inputs import MeasuredBatch, Rows, costs_of
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats

MEAN_ABLATION = "mean_ablation"
"""The measure that is of a second pass over a corpus, and so is measured only when asked for."""
Group = Literal["place", "token", "sharpness", "alignment", "scores", "cost", "distance", ""]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure of heads: what it is for people, and how it is computed over a batch."""

    name: str
    note: str
    formula: str = ""
    """In LaTeX: a_ij is the weight of query i on key j, a bar the mean over a corpus's queries."""
    range: MeasureRange = "share"
    form: str = ".2f"  # how a value is written, as a format of Python's
    unit: str = ""
    words: wording.Wording | None = None  # how a value is said; None for the name and the value
    group: Group = ""
    """As what it may be among what is most striking in a head; places and tokens have shares of
    its weight, of which those of a group are together at most 1."""
    of_rows: Callable[[Rows], heads.HeadSum | None] | None = None
    """None for a kind of attention in which it has no meaning."""
    of_batch: Callable[[MeasuredBatch], Mapping[Kind, heads.HeadSum]] | None = None
    """It has a value for the kinds in which it has a meaning."""
    of_weights: Callable[[Tensor, Tensor], Tensor] | None = None
    """From the singular values of W_Q W_Kᵀ, scaled as scores are, and of W_V W_O, (L, H, K)."""

    def sums(self, batch: MeasuredBatch) -> Mapping[Kind, heads.HeadSum]:
        """Return the sums of a batch for each kind of attention in which it has a meaning."""
        if self.of_batch is not None:
            return self.of_batch(batch)
        return {rows.kind: of for rows in batch.rows if (of := self.of_kind(rows)) is not None}

    def of_kind(self, rows: Rows) -> heads.HeadSum | None:
        """Return the sums of the rows of maps, if it is of these and has a meaning there."""
        return None if self.of_rows is None else self.of_rows(rows)


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


def _on_place(rows: Rows, offset: int) -> heads.HeadSum | None:
    hidden = rows.kind == "decoder_self" and offset > 0  # by the mask
    return None if hidden else heads.on_offset(rows.weights, rows.allowed, offset)


def _on_end(rows: Rows, *, of: Literal["start", "end"]) -> heads.HeadSum | None:
    if (rows.kind == "decoder_self") != (of == "start"):  # targets start, sources end
        return None
    return heads.on_keys(rows.weights, rows.allowed, rows.keys == getattr(rows.ids.special, of))


def _on_punctuation(rows: Rows) -> heads.HeadSum | None:
    marks = rows.run.punctuation[rows.kind]
    return heads.on_keys(rows.weights, rows.allowed, marks[rows.keys]) if marks.any() else None


def _on_rarest(rows: Rows) -> heads.HeadSum | None:
    if (occurrences := rows.run.occurrences.get(rows.kind)) is None:
        return None
    return heads.on_rarest(rows.weights, rows.allowed, occurrences[rows.keys])


DESCRIBED: Mapping[str, Measure] = {
    "entropy": Measure(
        name="entropy",
        note="How evenly a row of weights is spread: 1 is the same for every key that the mask "
        "allows, 0 all on one.",
        formula=r"\begin{gathered} \overline{-\textstyle\sum_j a_{ij} \ln a_{ij} \,/\, \ln m_i} \\ "
        r"m_i = \text{allowed keys} \end{gathered}",
        words=wording.Sharpness("entropy"),
        group="sharpness",
        of_rows=lambda rows: heads.entropy(rows.weights, rows.allowed),
    ),
    "confidence": Measure(
        name="confidence",
        note="The largest weight of a row, whichever key it is on.",
        formula=r"\overline{\max_j a_{ij}}",
        words=wording.Wording("largest weight of a row: {value:.2f} on average"),
        of_rows=lambda rows: heads.confidence(rows.weights, rows.allowed),
    ),
    "previous": Measure(
        name="previous token",
        note="Weight on the key one place before the query; in cross-attention the source token "
        "one before that in the place of the predicted token.",
        formula=r"\overline{a_{i,i-1}}",
        words=wording.WeightShare(
            "looks at the previous token",
            "one place before",
            across="looks one source token before its own place",
        ),
        group="place",
        of_rows=partial(_on_place, offset=-1),
    ),
    "same": Measure(
        name="own place",
        note="Weight on the key at the query's own place; in cross-attention the source token in "
        "the place of the predicted token.",
        formula=r"\overline{a_{ii}}",
        words=wording.WeightShare(
            "looks at the token itself",
            "on its own place",
            across="looks at the source token at its own place",
        ),
        group="place",
        of_rows=partial(_on_place, offset=0),
    ),
    "next": Measure(
        name="next token",
        note="Weight on the key one place after the query; in cross-attention the source token "
        "one after that in the place of the predicted token.",
        formula=r"\overline{a_{i,i+1}}",
        words=wording.WeightShare(
            "looks at the next token",
            "one place after",
            across="looks one source token after its own place",
        ),
        group="place",
        of_rows=partial(_on_place, offset=1),
    ),
    "begin": Measure(
        name="on <s>",
        note="Weight on the token with which every target begins.",
        formula=r"\overline{a_{ij}}\quad j = \texttt{<s>}",
        words=wording.WeightShare("rests on <s>", "on <s>"),
        group="token",
        of_rows=partial(_on_end, of="start"),
    ),
    "end": Measure(
        name="on </s>",
        note="Weight on the token that ends the source.",
        formula=r"\overline{a_{ij}}\quad j = \texttt{</s>}",
        words=wording.WeightShare("rests on </s>", "on </s>"),
        group="token",
        of_rows=partial(_on_end, of="end"),
    ),
    "punctuation": Measure(
        name="on punctuation",
        note="Weight on punctuation marks, together.",
        formula=r"\overline{\textstyle\sum_j a_{ij}}\quad j \in \text{punctuation}",
        words=wording.WeightShare("rests on punctuation", "on punctuation"),
        group="token",
        of_rows=_on_punctuation,
    ),
    "rare": Measure(
        name="on the rarest token",
        note="Share of rows whose largest weight is on the token that is rarest in the training "
        "data, of those that the row may attend to, special tokens aside (Voita et al. 2019).",
        formula=r"\overline{[\arg\max_j a_{ij} = \arg\min_j n_j]}\quad n_j = \text{occurrences}",
        words=wording.Wording("largest weight on the rarest token: in {value:.2f} of rows"),
        of_rows=_on_rarest,
    ),
    "cost": Measure(
        name="cost of switching off",
        note="Nats of log-probability that a token of the target loses when the head alone is off; "
        f"below zero it gains. {OFF_NOTE} {NO_SUM_NOTE}",
        formula=r"\big(\ln p(y \mid x) - \ln p_{\text{off}}(y \mid x)\big) \,/\, |y|",
        range="signed",
        form="+.3f",
        unit="nats per token",
        words=wording.Cost("cost"),
        group="cost",
        of_batch=lambda batch: batch.per_token(batch.once(costs_of)),
    ),
    MEAN_ABLATION: Measure(
        name="cost of the mean in its place",
        note="Nats of log-probability that a token of the target loses when the head's output is "
        "always its mean over the corpus (mean ablation, Wang et al. 2022): only what it says of "
        f"the sentence is lost, where zero takes its mean away too. {NO_SUM_NOTE}",
        formula=r"\big(\ln p(y \mid x) - \ln p_{\text{mean}}(y \mid x)\big) \,/\, |y|",
        range="signed",
        form="+.3f",
        unit="nats per token",
        of_batch=MeasuredBatch.mean_ablation,
    ),
    "gradient": Measure(
        name="importance by gradient",
        note="What a token of the target would lose in nats, to first order, if the head were "
        "weakened: the derivative of the loss by a factor of the head's output, its size averaged "
        "over sentences (Michel et al. 2019).",
        formula=r"\overline{\left|A^\top \frac{\partial L}{\partial A}\right|} \,/\, |y|\quad "
        r"A = \text{output of the head}",
        range="amount",
        form=".3f",
        unit="nats per token",
        of_batch=lambda batch: batch.per_token(
            batch_head_importance(batch.model, batch.ids.source, batch.ids.target)
        ),
    ),
    **{
        f"aer_{by}": Measure(
            name=f"alignment error, by {by}",
            note=f"Each target word's heaviest source word, where its tokens are {by}, against a "
            "reference alignment: 0 agrees always, 1 never (Och and Ney 2003).",
            formula=r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
            words=wording.AlignmentError(by),
            group="alignment",
            of_batch=partial(MeasuredBatch.correct_links, rows=by),
        )
        for by in ("predicted", "consumed")
    },
    "distance": Measure(
        name="distance to the last checkpoint",
        note="Jensen-Shannon distance of the head's rows to the same rows at the run's last "
        "checkpoint: 0 is the same, 1 has no key in common.",
        formula=r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{last}})}}",
        words=wording.Distance("the last checkpoint"),
        group="distance",
        of_batch=partial(MeasuredBatch.distances, name="distance"),
    ),
    "from_first": Measure(
        name="distance from the first checkpoint",
        note="Jensen-Shannon distance of the head's rows to the same rows at the run's first "
        "checkpoint: 0 is the same, 1 has no key in common.",
        formula=r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{first}})}}",
        words=wording.Distance("the first checkpoint"),
        of_batch=partial(MeasuredBatch.distances, name="from_first"),
    ),
    "velocity": Measure(
        name="change since the checkpoint before",
        note="Jensen-Shannon distance of the head's rows to the same rows at the checkpoint "
        "before, however many training steps lie between the two (a measure of ours).",
        formula=r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{before}})}}",
        words=wording.Distance("the checkpoint before"),
        of_batch=partial(MeasuredBatch.distances, name="velocity"),
    ),
    "emergence": Measure(
        name="emergence",
        note="The first checkpoint at which the head is at least half as far from the first "
        "checkpoint as it is at the last (a measure of ours). It emerged by that checkpoint, and "
        "after the one before: what was between them is not known.",
        formula=r"\min \left\{ s : d(s, \text{first}) \ge \tfrac{1}{2}\, "
        r"d(\text{last}, \text{first}) \right\}",
        range="amount",
        form=",.0f",
    ),
    "qk_norm": Measure(
        name="norm of the scores' matrix",
        note="The largest singular value of the matrix by which queries and keys are compared; the "
        "larger, the sharper the head can be (Zhai et al. 2023). From the weights alone.",
        formula=r"\left\| W_Q W_K^\top / \sqrt{d_k} \right\|_2",
        range="amount",
        of_weights=lambda scores, copies: scores[..., 0],
    ),
    "qk_rank": Measure(
        name="effective rank of the scores' matrix",
        note="In how many directions queries and keys are compared, at most d_k: the exponential "
        "of the entropy of the singular values (Roy and Vetterli 2007). From the weights alone.",
        formula=r"\exp H\!\left(\sigma(W_Q W_K^\top)\right)",
        range="amount",
        form=".1f",
        of_weights=lambda scores, copies: heads.effective_rank(scores),
    ),
    "ov_rank": Measure(
        name="effective rank of what is written",
        note="Through how many directions what a head looks at goes into what it writes, whether "
        "it copies or suppresses it, at most d_k: the exponential of the entropy of the singular "
        "values (Roy and Vetterli 2007). From the weights alone.",
        formula=r"\exp H\!\left(\sigma(W_V W_O)\right)",
        range="amount",
        form=".1f",
        of_weights=lambda scores, copies: heads.effective_rank(copies),
    ),
    "by_position": Measure(
        name="by position",
        note="How much of what tells keys apart in a row of scores is what the query's position "
        "makes with the keys' positions, those that are added to scores included: 1 is all of it. "
        f"{_OF_SCORES}",
        formula=_share_of_variance(r"p"),
        range="signed",
        words=wording.ScoreShare("by position"),
        group="scores",
        of_batch=partial(MeasuredBatch.score_shares, name="by_position"),
    ),
    "by_token": Measure(
        name="by token",
        note="How much of what tells keys apart in a row of scores is what the query's token makes "
        "with the keys' tokens, by their embeddings alone (turned by their positions, in a model "
        f"that turns queries and keys): 1 is all of it. {_OF_SCORES}",
        formula=_share_of_variance(r"e"),
        range="signed",
        words=wording.ScoreShare("by token"),
        group="scores",
        of_batch=partial(MeasuredBatch.score_shares, name="by_token"),
    ),
    "by_both": Measure(
        name="by token and position",
        note="How much of what tells keys apart in a row of scores is what the query's token makes "
        f"with the keys' positions, and its position with their tokens. {_OF_SCORES}",
        formula=r"\frac{\sum_i \mathrm{cov}_j(q_i(e)\, k_j(p) + q_i(p)\, k_j(e),\; s_{ij})}"
        r"{\sum_i \mathrm{var}_j(s_{ij})}",
        range="signed",
        words=wording.ScoreShare("by token and position"),
        group="scores",
        of_batch=partial(MeasuredBatch.score_shares, name="by_both"),
    ),
}
"""All measures by name, in the order of lists. Rows with only one allowed key never count. The
emergence of a head is found from all checkpoints, and so is not computed here."""
MEASURES: Mapping[str, Measure] = {
    name: measure for name, measure in DESCRIBED.items() if name != "emergence"
}
OF_WEIGHTS = tuple(name for name, measure in MEASURES.items() if measure.of_weights)
RESAMPLED = tuple(name for name in MEASURES if name not in ("cost", MEAN_ABLATION, *OF_WEIGHTS))
"""Of files from before ``SCORE_MEASURES``, the last, all but these."""
AT_ONCE = tuple(name for name in MEASURES if name != MEAN_ABLATION)


def in_groups(*groups: Group) -> tuple[str, ...]:
    return tuple(name for name, measure in MEASURES.items() if measure.group in groups)


SCORE_MEASURES = in_groups("scores")
"""Those of what explains the scores of a head. Files from before there were these have none."""
OWN_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")  # which is not in ``DESCRIBED``


def require_own_names(names: Iterable[str]) -> None:
    """Refuse, by a ValueError, a name that a measure of a person's own cannot have."""
    for name in names:
        if not OWN_NAME.fullmatch(name):
            raise ValueError(
                f"measure {name!r:.60}: expected a name of small letters, digits and _, at most 40"
            )
        if name in DESCRIBED:
            raise ValueError(f"measure {name!r}: Headwise has one of this name; choose another")


def own_measure(name: str, function: heads.RowMeasure) -> Measure:
    """Return a measure of a person's own as it is computed."""
    return Measure(
        name=name,
        note="",
        of_rows=lambda rows: heads.measure_rows(name, function, rows.weights, rows.allowed),
    )


@torch.no_grad()
def weight_measures(model: Seq2SeqModel) -> dict[str, dict[Kind, Floats]]:
    """Measure the heads of a model by their weights: name → kind → (L, H). Biases and gains of
    norms are left out; ``qk_norm`` is NaN where a norm of queries and keys bounds scores.
    """
    found: dict[str, dict[Kind, Floats]] = {}
    for kind in KINDS:
        values = heads.singular_values_of(model, kind)
        for name, measure in MEASURES.items():
            if measure.of_weights is not None:
                of_kind = measure.of_weights(*values).float().cpu().numpy()
                found.setdefault(name, {})[kind] = of_kind
    if model.description.head_norms:
        for of_kind in found["qk_norm"].values():
            of_kind.fill(np.nan)
    return found
