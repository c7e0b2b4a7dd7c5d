"""The vocabulary in the plane: what is drawn, pointed at and walked through is what is computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

from model.checkpoint import Run, load_weights, open_run
from viz_app.analysis.projection import most_frequent, principal_components
from viz_app.analysis.vocabulary import vocabulary_labels
from viz_app.components.scatter import Cloud, scatter_data
from viz_app.figures.theme import LIGHT
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "The dog sees the old man."
CANVAS = ".stage canvas"
Sent = dict[str, Any]


def sent_of(run: Run, number: int) -> Sent:
    """What the browser should be sent of a run's most frequent source tokens, by PCA."""
    model = load_weights(run, run.steps()[-1]).model
    table = model.encoder.embedding.table.weight.numpy(force=True)
    counts = np.array(run.counts.source)
    if run.info.model.tied == "all":
        counts = counts + np.array(run.counts.target)
    ids = most_frequent(counts, number)
    labels = vocabulary_labels(
        run.tokenizers.source.pieces(range(len(table))),
        spaced=run.tokenizers.source.kind == "bpe",
    )
    cloud = Cloud(
        points=principal_components(table[ids]).points,
        labels=[labels[id] for id in ids],
        counts=counts[ids].tolist(),
        group=np.zeros(len(ids), np.int64),
        groups=["all"],
        ordered=True,
    )
    return scatter_data(cloud, sentence=[], searched=[], of="", theme=LIGHT)


def view_of(app: App) -> dict[str, float]:
    """Where the canvas looks, in units of the data; ``scale`` is pixels a unit."""
    view: dict[str, float] = json.loads(app.page.locator(CANVAS).get_attribute("data-view") or "")
    return view


def on_canvas(app: App, sent: Sent, point: int) -> tuple[float, float]:
    """Pixels, from the canvas's left and top, at which a point should be."""
    box, view = app.page.locator(CANVAS).bounding_box(), view_of(app)
    assert box is not None
    x, y = sent["points"][2 * point : 2 * point + 2]
    return (
        box["width"] / 2 + (x - view["x"]) * view["scale"],
        box["height"] / 2 - (y - view["y"]) * view["scale"],
    )


def alone(sent: Sent, number: int) -> Sequence[int]:
    """Points that are farthest from any other: nothing else can be meant there."""
    places = np.array(sent["points"], float).reshape(-1, 2)
    apart = ((places[:, None] - places) ** 2).sum(-1) + np.eye(len(places)) * 1e12
    return [int(point) for point in np.argsort(-apart.min(axis=1))[:number]]


def note(sent: Sent, point: int) -> str:
    count = sent["counts"][point]
    return "once" if count == 1 else f"{count:,} times"


def open_projection(app: App) -> None:
    """The sentence's page with 200 tokens, three steps below what is drawn at first."""
    app.open("/embeddings", room="projection", q=SENTENCE)
    for number in ("2,000", "1,000", "500", "200"):
        drawn = re.compile(f"^{number} tokens")
        expect(app.page.locator(CANVAS)).to_have_attribute("aria-label", drawn)
        if number != "200":
            app.press("number", "ArrowLeft")


def on_page(app: App, sent: Sent, point: int) -> tuple[float, float]:
    """Likewise from the left and top of the page."""
    app.page.locator(CANVAS).scroll_into_view_if_needed()
    box = app.page.locator(CANVAS).bounding_box()
    assert box is not None
    x, y = on_canvas(app, sent, point)
    return box["x"] + x, box["y"] + y


def test_each_point_is_its_token(app: App, run: Run) -> None:
    sent = sent_of(run, 200)
    open_projection(app)
    tip = app.page.locator(".stage .tip")
    expect(tip).to_be_hidden()
    for point in alone(sent, 12):
        app.page.mouse.move(*on_page(app, sent, point))
        expect(tip.locator("b")).to_have_text(sent["labels"][point])
        expect(tip.locator("span")).to_have_text(f"{note(sent, point)} in the training data")
    app.page.mouse.move(1, 1)
    expect(tip).to_be_hidden()


def test_a_point_is_drawn_where_it_is_and_nothing_elsewhere(app: App, run: Run) -> None:
    sent = sent_of(run, 200)
    open_projection(app)
    canvas, points = app.page.locator(CANVAS), alone(sent, 12)
    box = canvas.bounding_box()
    assert box is not None
    corner = (box["width"] - 5, box["height"] - 5)
    places = [*(on_canvas(app, sent, point) for point in points), corner]
    opacity = canvas.evaluate(
        """(canvas, places) => {
            const { width, height } = canvas;
            const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            const at = value => Math.round(value * devicePixelRatio);
            return places.map(([x, y]) => pixels[4 * (at(y) * width + at(x)) + 3]);
        }""",
        places,
    )
    assert min(opacity[:-1]) > 150
    assert opacity[-1] == 0


def test_arrow_keys_walk_through_the_sentence_and_escape_shows_all(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    sent = sent_of(run, 200)
    open_projection(app)
    tokens = trace_at(run.steps()[-1], SENTENCE).source
    spaced = vocabulary_labels(tokens.pieces, spaced=True)
    marked = [label for label in dict.fromkeys(spaced) if label in sent["labels"]]
    assert 3 < len(marked) < len(set(spaced))  # some are not among the most frequent
    caption = app.page.get_by_text("Not among the 200 most frequent")
    missing = [label for label in dict.fromkeys(spaced) if label not in sent["labels"]]
    expect(caption).to_contain_text(f"not drawn: {' '.join(missing)}.")

    canvas, said = app.page.locator(CANVAS), app.page.locator(".scatter .said")
    drawn = json.loads(canvas.get_attribute("data-labelled") or "")
    assert set(drawn) <= set(marked)
    assert len(drawn) > 2
    canvas.focus()
    for label in [*marked, marked[0]]:
        canvas.press("ArrowRight")
        expect(said.locator("b")).to_have_text(label)
        times = note(sent, sent["labels"].index(label))
        expect(said).to_have_text(f"{label}: {times} in the training data")
    canvas.press("ArrowUp")
    expect(said.locator("b")).to_have_text(marked[-1])
    before = view_of(app)
    canvas.press("+")
    assert view_of(app)["scale"] == pytest.approx(1.6 * before["scale"])
    canvas.press("Escape")
    assert view_of(app) == before
    expect(said).to_contain_text("Point at a dot")


def test_wheel_and_drag_move_what_is_under_the_mouse_with_it(app: App, run: Run) -> None:
    sent = sent_of(run, 200)
    open_projection(app)
    [point] = alone(sent, 1)
    before = view_of(app)
    at = on_canvas(app, sent, point)
    canvas = app.page.locator(CANVAS)
    app.page.mouse.move(*on_page(app, sent, point))
    app.page.mouse.wheel(0, -300)  # the page's, until the picture was clicked
    assert view_of(app) == before
    app.page.mouse.click(*on_page(app, sent, point))
    expect(app.page.locator(".scatter .said b")).to_have_text(sent["labels"][point])
    app.page.mouse.wheel(0, -300)
    expect(canvas).to_have_attribute("data-view", re.compile('"zoom":2\\.1'))  # exp(300 / 400)
    assert view_of(app)["scale"] == pytest.approx(before["scale"] * np.exp(0.75))
    assert on_canvas(app, sent, point) == pytest.approx(at, abs=1.5)  # the mouse is at whole pixels

    there, (x, y) = on_canvas(app, sent, point), on_page(app, sent, point)
    app.page.mouse.move(x, y)
    app.page.mouse.down()
    app.page.mouse.move(x + 40, y + 25, steps=3)
    app.page.mouse.up()
    assert on_canvas(app, sent, point) == pytest.approx((there[0] + 40, there[1] + 25), abs=1.5)
    app.page.get_by_role("button", name="Show all").click()
    assert view_of(app) == pytest.approx(before)


def test_a_token_that_is_looked_for_is_marked(app: App, run: Run) -> None:
    open_projection(app)
    app.page.locator(".st-key-searched input").fill("was")
    app.page.get_by_role("option", name="was", exact=True).click()
    expect(app.page.locator(".scatter .legend")).to_contain_text("looked for")
    canvas = app.page.locator(CANVAS)
    assert "was" in json.loads(canvas.get_attribute("data-labelled") or "")
    canvas.press("ArrowLeft")  # the last of the marks
    expect(app.page.locator(".scatter .said b")).to_have_text("was")


def test_opening_it_ten_times_draws_it_ten_times(app: App, run: Run) -> None:
    """``new_app`` fails if the console has complained, of too many contexts for example."""
    app.open("/embeddings", room="projection", q=SENTENCE)
    for _ in range(10):
        app.page.locator(CANVAS).wait_for()
        expect(app.page.locator(CANVAS)).to_have_attribute("data-view", re.compile("scale"))
        app.choose("room", "input")
        app.page.locator(".st-key-tokens .main-svg").first.wait_for()
        expect(app.page.locator(CANVAS)).to_have_count(0)
        app.choose("room", "projection")
    app.page.locator(CANVAS).wait_for()


def test_umap_of_a_few_tokens(app: App) -> None:
    app.open("/embeddings", run="copy", room="projection", q="a b c d")
    app.page.locator(CANVAS).wait_for()
    app.choose("projection_by", "UMAP")
    app.page.get_by_role("button", name="Compute UMAP of 11 tokens").click()
    caption = app.page.get_by_text("UMAP by cosine")
    expect(caption).to_be_visible(timeout=120_000)
    labels = set(json.loads(app.page.locator(CANVAS).get_attribute("data-labelled") or ""))
    pieces = open_run("copy").tokenizers.source.pieces(range(11))
    assert labels <= set(pieces)
    assert set("abcd") <= labels
    app.page.reload()
    expect(caption).to_be_visible()  # from the disk, without being asked again


def test_the_picture_is_saved(app: App, run: Run) -> None:
    app.open("/embeddings", q=SENTENCE, room="projection")
    canvas = app.page.locator(CANVAS)
    canvas.wait_for()
    with app.page.expect_download() as started:
        app.page.get_by_role("button", name="Save as PNG").click()
    assert started.value.suggested_filename == f"headwise-en-es-{run.steps()[-1]}-source-PCA.png"
    assert Path(started.value.path()).read_bytes().startswith(b"\x89PNG")
