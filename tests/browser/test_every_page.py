"""Every page is drawn in both themes and on every screen, and what is far down when it is seen."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from benchmarks.web_vitals import OBSERVE, jumped
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.session.panels import SECONDS_BETWEEN_LOOKS
from tests.browser.driver import App, NewApp, Traced, rgb

pytestmark = pytest.mark.release

SENTENCE = "The old woman did not open the window."
LONG = "I am hungry and I would like to eat something now, please."
VERY_LONG = " ".join(["When the old teacher came back, the children asked him why."] * 6)
TEXTS_OF_OURS = (".st-key-large .xtick text", ".st-key-about-run p")
"""A label of a map, and what is said of the run."""
MAP_ON_SCREEN = """() => {
    const [chart] = visible('.st-key-large .sheet');
    const [cells] = chart.querySelectorAll('image');
    const {top, left, right, bottom} = chart.getBoundingClientRect();
    const seen = (right - left) * (Math.min(bottom, innerHeight) - top);
    const [{z}] = chart.parentNode.figure.data, {width, height} = cells.getBoundingClientRect();
    const labels = ['.xtick', '.ytick'].map(each => chart.querySelectorAll(each).length);
    if (everywhere('[aria-label^="Tokens of"]').length !== 2) return undefined;
    const missing = [z[0].length - labels[0], z.length - labels[1]];
    const share = seen / innerWidth / innerHeight;
    return [top, share, width / z[0].length, height / z.length, ...missing];
}"""
"""Where the large map begins, its share of the screen, a cell's size, and labels left out."""
SEEN_TOKENS = """() => {
    const all = everywhere('[aria-label^="Tokens of the source"] .token');
    return all.filter((_, place) => EACH).map((token) => {
        const [row, box] = [token.parentNode, token].map((each) => each.getBoundingClientRect());
        return box.left >= row.left - 1 && box.right <= row.right + 1;
    });
}"""
"""Which of some tokens of the source are not cut off."""


@pytest.mark.parametrize("path", ["", "model", "heads"])
def test_little_jumps_while_a_page_comes(new_app: NewApp, path: str) -> None:
    """Its Cumulative Layout Shift is 0.3 or more if nothing keeps the place of what comes late."""
    app = new_app(viewport={"width": 1280, "height": 800})
    app.load_always(OBSERVE)
    app.page.goto(f"{app.address}/{path}?q={SENTENCE}")
    app.rest()
    assert jumped(app.page.evaluate("felt.shifts")) < 0.2


def test_a_page_asked_of_a_slow_server_is_drawn(new_app: NewApp) -> None:
    """Nothing asks for a part of the page before while the server has yet to answer the click."""
    app = new_app()
    app.be_far(0)
    app.open(q="I am hungry.")
    later = 1_000 * SECONDS_BETWEEN_LOOKS + 1_000
    app.page.evaluate("later => { window.far = later; }", later)
    app.go_to("Model")
    app.page.locator(".st-key-stacks svg").wait_for()
    app.page.wait_for_timeout(later)  # until an answer has come that should not have been asked for
    expect(app.page.locator(".st-key-stacks svg")).to_be_visible()


def test_what_is_done_in_a_page_that_was_left_keeps_the_next(new_app: NewApp) -> None:
    app = new_app(viewport={"width": 1280, "height": 4000})
    app.be_far(0)
    app.open("/model", q="I am hungry.", section="masks")
    app.go_to("Translate")
    app.hover_in("large", 0.5, 0.5)
    app.page.wait_for_timeout(500)  # a chart notices the mouse late
    app.page.evaluate("() => { window.far = 2_000; }")
    app.page.get_by_role("link", name="Model").press("Enter")
    app.page.mouse.down()
    app.page.mouse.up()
    app.page.locator(".st-key-causal").wait_for()
    app.page.wait_for_timeout(4_000)  # until an answer has come that should not have been asked for
    app.page.locator(".st-key-causal").click()  # the page is there, and takes clicks


def test_a_menu_that_closes_behind_a_click_on_a_page_does_not_lose_the_page(
    new_app: NewApp,
) -> None:
    app = new_app()
    app.be_far(0)
    app.open("/", q="I am hungry.")
    menu = app.page.locator(".st-key-download-menu button").first
    menu.click()
    app.page.locator(".st-key-pictures").get_by_role("radio", name="png").click()
    app.rest()
    app.page.evaluate("() => { window.far = 2_000; }")
    app.page.get_by_role("link", name="Why", exact=True).evaluate(
        """link => {
            link.click();
            document.querySelector('.st-key-download-menu button').click();
        }"""
    )
    app.page.wait_for_url(re.compile("/why[?]"))
    app.page.wait_for_timeout(4_000)  # until all that was asked for has been answered
    assert len(app.page.locator(".stMain").inner_text()) > 300
    assert app.complaints == []


@pytest.mark.parametrize(("run", "width"), [("en-es", 1280), ("books-small", 390)])
def test_formulas_are_typeset_and_not_cut_off(new_app: NewApp, run: str, width: int) -> None:
    app = new_app(viewport={"width": width, "height": 900})
    for path, number in (("/model", 7), ("/inside", 2)):
        app.open(path, run=run, inside="scores")
        formulas = app.page.locator(".stMain .katex-display")
        expect(formulas).to_have_count(number)
        expect(app.page.locator(".katex-error")).to_have_count(0)
        # Two pixels are how KaTeX rounds.
        cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 2).length"
        assert formulas.evaluate_all(cut) == 0


def test_the_tree_of_modules_folds_by_keyboard(app: App) -> None:
    app.open("/model", run="books-small", q=SENTENCE, section="modules")
    point = "encoder.layers.1.feed_forward.hidden"
    layer = app.page.locator('details[data-module="encoder.layers.1"]')
    hidden = layer.locator(f'tr[data-hook="{point}"]')
    app.page.locator('details[data-module="encoder.layers"] > summary').click()
    layer.wait_for()
    expect(hidden).to_be_hidden()
    layer.locator("> summary").click()
    inner = layer.locator('details[data-module="encoder.layers.1.feed_forward"] > summary')
    inner.focus()
    app.page.keyboard.press("Enter")
    expect(hidden).to_be_visible()
    assert inner.evaluate("element => element.matches(':focus-visible')")
    app.page.keyboard.press("Enter")
    expect(hidden).to_be_hidden()
    app.choose(unfold="everything")
    expect(hidden).to_be_visible()


def test_sections_are_drawn_when_scrolled_to(new_app: NewApp, traced: Traced) -> None:
    app = new_app(viewport={"width": 1280, "height": 500})
    app.open()
    place = app.page.locator(".st-key-below_maps .in_sight")
    place.wait_for(state="attached")
    app.choose(head="2", kind="encoder_self")
    assert not app.page.locator(".st-key-at").count()
    place.scroll_into_view_if_needed()
    place.wait_for(state="detached")
    app.type(SENTENCE)
    likeliest = traced(SENTENCE).predictions.top_log_probability[0]
    app.expect_drawn("top_tokens", np.exp(likeliest), values="x")


def test_another_theme_of_the_browser_leaves_no_old_colour(app: App) -> None:
    app.open(q=SENTENCE)
    tick, caption = (app.page.locator(place).first for place in TEXTS_OF_OURS)
    expect(tick).to_have_css("fill", rgb(LIGHT.text))
    app.page.emulate_media(color_scheme="dark")
    expect(tick).to_have_css("fill", rgb(DARK.text))
    expect(caption).to_have_css("color", rgb(DARK.muted))
    app.page.emulate_media(color_scheme="light")
    expect(tick).to_have_css("fill", rgb(LIGHT.text))


# A long sentence


@pytest.mark.parametrize("screen", [(1280, 800), (1440, 900), (1920, 1080)])
def test_the_map_is_what_is_seen_first(new_app: NewApp, screen: tuple[int, int]) -> None:
    """Square cells of 14 to 110 pixels, all with labels, from the upper 250 pixels on.

    It has most of what the overview leaves of the screen, unless its cells are as large as any.
    """
    app = new_app(viewport={"width": screen[0], "height": screen[1]})
    for sentence in ("I love you.", SENTENCE, LONG, VERY_LONG[:220]):
        app.open(run="en-es", q=sentence)
        top, share, *cell, columns, rows = app.find(MAP_ON_SCREEN)
        assert top <= 250
        assert cell[0] == pytest.approx(cell[1], abs=0.1)
        assert 14 <= cell[0] <= 110
        assert share >= 0.29 or cell[0] == 110
        assert (columns, rows) == (0, 0)
    for asked in ({"step": 0}, {"q": VERY_LONG, "step": 0}):  # there is something to be said
        app.open(run="en-es", **asked)
        assert app.find(MAP_ON_SCREEN)[0] <= 320


def test_the_first_click_after_it_counts(new_app: NewApp) -> None:
    """Nothing moves away under the mouse when the field of the sentence is left."""
    app = new_app(viewport={"width": 1280, "height": 900})
    app.open()
    app.type(" ".join([VERY_LONG] * 2))
    app.expect_address(q=" ".join([VERY_LONG] * 2))
    app.choose(head="3")
    app.expect_address(head="3")


def test_each_of_its_tokens_is_reached(app: App) -> None:
    """By the arrow keys and by the mouse; the chosen one is in view at first."""
    app.open(q=VERY_LONG, column=40, run="en-es")
    app.expect(SEEN_TOKENS.replace("EACH", "place === 40"), [True])
    row = app.page.locator(".st-key-source_tokens")
    tokens = row.get_by_role("button", pressed=False)
    tokens.first.focus()
    app.expect(SEEN_TOKENS.replace("EACH", "place === 0"), [True])
    app.page.keyboard.press("End")
    app.expect(SEEN_TOKENS.replace("EACH", "place === all.length - 1"), [True])
    count = len(app.find(SEEN_TOKENS.replace("EACH", "true")))
    row.get_by_role("button", name=f"show all {count}").click()
    app.expect(SEEN_TOKENS.replace("EACH", "true"), [True] * count)
    row.get_by_role("button", name="show one line").click()
    row.get_by_role("button", name=f"show all {count}").wait_for()


def test_tab_goes_on_into_what_is_drawn_when_it_is_seen(new_app: NewApp) -> None:
    app = new_app(viewport={"width": 1280, "height": 500})
    app.open(q=SENTENCE)
    app.widget("below").get_by_role("radio").first.focus()
    app.page.keyboard.press("Tab")
    app.page.locator(".st-key-at").wait_for()
    app.expect("() => document.activeElement.closest('.st-key-at') !== null", True)
