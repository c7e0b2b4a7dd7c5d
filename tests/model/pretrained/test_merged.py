"""An attention that reads target and source by one softmax, shown as two halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import KINDS, Head, attention_path
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.stream import attention_as_sum, points_of_attention
from headwise.model.turning import ablate
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.measuring.contributions import contributions, mixed_tokens, residual_norm_maps
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import assert_same, build, inputs, run
from tests.viz_app.measuring.conftest import float64_by_default

HALVES = (attention_path("decoder_self", 1), attention_path("cross", 1))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with biases"])
def twins(request: pytest.FixtureRequest) -> Any:
    return build("t5gemma2", dtype=torch.float64, attention_bias=request.param)


def seen_in(model: Any, *ids: Tensor) -> dict[str, Tensor]:
    with capture(model, hook_names(model)) as seen:
        run(model, *ids)
    return {name: tensors[0] for name, tensors in seen.items()}


def test_halves_add_up_to_what_the_model_computes(twins: Any) -> None:
    source, target = inputs(twins, 7, 4)
    seen = seen_in(twins.ours, source, target)
    weights = sum(seen[f"{path}.weights"].sum(dim=-1) for path in HALVES)
    assert_near(weights, 1)
    given = sum(seen[f"{path}.output"] for path in HALVES)
    for path in HALVES:
        assert_near(seen[f"{path}_residual.output_norm.before"], given)
    with torch.inference_mode():
        logits = run(twins.ours, source, target)
    assert_same(logits, twins.logits(source, target).logits)


@pytest.mark.parametrize("half", [0, 1])
def test_a_head_of_a_half_is_off_in_that_half_only(twins: Any, half: int) -> None:
    source, target = inputs(twins, 7, 4)
    plain = seen_in(twins.ours, source, target)
    kind = KINDS[1 + half]
    with ablate(twins.ours, [Head(kind, 1, 2)]):
        found = seen_in(twins.ours, source, target)
    for place, path in enumerate(HALVES):
        assert_near(found[f"{path}.weights"], plain[f"{path}.weights"], size=1)
        expected = plain[f"{path}.heads"].clone()
        if place == half:
            expected[:, 2] = 0
        assert_near(found[f"{path}.heads"], expected)
    # Its output is replaced by hand behind W_O.
    linear = twins.ours.linear(f"{HALVES[half]}.output_projection")
    written = plain[f"{HALVES[half]}.heads"][:, 2] @ linear.weight[12:18]
    edits = {f"{HALVES[half]}.output": lambda output: output - written}
    with edit(twins.ours, edits):
        by_hand = run(twins.ours, source, target)
    with ablate(twins.ours, [Head(kind, 1, 2)]):
        assert_same(run(twins.ours, source, target), by_hand)


def test_both_halves_and_the_residual_are_the_stream_after_them(twins: Any) -> None:
    source, target = inputs(twins, 7)
    model = twins.ours
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


def test_contributions_are_of_target_and_source_together(twins: Any) -> None:
    source, target = inputs(twins, 7)
    ids = PaddedIds.of(source.tolist(), target.tolist(), twins.ours)
    with float64_by_default():
        found = contributions(twins.ours, ids)
        mixed = mixed_tokens(twins.ours, ids)
        norms = residual_norm_maps(twins.ours, ids)
    assert_near(found.source.sum(-1) + found.prefix.sum(-1), 1)
    whole = torch.tensor(mixed.maps["cross"]).sum(-1) + torch.tensor(
        mixed.maps["decoder_self"]
    ).sum(-1)
    assert_near(whole, 1)
    assert_near(torch.tensor(norms["cross"]).sum(-1), 1)
    own = torch.tensor(norms["decoder_self"]).sum(-1)
    assert_near(own, norms["cross"][..., -1])


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["t5gemma", "t5gemma2"])
def test_a_folder_in_several_files_is_as_near_to_float64_as_transformers(
    family: str, dtype: torch.dtype, tied: bool, tmp_path: Path
) -> None:
    """At most three times as far, in the largest of all distances."""
    made = build(family, tie_word_embeddings=tied)
    with quiet():
        made.eager.save_pretrained(tmp_path, max_shard_size="20KB")
        theirs, exact = (
            AutoModelForSeq2SeqLM.from_pretrained(
                tmp_path, attn_implementation="eager", dtype=dtype
            ).eval()
            for _ in range(2)
        )
    exact.double()
    assert len([*tmp_path.glob("*.safetensors")]) > 2
    opened = PretrainedRun(tmp_path, "theirs")
    [step] = opened.steps()
    model = opened.load(step, dtype).model
    assert not tied or model.description.tied != "none"
    assert tied or model.description.tied == "none"
    assert opened.parameters == sum(weight.numel() for weight in model.inner.parameters())
    assert not [name for name, _ in model.inner.named_modules() if "vision" in name]
    source, target = inputs(made, 7)
    settings = {"input_ids": source, "decoder_input_ids": target, "output_attentions": True}
    with torch.no_grad():
        wanted, eager = exact(**settings), theirs(**settings)
    seen = seen_in(model, source, target)
    logits = run(model, source, target)
    pairs = [(logits.log_softmax(-1), eager.logits.log_softmax(-1), wanted.logits.log_softmax(-1))]
    maps = ("encoder_attentions", "decoder_attentions", "cross_attentions")
    for kind, name in zip(KINDS, maps, strict=True):
        for layer, weights in enumerate(getattr(wanted, name)):
            own = seen[f"{attention_path(kind, layer)}.weights"]
            pairs.append((own, getattr(eager, name)[layer], weights))
    for of_maps in (pairs[:1], pairs[1:]):
        ours, allowed = (
            max(float((each[place].double() - each[2]).abs().max()) for each in of_maps)
            for place in (0, 1)
        )
        assert ours <= 3 * allowed
    if dtype != torch.float32:
        return  # where two words are as likely but for rounding, either may be chosen
    ids = [7, 9, 30, 8]
    prefix = [model.special_ids.start]
    [found] = greedy(model, [ids], prefix)
    generated = theirs.generate(
        torch.tensor([ids]), do_sample=False, num_beams=1, max_new_tokens=len(found) - 1
    )
    assert generated[0].tolist() == found
