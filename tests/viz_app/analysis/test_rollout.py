from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.rollout import (
    map_of_heads,
    mean_of_heads,
    rollout,
    rollout_of,
    value_weighted,
    weights_of,
)
from headwise.viz_app.records.trace import Trace
from tests.floats import assert_near


def test_value_weighted_by_hand() -> None:
    """Weights .5, .5 on values of lengths 1 and 3 add 1/4 and 3/4; a row of zeros stays 0."""
    weights = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], dtype=np.float32)
    shares = value_weighted(weights, np.array([1.0, 3.0], dtype=np.float32))
    assert_near(shares, [[0.25, 0.75], [1, 0], [0.2 / 2.6, 2.4 / 2.6]])
    shares = value_weighted(weights, np.array([0.0, 2.0], dtype=np.float32))
    np.testing.assert_array_equal(shares, [[0, 1], [0, 0], [0, 1]])
    even = np.full((2, 1, 1, 2), 0.5, dtype=np.float32)
    norms = np.array([[[1.0, 1.0]], [[1.0, 4.0]]], dtype=np.float32)  # of each head
    assert_near(value_weighted(even, norms)[:, 0, 0], [[0.5, 0.5], [0.2, 0.8]])


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
    head = Head("cross", 0, 1)
    for aggregate, expected in (
        ("head", [[0.25, 0.75]]),
        ("max", [[0.5, 0.75]]),
        ("mean", [[0, 1]]),
    ):
        assert_near(map_of_heads(changed, head, aggregate, "value norm"), expected)


def test_rollout_by_hand(trace: Trace) -> None:
    """Two layers of self-attention, and cross-attention that goes on through both of the encoder.

    The first is with the residual [[1, 0], [.25, .75]]; the second, with the residual
    [[.5, .5], [.5, .5]], makes both rows (.625, .375).
    """
    layers = np.array([[[1, 0], [0.5, 0.5]], [[0, 1], [1, 0]]], dtype=np.float32)
    expected = [[[1, 0], [0.25, 0.75]], [[0.625, 0.375], [0.625, 0.375]]]
    assert_near(rollout(layers), expected)
    cross = np.array([[[1, 0], [0, 1]], [[0.2, 0.8], [1, 0]]], dtype=np.float32)
    maps = {"encoder_self": layers, "decoder_self": layers[::-1], "cross": cross}
    heads = {kind: np.stack([each, each], axis=1) for kind, each in maps.items()}
    norms = {kind: 3 * each for kind, each in maps.items()}
    made = replace(trace, attention=heads, head_sum_norms=norms)
    old = replace(made, head_sum_norms={})
    for cells in ("weight", "value norm"):
        for layer in (0, 1):
            assert_near(rollout_of(made, "encoder_self", layer, cells), expected[layer])
            assert_near(rollout_of(made, "cross", layer, cells), expected[1])
        assert_near(rollout_of(made, "decoder_self", 1, cells), [[0.5, 0.5], [0.5, 0.5]])
    assert_near(rollout_of(old, "encoder_self", 1), expected[1])
    with pytest.raises(ValueError, match=r"saved without them; trace the sentence again$"):
        rollout_of(old, "encoder_self", 1, "value norm")


@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 99))
def test_rollout_rows_sum_to_1(layers: int, size: int, seed: int) -> None:
    """And nothing comes from the future if no layer looks there."""
    scores = np.random.default_rng(seed).random((layers, size, size))
    causal = np.tril(scores).astype(np.float32)
    rolled = rollout(causal / causal.sum(axis=-1, keepdims=True))
    assert_near(rolled.sum(axis=-1), 1)
    assert (np.triu(rolled, 1) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_uses_value_norms_of_the_kind(trace: Trace, kind: Kind) -> None:
    assert weights_of(trace, kind) is trace.attention[kind]
    norms = {kind: np.ones_like(norms) for kind, norms in trace.value_norms.items()}
    factors = np.arange(norms[kind].shape[-1])
    norms[kind][1, 2] = factors  # of layer 1, head 2
    shares = weights_of(replace(trace, value_norms=norms), kind, "value norm")
    assert_near(shares[0], trace.attention[kind][0])
    lengths = trace.attention[kind][1, 2] * factors
    sums = lengths.sum(axis=-1, keepdims=True)
    assert_near(shares[1, 2], lengths / np.where(sums > 0, sums, 1), dtype=np.float32)
