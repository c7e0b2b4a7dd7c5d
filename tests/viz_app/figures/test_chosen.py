from __future__ import annotations

import re

import pytest

from headwise.viz_app.figures.bars import bar_chart, take_frames
from headwise.viz_app.figures.theme import LIGHT


def test_bars_are_the_same_whichever_is_chosen() -> None:
    """Else Streamlit and Plotly would draw them anew at every click."""
    values = [0.5, -0.25, 1.0, 0.125]
    figures = [
        bar_chart(list("abcd"), values, limit=1.0, marked=marked, theme=LIGHT) for marked in (1, 3)
    ]
    assert figures[0] != figures[1]
    frames = [take_frames(figure) for figure in figures]
    assert figures[0] == figures[1]
    for frame, marked in zip(frames, (1, 3), strict=True):
        shares = re.findall(r"calc\((?:4px \+ )?([\d.]+) \* \(100% - 8px\)\)", frame)
        assert [float(share) for share in shares] == pytest.approx([marked / 4, 1 / 4])
        assert f"solid {LIGHT.accent}" in frame


def test_nothing_is_taken_where_nothing_is_chosen() -> None:
    figure = bar_chart(["a"], [0.5], limit=1.0, theme=LIGHT)
    before = figure.layout.shapes
    assert take_frames(figure) == ""
    assert figure.layout.shapes == before != ()
