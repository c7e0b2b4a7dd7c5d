"""Lines from token to token are those of a trace computed here, and follow mouse and keyboard.

The tokens of both columns are counted on, left ones first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.interface import KINDS, Kind
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from tests.browser.driver import (
    NAMES,
    App,
    Traced,
    asked,
    cut,
    expect_lines,
    heavy_cells,
    lines_locator,
)

pytestmark = pytest.mark.release

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
IN_PARTS = "The acrobats unbuttoned their waistcoats."
ENDS = """paths => paths.map(path => {
    const boxes = [...path.ownerSVGElement.querySelectorAll('.token rect')].map(r => r.getBBox());
    const near = (a, b) => Math.abs(a - b) < 1;
    const length = path.getTotalLength();
    const [from, middle, to] = [0, length / 2, length].map(at => path.getPointAtLength(at));
    const [left, right] = [boxes[0].x, boxes.at(-1).x + boxes.at(-1).width];
    return [...[from, to].map(end => boxes.findIndex(box =>
        box.y <= end.y && end.y <= box.y + box.height &&
        (near(end.x, box.x) || near(end.x, box.x + box.width)))),
        middle.x < left ? 'left' : middle.x > right ? 'right' : 'between'];
})"""
"""At which tokens each line begins and ends, and where it runs."""
PLACES = "all => all.map(path => [path.dataset.query, path.dataset.key].map(Number))"
WIDTHS = """all => all.map(path =>
    [+path.dataset.weight, +getComputedStyle(path).strokeWidth.replace('px', '')])"""
WHERE = {"encoder_self": "left", "decoder_self": "right", "cross": "between"}


def expect_tokens(app: App, left: Sequence[str], right: Sequence[str]) -> None:
    """Both columns have these labels, long ones cut and whole where the mouse rests."""
    labels = [*left, *right]
    expect(lines_locator(app, ".token title")).to_have_text(labels)
    expect(lines_locator(app, ".token > text")).to_have_text(cut(labels))


def slide_to(app: App, least: float) -> None:
    lines_locator(app, "input[type=range]").fill(f"{least:.2f}")


def leave(app: App) -> None:
    """Move the mouse away from the lines."""
    app.page.mouse.move(2, 2)


def test_lines_of_a_head_run_from_token_to_token(app: App, traced: Traced) -> None:
    trace = traced(SHORT)
    app.open(q=SHORT, style="lines", layer=2, head=3)
    for kind in KINDS:
        app.choose(kind=kind)
        grid = make_grid(trace, kind)
        expect_lines(app, heavy_cells(trace.attention[kind][1, 2]))
        expect_tokens(app, grid.columns, grid.rows)
        expect(lines_locator(app, ".name")).to_have_text([f"{NAMES[kind]}, layer 2, head 3"])
        paths = lines_locator(app, ".all path")
        across = len(grid.columns)
        places = paths.evaluate_all(PLACES)
        assert len(places) > 5
        ends = [[across + query, key, "between"] for query, key in places]
        assert paths.evaluate_all(ENDS) == ends
        widths = sorted(paths.evaluate_all(WIDTHS))
        for (light, thin), (heavy, thick) in pairwise(widths):
            assert thick >= thin
            assert thick > thin or heavy - light < 0.01
        assert widths[-1][1] > 2 * widths[0][1]


def test_lines_of_all_kinds_run_between_words_of_both_sides(app: App, traced: Traced) -> None:
    trace = traced(IN_PARTS)
    kinds: list[Kind] = ["decoder_self", "encoder_self", "cross"]
    reading = GridOptions("words", "consumed")
    grids = {kind: make_grid(trace, kind, reading) for kind in kinds}
    app.open(q=IN_PARTS, style="joint", kind=kinds[0], layer=2, head=4, units="words")
    maps = [grids[kind].apply(trace.attention[kind])[1, 3] for kind in kinds]
    expect_lines(app, heavy_cells(*maps))
    expect_tokens(app, grids["encoder_self"].columns, grids["decoder_self"].rows)
    expect(lines_locator(app, ".title")).to_have_text(["source", "predicted ← consumed"])
    named = [f"{NAMES[kind]}, layer 2, head 4" for kind in kinds]
    expect(lines_locator(app, ".name")).to_have_text(named)

    colours = "all => all.map(element => getComputedStyle(element).{})"
    swatches = lines_locator(app, ".swatch").evaluate_all(colours.format("backgroundColor"))
    assert len({*swatches}) == 3
    across = len(grids["encoder_self"].columns)
    sides = {"encoder_self": (0, 0), "decoder_self": (across, across), "cross": (across, 0)}
    for bundle, kind in enumerate(kinds):
        paths = lines_locator(app, f'.all path[data-bundle="{bundle}"]')
        places = paths.evaluate_all(PLACES)
        assert {*paths.evaluate_all(colours.format("stroke"))} == {swatches[bundle]}
        side = sides[kind]
        ends = [[side[0] + query, side[1] + key, WHERE[kind]] for query, key in places]
        assert paths.evaluate_all(ENDS) == ends


def test_mouse_and_slider_change_the_lines_at_once(app: App, traced: Traced) -> None:
    heads = traced(SHORT).attention["cross"]
    weights = heads[1, 2]
    keys = weights.shape[-1]
    query, key = (int(at) for at in np.unravel_index(weights.argmax(), weights.shape))
    tokens, slider = lines_locator(app, ".token"), lines_locator(app, "input[type=range]")
    sent = app.frames("framesent")
    app.open(q=SHORT, style="lines", layer=2, head=3, below="steps")
    expect_lines(app, heavy_cells(weights))
    # What a beam would write is asked for when all rests.
    expect(app.page.get_by_text(re.compile("A beam of . writes"))).to_be_visible()
    before = len(sent)

    tokens.nth(key).hover()
    expect_lines(app, heavy_cells(weights, key=key))
    tokens.nth(keys + query).hover()
    expect_lines(app, heavy_cells(weights, query=query))
    leave(app)
    expect_lines(app, heavy_cells(weights))
    assert 0 < len(heavy_cells(weights, query=query)) < len(heavy_cells(weights))

    tokens.nth(key).click()
    leave(app)
    expect_lines(app, heavy_cells(weights, key=key))
    assert not asked(sent[before:]), "the mouse alone asked the server"
    slide_to(app, 0.02)
    expect_lines(app, heavy_cells(weights, key=key, least=0.02))
    tokens.nth(keys + query).click()  # the other one is left
    leave(app)
    expect_lines(app, heavy_cells(weights, query=query, least=0.02))
    app.page.keyboard.press("Escape")
    for press, least in (("Home", 0.01), ("ArrowRight", 0.02), ("End", 1.0)):
        slider.press(press)
        expect(lines_locator(app, "output")).to_have_text(f"{least:.2f}")
        expect_lines(app, heavy_cells(weights, least=least))
    slide_to(app, 0.3)
    expect_lines(app, heavy_cells(weights, least=0.3))

    app.expect_address(smallest_line="0.3")
    app.choose(head="2")
    expect_lines(app, heavy_cells(heads[1, 1], least=0.3))
    expect(slider).to_have_value("0.3")
    app.page.reload()
    expect_lines(app, heavy_cells(heads[1, 1], least=0.3))
    expect(slider).to_have_value("0.3")


def test_keyboard_reaches_tokens_and_a_new_sentence_forgets_the_chosen_one(
    app: App, traced: Traced
) -> None:
    trace = traced(SHORT)
    grid, weights = make_grid(trace, "cross"), trace.attention["cross"]
    keys, tokens = len(grid.columns), lines_locator(app, ".token")
    app.open(q=SHORT, style="lines", layer=2, head=3)
    expect_lines(app, heavy_cells(weights[1, 2]))
    lines_locator(app, "button").press("Tab")
    expect(tokens.nth(0)).to_be_focused()
    said = lines_locator(app, ".status[aria-live=polite]")
    for button, at, how in (
        ("ArrowDown", 1, "seen by"),
        ("ArrowUp", 0, "seen by"),
        ("ArrowRight", keys, "looks at"),
    ):
        app.page.keyboard.press(button)
        expect(tokens.nth(at)).to_be_focused()
        label = [*grid.columns, *grid.rows][at]
        nothing = "no line of this weight"
        expect(said).to_contain_text(re.compile(f"{re.escape(label)}: ({how} |{nothing})"))
    app.page.keyboard.press("Enter")
    lines_locator(app, "input[type=range]").focus()
    expect_lines(app, heavy_cells(weights[1, 2], query=0))

    tokens.nth(keys - 1).click()
    leave(app)
    expect_lines(app, heavy_cells(weights[1, 2], key=keys - 1))
    app.choose(head="2")
    expect_lines(app, heavy_cells(weights[1, 1], key=keys - 1))
    expect(lines_locator(app, ".pinned")).to_have_count(1)
    app.type(BRIEF)
    expect_lines(app, heavy_cells(traced(BRIEF).attention["cross"][1, 1]))
    expect(lines_locator(app, ".pinned")).to_have_count(0)


def test_long_tokens_are_cut_between_letters(app: App) -> None:
    word = "xx" + "𐌰" * 21  # most of its letters count twice in JavaScript
    app.open(q=f"{word} is here.", style="lines", units="words")
    expect(lines_locator(app, ".token > text").first).to_have_text(word[:21] + "…")
    lines_locator(app, ".token").first.focus()
    expect(lines_locator(app, ".status > b").first).to_have_text(word)
