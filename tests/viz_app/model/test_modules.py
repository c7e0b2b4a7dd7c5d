"""Modules of a model as a tree, and their formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwise.model.config import TransformerConfig
from headwise.model.hooks import hook_names
from headwise.model.interface import Description
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.formulas import (
    describe_module,
    describe_point,
    feed_forward_formula,
    input_formula,
    scores_formula,
)
from headwise.viz_app.model.modules import build_module_tree, mark_tied_parameters
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary

SMALL = TransformerConfig(37, 37, 3, 2, n_heads=12, d_model=24, d_ff=23)
POST = replace(SMALL, norm="post", final_norm=False, output_bias=True).description
PRE = replace(SMALL, attention_bias=False, scale_embeddings=False).description
RELATIVE = replace(PRE, scale_scores=False, positions="relative", norm_kind="rms")


@pytest.mark.parametrize(
    ("path", "post", "pre"),
    [
        ("", "softmax(decoder output · W + b)", "softmax(decoder output · W)"),
        ("decoder", "layer 2(… layer 1(embedding))", "LayerNorm(layer 2(… layer 1(embedding)))"),
        (
            "decoder.layers.0",
            "x ← LayerNorm(x + SelfAttention(x)); x ← LayerNorm(x + CrossAttention(x)); "
            "x ← LayerNorm(x + FFN(x))",
            "x ← x + SelfAttention(LayerNorm(x)); x ← x + CrossAttention(LayerNorm(x)); "
            "x ← x + FFN(LayerNorm(x))",
        ),
        (
            "decoder.layers.1.self_attention",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O + b_O",
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₁₂) W_O",
        ),
        ("decoder.cross_attention.key_projection", "K = memory W_K + b_K", "K = memory W_K"),
        ("encoder.self_attention.output_projection", "Concat(…) W_O + b_O", "Concat(…) W_O"),
        ("decoder.layers.0.feed_forward", "max(0, x W₁ + b₁) W₂ + b₂", "max(0, x W₁ + b₁) W₂ + b₂"),
        ("unembedding", "x W + b", "x W"),
    ],
)
def test_module_formulas_follow_the_variant(path: str, post: str, pre: str) -> None:
    assert (describe_module(path, POST).formula, describe_module(path, PRE).formula) == (post, pre)


def test_one_residual_connection_is_around_both_halves_of_a_merged_attention() -> None:
    merged = replace(PRE, merged_attention=True)
    found = {
        (path, model is merged): describe_module(f"{path}_residual", model)
        for path in ("decoder.layers.0.self_attention", "encoder.layers.0.self_attention")
        for model in (PRE, merged)
    }
    titles = [text.title for text in found.values()]
    assert titles == [
        *("residual and norm of self-attention", "residual and norm of both halves"),
        *["residual and norm of self-attention"] * 2,
    ]
    halves = found["decoder.layers.0.self_attention", True].formula
    assert halves != found["decoder.layers.0.self_attention", False].formula
    path = "decoder.layers.0.feed_forward_residual"
    assert describe_module(path, merged) == describe_module(path, PRE)


def test_feed_forward_formula_follows_the_model() -> None:
    for activation, gated, biased, contract, hidden in (
        ("relu", False, False, "W_2", r"\max(0,\, s\,W_1)"),
        ("gelu_new", True, False, "W_2", r"\mathrm{GELU}(s\,W_1) \odot s\,V"),
        ("silu", False, True, "W_2 + b_2", r"\mathrm{Swish}(s\,W_1 + b_1)"),
    ):
        assert feed_forward_formula(activation, gated=gated, biased=biased, read="s") == (
            rf"\begin{{aligned}} \mathrm{{FFN}}(s) &= \mathrm{{hidden}}\,{contract} \\ "
            rf"\mathrm{{hidden}} &= {hidden} \end{{aligned}}"
        )


def test_formulas_follow_scale_positions_and_norm() -> None:
    assert scores_formula(PRE, "cross") == r"QK^\top/\sqrt{d_k}"
    assert scores_formula(RELATIVE, "encoder_self") == r"QK^\top + B"
    assert scores_formula(RELATIVE, "cross") == r"QK^\top"
    assert input_formula(replace(PRE, positions="learned")) == "E[id] + PE(pos)"
    assert input_formula(RELATIVE) == "E[id]"
    normed = replace(PRE, token_norm=True)
    assert input_formula(normed) == "LayerNorm(E[id]) + PE(pos)"
    assert describe_point("decoder.embedding.tokens", normed) == "LayerNorm(E[id])"
    assert describe_point("encoder.embedding.tokens", PRE) == "E[id]"
    for model in (RELATIVE, replace(PRE, embedding_norm=True)):  # no sum, or a norm after it
        first = "the stream that enters the first layer"
        assert describe_point("encoder.embedding.output", model) == first
    path = "encoder.layers.0.feed_forward_residual.norm"
    assert describe_module(path, PRE).formula == "γ (x − mean) / √(variance + ε) + β"
    assert describe_module(path, RELATIVE).formula == "γ x / √(mean of x² + ε)"
    normed = replace(PRE, head_norms=True)
    for name, formula in (
        ("query", "Q = LayerNorm(x W_Q) of each head"),
        ("key", "K = LayerNorm(x W_K) of each head"),
        ("value", "V = x W_V"),
    ):
        path = f"encoder.layers.0.self_attention.{name}_projection"
        assert describe_module(path, normed).formula == formula
    swish = replace(PRE, activation="silu", gated=True)
    formula = describe_module("decoder.layers.0.feed_forward", swish).formula
    assert formula == "(Swish(x W₁ + b₁) ⊙ x V) W₂ + b₂"


# The tree


def seen(name: str) -> HookSummary:
    return HookSummary(name, (1, 7, 3), 0.1, 0.2, 0.3)


def tree_of(model: Transformer, variant: Description) -> ModuleNode:
    tensors = model.named_parameters(remove_duplicate=False)
    return build_module_tree(
        [name for name, _ in model.named_modules(remove_duplicate=False)],
        mark_tied_parameters((name, tuple(tensor.shape), id(tensor)) for name, tensor in tensors),
        [seen(name) for name in hook_names(model)],
        variant,
    )


def test_tree_has_modules_with_parameters_or_hook_points_in_order() -> None:
    names = ["", "z", "z.norm", "z.out", "z.dropout", "b", "b.hook", "empty", "empty.dropout"]
    points = [seen("b.hook"), seen("z.out")]
    tree = build_module_tree(names, [Parameter("z.norm.w", (3,))], points, PRE)
    assert [node.path for node in tree.walk()] == ["", "z", "z.norm", "z.out", "b", "b.hook"]


def test_norm_is_merged_into_its_residual_connection() -> None:
    names = ["", "f_residual", "f_residual.norm", "f_residual.norm.before", "f_residual.norm.norm"]
    weights = [Parameter("f_residual.norm.norm.weight", (7,))]
    [residual] = build_module_tree(names, weights, [seen("f_residual.norm.before")], PRE).parts
    assert [node.path for node in residual.children] == names[3:]
    assert (residual.own, residual.total) == (0, 7)


@pytest.mark.parametrize(
    ("parameters", "summary"), [([Parameter("lost.weight", (3,))], []), ([], [seen("lost")])]
)
def test_what_has_no_module_is_refused(
    parameters: list[Parameter], summary: list[HookSummary]
) -> None:
    with pytest.raises(ValueError, match=r"of the modules, got lost$"):
        build_module_tree([""], parameters, summary, PRE)


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_parameter_counts_of_a_model_by_hand(
    make_model: Callable[..., Transformer], tied: str, final_norm: bool
) -> None:
    """D = 14, h d_k = 15, d_ff = 23; attention 3 (14·15 + 15) + 15·14 + 14 = 899."""
    sources = 41 if tied == "all" else 37
    like = {"tied": tied, "final_norm": final_norm, "source_vocab_size": sources}
    model = make_model(**like, output_bias=True)
    tree = tree_of(model, PRE)
    found = {node.path: node for node in tree.walk() if isinstance(node, ModuleNode)}
    totals = {
        "encoder.layers.0.self_attention": 899,
        "decoder.layers.1.feed_forward": 681,  # 14 · 23 + 23 + 23 · 14 + 14
        "decoder.layers.1.cross_attention_residual": 28,
        "encoder.layers.1": 899 + 681 + 2 * 28,
        "decoder.layers": 2 * (2 * 899 + 681 + 3 * 28),
        "encoder.embedding": sources * 14,
        "decoder.embedding": 0 if tied == "all" else 41 * 14,
        "unembedding": (41 * 14 if tied == "none" else 0) + 41,
    }
    assert {path: found[path].total for path in totals} == totals
    assert ("encoder.final_norm" in found) is final_norm
    assert tree.total == sum(parameter.numel() for parameter in model.parameters())
    first = {"none": None, "output": "decoder.embedding.table.weight"}
    shared = found["unembedding"].parameters[0].shared_with
    assert shared == first.get(tied, "encoder.embedding.table.weight")


def test_tree_has_every_hook_point_of_a_model_once(make_model: Callable[..., Transformer]) -> None:
    model = make_model(norm="post", final_norm=False)
    nodes = [*tree_of(model, POST).walk()]
    points = [node for node in nodes if isinstance(node, HookPointNode)]
    assert [point.path for point in points] == hook_names(model)
    assert all(point.meaning for point in points)
    assert all(node.title and node.formula for node in nodes if isinstance(node, ModuleNode))
