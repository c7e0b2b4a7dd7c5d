"""The account of a word: why the model's score of a word is higher than that of another.

At a step of decoding the difference of two logits is a linear reading of the decoder's output, and
so a sum over everything that was written into the stream (``readings.py``): the token, its
position, each head by the key that it read, each feed-forward by its neurons, and biases. A head of
cross-attention brings something because of what the encoder wrote at the source token that it
read, and values are linear in that: each of its cells is a sum over the encoder's parts again.
These sums are exact, with the divisors of norms held at their values in this pass. (Direct logit
attribution; Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".) They are
direct effects: what later layers make of a part is not in its term.

``L`` layers and ``H`` heads of the decoder, ``E`` layers and ``G`` heads of the encoder, ``S``
source length, ``M`` keys, ``D`` = d_model, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.model.interface import Kind, Stack
from headwise.model.readings import Difference, ForcedPass, Readings, Sublayer, logits_of_part


@dataclass(frozen=True)
class Parts:
    """A reading of a stream at one position as a sum: what each part of the stack brought to it."""

    token: Tensor
    """()."""
    position: Tensor | None
    """(); None where the model adds no positions to its embeddings."""
    heads: Mapping[Kind, Tensor]
    """By the key that was read: (layers, heads, keys)."""
    neurons: Tensor
    """(layers, d_ff)."""
    biases: Tensor
    """()."""

    @property
    def total(self) -> Tensor:
        """Return the sum of all parts, ()."""
        position = 0.0 if self.position is None else self.position
        by_head = sum(part.sum() for part in self.heads.values())
        return self.token + position + by_head + self.neurons.sum() + self.biases


def parts_of(
    forced: ForcedPass, stack: Stack, reading: Tensor, position: int, into: Sublayer | None = None
) -> Parts:
    """Take a reading (D,) of a stack's output apart, or of what a sublayer of it is given.

    Args:
        forced: the pass.
        stack: the encoder or the decoder.
        reading: (D,), float64.
        position: which position is read, from 0.
        into: the sublayer whose input is read; None for the output of the stack.
    """
    places = torch.tensor([position], device=reading.device)
    followed = forced.follow(stack, Readings.one(reading), places, into=into)
    heads: dict[Kind, list[Tensor]] = {}
    neurons, biases = [], followed.of_norms.sum()
    for sublayer, readings in followed.at:
        biases = biases + forced.bias(sublayer, readings).sum()
        if sublayer.kind is None:
            neurons.append(forced.neurons(sublayer, readings, places)[0, 0])
        else:
            by_key = forced.heads_by_key(sublayer, readings, places)[0, 0]
            heads.setdefault(sublayer.kind, []).append(by_key)
    token, of_position = forced.embedding(stack, followed.embedding, places)
    sizes = forced.model.description
    width = sizes.encoder_d_ff if stack == "encoder" else sizes.decoder_d_ff
    return Parts(
        token=token[0, 0],
        position=None if of_position is None else of_position[0, 0],
        heads={kind: torch.stack(layers) for kind, layers in heads.items()},
        neurons=torch.stack(neurons) if neurons else reading.new_zeros(0, width),
        biases=biases,
    )


@dataclass(frozen=True)
class EncoderParts:
    """Each cell of cross-attention, (L, H, S), as a sum over what the encoder wrote there."""

    token: Tensor
    """(L, H, S)."""
    position: Tensor | None
    """(L, H, S); None where the model adds no positions to its embeddings."""
    heads: Tensor
    """(L, H, S, E, G)."""
    feed_forwards: Tensor
    """(L, H, S, E)."""
    biases: Tensor
    """(L, H, S); those of the values are among them."""


@dataclass(frozen=True)
class Account:
    """The difference of two logits at one step as a sum over the parts of the pass, in float64."""

    difference: float
    """The difference that the model computed."""
    parts: Parts
    """Over the decoder; the biases have that of the logits."""
    from_encoder: EncoderParts
    """The cells of ``parts.heads["cross"]`` in turn."""


@torch.inference_mode()
def account_of(forced: ForcedPass, step: int, difference: Difference) -> Account:
    """Give the account of a difference at a step of decoding.

    Args:
        forced: a pass over the target, at least up to this step.
        step: the row of the decoder that predicts the word, from 0.
        difference: which difference, from ``difference_of``.

    Raises:
        ValueError: if the target has no such step.
    """
    if not 0 <= step < len(forced.stream):
        raise ValueError(f"expected a position from 0 to {len(forced.stream) - 1}, got {step}")
    of_decoder = parts_of(forced, "decoder", difference.reading, step)
    return Account(
        difference=float(forced.stream[step] @ difference.reading) + difference.bias,
        parts=Parts(
            of_decoder.token,
            of_decoder.position,
            of_decoder.heads,
            of_decoder.neurons,
            of_decoder.biases + difference.bias,
        ),
        from_encoder=_encoder_parts(forced, step, difference.reading),
    )


def _cross_readings(
    forced: ForcedPass, step: int, reading: Tensor
) -> list[tuple[Sublayer, Tensor]]:
    """Return the cross-attentions and the reading (D,) of what each wrote at a step."""
    places = torch.tensor([step], device=reading.device)
    followed = forced.follow("decoder", Readings.one(reading), places)
    return [
        (sub, read.directions[0] * read.factors[0])
        for sub, read in followed.at
        if sub.kind == "cross"
    ]


def _encoder_parts(forced: ForcedPass, step: int, reading: Tensor) -> EncoderParts:
    crosses = _cross_readings(forced, step, reading)
    of_values = [forced.value_readings(cross, read, step) for cross, read in crosses]
    biases = torch.cat([forced.value_biases(cross, read, step) for cross, read in crosses])
    all_of_values = Readings(  # of each layer and head, (L H, S)
        torch.cat([each.directions for each in of_values]),
        torch.cat([each.factors for each in of_values]),
    )
    places = torch.arange(biases.shape[1], device=reading.device)
    followed = forced.follow("encoder", all_of_values, places)
    biases = biases + followed.of_norms
    heads, feed_forwards = [], []
    for sublayer, readings in followed.at:
        biases = biases + forced.bias(sublayer, readings)
        if sublayer.kind is None:
            feed_forwards.append(forced.feed_forward(sublayer, readings, places))
        else:
            heads.append(forced.heads(sublayer, readings, places))
    token, position = forced.embedding("encoder", followed.embedding, places)

    def by_layer(found: Tensor) -> Tensor:  # (L H, …) → (L, H, …)
        return found.view(len(crosses), -1, *found.shape[1:])

    return EncoderParts(
        token=by_layer(token),
        position=None if position is None else by_layer(position),
        heads=by_layer(torch.stack(heads, dim=-2)),
        feed_forwards=by_layer(torch.stack(feed_forwards, dim=-1)),
        biases=by_layer(biases),
    )


@torch.inference_mode()
def cell_parts(
    forced: ForcedPass, step: int, difference: Difference, layer: int, head: int, key: int
) -> Parts:
    """Take one cell of cross-attention apart over the encoder, its heads by the token they read.

    Args:
        forced, step, difference: as for ``account_of``.
        layer, head: the head of cross-attention, from 0.
        key: the source token that it read, from 0.
    """
    cross, read = _cross_readings(forced, step, difference.reading)[layer]
    readings = forced.value_readings(cross, read, step)
    reading = readings.directions[head] * readings.factors[head, key]
    parts = parts_of(forced, "encoder", reading, key)
    own = forced.value_biases(cross, read, step)[head, key]
    return Parts(parts.token, parts.position, parts.heads, parts.neurons, parts.biases + own)


@torch.inference_mode()
def neuron_drivers(
    forced: ForcedPass, position: int, layer: int, neuron: int, *, stack: Stack = "decoder"
) -> dict[str, Parts]:
    """Take the input of a neuron apart, at a position of a stack, before its activation function.

    Returns:
        By the name of the linear layer: ``expand``, and ``gate`` where the feed-forward is gated
        and multiplies two of them. The biases have that of the linear layer.

    Raises:
        ValueError: if there is no such neuron.
    """
    sizes = forced.model.description
    layers, width = (
        (sizes.n_decoder_layers, sizes.decoder_d_ff)
        if stack == "decoder"
        else (sizes.n_encoder_layers, sizes.encoder_d_ff)
    )
    if not (0 <= layer < layers and 0 <= neuron < width):
        raise ValueError(
            f"expected a layer below {layers} and a neuron below {width}, got {layer} and {neuron}"
        )
    feed_forward = Sublayer(stack, layer, None)
    found = {}
    for name in ("expand", "gate") if sizes.gated else ("expand",):
        weight, bias = forced.model.linear(f"{feed_forward.path}.{name}")
        reading = weight[:, neuron].double()
        parts = parts_of(forced, stack, reading, position, into=feed_forward)
        own = 0.0 if bias is None else bias[neuron].double()
        found[name] = Parts(
            parts.token, parts.position, parts.heads, parts.neurons, parts.biases + own
        )
    return found


@torch.inference_mode()
def neuron_logits(forced: ForcedPass, step: int, layer: int, neuron: int) -> Tensor:
    """Return what a neuron of the decoder adds to all logits at a step, by unit of activation.

    Returns:
        (V,), with the divisors of norms held; its direct effect, as in an account.
    """
    feed_forward = Sublayer("decoder", layer, None)
    written = forced.model.linear(f"{feed_forward.path}.contract").weight[neuron].double()
    carried = forced.carry(feed_forward, written, step)
    return logits_of_part(forced.model, carried)
