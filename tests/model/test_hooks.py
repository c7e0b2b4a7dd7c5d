from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwise.model.hooks import HookPoint, call_before_layers, capture, edit, hook_names
from headwise.model.interface import KINDS, attention_path
from headwise.model.masks import causal_mask, padding_mask
from headwise.model.transformer import DecoderCache, Transformer
from tests.floats import PASS, assert_near
from tests.tiny import tiny_ids, tiny_model

BATCH, SOURCE, TARGET, LAYERS, HEADS, WIDTH, D_MODEL, D_FF = 2, 7, 5, 2, 3, 5, 14, 23
LENGTHS = {"encoder_self": (SOURCE, SOURCE), "decoder_self": (TARGET, TARGET)}
LENGTHS |= {"cross": (TARGET, SOURCE)}
"""Queries and keys of each kind of attention."""
QUERY = "encoder.layers.0.self_attention.query"

Pair = tuple[Tensor, Tensor]


@pytest.fixture
def model() -> Transformer:
    """Make a model in float64: what passes through it in two ways is near in all digits."""
    return tiny_model().double()


@pytest.fixture
def pair() -> Pair:
    """Return a source and a target, each of two lengths."""
    return tiny_ids([SOURCE, 4], 37), tiny_ids([3, TARGET], 41)


def double(x: Tensor) -> Tensor:
    return 2 * x


def add_one(x: Tensor) -> Tensor:
    return x + 1


def assert_no_hook_in_use(model: nn.Module) -> None:
    assert not any(module.in_use for module in model.modules() if isinstance(module, HookPoint))


# Capture


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_pass_gives_every_point_a_tensor_of_the_documented_shape(pair: Pair, norm: str) -> None:
    model = tiny_model(norm=norm)
    with capture(model, hook_names(model)) as seen:
        model(*pair)
    assert {len(tensors) for tensors in seen.values()} == {1}
    shapes: dict[str, tuple[int, ...]] = {"logits": (BATCH, TARGET, 41)}
    for side, length in (("encoder", SOURCE), ("decoder", TARGET)):
        for point in ("tokens", "positions", "output"):
            shapes[f"{side}.embedding.{point}"] = (BATCH, length, D_MODEL)
        for layer in range(LAYERS):
            shapes[f"{side}.layers.{layer}.output"] = (BATCH, length, D_MODEL)
            shapes[f"{side}.layers.{layer}.feed_forward.hidden"] = (BATCH, length, D_FF)
    for kind in KINDS:
        queries, keys = LENGTHS[kind]
        for path in (attention_path(kind, layer) for layer in range(LAYERS)):
            shapes[f"{path}.query"] = shapes[f"{path}.heads"] = (BATCH, HEADS, queries, WIDTH)
            shapes[f"{path}.key"] = shapes[f"{path}.value"] = (BATCH, HEADS, keys, WIDTH)
            shapes[f"{path}.scores"] = shapes[f"{path}.weights"] = (BATCH, HEADS, queries, keys)
            shapes[f"{path}.output"] = (BATCH, queries, D_MODEL)
    assert {name: tuple(seen[name][0].shape) for name in shapes} == shapes

    norms = {n: m for n, m in model.named_modules() if isinstance(m, nn.LayerNorm)}
    assert len(norms) == LAYERS * (2 + 3) + 2
    for name, layer_norm in norms.items():  # each has the stream before and after it
        place = name.rpartition(".")[0]
        assert torch.equal(seen[f"{place}.after"][0], layer_norm(seen[f"{place}.before"][0]))


def test_capture_changes_no_logits_and_sees_masked_weights(model: Transformer, pair: Pair) -> None:
    with torch.no_grad():  # with gradients, the explicit formula is taken anyway
        logits = model(*pair)
        with capture(model, hook_names(model)) as seen:
            captured = model(*pair)
        with edit(model, {}):
            assert torch.equal(model(*pair), logits)
    assert_near(captured, logits, operations=PASS)
    assert torch.equal(captured, seen["logits"][0])
    masks = [padding_mask(pair[0]), causal_mask(TARGET, TARGET), padding_mask(pair[0])]
    for kind, mask in zip(KINDS, masks, strict=True):
        for layer in range(LAYERS):
            (weights,) = seen[f"{attention_path(kind, layer)}.weights"]
            assert_near(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
            assert torch.equal(weights > 0, mask.expand_as(weights))


def test_captures_nest_and_end_in_any_order(model: Transformer, pair: Pair) -> None:
    """Two records are equal while empty: the right one must be removed."""
    outer, inner = capture(model, [QUERY]), capture(model, [QUERY, "logits"])
    with outer as outer_seen:
        inner_seen = inner.__enter__()
    model(*pair)
    inner.__exit__(None, None, None)
    assert [len(seen[QUERY]) for seen in (outer_seen, inner_seen)] == [0, 1]
    assert_no_hook_in_use(model)
    with capture(model, [QUERY]) as outer_seen:
        with capture(model, [QUERY]) as inner_seen:
            model(*pair)
        model(*pair)
    assert [len(seen[QUERY]) for seen in (outer_seen, inner_seen)] == [2, 1]


# Edit


def test_capture_sees_nested_edits_in_their_order(model: Transformer, pair: Pair) -> None:
    with capture(model, [QUERY]) as seen:
        model(*pair)
        with edit(model, {QUERY: double}), edit(model, {QUERY: add_one}):
            with edit(model, {QUERY: double}), capture(model, [QUERY]) as inner:
                model(*pair)
            model(*pair)
    plain, three, two = seen[QUERY]
    assert torch.equal(three, 2 * (2 * plain + 1))
    assert torch.equal(inner[QUERY][0], three)
    assert torch.equal(two, 2 * plain + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x: x[:, :, 1:],
            r"must keep the shape: expected \(2, 3, 7, 5\), got \(2, 3, 6, 5\)",
        ),
        (lambda x: None, "an edit must return a tensor, got NoneType"),
    ],
)
def test_an_edit_that_gives_another_shape_or_nothing_is_refused(
    model: Transformer, pair: Pair, change: Any, message: str
) -> None:
    with edit(model, {QUERY: change}), pytest.raises(ValueError, match=message):
        model(*pair)


def test_a_pattern_stands_for_every_point_that_it_matches(model: Transformer, pair: Pair) -> None:
    """Dots are letters like others, so that ``*`` reaches over layers and sides."""
    with capture(model, ["*.heads", QUERY]) as seen:
        model(*pair)
    expected = [name for name in hook_names(model) if name.endswith(".heads")]
    assert list(seen) == [*expected, QUERY]
    assert len(expected) == 3 * LAYERS
    with pytest.raises(ValueError, match=r"no hook point matches 'decoder\.\*\.wights'; did you"):
        edit(model, {"decoder.*.wights": double}).__enter__()
    assert_no_hook_in_use(model)


def test_an_edit_that_takes_a_name_is_given_it(model: Transformer, pair: Pair) -> None:
    """Of two patterns that match a point both edit it, the first one first."""
    given: list[str] = []

    def named(x: Tensor, name: str) -> Tensor:
        given.append(name)
        return x + 1

    with capture(model, [QUERY, "encoder.layers.0.self_attention.query"]) as seen:
        model(*pair)
        with edit(model, {"*.query": double, "decoder.*.query": named, "logits": torch.zeros_like}):
            logits = model(*pair)
    assert given == [name for name in hook_names(model) if re.fullmatch(r"decoder.*\.query", name)]
    (other, other_edited) = seen["encoder.layers.0.self_attention.query"]
    assert torch.equal(other_edited, 2 * other)
    assert not logits.any()
    assert_no_hook_in_use(model)


# Errors and cleaning up


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of ids there is no gradient
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_hooks_of_pytorch_run_on_every_module(pair: Pair, norm: str, training: bool) -> None:
    """In evaluation there is no dropout; a ``ModuleList`` only holds the layers; positions are not
    learned, so that no gradient comes to them."""
    model = tiny_model(norm=norm).train(training)
    expected = {
        name
        for name, module in model.named_modules()
        if not isinstance(module, nn.ModuleList)
        and (training or not isinstance(module, nn.Dropout) or "embedding" in name)
    }
    called: dict[str, set[str]] = {kind: set() for kind in ("before", "after", "backward")}
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called["before"].add(name))
        module.register_forward_hook(lambda *_, name=name: called["after"].add(name))
        module.register_full_backward_hook(lambda *_, name=name: called["backward"].add(name))
    model(*pair).sum().backward()
    assert called["before"] == called["after"] == expected
    assert called["backward"] == {name for name in expected if not name.endswith(".positions")}


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("encoder.layers.0.self_attention.wieghts", "; did you mean encoder.*attention.weights"),
        ("logit", "; did you mean logits"),
        ("encoder", ""),  # a module that is no hook point
        ("~", r"; hook_names lists them"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(
    model: Transformer, name: str, rest: str
) -> None:
    for context in (capture(model, [QUERY, name]), edit(model, {name: double})):
        with pytest.raises(ValueError, match=f"no hook point named '{name}'{rest}"), context:
            pass
    assert_no_hook_in_use(model)


def test_hooks_are_removed_after_an_exception(model: Transformer, pair: Pair) -> None:
    """One in the body of a context, and one in an edit, after which a part has been captured."""
    logits = model(*pair)
    with pytest.raises(KeyError), edit(model, {QUERY: double}), capture(model, [QUERY]) as seen:
        raise KeyError
    assert seen == {QUERY: []}
    name = "decoder.layers.1.cross_attention.weights"
    fails = edit(model, {name: lambda x: x @ x})  # the keys are not as many as the queries
    with pytest.raises(RuntimeError), capture(model, [QUERY, name]) as seen, fails:
        model(*pair)
    assert (len(seen[QUERY]), len(seen[name])) == (1, 0)
    assert_no_hook_in_use(model)
    assert torch.equal(model(*pair), logits)


# Cached decoding


def decode_step_by_step(model: Transformer, pair: Pair) -> DecoderCache:
    source, target = pair
    cache = DecoderCache(LAYERS)
    memory, memory_mask = model.encode(source)
    for step in range(target.shape[1]):
        model.decode(target[:, step : step + 1], memory, memory_mask, cache)
    return cache


@pytest.mark.parametrize("kind", ["self_attention", "cross_attention"])
@pytest.mark.parametrize("point", ["key", "value"])
def test_a_cache_keeps_edited_keys_and_values(
    model: Transformer, pair: Pair, kind: str, point: str
) -> None:
    """In layer 0, where keys and values do not depend on attention."""
    name = f"decoder.layers.0.{kind}.{point}"
    with capture(model, [name]) as plain:
        decode_step_by_step(model, pair)
    with edit(model, {name: add_one}):
        cache = decode_step_by_step(model, pair)
    kept = getattr(getattr(cache.layers[0], kind), point)
    assert torch.equal(kept, torch.cat(plain[name], dim=2) + 1)


def test_a_function_is_called_before_each_layer_and_its_error_ends_the_pass(
    model: Transformer, pair: Pair
) -> None:
    expected = model(*pair)
    left = iter(range(2 * LAYERS))
    call_before_layers(model, lambda: next(left) and None)
    assert torch.equal(model(*pair), expected)
    with pytest.raises(StopIteration), capture(model, [QUERY]) as seen:
        model(*pair)
    assert seen[QUERY] == []
    assert_no_hook_in_use(model)


def test_cached_decoding_captures_each_position_once_as_one_forward_does(
    model: Transformer, pair: Pair
) -> None:
    names = [name for name in hook_names(model) if name.startswith("decoder.")]
    with capture(model, names) as whole:
        model(*pair)
    with capture(model, names) as stepwise:
        decode_step_by_step(model, pair)
    for name in names:
        (expected,) = whole[name]
        of_source = name.endswith(("cross_attention.key", "cross_attention.value"))
        assert len(stepwise[name]) == (1 if of_source else TARGET)
        for step, tensor in enumerate(stepwise[name]):
            if of_source:
                rows = expected
            elif name.endswith(("self_attention.scores", "self_attention.weights")):
                rows = expected[:, :, step : step + 1, : step + 1]
            else:
                rows = expected[..., step : step + 1, :]
            assert_near(tensor, rows, operations=PASS)
