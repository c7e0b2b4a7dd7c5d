"""Attention maps and log-probabilities equal those that ``transformers`` computes by itself."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from headwise.model.files import CheckpointError
from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import KINDS, Kind, attention_path
from headwise.model.pretrained.attention import AttentionPoints, attend
from headwise.model.pretrained.families import FAMILIES
from tests.floats import assert_near
from tests.model.pretrained.tiny import Twins, assert_same, build, inputs, run

GUIDE = Path(__file__).parents[3] / "docs" / "add-a-family.md"


def assert_same_maps(twins: Twins, *lengths: int) -> None:
    """Compare maps and log-probabilities with the eager implementation's, captured or not.

    Padding and future tokens get exactly no weight, and every hook point is passed once.
    """
    source, target = inputs(twins, *lengths)
    theirs = twins.logits(source, target, output_attentions=True)
    plain = run(twins.ours, source, target)
    with capture(twins.ours, hook_names(twins.ours)) as seen:
        captured = run(twins.ours, source, target)
    assert {name: len(tensors) for name, tensors in seen.items() if len(tensors) != 1} == {}
    maps = (theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions)
    largest = 0.0
    for kind, expected in zip(KINDS, maps, strict=True):
        assert len(expected) == twins.ours.description.layers(kind)
        for layer, attention in enumerate(expected):
            (weights,) = seen[f"{attention_path(kind, layer)}.weights"]
            for row, length in enumerate(lengths):  # what padding looks at means nothing
                there = length if kind == "encoder_self" else None
                assert_same(weights[row, :, :there], attention[row, :, :there], size=1)
            largest = max(largest, float((weights - weights.mean(-1, keepdim=True)).abs().max()))
            if kind == "decoder_self":
                assert float(weights.triu(1).sum()) == 0
                continue
            for row, length in enumerate(lengths):
                assert float(weights[row, :, :, length:].sum()) == 0
    assert largest > 0.1  # else any map would equal any other
    expected = theirs.logits.log_softmax(-1)
    assert_same(captured.log_softmax(-1), expected)
    assert_same(plain.log_softmax(-1), expected)


@pytest.mark.parametrize("lengths", [(1,), (40,), (7, 4, 6)], ids=str)
def test_maps_and_probabilities_are_those_of_the_eager_implementation(
    twins: Twins, lengths: tuple[int, ...]
) -> None:
    assert_same_maps(twins, *lengths)


def test_the_record_of_the_guide_is_all_a_family_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.delitem(FAMILIES, "plbart")  # which is there again after the test
    with pytest.raises(CheckpointError, match=r"'plbart' .*docs/add-a-family\.md says what"):
        build("plbart")
    exec(code, {})
    assert_same_maps(build("plbart", dtype=torch.float64), 7, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_parts_of_attention_make_equation_1(twins: Twins, kind: Kind) -> None:
    source, target = inputs(twins, 7)
    with capture(twins.ours, hook_names(twins.ours)) as seen:
        run(twins.ours, source, target)
    path = attention_path(kind, 1)
    part = {name.removeprefix(f"{path}."): tensors[0] for name, tensors in seen.items()}
    description = twins.ours.description
    d_k = description.encoder_d_k if kind == "encoder_self" else description.decoder_d_k
    assert part["query"].shape[1::2] == (description.heads(kind), d_k)
    scores = part["query"] @ part["key"].mT
    scores = scores * {"t5gemma": 7**-0.5, "t5gemma2": 7**-0.5}.get(
        twins.eager.config.model_type, d_k**-0.5 if description.scale_scores else 1.0
    )
    scores = scores + part.get("bias", torch.zeros(()))
    if "uncapped" in part:
        assert_near(part["uncapped"], scores)
        scores = 1.5 * torch.tanh(scores / 1.5)
    assert_near(part["scores"], scores)
    if kind == "decoder_self":
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
    largest = float(scores[scores.isfinite()].abs().max())
    whole = scores
    if description.merged_attention and kind != "encoder_self":  # one softmax over both halves
        other = attention_path("cross" if kind == "decoder_self" else "decoder_self", 1)
        beside = seen[f"{other}.scores"][0]
        hidden = torch.ones_like(beside).triu(1) > 0
        beside = beside if kind == "decoder_self" else beside.masked_fill(hidden, -math.inf)
        whole = torch.cat([scores, beside], dim=-1)
    weights = whole.softmax(-1)[..., : scores.shape[-1]]
    assert_near(part["weights"], weights, size=largest)
    heads = part["weights"] @ part["value"]
    assert_near(part["heads"], heads)
    linear = twins.ours.linear(f"{path}.output_projection")
    output = part["heads"].transpose(1, 2).flatten(2) @ linear.weight
    assert_near(part["output"], output if linear.bias is None else output + linear.bias)


def test_edited_scores_stay_masked_and_edited_weights_make_the_heads(twins: Twins) -> None:
    source, target = inputs(twins, 7, 4)
    path = attention_path("decoder_self", 0)
    names = [f"{path}.{part}" for part in ("weights", "value", "heads")]
    with edit(twins.ours, {f"{path}.scores": torch.zeros_like}), capture(twins.ours, names) as seen:
        run(twins.ours, source, target)
    even = torch.ones(9, 9, dtype=torch.float64).tril() / torch.arange(1, 10)[:, None]
    weights = seen[names[0]][0]
    share = weights.sum(dim=-1, keepdim=True)  # of the half, where it is one of two
    assert twins.ours.description.merged_attention or float((share - 1).abs().max()) < 1e-9
    assert_near(weights, even * share)
    flip = {f"{path}.weights": lambda x: x.flip(1)}
    with edit(twins.ours, flip), capture(twins.ours, names) as seen:
        run(twins.ours, source, target)
    weights, value, heads = (seen[name][0] for name in names)
    assert_near(heads, weights @ value)


@pytest.mark.parametrize("name", ["t5", "mt5"])
@pytest.mark.parametrize(("side", "count"), [("encoder", 3), ("decoder", 2)])
def test_bias_without_its_weights_is_a_model_without_relative_positions(
    name: str, side: str, count: int
) -> None:
    twins = build(name, dtype=torch.float64)
    source, target = inputs(twins, 7, 4)
    points = [point for point in hook_names(twins.ours) if point.endswith(".bias")]
    biases = [point for point in points if point.startswith(side)]
    assert len(biases) == count
    with edit(twins.ours, dict.fromkeys(biases, torch.zeros_like)):
        edited = run(twins.ours, source, target)
    stack = getattr(twins.eager, side)
    stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.data.zero_()
    assert_same(edited, twins.logits(source, target).logits)


@pytest.mark.parametrize(
    "unknown", [{"s_aux": 0.5}, {"cu_seq_lens_q": 4096}, {"dropout": 0.1}], ids=str
)
def test_what_is_not_computed_is_refused(unknown: dict[str, float]) -> None:
    module, states = nn.Module(), torch.ones(1, 1, 2, 3)
    module.hook_points = (AttentionPoints(relative=False),)
    heads, _ = attend(module, states, states, states, None, dropout=0.0, s_aux=None)
    assert_near(heads, 1)
    [(name, value)] = unknown.items()
    with pytest.raises(ValueError, match=f"got {name}={value}: this model cannot be shown"):
        attend(module, states, states, states, None, **unknown)
