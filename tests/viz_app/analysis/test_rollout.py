from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.interface import KINDS, Kind
from viz_app.analysis.rollout import CellValue, rollout, rollout_of, value_weighted, weights_of
from viz_app.records.trace import Floats, Trace


def test_value_weighted_by_hand() -> None:
    """Weights .5, .5 on values of lengths 1 and 3 add 1/4 and 3/4."""
    weights = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], dtype=np.float32)
    shares = value_weighted(weights, np.array([1.0, 3.0], dtype=np.float32))
    np.testing.assert_allclose(shares, [[0.25, 0.75], [1, 0], [0.2 / 2.6, 2.4 / 2.6]], rtol=1e-6)


def test_value_weighted_row_of_zeros_stays_zero() -> None:
    weights = np.array([[1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
    shares = value_weighted(weights, np.array([0.0, 2.0], dtype=np.float32))
    np.testing.assert_array_equal(shares, [[0, 0], [0, 1]])


def test_value_weighted_uses_norms_of_each_head() -> None:
    weights = np.full((2, 1, 1, 2), 0.5, dtype=np.float32)
    norms = np.array([[[1.0, 1.0]], [[1.0, 4.0]]], dtype=np.float32)
    np.testing.assert_allclose(value_weighted(weights, norms)[:, 0, 0], [[0.5, 0.5], [0.2, 0.8]])


def test_rollout_by_hand() -> None:
    """Two layers; the mean of the first's two heads is [[1, 0], [.5, .5]].

    With the residual, [[1, 0], [.25, .75]]; the second layer is [[0, 1], [1, 0]] in its one kind of
    head, with the residual [[.5, .5], [.5, .5]], and both rows become (.625, .375).
    """
    first = [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]
    second = [[[0, 1], [1, 0]], [[0, 1], [1, 0]]]
    rolled = rollout(np.array([first, second], dtype=np.float32))
    np.testing.assert_allclose(rolled[0], [[1, 0], [0.25, 0.75]])
    np.testing.assert_allclose(rolled[1], [[0.625, 0.375], [0.625, 0.375]])


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 7), st.integers(0, 99))
def test_rollout_rows_sum_to_1(layers: int, heads: int, size: int, seed: int) -> None:
    """And nothing comes from the future if no layer looks there."""
    scores = np.random.default_rng(seed).random((layers, heads, size, size))
    causal = np.tril(scores).astype(np.float32)
    rolled = rollout(causal / causal.sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(rolled.sum(axis=-1), 1, rtol=1e-5)
    assert (np.triu(rolled, 1) == 0).all()


def by_loops(attention: Floats, layer: int) -> Floats:
    """The rollout of a stack up to a layer, one sum after another."""
    size = attention.shape[-1]
    through = np.eye(size)
    for maps in attention[: layer + 1]:
        step = np.zeros((size, size))
        for i in range(size):
            for j in range(size):
                step[i, j] = 0.5 * sum(head[i, j] for head in maps) / len(maps) + 0.5 * (i == j)
        rows = [
            [sum(step[i, k] * through[k, j] for k in range(size)) for j in range(size)]
            for i in range(size)
        ]
        through = np.array(rows)
    return through.astype(np.float32)


@pytest.mark.parametrize("measure", ["weight", "value norm"])
@pytest.mark.parametrize("layer", [0, 1])
def test_rollout_of_self_attention(trace: Trace, measure: CellValue, layer: int) -> None:
    for kind in ("encoder_self", "decoder_self"):
        expected = by_loops(weights_of(trace, kind, measure), layer)
        np.testing.assert_allclose(rollout_of(trace, kind, layer, measure), expected, atol=1e-6)


@pytest.mark.parametrize("measure", ["weight", "value norm"])
@pytest.mark.parametrize("layer", [0, 1])
def test_rollout_of_cross_attention_uses_the_whole_encoder(
    trace: Trace, measure: CellValue, layer: int
) -> None:
    encoder = by_loops(weights_of(trace, "encoder_self", measure), 1)
    cross = weights_of(trace, "cross", measure)[layer].mean(axis=0)
    composed = rollout_of(trace, "cross", layer, measure)
    np.testing.assert_allclose(composed, np.einsum("ts,sn->tn", cross, encoder), atol=1e-6)
    np.testing.assert_allclose(composed.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_uses_value_norms_of_the_kind(trace: Trace, kind: Kind) -> None:
    assert weights_of(trace, kind) is trace.attention[kind]
    shares = weights_of(trace, kind, "value norm")
    np.testing.assert_array_equal(
        shares, value_weighted(trace.attention[kind], trace.value_norms[kind])
    )
    np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=1e-5)
    equal = {kind: np.ones_like(norms) for kind, norms in trace.value_norms.items()}
    same = weights_of(replace(trace, value_norms=equal), kind, "value norm")
    np.testing.assert_allclose(same, trace.attention[kind], rtol=1e-5)
