"""The vocabulary as it moves: what is drawn at a checkpoint is where its tokens are."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import expect

from model.checkpoint import Run, load_weights
from viz_app.analysis.drift import in_one_frame, pair_cosines, pairs_of
from viz_app.analysis.projection import most_frequent
from viz_app.components.scatter import Cloud, Frames, scatter_data
from viz_app.figures.theme import LIGHT

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "the dog sees the man"
CANVAS = ".st-key-moving .stage canvas"


def test_tokens_move_from_checkpoint_to_checkpoint(app: App, run: Run) -> None:
    steps = run.steps()
    tables = [
        load_weights(run, step).model.encoder.embedding.table.weight.numpy(force=True)
        for step in steps
    ]
    counts = np.array(run.counts.source) + np.array(run.counts.target)
    ids = most_frequent(counts, 1_000)
    points, _ = in_one_frame([table[ids] for table in tables], tables[-1][ids])
    sent = scatter_data(
        Cloud(points[-1], [""] * 1_000, [1] * 1_000, np.zeros(1_000, int), ["all"], ordered=True),
        sentence=[],
        searched=[],
        of="",
        theme=LIGHT,
        frames=Frames(list(map(str, steps)), points),
    )
    ways = np.frombuffer(base64.b64decode(sent["frames"]["points"]), "<u2")
    ways = ways.reshape(points.shape).astype(float)
    app.open("/training", training="embeddings", q=SENTENCE)
    tokens = [id for id in run.tokenizers.encode_source(SENTENCE) if id > 3]
    tokens = [id for id in dict.fromkeys(tokens) if id in ids]
    expected = pair_cosines(tables, pairs_of(tokens))
    app.expect_drawn("pair_lines", expected[:, 0], values="y", tolerance=1e-5)

    canvas = app.page.locator(CANVAS)
    canvas.scroll_into_view_if_needed()
    slider = app.page.get_by_role("slider", name="Checkpoint", exact=True)
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")
    for presses, place in ((1, len(steps) - 2), (2, len(steps) - 4)):
        for _ in range(presses):
            slider.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuetext", f"step {steps[place]:,}")
        view = json.loads(canvas.get_attribute("data-view") or "")
        box = canvas.bounding_box()
        assert box is not None
        apart = ((ways[place][:, None] - ways[place]) ** 2).sum(-1)
        point = int((apart + np.eye(1_000) * 1e12).min(axis=1).argmax())
        x, y = ways[place][point]
        app.page.mouse.move(
            box["x"] + box["width"] / 2 + (x - view["x"]) * view["scale"],
            box["y"] + box["height"] / 2 - (y - view["y"]) * view["scale"],
        )
        piece = run.tokenizers.source.pieces([int(ids[point])])[0].strip()
        expect(app.page.locator(".stage .tip b")).to_contain_text(piece)
    app.page.get_by_role("button", name="Play").click()
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")
