"""Attention maps and log-probabilities equal those that ``transformers`` computes by itself."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwise.model.files import CheckpointError
from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import KINDS, Head, Kind, attention_path
from headwise.model.pretrained.attention import AttentionPoints, attend
from headwise.model.pretrained.families import FAMILIES
from headwise.model.stream import attention_as_sum, points_of_attention
from headwise.model.turning import ablate
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.measuring.contributions import contributions, mixed_tokens, residual_norm_maps
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import Twins, assert_same, build, inputs, run
from tests.viz_app.measuring.conftest import float64_by_default

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


def test_maps_and_probabilities_are_those_of_the_eager_implementation(twins: Twins) -> None:
    assert_same_maps(twins, 7, 4, 6)


def test_the_record_of_the_guide_is_all_a_family_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.delitem(FAMILIES, "plbart")  # which is there again after the test
    with pytest.raises(CheckpointError, match=r"'plbart' .*docs/add-a-family\.md says what"):
        build("plbart")
    exec(code, {})
    assert_same_maps(build("plbart", dtype=torch.float64), 7, 4)


def test_captured_parts_of_attention_make_equation_1(twins: Twins) -> None:
    source, target = inputs(twins, 7)
    with capture(twins.ours, hook_names(twins.ours)) as seen:
        run(twins.ours, source, target)
    for kind in KINDS:
        assert_equation_1(twins, seen, kind)


def assert_equation_1(twins: Twins, seen: dict[str, list[Tensor]], kind: Kind) -> None:
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


@pytest.mark.parametrize(("side", "count"), [("encoder", 3), ("decoder", 2)])
def test_bias_without_its_weights_is_a_model_without_relative_positions(
    side: str, count: int
) -> None:
    twins = build("t5", dtype=torch.float64)
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


# An attention that reads target and source by one softmax, shown as two halves

HALVES = (attention_path("decoder_self", 1), attention_path("cross", 1))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with biases"])
def merged(request: pytest.FixtureRequest) -> Any:
    return build("t5gemma2", dtype=torch.float64, attention_bias=request.param)


def seen_in(model: Any, *ids: Tensor) -> dict[str, Tensor]:
    with capture(model, hook_names(model)) as seen:
        run(model, *ids)
    return {name: tensors[0] for name, tensors in seen.items()}


def test_halves_add_up_to_what_the_model_computes(merged: Any) -> None:
    source, target = inputs(merged, 7, 4)
    seen = seen_in(merged.ours, source, target)
    weights = sum(seen[f"{path}.weights"].sum(dim=-1) for path in HALVES)
    assert_near(weights, 1)
    given = sum(seen[f"{path}.output"] for path in HALVES)
    for path in HALVES:
        assert_near(seen[f"{path}_residual.output_norm.before"], given)
    with torch.inference_mode():
        logits = run(merged.ours, source, target)
    for found in (logits, seen["logits"]):
        assert_same(found, merged.logits(source, target).logits)


@pytest.mark.parametrize("half", [0, 1])
def test_a_head_of_a_half_is_off_in_that_half_only(merged: Any, half: int) -> None:
    source, target = inputs(merged, 7, 4)
    plain = seen_in(merged.ours, source, target)
    kind = KINDS[1 + half]
    with ablate(merged.ours, [Head(kind, 1, 2)]):
        found = seen_in(merged.ours, source, target)
    for place, path in enumerate(HALVES):
        assert_near(found[f"{path}.weights"], plain[f"{path}.weights"], size=1)
        expected = plain[f"{path}.heads"].clone()
        if place == half:
            expected[:, 2] = 0
        assert_near(found[f"{path}.heads"], expected)
    # Its output is replaced by hand behind W_O.
    linear = merged.ours.linear(f"{HALVES[half]}.output_projection")
    written = plain[f"{HALVES[half]}.heads"][:, 2] @ linear.weight[12:18]
    edits = {f"{HALVES[half]}.output": lambda output: output - written}
    with edit(merged.ours, edits):
        by_hand = run(merged.ours, source, target)
    with ablate(merged.ours, [Head(kind, 1, 2)]):
        assert_same(run(merged.ours, source, target), by_hand)


def test_both_halves_and_the_residual_are_the_stream_after_them(merged: Any) -> None:
    source, target = inputs(merged, 7)
    model = merged.ours
    with capture(model, points_of_attention(model)) as seen, torch.inference_mode():
        run(model, source, target)
    sums = [attention_as_sum(model, seen, kind, 1) for kind in ("decoder_self", "cross")]
    total = sums[0].residual
    for each in sums:
        heads = each.weights @ each.value
        total = total + torch.einsum("bhqk,hkd->bqd", heads, each.projection)
    if model.description.attention_bias:
        return  # biases are added to a sum, and are nobody's
    assert_near(total, sums[0].y, operations=PASS)


def test_contributions_are_of_target_and_source_together(merged: Any) -> None:
    source, target = inputs(merged, 7)
    ids = PaddedIds.of(source.tolist(), target.tolist(), merged.ours)
    with float64_by_default():
        found = contributions(merged.ours, ids)
        mixed = mixed_tokens(merged.ours, ids)
        norms = residual_norm_maps(merged.ours, ids)
    assert_near(found.source.sum(-1) + found.prefix.sum(-1), 1)
    whole = torch.tensor(mixed.maps["cross"]).sum(-1) + torch.tensor(
        mixed.maps["decoder_self"]
    ).sum(-1)
    assert_near(whole, 1)
    assert_near(torch.tensor(norms["cross"]).sum(-1), 1)
    own = torch.tensor(norms["decoder_self"]).sum(-1)
    assert_near(own, norms["cross"][..., -1])
