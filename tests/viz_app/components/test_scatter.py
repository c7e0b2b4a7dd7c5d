from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.components.scatter import Cloud, Frames, scatter_data
from headwise.viz_app.figures.theme import LIGHT, Theme

CLOUD = Cloud(
    points=np.array([[-1, 0], [3, 1], [1, -1], [0, 0.5], [2, 0]], np.float32),
    labels=("the", "·s", "<b>", "$x$", "niña"),
    counts=(700, 30, 0, 4, 1),
    group=np.array([3, 2, 0, 1, 1]),
    groups=("never", "1 to 9 times", "10 to 99 times", "100 to 999 times"),
    ordered=True,
)


def data_of(cloud: Cloud = CLOUD, theme: Theme = LIGHT, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"sentence": [], "searched": [], "content_id": "this"}
    return scatter_data(cloud, theme=theme, **(given | changes))


def test_points_are_sent_as_integers_on_one_scale() -> None:
    data = data_of()
    # From -1 to 3 across is the wider: 4 are 10,000; upwards from -1.
    assert data["points"] == [0, 2500, 10_000, 5000, 5000, 0, 2500, 3750, 7500, 2500]
    assert (data["width"], data["height"]) == (10_000, 5000)


def test_a_single_point_and_points_in_one_place_can_be_drawn() -> None:
    alone = replace(CLOUD, points=CLOUD.points * 0 + 7)
    assert data_of(alone)["points"] == [0] * 10
    assert (data_of(alone)["width"], data_of(alone)["height"]) == (0, 0)


def test_labels_counts_and_groups_are_sent_unchanged() -> None:
    data = json.loads(json.dumps(data_of(), allow_nan=False))
    assert data["labels"] == ["the", "·s", "<b>", "$x$", "niña"]
    assert data["counts"] == [700, 30, 0, 4, 1]
    assert data["group"] == [3, 2, 0, 1, 1]
    assert [group["name"] for group in data["groups"]] == list(CLOUD.groups)
    assert data["content_id"] == "this"


def test_each_point_is_marked_once_and_searched_points_come_last() -> None:
    marks = data_of(sentence=[0, 3, 0, 1], searched=[4, 3, 4])["marks"]
    assert [(mark["point"], mark["kind"]) for mark in marks] == [
        (0, "sentence"),
        (1, "sentence"),
        (4, "searched"),
        (3, "searched"),
    ]


def test_colours_come_from_the_theme(theme: Theme) -> None:
    data = data_of(theme=theme)
    ordered = [group["colour"] for group in data["groups"]]
    assert ordered[0] == theme.line
    assert ordered[-1] == theme.weights[-1]
    assert len(set(ordered)) == 4
    assert data["named"] is False
    kinds = data_of(replace(CLOUD, ordered=False), theme)
    assert [group["colour"] for group in kinds["groups"]] == [theme.line, *theme.series[:3]]
    assert kinds["named"] is True
    assert data["colours"]["ground"] == theme.background
    assert data["colours"]["accent"] == theme.accent


@pytest.mark.parametrize(
    "cloud",
    [
        replace(CLOUD, labels=CLOUD.labels[:4]),
        replace(CLOUD, counts=CLOUD.counts[:4]),
        replace(CLOUD, group=CLOUD.group[:4]),
        replace(CLOUD, points=CLOUD.points[:4]),
        replace(CLOUD, points=np.zeros((5, 3), np.float32)),
        replace(CLOUD, points=np.zeros((0, 2), np.float32), labels=(), counts=(), group=[]),
    ],
    ids=["labels", "counts", "groups", "points", "three axes", "none"],
)
def test_points_that_do_not_fit_their_labels_are_refused(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match=r"^expected points \(n, 2\) with n labels, counts"):
        data_of(cloud)


def test_frames_are_on_the_scale_of_the_cloud() -> None:
    elsewhere = np.array([[[-1, 0], [3, 1], [1, -1], [0, 0.5], [2, 7]]], np.float32)
    data = data_of(frames=Frames(["step 0"], elsewhere))
    sent = np.frombuffer(base64.b64decode(data["frames"]["points"]), "<u2").reshape(-1, 2)
    # Upwards from -1 to 7 is now the wider: 8 are 10,000.
    assert sent.tolist() == [[0, 1250], [5000, 2500], [2500, 0], [1250, 1875], [3750, 10_000]]
    assert data["points"] == [0, 1250, 5000, 2500, 2500, 0, 1250, 1875, 3750, 1250]
    assert (data["width"], data["height"]) == (5000, 10_000)
    assert data["frames"]["names"] == ["step 0"]
    assert data_of()["frames"] is None


def test_frames_of_other_points_are_refused() -> None:
    with pytest.raises(ValueError, match=r"of 2 frames and 5 points, got \(1, 5, 2\)"):
        data_of(frames=Frames(["a", "b"], np.zeros((1, 5, 2), np.float32)))
