"""The parts of an attention, worked again from the model's weights, in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.config import BOS, EOS
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, NormParameters, attention_path
from headwise.model.stream import HeldNorm, attention_as_sum, points_of_attention
from headwise.model.transformer import Transformer
from tests.floats import assert_near

SOURCE, CONSUMED = torch.tensor([[5, 17, 9, 30, 8, EOS]]), torch.tensor([[BOS, 12, 7, 33]])


@pytest.fixture(scope="module", params=["pre", "post"])
def model(make_model: Callable[..., Transformer], request: pytest.FixtureRequest) -> Transformer:
    made = make_model(norm=request.param, final_norm=request.param == "pre", n_encoder_layers=3)
    return made.double()


def biases_of(model: Transformer, path: str, *, of_norm: bool) -> Tensor:
    """Compute what the output has from biases alone: of W_O, W_V and the norm before them, (D,)."""
    get = model.get_parameter
    into_value = get(f"{path}.value_projection.bias")
    if of_norm:
        norm_bias = get(f"{path}_residual.norm.norm.bias")
        into_value = into_value + get(f"{path}.value_projection.weight") @ norm_bias
    output = f"{path}.output_projection"
    return get(f"{output}.bias") + get(f"{output}.weight") @ into_value


@torch.inference_mode()
def test_parts_residual_and_biases_are_what_an_attention_leaves(model: Transformer) -> None:
    points = points_of_attention(model)
    paths = [
        attention_path(k, layer) for k in KINDS for layer in range(model.description.layers(k))
    ]
    afters = [f"{path}_residual.norm.after" for path in paths]
    with capture(model, [*points, *afters]) as seen:
        forced_stream(model, SOURCE, CONSUMED)
    for kind in KINDS:
        for layer in range(model.description.layers(kind)):
            path = attention_path(kind, layer)
            parts = attention_as_sum(model, seen, kind, layer)
            brought = torch.einsum(
                "bhqm,bhmk,hkd->bqd", parts.weights, parts.value, parts.projection
            )
            norm = f"{path}_residual.norm"
            [before], [after], [change] = (
                seen[name] for name in (f"{norm}.before", f"{norm}.after", f"{path}.output")
            )
            if model.description.norm == "pre":
                biases = biases_of(model, path, of_norm=kind != "cross")
                left = before + change
            else:
                gain, bias = (
                    model.get_parameter(f"{norm}.norm.{name}") for name in ("weight", "bias")
                )
                of_output = biases_of(model, path, of_norm=False)
                deviation = (before.var(dim=-1, correction=0, keepdim=True) + 1e-5).sqrt()
                biases = (of_output - of_output.mean()) / deviation * gain + bias
                left = after
            assert_near(parts.y, left)
            assert_near(brought + parts.residual + biases, left)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_held_norm_is_linear_and_gives_what_the_norm_gives(
    make_model: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    model = make_model()
    described = type(model.description)(**{**vars(model.description), "norm_kind": kind})
    monkeypatch.setattr(type(model), "description", described)
    torch.manual_seed(0)
    first, second, gain = (torch.randn(shape, dtype=torch.float64) for shape in ((3, 7), (3, 7), 7))
    held = HeldNorm.at(model, NormParameters(gain, None, 1e-5), first + second)
    whole = first + second
    if kind == "layer":
        expected = torch.nn.functional.layer_norm(whole, (7,), gain, None, 1e-5)
    else:
        expected = torch.nn.functional.rms_norm(whole, (7,), gain, 1e-5)
    assert_near(held(whole), expected)
    assert_near(held(first) + held(second), expected)
