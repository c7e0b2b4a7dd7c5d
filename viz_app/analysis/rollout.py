"""Weights scaled by value norms, and attention rollout.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys, ``N`` tokens of a stack, ``S`` of the source,
``T`` steps of decoding.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from model.interface import Kind
from viz_app.records.trace import Floats, Trace

CellValue = Literal["weight", "value norm"]


def value_weighted(weights: Floats, norms: Floats) -> Floats:
    """Scale weights by the norms of the values and normalise rows: (…, Q, M), (…, M) → (…, Q, M).

    Weight times ‖v W_O‖, the norm of the value after the output projection (Kobayashi et al. 2020,
    section 3), divided by the sum of the row. A row of zeros stays 0; all others sum to 1.
    """
    lengths = weights * norms[..., None, :]
    totals = lengths.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(lengths, totals, out=np.zeros_like(lengths), where=totals > 0)
    return shares


def rollout(attention: Floats) -> Floats:
    """Compute attention rollout of self-attention up to each layer: (L, H, N, N) → (L, N, N).

    R_l = (½ mean over heads of A_l + ½ I) R_{l-1}, with R_0 = I (Abnar and Zuidema 2020, section
    3): row i says how much of each input may have reached position i. Rows sum to 1.
    """
    identity = np.eye(attention.shape[-1], dtype=np.float32)
    through, steps = identity, []
    for layer in attention.mean(axis=1):
        through = (0.5 * layer + 0.5 * identity) @ through
        steps.append(through)
    rolled: Floats = np.stack(steps).astype(np.float32)
    return rolled


def weights_of(trace: Trace, kind: Kind, cell_value: CellValue = "weight") -> Floats:
    """Return the maps of a kind, (L, H, Q, M), as weights or scaled by value norms."""
    weights = trace.attention[kind]
    return weights if cell_value == "weight" else value_weighted(weights, trace.value_norms[kind])


def rollout_of(trace: Trace, kind: Kind, layer: int, cell_value: CellValue = "weight") -> Floats:
    """Compute the rollout of a kind of attention up to a layer; rows sum to 1.

    Self-attention gives (N, N). Cross-attention, (T, S), is the mean of the layer's heads times the
    rollout of the whole encoder, so that its columns are inputs of the encoder.
    """
    if kind != "cross":
        rolled: Floats = rollout(weights_of(trace, kind, cell_value))[layer]
        return rolled
    cross = weights_of(trace, "cross", cell_value)[layer].mean(axis=0)
    composed: Floats = cross @ rollout(weights_of(trace, "encoder_self", cell_value))[-1]
    return composed
