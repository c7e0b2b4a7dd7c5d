"""Single heads in words, by their measures.

``measuring`` computes the measures; ``measure_descriptions`` says what each is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from headwise.model.interface import Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.measure_descriptions import MEASURE_DESCRIPTIONS
from headwise.viz_app.records.measures import AlignmentBaselines

LEAST_SHARE = 0.4
"""Smallest share of a head's weight of which the head is said to look there."""
EVEN, SHARP = 0.8, 0.8
"""Smallest entropy that is called almost even; smallest confidence of picking one token."""
LITTLE, MUCH = 0.005, 0.05
"""In nats per token: a smaller cost than ``LITTLE`` hardly matters, ``MUCH`` or more matters."""
NEAR = 0.1
"""Largest distance of an alignment error rate from the lowest possible one that is always near."""
FAR = 0.3
"""Smallest distance to another checkpoint that is called far."""
BY_PLACE = ("previous", "same", "next")
"""Measures that are shares of a head's weight on places; together they are at most 1."""
BY_TOKEN = ("begin", "end", "punctuation")
"""Measures that are shares of a head's weight on tokens; together they are at most 1."""

_LOOKS: dict[str, str] = {
    "previous": "looks at the previous token",
    "same": "looks at the token itself",
    "next": "looks at the next token",
    "begin": "rests on <s>",
    "end": "rests on </s>",
    "punctuation": "rests on punctuation",
}
_LOOKS_ACROSS: Mapping[str, str] = _LOOKS | {
    "previous": "looks one source token before its own place",
    "same": "looks at the source token at its own place",
    "next": "looks one source token after its own place",
}

_DISTANCES: Mapping[str, str] = {
    "distance": "the last checkpoint",
    "from_first": "the first checkpoint",
    "velocity": "the checkpoint before",
}

_ON: Mapping[str, str] = {
    "previous": "one place before",
    "same": "on its own place",
    "next": "one place after",
    "begin": "on <s>",
    "end": "on </s>",
    "punctuation": "on punctuation",
}


def describe_value(
    name: str,
    kind: Kind,
    value: float,
    *,
    error: float = math.nan,
    baselines: AlignmentBaselines | None = None,
) -> str:
    """Say in words what a value of a measure means for a head; NaN gives “no value”.

    ``error`` is its standard error, NaN if it is unknown; alignment error rates are compared with
    ``baselines``, if there are any.
    """
    about = MEASURE_DESCRIPTIONS.get(name)
    if about is None:
        raise ValueError(f"name: expected a measure that is described here, got {name!r}")
    if math.isnan(value):
        return f"{about.name}: no value"
    if name in (*BY_PLACE, *BY_TOKEN):
        looks = (_LOOKS_ACROSS if kind == "cross" else _LOOKS)[name]
        return f"{looks}: {value:.2f} of its weight"
    if name == "rare":
        return f"largest weight on the rarest token: in {value:.2f} of rows"
    if name == "entropy":
        how = "spread almost evenly: " if value >= EVEN else "spread: "
        return f"{how}{value:.2f} of the largest possible entropy"
    if name == "confidence":
        how = "picks one token" if value >= SHARP else "largest weight of a row"
        return f"{how}: {value:.2f} on average"
    if name == "cost":
        return _describe_cost(value, error)
    if name in _DISTANCES:
        how = "far from" if value >= FAR else "near"
        return f"{how} what it is at {_DISTANCES[name]}: distance {value:.2f}"
    if name in ("aer_predicted", "aer_consumed"):
        return _describe_alignment(name, value, baselines)
    return f"{about.name}: {value:{about.form}}"


def _describe_cost(value: float, error: float) -> str:
    if abs(value) < LITTLE:
        how = "hardly matters: "
    else:
        how = "is in the way: " if value < 0 else "matters: " if value >= MUCH else ""
    verb = "gains" if round(value, 3) < 0 else "costs"
    plus_minus = "" if math.isnan(error) else f" ± {error:.3f}"
    return f"{how}switching it off {verb} {abs(value):.3f}{plus_minus} nats per token"


def _describe_alignment(name: str, value: float, baselines: AlignmentBaselines | None) -> str:
    by = name.removeprefix("aer_")
    if baselines is None:
        return f"alignment error rate {value:.2f} by {by}"
    if follows_alignment(value, baselines):
        how = "follows the word alignment"
    elif value < baselines.diagonal:
        how = "follows the word alignment in part"
    else:
        how = "does not follow the word alignment"
    return (
        f"{how}: error rate {value:.2f} by {by}, of the diagonal {baselines.diagonal:.2f}, at best "
        f"{baselines.lowest:.2f}"
    )


def follows_alignment(error_rate: float, baselines: AlignmentBaselines) -> bool:
    """Return whether an error rate is nearer to the lowest possible one than to the diagonal's.

    Where the diagonal is nearly right itself, as in a copying task, ``NEAR`` the lowest is enough.
    """
    enough = max((baselines.lowest + baselines.diagonal) / 2, baselines.lowest + NEAR)
    return error_rate <= enough


def describe_head(
    values: Mapping[str, float],
    kind: Kind,
    *,
    cost_error: float = math.nan,
    baselines: AlignmentBaselines | None = None,
) -> list[str]:
    """Describe a head by its most characteristic measures: where it looks, what it contributes.

    In this order: shares of at least ``LEAST_SHARE``, the largest first, either of places or of
    tokens, since a token on a place would count in both; the better alignment error rate, if the
    head follows the alignment; entropy, if at least ``EVEN``, or, if nothing was named so far,
    confidence, if at least ``SHARP``. If none of these holds, the description says so and gives the
    largest share and the entropy. Then the cost, and the distance if at least ``FAR``. Values are
    NaN where a measure is undefined for the kind; the rest is as for ``describe_value``.
    """
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    measured = [name for name in (*BY_PLACE, *BY_TOKEN) if name in known]
    shares = [measured[i] for i in descending([known[name] for name in measured])]
    alike = BY_PLACE if shares and shares[0] in BY_PLACE else BY_TOKEN
    chosen = [name for name in shares if name in alike and known[name] >= LEAST_SHARE]
    aligned = [name for name in ("aer_predicted", "aer_consumed") if name in known]
    best = aligned[descending([-known[name] for name in aligned])[0]] if aligned else None
    if best is not None and baselines is not None and follows_alignment(known[best], baselines):
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
    return texts + [
        describe_value(name, kind, known[name], error=cost_error, baselines=baselines)
        for name in chosen
    ]
