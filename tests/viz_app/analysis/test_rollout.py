from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.interface import KINDS, Kind
from headwise.viz_app.analysis.rollout import (
    CellValue,
    mean_of_heads,
    rollout,
    rollout_of,
    value_weighted,
    weights_of,
)
from headwise.viz_app.records.trace import Floats, Trace
from tests.floats import assert_near


def test_value_weighted_by_hand() -> None:
    """Weights .5, .5 on values of lengths 1 and 3 add 1/4 and 3/4."""
    weights = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], dtype=np.float32)
    shares = value_weighted(weights, np.array([1.0, 3.0], dtype=np.float32))
    assert_near(shares, [[0.25, 0.75], [1, 0], [0.2 / 2.6, 2.4 / 2.6]])


def test_value_weighted_row_of_zeros_stays_zero() -> None:
    weights = np.array([[1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
    shares = value_weighted(weights, np.array([0.0, 2.0], dtype=np.float32))
    np.testing.assert_array_equal(shares, [[0, 0], [0, 1]])


def test_value_weighted_uses_norms_of_each_head() -> None:
    weights = np.full((2, 1, 1, 2), 0.5, dtype=np.float32)
    norms = np.array([[[1.0, 1.0]], [[1.0, 4.0]]], dtype=np.float32)
    assert_near(value_weighted(weights, norms)[:, 0, 0], [[0.5, 0.5], [0.2, 0.8]])


def test_mean_of_heads_that_cancel_by_hand(trace: Trace) -> None:
    """For the first key both heads add 1, in opposite directions; for the second, 1 and 3 along.

    Each head alone gives the first key a share: 1/2 and 1/4, and 3/8 if these were averaged.
    """
    attention = np.full((1, 2, 1, 2), 0.5, dtype=np.float32)
    values = np.array([[[[2.0], [2.0]], [[-2.0], [6.0]]]], dtype=np.float32)  # (L, H, M, D)
    lengths = np.abs((attention[:, :, 0, :, None] * values).sum(axis=1))  # (L, M, D)
    changed = replace(
        trace,
        attention={"cross": attention},
        value_norms={"cross": np.abs(values[..., 0])},
        head_sum_norms={"cross": lengths.swapaxes(1, 2)},
    )
    shares = weights_of(changed, "cross", "value norm")
    assert_near(shares[0, :, 0], [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_array_equal(mean_of_heads(changed, "cross", "value norm"), [[[0, 1]]])
    np.testing.assert_array_equal(mean_of_heads(changed, "cross"), [[[0.5, 0.5]]])


@pytest.mark.parametrize("kind", KINDS)
def test_mean_of_heads_is_shares_of_the_norms_of_their_sums(trace: Trace, kind: Kind) -> None:
    together = mean_of_heads(trace, kind, "value norm")
    for layer, norms in enumerate(trace.head_sum_norms[kind]):
        for row, lengths in zip(together[layer], norms, strict=True):
            assert_near(row, lengths / sum(lengths))
    assert_near(together.sum(axis=-1), 1)
    apart = weights_of(trace, kind, "value norm").mean(axis=1)
    assert np.abs(together - apart).max() > 0.01
    mean = mean_of_heads(trace, kind)
    np.testing.assert_array_equal(mean, trace.attention[kind].mean(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_mean_of_heads_needs_the_norms_of_their_sums(trace: Trace, kind: Kind) -> None:
    old = replace(trace, head_sum_norms={})
    with pytest.raises(ValueError, match=r"saved without them; trace the sentence again$"):
        rollout_of(old, kind, 1, "value norm")
    np.testing.assert_array_equal(rollout_of(old, kind, 1), rollout_of(trace, kind, 1))


def test_rollout_by_hand() -> None:
    """Two layers.

    The first is with the residual [[1, 0], [.25, .75]]; the second, with the residual
    [[.5, .5], [.5, .5]], makes both rows (.625, .375).
    """
    first, second = [[1, 0], [0.5, 0.5]], [[0, 1], [1, 0]]
    rolled = rollout(np.array([first, second], dtype=np.float32))
    assert_near(rolled[0], [[1, 0], [0.25, 0.75]])
    assert_near(rolled[1], [[0.625, 0.375], [0.625, 0.375]])


@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 99))
def test_rollout_rows_sum_to_1(layers: int, size: int, seed: int) -> None:
    """And nothing comes from the future if no layer looks there."""
    scores = np.random.default_rng(seed).random((layers, size, size))
    causal = np.tril(scores).astype(np.float32)
    rolled = rollout(causal / causal.sum(axis=-1, keepdims=True))
    assert_near(rolled.sum(axis=-1), 1)
    assert (np.triu(rolled, 1) == 0).all()


def layer_map(trace: Trace, kind: Kind, layer: int, measure: CellValue) -> Floats:
    """The map of all heads of a layer: of their weights, or of the norms of their sums."""
    if measure == "weight":
        heads = trace.attention[kind][layer]
        return sum(heads) / len(heads)
    norms = trace.head_sum_norms[kind][layer]
    return norms / norms.sum(axis=-1, keepdims=True)


def by_loops(trace: Trace, kind: Kind, layer: int, measure: CellValue) -> Floats:
    """The rollout of a stack up to a layer, one sum after another."""
    size = len(trace.keys_of(kind))
    through = np.eye(size)
    for below in range(layer + 1):
        cells = layer_map(trace, kind, below, measure)
        step = np.zeros((size, size))
        for i in range(size):
            for j in range(size):
                step[i, j] = 0.5 * cells[i, j] + 0.5 * (i == j)
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
        expected = by_loops(trace, kind, layer, measure)
        rolled = rollout_of(trace, kind, layer, measure)
        assert_near(rolled, expected)
        assert_near(rolled.sum(axis=-1), 1)


@pytest.mark.parametrize("measure", ["weight", "value norm"])
@pytest.mark.parametrize("layer", [0, 1])
def test_rollout_of_cross_attention_uses_the_whole_encoder(
    trace: Trace, measure: CellValue, layer: int
) -> None:
    encoder = by_loops(trace, "encoder_self", 1, measure)
    cross = layer_map(trace, "cross", layer, measure)
    composed = rollout_of(trace, "cross", layer, measure)
    assert_near(composed, np.einsum("ts,sn->tn", cross, encoder))
    assert_near(composed.sum(axis=-1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_uses_value_norms_of_the_kind(trace: Trace, kind: Kind) -> None:
    assert weights_of(trace, kind) is trace.attention[kind]
    shares = weights_of(trace, kind, "value norm")
    np.testing.assert_array_equal(
        shares, value_weighted(trace.attention[kind], trace.value_norms[kind])
    )
    assert_near(shares.sum(axis=-1), 1)
    equal = {kind: np.ones_like(norms) for kind, norms in trace.value_norms.items()}
    same = weights_of(replace(trace, value_norms=equal), kind, "value norm")
    assert_near(same, trace.attention[kind])
