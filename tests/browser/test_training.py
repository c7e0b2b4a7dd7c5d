"""The page Training: milestones and heads are clicked, tokens and heads are played by step."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import Locator, Page, expect

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import KINDS, Kind
from headwise.viz_app.analysis.curves import curve_of, find_overfitting_in
from headwise.viz_app.analysis.differences import head_distances
from headwise.viz_app.analysis.embeddings import (
    all_pairs,
    most_frequent,
    pair_cosines,
    project_together,
)
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.components.scatter import Cloud, Frames, scatter_data
from headwise.viz_app.figures.theme import LIGHT, weight_colour
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.views.shared.head_choice import head_label
from tests.browser.driver import asked, either
from tests.floats import assert_near, printed

if TYPE_CHECKING:
    from tests.browser.driver import App

OVERFITTING = "valid loss is lowest at step 2,000, from there on it rises: overfitting"
COMPARED = "These houses are more expensive than those."
FOLLOWED = "the dog sees the man"
PLAYED = "The old man gave the little girl a red apple."
PALETTE = np.array([list(bytes.fromhex(weight_colour(LIGHT, i / 255)[1:])) for i in range(256)])


def test_curves_are_those_of_the_log_and_a_click_chooses_a_milestone(app: App) -> None:
    rows = open_trained_run("books-small").metrics()
    names = {
        "train_loss": "training batches",
        "train_sample_loss": "train sample",
        "valid_loss": "valid",
    }
    curves = {key: curve_of(rows, key) for key in names}
    valid = curves["valid_loss"]
    app.open("/training", run="books-small")
    for key, name in names.items():
        curve = curves[key]
        trace = f"gd._fullData.find(trace => trace.name === '{name}')"
        app.expect_read("curves", f"{trace}.x", curve.steps)
        app.expect_read("curves", f"{trace}.y", np.float32(curve.values))
    turn = find_overfitting_in(curves)
    assert turn is not None
    assert turn.step == 2_000
    app.page.locator(".st-key-curves .annotation-text").get_by_text(OVERFITTING).wait_for()

    [left, right], [low, high] = app.read(
        "curves", "[gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]"
    )
    value = valid.values[valid.steps.tolist().index(5_000)]
    app.click_in("curves", (5_000 - left) / (right - left), (high - value) / (high - low))
    app.expect_address(step="5000")
    app.expect_read("curves", "gd._fullLayout.shapes[0].x0", 5_000)
    slider = app.page.locator(".st-key-step input")
    expect(slider).to_have_attribute("aria-valuetext", "5,000")


def test_heads_of_two_checkpoints_are_ranked_and_a_click_opens_one(
    app: App, run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    *_, middle, newest = run.steps()
    early = run.steps()[3]
    target = trace_at(newest, COMPARED).target_ids
    a, b = (trace_at(step, COMPARED, target) for step in (early, middle))
    distances: dict[Kind, Floats] = {
        kind: head_distances(
            a.attention[kind], b.attention[kind], allowed=make_grid(a, kind).allowed
        )
        for kind in KINDS
    }

    def expect_head(kind: Kind, layer: int, head: int) -> None:
        app.expect_drawn("difference", (b.attention[kind] - a.attention[kind])[layer, head])
        app.expect_drawn("map-A", a.attention[kind][layer, head])
        app.expect_drawn("map-B", b.attention[kind][layer, head])
        app.expect_chosen(kind=kind, layer=str(layer + 1), head=str(head + 1))

    query = {"training": "compare", "q": COMPARED, "step": early, "other_step": middle}
    app.open("/training", **query, layer=2, head=1)
    expect_head("cross", 1, 0)
    for key, step in (("own-A", early), ("own-B", middle)):
        app.expect_text(key, trace_at(step, COMPARED).target_text, within="[data-testid=stText]")
    grid = make_grid(a, "cross")
    app.expect_labels("difference", "y", grid.rows)
    app.expect_labels("difference", "x", grid.columns)
    drawn = np.array(app.read("distances", "gd._fullData[0].z"), dtype=np.float64)
    rows = np.hstack([distances[kind] for kind in KINDS])
    assert_near(drawn[:, ~np.isnan(drawn).all(axis=0)], rows, dtype=np.float32, size=1)

    app.click_in("distances", 7.5 / 14, 0.5 / 3)  # decoder self, layer 1, head 3
    expect_head("decoder_self", 0, 2)
    (farthest, distance), *_ = rank_heads(distances)
    button = app.page.locator(".st-key-farthest-0 button")
    named = f"{head_label(farthest)} · {{:.2f}}"
    expect(button).to_have_text(either(printed(named, distance, dtype=np.float32, size=1)))
    button.click()
    expect_head(*farthest)
    app.click_in("overview-mosaic", 3.5 / 4, 2.5 / 3)
    expect_head(farthest[0], 2, 3)


# The vocabulary as it moves


def test_tokens_move_from_checkpoint_to_checkpoint(app: App, run: TrainedRun) -> None:
    """What the mouse finds at a checkpoint is the token that is there."""
    steps = run.steps()
    tables = [
        load_weights(run, step).model.encoder.embedding.table.weight.numpy(force=True)
        for step in steps
    ]
    counts = np.array(run.counts.source) + np.array(run.counts.target)
    ids = most_frequent(counts, 1_000)
    points, _ = project_together([table[ids] for table in tables], tables[-1][ids])
    sent = scatter_data(
        Cloud(points[-1], [""] * 1_000, [1] * 1_000, np.zeros(1_000, int), ["all"], ordered=True),
        sentence=[],
        searched=[],
        content_id="",
        theme=LIGHT,
        frames=Frames(list(map(str, steps)), points),
    )
    ways = np.frombuffer(base64.b64decode(sent["frames"]["points"]), "<u2")
    ways = ways.reshape(points.shape).astype(float)
    app.open("/training", training="embeddings", q=FOLLOWED)
    tokens = [id for id in run.tokenizers.encode_source(FOLLOWED) if id > 3]
    tokens = [id for id in dict.fromkeys(tokens) if id in ids]
    cosines = pair_cosines(tables, all_pairs(tokens))
    app.expect_drawn("pair_lines", cosines[:, 0], values="y")

    place = ".stage canvas"
    slider = app.page.get_by_role("slider", name="Checkpoint", exact=True)
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")
    for presses, at in ((1, len(steps) - 2), (2, len(steps) - 4)):
        for _ in range(presses):
            slider.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuetext", f"step {steps[at]:,}")
        left, top, width, height = app.box(place)
        view = json.loads(app.page.locator(place).get_attribute("data-view") or "")
        apart = ((ways[at][:, None] - ways[at]) ** 2).sum(-1)
        point = int((apart + np.eye(1_000) * 1e12).min(axis=1).argmax())
        x, y = ways[at][point]
        app.page.mouse.move(
            left + width / 2 + (x - view["x"]) * view["scale"],
            top + height / 2 - (y - view["y"]) * view["scale"],
        )
        token = run.tokenizers.source.tokens([int(ids[point])])[0].strip()
        expect(app.page.locator(".stage .tip b")).to_contain_text(token)
    app.page.get_by_role("button", name="Play").click()
    expect(slider).to_have_attribute("aria-valuetext", f"step {steps[-1]:,}")


# Heads as they are played, read from the canvas pixel by pixel


def shown(page: Page, step: int) -> Locator:
    """The player, when it shows a step."""
    player = page.locator(".player")
    expect(player).to_have_attribute("data-step", str(step))
    return player


def pixels(app: App) -> np.ndarray:
    """Of the canvas: (rows, columns, 4), one a cell."""
    width, height, flat = app.find(
        """() => {
            const [canvas] = everywhere('.player .stage canvas');
            return [canvas.width, canvas.height, Array.from(
                canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data)];
        }"""
    )
    return np.array(flat).reshape(height, width, 4)


def weights(cells: np.ndarray) -> Floats:
    """The weights whose colours are drawn."""
    distances = np.abs(cells[..., None, :3] - PALETTE).sum(axis=-1)
    assert distances.min(axis=-1).max() == 0
    found: Floats = (distances.argmin(axis=-1) / 255).astype(np.float32)
    return found


def test_a_head_is_scrubbed_and_its_step_is_used_by_the_page(
    app: App, run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    steps = run.steps()
    target = trace_at(steps[-1], PLAYED).target_ids
    app.open("/training", training="play", q=PLAYED, kind="decoder_self", layer=2, head=3)
    player = shown(app.page, steps[-1])
    allowed = np.tri(len(target) - 1, dtype=bool)
    for press, step in (("Home", steps[0]), ("ArrowRight", steps[1])):
        player.get_by_role("slider").press(press)
        shown(app.page, step)
        trace = trace_at(step, PLAYED, target)
        cells = pixels(app)
        expected = trace.attention["decoder_self"][1, 2]
        assert np.abs(weights(cells[allowed]) - expected[allowed]).max() < 2.5 / 255
        masked = list(bytes.fromhex(LIGHT.masked[1:]))
        assert (cells[~allowed][:, :3] == masked).all()
        own = trace_at(step, PLAYED).predicted.texts
        tokens = player.locator(".translations .shown bdi").all_text_contents()
        assert [each.removeprefix("·") for each in tokens] == [token_label(p) for p in own]
        total = trace.predictions.log_probability.sum()
        score = player.locator(".translations .shown .score")
        told = "|".join(printed("target {:.2f} nats", total, dtype=np.float32))
        expect(score).to_contain_text(re.compile(told.replace(".", r"\.")))
    grid = make_grid(trace, "decoder_self")
    expect(player.locator("svg .row")).to_have_text(list(grid.rows))
    expect(player.locator("svg .column")).to_have_text(list(grid.columns))

    cell = {"x": 1.5 / len(grid.columns), "y": 4.5 / len(grid.rows)}
    canvas = player.locator(".stage canvas")
    size = canvas.evaluate("canvas => [canvas.clientWidth, canvas.clientHeight]")
    canvas.hover(position={"x": cell["x"] * size[0], "y": cell["y"] * size[1]})
    weight = int(np.rint(expected[4, 1] * 255)) / 255  # as it is sent
    said = f"query {grid.rows[4]} · key {grid.columns[1]} · weight {weight:.2f}"
    expect(player.locator(".status")).to_have_text(said)
    player.get_by_role("button", name="Use this step").click()
    app.expect_address(step=str(steps[1]))
    expect(app.page.locator(".st-key-step input")).to_have_value("1")
    shown(app.page, steps[1])


def gaps(cells: int, times: int) -> np.ndarray:
    """Which rows or columns of the canvas lie between two maps of so many."""
    return np.arange(times * (cells + 1) - 1) % (cells + 1) == cells


def test_all_heads_are_played_without_a_word_to_the_server(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    sent = app.frames("framesent")
    expected = trace_at(newest, PLAYED).attention["cross"]
    layers, heads, rows, columns = expected.shape
    app.open("/training", training="play", q=PLAYED, playing="all", layer=1, head=1)
    player = shown(app.page, newest)
    cells = pixels(app)[~gaps(rows, layers)][:, ~gaps(columns, heads)]
    across = expected.transpose(0, 2, 1, 3).reshape(cells.shape[:2])
    assert np.abs(weights(cells) - across).max() < 2.5 / 255

    player.locator("select").select_option("20")
    player.get_by_role("checkbox", name="repeat").check()
    before, quiet = int(player.get_attribute("data-drawn") or 0), len(sent)
    player.get_by_role("button", name="Play").click()
    element = player.element_handle()
    app.page.wait_for_function(
        "([player, drawn]) => Number(player.dataset.drawn) >= drawn", arg=[element, before + 12]
    )
    player.get_by_role("button", name="Pause").click()
    expect(player).to_have_attribute("data-playing", "false")
    assert asked(sent[quiet:]) == []
    assert quiet > 0

    player.locator(".stage canvas").click(position={"x": 8, "y": 8})
    app.expect_chosen(playing="this head", layer="1", head="1")
    assert pixels(app).shape[:2] == expected.shape[2:]
