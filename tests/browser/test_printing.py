"""Pictures are saved as paper shows them, and formulas are not cut off."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from headwise.viz_app.components.printing import LETTERS, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT

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
    text = ElementTree.tostring(picture, "unicode")
    found = re.findall(r"rgb\((\d+), (\d+), (\d+)\)", text)
    named = re.findall(r"#[0-9a-f]{6}\b", text)
    return {"#" + bytes(map(int, each)).hex() for each in found} | set(named)


def words(picture: ElementTree.Element) -> set[str]:
    """Return the texts of a picture."""
    return {"".join(text.itertext()) for text in picture.iter(f"{SVG}text")}


def expect_printable(picture: ElementTree.Element, millimetres: str) -> None:
    """Assert that a picture fits a width on paper, is light, and has legible letters."""
    assert float(picture.get("width", "")) <= printed_width(int(millimetres))
    written = colours(picture)
    assert LIGHT.text in written
    assert not {DARK.text, DARK.muted, DARK.line, DARK.background, DARK.accent} & written
    sizes = re.findall(r'font-size(?:="|: )([\d.]+)', ElementTree.tostring(picture, "unicode"))
    assert min(map(float, sizes)) >= LETTERS


@pytest.mark.parametrize("printed", ["85", "170"])
def test_a_picture_is_light_without_marks_and_with_legible_letters(
    new_app: Callable[..., App], printed: str
) -> None:
    app = new_app(color_scheme="dark")
    app.open("/training", run="copy", training="heads", printed=printed, q="c a f")
    app.expect_read("head_matrix", "gd.layout.shapes.length", 1)
    picture = saved(app, "head_matrix")
    expect_printable(picture, printed)
    assert LIGHT.accent not in colours(picture)
    assert app.read("head_matrix", "gd.data[0].colorbar.title.text") in words(picture)
    # What is on the screen stays as it was.
    app.expect_read("head_matrix", "gd.layout.shapes.length", 1)
    app.expect_read("head_matrix", "gd.layout.font.color", DARK.text)


def test_the_overview_of_heads_is_saved_with_a_colour_bar_and_the_map_with_its_whole_title(
    new_app: Callable[..., App],
) -> None:
    app = new_app(color_scheme="dark")
    app.open("/", q=SENTENCE, printed="85", special="false", renormalised="true")
    app.expect_read("mosaic", "gd.layout.shapes.length", 1)
    picture = saved(app, "mosaic")
    expect_printable(picture, "85")
    assert LIGHT.accent not in colours(picture)
    assert {"weight", "0.5", "head 4", "layer 3"} <= words(picture)
    app.expect_read("mosaic", "gd._fullData[2].visible", False)
    title = app.read("large", "gd.layout.annotations[1].text").replace("<br>", " ")
    picture = saved(app, "large")
    lines = [each for each in picture.iter(f"{SVG}tspan") if each.text and each.text in title]
    assert len(lines) > 1
    assert " ".join(str(each.text) for each in lines) == title


@pytest.mark.parametrize(
    ("path", "view", "key", "name", "written"),
    [
        (
            "/training",
            {"run": "copy", "training": "play", "q": "c a f", "step": 400},
            "player",
            "headwise-copy-cross-layer2-head1-step400",
            {"weight", "source (key)", "f ← a"},
        ),
        (
            "/training",
            {"run": "copy", "training": "play", "q": "c a f", "step": 400, "playing": "all"},
            "player",
            "headwise-copy-cross-all-heads-step400",
            {"weight", "layer 2", "head 2"},
        ),
        (
            "/",
            {"run": "copy", "q": "c a f", "step": 400, "style": "lines"},
            "lines",
            "headwise-copy-400-cross-layer2-head1-lines",
            {"source (key)", "f ← a", "Cross, layer 2, head 1"},
        ),
        (
            "/embeddings",
            {"run": "copy", "q": "c a f", "step": 400, "section": "projection"},
            "cloud",
            "headwise-copy-400-source-PCA",
            {"c", "in the sentence"},
        ),
    ],
    ids=["one map", "all maps", "lines", "cloud"],
)
def test_what_plotly_does_not_draw_is_saved_in_the_same_way(
    new_app: Callable[..., App],
    path: str,
    view: dict[str, object],
    key: str,
    name: str,
    written: set[str],
) -> None:
    app = new_app(color_scheme="dark")
    button = app.page.locator(f".st-key-{key}").get_by_role("button", name="Save picture")
    app.open(path, printed="85", **view)
    file = app.download(button)
    assert file.suggested_filename == f"{name}.svg"
    picture = ElementTree.fromstring(Path(file.path()).read_bytes())
    expect_printable(picture, "85")
    assert LIGHT.accent not in colours(picture)
    assert written <= words(picture)
    app.open(path, printed="85", pictures="png", **view)
    file = app.download(button)
    assert file.suggested_filename == f"{name}.png"
    content = Path(file.path()).read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(3 * int(picture.get(side, "")) for side in ("width", "height"))


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
