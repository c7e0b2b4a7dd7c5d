"""The account of a word: why the model's score of it is higher than that of another word.

At a step of decoding the difference of two logits is a linear reading of the decoder's output, and
so a sum over everything that was written into the stream (``model/readings.py``): the token, its
position, each head by the key that it read, each feed-forward by its neurons, and biases. A head of
cross-attention brings something because of what the encoder wrote at the source token that it
read, and values are linear in that: each of its cells is a sum over the encoder's parts again.
These sums are exact, with the divisors of norms held at their values in this pass. (Direct logit
attribution; Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".) They are
direct effects: what later layers make of a part is not in its term. What was turned in the trace is
turned here.

``L`` layers and ``H`` heads of the decoder, ``S`` source length, ``P`` parts. A cell is one weight
of cross-attention, (L, H, S).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import Description, Kind, Seq2SeqModel, Stack, Tokenizers
from headwise.model.placement import in_float32
from headwise.model.readings import ForcedPass, Readings, Sublayer, difference_of, logits_of_part
from headwise.model.spelling import single_token
from headwise.model.ties import top_k
from headwise.viz_app.analysis.labels import OFF_NOTE
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.records.trace import Doubles, Floats, Trace
from headwise.viz_app.trace.attention import doubles, ids_tensor

MEAN = "mean"
"""Compares a word with the mean of all logits."""
WHOLE_NOTE = (
    "what the difference loses when the part is taken out of the pass, a head by switching it off, "
    f"a feed-forward by setting its neurons to zero; for these there is no sum. {OFF_NOTE}"
)
"""What a whole effect is."""
WholeEffects = Mapping[Stack, Mapping[str, float]]
"""What the difference loses when a head or feed-forward is taken out of the pass, by its name."""


@dataclass(frozen=True)
class Parts:
    """A linear reading of a stream at one position, or of each cell, as a sum over its parts."""

    token: Doubles
    """(), or (L, H, S) of cells."""
    position: Doubles | None
    """As ``token``; None where the model adds no positions to its embeddings."""
    heads: Mapping[Kind, Doubles]
    """By the key that was read, (layers, heads, keys); of cells (L, H, S, layers, heads). A kind
    that the stack does not have is absent."""
    neurons: Doubles
    """Of each neuron, (layers, d_ff); of cells those of a feed-forward together, (…, layers)."""
    biases: Doubles
    """As ``token``."""

    @property
    def feed_forwards(self) -> Doubles:
        """Return the sums over neurons: (layers,), or (L, H, S, layers) of cells."""
        return self._summed(self.neurons, 1)

    def named(self) -> Iterator[tuple[str, Doubles]]:
        """Yield each part with its name, shaped as ``token``, in the order of the computation."""
        yield "token", self.token
        if self.position is not None:
            yield "position", self.position
        heads = {kind: self._summed(self.heads[kind], 2) for kind in _ORDER if kind in self.heads}
        feed_forwards = self.feed_forwards
        layers = [array.shape[-2] for array in heads.values()] + [feed_forwards.shape[-1]]
        for layer in range(max(layers)):
            for kind, array in heads.items():
                for head in range(array.shape[-1] * (layer < array.shape[-2])):
                    yield f"{kind}.{layer + 1}.{head + 1}", array[..., layer, head]
            if layer < feed_forwards.shape[-1]:
                yield f"feed_forward.{layer + 1}", feed_forwards[..., layer]
        yield "biases", self.biases

    def sums(self) -> dict[str, float]:
        """Return each part by its name, those of cells summed over all cells."""
        return {name: float(values.sum()) for name, values in self.named()}

    @property
    def total(self) -> float:
        """Return the sum of all parts."""
        return sum(self.sums().values())

    def _summed(self, array: Doubles, axes: int) -> Doubles:
        """Sum an array over what stands behind the axes of cells and ``axes`` more."""
        kept = self.token.ndim + axes
        return array.sum(axis=tuple(range(kept, array.ndim))) if kept < array.ndim else array


_ORDER: tuple[Kind, ...] = ("encoder_self", "decoder_self", "cross")


@dataclass(frozen=True)
class Account:
    """Why a word has a higher logit than another at one step, as a sum of direct effects."""

    step: int
    """The row of the decoder, from 0."""
    word: int
    """Id of the token."""
    instead: int | None
    """Id of the other token; None for the mean of all logits."""
    difference: float
    """Logit of the word less the other, as the model computed it: the logarithm of the ratio of
    the two probabilities, if there are two tokens. Logits that a model caps are those before."""
    parts: Parts
    """Over the decoder; the biases have that of the logits."""
    from_encoder: Parts
    """The cells of ``parts.heads["cross"]`` over the encoder; those of values are in the biases."""
    held: str
    """What is held at its value in the pass, as ``what_is_held`` says it."""

    @property
    def deviation(self) -> float:
        """Return by how much the sum of the parts misses the difference: rounding of the pass."""
        return self.parts.total - self.difference

    @property
    def limit(self) -> float:
        """Return the magnitude at both ends of every scale of the account: the largest part's."""
        return max(abs(value) for _, value in self.named()) or 1.0

    def named(self) -> Iterator[tuple[str, float]]:
        """Yield every part of the decoder with its name, in the order of the computation."""
        yield from self.parts.sums().items()

    def by_head(self) -> dict[Kind, Floats]:
        """Return the direct effect of every head, (L, H) for each kind.

        Heads of the encoder write nothing into the decoder: theirs is their part of what the heads
        of cross-attention brought, all together.
        """
        heads = {kind: cells.sum(axis=-1) for kind, cells in self.parts.heads.items()}
        heads["encoder_self"] = self.from_encoder.heads["encoder_self"].sum(axis=(0, 1, 2))
        return {kind: values.astype(np.float32) for kind, values in heads.items()}

    def arrays(self, effects: WholeEffects) -> dict[str, NDArray[np.generic]]:
        """Return the account as arrays under the names that files have.

        ``parts`` and ``whole`` are (P,) for ``part_names``, ``cross_from_encoder`` is (L, H, S, P)
        and ``encoder_whole`` (P,) for ``encoder_part_names``; what has no whole effect is NaN.
        ``held`` says what the direct effects hold, ``taken_out`` how whole effects are made.
        """
        parts, cells = dict(self.named()), dict(self.from_encoder.named())
        whole, encoder_whole = (
            np.array([of_stack.get(name, np.nan) for name in names])
            for of_stack, names in ((effects["decoder"], parts), (effects["encoder"], cells))
        )
        return {
            "difference": np.array(self.difference),
            "part_names": np.array([*parts]),
            "parts": np.array([*parts.values()]),
            "whole": whole,
            "heads_cross": self.parts.heads["cross"],
            "heads_decoder_self": self.parts.heads["decoder_self"],
            "neurons": self.parts.neurons,
            "encoder_part_names": np.array([*cells]),
            "cross_from_encoder": np.stack([*cells.values()], axis=-1),
            "encoder_whole": encoder_whole,
            "held": np.array(self.held),
            "taken_out": np.array(WHOLE_NOTE),
        }


@of_trace("account")
@torch.inference_mode()
def run_account(model: Seq2SeqModel, trace: Trace, at: int, instead: int | None) -> Account:
    """Give the account of the word at a step of a traced target.

    Args:
        model: the model of the trace.
        trace: the sentence; its target is forced.
        at: the row of the decoder that predicts the word, from 0.
        instead: id of the word to compare with; None for the mean of all logits.

    Raises:
        ValueError: if the target has no such step, or the two words are the same or unknown.
    """
    word = word_at(trace, at)
    difference = difference_of(model, word, instead)
    forced = pass_to(model, trace, at)
    parts = _parts(forced, "decoder", Readings.one(difference.reading), at)
    crosses = _crosses(forced, at, difference.reading)
    values = [forced.value_readings(cross, read, at) for cross, read in crosses]
    biases = torch.cat([forced.value_biases(cross, read, at) for cross, read in crosses])
    cells = Readings(  # of each layer and head, (L H, S)
        torch.cat([each.directions for each in values]),
        torch.cat([each.factors for each in values]),
    )
    source = torch.arange(biases.shape[1], device=biases.device)
    return Account(
        step=at,
        word=word,
        instead=instead,
        difference=float(forced.stream[at] @ difference.reading) + difference.bias,
        parts=replace(parts, biases=np.asarray(parts.biases + difference.bias)),
        from_encoder=_parts(
            forced,
            "encoder",
            cells,
            source,
            of_cells=(len(crosses), -1, len(source)),
            biases=biases,
        ),
        held=what_is_held(model.description),
    )


def what_is_held(model: Description) -> str:
    """Say what is held at its value in the pass, so that the stream is a sum."""
    is_one = model.norm == "pre" and not (model.output_transform or model.output_norms)
    held = "the divisors of all norms on the way"
    if model.norm == "pre":
        held = "the divisor of the last norm"
    if model.output_norms:
        held = "the divisors of the last norm and of the norms of what each sublayer gives"
    if model.output_transform:
        held += (
            ", and the factors by which the activation function before the unembedding multiplies "
            "what it is given,"
        )
    return f"{held} {'is held at its value' if is_one else 'are held at their values'} in this pass"


@of_trace("cell of an account")
@torch.inference_mode()
def run_cell(
    model: Seq2SeqModel, trace: Trace, at: int, instead: int | None, layer: int, head: int, key: int
) -> Parts:
    """Take one cell of cross-attention apart, the encoder's heads by the token that they read.

    The first arguments are as for ``run_account``; layer, head and source token count from 0.
    """
    difference = difference_of(model, word_at(trace, at), instead)
    forced = pass_to(model, trace, at)
    cross, read = _crosses(forced, at, difference.reading)[layer]
    readings = forced.value_readings(cross, read, at)
    reading = readings.directions[head] * readings.factors[head, key]
    biases = forced.value_biases(cross, read, at)[head, key]
    return _parts(forced, "encoder", Readings.one(reading), key, biases=biases)


@of_trace("drivers of a neuron")
@torch.inference_mode()
def run_drivers(
    model: Seq2SeqModel,
    trace: Trace,
    at: int,
    layer: int,
    neuron: int,
    source_token: int | None = None,
) -> dict[str, Parts]:
    """Take the input of a neuron apart, before its activation function.

    It is a neuron of the decoder at step ``at``, or of the encoder at a source token. Returned is
    ``expand``, and ``gate`` where the feed-forward is gated and multiplies two linear layers.
    ``ValueError`` if there is no such neuron.
    """
    sizes = model.description
    stack: Stack = "decoder" if source_token is None else "encoder"
    layers = sizes.layers("decoder_self" if stack == "decoder" else "encoder_self")
    width = sizes.decoder_d_ff if stack == "decoder" else sizes.encoder_d_ff
    if not (0 <= layer < layers and 0 <= neuron < width):
        raise ValueError(
            f"expected a layer below {layers} and a neuron below {width}, got {layer} and {neuron}"
        )
    forced, feed_forward = pass_to(model, trace, at), Sublayer(stack, layer, None)
    position = at if source_token is None else source_token
    found = {}
    for name in ("expand", "gate") if sizes.gated else ("expand",):
        weight, bias = model.linear(f"{feed_forward.path}.{name}")
        reading = Readings.one(weight[:, neuron].double())
        own = 0.0 if bias is None else bias[neuron].double()
        found[name] = _parts(forced, stack, reading, position, into=feed_forward, biases=own)
    return found


@of_trace("words of a neuron")
@torch.inference_mode()
def run_neuron_words(
    model: Seq2SeqModel, trace: Trace, at: int, layer: int, neuron: int, count: int
) -> tuple[list[int], list[int], float]:
    """Return the ids that a neuron of the decoder raises most and lowers most where it is active.

    ``count`` of each, by its direct effect at this step, and its activation there.
    """
    forced = pass_to(model, trace, at)
    added = in_float32(neuron_logits(forced, at, layer, neuron))
    activation = forced.seen[f"{Sublayer('decoder', layer, None).path}.hidden"][at, neuron]
    return top_k(added, count).tolist(), top_k(-added, count).tolist(), float(activation)


def neuron_logits(forced: ForcedPass, at: int, layer: int, neuron: int) -> Tensor:
    """Return what a neuron of the decoder adds to all logits, (V,), by unit of activation.

    The divisors of norms are held: it is its direct effect, as in an account.
    """
    feed_forward = Sublayer("decoder", layer, None)
    written = forced.model.linear(f"{feed_forward.path}.contract").weight[neuron].double()
    return logits_of_part(forced.model, forced.carry(feed_forward, written, at))


def word_to_compare(
    tokenizers: Tokenizers, trace: Trace, step: int, instead: str | None
) -> int | None:
    """Return the id of the token with which the word at a step is compared.

    ``instead`` is its text, ``MEAN`` for the mean of all logits, which gives None, or None for the
    likeliest other token.

    Raises:
        ValueError: if the text is not one token, or the trace names no other token.
    """
    if instead == MEAN:
        return None
    if instead is None:
        for id in trace.predictions.top_ids[step].tolist():
            if id != trace.predicted.ids[step]:
                return int(id)
        raise ValueError("top_k: expected at least 2, since the likeliest other token is asked for")
    return single_token(tokenizers, instead, name="instead")


def word_at(trace: Trace, step: int) -> int:
    """Return the id of the token that a step predicts; ``ValueError`` if there is no such step."""
    if not 0 <= step < len(trace.predicted):
        raise ValueError(
            f"expected a position from 0 to {len(trace.predicted) - 1} of the target, got {step}"
        )
    return trace.predicted.ids[step]


def pass_to(model: Seq2SeqModel, trace: Trace, step: int) -> ForcedPass:
    """Run the model on the source and the target up to a step; later steps change nothing."""
    return ForcedPass.run(
        model,
        ids_tensor(model, trace.source.ids),
        ids_tensor(model, trace.consumed.ids[: step + 1]),
        turned=trace.turned,
    )


def _crosses(forced: ForcedPass, at: int, reading: Tensor) -> list[tuple[Sublayer, Tensor]]:
    """Return the cross-attentions and the reading (D,) of what each wrote at a step."""
    place = torch.tensor([at], device=reading.device)
    return [
        (sub, read.directions[0] * read.factors[0])
        for sub, read in forced.follow("decoder", Readings.one(reading), place).at
        if sub.kind == "cross"
    ]


def _parts(
    forced: ForcedPass,
    stack: Stack,
    readings: Readings,
    positions: Tensor | int,
    *,
    into: Sublayer | None = None,
    of_cells: tuple[int, ...] = (),
    biases: Tensor | float = 0.0,
) -> Parts:
    """Take readings (F, n) of a stack's output apart, or of what a sublayer of it is given.

    A single one, at one position, is taken apart by key and neuron too; those of cells have their
    shape. ``biases`` is what is in the biases besides.
    """
    places = torch.as_tensor(positions, device=readings.factors.device).reshape(-1)
    followed = forced.follow(stack, readings, places, into=into)
    heads: dict[Kind, list[Tensor]] = {}
    neurons: list[Tensor] = []
    biases = biases + followed.of_norms
    for sublayer, read in followed.at:
        biases = biases + forced.bias(sublayer, read)
        if sublayer.kind is None:
            of_neurons = forced.feed_forward if of_cells else forced.neurons
            neurons.append(of_neurons(sublayer, read, places))
        else:
            of_heads = forced.heads if of_cells else forced.heads_by_key
            heads.setdefault(sublayer.kind, []).append(of_heads(sublayer, read, places))
    token, position = forced.embedding(stack, followed.embedding, places)

    def array(tensor: Tensor) -> Doubles:  # (F, n, …) → (…), or (L, H, S, …)
        return doubles(tensor.reshape((*of_cells, *tensor.shape[2:])))

    return Parts(
        token=array(token),
        position=None if position is None else array(position),
        heads={kind: array(torch.stack(layers, dim=2)) for kind, layers in heads.items()},
        # Nothing but heads drives the first feed-forward of a stack.
        neurons=array(torch.stack(neurons, dim=2)) if neurons else np.zeros((0, 0)),
        biases=array(biases),
    )
