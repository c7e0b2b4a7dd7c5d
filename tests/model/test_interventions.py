from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS, PAD
from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture, edit
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.model.interventions import (
    ablate,
    batch_head_costs,
    batch_head_importance,
    head_costs,
)
from headwise.model.masks import pad
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near, near, rounding

SOURCE = [5, 17, 9, 30, 8, EOS]
TARGET = [BOS, 12, 7, 33, EOS]
PADDED_SOURCES = [SOURCE, [6, 11, EOS]]
PADDED_TARGETS = [TARGET, [BOS, 9, EOS]]


@pytest.fixture(scope="module", params=["pre", "post"])
def model(make_model: Callable[..., Transformer], request: pytest.FixtureRequest) -> Transformer:
    made = make_model(norm=request.param, final_norm=request.param == "pre", n_encoder_layers=3)
    return made.double()


@torch.inference_mode()
def log_probability(model: Transformer, source: list[int], target: list[int]) -> float:
    logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
    chosen = logits.log_softmax(dim=-1)[range(len(target) - 1), target[1:]]
    return float(chosen.sum())


def test_every_head_is_listed_once(model: Transformer) -> None:
    heads = model.description.all_heads()
    assert len(heads) == len(set(heads)) == (3 + 2 + 2) * 3
    assert heads[4] == Head("encoder_self", 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_an_ablated_head_adds_nothing_and_others_do_not_change(
    model: Transformer, kind: Kind
) -> None:
    """The layer is the first, whose input no other head has changed."""
    module = attention_path(kind, 0)
    inputs = torch.tensor([SOURCE]), torch.tensor([TARGET[:-1]])
    names = [f"{module}.heads", f"{module}.output"]
    with capture(model, names) as whole:
        model(*inputs)
    with ablate(model, [Head(kind, 0, 1)]), capture(model, names) as without:
        model(*inputs)
    [heads], [off] = whole[names[0]], without[names[0]]
    assert (off[:, 1] == 0).all()
    if kind != "cross":  # its queries have gone through self-attention, which is whole
        assert torch.equal(off[:, [0, 2]], heads[:, [0, 2]])
    weight = model.get_parameter(f"{module}.output_projection.weight")[:, 5:10]  # K = 5
    added = heads[:, 1] @ weight.T
    assert_near(without[names[1]][0], whole[names[1]][0] - added)


def test_heads_of_several_layers_are_ablated(model: Transformer) -> None:
    off = [Head("cross", 1, 0), Head("cross", 1, 2), Head("encoder_self", 0, 1)]
    names = [f"{attention_path(kind, layer)}.heads" for kind, layer, _ in off]
    with ablate(model, off), capture(model, names) as seen:
        log_probability(model, SOURCE, TARGET)
    for name, (_, _, head) in zip(names, off, strict=True):
        assert (seen[name][0][:, head] == 0).all()
    assert (seen[names[0]][0][:, 1] != 0).any()


def test_ablation_ends_with_the_context(model: Transformer) -> None:
    before = log_probability(model, SOURCE, TARGET)
    with ablate(model, model.description.all_heads()):
        assert log_probability(model, SOURCE, TARGET) != before
    assert log_probability(model, SOURCE, TARGET) == before
    with ablate(model, []):
        assert log_probability(model, SOURCE, TARGET) == before


def test_ablation_applies_to_cached_decoding(model: Transformer) -> None:
    """Token by token with a cache gives the same as one pass over the decoded target."""
    off = [Head("decoder_self", 0, 2), Head("cross", 0, 0), Head("encoder_self", 1, 1)]
    with ablate(model, off), torch.inference_mode():
        [target] = greedy(model, [SOURCE])
        logits = model(torch.tensor([SOURCE]), torch.tensor([target[:-1]]))[0]
    assert logits.argmax(dim=-1).tolist() == target[1:]


@pytest.mark.parametrize(
    "head", [Head("cross", 2, 0), Head("cross", 0, 3), Head("cross", -1, 0), ("self", 0, 0)]
)
def test_an_unknown_head_is_refused(model: Transformer, head: Head) -> None:
    message = (
        r"no head .*: expected one of encoder_self, .* below 3 and 3 \(encoder_self\), 2 and 3"
    )
    with pytest.raises(ValueError, match=message), ablate(model, [head]):
        pass


def test_costs_equal_those_of_ablating_each_head_by_itself(model: Transformer) -> None:
    whole = log_probability(model, SOURCE, TARGET)
    costs = head_costs(model, SOURCE, TARGET)
    assert list(costs) == list(KINDS)
    for head in model.description.all_heads():
        with ablate(model, [head]):
            without = log_probability(model, SOURCE, TARGET)
        assert float(costs[head.kind][head.layer, head.head]) == near(
            whole - without, size=abs(whole), operations=PASS
        )
    assert max(float(cost.abs().max()) for cost in costs.values()) > 0.01


def test_a_head_with_zero_output_weights_costs_nothing(
    make_model: Callable[..., Transformer],
) -> None:
    model = make_model().double()
    with torch.no_grad():
        weight: Tensor = model.decoder.layers[1].cross_attention.output_projection.weight
        weight[:, 10:] = 0  # of head 2
    costs = head_costs(model, SOURCE, TARGET)["cross"]
    size = abs(log_probability(model, SOURCE, TARGET))
    assert float(costs[1, 2]) == near(0, size=size, operations=PASS)
    assert float(costs[1, 1].abs()) > 1e-3


def test_costs_of_a_batch_equal_those_of_each_sentence(model: Transformer) -> None:
    sources = [SOURCE, [7, EOS], [5, 6, 11, 30, EOS]]
    targets = [TARGET, [BOS, 9, 8, 7, 6, 5, 4, EOS], [BOS, EOS]]
    costs = batch_head_costs(model, pad(sources), pad(targets))
    for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = head_costs(model, source, target)
        for kind in KINDS:
            size = abs(log_probability(model, source, target))
            assert_near(costs[kind][place], alone[kind], size=size, operations=PASS)


# --- importance, by gradients


@torch.inference_mode()
def loss(model: Transformer, number: int, head: Head, factor: float) -> float:
    """Compute −log P of a sentence with the output of a head times a factor."""

    def scaled(x: Tensor) -> Tensor:
        factors = torch.ones(x.shape[1], 1, 1, dtype=x.dtype)
        factors[head.head] = factor
        return x * factors

    source, target = torch.tensor([PADDED_SOURCES[number]]), torch.tensor([PADDED_TARGETS[number]])
    with edit(model, {f"{attention_path(head.kind, head.layer)}.heads": scaled}):
        chosen = model(source, target[:, :-1])[0].log_softmax(dim=-1)
    return -float(chosen[range(target.shape[1] - 1), target[0, 1:]].sum())


def test_importance_is_the_derivative_by_a_factor_of_the_head(model: Transformer) -> None:
    """Against the difference quotient, sentence by sentence; the batch is padded."""
    found = batch_head_importance(model, pad(PADDED_SOURCES, PAD), pad(PADDED_TARGETS, PAD))
    assert [tuple(found[kind].shape) for kind in KINDS] == [(2, 3, 3), (2, 2, 3), (2, 2, 3)]
    small = 1e-5
    # The factors of heads, and so their gradients, are float32. The difference of two losses is as
    # exact as these, by twice the step; the third derivative adds some of its square.
    of_losses = rounding(torch.float64, loss(model, 0, model.description.all_heads()[0], 1))
    for head in model.description.all_heads():
        for number in range(2):
            more, less = (loss(model, number, head, factor) for factor in (1 + small, 1 - small))
            slope = abs(more - less) / (2 * small)
            importance = float(found[head.kind][number, head.layer, head.head])
            bound = rounding(torch.float32, slope, 4) + of_losses / (2 * small) + 10 * small**2
            assert importance == pytest.approx(slope, rel=0, abs=bound)


def test_gradients_are_found_in_inference_mode_and_none_are_left(model: Transformer) -> None:
    sources, targets = pad(PADDED_SOURCES, PAD), pad(PADDED_TARGETS, PAD)
    expected = batch_head_importance(model, sources, targets)
    with torch.inference_mode():
        found = batch_head_importance(model, sources, targets)
    for kind in KINDS:
        assert torch.equal(found[kind], expected[kind])
    assert all(parameter.grad is None for parameter in model.parameters())
