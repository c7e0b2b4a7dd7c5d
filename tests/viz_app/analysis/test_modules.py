from __future__ import annotations

from collections.abc import Callable

import pytest

from headwise.model.hooks import hook_names
from headwise.model.interface import Description
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.modules import build_module_tree, mark_tied_parameters
from headwise.viz_app.records.model import HookPointNode, ModuleNode, Parameter
from headwise.viz_app.records.trace import HookSummary


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


def modules(tree: ModuleNode) -> dict[str, ModuleNode]:
    return {node.path: node for node in tree.walk() if isinstance(node, ModuleNode)}


def test_tied_tensor_is_counted_once() -> None:
    parameters = mark_tied_parameters(
        [("a.weight", (5, 7), 1), ("b.weight", (5, 7), 1), ("b.bias", (5,), 2), ("c.w", (5, 7), 3)]
    )
    assert [p.shared_with for p in parameters] == [None, "a.weight", None, None]
    assert [p.count for p in parameters] == [35, 0, 5, 35]


def test_tree_has_modules_with_parameters_or_hook_points_in_order(pre_norm: Description) -> None:
    names = ["", "z", "z.norm", "z.out", "z.dropout", "b", "b.hook", "empty", "empty.dropout"]
    tree = build_module_tree(
        names, [Parameter("z.norm.w", (3,))], [seen("b.hook"), seen("z.out")], pre_norm
    )
    assert [node.path for node in tree.walk()] == ["", "z", "z.norm", "z.out", "b", "b.hook"]


def test_norm_is_merged_into_its_residual_connection(pre_norm: Description) -> None:
    names = ["", "f_residual", "f_residual.norm", "f_residual.norm.before", "f_residual.norm.norm"]
    weights = [Parameter("f_residual.norm.norm.weight", (7,))]
    [residual] = build_module_tree(names, weights, [seen("f_residual.norm.before")], pre_norm).parts
    assert [node.path for node in residual.children] == names[3:]
    assert (residual.own, residual.total) == (0, 7)


@pytest.mark.parametrize("stranger", ["parameter", "hook point"])
def test_parameter_or_hook_point_without_module_is_refused(
    stranger: str, pre_norm: Description
) -> None:
    parameters = [Parameter("lost.weight", (3,))] if stranger == "parameter" else []
    summary = [seen("lost")] if stranger == "hook point" else []
    with pytest.raises(ValueError, match=r"of the modules, got lost$"):
        build_module_tree([""], parameters, summary, pre_norm)


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_parameter_counts_of_a_model_by_hand(
    make_model: Callable[..., Transformer], pre_norm: Description, tied: str, final_norm: bool
) -> None:
    """D = 14, h d_k = 15, d_ff = 23; attention 3 (14·15 + 15) + 15·14 + 14 = 899."""
    sizes = {"source_vocab_size": 37} if tied != "all" else {"source_vocab_size": 41}
    model = make_model(tied=tied, final_norm=final_norm, output_bias=True, **sizes)
    tree = tree_of(model, pre_norm)
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


def test_tree_has_every_hook_point_of_a_model_once(
    make_model: Callable[..., Transformer], post_norm: Description
) -> None:
    model = make_model(norm="post", final_norm=False)
    tree = tree_of(model, post_norm)
    points = [node for node in tree.walk() if isinstance(node, HookPointNode)]
    assert [point.path for point in points] == hook_names(model)
    assert all(point.meaning for point in points)
    assert all(module.title and module.formula for module in modules(tree).values())
