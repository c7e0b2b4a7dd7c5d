"""A file of sentences is read in the browser, and measured on the page Heads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import CHECKPOINTS
from tests.browser.driver import NewApp


@pytest.mark.release
def test_a_file_is_put_into_the_field_and_measured(
    serve: Callable[..., str], new_app: NewApp, tmp_path: Path
) -> None:
    """One that is too large is refused where it was chosen, and not sent."""
    runs = tmp_path / "runs"
    shutil.copytree(CHECKPOINTS / "copy", runs / "own", ignore=shutil.ignore_patterns("measures"))
    app = new_app(serve(runs))
    app.open("/heads")
    place = app.page.locator(".text_file input")
    field = app.page.get_by_role("textbox", name="Your sentences, one a line")
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a\n" * 2**18}
    place.set_input_files(large)
    expect(app.page.locator(".text_file [role=status]")).to_have_text(
        "large.txt has 512 KiB; at most 256 are read here."
    )
    expect(field).to_have_value("")
    place.set_input_files({**large, "buffer": b"1 2 3 4\n5 6 7 8\n"})
    expect(field).to_have_value("1 2 3 4\n5 6 7 8\n")
    measure = app.page.get_by_role("button", name="Measure checkpoint")
    measure.click()
    expect(app.page.get_by_text("translates none of the sentences into a text")).to_be_visible()
    expect(field).to_have_value("1 2 3 4\n5 6 7 8\n")  # no symbol of the task
    place.set_input_files({**large, "buffer": b"c a f e\nb d\n"})
    expect(field).to_have_value("c a f e\nb d\n")
    measure.click()
    expect(app.page.get_by_text("Measured on your sentences: 2 sentences")).to_be_visible()
    assert not (runs / "own" / "measures").exists()
