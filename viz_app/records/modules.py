"""A model as a tree: modules with their parameters, hook points with numbers for a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headwise.viz_app.records.trace import HookSummary


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model has a full name; a tied tensor is listed once for each name."""

    name: str
    shape: tuple[int, ...]
    shared_with: str | None = None
    """The first name of the tensor; None at that name itself and for tensors that are not tied."""

    @property
    def count(self) -> int:
        """Number of scalars; 0 for a tied tensor except at its first name."""
        return 0 if self.shared_with is not None else math.prod(self.shape)


@dataclass(frozen=True)
class HookPointNode:
    """A hook point is a leaf of the tree: what its tensor means, and a summary for one sentence."""

    summary: HookSummary
    meaning: str

    @property
    def path(self) -> str:
        """Full name of the hook point."""
        return self.summary.name


@dataclass(frozen=True)
class ModuleNode:
    """A module is an inner node of the tree: texts about it, its parameters and its children."""

    path: str
    title: str
    what: str
    """What the module does, in a few words."""
    formula: str
    parameters: tuple[Parameter, ...]
    """The parameters that belong to this module directly, not to a child."""
    children: tuple[ModuleNode | HookPointNode, ...]
    """Modules and hook points directly below, in the model's order."""

    @property
    def own(self) -> int:
        """Number of scalars in ``parameters``."""
        return sum(parameter.count for parameter in self.parameters)

    @property
    def total(self) -> int:
        """Number of scalars in the parameters of this module and all modules below."""
        return self.own + sum(part.total for part in self.parts)

    @property
    def parts(self) -> tuple[ModuleNode, ...]:
        """The modules among ``children``."""
        return tuple(child for child in self.children if isinstance(child, ModuleNode))

    def walk(self) -> Iterator[ModuleNode | HookPointNode]:
        """Yield this node and all nodes below it, parents before children."""
        yield self
        for child in self.children:
            if isinstance(child, ModuleNode):
                yield from child.walk()
            else:
                yield child
