"""Check what comes from elsewhere: values in JSON, the JSON of tokenizers, and texts.

Pydantic checks the types of values. Tokenizers of this project differ only in vocabulary and
merges. The ``tokenizers`` library would also load others: ones that crash it, have gaps in their
ids, or encode at random.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

Value = TypeVar("Value")

LONGEST_TEXT = 20_000
"""Most characters of a text that is tokenised. The models here read 1,024 tokens, some 5,000
characters; ten million letters take gigabytes before their tokens can be counted."""
MOST_VALUES = 600_000
"""Most values in JSON. One takes some 70 bytes of memory, and 250 where it is not as expected."""
_MOST_ERRORS = 1_000
"""Of more the first is not looked for: it is told only with all others, at 700 bytes each."""
_REPEATED = ("list", "tuple", "set", "frozenset", "dict")
"""Kinds of values that have as many others as they like."""


def check_values(content: str | bytes, most: int = MOST_VALUES) -> None:
    """Raise a ValueError if JSON has too many values, by its commas and opening brackets."""
    text = content.encode() if isinstance(content, str) else content
    if (found := sum(text.count(mark) for mark in (b",", b"[", b"{"))) > most:
        raise ValueError(f"expected at most {most:,} values, got some {found:,}")


def validate_json(
    type_: type[Value], content: str | bytes, *, extra: Literal["forbid", "ignore"] = "forbid"
) -> Value:
    """Read JSON as a value of a type: a dataclass, a list, a tuple of several types, …

    Numbers, texts and truth values are never converted into one another; ``extra`` is for keys that
    a dataclass does not have. What is not JSON, has too many values or does not fit is a ValueError
    whose message names in one line the place, what was expected and what was got.
    """
    check_values(content)
    hashable: Any = type_  # mypy does not know that a type is
    try:
        value: Value = _adapter(hashable).validate_json(content, strict=True, extra=extra)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_ERRORS:
            raise ValueError(f"content: expected {type_.__name__}, got {count:,} others") from None
        first = error.errors(include_url=False)[0]
        raised = first.get("ctx", {}).get("error")
        if isinstance(raised, ValueError):  # by a dataclass's own check
            raise raised from error
        # Without quotes, but with control characters as what they are.
        keys = (
            f"[{key}]" if isinstance(key, int) else f".{repr(key)[1:-1]:.40}"
            for key in first["loc"]
        )
        place = "".join(keys).removeprefix(".") or "content"
        expected = first["msg"].replace("Input should be", "expected")
        raise ValueError(f"{place}: {expected}, got {first['input']!r:.40}") from error
    return value


def format_version(content: bytes) -> Any:
    """Read the format version of a JSON object, whatever else is in it."""
    return validate_json(_Versioned, content, extra="ignore").format_version


@dataclass(frozen=True)
class _Versioned:
    format_version: Any


@cache
def _adapter(type_: Any) -> Any:
    adapter: Any = TypeAdapter(type_)
    schema = copy.deepcopy(adapter.core_schema)
    _end_at_first_error(schema)
    adapter.validator = type(adapter.validator)(schema)
    return adapter


def _end_at_first_error(schema: Any) -> None:
    """Have a list end at its first wrong item, where errors of all would take gigabytes."""
    if isinstance(schema, dict):
        if schema.get("type") in _REPEATED:
            schema["fail_fast"] = True
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            _end_at_first_error(part)


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
    """Parse the JSON of a tokenizer, whose ids must be 0, 1, 2, … without gaps."""
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
    """Raise a ValueError if ``given`` has other settings than ``own``; missing ones are ignored."""
    if odd := sorted(
        key for key, value in given.settings.items() if own.settings.get(key) != value
    ):
        raise ValueError(f"expected {', '.join(odd)} as this program sets them, got others")


def is_too_long(*texts: str) -> bool:
    """Return whether one of some texts has more characters than ``LONGEST_TEXT``."""
    return any(len(text) > LONGEST_TEXT for text in texts)


def check_text(text: str) -> None:
    """Raise a ValueError if a text is longer than ``LONGEST_TEXT``, or has lone surrogates."""
    if is_too_long(text):
        raise ValueError(
            f"the text has {len(text):,} characters, at most {LONGEST_TEXT:,} are read; shorten it"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} of the text is half a character (a lone surrogate); "
            "remove it"
        ) from error
