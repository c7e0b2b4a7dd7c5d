"""A model as a tree: its modules with their parameters, and its hook points with what they saw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from viz_app.records import HookSummary


@dataclass(frozen=True)
class Parameter:
    """A tensor of weights, by its full name; ``shared_with`` is its first name where it is tied."""

    name: str
    shape: tuple[int, ...]
    shared_with: str | None = None

    @property
    def count(self) -> int:
        """Numbers in it; none where they are counted at its first place."""
        return 0 if self.shared_with is not None else math.prod(self.shape)


@dataclass(frozen=True)
class Point:
    """A hook point: what its tensor is, and its numbers for one sentence."""

    summary: HookSummary
    meaning: str

    @property
    def path(self) -> str:
        """Its full name."""
        return self.summary.name


@dataclass(frozen=True)
class Module:
    """A module of the model; ``children`` are in the model's order."""

    path: str
    title: str
    what: str
    formula: str
    parameters: tuple[Parameter, ...]
    """Of its own."""
    children: tuple[Module | Point, ...]

    @property
    def own(self) -> int:
        """Number of parameters that belong to no module below."""
        return sum(parameter.count for parameter in self.parameters)

    @property
    def total(self) -> int:
        """Number of parameters, its own and of all below."""
        return self.own + sum(part.total for part in self.parts)

    @property
    def parts(self) -> tuple[Module, ...]:
        """Modules directly below."""
        return tuple(child for child in self.children if isinstance(child, Module))

    def walk(self) -> Iterator[Module | Point]:
        """This module and all below it, each before what it holds."""
        yield self
        for child in self.children:
            if isinstance(child, Module):
                yield from child.walk()
            else:
                yield child
