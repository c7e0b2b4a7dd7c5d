"""Patches in words, and what is said of the results, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from headwise.model.interface import KINDS, WordSpan
from headwise.viz_app.why.sentences.correspondence import Stretch
from headwise.viz_app.why.sentences.patching import (
    SUBLAYERS,
    Patching,
    patch_label,
    rank_correlations,
    row_label,
)

STRETCHES, TOKENS = ("x → z", "y"), ("<s>", "a")


@pytest.mark.parametrize(
    ("name", "long", "short"),
    [
        (
            "stream.encoder.0.1",
            "“x → z” (1) as the embedding of the encoder leaves it",
            "encoder 0: x → z",
        ),
        ("stream.encoder.1.2", "“y” (2) as layer 1 of the encoder leaves it", "encoder 1: y"),
        ("stream.decoder.2.1", "“<s>” (1) as layer 2 of the decoder leaves it", "decoder 2: <s>"),
        ("sublayer.decoder.3.cross", "Cross of layer 3 of the decoder", "decoder 3: cross"),
        (
            "sublayer.encoder.1.encoder_self",
            "Encoder self of layer 1 of the encoder",
            "encoder 1: self",
        ),
        (
            "sublayer.encoder.2.feed_forward",
            "Feed-forward of layer 2 of the encoder",
            "encoder 2: feed-fwd",
        ),
        ("encoder_self.2.1", "head Encoder self 2.1", "Encoder self 2.1"),
        ("decoder_self.1.2", "head Decoder self 1.2", "Decoder self 1.2"),
        ("cross.3.4", "head Cross 3.4", "Cross 3.4"),
    ],
)
def test_a_patch_has_a_long_and_a_short_label(name: str, long: str, short: str) -> None:
    assert patch_label(name, STRETCHES, TOKENS) == long
    assert row_label(name, STRETCHES, TOKENS) == short


def patching(
    encoder: list[list[float]], decoder: list[list[float]], same: tuple[bool, ...] = (False, True)
) -> Patching:
    """Patches of shares: odds are from 0 in A to 1 in B."""
    spans = [WordSpan(n, n + 1) for n in range(len(same))]
    return Patching(
        step=len(decoder[0]) - 1,
        words=(5, 6),
        odds_a=0.0,
        odds_b=1.0,
        rounding=1e-6,
        exact=True,
        stretches=tuple(map(Stretch, spans, spans, same)),
        stream_encoder=np.array(encoder),
        stream_decoder=np.array(decoder),
        heads={kind: np.zeros((len(encoder) - 1, 1)) for kind in KINDS},
        sublayers={stack: np.zeros((1, len(names))) for stack, names in SUBLAYERS.items()},
    )


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([[0.2, 0.5], [0.9, 0.1]], (0, 1)),  # half is enough
        ([[0.2, 0.49], [0.9, 0.95]], (1, 1)),
        ([[math.nan, 0.4], [math.nan, 0.7]], (1, 1)),
        ([[0.1, -2.0], [math.nan, 0.4]], None),
    ],
)
def test_the_earliest_place_is_the_first_that_suffices_for_half(
    shares: list[list[float]], expected: tuple[int, int] | None
) -> None:
    found = patching(shares, shares)
    assert found.earliest("encoder") == found.earliest("decoder") == expected


@pytest.mark.parametrize(
    ("same", "stack", "place", "expected"),
    [
        ((True, False), "encoder", (0, 1), True),
        ((True, False), "encoder", (0, 0), False),
        ((True, False), "encoder", (1, 1), False),
        ((False, False), "encoder", (0, 1), False),  # the other one differs as well
        ((True, False), "decoder", (1, 1), True),
        ((True, False), "decoder", (1, 0), False),
        ((True, False), "decoder", (0, 1), False),
    ],
)
def test_what_restores_all_by_construction_is_known(
    same: tuple[bool, ...], stack: str, place: tuple[int, int], expected: bool
) -> None:
    shares = [[0.0, 0.0], [0.0, 0.0]]
    assert patching(shares, shares, same).by_construction(stack, place) == expected


def test_agreement_is_of_the_patches_that_change_anything_and_are_in_both() -> None:
    exact = patching([[0.0, 0.1], [0.2, 0.3]], [[0.4, 0.5], [0.6, 0.7]])
    near = replace(exact, stream_encoder=np.array([[0.0, 0.0], [0.1, math.nan]]))
    found = rank_correlations(exact, near)
    assert found["streams"].patches == 6  # not the one at A's odds, nor the one without a gradient
    assert found["streams"].value == pytest.approx(1)
    assert math.isnan(found["streams"].low)  # all resamples are 1, and say nothing
    assert str(found["streams"]) == "1.00 (6 patches)"
    assert found["heads"].patches == 0
    assert str(found["heads"]) == "none (too few, or all alike: 0)"
