"""Holds the result of patching: the odds of two words in A with each part of B in its place.

``E`` layers of the encoder and one more, ``L`` of the decoder and one more, ``C`` stretches of A's
source, ``T`` target steps up to the one that is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.analysis.head_ranking import rank_correlation, rank_correlation_interval
from headwise.viz_app.analysis.labels import interval_text, part_label
from headwise.viz_app.core.record import Record
from headwise.viz_app.why.sentences.correspondence import Stretch

Doubles = NDArray[np.float64]
PatchMap = Literal["streams", "heads", "sublayers"]
PATCH_MAPS: tuple[PatchMap, ...] = get_args(PatchMap)
SUBLAYERS = {
    "encoder": ("encoder_self", "feed_forward"),
    "decoder": ("decoder_self", "cross", "feed_forward"),
}
"""The sublayers of a layer of each stack, in the order in which they write."""
_HALF = 0.5
"""Share of the way from A's log-odds to B's; it need not change which word is likelier."""
_BEYOND = 10
"""Times as far as B that a patch moves the odds, from which on a share of B's way says nothing."""


@dataclass(frozen=True)
class Patching(Record):
    """The odds of two words, the logit of the one less that of the other, under each patch of A.

    In arrays NaN is where there is nothing in B to take. All arrays are read-only.
    """

    step: int
    """The row of the decoder that is asked, from 0."""
    words: tuple[int, int]
    """Ids of the two words."""
    odds_a: Annotated[float, ""]
    """In the pass over A."""
    odds_b: Annotated[float, ""]
    """In the pass over B."""
    rounding: float
    """How near the two are to each other if they count as equal."""
    exact: bool
    """Whether every patch was run; if not, all are to first order, by one backward pass."""
    stretches: tuple[Stretch, ...]
    """The columns of ``stream_encoder``."""
    stream_encoder: Annotated[Doubles, "E C"]
    """What the first layer reads, and what each layer leaves, at each stretch."""
    stream_decoder: Annotated[Doubles, "L T"]
    """The same of the decoder, at each position of the shared target."""
    heads: Mapping[Kind, Doubles]
    """(layers, heads): what a head reads off, at all positions that correspond."""
    sublayers: Mapping[str, Doubles]
    """What a sublayer writes, at all positions that correspond: ``encoder`` (layers, 2) and
    ``decoder`` (layers, 3), in the order of ``SUBLAYERS``."""

    @property
    def nothing_to_restore(self) -> bool:
        """Whether A and B have the same odds but for rounding, so that there are no shares."""
        return abs(self.odds_b - self.odds_a) <= self.rounding

    @property
    def farthest(self) -> float:
        """How far any patch moves the odds from those of A; 0 where there is none."""
        moved = [abs(odds - self.odds_a) for _, odds in self.named() if math.isfinite(odds)]
        return max(moved, default=0.0)

    @property
    def says_nothing(self) -> bool:
        """Whether shares are of nothing, or of so little that a patch moves the odds far more."""
        return self.nothing_to_restore or self.farthest > _BEYOND * abs(self.odds_b - self.odds_a)

    @property
    def same_answer(self) -> bool:
        """Whether the same one of the two words is likelier in A and in B."""
        return self.odds_a * self.odds_b > 0

    def restored(self, odds: Doubles) -> Doubles:
        """Return the restored share of patched odds: 0 is as A, 1 as B.

        ``ValueError`` if there is nothing to restore.
        """
        if self.nothing_to_restore:
            raise ValueError(
                f"expected odds of A and B that differ by more than {self.rounding:.1e}, got "
                f"{self.odds_a:.4f} and {self.odds_b:.4f}: there is nothing to restore"
            )
        return (odds - self.odds_a) / (self.odds_b - self.odds_a)

    def earliest(self, stack: str) -> tuple[int, int] | None:
        """Return the earliest place of a stream that suffices for half: its row and column.

        It is the largest of the first row with one that restores half; None if none does.
        """
        shares = np.nan_to_num(self.restored(self.parts()[f"stream_{stack}"]), nan=-np.inf)
        rows = np.flatnonzero((shares >= _HALF).any(axis=1))
        return (int(rows[0]), int(shares[rows[0]].argmax())) if rows.size else None

    def by_construction(self, stack: str, place: tuple[int, int]) -> bool:
        """Return whether a place of a stream restores all, whatever the model does.

        So does the embedding of the only token that differs, and the last layer of the decoder
        where the odds are read.
        """
        if stack == "decoder":
            return place == (len(self.stream_decoder) - 1, self.step)
        differ = [n for n, each in enumerate(self.stretches) if not each.same]
        return place[0] == 0 and differ == [place[1]]

    def parts(self) -> dict[str, Doubles]:
        """Return the arrays of odds, (rows, columns) each, by the names that files have."""
        return {
            "stream_encoder": self.stream_encoder,
            "stream_decoder": self.stream_decoder,
            **{f"heads_{kind}": odds for kind, odds in self.heads.items()},
            **{f"sublayers_{stack}": odds for stack, odds in self.sublayers.items()},
        }

    def names(self) -> dict[str, NDArray[np.str_]]:
        """Return the names of the patches in each array of odds."""
        shapes = {kind: (len(odds), odds.shape[1]) for kind, odds in self.heads.items()}
        return patch_names(shapes, len(self.stretches), self.stream_decoder.shape[1])

    def named(self) -> Iterator[tuple[str, float]]:
        """Yield every patch by its name, with its odds, array by array and row by row."""
        for names, odds in zip(self.names().values(), self.parts().values(), strict=True):
            yield from zip(names.ravel().tolist(), odds.ravel().tolist(), strict=True)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as arrays under the names that files have.

        ``source_spans_a`` and ``source_spans_b``, (C, 2), say where the columns of
        ``stream_encoder`` begin and end in the sources.
        """
        spans = {
            "source_spans_a": np.array([(each.a.start, each.a.stop) for each in self.stretches]),
            "source_spans_b": np.array([(each.b.start, each.b.stop) for each in self.stretches]),
        }
        return super().arrays() | self.parts() | spans


@dataclass(frozen=True)
class PatchedPair:
    """What patches of a sentence by another do, with the labels that people read."""

    patching: Patching
    stretches: tuple[str, ...]
    """Of the columns of its ``stream_encoder``."""
    words: tuple[str, str]

    def label(self, name: str) -> str:
        """Return how people read the name of a patch that is of no token of the target."""
        return patch_label(name, self.stretches, ())


def patch_names(
    shapes: Mapping[Kind, tuple[int, int]], stretches: int, steps: int
) -> dict[str, NDArray[np.str_]]:
    """Name all patches of two runs, as the arrays of ``Patching.parts`` have them.

    ``stream.encoder.2.5`` is what the encoder's second layer leaves at the fifth stretch (0 is what
    its first layer reads), ``cross.2.4`` a head, ``sublayer.decoder.1.cross`` a sublayer.
    ``shapes`` are layers and heads of each kind of attention.
    """
    layers = {"encoder": shapes["encoder_self"][0], "decoder": shapes["decoder_self"][0]}
    rows: dict[str, list[list[str]]] = {}
    for stack, columns in (("encoder", stretches), ("decoder", steps)):
        rows[f"stream_{stack}"] = [
            [f"stream.{stack}.{row}.{column + 1}" for column in range(columns)]
            for row in range(layers[stack] + 1)
        ]
    for kind, (count, heads) in shapes.items():
        rows[f"heads_{kind}"] = [
            [head_name(Head(kind, layer, head)) for head in range(heads)] for layer in range(count)
        ]
    for stack, written in SUBLAYERS.items():
        rows[f"sublayers_{stack}"] = [
            [f"sublayer.{stack}.{layer + 1}.{name}" for name in written]
            for layer in range(layers[stack])
        ]
    return {part: np.array(names) for part, names in rows.items()}


def is_of_encoder(name: str) -> bool:
    """Return whether a patch, by its name, is of the encoder."""
    return name.startswith(("stream.encoder", "sublayer.encoder", "encoder_self"))


def patch_label(name: str, stretches: Sequence[str], tokens: Sequence[str]) -> str:
    """Return how people read the name of a patch, by labels of A's stretches and of the target."""
    what, *place = name.split(".")
    if what == "stream":
        stack, layer, column = place[0], int(place[1]), int(place[2]) - 1
        token = (stretches if stack == "encoder" else tokens)[column]
        left = f"layer {layer}" if layer else "the embedding"
        return f"“{token}” ({column + 1}) as {left} of the {stack} leaves it"
    if what == "sublayer":
        return f"{part_label(place[2])} of layer {place[1]} of the {place[0]}"
    return f"head {part_label(name)}"


def row_label(name: str, stretches: Sequence[str], tokens: Sequence[str]) -> str:
    """Return the short label of a patch, for the row of a map; arguments as of ``patch_label``."""
    what, *place = name.split(".")
    if what == "stream":
        token = (stretches if place[0] == "encoder" else tokens)[int(place[2]) - 1]
        return f"{place[0]} {place[1]}: {token}"
    if what == "sublayer":
        written = {"feed_forward": "feed-fwd"}.get(place[2], place[2].rpartition("_")[2])
        return f"{place[0]} {place[1]}: {written}"
    return part_label(name)


def map_of(name: str) -> PatchMap:
    """Return the map in which a patch, one of ``patch_names``, is drawn."""
    return "streams" if name[:6] == "stream" else "sublayers" if name[:8] == "sublayer" else "heads"


class RankCorrelation(NamedTuple):
    """How far approximate odds are in the order of exact ones: their rank correlation."""

    value: float
    """NaN where there are too few patches, or all are alike."""
    low: float
    high: float
    """Interval of 95% of the value, by resamples of the patches; NaN where all are the same."""
    patches: int

    def __str__(self) -> str:
        if math.isnan(self.value):
            return f"none (too few, or all alike: {self.patches})"
        said = f"95% interval {self.ends}, " * bool(self.ends)
        return f"{self.value:.2f} ({said}{self.patches:,} patches)"

    @property
    def ends(self) -> str:
        """Its interval; "" where it says nothing."""
        return interval_text(self.low, self.high)


def rank_correlations(exact: Patching, approximate: Patching) -> dict[PatchMap, RankCorrelation]:
    """Compare approximate with exact odds by their ranks, over the patches of each map.

    Left out are those that change nothing: a patch that puts in what is there already has A's odds
    in both, which would flatter the approximation; and those that have no approximation.
    """
    found = {}
    for shown in PATCH_MAPS:
        pairs = [
            (odds, near)
            for (name, odds), (_, near) in zip(exact.named(), approximate.named(), strict=True)
            if map_of(name) == shown and odds != exact.odds_a and math.isfinite(odds + near)
        ]
        both = [each[0] for each in pairs], [each[1] for each in pairs]
        interval = rank_correlation_interval(*both)
        found[shown] = RankCorrelation(rank_correlation(*both), *interval, len(pairs))
    return found
