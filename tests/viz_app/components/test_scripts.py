"""Scripts as the browser gets them, and what they are told of paper."""

from __future__ import annotations

import re

import pytest

from headwise.viz_app.components.assets import SCRIPTS
from headwise.viz_app.components.printing import LETTERS, colours_on, printed_width
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme

IMPORTED = re.compile(r"""(?:from|import)\s*["']([^"']+)["']""")


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_import_scripts_that_are_served(name: str) -> None:
    places = IMPORTED.findall(SCRIPTS[name].decode())
    assert {place.removeprefix("./") for place in places} <= SCRIPTS.keys()


@pytest.mark.parametrize("millimetres", [85, 170])
def test_letters_have_seven_points_where_a_picture_is_printed_so_wide(millimetres: int) -> None:
    points = millimetres / 25.4 * 72
    assert 7 <= LETTERS * points / printed_width(millimetres) < 7.1


@pytest.mark.parametrize(("theme", "paper"), [(DARK, LIGHT), (LIGHT, DARK)])
def test_colours_become_those_of_the_paper_and_its_own_stay(theme: Theme, paper: Theme) -> None:
    colours = colours_on(paper, theme)
    assert colours[theme.text] == paper.text
    assert colours[theme.weights[3]] == paper.weights[3]
    assert colours[theme.series[1]] == paper.series[1]
    assert all(own == other for own, other in colours_on(paper, paper).items())
