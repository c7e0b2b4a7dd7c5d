from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.checkpoint import Run, load_weights
from model.config import BOS, EOS
from model.decoding import greedy, translate
from model.generation import longest_target
from model.hooks import capture
from model.transformer import Transformer

MakeModel = Callable[..., Transformer]
MakeIds = Callable[..., Tensor]

LENGTHS = [7, 2, 5, 1, 11, 3]


@pytest.fixture(scope="module")
def model(make_model: MakeModel) -> Transformer:
    """Bias on ``</s>`` such that some targets end early and others reach their limit."""
    model = make_model(output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.bias[EOS] += 1
    return model


@pytest.fixture(scope="module")
def sources(make_ids: MakeIds) -> list[list[int]]:
    return [[*row[row != 0].tolist(), EOS] for row in make_ids(LENGTHS, 37)]


def uncached(model: Transformer, source: list[int]) -> tuple[list[int], Tensor]:
    """Argmax after argmax, each from a whole forward pass; the target, and all steps' logits."""
    target, steps = [BOS], []
    while len(target) <= longest_target(len(source), model.config.max_length):
        logits = model(torch.tensor([source]), torch.tensor([target]))[0, -1]  # (V,)
        steps.append(logits)
        target.append(int(logits.argmax()))
        if target[-1] == EOS:
            break
    return target, torch.stack(steps)


def test_greedy_is_one_argmax_after_another(model: Transformer, sources: list[list[int]]) -> None:
    targets = [uncached(model, source)[0] for source in sources]
    ended = [target[-1] == EOS for target in targets]
    assert any(ended)
    assert not all(ended)
    assert [greedy(model, [source])[0] for source in sources] == targets


def test_a_batch_decodes_like_its_rows_one_by_one(
    model: Transformer, sources: list[list[int]]
) -> None:
    assert greedy(model, sources) == [greedy(model, [source])[0] for source in sources]


def test_cached_logits_equal_uncached_ones(model: Transformer, sources: list[list[int]]) -> None:
    for source in sources:
        with capture(model, ["logits"]) as seen:
            greedy(model, [source])
        logits = torch.cat(seen["logits"])[:, 0]  # (steps, V)
        torch.testing.assert_close(logits, uncached(model, source)[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("source_length", "max_length", "expected"), [(1, 1024, 12), (7, 1024, 24), (600, 1024, 1024)]
)
def test_the_longest_target(source_length: int, max_length: int, expected: int) -> None:
    assert longest_target(source_length, max_length) == expected


@pytest.mark.parametrize(("max_length", "pieces"), [(31, 24), (17, 17)])
def test_a_target_that_does_not_end_stops_at_its_limit(
    make_model: MakeModel, make_ids: MakeIds, max_length: int, pieces: int
) -> None:
    model = make_model(output_bias=True, max_length=max_length)
    with torch.no_grad():
        model.unembedding.bias[EOS] = -1e9
    [target] = greedy(model, make_ids([7], 37).tolist())
    assert target[0] == BOS
    assert len(target) - 1 == pieces


def test_an_empty_batch_is_refused(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected at least one source, got an empty batch"):
        greedy(model, [])


@pytest.mark.parametrize("sources", [[[]], [[5, EOS], []]])
def test_an_empty_source_is_refused(model: Transformer, sources: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="allows no key: expected at least one piece in each row"):
        greedy(model, sources)


def test_a_source_beyond_the_maximum_is_refused(model: Transformer) -> None:
    with pytest.raises(ValueError, match="expected at most 31 pieces, got 32"):
        greedy(model, [[5] * 32])


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_translations_keep_the_order_of_their_sources(trained_run: Run, batch_size: int) -> None:
    model = load_weights(trained_run, 0).model
    texts = ["The book is on the table.", "Hi", "Where is the key?", "", "Hi", "We want water."]
    alone = []
    for text in texts:
        [target] = greedy(model, [trained_run.tokenizers.encode_source(text)])
        alone.append(trained_run.tokenizers.target.decode(target))
    assert len(set(alone)) > 3
    assert translate(model, trained_run.tokenizers, texts, batch_size=batch_size) == alone


def test_no_texts_have_no_translations(trained_run: Run) -> None:
    assert translate(load_weights(trained_run, 0).model, trained_run.tokenizers, []) == []
