from __future__ import annotations

from dataclasses import replace

import pytest

from viz_app.analysis.formulas import Variant, describe_module, describe_point, residual_formula

POST = Variant(
    norm_first=False,
    final_norm=False,
    attention_bias=True,
    output_bias=True,
    scaled=True,
    layers=3,
    heads=12,
)
PRE = replace(
    POST,
    norm_first=True,
    final_norm=True,
    attention_bias=False,
    output_bias=False,
    scaled=False,
)


def test_a_residual_has_its_norm_where_the_model_has_it() -> None:
    assert residual_formula("FFN", POST) == "LayerNorm(x + FFN(x))"
    assert residual_formula("FFN", PRE) == "x + FFN(LayerNorm(x))"


@pytest.mark.parametrize(
    ("path", "post", "pre"),
    [
        ("", "softmax(decoder output · W + b)", "softmax(decoder output · W)"),
        ("encoder.embedding", "√D · E[id] + PE(pos)", "E[id] + PE(pos)"),
        (
            "decoder",
            "layer 3(… layer 1(embedding))",
            "LayerNorm(layer 3(… layer 1(embedding)))",
        ),
        (
            "encoder.layers.0",
            "x ← LayerNorm(x + SelfAttention(x)); x ← LayerNorm(x + FFN(x))",
            "x ← x + SelfAttention(LayerNorm(x)); x ← x + FFN(LayerNorm(x))",
        ),
        (
            "decoder.layers.1.self_attention",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O + b_O",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O",
        ),
        (
            "decoder.layers.1.cross_attention.key_projection",
            "K = memory W_K + b_K",
            "K = memory W_K",
        ),
        ("decoder.layers.1.cross_attention.query_projection", "Q = x W_Q + b_Q", "Q = x W_Q"),
        ("encoder.layers.0.self_attention.value_projection", "V = x W_V + b_V", "V = x W_V"),
        ("unembedding", "x W + b", "x W"),
    ],
)
def test_formulas_are_those_of_the_variant(path: str, post: str, pre: str) -> None:
    assert describe_module(path, POST).formula == post
    assert describe_module(path, PRE).formula == pre


def test_only_the_decoder_s_own_attention_is_masked() -> None:
    for path in ("encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"):
        assert "mask" not in describe_module(path, POST).formula


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("encoder.embedding.output", "their sum"),
        ("encoder.layers.0.output", "the stream that the layer hands on"),
        ("encoder.layers.0.self_attention.output", "after W_O"),
        ("decoder.layers.0.cross_attention.output", "after W_O"),
        ("decoder.layers.0.feed_forward.output", "after W₂"),
        ("encoder.embedding.tokens", "√D · E[id]"),
        ("something.else", ""),
    ],
)
def test_points_of_one_name_are_told_apart_by_where_they_are(path: str, text: str) -> None:
    assert describe_point(path, POST) == text


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("encoder", "reads the source; no norm on top"),
        (
            "decoder",
            "reads the target so far, and memory, the encoder's output; no norm on top",
        ),
        ("encoder.layers.0", "two sublayers, each in a residual connection"),
        ("decoder.layers.0", "three sublayers, each in a residual connection"),
    ],
)
def test_stacks_and_layers_say_what_they_are_made_of(path: str, what: str) -> None:
    assert describe_module(path, POST).what == what


def test_an_unknown_module_has_its_name_only() -> None:
    text = describe_module("encoder.new_part", POST)
    assert (text.title, text.what, text.formula) == ("new-part", "", "")
