"""Acts at random, after each of which address, link, citation and page must say the same.

The long form is ``python -m tests.robustness.walk``.
"""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.driver import App, NewApp
from tests.robustness.walk import TEXTS, Walker

pytestmark = pytest.mark.release

FORCED = "La chica tiene una pelota roja."


def test_all_says_the_same_after_each_act(new_app: NewApp) -> None:
    walker = Walker(new_app(), new_app(), 1)
    walker.app.open(q=TEXTS[0])
    for _ in range(3):
        walker.step()


def test_a_translation_that_was_dropped_does_not_come_back(new_app: NewApp) -> None:
    """Its field is in a menu that is closed, where the browser is never told that it is empty."""
    walker = Walker(new_app(), new_app(), 0)
    walker.app.open(q="The girl has a red ball.")
    walker.app.enter("target", FORCED)
    walker.app.expect_text("translation", FORCED)
    walker.app.type("The old man gave the little girl a red apple.")
    walker.app.expect_address(target=None)
    walker.app.choose(pictures="png")
    walker.app.expect_address(target=None, pictures="png")
    walker.compare()


def test_what_is_used_far_away_does_not_undo_what_was_chosen_before(new_app: NewApp) -> None:
    """The browser still has a slider that the server has drawn the page without."""
    walker = Walker(new_app(), new_app(), 0)
    page = walker.app.page
    walker.app.be_far(3_000)
    with page.expect_websocket() as socket:
        walker.app.open("/why", q="Vimos tres gatos.", why="turn heads", off="encoder_self.1.4")
    slider = walker.app.widget("strength-encoder_self-1-4").get_by_role("slider")
    slider.wait_for()
    page.locator(".st-key-run").get_by_role("combobox").click()
    with socket.value.expect_event("framereceived", _has_new_address):
        page.get_by_role("option", name="de-en").click()
    slider.press("End")
    walker.compare()
    walker.app.expect_address(run="de-en", off=None)


def _has_new_address(frame: bytes) -> bool:
    """Return whether the server, at the end of a page of the other run, says its address."""
    return "run=de-en" in ForwardMsg.FromString(frame).page_info_changed.query_string


def test_a_head_that_a_list_switches_off_is_off_where_it_is_described(new_app: NewApp) -> None:
    walker = Walker(new_app(), new_app(), 0)
    walker.app.open(q=TEXTS[0], below="off", kind="encoder_self", layer=1)
    heads = walker.app.widget("strengths").get_by_role("combobox")
    heads.fill("Encoder self 1.1")
    heads.press("Enter")
    walker.app.expect_address(off="encoder_self.1.1")
    walker.compare()


def test_two_parts_of_the_page_that_are_used_at_once_are_both_drawn(new_app: NewApp) -> None:
    """Streamlit draws only one of two parts that ask in one message."""
    walker = Walker(new_app(), new_app(), 0)
    walker.app.open(q=TEXTS[0])
    walker.app.page.evaluate(
        """() => {
            const last = key => [...document.querySelectorAll(
                `.st-key-${key} [role="radio"][aria-checked="false"]`)].pop();
            last('below').click();
            last('style').click();
        }"""
    )
    walker.app.expect_address(below="sinks", style="joint")
    walker.compare()


def test_a_widget_that_was_set_does_not_stand_there_twice(app: App) -> None:
    """Of two with one key for styles the old one is hidden until it goes."""
    app.open(run="copy")
    app.page.evaluate(
        """() => {
            window.most = 0;
            const count = () => {
                const fields = [...document.querySelectorAll('.st-key-sentence textarea')];
                window.most = Math.max(most, fields.filter(each => each.checkVisibility()).length);
            };
            new MutationObserver(count).observe(document.body, {childList: true, subtree: true});
        }"""
    )
    for run in ("de-en", "en-es"):
        app.pick("run", run)
        app.expect_address(run=run)
    assert app.find("() => most") == 1


def test_a_map_that_is_drawn_anew_twice_at_once_leaves_no_error(app: App) -> None:
    """Streamlit calls the script of cells late, when they are gone from the page."""
    app.open(q="Vimos tres gatos.", run="books-small", rank="true", below="off")
    for place in range(8):
        app.page.locator(".st-key-cells [role=radio][aria-checked=false]").click()
        # While it is drawn anew, the one before may still be there.
        app.page.locator(".st-key-costs .heat_map image").last.click(
            position={"x": 12 + 40 * (place % 5), "y": 12}
        )
        app.rest()
    assert not app.complaints
