"""Generation step by step, and heads as they form, play by themselves and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.figures.theme import LIGHT, weight_colour
from headwise.viz_app.heads.composition.scores import composition
from headwise.viz_app.records.trace import Floats, Trace
from tests.browser.driver import FRAMES, App, Motion, Traced, asked, rgb, short_label, step_label

pytestmark = pytest.mark.release

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
PLAYED = "The old man gave the little girl a red apple."
PALETTE = np.array([list(bytes.fromhex(weight_colour(LIGHT, i / 255)[1:])) for i in range(256)])
RECORD = """() => {
    window.__shown = [];
    const look = () => {
        const shown = document.querySelector('.st-key-at input')?.value;
        if (shown && shown !== window.__shown.at(-1)) window.__shown.push(shown);
        requestAnimationFrame(look);
    };
    look();
}"""
"""Keep each step that the list shows, in order."""


@pytest.fixture
def motion() -> Motion:
    return "no-preference"


def button(app: App, key: str) -> Locator:
    return app.page.locator(f".st-key-{key} button")


def expect_step(app: App, trace: Trace, at: int) -> None:
    """What depends on the step of decoding is the trace's; its own token alone is framed."""
    app.expect_field("at", step_label(trace, at))
    top = np.exp(trace.predictions.top_log_probability[at])
    app.expect_drawn("top_tokens", top, values="x")
    app.expect_read("large", FRAMES, [[at - 0.5, at + 0.5]])
    tokens = app.page.locator(".st-key-loop bdi")
    expected = [*token_labels(trace.consumed)[: at + 1], token_labels(trace.predicted)[at]]
    expect(tokens).to_have_text(expected)
    borders = tokens.evaluate_all("all => all.map(token => getComputedStyle(token).borderColor)")
    assert [border == rgb(LIGHT.accent) for border in borders] == [False] * (at + 1) + [True]
    row = trace.attention["cross"][:, :, at]
    app.expect_drawn("rows_cross", row.reshape(-1, row.shape[-1]))
    expect(button(app, "back")).to_be_enabled(enabled=at > 0)
    expect(button(app, "next")).to_be_enabled(enabled=at < len(trace.consumed) - 1)


def test_buttons_list_and_a_click_on_a_row_move_through_the_steps(app: App, traced: Traced) -> None:
    trace = traced(BRIEF)
    last = len(trace.consumed) - 1
    assert last >= 3
    app.open(q=BRIEF)
    expect_step(app, trace, 0)
    for at in range(1, last + 1):
        button(app, "next").click()
        expect_step(app, trace, at)
    button(app, "back").click()
    expect_step(app, trace, last - 1)
    app.pick("at", step_label(trace, 1))
    expect_step(app, trace, 1)
    app.hover_in("large", -0.01, 2.5 / len(trace.consumed))  # the mark left of the row
    app.page.mouse.down()
    app.page.mouse.up()
    expect_step(app, trace, 2)


def test_steps_play_to_the_last_by_themselves_then_from_the_first(app: App, traced: Traced) -> None:
    trace = traced(BRIEF)
    labels = [step_label(trace, at) for at in range(len(trace.consumed))]
    app.open(q=BRIEF)
    expect_step(app, trace, 0)
    app.page.evaluate(RECORD)
    toggle = app.page.locator(".st-key-play label")
    toggle.click()
    expect_step(app, trace, len(labels) - 1)
    toggle.click()
    expect(app.page.locator(".st-key-play input")).not_to_be_checked()
    toggle.click()
    app.expect("() => window.__shown", [*labels, *labels])
    expect_step(app, trace, len(labels) - 1)


def test_another_head_draws_no_other_part_of_the_page_again(app: App, traced: Traced) -> None:
    """What the server sends tells: the whole translation at first, then never again."""
    trace = traced(SHORT)
    received = app.frames("framereceived")
    text = trace.target_text.encode()
    app.open(q=SHORT)
    expect_step(app, trace, 0)
    assert any(text in frame for frame in received)
    button(app, "next").click()
    expect_step(app, trace, 1)

    received.clear()
    app.choose(head="2")
    app.expect_drawn("large", trace.attention["cross"][-1, 1])
    app.page.get_by_text("Cross 3.2").first.wait_for()
    assert received
    assert not any(text in frame for frame in received), "the translation was drawn again"
    assert not any(b"Probability of" in frame for frame in received), "the step was drawn again"
    expect_step(app, trace, 1)


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
            const [canvas] = everywhere('.player .stage canvas:not(.before)');
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
    head = {"kind": "decoder_self", "layer": 2, "head": 3}
    app.open("/training", training="watch", playing="head", q=PLAYED, **head)
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
    grid = make_grid(trace, "decoder_self")
    expect(player.locator("svg .row")).to_have_text(list(grid.rows))
    expect(player.locator("svg .column")).to_have_text(list(grid.columns))

    cell = {"x": 1.5 / len(grid.columns), "y": 4.5 / len(grid.rows)}
    canvas = player.locator(".stage canvas").first
    size = canvas.evaluate("canvas => [canvas.clientWidth, canvas.clientHeight]")
    canvas.hover(position={"x": cell["x"] * size[0], "y": cell["y"] * size[1]})
    weight = int(np.rint(expected[4, 1] * 255)) / 255  # as it is sent
    said = f"query {grid.rows[4]} · key {grid.columns[1]} · weight {weight:#.3g}"
    expect(player.locator(".status")).to_have_text(said)
    player.get_by_role("button", name="Use this checkpoint").click()
    app.expect_address(step=str(steps[1]))
    expect(app.widget("step").locator("input")).to_have_value("1")
    shown(app.page, steps[1])


def gaps(cells: int, times: int) -> np.ndarray:
    """Which rows or columns of the canvas lie between two maps of so many."""
    return np.arange(times * (cells + 1) - 1) % (cells + 1) == cells


def test_all_heads_are_played_without_a_word_to_the_server(
    app: App, run: TrainedRun, newest: int, traced: Traced
) -> None:
    first = run.steps()[0]
    sent = app.frames("framesent")
    expected = traced(PLAYED).attention["cross"]
    layers, heads, rows, columns = expected.shape
    app.open("/training", training="watch", q=PLAYED, layer=1, head=1)
    player = shown(app.page, first)
    player.get_by_role("slider").press("End")
    shown(app.page, newest)
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

    player.locator(".stage canvas").first.click(position={"x": 8, "y": 8})
    app.expect_chosen(playing="this head", layer="1", head="1")
    assert pixels(app).shape[:2] == expected.shape[2:]


def test_edges_of_a_step_are_walked_through_by_keys(app: App, run: TrainedRun, newest: int) -> None:
    before = run.steps()[-2]
    last, edges = (
        composition(load_weights(run, at).model).strongest(30) for at in (newest, before)
    )
    app.open("/heads", q=BRIEF, edge_training="true")
    player = shown(app.page, newest)
    lines, stage = player.locator(".graph .hit"), player.locator(".graph")
    expect(lines).to_have_count(len(last))
    player.get_by_role("slider").press("ArrowLeft")
    shown(app.page, before)
    chosen = last[0].name  # drawn at every step
    names = [edge.name for edge in edges]
    expect(lines).to_have_count(len(edges) + (chosen not in names))
    for edge in edges[:2]:
        stage.press("ArrowDown")
        ends = [short_label(head) for head in (edge.earlier, edge.later)]
        expect(player.locator(".status")).to_contain_text(f"{ends[0]} → {edge.role} of {ends[1]}: ")
    stage.press("Enter")
    app.expect_address(edge=names[1])
    shown(app.page, before)  # another edge is no other step
    expect(lines).to_have_count(len(edges))


def test_nothing_plays_where_the_system_asks_for_no_motion(app: App, run: TrainedRun) -> None:
    app.page.emulate_media(reduced_motion="reduce")
    app.open("/training", q=BRIEF, training="watch", playing="head")
    player = app.page.locator(".player").first
    play, shown = player.locator(".play"), player.locator("output")
    expect(play).to_have_text("Next")
    expect(player.locator(".to-come")).to_have_count(0)
    for step in run.steps()[:2]:  # after the last comes the first
        play.click()
        expect(shown).to_have_text(re.compile(rf"^step {step:,}\b"))
        expect(player).to_have_attribute("data-playing", "false")
    app.open(q=BRIEF, below="steps")
    expect(app.widget("next")).to_be_visible()
    expect(app.widget("play")).to_be_hidden()
