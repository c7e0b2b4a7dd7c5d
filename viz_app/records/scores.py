"""A score of a head as a table: parts of the query times parts of the key.

``A`` parts of the query, ``C`` parts of a key, ``M`` keys, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head
from headwise.viz_app.records.account import Doubles

RELATIVE = "relative position"
"""The name of what relative positions add to a score: a part that is no product."""


@dataclass(frozen=True)
class ScoreParts:
    """One row of a head's scores, whose query and keys are sums over what was written.

    Parts have the names of accounts: ``token``, ``position``, ``encoder_self.1.2``,
    ``feed_forward.1``, ``biases``. ``position`` is absent where the model adds no positions to its
    embeddings. Arrays are read-only.
    """

    head: Head
    row: int
    """The query, from 0."""
    query_parts: Mapping[str, Doubles]
    """(K,) each; they sum to the query."""
    key_parts: Mapping[str, Doubles]
    """(M, K) each; they sum to the keys. In decoder self-attention M counts the keys up to the
    row, beyond which it may not look."""
    scale: float
    """Factor of the products: 1/√K, or 1 in a model that does not scale."""
    relative: Doubles | None
    """What relative positions add, (M,); None where positions are embedded."""
    scores: Doubles
    """The scores before the softmax, as the model computed them, (M,)."""

    def tables(self) -> Doubles:
        """Return scale · query part · key part for all pairs of parts and all keys: (A, C, M)."""
        queries, keys = np.stack([*self.query_parts.values()]), np.stack([*self.key_parts.values()])
        return self.scale * np.einsum("ak,cmk->acm", queries, keys)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the tables as arrays under the names that files have."""
        found: dict[str, NDArray[np.generic]] = {
            "query_part_names": np.array([*self.query_parts]),
            "key_part_names": np.array([*self.key_parts]),
            "tables": self.tables(),
            "scores": self.scores,
        }
        return found if self.relative is None else found | {"relative": self.relative}

    @property
    def deviation(self) -> float:
        """Return by how much the tables' sums miss the scores at most: rounding of the pass."""
        sums = self.tables().sum(axis=(0, 1)) + (0 if self.relative is None else self.relative)
        return float(np.abs(sums - self.scores).max())
