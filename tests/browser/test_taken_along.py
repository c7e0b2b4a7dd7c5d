"""What people take along: links, citations, files and pictures; and choices, to another page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Download, Locator, expect

from model.checkpoint import Run, load_weights
from viz_app.analysis.grid import Reading, make_grid
from viz_app.records import Floats, Trace
from viz_app.saved_trace import describe, read_trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "We saw three black cats on the white roof."
FORCED = "Vimos gatos."
LINES = """() => {
    const root = document.querySelector('.st-key-lines [data-testid="stBidiComponentIsolated"]');
    return [...root?.shadowRoot?.querySelectorAll('path') ?? []]
        .filter(path => getComputedStyle(path.parentNode).display !== 'none')
        .map(({dataset: d}) => [[+d.query, +d.key].join(), +d.weight]);
}"""
"""Query and key of the lines that can be seen, and their weights."""


@pytest.fixture
def trace(run: Run) -> Trace:
    """With all that identifies it."""
    checkpoint = load_weights(run, run.steps()[-1])
    return run_trace(
        checkpoint.model,
        run.tokenizers,
        SENTENCE,
        run="en-es",
        step=checkpoint.step,
        sha256=checkpoint.sha256,
    )


def panel(app: App) -> Locator:
    return app.page.get_by_test_id("stPopoverBody")


def open_panel(app: App) -> None:
    app.page.get_by_role("button", name="Link, cite, download").click()
    panel(app).get_by_text("Pictures are saved as").wait_for()
    app.wait("() => true")


def close_panel(app: App) -> None:
    app.page.keyboard.press("Escape")
    expect(panel(app)).to_have_count(0)


def link(app: App) -> str:
    """What the panel offers as a link, when it is that of the address; the panel is closed then."""
    open_panel(app)
    app.wait(
        """() => {
            const link = document.querySelector('[data-testid="stPopoverBody"] code')?.textContent;
            const sorted = query => [...new URLSearchParams(query)].sort().join();
            return link && sorted(link.split('?')[1]) === sorted(location.search);
        }"""
    )
    text = panel(app).locator("code").first.text_content()
    close_panel(app)
    assert text is not None
    return text


def await_in_address(app: App, key: str, value: str) -> None:
    app.wait(f"value => new URLSearchParams(location.search).get('{key}') === value", value)


def choose_all(app: App, **choices: str) -> None:
    """Choose one after the other, and wait for each to be in the address."""
    for key, option in choices.items():
        app.choose(key, option)
        await_in_address(app, key, option)


def force(app: App, target: str) -> None:
    """Type a translation of one's own and press Enter."""
    app.page.locator(".st-key-target input").fill(target)
    app.page.locator(".st-key-target input").press("Enter")
    await_in_address(app, "target", target)


def expect_lines(app: App, expected: Floats) -> None:
    """Wait until the lines that can be seen are those of a map."""
    heavy = {f"{q},{k}": float(expected[q, k]) for q, k in np.argwhere(expected >= 0.1)}
    app.wait(
        f"""expected => {{
            const drawn = ({LINES})();
            return drawn.length === expected.length && expected.every(([cell, weight]) =>
                Math.abs(new Map(drawn).get(cell) - weight) <= 1e-4);
        }}""",
        list(heavy.items()),
    )
    assert dict(app.page.evaluate(LINES)) == pytest.approx(heavy, rel=0, abs=1e-4)


def test_a_link_restores_all_that_was_clicked(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-2]
    target = tuple(run.tokenizers.encode_target(FORCED))
    trace = trace_at(step, SENTENCE, target)
    grid = make_grid(trace, "decoder_self", Reading(units="words", special=False))
    cells = grid.apply(trace.attention["decoder_self"])[1, 2]
    choices = {"units": "words", "kind": "Decoder self", "layer": "2", "head": "3", "view": "lines"}

    def expect_all(app: App) -> None:
        expect_lines(app, cells)
        assert {key: app.chosen(key) for key in choices} == choices
        assert app.page.get_by_role("textbox", name="Sentence").input_value() == SENTENCE
        expect(app.page.locator(".st-key-target input")).to_have_value(FORCED)
        app.expect_text("translation", FORCED)
        slider = app.page.get_by_role("slider", name="Checkpoint, by training step")
        expect(slider).to_have_attribute("aria-valuetext", f"{step:,}")
        expect(app.page.get_by_role("switch", name="Special tokens")).not_to_be_checked()
        expect(app.page.locator(".st-key-off [data-tag]")).to_have_text(["Cross 2.2"])
        app.page.locator(".st-key-without").wait_for()

    high = {"width": 1440, "height": 3000}  # else the list of heads closes when the page scrolls
    app = new_app(viewport=high)
    app.open()
    app.type(SENTENCE)
    app.press("step", "ArrowLeft")
    force(app, FORCED)
    app.expect_text("translation", FORCED)
    choose_all(app, **choices)
    app.page.get_by_text("Special tokens", exact=True).click()
    await_in_address(app, "special", "false")
    app.pick("off", "Cross 2.2")
    app.page.keyboard.press("Escape")
    expect_all(app)

    again = new_app(viewport=high)
    again.open(link(app))
    expect_all(again)
    assert parse_qs(urlsplit(link(again)).query) == parse_qs(urlsplit(app.page.url).query)


def test_a_link_restores_what_was_clicked_inside_a_head(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-2]
    trace = trace_at(step, SENTENCE, tuple(run.tokenizers.encode_target(FORCED)))
    weights = trace.attention["cross"][1, 3, 0]
    choices = {"layer": "2", "head": "4"}

    def expect_all(app: App) -> None:
        app.wait(
            """expected => {
                const plot = document.querySelector('.st-key-stages .js-plotly-plot');
                const drawn = plot?._fullData?.[1]?.z?.[0] ?? [];
                return expected.every((value, i) => Math.abs(drawn[i] - value) < 1e-5);
            }""",
            weights.tolist(),
        )
        drawn = app.read("stages", "Array.from(gd._fullData[1].z[0])")
        np.testing.assert_allclose(drawn, weights, rtol=0, atol=1e-5)
        assert {key: app.chosen(key) for key in choices} == choices
        expect(app.page.locator(".st-key-target input")).to_have_value(FORCED)

    app = new_app()
    app.open("/inside")
    app.type(SENTENCE)
    app.press("step", "ArrowLeft")
    force(app, FORCED)
    choose_all(app, **choices)
    expect_all(app)
    again = new_app()
    again.open(address := link(app))
    assert urlsplit(address).path == "/inside"
    expect_all(again)


def test_the_link_is_of_the_head_that_is_shown_when_the_panel_opens(app: App) -> None:
    app.open(q=SENTENCE)
    choose_all(app, head="2")
    first = parse_qs(urlsplit(link(app)).query)
    assert (first["head"], first["q"]) == (["2"], [SENTENCE])
    choose_all(app, head="4", kind="Encoder self")
    second = parse_qs(urlsplit(link(app)).query)
    assert (second["head"], second["kind"]) == (["4"], ["Encoder self"])
    app.click_in("mosaic", 0.625, 0.5)
    await_in_address(app, "layer", "2")
    third = parse_qs(urlsplit(link(app)).query)
    assert (third["layer"], third["head"]) == (["2"], ["3"])


def test_the_citation_identifies_the_trace(app: App, trace: Trace) -> None:
    app.open(q=SENTENCE)
    app.expect_text("translation", trace.target_text)
    open_panel(app)
    cited = panel(app).locator("code").nth(1)
    facts = ("run: en-es", f"step: {trace.step:,}", f"sha256: {trace.sha256}", "greedy")
    for fact in (f'Headwise, "{SENTENCE}" → "{trace.target_text}"; ', *facts):
        expect(cited).to_contain_text(fact)


def test_what_is_downloaded_is_the_trace(app: App, trace: Trace, tmp_path: Path) -> None:
    app.open(q=SENTENCE)
    app.expect_text("translation", trace.target_text)
    open_panel(app)
    saved: dict[str, Path] = {}
    for ending in ("html", "npz", "json"):
        with app.page.expect_download() as started:
            panel(app).get_by_role("button", name=f".{ending}", exact=True).click()
        name = started.value.suggested_filename
        assert name == f"headwise-en-es-{trace.step}.{ending}"
        saved[ending] = tmp_path / name
        started.value.save_as(saved[ending])
    assert SENTENCE in saved["html"].read_text()
    exact = [dict(read_trace(saved[ending]).arrays()) for ending in ("npz", "json")]
    for name, array in trace.arrays():
        np.testing.assert_array_equal(exact[0][name], exact[1][name], err_msg=name)
        np.testing.assert_allclose(exact[0][name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    for ending in ("npz", "json"):
        read = replace(read_trace(saved[ending]), summary=trace.summary, checks=trace.checks)
        assert describe(read) == describe(trace)


# The camera of a picture


def take_picture(app: App, key: str, *, kind: str = "svg") -> Download:
    """Save a picture by the only button that appears when the mouse is over it."""
    app.wait(
        """([key, kind]) => document.querySelector(`.st-key-${key} .js-plotly-plot`)
            ?._context?.toImageButtonOptions.format === kind""",
        [key, kind],
    )
    app.hover_in(key, 0.4, 0.4)
    app.hover_in(key, 0.5, 0.5)
    button = app.page.locator(f".st-key-{key} .modebar-btn")
    expect(button).to_have_count(1)
    expect(button).to_be_visible()
    with app.page.expect_download() as started:
        button.click()
    return started.value


def test_a_picture_is_saved_with_its_labels(app: App, trace: Trace) -> None:
    app.open(q=SENTENCE, layer=2, head=3)
    app.expect_drawn("large", trace.attention["cross"][1, 2])
    picture = take_picture(app, "large")
    assert picture.suggested_filename == f"headwise-en-es-{trace.step}-cross-layer2-head3.svg"
    root = ElementTree.fromstring(Path(picture.path()).read_bytes())
    assert root.tag.endswith("}svg")
    grid = make_grid(trace, "cross")
    written = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {label for label in (*grid.rows, *grid.columns) if len(label) <= 22} <= written


def test_a_picture_is_saved_as_png_where_that_is_chosen(app: App, trace: Trace) -> None:
    app.open(q=SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][2, 0])
    open_panel(app)
    choose_all(app, pictures="png")
    close_panel(app)
    picture = take_picture(app, "large", kind="png")
    assert picture.suggested_filename == f"headwise-en-es-{trace.step}-cross-layer3-head1.png"
    assert Path(picture.path()).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


# From page to page


def test_choices_go_with_people_from_page_to_page(app: App) -> None:
    chosen = {"kind": "Decoder self", "layer": "2", "head": "3", "decoding": "beam"}
    kept = chosen | {"target": FORCED, "q": SENTENCE}

    def expect_address() -> None:
        for key, value in kept.items():
            await_in_address(app, key, value)
        address = parse_qs(urlsplit(app.page.url).query)
        assert {key: address.get(key) for key in kept} == {k: [v] for k, v in kept.items()}

    app.open()
    app.type(SENTENCE)
    choose_all(app, **chosen)
    force(app, FORCED)
    expect_address()
    pages = {"Inside a head": "/inside", "Embeddings & positions": "/embeddings", "Translate": "/"}
    for page, path in pages.items():
        app.page.get_by_role("link", name=page).click()
        app.page.wait_for_url(re.compile(rf"{path}\?"))
        expect_address()
        if path != "/embeddings":
            assert {key: app.chosen(key) for key in chosen} == chosen
            expect(app.page.locator(".st-key-target input")).to_have_value(FORCED)
    app.expect_text("translation", FORCED)
