"""Heads that feed heads, on the page Heads: edges, what one carries, and its course in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import load_weights, open_trained_run, save_weights
from headwise.model.interface import Head, head_name
from headwise.viz_app import export
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.heads.composition.paths import path
from headwise.viz_app.heads.composition.scores import Edge, composition
from headwise.viz_app.heads.composition.section import course_sentence
from tests.viz_app.pages.driver import (
    CATS,
    STEPS,
    Calls,
    Start,
    array,
    assert_same_arrays,
    patch_views,
    record_calls,
    row_names,
    traced,
    write_made_up,
)

PAGE = "heads"
LAST = STEPS[-1]
PLANTED = (Head("encoder_self", 0, 1), Head("encoder_self", 1, 2), "key")
NAME = "encoder_self.1.2-encoder_self.2.3-key"


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
    write_made_up(own_root)
    return partial(start_page, "heads", own_root, heads="feeds")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the page gives to the drawing of the edges."""
    return record_calls(monkeypatch, "heads", "head_graph")


def test_edges_are_listed_and_the_chosen_one_is_followed(
    start: Start, own_root: Path, lists: Calls, graphs: Calls
) -> None:
    app = start(edge_training="true")
    run = open_trained_run("tiny", root=own_root)
    found = {step: composition(load_weights(run, step).model) for step in STEPS}
    assert row_names(lists, "edge_table") == [e.name for e in found[LAST].strongest(30)]
    assert lists["edge_table"]["chosen"] == NAME  # the strongest
    lines = [array(trace["y"]) for trace in app.charts["edge_lines"]["data"][:2]]
    edges = [found[step].between(*PLANTED) for step in STEPS]
    np.testing.assert_allclose(lines[0], [e.score / e.error for e in edges], rtol=1e-4)
    assert composition(load_weights(run, LAST).model).against_random in app.said
    assert f"stands out from checkpoint {LAST} on" in app.said.replace(",", "")

    frames = graphs["heads_graph"]["given"][3]
    for (at, frame), step, edge in zip(frames.items(), STEPS, edges, strict=True):
        assert at == step
        assert f" {found[step].below.sum()} below" in frame.said
        strongest = found[step].strongest(30)
        assert list(frame.edges[: len(strongest)]) == strongest
        assert edge in frame.edges  # also where it does not stand out
        assert len(frame.edges) <= len(strongest) + 1

    trace = traced(run)
    expected = path(load_weights(run, LAST).model, trace, *PLANTED[:2])
    drawn = array(app.charts["path_map"]["data"][0]["z"])
    change = expected.maps["key"][1] - expected.weights
    np.testing.assert_allclose(drawn, change, atol=1e-6)


def test_an_edge_of_an_address_is_shown_and_one_that_is_none_is_told(start: Start) -> None:
    name = "cross.1.1-decoder_self.2.1-value"
    app = start(edge=name)
    assert "path_map" not in app.charts  # values change no map
    assert "Without it in the values, the output changes by" in app.said
    for none in ("cross.1.1-decoder_self.1.1-value", "cross.9.1-cross.1.1-query"):
        [noted] = start(edge=none).warnings
        assert noted.endswith(f"cannot be used here. Edge between heads: {NAME}.")


def test_an_unmeasured_run_has_its_edges_too(start_page: Start, run_root: Path) -> None:
    app, run = start_page("heads", run_root, heads="feeds"), open_trained_run("tiny", root=run_root)
    assert composition(load_weights(run, LAST).model).against_random in app.said
    assert "path_map" in app.charts or "its output changes by" in app.said


def test_the_page_gives_the_files_that_the_command_writes(
    start: Start, own_root: Path, tmp_path: Path, downloads: dict[str, Callable[[], bytes]]
) -> None:
    for section in ("feeds", "writes"):
        start(heads=section, kind="cross", layer="1", head="2")
    ends = tuple(map(head_name, PLANTED[:2]))
    for content, heads, text, name in (
        ("composition", (), "", "edges"),
        ("path", ends, CATS, f"path-{ends[0]}-{ends[1]}"),
        ("dictionary", ("cross.1.2",), "", "writes-cross.1.2"),
    ):
        out = tmp_path / f"{content}.npz"
        export.main(
            export.ExportArguments(
                out,
                SentenceOptions(run="tiny", text=text, checkpoints=own_root),
                content=content,  # type: ignore[arg-type]
                heads=heads,
            )
        )
        assert_same_arrays(downloads[f"headwise-tiny-{LAST}-{name}.npz"](), out)


def test_a_step_is_alone_until_all_are_asked_for_and_clicks_choose(
    start: Start, graphs: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: dict[str, object] = {}
    patch_views(monkeypatch, "heads", change_view=lambda *_, **choices: chosen.update(choices))
    app = start()
    assert "edge_lines" not in app.charts
    given = graphs["heads_graph"]
    assert [*given["given"][3]] == [given["start"]] == [LAST]
    assert given["chosen"].name == NAME
    given["on_edge"](*PLANTED)
    given["on_open"](STEPS[0])
    assert chosen == {"edge": NAME, "step": STEPS[0]}


def test_the_course_of_an_edge_says_since_when_it_stands_out() -> None:
    def at(**scores: float) -> str:
        edges = {
            int(step[1:]): Edge(*PLANTED, score=score, chance=0.2, error=0.01)
            for step, score in scores.items()
        }
        return course_sentence(edges)

    ends = (
        "The edge has {} over 0.200 ± 0.010 at checkpoint 0 and {} over 0.200 ± 0.010 at "
        "checkpoint 2,000, where ± is the spread of random matrices. "
    )
    assert at(s0=0.01, s500=0.04, s2000=0.1) == (
        ends.format("+0.010", "+0.100") + "It stands out from checkpoint 500 on."
    )
    assert at(s0=0.04, s500=0.02, s2000=0.1).endswith("It stands out from checkpoint 2,000 on.")
    twice = at(s0=0.02, s500=0.1, s1000=0.02, s2000=0.1)  # since it did for the last time
    assert twice.endswith("It stands out from checkpoint 2,000 on.")
    assert at(s0=0.04, s2000=0.1).endswith("It stands out at every one.")
    assert at(s0=0.04, s2000=-0.1) == (
        ends.format("+0.040", "-0.100")
        + "At the last it does not stand out; at 1 of 2 checkpoints it does."
    )
