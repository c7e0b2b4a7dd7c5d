from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model.ablation import (
    ATTENTIONS,
    Head,
    Kind,
    all_heads,
    batch_head_costs,
    head_costs,
    switch_off,
)
from model.config import BOS, EOS
from model.data import pad
from model.decoding import greedy
from model.hooks import capture
from model.transformer import Transformer

SOURCE = [5, 17, 9, 30, 8, EOS]
TARGET = [BOS, 12, 7, 33, EOS]


@pytest.fixture(scope="module", params=["pre", "post"])
def model(make_model: Callable[..., Transformer], request: pytest.FixtureRequest) -> Transformer:
    return make_model(norm=request.param, final_norm=request.param == "pre")


@torch.inference_mode()
def log_probability(model: Transformer, source: list[int], target: list[int]) -> float:
    logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
    chosen = logits.log_softmax(dim=-1)[range(len(target) - 1), target[1:]]
    return float(chosen.sum())


def test_every_head_is_listed_once(model: Transformer) -> None:
    heads = all_heads(model)
    assert len(heads) == len(set(heads)) == 3 * 2 * 3
    assert heads[4] == Head("encoder_self", 1, 1)


@pytest.mark.parametrize("kind", ATTENTIONS)
@torch.inference_mode()
def test_a_head_that_is_off_adds_nothing_and_the_others_what_they_did(
    model: Transformer, kind: Kind
) -> None:
    """In the first layer, whose input no other head has changed."""
    module = ATTENTIONS[kind].format(0)
    inputs = torch.tensor([SOURCE]), torch.tensor([TARGET[:-1]])
    names = [f"{module}.heads", f"{module}.output"]
    with capture(model, names) as whole:
        model(*inputs)
    with switch_off(model, [Head(kind, 0, 1)]), capture(model, names) as without:
        model(*inputs)
    [heads], [off] = whole[names[0]], without[names[0]]
    assert (off[:, 1] == 0).all()
    if kind != "cross":  # its queries have gone through self-attention, which is whole
        torch.testing.assert_close(off[:, [0, 2]], heads[:, [0, 2]])
    weight = model.get_parameter(f"{module}.output_projection.weight")[:, 5:10]  # K = 5
    added = heads[:, 1] @ weight.T
    torch.testing.assert_close(without[names[1]][0], whole[names[1]][0] - added, atol=1e-5, rtol=0)


def test_several_heads_of_one_layer_and_of_others(model: Transformer) -> None:
    off = [Head("cross", 1, 0), Head("cross", 1, 2), Head("encoder_self", 0, 1)]
    names = [f"{ATTENTIONS[kind].format(layer)}.heads" for kind, layer, _ in off]
    with switch_off(model, off), capture(model, names) as seen:
        log_probability(model, SOURCE, TARGET)
    for name, (_, _, head) in zip(names, off, strict=True):
        assert (seen[name][0][:, head] == 0).all()
    assert (seen[names[0]][0][:, 1] != 0).any()


def test_heads_are_on_again_afterwards(model: Transformer) -> None:
    before = log_probability(model, SOURCE, TARGET)
    with switch_off(model, all_heads(model)):
        assert log_probability(model, SOURCE, TARGET) != before
    assert log_probability(model, SOURCE, TARGET) == before
    with switch_off(model, []):
        assert log_probability(model, SOURCE, TARGET) == before


def test_decoding_goes_without_them_too(model: Transformer) -> None:
    """Piece by piece with a cache, as one pass over what was decoded."""
    off = [Head("decoder_self", 0, 2), Head("cross", 0, 0), Head("encoder_self", 1, 1)]
    with switch_off(model, off), torch.inference_mode():
        [target] = greedy(model, [SOURCE])
        logits = model(torch.tensor([SOURCE]), torch.tensor([target[:-1]]))[0]
    assert logits.argmax(dim=-1).tolist() == target[1:]


@pytest.mark.parametrize(
    "head", [Head("cross", 2, 0), Head("cross", 0, 3), Head("cross", -1, 0), ("self", 0, 0)]
)
def test_a_head_that_is_not_there_is_refused(model: Transformer, head: Head) -> None:
    message = r"no head .*: expected one of encoder_self, .* a layer below 2 and a head below 3"
    with pytest.raises(ValueError, match=message), switch_off(model, [head]):
        pass


def test_costs_are_those_of_one_head_after_another(model: Transformer) -> None:
    whole = log_probability(model, SOURCE, TARGET)
    costs = head_costs(model, SOURCE, TARGET)
    assert list(costs) == list(ATTENTIONS)
    for head in all_heads(model):
        with switch_off(model, [head]):
            without = log_probability(model, SOURCE, TARGET)
        assert float(costs[head.kind][head.layer, head.head]) == pytest.approx(
            whole - without, abs=1e-4
        )
    assert max(float(cost.abs().max()) for cost in costs.values()) > 0.01


def test_a_head_without_a_way_out_costs_nothing(make_model: Callable[..., Transformer]) -> None:
    model = make_model()
    with torch.no_grad():
        weight: Tensor = model.decoder.layers[1].cross_attention.output_projection.weight
        weight[:, 10:] = 0  # of head 2
    costs = head_costs(model, SOURCE, TARGET)["cross"]
    assert float(costs[1, 2]) == pytest.approx(0, abs=1e-5)
    assert float(costs[1, 1].abs()) > 1e-3


def test_costs_of_a_batch_are_those_of_its_sentences(model: Transformer) -> None:
    sources = [SOURCE, [7, EOS], [5, 6, 11, 30, EOS]]
    targets = [TARGET, [BOS, 9, 8, 7, 6, 5, 4, EOS], [BOS, EOS]]
    costs = batch_head_costs(model, pad(sources), pad(targets))
    for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = head_costs(model, source, target)
        for kind in ATTENTIONS:
            torch.testing.assert_close(costs[kind][place], alone[kind], atol=1e-5, rtol=0)
