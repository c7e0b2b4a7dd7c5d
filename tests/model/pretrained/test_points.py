"""Hook points of opened models: their names, what acts there, and threads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, ByT5Tokenizer
from transformers.models.marian.modeling_marian import MarianAttention

from headwise.model.files import CheckpointError
from headwise.model.hooks import capture, edit, hook_names, matching_names
from headwise.model.interface import Head, attention_path
from headwise.model.memory import wrap_model
from headwise.model.pretrained import families
from headwise.model.pretrained.families import SublayerPaths
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.turning import ablate
from tests.model.pretrained.tiny import MAKES, Twins, assert_same, build, inputs, run
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
    """Tokens and positions make the input; a residual sum is the stream before it plus output.

    So they do where tokens are edited, which some models scale behind the module.
    """
    source, target = inputs(twins, 7)
    larger = {"*.embedding.tokens": lambda x: 1.5 * x}
    with edit(twins.ours, larger), capture(twins.ours, hook_names(twins.ours)) as seen:
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


@pytest.mark.parametrize("name", MAKES)
def test_edit_at_a_hook_point_changes_what_comes_after_it_and_nothing_before(
    make_twins: Callable[[str], Twins], name: str
) -> None:
    """Of the first layers; what is seen at a point is compared with the weights in other tests."""
    twins = make_twins(name)
    model, (source, target) = twins.ours, inputs(twins, 7, 4)
    names = [*matching_names(model, ["*.embedding.*", "*.layers.0.*"]), "logits"]
    order: list[str] = []

    def seen_with(edits: dict[str, Any]) -> dict[str, Tensor]:
        with edit(model, edits), capture(model, names) as seen:
            run(model, source, target)
        return {name: tensors[0] for name, tensors in seen.items()}

    def change(x: Tensor) -> Tensor:
        return 1.5 * x + torch.linspace(-1, 1, x.shape[-1])

    plain = seen_with(dict.fromkeys(names, lambda x, name: order.append(name) or x))
    assert sorted(order) == sorted(names)
    for place, point in enumerate(order):
        found = seen_with({point: change})
        for before in order[:place]:
            assert torch.equal(found[before], plain[before]), (point, before)
        assert torch.equal(found[point], change(plain[point]))
        for path in {name.removesuffix(".weights") for name in names if name.endswith(".weights")}:
            weights = found[f"{path}.weights"]
            if point not in (f"{path}.weights", f"{path}.heads"):  # edited scores stay masked
                assert (
                    not path.startswith("decoder") or "cross" in path or not weights.triu(1).any()
                )
            if point != f"{path}.heads":
                assert_same(found[f"{path}.heads"], weights @ found[f"{path}.value"])
        moved = float((found["logits"] - plain["logits"]).abs().max())
        assert moved > 1e-6, point


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


# What does not pass through hook points is refused when a model is opened

_TINY = {
    **{f"{stack}_{what}": 2 for stack in ("encoder", "decoder") for what in ("layers", "ffn_dim")},
    **{f"{stack}_attention_heads": 2 for stack in ("encoder", "decoder")},
    **{"d_model": 8, "vocab_size": 13, "max_position_embeddings": 11},
    **{"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2},
}


def _made(kind: str) -> Any:
    with quiet():
        config = AutoConfig.for_model(kind, **_TINY)
        return AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager")


@pytest.fixture(params=["mvp", "pegasus_x"])
def in_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A family that computes attention in place, with a record, as if it could be opened."""
    kind: str = request.param
    record = replace(families.FAMILIES["bart"], title=kind)
    monkeypatch.setitem(families.FAMILIES, kind, record)
    return kind


def test_attention_that_is_computed_in_place_is_refused(in_place: str, tmp_path: Path) -> None:
    expected = (
        f"model_type '{in_place}': nothing passes through encoder.layers.0.self_attention.query "
        "(6 hook points in all), as if computed in place; see docs/add-a-family.md"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        wrap_model(_made(in_place), ByT5Tokenizer())
    _made(in_place).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{re.escape(expected)}"):
        PretrainedRun(tmp_path, "run").load(0)


def test_the_decoder_is_checked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = build("marian").ours.inner
    with pytest.raises(ValueError, match=r"through decoder\.layers\.0\.cross_attention\.query"):
        PretrainedModel(_without_points(inner, monkeypatch, "encoder_attn"))


def _without_points(inner: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Let one attention of a decoder's first layer give what it computes in place."""
    attention = inner.get_decoder().layers[0].get_submodule(name)

    def in_place(hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        return attention.out_proj(hidden_states), None

    monkeypatch.setattr(attention, "forward", in_place)
    return inner


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": "blocks"},
        {"self_attention": SublayerPaths("attention", "self_attn_layer_norm")},
        {"cross_attention": SublayerPaths("encoder_attn", "norm")},
        {"decoder_feed_forward": SublayerPaths("mlp", "final_layer_norm")},
        {"projections": ("q", "k", "v", "o")},
        {"expand": ("wi",)},
        {"contract": "wo"},
        {"final_norm": "norm", "transform": ("dense", "norm", "")},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_record_that_names_no_module_is_refused_in_words(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = replace(families.FAMILIES["marian"], **wrong)
    monkeypatch.setitem(families.FAMILIES, "marian", record)
    with pytest.raises(ValueError, match=r"^model_type 'marian': .*see docs/add-a-family\.md$"):
        build("marian")


def test_a_pass_that_fails_is_told_and_not_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("unexpected argument: prompt")

    monkeypatch.setattr(MarianAttention, "forward", fail)
    with pytest.raises(
        ValueError, match=r"^model_type 'marian': no token goes through its encoder \(unexpected"
    ):
        build("marian")


def test_a_model_in_memory_is_named_where_it_has_no_path(tmp_path: Path) -> None:
    told = r"^MvpForConditionalGeneration: model_type 'mvp' cannot be opened: its attention"
    with pytest.raises(CheckpointError, match=told):
        wrap_model(_made("mvp"), ByT5Tokenizer())
