"""The vocabulary in the plane is drawn, named, walked through and played as it is computed."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.embeddings import (
    most_frequent,
    principal_components,
    project_together,
)
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.components.scatter import Cloud, Frames, scatter_data
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.records.trace import Floats
from tests.browser.driver import App, Traced
from tests.floats import near

pytestmark = pytest.mark.release

SENTENCE = "The dog sees the old man."
CANVAS = ".stage canvas"
OPACITY = """(canvas, places) => {
    const { width, height } = canvas;
    const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
    const at = value => Math.round(value * devicePixelRatio);
    return places.map(([x, y]) => pixels[4 * (at(y) * width + at(x)) + 3]);
}"""
Sent = dict[str, Any]


def sent_of(run: TrainedRun, number: int) -> Sent:
    """What the browser should be sent of a run's most frequent source tokens, by PCA."""
    model = load_weights(run, run.steps()[-1]).model
    table = model.encoder.embedding.table.weight.numpy(force=True)
    counts = np.array(run.counts.source) + np.array(run.counts.target)  # of one vocabulary
    ids = most_frequent(counts, number)
    cloud = Cloud(
        points=principal_components(table[ids]).points,
        labels=vocabulary_labels(run.tokenizers.source.tokens(map(int, ids)), spaced=True),
        counts=counts[ids].tolist(),
        group=np.zeros(len(ids), np.int64),
        groups=["all"],
        ordered=True,
    )
    return scatter_data(cloud, sentence=[], searched=[], content_id="", theme=LIGHT)


def view_of(app: App) -> dict[str, float]:
    """Where the canvas looks, in units of the data; ``scale`` is pixels a unit."""
    view: dict[str, float] = json.loads(app.page.locator(CANVAS).get_attribute("data-view") or "")
    return view


def on_canvas(app: App, place: Floats) -> tuple[float, float]:
    """Pixels, from the canvas's left and top, at which a place in units of the data should be."""
    _, _, width, height = app.box(CANVAS)
    view = view_of(app)
    x, y = (place - [view["x"], view["y"]]) * view["scale"]
    return width / 2 + x, height / 2 - y


def point_at(app: App, place: Floats) -> tuple[float, float]:
    """Move the mouse to it, and return where on the page that is."""
    left, top, _, _ = app.box(CANVAS)
    x, y = on_canvas(app, place)
    app.page.mouse.move(left + x, top + y)
    return left + x, top + y


def alone(places: Floats, number: int) -> list[int]:
    """Points that are farthest from any other: nothing else can be meant there."""
    apart = ((places[:, None] - places) ** 2).sum(-1) + np.eye(len(places)) * 1e12
    return [int(point) for point in np.argsort(-apart.min(axis=1))[:number]]


def note(sent: Sent, point: int) -> str:
    count = sent["counts"][point]
    return "once" if count == 1 else f"{count:,} times"


def open_projection(app: App) -> None:
    """The sentence's page with 200 tokens, three steps below what is drawn at first."""
    app.open("/model", section="projection", q=SENTENCE)
    for number in ("2,000", "1,000", "500", "200"):
        drawn = re.compile(f"^{number} tokens")
        expect(app.page.locator(CANVAS)).to_have_attribute("aria-label", drawn)
        if number != "200":
            app.press("number", "ArrowLeft")
    app.find("() => true")


def test_points_are_drawn_named_moved_and_saved(app: App, run: TrainedRun) -> None:
    """Wheel and drag move what is under the mouse with it, once the picture was clicked."""
    sent = sent_of(run, 200)
    points = np.array(sent["points"], float).reshape(-1, 2)
    open_projection(app)
    canvas, tip = app.page.locator(CANVAS), app.page.locator(".stage .tip")
    chosen = alone(points, 12)
    _, _, width, height = app.box(CANVAS)
    places = [*(on_canvas(app, points[each]) for each in chosen), (width - 5, height - 5)]
    opacity = canvas.evaluate(OPACITY, places)
    assert min(opacity[:-1]) > 150
    assert opacity[-1] == 0
    expect(tip).to_be_hidden()
    for each in chosen[:6]:
        point_at(app, points[each])
        expect(tip.locator("b")).to_have_text(sent["labels"][each])
        expect(tip.locator("span")).to_have_text(f"{note(sent, each)} in the training data")
    app.page.mouse.move(1, 1)
    expect(tip).to_be_hidden()

    point, before = points[chosen[0]], view_of(app)
    at, (x, y) = on_canvas(app, point), point_at(app, point)
    app.page.mouse.wheel(0, -300)  # the page's, until the picture was clicked
    assert view_of(app) == before
    app.page.mouse.click(x, y)
    expect(app.page.locator(".scatter .status b")).to_have_text(sent["labels"][chosen[0]])
    app.page.mouse.wheel(0, -300)
    expect(canvas).to_have_attribute("data-view", re.compile('"zoom":2\\.1'))  # exp(300 / 400)
    assert view_of(app)["scale"] == near(before["scale"] * np.exp(0.75))
    assert on_canvas(app, point) == pytest.approx(at, abs=1.5)  # the mouse is at whole pixels
    there, (x, y) = on_canvas(app, point), point_at(app, point)
    moved = view_of(app)
    app.page.mouse.down()
    app.page.mouse.move(x + 40, y + 25, steps=3)
    app.page.mouse.up()
    expect(canvas).not_to_have_attribute("data-view", json.dumps(moved, separators=(",", ":")))
    assert on_canvas(app, point) == pytest.approx((there[0] + 40, there[1] + 25), abs=1.5)
    app.page.get_by_role("button", name="Show all").click()
    expect(canvas).to_have_attribute("data-view", re.compile('"zoom":1[,}]'))
    assert view_of(app) == near(before)


def test_keys_walk_through_the_sentence_and_what_is_looked_for_is_marked(
    app: App, run: TrainedRun, traced: Traced
) -> None:
    sent = sent_of(run, 200)
    open_projection(app)
    spaced = dict.fromkeys(vocabulary_labels(traced(SENTENCE).source.texts, spaced=True))
    marked = [label for label in spaced if label in sent["labels"]]
    assert len(marked) > 3
    canvas, said = app.page.locator(CANVAS), app.page.locator(".scatter .status")
    canvas.focus()
    for label in [*marked, marked[0]]:
        canvas.press("ArrowRight")
        times = note(sent, sent["labels"].index(label))
        expect(said).to_have_text(f"{label}: {times} in the training data")
    canvas.press("ArrowUp")
    expect(said.locator("b")).to_have_text(marked[-1])
    before = view_of(app)
    canvas.press("+")
    expect(canvas).to_have_attribute("data-view", re.compile('"zoom":1\\.6'))
    assert view_of(app)["scale"] == near(1.6 * before["scale"])
    canvas.press("Escape")
    expect(said).to_contain_text("Point at a dot")
    assert view_of(app) == before

    app.pick("searched", "was")
    expect(canvas).to_have_attribute("data-labelled", re.compile('"was"'))
    canvas.press("ArrowLeft")  # the last of the marks
    expect(said.locator("b")).to_have_text("was")


def test_tokens_move_from_checkpoint_to_checkpoint(app: App, run: TrainedRun) -> None:
    """What the mouse finds at a checkpoint is the token that is there."""
    steps = run.steps()
    tables = [
        load_weights(run, step).model.encoder.embedding.table.weight.numpy(force=True)
        for step in steps
    ]
    ids = most_frequent(np.array(run.counts.source) + np.array(run.counts.target), 1_000)
    points, _ = project_together([table[ids] for table in tables], tables[-1][ids])
    cloud = Cloud(points[-1], [""] * 1_000, [1] * 1_000, np.zeros(1_000, int), ["all"], True)
    frames = Frames(list(map(str, steps)), points)
    sent = scatter_data(cloud, sentence=[], searched=[], content_id="", theme=LIGHT, frames=frames)
    ways = np.frombuffer(base64.b64decode(sent["frames"]["points"]), "<u2")
    ways = ways.reshape(points.shape).astype(float)
    app.page.emulate_media(reduced_motion="no-preference")
    app.open("/training", training="embeddings", followed="vocabulary", q=SENTENCE)
    slider = app.page.get_by_role("slider", name="Checkpoint", exact=True)
    expect(slider).to_have_attribute("max", str(len(steps) - 1))  # all have come
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")
    for presses, at in ((1, len(steps) - 2), (2, len(steps) - 4)):
        for _ in range(presses):
            slider.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuetext", f"step {steps[at]:,}")
        [point] = alone(ways[at], 1)
        point_at(app, ways[at][point])
        token = run.tokenizers.source.tokens([int(ids[point])])[0].strip()
        expect(app.page.locator(".stage .tip b")).to_contain_text(token)
    app.page.get_by_role("button", name="Play").click()
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")
