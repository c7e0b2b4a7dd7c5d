"""Descriptions of the measures of heads, and of single heads, in words.

``measuring.heads`` computes the measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.interface import Kind

LEAST_SHARE = 0.4
"""Smallest share of a head's weight of which the head is said to look there."""
EVEN, SHARP = 0.8, 0.8
"""Smallest entropy that is called almost even; smallest confidence of picking one token."""
ALIGNED = 0.5
"""Largest alignment error rate of a head that is said to follow the alignment."""
LITTLE, MUCH = 0.005, 0.05
"""In nats per token: a smaller cost than ``LITTLE`` hardly matters, ``MUCH`` or more matters."""
FAR = 0.3
"""Smallest distance to the last checkpoint that is called far."""
SHARES = ("previous", "same", "next", "begin", "end", "punctuation")
"""Measures that are shares of a head's weight."""


@dataclass(frozen=True)
class MeasureDescription:
    """A measure of heads is described for people by these texts."""

    name: str
    note: str
    formula: str
    """In LaTeX: a_ij is the weight of query i on key j, a bar the mean over a corpus's queries."""
    signed: bool = False
    """Whether values may be negative; else they are from 0 to 1."""


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
        "Weight on punctuation marks, together, where there are any.",
        r"\overline{\textstyle\sum_j a_{ij}}\quad j \in \text{punctuation}",
    ),
    "cost": MeasureDescription(
        "cost of switching off",
        "Nats of log-probability that a token of the reference loses when the head alone is off; "
        "below zero it gains.",
        r"\big(\ln p(y \mid x) - \ln p_{\text{off}}(y \mid x)\big) \,/\, |y|",
        signed=True,
    ),
    "aer_predicted": MeasureDescription(
        "alignment error, by predicted",
        "Each target word's heaviest source word, where its tokens are predicted, against a "
        "reference alignment: 0 agrees always, 1 never.",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
    "aer_consumed": MeasureDescription(
        "alignment error, by consumed",
        "Each target word's heaviest source word, where its tokens are consumed, against a "
        "reference alignment: 0 agrees always, 1 never.",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
    "distance": MeasureDescription(
        "distance to the last checkpoint",
        "Jensen-Shannon distance of the head's rows to the same rows at the run's last checkpoint: "
        "0 is the same, 1 has no key in common.",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{last}})}}",
    ),
}
"""Description of each name in ``MEASURES``. Rows with only one allowed key never count."""

_LOOKS: Mapping[str, str] = {
    "previous": "looks at the previous token",
    "same": "looks at the token itself",
    "next": "looks at the next token",
    "begin": "rests on <s>",
    "end": "rests on </s>",
    "punctuation": "rests on punctuation",
}
_LOOKS_ACROSS: Mapping[str, str] = {
    **_LOOKS,
    "previous": "looks one source token before its own place",
    "same": "looks at the source token at its own place",
    "next": "looks one source token after its own place",
}

_ON: Mapping[str, str] = {
    "previous": "one place before",
    "same": "on its own place",
    "next": "one place after",
    "begin": "on <s>",
    "end": "on </s>",
    "punctuation": "on punctuation",
}


def describe_value(name: str, kind: Kind, value: float) -> str:
    """Say in words what a value of a measure means for a head; NaN gives “no value”.

    Raises:
        ValueError: if no words are written for the measure yet.
    """
    if math.isnan(value):
        return f"{MEASURE_DESCRIPTIONS[name].name}: no value"
    if name in SHARES:
        looks = (_LOOKS_ACROSS if kind == "cross" else _LOOKS)[name]
        where = ", in rows that can look at any" if name == "punctuation" else ""
        return f"{looks}: {value:.2f} of its weight{where}"
    if name == "entropy":
        how = "spread almost evenly: " if value >= EVEN else "spread: "
        return f"{how}{value:.2f} of the largest possible entropy"
    if name == "confidence":
        how = "picks one token" if value >= SHARP else "largest weight of a row"
        return f"{how}: {value:.2f} on average"
    if name == "cost":
        return _describe_cost(value)
    if name == "distance":
        how = "far from" if value >= FAR else "near"
        return f"{how} what it is at the last checkpoint: distance {value:.2f}"
    if name not in ("aer_predicted", "aer_consumed"):
        raise ValueError(f"name: expected a measure that is described here, got {name!r}")
    how = "follows" if value <= ALIGNED else "does not follow"
    return f"{how} the word alignment: error rate {value:.2f} by {name.removeprefix('aer_')}"


def _describe_cost(value: float) -> str:
    if abs(value) < LITTLE:
        how = "hardly matters: "
    elif value < 0:
        how = "is in the way: "
    else:
        how = "matters: " if value >= MUCH else ""
    verb = "gains" if round(value, 3) < 0 else "costs"
    return f"{how}switching it off {verb} {abs(value):.3f} nats per token"


def describe_head(values: Mapping[str, float], kind: Kind) -> list[str]:
    """Describe a head by its most characteristic measures: where it looks, what it contributes.

    In this order: shares of at least ``LEAST_SHARE``, the largest first; the better alignment error
    rate, if at most ``ALIGNED``; entropy, if at least ``EVEN``, or, if nothing was named so far,
    confidence, if at least ``SHARP``. If none of these holds, the description says so and gives the
    largest share and the entropy. Then the cost, and the distance if at least ``FAR``.

    Args:
        values: value of each measure of the head; NaN if it is undefined for the kind.
        kind: the kind of attention of the head.

    Returns:
        One text for each measure.
    """
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    shares = sorted((name for name in SHARES if name in known), key=lambda name: -known[name])
    chosen = [name for name in shares if known[name] >= LEAST_SHARE]
    aligned = [name for name in ("aer_predicted", "aer_consumed") if name in known]
    best = min(aligned, key=known.__getitem__, default=None)
    if best is not None and known[best] <= ALIGNED:
        chosen.append(best)
    if known.get("entropy", 0.0) >= EVEN:
        chosen.append("entropy")
    elif not chosen and known.get("confidence", 0.0) >= SHARP:
        chosen.append("confidence")
    texts = []
    if not chosen and shares:
        texts = [f"no place stands out: at most {known[shares[0]]:.2f}, {_ON[shares[0]]}"]
    if not chosen and "entropy" in known:
        chosen.append("entropy")
    if "cost" in known:
        chosen.append("cost")
    if known.get("distance", 0.0) >= FAR:
        chosen.append("distance")
    return texts + [describe_value(name, kind, known[name]) for name in chosen]
