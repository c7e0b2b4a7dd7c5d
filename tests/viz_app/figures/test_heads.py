from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from headwise.model.interface import Kind
from headwise.viz_app.figures.heads import (
    GAP,
    MASKED,
    STEPS,
    HeadRows,
    cost_map,
    distance_map,
    head_image,
    head_matrix,
    mosaic,
    tile,
)
from headwise.viz_app.figures.matrix import PRINTED
from headwise.viz_app.figures.theme import (
    DARK,
    LIGHT,
    Theme,
    text_on_weight,
    weight_colour,
    weight_scale,
)
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats
from tests.floats import assert_near, near, rounding

# Maps of one kind

L, H, Q, M = 2, 3, 5, 7
MAPS = np.random.default_rng(0).random((L, H, Q, M), dtype=np.float32)
ALLOWED = np.tri(Q, M, dtype=bool)
LABELS = {"rows": list("abcde"), "columns": list("tuvwxyz")}


def colour_of(scale: tuple[tuple[float, str], ...], code: int) -> np.ndarray:
    """What Plotly draws for a code from 0 to 255, as red, green and blue."""
    places = [place * 255 for place, _ in scale]
    colours = np.array([list(bytes.fromhex(colour[1:])) for _, colour in scale])
    return np.array([np.interp(code, places, colours[:, channel]) for channel in range(3)])


def channels(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


def test_one_head_is_an_image_of_a_pixel_a_cell() -> None:
    allowed = np.array([[True, True, False], [True, True, True]])
    weights = np.array([[0, 1, 0], [1 / 9, 4 / 9, 0]], dtype=np.float32)
    address = head_image(weights, theme=LIGHT, allowed=allowed)
    file = io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,")))
    cells = np.asarray(Image.open(file).convert("RGB")).astype(int)
    assert cells.shape == (2, 3, 3)
    weights_of = LIGHT.weights  # evenly spaced in the root: 1/9 and 4/9 are those of a third, two
    expected = [
        [weights_of[0], weights_of[-1], LIGHT.masked],
        [weights_of[2], weights_of[4], weights_of[0]],
    ]
    assert np.abs(cells - [[channels(each) for each in row] for row in expected]).max() <= 2


def test_tiles_hold_weights_within_half_a_step_and_gaps_only_between_maps() -> None:
    cells, masked = tile(MAPS), tile(MAPS, ALLOWED)
    assert cells.shape == (L * (Q + 1) - 1, H * (M + 1) - 1)
    assert cells.dtype == np.uint8
    for layer in range(L):
        for head in range(H):
            down, across = layer * (Q + 1), head * (M + 1)
            place = np.s_[down : down + Q, across : across + M]
            off = np.abs(cells[place] / STEPS - MAPS[layer, head]).max()
            assert off <= 0.5 / STEPS + rounding(np.float32, 1)
            np.testing.assert_array_equal(masked[place] == MASKED, ~ALLOWED)
    assert (cells == GAP).sum() == cells.size - MAPS.size
    clipped = np.array([[[[0, 1, 1.01, -0.01]]]], dtype=np.float32)
    assert tile(clipped).tolist() == [[0, 250, 250, 0]]


def test_colours_of_all_codes(theme: Theme) -> None:
    heat_map = mosaic(MAPS, **LABELS, theme=theme).data[0]
    scale = heat_map.colorscale
    assert (heat_map.zmin, heat_map.zmax) == (0, 255)
    assert (np.diff([place for place, _ in scale]) >= 0).all()
    assert (scale[0][0], scale[-1][0]) == (0, 1)
    for code in range(STEPS + 1):
        between = np.abs(colour_of(scale, code) - channels(weight_colour(theme, code / STEPS)))
        assert between.max() <= 20, code  # linear between the stops, the other linear in the root
    exact = {0: theme.weights[0], STEPS: theme.weights[-1]}
    for code, colour in (exact | {MASKED: theme.masked, GAP: theme.background}).items():
        assert_near(colour_of(scale, code), channels(colour), size=255)


def test_a_difference_of_zero_is_in_the_middle_of_the_diverging_scale(theme: Theme) -> None:
    maps = np.array([[[[-1, -0.5, 0, 1]]]], dtype=np.float32)
    heat_map = mosaic(maps, rows=["a"], columns=list("tuvw"), theme=theme, signed=True).data[0]
    assert heat_map.z.tolist() == [[0, 62, 125, 250]]
    for code, at in ((0, 0), (125, 3), (250, -1)):
        drawn = colour_of(heat_map.colorscale, code)
        assert_near(drawn, channels(theme.difference[at]), size=255)


def test_each_head_has_a_click_target_and_the_selected_map_is_framed() -> None:
    figure = mosaic(MAPS, **LABELS, theme=LIGHT, allowed=ALLOWED, selected=(1, 2))
    cells, markers, _ = figure.data
    np.testing.assert_array_equal(cells.z, tile(MAPS, ALLOWED))
    assert list(markers.customdata) == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    assert (markers.text[5], markers.x[5], markers.y[5]) == ("layer 2 · head 3", 19, 8)
    layout = figure.layout
    assert list(layout.xaxis.ticktext) == ["head 1", "head 2", "head 3"]
    assert list(layout.yaxis.ticktext) == ["layer 1", "layer 2"]
    assert (layout.yaxis.range, layout.xaxis.range) == ((10.5, -0.5), (-0.5, 22.5))
    (frame,) = layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (15.5, 22.5, 5.5, 10.5)


def test_a_mosaic_of_48_heads_is_below_300_kilobytes() -> None:
    maps = np.random.default_rng(1).random((6, 8, 40, 40), dtype=np.float32)
    tokens = [f"a token {at}" for at in range(40)]
    given = {"theme": LIGHT, "allowed": np.tri(40, dtype=bool), "selected": (5, 7)}
    assert len(mosaic(maps, rows=tokens, columns=tokens, **given).to_json()) < 300_000


# A cell each

NAMES: dict[Kind, str] = {"encoder_self": "Encoder <self>", "decoder_self": "D", "cross": "Cross"}
GIVEN = {"theme": LIGHT, "names": NAMES}
NAN = np.nan


def costs(layers: int = 2, heads: int = 3) -> dict[Kind, Floats]:
    """Kind k, layer l, head h costs 100 k + 10 l + h, less 5."""
    cells = np.arange(layers)[:, None] * 10 + np.arange(heads) - 5
    return {kind: (100 * k + cells).astype(np.float32) for k, kind in enumerate(NAMES)}


def test_every_head_has_its_cell_and_a_click_gives_kind_layer_and_head() -> None:
    """Kinds may differ in layers and heads."""
    uneven = costs() | {"cross": np.full((1, 2), -207, dtype=np.float32)}
    figure = cost_map(uneven, **GIVEN, selected=("cross", 0, 1))
    cells, markers, bar = figure.data
    first = [-5, -4, -3, NAN, 95, 96, 97, NAN, -207, -207]
    second = [5, 6, 7, NAN, 105, 106, 107, NAN, NAN, NAN]
    np.testing.assert_array_equal(cells.z, [first, second])
    assert (cells.zmin, cells.zmax, cells.texttemplate) == (-207, 207, "%{z:.2f}")
    assert list(figure.layout.xaxis.ticktext) == [*"123", *"123", *"12"]
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 4, 5, 6, 8, 9]
    titles = [(note.text, note.x) for note in figure.layout.annotations]
    assert titles == [("Encoder &lt;self&gt;", 1), ("D", 5), ("Cross", 8.5)]
    assert len(markers.customdata) == 6 + 6 + 2
    at = list(markers.customdata).index("decoder_self,1,2")
    assert (markers.x[at], markers.y[at]) == (6, 1)
    assert markers.text[at] == "layer 2 · head 3: +107 nats"
    [frame] = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (8.5, 9.5, -0.5, 0.5)
    assert (bar.meta, bar.visible) == (PRINTED, False)
    assert bar.marker.colorbar.title.text == "cost (nats)"


def test_many_heads_stay_in_their_width_without_numbers_and_costs_may_be_zero() -> None:
    figure = cost_map({kind: cells * 0 for kind, cells in costs(12, 16).items()}, **GIVEN)
    assert figure.layout.width <= 650
    assert (figure.data[0].texttemplate, figure.data[0].zmax) == (None, 1)


def test_distances_are_drawn_on_the_fixed_range_of_weights_and_unknown_ones_as_dashes() -> None:
    distances = {kind: cells / 1000 for kind, cells in costs().items()}
    distances["decoder_self"][:] = NAN
    figure = distance_map(distances, **GIVEN, selected=("decoder_self", 0, 1))
    cells, markers, written, bar = figure.data
    assert_near(cells.z[1, [0, 10]], [0.005, 0.207], dtype=np.float32, operations=2)
    assert np.isnan(cells.z[0]).tolist() == [False] * 3 + [True] * 5 + [False] * 3
    assert (cells.zmin, cells.zmax, cells.texttemplate) == (0, 1, None)
    assert cells.colorscale == weight_scale(LIGHT)
    assert markers.text[-1] == "layer 2 · head 3: distance 0.207"
    assert markers.customdata[-1] == "cross,1,2"
    assert markers.text[6] == "layer 1 · head 1: no value"
    assert len(figure.layout.shapes) == 1
    assert (written.text[-1], written.x[-1], written.y[-1]) == ("0.21", 10, 1)
    assert list(written.text[6:12]) == ["–"] * 6
    assert written.textfont.color[-1] == text_on_weight(LIGHT, 0.207)
    assert written.meta["other"][-1] == text_on_weight(DARK, 0.207)
    assert (written.textfont.color[6], written.meta["other"][6]) == (LIGHT.muted, DARK.muted)
    assert (bar.meta, bar.visible) == (PRINTED, False)
    assert bar.marker.colorbar.title.text == "distance (√ scale)"


# A cell for each head and checkpoint

ROWS = HeadRows(
    heads=[("encoder_self", 0, 0), ("encoder_self", 0, 1), ("cross", 0, 0), ("cross", 0, 1)],
    names=["E 1.1", "E 1.2", "C 1.1", "C 1.2"],
    cells=np.array(
        [[0.1, 0.2, 0.3], [NAN, 0.5, 0.6], [0.7, -0.8, 0.9], [0.0, 0.1, 0.2]], np.float32
    ),
    words=[[f"on </s> {row} {column}" for column in range(3)] for row in range(4)],
)


def draw(rows: HeadRows = ROWS, **changes: Any) -> go.Figure:
    given: dict[str, Any] = {"steps": [0, 20, 10_000], "kinds": NAMES, "measured": "cost"}
    return head_matrix(rows, **(given | {"values": "share", "theme": LIGHT} | changes))


def test_rows_stand_below_the_name_of_their_kind_and_cells_without_a_value_are_grey() -> None:
    figure = draw(theme=DARK)
    cells, grey, _ = figure.data
    assert cells.z.shape == (6, 3)
    np.testing.assert_array_equal(cells.z[[1, 2, 4, 5]], ROWS.cells)
    assert np.isnan(cells.z[[0, 3]]).all()
    names = [(note.text, note.y) for note in figure.layout.annotations]
    assert names == [("Encoder &lt;self&gt;", 0), ("Cross", 3)]
    assert figure.layout.yaxis.tickvals == (1, 2, 4, 5)
    assert figure.layout.yaxis.ticktext == ("1.1", "1.2", "1.1", "1.2")
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")
    assert figure.layout.xaxis.labelalias == {"0": "0", "1": "20", "2": "10,000"}
    assert np.argwhere(grey.z).tolist() == [[2, 0]]
    assert grey.colorscale[-1][1] == DARK.masked


def test_scales_fit_the_range_of_the_measure() -> None:
    ranges: dict[MeasureRange, Any] = {
        "share": ((0, 1), None),
        "signed": ((-3.6, 3.6), ("-3.6", "-0.9", "0", "+0.9", "+3.6")),
        "amount": ((0, 3.6), ("0", "0.36", "0.9", "1.8", "3.6")),
    }
    for values, (ends, written) in ranges.items():
        drawn = draw(replace(ROWS, cells=4 * ROWS.cells), values=values).data[0]
        assert (drawn.zmin, drawn.zmax) == near(ends, dtype=np.float32, operations=1)
        assert drawn.colorbar.ticktext == written
        colours = LIGHT.difference if values == "signed" else LIGHT.weights
        assert [colour for _, colour in drawn.colorscale] == list(colours)
        assert draw(replace(ROWS, cells=ROWS.cells * 0), values=values).data[0].zmax == 1
        if values == "signed":  # 0 is in the middle, a third of the way out at a ninth of the range
            assert [at for at, _ in drawn.colorscale][3:5] == near([0.5, 0.5 + 1 / 18])


def test_each_cell_has_a_click_target_and_a_selected_one_is_framed_if_it_is_drawn() -> None:
    figure = draw(selected=(("cross", 0, 0), 20))
    marks, [frame] = figure.data[-1], figure.layout.shapes
    assert len(marks.x) == 12
    at = marks.customdata.index("cross,0,1,10000")
    assert (marks.x[at], marks.y[at]) == (2, 5)
    assert marks.text[at] == "C 1.2, step 10,000<br>on &lt;/s&gt; 3 2"
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 1.5, 3.5, 4.5)
    for elsewhere in ((("decoder_self", 0, 0), 20), (("cross", 0, 0), 7)):
        assert not draw(selected=elsewhere).layout.shapes
