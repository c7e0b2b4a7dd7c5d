from __future__ import annotations

import numpy as np
import pytest

from headwise.model.interface import Kind
from headwise.viz_app.figures.costs import cost_map, distance_map
from headwise.viz_app.figures.matrix import PRINTED
from headwise.viz_app.figures.theme import LIGHT, text_on_weight, theme_named, weight_scale
from headwise.viz_app.records.trace import Floats
from tests.floats import assert_near

THEME = theme_named("light")
NAMES: dict[Kind, str] = {"encoder_self": "Encoder <self>", "decoder_self": "D", "cross": "Cross"}


def costs(layers: int = 2, heads: int = 3) -> dict[Kind, Floats]:
    """Kind k, layer l, head h costs 100 k + 10 l + h, less 5."""
    cells = np.arange(layers)[:, None] * 10 + np.arange(heads) - 5
    return {kind: (100 * k + cells).astype(np.float32) for k, kind in enumerate(NAMES)}


def test_every_head_has_its_cell() -> None:
    figure = cost_map(costs(), theme=THEME, names=NAMES)
    gap = [np.nan]
    expected = [
        [-5, -4, -3, *gap, 95, 96, 97, *gap, 195, 196, 197],
        [5, 6, 7, *gap, 105, 106, 107, *gap, 205, 206, 207],
    ]
    np.testing.assert_array_equal(figure.data[0].z, expected)
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-207, 207)
    assert figure.data[0].texttemplate == "%{z:.2f}"
    assert list(figure.layout.xaxis.ticktext) == ["1", "2", "3"] * 3
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    titles = [(note.text, note.x) for note in figure.layout.annotations]
    assert titles == [("Encoder &lt;self&gt;", 1), ("D", 5), ("Cross", 9)]


def test_a_click_gives_kind_layer_and_head() -> None:
    markers = cost_map(costs(), theme=THEME, names=NAMES).data[1]
    assert len(markers.customdata) == 18
    at = list(markers.customdata).index("decoder_self,1,2")
    assert (markers.x[at], markers.y[at]) == (6, 1)
    assert markers.text[at] == "layer 2 · head 3: +107.000 nats"
    assert markers.marker.opacity == markers.selected.marker.opacity == 0


def test_the_selected_head_is_framed() -> None:
    [frame] = cost_map(costs(), theme=THEME, names=NAMES, selected=("cross", 1, 0)).layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (7.5, 8.5, 0.5, 1.5)
    assert not cost_map(costs(), theme=THEME, names=NAMES).layout.shapes


def test_many_heads_stay_in_their_width_without_numbers() -> None:
    figure = cost_map(costs(12, 16), theme=THEME, names=NAMES)
    assert figure.layout.width <= 650
    assert figure.data[0].texttemplate is None


def test_costs_of_zero_can_be_drawn() -> None:
    none = {kind: np.zeros((2, 3), dtype=np.float32) for kind in NAMES}
    assert cost_map(none, theme=THEME, names=NAMES).data[0].zmax == 1


def test_kinds_may_differ_in_layers_and_heads() -> None:
    uneven = costs(2, 2) | {"cross": np.full((1, 3), 7, dtype=np.float32)}
    figure = cost_map(uneven, theme=THEME, names=NAMES, selected=("cross", 0, 2))
    nan = np.nan
    expected = [[-5, -4, nan, 95, 96, nan, 7, 7, 7], [5, 6, nan, 105, 106, nan, nan, nan, nan]]
    np.testing.assert_array_equal(figure.data[0].z, expected)
    assert list(figure.data[1].customdata)[-3:] == ["cross,0,0", "cross,0,1", "cross,0,2"]
    assert len(figure.data[1].customdata) == 4 + 4 + 3
    assert [note.x for note in figure.layout.annotations] == [0.5, 3.5, 7]


def test_no_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one kind of attention, got none"):
        cost_map({}, theme=THEME, names=NAMES)


def test_distances_are_drawn_on_the_fixed_range_of_weights() -> None:
    distances = {kind: cells / 1000 for kind, cells in costs().items()}
    figure = distance_map(distances, theme=THEME, names=NAMES, selected=("encoder_self", 0, 1))
    cells, markers, written, bar = figure.data
    assert_near(cells.z[1, [0, 4, 10]], [0.005, 0.105, 0.207], dtype=np.float32, operations=2)
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert cells.colorscale == weight_scale(THEME)
    assert markers.text[-1] == "layer 2 · head 3: distance 0.207"
    assert list(markers.customdata)[-1] == "cross,1,2"
    assert len(figure.layout.shapes) == 1
    assert cells.texttemplate is None
    assert (written.text[-1], written.x[-1], written.y[-1]) == ("0.21", 10, 1)
    assert written.textfont.color[-1] == text_on_weight(THEME, 0.207)
    assert written.meta["printed"][-1] == text_on_weight(LIGHT, 0.207)
    assert (bar.meta, bar.visible, bar.marker.colorbar.title.text) == (PRINTED, False, "distance")


def test_a_distance_that_is_unknown_is_a_dash() -> None:
    distances = {kind: np.full((1, 2), 0.5, dtype=np.float32) for kind in NAMES}
    distances["decoder_self"][:] = np.nan
    figure = distance_map(distances, theme=THEME, names=NAMES, selected=("decoder_self", 0, 1))
    cells, markers, written, _ = figure.data
    assert np.isnan(cells.z[0]).tolist() == [False, False, True, True, True, True, False, False]
    assert list(written.text) == ["0.50", "0.50", "–", "–", "0.50", "0.50"]
    assert written.textfont.color[2] == THEME.muted
    assert written.meta["printed"][2] == LIGHT.muted
    assert markers.text[2] == "layer 1 · head 1: no value"
