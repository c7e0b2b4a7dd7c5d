from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from viz_app.figures.maps import head_rows
from viz_app.figures.theme import DARK, LIGHT, Theme, weight_scale

HEADS = ("1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "3.1")
COLUMNS = ("<s>", "El", "·s")
WEIGHTS = np.random.default_rng(0).random((7, 3), dtype=np.float32)


def draw(**changes: Any) -> go.Figure:
    named: dict[str, Any] = {
        "heads": HEADS,
        "columns": COLUMNS,
        "column_title": "consumed (key)",
        "theme": LIGHT,
    }
    return head_rows(changes.pop("weights", WEIGHTS), **(named | changes))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_each_head_is_a_row_of_weights_from_0_to_1(theme: Theme) -> None:
    [heat_map] = draw(theme=theme).data
    np.testing.assert_array_equal(heat_map.z, WEIGHTS)
    assert heat_map.z.dtype == np.float32
    assert (heat_map.zmin, heat_map.zmax) == (0, 1)
    assert heat_map.colorscale == weight_scale(theme)


def test_small_weights_do_not_stretch_the_range() -> None:
    heat_map = draw(weights=WEIGHTS / 10).data[0]
    assert (heat_map.zmin, heat_map.zmax) == (0, 1)


def test_heads_run_down_and_keys_stand_on_top() -> None:
    layout = draw().layout
    assert layout.yaxis.range == (6.5, -0.5)
    assert layout.xaxis.range == (-0.5, 2.5)
    assert layout.xaxis.side == "top"
    assert layout.yaxis.labelalias == {str(i): head for i, head in enumerate(HEADS)}
    assert layout.xaxis.labelalias == {"0": "&lt;s&gt;", "1": "El", "2": "·s"}
    assert [note.text for note in layout.annotations] == ["layer.head", "consumed (key)"]


def test_the_mouse_says_head_key_and_weight() -> None:
    template = draw().data[0].hovertemplate
    assert template == "head %{y}<br>key %{x}<br>weight %{z:.4f}<extra></extra>"


def test_one_key_and_many_keys_fit_the_width() -> None:
    one = draw(weights=WEIGHTS[:, :1], columns=COLUMNS[:1]).layout
    assert one.width - one.margin.l - one.margin.r == 40
    assert one.width - one.margin.l >= 6 * len("consumed (key)")
    assert one.width <= 480
    many = draw(weights=np.ones((7, 97), np.float32), columns=["x"] * 97).layout
    assert many.width is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": HEADS[:5]}, r"expected \(5, 3\) cells for the labels, got \(7, 3\)"),
        ({"columns": COLUMNS[:2]}, r"expected \(7, 2\) cells for the labels, got \(7, 3\)"),
        ({"weights": WEIGHTS.T}, r"expected \(7, 3\) cells for the labels, got \(3, 7\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(**changes)
