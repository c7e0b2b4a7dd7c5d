"""Heads that feed heads, on the page Heads: edges, what one carries, and its course in training."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.model.interface import Head
from headwise.viz_app.analysis.composition import PathName, parse_path, path_name
from headwise.viz_app.measuring.composition import composition
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.trace.circuits import run_path
from tests.viz_app.views.driver import (
    STEPS,
    Calls,
    Start,
    array,
    patch_views,
    record_calls,
    row_names,
    traced,
)
from tests.viz_app.views.test_heads import made_up, said

LAST = STEPS[-1]
PLANTED = PathName(Head("encoder_self", 0, 1), Head("encoder_self", 1, 2), "key")


@pytest.fixture
def start(start_page: Start, own_root: Path) -> Start:
    """Open the page Heads on a run in whose last checkpoint one head reads another by its keys."""
    run = open_trained_run("tiny", root=own_root)
    model = load_weights(run, LAST).model
    with torch.no_grad():
        width = model.config.head_width
        written = model.encoder.layers[0].self_attention.output_projection.weight
        keys = model.encoder.layers[1].self_attention.key_projection.weight
        keys[2 * width :] = written[:, width : 2 * width].T
    save_weights(own_root / "tiny", model, run="tiny", step=LAST)
    for step in STEPS:
        write_measures(own_root / "tiny", made_up(own_root, step))
    return partial(start_page, "heads", own_root)


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the page gives to the component of lists."""
    return record_calls(monkeypatch, "heads", "row_table")


def test_names_of_edges_are_read_back() -> None:
    name = path_name(PLANTED)
    assert name == "encoder_self.1.2-encoder_self.2.3-key"
    assert parse_path(name) == PLANTED
    for other in ("", "key", "encoder_self.1.2-encoder_self.2.3-mood", "a-b-key"):
        assert parse_path(other) is None


def test_edges_are_listed_and_the_chosen_one_is_followed(
    start: Start, own_root: Path, lists: Calls
) -> None:
    app = start(edge_training="true")
    run = open_trained_run("tiny", root=own_root)
    found = {step: composition(load_weights(run, step).model) for step in STEPS}
    assert row_names(lists, "edge_table") == [path_name(e) for e in found[LAST].strongest(30)]
    assert lists["edge_table"]["chosen"] == path_name(PLANTED)  # the strongest
    lines = [array(trace["y"]) for trace in app.charts["edge_lines"]["data"][:2]]
    edges = [found[step].between(*PLANTED) for step in STEPS]
    np.testing.assert_allclose(lines[0], [e.score / e.error for e in edges], rtol=1e-4)
    assert "stand above three standard errors of random matrices" in said(app)

    trace = traced(run)
    expected = run_path(load_weights(run, LAST).model, trace, *PLANTED[:2])
    drawn = array(app.charts["path_map"]["data"][0]["z"])
    change = expected.maps["key"][1] - expected.weights
    np.testing.assert_allclose(drawn, change, atol=1e-6)


def test_an_edge_of_an_address_is_shown_and_one_that_is_none_is_told(start: Start) -> None:
    name = "cross.1.1-decoder_self.2.1-value"
    app = start(edge=name)
    assert "path_map" not in app.charts  # values change no map
    assert "Out of only its values, its map stays" in said(app)
    assert "reads nothing of what Cross 1.1 writes" in said(
        start(edge="cross.1.1-decoder_self.1.1-value")
    )
    [noted] = start(edge="cross.9.1-cross.1.1-query").warnings
    assert noted.endswith(f"which cannot be used here. Edge between heads: {path_name(PLANTED)}.")


def test_a_click_on_a_line_chooses_its_edge(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[str, object] = {}
    patch_views(monkeypatch, "heads", change_view=lambda *_, **choices: chosen.update(choices))
    clicks: dict[str, object] = {}
    patch_views(
        monkeypatch,
        "heads",
        show_figure=lambda figure, **named: clicks.update({named["key"]: named.get("on_select")}),
        clicked_value=lambda _: "0",
    )
    start()
    on_select = clicks["heads_graph"]
    assert callable(on_select)
    on_select()
    assert chosen == {"edge": path_name(PLANTED)}
