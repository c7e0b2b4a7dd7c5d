from __future__ import annotations

from viz_app.figures.selecting import add_frame, click_targets
from viz_app.figures.theme import DARK, new_figure


def test_click_targets_are_invisible_also_when_selected() -> None:
    markers = click_targets([0, 2], [1, 3], values=["a", "b"], texts=["first", "second"])
    assert (list(markers.x), list(markers.y)) == ([0, 2], [1, 3])
    assert (list(markers.customdata), list(markers.text)) == (["a", "b"], ["first", "second"])
    opacities = {part.marker.opacity for part in (markers, markers.selected, markers.unselected)}
    assert opacities == {0}


def test_a_frame_has_the_accent_colour_and_may_refer_to_other_axes() -> None:
    figure = new_figure(DARK)
    add_frame(figure, (0, 1), (2.5, 3.5), theme=DARK, width=1.5, xref="x domain")
    [frame] = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0, 1, 2.5, 3.5)
    assert (frame.line.color, frame.line.width, frame.xref) == (DARK.accent, 1.5, "x domain")
