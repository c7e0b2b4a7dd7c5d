from __future__ import annotations

import math
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from headwise.model.attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention_scores,
    attention_weights,
)
from headwise.model.hooks import capture
from headwise.model.masks import causal_mask, padding_mask
from tests.floats import PASS, assert_near

BATCH, QUERIES, KEYS, HEADS, WIDTH, D_MODEL = 2, 5, 7, 3, 5, 14


@pytest.fixture
def attention() -> MultiHeadAttention:
    """Make an attention in float64, as all tensors here are but where a test says otherwise."""
    torch.manual_seed(3)
    module = MultiHeadAttention(d_model=D_MODEL, n_heads=HEADS, d_k=WIDTH, bias=True)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, QUERIES, D_MODEL, generator=generator, dtype=torch.float64)


@pytest.fixture
def y() -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(BATCH, KEYS, D_MODEL, generator=generator, dtype=torch.float64)


MASKS = {
    "none": None,
    "causal": causal_mask(QUERIES, KEYS),
    "padding": padding_mask(torch.tensor([[1] * 7, [1] * 4 + [0] * 3])),
    "both": causal_mask(QUERIES, KEYS)
    & padding_mask(torch.tensor([[1] * 6 + [0], [1] * 3 + [0] * 4])),
}


def by_hand(attention: MultiHeadAttention, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
    """Compute section 3.2.2 one head at a time: Concat(head_1, …, head_h) W_O."""
    queries = attention.query_projection(x).split(WIDTH, dim=-1)
    keys = attention.key_projection(y).split(WIDTH, dim=-1)
    values = attention.value_projection(y).split(WIDTH, dim=-1)
    heads = []
    for query, key, value in zip(queries, keys, values, strict=True):
        exponentials = (torch.einsum("bqk,bmk->bqm", query, key) / math.sqrt(WIDTH)).exp()
        if mask is not None:
            exponentials = exponentials * mask[:, 0]
        heads.append(exponentials / exponentials.sum(-1, keepdim=True) @ value)
    output: Tensor = attention.output_projection(torch.cat(heads, dim=-1))
    return output


def test_scores_and_weights_computed_by_hand() -> None:
    keys = [[math.log(3) / math.sqrt(2), 9.0], [0.0, -4.0], [50.0, 0.0]]
    query = torch.tensor([[[[2.0, 0.0]]]], dtype=torch.float64)
    key = torch.tensor([[keys]], dtype=torch.float64)
    mask = torch.tensor([True, True, False])

    scores = attention_scores(query, key)
    weights = attention_weights(scores, mask)

    assert_near(scores.flatten(), [math.log(3), 0.0, 100.0 / math.sqrt(2)])  # 2 · key / √2
    assert_near(weights.flatten(), [0.75, 0.25, 0.0])


def test_a_masked_key_has_zero_weight_however_low_the_other_scores() -> None:
    weights = attention_weights(torch.tensor([-1e30, 7.0]), torch.tensor([True, False]))
    assert weights.tolist() == [1.0, 0.0]


def test_one_head_computed_by_hand() -> None:
    module = MultiHeadAttention(d_model=2, n_heads=1, d_k=2, bias=False).double()
    for projection in module.children():
        if isinstance(projection, nn.Linear):
            nn.init.eye_(projection.weight)
    x = torch.tensor([[[math.sqrt(2) * math.log(3), 0.0]]], dtype=torch.float64)
    y = torch.tensor([[[1.0, 4.0], [0.0, 8.0]]], dtype=torch.float64)

    output = module(x, y, mask=None)  # scores ln 3 and 0, weights ¾ and ¼

    assert_near(output, [[[0.75, 5.0]]])


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_both_paths_equal_the_formula_in_float64(
    attention: MultiHeadAttention, x: Tensor, y: Tensor, mask: Tensor | None, explicit: bool
) -> None:
    with capture(attention, ["weights"] if explicit else []) as seen:
        output = attention(x, y, mask=mask)

    assert output.dtype == torch.float64
    assert all(weights.dtype == torch.float64 for weights in seen.get("weights", []))
    assert_near(output, by_hand(attention, x, y, mask), operations=PASS)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_fused_and_explicit_agree_in_float32(
    attention: MultiHeadAttention, x: Tensor, y: Tensor, mask: Tensor | None
) -> None:
    attention, x, y = attention.float(), x.float(), y.float()
    with torch.no_grad():
        fused = attention(x, y, mask=mask)
        with capture(attention, ["scores"]):
            explicit = attention(x, y, mask=mask)
    assert_near(fused, explicit)


@pytest.mark.parametrize("name", ["query", "key", "value", "scores", "weights", "heads", "output"])
def test_only_scores_and_weights_need_the_explicit_formula(
    attention: MultiHeadAttention, x: Tensor, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = Mock(side_effect=nn.functional.scaled_dot_product_attention)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", fused)
    with torch.no_grad(), capture(attention, [name]):
        attention(x, x, mask=None)
    assert fused.called == (name not in ("scores", "weights"))


def test_training_on_a_cpu_has_the_gradients_of_the_fused_kernel(
    attention: MultiHeadAttention, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = Mock(side_effect=nn.functional.scaled_dot_product_attention)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", fused)
    gradients = []
    for formula in (True, False):
        if not formula:
            monkeypatch.setattr("headwise.model.attention.trains_on_cpu", lambda query: False)
        attention.zero_grad()
        attention(x, x, mask=causal_mask(x.shape[1], x.shape[1])).square().sum().backward()
        assert fused.called is not formula
        gradients.append({name: p.grad for name, p in attention.named_parameters()})
    largest = max(float(gradient.abs().max()) for gradient in gradients[1].values())
    for name, gradient in gradients[0].items():
        assert_near(gradient, gradients[1][name], size=largest, operations=PASS)


@pytest.mark.parametrize("name", ["causal", "padding", "both"])
def test_masked_weights_are_exactly_zero(
    attention: MultiHeadAttention, x: Tensor, y: Tensor, name: str
) -> None:
    mask = MASKS[name]
    assert mask is not None
    with capture(attention, ["weights"]) as seen:
        attention(x, y, mask=mask)

    (weights,) = seen["weights"]
    allowed = mask.expand_as(weights)
    assert (weights[~allowed] == 0).all()
    assert (weights[allowed] > 0).all()
    assert_near(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES), dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("query", (BATCH, HEADS, QUERIES, WIDTH)),
        ("key", (BATCH, HEADS, KEYS, WIDTH)),
        ("value", (BATCH, HEADS, KEYS, WIDTH)),
        ("scores", (BATCH, HEADS, QUERIES, KEYS)),
        ("weights", (BATCH, HEADS, QUERIES, KEYS)),
        ("heads", (BATCH, HEADS, QUERIES, WIDTH)),
        ("output", (BATCH, QUERIES, D_MODEL)),
    ],
)
def test_shapes(
    attention: MultiHeadAttention, x: Tensor, y: Tensor, name: str, shape: tuple[int, ...]
) -> None:
    with capture(attention, [name]) as seen:
        attention(x, y, mask=None)
    assert [tuple(tensor.shape) for tensor in seen[name]] == [shape]


def test_weights_times_values_give_the_heads(
    attention: MultiHeadAttention, x: Tensor, y: Tensor
) -> None:
    with capture(attention, ["weights", "value", "heads"]) as seen:
        attention(x, y, mask=MASKS["both"])
    heads = torch.einsum("bhqm,bhmk->bhqk", seen["weights"][0], seen["value"][0])
    assert_near(seen["heads"][0], heads)


@pytest.mark.parametrize("bias", [True, False])
def test_d_k_is_free_of_d_model(bias: bool) -> None:
    module = MultiHeadAttention(d_model=D_MODEL, n_heads=HEADS, d_k=WIDTH, bias=bias)
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}

    expected: dict[str, tuple[int, ...]] = {"output_projection.weight": (D_MODEL, HEADS * WIDTH)}
    for name in ("query", "key", "value"):
        expected[f"{name}_projection.weight"] = (HEADS * WIDTH, D_MODEL)
    if bias:
        expected["output_projection.bias"] = (D_MODEL,)
        for name in ("query", "key", "value"):
            expected[f"{name}_projection.bias"] = (HEADS * WIDTH,)
    assert shapes == expected


def test_a_cache_appends_the_keys_and_values_of_new_positions(
    attention: MultiHeadAttention, y: Tensor
) -> None:
    whole = attention(y, y, mask=causal_mask(KEYS, KEYS))
    cache = KeyValueCache(fixed=False)
    steps = [
        attention(y[:, i : i + 1], y[:, i : i + 1], mask=None, cache=cache) for i in range(KEYS)
    ]
    assert_near(torch.cat(steps, dim=1), whole, operations=PASS)


def test_a_fixed_cache_computes_keys_and_values_once(
    attention: MultiHeadAttention, x: Tensor, y: Tensor
) -> None:
    cache = KeyValueCache(fixed=True)
    with capture(attention, ["key", "value"]) as seen:
        first = attention(x, y, mask=None, cache=cache)
        second = attention(x, y, mask=None, cache=cache)
    assert torch.equal(first, second)
    assert len(seen["key"]) == len(seen["value"]) == 1
    assert cache.key is seen["key"][0]
    assert cache.value is seen["value"][0]


def test_keep_reorders_and_drops_rows_of_a_cache() -> None:
    key, value = torch.randn(3, 2, 5, 7), torch.randn(3, 2, 5, 7)
    cache = KeyValueCache(fixed=False)
    cache.keep(torch.tensor([0]))  # nothing is cached yet
    cache.append(key, value)

    cache.keep(torch.tensor([2, 2]))

    assert cache.key is not None
    assert cache.value is not None
    assert torch.equal(cache.key, key[[2, 2]])
    assert torch.equal(cache.value, value[[2, 2]])
