from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headwise.model.validation import format_version, validate_json


@dataclass(frozen=True)
class Rates:
    values: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Settings:
    name: str
    size: int = 1
    on: bool = False
    rates: Rates = Rates()

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")


def test_json_becomes_the_value_of_a_type() -> None:
    content = '{"name": "a", "size": 3, "rates": {"values": [2, 0.5]}}'
    assert validate_json(Settings, content) == Settings("a", 3, rates=Rates((2.0, 0.5)))
    assert validate_json(dict[str, int], b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (Settings, '{"name": 5}', "name: expected a valid string, got 5"),
        (Settings, '{"name": "a", "size": "3"}', "size: expected a valid integer, got '3'"),
        (Settings, '{"name": "a", "size": 3.0}', "size: expected a valid integer, got 3.0"),
        (Settings, '{"name": "a", "size": true}', "size: expected a valid integer, got True"),
        (Settings, '{"name": "a", "on": 1}', "on: expected a valid boolean, got 1"),
        (Settings, '{"size": 3}', r"name: Field required, got \{'size': 3\}"),
        (Settings, '{"name": "a", "b": 7}', "b: Unexpected keyword argument, got 7"),
        (Settings, '{"name": "a", "size": 0}', "size: expected at least 1, got 0"),
        (
            Settings,
            '{"name": "a", "rates": {"values": [1, null]}}',
            r"rates\.values\[1\]: expected a valid number, got None",
        ),
        (list[int], '[1, "2"]', r"\[1\]: expected a valid integer, got '2'"),
        (
            Settings,
            r'{"name": "a", "niña\u001b[2J": 7}',
            r"niña\\x1b\[2J: Unexpected keyword argument, got 7",
        ),
        (list[int], "[1,", "content: Invalid JSON: EOF.*"),
        (list[int], f'["{"x" * 99}"]', rf"\[0\]: expected a valid integer, got '{'x' * 39}"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(kind: Any, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        validate_json(kind, content)


def test_unknown_keys_may_be_ignored() -> None:
    assert validate_json(Settings, '{"name": "a", "b": 7}', extra="ignore") == Settings("a")


def test_the_format_version_is_read_whatever_else_there_is() -> None:
    assert format_version(b'{"format_version": 2, "a": [null]}') == 2
    assert format_version(b'{"format_version": null}') is None
    for content in (b"{}", b"[2]", b"{"):
        with pytest.raises(ValueError, match="got "):
            format_version(content)
