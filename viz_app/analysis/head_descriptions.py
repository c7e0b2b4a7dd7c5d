"""Single heads in words, by their measures.

``measuring`` computes the measures; ``measure_descriptions`` says what each is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from headwise.model.interface import Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import OFF_NOTE
from headwise.viz_app.analysis.measure_descriptions import MEASURE_DESCRIPTIONS
from headwise.viz_app.records.measures import SCORE_MEASURES, AlignmentBaselines

LEAST_SHARE = 0.4
"""Share of a head's weight beyond which the head is said to look there."""
SHARP, EVEN = 0.4, 0.8
"""Entropy below which a head is called sharp, and above which it is called almost even."""
LITTLE, MUCH = 0.005, 0.05
"""In nats per token: a smaller cost than ``LITTLE`` hardly matters, more than ``MUCH`` matters."""
NEAR = 0.1
"""Largest distance of an alignment error rate from the lowest possible one that is always near."""
FAR = 0.3
"""Distance to another checkpoint beyond which it is called far, and below which near."""
BY_PLACE = ("previous", "same", "next")
"""Measures that are shares of a head's weight on places; together they are at most 1."""
BY_TOKEN = ("begin", "end", "punctuation")
"""Measures that are shares of a head's weight on tokens; together they are at most 1."""
LEAST_OF_SCORES = 0.5
"""Share of the variance of a head's scores beyond which a part of it is said to explain them."""

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


WORDS_NOTE = (
    "A word is said where a value is two standard errors beyond its bound: where a head looks or "
    f"rests, a share of {LEAST_SHARE}; sharp, an entropy below {SHARP}; almost even, above {EVEN}; "
    f"a cost that hardly matters, below {LITTLE} nats per token, or matters, above {MUCH}; far, a "
    f"distance of {FAR}; by position or by token, a share of {LEAST_OF_SCORES} of what tells keys "
    "apart in its scores. Looks, rests, sharp, by, matters and in the way are said only of values "
    "that are also beyond what an even head has and what the head itself had at step 0, which "
    f"stand in brackets. {OFF_NOTE}"
)
"""Which values the words of a head are said of."""


@dataclass(frozen=True)
class Baselines:
    """What stands beside a measured value of a head, to judge it by; NaN where it is unknown."""

    error: float = math.nan
    """The value's standard error."""
    even: float = math.nan
    """What a head has whose rows are all even."""
    first: float = math.nan
    """What the head had at step 0, before it learned."""
    first_error: float = math.nan

    def is_above(self, value: float, bound: float) -> bool:
        """Return whether a value is at least two standard errors above a bound."""
        return value >= bound + 2 * _known(self.error)

    def is_below(self, value: float, bound: float) -> bool:
        """Return whether a value is more than two standard errors below a bound."""
        return value < bound - 2 * _known(self.error)

    def is_new(self, value: float, *, below: bool = False) -> bool:
        """Return whether a value is above an even head's and that at step 0, or below them.

        By at least two standard errors: from step 0 those of the difference, as of independent
        values, which is more than that of the same sentences.
        """
        apart = 2 * math.hypot(_known(self.error), _known(self.first_error))
        sign = -1 if below else 1
        after = math.isnan(self.first) or sign * (value - self.first) >= apart
        uneven = math.isnan(self.even) or sign * (value - self.even) >= 2 * _known(self.error)
        return after and uneven

    def written(self, form: str = ".2f") -> str:
        """Return what is known of the other two in brackets, with a space before."""
        known = {"an even head": self.even, "checkpoint 0 had": self.first}
        said = [f"{name} {value:{form}}" for name, value in known.items() if not math.isnan(value)]
        return f" ({', '.join(said)})" if said else ""


def _known(error: float) -> float:
    return 0.0 if math.isnan(error) else error


NO_BASELINES = Baselines()


def describe_value(
    name: str,
    kind: Kind,
    value: float,
    *,
    beside: Baselines = NO_BASELINES,
    baselines: AlignmentBaselines | None = None,
) -> str:
    """Say in words what a value of a measure means for a head; NaN gives “no value”.

    What stands beside it is said of shares of weight. Alignment error rates are compared with
    ``baselines``, if there are any.
    """
    about = MEASURE_DESCRIPTIONS.get(name)
    if about is None:
        raise ValueError(f"name: expected a measure that is described here, got {name!r}")
    if math.isnan(value):
        return f"{about.name}: no value"
    if name in (*BY_PLACE, *BY_TOKEN):
        if not (beside.is_above(value, LEAST_SHARE) and beside.is_new(value)):
            return f"{value:.2f} of its weight {_ON[name]}{beside.written()}"
        looks = (_LOOKS_ACROSS if kind == "cross" else _LOOKS)[name]
        return f"{looks}: {value:.2f} of its weight{beside.written()}"
    if name == "rare":
        return f"largest weight on the rarest token: in {value:.2f} of rows{beside.written()}"
    if name == "entropy":
        even, sharp = beside.is_above(value, EVEN), _is_sharp(value, beside)
        how = "spread almost evenly: " if even else "sharp: " if sharp else "entropy: "
        return f"{how}{value:.2f} of the largest possible entropy{beside.written()}"
    if name == "confidence":
        return f"largest weight of a row: {value:.2f} on average{beside.written()}"
    if name == "cost":
        return _describe_cost(value, beside)
    if name in _DISTANCES:
        near, far = beside.is_below(value, FAR), beside.is_above(value, FAR)
        how = "far from" if far else "near" if near else "at some distance from"
        return f"{how} what it is at {_DISTANCES[name]}: distance {value:.2f}"
    if name in SCORE_MEASURES:
        plus_minus = "" if math.isnan(beside.error) else f" ± {beside.error:.2f}"
        share = round(value, 2) + 0.0  # no -0.00
        return f"{about.name}: {share:.2f}{plus_minus} of what tells keys apart{beside.written()}"
    if name in ("aer_predicted", "aer_consumed"):
        return _describe_alignment(name, value, beside, baselines)
    return f"{about.name}: {value:{about.form}}"


def _is_sharp(entropy: float, beside: Baselines) -> bool:
    return beside.is_below(entropy, SHARP) and beside.is_new(entropy, below=True)


def _describe_cost(value: float, beside: Baselines) -> str:
    if beside.is_below(abs(value), LITTLE):
        how = "hardly matters: "
    elif beside.is_below(value, -LITTLE) and beside.is_new(value, below=True):
        how = "is in the way: "
    else:
        how = "matters: " if beside.is_above(value, MUCH) and beside.is_new(value) else ""
    verb = "gains" if round(value, 3) < 0 else "costs"
    plus_minus = "" if math.isnan(beside.error) else f" ± {beside.error:.3f}"
    return (
        f"{how}switching it off {verb} {abs(value):.3f}{plus_minus} nats per token"
        f"{beside.written('+.3f')}"
    )


def _describe_alignment(
    name: str, value: float, beside: Baselines, baselines: AlignmentBaselines | None
) -> str:
    by = name.removeprefix("aer_")
    plus_minus = "" if math.isnan(beside.error) else f" ± {beside.error:.2f}"
    if baselines is None:
        return f"alignment error rate {value:.2f}{plus_minus} by {by}"
    if follows_alignment(value + 2 * _known(beside.error), baselines):
        how = f"follows the word alignment of {by} tokens: "
    elif beside.is_below(value, baselines.diagonal):
        how = f"follows the word alignment of {by} tokens in part: "
    else:
        above = beside.is_above(value, baselines.diagonal)
        how = f"does not follow the word alignment of {by} tokens: " if above else ""
    return (
        f"{how}error rate {value:.2f}{plus_minus}{'' if how else f' by {by}'}, of the diagonal "
        f"{baselines.diagonal:.2f}, at best {baselines.lowest:.2f}{beside.written()}"
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
    beside: Mapping[str, Baselines] = MappingProxyType({}),
    baselines: AlignmentBaselines | None = None,
) -> dict[str, str]:
    """Describe a head by its most characteristic measures: where it looks, what it contributes.

    Returns, for each of these, what is said of it. Each is said where its value is two standard
    errors beyond its bound, in this order: shares beyond ``LEAST_SHARE`` that are more than an even
    head's and than at step 0, the largest first, either of places or of tokens, since a token on a
    place would count in both; the better alignment error rate, if the head follows the alignment;
    entropy, if it is sharp or almost even. If none of these holds, the description says so and
    gives the largest share and the entropy. Then what explains its scores, beyond
    ``LEAST_OF_SCORES`` and what it was at step 0, the cost, and the distance if it is far. Values
    are NaN where a measure is undefined for the kind; ``beside`` has what is known of each measure,
    and the rest is as for ``describe_value``.
    """
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    by = {name: beside.get(name, NO_BASELINES) for name in known}
    measured = [name for name in (*BY_PLACE, *BY_TOKEN) if name in known]
    shares = [measured[i] for i in descending([known[name] for name in measured])]
    beyond = [
        name
        for name in shares
        if by[name].is_above(known[name], LEAST_SHARE) and by[name].is_new(known[name])
    ]
    alike = BY_PLACE if beyond and beyond[0] in BY_PLACE else BY_TOKEN
    chosen = [name for name in beyond if name in alike]
    aligned = [name for name in ("aer_predicted", "aer_consumed") if name in known]
    best = aligned[descending([-known[name] for name in aligned])[0]] if aligned else None
    if best is not None and baselines is not None:
        most = known[best] + 2 * _known(by[best].error)
        if follows_alignment(most, baselines):
            chosen.append(best)
    if "entropy" in known:
        entropy = known["entropy"]
        if by["entropy"].is_above(entropy, EVEN) or _is_sharp(entropy, by["entropy"]):
            chosen.append("entropy")
    texts = {}
    if not chosen and shares:
        first = shares[0]
        at_most = f"{known[first]:.2f} {_ON[first]}{by[first].written()}"
        texts[first] = f"no place stands out: at most {at_most}"
    if not chosen and "entropy" in known:
        chosen.append("entropy")
    chosen += [
        name
        for name in SCORE_MEASURES
        if name in known
        and by[name].is_above(known[name], LEAST_OF_SCORES)
        and by[name].is_new(known[name])
    ]
    if "cost" in known:
        chosen.append("cost")
    if "distance" in known and by["distance"].is_above(known["distance"], FAR):
        chosen.append("distance")
    return texts | {
        name: describe_value(name, kind, known[name], beside=by[name], baselines=baselines)
        for name in chosen
    }


_WITHOUT_NUMBERS: Mapping[str, str] = {
    "no place stands out": "looks at no one place most",
    "sharp": "is sharp",
    "spread almost evenly": "spreads almost evenly",
}
_LAST = "no place stands out"


def in_a_line(texts: Iterable[str]) -> str:
    """Return what ``describe_head`` says of a head in one line without a number.

    What has a word only for its number, as a cost that neither matters nor does not, is left out.
    """
    said = [text.partition(": ")[0] for text in texts if ": " in text]
    said = [each for each in said if each not in ("entropy", _LAST)] + [_LAST] * (_LAST in said)
    said = [_WITHOUT_NUMBERS.get(each, each) for each in said]
    said = [f"is {each}" if each.startswith("far from") else each for each in said]
    return ", ".join(said) or "has nothing that stands out"


class Phase(NamedTuple):
    """Checkpoints in a row at which the same is said of a measure of a head."""

    said: str
    """Without the number; "" where nothing is."""
    first: int
    last: int


def phases(texts: Mapping[int, str]) -> list[Phase]:
    """Find when what is said of a measure of a head changes.

    Args:
        texts: step → what ``describe_value`` gives there, in the order of the steps.
    """
    said = {step: _said(text) for step, text in texts.items()}
    found = []
    for word, run in groupby(said, key=said.__getitem__):
        steps = [*run]
        found.append(Phase(word, steps[0], steps[-1]))
    return found


def _said(text: str) -> str:
    """Return what a text says of a value, without the value."""
    word, has_number, number = text.partition(": ")
    return word if has_number and number != "no value" and word != "entropy" else ""
