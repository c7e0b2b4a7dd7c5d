"""Heads that feed heads, in numbers and words: names of edges, and how far a map changes.

``H`` heads, ``Q`` and ``M`` the query and key lengths of a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, head_name, parse_head
from headwise.viz_app.records.account import Doubles
from headwise.viz_app.records.composition import ROLES, Edge, PathEffects, Role

CANNOT_TELL = (
    "The score is of weights alone: it says what the later head could read of what the earlier one "
    "writes, not that the one writes anything, or the other looks, in any sentence."
)


class PathName(NamedTuple):
    """An edge without its score."""

    earlier: Head
    later: Head
    role: Role


def path_name(edge: Edge | PathName) -> str:
    """Return how links name an edge, such as ``encoder_self.1.2-cross.1.1-key``."""
    return f"{head_name(edge.earlier)}-{head_name(edge.later)}-{edge.role}"


def parse_path(name: str) -> PathName | None:
    """Return the edge of a name that ``path_name`` wrote; None for another text."""
    try:
        earlier, later, role = name.split("-")
        return PathName(parse_head(earlier), parse_head(later), ROLES[ROLES.index(role)])
    except ValueError:
        return None


def map_distances(weights: Doubles, others: Doubles) -> Doubles:
    """Return the mean Jensen-Shannon distance of rows of a map (Q, M) to those of others: (H,).

    Each is from 0 to 1: the square root of the divergence to base 2 (Endres and Schindelin 2003).
    Rows with only one key that is looked at in both do not count; NaN without any other.
    """
    p, q = np.broadcast_to(weights, others.shape), others
    middle = (p + q) / 2

    def relative(x: Doubles) -> Doubles:
        ratio = np.divide(x, middle, out=np.ones_like(middle), where=x > 0)
        return np.asarray((x * np.log2(ratio)).sum(axis=-1))

    distance = np.sqrt(np.clip((relative(p) + relative(q)) / 2, 0, None))  # (H, Q)
    several = (weights > 0).sum(axis=-1) > 1
    return distance[:, several].mean(axis=-1) if several.any() else np.full(len(others), np.nan)


def path_sentences(found: PathEffects) -> list[str]:
    """Say by how much the later head changes, beside the other heads of the earlier one's layer."""
    said = []
    for role, others in found.maps.items():
        distances = map_distances(found.weights, others)
        said.append(
            f"Out of only its {'queries' if role == 'query' else 'keys'}, the rows of its map move "
            f"by {distances[found.earlier.head]:.3f} on average (Jensen-Shannon distance: 0 is the "
            f"same, 1 no key in common){_beside(distances, found.earlier.head)}."
        )
    if found.values is not None:
        shares = found.values.mean(axis=-1)
        said.append(
            f"Out of only its values, its map stays, and its output changes by "
            f"{shares[found.earlier.head]:.2f} of its length on average"
            f"{_beside(shares, found.earlier.head)}."
        )
    return said


def path_arrays(found: PathEffects) -> dict[str, NDArray[np.generic]]:
    """Return a path under the names that files have.

    ``without`` are the earlier head and those beside it, (H,), and ``distance_query``,
    ``distance_key`` and ``change_value`` what ``path_sentences`` says for each.
    """
    of_heads = [*found.maps.values(), *([] if found.values is None else [found.values])]
    names = [head_name(found.earlier._replace(head=head)) for head in range(len(of_heads[0]))]
    arrays: dict[str, NDArray[np.generic]] = {
        "earlier": np.array(head_name(found.earlier)),
        "later": np.array(head_name(found.later)),
        "without": np.array(names),
    }
    for role, maps in found.maps.items():
        arrays[f"distance_{role}"] = map_distances(found.weights, maps)
    if found.values is not None:
        arrays["change_value"] = found.values.mean(axis=-1)
    return arrays


def path_maps(found: PathEffects) -> dict[str, NDArray[np.generic]]:
    """Return the maps of a path, which are no columns of its table: (Q, M) and (H, Q, M)."""
    maps = {f"map_{role}": maps for role, maps in found.maps.items()}
    return {"weights": found.weights, **maps}


def course_sentence(edges: Mapping[int, Edge]) -> str:
    """Say what the score of an edge is at the first and last step, and since when it stands out."""
    steps = [*edges]
    ends = " and ".join(
        f"{edges[step].score:+.3f} ± {edges[step].error:.3f} at checkpoint {step:,}"
        for step in (steps[0], steps[-1])
    )
    if not edges[steps[-1]].stands_out:
        out = sum(edge.stands_out for edge in edges.values())
        said = f"At the last it does not stand out; at {out} of {len(steps)} checkpoints it does."
        return f"The edge has {ends}. {said}"
    below = [place for place, step in enumerate(steps) if not edges[step].stands_out]
    since = below[-1] + 1 if below else 0
    said = (
        f"It stands out from checkpoint {steps[since]:,} on"
        if since
        else "It stands out at every one"
    )
    return f"The edge has {ends}. {said}."


def _beside(values: Doubles, chosen: int) -> str:
    rest = np.delete(values, chosen)
    return f"; without another head of the same layer by {rest.mean():.3f}" if rest.size else ""
