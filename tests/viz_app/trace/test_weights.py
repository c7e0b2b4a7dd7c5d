"""Weights of opened models under the names that ours have."""

from __future__ import annotations

import pytest

from headwise.model.transformer import Transformer
from headwise.viz_app.trace.weights import named_weights
from tests.model.pretrained.tiny import FAMILY_NAMES, build

POSITIONS = {f"{stack}.embedding.position_table.weight" for stack in ("encoder", "decoder")}

FOREIGN = {
    *("relative_attention_bias", "layernorm_embedding", "token_type_embeddings", "LayerNorm"),
    *("dense", "layer_norm", "predictions", "decoder", "lm_head"),  # before the logits
    *("k_proj", "v_proj"),  # each is for several heads
    *(f"{at}_{of}_layernorm" for at in ("pre", "post") for of in ("self_attn", "cross_attn")),
    *("pre_feedforward_layernorm", "post_feedforward_layernorm", "norm"),  # stored less 1
    *("q_norm", "k_norm", "embed_tokens"),  # stored less 1; what stands for the end of an image
    *("enc_to_dec_proj", "key", "value", "c_attn"),  # keys and values are made by two layers
}
"""Modules of opened models whose weights ours does not have."""


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_each_weight_of_an_opened_model_is_listed_and_its_positions_by_their_name(
    family: str,
) -> None:
    model = build(family).ours
    if family == "t5gemma2":  # as a folder of it is opened
        del model.inner.model.encoder.vision_tower, model.inner.model.encoder.multi_modal_projector
    weights = named_weights(model)
    listed = {address for _, _, address in weights}
    assert listed == {parameter.data_ptr() for _, parameter in model.named_parameters()}
    stored = family not in (
        "m2m_100",
        "t5",
        "t5_1_1",
        "mt5",
        "umt5",
        "t5gemma",
        "t5gemma2",
    )  # computed, or there are none
    assert POSITIONS & {name for name, *_ in weights} == (POSITIONS if stored else set())
    foreign = {name.split(".")[-2] for name, *_ in weights if name.startswith("inner.")}
    assert foreign <= FOREIGN


def test_weights_of_ours_have_the_names_of_their_modules(trained: Transformer) -> None:
    expected = [name for name, _ in trained.named_parameters(remove_duplicate=False)]
    assert [name for name, *_ in named_weights(trained)] == expected
    assert trained.position_table("source") is None
