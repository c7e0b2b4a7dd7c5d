from __future__ import annotations

import numpy as np

from headwise.viz_app.figures.drift import cosine_lines
from headwise.viz_app.figures.theme import LIGHT
from tests.floats import near


def test_lines_are_the_cosines_and_named_at_their_ends_without_overlap() -> None:
    cosines = np.array([[0, 0.1, -0.2], [0.5, 0.51, 0.9]], np.float32)
    figure = cosine_lines(
        cosines, steps=[0, 1000], names=["a ~ b", "<b> ~ $x$", "c ~ d"], theme=LIGHT, marked=1
    )
    for line, trace in enumerate(figure.data):
        np.testing.assert_array_equal(trace.y, cosines[:, line])
        assert list(trace.x) == [0, 1]
    assert list(figure.layout.xaxis.ticktext) == ["0", "1,000"]
    names = figure.layout.annotations
    assert [name.text for name in names] == ["a ~ b", "&lt;b&gt; ~ &#36;x&#36;", "c ~ d"]
    inner = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = [name.y * inner for name in names]
    assert heights[1] - heights[0] == near(17, size=inner)
    assert heights[2] > heights[1] + 17
    assert figure.layout.shapes[0].x0 == 1


def test_a_chart_without_lines_can_be_drawn() -> None:
    empty = np.zeros((2, 0), np.float32)
    assert not cosine_lines(empty, steps=[0, 1], names=[], theme=LIGHT, marked=0).data
