"""Which rows of attention maps are looked for in a corpus; pages and links use it without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headwise.model.interface import Head, Kind

WantedKeys = Literal["token", "punctuation", "special", "same", "distance", "alone"]
"""On which keys of a row a head must have its weight: on a token by name, on punctuation marks, on
special tokens, on a token at another place that equals the query's (in cross-attention, that equals
the one that is predicted), on the key at a distance from the row, or on a source token on which no
other head of cross-attention has so much in any row."""


@dataclass(frozen=True)
class RowQuery:
    """Rows are looked for in which one head, or any of a kind, has weight on some keys."""

    kind: Kind
    on: WantedKeys
    least: float = 0.5
    """What a row must have on these keys together, above 0 and up to 1."""
    head: Head | None = None
    """The head; None for any of the kind."""
    token: str = ""
    """The text whose tokens are looked for, for ``token``."""
    distance: int = -1
    """Key less row, for ``distance``; −1 in self-attention is the token before."""

    def __post_init__(self) -> None:
        if self.on not in get_args(WantedKeys):
            raise ValueError(f"on: expected one of {', '.join(get_args(WantedKeys))}")
        if not 0 < self.least <= 1:
            raise ValueError(f"least: expected a weight above 0, up to 1, got {self.least}")
        if self.head is not None and self.head.kind != self.kind:
            raise ValueError(f"head: expected one of {self.kind}, got one of {self.head.kind}")
        if self.on == "token" and not self.token.strip():
            raise ValueError("token: expected a word to look for, got none")
        if self.on == "alone" and self.kind != "cross":
            raise ValueError("alone: is asked of cross-attention, where all heads read the source")
