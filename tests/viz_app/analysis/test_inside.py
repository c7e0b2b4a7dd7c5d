"""By hand and by loops. What was captured is NaN where nothing may look at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz_app.analysis.inside import (
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
    layer_norm,
    strongest,
)
from viz_app.layer_records import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    Linear,
    Norm,
)
from viz_app.records import Floats

H, K, D, M, Q, D_FF = 2, 3, 5, 7, 11, 13

exactly = {"rtol": 0, "atol": 1e-12}
"""All is computed in float64 …"""
closely = {"rtol": 0, "atol": 1e-6}
"""… from float32."""


def array(values: object) -> Floats:
    return np.array(values, dtype=np.float32)


def unknown(*shape: int) -> Floats:
    return np.full(shape, np.nan, dtype=np.float32)


def make_attention(
    *,
    read: Floats,
    memory: Floats,
    projections: Sequence[Linear],
    allowed: np.ndarray,
    n_heads: int,
    norm: Norm | None = None,
    norm_first: bool = True,
    stream: Floats | None = None,
) -> AttentionSublayer:
    """Nothing is captured: of query to result all is NaN."""
    (q, d), m, k = read.shape, len(memory), projections[3].weight.shape[0] // n_heads
    return AttentionSublayer(
        kind="cross",
        layer=0,
        n_heads=n_heads,
        norm_first=norm_first,
        norm=norm or Norm(unknown(d), unknown(d), math.nan),
        query_projection=projections[0],
        key_projection=projections[1],
        value_projection=projections[2],
        output_projection=projections[3],
        allowed=allowed,
        stream=unknown(q, d) if stream is None else stream,
        read=read,
        memory=memory,
        query=unknown(n_heads, q, k),
        key=unknown(n_heads, m, k),
        value=unknown(n_heads, m, k),
        scores=unknown(n_heads, q, m),
        weights=unknown(n_heads, q, m),
        heads=unknown(n_heads, q, k),
        output=unknown(q, d),
        result=unknown(q, d),
    )


def make_feed_forward(
    *,
    stream: Floats,
    read: Floats,
    expand: Linear,
    contract: Linear,
    norm: Norm,
    norm_first: bool = True,
) -> FeedForwardSublayer:
    """Nothing is captured: of hidden to result all is NaN."""
    return FeedForwardSublayer(
        norm_first=norm_first,
        norm=norm,
        expand=expand,
        contract=contract,
        stream=stream,
        read=read,
        hidden=unknown(len(read), expand.weight.shape[1]),
        output=unknown(*read.shape),
        result=unknown(*read.shape),
    )


def matrix(rows: int, columns: int, entries: dict[tuple[int, int], float]) -> Floats:
    """Zero but for some entries."""
    filled = np.zeros((rows, columns), dtype=np.float32)
    for place, value in entries.items():
        filled[place] = value
    return filled


# By hand: two heads of width 3, three keys of which the third is masked


@pytest.fixture
def by_hand() -> AttentionSublayer:
    """Head 0 gives (1, 0, 0) whatever it reads; head 1 is followed in the tests."""
    return make_attention(
        n_heads=H,
        read=array([[0] * D, [1, 0, 0, 0, 0]]),
        memory=array([[0, math.log(3), 4, 0, 0], [0, 0, 8, 0, 0], [0, 100, 1000, 0, 0]]),
        projections=[
            Linear(matrix(D, H * K, {(0, 3): math.sqrt(3)}), array([0, 0, 0, 0, 0, 1])),
            Linear(matrix(D, H * K, {(1, 3): 1}), None),
            Linear(matrix(D, H * K, {(2, 3): 1, (2, 5): 2}), array([1, 0, 0, 0, 1, 0])),
            Linear(matrix(H * K, D, {(0, 0): 3, (3, 1): 0.8}), array([0, -1, 0, 0, 0])),
        ],
        allowed=np.array([[True, True, True], [True, True, False]]),
    )


def test_a_head_followed_by_hand(by_hand: AttentionSublayer) -> None:
    """Scores ln 3 and 0 make weights 3/4 and 1/4."""
    steps = follow_head(by_hand, 1, 1)
    np.testing.assert_allclose(steps.query, [3**0.5, 0, 1], **closely)
    keys = [[math.log(3), 0, 0], [0, 0, 0], [100, 0, 0]]
    np.testing.assert_allclose(steps.keys, keys, **closely)
    products = [3**0.5 * math.log(3), 0, 3**0.5 * 100]
    np.testing.assert_allclose(steps.products, products, rtol=1e-6)
    np.testing.assert_allclose(steps.scaled, [math.log(3), 0, 100], rtol=1e-6)
    np.testing.assert_allclose(steps.masked, [math.log(3), 0, -math.inf], rtol=1e-6)
    np.testing.assert_allclose(steps.weights, [0.75, 0.25, 0], **closely)
    assert steps.weights[2] == 0
    np.testing.assert_allclose(steps.values, [[4, 1, 8], [8, 1, 16], [1000, 1, 2000]], **closely)
    weighted = [[3, 0.75, 6], [2, 0.25, 4], [0, 0, 0]]
    np.testing.assert_allclose(steps.weighted, weighted, **closely)
    np.testing.assert_allclose(steps.output, [5, 1, 10], **closely)


def test_very_large_scores_do_not_overflow(by_hand: AttentionSublayer) -> None:
    large = replace(by_hand, memory=1000 * by_hand.memory)
    np.testing.assert_array_equal(follow_head(large, 1, 1).weights, [1, 0, 0])


def test_shares_by_hand(by_hand: AttentionSublayer) -> None:
    """Parts (3, 0, …) and (0, 4, …), the bias (0, -1, …): output (3, 3, …) of squared length 18."""
    shares = head_shares(by_hand, 1)
    np.testing.assert_allclose(shares.parts, [[3, 0, 0, 0, 0], [0, 4, 0, 0, 0]], **closely)
    np.testing.assert_array_equal(shares.bias, [0, -1, 0, 0, 0])
    np.testing.assert_allclose(shares.output, [3, 3, 0, 0, 0], **closely)
    np.testing.assert_allclose(shares.shares, [9 / 18, 12 / 18, -3 / 18], **closely)


def test_without_a_bias_the_heads_share_all(by_hand: AttentionSublayer) -> None:
    projection = replace(by_hand.output_projection, bias=None)
    shares = head_shares(replace(by_hand, output_projection=projection), 1)
    np.testing.assert_array_equal(shares.bias, np.zeros(D))
    np.testing.assert_allclose(shares.output, [3, 4, 0, 0, 0], **closely)
    np.testing.assert_allclose(shares.shares, [9 / 25, 16 / 25, 0], **closely)


def test_shares_are_the_same_of_a_small_output(by_hand: AttentionSublayer) -> None:
    weight, bias = by_hand.output_projection.weight, by_hand.output_projection.bias
    assert bias is not None
    small = replace(by_hand, output_projection=Linear(weight / 16, bias / 16))
    found, expected = head_shares(small, 1), head_shares(by_hand, 1)
    np.testing.assert_allclose(found.shares, expected.shares, **closely)


def test_nothing_has_no_shares(by_hand: AttentionSublayer) -> None:
    projection = Linear(np.zeros_like(by_hand.output_projection.weight), None)
    shares = head_shares(replace(by_hand, output_projection=projection), 1)
    np.testing.assert_array_equal(shares.output, np.zeros(D))
    np.testing.assert_array_equal(shares.shares, np.zeros(H + 1))


# By hand: norms, residual connections, feed-forward

NORM = Norm(array([2, 10]), array([0.5, -1]), 3.0)
"""Of (1, 3), and of (5, 7): variance 1, divisor √(1 + 3), so (2 · -½ + ½, 10 · ½ - 1)."""


def test_a_norm_by_hand() -> None:
    np.testing.assert_allclose(layer_norm(array([1, 3]), NORM), [-0.5, 4], **exactly)
    several = layer_norm(array([[[1, 3]], [[4, 4]], [[3, 1]]]), NORM)
    np.testing.assert_allclose(several, [[[-0.5, 4]], [[0.5, -1]], [[1.5, -6]]], **exactly)


@pytest.mark.parametrize(
    ("norm_first", "read", "result"),
    [(True, [-0.5, 4], [5, 7]), (False, [1, 3], [-0.5, 4])],
)
def test_residual_connections_by_hand(
    norm_first: bool, read: Sequence[float], result: Sequence[float]
) -> None:
    nothing = Linear(unknown(2, 3), None)
    sublayer = make_feed_forward(
        stream=array([[0, 0], [1, 3]]),
        read=unknown(2, 2),
        expand=nothing,
        contract=nothing,
        norm=NORM,
        norm_first=norm_first,
    )
    steps = follow_residual(sublayer, np.array([4.0, 4.0]), 1)
    np.testing.assert_array_equal(steps.stream, [1, 3])
    np.testing.assert_allclose(steps.read, read, **exactly)
    np.testing.assert_array_equal(steps.output, [4, 4])
    np.testing.assert_array_equal(steps.total, [5, 7])
    np.testing.assert_allclose(steps.result, result, **exactly)


@pytest.mark.parametrize("bias", [None, [100, 200]])
def test_a_feed_forward_by_hand(bias: Sequence[float] | None) -> None:
    feed_forward = make_feed_forward(
        stream=unknown(2, 2),
        read=array([[0, 0], [1, 2]]),
        expand=Linear(array([[1, -1, 0], [2, 0, -3]]), array([1, 0.5, 7])),
        contract=Linear(array([[1, 10], [50, 50], [3, 20]]), None if bias is None else array(bias)),
        norm=NORM,
    )
    steps = follow_feed_forward(feed_forward, 1)
    np.testing.assert_array_equal(steps.before, [6, -0.5, 1])
    np.testing.assert_array_equal(steps.hidden, [6, 0, 1])
    np.testing.assert_array_equal(steps.output, np.add([9, 80], bias or 0))


# By loops: a layer of prime dimensions


def softmax(scores: Sequence[float]) -> list[float]:
    return [math.exp(score) / sum(map(math.exp, scores)) for score in scores]


def times(x: Sequence[float], linear: Linear) -> list[float]:
    inputs, outputs = linear.weight.shape
    assert len(x) == inputs
    bias = [0.0] * outputs if linear.bias is None else linear.bias.tolist()
    weight = linear.weight.tolist()
    return [bias[j] + sum(x[i] * weight[i][j] for i in range(inputs)) for j in range(outputs)]


def normed(x: Sequence[float], norm: Norm) -> list[float]:
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return [
        float(gain) * (value - mean) / math.sqrt(variance + norm.epsilon) + float(bias)
        for value, gain, bias in zip(x, norm.gain, norm.bias, strict=True)
    ]


def added(x: Sequence[float], y: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(x, y, strict=True)]


def random_layer(norm_first: bool, bias: bool) -> LayerTrace:
    """A layer that follows nothing yet: random inputs and weights, NaN where it is captured."""
    random = np.random.default_rng(5)

    def linear(inputs: int, outputs: int, with_bias: bool = True) -> Linear:
        weight = array(random.normal(size=(inputs, outputs)))
        return Linear(weight, array(random.normal(size=outputs)) if with_bias else None)

    def norm() -> Norm:
        return Norm(array(random.normal(size=D)), array(random.normal(size=D)), 0.125)

    def rows(n: int) -> Floats:
        return array(random.normal(size=(n, D)))

    shapes = [(D, H * K)] * 3 + [(H * K, D)]
    allowed = random.random((Q, M)) < 0.6
    allowed[:, 2] = True
    attention_norm, norm_of_feed_forward, stream, middle = norm(), norm(), rows(Q), rows(Q)
    attention = make_attention(
        n_heads=H,
        read=rows(Q),
        memory=rows(M),
        projections=[linear(*shape, bias) for shape in shapes],
        allowed=allowed,
        norm=attention_norm,
        norm_first=norm_first,
        stream=stream,
    )
    feed_forward = make_feed_forward(
        stream=middle,
        read=rows(Q),
        expand=linear(D, D_FF),
        contract=linear(D_FF, D),
        norm=norm_of_feed_forward,
        norm_first=norm_first,
    )
    return LayerTrace(attention, feed_forward)


def computed_by_loops(layer: LayerTrace) -> LayerTrace:
    """The layer with all that follows from its inputs and weights, one number after another."""
    a, f = layer.attention, layer.feed_forward
    read, memory = a.read.tolist(), a.memory.tolist()

    def of_heads(x: list[list[float]], projection: Linear) -> list[list[list[float]]]:
        whole = [times(row, projection) for row in x]
        return [[row[h * K : (h + 1) * K] for row in whole] for h in range(H)]

    query = of_heads(read, a.query_projection)
    key, value = of_heads(memory, a.key_projection), of_heads(memory, a.value_projection)
    scores = [
        [
            [sum(map(math.prod, zip(q, k, strict=True))) / math.sqrt(K) for k in key[h]]
            for q in query[h]
        ]
        for h in range(H)
    ]
    weights = [
        [
            softmax([s if ok else -math.inf for s, ok in zip(row, allowed, strict=True)])
            for row, allowed in zip(scores[h], a.allowed.tolist(), strict=True)
        ]
        for h in range(H)
    ]
    heads = [
        [[sum(row[m] * value[h][m][k] for m in range(M)) for k in range(K)] for row in weights[h]]
        for h in range(H)
    ]
    output = [
        times([x for h in range(H) for x in heads[h][q]], a.output_projection) for q in range(Q)
    ]
    hidden = [[max(0.0, x) for x in times(row, f.expand)] for row in f.read.tolist()]
    fed = [times(row, f.contract) for row in hidden]

    def result(stream: Floats, output: list[list[float]], norm: Norm) -> Floats:
        total = [added(*rows) for rows in zip(stream.tolist(), output, strict=True)]
        return array(total if a.norm_first else [normed(row, norm) for row in total])

    return LayerTrace(
        replace(
            a,
            query=array(query),
            key=array(key),
            value=array(value),
            scores=array(scores),
            weights=array(weights),
            heads=array(heads),
            output=array(output),
            result=result(a.stream, output, a.norm),
        ),
        replace(f, hidden=array(hidden), output=array(fed), result=result(f.stream, fed, f.norm)),
    )


@pytest.fixture(params=[(True, True), (True, False), (False, True)], ids=["pre", "bare", "post"])
def layer(request: pytest.FixtureRequest) -> LayerTrace:
    return computed_by_loops(random_layer(*request.param))


STEPS = [
    "query",
    "keys",
    "scores",
    "weights",
    "head output",
    "layer output",
    "stream after attention",
    "hidden units",
    "stream after the feed-forward",
]


def test_every_step_is_what_loops_compute(layer: LayerTrace) -> None:
    for head in range(H):
        for row in range(Q):
            found = deviations(layer, head, row)
            assert list(found) == STEPS
            assert max(found.values()) < 1e-5
            values = follow_head(layer.attention, head, row).values
            np.testing.assert_allclose(values, layer.attention.value[head], rtol=0, atol=1e-5)
    for row in range(Q):
        output = follow_feed_forward(layer.feed_forward, row).output
        np.testing.assert_allclose(output, layer.feed_forward.output[row], rtol=0, atol=1e-5)


def test_what_was_captured_is_not_what_steps_are_computed_from(layer: LayerTrace) -> None:
    norm_first, bias = layer.attention.norm_first, layer.attention.query_projection.bias is not None
    blank = random_layer(norm_first, bias)
    for head in range(H):
        for name, array in vars(follow_head(blank.attention, head, 3)).items():
            assert not np.isnan(array).any(), name
            np.testing.assert_array_equal(
                array, vars(follow_head(layer.attention, head, 3))[name], err_msg=name
            )
    np.testing.assert_array_equal(
        head_shares(blank.attention, 3).output, head_shares(layer.attention, 3).output
    )
    for sublayer in (blank.attention, blank.feed_forward):
        assert not np.isnan(follow_residual(sublayer, np.zeros(D), 3).result).any()
    assert not np.isnan(follow_feed_forward(blank.feed_forward, 3).output).any()
    assert np.isnan(list(deviations(blank, 0, 3).values())).all()


@pytest.mark.parametrize(
    ("step", "sublayer", "field", "place"),
    [
        ("query", "attention", "query", (1, 3, 2)),
        ("keys", "attention", "key", (1, 6, 0)),
        ("scores", "attention", "scores", (1, 3, 6)),
        ("weights", "attention", "weights", (1, 3, 6)),
        ("head output", "attention", "heads", (1, 3, 0)),
        ("layer output", "attention", "output", (3, 4)),
        ("stream after attention", "attention", "result", (3, 4)),
        ("hidden units", "feed_forward", "hidden", (3, 12)),
        ("stream after the feed-forward", "feed_forward", "result", (3, 4)),
    ],
)
def test_a_step_that_deviates_is_named(
    layer: LayerTrace, step: str, sublayer: str, field: str, place: tuple[int, ...]
) -> None:
    changed = getattr(getattr(layer, sublayer), field).copy()
    changed[place] -= 0.5
    record = replace(getattr(layer, sublayer), **{field: changed})
    found = deviations(replace(layer, **{sublayer: record}), 1, 3)
    assert found.pop(step) == pytest.approx(0.5, abs=1e-5)
    assert max(found.values()) < 1e-5
    elsewhere = deviations(replace(layer, **{sublayer: record}), 0 if len(place) == 3 else 1, 4)
    assert max(elsewhere.values()) < 1e-5


def test_a_step_that_is_no_number_deviates(layer: LayerTrace) -> None:
    heads = layer.attention.heads.copy()
    heads[1, 3, 0] = np.nan
    found = deviations(replace(layer, attention=replace(layer.attention, heads=heads)), 1, 3)
    assert math.isnan(found["head output"])


# Shares, the strongest


@pytest.mark.parametrize("row", range(Q))
def test_shares_sum_to_1(layer: LayerTrace, row: int) -> None:
    shares = head_shares(layer.attention, row)
    assert shares.shares.shape == (H + 1,)
    assert shares.shares.sum() == pytest.approx(1)
    assert (shares.shares[-1] == 0) == (layer.attention.output_projection.bias is None)
    np.testing.assert_allclose(shares.parts.sum(axis=0) + shares.bias, shares.output, **exactly)


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([0.1, 0.7, 0.2], 2, [1, 2]),
        ([0.1, 0.7, 0.2], 7, [1, 2, 0]),
        ([0.5, 0.9, 0.5, 0.9, 0.5], 4, [1, 3, 0, 2]),
        ([0.0, -3.0, 0.2, math.nan], 3, [2]),
        ([0.0, -1.0], 3, []),
        ([0.3, 0.4], 0, []),
        ([], 2, []),
    ],
)
def test_the_strongest(values: Sequence[float], count: int, expected: Sequence[int]) -> None:
    assert strongest(np.array(values), count).tolist() == expected


@given(st.lists(st.integers(-3, 3), max_size=13), st.integers(0, 13))
def test_the_strongest_come_in_order(values: list[int], count: int) -> None:
    positive = [index for index, value in enumerate(values) if value > 0]
    expected = sorted(positive, key=lambda index: (-values[index], index))[:count]
    assert strongest(np.array(values), count).tolist() == expected


# Errors


@pytest.mark.parametrize("head", [-1, 2, 3])
def test_a_head_that_is_not_there_is_refused(layer: LayerTrace, head: int) -> None:
    message = rf"^head: expected 0 to 1, got {head}$"
    with pytest.raises(ValueError, match=message):
        follow_head(layer.attention, head, 0)
    with pytest.raises(ValueError, match=message):
        deviations(layer, head, 0)


@pytest.mark.parametrize("row", [-1, 11, 12])
def test_a_row_that_is_not_there_is_refused(layer: LayerTrace, row: int) -> None:
    message = rf"^row: expected 0 to 10, got {row}$"
    for follow in (
        lambda: follow_head(layer.attention, 0, row),
        lambda: head_shares(layer.attention, row),
        lambda: follow_residual(layer.attention, np.zeros(D), row),
        lambda: follow_residual(layer.feed_forward, np.zeros(D), row),
        lambda: follow_feed_forward(layer.feed_forward, row),
        lambda: deviations(layer, 0, row),
    ):
        with pytest.raises(ValueError, match=message):
            follow()
