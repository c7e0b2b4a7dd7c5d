from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from model.hooks import hook_names
from model.transformer import Transformer
from viz_app.analysis.formulas import Variant, describe_module, describe_point, residual_formula
from viz_app.analysis.modules import counted_once, module_tree
from viz_app.module_records import Module, Parameter, Point
from viz_app.records import HookSummary

PRE = Variant(
    norm_first=True,
    final_norm=True,
    attention_bias=True,
    output_bias=False,
    scaled=True,
    layers=2,
    heads=3,
)
POST = replace(
    PRE, norm_first=False, final_norm=False, attention_bias=False, output_bias=True, scaled=False
)


def seen(name: str) -> HookSummary:
    return HookSummary(name, (1, 7, 3), 0.1, 0.2, 0.3)


def tree_of(model: Transformer, variant: Variant = PRE) -> Module:
    tensors = model.named_parameters(remove_duplicate=False)
    return module_tree(
        [name for name, _ in model.named_modules(remove_duplicate=False)],
        counted_once((name, tuple(tensor.shape), id(tensor)) for name, tensor in tensors),
        [seen(name) for name in hook_names(model)],
        variant,
    )


def modules(tree: Module) -> dict[str, Module]:
    return {node.path: node for node in tree.walk() if isinstance(node, Module)}


# Counting


def test_a_tied_tensor_is_counted_at_its_first_place() -> None:
    parameters = counted_once(
        [("a.weight", (5, 7), 1), ("b.weight", (5, 7), 1), ("b.bias", (5,), 2), ("c.w", (5, 7), 3)]
    )
    assert [p.shared_with for p in parameters] == [None, "a.weight", None, None]
    assert [p.count for p in parameters] == [35, 0, 5, 35]


def test_totals_are_what_a_module_and_all_below_it_have() -> None:
    leaf = Module("a.b.c", "", "", "", (Parameter("a.b.c.w", (3, 5)),), ())
    inner = Module("a.b", "", "", "", (Parameter("a.b.w", (7,)),), (leaf, Point(seen("a.b.h"), "")))
    outer = Module("a", "", "", "", (Parameter("a.w", (11, 13), "x.w"),), (inner,))
    assert [(m.own, m.total) for m in (leaf, inner, outer)] == [(15, 15), (7, 22), (0, 22)]
    assert [node.path for node in outer.walk()] == ["a", "a.b", "a.b.c", "a.b.h"]


def test_the_tree_has_what_holds_a_parameter_or_a_hook_point_in_the_model_s_order() -> None:
    names = ["", "z", "z.norm", "z.out", "z.dropout", "b", "b.hook", "empty", "empty.dropout"]
    tree = module_tree(names, [Parameter("z.norm.w", (3,))], [seen("b.hook"), seen("z.out")], PRE)
    assert [node.path for node in tree.walk()] == ["", "z", "z.norm", "z.out", "b", "b.hook"]


def test_a_residual_has_what_its_norm_holds() -> None:
    names = ["", "f_residual", "f_residual.norm", "f_residual.norm.before", "f_residual.norm.norm"]
    weights = [Parameter("f_residual.norm.norm.weight", (7,))]
    [residual] = module_tree(names, weights, [seen("f_residual.norm.before")], PRE).parts
    assert [node.path for node in residual.children] == names[3:]
    assert (residual.own, residual.total) == (0, 7)


@pytest.mark.parametrize("stranger", ["parameter", "hook point"])
def test_what_belongs_to_no_module_is_refused(stranger: str) -> None:
    parameters = [Parameter("lost.weight", (3,))] if stranger == "parameter" else []
    summary = [seen("lost")] if stranger == "hook point" else []
    with pytest.raises(ValueError, match=r"of the modules, got lost$"):
        module_tree([""], parameters, summary, PRE)


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_a_real_model_is_counted_by_hand(
    make_model: Callable[..., Transformer], tied: str, final_norm: bool
) -> None:
    """D = 14, h d_k = 15, d_ff = 23; attention 3 (14·15 + 15) + 15·14 + 14 = 899."""
    sizes = {"source_vocab_size": 37} if tied != "all" else {"source_vocab_size": 41}
    model = make_model(tied=tied, final_norm=final_norm, output_bias=True, **sizes)
    tree = tree_of(model)
    found = modules(tree)
    assert found["encoder.layers.0.self_attention"].total == 899
    assert found["decoder.layers.1.feed_forward"].total == 14 * 23 + 23 + 23 * 14 + 14 == 681
    assert found["decoder.layers.1.cross_attention_residual"].total == 28
    assert found["encoder.layers.1"].total == 899 + 681 + 2 * 28
    assert found["decoder.layers"].total == 2 * (2 * 899 + 681 + 3 * 28)
    assert found["encoder.embedding"].total == sizes["source_vocab_size"] * 14
    assert found["decoder.embedding"].total == (0 if tied == "all" else 41 * 14)
    assert found["unembedding"].total == (41 * 14 if tied == "none" else 0) + 41
    assert ("encoder.final_norm" in found) is final_norm
    assert tree.total == sum(parameter.numel() for parameter in model.parameters())
    first = found["unembedding"].parameters[0].shared_with
    expected = {"none": None, "output": "decoder.embedding.table.weight"}
    assert first == expected.get(tied, "encoder.embedding.table.weight")


def test_every_hook_point_of_a_real_model_stands_in_the_tree_once(
    make_model: Callable[..., Transformer],
) -> None:
    model = make_model(norm="post", final_norm=False)
    tree = tree_of(model, POST)
    points = [node for node in tree.walk() if isinstance(node, Point)]
    assert [point.path for point in points] == hook_names(model)
    assert all(point.meaning for point in points)
    assert all(module.title and module.formula for module in modules(tree).values())


# Formulas


@pytest.mark.parametrize(
    ("path", "variant", "formula"),
    [
        ("", PRE, "softmax(decoder output · W)"),
        ("", POST, "softmax(decoder output · W + b)"),
        ("encoder", PRE, "LayerNorm(layer 2(… layer 1(embedding)))"),
        ("decoder", POST, "layer 2(… layer 1(embedding))"),
        ("encoder.embedding", PRE, "√D · E[id] + PE(pos)"),
        ("decoder.embedding", POST, "E[id] + PE(pos)"),
        ("decoder.layers", PRE, "x ← layer(x), 2 times"),
        (
            "encoder.layers.1",
            PRE,
            "x ← x + SelfAttention(LayerNorm(x)); x ← x + FFN(LayerNorm(x))",
        ),
        (
            "decoder.layers.0",
            POST,
            "x ← LayerNorm(x + SelfAttention(x)); x ← LayerNorm(x + CrossAttention(x)); "
            "x ← LayerNorm(x + FFN(x))",
        ),
        (
            "encoder.layers.1.self_attention",
            PRE,
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₃) W_O + b_O",
        ),
        (
            "decoder.layers.1.self_attention",
            POST,
            "headᵢ = softmax(QKᵀ/√d_k + mask)V; Concat(head₁ … head₃) W_O",
        ),
        (
            "decoder.layers.1.cross_attention",
            POST,
            "headᵢ = softmax(QKᵀ/√d_k)V; Concat(head₁ … head₃) W_O",
        ),
        ("decoder.layers.1.cross_attention.query_projection", PRE, "Q = x W_Q + b_Q"),
        ("decoder.layers.1.cross_attention.key_projection", PRE, "K = memory W_K + b_K"),
        ("decoder.layers.1.self_attention.value_projection", POST, "V = x W_V"),
        ("encoder.layers.0.self_attention.output_projection", PRE, "Concat(…) W_O + b_O"),
        ("encoder.layers.0.self_attention_residual", PRE, "x + SelfAttention(LayerNorm(x))"),
        ("decoder.layers.0.cross_attention_residual", POST, "LayerNorm(x + CrossAttention(x))"),
        ("decoder.layers.0.feed_forward_residual", POST, "LayerNorm(x + FFN(x))"),
        ("decoder.layers.0.feed_forward", POST, "max(0, x W₁ + b₁) W₂ + b₂"),
        ("unembedding", POST, "x W + b"),
        ("unembedding", PRE, "x W"),
        ("something.new", PRE, ""),
    ],
)
def test_formulas_are_those_of_the_variant(path: str, variant: Variant, formula: str) -> None:
    assert describe_module(path, variant).formula == formula


def test_names_count_layers_from_one() -> None:
    assert describe_module("encoder.layers.0", PRE).title == "layer 1"
    assert describe_module("encoder", POST).what.endswith("no norm on top")
    assert describe_module("some_thing", PRE).title == "some-thing"


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        ("encoder.embedding.tokens", "√D · E[id]"),
        ("encoder.embedding.output", "their sum"),
        ("decoder.layers.1.cross_attention.output", "after W_O"),
        ("decoder.layers.1.feed_forward.output", "after W₂"),
        ("decoder.layers.1.output", "the stream that the layer hands on"),
        ("logits", "before the softmax"),
        ("strange", ""),
    ],
)
def test_a_hook_point_says_what_it_holds(path: str, meaning: str) -> None:
    assert describe_point(path, PRE) == meaning


def test_unscaled_embeddings_say_so() -> None:
    assert describe_point("encoder.embedding.tokens", POST) == "E[id]"
    assert residual_formula("f", PRE) != residual_formula("f", POST)
