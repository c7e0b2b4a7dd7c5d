"""Scores of heads taken apart: what each part of a query makes with each part of a key.

A query is linear in the stream that its attention reads, and a key in that which it is made from,
once divisors of norms are held (``model/stream.py``); both streams are sums over what was written.
So a score, their product, is a table of sums over parts. (Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits", for models without norms.)

``A`` parts of the query, ``C`` parts of a key, ``M`` keys, ``n`` positions, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import Head, Rotation, Seq2SeqModel, Stack, head_name
from headwise.model.readings import ForcedPass, Readings, Sublayer
from headwise.model.stream import normed_for_each_head, turned_by_position
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.core.record import Record
from headwise.viz_app.records.trace import Doubles, Trace
from headwise.viz_app.trace.attention import doubles, ids_tensor


@dataclass(frozen=True)
class ScoreParts(Record):
    """One row of a head's scores, whose query and keys are sums over what was written.

    Parts are named ``token``, ``position`` (if the model adds positions to its embeddings),
    ``encoder_self.1.2``, ``feed_forward.1``, ``biases``.
    """

    query_parts: Mapping[str, Doubles]  # (K,) each; they sum to the query
    key_parts: Mapping[str, Doubles]
    """(M, K) each; they sum to the keys, in the decoder those up to the row."""
    scale: float  # factor of the products: 1/√K, or 1 in a model that does not scale
    scores: Annotated[Doubles, "M"]  # the scores before the softmax, as the model computed them
    relative: Annotated[Doubles, "M"] | None  # what relative positions add, if there are any

    def tables(self) -> Doubles:
        """Return scale · query part · key part for all pairs of parts and all keys: (A, C, M)."""
        queries, keys = np.stack([*self.query_parts.values()]), np.stack([*self.key_parts.values()])
        return self.scale * np.einsum("ak,cmk->acm", queries, keys)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return names of the parts, tables and scores under the names that files have."""
        names = {"query_part_names": [*self.query_parts], "key_part_names": [*self.key_parts]}
        own = {name: np.array(of) for name, of in names.items()}
        return own | {"tables": self.tables()} | super().arrays()

    @property
    def deviation(self) -> float:
        """Return by how much the tables' sums miss the scores at most: rounding of the pass."""
        sums = self.tables().sum(axis=(0, 1)) + (0 if self.relative is None else self.relative)
        return float(np.abs(sums - self.scores).max())


@of_trace("scores taken apart")
@torch.inference_mode()
def score_parts(model: Seq2SeqModel, trace: Trace, head: Head, row: int) -> ScoreParts:
    """Take a row of a head's scores apart, in float64 and as heads were turned in the trace.

    Rows are source tokens or steps of decoding, from 0. ValueError without such a head or row.
    """
    model.description.require_heads([head])
    kind, layer, number = head
    rows = len(trace.source if kind == "encoder_self" else trace.consumed)
    if not 0 <= row < rows:
        raise ValueError(f"row: expected 0 to {rows - 1}, got {row}")
    stack: Stack = "encoder" if kind == "encoder_self" else "decoder"
    attention = Sublayer(stack, layer, kind)
    steps = 1 if stack == "encoder" else row + 1  # later ones change nothing
    source, consumed = (
        ids_tensor(model, ids) for ids in (trace.source.ids, trace.consumed.ids[:steps])
    )
    points = scores_point(model, attention), f"{attention.path}.bias"
    forced = ForcedPass.run(model, source, consumed, turned=trace.turned, also=points)
    scores = forced.seen[points[0]][number, row]
    relative = forced.seen.get(points[1])
    d_k = forced.seen[f"{attention.path}.value"].shape[-1]
    columns = slice(number * d_k, (number + 1) * d_k)
    queries = vectors_apart(forced, attention, "query_projection", columns, torch.tensor([row]))
    keys = vectors_apart(forced, attention, "key_projection", columns, torch.arange(len(scores)))
    return ScoreParts(
        query_parts={name: doubles(part[:, 0]) for name, part in queries.items()},
        key_parts={name: doubles(part.T) for name, part in keys.items()},
        scale=model.description.of(kind).score_scale(d_k),
        scores=doubles(scores),
        relative=None if relative is None else doubles(relative[number, row]),
    )


def scores_point(model: Seq2SeqModel, attention: Sublayer) -> str:
    """Return the hook point of the scores that are products of queries and keys: before a cap."""
    cap = model.description.of(attention.stack).score_cap
    return f"{attention.path}.{'scores' if cap is None else 'uncapped'}"


def vectors_apart(
    forced: ForcedPass, attention: Sublayer, name: str, columns: slice, positions: Tensor
) -> dict[str, Tensor]:
    """Take a head's ``columns`` of a projection apart at some positions: part → (K, n)."""
    weight, bias = forced.model.linear(f"{attention.path}.{name}")
    positions = positions.to(weight.device)
    directions = weight[:, columns].T.double()  # (K, D)
    readings = Readings(directions, directions.new_ones(len(directions), len(positions)))
    stack: Stack = attention.stack
    into: Sublayer | None = attention
    if attention.kind == "cross" and name != "query_projection":
        stack, into = "encoder", None  # keys and values are made from the encoder's output
    followed = forced.follow(stack, readings, positions, into=into)
    token, position = forced.embedding(stack, followed.embedding, positions)
    parts = {"token": token} | ({} if position is None else {"position": position})
    biases = followed.of_norms
    if bias is not None:
        biases = biases + bias[columns].double()[:, None]
    for sublayer, read in followed.at:
        biases = biases + forced.bias(sublayer, read)
        if sublayer.kind is None:
            parts[f"feed_forward.{sublayer.layer + 1}"] = forced.feed_forward(
                sublayer, read, positions
            )
            continue
        by_head = forced.heads(sublayer, read, positions)  # (K, n, H)
        for head, part in enumerate(by_head.unbind(-1)):
            parts[head_name(Head(sublayer.kind, sublayer.layer, head))] = part
    parts["biases"] = biases
    of_stack = forced.seen[f"{stack}.embedding.tokens"]
    path = f"{attention.path}.{name}"
    rotation = forced.model.rotation(path, len(of_stack))
    whole = sum(parts.values(), torch.zeros_like(token)).T  # (n, K)
    made = normed_for_each_head(
        forced.model, path, whole, {part: of.T for part, of in parts.items()}
    )
    if rotation is not None:
        at = Rotation(*(of[positions] for of in rotation))
        made = {part: turned_by_position(of, at) for part, of in made.items()}
    return {part: of.T for part, of in made.items()}
