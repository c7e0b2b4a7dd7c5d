"""Heads played through the checkpoints of a run, read from the canvas pixel by pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import Locator, Page, WebSocket, expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from model.checkpoint import Run
from viz_app.analysis.grid import make_grid
from viz_app.analysis.labels import piece_label
from viz_app.figures.theme import LIGHT, weight_colour
from viz_app.records import Floats, Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "The old man gave the little girl a red apple."
HOSTILE = "<img src=x onerror=alert(1)> مرحبا 😀"
PALETTE = np.array([list(bytes.fromhex(weight_colour(LIGHT, i / 255)[1:])) for i in range(256)])


def shown(page: Page, step: int) -> Locator:
    """The player, when it shows a step."""
    player = page.locator(".player")
    expect(player).to_have_attribute("data-step", str(step))
    return player


def pixels(page: Page) -> np.ndarray:
    """Of the canvas: (rows, columns, 4), one a cell."""
    canvas = page.locator(".player .stage canvas")
    width, height, flat = canvas.evaluate(
        """canvas => [canvas.width, canvas.height, Array.from(
            canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)]"""
    )
    return np.array(flat).reshape(height, width, 4)


def weights(cells: np.ndarray) -> Floats:
    """The weights whose colours are drawn."""
    distances = np.abs(cells[..., None, :3] - PALETTE).sum(axis=-1)
    assert distances.min(axis=-1).max() == 0
    found: Floats = (distances.argmin(axis=-1) / 255).astype(np.float32)
    return found


def test_a_head_is_scrubbed_and_a_step_is_taken_to_the_page(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    steps = run.steps()
    target = trace_at(steps[-1], SENTENCE).target_ids
    app.open("/training", training="play", q=SENTENCE, kind="Decoder self", layer=2, head=3)
    player = shown(app.page, steps[-1])
    allowed = np.tri(len(target) - 1, dtype=bool)
    slider = player.get_by_role("slider")
    for press, step in (("", steps[-1]), ("Home", steps[0]), ("ArrowRight", steps[1])):
        if press:
            slider.press(press)
        shown(app.page, step)
        trace = trace_at(step, SENTENCE, target)
        cells = pixels(app.page)
        expected = trace.attention["decoder_self"][1, 2]
        assert np.abs(weights(cells[allowed]) - expected[allowed]).max() < 2.5 / 255
        masked = list(bytes.fromhex(LIGHT.masked[1:]))
        assert (cells[~allowed][:, :3] == masked).all()
        own = trace_at(step, SENTENCE).predicted.pieces
        pieces = player.locator(".own .shown bdi").all_text_contents()
        assert [each.removeprefix("·") for each in pieces] == [piece_label(p) for p in own]
        total = trace.predictions.log_probability.sum()
        expect(player.locator(".own .shown .score")).to_contain_text(f"target {total:.2f} nats")
    grid = make_grid(trace, "decoder_self")
    assert player.locator("svg .row").all_text_contents() == list(grid.rows)
    assert player.locator("svg .column").all_text_contents() == list(grid.columns)

    box = player.locator(".stage canvas").bounding_box()
    assert box is not None
    cell = box["width"] / len(grid.columns), box["height"] / len(grid.rows)
    app.page.mouse.move(box["x"] + 1.5 * cell[0], box["y"] + 4.5 * cell[1])
    said = f"query {grid.rows[4]} · key {grid.columns[1]} · weight {expected[4, 1]:.2f}"
    expect(player.locator(".said")).to_have_text(said)

    player.get_by_role("button", name="Use this step").click()
    app.wait("step => new URLSearchParams(location.search).get('step') === step", str(steps[1]))
    expect(app.page.locator(".st-key-step input")).to_have_value("1")
    shown(app.page, steps[1])


def test_all_heads_are_played_without_a_word_to_the_server(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    sent: list[BackMsg] = []

    def hear(frame: bytes | str) -> None:
        message = BackMsg.FromString(frame if isinstance(frame, bytes) else frame.encode())
        if not message.rerun_script.is_auto_rerun:  # which the page does by a clock
            sent.append(message)

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", hear)

    app.page.on("websocket", listen)
    newest = run.steps()[-1]
    app.open("/training", training="play", q=SENTENCE, playing="all heads", layer=1, head=1)
    player = shown(app.page, newest)
    app.wait("() => true")
    drawn = weights(pixels(app.page)[:, :, :3][~gap_rows(run, trace_at)][:, ~gap_columns(run)])
    expected = trace_at(newest, SENTENCE).attention["cross"]
    across = expected.transpose(0, 2, 1, 3).reshape(drawn.shape)
    assert np.abs(drawn - across).max() < 2.5 / 255

    player.locator("select").select_option("20")
    player.get_by_role("checkbox", name="repeat").check()
    before, quiet = int(player.get_attribute("data-drawn") or 0), len(sent)
    player.get_by_role("button", name="Play").click()
    element = player.element_handle()
    app.page.wait_for_function(
        "([e, n]) => Number(e.dataset.drawn) >= n", arg=[element, before + 12]
    )
    player.get_by_role("button", name="Pause").click()
    assert player.get_attribute("data-playing") == "false"
    assert sent[quiet:] == []
    assert quiet > 0

    player.locator(".stage canvas").click(position={"x": 8, "y": 8})
    app.wait("() => new URLSearchParams(location.search).get('playing') !== 'all heads'")
    assert [app.chosen(key) for key in ("layer", "head")] == ["1", "1"]
    assert pixels(app.page).shape[:2] == expected.shape[2:]


def gap_rows(run: Run, trace_at: Callable[..., Trace]) -> np.ndarray:
    """Which rows of the canvas lie between two layers."""
    rows = len(trace_at(run.steps()[-1], SENTENCE).predicted)
    layers = run.info.model.n_layers
    return np.arange(layers * (rows + 1) - 1) % (rows + 1) == rows


def gap_columns(run: Run) -> np.ndarray:
    """Which columns of the canvas lie between two heads."""
    columns = len(run.tokenizers.encode_source(SENTENCE))
    return np.arange(run.info.model.n_heads * (columns + 1) - 1) % (columns + 1) == columns


def test_text_is_drawn_as_text(app: App, run: Run, trace_at: Callable[..., Trace]) -> None:
    newest = run.steps()[-1]
    target = tuple(run.tokenizers.encode_target(HOSTILE))
    app.open("/training", training="play", q=SENTENCE, shared="your own", target=HOSTILE)
    player = shown(app.page, newest)
    grid = make_grid(trace_at(newest, SENTENCE, target), "cross")
    rows = player.locator("svg .row").all_text_contents()
    assert rows == [t if len(t) <= 22 else t[:21] + "…" for t in grid.rows]
    assert any("<" in row for row in rows)
    assert player.locator("img").count() == 0
