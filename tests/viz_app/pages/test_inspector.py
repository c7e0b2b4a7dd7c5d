"""The inspector of the chosen head, which all pages that have one draw in the sidebar."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from headwise.model.checkpoint import load_weights, open_trained_run
from headwise.model.interface import Kind
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.state import chosen
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.measures import SENTENCES
from tests.viz_app.pages.driver import CATS, Page, Start, unescaped

PAGES = [
    ("translate", {}),
    ("inside", {}),
    ("why", {"why": "turn heads"}),
    ("why", {"why": "two sentences", "other": "The dogs sleep."}),
    ("heads", {"heads": "atlas"}),
    ("training", {"training": "heads"}),
    ("training", {"training": "compare"}),
]
"""Pages with buttons for heads."""
every_page = pytest.mark.parametrize(
    ("page", "address"), PAGES, ids=["-".join([page, *at.values()]) for page, at in PAGES]
)
CROSS = {"q": CATS, "kind": "cross", "layer": "2", "head": "1"}
WAYS = {"translate", "inside", "why", "training", "heads"}


def said(app: Page) -> str:
    """Everything that the sidebar says in words."""
    shown = (*app.sidebar.markdown, *app.sidebar.caption, *app.sidebar.button)
    return unescaped("\n".join(getattr(each, "label", each.value) for each in shown))


def pictures(app: Page) -> list[str]:
    return app.markup("<img alt=")


def test_its_row_is_the_step_that_two_sentences_are_asked_about(start_page: Start) -> None:
    asked = {"why": "two sentences", "other": "The dogs sleep.", "at": "1"}
    for step in (0, 2):
        app = start_page("why", **CROSS, **asked, parting=str(step))
        [picture] = app.markup("small-map")
        [(top, height)] = re.findall(r"top:([\d.]+)%;height:([\d.]+)%", picture)
        assert float(top) / float(height) == pytest.approx(step, abs=0.01)
        [frame] = app.frames("pair_map_A")
        assert (frame["y0"], frame["y1"]) == (step - 0.5, step + 0.5)


@every_page
def test_it_follows_the_head_that_is_chosen(
    start_page: Start,
    own_root: Path,
    measured: dict[int, Measures],
    page: str,
    address: dict[str, str],
) -> None:
    app = start_page(page, own_root, **CROSS, **address)
    for head in (1, 3):
        if head == 3:
            before = pictures(app)
            app = app.use("head", "3")
            assert not {*before} & {*pictures(app)}
        assert f"**Cross 2.{head}**: " in said(app)
        cost, error = (
            float(each["cross"][1, head - 1])
            for each in (measured[60].values["cost"], measured[60].cost_errors)
        )
        assert f"cost of switching off: {cost:+.3f} ± {error:.3f} nats per token" in said(app)
        assert [picture.count(f"Cross 2.{head}") for picture in pictures(app)] == [1, 1]
    ways = {key for key in WAYS if f"head-{key}" in [each.key for each in app.sidebar.button]}
    assert ways == WAYS - {page}


def test_of_a_head_that_is_not_measured_it_has_the_name_and_the_map(start_page: Start) -> None:
    app = start_page("translate", **CROSS)
    assert "**Cross 2.1**\n" in said(app)
    assert len(pictures(app)) == 1


@pytest.mark.parametrize("kind", ["cross", "decoder_self"])
def test_it_says_where_the_chosen_row_looks_and_the_weight_of_the_chosen_cell(
    start_page: Start, run_root: Path, kind: Kind
) -> None:
    app = start_page("translate", **CROSS | {"kind": kind, "at": "1", "column": "2"})
    run = open_trained_run("tiny", root=run_root)
    trace = run_trace(load_weights(run, 60).model, run.tokenizers, CATS)
    weights, keys = trace.attention[kind][1, 0, 1], token_labels(trace.keys_of(kind))
    first, second = np.argsort(-weights)[:2]
    row = said(app)[said(app).index("←") :].splitlines()[0]
    assert f"{keys[first]} {weights[first]:.3f}" in row
    assert f"{keys[second]} {weights[second]:.3f}" in row
    marked = f"**{keys[2]} {weights[2]:.3f}**"
    assert (marked in row) == (kind == "cross")
    assert (keys[2] in row.partition(": ")[2].replace("*", "").split()) == (kind == "cross")


def test_an_example_opens_with_its_target(
    start_page: Start, own_root: Path, measured: dict[int, Measures]
) -> None:
    app = start_page("inside", own_root, **CROSS | {"head": "3", "step": "20"})
    app.button(key="head-example-0").click().run()
    assert app.session_state["opening"] == "translate"
    shown = app.view
    assert (shown.sentence, shown.target) == (SENTENCES[1].source, SENTENCES[1].reference)
    assert (shown.kind, shown.layer, shown.head) == ("cross", 2, 3)


@pytest.mark.parametrize(
    ("page", "section"),
    [("translate", ("below", "off")), ("why", ("why", "turn heads")), ("inside", ("below", "off"))],
)
def test_a_head_is_switched_off_where_its_effect_is_seen(
    start_page: Start, page: str, section: tuple[str, str]
) -> None:
    app = start_page(page, **CROSS)
    app.button(key="turn-head").click().run()
    assert app.address["off"] == "cross.2.1"
    assert chosen(app.view, section[0]) == section[1]
    assert ("opening" in app.session_state) == (page == "inside")
    assert app.button(key="turn-head").label == "On again"
    app.button(key="turn-head").click().run()
    assert "off" not in app.address
