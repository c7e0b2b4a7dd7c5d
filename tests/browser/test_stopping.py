"""A long computation goes on in slices: it is seen, it can be stopped, and clicks are answered."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.driver import App

pytestmark = pytest.mark.release

LONG = " ".join(["The old man gave the little girl a red apple in the big garden."] * 12)
WHILE_IT_GOES_ON = "[class*='st-key-patching-progress']"


def patching(app: App) -> None:
    """Ask for it."""
    app.page.get_by_role("radio", name="Activation patching").click()


def done(said: str) -> int:
    found = re.search(r"([\d,]+) of|after ([\d,]+)", said)
    assert found, said
    return int((found[1] or found[2]).replace(",", ""))


def test_patching_is_stopped_and_gone_on_with(app: App) -> None:
    other = LONG.replace("old man", "old woman")
    app.open("/why", q=LONG, why="two sentences", other=other, shared_by="A", parting="80")
    patching(app)
    progress = app.page.locator(WHILE_IT_GOES_ON)
    stop = progress.get_by_role("button", name="Stop")
    stop.wait_for()
    app.expect_address(patching="true")
    expect(progress).to_contain_text(" of ")
    before = done(progress.inner_text())
    stop.click()
    stopped = app.page.get_by_text("Chosen again, it goes on from there.")
    expect(stopped).to_contain_text("stopped after")
    expect(progress).to_have_count(0)
    app.expect_address(patching=None, parting="80")
    reached = done(stopped.inner_text())
    assert reached >= before
    patching(app)
    expect(stopped).to_have_count(0)
    stop.wait_for()
    assert done(progress.inner_text()) >= reached
    app.go_to("Translate")  # which ends it
    app.rest()
    expect(progress).to_have_count(0)
