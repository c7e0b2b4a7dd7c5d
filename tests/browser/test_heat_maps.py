"""Heat maps as pages draw them beside the same figures drawn by Plotly, in one browser."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page
from plotly.offline import get_plotlyjs

from headwise.model.interface import Head
from headwise.viz_app.components.assets import SCRIPTS
from headwise.viz_app.figures import heads, maps
from headwise.viz_app.figures.matrix import MapAxes
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme

AT = "http://maps.test"
APART = 900  # pixels from the corner of ours to that of Plotly's
DRAW = """async ([json, apart]) => {
    const {draw, placed, read} = await import('/figure.js');
    const {svgElement} = await import('/shared.js');
    const figure = read(json), {layout, data} = JSON.parse(json);
    const size = {width: layout.width ?? 640, height: layout.height};
    const ground = getComputedStyle(document.body).backgroundColor;
    const svg = svgElement('svg', size, draw(figure, placed(figure, size), ground));
    document.querySelector('#ours').replaceChildren(svg);
    theirs.style.left = `${apart}px`;
    await Plotly.newPlot(theirs, data, {...layout, ...size}, {staticPlot: false});
    const image = (place, corner) => [...document.querySelectorAll(place)].map(each => {
        const {left, top, width, height} = each.getBoundingClientRect();
        return [left - corner, top, width, height];
    });
    const labels = (root, corner) => [...root.querySelectorAll('.xtick, .ytick, .annotation')]
        .map(each => each.querySelector('text')).map(each => {
            const {left, right, top, bottom} = each.getBoundingClientRect();
            return [each.textContent, (left + right) / 2 - corner, (top + bottom) / 2];
        }).filter(([text]) => text);
    return {
        cells: [image('#ours image', 0), image('#theirs .heatmaplayer image', apart)],
        labels: [labels(ours, 0), labels(theirs, apart)],
    };
}"""
PLACE = """([row, column]) => {
    const [x, y] = [theirs._fullLayout.xaxis, theirs._fullLayout.yaxis];
    document.querySelector('.hoverlayer').replaceChildren();
    return [x._offset + x.d2p(column), y._offset + y.d2p(row)];
}"""
"""Where Plotly has the middle of a cell."""
READ = """async ([row, column]) => {
    const {readout} = await import('/figure.js');
    const lines = [...document.querySelectorAll('.hoverlayer .hovertext tspan.line')];
    if (!lines.length) return undefined;
    return [readout(window.figure, row, column), lines.map(each => each.textContent)];
}"""


@pytest.fixture(scope="module")
def sheet(browser: Browser) -> Iterator[Page]:
    """A page without the app, which finds our scripts and Plotly."""
    page = browser.new_page(viewport={"width": 2 * APART, "height": 900})
    page.route(
        f"{AT}/**",
        lambda route: route.fulfill(
            body=SCRIPTS.get(route.request.url.rpartition("/")[2], b"<!doctype html>"),
            content_type="text/javascript" if route.request.url.endswith(".js") else "text/html",
        ),
    )
    page.goto(f"{AT}/")
    page.add_script_tag(content=get_plotlyjs())
    yield page
    page.close()


def words(random: np.random.Generator, count: int) -> list[str]:
    """Labels that tell places apart, some of them longer than a label may be, or like markup."""
    parts = ["<b>a</b>", "&lt;", "niña", "שלום", "$x$", "%{z}", "un", "extraordinariamente-larga"]
    return [f"{place}{random.choice(parts)}" for place in range(count)]


def attention(random: np.random.Generator, theme: Theme) -> go.Figure:
    rows, columns = random.integers(2, 13, 2).tolist()
    return maps.attention_map(
        random.dirichlet(np.full(columns, 0.4), rows).astype(np.float32),
        selected=int(random.integers(rows)),
        column=int(random.integers(columns)),
        **axes(random, rows, columns, theme),
        allowed=random.random((rows, columns)) < 0.7,
        square=bool(random.integers(2)),
    )


def axes(random: np.random.Generator, rows: int, columns: int, theme: Theme) -> MapAxes:
    return MapAxes(
        rows=words(random, rows),
        columns=words(random, columns),
        row_title="predicted",
        column_title="source (key)",
        theme=theme,
        width=560,
    )


def difference(random: np.random.Generator, theme: Theme) -> go.Figure:
    cells = random.uniform(-1, 1, (7, 9)).astype(np.float32)
    return maps.difference_map(cells, **axes(random, 7, 9, theme))


def mosaic(random: np.random.Generator, theme: Theme) -> go.Figure:
    weights = random.dirichlet(np.ones(5), (2, 3, 4)).astype(np.float32)
    names = {"rows": words(random, 4), "columns": words(random, 5)}
    return heads.mosaic(weights, **names, theme=theme, selected=(1, 2))


def vectors(random: np.random.Generator, theme: Theme) -> go.Figure:
    cells = random.normal(size=(6, 11)).astype(np.float32)
    return maps.vector_map(cells, labels=words(random, 6), limit=2.0, apart=(2, 5.0), theme=theme)


def encoding(random: np.random.Generator, theme: Theme) -> go.Figure:
    return maps.encoding_map(random.uniform(-1, 1, (12, 10)), used=7, theme=theme)


def stages(random: np.random.Generator, theme: Theme) -> go.Figure:
    scores = random.normal(size=9) * 4
    return maps.score_stages(
        [scores, scores / 2],
        random.dirichlet(np.ones(9)),
        allowed=random.random(9) < 0.7,
        columns=words(random, 9),
        names=["q k", "scaled", "masked", "weight"],
        theme=theme,
        selected=3,
    )


def mask(random: np.random.Generator, theme: Theme) -> go.Figure:
    names = {"rows": words(random, 6), "columns": words(random, 6)}
    return maps.mask_map(np.tri(6, dtype=bool), **names, titles=("q", "k"), theme=theme)


def head_rows(random: np.random.Generator, theme: Theme) -> go.Figure:
    listed = [Head("cross", 0, 0), Head("cross", 0, 1), Head("encoder_self", 1, 0)]
    rows = heads.HeadRows(listed, list("abc"), random.random((3, 6)), [["said"] * 6] * 3)
    kinds: Any = {"encoder_self": "Encoder self", "cross": "Cross"}
    given: Any = {"measured": "entropy", "values": "share", "kinds": kinds}
    return heads.head_matrix(rows, steps=[0, 5, 50, 500, 1000, 2000], **given, theme=theme)


def ratios(random: np.random.Generator, theme: Theme) -> go.Figure:
    dimensions = random.integers(0, 100, (4, 6))
    cells = random.uniform(1, 30, (4, 6)).astype(np.float32)
    return maps.ratio_map(cells, dimensions, **axes(random, 4, 6, theme))


def shares(random: np.random.Generator, theme: Theme) -> go.Figure:
    cells = random.uniform(-0.5, 1.5, (3, 7)).astype(np.float32)
    cells[random.random((3, 7)) < 0.3] = np.nan
    names = np.arange(21).astype(np.str_).reshape(3, 7)
    return maps.share_map(cells, names=names, hover=names, **axes(random, 3, 7, theme))


FIGURES = [
    attention,
    difference,
    mosaic,
    vectors,
    encoding,
    stages,
    mask,
    head_rows,
    ratios,
    shares,
]
"""Of each kind of frame, scale, gap and label."""


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("make", FIGURES)
def test_a_map_is_what_plotly_draws(sheet: Page, make: Any, seed: int) -> None:
    """Cells within a pixel and a shade, and the same labels within half the height of a letter."""
    theme = (LIGHT, DARK)[seed]
    figure: go.Figure = make(np.random.default_rng(seed), theme)
    json = figure.to_json(validate=False)
    sheet.evaluate(
        """ground => {
            document.body.innerHTML = '<div id="ours"></div><div id="theirs"></div>';
            document.body.style.background = ground;
            for (const {style} of document.body.children)
                Object.assign(style, {position: 'absolute', top: 0, left: 0});
        }""",
        theme.background,
    )
    found = sheet.evaluate(DRAW, [json, APART])
    ours, theirs = (np.array(each) for each in found["cells"])
    count = sum(trace.type == "heatmap" for trace in figure.data)
    np.testing.assert_allclose(ours[:count], theirs, atol=1)
    named, expected = ({text: at for text, *at in each} for each in found["labels"])
    assert named.keys() == expected.keys()
    assert len(named) >= 5
    far = {
        text: (at, expected[text])
        for text, at in named.items()
        if np.abs(np.subtract(at, expected[text])).max() > 6
    }
    assert not far
    picture = Image.open(io.BytesIO(sheet.screenshot())).convert("RGB")
    pixels = np.asarray(picture, np.int64)
    left, top, width, height = ours[0]
    rows, columns = figure.data[0].z.shape
    y = (top + (np.arange(rows)[:, None] + 0.25) * height / rows).astype(int)
    x = (left + (np.arange(columns) + 0.25) * width / columns).astype(int)
    assert len(np.unique(pixels[y, x].reshape(-1, 3), axis=0)) > 1
    assert np.abs(pixels[y, x] - pixels[y, x + APART]).max() <= 3


@pytest.mark.parametrize("make", [attention, difference, mask, stages, ratios])
def test_the_mouse_reads_what_it_reads_in_plotly(sheet: Page, make: Any) -> None:
    random = np.random.default_rng(3)
    figure: go.Figure = make(random, LIGHT)
    sheet.evaluate(
        """async json => {
            document.body.innerHTML = '<div id="theirs"></div>';
            const {data, layout} = JSON.parse(json);
            await Plotly.newPlot(theirs, data, layout);
            window.figure = (await import('/figure.js')).read(json);
        }""",
        figure.to_json(validate=False),
    )
    rows, columns = figure.data[0].z.shape
    covers = [trace.z for trace in figure.data if trace.type == "heatmap"][-1]
    is_covered = covers.shape == (rows, columns) and covers.dtype == np.uint8
    for _ in range(12):
        row, column = int(random.integers(rows)), int(random.integers(columns))
        sheet.mouse.move(0, 899)
        sheet.mouse.move(*sheet.evaluate(PLACE, [row, column]))
        ours, theirs = sheet.wait_for_function(READ, arg=[row, column]).json_value()
        if is_covered and covers[row, column] and make is not mask:
            theirs[-1] = "weight masked"  # Plotly reads the weight, which is 0 in a model
        assert ours == theirs
