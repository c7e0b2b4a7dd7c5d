"""Weights scaled by value norms, and attention rollout.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys, ``N`` tokens of a stack, ``S`` of the source,
``T`` steps of decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from headwise.model.interface import Head, Kind
from headwise.viz_app.analysis.attention import Aggregate, aggregate_heads
from headwise.viz_app.records.trace import Floats, Trace

CellValue = Literal["weight", "value norm"]


def row_shares(lengths: Floats) -> Floats:
    """Divide lengths by the sum of their row, if above 0: (…, Q, M) → (…, Q, M)."""
    totals = lengths.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(lengths, totals, out=np.zeros_like(lengths), where=totals > 0)
    return shares


def value_weighted(weights: Floats, norms: Floats) -> Floats:
    """Scale weights by ‖v W_O‖, the norms of the values after the output projection, as shares of
    the row (Kobayashi et al. 2020, section 3): (…, Q, M), (…, M) → (…, Q, M).
    """
    return row_shares(weights * norms[..., None, :])


def rollout(layers: Floats) -> Floats:
    """Compute attention rollout of self-attention up to each layer: (L, N, N) → (L, N, N).

    R_l = (½ A_l + ½ I) R_{l-1}, R_0 = I, where A_l is a map of all heads, such as their mean (Abnar
    and Zuidema 2020, section 3): row i says what may have reached position i, in all 1.
    """
    identity = through = np.eye(layers.shape[-1], dtype=np.float32)
    steps = []
    for layer in layers:
        through = (0.5 * layer + 0.5 * identity) @ through
        steps.append(through)
    return np.stack(steps).astype(np.float32)


def weights_of(trace: Trace, kind: Kind, cell_value: CellValue = "weight") -> Floats:
    """Return the maps of a kind, (L, H, Q, M), as weights or scaled by value norms."""
    weights = trace.attention[kind]
    return weights if cell_value == "weight" else value_weighted(weights, trace.value_norms[kind])


def mean_of_heads(trace: Trace, kind: Kind, cell_value: CellValue = "weight") -> Floats:
    """Return one map of all heads of each layer, (L, Q, M), whose rows sum as those of heads do.

    It is the mean of weights or, with value norms, the length of the mean of the vectors that the
    heads add, ‖Σ_h α_h v_h W_O‖ / H, as shares of the row: heads that add in opposite directions
    cancel (Kobayashi et al. 2020). ValueError if the trace was saved without the norms of these
    sums.
    """
    if cell_value == "weight":
        return np.asarray(trace.attention[kind].mean(axis=1))
    if not trace.head_sum_norms:
        raise ValueError(
            "expected the norms of what all heads add together, got a trace that was saved without "
            "them; trace the sentence again"
        )
    return row_shares(trace.head_sum_norms[kind])


def map_of_heads(
    trace: Trace,
    head: Head,
    aggregate: Aggregate = "head",
    cell_value: CellValue = "weight",
    *,
    to_grid: Callable[[Floats], Floats] = lambda maps: maps,
) -> Floats:
    """Return one map, (Q, M): that of a head, or of the heads of its layer put together by mean,
    maximum of each cell, or rollout up to the layer.
    ``to_grid`` changes rows and columns, as ``Grid.apply``. ValueError as for ``mean_of_heads``.
    """
    if aggregate == "rollout":
        return to_grid(rollout_of(trace, head.kind, head.layer, cell_value))
    if aggregate == "mean" and cell_value == "value norm":
        return to_grid(mean_of_heads(trace, head.kind, cell_value)[head.layer])
    weights = to_grid(weights_of(trace, head.kind, cell_value)[head.layer])
    return aggregate_heads(weights, aggregate, head.head)


def rollout_of(trace: Trace, kind: Kind, layer: int, cell_value: CellValue = "weight") -> Floats:
    """Compute the rollout of a kind of attention up to a layer; rows sum to 1.

    A layer's map is its ``mean_of_heads``, of half an attention as shares of its rows.
    Cross-attention, (T, S), is the map of the layer times the rollout of the whole encoder: its
    columns are inputs.
    """
    layers = row_shares(mean_of_heads(trace, kind, cell_value))
    if kind != "cross":
        rolled: Floats = rollout(layers)[layer]
    else:
        rolled = layers[layer] @ rollout(mean_of_heads(trace, "encoder_self", cell_value))[-1]
    return rolled
