"""Check texts, and the JSON of a tokenizer before the ``tokenizers`` library loads it.

Tokenizers of this project differ only in vocabulary and merges. The library would also load others:
ones that crash it, have gaps in their ids, or encode at random.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TokenizerDescription:
    """The JSON of a tokenizer, taken apart."""

    model: str
    """Type of the model."""
    vocabulary: dict[str, int]
    merges: list[tuple[str, str]]
    settings: dict[str, Any]
    """All other settings; those of the model have names that begin with ``model.``"""


def parse_description(text: str) -> TokenizerDescription:
    """Parse the JSON of a tokenizer.

    Raises:
        ValueError: if it is not a tokenizer, or its ids are not 0, 1, 2, … without gaps.
    """
    try:
        settings = json.loads(text)
        model = settings.pop("model")
        settings |= {f"model.{key}": value for key, value in model.items()}
        vocabulary = settings.pop("model.vocab")
        merges = [(first, second) for first, second in settings.pop("model.merges", [])]
        ids = sorted(vocabulary.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no vocabulary and merges of a model in it ({error!r})") from error
    if ids != list(range(len(ids))):
        raise ValueError(f"expected the ids 0 to {len(ids) - 1}, got others")
    return TokenizerDescription(str(settings.get("model.type")), vocabulary, merges, settings)


def check_same_settings(given: TokenizerDescription, own: TokenizerDescription) -> None:
    """Raise an error if ``given`` has other settings than ``own``; missing ones are ignored.

    Raises:
        ValueError: if settings differ; the message names them.
    """
    if odd := sorted(
        key for key, value in given.settings.items() if own.settings.get(key) != value
    ):
        raise ValueError(f"expected {', '.join(odd)} as this program sets them, got others")


def refuse_half_characters(text: str) -> None:
    """Raise an error if a text has lone surrogates, which no encoding can represent.

    Raises:
        ValueError: if it has; the message names the first.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} of the text is half a character (a lone surrogate); "
            "remove it"
        ) from error
