"""The account of a word: the difference of two logits as a sum over what a pass wrote.

``L`` layers and ``H`` heads of the decoder, ``E`` layers and ``G`` heads of the encoder, ``S``
source length, ``T`` target steps so far, ``P`` parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Kind, WordSpan

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class StreamParts:
    """A linear reading of a stream at one position, as a sum over what was written into it.

    Parts that a stack does not have are absent from ``heads``; arrays are read-only.
    """

    token: float
    position: float | None
    """None where the model adds no positions to its embeddings."""
    heads: Mapping[Kind, Doubles]
    """By the key that was read: (layers, heads, keys)."""
    neurons: Doubles
    """What each neuron of each feed-forward brought, (layers, d_ff)."""
    biases: float

    @property
    def feed_forwards(self) -> Doubles:
        """Return the sums over neurons, (layers,)."""
        return self.neurons.sum(axis=-1)

    @property
    def total(self) -> float:
        """Return the sum of all parts."""
        by_head = sum(float(part.sum()) for part in self.heads.values())
        return (
            self.token + (self.position or 0.0) + by_head + float(self.neurons.sum()) + self.biases
        )


@dataclass(frozen=True)
class EncoderParts:
    """Each cell of cross-attention as a sum over what the encoder wrote at its source token."""

    token: Doubles
    """(L, H, S)."""
    position: Doubles | None
    """(L, H, S)."""
    heads: Doubles
    """(L, H, S, E, G)."""
    feed_forwards: Doubles
    """(L, H, S, E)."""
    biases: Doubles
    """(L, H, S)."""

    def named(self) -> Iterator[tuple[str, Doubles]]:
        """Yield each part of the encoder with its name: (L, H, S) each, heads layer by layer."""
        yield "token", self.token
        if self.position is not None:
            yield "position", self.position
        for layer in range(self.heads.shape[-2]):
            for head in range(self.heads.shape[-1]):
                yield f"encoder_self.{layer + 1}.{head + 1}", self.heads[..., layer, head]
            yield f"feed_forward.{layer + 1}", self.feed_forwards[..., layer]
        yield "biases", self.biases


@dataclass(frozen=True)
class WholeEffects:
    """What the difference loses when a part is taken out of the pass, later layers included.

    Parts have the names that accounts have: heads and feed-forwards.
    """

    encoder: Mapping[str, float]
    decoder: Mapping[str, float]


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
    the two probabilities, if there are two tokens."""
    parts: StreamParts
    """Over the decoder, heads ``decoder_self`` and ``cross``."""
    from_encoder: EncoderParts
    """The cells of ``parts.heads["cross"]`` in turn."""

    @property
    def deviation(self) -> float:
        """Return by how much the sum of the parts misses the difference: rounding of the pass."""
        return self.parts.total - self.difference

    def named(self) -> Iterator[tuple[str, float]]:
        """Yield every part of the decoder with its name, in the order of the computation."""
        yield "token", self.parts.token
        if self.parts.position is not None:
            yield "position", self.parts.position
        layers = len(self.parts.neurons)
        for layer in range(layers):
            for kind in ("decoder_self", "cross"):
                for head, value in enumerate(self.parts.heads[kind][layer].sum(axis=-1)):
                    yield f"{kind}.{layer + 1}.{head + 1}", float(value)
            yield f"feed_forward.{layer + 1}", float(self.parts.feed_forwards[layer])
        yield "biases", self.parts.biases

    def arrays(self, effects: WholeEffects) -> dict[str, NDArray[np.generic]]:
        """Return the account as arrays under the names that files have.

        ``parts`` and ``whole`` are (P,) for ``part_names``, ``cross_from_encoder`` is (L, H, S, P)
        and ``encoder_whole`` (P,) for ``encoder_part_names``; what has no whole effect is NaN.
        """
        names, parts = zip(*self.named(), strict=True)
        encoder_names, cells = zip(*self.from_encoder.named(), strict=True)
        return {
            "difference": np.array(self.difference),
            "part_names": np.array(names),
            "parts": np.array(parts),
            "whole": np.array([effects.decoder.get(name, np.nan) for name in names]),
            "heads_cross": self.parts.heads["cross"],
            "heads_decoder_self": self.parts.heads["decoder_self"],
            "neurons": self.parts.neurons,
            "encoder_part_names": np.array(encoder_names),
            "cross_from_encoder": np.stack(cells, axis=-1),
            "encoder_whole": np.array(
                [effects.encoder.get(name, np.nan) for name in encoder_names]
            ),
        }


@dataclass(frozen=True)
class SourceEffects:
    """What the difference loses when source tokens are left out of the sentence."""

    spans: tuple[WordSpan, ...]
    """Which tokens were left out together."""
    losses: Doubles
    """(spans,); NaN where nothing would be left."""
