from __future__ import annotations

import numpy as np

from headwise.viz_app.figures.mosaic import GAP, MASKED, STEPS, mosaic, tile
from headwise.viz_app.figures.theme import LIGHT, Theme, weight_colour
from tests.floats import assert_near, rounding

L, H, Q, M = 2, 3, 5, 7
MAPS = np.random.default_rng(0).random((L, H, Q, M), dtype=np.float32)
ALLOWED = np.tri(Q, M, dtype=bool)


def cut_out(cells: np.ndarray, layer: int, head: int) -> np.ndarray:
    """The cells of one head."""
    down, across = layer * (Q + 1), head * (M + 1)
    return cells[down : down + Q, across : across + M]


def colour_of(figure_scale: tuple[tuple[float, str], ...], code: int) -> np.ndarray:
    """What Plotly draws for a code from 0 to 255, as red, green and blue."""
    places = [place * 255 for place, _ in figure_scale]
    colours = np.array([list(bytes.fromhex(colour[1:])) for _, colour in figure_scale])
    return np.array([np.interp(code, places, colours[:, channel]) for channel in range(3)])


# Tiles


def test_tiles_hold_weights_within_half_a_step() -> None:
    cells = tile(MAPS)
    assert cells.shape == (L * (Q + 1) - 1, H * (M + 1) - 1)
    assert cells.dtype == np.uint8
    for layer in range(L):
        for head in range(H):
            weights = cut_out(cells, layer, head) / STEPS
            off = 0.5 / STEPS + rounding(np.float32, 1)
            assert np.abs(weights - MAPS[layer, head]).max() <= off


def test_zero_and_one_are_exact_and_weights_are_clipped() -> None:
    maps = np.array([[[[0, 1, 1.00001, -0.00001]]]], dtype=np.float32)
    assert tile(maps).tolist() == [[0, 250, 250, 0]]


def test_masked_cells_have_a_separate_code() -> None:
    cells = tile(MAPS, ALLOWED)
    for layer in range(L):
        for head in range(H):
            np.testing.assert_array_equal(cut_out(cells, layer, head) == MASKED, ~ALLOWED)


def test_gaps_are_between_the_maps_only() -> None:
    gaps = tile(MAPS) == GAP
    assert gaps[Q].all()
    assert gaps[:, M].all()
    assert gaps[:, 2 * M + 1].all()
    assert gaps.sum() == (L * (Q + 1) - 1) * (H * (M + 1) - 1) - L * H * Q * M


# Colours


def test_colours_of_all_codes(theme: Theme) -> None:
    heat_map = mosaic(MAPS, theme=theme).data[0]
    scale = heat_map.colorscale
    assert (heat_map.zmin, heat_map.zmax) == (0, 255)
    assert (np.diff([place for place, _ in scale]) >= 0).all()
    assert (scale[0][0], scale[-1][0]) == (0, 1)
    for code in range(STEPS + 1):
        expected = list(bytes.fromhex(weight_colour(theme, (code / STEPS))[1:]))
        between = np.abs(colour_of(scale, code) - expected).max()
        assert between <= 20, code  # linear between the stops, the other linear in the root
    for code, colour in ((0, theme.weights[0]), (STEPS, theme.weights[-1])):
        assert_near(colour_of(scale, code), list(bytes.fromhex(colour[1:])), size=255)
    for code, colour in ((MASKED, theme.masked), (GAP, theme.background)):
        assert_near(colour_of(scale, code), list(bytes.fromhex(colour[1:])), size=255)


def test_a_difference_of_zero_is_in_the_middle_of_the_diverging_scale(theme: Theme) -> None:
    maps = np.array([[[[-1, -0.5, 0, 1]]]], dtype=np.float32)
    heat_map = mosaic(maps, theme=theme, signed=True).data[0]
    assert heat_map.z.tolist() == [[0, 62, 125, 250]]
    colours = (theme.difference[0], theme.difference[3], theme.difference[-1])
    for code, colour in zip((0, 125, 250), colours, strict=True):
        drawn = colour_of(heat_map.colorscale, code)
        assert_near(drawn, list(bytes.fromhex(colour[1:])), size=255)


# Figure


def test_each_head_has_a_click_target() -> None:
    cells, markers, _ = mosaic(MAPS, theme=LIGHT, allowed=ALLOWED).data
    np.testing.assert_array_equal(cells.z, tile(MAPS, ALLOWED))
    assert list(markers.customdata) == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    assert markers.text[4] == "layer 2 · head 2"
    assert markers.marker.opacity == 0
    assert markers.selected.marker.opacity == markers.unselected.marker.opacity == 0


def test_layers_and_heads_are_counted_from_1() -> None:
    layout = mosaic(MAPS, theme=LIGHT).layout
    assert list(layout.xaxis.ticktext) == ["head 1", "head 2", "head 3"]
    assert list(layout.yaxis.ticktext) == ["layer 1", "layer 2"]
    assert layout.yaxis.range == (10.5, -0.5)
    assert layout.xaxis.range == (-0.5, 22.5)


def test_the_selected_head_is_framed() -> None:
    (frame,) = mosaic(MAPS, theme=LIGHT, selected=(1, 2)).layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (15.5, 22.5, 5.5, 10.5)
    assert not mosaic(MAPS, theme=LIGHT).layout.shapes


def test_a_mosaic_of_48_heads_is_below_300_kilobytes() -> None:
    maps = np.random.default_rng(1).random((6, 8, 40, 40), dtype=np.float32)
    allowed = np.tri(40, dtype=bool)
    assert len(mosaic(maps, theme=LIGHT, allowed=allowed, selected=(5, 7)).to_json()) < 300_000
