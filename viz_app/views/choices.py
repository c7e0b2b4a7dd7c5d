"""How a choice of a person is declared: as a field of a frozen record, of a page or of the view.

A field says of what it is a choice, so that it goes back to its default when that changes; what
changes with it; and where its widget is found. ``views/state.py`` puts the records together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, StringConstraints, TypeAdapter

from headwise.model.interface import Head, parse_head

INSIDE = {"run": "sentence", "sentence": "source", "source": "target", "target": "at"}
"""What a person looks at, from the outside in: when one changes, all inside of it do. ``at`` is the
token that is being written."""

Axis = Literal["linear", "log"]
Text = Annotated[str, StringConstraints(min_length=1)]


NamedHead = Annotated[
    Head, BeforeValidator(lambda value: parse_head(value) if isinstance(value, str) else value)
]


def choice(
    default: Any, *, of: str = "", sets: str = "", where: Mapping[str, str] | None = None
) -> Any:
    """Declare a choice: a field of a frozen dataclass.

    Args:
        default: its value until a person chooses.
        of: of what it is a choice, separated by spaces: words of ``INSIDE``, ``head``, or fields.
            When one of them changes, this goes back to its default.
        sets: which word of ``INSIDE``, or ``head``, changes with it.
        where: the address at which its widget is found, where the page does not show it at first.
    """
    return dataclasses.field(
        default=default, metadata={"of": of.split(), "sets": sets, "where": dict(where or {})}
    )


@dataclass(frozen=True)
class Declared:
    """A choice as its field declares it."""

    name: str
    page: str
    """The page that alone shows it; empty if several do."""
    default: Any
    of: tuple[str, ...]
    sets: str
    where: Mapping[str, str]
    kind: Any
    """Its type."""
    reader: TypeAdapter[Any]
    """Reads its value from text."""
    several: bool
    """Whether it has several values."""


def declared(record: type[Any], page: str = "") -> dict[str, Declared]:
    """Return the choices of a record by name; ``page`` is the page whose record it is."""
    types = get_type_hints(record, include_extras=True)
    return {
        field.name: Declared(
            name=field.name,
            page=page,
            default=field.default,
            of=tuple(field.metadata.get("of", ())),
            sets=field.metadata.get("sets", ""),
            where=field.metadata.get("where", {}),
            kind=types[field.name],
            reader=TypeAdapter(types[field.name]),
            several=any(
                get_origin(each) is tuple
                for each in (types[field.name], *get_args(types[field.name]))
            ),
        )
        for field in dataclasses.fields(record)
        if not dataclasses.is_dataclass(types[field.name])
    }


def dropped_by(name: str, choices: Mapping[str, Declared]) -> set[str]:
    """Return the choices that go back to their defaults when one of them changes."""
    changing = {name}
    inner = choices[name].sets
    while inner:
        changing.add(inner)
        inner = INSIDE.get(inner, "")
    return {each.name for each in choices.values() if not changing.isdisjoint(each.of)} - {name}
