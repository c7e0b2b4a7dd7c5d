"""A linear reading of a stream, followed back to what was written into the stream.

A reading is a vector r that is multiplied with the stream x of a position: r · x, such as a logit
after the last norm. The stream is a sum, and a norm is linear once its divisor is held at what it
was in this pass (``stream.py``), so that r · x is a sum over what the embedding, every head and
every feed-forward wrote, and biases. Nothing else is needed than the reading that each of them is
multiplied with: going back from the end of a stack, a reading changes at norms only. With a norm
before each sublayer that is the last norm; with a norm after each sublayer, every later one.

A norm's gain and mean change a reading in the same way at all positions; only the divisor differs.
So readings are kept as directions, and factors by position.

``F`` readings, ``n`` positions, ``D`` = d_model, ``H`` heads, ``M`` keys, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, hook_names
from headwise.model.interface import (
    Kind,
    LinearParameters,
    NormParameters,
    Seq2SeqModel,
    Side,
    Stack,
    attention_path,
)
from headwise.model.stream import HeldNorm, HeldTransform
from headwise.model.turned import AS_IT_IS, Turned
from headwise.model.turning import turn

_SIDES: dict[Stack, Side] = {"encoder": "source", "decoder": "target"}
_WANTED = (".weights", ".value", ".hidden", "feed_forward.output", ".norm.before", ".norm.after")
_WANTED_ONCE = ("_norm.before", "_norm.after", "embedding.tokens", "embedding.positions")


@dataclass(frozen=True)
class Difference:
    """The logit of a word less that of another, as a linear reading of the decoder's output.

    Where the model caps its logits, these are the logits before the cap.
    """

    reading: Tensor
    """(D,), float64."""
    bias: float
    """What the bias of the logits adds."""


@torch.inference_mode()
def difference_of(model: Seq2SeqModel, word: int, instead: int | None) -> Difference:
    """Return how the logit of a token differs from that of another, or of all on average (None).

    An id that is not in the vocabulary, or the same twice, is a ValueError.
    """
    size = model.description.target_vocab_size
    for id in (word, instead):
        if id is not None and not 0 <= id < size:
            raise ValueError(f"expected the id of a token, 0 to {size - 1}, got {id}")
    if word == instead:
        raise ValueError(f"expected two different tokens, got {word} twice")
    unembedding = model.linear("unembedding")

    def less(of_words: Tensor) -> Tensor:  # (…, V) → (…)
        other = of_words.mean(dim=-1) if instead is None else of_words[..., instead]
        return of_words[..., word].double() - other.double()

    reading = less(unembedding.weight)
    if model.description.scale_output:
        reading = reading * model.description.d_model**-0.5
    bias = 0.0 if unembedding.bias is None else float(less(unembedding.bias))
    return Difference(reading, bias)


def logits_of_part(model: Seq2SeqModel, parts: Tensor) -> Tensor:
    """Compute what parts (…, D) of the decoder's output add to all logits before a cap: (…, V)."""
    weight = model.linear("unembedding").weight
    scale = model.description.d_model**-0.5 if model.description.scale_output else 1.0
    return (parts * scale).to(weight.dtype) @ weight


@dataclass(frozen=True)
class Sublayer:
    """A sublayer of a stack: an attention, or a feed-forward."""

    stack: Stack
    layer: int
    """From 0."""
    kind: Kind | None
    """The kind of attention; None for a feed-forward."""

    @property
    def path(self) -> str:
        """Return the module path, below which its hook points are."""
        if self.kind is not None:
            return attention_path(self.kind, self.layer)
        return f"{self.stack}.layers.{self.layer}.feed_forward"


def sublayers(model: Seq2SeqModel, stack: Stack) -> list[Sublayer]:
    """List the sublayers of a stack in the order in which they write into the stream."""
    kinds: tuple[Kind | None, ...] = ("encoder_self", None)
    if stack == "decoder":
        kinds = ("decoder_self", "cross", None)
    layers = model.description.layers("encoder_self" if stack == "encoder" else "decoder_self")
    return [Sublayer(stack, layer, kind) for layer in range(layers) for kind in kinds]


def sublayers_before(model: Seq2SeqModel, sublayer: Sublayer) -> list[Sublayer]:
    """List the sublayers that wrote into the stream before one reads it."""
    first = sublayer
    if sublayer.kind == "cross" and model.description.merged_attention:
        first = replace(sublayer, kind="decoder_self")  # with which it reads the same stream
    all_of_stack = sublayers(model, sublayer.stack)
    return all_of_stack[: all_of_stack.index(first)]


@dataclass(frozen=True)
class Readings:
    """Some readings at some positions of a stream: factor times direction · stream."""

    directions: Tensor
    """(F, D)."""
    factors: Tensor
    """(F, n)."""

    @classmethod
    def one(cls, direction: Tensor) -> Readings:
        """Return one reading (D,) at one position."""
        return cls(direction[None], direction.new_ones(1, 1))

    def of(self, vectors: Tensor) -> Tensor:
        """Read vectors (n, D) of the positions, or one (D,) for all of them: (F, n)."""
        return (self.directions @ vectors.view(-1, vectors.shape[-1]).T) * self.factors

    def of_heads(self, vectors: Tensor) -> Tensor:
        """Read what each head wrote at the positions, (n, H, D): (F, n, H)."""
        return torch.einsum("fd,nhd->fnh", self.directions, vectors) * self.factors[..., None]

    def before(self, norm: HeldNorm) -> Readings:
        """Return the readings of what a norm was given, without what its bias brings."""
        return Readings(norm.direction_before(self.directions), self.factors * norm.rate[:, 0])


@dataclass(frozen=True)
class PartReadings:
    """Readings of a stream, followed back: what each part of the stream is multiplied with."""

    at: tuple[tuple[Sublayer, Readings], ...]
    """Each sublayer in order, with the readings of what it wrote."""
    embedding: Readings
    """The readings of tokens and positions."""
    of_norms: Tensor
    """What the biases of norms on the way bring to the readings, (F, n)."""


@dataclass(frozen=True)
class ForcedPass:
    """One pass of one sentence over a given target, whose streams can be taken apart.

    Everything is computed in float64 from the tensors of the pass, whatever their type.
    """

    model: Seq2SeqModel
    seen: Mapping[str, Tensor]
    """Tensors at hook points, without the axis of the batch."""
    stream: Tensor
    """The decoder's output, (T, D)."""
    turned: Turned = AS_IT_IS
    """What was turned in this pass."""

    @classmethod
    @torch.inference_mode()
    def run(
        cls,
        model: Seq2SeqModel,
        source: Tensor,
        consumed: Tensor,
        *,
        turned: Turned = AS_IT_IS,
        also: tuple[str, ...] = (),
    ) -> ForcedPass:
        """Run a model on source ids (1, S) and consumed ids (1, T), with what is turned.

        ``also`` are ends of names of hook points that are seen besides, where the model has them. A
        sequence that is empty or too long for the model is a ValueError.
        """
        last = f"decoder.layers.{model.description.n_decoder_layers - 1}.output"
        ends = (*_WANTED, *_WANTED_ONCE, *also, last)
        wanted = [name for name in hook_names(model) if name.endswith(ends)]
        with turn(model, turned), capture(model, wanted) as seen:
            stream = forced_stream(model, source, consumed)
        tensors = {name: found[0][0].double() for name, found in seen.items() if found}
        return cls(model, tensors, stream[0].double(), turned)

    def follow(
        self, stack: Stack, readings: Readings, positions: Tensor, *, into: Sublayer | None = None
    ) -> PartReadings:
        """Follow readings at some positions (n,) back through a stack.

        They read the output of the stack, or, with ``into``, what that sublayer is given.
        """
        earlier = sublayers(self.model, stack)
        is_pre = self.model.description.of(stack).norm == "pre"
        of_norms = torch.zeros_like(readings.factors)

        def back(path: str, norm: NormParameters | None) -> None:
            nonlocal readings, of_norms
            if norm is None:
                return
            if norm.bias is not None:
                of_norms = of_norms + readings.of(norm.bias.double())
            readings = readings.before(self._held(path, norm, positions))

        if into is None:
            back(f"{stack}.final_norm", self.model.final_norm(_SIDES[stack]))
            if stack == "decoder" and (transform := self._transform(positions)) is not None:
                of_norms = of_norms + readings.of(transform.bias)
                directions = readings.directions @ transform.matrix.T
                readings = Readings(directions, readings.factors)
        else:
            earlier = sublayers_before(self.model, into)
            if is_pre:
                back(f"{into.path}_residual.norm", self.model.norm(into.path))
        found = []
        for sublayer in reversed(earlier):
            if not is_pre:
                back(f"{sublayer.path}_residual.norm", self.model.norm(sublayer.path))
            of_written, own = readings, self.model.output_norm(sublayer.path)
            if own is not None:
                held = self._held(f"{sublayer.path}_residual.output_norm", own, positions)
                of_written = readings.before(held)
            found.append((sublayer, of_written))
        back(f"{stack}.embedding.norm", self.model.embedding_norm(_SIDES[stack]))
        return PartReadings(tuple(reversed(found)), readings, of_norms)

    def carry(self, sublayer: Sublayer, written: Tensor, position: int) -> Tensor:
        """Return what a vector (D,) that a sublayer writes at a position is at the stack's end."""
        places = torch.tensor([position], device=written.device)
        model, stack = self.model, sublayer.stack
        norms: list[tuple[str, NormParameters]] = []
        if (own := model.output_norm(sublayer.path)) is not None:
            norms.append((f"{sublayer.path}_residual.output_norm", own))
        if model.description.of(stack).norm == "post":
            later = sublayers(model, stack)
            later = later[later.index(sublayer) :]
            norms += [(f"{sub.path}_residual.norm", model.norm(sub.path)) for sub in later]
        for path, norm in norms:
            written = self._held(path, norm, places)(written)[0]
        if stack == "decoder" and (transform := self._transform(places)) is not None:
            written = written @ transform.matrix
        path, end = f"{stack}.final_norm", model.final_norm(_SIDES[stack])
        return written if end is None else self._held(path, end, places)(written)[0]

    def _transform(self, positions: Tensor) -> HeldTransform | None:
        """Return what is between the decoder's last layer and last norm, held at one position."""
        description = self.model.description
        if not description.output_transform:
            return None
        [stream] = self.seen[f"decoder.layers.{description.n_decoder_layers - 1}.output"][positions]
        [made] = self.seen["decoder.final_norm.before"][positions]
        return HeldTransform.seen(self.model.linear("output_transform"), stream, made)

    def _held(self, path: str, norm: NormParameters, positions: Tensor) -> HeldNorm:
        before, after = (self.seen[f"{path}.{end}"][positions] for end in ("before", "after"))
        return HeldNorm.seen(self.model, norm, before, after)

    @cached_property
    def projections(self) -> Mapping[str, Tensor]:
        """The output projection of each head by the path of its attention: (H, K, D), float64."""
        found = {}
        for stack in _SIDES:
            for sublayer in sublayers(self.model, stack):
                if sublayer.kind is not None:
                    weight = self._linear(sublayer, "output_projection").weight
                    heads, _, d_k = self.seen[f"{sublayer.path}.value"].shape
                    found[sublayer.path] = weight.double().view(heads, d_k, -1)
        return found

    def _linear(self, sublayer: Sublayer, name: str) -> LinearParameters:
        return self.model.linear(f"{sublayer.path}.{name}")

    def _weights(self, attention: Sublayer, positions: Tensor) -> Tensor:
        """Return the weights (H, n, M) of some queries, times the strength of each head."""
        weights = self.seen[f"{attention.path}.weights"][:, positions].clone()
        if attention.kind is not None:
            strengths = self.turned.strengths_in(attention.kind, attention.layer)
            for head, strength in strengths.items():
                weights[head] *= strength
        return weights

    def heads_by_key(self, attention: Sublayer, readings: Readings, positions: Tensor) -> Tensor:
        """Return what heads bring to readings from each key: α v W_O · r, (F, n, H, M)."""
        value = self.seen[f"{attention.path}.value"]  # (H, M, K)
        projection = self.projections[attention.path]
        projected = torch.einsum("fd,hkd->fhk", readings.directions, projection)
        by_key = torch.einsum("fhk,hmk->fhm", projected, value)[:, None]
        weights = self._weights(attention, positions).transpose(0, 1)  # (n, H, M)
        return by_key * weights * readings.factors[..., None, None]

    def heads(self, attention: Sublayer, readings: Readings, positions: Tensor) -> Tensor:
        """Return what heads bring to readings from all keys together, (F, n, H)."""
        return readings.of_heads(self._written(attention)[positions])

    def value_readings(self, attention: Sublayer, reading: Tensor, position: int) -> Readings:
        """Return how heads read, at each key, what their values are made from: F = H, n = M.

        ``reading`` (D,) is of what the attention wrote at one position.
        """
        values = self._linear(attention, "value_projection").weight.double()  # (D, H K)
        projection = self.projections[attention.path]
        into = torch.einsum(
            "dhk,hk->hd", values.view(len(values), *projection.shape[:2]), projection @ reading
        )
        return Readings(into, self._weights(attention, torch.tensor([position]))[:, 0])

    def value_biases(self, attention: Sublayer, reading: Tensor, position: int) -> Tensor:
        """Return what the biases of the values bring to one reading (D,): (H, M)."""
        bias = self._linear(attention, "value_projection").bias
        weights = self._weights(attention, torch.tensor([position]))[:, 0]
        if bias is None:
            return torch.zeros_like(weights)
        projection = self.projections[attention.path]
        per_head = torch.einsum(
            "hk,hk->h", bias.double().view(projection.shape[:2]), projection @ reading
        )
        return weights * per_head[:, None]

    def neurons(self, feed_forward: Sublayer, readings: Readings, positions: Tensor) -> Tensor:
        """Return what the neurons of a feed-forward bring to readings: (F, n, d_ff)."""
        hidden = self.seen[f"{feed_forward.path}.hidden"][positions]  # (n, d_ff)
        contract = self._linear(feed_forward, "contract").weight.double()  # (d_ff, D)
        each = (readings.directions @ contract.T)[:, None] * hidden
        return each * readings.factors[..., None]

    def feed_forward(self, feed_forward: Sublayer, readings: Readings, positions: Tensor) -> Tensor:
        """Return what a feed-forward brings to readings, all its neurons together: (F, n)."""
        written = self.seen[f"{feed_forward.path}.output"][positions]
        return readings.of(written) - self.bias(feed_forward, readings)

    def _written(self, attention: Sublayer) -> Tensor:
        """Return what each head wrote at all positions, (n, H, D), without the bias."""
        queries = torch.arange(self.seen[f"{attention.path}.weights"].shape[1])
        brought = self._weights(attention, queries) @ self.seen[f"{attention.path}.value"]
        return torch.einsum("hnk,hkd->nhd", brought, self.projections[attention.path])

    def bias(self, sublayer: Sublayer, readings: Readings) -> Tensor:
        """Return what the bias of a sublayer's last projection brings to readings: (F, n)."""
        name = "contract" if sublayer.kind is None else "output_projection"
        bias = self._linear(sublayer, name).bias
        return torch.zeros_like(readings.factors) if bias is None else readings.of(bias.double())

    def embedding(
        self, stack: Stack, readings: Readings, positions: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return what tokens and positions bring to readings: (F, n) each; None without them."""
        tokens = self.seen[f"{stack}.embedding.tokens"]
        added = self.seen.get(f"{stack}.embedding.positions")
        of_positions = None if added is None else readings.of(added[positions])
        return readings.of(tokens[positions]), of_positions
