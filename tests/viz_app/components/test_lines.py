from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from viz_app.components.lines import LEAST_WEIGHT, Bundle, Column, line_data
from viz_app.figures.theme import DARK, LIGHT, Theme

SOURCE = Column("source (key)", ("The", "·s", "</s>"), "en")
TARGET = Column("predicted ← consumed", ("El ← <s>", "<b>", "$x$", "niña", "😀"), "es")
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


def bundle(**changes: Any) -> Bundle:
    return replace(Bundle("Cross 1.2", CROSS, queries=1, keys=0), **changes)


def data_of(*bundles: Bundle, theme: Theme = LIGHT) -> dict[str, Any]:
    return line_data((SOURCE, TARGET), bundles or [bundle()], theme=theme)


def test_only_weights_that_can_be_seen_are_sent_row_by_row() -> None:
    [sent] = data_of()["bundles"]
    assert list(zip(sent["queries"], sent["keys"], sent["weights"], strict=True)) == [
        (0, 0, 0.1235),
        (0, 2, 0.8765),
        (1, 1, 0.98),
        (1, 2, 0.01),
        (2, 2, 1.0),
        (4, 0, 0.25),
        (4, 1, 0.3333),
        (4, 2, 0.4167),
    ]
    assert data_of()["least"] == LEAST_WEIGHT == 0.01


def test_a_map_without_a_weight_that_can_be_seen_sends_no_lines() -> None:
    [sent] = data_of(bundle(weights=CROSS * 0.001))["bundles"]
    assert [sent[name] for name in ("queries", "keys", "weights")] == [[], [], []]


def test_bundles_say_between_which_columns_they_run() -> None:
    sent = data_of(
        Bundle("encoder", SQUARE, queries=0, keys=0),
        Bundle("decoder", np.eye(5, dtype=np.float32), queries=1, keys=1),
        Bundle("cross", CROSS, queries=1, keys=0),
        Bundle("back", CROSS.T, queries=0, keys=1),
    )["bundles"]
    assert [(each["name"], each["from"], each["to"]) for each in sent] == [
        ("encoder", 0, 0),
        ("decoder", 1, 1),
        ("cross", 1, 0),
        ("back", 0, 1),
    ]
    assert (sent[0]["queries"], sent[0]["keys"]) == ([0, 1], [1, 2])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_each_bundle_has_the_next_colour_of_the_theme(theme: Theme) -> None:
    data = data_of(*[bundle()] * len(theme.series), theme=theme)
    colours = [each["colour"] for each in data["bundles"]]
    assert tuple(colours) == theme.series
    assert len(set(colours)) == 6
    assert [each["colour"] for each in data_of(theme=theme)["bundles"]] == colours[:1]
    assert data["colours"] == {
        "text": theme.text,
        "muted": theme.muted,
        "line": theme.line,
        "accent": theme.accent,
    }


def test_what_is_sent_is_plain() -> None:
    data = data_of()
    text = json.dumps(data, allow_nan=False)
    assert json.loads(text)["bundles"] == data["bundles"]
    [sent] = data["bundles"]
    types = {name: {type(value) for value in sent[name]} for name in ("queries", "keys", "weights")}
    assert types == {"queries": {int}, "keys": {int}, "weights": {float}}


def test_columns_are_sent_as_they_are() -> None:
    assert json.loads(json.dumps(data_of()))["columns"] == [
        {"title": "source (key)", "labels": ["The", "·s", "</s>"], "language": "en"},
        {
            "title": "predicted ← consumed",
            "labels": ["El ← <s>", "<b>", "$x$", "niña", "😀"],
            "language": "es",
        },
    ]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: data_of(*[bundle()] * 7),
            r"^expected at most 6 maps to draw as lines, got 7; choose fewer$",
        ),
        (
            lambda: data_of(bundle(), bundle(name="turned", weights=CROSS.T)),
            r"^turned: expected \(5, 3\) weights, got \(3, 5\)$",
        ),
        (
            lambda: data_of(bundle(queries=0, keys=1)),
            r"^Cross 1\.2: expected \(3, 5\) weights, got \(5, 3\)$",
        ),
        (
            lambda: data_of(Bundle("encoder", SQUARE, queries=1, keys=1)),
            r"^encoder: expected \(5, 5\) weights, got \(3, 3\)$",
        ),
    ],
    ids=["too many", "turned", "sides", "other column"],
)
def test_maps_that_cannot_be_drawn_are_refused(draw: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
