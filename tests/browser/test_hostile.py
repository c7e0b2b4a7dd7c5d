"""Text that looks like markup, text that is no sentence, and both themes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from model.checkpoint import Run, create_run, open_run, save_weights
from model.files import append_log
from model.transformer import Transformer
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import piece_labels
from viz_app.measure_files import read_measures, write_measures
from viz_app.measure_records import Sentence
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "I am hungry."
HOSTILE = (
    '<img src=x onerror="window.__hacked = 1"> <b>bold</b> *a* $x^2$ %{z} `c` &lt; \u202eabc '
    "שלום 👩‍👩‍👧 😀 مرحبا"
)
NAME = (
    '<img src=x onerror="window.__hacked = 1"> **b** _i_ `c` $x^2$ :red[d] :smile: a -> b -- c >= '
    "d [e](f) &lt; %{z} {{g}} https:h <br>"
)
"""Of a run, so without a slash."""
SAID = f"{NAME} :material/search: :streamlit: </b>"
"""By all else that files and links say."""
TEXT = """() => {
    const text = (node) => node.nodeType === 3 ? node.data
        : ["STYLE", "SCRIPT"].includes(node.nodeName) ? ""
        : [...(node.shadowRoot ? [node.shadowRoot] : []), ...node.childNodes].map(text).join("");
    return text(document.body).replaceAll("\\u2060", "");
}"""
"""All that stands on the page, in components too."""
STEPS = (5, 10, 20)
LUMINANCE = """element => {
    const channels = getComputedStyle(element)[element.ownerSVGElement ? 'fill' : 'backgroundColor']
        .match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
}"""
"""Relative luminance of an element's colour (WCAG 2.2)."""


def test_markup_is_text_and_nothing_else(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], HOSTILE)
    app.open()
    app.type(HOSTILE)
    app.expect_text("translation", trace.target_text)
    assert app.page.locator(".tokens").first.text_content() == "".join(piece_labels(trace.source))
    app.choose("units", "words")
    for kind, name in (("cross", "Cross"), ("encoder_self", "Encoder self")):
        app.choose("kind", name)
        grid = make_grid(trace, kind, Reading(units="words"))
        weights = grid.apply(trace.attention[kind])[-1, 0]
        app.expect_drawn("large", weights)
        app.expect_labels("large", "x", grid.columns)
        app.expect_labels("large", "y", grid.rows)
    for at, word in enumerate(grid.columns):
        app.hover_in("large", (at + 0.5) / len(grid.columns), 0.5 / len(grid.rows))
        said = f"query {grid.rows[0]}key {word}weight {weights[0, at]:.4f}"
        app.expect_text("large", said, within=".hoverlayer")
    assert app.page.locator("img[src='x'], .stMain b, .stMain mjx-container").count() == 0
    assert app.page.evaluate("window.__hacked") is None


def make_run(folder: Path, base: Run, said: str) -> None:
    """A run of which all texts but its name are the same."""
    config = replace(base.info.model, max_length=301)
    about = replace(base.info.data, name=said, licence=said, attribution=said, valid_file=said)
    info = replace(base.info, name=folder.name, model=config, data=about)
    create_run(folder, info, base.tokenizers, base.counts)
    model = Transformer(config)
    for step in STEPS:
        sha256 = save_weights(folder, model, run=folder.name, step=step)
    row = {"source": said, "reference": said, "translation": said, "shows": said}
    append_log(folder / "samples.jsonl", [row | {"step": step} for step in STEPS])
    append_log(folder / "metrics.jsonl", [{"step": step, "valid_loss": 1 / step} for step in STEPS])
    measures = read_measures(base.folder, STEPS[-1])
    write_measures(
        folder,
        replace(
            measures,
            run=folder.name,
            sha256=sha256,
            corpus=replace(measures.corpus, name=said),
            examples_corpus=replace(measures.examples_corpus, name=said),
            sentences=tuple(Sentence(said, said) for _ in measures.sentences),
            translated=tuple(replace(each, translation=said) for each in measures.translated),
        ),
    )


@pytest.fixture(scope="module")
def hostile_address(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server on two runs, one of which has a name that is markup."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2])
        from benchmarks import tiny
    scratch, root = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("hostile")
    tiny.make_run(scratch, "bpe")
    base = open_run("bpe", root=scratch)
    for name in (NAME, "other"):
        make_run(root / name, base, SAID)
    return serve(root)


@pytest.mark.parametrize(
    ("page", "query", "times"),
    [
        ("/", {"view": "lines", "off": "Cross 1.1"}, (4, 4)),
        ("/inside", {}, (3, 3)),
        ("/flow", {}, (4, 4)),
        ("/embeddings", {"room": "similarity"}, (3, 3)),
        ("/training", {"beside": "other"}, (5, 3)),
        ("/training", {"training": "translations"}, (7, 7)),
        ("/training", {"training": "compare", "shared": "reference", "other_run": "other"}, (6, 4)),
        ("/training", {"training": "play", "shared": "your own"}, (4, 4)),
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
    app.wait("() => document.querySelector('.st-key-take')")
    text = app.page.evaluate(TEXT)
    assert (text.count(NAME), text.count(SAID)) == times
    assert app.page.locator("img[src='x'], a[href='f']").count() == 0
    assert app.page.evaluate("window.__hacked") is None


def test_an_empty_sentence_invites_to_type_one(app: App) -> None:
    app.open(q="")
    app.page.get_by_text("Type a sentence above and press Enter").wait_for()
    app.type(SENTENCE)
    app.page.locator(".st-key-large .js-plotly-plot").wait_for()
    app.type("   ")
    app.page.get_by_text("Type a sentence above and press Enter").wait_for()


def test_a_sentence_that_is_too_long_says_so_and_the_next_one_works(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    app.open(q=SENTENCE)
    app.type(" ".join(["word"] * 2_000))
    app.page.get_by_role("alert").filter(has_text="at most 1,024; shorten it").wait_for()
    expect(app.page.locator(".js-plotly-plot:visible")).to_have_count(0, timeout=30_000)
    app.type(SENTENCE)
    trace = trace_at(run.steps()[-1], SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    app.expect_text("translation", trace.target_text)
    expect(app.page.get_by_role("alert")).to_have_count(0, timeout=30_000)


def test_both_themes_are_legible(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], SENTENCE)
    grounds = {}
    for theme in ("light", "dark"):
        app = new_app(color_scheme=theme)
        app.open(q=SENTENCE)
        app.expect_drawn("large", trace.attention["cross"][-1, 0])
        grounds[theme] = app.page.locator(".stApp").evaluate(LUMINANCE)
        for axis in "xy":
            for key in ("large", "mosaic"):
                text = app.page.locator(f".st-key-{key} .{axis}tick text").first.evaluate(LUMINANCE)
                low, high = sorted((text, grounds[theme]))
                assert (high + 0.05) / (low + 0.05) >= 4.5
    assert grounds["dark"] < 0.1 < 0.9 < grounds["light"]
