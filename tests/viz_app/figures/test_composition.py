"""The drawing of heads that feed heads: lines between the right heads, and what a click gives."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from headwise.model.interface import Head
from headwise.viz_app.figures.composition import heads_graph
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme

SHAPES = {"encoder_self": (2, 3), "decoder_self": (2, 2), "cross": (2, 2)}
EDGES = [
    (Head("encoder_self", 0, 1), Head("encoder_self", 1, 0), "key", 0.4, "first"),
    (Head("encoder_self", 1, 2), Head("cross", 0, 1), "value", 0.1, "second"),
]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_lines_join_heads_and_clicks_give_their_places(theme: Theme) -> None:
    drawn = heads_graph(SHAPES, EDGES, chosen=1, theme=theme)  # type: ignore[arg-type]
    figure = go.Figure(drawn.to_dict())  # with Plotly's checks
    *_, heads, targets = figure.data
    places = dict(zip(heads.text, zip(heads.x, heads.y, strict=True), strict=True))
    assert len(places) == 2 * 3 + 2 * 2 + 2 * 2 == len({*places.values()})
    lines = [trace for trace in figure.data if trace.mode == "lines" and len(trace.x) == 2]
    ends = [tuple(zip(line.x, line.y, strict=True)) for line in lines]
    assert ends == [
        (places["encoder_self.1.2"], places["encoder_self.2.1"]),
        (places["encoder_self.2.3"], places["cross.1.2"]),
    ]
    colours = [line.line.color for line in lines]
    assert colours == [theme.series[1], theme.series[2]]
    assert lines[1].line.width > lines[0].line.width  # the chosen one
    assert list(targets.customdata) == ["0", "1"]
    assert list(targets.text) == ["first", "second"]
    # Later layers stand above earlier ones, and the decoder beside the encoder.
    assert places["encoder_self.2.1"][1] > places["encoder_self.1.1"][1]
    assert min(x for name, (x, _) in places.items() if name.startswith(("cross", "decoder"))) > 1


def test_without_edges_there_are_the_heads_alone() -> None:
    figure = heads_graph(SHAPES, [], chosen=None, theme=LIGHT)  # type: ignore[arg-type]
    assert not [trace for trace in figure.data if trace.mode == "lines" and len(trace.x) == 2]
