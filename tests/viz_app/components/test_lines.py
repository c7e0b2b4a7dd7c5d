from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.components.lines import LEAST_WEIGHT, Bundle, TokenColumn, line_data
from headwise.viz_app.figures.theme import LIGHT, Theme

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


def bundle(**changes: Any) -> Bundle:
    return replace(Bundle("Cross 1.2", CROSS, query_column=1, key_column=0), **changes)


def data_of(*bundles: Bundle, theme: Theme = LIGHT) -> dict[str, Any]:
    return line_data((SOURCE, TARGET), bundles or [bundle()], theme=theme)


def test_only_visible_weights_are_sent_row_by_row() -> None:
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


def test_a_map_without_a_visible_weight_sends_no_lines() -> None:
    [sent] = data_of(bundle(weights=CROSS * 0.001))["bundles"]
    assert [sent[name] for name in ("queries", "keys", "weights")] == [[], [], []]


def test_bundles_say_between_which_columns_they_run() -> None:
    sent = data_of(
        Bundle("encoder", SQUARE, query_column=0, key_column=0),
        Bundle("decoder", np.eye(5, dtype=np.float32), query_column=1, key_column=1),
        Bundle("cross", CROSS, query_column=1, key_column=0),
        Bundle("back", CROSS.T, query_column=0, key_column=1),
    )["bundles"]
    assert [(each["name"], each["from"], each["to"]) for each in sent] == [
        ("encoder", 0, 0),
        ("decoder", 1, 1),
        ("cross", 1, 0),
        ("back", 0, 1),
    ]
    assert (sent[0]["queries"], sent[0]["keys"]) == ([0, 1], [1, 2])


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
        "ground": theme.background,
    }


def test_data_can_be_sent_as_json() -> None:
    data = data_of()
    text = json.dumps(data, allow_nan=False)
    assert json.loads(text)["bundles"] == data["bundles"]
    [sent] = data["bundles"]
    types = {name: {type(value) for value in sent[name]} for name in ("queries", "keys", "weights")}
    assert types == {"queries": {int}, "keys": {int}, "weights": {float}}


def test_labels_of_columns_are_sent_unchanged() -> None:
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
            lambda: data_of(bundle(query_column=0, key_column=1)),
            r"^Cross 1\.2: expected \(3, 5\) weights, got \(5, 3\)$",
        ),
        (
            lambda: data_of(Bundle("encoder", SQUARE, query_column=1, key_column=1)),
            r"^encoder: expected \(5, 5\) weights, got \(3, 3\)$",
        ),
    ],
    ids=["too many", "turned", "sides", "other column"],
)
def test_maps_that_cannot_be_drawn_are_refused(draw: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()
