"""What measures of heads say, in words; which of them tell most; heads in the order of one.

``L`` layers, ``H`` heads. How measures are computed is said with the formulas here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viz_app.records import KINDS, Floats, Head, Kind

LEAST_SHARE = 0.4
"""Of a head's weight, from which on it is said to look at something."""
EVEN, SHARP = 0.8, 0.8
"""Entropy from which on weight is spread almost evenly; mean largest weight of a sharp head."""
ALIGNED = 0.5
"""Alignment error rate up to which a head is said to follow the alignment."""
LITTLE, MUCH = 0.005, 0.05
"""Nats a piece: a cost below the first hardly matters, one from the second on does."""
FAR = 0.3
"""Distance from the last checkpoint from which on a head is said to be far from it."""
SHARES = ("previous", "same", "next", "begin", "end", "punctuation")
"""Measures that are shares of a head's weight."""


@dataclass(frozen=True)
class About:
    """A measure for people."""

    name: str
    note: str
    formula: str
    """LaTeX; a of query i and key j are weights, bars are means over all queries of the corpus."""
    signed: bool = False
    """Whether it may be below zero; else it goes from 0 to 1."""


ABOUT: Mapping[str, About] = {
    "entropy": About(
        "entropy",
        "How evenly a row of weights is spread: 1 is the same for every key that the mask allows, "
        "0 all on one.",
        r"\overline{-\textstyle\sum_j a_{ij} \ln a_{ij} \,/\, \ln m_i}"
        r"\quad m_i = \text{allowed keys}",
    ),
    "confidence": About(
        "confidence",
        "The largest weight of a row, whichever key it is on.",
        r"\overline{\max_j a_{ij}}",
    ),
    "previous": About(
        "previous token",
        "Weight on the key one place before the query; in cross-attention the source piece one "
        "before that in the place of the predicted piece.",
        r"\overline{a_{i,i-1}}",
    ),
    "same": About(
        "same token",
        "Weight on the key at the query's own place; in cross-attention the source piece in the "
        "place of the predicted piece.",
        r"\overline{a_{ii}}",
    ),
    "next": About(
        "next token",
        "Weight on the key one place after the query; in cross-attention the source piece one "
        "after that in the place of the predicted piece.",
        r"\overline{a_{i,i+1}}",
    ),
    "begin": About(
        "on <s>",
        "Weight on the token with which every target begins.",
        r"\overline{a_{ij}}\quad j = \texttt{<s>}",
    ),
    "end": About(
        "on </s>",
        "Weight on the token that ends the source.",
        r"\overline{a_{ij}}\quad j = \texttt{</s>}",
    ),
    "punctuation": About(
        "on punctuation",
        "Weight on punctuation marks, together, where there are any.",
        r"\overline{\textstyle\sum_j a_{ij}}\quad j \in \text{punctuation}",
    ),
    "cost": About(
        "cost of switching off",
        "Nats of log-probability that a piece of the reference loses when the head alone is off; "
        "below zero it gains.",
        r"\big(\ln p(y \mid x) - \ln p_{\text{off}}(y \mid x)\big) \,/\, |y|",
        signed=True,
    ),
    "aer_predicted": About(
        "alignment error, by predicted",
        "Each target word's heaviest source word, where its pieces are predicted, against a "
        "reference alignment: 0 agrees always, 1 never.",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
    "aer_consumed": About(
        "alignment error, by consumed",
        "Each target word's heaviest source word, where its pieces are consumed, against a "
        "reference alignment: 0 agrees always, 1 never.",
        r"1 - \frac{2\,|A \cap S|}{|A| + |S|}\quad S = \text{reference links}",
    ),
    "distance": About(
        "distance to the last checkpoint",
        "Jensen-Shannon distance of the head's rows to the same rows at the run's last checkpoint: "
        "0 is the same, 1 has no key in common.",
        r"\overline{\sqrt{\mathrm{JSD}_2(a_i,\, a_i^{\text{last}})}}",
    ),
}
"""By the names of ``MEASURES``. Rows with one allowed key never count."""

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
    "previous": "looks one source piece before its own place",
    "same": "looks at the source piece at its own place",
    "next": "looks one source piece after its own place",
}

_ON: Mapping[str, str] = {
    "previous": "one place before",
    "same": "on its own place",
    "next": "one place after",
    "begin": "on <s>",
    "end": "on </s>",
    "punctuation": "on punctuation",
}


def in_words(name: str, kind: Kind, value: float) -> str:
    """What a value of a measure says of a head; NaN, that it says nothing."""
    if math.isnan(value):
        return f"{ABOUT[name].name}: no value"
    if name in SHARES:
        looks = (_LOOKS_ACROSS if kind == "cross" else _LOOKS)[name]
        return f"{looks}: {value:.2f} of its weight"
    if name == "entropy":
        how = "spread almost evenly: " if value >= EVEN else "spread: "
        return f"{how}{value:.2f} of the largest possible entropy"
    if name == "confidence":
        how = "picks one token" if value >= SHARP else "largest weight of a row"
        return f"{how}: {value:.2f} on average"
    if name == "cost":
        return _cost_in_words(value)
    if name == "distance":
        how = "far from" if value >= FAR else "near"
        return f"{how} what it is at the last checkpoint: distance {value:.2f}"
    how = "follows" if value <= ALIGNED else "does not follow"
    return f"{how} the word alignment: error rate {value:.2f} by {name.removeprefix('aer_')}"


def _cost_in_words(value: float) -> str:
    if abs(value) < LITTLE:
        how = "hardly matters: "
    elif value < 0:
        how = "is in the way: "
    else:
        how = "matters: " if value >= MUCH else ""
    verb = "gains" if round(value, 3) < 0 else "costs"
    return f"{how}switching it off {verb} {abs(value):.3f} nats a piece"


def telling(values: Mapping[str, float], kind: Kind) -> list[str]:
    """The measures that tell most of a head, in words: where it looks, what it is worth.

    Shares of at least ``LEAST_SHARE`` come first, the largest before others; then the better
    alignment error rate up to ``ALIGNED``; entropy from ``EVEN`` on, or, where no place was named,
    confidence from ``SHARP`` on. If none of these holds, that is said, with the largest share and
    the entropy. Then always the cost, and distance from ``FAR`` on.

    Args:
        values: of the head, by the names of ``ABOUT``; NaN where one has no meaning.
        kind: of the head.
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
    said = []
    if not chosen and shares:
        said = [f"no place stands out: at most {known[shares[0]]:.2f}, {_ON[shares[0]]}"]
    if not chosen and "entropy" in known:
        chosen.append("entropy")
    if "cost" in known:
        chosen.append("cost")
    if known.get("distance", 0.0) >= FAR:
        chosen.append("distance")
    return said + [in_words(name, kind, known[name]) for name in chosen]


def values_of(values: Mapping[str, Mapping[Kind, Floats]], head: Head) -> dict[str, float]:
    """Every measure of a head: name → value."""
    kind, layer, number = head
    return {name: float(kinds[kind][layer, number]) for name, kinds in values.items()}


def ranked(
    values: Mapping[Kind, Floats],
    *,
    kinds: Sequence[Kind] = KINDS,
    descending: bool = True,
    least: float | None = None,
) -> list[tuple[Head, float]]:
    """Heads with their values of one measure, in its order; ties as they are laid out.

    Args:
        values: kind → (L, H); heads without a value are left out.
        kinds: to take.
        descending: whether the largest comes first.
        least: the smallest value to take.
    """
    found: list[tuple[Head, float]] = [
        ((kind, layer, head), float(value))
        for kind in KINDS
        if kind in kinds
        for (layer, head), value in np.ndenumerate(values[kind])
        if not math.isnan(value) and (least is None or value >= least)
    ]
    return sorted(found, key=lambda one: -one[1] if descending else one[1])


def table_of(columns: Sequence[Mapping[Kind, Floats] | None]) -> tuple[list[Head], Floats]:
    """The heads for whose kind a measure has a meaning, and their values: (heads, columns).

    Args:
        columns: kind → (L, H) of each checkpoint; None where it was not measured.
    """
    known = [column for column in columns if column is not None]
    heads: list[Head] = []
    for kind in KINDS:
        if any(np.isfinite(column[kind]).any() for column in known):
            heads += [(kind, layer, head) for layer, head in np.ndindex(known[0][kind].shape)]
    cells = np.full((len(heads), len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        if column is not None:
            cells[:, place] = [column[kind][layer, head] for kind, layer, head in heads]
    return heads, cells


def by_last_value(heads: Sequence[Head], cells: Floats) -> list[int]:
    """Places of the rows of a table, kind by kind, the largest last value first.

    The last value is that of the last column that has any; heads without one come last.
    """
    measured = np.flatnonzero(np.isfinite(cells).any(axis=0))
    if not measured.size:
        return list(range(len(heads)))
    last = np.nan_to_num(cells[:, measured[-1]], nan=-np.inf)
    return sorted(range(len(heads)), key=lambda i: (KINDS.index(heads[i][0]), -last[i]))
