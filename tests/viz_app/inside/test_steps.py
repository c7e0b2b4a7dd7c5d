"""By hand, and on tiny models. What was recorded is NaN where nothing may look at it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.inside.steps.follow import (
    ACTIVATIONS,
    apply_norm,
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
    largest_positive,
)
from headwise.viz_app.records.model import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    LinearWeights,
    NormWeights,
)
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near, near, rounding

H, K, D = 2, 3, 5
NOT_KNOWN = np.array(np.nan, np.float32)


def array(values: object) -> Floats:
    """Records are float32, and all is computed from them in float64; by hand, these are, too."""
    return np.array(values, dtype=np.float64)


def linear(
    rows: int, columns: int, entries: dict[tuple[int, int], float], bias: list[float] | None
) -> LinearWeights:
    """Weights that are zero but for some entries."""
    weight = np.zeros((rows, columns))
    for place, value in entries.items():
        weight[place] = value
    return LinearWeights(weight, None if bias is None else array(bias))


# By hand: two heads of width 3, three keys of which the third is masked


@pytest.fixture
def by_hand() -> AttentionSublayer:
    """Head 0 gives (1, 0, 0) whatever it reads; head 1 is followed in the tests.

    Nothing is captured: of query to result all is NaN.
    """
    inner, captured = H * K, ("query", "key", "value", "scores", "weights", "heads")
    return AttentionSublayer(
        kind="cross",
        layer=0,
        n_heads=H,
        norm_first=True,
        norm=NormWeights(NOT_KNOWN, NOT_KNOWN, math.nan),
        read=array([[0] * D, [1, 0, 0, 0, 0]]),
        memory=array([[0, math.log(3), 4, 0, 0], [0, 0, 8, 0, 0], [0, 100, 1000, 0, 0]]),
        query_projection=linear(D, inner, {(0, 3): math.sqrt(3)}, [0, 0, 0, 0, 0, 1]),
        key_projection=linear(D, inner, {(1, 3): 1}, None),
        value_projection=linear(D, inner, {(2, 3): 1, (2, 5): 2}, [1, 0, 0, 0, 1, 0]),
        output_projection=linear(inner, D, {(0, 0): 3, (3, 1): 0.8}, [0, -1, 0, 0, 0]),
        allowed=np.array([[True, True, True], [True, True, False]]),
        output_norm=None,
        query_norm=None,
        key_norm=None,
        rotation=None,
        turns_keys=False,
        other=None,
        position_bias=None,
        scale=K**-0.5,
        cap=None,
        key_heads=H,
        stream=np.full((2, D), np.nan),
        **dict.fromkeys((*captured, "output", "result"), NOT_KNOWN),
    )


def test_follow_head_by_hand(by_hand: AttentionSublayer) -> None:
    """Scores ln 3 and 0 make weights 3/4 and 1/4."""
    steps = follow_head(by_hand, 1, 1)
    assert_near(steps.query, [3**0.5, 0, 1])
    assert_near(steps.keys, [[math.log(3), 0, 0], [0, 0, 0], [100, 0, 0]])
    assert_near(steps.products, [3**0.5 * math.log(3), 0, 3**0.5 * 100])
    assert_near(steps.scaled, [math.log(3), 0, 100])
    assert_near(steps.masked, [math.log(3), 0, -math.inf])
    assert_near(steps.weights, [0.75, 0.25, 0])
    assert steps.weights[2] == 0
    assert_near(steps.values, [[4, 1, 8], [8, 1, 16], [1000, 1, 2000]])
    assert_near(steps.weighted, [[3, 0.75, 6], [2, 0.25, 4], [0, 0, 0]])
    assert_near(steps.output, [5, 1, 10])
    large = replace(by_hand, memory=1000 * by_hand.memory)
    np.testing.assert_array_equal(follow_head(large, 1, 1).weights, [1, 0, 0])


def test_queries_are_turned_and_keys_where_the_model_turns_them(by_hand: AttentionSublayer) -> None:
    """One head of 6 dimensions: the halves of the query of row 1 are (0, 0, 0) and (√3, 0, 1)."""
    inner = H * K
    rotation = (np.full((3, inner), 0.6), np.full((3, inner), 0.8))
    one = replace(by_hand, n_heads=1, key_heads=1, rotation=rotation)
    steps = follow_head(one, 0, 1)
    root = 3**0.5
    assert_near(steps.query, [-0.8 * root, 0, -0.8, 0.6 * root, 0, 0.6])
    assert_near(steps.keys[0], [0, 0, 0, math.log(3), 0, 0])
    turned = follow_head(replace(one, turns_keys=True), 0, 1)
    assert_near(turned.keys[0], math.log(3) * np.array([-0.8, 0, 0, 0.6, 0, 0]))
    assert_near(turned.products[:2], [root * math.log(3), 0])  # as if neither were turned


def test_scores_are_capped_before_the_mask(by_hand: AttentionSublayer) -> None:
    """Scores 2 ln 3 and 0 become 2 tanh(ln 3) = 1.6 and 0."""
    steps = follow_head(replace(by_hand, scale=2 * by_hand.scale, cap=2.0), 1, 1)
    assert steps.capped is not None
    assert_near(steps.capped[:2], [1.6, 0])
    assert_near(steps.masked, [1.6, 0, -math.inf])
    assert_near(steps.weights[:2], np.array([math.exp(1.6), 1]) / (math.exp(1.6) + 1))
    assert follow_head(by_hand, 1, 1).capped is None


def test_a_position_bias_is_added_to_unscaled_scores(by_hand: AttentionSublayer) -> None:
    """Products √3 ln 3 and 0, and the bias brings them to ln 3 and 0 again."""
    bias = np.zeros((H, 2, 3))
    bias[1, 1] = [math.log(3) * (1 - 3**0.5), 0, 7]
    steps = follow_head(replace(by_hand, scale=1.0, position_bias=bias), 1, 1)
    np.testing.assert_array_equal(steps.scaled, steps.products)
    assert steps.position_bias is not None
    assert_near(steps.position_bias, bias[1, 1])
    assert_near(steps.scores[:2], [math.log(3), 0], size=steps.products[0])
    assert_near(steps.weights, [0.75, 0.25, 0])


@pytest.mark.parametrize(
    ("factor", "bias", "output", "shares"),
    [
        # Parts (3, 0, …), (0, 4, …), the bias (0, -1, …): output (3, 3, …) of squared length 18.
        (1, -1, [3, 3, 0, 0, 0], [9 / 18, 12 / 18, -3 / 18]),
        (1, None, [3, 4, 0, 0, 0], [9 / 25, 16 / 25, 0]),
        (0, None, [0] * D, [0] * (H + 1)),
    ],
)
def test_head_shares_by_hand(
    by_hand: AttentionSublayer,
    factor: float,
    bias: float | None,
    output: list[float],
    shares: list[float],
) -> None:
    added = None if bias is None else factor * array([0, bias, 0, 0, 0])
    projection = LinearWeights(factor * by_hand.output_projection.weight, added)
    found = head_shares(replace(by_hand, output_projection=projection), 1)
    assert_near(found.parts, factor * array([[3, 0, 0, 0, 0], [0, 4, 0, 0, 0]]))
    np.testing.assert_array_equal(found.bias, np.zeros(D) if added is None else added)
    assert_near(found.output, output)
    assert_near(found.shares, shares)


# By hand: norms, residual connections, feed-forward

NORM = NormWeights(array([2, 10]), array([0.5, -1]), 3.0)
"""Of (1, 3), and of (5, 7): variance 1, divisor √(1 + 3), so (2 · -½ + ½, 10 · ½ - 1)."""


def make_feed_forward(bias: Sequence[float] | None = None) -> FeedForwardSublayer:
    """Row 1 has the stream (1, 3), and reads (1, 2); nothing is captured."""
    return FeedForwardSublayer(
        output_norm=None,
        norm_first=True,
        norm=NORM,
        activation="relu",
        expand=LinearWeights(array([[1, -1, 0], [2, 0, -3]]), array([1, 0.5, 7])),
        gate=None,
        contract=LinearWeights(
            array([[1, 10], [50, 50], [3, 20]]), None if bias is None else array(bias)
        ),
        stream=array([[0, 0], [1, 3]]),
        read=array([[0, 0], [1, 2]]),
        hidden=NOT_KNOWN,
        output=NOT_KNOWN,
        result=NOT_KNOWN,
    )


def test_norms_by_hand() -> None:
    assert_near(apply_norm(array([1, 3]), NORM), [-0.5, 4])
    several = apply_norm(array([[[1, 3]], [[4, 4]], [[3, 1]]]), NORM)
    assert_near(several, [[[-0.5, 4]], [[0.5, -1]], [[1.5, -6]]])
    # Without a bias, by the root mean square of (1, 3): mean square 5, divisor √(5 + 4).
    assert_near(apply_norm(array([1, 3]), NormWeights(array([2, 10]), None, 4.0)), [2 / 3, 10])


def test_residuals_by_hand() -> None:
    for norm_first, read, result in ((True, [-0.5, 4], [5, 7]), (False, [1, 3], [-0.5, 4])):
        sublayer = replace(make_feed_forward(), norm_first=norm_first)
        steps = follow_residual(sublayer, np.array([4.0, 4.0]), 1)
        found = [steps.stream, steps.read, steps.output, steps.total, steps.result]
        assert_near(np.array(found), [[1, 3], read, [4, 4], [5, 7], result])


@pytest.mark.parametrize("bias", [None, [100, 200]])
def test_feed_forward_by_hand(bias: Sequence[float] | None) -> None:
    feed_forward = make_feed_forward(bias)
    steps = follow_feed_forward(feed_forward, 1)
    np.testing.assert_array_equal(steps.before, [6, -0.5, 1])
    np.testing.assert_array_equal(steps.hidden, [6, 0, 1])
    np.testing.assert_array_equal(steps.output, np.add([9, 80], bias or 0))
    # A second projection of (1, 2) gives (1, 5, -2): hidden units 6, 0 and -2.
    gate = LinearWeights(array([[1, 1, 0], [0, 2, -1]]), None)
    gated = follow_feed_forward(replace(feed_forward, gate=gate), 1)
    np.testing.assert_array_equal(gated.hidden, [6, 0, -2])
    np.testing.assert_array_equal(gated.output, np.add([0, 20], bias or 0))


def test_activation_functions_are_those_of_torch() -> None:
    tanh = partial(F.gelu, approximate="tanh")
    theirs = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu, "silu": F.silu, "tanh": torch.tanh}
    theirs |= {"gelu_new": tanh, "gelu_pytorch_tanh": tanh}
    assert theirs.keys() == ACTIVATIONS.keys()
    x = np.linspace(-4, 4, 81)
    for name, function in theirs.items():
        assert_near(ACTIVATIONS[name](x), function(torch.tensor(x)).numpy())


# Layers of tiny models, whose steps the models themselves have computed


@pytest.fixture(params=["pre", "bare", "post"])
def layer(
    request: pytest.FixtureRequest,
    make_speaker: Callable[..., Transformer],
    tokenizers: TokenizerPair,
) -> LayerTrace:
    """The second cross-attention and its feed-forward, recorded while a sentence went through."""
    changes = {"pre": {}, "bare": {"attention_bias": False}, "post": {"norm": "post"}}
    speaker = make_speaker(**changes[request.param])
    trace = run_trace(speaker, tokenizers, "Don't worry, she sees him.", "No, ella lo ve.")
    return run_layer_trace(speaker, trace, "cross", 1)


STEPS = {
    "query": ("attention", "query"),
    "keys": ("attention", "key"),
    "scores": ("attention", "scores"),
    "weights": ("attention", "weights"),
    "head output": ("attention", "heads"),
    "layer output": ("attention", "output"),
    "stream after attention": ("attention", "result"),
    "hidden units": ("feed_forward", "hidden"),
    "stream after the feed-forward": ("feed_forward", "result"),
}
"""Step → the sublayer and the field that were captured from the model."""


def recorded(layer: LayerTrace, step: str, change: float) -> LayerTrace:
    """The layer with another captured tensor."""
    name, field = STEPS[step]
    sublayer = getattr(layer, name)
    return replace(layer, **{name: replace(sublayer, **{field: getattr(sublayer, field) + change})})


def largest(layer: LayerTrace) -> float:
    """The largest number of a layer, in which all is recorded in float32."""
    arrays = [a for part in vars(layer).values() for a in vars(part).values()]
    return max(float(np.abs(a).max()) for a in arrays if isinstance(a, np.ndarray))


def test_steps_match_the_model(layer: LayerTrace) -> None:
    size = largest(layer)
    for row in range(len(layer.attention.read)):
        for head in range(layer.attention.n_heads):
            found = deviations(layer, head, row)
            assert list(found) == list(STEPS)
            assert max(found.values()) <= rounding(np.float32, size)
            values = follow_head(layer.attention, head, row).values
            assert_near(values, layer.attention.value[head], size=size)
        output = follow_feed_forward(layer.feed_forward, row).output
        assert_near(output, layer.feed_forward.output[row], size=size)
        shares = head_shares(layer.attention, row)
        assert shares.shares.sum() == near(1, size=np.abs(shares.shares).sum())
        parts = np.vstack([shares.parts, shares.bias])
        assert_near(parts.sum(axis=0), shares.output, size=np.abs(parts).max())


def test_steps_do_not_use_what_is_compared_with_them(layer: LayerTrace) -> None:
    """A captured tensor that is off is found at its own step, and changes no other."""
    size = largest(layer)
    for step in STEPS:
        found = deviations(recorded(layer, step, -0.5), 1, 3)
        assert found.pop(step) == near(0.5, dtype=np.float32, size=size)
        assert max(found.values()) <= rounding(np.float32, size)
        assert math.isnan(deviations(recorded(layer, step, math.nan), 1, 3)[step])


def test_largest_positive_values_come_in_order_and_equal_ones_by_place() -> None:
    for values, count, expected in (
        ([0.1, 0.7, 0.2], 7, [1, 2, 0]),
        ([0.5, 0.9, 0.5, 0.9, 0.5], 4, [1, 3, 0, 2]),
        ([0.0, -3.0, 0.2, math.nan], 3, [2]),
    ):
        assert largest_positive(np.array(values), count).tolist() == expected


def test_unknown_head_row_and_activation_are_refused(by_hand: AttentionSublayer) -> None:
    feed_forward = make_feed_forward()
    refused = {
        "^head: expected 0 to 1, got -1$": lambda: follow_head(by_hand, -1, 0),
        "^head: expected 0 to 1, got 2$": lambda: follow_head(by_hand, 2, 0),
        "^row: expected 0 to 1, got -1$": lambda: follow_head(by_hand, 0, -1),
        "^row: expected 0 to 1, got 2$": lambda: head_shares(by_hand, 2),
        "^row: expected 0 to 1, got 3$": lambda: follow_residual(by_hand, np.zeros(D), 3),
        "^row: expected 0 to 1, got 99$": lambda: follow_feed_forward(feed_forward, 99),
        "'softplus' is not known here; known are relu": lambda: follow_feed_forward(
            replace(feed_forward, activation="softplus"), 1
        ),
    }
    for message, follow in refused.items():
        with pytest.raises(ValueError, match=message):
            follow()
