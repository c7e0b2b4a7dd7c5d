"""Patches in words, and which place decides first, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headwise.viz_app.core.patching import first_deciding, patch_label, row_label

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


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([[0.2, 0.5], [0.9, 0.1]], (0, 1)),  # half is enough
        ([[0.2, 0.49], [0.9, 0.95]], (1, 1)),
        ([[math.nan, 0.4], [math.nan, 0.7]], (1, 1)),
        ([[0.1, -2.0], [math.nan, 0.4]], None),
    ],
)
def test_the_first_place_that_restores_half_decides(
    shares: list[list[float]], expected: tuple[int, int] | None
) -> None:
    assert first_deciding(np.array(shares)) == expected
