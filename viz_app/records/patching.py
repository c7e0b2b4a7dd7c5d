"""What of a sentence B, put into the pass over a sentence A, brings B's answer back.

``E`` layers of the encoder, ``L`` of the decoder, ``H`` heads, ``C`` stretches of A's source,
``T`` target steps up to the one that is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, WordSpan, head_name

Doubles = NDArray[np.float64]
SUBLAYERS = {
    "encoder": ("encoder_self", "feed_forward"),
    "decoder": ("decoder_self", "cross", "feed_forward"),
}
"""The sublayers of a layer of each stack, in the order in which they write."""


@dataclass(frozen=True)
class Stretch:
    """Tokens of A's source, and those of B's that stand in their place."""

    a: WordSpan
    b: WordSpan
    same: bool
    """Whether both are the same tokens."""

    @property
    def fits(self) -> bool:
        """Whether it is as long in B as in A, so that it can be patched position by position."""
        return self.a.stop - self.a.start == self.b.stop - self.b.start

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions in A and B that correspond; none if it does not fit."""
        both = zip(range(self.a.start, self.a.stop), range(self.b.start, self.b.stop), strict=True)
        return list(both) if self.fits else []


@dataclass(frozen=True)
class Patching:
    """The odds of two words, the logit of the one less that of the other, under each patch of A.

    In arrays NaN is where there is nothing in B to take. All arrays are read-only.
    """

    step: int
    """The row of the decoder that is asked, from 0."""
    words: tuple[int, int]
    """Ids of the two words."""
    odds_a: float
    """In the pass over A."""
    odds_b: float
    """In the pass over B."""
    rounding: float
    """How near the two are to each other if they count as equal."""
    exact: bool
    """Whether every patch was run; if not, all are to first order, by one backward pass."""
    stretches: tuple[Stretch, ...]
    """The columns of ``stream_encoder``."""
    stream_encoder: Doubles
    """(E + 1, C): what the first layer reads, and what each layer leaves, at each stretch."""
    stream_decoder: Doubles
    """(L + 1, T): the same of the decoder, at each position of the shared target."""
    heads: Mapping[Kind, Doubles]
    """(layers, H): what a head reads off, at all positions that correspond."""
    sublayers: Mapping[str, Doubles]
    """What a sublayer writes, at all positions that correspond: ``encoder`` (E, 2) and
    ``decoder`` (L, 3), in the order of ``SUBLAYERS``."""

    @property
    def nothing_to_restore(self) -> bool:
        """Whether A and B have the same odds but for rounding, so that there are no shares."""
        return abs(self.odds_b - self.odds_a) <= self.rounding

    @property
    def same_answer(self) -> bool:
        """Whether the same one of the two words is likelier in A and in B."""
        return self.odds_a * self.odds_b > 0

    def restored(self, odds: Doubles) -> Doubles:
        """Return the restored share of patched odds: 0 is as A, 1 as B.

        Raises:
            ValueError: if there is nothing to restore.
        """
        if self.nothing_to_restore:
            raise ValueError(
                f"expected odds of A and B that differ by more than {self.rounding:.1e}, got "
                f"{self.odds_a:.4f} and {self.odds_b:.4f}: there is nothing to restore"
            )
        return (odds - self.odds_a) / (self.odds_b - self.odds_a)

    def named(self) -> Iterator[tuple[str, float]]:
        """Yield every patch by its name, with its odds, in the order of ``patch_names``."""
        names = patch_names(
            {kind: (len(odds), odds.shape[1]) for kind, odds in self.heads.items()},
            len(self.stretches),
            self.stream_decoder.shape[1],
        )
        parts = [self.stream_encoder, self.stream_decoder]
        parts += [*self.heads.values(), *self.sublayers.values()]
        values = np.concatenate([part.ravel() for part in parts])
        yield from zip(names, values.tolist(), strict=True)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as arrays under the names that files have.

        ``source_spans_a`` and ``source_spans_b``, (C, 2), say where the columns of
        ``stream_encoder`` begin and end in the sources.
        """
        return {
            "odds_a": np.array(self.odds_a),
            "odds_b": np.array(self.odds_b),
            "stream_encoder": self.stream_encoder,
            "stream_decoder": self.stream_decoder,
            **{f"heads_{kind}": odds for kind, odds in self.heads.items()},
            **{f"sublayers_{stack}": odds for stack, odds in self.sublayers.items()},
            "source_spans_a": np.array([(each.a.start, each.a.stop) for each in self.stretches]),
            "source_spans_b": np.array([(each.b.start, each.b.stop) for each in self.stretches]),
        }


def patch_names(shapes: Mapping[Kind, tuple[int, int]], stretches: int, steps: int) -> list[str]:
    """Name all patches of two runs, in the order of the arrays of ``Patching``, row by row.

    ``stream.encoder.2.5`` is what the encoder's second layer leaves at the fifth stretch (0 is what
    its first layer reads), ``cross.2.4`` a head, ``sublayer.decoder.1.cross`` a sublayer.

    Args:
        shapes: layers and heads of each kind of attention.
        stretches: how many the source of A has.
        steps: target steps up to the one that is asked about.
    """
    layers = {"encoder": shapes["encoder_self"][0], "decoder": shapes["decoder_self"][0]}
    names = []
    for stack, columns in (("encoder", stretches), ("decoder", steps)):
        for row, column in np.ndindex(layers[stack] + 1, columns):
            names.append(f"stream.{stack}.{row}.{column + 1}")
    for kind, shape in shapes.items():
        names += [head_name(Head(kind, *place)) for place in np.ndindex(*shape)]
    for stack, written in SUBLAYERS.items():
        for layer in range(layers[stack]):
            names += [f"sublayer.{stack}.{layer + 1}.{name}" for name in written]
    return names


def is_of_encoder(name: str) -> bool:
    """Return whether a patch, by its name, is of the encoder."""
    return name.startswith(("stream.encoder", "sublayer.encoder", "encoder_self"))
