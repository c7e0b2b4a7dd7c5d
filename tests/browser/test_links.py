"""Choices that pages share, made by hand: who opens the link sees the same.

All choices are made without a browser in ``tests/viz_app/views/test_links.py``.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, TimeoutError

from headwise.viz_app.views.state import parameter_of
from tests.browser.driver import App, NewApp, cited_view

SENTENCE = "We saw three black cats on the white roof."
SHARED: list[tuple[str, dict[str, str], str]] = [
    ("translate", {}, "run step sentence"),
    ("translate", {}, "kind layer head units"),
    ("translate", {}, "target"),
    ("translate", {"below": "beam"}, "decoding beam hypothesis"),
    ("translate", {"below": "off"}, "strengths"),
    ("why", {}, "instead"),
    ("inside", {}, "pictures paper printed"),
    ("model", {"section": "input"}, "side"),
    ("training", {"training": "heads"}, "measure"),
    ("errors", {"errors": "pairs"}, "steps_axis"),
]
"""Page, what the address has at first, and shared choices that are then made, in their order."""
BY_HAND = [SHARED[place] for place in (0, 3, 4, 6)]
"""Those of every kind of widget, in the page and in menus."""
_DRAWN = """() => {
    if (visible('[class*="st-key-"][class*="-progress"]').length) return undefined;
    if (visible('.js-plotly-plot').some(gd => !gd.dataset.tabled)) return undefined;
    const plain = value => ArrayBuffer.isView(value) || Array.isArray(value)
        ? Array.from(value, plain) : value;
    const charts = visible('.js-plotly-plot').map(gd => JSON.stringify(gd._fullData.map(
        trace => [trace.type, plain(trace.x), plain(trace.y), plain(trace.z)])));
    const components = roots.map(root => root.textContent);
    return [visible('[data-testid="stMain"]')[0].innerText, ...components, ...charts];
}"""
"""All texts, and the data of all charts, once nothing is computed any more."""


def use(app: App, widget: Locator) -> None:
    """Choose something else in a widget, whatever its kind."""
    if widget.get_by_role("radio").count():
        widget.locator("[aria-checked=false]").first.click()
    elif widget.get_by_role("switch").count():
        widget.locator("label").first.click()
    elif widget.get_by_role("slider").count():
        slider = widget.get_by_role("slider").first
        before = slider.input_value()
        slider.press("ArrowLeft")
        if slider.input_value() == before:  # it is at its lowest
            slider.press("ArrowRight")
    elif widget.get_by_role("spinbutton").count():
        widget.get_by_role("spinbutton").fill("0.5")
        widget.get_by_role("spinbutton").press("Enter")
    elif widget.locator("[data-tag]").count():
        widget.get_by_role("combobox").press("Backspace")
    elif widget.get_by_role("combobox").count():
        widget.get_by_role("combobox").click()
        app.page.get_by_role("option", selected=False).last.click(timeout=5_000)
        app.page.keyboard.press("Escape")
    else:
        widget.locator("input, textarea").fill("El gato.")
        widget.locator("input, textarea").press("Enter")


def change(app: App, name: str) -> None:
    """Make another choice, as often as it takes, until the address says so.

    (A list that is drawn anew while it is open closes without a choice.)
    """
    look = "name => new URLSearchParams(location.search).getAll(name).join()"
    changed = f"([name, before]) => ({look})(name) !== before"
    parameter = parameter_of(name)
    widget = app.widget(name)
    with app.menu_of(name):
        widget.wait_for()
        before = app.find(look, parameter)
        for _ in range(10):
            with suppress(TimeoutError):
                use(app, widget)
                app.page.wait_for_function(changed, arg=[parameter, before], timeout=10_000)
                return
        raise AssertionError(f"{name} cannot be chosen")


@pytest.mark.parametrize(
    ("page", "at_first", "choices"), BY_HAND, ids=[choices for _, _, choices in BY_HAND]
)
def test_who_opens_the_link_sees_the_same(
    new_app: NewApp, page: str, at_first: dict[str, str], choices: str
) -> None:
    high = {"width": 1440, "height": 3000}  # a list closes when the page scrolls
    app = new_app(viewport=high)
    app.open("/" if page == "translate" else f"/{page}", q=SENTENCE, **at_first)
    for choice in choices.split():
        change(app, choice)
    app.rest()
    address = urlsplit(app.page.url)
    link, *citations = app.link_and_citations()
    for citation in citations[:1]:  # the second is the same in BibTeX
        assert cited_view(citation) == parse_qs(urlsplit(link).query, keep_blank_values=True)
    again = new_app(viewport=high)
    again.open(f"{address.path}?{urlsplit(link).query}")
    for one, other in ((again, app), (app, again)):  # what goes on in slices may rest on either
        if one.find(_DRAWN, wanted=other.find(_DRAWN), patience=20_000) == other.find(_DRAWN):
            break
    else:
        again.expect(_DRAWN, app.find(_DRAWN))
    assert again.page.url == app.page.url


def test_a_link_leaves_out_the_choices_of_other_pages(app: App) -> None:
    app.open(q=SENTENCE, style="lines", units="words")
    app.go_to("Training")
    app.choose(training="heads")
    app.expect_address(training="heads", units="words", style="lines")
    link, *_ = app.link_and_citations()
    assert parse_qs(urlsplit(link).query).keys() == {"run", "step", "q", "training", "units"}


def test_the_link_is_of_what_is_shown_when_the_menu_opens(app: App) -> None:
    app.open(q=SENTENCE)
    app.choose(head="2")
    for choices in ({"head": "2"}, {"head": "4", "kind": "encoder_self"}):
        app.choose(**choices)
        app.expect_address(**choices)
        link, *_ = app.link_and_citations()
        asked = parse_qs(urlsplit(link).query)
        assert choices.items() <= {name: each[0] for name, each in asked.items()}.items()


def test_going_back_shows_one_view_after_another(new_app: NewApp) -> None:
    app = new_app(fresh=True)
    app.open(q=SENTENCE)
    app.choose(head="2")
    app.expect_address(head="2")
    app.go_to("Inside a head")
    app.expect_address(head="2")
    app.choose(head="3")
    app.expect_address(head="3")
    for path, head in (("/inside", "2"), ("/", "2"), ("/", None)):
        app.page.go_back()
        app.expect_address(head=head)
        assert urlsplit(app.page.url).path == path
        app.expect_chosen(head=head or "1")
    app.page.go_forward()
    app.expect_chosen(head="2")
