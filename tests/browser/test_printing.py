"""Pictures are saved as paper shows them, and formulas are not cut off."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from viz_app.components.printing import LETTERS, printed_width
from viz_app.figures.theme import DARK, LIGHT

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "The cats don't see the dog."
SVG = "{http://www.w3.org/2000/svg}"


def saved(app: App, key: str) -> ElementTree.Element:
    """Save a picture by its camera, and return it."""
    app.hover_in(key, 0.4, 0.4)
    app.hover_in(key, 0.5, 0.5)
    file = app.download(app.page.locator(f".st-key-{key} .modebar-btn"))
    return ElementTree.fromstring(Path(file.path()).read_bytes())


def colours(picture: ElementTree.Element) -> set[str]:
    """Return all colours that are written in a picture, as ``#rrggbb``."""
    found = re.findall(r"rgb\((\d+), (\d+), (\d+)\)", ElementTree.tostring(picture, "unicode"))
    return {"#" + bytes(map(int, each)).hex() for each in found}


@pytest.mark.parametrize("printed", ["85", "170"])
def test_a_picture_is_light_without_marks_and_with_legible_letters(
    new_app: Callable[..., App], printed: str
) -> None:
    app = new_app(color_scheme="dark")
    app.open("/training", run="copy", training="heads", printed=printed, q="c a f")
    app.expect_read("head_matrix", "gd.layout.shapes.length", 1)
    picture = saved(app, "head_matrix")
    width = float(picture.get("width", ""))
    assert width <= printed_width(int(printed))
    written = colours(picture)
    assert LIGHT.text in written
    assert not {DARK.text, DARK.background, DARK.accent, LIGHT.accent} & written
    sizes = re.findall(r"font-size: ([\d.]+)px", ElementTree.tostring(picture, "unicode"))
    assert min(map(float, sizes)) >= LETTERS
    words = {"".join(text.itertext()) for text in picture.iter(f"{SVG}text")}
    name = app.read("head_matrix", "gd.data[0].colorbar.title.text")
    assert name in words
    # What is on the screen stays as it was.
    app.expect_read("head_matrix", "gd.layout.shapes.length", 1)
    app.expect_read("head_matrix", "gd.layout.font.color", DARK.text)


@pytest.mark.parametrize("width", [1280, 390])
def test_formulas_are_not_cut_off(new_app: Callable[..., App], width: int) -> None:
    app = new_app(viewport={"width": width, "height": 900})
    for path, number in (("/architecture", 7), ("/inside", 8), ("/heads?measure=entropy", 1)):
        app.open(path)
        formulas = app.page.locator(".stMain .katex-display")
        expect(formulas).to_have_count(number)
        # Two pixels are how KaTeX rounds.
        cut = "all => all.filter(each => each.scrollWidth > each.clientWidth + 2).length"
        assert formulas.evaluate_all(cut) == 0
