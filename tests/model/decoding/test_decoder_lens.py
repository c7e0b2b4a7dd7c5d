"""The decoder reads inner layers of the encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.model.config import EOS
from headwise.model.decoding.greedy import decoder_lens, greedy
from headwise.model.pretrained.families import families_of
from headwise.model.pretrained.parts import find
from headwise.model.transformer import Transformer
from tests.model.pretrained.tiny import FAMILY_NAMES, build, stack_of

SOURCES = [[5, 17, 9, 30, 8, EOS], [6, 11, EOS]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_layer_gives_the_models_own_and_inner_ones_shallower_models(
    make_model: Callable[..., Transformer], norm: str
) -> None:
    """The memory of an inner layer is that of a model without the layers above it."""
    model = make_model(norm=norm, final_norm=norm == "pre", n_encoder_layers=3).double()
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
