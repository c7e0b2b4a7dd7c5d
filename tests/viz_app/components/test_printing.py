from __future__ import annotations

import pytest

from headwise.viz_app.components.printing import LETTERS, light_colours, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT


@pytest.mark.parametrize("millimetres", [85, 170])
def test_letters_have_seven_points_where_a_picture_is_printed_so_wide(millimetres: int) -> None:
    points = millimetres / 25.4 * 72
    assert 7 <= LETTERS * points / printed_width(millimetres) < 7.1


def test_dark_colours_become_those_of_the_light_theme_and_light_ones_stay() -> None:
    colours = light_colours(DARK)
    assert colours[DARK.text] == LIGHT.text
    assert colours[DARK.weights[3]] == LIGHT.weights[3]
    assert colours[DARK.series[1]] == LIGHT.series[1]
    assert all(own == light for own, light in light_colours(LIGHT).items())
