"""Read values from JSON of unknown origin; pydantic checks their types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Value = TypeVar("Value")


def validate_json(
    kind: type[Value], content: str | bytes, *, extra: Literal["forbid", "ignore"] = "forbid"
) -> Value:
    """Read JSON as a value of a type: a dataclass, a list, a tuple of several types, …

    Numbers, texts and truth values are never converted into one another.

    Args:
        kind: the type.
        content: the JSON text.
        extra: whether keys that a dataclass does not have are refused or ignored.

    Raises:
        ValueError: if it is not JSON or does not fit; the message names in one line the place, what
            was expected and what was got.
    """
    from pydantic import ValidationError  # imported late: a configuration made in Python needs none

    hashable: Any = kind  # mypy does not know that a type is
    try:
        value: Value = _adapter(hashable).validate_json(content, strict=True, extra=extra)
    except ValidationError as error:
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
    """Read the format version of a JSON object, whatever else is in it.

    Raises:
        ValueError: if it is not a JSON object with a ``format_version``.
    """
    return validate_json(_Versioned, content, extra="ignore").format_version


@dataclass(frozen=True)
class _Versioned:
    format_version: Any


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
