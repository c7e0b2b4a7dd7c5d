"""Queries and keys of a head in one plane, on the page Heads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.records.trace import Tokens
from tests.viz_app.measures import SENTENCES
from tests.viz_app.pages.driver import STEPS, Calls, Start, patch_views, record_calls, traced

CROSS = {"kind": "cross", "layer": "2", "head": "3", "step": "20"}


@pytest.fixture
def start(start_page: Start, own_root: Path, measured: object) -> Start:
    """Open the page Heads on a run whose checkpoints have been measured."""
    return partial(start_page, "heads", own_root)


@pytest.fixture
def clouds(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the page gives to the component of clouds."""
    return record_calls(monkeypatch, "heads", "scatter")


def test_points_are_named_coloured_moved_and_opened(
    start: Start, clouds: Calls, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    patch_views(monkeypatch, "session", open_page=lambda _, **given: opened.append(given))
    app = start(plane="through training", q=SENTENCES[1].source, **CROSS)
    traces = []
    for each in SENTENCES:
        ids = tuple(run.tokenizers.encode_target(each.reference))
        traces.append(traced(run, each.source, step=20, target=ids))

    def labels(tokens: Tokens) -> list[str]:
        special = [place for place, id in enumerate(tokens.ids) if id in tokens.special_ids]
        return list(vocabulary_labels(tokens.texts, spaced=True, control_ids=special))

    queries = [
        f"{read} → {predicted} (query)"
        for trace in traces
        for read, predicted in zip(labels(trace.consumed), labels(trace.predicted), strict=True)
    ]
    keys = [f"{label} (key)" for trace in traces for label in labels(trace.source)]
    drawn = clouds["plane_cloud"]
    [cloud] = drawn["given"]
    assert cloud.labels == [*queries, *keys]
    groups = ["query"] * len(queries) + ["key"] * len(keys)
    assert [cloud.groups[group] for group in cloud.group] == groups
    frames = drawn["frames"]
    assert list(frames.names) == [f"step {step:,}" for step in STEPS]
    np.testing.assert_array_equal(frames.points[-1], cloud.points)
    first = len(traces[0].consumed), len(traces[0].source)
    of_second = [*range(first[0], len(queries)), *range(len(queries) + first[1], len(cloud.labels))]
    assert drawn["sentence"] == of_second

    text = app.said
    assert f"{len(queries)} queries and {len(keys)} keys of Cross 2.3 at checkpoint 20" in text
    assert "in the plane, whose two" in text
    assert "relative positions" not in text  # this model has none
    assert len(app.charts["plane_lines"]["data"][0]["x"]) == len(STEPS)

    drawn["on_click"](first[0] + 1)
    drawn["on_click"](len(queries) + first[1] + 2)
    looks = int(traces[1].attention["cross"][1, 2, :, 2].argmax())
    common = {"sentence": SENTENCES[1].source, "target": SENTENCES[1].reference}
    head = {"kind": "cross", "layer": 2, "head": 3}
    for shown, at in zip(opened, (1, looks), strict=True):
        assert (common | head | {"at": at}).items() <= shown.items()


def test_one_checkpoint_stays_and_colours_are_by_position(start: Start, clouds: Calls) -> None:
    start(plane="this checkpoint", plane_colour="position", **CROSS)
    drawn = clouds["plane_cloud"]
    [cloud] = drawn["given"]
    assert drawn["frames"] is None
    assert cloud.ordered
    assert cloud.groups[1:4] == ["place 1", "places 2 to 3", "places 4 to 7"]
    assert list(cloud.group[:4]) == [1, 2, 2, 3]
