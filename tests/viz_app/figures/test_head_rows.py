from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.maps import head_rows
from headwise.viz_app.figures.theme import LIGHT, Theme, weight_scale

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


def test_each_head_is_a_row_of_weights_from_0_to_1(theme: Theme) -> None:
    [heat_map] = draw(theme=theme).data
    np.testing.assert_array_equal(heat_map.z, WEIGHTS)
    assert heat_map.z.dtype == np.float32
    assert (heat_map.zmin, heat_map.zmax) == (0, 1)
    assert heat_map.colorscale == weight_scale(theme)


def test_heads_go_down_and_keys_stand_on_top() -> None:
    layout = draw().layout
    assert layout.yaxis.range == (6.5, -0.5)
    assert layout.xaxis.range == (-0.5, 2.5)
    assert layout.xaxis.side == "top"
    assert layout.yaxis.labelalias == {str(i): head for i, head in enumerate(HEADS)}
    assert layout.xaxis.labelalias == {"0": "&lt;s&gt;", "1": "El", "2": "·s"}
    assert [note.text for note in layout.annotations] == ["layer.head", "consumed (key)"]
