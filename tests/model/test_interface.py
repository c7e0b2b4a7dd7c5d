from __future__ import annotations

from collections.abc import Callable

import pytest

from headwise.model.hooks import hook_names
from headwise.model.interface import KINDS, Head, Kind, attention_path, head_name, parse_head
from headwise.model.transformer import Transformer


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Transformer]) -> Transformer:
    return make_model(n_encoder_layers=3, n_decoder_layers=2)


def test_kinds_have_the_layers_of_their_stack(model: Transformer) -> None:
    shapes = {"encoder_self": (3, 3), "decoder_self": (2, 3), "cross": (2, 3)}
    assert model.description.shapes == shapes


def test_heads_are_listed_kind_by_kind_and_layer_by_layer(model: Transformer) -> None:
    heads = model.description.all_heads()
    assert len(set(heads)) == len(heads) == (3 + 2 + 2) * 3
    assert heads == sorted(heads, key=lambda head: (KINDS.index(head.kind), *head[1:]))
    assert heads[3] == Head("encoder_self", 1, 0)


def test_heads_are_named_from_1(model: Transformer) -> None:
    assert head_name(Head("cross", 1, 3)) == "cross.2.4"
    for head in model.description.all_heads():
        assert parse_head(head_name(head)) == head


@pytest.mark.parametrize("name", ["", "cross", "cross.2", "cross.0.1", "cross.1.2.3", "both.1.1"])
def test_what_names_no_head_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected a head such as cross\.2\.4, got '"):
        parse_head(name)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_paths_lead_to_hook_points(model: Transformer, kind: Kind) -> None:
    layers = model.description.layers(kind)
    names = set(hook_names(model))
    found = [f"{attention_path(kind, layer)}.weights" in names for layer in range(layers + 1)]
    assert found == [True] * layers + [False]


def test_parameters_are_found_by_path(model: Transformer) -> None:
    path = attention_path("cross", 1)
    weight, bias = model.linear(f"{path}.output_projection")
    description = model.description
    assert weight.shape == (
        description.n_decoder_heads * description.decoder_d_k,
        description.d_model,
    )
    assert bias is not None
    gain, _, epsilon = model.norm(path)
    assert gain.shape == (description.d_model,)
    assert epsilon > 0
    assert model.embedding_table("source").shape == (37, description.d_model)
    assert model.embedding_table("target").shape == (41, description.d_model)
