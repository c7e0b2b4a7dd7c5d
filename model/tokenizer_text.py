"""The text of a tokenizer, read before the native library sees it.

A tokenizer of ours differs from another of ours in its vocabulary and merges alone. The library
would run any other: one whose normaliser it panics at, whose ids have holes, or that draws lots.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Description:
    """What such a text says."""

    model: str
    """Type of the model."""
    vocabulary: dict[str, int]
    merges: list[tuple[str, str]]
    rest: dict[str, Any]
    """All else, that of the model under names with a dot."""


def describe(text: str) -> Description:
    """Take the text of a tokenizer to pieces.

    Raises:
        ValueError: if it is none, or its ids do not count from 0 without a gap.
    """
    try:
        rest = json.loads(text)
        model = rest.pop("model")
        rest |= {f"model.{key}": value for key, value in model.items()}
        vocabulary = rest.pop("model.vocab")
        merges = [(first, second) for first, second in rest.pop("model.merges", [])]
        ids = sorted(vocabulary.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no vocabulary and merges of a model in it ({error!r})") from error
    if ids != list(range(len(ids))):
        raise ValueError(f"expected the ids 0 to {len(ids) - 1}, got others")
    return Description(str(rest.get("model.type")), vocabulary, merges, rest)


def check_same_rest(given: Description, own: Description) -> None:
    """Refuse what is set otherwise; settings that are not named do not count.

    Raises:
        ValueError: naming them.
    """
    if odd := sorted(key for key, value in given.rest.items() if own.rest.get(key) != value):
        raise ValueError(f"expected {', '.join(odd)} as this program sets them, got others")
