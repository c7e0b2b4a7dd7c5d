from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.hooks import Edit, HookPoint, capture, edit, hook_names
from headwise.model.masks import causal_mask, padding_mask
from headwise.model.transformer import DecoderCache, Transformer
from tests.floats import PASS, assert_near

BATCH, SOURCE, TARGET, LAYERS, HEADS, WIDTH, D_MODEL, D_FF = 2, 7, 5, 2, 3, 5, 14, 23
KINDS = [
    "encoder.layers.{}.self_attention",
    "decoder.layers.{}.self_attention",
    "decoder.layers.{}.cross_attention",
]
POINTS = ["query", "key", "value", "scores", "weights", "heads", "output"]
QUERY = "encoder.layers.0.self_attention.query"


@pytest.fixture
def model(make_model: Callable[..., Transformer]) -> Transformer:
    """Make a model in float64: what passes through it in two ways is near in all digits."""
    return make_model().double()


@pytest.fixture
def source(make_ids: Callable[..., Tensor]) -> Tensor:
    return make_ids([SOURCE, 4], 37)


@pytest.fixture
def target(make_ids: Callable[..., Tensor]) -> Tensor:
    return make_ids([3, TARGET], 41)


def double(x: Tensor) -> Tensor:
    return 2 * x


def add_one(x: Tensor) -> Tensor:
    return x + 1


def fail(x: Tensor) -> Tensor:
    raise RuntimeError("an edit that fails")


def assert_no_hook_in_use(model: nn.Module) -> None:
    assert not any(module.in_use for module in model.modules() if isinstance(module, HookPoint))


# Names


def test_names_are_the_module_paths_of_all_hook_points(model: Transformer) -> None:
    names = hook_names(model)
    points = [module for module in model.modules() if isinstance(module, HookPoint)]
    assert [model.get_submodule(name) for name in names] == points


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_documented_name_exists(make_model: Callable[..., Transformer], norm: str) -> None:
    promised = {"logits"}
    for layer in range(LAYERS):
        promised |= {f"{kind.format(layer)}.{point}" for kind in KINDS for point in POINTS}
        promised |= {
            f"{side}.layers.{layer}.feed_forward.hidden" for side in ("encoder", "decoder")
        }
    for side in ("encoder", "decoder"):
        promised |= {f"{side}.embedding.{point}" for point in ("tokens", "positions", "output")}
    assert promised <= set(hook_names(make_model(norm=norm)))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_norm_has_the_stream_before_and_after_it(
    make_model: Callable[..., Transformer], source: Tensor, target: Tensor, norm: str
) -> None:
    model = make_model(norm=norm)
    norms = {n: m for n, m in model.named_modules() if isinstance(m, nn.LayerNorm)}
    with capture(model, hook_names(model)) as seen:
        model(source, target)

    assert len(norms) == LAYERS * (2 + 3) + 2
    for name, layer_norm in norms.items():
        place = name.rpartition(".")[0]
        assert torch.equal(seen[f"{place}.after"][0], layer_norm(seen[f"{place}.before"][0]))


# Capture


def test_capture_sees_every_hook_point_once_in_a_forward(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    with capture(model, hook_names(model)) as seen:
        model(source, target)
    assert list(seen) == hook_names(model)
    assert {len(tensors) for tensors in seen.values()} == {1}


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [(KINDS[0], SOURCE, SOURCE), (KINDS[1], TARGET, TARGET), (KINDS[2], TARGET, SOURCE)],
)
def test_shapes_in_attention(
    model: Transformer, source: Tensor, target: Tensor, kind: str, queries: int, keys: int
) -> None:
    shapes = {
        "query": (BATCH, HEADS, queries, WIDTH),
        "key": (BATCH, HEADS, keys, WIDTH),
        "value": (BATCH, HEADS, keys, WIDTH),
        "scores": (BATCH, HEADS, queries, keys),
        "weights": (BATCH, HEADS, queries, keys),
        "heads": (BATCH, HEADS, queries, WIDTH),
        "output": (BATCH, queries, D_MODEL),
    }
    for layer in range(LAYERS):
        path = kind.format(layer)
        with capture(model, [f"{path}.{point}" for point in shapes]) as seen:
            model(source, target)
        assert {p: tuple(seen[f"{path}.{p}"][0].shape) for p in shapes} == shapes


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("encoder.embedding.tokens", (BATCH, SOURCE, D_MODEL)),
        ("encoder.embedding.positions", (BATCH, SOURCE, D_MODEL)),
        ("decoder.embedding.output", (BATCH, TARGET, D_MODEL)),
        ("encoder.layers.1.feed_forward.hidden", (BATCH, SOURCE, D_FF)),
        ("decoder.layers.0.feed_forward.hidden", (BATCH, TARGET, D_FF)),
        ("encoder.layers.1.output", (BATCH, SOURCE, D_MODEL)),
        ("decoder.layers.0.output", (BATCH, TARGET, D_MODEL)),
        ("logits", (BATCH, TARGET, 41)),
    ],
)
def test_shapes_elsewhere(
    model: Transformer, source: Tensor, target: Tensor, name: str, shape: tuple[int, ...]
) -> None:
    with capture(model, [name]) as seen:
        model(source, target)
    assert tuple(seen[name][0].shape) == shape


def test_rows_of_weights_sum_to_one_and_are_zero_where_masked(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    masks = [padding_mask(source), causal_mask(TARGET, TARGET), padding_mask(source)]
    with capture(model, hook_names(model)) as seen:
        model(source, target)

    for kind, mask in zip(KINDS, masks, strict=True):
        for layer in range(LAYERS):
            (weights,) = seen[f"{kind.format(layer)}.weights"]
            total = weights.sum(-1)
            assert_near(total, torch.ones_like(total))
            assert (weights[~mask.expand_as(weights)] == 0).all()


def test_capture_does_not_change_the_logits(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    with torch.no_grad():  # with gradients, the explicit formula is taken anyway
        logits = model(source, target)
        with capture(model, hook_names(model)) as seen:
            captured = model(source, target)
    assert_near(captured, logits, operations=PASS)
    assert torch.equal(captured, seen["logits"][0])


def test_captures_nest(model: Transformer, source: Tensor, target: Tensor) -> None:
    with capture(model, [QUERY]) as outer:
        with capture(model, [QUERY, "logits"]) as inner:
            model(source, target)
        model(source, target)
    assert (len(outer[QUERY]), len(inner[QUERY]), len(inner["logits"])) == (2, 1, 1)


def test_closing_the_outer_capture_first_keeps_the_inner_one(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    """Both records are empty, hence equal: the right one must be removed."""
    outer, inner = capture(model, [QUERY]), capture(model, [QUERY])
    with outer as outer_seen:
        inner_seen = inner.__enter__()
    model(source, target)
    inner.__exit__(None, None, None)
    assert (len(outer_seen[QUERY]), len(inner_seen[QUERY])) == (0, 1)
    assert_no_hook_in_use(model)


# Edit


def test_without_edits_results_are_bit_identical(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    logits = model(source, target)
    with edit(model, {}):
        assert torch.equal(model(source, target), logits)


def test_an_edit_replaces_the_tensor_that_the_model_uses(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    wanted = torch.randn(BATCH, TARGET, D_MODEL, dtype=torch.float64)
    with edit(model, {"decoder.final_norm.after": lambda x: wanted}):
        logits = model(source, target)
    assert torch.equal(logits, model.unembed(wanted))


@pytest.mark.parametrize("capture_first", [True, False])
def test_capture_sees_the_edited_tensor(
    model: Transformer, source: Tensor, target: Tensor, capture_first: bool
) -> None:
    with capture(model, [QUERY]) as plain:
        model(source, target)
    if capture_first:
        with capture(model, [QUERY]) as seen, edit(model, {QUERY: double}):
            model(source, target)
    else:
        with edit(model, {QUERY: double}), capture(model, [QUERY]) as seen:
            model(source, target)
    assert torch.equal(seen[QUERY][0], 2 * plain[QUERY][0])


def test_nested_edits_apply_in_the_order_they_were_opened(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    with capture(model, [QUERY]) as seen:
        model(source, target)
        with edit(model, {QUERY: double}), edit(model, {QUERY: add_one}):
            with edit(model, {QUERY: double}):
                model(source, target)
            model(source, target)
    plain, three, two = seen[QUERY]
    assert torch.equal(three, 2 * (2 * plain + 1))
    assert torch.equal(two, 2 * plain + 1)


def test_an_edit_that_changes_the_shape_is_refused(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    message = r"an edit must keep the shape: expected \(2, 3, 7, 5\), got \(2, 3, 6, 5\)"
    with edit(model, {QUERY: lambda x: x[:, :, 1:]}), pytest.raises(ValueError, match=message):
        model(source, target)


def test_an_edit_that_forgets_to_return_is_refused(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    def forgets(x: Tensor) -> None:
        x * 2

    message = "an edit must return a tensor, got NoneType"
    with edit(model, {QUERY: forgets}), pytest.raises(ValueError, match=message):  # type: ignore[dict-item]
        model(source, target)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("head", range(HEADS))
def test_zero_weights_of_a_head_equal_a_zero_slice_of_its_output_projection(
    model: Transformer, source: Tensor, target: Tensor, kind: str, layer: int, head: int
) -> None:
    def switch_off(weights: Tensor) -> Tensor:
        weights = weights.clone()
        weights[:, head] = 0
        return weights

    path = kind.format(layer)
    without = copy.deepcopy(model)
    attention = without.get_submodule(path)
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        attention.output_projection.weight[:, head * WIDTH : (head + 1) * WIDTH] = 0

    with edit(model, {f"{path}.weights": switch_off}):
        logits = model(source, target)

    assert_near(logits, without(source, target), operations=PASS)
    assert (logits - model(source, target)).abs().max() > 1e-3


# Errors and cleaning up


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of ids there is no gradient
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_hooks_of_pytorch_run_on_every_module(
    make_model: Callable[..., Transformer],
    source: Tensor,
    target: Tensor,
    norm: str,
    training: bool,
) -> None:
    """In evaluation there is no dropout; a ``ModuleList`` only holds the layers; positions are not
    learned, so that no gradient comes to them."""
    model = make_model(norm=norm).train(training)
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
    model(source, target).sum().backward()
    assert called["before"] == called["after"] == expected
    assert called["backward"] == {name for name in expected if not name.endswith(".positions")}


def test_a_module_that_is_no_hook_point_is_refused(model: Transformer) -> None:
    with (
        pytest.raises(ValueError, match="no hook point named 'encoder'"),
        capture(model, ["encoder"]),
    ):
        pass


@pytest.mark.parametrize("name", ["encoder.layers.0.self_attention.wieghts", "logit"])
@pytest.mark.parametrize("use", ["capture", "edit"])
def test_an_unknown_name_is_refused_with_a_suggestion(
    model: Transformer, name: str, use: str
) -> None:
    nearest = {"logit": "logits"}.get(name, "encoder.layers.0.self_attention.weights")
    message = f"no hook point named '{name}'; did you mean {nearest}"
    context = capture(model, [QUERY, name]) if use == "capture" else edit(model, {name: double})
    with pytest.raises(ValueError, match=message), context:
        pass
    assert_no_hook_in_use(model)


def test_an_unknown_name_without_similar_ones_points_to_hook_names(model: Transformer) -> None:
    message = r"no hook point named '~'; hook_names\(\) lists them"
    with pytest.raises(ValueError, match=message), capture(model, ["~"]):
        pass


def test_hooks_are_removed_after_an_exception_in_the_body(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    logits = model(source, target)
    with pytest.raises(KeyError), edit(model, {QUERY: double}), capture(model, [QUERY]) as seen:
        raise KeyError
    assert_no_hook_in_use(model)
    assert torch.equal(model(source, target), logits)
    assert seen == {QUERY: []}


def test_hooks_are_removed_after_an_exception_in_an_edit(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    logits = model(source, target)
    name = "decoder.layers.1.cross_attention.weights"
    with (
        pytest.raises(RuntimeError, match="an edit that fails"),
        capture(model, [QUERY, name]) as seen,
        edit(model, {name: fail}),
    ):
        model(source, target)
    assert_no_hook_in_use(model)
    assert torch.equal(model(source, target), logits)
    assert (len(seen[QUERY]), len(seen[name])) == (1, 0)


# Threads


@pytest.mark.usefixtures("one_thread")
def test_threads_do_not_see_each_other(model: Transformer, make_ids: Callable[..., Tensor]) -> None:
    """Two threads wait inside a forward at the same time; a third one has no hooks."""
    rounds = 200
    names = hook_names(model)
    pairs = [(make_ids([7, 5], 37), make_ids([5, 3], 41)), (make_ids([3], 37), make_ids([11], 41))]
    edits: list[dict[str, Edit]] = [{"encoder.layers.1.output": double}, {"logits": add_one}]
    meeting_points = [QUERY, "decoder.layers.1.self_attention.weights"]
    barrier = threading.Barrier(2, timeout=60)
    working = threading.Event()
    failures: list[str] = []

    def hooked(index: int) -> tuple[Tensor, dict[str, list[Tensor]]]:
        with edit(model, edits[index]), capture(model, names) as seen:
            return model(*pairs[index]), seen

    def meet(x: Tensor) -> Tensor:
        barrier.wait()
        return x

    lone = [hooked(0), hooked(1)]
    unhooked = model(*pairs[0])

    def repeat(index: int) -> None:
        torch.set_num_threads(1)  # a thread begins with the number of the environment
        logits, seen = lone[index]
        try:
            for _ in range(rounds):
                with edit(model, dict.fromkeys(meeting_points, meet)):
                    again, seen_again = hooked(index)
                same = torch.equal(again, logits) and all(
                    len(seen_again[name]) == 1 and torch.equal(seen_again[name][0], seen[name][0])
                    for name in names
                )
                if not same:
                    failures.append(f"thread {index} saw something else than when alone")
        except Exception as error:
            barrier.abort()
            failures.append(f"thread {index}: {error!r}")

    def run_unhooked() -> None:
        torch.set_num_threads(1)
        while working.is_set():
            if not torch.equal(model(*pairs[0]), unhooked):
                failures.append("the thread without hooks computed something else")

    working.set()
    bystander = threading.Thread(target=run_unhooked)
    workers = [threading.Thread(target=repeat, args=(index,)) for index in range(2)]
    for thread in [bystander, *workers]:
        thread.start()
    for thread in workers:
        thread.join()
    working.clear()
    bystander.join()
    assert not failures


# Cached decoding


def decode_step_by_step(
    model: Transformer, source: Tensor, target: Tensor, cache: DecoderCache
) -> None:
    memory, memory_mask = model.encode(source)
    for step in range(target.shape[1]):
        model.decode(target[:, step : step + 1], memory, memory_mask, cache)


def test_cached_decoding_gives_each_position_once(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    with capture(model, hook_names(model)) as seen:
        decode_step_by_step(model, source, target, DecoderCache(LAYERS))

    def shapes(name: str) -> list[tuple[int, ...]]:
        return [tuple(tensor.shape) for tensor in seen[name]]

    for layer in range(LAYERS):
        own, cross = KINDS[1].format(layer), KINDS[2].format(layer)
        for point in ("query", "key", "value", "heads"):
            assert shapes(f"{own}.{point}") == [(BATCH, HEADS, 1, WIDTH)] * TARGET
        for point in ("key", "value"):
            assert shapes(f"{cross}.{point}") == [(BATCH, HEADS, SOURCE, WIDTH)]
        for point in ("scores", "weights"):
            assert shapes(f"{own}.{point}") == [(BATCH, HEADS, 1, n + 1) for n in range(TARGET)]
            assert shapes(f"{cross}.{point}") == [(BATCH, HEADS, 1, SOURCE)] * TARGET


def test_cached_decoding_captures_what_one_forward_does(
    model: Transformer, source: Tensor, target: Tensor
) -> None:
    names = [name for name in hook_names(model) if name.startswith("decoder.")]
    with capture(model, names) as whole:
        model(source, target)
    with capture(model, names) as stepwise:
        decode_step_by_step(model, source, target, DecoderCache(LAYERS))

    for name in names:
        (expected,) = whole[name]
        for step, tensor in enumerate(stepwise[name]):
            if name.endswith(("cross_attention.key", "cross_attention.value")):
                rows = expected
            elif name.endswith(("self_attention.scores", "self_attention.weights")):
                rows = expected[:, :, step : step + 1, : step + 1]
            else:
                rows = expected[..., step : step + 1, :]
            assert_near(tensor, rows, operations=PASS)


@pytest.mark.parametrize("kind", ["self_attention", "cross_attention"])
@pytest.mark.parametrize("point", ["key", "value"])
def test_a_cache_keeps_edited_keys_and_values(
    model: Transformer, source: Tensor, target: Tensor, kind: str, point: str
) -> None:
    """In layer 0, where keys and values do not depend on attention."""
    name = f"decoder.layers.0.{kind}.{point}"
    if kind == "cross_attention":
        with capture(model, [name]) as plain:
            model(source, target)
    else:
        with capture(model, [name]) as plain:
            decode_step_by_step(model, source, target, DecoderCache(LAYERS))
    cache = DecoderCache(LAYERS)
    with edit(model, {name: add_one}):
        decode_step_by_step(model, source, target, cache)

    kept = getattr(getattr(cache.layers[0], kind), point)
    assert torch.equal(kept, torch.cat(plain[name], dim=2) + 1)
