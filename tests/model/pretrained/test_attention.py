"""Attention maps and log-probabilities equal those that ``transformers`` computes by itself."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import KINDS, Kind, attention_path
from headwise.model.pretrained.attention import AttentionPoints, attend
from tests.floats import assert_near
from tests.model.pretrained.passes import assert_same
from tests.model.pretrained.tiny import Twins, build, random_ids

LENGTHS = ((1,), (7,), (40,), (7, 4, 6))


def _inputs(twins: Twins, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    special = twins.ours.special_ids
    source = random_ids(*lengths, padding=special.padding)
    target = random_ids(*[9] * len(lengths), padding=special.padding, first=special.start, seed=4)
    return source, target


def _run(twins: Twins, source: Tensor, target: Tensor) -> Tensor:
    memory, mask = twins.ours.encode(source)
    return twins.ours.unembed(twins.ours.decode(target, memory, mask))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_maps_and_probabilities_are_those_of_the_eager_implementation(
    twins: Twins, lengths: tuple[int, ...]
) -> None:
    source, target = _inputs(twins, lengths)
    theirs = twins.logits(source, target, output_attentions=True)
    with torch.inference_mode():
        plain = _run(twins, source, target)
        with capture(twins.ours, hook_names(twins.ours)) as seen:
            captured = _run(twins, source, target)
    maps = (theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions)
    largest = 0.0
    for kind, expected in zip(KINDS, maps, strict=True):
        assert len(expected) == twins.ours.description.layers(kind)
        for layer, attention in enumerate(expected):
            (weights,) = seen[f"{attention_path(kind, layer)}.weights"]
            assert_same(twins, weights, attention, size=1)
            largest = max(largest, float((weights - weights.mean(-1, keepdim=True)).abs().max()))
    assert largest > 0.1  # else any map would equal any other
    expected = theirs.logits.log_softmax(-1)
    assert_same(twins, captured.log_softmax(-1), expected)
    assert_same(twins, plain.log_softmax(-1), expected)


def test_padding_and_future_tokens_get_exactly_no_weight(twins: Twins) -> None:
    source, target = _inputs(twins, (7, 4, 6))
    names = [f"{attention_path(kind, 1)}.weights" for kind in KINDS]
    with capture(twins.ours, names) as seen, torch.inference_mode():
        _run(twins, source, target)
    encoder_self, decoder_self, cross = (seen[name][0] for name in names)
    for row, length in enumerate((7, 4, 6)):
        assert float(encoder_self[row, :, :, length:].sum()) == 0
        assert float(cross[row, :, :, length:].sum()) == 0
    assert float(decoder_self.triu(1).sum()) == 0


def test_every_hook_point_is_passed_once(twins: Twins) -> None:
    source, target = _inputs(twins, (7,))
    with capture(twins.ours, hook_names(twins.ours)) as seen, torch.inference_mode():
        _run(twins, source, target)
    assert {name: len(tensors) for name, tensors in seen.items() if len(tensors) != 1} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_captured_parts_of_attention_make_equation_1(twins: Twins, kind: Kind) -> None:
    source, target = _inputs(twins, (7,))
    with capture(twins.ours, hook_names(twins.ours)) as seen, torch.inference_mode():
        _run(twins, source, target)
    path = attention_path(kind, 1)
    part = {
        name.removeprefix(f"{path}."): tensors[0]
        for name, tensors in seen.items()
        if name.startswith(f"{path}.")
    }
    description = twins.ours.description
    d_k = description.encoder_d_k if kind == "encoder_self" else description.decoder_d_k
    assert part["query"].shape[1::2] == (description.heads(kind), d_k)
    scores = part["query"] @ part["key"].mT
    if description.scale_scores:
        scores = scores / math.sqrt(d_k)
    scores = scores + part.get("bias", torch.zeros(()))
    assert_near(part["scores"], scores)
    if kind == "decoder_self":
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
    largest = float(scores[scores.isfinite()].abs().max())
    assert_near(part["weights"], scores.softmax(-1), size=largest)
    heads = part["weights"] @ part["value"]
    assert_near(part["heads"], heads)
    linear = twins.ours.linear(f"{path}.output_projection")
    output = part["heads"].transpose(1, 2).flatten(2) @ linear.weight
    output = output if linear.bias is None else output + linear.bias
    assert_near(part["output"], output)


def test_edited_scores_stay_masked_and_edited_weights_make_the_heads(twins: Twins) -> None:
    source, target = _inputs(twins, (7, 4))
    path = attention_path("decoder_self", 0)
    names = [f"{path}.{part}" for part in ("weights", "value", "heads")]
    with torch.inference_mode():
        with (
            edit(twins.ours, {f"{path}.scores": torch.zeros_like}),
            capture(twins.ours, names) as seen,
        ):
            _run(twins, source, target)
        even = torch.ones(9, 9, dtype=torch.float64).tril() / torch.arange(1, 10)[:, None]
        weights = seen[names[0]][0]
        assert_near(weights, even.expand_as(weights))
        with (
            edit(twins.ours, {f"{path}.weights": lambda x: x.flip(1)}),
            capture(twins.ours, names) as seen,
        ):
            _run(twins, source, target)
    weights, value, heads = (seen[name][0] for name in names)
    assert_near(heads, weights @ value)


@pytest.mark.parametrize("name", ["t5", "mt5"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_bias_without_its_weights_is_a_model_without_relative_positions(
    name: str, side: str
) -> None:
    twins = build(name, dtype=torch.float64)
    source, target = _inputs(twins, (7, 4))
    biases = [
        point
        for point in hook_names(twins.ours)
        if point.startswith(side) and point.endswith(".bias")
    ]
    assert len(biases) == {"encoder": 3, "decoder": 2}[side]
    with edit(twins.ours, dict.fromkeys(biases, torch.zeros_like)), torch.inference_mode():
        edited = _run(twins, source, target)
    stack = getattr(twins.eager, side)
    stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.data.zero_()
    expected = twins.logits(source, target).logits
    assert_same(twins, edited, expected)


@pytest.mark.parametrize(
    "unknown", [{"softcap": 50.0}, {"sliding_window": 4096}, {"dropout": 0.1}], ids=str
)
def test_what_is_not_computed_is_refused(unknown: dict[str, float]) -> None:
    module, states = nn.Module(), torch.ones(1, 1, 2, 3)
    module.hook_points = AttentionPoints(relative=False)
    heads, _ = attend(module, states, states, states, None, dropout=0.0, softcap=None)
    assert_near(heads, 1)
    [(name, value)] = unknown.items()
    with pytest.raises(ValueError, match=f"got {name}={value}: this model cannot be shown"):
        attend(module, states, states, states, None, **unknown)
