from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwise.model.config import TransformerConfig
from headwise.model.interface import Description
from headwise.viz_app.analysis.formulas import (
    describe_module,
    describe_point,
    feed_forward_formula,
    input_formula,
    scores_formula,
)


@pytest.mark.parametrize(
    ("path", "post", "pre"),
    [
        ("", "softmax(decoder output · W + b)", "softmax(decoder output · W)"),
        ("encoder.embedding", "√D · E[id] + PE(pos)", "E[id] + PE(pos)"),
        ("decoder", "layer 2(… layer 1(embedding))", "LayerNorm(layer 2(… layer 1(embedding)))"),
        ("encoder.layers", "x ← layer(x), 3 times", "x ← layer(x), 3 times"),
        ("decoder.layers", "x ← layer(x), 2 times", "x ← layer(x), 2 times"),
        (
            "encoder.layers.0",
            "x ← LayerNorm(x + SelfAttention(x)); x ← LayerNorm(x + FFN(x))",
            "x ← x + SelfAttention(LayerNorm(x)); x ← x + FFN(LayerNorm(x))",
        ),
        (
            "decoder.layers.0",
            "x ← LayerNorm(x + SelfAttention(x)); x ← LayerNorm(x + CrossAttention(x)); "
            "x ← LayerNorm(x + FFN(x))",
            "x ← x + SelfAttention(LayerNorm(x)); x ← x + CrossAttention(LayerNorm(x)); "
            "x ← x + FFN(LayerNorm(x))",
        ),
        (
            "encoder.layers.1.self_attention",
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₁₂) W_O + b_O",
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₁₂) W_O",
        ),
        (
            "decoder.layers.1.self_attention",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O + b_O",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O",
        ),
        (
            "decoder.layers.1.cross_attention",
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₁₂) W_O + b_O",
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₁₂) W_O",
        ),
        (
            "decoder.layers.1.cross_attention.key_projection",
            "K = memory W_K + b_K",
            "K = memory W_K",
        ),
        ("decoder.layers.1.cross_attention.query_projection", "Q = x W_Q + b_Q", "Q = x W_Q"),
        ("encoder.layers.0.self_attention.value_projection", "V = x W_V + b_V", "V = x W_V"),
        (
            "encoder.layers.0.self_attention.output_projection",
            "Concat(…) W_O + b_O",
            "Concat(…) W_O",
        ),
        (
            "decoder.layers.0.cross_attention_residual",
            "LayerNorm(x + CrossAttention(x))",
            "x + CrossAttention(LayerNorm(x))",
        ),
        (
            "decoder.layers.0.feed_forward_residual",
            "LayerNorm(x + FFN(x))",
            "x + FFN(LayerNorm(x))",
        ),
        ("decoder.layers.0.feed_forward", "max(0, x W₁ + b₁) W₂ + b₂", "max(0, x W₁ + b₁) W₂ + b₂"),
        ("unembedding", "x W + b", "x W"),
    ],
)
def test_module_formulas_follow_the_variant(
    path: str, post: str, pre: str, post_norm: Description, pre_norm: Description
) -> None:
    assert describe_module(path, post_norm).formula == post
    assert describe_module(path, pre_norm).formula == pre


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("encoder.embedding.output", "their sum"),
        ("encoder.layers.0.output", "the stream that the layer hands on"),
        ("encoder.layers.0.self_attention.output", "after W_O"),
        ("decoder.layers.0.cross_attention.output", "after W_O"),
        ("decoder.layers.0.feed_forward.output", "after W₂"),
        ("encoder.embedding.tokens", "√D · E[id]"),
        ("logits", "before the softmax"),
        ("something.else", ""),
    ],
)
def test_hook_point_descriptions(path: str, text: str, post_norm: Description) -> None:
    assert describe_point(path, post_norm) == text


def test_hook_point_description_of_unscaled_embeddings(pre_norm: Description) -> None:
    assert describe_point("encoder.embedding.tokens", pre_norm) == "E[id]"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("encoder", "reads the source; no norm on top"),
        ("decoder", "reads the target so far, and memory, the encoder's output; no norm on top"),
        ("encoder.layers.0", "two sublayers, each in a residual connection"),
        ("decoder.layers.0", "three sublayers, each in a residual connection"),
        ("encoder.embedding.position_table", "a row for each position"),
    ],
)
def test_descriptions_of_stacks_and_layers(path: str, what: str, post_norm: Description) -> None:
    assert describe_module(path, post_norm).what == what


def test_layer_titles_count_from_one(post_norm: Description) -> None:
    assert describe_module("encoder.layers.0", post_norm).title == "layer 1"


def test_unknown_module_is_described_by_its_name(post_norm: Description) -> None:
    text = describe_module("encoder.new_part", post_norm)
    assert (text.title, text.what, text.formula) == ("new-part", "", "")


@pytest.mark.parametrize(
    ("activation", "gated", "biased", "expected"),
    [
        ("relu", False, True, (r"W_2 + b_2", r"\max(0,\, s\,W_1 + b_1)")),
        ("relu", False, False, (r"W_2", r"\max(0,\, s\,W_1)")),
        ("gelu_new", True, False, (r"W_2", r"\mathrm{GELU}(s\,W_1) \odot s\,V")),
        ("silu", False, True, (r"W_2 + b_2", r"\mathrm{Swish}(s\,W_1 + b_1)")),
    ],
)
def test_feed_forward_formula_follows_the_model(
    activation: str, gated: bool, biased: bool, expected: tuple[str, str]
) -> None:
    found = feed_forward_formula(activation, gated=gated, biased=biased, read="s")
    first, second = found.split(r" \\ ")
    assert first == r"\begin{aligned} \mathrm{FFN}(s) &= \mathrm{hidden}\," + expected[0]
    assert second == rf"\mathrm{{hidden}} &= {expected[1]} \end{{aligned}}"


def test_scores_formula_follows_the_model(make_config: Callable[..., TransformerConfig]) -> None:
    ours = make_config().description
    assert scores_formula(ours, "cross") == r"QK^\top/\sqrt{d_k}"
    t5 = replace(ours, scale_scores=False, positions="relative")
    assert scores_formula(t5, "encoder_self") == r"QK^\top + B"
    assert scores_formula(t5, "cross") == r"QK^\top"


def test_only_positions_that_are_added_stand_in_the_input_formula(
    make_config: Callable[..., TransformerConfig],
) -> None:
    ours = make_config().description
    assert input_formula(replace(ours, positions="learned")).endswith("E[id] + PE(pos)")
    assert input_formula(replace(ours, positions="relative")).endswith("E[id]")


def test_norm_formula_follows_the_model(make_config: Callable[..., TransformerConfig]) -> None:
    ours = make_config().description
    path = "encoder.layers.0.feed_forward_residual.norm"
    assert "x − mean" in describe_module(path, ours).formula
    rms = describe_module(path, replace(ours, norm_kind="rms")).formula
    assert rms == "γ x / √(mean of x² + ε)"
