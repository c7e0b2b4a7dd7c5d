"""Text that looks like markup, and text that is no sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Trace
from tests.robustness import tiny_run
from tests.robustness.hostile_run import NAME, SAID, make_hostile_run

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "I am hungry."
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
MARKUP = """() => {
    const links = everywhere('a[href]').filter(link => link.host !== location.host);
    const drawn = everywhere(
        'img[src="x"], .stMarkdownColoredText, :is([aria-label="search icon"], '
        + '[aria-label="home icon"])[role="img"]');
    return [...links, ...drawn].map(element => element.outerHTML);
}"""
"""Links to elsewhere, and the pictures and colours that texts ask for."""


def test_markup_is_text_and_nothing_else(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, HOSTILE)
    app.open()
    app.type(HOSTILE)
    app.expect_text("translation", trace.target_text)
    tokens = app.page.locator(".st-key-source_tokens bdi")
    expect(tokens).to_have_text(token_labels(trace.source), use_inner_text=False)
    app.choose(units="words")
    for kind in ("cross", "encoder_self"):
        app.choose(kind=kind)
        grid = make_grid(trace, kind, GridOptions(units="words"))
        weights = grid.apply(trace.attention[kind])[-1, 0]
        app.expect_drawn("large", weights)
        app.expect_labels("large", "x", grid.columns)
        app.expect_labels("large", "y", grid.rows)
    for at, word in [*enumerate(grid.columns)][::2]:
        app.hover_in("large", (at + 0.5) / len(grid.columns), 0.5 / len(grid.rows))
        said = f"query {grid.rows[0]}key {word}weight {weights[0, at]:.4f}"
        app.expect_text("large", said, within=".hoverlayer")
    assert app.page.locator("img[src='x'], .stMain b, .stMain mjx-container").count() == 0
    assert app.page.evaluate("window.__hacked") is None


@pytest.fixture(scope="module")
def hostile_address(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server on two runs, one of which has a name that is markup."""
    scratch, root = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("hostile")
    tiny_run.make_run(scratch, "bpe")
    base = open_trained_run("bpe", root=scratch)
    for name in (NAME, "other"):
        make_hostile_run(root / name, base)
    return serve(root)


@pytest.mark.parametrize(
    ("page", "query", "times"),
    [
        ("/", {"style": "lines", "off": "cross.1.1"}, (4, 4)),
        ("/inside", {}, (3, 3)),
        ("/architecture", {}, (4, 4)),
        ("/embeddings", {"section": "similarity"}, (3, 3)),
        ("/training", {"beside": "other"}, (5, 3)),
        ("/training", {"training": "translations", "samples_by": "one step"}, (6, 6)),
        ("/training", {"training": "compare", "shared": "reference", "other_run": "other"}, (6, 4)),
        ("/training", {"training": "play", "shared": "own"}, (4, 4)),
        ("/heads", {}, (18, 18)),
    ],
)
def test_what_files_and_links_say_is_text_on_every_page(
    new_app: Callable[..., App],
    hostile_address: str,
    page: str,
    query: dict[str, str],
    times: tuple[int, int],
) -> None:
    """It stands there letter for letter so many times: the name, and with it all else."""
    app = new_app(hostile_address)
    app.open(page, run=NAME, q=SAID, target=SAID, **query)
    app.page.locator(".st-key-download-menu").wait_for()
    count = "([name, said]) => [name, said].map(text => (TEXT)().split(text).length - 1)"
    app.expect(count.replace("TEXT", TEXT), list(times), [NAME, SAID])
    assert app.find(MARKUP) == []
    assert app.page.evaluate("window.__hacked") is None


def test_empty_and_too_long_sentences_say_so_and_the_next_one_works(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    invitation = app.page.get_by_text("Type a sentence above and press Enter")
    app.open(q="")
    invitation.wait_for()
    app.type(" ".join(["word"] * 2_000))
    app.page.get_by_role("alert").filter(has_text="at most 1,024; shorten it").wait_for()
    expect(app.page.locator(".js-plotly-plot:visible")).to_have_count(0)
    app.type(SENTENCE)
    trace = trace_at(newest, SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    app.expect_text("translation", trace.target_text)
    expect(app.page.get_by_role("alert")).to_have_count(0)
    app.type("   ")
    invitation.wait_for()
