"""How a choice of a person is declared: as a field of a frozen record, of a page or of the view.

A field says of what it is a choice, so that it goes back to its default when that changes; what
changes with it; and where its widget is found. ``session/state.py`` puts the records together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator, StringConstraints, TypeAdapter

from headwise.model.interface import Head, parse_head
from headwise.model.turned import PinnedRow, Turned, TurnedHead, parse_pinned, parse_turned

INNER_SCOPE = {"run": "sentence", "sentence": "source", "source": "target", "target": "at"}
"""What a person looks at, from the outside in: when one changes, all inside of it do. ``at`` is the
token that is being written."""

Axis = Literal["linear", "log"]
Text = Annotated[str, StringConstraints(min_length=1)]


NamedHead = Annotated[
    Head, BeforeValidator(lambda value: parse_head(value) if isinstance(value, str) else value)
]


def _each_head_once(strengths: tuple[TurnedHead, ...]) -> tuple[TurnedHead, ...]:
    Turned(tuple(dict.fromkeys(strengths)))
    return strengths


def _each_row_once(pinned: tuple[PinnedRow, ...]) -> tuple[PinnedRow, ...]:
    Turned(pinned=tuple(dict.fromkeys(pinned)))
    return pinned


NamedStrengths = Annotated[
    tuple[
        Annotated[
            TurnedHead,
            BeforeValidator(lambda value: parse_turned(value) if isinstance(value, str) else value),
        ],
        ...,
    ],
    AfterValidator(_each_head_once),
]
"""Strengths of heads, each named once; a head alone, as links had it at first, is off."""
NamedPins = Annotated[
    tuple[
        Annotated[
            PinnedRow,
            BeforeValidator(lambda value: parse_pinned(value) if isinstance(value, str) else value),
        ],
        ...,
    ],
    AfterValidator(_each_row_once),
]
"""Pinned rows, each named once."""


def choice(
    default: Any,
    *,
    of: str = "",
    sets: str = "",
    on: str = "",
    where: Mapping[str, str] | None = None,
    opens: bool = False,
) -> Any:
    """Declare a choice: a field of a frozen dataclass.

    Args:
        default: its value until a person chooses.
        of: of what it is a choice, separated by spaces: words of ``INNER_SCOPE``, ``head``, fields.
            When one of them changes, this goes back to its default.
        sets: which word of ``INNER_SCOPE``, or ``head``, changes with it.
        on: of a choice that several pages show, but not all: these pages, separated by spaces.
        where: the address at which its widget is found, where the page does not show it at first.
        opens: of a choice of the section that is open: whether an address that does not name the
            section, but a choice that is found in it, opens it.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "of": of.split(),
            "sets": sets,
            "on": on.split(),
            "where": dict(where or {}),
            "opens": opens,
        },
    )


@dataclass(frozen=True)
class Declared:
    """A choice as its field declares it."""

    name: str
    page: str
    """The page whose record has it; empty if that of the view has."""
    on: tuple[str, ...]
    """The pages that show it; empty for all."""
    default: Any
    of: tuple[str, ...]
    sets: str
    where: Mapping[str, str]
    opens: bool
    """Whether it is a section that opens where an address names a choice which is found in it."""
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
            on=(page,) if page else tuple(field.metadata.get("on", ())),
            default=field.default,
            of=tuple(field.metadata.get("of", ())),
            sets=field.metadata.get("sets", ""),
            where=field.metadata.get("where", {}),
            opens=field.metadata.get("opens", False),
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
        inner = INNER_SCOPE.get(inner, "")
    return {each.name for each in choices.values() if not changing.isdisjoint(each.of)} - {name}
