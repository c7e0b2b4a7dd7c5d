from __future__ import annotations

import numpy as np
import pytest

from viz_app.figures.charts import cosines, top_pieces
from viz_app.figures.theme import LIGHT

LABELS = ("le", "<b>", "$x$")
PROBABILITIES = (0.75, 0.2, 0.00003)


def test_bars_are_probabilities_with_the_likeliest_on_top() -> None:
    figure = top_pieces(LABELS, PROBABILITIES, theme=LIGHT)
    (bars,) = figure.data
    np.testing.assert_array_equal(bars.x, np.float32(PROBABILITIES))
    assert list(bars.y) == [0, 1, 2]
    assert figure.layout.yaxis.range == (2.5, -0.5)
    assert figure.layout.xaxis.range == (0, 1)
    assert list(bars.text) == ["0.750", "0.200", "3e-05"]


def test_labels_are_shown_as_they_are_written() -> None:
    axis = top_pieces(LABELS, PROBABILITIES, theme=LIGHT).layout.yaxis
    assert list(axis.ticktext) == ["le", "&lt;b&gt;", "&#36;x&#36;"]
    assert list(axis.tickvals) == [0, 1, 2]


@pytest.mark.parametrize("actual", [None, 0, 2])
def test_the_actual_piece_stands_out(actual: int | None) -> None:
    colours = top_pieces(LABELS, PROBABILITIES, theme=LIGHT, actual=actual).data[0].marker.color
    assert [place for place, colour in enumerate(colours) if colour == LIGHT.accent] == (
        [] if actual is None else [actual]
    )


def test_cosines_are_written_behind_their_bars() -> None:
    figure = cosines(("uno", "dos"), (0.91234, 0.5), theme=LIGHT)
    np.testing.assert_array_equal(figure.data[0].x, np.float32([0.91234, 0.5]))
    assert list(figure.data[0].text) == ["0.912", "0.500"]
    assert list(figure.layout.yaxis.ticktext) == ["uno", "dos"]


def test_there_may_be_nothing_to_draw() -> None:
    assert len(cosines((), (), theme=LIGHT).data[0].x) == 0


def test_negative_cosines_stay_in_the_chart() -> None:
    figure = cosines(("uno", "dos"), (0.2, -0.4), theme=LIGHT)
    low, high = figure.layout.xaxis.range
    assert low <= -0.4
    assert high >= 0.2
