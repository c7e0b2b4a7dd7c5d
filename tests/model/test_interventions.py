"""Heads and their names; ablation, costs, importance by gradients, work; the stream in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headwise.model import forced, interventions
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.config import BOS, EOS
from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import edit, hook_names
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
from headwise.model.masks import PADDING, pad
from headwise.model.passes import run_with_cache
from headwise.model.stream import HeldNorm
from headwise.model.transformer import Transformer
from headwise.model.turning import ablate
from tests.floats import PASS, assert_near, near, rounding
from tests.model.pretrained.conftest import make_twins as make_twins
from tests.model.pretrained.tiny import Twins, build, inputs
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


# Logits and tensors of a forced pass over texts or ids, and gradients through it

TEXTS = ["The cat runs.", "Where is the old dog?", "We know it."]
TOKENS = ("encoder.embedding.tokens", "decoder.embedding.tokens")


@pytest.fixture(scope="module")
def precise(trained_run: TrainedRun) -> Transformer:
    """The last checkpoint of a tiny run, in float64."""
    return load_weights(trained_run, trained_run.steps()[-1], torch.float64).model


def test_texts_and_ids_give_the_same_with_the_models_own_targets(
    precise: Transformer, trained_run: TrainedRun
) -> None:
    tokenizers = trained_run.tokenizers
    ids = [tokenizers.encode_source(text) for text in TEXTS]
    logits, cache = run_with_cache(precise, tokenizers, TEXTS)
    assert set(cache) == set(hook_names(precise))
    padded = pad(ids)
    assert torch.equal(cache.source_ids, padded)
    for row, target in zip(cache.target_ids.tolist(), greedy(precise, ids), strict=True):
        assert row[: len(target)] == target
        assert set(row[len(target) :]) <= {PADDING}
    expected = precise(padded, cache.target_ids[:, :-1])
    assert_near(logits, expected, operations=PASS)
    assert not logits.requires_grad
    for given in (ids, padded):
        again, _ = run_with_cache(precise, tokenizers, given, cache.target_ids, names="logits")
        assert_near(again, logits, operations=PASS)


def test_a_sentence_is_the_same_in_a_batch(precise: Transformer, trained_run: TrainedRun) -> None:
    targets = ["El gato corre.", "¿Dónde?", "Lo sabemos."]
    names = ["decoder.*.output", "*.heads"]
    _, together = run_with_cache(precise, trained_run.tokenizers, TEXTS, targets, names=names)
    assert {name.rpartition(".")[2] for name in together} == {"output", "heads"}
    with pytest.raises(KeyError, match=r"no tensor 'logits' was recorded; there are \w+coder\."):
        together["logits"]
    for row, (text, target) in enumerate(zip(TEXTS, targets, strict=True)):
        _, alone = run_with_cache(precise, trained_run.tokenizers, text, target, names=names)
        assert list(alone) == list(together)
        for name, tensor in alone.items():
            part = tensor[0]
            rows = together[name][row].narrow(-2, 0, part.shape[-2])
            assert_near(rows, part, operations=PASS)


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([], None, "at least one source"),
        ("  ", None, "a source with tokens in it"),
        (TEXTS, ["Uno."], "a target for each source, got 3 and 1"),
        ([5, 6, 2], None, "put the ids of one sentence into a list"),
        ("A cat.", [[2]], "a target with tokens"),
    ],
)
def test_what_is_no_batch_is_refused(
    precise: Transformer, trained_run: TrainedRun, sources: list[str], targets: None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run_with_cache(precise, trained_run.tokenizers, sources, targets)


def central_difference(f: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> float:
    """How fast f grows along a direction: of order h², which float64 leaves near 1e-9 here."""
    step = 1e-4
    return (f(x + step * direction) - f(x - step * direction)).item() / (2 * step)


@pytest.mark.parametrize("name", ["ours", "marian", "bart", "m2m_100"])
def test_gradients_are_finite_differences(
    precise: Transformer, trained_run: TrainedRun, make_twins: Callable[[str], Twins], name: str
) -> None:
    """Of a logit by embedded tokens, by an inner tensor, and by tokens that an edit replaced."""
    model, source, target = precise, torch.tensor([[5, 9, 8, 3]]), torch.tensor([[2, 7, 11, 3]])
    if name != "ours":
        twins = make_twins(name)
        model, (source, target) = twins.ours, inputs(twins, 7)
    inner = "decoder.layers.0.cross_attention.heads"
    tokenizers = trained_run.tokenizers  # not asked for ids

    def logit(point: str, value: Tensor) -> Tensor:
        with edit(model, {point: lambda x: value}):
            found, _ = run_with_cache(model, tokenizers, source, target, names=inner)
        return found[0, 1, 7]

    with torch.inference_mode():  # as pages may be in
        logits, cache = run_with_cache(model, tokenizers, source, target, names=inner, grad=True)
    generator = torch.Generator().manual_seed(3)
    for point in (*TOKENS, inner):
        [found] = torch.autograd.grad(logits[0, 1, 7], cache[point], retain_graph=True)
        direction = torch.randn(found.shape, generator=generator, dtype=torch.float64)
        expected = central_difference(
            lambda x, at=point: logit(at, x), cache[point].detach(), direction
        )
        assert float((found * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-8)
    half = {TOKENS[0]: lambda x: x / 2}
    with edit(model, half):
        logits, cache = run_with_cache(model, tokenizers, source, target, names=inner, grad=True)
    whole = cache[TOKENS[0]].detach()
    assert logits[0, 1, 7].item() == near(logit(TOKENS[0], whole).item(), operations=PASS)
    [found] = torch.autograd.grad(logits[0, 1, 7], cache[TOKENS[0]])
    expected = central_difference(lambda x: logit(TOKENS[0], x), whole, torch.ones_like(whole))
    assert float(found.sum()) == pytest.approx(expected, rel=1e-5, abs=1e-8)
