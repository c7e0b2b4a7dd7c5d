"""What is turned in a pass: strengths of heads, and rows of attention weights that are pinned.

A head's *strength* multiplies its output before W_O: 0 switches the head off, 1 is the model, and
below 0 the head writes the opposite. (The bias of W_O belongs to all heads and stays.) A *pinned*
row is that of one query: its weights are all on one key, or the same on every key that the query
may attend to, whatever the scores are. ``turn`` of ``model/turning.py`` runs a model so.

Nothing here needs torch, since records, links and files have it too. Layers, heads, rows and keys
are counted from 0; in names, as links and commands have them, from 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from headwise.model.interface import Head, HeadLike, Kind, head_name, parse_head, to_head, to_heads

LEAST_STRENGTH, MOST_STRENGTH = -1.0, 3.0
MEAN = "mean"
"""How names of pinned rows write that all keys have the same weight."""
_PIN_NAME = re.compile(rf"([a-z_.0-9]+):([1-9][0-9]{{0,6}}):([1-9][0-9]{{0,6}}|{MEAN})")
_ROUNDING = 1e-2
"""How far from 1 the sum of a row may be, which may be of a model in bfloat16."""


HeadPlace = TypeVar("HeadPlace", bound=HeadLike)
"""A head as ``to_head`` reads it."""


class TurnedHead(NamedTuple):
    """A head has another strength than in the model."""

    head: Head
    strength: float = 0.0

    def __str__(self) -> str:
        """Return its name, such as ``cross.2.4:1.5``, or ``cross.2.4`` for one that is off."""
        name = head_name(self.head)
        return f"{name}:{repr(self.strength).removesuffix('.0')}" if self.strength else name


class PinnedRow(NamedTuple):
    """The weights of one query of a head are set."""

    head: Head
    row: int
    """The query: a source token (``encoder_self``), or a step of decoding."""
    onto: int | tuple[float, ...] | None
    """The key that has all the weight; None for the same weight on each key that the query may
    attend to; or the weights themselves, key by key, those that are left out being 0."""

    @property
    def last_key(self) -> int:
        """The last key that has weight; 0 for the mean, which is over the keys that there are."""
        if isinstance(self.onto, tuple):
            return max(key for key, weight in enumerate(self.onto) if weight)
        return self.onto or 0

    @property
    def described(self) -> str:
        """Row and head in words."""
        return f"row {self.row + 1} of {head_name(self.head)}"

    def __str__(self) -> str:
        """Return its name, such as ``cross.2.4:3:5``, unless it has weights of its own."""
        onto = MEAN if self.onto is None else self.onto
        written = onto + 1 if isinstance(onto, int) else onto
        return f"{head_name(self.head)}:{self.row + 1}:{written}"


def parse_turned(name: str) -> TurnedHead:
    """Return what ``str`` of a turned head wrote; a head alone is off. Others are a ValueError."""
    head, colon, strength = name.partition(":")
    if not colon:
        return TurnedHead(parse_head(name))
    try:
        turned = TurnedHead(parse_head(head), float(strength))
    except ValueError:
        raise ValueError(
            f"expected a head and its strength, such as cross.2.4:1.5, got {name!r:.60}"
        ) from None
    return Turned.checked(turned)


def parse_pinned(name: str) -> PinnedRow:
    """Return what ``str`` of a row on a key or the mean wrote; anything else is a ValueError."""
    if match := _PIN_NAME.fullmatch(name):
        onto = None if match[3] == MEAN else int(match[3]) - 1
        return _checked_pin(PinnedRow(parse_head(match[1]), int(match[2]) - 1, onto))
    raise ValueError(
        f"expected a head, a row and a key or {MEAN!r}, such as cross.2.4:3:5, got {name!r:.60}"
    )


@dataclass(frozen=True)
class Turned:
    """All that is turned in a pass; heads of strength 1 are left out, since they are the model's.

    A strength that is not from −1 to 3, a head or a row that is named twice, a row or a key below
    0, a key that a query of the decoder's self-attention may not see, and weights that are negative
    or do not sum to 1 are a ValueError. Whether a model has the heads, ``turn`` says.
    """

    strengths: tuple[TurnedHead, ...] = ()
    pinned: tuple[PinnedRow, ...] = ()

    def __post_init__(self) -> None:
        strengths = [Turned.checked(TurnedHead(*each)) for each in self.strengths]
        pinned = [_checked_pin(PinnedRow(to_head(head), row, on)) for head, row, on in self.pinned]
        _require_once([head_name(each.head) for each in strengths])
        _require_once([each.described for each in pinned])
        kept = tuple(each for each in strengths if each.strength != 1)
        object.__setattr__(self, "strengths", kept)
        object.__setattr__(self, "pinned", tuple(pinned))

    @staticmethod
    def checked(turned: TurnedHead) -> TurnedHead:
        """Return a turned head if its strength is in range; else it is a ValueError."""
        head, strength = to_head(turned.head), float(turned.strength) + 0.0  # no −0
        if not LEAST_STRENGTH <= strength <= MOST_STRENGTH:  # nor is NaN
            raise ValueError(
                f"strength of {head_name(head)}: expected {LEAST_STRENGTH:g} to "
                f"{MOST_STRENGTH:g}, got {strength:g}"
            )
        return TurnedHead(head, strength)

    @classmethod
    def of(
        cls,
        strengths: Mapping[HeadPlace, float] | None = None,
        pinned: Iterable[tuple[HeadPlace, int, int | tuple[float, ...] | None]] = (),
    ) -> Turned:
        """Make it from strengths by head and rows as (head, row, onto); ``to_head`` reads heads."""
        of_heads = (TurnedHead(to_head(head), each) for head, each in (strengths or {}).items())
        rows = (PinnedRow(to_head(head), row, onto) for head, row, onto in pinned)
        return cls(tuple(of_heads), tuple(rows))

    @classmethod
    def off(cls, heads: Iterable[HeadLike] | str | Head) -> Turned:
        """Switch heads off, or one."""
        return cls.of(dict.fromkeys(to_heads(heads), 0.0))

    def __bool__(self) -> bool:
        """Return whether anything is turned."""
        return bool(self.strengths or self.pinned)

    @property
    def are_off(self) -> tuple[Head, ...]:
        """The heads that are off."""
        return tuple(each.head for each in self.strengths if each.strength == 0)

    @property
    def heads(self) -> tuple[Head, ...]:
        """Every head that is turned or has a pinned row."""
        turned, pinned = [each.head for each in self.strengths], [each.head for each in self.pinned]
        return tuple(dict.fromkeys([*turned, *pinned]))

    def strengths_in(self, kind: Kind, layer: int) -> dict[int, float]:
        """Return the strengths of one attention, by the numbers of its heads."""
        return {
            head.head: strength for head, strength in self.strengths if head[:2] == (kind, layer)
        }


def _require_once(names: list[str]) -> None:
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ValueError(f"expected each head and each row once, got {twice[0]} twice")


def _checked_pin(pin: PinnedRow) -> PinnedRow:
    head, row, onto = pin
    name = pin.described
    if row < 0:
        raise ValueError(f"{name}: expected a row from 1 on")
    if isinstance(onto, tuple):
        weights = tuple(float(each) for each in onto)
        if not all(0 <= each <= 1 for each in weights) or abs(math.fsum(weights) - 1) > _ROUNDING:
            raise ValueError(f"{name}: expected weights from 0 to 1 that sum to 1")
        last = max(key for key, each in enumerate(weights) if each)
        pin = PinnedRow(head, row, weights)
    else:
        last = 0 if onto is None else onto
    if last < 0 or (head.kind == "decoder_self" and last > row):
        most = f" to {row + 1}, which it may see" if head.kind == "decoder_self" else " on"
        raise ValueError(f"{name}: expected a key from 1{most}, got {last + 1}")
    return pin


AS_IT_IS = Turned()
"""Nothing is turned."""
