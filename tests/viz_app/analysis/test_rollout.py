from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.rollout import (
    CellValue,
    map_of_heads,
    mean_of_heads,
    rollout,
    rollout_of,
    value_weighted,
    weights_of,
)
from headwise.viz_app.records.trace import Floats, Trace
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


@pytest.mark.parametrize("kind", KINDS)
def test_old_traces_lack_the_norms_of_what_heads_add_together(trace: Trace, kind: Kind) -> None:
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
    assert_near(rolled, [[[1, 0], [0.25, 0.75]], [[0.625, 0.375], [0.625, 0.375]]])


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


def by_products(trace: Trace, kind: Kind, layer: int, measure: CellValue) -> np.ndarray:
    """The rollout of a stack up to a layer, in float64."""
    through = np.eye(len(trace.keys_of(kind)))
    for below in range(layer + 1):
        cells = layer_map(trace, kind, below, measure).astype(float)
        through = np.einsum("ij,jk->ik", (cells + np.eye(len(cells))) / 2, through)
    return through


@pytest.mark.parametrize("measure", ["weight", "value norm"])
@pytest.mark.parametrize("layer", [0, 1])
def test_rollout_of_each_kind(trace: Trace, measure: CellValue, layer: int) -> None:
    """That of cross-attention goes on through the whole encoder."""
    encoder = by_products(trace, "encoder_self", 1, measure)
    expected = {
        "encoder_self": by_products(trace, "encoder_self", layer, measure),
        "decoder_self": by_products(trace, "decoder_self", layer, measure),
        "cross": layer_map(trace, "cross", layer, measure).astype(float) @ encoder,
    }
    for kind in KINDS:
        rolled = rollout_of(trace, kind, layer, measure)
        assert_near(rolled, expected[kind], dtype=np.float32)
        assert_near(rolled.sum(axis=-1), 1)
        assert_near(
            mean_of_heads(trace, kind, measure)[layer], layer_map(trace, kind, layer, measure)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_uses_value_norms_of_the_kind(trace: Trace, kind: Kind) -> None:
    assert weights_of(trace, kind) is trace.attention[kind]
    norms = {kind: np.ones_like(norms) for kind, norms in trace.value_norms.items()}
    norms[kind][1, 2] *= np.arange(norms[kind].shape[-1])  # of layer 1, head 2
    shares = weights_of(replace(trace, value_norms=norms), kind, "value norm")
    assert_near(shares[0], trace.attention[kind][0])
    lengths = trace.attention[kind][1, 2] * np.arange(norms[kind].shape[-1])
    sums = lengths.sum(axis=-1, keepdims=True)
    assert_near(shares[1, 2], lengths / np.where(sums > 0, sums, 1), dtype=np.float32)
