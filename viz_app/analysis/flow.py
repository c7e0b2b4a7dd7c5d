"""Beyond the weight itself: what a key adds, and from which inputs it has gathered.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys, ``N`` tokens of a stack, ``S`` of the source,
``T`` steps of decoding.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from viz_app.records import Floats, Kind, Trace

Measure = Literal["weight", "value norm"]


def value_weighted(weights: Floats, norms: Floats) -> Floats:
    """Each key's share of what is added: (…, Q, M), (…, M) → (…, Q, M); rows sum to 1.

    Weight times ‖v W_O‖, the length of the value as it reaches the stream (Kobayashi et al. 2020,
    section 3), here divided by the row's sum. A row that adds nothing at all stays 0.
    """
    lengths = weights * norms[..., None, :]
    totals = lengths.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(lengths, totals, out=np.zeros_like(lengths), where=totals > 0)
    return shares


def rollout(attention: Floats) -> Floats:
    """Attention rollout of a stack's self-attention: (L, H, N, N) → (L, N, N), up to each layer.

    R_l = (½ mean over heads of A_l + ½ I) R_{l-1}, with R_0 = I (Abnar and Zuidema 2020, section
    3): row i says from which inputs position i could have gathered. Rows sum to 1.
    """
    identity = np.eye(attention.shape[-1], dtype=np.float32)
    through, steps = identity, []
    for layer in attention.mean(axis=1):
        through = (0.5 * layer + 0.5 * identity) @ through
        steps.append(through)
    rolled: Floats = np.stack(steps).astype(np.float32)
    return rolled


def weights_of(trace: Trace, kind: Kind, measure: Measure = "weight") -> Floats:
    """All maps of a kind, (L, H, Q, M), in the given measure; rows sum to 1."""
    weights = trace.attention[kind]
    return weights if measure == "weight" else value_weighted(weights, trace.value_norms[kind])


def rolled_out(trace: Trace, kind: Kind, layer: int, measure: Measure = "weight") -> Floats:
    """Self-attention rolled out up to a layer, (N, N); for cross-attention the mean of the layer's
    heads through the whole encoder, (T, S), so that columns are source inputs. Rows sum to 1.
    """
    if kind != "cross":
        rolled: Floats = rollout(weights_of(trace, kind, measure))[layer]
        return rolled
    cross = weights_of(trace, "cross", measure)[layer].mean(axis=0)
    composed: Floats = cross @ rollout(weights_of(trace, "encoder_self", measure))[-1]
    return composed
