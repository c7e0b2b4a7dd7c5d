"""From a model and a ``Trace`` to one layer of it in full: the border from torch to NumPy.

The pass of the trace is run once more, with its heads switched off where they were, and only what
the ``LayerTrace`` holds is recorded. ``Q`` and ``M`` are the query and key lengths, ``D`` d_model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.ablation import ATTENTIONS, Head, switch_off
from model.attention import MultiHeadAttention
from model.hooks import capture
from model.layers import FeedForward, PostNorm, PreNorm
from model.masks import causal_mask, padding_mask
from model.transformer import Transformer
from viz_app.layer_records import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    Linear,
    Norm,
)
from viz_app.records import Floats, Kind, Trace
from viz_app.trace import to_numpy

_ATTENTION_POINTS = ("query", "key", "value", "scores", "weights", "heads", "output")
_FEED_FORWARD_POINTS = ("hidden", "output")


class _Places(NamedTuple):
    """Hook points around a sublayer, each of (1, Q, D)."""

    stream: str
    """What enters the residual connection."""
    read: str
    """What the sublayer itself is given."""
    result: str
    """What the model goes on with."""


@torch.inference_mode()
def run_layer_trace(model: Transformer, trace: Trace, kind: Kind, layer: int) -> LayerTrace:
    """Run the pass of a trace again and record one layer.

    Args:
        model: the one that the trace is of, in evaluation mode.
        trace: whose source, consumed target and switched-off heads are taken.
        kind: which attention of the layer.
        layer: from 0.

    Raises:
        ValueError: on a layer that the model does not have, or a trace of another model where that
            shows: ids or switched-off heads that this one does not have.
    """
    if not 0 <= layer < model.config.n_layers:
        raise ValueError(
            f"layer: expected 0 to {model.config.n_layers - 1}, got {layer}; choose a layer that "
            "the model has"
        )
    path, _, name = ATTENTIONS[kind].format(layer).rpartition(".")
    places = {sublayer: _places(model, path, sublayer) for sublayer in (name, "feed_forward")}
    points = {
        *(point for of_sublayer in places.values() for point in of_sublayer),
        *(f"{path}.{name}.{point}" for point in _ATTENTION_POINTS),
        *(f"{path}.feed_forward.{point}" for point in _FEED_FORWARD_POINTS),
    }
    source = torch.tensor([trace.source.ids]).to(model.device)
    consumed = torch.tensor([trace.consumed.ids]).to(model.device)
    off = [Head(*head) for head in trace.switched_off]
    with switch_off(model, off), capture(model, points) as seen:
        memory, memory_mask = model.encode(source)  # (1, S, D)
        model.decode(consumed, memory, memory_mask)
    arrays = {point: to_numpy(tensors[0][0]) for point, tensors in seen.items()}
    mask = padding_mask(source)  # (1, 1, 1, S)
    if kind == "decoder_self":
        mask = causal_mask(len(trace.consumed), len(trace.consumed))
    module = cast(MultiHeadAttention, model.get_submodule(f"{path}.{name}"))
    read = arrays[places[name].read]
    norm_first = model.config.norm == "pre"
    attention = AttentionSublayer(
        kind=kind,
        layer=layer,
        n_heads=module.n_heads,
        norm_first=norm_first,
        norm=_norm(model, f"{path}.{name}"),
        query_projection=_linear(module.query_projection),
        key_projection=_linear(module.key_projection),
        value_projection=_linear(module.value_projection),
        output_projection=_linear(module.output_projection),
        allowed=_allowed(mask, len(read)),
        stream=arrays[places[name].stream],
        read=read,
        memory=to_numpy(memory[0]) if kind == "cross" else read,
        **{point: arrays[f"{path}.{name}.{point}"] for point in _ATTENTION_POINTS},
        result=arrays[places[name].result],
    )
    return LayerTrace(attention, _feed_forward(model, arrays, places["feed_forward"], path))


def _feed_forward(
    model: Transformer, arrays: Mapping[str, Floats], places: _Places, path: str
) -> FeedForwardSublayer:
    module = cast(FeedForward, model.get_submodule(f"{path}.feed_forward"))
    return FeedForwardSublayer(
        norm_first=model.config.norm == "pre",
        norm=_norm(model, f"{path}.feed_forward"),
        expand=_linear(module.expand),
        contract=_linear(module.contract),
        stream=arrays[places.stream],
        read=arrays[places.read],
        **{point: arrays[f"{path}.feed_forward.{point}"] for point in _FEED_FORWARD_POINTS},
        result=arrays[places.result],
    )


def _places(model: Transformer, path: str, sublayer: str) -> _Places:
    """Where the stream passes a sublayer of the layer at ``path``.

    Pre-norm has the stream before each norm, post-norm after it; the layer's ``output`` follows the
    last sublayer, and in post-norm that of the layer below comes before the first.
    """
    stack, _, index = path.split(".")
    sublayers = ["self_attention", "cross_attention", "feed_forward"]
    if stack == "encoder":
        sublayers.remove("cross_attention")
    norms = [f"{path}.{name}_residual.norm" for name in sublayers]
    place = sublayers.index(sublayer)
    if model.config.norm == "pre":
        streams = [*(f"{norm}.before" for norm in norms), f"{path}.output"]
        return _Places(streams[place], f"{norms[place]}.after", streams[place + 1])
    below = f"{stack}.layers.{int(index) - 1}.output" if int(index) else f"{stack}.embedding.output"
    streams = [below, *(f"{norm}.after" for norm in norms[:-1]), f"{path}.output"]
    return _Places(streams[place], streams[place], streams[place + 1])


def _allowed(mask: Tensor, n_queries: int) -> NDArray[np.bool_]:
    """A mask (1, 1, Q or 1, M) for every query: (Q, M), read-only."""
    allowed: NDArray[np.bool_] = mask[0, 0].expand(n_queries, -1).cpu().contiguous().numpy()
    allowed.flags.writeable = False
    return allowed


def _weights(tensor: Tensor) -> Floats:
    return to_numpy(tensor.detach().clone())  # else it would change if the model is trained on


def _linear(module: nn.Linear) -> Linear:
    bias = _weights(module.bias) if module.bias is not None else None
    return Linear(_weights(module.weight.T), bias)


def _norm(model: Transformer, sublayer: str) -> Norm:
    residual = cast(PreNorm | PostNorm, model.get_submodule(f"{sublayer}_residual"))
    norm = residual.norm.norm
    return Norm(_weights(norm.weight), _weights(norm.bias), norm.eps)
