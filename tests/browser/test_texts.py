"""Text that looks like markup is nothing but letters in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import open_trained_run
from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.translate.shown_map import MOST_LABELLED
from tests.browser.conftest import PORT
from tests.browser.driver import App, NewApp, Traced
from tests.robustness import tiny_run
from tests.robustness.hostile_run import NAME, SAID, make_hostile_run
from tests.robustness.outcomes import outcomes_of
from tests.robustness.texts import MARKUP, TEXTS

HOSTILE = (
    '<img src=x onerror="window.__hacked = 1"> <b>bold</b> *a* $x^2$ %{z} `c` &lt; \u202eabc '
    "שלום 👩‍👩‍👧 😀 مرحبا"
)
TEXT = """() => {
    const text = (node) => node.nodeType === 3 ? node.data
        : ["STYLE", "SCRIPT"].includes(node.nodeName) ? ""
        : [...(node.shadowRoot ? [node.shadowRoot] : []), ...node.childNodes].map(text).join("");
    return text(document.body).replaceAll("\\u2060", "");
}"""
"""All that stands on the page, in components too."""
MARKUP_DRAWN = """() => {
    const links = everywhere('a[href]').filter(link => link.host !== location.host);
    const drawn = everywhere(
        'img[src="x"], .stMarkdownColoredText, :is([aria-label="search icon"], '
        + '[aria-label="home icon"])[role="img"]');
    return [...links, ...drawn].map(element => element.outerHTML);
}"""
"""Links to elsewhere, and the pictures and colours that texts ask for."""


def test_markup_is_text_and_nothing_else(app: App, traced: Traced) -> None:
    trace = traced(HOSTILE)
    app.open()
    app.type(HOSTILE)
    app.expect_text("translation", trace.target_text)
    tokens = app.page.locator(".st-key-source_tokens bdi")
    expect(tokens).to_have_text(token_labels(trace.source), use_inner_text=False)
    app.choose(units="words")
    kinds: tuple[Kind, ...] = ("cross", "encoder_self")
    for kind in kinds:
        app.choose(kind=kind)
        whole, first = make_grid(trace, kind, GridOptions(units="words")), slice(MOST_LABELLED)
        grid = whole.part(first, first)
        weights = whole.apply(trace.attention[kind])[-1, 0][first, first]
        app.expect_drawn("large", weights)
        app.expect_labels("large", "x", grid.columns)
        app.expect_labels("large", "y", grid.rows)
    for at, word in [*enumerate(grid.columns)][::5]:
        app.hover_in("large", (at + 0.5) / len(grid.columns), 0.5 / len(grid.rows))
        weight = f"{Decimal(f'{weights[0, at]:#.3g}'):f}"  # without an exponent
        said = f"query {grid.rows[0]}key {word}weight {weight}"
        app.expect_text("large", said, within=".tip")
    assert app.page.locator("img[src='x'], .stMain b, .stMain mjx-container").count() == 0
    assert app.page.evaluate("window.__hacked") is None


HOSTILE_PAGES: list[tuple[str, dict[str, str], list[int]]] = [
    ("/", {"style": "lines", "off": "cross.1.1"}, [3, 3]),
    ("/inside", {}, [1, 1]),
    ("/model", {}, [2, 2]),
    ("/model", {"section": "similarity"}, [1, 1]),
    ("/training", {"training": "curves", "beside": "other"}, [3, 1]),
    ("/training", {"training": "translations", "samples_by": "one step"}, [4, 4]),
    ("/training", {"training": "compare", "shared": "reference", "other_run": "other"}, [4, 2]),
    ("/training", {"training": "watch", "playing": "head", "shared": "own"}, [2, 2]),
    ("/heads", {}, [7, 7]),
    ("/errors", {}, [8, 8]),
    ("/errors", {"errors": "pairs"}, [9, 8]),
]
"""Pages, and how often the name of the run and all else that is said stand there."""


@pytest.mark.release
def test_what_files_and_links_say_is_text_on_every_page(
    new_app: NewApp, serve: Callable[..., str], tmp_path: Path
) -> None:
    """It stands there letter for letter. The name of one of two runs is markup, too."""
    tiny_run.make_run(tmp_path / "base", "bpe")
    base = open_trained_run("bpe", root=tmp_path / "base")
    for name in (NAME, "other"):
        make_hostile_run(tmp_path / "runs" / name, base)
    app = new_app(serve(tmp_path / "runs"))
    count = "texts => texts.map(text => (TEXT)().split(text).length - 1)".replace("TEXT", TEXT)
    for page, choices, times in HOSTILE_PAGES:
        app.open(page, run=NAME, q=SAID, target=SAID, **choices)
        app.page.locator(".st-key-download-menu").wait_for()
        found = app.find(count, [NAME, SAID], wanted=times)
        assert (page, choices, found) == (page, choices, times)
        assert app.find(MARKUP_DRAWN) == []
        assert app.page.evaluate("window.__hacked") is None


# What Streamlit's own Markdown makes of escaped texts

PAGE = Path(__file__).with_name("markdown_page.py")
PLACES = re.findall(r'^    "([a-z ]+)": ', PAGE.read_text(), re.MULTILINE)
COMMAND = (
    *("-m", "streamlit", "run", str(PAGE), *PORT, "--server.address", "localhost"),
    *("--server.headless", "true", "--browser.gatherUsageStats", "false"),
)
DRAWN = """keys => keys.map(key => {
    const drawn = document.querySelector(`.st-key-${key}`);
    const made = drawn.querySelectorAll(':is([data-testid="stMarkdownContainer"], td) *');
    const markup = [...made].filter(each => each.matches(
        'a, img, code, em, del, hr, h5, input, .katex, [role="img"], [class*="stMarkdown"], '
        + '[style*="color"], [style*="font"]'));
    return [drawn.textContent.replaceAll("\\u2060", ""), markup.map(each => each.outerHTML)];
})"""
"""The text of containers, and the markup that is drawn in them."""


def generated() -> list[str]:
    """Texts, the same each time, as they can be sent: without lone surrogates."""
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text[:300].encode("utf-8", "ignore").decode())
        return "collected"

    outcomes_of(collect, TEXTS, share=4)
    return texts


def as_drawn(text: str) -> str:
    """What HTML draws of a text: white space once, other characters as they are."""
    return re.sub(r"[ \t\n\r]+", " ", text.replace("\u2060", "").replace("\0", "\ufffd")).strip()


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    return {"drawn": [*MARKUP, *generated()], "everywhere": list(MARKUP)}


@pytest.fixture(scope="module")
def markdown_address(
    serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, texts: dict[str, list[str]]
) -> str:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "texts.json").write_text(json.dumps(texts))
    return serve(folder, command=COMMAND)


@pytest.mark.release
def test_escaped_texts_are_drawn_letter_for_letter(
    new_app: NewApp, markdown_address: str, texts: dict[str, list[str]]
) -> None:
    app = new_app(markdown_address)
    app.page.goto(markdown_address)
    app.page.get_by_text("All is drawn.").wait_for()
    found = app.find(DRAWN, [f"text-{at}" for at in range(len(texts["drawn"]))])
    for text, (drawn, markup) in zip(texts["drawn"], found, strict=True):
        assert (as_drawn(drawn), markup) == (as_drawn(text), [])
    for place in PLACES:
        keys = [f"{place.replace(' ', '-')}-{at}" for at in range(len(texts["everywhere"]))]
        app.expect(f"keys => ({DRAWN})(keys).every(([drawn]) => drawn)", True, keys)
        for text, (drawn, markup) in zip(texts["everywhere"], app.find(DRAWN, keys), strict=True):
            assert as_drawn(text) in as_drawn(drawn), place
            assert markup == [], place
