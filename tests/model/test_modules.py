"""``model/modules.py``: modules that are called quickly behave as PyTorch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.modules import LayerNorm, Linear, Module, Stack


class Pair(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Linear(3, 4)
        self.second = Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(x) - self.first(x)


@pytest.fixture
def pair() -> Pair:
    torch.manual_seed(0)
    return Pair()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))


def test_parts_that_are_replaced_or_deleted_are_the_ones_that_run(pair: Pair, x: Tensor) -> None:
    pair.first = copy.deepcopy(pair.second)
    assert torch.equal(pair(x), torch.zeros(2, 5, 4))
    assert [name for name, _ in pair.named_children()] == ["first", "second"]
    del pair.first
    assert not hasattr(pair, "first")
    assert [name for name, _ in pair.named_children()] == ["second"]
    with pytest.raises(AttributeError, match="first"):
        pair(x)
    with pytest.raises(AttributeError, match="first"):
        del pair.first


def test_a_copy_has_parts_of_its_own(pair: Pair, x: Tensor) -> None:
    before, copied = pair(x), copy.deepcopy(pair)
    with torch.no_grad():
        copied.first.weight.zero_()
        copied.first.bias.zero_()
    assert torch.equal(pair(x), before)
    assert torch.equal(copied(x), pair.second(x))


def test_hooks_of_pytorch_run(pair: Pair, x: Tensor) -> None:
    called: list[str] = []
    with_gradient = x.requires_grad_()
    handles = [
        pair.first.register_forward_pre_hook(lambda *_: called.append("before")),
        pair.first.register_forward_hook(lambda *_: called.append("after")),
        pair.first.register_full_backward_pre_hook(lambda *_: called.append("back")),
        pair.first.register_full_backward_hook(lambda *_: called.append("backed")),
    ]
    pair(with_gradient).sum().backward()
    assert called == ["before", "after", "back", "backed"]
    for handle in handles:
        handle.remove()
    pair(with_gradient)
    assert len(called) == 4


def test_layers_give_what_those_of_pytorch_give(x: Tensor) -> None:
    for ours, theirs in (
        (Linear(3, 4), nn.Linear(3, 4)),
        (Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)),
        (LayerNorm(3, eps=0.5), nn.LayerNorm(3, eps=0.5)),
    ):
        for parameter in theirs.parameters():
            nn.init.normal_(parameter)
        ours.load_state_dict(theirs.state_dict())
        assert torch.equal(ours(x), theirs(x))


@pytest.mark.parametrize("shape", [(7, 3), (8, 3), (9, 5, 3), (2_000, 3)])
def test_a_bias_is_added_whatever_the_batch(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer, x = Linear(3, 4), torch.randn(shape)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    assert layer(x).requires_grad
    torch.testing.assert_close(layer(x), expected)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), expected)
        torch.testing.assert_close(Stack(layer, layer)(x), torch.cat([expected] * 2, dim=-1))


# Stacks


@pytest.mark.parametrize("bias", [True, False])
def test_a_stack_gives_what_its_layers_give(bias: bool, x: Tensor) -> None:
    layers = [Linear(3, 4, bias=bias) for _ in range(3)]
    before = [(copy.deepcopy(layer.state_dict()), layer(x)) for layer in layers]
    stack = Stack(*layers)
    assert stack.intact()
    torch.testing.assert_close(stack(x), torch.cat([given for _, given in before], dim=-1))
    for layer, (state, given) in zip(layers, before, strict=True):
        assert all(torch.equal(layer.state_dict()[name], state[name]) for name in state)
        torch.testing.assert_close(layer(x), given)


def test_a_stack_sees_what_is_written_into_its_layers(x: Tensor) -> None:
    layers = [Linear(3, 4) for _ in range(3)]
    stack = Stack(*layers)
    with torch.no_grad():
        layers[1].weight.fill_(2.0)
        layers[2].bias.fill_(7.0)
    assert stack.intact()
    torch.testing.assert_close(stack(x), torch.cat([layer(x) for layer in layers], dim=-1))


def _copied(attention: MultiHeadAttention) -> MultiHeadAttention:
    return copy.deepcopy(attention)


def _in_float64(attention: MultiHeadAttention) -> MultiHeadAttention:
    return attention.double()


def _with_another_key(attention: MultiHeadAttention) -> MultiHeadAttention:
    attention.key_projection.weight = nn.Parameter(torch.randn(8, 6))
    return attention


def _with_another_value_bias(attention: MultiHeadAttention) -> MultiHeadAttention:
    attention.value_projection.bias.data = torch.randn(8)
    return attention


@pytest.mark.parametrize(
    "change", [_copied, _in_float64, _with_another_key, _with_another_value_bias]
)
def test_weights_that_left_the_stack_are_used(
    change: Callable[[MultiHeadAttention], MultiHeadAttention],
) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(d_model=6, n_heads=2, d_k=4, bias=True)
    attention.for_inference()
    assert attention._stack is not None
    assert attention._stack.intact()
    changed = change(attention)
    assert changed._stack is not None
    assert not changed._stack.intact()
    with torch.no_grad():
        changed.query_projection.weight.mul_(2.0)
    x = torch.randn(2, 5, 6).to(changed.query_projection.weight.dtype)
    plain = MultiHeadAttention(d_model=6, n_heads=2, d_k=4, bias=True).to(x.dtype)
    plain.load_state_dict(changed.state_dict())
    torch.testing.assert_close(changed(x, x, mask=None), plain(x, x, mask=None))


def test_a_stack_is_one_product_of_self_attention_only(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(d_model=6, n_heads=2, d_k=4, bias=True)
    x, y = torch.randn(2, 5, 6), torch.randn(2, 3, 6)
    expected = [attention(x, read, mask=None) for read in (x, y)]
    attention.for_inference()
    calls = 0
    call = Stack.__call__

    def counted(self: Stack, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return call(self, x)

    monkeypatch.setattr(Stack, "__call__", counted)
    torch.testing.assert_close([attention(x, read, mask=None) for read in (x, y)], expected)
    assert calls == 1
