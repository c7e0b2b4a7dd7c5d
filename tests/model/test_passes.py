"""Logits and tensors of a forced pass over texts or ids, and gradients through it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.greedy import greedy
from headwise.model.hooks import edit, hook_names
from headwise.model.masks import PADDING, pad
from headwise.model.passes import run_with_cache
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near, near
from tests.model.pretrained.conftest import make_twins as make_twins
from tests.model.pretrained.tiny import Twins, inputs

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
