"""What people take along: links that bring all choices back, citations, files and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import numpy as np
from playwright.sync_api import Download, Locator, expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.saved import metadata, read_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import expect_lines, heavy_cells
from tests.floats import assert_near

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "We saw three black cats on the white roof."
FORCED = "Vimos gatos."


def panel(app: App) -> Locator:
    return app.page.get_by_test_id("stPopoverBody")


def open_panel(app: App) -> None:
    app.page.get_by_role("button", name="Link, cite, download").click()
    panel(app).get_by_text("Pictures are saved as").wait_for()


def close_panel(app: App) -> None:
    app.page.keyboard.press("Escape")
    expect(panel(app)).to_have_count(0)


def link(app: App) -> str:
    return app.link_and_citations()[0]


def query(address: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(address).query)


def take_picture(app: App, key: str, kind: str) -> Download:
    """Save a picture by the only button that appears when the mouse is over it."""
    app.expect_read(key, "gd._context.toImageButtonOptions.format", kind)
    app.hover_in(key, 0.4, 0.4)
    app.hover_in(key, 0.5, 0.5)
    button = app.page.locator(f".st-key-{key} .modebar-btn")
    expect(button).to_have_count(1)
    expect(button).to_be_visible()
    return app.download(button)


def test_link_restores_all_that_was_clicked(
    new_app: Callable[..., App], run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-2]
    target = tuple(run.tokenizers.encode_target(FORCED))
    trace = trace_at(step, SENTENCE, target)
    grid = make_grid(trace, "decoder_self", GridOptions(units="words", special=False))
    cells = grid.apply(trace.attention["decoder_self"])[1, 2]
    choices = {
        "units": "words",
        "kind": "decoder_self",
        "layer": "2",
        "head": "3",
        "style": "lines",
    }

    def expect_all(app: App) -> None:
        expect_lines(app, heavy_cells(cells))
        app.expect_chosen(**choices)
        app.expect_field("sentence", SENTENCE)
        app.expect_field("target", FORCED)
        app.expect_text("translation", FORCED)
        slider = app.page.get_by_role("slider", name="Checkpoint, by training step")
        expect(slider).to_have_attribute("aria-valuetext", f"{step:,}")
        with app.menu_of("special"):
            expect(app.page.get_by_role("switch", name="Special tokens")).not_to_be_checked()
        expect(app.page.locator(".st-key-off [data-tag]")).to_have_text(["Cross 2.2"])
        app.page.locator(".st-key-without").wait_for()

    high = {"width": 1440, "height": 3000}  # else the list of heads closes when the page scrolls
    app = new_app(viewport=high)
    app.open()
    app.type(SENTENCE)
    app.expect_address(q=SENTENCE)
    app.press("step", "ArrowLeft")
    app.expect_address(step=str(step))
    app.enter("target", FORCED)
    app.expect_text("translation", FORCED)
    for key, option in choices.items():
        app.choose(**{key: option})
        app.expect_address(**{key: option})
    app.toggle("special")
    app.expect_address(special="false")
    app.choose(below="Switch heads off")
    app.pick("off", "Cross 2.2")
    app.page.keyboard.press("Escape")
    expect_all(app)

    again = new_app(viewport=high)
    again.open(link(app))
    expect_all(again)
    assert query(link(again)) == query(app.page.url)
    again.go_to("Inside a head")
    again.expect_field("target", FORCED)
    assert urlsplit(link(again)).path == "/inside"


def test_comparison_is_switched_on_drawn_and_reloaded(
    app: App, run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    newest, second_step = run.steps()[-1], run.steps()[-3]
    target = trace_at(newest, SENTENCE).target_ids
    a, b = (trace_at(step, SENTENCE, target) for step in (newest, second_step))
    grid = make_grid(a, "decoder_self", GridOptions(units="words", rows_by="consumed"))
    later, earlier = (
        grid.apply(trace.attention["decoder_self"])[1].mean(axis=0) for trace in (a, b)
    )
    choices = {
        "units": "words",
        "rows": "consumed",
        "kind": "decoder_self",
        "layer": "2",
        "show": "mean",
    }
    app.open(q=SENTENCE, **choices)
    app.page.get_by_text("Compare with another checkpoint").click()
    app.page.locator(".st-key-later_map .js-plotly-plot").wait_for()
    app.press("second", "End")
    app.press("second", "ArrowLeft")
    for reloaded in (False, True):
        if reloaded:
            app.page.reload()
        app.expect_drawn("difference", later - earlier)
        app.expect_drawn("earlier_map", earlier)
        app.expect_drawn("later_map", later)
        for key in ("earlier_map", "later_map", "difference"):
            app.expect_labels(key, "y", grid.rows)
            app.expect_labels(key, "x", grid.columns)
        app.expect_chosen(**choices)
        for step in (newest, second_step):
            app.expect_text(f"own-{step}", trace_at(step, SENTENCE).target_text)


def test_link_is_of_the_head_that_is_shown_when_the_panel_opens(app: App) -> None:
    app.open(q=SENTENCE)
    app.choose(head="2")
    first = query(link(app))
    assert (first["head"], first["q"]) == (["2"], [SENTENCE])
    app.choose(head="4", kind="encoder_self")
    app.expect_address(head="4", kind="encoder_self")
    second = query(link(app))
    assert (second["head"], second["kind"]) == (["4"], ["encoder_self"])
    app.click_in("mosaic", 0.625, 0.5)
    app.expect_address(layer="2", head="3")
    third = query(link(app))
    assert (third["layer"], third["head"]) == (["2"], ["3"])


def test_citation_downloads_and_pictures_are_of_the_trace(
    app: App, run: TrainedRun, newest: int, tmp_path: Path
) -> None:
    checkpoint = load_weights(run, newest)
    trace = run_trace(
        checkpoint.model,
        run.tokenizers,
        SENTENCE,
        run="en-es",
        step=newest,
        sha256=checkpoint.sha256,
    )
    app.open(q=SENTENCE, layer=2, head=3)
    app.expect_drawn("large", trace.attention["cross"][1, 2])
    picture = take_picture(app, "large", "svg")
    assert picture.suggested_filename == f"headwise-en-es-{newest}-cross-layer2-head3.svg"
    root = ElementTree.fromstring(Path(picture.path()).read_bytes())
    assert root.tag.endswith("}svg")
    grid = make_grid(trace, "cross")
    written = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {label for label in (*grid.rows, *grid.columns) if len(label) <= 22} <= written

    open_panel(app)
    cited = panel(app).locator("code").nth(1)
    facts = ("run: en-es", f"step: {newest:,}", f"sha256: {trace.sha256}", "greedy")
    for fact in (f'Headwise, "{SENTENCE}" → "{trace.target_text}"; ', *facts):
        expect(cited).to_contain_text(fact)
    saved: dict[str, Path] = {}
    for ending in ("html", "npz", "json"):
        button = panel(app).get_by_role("button", name=f".{ending}", exact=True)
        file = app.download(button)
        assert file.suggested_filename == f"headwise-en-es-{newest}.{ending}"
        saved[ending] = tmp_path / file.suggested_filename
        file.save_as(saved[ending])
    assert SENTENCE in saved["html"].read_text()
    exact = [dict(read_trace(saved[ending]).arrays()) for ending in ("npz", "json")]
    for name, array in trace.arrays():
        np.testing.assert_array_equal(exact[0][name], exact[1][name], err_msg=name)
        assert_near(exact[0][name], array)
    for ending in ("npz", "json"):
        read = replace(read_trace(saved[ending]), summary=trace.summary, checks=trace.checks)
        assert metadata(read) == metadata(trace)

    app.choose(pictures="png")
    app.expect_address(pictures="png")
    close_panel(app)
    picture = take_picture(app, "large", "png")
    assert picture.suggested_filename == f"headwise-en-es-{newest}-cross-layer2-head3.png"
    assert Path(picture.path()).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
