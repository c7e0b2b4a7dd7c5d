from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.decoding.greedy import greedy, longest_target
from headwise.model.hooks import capture
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near


def uncached(model: Transformer, source: list[int]) -> tuple[list[int], Tensor]:
    """Decode by one whole forward pass a token; return the target and the logits of all steps."""
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
        logits = torch.cat(seen["logits"])  # (steps, V)
        assert_near(logits, uncached(model, source)[1], operations=PASS)


def test_decoding_continues_a_prefix(model: Transformer, sources: list[list[int]]) -> None:
    """A prefix of the greedy target gives that target; another token changes the rest."""
    for source in sources:
        [target] = greedy(model, [source])
        for length in range(1, len(target)):
            assert greedy(model, [source], target[:length]) == [target]
    prefix = [BOS, 9, 7]
    for source, target in zip(sources, greedy(model, sources, prefix), strict=True):
        assert target[:3] == prefix
        logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        assert logits.argmax(dim=-1)[2:].tolist() == target[3:]


def test_empty_prefix_is_refused(model: Transformer) -> None:
    with pytest.raises(ValueError, match="prefix: expected the start token"):
        greedy(model, [[5, EOS]], [])


@pytest.mark.parametrize("bits", [(0, 0), (0, 1), (1, 0)])
def test_of_two_tokens_that_differ_by_a_last_bit_the_lower_id_is_chosen(
    make_model: Callable[..., Transformer], bits: tuple[int, int]
) -> None:
    model = make_model(output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.fill_(-3)
        model.unembedding.bias[[7, 9]] = 1 + torch.tensor(bits) * torch.finfo(torch.float32).eps
    [target] = greedy(model, [[5, EOS]])
    assert set(target[1:]) == {7}
