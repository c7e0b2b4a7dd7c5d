"""Greedy decoding, and the batch that grows by steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.decoding.greedy import Generation, decoder_lens, greedy, longest_target
from headwise.model.hooks import capture
from headwise.model.pretrained.families import families_of
from headwise.model.pretrained.parts import find
from headwise.model.transformer import Transformer
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import FAMILY_NAMES, build, stack_of
from tests.tiny import tiny_model


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
    """Also in a batch, and with the logits that are computed without a cache."""
    targets = []
    for source in sources:
        target, logits = uncached(model, source)
        with capture(model, ["logits"]) as seen:
            assert greedy(model, [source]) == [target]
        assert_near(torch.cat(seen["logits"]), logits, operations=PASS)
        targets.append(target)
    ended = [target[-1] == EOS for target in targets]
    assert any(ended)
    assert not all(ended)
    assert greedy(model, sources) == targets


def test_kept_rows_belong_to_their_sources(model: Transformer, sources: list[list[int]]) -> None:
    """Row b of every step is source b; until its target ends, the logits are those of it alone."""
    with capture(model, ["logits"]) as seen:
        targets = greedy(model, sources, keep_rows=True)
    assert targets == greedy(model, sources)
    steps = torch.stack(seen["logits"], dim=1)  # (B, steps, V)
    assert steps.shape[:2] == (len(sources), max(map(len, targets)) - 1)
    for row, source in enumerate(sources):
        target, alone = uncached(model, source)
        assert_near(steps[row, : len(target) - 1], alone, operations=PASS)


def test_decoding_continues_a_prefix(model: Transformer, sources: list[list[int]]) -> None:
    """A prefix of the greedy target gives that target; another token changes the rest."""
    for source in sources[1:4]:
        [target] = greedy(model, [source])
        for length in range(1, len(target), 3):
            assert greedy(model, [source], target[:length]) == [target]
    prefix = [BOS, 9, 7]
    for source, target in zip(sources, greedy(model, sources, prefix), strict=True):
        assert target[:3] == prefix
        logits = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        assert logits.argmax(dim=-1)[2:].tolist() == target[3:]


@pytest.mark.parametrize("bits", [(0, 0), (0, 1), (1, 0)])
def test_of_tokens_that_differ_by_a_last_bit_the_lower_id_is_chosen(bits: tuple[int, int]) -> None:
    model = tiny_model(output_bias=True, tied="none")
    with torch.no_grad():
        model.unembedding.weight.zero_()
        model.unembedding.bias.fill_(-3)
        model.unembedding.bias[[7, 9]] = 1 + torch.tensor(bits) * torch.finfo(torch.float32).eps
    [target] = greedy(model, [[5, EOS]])
    assert set(target[1:]) == {7}


def test_each_row_has_its_own_limit_of_which_a_prefix_is_a_part(model: Transformer) -> None:
    """Twice as many tokens as the source has, and 10; at most as many as the model allows."""
    sources = [[EOS], [5, 6, EOS], [5] * 30]
    assert Generation(model, sources).most_generated == [12, 16, 31]
    assert Generation(model, sources, [BOS, 7]).most_generated == [11, 15, 30]
    assert Generation(model, sources, [BOS] * 20).most_generated == [1, 1, 12]


@pytest.mark.parametrize(
    ("sources", "prefix", "message"),
    [
        ([], None, "expected at least one source, got an empty batch"),
        ([[]], None, "allows no key: expected at least one token in each row"),
        ([[5, EOS], []], None, "allows no key: expected at least one token in each row"),
        ([[5] * 32], None, "expected at most 31 tokens, got 32"),
        ([[5, EOS]], [], "prefix: expected the start token"),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    model: Transformer, sources: list[list[int]], prefix: list[int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        greedy(model, sources, prefix)


SOURCES = [[5, 17, 9, 30, 8, EOS], [6, 11, EOS]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_layer_gives_the_models_own_and_inner_ones_shallower_models(norm: str) -> None:
    """The memory of an inner layer is that of a model without the layers above it."""
    model = tiny_model(norm=norm, final_norm=norm == "pre", n_encoder_layers=3).double()
    found = [decoder_lens(model, SOURCES, layer) for layer in range(4)]
    assert found[-1] == greedy(model, SOURCES)
    layers = model.encoder.layers
    for depth in range(3):
        model.encoder.layers = layers[:depth]
        assert found[depth] == greedy(model, SOURCES)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_layer_gives_what_transformers_generates_from_it(family: str) -> None:
    from transformers.modeling_outputs import BaseModelOutput

    twins = build(family, dtype=torch.float64)
    eager: Any = twins.eager
    source = torch.tensor([[7, 17, twins.ours.special_ids.end]])
    mask = torch.ones_like(source)
    with torch.no_grad():
        outputs = eager.get_encoder()(source, attention_mask=mask, output_hidden_states=True)
    family, _ = families_of(eager.config.to_dict(), "")
    norm = find(stack_of(eager, "encoder"), family.final_norm)
    streams: list[Tensor] = list(outputs.hidden_states)
    language = eager.generation_config.forced_bos_token_id  # which m2m_100 begins with
    prefix = None if language is None else [twins.ours.special_ids.start, language]
    for depth, memory in enumerate(streams):
        ids = decoder_lens(twins.ours, source.tolist(), depth, prefix)
        if norm is not None and depth < len(streams) - 1:
            with torch.no_grad():
                memory = norm(memory)
        if depth == len(streams) - 1:
            memory = outputs.last_hidden_state
        expected = eager.generate(
            encoder_outputs=BaseModelOutput(memory),
            attention_mask=mask,
            max_new_tokens=len(ids[0]) - 1,
            do_sample=False,
            num_beams=1,
            use_cache=False,
            encoder_no_repeat_ngram_size=0,  # which Blenderbot has, and we do not
        )
        assert ids[0] == expected[0].tolist()
