"""Heads that feed heads: how well what one writes fits what a later one reads, by their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, head_name
from headwise.viz_app.records.account import Doubles
from headwise.viz_app.records.trace import Floats

Role = Literal["query", "key", "value"]
"""What a later head makes of what it reads."""
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Edge:
    """An earlier head, and a later one that may read what it wrote."""

    earlier: Head
    later: Head
    role: Role
    score: float
    """The norm of the product of both matrices over the product of their norms, less what random
    matrices of the same shapes and spectra have on average."""
    chance: float
    """What these have on average."""
    error: float
    """The standard deviation of what these have."""

    @property
    def stands_out(self) -> bool:
        """Return whether the score is above three standard errors of what is random."""
        return self.score > 3 * self.error


@dataclass(frozen=True)
class Composition:
    """All edges of a model; E of them."""

    heads: tuple[Head, ...]
    earlier: NDArray[np.int64]
    """Indices of ``heads``, (E,)."""
    later: NDArray[np.int64]
    """(E,)."""
    role: NDArray[np.int64]
    """Indices of ``ROLES``, (E,)."""
    score: Floats
    """(E,)."""
    chance: Floats
    """(E,)."""
    error: Floats
    """(E,)."""

    @property
    def stand_out(self) -> NDArray[np.bool_]:
        """Return which edges are above three standard errors of what is random, (E,)."""
        return np.asarray(self.score > 3 * self.error)

    def edge(self, place: int) -> Edge:
        """Return one edge, by its place among the E."""
        return Edge(
            self.heads[self.earlier[place]],
            self.heads[self.later[place]],
            ROLES[self.role[place]],
            float(self.score[place]),
            float(self.chance[place]),
            float(self.error[place]),
        )

    def between(self, earlier: Head, later: Head, role: Role) -> Edge:
        """Return the edge of two heads; a ValueError if the later one does not read so."""
        of = self.heads.index(earlier), self.heads.index(later), ROLES.index(role)
        [*places] = np.flatnonzero(
            (self.earlier == of[0]) & (self.later == of[1]) & (self.role == of[2])
        )
        if not places:
            raise ValueError(f"expected an edge from {earlier} to {later} by its {role}")
        return self.edge(int(places[0]))

    def strongest(self, most: int) -> list[Edge]:
        """Return the edges that stand out, the largest score first."""
        out = np.flatnonzero(self.stand_out)
        order = out[np.argsort(-self.score[out], kind="stable")]
        return [self.edge(int(place)) for place in order[:most]]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all edges under the names that files have, (E,) each, the strongest first."""
        order = np.argsort(-self.score, kind="stable")
        names = np.array([head_name(head) for head in self.heads])
        return {
            "earlier": names[self.earlier[order]],
            "later": names[self.later[order]],
            "role": np.array(ROLES)[self.role[order]],
            "score": self.score[order],
            "error": self.error[order],
            "chance": self.chance[order],
            "stands_out": self.stand_out[order],
        }


@dataclass(frozen=True)
class PathEffects:
    """What a later head loses without what an earlier one wrote, in one sentence.

    ``H`` are the heads of the earlier one's layer, it among them: the others are compared with.
    """

    earlier: Head
    later: Head
    weights: Doubles
    """The later head's map as it was, (Q, M)."""
    maps: Mapping[Role, Doubles]
    """Its map where a head is taken out of only its queries, or its keys, (H, Q, M); one that the
    later head does not read so is absent."""
    values: Doubles | None
    """The length of what a head brings to its output by the values alone, over the length of the
    output, (H, Q); None where it does not read so."""
