"""Heads and their names; ablation, costs, importance by gradients, work; the stream in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headwise.model import forced, interventions
from headwise.model.config import BOS, EOS
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import edit
from headwise.model.interface import (
    KINDS,
    Head,
    HeadLike,
    NormParameters,
    attention_path,
    head_name,
    parse_head,
    to_head,
    to_heads,
)
from headwise.model.masks import pad
from headwise.model.stream import HeldNorm
from headwise.model.transformer import Transformer
from headwise.model.turning import ablate
from tests.floats import PASS, assert_near, near, rounding
from tests.model.pretrained.tiny import build
from tests.tiny import tiny_model

SOURCE = [5, 17, 9, 30, 8, EOS]
TARGET = [BOS, 12, 7, 33, EOS]
SOURCES = [SOURCE, [7, EOS], [5, 6, 11, 30, EOS]]
TARGETS = [TARGET, [BOS, 9, 8, 7, 6, 5, 4, EOS], [BOS, EOS]]


@pytest.fixture(scope="module", params=["pre", "post"])
def model(request: pytest.FixtureRequest) -> Transformer:
    made = tiny_model(norm=request.param, final_norm=request.param == "pre", n_encoder_layers=3)
    return made.double()


@torch.inference_mode()
def log_probability(model: Transformer, source: list[int], target: list[int]) -> float:
    logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
    chosen = logits.log_softmax(dim=-1)[range(len(target) - 1), target[1:]]
    return float(chosen.sum())


# Heads


@pytest.mark.parametrize(
    "given",
    ["cross.2.4", ("cross", 1, 3), Head("cross", 1, 3), ("cross", np.int64(1), np.int64(3))],
)
def test_a_head_has_one_name_in_several_forms(given: HeadLike) -> None:
    assert to_head(given) == Head("cross", 1, 3)
    assert to_heads([given, given]) == [Head("cross", 1, 3)] * 2
    assert to_heads("cross.2.4") == to_heads(Head("cross", 1, 3)) == [Head("cross", 1, 3)]


@pytest.mark.parametrize(
    "given",
    [
        *("", "cross", "crossed", "cross.2", "cross.0.1", "cross.1.2.3", "both.1.1"),
        *(("cross", 1), ("cross", 1, 0.5), 3),
    ],
)
def test_what_names_no_head_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a head such as '?cross\.2\.4'?( .*)?, got "):
        to_head(given)


def test_heads_are_listed_by_kind_and_layer_and_named_from_1(model: Transformer) -> None:
    heads = model.description.all_heads()
    assert len(set(heads)) == len(heads) == (3 + 2 + 2) * 3
    assert heads == sorted(heads, key=lambda head: (KINDS.index(head.kind), *head[1:]))
    assert heads[4] == Head("encoder_self", 1, 1)
    assert head_name(Head("cross", 1, 3)) == "cross.2.4"
    assert [parse_head(head_name(head)) for head in heads] == heads


# Ablation


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (Head("cross", 2, 0), "cross.3.1"),
        ("cross.1.4", "cross.1.4"),
        (Head("cross", -1, 0), "cross.0.1"),
        (("self", 0, 0), "self.1.1"),
    ],
)
def test_unknown_heads_are_refused_by_name(model: Transformer, head: Head | str, name: str) -> None:
    message = rf"no head {name}: expected one of encoder_self.1.1 to encoder_self.3.3, .*2.3"
    with pytest.raises(ValueError, match=message), ablate(model, [head]):
        pass


def test_costs_equal_those_of_ablating_each_head_by_itself(model: Transformer) -> None:
    """In a batch, whose sentences are padded, as alone."""
    batch = interventions.batch_head_costs(model, pad(SOURCES), pad(TARGETS))
    assert list(batch) == list(KINDS)
    for place, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        whole = log_probability(model, source, target)
        for kind, costs in interventions.head_costs(model, source, target).items():
            assert_near(batch[kind][place], costs, size=abs(whole), operations=PASS)
    whole = log_probability(model, SOURCE, TARGET)
    for kind, layer, head in model.description.all_heads():
        with ablate(model, [Head(kind, layer, head)]):
            cost = whole - log_probability(model, SOURCE, TARGET)
        found = float(batch[kind][0, layer, head])
        assert found == near(cost, size=abs(whole), operations=PASS)
    assert max(float(cost.abs().max()) for cost in batch.values()) > 0.01


# Importance, by gradients


@torch.inference_mode()
def loss(model: Transformer, number: int, head: Head, factor: float) -> float:
    """Compute −log P of a sentence with the output of a head times a factor."""

    def scaled(x: Tensor) -> Tensor:
        factors = torch.ones(x.shape[1], 1, 1, dtype=x.dtype)
        factors[head.head] = factor
        return x * factors

    with edit(model, {f"{attention_path(head.kind, head.layer)}.heads": scaled}):
        return -log_probability(model, SOURCES[number], TARGETS[number])


def test_importance_is_the_derivative_by_a_factor_of_the_head(model: Transformer) -> None:
    """Against the difference quotient, sentence by sentence; the batch is padded."""
    found = interventions.batch_head_importance(model, pad(SOURCES[:2]), pad(TARGETS[:2]))
    assert [tuple(found[kind].shape) for kind in KINDS] == [(2, 3, 3), (2, 2, 3), (2, 2, 3)]
    small = 1e-5
    # The factors of heads, and so their gradients, are float32. The difference of two losses is as
    # exact as these, by twice the step; the third derivative adds some of its square.
    of_losses = rounding(torch.float64, -log_probability(model, SOURCES[1], TARGETS[1]))
    for head in model.description.all_heads():
        for number in range(2):
            more, less = (loss(model, number, head, factor) for factor in (1 + small, 1 - small))
            slope = abs(more - less) / (2 * small)
            importance = float(found[head.kind][number, head.layer, head.head])
            bound = rounding(torch.float32, slope, 4) + of_losses / (2 * small) + 10 * small**2
            assert importance == pytest.approx(slope, rel=0, abs=bound)


def test_gradients_are_found_in_inference_mode_and_none_are_left(model: Transformer) -> None:
    sources, targets = pad(SOURCES), pad(TARGETS)
    expected = interventions.batch_head_importance(model, sources, targets)
    with torch.inference_mode():
        found = interventions.batch_head_importance(model, sources, targets)
    for kind in KINDS:
        assert torch.equal(found[kind], expected[kind])
    assert all(parameter.grad is None for parameter in model.parameters())


# A forced pass, and the stream taken apart


@pytest.mark.parametrize("at_a_time", [1, 3, 1024])
@torch.inference_mode()
def test_log_probabilities_are_those_of_the_logits(
    model: Transformer, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(forced, "_POSITIONS_AT_A_TIME", at_a_time)
    source, target = torch.tensor([SOURCES[2]]), torch.tensor([TARGETS[1]])
    stream = forced_stream(model, source, target[:, :-1])[0]
    found = log_probabilities(model, stream, target[0, 1:])
    logits = model(source, target[:, :-1])[0]
    expected = [logits[t].softmax(dim=-1)[target[0, t + 1]].log() for t in range(7)]
    assert_near(found, torch.stack(expected))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_held_norm_is_linear_and_gives_what_the_norm_gives(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    model = tiny_model()
    described = type(model.description)(**{**vars(model.description), "norm_kind": kind})
    monkeypatch.setattr(type(model), "description", described)
    torch.manual_seed(0)
    first, second, gain = (torch.randn(shape, dtype=torch.float64) for shape in ((3, 7), (3, 7), 7))
    whole = first + second
    held = HeldNorm.at(model, NormParameters(gain, None, 1e-5), whole)
    if kind == "layer":
        expected = torch.nn.functional.layer_norm(whole, (7,), gain, None, 1e-5)
    else:
        expected = torch.nn.functional.rms_norm(whole, (7,), gain, 1e-5)
    assert_near(held(whole), expected)
    assert_near(held(first) + held(second), expected)


@pytest.mark.parametrize("name", ["ours", "uneven", "marian", "t5_1_1"])
def test_multiply_adds_are_those_that_pytorch_counts(name: str) -> None:
    """It does not count what PyTorch's fused attention does on a processor, so that is not used."""
    model = {
        "ours": lambda: tiny_model(),
        "uneven": lambda: tiny_model(n_encoder_layers=3, d_k=5, d_ff=23),
    }.get(name, lambda: build(name).ours)()
    source, target = torch.tensor([[4, 5, 6, 7, 8, 9, 2]]), torch.tensor([[1, 4, 5, 6, 7]])
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), counter:
        memory, mask = model.encode(source)
        encoding = counter.get_total_flops() // 2
        model.decode(target, memory, mask)
        both = counter.get_total_flops() // 2
    expected = (
        interventions.encoding_work(model.description, 7),
        interventions.decoding_work(model.description, 7, 5),
    )
    assert (encoding, both - encoding) == pytest.approx(expected, rel=0.02)
