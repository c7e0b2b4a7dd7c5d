"""What components send to the browser: lines, the player's frames, and clouds of points."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.components.lines import LEAST_WEIGHT, Bundle, TokenColumn, line_data
from headwise.viz_app.components.player import (
    MOST_BYTES,
    Course,
    Frame,
    MapAnimation,
    animation_data,
    block_size,
)
from headwise.viz_app.components.scatter import Cloud, Frames, scatter_data
from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour
from tests.floats import rounding


def sent(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


# Lines

SOURCE = TokenColumn("source (key)", ("The", "·s", "</s>"), "en")
TARGET = TokenColumn("predicted ← consumed", ("El ← <s>", "<b>", "$x$", "niña", "😀"), "es")
CROSS = np.array(
    [
        [0.123456, 0, 0.876544],
        [0.00996, 0.98004, 0.01],  # the first would be enough if it were rounded before
        [0, 0, 1],
        [0.0099, 0.0099, 0.0099],
        [0.25, 0.333333, 0.416667],
    ],
    dtype=np.float32,
)
SQUARE = np.eye(3, k=1, dtype=np.float32)
BUNDLE = Bundle("Cross 1.2", CROSS, query_column=1, key_column=0)


def lines_of(*bundles: Bundle, theme: Theme = LIGHT) -> Any:
    return sent(line_data((SOURCE, TARGET), bundles, theme=theme))


def test_only_visible_weights_are_sent_row_by_row_and_labels_unchanged() -> None:
    data = lines_of(BUNDLE, replace(BUNDLE, weights=CROSS * 0.001))
    lines, none = data["bundles"]
    assert list(zip(lines["queries"], lines["keys"], lines["weights"], strict=True)) == [
        (0, 0, 0.1235),
        (0, 2, 0.8765),
        (1, 1, 0.98),
        (1, 2, 0.01),
        (2, 2, 1.0),
        (4, 0, 0.25),
        (4, 1, 0.3333),
        (4, 2, 0.4167),
    ]
    assert [none[name] for name in ("queries", "keys", "weights")] == [[], [], []]
    assert data["least"] == LEAST_WEIGHT == 0.01
    assert data["columns"] == [
        {"title": column.title, "labels": list(column.labels), "language": column.language}
        for column in (SOURCE, TARGET)
    ]


def test_bundles_say_between_which_columns_they_run_and_differ_in_colour(theme: Theme) -> None:
    bundles = [
        Bundle("encoder", SQUARE, query_column=0, key_column=0),
        Bundle("decoder", np.eye(5, dtype=np.float32), query_column=1, key_column=1),
        BUNDLE,
        Bundle("back", CROSS.T, query_column=0, key_column=1),
    ]
    found = lines_of(*bundles, theme=theme)["bundles"]
    assert [(each["name"], each["from"], each["to"]) for each in found] == [
        ("encoder", 0, 0),
        ("decoder", 1, 1),
        ("Cross 1.2", 1, 0),
        ("back", 0, 1),
    ]
    assert (found[0]["queries"], found[0]["keys"]) == ([0, 1], [1, 2])
    assert [each["colour"] for each in found] == list(theme.series[:4])


# The player

F, L, H, Q, M = 2, 2, 3, 5, 7
MAPS = np.random.default_rng(0).random((F, L, H, Q, M), dtype=np.float32)
HALF_A_LEVEL = 0.5 / 255 + rounding(np.float32, 1)
ANIMATION = MapAnimation(
    maps=MAPS,
    frames=(
        Frame(0, ("<b>", "·😀"), (0.0, 1.0), "-3.00 nats"),
        Frame(2000, ("niña",), (0.5,), "-1.00 nats"),
    ),
    course=Course([0, 2000]),
    rows=("a ← <s>", "b", "c", "d", "e"),
    columns=tuple("tuvwxyz"),
    row_title="predicted ← consumed",
    column_title="source (key)",
)


def animated(theme: Theme = LIGHT, **changes: Any) -> Any:
    return sent(animation_data(replace(ANIMATION, **changes), theme=theme))


def decoded(data: dict[str, Any], *, name: str = "cells") -> np.ndarray:
    """Return the bytes that the browser reads."""
    return np.frombuffer(base64.b64decode(data[name]), np.uint8)


def test_weights_are_sent_in_order_and_within_half_a_level_apart_from_masked_ones() -> None:
    cells = decoded(animated()).reshape(MAPS.shape) / 255
    assert np.abs(cells - MAPS).max() <= HALF_A_LEVEL
    maps = np.zeros_like(MAPS)
    maps[0, 0, 0, 0, :4] = [1, 1.01, -0.01, 0.5]
    assert decoded(animated(maps=maps))[:5].tolist() == [255, 255, 0, 128, 0]
    assert animated()["allowed"] is None
    allowed = np.tri(Q, M, dtype=bool)
    masked = decoded(animated(allowed=allowed), name="allowed").reshape(Q, M)
    np.testing.assert_array_equal(masked, allowed)


def test_translations_labels_and_shades_are_sent(theme: Theme) -> None:
    data = animated(theme, selected=(1, 2))
    assert data["frames"] == [
        {"step": 0, "tokens": ["<b>", "·😀"], "shades": [0, 255], "score": "-3.00 nats"},
        {"step": 2000, "tokens": ["niña"], "shades": [128], "score": "-1.00 nats"},
    ]
    assert (data["rows"], data["columns"]) == (list(ANIMATION.rows), list(ANIMATION.columns))
    assert data["titles"] == ["predicted ← consumed", "source (key)"]
    assert (data["layers"], data["heads"], data["selected"]) == (2, 3, [1, 2])
    assert len(data["shades"]) == len(data["inks"]) == 256
    for level in (0, 1, 100, 255):
        assert data["shades"][level] == weight_colour(theme, level / 255)
        assert data["inks"][level] == text_on_weight(theme, level / 255)
    assert data["colours"]["masked"] == theme.masked


def test_the_loss_is_sent_as_heights_of_the_checkpoints_and_as_words() -> None:
    course = Course([0, 20, 60], [9.0, 4.0, 1.004], changed=1, said="Cross 1.1 changed most.")
    data = animated(course=course)
    assert (data["steps"], data["heights"]) == ([0, 20, 60], [1, 0.3747, 0])
    assert data["losses"] == ["loss 9", "loss 4", "loss 1"]
    assert (data["changed"], data["changed_said"]) == (1, "Cross 1.1 changed most.")
    assert animated()["heights"] == animated()["losses"] == []
    assert animated(course=replace(course, losses=[2.0] * 3))["heights"] == []


def test_large_maps_are_pooled_to_the_largest_weight_of_each_block() -> None:
    assert block_size((12, 1, 1, 60, 60)) == 1
    maps = np.random.default_rng(2).random((12, 3, 4, 81, 90), dtype=np.float32)
    rows, columns = (tuple(f"{axis}{i}" for i in range(n)) for axis, n in (("q", 81), ("k", 90)))
    allowed = np.tri(81, 90, dtype=bool)
    frames = [Frame(step, (), (), "") for step in range(12)]
    data = animated(maps=maps, frames=frames, rows=rows, columns=columns, allowed=allowed)
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


# Clouds

CLOUD = Cloud(
    points=np.array([[-1, 0], [3, 1], [1, -1], [0, 0.5], [2, 0]], np.float32),
    labels=("the", "·s", "<b>", "$x$", "niña"),
    counts=(700, 30, 0, 4, 1),
    group=np.array([3, 2, 0, 1, 1]),
    groups=("never", "1 to 9 times", "10 to 99 times", "100 to 999 times"),
    ordered=True,
)


def cloud_of(cloud: Cloud = CLOUD, theme: Theme = LIGHT, **changes: Any) -> Any:
    given: dict[str, Any] = {"sentence": [], "searched": [], "content_id": "this"}
    return sent(scatter_data(cloud, theme=theme, **(given | changes)))


def test_points_are_sent_as_integers_on_one_scale_with_labels_counts_and_groups() -> None:
    data = cloud_of()
    # From -1 to 3 across is the wider: 4 are 10,000; upwards from -1.
    assert data["points"] == [0, 2500, 10_000, 5000, 5000, 0, 2500, 3750, 7500, 2500]
    assert (data["width"], data["height"]) == (10_000, 5000)
    assert data["labels"] == ["the", "·s", "<b>", "$x$", "niña"]
    assert (data["counts"], data["group"]) == ([700, 30, 0, 4, 1], [3, 2, 0, 1, 1])
    assert [group["name"] for group in data["groups"]] == list(CLOUD.groups)
    assert data["content_id"] == "this"
    alone = cloud_of(replace(CLOUD, points=CLOUD.points * 0 + 7))
    assert (alone["points"], alone["width"], alone["height"]) == ([0] * 10, 0, 0)


def test_each_point_is_marked_once_and_searched_points_come_last() -> None:
    marks = cloud_of(sentence=[0, 3, 0, 1], searched=[4, 3, 4])["marks"]
    assert [(mark["point"], mark["kind"]) for mark in marks] == [
        (0, "sentence"),
        (1, "sentence"),
        (4, "searched"),
        (3, "searched"),
    ]


def test_colours_of_points_come_from_the_theme(theme: Theme) -> None:
    data = cloud_of(theme=theme)
    ordered = [group["colour"] for group in data["groups"]]
    assert (ordered[0], ordered[-1]) == (theme.line, theme.weights[-1])
    assert len(set(ordered)) == 4
    kinds = cloud_of(replace(CLOUD, ordered=False), theme)
    assert [group["colour"] for group in kinds["groups"]] == [theme.line, *theme.series[:3]]
    assert (data["named"], kinds["named"]) == (False, True)
    assert data["colours"] == {
        "text": theme.text,
        "muted": theme.muted,
        "line": theme.line,
        "accent": theme.accent,
        "ground": theme.background,
    }


def test_frames_are_on_the_scale_of_the_cloud() -> None:
    elsewhere = np.array([[[-1, 0], [3, 1], [1, -1], [0, 0.5], [2, 7]]], np.float32)
    data = cloud_of(frames=Frames(["step 0"], elsewhere))
    points = np.frombuffer(base64.b64decode(data["frames"]["points"]), "<u2").reshape(-1, 2)
    # Upwards from -1 to 7 is now the wider: 8 are 10,000.
    assert points.tolist() == [[0, 1250], [5000, 2500], [2500, 0], [1250, 1875], [3750, 10_000]]
    assert data["points"] == [0, 1250, 5000, 2500, 2500, 0, 1250, 1875, 3750, 1250]
    assert (data["width"], data["height"]) == (5000, 10_000)
    assert data["frames"]["names"] == ["step 0"]


def test_more_lines_than_colours_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected at most 6 maps to draw .* 7; choose fewer$"):
        lines_of(*[BUNDLE] * 7)
