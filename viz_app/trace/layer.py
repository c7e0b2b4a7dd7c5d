"""Runs a model once more on the input of a ``Trace`` and records one layer in full.

This is the border from torch to NumPy. Heads that were turned in the trace are turned
again. ``S`` is the source length, ``Q`` and ``M`` are the query and key lengths, ``D`` d_model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.model.hooks import capture, hook_names
from headwise.model.interface import Description, Kind, NormParameters, Seq2SeqModel, attention_path
from headwise.model.masks import causal_mask, padding_mask
from headwise.model.turning import turn
from headwise.viz_app.records.model import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    LinearWeights,
    NormWeights,
)
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.attention import ids_tensor, read_only, to_numpy

_ATTENTION_POINTS = ("query", "key", "value", "scores", "weights", "heads", "output")
_FEED_FORWARD_POINTS = ("hidden", "output")


class _StreamPoints(NamedTuple):
    """The hook points at which the stream passes a sublayer; each tensor is (1, Q, D)."""

    stream: str  # the point before the residual connection
    read: str  # the point of the sublayer's input
    result: str  # the point after the residual connection, and after its norm in post-norm


@torch.inference_mode()
def run_layer_trace(model: Seq2SeqModel, trace: Trace, kind: Kind, layer: int) -> LayerTrace:
    """Run the pass of a trace again, as it was turned, and record one layer, counted from 0.

    ValueError if the model has no such layer, or the trace is of another model.
    """
    layers = model.description.layers(kind)
    if not 0 <= layer < layers:
        raise ValueError(
            f"layer: expected 0 to {layers - 1}, got {layer}; choose a layer that the model has"
        )
    attention, feed_forward = _run_layer(model, trace, kind, layer)
    if model.description.merged_attention and kind != "encoder_self":
        other_kind: Kind = "cross" if kind == "decoder_self" else "decoder_self"
        other, _ = _run_layer(model, trace, other_kind, layer)
        attention = replace(attention, other=replace(other, other=attention))
    return LayerTrace(attention, feed_forward)


def _run_layer(
    model: Seq2SeqModel, trace: Trace, kind: Kind, layer: int
) -> tuple[AttentionSublayer, FeedForwardSublayer]:
    path, _, name = attention_path(kind, layer).rpartition(".")
    places = {
        sublayer: _stream_points(model, path, sublayer) for sublayer in (name, "feed_forward")
    }
    points = {
        *(point for of_sublayer in places.values() for point in of_sublayer),
        *(f"{path}.{name}.{point}" for point in _ATTENTION_POINTS),
        *(f"{path}.feed_forward.{point}" for point in _FEED_FORWARD_POINTS),
    }
    bias_point = f"{path}.{name}.bias"
    if bias_point in hook_names(model):
        points.add(bias_point)
    source, consumed = (ids_tensor(model, side.ids) for side in (trace.source, trace.consumed))
    with turn(model, trace.turned), capture(model, points) as seen:
        memory, memory_mask = model.encode(source)  # (1, S, D)
        model.decode(consumed, memory, memory_mask)
    arrays = {point: to_numpy(tensors[0][0]) for point, tensors in seen.items()}
    mask = padding_mask(source)  # (1, 1, 1, S)
    if kind == "decoder_self":
        mask = causal_mask(len(trace.consumed), len(trace.consumed))
    read = arrays[places[name].read]
    d_k = arrays[f"{path}.{name}.query"].shape[-1]
    description = model.description.of(kind)
    projection = f"{path}.{name}.{{}}_projection".format
    rotation = model.rotation(projection("query"), len(read))
    attention = AttentionSublayer(
        kind=kind,
        layer=layer,
        n_heads=model.description.heads(kind),
        norm_first=description.norm == "pre",
        norm=_norm(model.norm(f"{path}.{name}")),
        output_norm=_norm_if_any(model.output_norm(f"{path}.{name}")),
        query_projection=_linear(model, projection("query")),
        key_projection=_linear(model, projection("key")),
        value_projection=_linear(model, projection("value")),
        output_projection=_linear(model, projection("output")),
        allowed=read_only(mask[0, 0].expand(len(read), -1)),
        stream=arrays[places[name].stream],
        read=read,
        memory=to_numpy(memory[0]) if kind == "cross" else read,
        query_norm=_norm_if_any(model.head_norm(projection("query"))),
        key_norm=_norm_if_any(model.head_norm(projection("key"))),
        turns_keys=model.rotation(projection("key"), 1) is not None,
        rotation=None if rotation is None else (to_numpy(rotation.cos), to_numpy(rotation.sin)),
        position_bias=arrays.get(bias_point),
        scale=description.score_scale(d_k),
        cap=description.score_cap,
        key_heads=description.key_heads or model.description.heads(kind),
        **{point: arrays[f"{path}.{name}.{point}"] for point in _ATTENTION_POINTS},
        result=arrays[places[name].result],
        other=None,
    )
    return attention, _feed_forward(model, arrays, places["feed_forward"], path)


def _description(model: Seq2SeqModel, path: str) -> Description:
    return model.description.of("encoder" if path.startswith("encoder") else "decoder")


def _feed_forward(
    model: Seq2SeqModel, arrays: Mapping[str, Floats], places: _StreamPoints, path: str
) -> FeedForwardSublayer:
    description = _description(model, path)
    return FeedForwardSublayer(
        norm_first=description.norm == "pre",
        norm=_norm(model.norm(f"{path}.feed_forward")),
        output_norm=_norm_if_any(model.output_norm(f"{path}.feed_forward")),
        activation=description.activation,
        expand=_linear(model, f"{path}.feed_forward.expand"),
        gate=_linear(model, f"{path}.feed_forward.gate") if description.gated else None,
        contract=_linear(model, f"{path}.feed_forward.contract"),
        stream=arrays[places.stream],
        read=arrays[places.read],
        **{point: arrays[f"{path}.feed_forward.{point}"] for point in _FEED_FORWARD_POINTS},
        result=arrays[places.result],
    )


def _stream_points(model: Seq2SeqModel, path: str, sublayer: str) -> _StreamPoints:
    """Return where the stream passes a sublayer of the layer at ``path``.

    Pre-norm has the stream before each norm, post-norm after it; the layer's ``output`` follows the
    last sublayer, and in post-norm that of the layer below comes before the first.
    """
    stack, _, index = path.split(".")
    sublayers = ["self_attention", "cross_attention", "feed_forward"]
    if stack == "encoder" or model.description.merged_attention:
        sublayers.remove("cross_attention")
        sublayer = sublayer.replace("cross", "self")  # whose stream it has, if they are merged
    norms = [f"{path}.{name}_residual.norm" for name in sublayers]
    place = sublayers.index(sublayer)
    if _description(model, path).norm == "pre":
        streams = [*(f"{norm}.before" for norm in norms), f"{path}.output"]
        return _StreamPoints(streams[place], f"{norms[place]}.after", streams[place + 1])
    below = f"{stack}.layers.{int(index) - 1}.output" if int(index) else f"{stack}.embedding.output"
    streams = [below, *(f"{norm}.after" for norm in norms[:-1]), f"{path}.output"]
    return _StreamPoints(streams[place], streams[place], streams[place + 1])


def _weights(tensor: Tensor) -> Floats:
    return to_numpy(tensor.detach().clone())  # else it would change if the model is trained on


def _linear(model: Seq2SeqModel, path: str) -> LinearWeights:
    weight, bias = model.linear(path)
    return LinearWeights(_weights(weight), _weights(bias) if bias is not None else None)


def _norm_if_any(norm: NormParameters | None) -> NormWeights | None:
    return None if norm is None else _norm(norm)


def _norm(norm: NormParameters) -> NormWeights:
    gain, bias, epsilon = norm
    return NormWeights(_weights(gain), _weights(bias) if bias is not None else None, epsilon)
