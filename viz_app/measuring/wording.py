"""How values of heads are said in words, and from which value on a word is said.

Each class is a way of saying the values of a measure; ``head_measures.py`` gives one to each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headwise.model.interface import Kind
from headwise.viz_app.analysis.attention import ALMOST_EVEN
from headwise.viz_app.analysis.labels import OFF_NOTE
from headwise.viz_app.records.measures import AlignmentBaselines

LEAST_SHARE = 0.4  # share of a head's weight beyond which the head is said to look there
SHARP = 0.4  # entropy below which a head is called sharp
LITTLE, MUCH = 0.005, 0.05  # nats per token: a cost below hardly matters, one above matters
NEAR = 0.1  # alignment error rates so far from the lowest possible one are always near it
FAR = 0.3  # distance to another checkpoint beyond which it is called far, and below which near
LEAST_OF_SCORES = 0.5  # share of the variance of scores that explains them
WORDS_NOTE = (
    "A word is said where a value is two standard errors beyond its bound: where a head looks or "
    f"rests, a share of {LEAST_SHARE}; sharp, an entropy below {SHARP}; almost even, above "
    f"{ALMOST_EVEN}; a cost that hardly matters, below {LITTLE} nats per token, or matters, above "
    f"{MUCH}; far, a distance of {FAR}; by position or by token, a share of {LEAST_OF_SCORES} of "
    "what tells keys apart in its scores. Looks, rests, sharp, by, matters and in the way are said "
    "only of values that are also beyond what an even head has and what the head itself had at "
    f"step 0, which stand in brackets. {OFF_NOTE}"
)


@dataclass(frozen=True)
class Baselines:
    """What stands beside a measured value of a head, to judge it by; NaN where it is unknown."""

    error: float = math.nan  # the value's standard error
    even: float = math.nan  # what a head has whose rows are all even
    first: float = math.nan  # what the head had at step 0, before it learned
    first_error: float = math.nan
    alignment: AlignmentBaselines | None = None  # what alignment error rates are compared with

    @property
    def doubled(self) -> float:
        """Two standard errors; 0 if they are unknown."""
        return 2 * _known(self.error)

    def is_above(self, value: float, bound: float) -> bool:
        """Return whether a value is at least two standard errors above a bound."""
        return value >= bound + self.doubled

    def is_below(self, value: float, bound: float) -> bool:
        """Return whether a value is more than two standard errors below a bound."""
        return value < bound - self.doubled

    def is_new(self, value: float, *, below: bool = False) -> bool:
        """Return whether a value is at least two standard errors above an even head's and that at
        step 0, or below them; from step 0 those of the difference, as of independent values.
        """
        apart = 2 * math.hypot(_known(self.error), _known(self.first_error))
        sign = -1 if below else 1
        after = math.isnan(self.first) or sign * (value - self.first) >= apart
        uneven = math.isnan(self.even) or sign * (value - self.even) >= self.doubled
        return after and uneven

    def of_many(self, z: float) -> Baselines:
        """Return what judges a value at ``z`` standard errors in place of two."""
        first_error = self.first_error * z / 2
        return replace(self, error=self.error * z / 2, first_error=first_error)

    def written(self, form: str = ".2f") -> str:
        known = {"an even head": self.even, "checkpoint 0 had": self.first}
        said = [
            f"{name} {with_error(value, math.nan, form)}"
            for name, value in known.items()
            if not math.isnan(value)
        ]
        return f" ({', '.join(said)})" if said else ""


def with_error(value: float, error: float, form: str = ".3f") -> str:
    """Return a value with its standard error, which has as many digits; alone if that is unknown.

    ``form`` is as ``.2f`` or ``+.2f``. No value is −0.
    """
    value = round(value, int(form[-2])) + 0.0
    return f"{value:{form}}{plus_minus(error, form)}"


def plus_minus(error: float, form: str = ".3f") -> str:
    """Return an error as it stands behind a value, with a space before; "" if it is unknown.

    One that rounds to 0, as errors in files do to five decimals, is below the last digit.
    """
    if math.isnan(error):
        return ""
    digits = form.lstrip("+")
    written, last = f"{error:{digits}}", 10 ** -int(digits[1:-1])
    return f" ± {written}" if float(written) else f" ± < {last:{digits}}"


def exact_error(sentences: int) -> float:
    """Return half the reach of a share that is 0, or 1, in each of some sentences, of which
    resamples say nothing: its 95% interval (Clopper and Pearson 1934) is 1 − 0.025^(1/n) wide.
    """
    return (1 - 0.025 ** (1 / max(sentences, 1))) / 2


def _known(error: float) -> float:
    return 0.0 if math.isnan(error) else error


NO_BASELINES = Baselines()


@dataclass(frozen=True)
class Wording:
    """Says a value in a sentence without a word for it; ``{value}`` stands for it."""

    text: str

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        """Say a value of a head of some kind: a word, if there is one, a colon, and the number."""
        return self.text.format(value=value) + beside.written()

    def stands_out(self, value: float, beside: Baselines) -> bool:
        """Return whether the value is among what is most striking in a head."""
        return False


@dataclass(frozen=True)
class WeightShare(Wording):
    """Says a share of a head's weight."""

    on: str  # where the weight is, as in "on </s>"
    across: str = ""  # ``text`` for cross-attention, if it is another

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        if not self.stands_out(value, beside):
            return f"{value:.2f} of its weight {self.on}{beside.written()}"
        looks = self.across if kind == "cross" and self.across else self.text
        return f"{looks}: {value:.2f} of its weight{beside.written()}"

    def stands_out(self, value: float, beside: Baselines) -> bool:
        return beside.is_above(value, LEAST_SHARE) and beside.is_new(value)


class Sharpness(Wording):
    """Says an entropy relative to the largest possible one."""

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        even, sharp = beside.is_above(value, ALMOST_EVEN), self._is_sharp(value, beside)
        how = "spread almost evenly" if even else "sharp" if sharp else "entropy"
        return f"{how}: {value:.2f} of the largest possible entropy{beside.written()}"

    def stands_out(self, value: float, beside: Baselines) -> bool:
        return beside.is_above(value, ALMOST_EVEN) or self._is_sharp(value, beside)

    def _is_sharp(self, value: float, beside: Baselines) -> bool:
        return beside.is_below(value, SHARP) and beside.is_new(value, below=True)


class Cost(Wording):
    """Says what switching a head off costs."""

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        how, verb = self._how(value, beside), "gains" if round(value, 3) < 0 else "costs"
        return (
            f"{how}{': ' * bool(how)}switching it off {verb} "
            f"{with_error(abs(value), beside.error)} nats per token{beside.written('+.3f')}"
        )

    def stands_out(self, value: float, beside: Baselines) -> bool:
        return bool(self._how(value, beside))

    def _how(self, value: float, beside: Baselines) -> str:
        if beside.is_below(abs(value), LITTLE):
            return "hardly matters"
        if beside.is_below(value, -LITTLE) and beside.is_new(value, below=True):
            return "is in the way"
        return "matters" if beside.is_above(value, MUCH) and beside.is_new(value) else ""


class Distance(Wording):
    """Says how far a head is from what it is at another checkpoint, which ``text`` names."""

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        near, far = beside.is_below(value, FAR), self.stands_out(value, beside)
        how = "far from" if far else "near" if near else "at some distance from"
        return f"{how} what it is at {self.text}: distance {value:.2f}"

    def stands_out(self, value: float, beside: Baselines) -> bool:
        return beside.is_above(value, FAR)


class ScoreShare(Wording):
    """Says which share of the variance of its scores a part, which ``text`` names, explains."""

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        share = with_error(value, beside.error, ".2f")
        return f"{self.text}: {share} of what tells keys apart{beside.written()}"

    def stands_out(self, value: float, beside: Baselines) -> bool:
        return beside.is_above(value, LEAST_OF_SCORES) and beside.is_new(value)


class AlignmentError(Wording):
    """Says an alignment error rate against those of the diagonal and the best possible links."""

    def say(self, value: float, kind: Kind, beside: Baselines) -> str:
        baselines, rate = beside.alignment, with_error(value, beside.error, ".2f")
        if baselines is None:
            return f"alignment error rate {rate} by {self.text}"
        above, follows = beside.is_above(value, baselines.diagonal), "follows the word alignment of"
        if self.stands_out(value, beside):
            how = f"{follows} {self.text} tokens: "
        elif beside.is_below(value, baselines.diagonal):
            how = f"{follows} {self.text} tokens in part: "
        else:
            how = f"does not follow the word alignment of {self.text} tokens: " if above else ""
        return (
            f"{how}error rate {rate}{'' if how else f' by {self.text}'}, of the diagonal "
            f"{baselines.diagonal:.2f}, at best {baselines.lowest:.2f}{beside.written()}"
        )

    def stands_out(self, value: float, beside: Baselines) -> bool:
        """Return whether a rate is nearer to the lowest possible one than to the diagonal's. Where
        the diagonal is nearly right itself, as in a copying task, ``NEAR`` the lowest is enough.
        """
        if (baselines := beside.alignment) is None:
            return False
        enough = max((baselines.lowest + baselines.diagonal) / 2, baselines.lowest + NEAR)
        return value + beside.doubled <= enough
