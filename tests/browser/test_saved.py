"""What people take along: pictures as paper shows them, citations and files."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.components.printing import LETTERS, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, other_theme, theme_named
from headwise.viz_app.trace.saved import metadata, read_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import FRAMES, App, NewApp
from tests.floats import assert_near

SENTENCE = "We saw three black cats on the white roof."
SVG = "{http://www.w3.org/2000/svg}"


def saved(app: App, key: str, name: str = "") -> ElementTree.Element:
    """Save a picture by the button below it; return it."""
    file = app.download(app.page.locator(f".st-key-{key}-box .chart-tools .save"))
    assert not name or file.suggested_filename == name
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


def size_of(picture: ElementTree.Element) -> list[int]:
    """Return width and height of a picture in its own pixels."""
    return [*map(int, picture.get("viewBox", "").split()[2:])]


def chunks(content: bytes) -> dict[str, bytes]:
    """Return the parts of a PNG file by their names, once their checksums are right."""
    found, at = {}, 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        name, inside = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert zlib.crc32(name + inside) == int.from_bytes(content[at + 8 + length :][:4], "big")
        found[name.decode()] = inside
        at += 12 + length
    return found


def expect_printable(picture: ElementTree.Element, millimetres: str, paper: Theme = LIGHT) -> None:
    """Assert that a picture fits a width, has a paper's colours, no marks, and legible letters."""
    pixels = size_of(picture)
    assert pixels[0] <= printed_width(int(millimetres))
    on_paper = [float(picture.get(side, "").removesuffix("mm")) for side in ("width", "height")]
    millimetre = printed_width(int(millimetres)) / int(millimetres)
    assert on_paper == pytest.approx([each / millimetre for each in pixels])
    assert 0 < on_paper[0] <= int(millimetres)
    written = colours(picture)
    assert {paper.text, paper.background} <= written
    other = other_theme(paper)
    others = {other.text, other.muted, other.line, other.background, other.accent}
    assert not {*others, paper.accent} & written
    sizes = re.findall(r'font-size(?:="|: )([\d.]+)', ElementTree.tostring(picture, "unicode"))
    assert min(map(float, sizes)) >= LETTERS


@pytest.mark.release
@pytest.mark.parametrize(("scheme", "paper"), [("dark", "light"), ("light", "dark")])
def test_a_picture_is_of_its_paper_without_marks_and_with_legible_letters(
    new_app: NewApp, scheme: Literal["light", "dark"], paper: str
) -> None:
    app = new_app(color_scheme=scheme)
    app.open("/training", run="copy", training="heads", printed="170", q="c a f", paper=paper)
    app.expect_read("head_matrix", f"{FRAMES}.length", 1)
    picture = saved(app, "head_matrix")
    expect_printable(picture, "170", theme_named(paper))
    assert app.read("head_matrix", "gd._fullData[0].colorbar.title.text") in words(picture)
    # What is on the screen stays as it was.
    app.expect_read("head_matrix", f"{FRAMES}.length", 1)
    app.expect_read("head_matrix", "gd.layout.font.color", theme_named(scheme).text)


@pytest.mark.release
@pytest.mark.parametrize(
    ("path", "choices", "key", "name", "written"),
    [
        (
            *("/training", {"training": "watch", "playing": "head"}, "player"),
            *("cross-layer2-head1-checkpoint400", {"weight", "source (key)", "f ← a"}),
        ),
        (
            *("/heads", {"heads": "feeds"}, "heads_graph", "edges-checkpoint400"),
            {"decoder", "self 2", "query", "key", "value"},
        ),
        (
            *("/model", {"section": "projection"}, "cloud", "400-source-PCA"),
            {"c", "in the sentence"},
        ),
    ],
    ids=["map", "edges", "cloud"],
)
def test_what_plotly_does_not_draw_is_saved_in_the_same_way(
    new_app: NewApp, path: str, choices: dict[str, str], key: str, name: str, written: set[str]
) -> None:
    view = {"run": "copy", "q": "c a f", "step": 400, "printed": "85", **choices}
    app = new_app(color_scheme="light")
    button = app.page.locator(f".st-key-{key}").get_by_role("button", name="Save picture")
    app.open(path, paper="dark", **view)
    file = app.download(button)
    assert file.suggested_filename == f"headwise-copy-{name}.svg"
    picture = ElementTree.fromstring(Path(file.path()).read_bytes())
    expect_printable(picture, "85", DARK)
    assert written <= words(picture)
    app.open(path, pictures="png", **view)
    file = app.download(button)
    assert file.suggested_filename == f"headwise-copy-{name}.png"
    content = Path(file.path()).read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert [width, height] == [3 * each for each in size_of(picture)]
    expect_size_and_title(content, width, float(picture.get("width", "").removesuffix("mm")))


def expect_size_and_title(content: bytes, pixels: int, millimetres: float) -> None:
    """Assert that a PNG file says how large it is on paper, and what it shows."""
    parts = chunks(content)
    across, down = (int.from_bytes(parts["pHYs"][at : at + 4], "big") for at in (0, 4))
    assert parts["pHYs"][8] == 1  # a metre
    assert across == down == pytest.approx(pixels / millimetres * 1_000, abs=1)
    assert parts["iTXt"].startswith(b"Title\0")
    assert parts["iTXt"].decode().endswith(" · Headwise")


def test_citation_and_downloads_are_of_the_trace(
    app: App, run: TrainedRun, newest: int, tmp_path: Path
) -> None:
    checkpoint = load_weights(run, newest)
    trace = run_trace(checkpoint.model, run.tokenizers, SENTENCE)
    app.open(q=SENTENCE, layer=2, head=3)
    app.expect_drawn("large", trace.attention["cross"][1, 2])
    picture = saved(app, "large", f"headwise-en-es-{newest}-cross-layer2-head3.svg")
    grid = make_grid(trace, "cross")
    assert {each for each in (*grid.rows, *grid.columns) if len(each) <= 22} <= words(picture)

    app.page.get_by_role("button", name="Link, cite, download").click()
    panel = app.page.get_by_test_id("stPopoverBody")
    panel.get_by_text("Pictures are saved as").wait_for()
    cited = panel.locator("code").nth(1)
    facts = ("run: en-es", f"checkpoint: {newest:,}", f"sha256: {trace.sha256}", "greedy")
    for fact in (f'Headwise, "{SENTENCE}" → "{trace.target_text}"; ', *facts):
        expect(cited).to_contain_text(fact)
    files: dict[str, Path] = {}
    for ending in ("html", "npz", "json"):
        button = panel.get_by_role("button", name=f".{ending}", exact=True)
        file = app.download(button)
        assert file.suggested_filename == f"headwise-en-es-{newest}.{ending}"
        files[ending] = tmp_path / file.suggested_filename
        file.save_as(files[ending])
    assert SENTENCE in files["html"].read_text()
    exact = [dict(read_trace(files[ending]).arrays()) for ending in ("npz", "json")]
    for name, array in trace.arrays():
        np.testing.assert_array_equal(exact[0][name], exact[1][name], err_msg=name)
        assert_near(exact[0][name], array)
    for ending in ("npz", "json"):
        read = replace(read_trace(files[ending]), summary=trace.summary, checks=trace.checks)
        assert metadata(read) == metadata(trace)
    app.choose(pictures="png")
    app.expect_address(pictures="png")
    app.page.keyboard.press("Escape")
    picture = app.download(app.page.locator(".st-key-large-box .chart-tools .save"))
    assert picture.suggested_filename.endswith(".png")


@pytest.mark.release
def test_the_overview_of_heads_is_saved_with_a_colour_bar_and_the_map_with_its_whole_title(
    new_app: NewApp,
) -> None:
    app = new_app(color_scheme="dark")
    app.open("/", q=SENTENCE, printed="85", special="false", renormalised="true")
    app.expect_read("mosaic", f"{FRAMES}.length", 1)
    picture = saved(app, "mosaic")
    expect_printable(picture, "85")
    assert {"weight (√ scale)", "0.5", "head 4", "layer 3"} <= words(picture)
    app.expect_read("mosaic", "gd._fullData[2].visible", False)
    title = app.read("large", "gd.layout.annotations[1].text").replace("<br>", " ")
    picture = saved(app, "large")
    lines = [each for each in picture.iter(f"{SVG}tspan") if each.text and each.text in title]
    whole = [each.text for each in picture.iter(f"{SVG}text")]
    assert title in (*whole, " ".join(str(each.text) for each in lines))


@pytest.mark.release
def test_a_png_has_its_size_on_paper_and_says_which_head_run_and_step_it_shows(app: App) -> None:
    app.open(run="copy", step=400, q="c a f", layer=2, head=1, printed="85", pictures="png")
    app.expect_labels("large", "x", ["c", "a", "f", "</s>"])
    file = app.download(app.page.locator(".st-key-large-box .chart-tools .save"))
    assert file.suggested_filename == "headwise-copy-400-cross-layer2-head1.png"
    content = Path(file.path()).read_bytes()
    width = int.from_bytes(content[16:20], "big")
    expect_size_and_title(content, width, width / 3 / (printed_width(85) / 85))
    caption = "cross, layer 2, head 1 · run copy, step 400 · Headwise"
    assert caption in chunks(content)["iTXt"].decode()
