from __future__ import annotations

from headwise.viz_app.figures.selecting import click_targets, frame, vertical_line
from headwise.viz_app.figures.theme import DARK, new_figure


def test_click_targets_are_invisible_also_when_selected() -> None:
    targets = click_targets([0, 2], [1, 3], values=["a", "b"], texts=["first", "second"])
    [markers] = new_figure(DARK, [targets]).data
    assert (list(markers.x), list(markers.y)) == ([0, 2], [1, 3])
    assert (list(markers.customdata), list(markers.text)) == (["a", "b"], ["first", "second"])
    opacities = {part.marker.opacity for part in (markers, markers.selected, markers.unselected)}
    assert opacities == {0}


def test_a_frame_has_the_accent_colour_and_may_refer_to_other_axes() -> None:
    framed = frame((0, 1), (2.5, 3.5), theme=DARK, width=1.5, xref="x domain")
    [shape] = new_figure(DARK, [], {"shapes": [framed]}).layout.shapes
    assert (shape.x0, shape.x1, shape.y0, shape.y1) == (0, 1, 2.5, 3.5)
    assert (shape.line.color, shape.line.width, shape.xref) == (DARK.accent, 1.5, "x domain")


def test_a_vertical_line_reaches_from_the_bottom_to_the_top() -> None:
    [shape] = new_figure(DARK, [], {"shapes": [vertical_line(3, theme=DARK)]}).layout.shapes
    assert (shape.x0, shape.x1, shape.y0, shape.y1, shape.yref) == (3, 3, 0, 1, "y domain")
