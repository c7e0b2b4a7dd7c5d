from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.components.player import (
    MOST_BYTES,
    Frame,
    MapAnimation,
    animation_data,
    block_size,
)
from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour
from tests.floats import rounding

F, L, H, Q, M = 2, 2, 3, 5, 7
MAPS = np.random.default_rng(0).random((F, L, H, Q, M), dtype=np.float32)
HALF_A_LEVEL = 0.5 / 255 + rounding(np.float32, 1)
ANIMATION = MapAnimation(
    maps=MAPS,
    frames=(
        Frame(0, ("<b>", "·😀"), (0.0, 1.0), "-3.00 nats"),
        Frame(2000, ("niña",), (0.5,), "-1.00 nats"),
    ),
    rows=("a ← <s>", "b", "c", "d", "e"),
    columns=tuple("tuvwxyz"),
    row_title="predicted ← consumed",
    column_title="source (key)",
)


def data_of(theme: Theme = LIGHT, **changes: Any) -> dict[str, Any]:
    return animation_data(replace(ANIMATION, **changes), theme=theme)


def decoded(data: dict[str, Any], *, name: str = "cells") -> np.ndarray:
    """Return the bytes that the browser reads."""
    return np.frombuffer(base64.b64decode(data[name]), np.uint8)


def test_weights_are_sent_in_order_and_within_half_a_level() -> None:
    cells = decoded(data_of()).reshape(MAPS.shape) / 255
    assert np.abs(cells - MAPS).max() <= HALF_A_LEVEL


def test_zero_and_one_are_exact_and_weights_are_clipped() -> None:
    maps = np.zeros_like(MAPS)
    maps[0, 0, 0, 0, :4] = [1, 1.00001, -0.00001, 0.5]
    assert decoded(data_of(maps=maps))[:5].tolist() == [255, 255, 0, 128, 0]


def test_masked_cells_differ_from_zero() -> None:
    assert data_of()["allowed"] is None
    allowed = np.tri(Q, M, dtype=bool)
    sent = decoded(data_of(allowed=allowed), name="allowed").reshape(Q, M)
    np.testing.assert_array_equal(sent, allowed)


def test_translations_and_labels_can_be_sent_as_json() -> None:
    data = json.loads(json.dumps(data_of(selected=(1, 2)), allow_nan=False))
    assert data["frames"] == [
        {"step": 0, "tokens": ["<b>", "·😀"], "shades": [0, 255], "score": "-3.00 nats"},
        {"step": 2000, "tokens": ["niña"], "shades": [128], "score": "-1.00 nats"},
    ]
    assert (data["rows"], data["columns"]) == (list(ANIMATION.rows), list(ANIMATION.columns))
    assert data["titles"] == ["predicted ← consumed", "source (key)"]
    assert (data["layers"], data["heads"], data["selected"]) == (2, 3, [1, 2])


def test_each_level_has_the_colour_of_its_weight(theme: Theme) -> None:
    data = data_of(theme)
    assert len(data["shades"]) == len(data["inks"]) == 256
    for level in (0, 1, 100, 255):
        assert data["shades"][level] == weight_colour(theme, level / 255)
        assert data["inks"][level] == text_on_weight(theme, level / 255)
    assert data["colours"]["masked"] == theme.masked


def test_twelve_maps_of_60_tokens_are_sent_unpooled_in_under_120_kilobytes() -> None:
    maps = np.random.default_rng(1).random((12, 1, 1, 60, 60), dtype=np.float32)
    labels = tuple(f"token {i} ← token" for i in range(60))
    frames = [Frame(step, labels, [0.5] * 60, "score") for step in range(12)]
    data = data_of(maps=maps, frames=frames, rows=labels, columns=labels)
    assert decoded(data).size == maps.size
    assert len(json.dumps(data)) < 120_000


def test_large_maps_are_pooled_to_the_largest_weight_of_each_block() -> None:
    maps = np.random.default_rng(2).random((12, 3, 4, 81, 90), dtype=np.float32)
    rows, columns = (tuple(f"{axis}{i}" for i in range(n)) for axis, n in (("q", 81), ("k", 90)))
    allowed = np.tri(81, 90, dtype=bool)
    frames = [Frame(step, (), (), "") for step in range(12)]
    data = data_of(maps=maps, frames=frames, rows=rows, columns=columns, allowed=allowed)
    assert block_size(maps.shape) == 2
    cells = decoded(data).reshape(12, 3, 4, 41, 45)
    assert cells.size <= MOST_BYTES
    for row, column in ((0, 0), (7, 30), (40, 44)):
        block = maps[5, 2, 3, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert abs(cells[5, 2, 3, row, column] / 255 - block.max()) <= HALF_A_LEVEL
    assert data["rows"][:1] + data["rows"][-1:] == ["q0 … q1", "q80"]
    assert len(data["columns"]) == 45
    assert decoded(data, name="allowed").reshape(41, 45)[0, :2].tolist() == [1, 0]
    assert len(json.dumps(data)) < 1_000_000


@pytest.mark.parametrize(
    ("draw", "got"),
    [
        (lambda: data_of(maps=MAPS[0]), r"\(2, 3, 5, 7\)"),
        (lambda: data_of(maps=MAPS[:1]), r"\(1, 2, 3, 5, 7\)"),
        (lambda: data_of(maps=MAPS.swapaxes(-1, -2)), r"\(2, 2, 3, 7, 5\)"),
        (lambda: data_of(maps=MAPS[:, :, :0]), r"\(2, 2, 0, 5, 7\)"),
    ],
    ids=["no frames", "too few", "turned", "no heads"],
)
def test_maps_that_do_not_fit_labels_and_frames_are_refused(
    draw: Callable[[], Any], got: str
) -> None:
    message = rf"^expected maps .* for 2 frames, 5 rows and 7 columns, got {got}$"
    with pytest.raises(ValueError, match=message):
        draw()
