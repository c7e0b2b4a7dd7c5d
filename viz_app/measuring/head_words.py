"""Single heads in words, by their measures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist
from types import MappingProxyType
from typing import NamedTuple

from headwise.model.interface import Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import bound_text
from headwise.viz_app.measuring.head_measures import DESCRIBED, MEASURES, Group, in_groups
from headwise.viz_app.measuring.wording import NO_BASELINES, Baselines, WeightShare

_LAST = "no place stands out"
_WITHOUT_NUMBERS: Mapping[str, str] = {
    _LAST: "no fixed pattern",
    "matters": "important",
    "spread almost evenly": "spreads almost evenly",
}


def describe_value(name: str, kind: Kind, value: float, *, beside: Baselines = NO_BASELINES) -> str:
    """Say in words what a value of a measure means for a head; NaN gives “no value”.

    What is known ``beside`` it decides whether a word is said.
    """
    measure = DESCRIBED.get(name)
    if measure is None:
        raise ValueError(f"name: expected a measure that is described here, got {name!r}")
    if math.isnan(value):
        return f"{measure.name}: no value"
    if measure.words is None:
        return f"{measure.name}: {value:{measure.form}}{beside.written(measure.form)}"
    return measure.words.say(value, kind, beside)


def describe_head(
    values: Mapping[str, float],
    kind: Kind,
    *,
    beside: Mapping[str, Baselines] = MappingProxyType({}),
) -> dict[str, str]:
    """Describe a head by its most characteristic measures: where it looks, what it contributes.

    Returns what is said by measure, in this order, each where its value stands out: shares of its
    weight, the largest first, of places or of tokens, since a token on a place would count in both;
    the better alignment error rate; entropy, if it is sharp or almost even. If none does, the
    description says so, with the largest share and the entropy. Then what explains its scores, the
    cost, and the distance if it is far. Values that are undefined for the kind are NaN.
    """
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    by = {name: beside.get(name, NO_BASELINES) for name in known}

    def measured(*groups: Group, sign: int = 1) -> list[str]:
        """List what is known of some groups, the largest first."""
        names = [name for name in in_groups(*groups) if name in known]
        return [names[place] for place in descending([sign * known[name] for name in names])]

    def striking(names: Iterable[str]) -> list[str]:
        words = {name: MEASURES[name].words for name in names}
        return [name for name, of in words.items() if of and of.stands_out(known[name], by[name])]

    weights, sharpness = measured("place", "token"), measured("sharpness")
    beyond = striking(weights)
    chosen = [name for name in beyond if MEASURES[name].group == MEASURES[beyond[0]].group]
    chosen += striking([*measured("alignment", sign=-1)[:1], *sharpness])
    texts = {}
    if not chosen:
        chosen = sharpness
        for name in weights[:1]:
            words = MEASURES[name].words
            most = bound_text(known[name], above=True)
            on = words.on if isinstance(words, WeightShare) else ""
            texts[name] = f"{_LAST}: at most {most} {on}{by[name].written()}"
    chosen = [*chosen, *striking(measured("scores", sign=0))]
    chosen += [*measured("cost"), *striking(measured("distance"))]
    return texts | {
        name: describe_value(name, kind, known[name], beside=by[name]) for name in chosen
    }


def in_a_line(texts: Iterable[str]) -> str:
    """Return what ``describe_head`` says of a head in one line without a number. What has a word
    only for its number, as a cost that neither matters nor does not, is left out.
    """
    said = [text.partition(": ")[0] for text in texts if ": " in text]
    said = [each for each in said if each not in ("entropy", _LAST)] + [_LAST] * (_LAST in said)
    said = [_WITHOUT_NUMBERS.get(each, each) for each in said]
    return ", ".join(said) or "nothing stands out"


@dataclass(frozen=True)
class WordCounts:
    """How many values of heads have a word, and how many would by chance."""

    looked_at: int  # values that may have a word and whose error is known
    said: int
    by_chance: float  # how many would have one at most by chance: if each were just at its bound
    all_at_once: int  # those that have one although all are looked at at once (Bonferroni, at 5%)


def count_words(heads: Iterable[tuple[Mapping[str, float], Mapping[str, Baselines]]]) -> WordCounts:
    """Count words over heads, each given by its values and what is beside them, by measure."""
    found = [
        (measure.words, of[name], beside[name])
        for of, beside in heads
        for name, measure in MEASURES.items()
        if measure.words is not None and measure.group and name in of and name in beside
        if not math.isnan(of[name]) and not math.isnan(beside[name].error)
    ]
    once = NormalDist().inv_cdf(1 - 0.05 / max(len(found), 1))
    return WordCounts(
        looked_at=len(found),
        said=sum(words.stands_out(value, beside) for words, value, beside in found),
        by_chance=len(found) * (1 - NormalDist().cdf(2)),
        all_at_once=sum(
            words.stands_out(value, beside.of_many(once)) for words, value, beside in found
        ),
    )


class Phase(NamedTuple):
    """Checkpoints in a row at which the same is said of a measure of a head."""

    said: str  # without the number; "" where nothing is
    first: int
    last: int


def phases(texts: Mapping[int, str], values: Mapping[int, tuple[float, float]]) -> list[Phase]:
    """Find when what is said of a measure of a head changes; ``texts`` and ``values``, with errors,
    are by step, in order.

    A word stays until a value leaves the interval, two standard errors wide on either side, of the
    last value of which it is said by itself: else it would come and go with the noise.
    """
    said: dict[int, str] = {}
    word, last, reach = "", math.nan, 0.0
    for step, text in texts.items():
        value, error = values[step]
        found = _said(text)
        if not word or found == word or not abs(value - last) <= reach:
            word, last, reach = found, value, 2 * error
        said[step] = word
    runs = ((of, [*steps]) for of, steps in groupby(said, key=said.__getitem__))
    return [Phase(of, steps[0], steps[-1]) for of, steps in runs]


def _said(text: str) -> str:
    word, has_number, number = text.partition(": ")
    return word if has_number and number != "no value" and word != "entropy" else ""
