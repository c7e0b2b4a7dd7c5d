"""Path patching between two heads: what a later one loses without what an earlier one wrote.

Everything else of the pass is as it was, also what other heads made of it, and the divisors of
norms are held: what changes is what the later head has directly from the earlier one. (Wang et al.
2022, "Interpretability in the Wild", section 3.1; Goldowsky-Dill et al. 2023.)

``H`` are the heads of the earlier one's layer, it among them: the others are compared with. ``Q``
and ``M`` are the query and key lengths of the later head's map, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import Head, Seq2SeqModel, Stack, head_name
from headwise.model.readings import ForcedPass, Sublayer
from headwise.model.stream import capped
from headwise.viz_app.core.circuits import scores_point, vectors_apart
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.core.record import Record
from headwise.viz_app.heads.composition.scores import Role
from headwise.viz_app.records.trace import Doubles, Trace
from headwise.viz_app.trace.attention import doubles, ids_tensor


@dataclass(frozen=True)
class PathEffects(Record):
    """What a later head loses without the earlier one, and without each head beside that.

    What the later head does not read of the earlier one's layer is absent.
    """

    rows = "H"

    earlier: Annotated[Head, ""]
    later: Annotated[Head, ""]
    without: Annotated[NDArray[np.str_], "H"]
    """Names of the heads that are taken out, one at a time."""
    distances: Mapping[Role, Annotated[Doubles, "H"]]
    """How far the map moves without it in the queries or keys, as ``map_distances``."""
    change_value: Annotated[Doubles, "H"] | None
    """The length of what it brings to the output by the values alone, over that of the output, on
    average over the queries."""
    weights: Annotated[Doubles, "Q M"]
    """The later head's map as it was."""
    maps: Mapping[Role, Annotated[Doubles, "H Q M"]]
    """The map without it in the queries or keys."""

    @property
    def said(self) -> str:
        """By how much the later head changes on average, beside others of the earlier's layer."""
        said = [
            f"Without it in the {'queries' if role == 'query' else 'keys'}, rows of the map move "
            f"by {distances[self.earlier.head]:.3f}{self._beside(distances)}."
            for role, distances in self.distances.items()
        ]
        if (change := self.change_value) is not None:
            said.append(
                f"Without it in the values, the output changes by "
                f"{change[self.earlier.head]:.3f} of its length{self._beside(change)}."
            )
        return " ".join(said)

    def _beside(self, values: Doubles) -> str:
        rest = np.delete(values, self.earlier.head)
        return f" ({rest.mean():.3f} without another head of that layer)" if rest.size else ""


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


@of_trace("path between heads")
@torch.inference_mode()
def path(model: Seq2SeqModel, trace: Trace, earlier: Head, later: Head) -> PathEffects:
    """Take what an earlier head wrote out of only the queries, keys or values of a later head.

    Args:
        model: the model of the trace.
        trace: the sentence; its target is forced.
        earlier, later: the two heads.

    Raises:
        ValueError: if there is no such head, or the later one reads nothing of what the earlier one
            wrote.
    """
    model.description.require_heads((earlier, later))
    kind, layer, number = later
    stack: Stack = "encoder" if kind == "encoder_self" else "decoder"
    attention = Sublayer(stack, layer, kind)
    source, consumed = (ids_tensor(model, ids) for ids in (trace.source.ids, trace.consumed.ids))
    ends = scores_point(model, attention), f"{attention.path}.query", f"{attention.path}.key"
    forced = ForcedPass.run(model, source, consumed, turned=trace.turned, also=ends)
    scores, query, key = (forced.seen[end][number] for end in ends)
    value, weights = (forced.seen[f"{attention.path}.{of}"][number] for of in ("value", "weights"))
    d_k = value.shape[-1]
    scale = model.description.of(kind).score_scale(d_k)
    is_half = model.description.merged_attention and stack == "decoder"
    columns = slice(number * d_k, (number + 1) * d_k)
    beside = [
        head_name(earlier._replace(head=head))
        for head in range(model.description.heads(earlier.kind))
    ]

    def taken(role: str, length: int) -> list[Tensor]:  # (n, K) of each head beside
        parts = vectors_apart(
            forced, attention, f"{role}_projection", columns, torch.arange(length)
        )
        return [parts[name].T for name in beside if name in parts]

    def maps(changes: list[Tensor]) -> Doubles:
        # Each weight is multiplied by what the change makes of exp(score), and divided by what
        # that makes of the sum, in which the other half of a merged attention stays.
        cap = model.description.of(kind).score_cap
        grown = torch.stack([capped(scores - scale * change, cap) for change in changes])
        grown = grown - capped(scores, cap)
        grown = (grown + weights.log()).masked_fill(weights == 0, -torch.inf)
        of_others = 1 - weights.sum(dim=-1, keepdim=True) if is_half else torch.zeros(())
        beside = of_others.clamp(min=0).log().expand_as(grown[..., :1])
        return doubles(torch.cat([grown, beside], dim=-1).softmax(dim=-1)[..., :-1])

    queries, keys, values = (
        taken(role, len(of)) for role, of in (("query", query), ("key", key), ("value", value))
    )
    found: dict[Role, Doubles] = {}
    if queries:
        found["query"] = maps([part @ key.T for part in queries])
    if keys:
        found["key"] = maps([query @ part.T for part in keys])
    projection = forced.projections[attention.path][number]
    whole = (weights @ value @ projection).norm(dim=-1)
    shares = [(weights @ part @ projection).norm(dim=-1) / whole for part in values]  # (Q,) each
    if not found and not shares:
        raise ValueError(
            f"expected a head that reads what {head_name(earlier)} wrote, got {head_name(later)}"
        )
    was = doubles(weights)
    return PathEffects(
        earlier=earlier,
        later=later,
        without=np.array(beside),
        distances={role: map_distances(was, without) for role, without in found.items()},
        change_value=doubles(torch.stack(shares)).mean(axis=-1) if shares else None,
        weights=was,
        maps=found,
    )
