"""Lines from token to token are those of a trace computed here, whatever is chosen.

A cell is (bundle, query, key); the tokens of both columns are counted on, left ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from model.checkpoint import Run
from viz_app.analysis.attention import aggregate_heads
from viz_app.analysis.flow import rolled_out
from viz_app.analysis.grid import Reading, make_grid
from viz_app.records import KINDS, Floats, Kind, Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SHORT = "We saw three black cats on the white roof."
IN_PARTS = "The acrobats unbuttoned their waistcoats."
NAMES = {"encoder_self": "Encoder self", "decoder_self": "Decoder self", "cross": "Cross"}
LEAST = 0.1
"""What is drawn at first."""
EXACT = 1e-4
"""To this weights are sent."""
Cells = dict[tuple[int, int, int], float]

DRAWN = """() => {
    const root = document.querySelector('.st-key-lines [data-testid="stBidiComponentIsolated"]');
    return [...root?.shadowRoot?.querySelectorAll('path') ?? []]
        .filter(path => getComputedStyle(path.parentNode).display !== 'none')
        .map(({dataset: d}) => [[d.bundle, d.query, d.key].join(), +d.weight]);
}"""
"""The lines that can be seen."""
ENDS = """paths => paths.map(path => {
    const boxes = [...path.ownerSVGElement.querySelectorAll('.token rect')].map(r => r.getBBox());
    const near = (a, b) => Math.abs(a - b) < 1;
    const length = path.getTotalLength();
    const [from, middle, to] = [0, length / 2, length].map(at => path.getPointAtLength(at));
    const [left, right] = [boxes[0].x, boxes.at(-1).x + boxes.at(-1).width];
    return [...[from, to].map(end => boxes.findIndex(box =>
        box.y <= end.y && end.y <= box.y + box.height &&
        (near(end.x, box.x) || near(end.x, box.x + box.width)))),
        middle.x < left ? 'left' : middle.x > right ? 'right' : 'between'];
})"""
"""At which tokens each line begins and ends, and where it runs."""
PLACES = "all => all.map(path => [path.dataset.query, path.dataset.key].map(Number))"
COLOURS = "all => all.map(element => getComputedStyle(element).{})"
WHERE = {"encoder_self": "left", "decoder_self": "right", "cross": "between"}


@pytest.fixture
def newest(run: Run) -> int:
    """The step that the app chooses at first."""
    return run.steps()[-1]


def cells_of(*maps: Floats, least: float = LEAST) -> Cells:
    """All cells of some bundles that are heavy enough."""
    return {
        (bundle, int(query), int(key)): float(cells[query, key])
        for bundle, cells in enumerate(maps)
        for query, key in np.argwhere(cells >= least)
    }


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


def expect_tokens(app: App, left: Sequence[str], right: Sequence[str]) -> None:
    """Both columns have these labels, long ones cut and whole where the mouse rests."""
    labels = [*left, *right]
    expect(inside(app, ".token title")).to_have_text(labels)
    drawn = inside(app, ".token > text").all_text_contents()
    assert drawn == [t if len(t) <= 22 else t[:21] + "…" for t in labels]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_a_head_are_its_cells(
    app: App, newest: int, trace_at: Callable[..., Trace], kind: Kind
) -> None:
    trace = trace_at(newest, SHORT)
    grid = make_grid(trace, kind)
    app.open(q=SHORT, view="lines", kind=NAMES[kind], layer=2, head=3)
    cells = cells_of(trace.attention[kind][1, 2])
    expect_lines(app, cells)
    assert len(cells) > 5
    expect_tokens(app, grid.columns, grid.rows)
    expect(inside(app, ".name")).to_have_text([f"{NAMES[kind]}, layer 2, head 3"])

    paths = inside(app, ".all path")
    drawn = paths.evaluate_all(PLACES)
    across = len(grid.columns)
    expected = [[across + query, key, "between"] for query, key in drawn]
    assert paths.evaluate_all(ENDS) == expected
    widths = sorted(
        paths.evaluate_all(
            "all => all.map(p => [+p.dataset.weight, +getComputedStyle(p)"
            ".strokeWidth.replace('px', '')])"
        )
    )
    for (light, thin), (heavy, thick) in pairwise(widths):
        assert thick >= thin
        assert thick > thin or heavy - light < 0.01
    assert widths[-1][1] > 2 * widths[0][1]


@pytest.mark.parametrize(
    ("chosen", "reading"),
    [
        ({"show": "mean", "rows": "consumed", "units": "words"}, ("words", "consumed")),
        ({"show": "max", "special": "false"}, ("pieces", "predicted", False)),
        (
            {"show": "rollout", "renormalised": "true", "special": "false"},
            ("pieces", "predicted", False, True),
        ),
    ],
    ids=["mean of words", "max without special tokens", "rollout renormalised"],
)
def test_lines_are_read_as_maps_are(
    app: App,
    newest: int,
    trace_at: Callable[..., Trace],
    chosen: dict[str, str],
    reading: tuple[Any, ...],
) -> None:
    trace = trace_at(newest, IN_PARTS)
    grid = make_grid(trace, "cross", Reading(*reading))
    if chosen["show"] == "rollout":
        weights = grid.apply(rolled_out(trace, "cross", 2))
    else:
        weights = aggregate_heads(grid.apply(trace.attention["cross"])[2], chosen["show"])
    app.open(q=IN_PARTS, view="lines", **chosen)
    expect_lines(app, cells_of(weights))
    expect_tokens(app, grid.columns, grid.rows)
    expect(inside(app, ".title")).to_have_text([grid.column_title, grid.row_title])


def test_further_heads_have_colours_of_their_own(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """The one that is shown already, named again, is not drawn twice."""
    weights = trace_at(newest, SHORT).attention["cross"]
    further = ["Cross 2.1", "Cross 2.3", "Cross 1.4"]
    app.open(q=SHORT, view="lines", layer=2, head=3, lines_of=further)
    expect_lines(app, cells_of(weights[1, 2], weights[1, 0], weights[0, 3]))
    expect(inside(app, ".name")).to_have_text(
        ["Cross, layer 2, head 3", "Cross, layer 2, head 1", "Cross, layer 1, head 4"]
    )
    swatches = inside(app, ".swatch").evaluate_all(COLOURS.format("backgroundColor"))
    assert len(set(swatches)) == 3
    for bundle, colour in enumerate(swatches):
        paths = inside(app, f'.all path[data-bundle="{bundle}"]')
        assert set(paths.evaluate_all(COLOURS.format("stroke"))) == {colour}


def test_more_heads_than_colours_are_said_to_be_left_out(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    weights = trace_at(newest, SHORT).attention["cross"]
    layers, heads = weights.shape[:2]
    every = [f"Cross {i + 1}.{h + 1}" for i in range(layers) for h in range(heads)]
    app.open(q=SHORT, view="lines", layer=3, head=4, lines_of=every)
    expect_lines(app, cells_of(weights[2, 3], *weights[0], weights[1, 0]))
    said = "There are colours for 5 further heads; the first 5 are drawn."
    app.page.get_by_text(said).wait_for()
    app.choose("head", "1")
    expect_lines(app, cells_of(weights[2, 0], *weights[0], weights[1, 0]))
    app.choose("view", "lines of all kinds")
    app.page.get_by_text("There are colours for 3 further heads").wait_for()
    assert app.page.get_by_role("alert").count() == 0


@pytest.mark.parametrize(
    ("chosen", "reading"),
    [
        ({}, Reading(lead="consumed")),
        ({"units": "words", "kind": "Decoder self"}, Reading("words", "consumed")),
        ({"special": "false"}, Reading(lead="consumed", special=False)),
    ],
    ids=["pieces", "words", "without special tokens"],
)
def test_all_kinds_run_between_the_source_and_what_was_consumed(
    app: App,
    newest: int,
    trace_at: Callable[..., Trace],
    chosen: dict[str, str],
    reading: Reading,
) -> None:
    trace = trace_at(newest, IN_PARTS)
    first: Kind = "decoder_self" if "kind" in chosen else "cross"
    kinds = [first, *(kind for kind in KINDS if kind != first)]
    grids = {kind: make_grid(trace, kind, reading) for kind in kinds}
    app.open(q=IN_PARTS, view="lines of all kinds", layer=2, head=4, **chosen)
    expect_lines(app, cells_of(*[grids[kind].apply(trace.attention[kind])[1, 3] for kind in kinds]))
    expect_tokens(app, grids["encoder_self"].columns, grids["decoder_self"].rows)
    expect(inside(app, ".title")).to_have_text(["source", "consumed → predicted"])
    expect(inside(app, ".name")).to_have_text([f"{NAMES[k]}, layer 2, head 4" for k in kinds])

    across = len(grids["encoder_self"].columns)
    for bundle, kind in enumerate(kinds):
        paths = inside(app, f'.all path[data-bundle="{bundle}"]')
        drawn = paths.evaluate_all(PLACES)
        assert drawn
        sides = {"encoder_self": (0, 0), "decoder_self": (across, across), "cross": (across, 0)}
        side, where = sides[kind], WHERE[kind]
        expected = [[side[0] + query, side[1] + key, where] for query, key in drawn]
        assert paths.evaluate_all(ENDS) == expected


def test_the_picture_is_saved_with_its_labels_and_the_names_of_its_colours(
    app: App, newest: int, trace_at: Callable[..., Trace], tmp_path: Path
) -> None:
    trace = trace_at(newest, SHORT)
    grid = make_grid(trace, "cross")
    app.open(q=SHORT, view="lines", layer=2, head=3, lines_of="Cross 1.4")
    maps = [trace.attention["cross"][layer, head] for layer, head in ((1, 2), (0, 3))]
    expect_lines(app, cells_of(*maps))
    with app.page.expect_download() as started:
        inside(app, "button").get_by_text("Save as SVG").click()
    assert started.value.suggested_filename == (
        f"headwise-en-es-{newest}-cross-layer2-head3-lines.svg"
    )
    started.value.save_as(tmp_path / "lines.svg")
    picture = ElementTree.parse(tmp_path / "lines.svg").getroot()
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    names = ["Cross, layer 2, head 3", "Cross, layer 1, head 4"]
    assert texts == [grid.column_title, *grid.columns, grid.row_title, *grid.rows, *names]
    lines = picture.findall(".//{http://www.w3.org/2000/svg}path")
    assert len(lines) == len(cells_of(*maps))
    height = float(picture.attrib["height"])
    places = picture.iter("{http://www.w3.org/2000/svg}text")
    assert all(float(text.attrib["y"]) <= height for text in places)
