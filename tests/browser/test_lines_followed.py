"""Lines follow the mouse and the keyboard by themselves, whatever the tokens are made of.

A cell is (query, key).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from model.checkpoint import Run
from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.records import Floats, Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
HOSTILE = (
    "<script>window.__hacked=1</script> <b>bold</b> <img src=x onerror=alert(1)> &lt; "
    "👩‍👩‍👧 😀 مرحبا שלום \u202eabc"
)
GOTHIC = "xx" + "𐌰" * 21
"""A word of more letters than a label has; most of them count twice in JavaScript."""
LEAST = 0.1
"""What is drawn at first."""
EXACT = 1e-4
"""To this weights are sent."""
Cells = dict[tuple[int, int], float]
DRAWING = {"g", "path", "rect", "svg", "text", "title"}
AROUND = {"b", "button", "div", "input", "label", "output", "span", "style"}
"""Elements that the picture is made of."""

DRAWN = """() => {
    const root = document.querySelector('.st-key-lines [data-testid="stBidiComponentIsolated"]');
    return [...root?.shadowRoot?.querySelectorAll('path') ?? []]
        .filter(path => getComputedStyle(path.parentNode).display !== 'none')
        .map(({dataset: d}) => [[d.query, d.key].join(), +d.weight]);
}"""
"""The lines that can be seen."""


@pytest.fixture
def newest(run: Run) -> int:
    """The step that the app chooses at first."""
    return run.steps()[-1]


def cells_of(cells: Floats, *, least: float = LEAST) -> Cells:
    """All cells that are heavy enough."""
    heavy = np.argwhere(cells >= least).tolist()
    return {(query, key): float(cells[query, key]) for query, key in heavy}


def at_key(cells: Cells, key: int) -> Cells:
    return {cell: weight for cell, weight in cells.items() if cell[1] == key}


def at_query(cells: Cells, query: int) -> Cells:
    return {cell: weight for cell, weight in cells.items() if cell[0] == query}


def expect_lines(app: App, expected: Cells) -> None:
    """Wait until exactly these lines can be seen; fails, with both, if they cannot."""
    app.wait(
        f"""([expected, exact]) => {{
            const drawn = ({DRAWN})();
            return drawn.length === expected.length && drawn.length === new Map(drawn).size &&
                expected.every(([cell, weight]) =>
                    Math.abs(new Map(drawn).get(cell) - weight) <= exact);
        }}""",
        [[[",".join(map(str, cell)), weight] for cell, weight in expected.items()], EXACT],
    )
    pairs = app.page.evaluate(DRAWN)
    drawn = {tuple(map(int, cell.split(","))): weight for cell, weight in pairs}
    assert len(pairs) == len(drawn)
    assert drawn == pytest.approx(expected, rel=0, abs=EXACT)


def inside(app: App, what: str) -> Locator:
    return app.page.locator(f".st-key-lines {what}")


def frames_from(app: App) -> list[bytes | str]:
    """What the page sends to the server from now on; to be called before it is opened."""
    sent: list[bytes | str] = []
    app.page.on(
        "websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame))
    )
    return sent


def slide_to(app: App, least: float) -> None:
    inside(app, "input[type=range]").fill(f"{least:.2f}")


def leave(app: App) -> None:
    """Move the mouse away from the lines."""
    app.page.mouse.move(2, 2)


def test_the_mouse_leaves_only_the_lines_of_a_token_and_the_server_hears_nothing(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    weights = trace_at(newest, SHORT).attention["cross"]
    keys = weights.shape[-1]
    cells = cells_of(weights[1, 2])
    (query, key), _ = max(cells.items(), key=lambda item: item[1])
    tokens = inside(app, ".token")
    sent = frames_from(app)
    app.open(q=SHORT, view="lines", kind="Cross", layer=2, head=3)
    expect_lines(app, cells)
    before = len(sent)

    tokens.nth(key).hover()
    expect_lines(app, at_key(cells, key))
    tokens.nth(keys + query).hover()
    expect_lines(app, at_query(cells, query))
    leave(app)
    expect_lines(app, cells)
    assert 0 < len(at_query(cells, query)) < len(cells)

    tokens.nth(key).click()
    leave(app)
    expect_lines(app, at_key(cells, key))
    tokens.nth(keys + query).hover()
    expect_lines(app, at_query(cells, query))
    leave(app)
    expect_lines(app, at_key(cells, key))
    slide_to(app, 0.02)
    expect_lines(app, at_key(cells_of(weights[1, 2], least=0.02), key))
    slide_to(app, LEAST)
    tokens.nth(key).click()
    leave(app)
    expect_lines(app, cells)
    tokens.nth(keys + query).click()
    leave(app)
    expect_lines(app, at_query(cells, query))
    app.page.keyboard.press("Escape")
    expect_lines(app, cells)

    app.choose("head", "2")
    expect_lines(app, cells_of(weights[1, 1]))
    assert len(sent) - before == 1, "more than the choice of a head was sent"


def test_the_slider_in_the_picture_changes_the_smallest_weight(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    weights = trace_at(newest, SHORT).attention["cross"][1, 2]
    slider = inside(app, "input[type=range]")
    sent = frames_from(app)
    app.open(q=SHORT, view="lines", layer=2, head=3)
    expect_lines(app, cells_of(weights))
    expect(slider).to_have_value("0.1")
    before = len(sent)
    counts = set()
    for press, least in (("Home", 0.01), ("ArrowRight", 0.02), ("End", 1.0)):
        slider.press(press)
        expect(inside(app, "output")).to_have_text(f"{least:.2f}")
        expect_lines(app, cells_of(weights, least=least))
        counts.add(len(cells_of(weights, least=least)))
    assert len(counts) == 3
    slide_to(app, 0.3)
    expect_lines(app, cells_of(weights, least=0.3))
    app.choose("layer", "3")
    expect_lines(app, cells_of(trace_at(newest, SHORT).attention["cross"][2, 2], least=0.3))
    expect(slider).to_have_value("0.3")
    assert len(sent) - before == 1, "more than the choice of a layer was sent"


def expect_said(app: App, grid: Grid, weights: Floats, side: int, index: int) -> None:
    """In words: a token, and its heaviest connection, with the weight."""
    across = weights if side else weights.T
    other = int(across[index].argmax())
    labels = (grid.columns, grid.rows)
    arrow = "→" if side else "←"
    heaviest = f"{labels[1 - side][other]} {across[index, other]:.3f}"
    said = inside(app, ".said[aria-live=polite]")
    expect(said).to_contain_text(f"{labels[side][index]}: {arrow} {heaviest}")


def test_the_keyboard_reaches_every_token_and_hears_its_heaviest_connection(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SHORT)
    grid, weights = make_grid(trace, "cross"), trace.attention["cross"][1, 2]
    cells = cells_of(weights)
    keys = len(grid.columns)
    tokens = inside(app, ".token")
    app.open(q=SHORT, view="lines", layer=2, head=3)
    slide_to(app, 0.01)
    inside(app, "button").press("Tab")
    expect(tokens.nth(0)).to_be_focused()
    expect_said(app, grid, weights, 0, 0)
    for button, at in (
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("ArrowRight", keys + 1),
    ):
        app.page.keyboard.press(button)
        expect(tokens.nth(at)).to_be_focused()
        expect_said(app, grid, weights, *divmod(at, keys))
    app.page.keyboard.press("Enter")
    slide_to(app, LEAST)
    inside(app, "input[type=range]").focus()
    expect_lines(app, at_query(cells, 1))


def test_another_head_keeps_the_token_and_a_new_sentence_forgets_it(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """The token is the last one, which the new sentence does not have."""
    weights = trace_at(newest, SHORT).attention["cross"]
    keys = weights.shape[-1]
    app.open(q=SHORT, view="lines", layer=3, head=1)
    expect_lines(app, cells_of(weights[2, 0]))
    inside(app, ".token").nth(keys - 1).click()
    leave(app)
    expect_lines(app, at_key(cells_of(weights[2, 0]), keys - 1))
    app.choose("head", "2")
    expect_lines(app, at_key(cells_of(weights[2, 1]), keys - 1))
    expect(inside(app, ".pinned")).to_have_count(1)

    app.type(BRIEF)
    trace = trace_at(newest, BRIEF)
    assert len(trace.source) < keys
    expect_lines(app, cells_of(trace.attention["cross"][2, 1]))
    expect(inside(app, ".pinned")).to_have_count(0)
    grid = make_grid(trace, "cross")
    expect(inside(app, ".token title")).to_have_text([*grid.columns, *grid.rows])


@pytest.mark.parametrize("units", ["pieces", "words"])
def test_tokens_that_look_like_markup_are_text(
    app: App, newest: int, trace_at: Callable[..., Trace], units: str
) -> None:
    trace = trace_at(newest, HOSTILE)
    grid = make_grid(trace, "cross", Reading(units=units))
    weights = grid.apply(trace.attention["cross"])[2, 0]
    labels = [*grid.columns, *grid.rows]
    opened: list[str] = []
    app.page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    app.open(q=HOSTILE, view="lines", units=units)
    expect_lines(app, cells_of(weights))
    expect(inside(app, ".token title")).to_have_text(labels)
    for index, label in enumerate(labels):
        inside(app, ".token").nth(index).focus()
        expect(inside(app, ".said > b").first).to_have_text(label)
    made = inside(app, "*").evaluate_all("all => all.map(element => element.localName)")
    assert set(made) == DRAWING | AROUND
    assert opened == []
    assert app.page.evaluate("window.__hacked") is None


def test_long_labels_are_cut_between_letters(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """As those of maps are."""
    grid = make_grid(trace_at(newest, f"{GOTHIC} is here."), "cross", Reading(units="words"))
    assert GOTHIC in grid.columns
    app.open(q=f"{GOTHIC} is here.", view="lines", units="words")
    label = inside(app, ".token > text").nth(grid.columns.index(GOTHIC))
    expect(label).to_have_text(GOTHIC[:21] + "…")
