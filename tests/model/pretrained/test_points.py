"""Hook points of opened models: their names, what acts there, and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.hooks import capture, edit, hook_names
from headwise.model.interface import Head, attention_path
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.turning import ablate
from tests.model.pretrained.tiny import Twins, assert_same, inputs, run, stack_of
from tests.tiny import tiny_model


def test_hook_points_have_the_names_of_our_own_model(twins: Twins) -> None:
    description = twins.ours.description
    own = tiny_model(
        n_encoder_layers=3,
        n_decoder_layers=2,
        norm=description.norm,
        final_norm=description.of("encoder").final_norm,
    )
    ours, theirs = set(hook_names(own)), set(hook_names(twins.ours))
    sides = ("encoder", "decoder")
    if description.positions == "relative":
        assert ours - theirs == {f"{side}.embedding.positions" for side in sides}
        layers = {"encoder": 3, "decoder": 2}
        assert theirs - ours == {
            f"{side}.layers.{layer}.self_attention.bias"
            for side in sides
            for layer in range(layers[side])
        }
    elif description.positions == "rotary":
        assert ours - theirs == {f"{side}.embedding.positions" for side in sides}
        ends = (".uncapped", ".output_norm.before", ".output_norm.after")
        paths = {name.removesuffix(".scores") for name in ours if name.endswith(".scores")}
        assert {name for name in theirs - ours if not name.endswith(ends)} == set()
        capped = {f"{path}.uncapped" for path in paths if description.score_cap is not None}
        assert {name for name in theirs - ours if name.endswith(".uncapped")} == capped
        assert len(theirs - ours) == len(capped) + 2 * len(paths) + 2 * (3 + 2)
    else:
        assert ours - theirs == set()
        ends = {f"{side}.embedding.norm" for side in sides if description.of(side).embedding_norm}
        if twins.eager.config.model_type == "encoder-decoder":
            ends |= {"decoder.final_norm"}  # GPT-2's own, or the last before the unembedding
        assert theirs - ours == {f"{norm}.{at}" for norm in ends for at in ("before", "after")}


def test_streams_and_embeddings_add_up(twins: Twins) -> None:
    """Tokens and positions make the input; a residual sum is the stream before it plus output."""
    source, target = inputs(twins, 7)
    with capture(twins.ours, hook_names(twins.ours)) as seen:
        run(twins.ours, source, target)
    tensor = {name: tensors[0] for name, tensors in seen.items()}
    for side in ("encoder", "decoder"):
        tokens = tensor[f"{side}.embedding.tokens"]
        positions = tensor.get(f"{side}.embedding.positions", torch.zeros(()))
        first = tensor[f"{side}.embedding.output"]
        summed = tensor.get(f"{side}.embedding.norm.before", first)
        assert_same(summed, tokens + positions)
        assert torch.equal(tensor.get(f"{side}.embedding.norm.after", first), first)
        path = f"{side}.layers.0.self_attention"
        normed = f"{path}_residual.output_norm.after"
        after = first + tensor.get(normed, tensor[f"{path}.output"])
        merged = twins.ours.description.merged_attention
        following = "feed_forward" if side == "encoder" or merged else "cross_attention"
        if twins.ours.description.of(side).norm == "pre":
            assert torch.equal(tensor[f"{path}_residual.norm.before"], first)
            following = f"{side}.layers.0.{following}_residual.norm.before"
            assert_same(tensor[following], after)
        else:
            assert_same(tensor[f"{path}_residual.norm.before"], after)
            last = tensor[f"{side}.layers.0.feed_forward_residual.norm.after"]
            assert torch.equal(tensor[f"{side}.layers.0.output"], last)


_POINTS = {
    "encoder.embedding.tokens": ("encoder", "{tokens}", "scaled"),
    "encoder.embedding.output": ("encoder", "{layers}.0", "in"),
    "encoder.layers.1.self_attention_residual.norm.before": ("encoder", "{self_norm}", "in"),
    "encoder.layers.1.self_attention_residual.norm.after": ("encoder", "{self_norm}", "out"),
    "decoder.layers.1.cross_attention_residual.norm.before": ("decoder", "{cross_norm}", "in"),
    "decoder.layers.1.cross_attention_residual.norm.after": ("decoder", "{cross_norm}", "out"),
    "decoder.layers.1.cross_attention.output": ("decoder", "{cross_output}", "out"),
    "encoder.layers.1.feed_forward.hidden": ("encoder", "{contract}", "in"),
    "encoder.layers.1.feed_forward.output": ("encoder", "{contract}", "out"),
    "decoder.layers.0.output": ("decoder", "{layers}.0", "out"),
}
"""Hook points, and the stack, module and side of ``transformers`` that they must act on."""


_PLACES = {
    "tokens": {"": "embed_tokens", "bert": "embeddings.word_embeddings", "gpt2": "wte"},
    "layers": {
        "gemma": "layers",
        "": "layers",
        "t5": "block",
        "bert": "encoder.layer",
        "gpt2": "h",
    },
    "self_norm": {
        "gemma": "layers.1.pre_self_attn_layernorm",
        "": "layers.1.self_attn_layer_norm",
        "t5": "block.1.layer.0.layer_norm",
        "bert": "encoder.layer.1.attention.output.LayerNorm",
    },
    "cross_norm": {
        "gemma2": "layers.1.pre_self_attn_layernorm",
        "gemma": "layers.1.pre_cross_attn_layernorm",
        "": "layers.1.encoder_attn_layer_norm",
        "t5": "block.1.layer.1.layer_norm",
        "bert": "encoder.layer.1.crossattention.output.LayerNorm",
        "gpt2": "h.1.ln_cross_attn",
    },
    "cross_output": {
        "gemma": "layers.1.cross_attn.o_proj",
        "": "layers.1.encoder_attn.out_proj",
        "t5": "block.1.layer.1.EncDecAttention.o",
        "bert": "encoder.layer.1.crossattention.output.dense",
        "gpt2": "h.1.crossattention.c_proj",
    },
    "contract": {
        "gemma": "layers.1.mlp.down_proj",
        "": "layers.1.fc2",
        "t5": "block.1.layer.1.DenseReluDense.wo",
        "bert": "encoder.layer.1.output.dense",
    },
}
"""Names in ``_POINTS``: the module by a part of its stack's ``model_type``, "" for all others."""


def _place(stack: Any, name: str) -> str:
    paths, kind = _PLACES[name], stack.config.model_type
    return next((path for part, path in paths.items() if part and part in kind), paths[""])


@pytest.mark.parametrize("point", _POINTS)
def test_edit_at_a_hook_point_acts_where_its_name_says(twins: Twins, point: str) -> None:
    if twins.ours.description.merged_attention and point.endswith("cross_attention.output"):
        pytest.skip("no module gives what half an attention does: see test_merged.py")
    source, target = inputs(twins, 7, 4)
    stack, place, side = _POINTS[point]
    eager = stack_of(twins.eager, stack)
    path = place.format(**{name: _place(eager, name) for name in _PLACES})
    module = eager.get_submodule(path)
    description = twins.ours.description.of(stack)
    is_scaled = description.scale_embeddings and side == "scaled"
    scale = description.d_model**0.5 if is_scaled else 1.0
    # Some multiply by the scale within the embedding, others behind it.
    scale = 1.0 if hasattr(module, "embed_scale") else scale

    def change(x: Tensor) -> Tensor:
        return 1.5 * x + torch.linspace(-1, 1, x.shape[-1])

    def before(_module: Any, args: Any) -> Any:
        return (change(args[0]), *args[1:])

    def after(_module: Any, _args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        return change(output * scale) / scale

    register = (
        module.register_forward_pre_hook(before)
        if side == "in"
        else module.register_forward_hook(after)
    )
    try:
        expected = twins.logits(source, target).logits
    finally:
        register.remove()
    with edit(twins.ours, {point: change}):
        edited = run(twins.ours, source, target)
    assert_same(edited, expected)
    assert float((edited - twins.logits(source, target).logits).abs().max()) > 1e-3


def test_positions_can_be_taken_away_and_logits_edited(twins: Twins) -> None:
    model = twins.ours
    source, target = inputs(twins, 7)
    plain = run(model, source, target)
    with edit(model, {"logits": torch.neg}), capture(model, ["logits"]) as seen:
        edited = run(model, source, target)
    assert torch.equal(edited, -plain)
    assert torch.equal(seen["logits"][0], edited)
    if not model.description.adds_positions:
        return  # positions are in the scores: test_attention.py
    for side in ("encoder", "decoder"):
        name = f"{side}.embedding"
        summed = "norm.before" if model.description.of(side).embedding_norm else "output"
        points = [f"{name}.tokens", f"{name}.{summed}"]
        no_positions = {f"{name}.positions": torch.zeros_like}
        with edit(model, no_positions), capture(model, points) as seen:
            run(model, source, target)
        assert torch.equal(seen[points[0]][0], seen[points[1]][0])


def test_positions_belong_to_each_sentence_of_a_batch(twins: Twins) -> None:
    """As in our own model, so that one sentence's can be changed, though the table is shared."""
    model = twins.ours
    if not model.description.adds_positions:
        return
    source, target = inputs(twins, 7, 4)
    points = ["encoder.embedding.positions", "decoder.embedding.positions"]

    def of_first_only(x: Tensor) -> Tensor:
        x[0] = 0
        return x

    with capture(model, points) as seen:
        plain = run(model, source, target)
        with edit(model, dict.fromkeys(points, of_first_only)):
            edited = run(model, source, target)
        again = run(model, source, target)
    for name, length in zip(points, (7, 9), strict=True):
        width = model.description.of(name.partition(".")[0]).d_model
        assert seen[name][0].shape == (2, length, width)
    assert torch.equal(again, plain)
    assert_same(edited[1], plain[1])
    assert float((edited[0] - plain[0]).abs().max()) > 1e-3


@pytest.mark.usefixtures("one_thread")
def test_threads_are_never_mixed(make_twins: Callable[[str], Twins]) -> None:
    """Several share a model, captured, ablated or plain; others edit the same point, or another's.

    Each gives what it gives alone, many times.
    """

    def task_of(name: str, *changes: Callable[[PretrainedModel], Any]) -> Callable[[], Tensor]:
        twins = make_twins(name)
        source, target = inputs(twins, 7, 4)
        point = f"{attention_path('cross', 1)}.weights"

        def task() -> Tensor:
            with ExitStack() as held:
                for change in changes:
                    held.enter_context(change(twins.ours))
                seen = held.enter_context(capture(twins.ours, [point]))
                logits = run(twins.ours, source, target)
            [maps] = seen[point]
            return torch.cat([maps.flatten(), logits.flatten()])

        return task

    def edit_head(head: int, scale: float) -> Callable[[PretrainedModel], Any]:
        def change(scores: Tensor) -> Tensor:
            scores = scores.clone()
            scores[:, head] *= scale
            return scores

        return lambda model: edit(model, {f"{attention_path('cross', 0)}.scores": change})

    tasks = [
        task_of("t5"),
        task_of("t5", lambda model: ablate(model, [Head("cross", 0, 1)])),
        task_of("t5", edit_head(1, -2.0)),
        task_of("marian"),
        task_of("marian", edit_head(0, 3.0)),
    ]
    alone = [task() for task in tasks]
    for one, other in ((0, 1), (0, 2), (1, 2), (3, 4)):
        assert not torch.equal(alone[one], alone[other])
    barrier = threading.Barrier(len(tasks))

    def repeat(task: Callable[[], Tensor]) -> list[Tensor]:
        torch.set_num_threads(1)
        barrier.wait()
        return [task() for _ in range(25)]

    with ThreadPoolExecutor(len(tasks)) as threads:
        found = list(threads.map(repeat, tasks))
    for expected, results in zip(alone, found, strict=True):
        assert all(torch.equal(result, expected) for result in results)
