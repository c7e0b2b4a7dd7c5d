"""Attention and its masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention, attention_scores, attention_weights
from headwise.model.hooks import capture, edit
from headwise.model.layers import FeedForward, InputEmbedding, residual, sinusoidal_positions
from headwise.model.masks import PADDING, causal_mask, padding_mask, padding_mask_if_padded
from tests.floats import PASS, assert_near
from tests.tiny import tiny_config, tiny_ids

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


PADDED = padding_mask(torch.tensor([[1] * 7, [1] * 4 + [PADDING] * 3]))
MASKS = {
    "none": None,
    "causal": causal_mask(QUERIES, KEYS),
    "padding": PADDED,
    "both": causal_mask(QUERIES, KEYS) & PADDED,
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


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
    scores = attention_scores(query, torch.tensor([[keys]], dtype=torch.float64))
    weights = attention_weights(scores, torch.tensor([True, True, False]))
    assert_near(scores.flatten(), [math.log(3), 0.0, 100.0 / math.sqrt(2)])  # 2 · key / √2
    assert_near(weights.flatten(), [0.75, 0.25, 0.0])
    # A masked key has no weight however low the other scores are.
    weights = attention_weights(torch.tensor([-1e30, 7.0]), torch.tensor([True, False]))
    assert weights.tolist() == [1.0, 0.0]


@each_mask
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_both_paths_equal_the_formula_in_float64(
    attention: MultiHeadAttention, x: Tensor, y: Tensor, mask: Tensor | None, explicit: bool
) -> None:
    with torch.no_grad(), capture(attention, ["weights"] if explicit else []) as seen:
        output = attention(x, y, mask=mask)
    assert output.dtype == torch.float64
    assert_near(output, by_hand(attention, x, y, mask), operations=PASS)
    for weights in seen.get("weights", []):
        assert weights.dtype == torch.float64
        assert_near(weights.sum(-1), torch.ones(BATCH, HEADS, QUERIES), dtype=torch.float64)
        if mask is not None:
            assert torch.equal(weights > 0, mask.expand_as(weights))  # others are exactly 0


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Mock:
    spy = Mock(side_effect=nn.functional.scaled_dot_product_attention)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", spy)
    return spy


@pytest.mark.parametrize("name", ["query", "key", "value", "scores", "weights", "heads", "output"])
def test_only_scores_and_weights_need_the_explicit_formula(
    attention: MultiHeadAttention, x: Tensor, name: str, fused: Mock
) -> None:
    with torch.no_grad(), capture(attention, [name]):
        attention(x, x, mask=None)
    assert fused.called == (name not in ("scores", "weights"))


# Masks


@given(st.data(), st.integers(1, 5), st.integers(1, 11))
def test_padding_mask_allows_just_the_tokens(data: st.DataObject, batch: int, length: int) -> None:
    row = st.lists(st.integers(PADDING, 3), min_size=length, max_size=length)
    row = row.filter(lambda ids: max(ids) >= 0)
    ids = torch.tensor(data.draw(st.lists(row, min_size=batch, max_size=batch)))
    mask = padding_mask(ids)
    assert (mask.dtype, mask.shape) == (torch.bool, (batch, 1, 1, length))
    assert mask[:, 0, 0].tolist() == [[token >= 0 for token in row] for row in ids.tolist()]
    if_padded = padding_mask_if_padded(ids)
    assert (if_padded is None) == bool(mask.all())
    assert if_padded is None or torch.equal(if_padded, mask)


@given(st.integers(1, 11), st.integers(0, 11))
def test_causal_mask_allows_each_query_its_past_and_itself(n_queries: int, earlier: int) -> None:
    n_keys = earlier + n_queries
    mask = causal_mask(n_queries, n_keys)
    assert (mask.dtype, mask.shape) == (torch.bool, (1, 1, n_queries, n_keys))
    assert mask[0, 0].tolist() == [
        [key <= earlier + query for key in range(n_keys)] for query in range(n_queries)
    ]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[5, PADDING], [PADDING] * 2, [PADDING] * 2], "row 1 of .* allows no key: .*got padding"),
        ([[], [], []], "row 0 of the batch allows no key"),
        ([5, 6], r"expected shape \(batch, length\), got \(2,\)"),
        ([[[5, PADDING]]], r"expected shape \(batch, length\), got \(1, 1, 2\)"),
    ],
)
def test_ids_that_allow_no_mask_are_refused(ids: list[object], message: str) -> None:
    masks = [padding_mask, padding_mask_if_padded]
    for mask in masks if "allows no key" in message else masks[:1]:
        with pytest.raises(ValueError, match=message):
            mask(torch.tensor(ids, dtype=torch.long))


def test_causal_mask_refuses_more_queries_than_keys() -> None:
    with pytest.raises(ValueError, match="at most as many queries as keys, got 3 queries and 2 k"):
        causal_mask(3, 2)


# The parts of a model besides attention

MakeEmbedding = Callable[..., InputEmbedding]


def encoding(position: int, d_model: int) -> list[float]:
    """Compute section 3.5 in float64, one number at a time."""
    row = []
    for pair in range(d_model // 2):
        angle = position / 10_000 ** (2 * pair / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


@pytest.fixture
def embed() -> MakeEmbedding:
    """Return a function that makes an embedding of 37 tokens, with changes of its configuration."""

    def make(d_model: int = 14, **changes: object) -> InputEmbedding:
        config = tiny_config(d_model=d_model, **changes)
        return InputEmbedding(nn.Embedding(37, d_model), config)

    return make


@pytest.mark.parametrize("d_model", [14, 128])
def test_positions_follow_the_formula(d_model: int) -> None:
    positions = sinusoidal_positions(1024, d_model)
    assert positions.dtype == torch.float32
    expected = torch.tensor([encoding(p, d_model) for p in range(1024)], dtype=torch.float64)
    # An angle is a position times a rate, up to 1,023 radians: the rate is rounded, the product,
    # and the exponent that the rate is made from.
    assert_near(positions, expected, size=1023, operations=2)


def test_a_float64_embedding_still_computes_positions_in_float32(embed: MakeEmbedding) -> None:
    embedding = embed().double()
    with capture(embedding, ["positions"]) as seen:
        embedding(torch.ones(1, 8, dtype=torch.long))  # positions are computed 8 at a time
    assert torch.equal(seen["positions"][0][0], sinusoidal_positions(8, 14).double())


def test_positions_edited_in_place_are_as_before_in_the_next_pass(embed: MakeEmbedding) -> None:
    embedding, ids = embed().eval(), torch.ones(1, 7, dtype=torch.long)
    before = embedding(ids)
    with torch.inference_mode(), edit(embedding, {"positions": Tensor.zero_}):
        assert not torch.equal(embedding(ids), before)
    assert torch.equal(embedding(ids), before)


def test_positions_cached_in_inference_can_be_used_in_training(embed: MakeEmbedding) -> None:
    embedding, ids = embed(22), torch.ones(1, 5, dtype=torch.long)
    scale = torch.ones(22, requires_grad=True)
    with torch.inference_mode():
        embedding(ids)
    with edit(embedding, {"positions": lambda positions: positions * scale}):
        embedding(ids).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize(
    ("ids", "start", "message"),
    [
        (torch.ones(1, 12), 0, "expected at most 11 tokens, got 12; shorten the text"),
        (torch.ones(1, 7), 5, "expected at most 11 tokens, got 12; shorten the text"),
        (torch.ones(5), 0, r"expected shape \(batch, length\), got \(5,\)"),
        (torch.ones(2, 3, 5), 0, r"expected shape \(batch, length\), got \(2, 3, 5\)"),
        (torch.tensor([[37, 5]]), 0, "expected ids from 0 to 36, got 5 to 37; is this"),
    ],
)
def test_ids_that_cannot_be_embedded_are_refused(
    embed: MakeEmbedding, ids: Tensor, start: int, message: str
) -> None:
    embedding = embed(max_length=11)
    assert embedding(torch.tensor([[5, 36] * 3]), start=5).shape == (1, 6, 14)
    with pytest.raises(ValueError, match=message):
        embedding(ids.long(), start=start)


# Dropout


def assert_dropped_by_half(dropped: Tensor, kept: Tensor) -> None:
    """Assert that each number is 0 or twice its value, and both occur."""
    zero = dropped == 0
    assert 0.3 < zero.float().mean() < 0.7
    assert_near(dropped[~zero], 2 * kept[~zero])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dropout_acts_on_the_output_of_a_sublayer(norm: str) -> None:
    torch.manual_seed(0)
    stream = torch.randn(3, 7, 14)
    module = residual(tiny_config(norm=norm, dropout=0.5))
    with capture(module, ["norm.before"]) as seen:
        output = module(stream, torch.ones_like)
    total = output if norm == "pre" else seen["norm.before"][0]
    assert_dropped_by_half(total - stream, torch.ones_like(stream))


def test_dropout_acts_on_the_sum_of_embeddings_and_positions(embed: MakeEmbedding) -> None:
    torch.manual_seed(0)
    embedding = embed(dropout=0.5)
    with capture(embedding, ["output"]) as seen:
        x = embedding(tiny_ids([13, 11], 37))
    assert_dropped_by_half(x, seen["output"][0])


def test_hidden_dropout_acts_between_the_layers_of_the_feed_forward() -> None:
    torch.manual_seed(0)
    module = FeedForward(tiny_config(d_ff=14, hidden_dropout=0.5, dropout=0.0))
    nn.init.eye_(module.contract.weight)
    nn.init.zeros_(module.contract.bias)
    nn.init.ones_(module.expand.bias)
    nn.init.zeros_(module.expand.weight)
    assert_dropped_by_half(module(torch.randn(3, 7, 14)), torch.ones(3, 7, 14))


def test_training_on_a_cpu_has_the_gradients_of_the_fused_kernel(
    attention: MultiHeadAttention, x: Tensor, fused: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
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
