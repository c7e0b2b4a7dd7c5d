"""A question of a lesson: what can be answered, what is right and why, in numbers of a sentence.

``Q`` queries, ``M`` keys. A place is what a click in the page gives: (row, key) for a cell, (layer,
head) for a head, (token,) for a row or a token, all counted from 0. Other answers are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from headwise.model.interface import Description, Head, Kind
from headwise.model.ties import descending, first_largest
from headwise.viz_app.analysis.attention import Aggregate
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.analysis.rollout import CellValue, map_of_heads, weights_of
from headwise.viz_app.records.measures import Curve
from headwise.viz_app.records.pairs import MeasuredPairs
from headwise.viz_app.records.trace import Floats, Trace

if TYPE_CHECKING:  # questions are asked without torch
    from headwise.viz_app.core.circuits import ScoreParts
    from headwise.viz_app.core.written import HeadDictionary
    from headwise.viz_app.why.sentences.patching import PatchedPair
    from headwise.viz_app.why.word.account import Account

Place = tuple[int, ...]
PlaceWord = Literal["first", "second", "middle", "last"]
RowWord = Literal["chosen", "heaviest"] | PlaceWord | Annotated[NonNegativeInt, "a row, from 0"]
"""A row of a map: the one that is chosen on the page, the one with the largest weight, or where."""
MOST_CHOICES = 4


def place_of(word: str | int, count: int) -> int:
    """Return which of ``count`` places a word or number means; the last if there are too few."""
    places = {"first": 0, "second": 1, "middle": count // 2, "last": count - 1}
    wanted = word if isinstance(word, int) else places[word]
    return max(0, min(wanted, count - 1))


def first_difference(target: Sequence[int], other: Sequence[int]) -> tuple[int, int]:
    """Return at which step two targets, from ``<s>`` on, first differ, and the other's token there.

    ValueError if this vocabulary reads both as the same tokens.
    """
    for place, (one, two) in enumerate(zip(target, other, strict=False)):
        if one != two:
            return place - 1, two
    raise ValueError(
        "this model's vocabulary reads both targets of this page as the same tokens; open a run "
        "that knows their words"
    )


def heaviest_row(weights: Floats, trace: Trace, kind: Kind) -> int:
    """Return the row of the largest weight of a map, (Q, M): of a whole word if possible, then of
    any token, but for rows all on one key, as a masked first row must be.
    """
    largest = weights.max(axis=1)
    largest = np.where(largest < 0.9999, largest, 0)
    rows = trace.source if kind == "encoder_self" else trace.predicted
    whole = [word.start for word in rows.words if word.stop - word.start == 1]
    named = [row for row in whole if rows.ids[row] not in rows.special_ids and largest[row]]
    return named[int(first_largest(largest[named]))] if named else int(first_largest(largest))


def most_changed_row(trace: Trace, head: Head) -> int:
    """Return the row of a head's map that weights times value norms change most.

    Rows in which another key becomes the largest come before the others.
    """
    weights, shares = (
        weights_of(trace, head.kind, cells)[head.layer, head.head] for cells in get_args(CellValue)
    )
    changes = np.abs(weights - shares).sum(axis=1)  # at most 2
    overtaken = first_largest(weights) != first_largest(shares)
    return int(first_largest(changes + 2 * overtaken))


class Compared(NamedTuple):
    """The account of a word against another one, and how people read the two."""

    account: Account
    word: str
    other: str


def _absent(message: str) -> Callable[..., Any]:
    """Return what is asked for where there is none: it raises ValueError with this message."""

    def refuse(*_: object) -> Any:
        raise ValueError(message)

    return refuse


_NO_ACCOUNT = _absent("there is no account of a word here; open the page Why")
_NO_SCORES = _absent("there are no scores to take apart here; open the page Inside a head")
_NO_DICTIONARY = _absent("there is no dictionary of a head here; open the page Heads")
_NO_PAIR = _absent("expected a second sentence to compare with; type one on the page Why")


@dataclass(frozen=True)
class Asked:
    """This is what a question is asked of: a trace, and what is chosen on the page."""

    trace: Trace
    model: Description
    head: Head
    row: int = 0  # the chosen query, or step of decoding
    column: int | None = None  # the chosen key
    cells: CellValue = "weight"
    show: Aggregate = "head"  # whether of the head, or of its layer's heads together
    curves: Mapping[str, Curve] = field(default_factory=dict)
    costs: Callable[[], Mapping[Kind, Floats]] = dict  # of each head, in nats: kind → (L, H)
    pairs: Callable[[], MeasuredPairs | None] = lambda: None  # what was measured on them, if it was
    turned: Callable[[], Trace] | None = None  # with the heads that the view turns
    account: Callable[[], Compared] = _NO_ACCOUNT  # of the chosen token against another
    patched_pair: Callable[[], PatchedPair] = _NO_PAIR  # by the second sentence of the page
    score_parts: Callable[[Head, int], ScoreParts] = _NO_SCORES
    written: Callable[[Head], HeadDictionary] = _NO_DICTIONARY  # for each key of the sentence

    @cached_property
    def grid(self) -> Grid:
        """The rows and columns of the head's map, token by token."""
        return make_grid(self.trace, self.head.kind)

    @cached_property
    def weights(self) -> Floats:
        """The large map, (Q, M), its cells as they are chosen."""
        return map_of_heads(self.trace, self.head, self.show, self.cells)

    def keys_of(self, row: int) -> NDArray[np.int64]:
        """Return the keys that a row may look at."""
        allowed = self.grid.allowed
        every = np.arange(len(self.grid.columns))
        return every if allowed is None else every[allowed[row]]

    def row_of(self, word: str | int) -> int:
        """Return the row that a word means."""
        if word == "heaviest":
            return heaviest_row(self.weights, self.trace, self.head.kind)
        return place_of(self.row if word == "chosen" else word, len(self.weights))


@dataclass(frozen=True)
class Choice:
    """A possible answer has a place, a name, and what there is to say to who chooses it."""

    place: Place
    label: str
    note: str  # why it is right or not, in a sentence or two with numbers


@dataclass(frozen=True)
class Question:
    """A question offers choices, of which one or more are right."""

    choices: tuple[Choice, ...]
    right: frozenset[Place]
    names: Mapping[str, str] = field(default_factory=dict)  # in braces in its text
    elsewhere: str = ""  # what there is to say of a place that is none of the choices

    def is_right(self, place: Place) -> bool:
        """Whether an answer is right."""
        return place in self.right

    def reason(self, place: Place) -> str:
        """Say why an answer is right or not."""
        return next((each.note for each in self.choices if each.place == place), self.elsewhere)


def listed(labels: Sequence[str] | Mapping[int, str], note: Callable[[int], str]) -> list[Choice]:
    """Offer labels, all or those of some places, each with what ``note`` says of its place."""
    places = labels if isinstance(labels, Mapping) else dict(enumerate(labels))
    return [Choice((place,), label, note(place)) for place, label in places.items()]


def numbers(
    right: float,
    others: Iterable[float],
    *,
    written: Callable[[float], str],
    note: str,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Question:
    """Ask for a number among others, those that a mistake would give; one that is written as the
    right one is left out. ``note`` explains the right answer, and is said of every answer.
    """
    labels = {written(right): right}
    for value in others:
        if np.isfinite(value):
            labels.setdefault(written(value), value)
    if len(labels) == 1:
        labels.setdefault(written(2 * right + 1), 2 * right + 1)
    ordered = sorted(labels, key=labels.__getitem__)
    choices = tuple(Choice((i,), label, note) for i, label in enumerate(ordered))
    return Question(choices, frozenset({(ordered.index(written(right)),)}), names)


def limited(
    choices: Sequence[Choice], right: Iterable[Place], values: Sequence[float]
) -> list[Choice]:
    """Keep the right choices and those with the largest values beside them, in their order."""
    kept = {choice.place for choice in choices} & set(right)
    for index in descending(values):
        if len(kept) < MOST_CHOICES:
            kept.add(choices[int(index)].place)
    return [choice for choice in choices if choice.place in kept]
