"""What a click changes is seen without scrolling, or the page scrolls there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.browser.driver import App, NewApp

SENTENCE = "We saw three black cats on the white roof."
LEAST = 150
"""Pixels of something large that must be seen of it, and of what is smaller all."""
STATE = """place => {
    const [element] = visible(place);
    if (!element) return null;
    const inner = element.cloneNode(true), drawn = element.querySelectorAll('canvas');
    inner.querySelectorAll('[id]').forEach(each => each.removeAttribute('id'));
    const shown = [...element.querySelectorAll('[data-testid="stBidiComponentIsolated"]')]
        .map(each => each.shadowRoot?.innerHTML);
    return inner.innerHTML + shown.join('') + drawn.length;
}"""
CHANGED = f"""([place, before]) => {{
    const now = ({STATE})(place);
    return Boolean(now) && now !== before;
}}"""
BOX = """place => {
    const {top, bottom} = visible(place)[0].getBoundingClientRect();
    return [top, bottom];
}"""


class Click(NamedTuple):
    """A click on a page, and the places that it changes."""

    page: str
    section: dict[str, str]
    click: Callable[[App], None]
    changes: tuple[str, ...]


def on(place: str, nth: int = 0) -> Callable[[App], None]:
    return lambda app: app.page.locator(place).nth(nth).click()


def into(key: str, x: float, y: float) -> Callable[[App], None]:
    return lambda app: app.click_in(key, x, y)


HEAD, OFF = on(".st-key-head [role=radio]", 2), on(".st-key-turn-head button")
ROW = on(".st-key-head_table tbody tr", 4)
SOURCE, TARGET = on(".st-key-source_tokens button", 3), on(".st-key-target_tokens button", 4)
INSPECTOR, MAP = ".st-key-inspector", ".st-key-large"
SWITCHED_OFF = ".st-key-switched-off"
CLICKS = {
    "a head on Translate": Click("translate", {}, HEAD, (MAP, INSPECTOR)),
    "all heads on Translate": Click("translate", {}, into("mosaic", 0.9, 0.2), (INSPECTOR,)),
    "a source token": Click("translate", {}, SOURCE, (MAP,)),
    "a position": Click("translate", {}, TARGET, (MAP,)),
    "a head off": Click("translate", {}, OFF, (SWITCHED_OFF,)),
    "a head off from Inside": Click("inside", {}, OFF, (SWITCHED_OFF,)),
    "a head on Inside": Click("inside", {}, HEAD, (".st-key-projections", INSPECTOR)),
    "a token that is marked on Why": Click("why", {}, SOURCE, (INSPECTOR,)),
    "a token that is asked for on Why": Click("why", {}, TARGET, (".st-key-account_parts",)),
    "a bar on Why": Click("why", {}, into("account_parts", 0.9, 0.12), (INSPECTOR,)),
    "a head that is turned": Click("why", {"why": "turn heads"}, HEAD, (".st-key-turned_map",)),
    "a row of the atlas": Click("heads", {}, ROW, (".st-key-example_table", INSPECTOR)),
    "a head whose words are listed": Click(
        "heads", {"heads": "writes"}, HEAD, (".st-key-dictionary_table",)
    ),
    "a head over training": Click("training", {"training": "heads"}, HEAD, (".st-key-head_lines",)),
    "a head that plays": Click(
        "training", {"training": "watch", "playing": "head"}, HEAD, (".st-key-player",)
    ),
}


@pytest.mark.parametrize("click", CLICKS.values(), ids=list(CLICKS))
def test_what_a_click_changes_is_in_sight(new_app: NewApp, click: Click) -> None:
    app = new_app(viewport={"width": 1280, "height": 800})
    app.open(f"/{click.page}", run="en-es", q=SENTENCE, kind="cross", **click.section)
    app.page.locator(f"{INSPECTOR} img").first.wait_for()
    before = {each: app.find(STATE, each) for each in click.changes if each != SWITCHED_OFF}
    click.click(app)
    for place in click.changes:
        app.expect(CHANGED, True, [place, before.get(place)])
    app.page.wait_for_timeout(1_200)  # in which the page may scroll
    for place in click.changes:
        top, bottom = app.find(BOX, place)
        seen = min(bottom, 800) - max(top, 0)
        assert seen >= min(LEAST, bottom - top) - 1, place
